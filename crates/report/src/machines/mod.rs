//! How tasks went from state to state in clean runs: one machine for each task, all nodes together.

pub(crate) mod layout;
mod order;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use temblor_model::catalog::{SiteCatalog, TaskKind};
use temblor_model::visit::Move;

/// The machines of a campaign, those with the most moves first: what `machines.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machines {
    pub format: u32,
    pub machines: Vec<Machine>,
    /// Moves between states that the catalog does not have.
    pub unknown: u64,
}

/// The states of one task and the moves between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub task: String,
    pub kind: TaskKind,
    pub moves: u64,
    /// All states of the task, in the order of their indices.
    pub states: Vec<MachineState>,
    pub edges: Vec<Edge>,
}

/// A state, and how often it was entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineState {
    pub name: String,
    /// 0 is the entry of the task.
    pub index: u32,
    pub condition: String,
    pub line: Option<u32>,
    pub entered: u64,
}

/// Moves from one state into another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Name of a state; none: the task began.
    pub from: Option<String>,
    pub to: String,
    pub count: u64,
    /// The same by node.
    pub nodes: BTreeMap<String, u64>,
}

impl Machines {
    pub const FORMAT: u32 = 1;

    /// Groups moves by task. A move that comes from another task's state began this one.
    pub fn of(catalog: &SiteCatalog, moves: &[Move]) -> Machines {
        let mut by_task: BTreeMap<u32, Vec<(Option<u32>, &Move)>> = BTreeMap::new();
        let mut unknown = 0;
        for one in moves.iter().filter(|m| m.count > 0) {
            let to = catalog.states.get(one.to as usize);
            let Some(to) = to.filter(|s| catalog.tasks.get(s.task as usize).is_some()) else {
                unknown += u64::from(one.count);
                continue;
            };
            let of_task = |from: &u32| {
                let from = catalog.states.get(*from as usize);
                from.is_some_and(|s| s.task == to.task)
            };
            let from = one.from.filter(of_task);
            by_task.entry(to.task).or_default().push((from, one));
        }
        let machine = |(task, moves)| machine(catalog, task, moves);
        let mut machines: Vec<Machine> = by_task.into_iter().map(machine).collect();
        machines.sort_by(|a, b| (b.moves, &a.task).cmp(&(a.moves, &b.task)));
        Machines {
            format: Machines::FORMAT,
            machines,
            unknown,
        }
    }
}

fn machine(catalog: &SiteCatalog, task: u32, moves: Vec<(Option<u32>, &Move)>) -> Machine {
    let name = |id: u32| catalog.states[id as usize].name.clone();
    let mut edges: BTreeMap<(Option<u32>, u32), Edge> = BTreeMap::new();
    let mut entered: BTreeMap<u32, u64> = BTreeMap::new();
    for (from, one) in moves {
        let count = u64::from(one.count);
        let edge = edges.entry((from, one.to)).or_insert_with(|| Edge {
            from: from.map(name),
            to: name(one.to),
            count: 0,
            nodes: BTreeMap::new(),
        });
        edge.count += count;
        *edge.nodes.entry(one.node.clone()).or_default() += count;
        *entered.entry(one.to).or_default() += count;
    }
    let of_task = catalog.states.iter().filter(|s| s.task == task);
    let mut states: Vec<MachineState> = of_task
        .map(|s| MachineState {
            name: s.name.clone(),
            index: s.index,
            condition: s.condition.clone(),
            line: s.place.line,
            entered: entered.get(&s.id).copied().unwrap_or(0),
        })
        .collect();
    states.sort_by_key(|s| s.index);
    let task = &catalog.tasks[task as usize];
    Machine {
        task: task.name.clone(),
        kind: task.kind,
        moves: edges.values().map(|e| e.count).sum(),
        states,
        edges: edges.into_values().collect(),
    }
}

/// A part of a machine that can be drawn: states by their places in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn<'a> {
    pub states: Vec<&'a MachineState>,
    /// From and to as places in the list of states; none: the task began.
    pub edges: Vec<(Option<usize>, usize, &'a Edge)>,
    /// States that were reached and are not drawn.
    pub left_out: usize,
}

impl Machine {
    /// The states that tasks were in.
    pub fn reached(&self) -> Vec<&MachineState> {
        let from: BTreeSet<&String> = self.edges.iter().filter_map(|e| e.from.as_ref()).collect();
        let was_in = |s: &&MachineState| s.entered > 0 || from.contains(&s.name);
        self.states.iter().filter(was_in).collect()
    }

    /// The states that were entered most often, at most so many, and the moves between them.
    pub fn drawn(&self, most: usize) -> Drawn<'_> {
        let mut states = self.reached();
        let left_out = states.len().saturating_sub(most);
        states.sort_by_key(|s| std::cmp::Reverse(s.entered));
        states.truncate(most);
        states.sort_by_key(|s| s.index);
        let places: BTreeMap<&str, usize> = states
            .iter()
            .enumerate()
            .map(|(i, s)| (s.name.as_str(), i))
            .collect();
        let place = |name: &str| places.get(name).copied();
        let edges = self.edges.iter().filter_map(|edge| {
            let from = match &edge.from {
                Some(from) => Some(place(from)?),
                None => None,
            };
            Some((from, place(&edge.to)?, edge))
        });
        Drawn {
            edges: edges.collect(),
            states,
            left_out,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use temblor_model::catalog::{Place, State, Task};

    /// A catalog of tasks with so many states each.
    pub fn catalog(tasks: &[(&str, u32)]) -> SiteCatalog {
        let mut catalog = SiteCatalog::default();
        for (name, states) in tasks {
            let task = catalog.tasks.len() as u32;
            catalog.tasks.push(Task {
                id: task,
                name: name.to_string(),
                kind: TaskKind::Thread,
                closure: false,
                place: Place::default(),
                variables: Vec::new(),
            });
            for index in 0..*states {
                catalog.states.push(State {
                    id: catalog.states.len() as u32,
                    name: format!("{name}:{index}"),
                    task,
                    index,
                    place: Place::default(),
                    condition: match index {
                        0 => String::new(),
                        n => format!("this.phase == {n}"),
                    },
                });
            }
        }
        catalog
    }

    pub fn went(node: &str, from: Option<u32>, to: u32, count: u32) -> Move {
        Move {
            node: node.into(),
            from,
            to,
            count,
        }
    }

    #[test]
    fn moves_are_summed_by_task_and_kept_by_node() {
        let catalog = catalog(&[("x.Idle.run()", 1), ("x.Log.run()", 4)]);
        let machines = Machines::of(
            &catalog,
            &[
                went("n1", None, 1, 2),
                went("n2", None, 1, 1),
                went("n1", Some(1), 3, 7),
                went("n1", Some(3), 3, 5),
                // Begun out of another task.
                went("n1", Some(1), 0, 1),
                went("n1", Some(1), 99, 4),
            ],
        );
        assert_eq!(machines.unknown, 4);
        let names: Vec<(&str, u64)> = machines
            .machines
            .iter()
            .map(|m| (m.task.as_str(), m.moves))
            .collect();
        assert_eq!(names, [("x.Log.run()", 15), ("x.Idle.run()", 1)]);
        let log = &machines.machines[0];
        assert_eq!(
            log.states.iter().map(|s| s.entered).collect::<Vec<_>>(),
            [3, 0, 12, 0]
        );
        let begun = &log.edges[0];
        assert_eq!((begun.from.as_deref(), begun.count), (None, 3));
        assert_eq!(
            begun.nodes,
            BTreeMap::from([("n1".into(), 2), ("n2".into(), 1)])
        );
        assert_eq!(log.edges[1].from.as_deref(), Some("x.Log.run():0"));
        assert_eq!(log.edges[1].to, "x.Log.run():2");
        assert_eq!(machines.machines[1].edges[0].from, None);
        let drawn = log.drawn(9);
        assert_eq!(drawn.states.len(), 2, "what was not reached is not drawn");
        let text = serde_json::to_string(&machines).unwrap();
        assert_eq!(serde_json::from_str::<Machines>(&text).unwrap(), machines);
    }

    #[test]
    fn of_large_machines_what_was_entered_most_is_drawn() {
        let catalog = catalog(&[("x.Log.run()", 6)]);
        let mut moves = vec![went("n1", None, 0, 9)];
        moves.extend((1..6).map(|to| went("n1", Some(0), to, to)));
        let machines = Machines::of(&catalog, &moves);
        let drawn = machines.machines[0].drawn(3);
        let indices: Vec<u32> = drawn.states.iter().map(|s| s.index).collect();
        assert_eq!((indices, drawn.left_out), (vec![0, 4, 5], 3));
        assert_eq!(drawn.edges.len(), 3);
    }
}
