//! In which states of which tasks a site is reached, and through which calls.
//!
//! All states spread through the call graph at once, nearest first, and each method keeps only
//! the few nearest: a state that is not among these cannot be among the nearest of what the
//! method calls either.

use rayon::prelude::*;
use temblor_model::catalog::Reach;

use super::{TaskBody, Tasks};
use crate::calls::CallGraph;
use crate::found::FoundSite;
use crate::ir::dominance::{Graph, Tree};
use crate::ir::{Body, OpKind};
use crate::program::{MethodId, Program};

/// States a site is given; more would tell a reader no more.
const MAX_STATES: usize = 6;
/// Calls between a task and a site.
const MAX_DEPTH: usize = 24;
/// Where a chain of calls begins.
const TASK: u32 = u32::MAX;

/// Fills in the states of each site.
pub fn reach(program: &Program, graph: &CallGraph, tasks: &Tasks, sites: &mut [FoundSite]) {
    let spread = Spread::new(program, graph, tasks);
    sites.par_iter_mut().for_each(|site| {
        let at = site.method.0 as usize;
        let mut states = Vec::new();
        if let Some(task) = spread.task_of[at].checked_sub(1) {
            let task = &tasks.bodies[task as usize];
            let blocks = &spread.state_of_block[task.method.0 as usize];
            let index = blocks.get(site.block as usize).copied().unwrap_or(0);
            states.push(Reach {
                state: task.first_state + index,
                via: Vec::new(),
            });
        }
        for (state, step) in spread.nearest[at].all() {
            states.push(Reach {
                state: *state,
                via: spread.via(program, *step),
            });
        }
        states.truncate(MAX_STATES);
        site.site.states = states;
    });
}

/// The nearest states of a method, each with a number that goes with it.
#[derive(Clone, Copy, Default)]
struct Nearest {
    len: u8,
    states: [(u32, u32); MAX_STATES],
}

impl Nearest {
    fn all(&self) -> &[(u32, u32)] {
        &self.states[..usize::from(self.len)]
    }

    fn has(&self, state: u32) -> bool {
        self.all().iter().any(|(s, _)| *s == state)
    }

    /// Keeps the lowest `room` states, sorted, and the lowest number of each: whatever the order
    /// in which they come, the same are kept.
    fn keep(&mut self, state: u32, with: u32, room: usize) {
        let at = self.all().partition_point(|(s, _)| *s < state);
        let len = usize::from(self.len);
        if at >= room {
            return;
        }
        if at < len && self.states[at].0 == state {
            self.states[at].1 = self.states[at].1.min(with);
            return;
        }
        let len = (len + 1).min(room);
        self.states.copy_within(at..len - 1, at + 1);
        self.states[at] = (state, with);
        self.len = len as u8;
    }

    fn append(&mut self, state: u32, with: u32) {
        self.states[usize::from(self.len)] = (state, with);
        self.len += 1;
    }
}

/// States on their way through methods, or through what calls can reach.
struct Layer {
    /// What has arrived, nearest first.
    nearest: Vec<Nearest>,
    /// What arrives next, and where.
    next: Vec<Nearest>,
    touched: Vec<u32>,
}

impl Layer {
    fn new(count: usize) -> Layer {
        Layer {
            nearest: vec![Nearest::default(); count],
            next: vec![Nearest::default(); count],
            touched: Vec::new(),
        }
    }

    fn offer(&mut self, at: u32, state: u32, with: u32) {
        let index = at as usize;
        let known = &self.nearest[index];
        let room = MAX_STATES - usize::from(known.len);
        if room == 0 || known.has(state) {
            return;
        }
        if self.next[index].len == 0 {
            self.touched.push(at);
        }
        self.next[index].keep(state, with, room);
    }

    /// Lets what was offered arrive.
    fn arrive(&mut self, mut at_each: impl FnMut(u32, &Nearest, &mut Nearest)) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        for at in touched {
            let next = std::mem::take(&mut self.next[at as usize]);
            at_each(at, &next, &mut self.nearest[at as usize]);
        }
    }
}

/// A method reached in a state.
#[derive(Clone, Copy)]
struct Step {
    method: MethodId,
    state: u32,
    /// The step of the method that calls it, or [`TASK`].
    from: u32,
}

struct Spread {
    steps: Vec<Step>,
    /// For each method its states and steps, nearest first.
    nearest: Vec<Nearest>,
    /// For each method, the number of its task plus one; 0 for none.
    task_of: Vec<u32>,
    /// For the methods of tasks: the index of the state each block is in.
    state_of_block: Vec<Box<[u32]>>,
}

impl Spread {
    fn new(program: &Program, graph: &CallGraph, tasks: &Tasks) -> Spread {
        let count = program.method_count();
        let mut spread = Spread {
            steps: Vec::new(),
            nearest: Vec::new(),
            task_of: vec![0; count],
            state_of_block: vec![Box::default(); count],
        };
        let blocks: Vec<Box<[u32]>> = tasks
            .bodies
            .par_iter()
            .map(|task| match program.body(task.method) {
                Some(body) => states_of_blocks(body, task),
                None => Box::default(),
            })
            .collect();
        for (number, (task, blocks)) in (1..).zip(tasks.bodies.iter().zip(blocks)) {
            spread.task_of[task.method.0 as usize] = number;
            spread.state_of_block[task.method.0 as usize] = blocks;
        }
        // Calls with the same targets are one on the way: a call of an interface may reach
        // thousands of methods, and thousands of methods may call it.
        let mut calls = Layer::new(graph.shared().len());
        let mut methods = Layer::new(count);
        for task in &tasks.bodies {
            spread.leave_task(program, graph, task, &mut calls);
        }
        for _ in 0..MAX_DEPTH {
            spread.enter(graph, &mut calls, &mut methods);
            let fresh = spread.arrive(&mut methods);
            spread.leave(graph, fresh, &mut calls);
        }
        spread.nearest = methods.nearest;
        spread
    }

    /// The calls that a task's method makes itself.
    fn leave_task(&self, program: &Program, graph: &CallGraph, task: &TaskBody, to: &mut Layer) {
        let Some(body) = program.body(task.method) else {
            return;
        };
        let states = &self.state_of_block[task.method.0 as usize];
        let shared = graph.shared_by(task.method);
        for (block, index) in body.blocks.iter().zip(states) {
            for op in body.ops_of(block) {
                if let OpKind::Call(call) = op.kind {
                    to.offer(shared[call as usize], task.first_state + index, TASK);
                }
            }
        }
    }

    /// From calls to the methods they can reach.
    fn enter(&self, graph: &CallGraph, calls: &mut Layer, methods: &mut Layer) {
        calls.arrive(|at, next, nearest| {
            for (state, step) in next.all().iter().copied() {
                nearest.append(state, step);
                for callee in graph.shared()[at as usize].told() {
                    // What a task does when it is called is done in its own states.
                    if self.task_of[callee.0 as usize] == 0 {
                        methods.offer(callee.0, state, step);
                    }
                }
            }
        });
    }

    /// Takes the steps into methods; gives their numbers.
    fn arrive(&mut self, methods: &mut Layer) -> std::ops::Range<usize> {
        let first = self.steps.len();
        methods.arrive(|at, next, nearest| {
            let method = MethodId(at);
            for (state, from) in next.all().iter().copied() {
                nearest.append(state, self.steps.len() as u32);
                self.steps.push(Step {
                    method,
                    state,
                    from,
                });
            }
        });
        first..self.steps.len()
    }

    /// From methods to the calls they make.
    fn leave(&self, graph: &CallGraph, fresh: std::ops::Range<usize>, calls: &mut Layer) {
        for number in fresh {
            let step = &self.steps[number];
            for call in graph.shared_by(step.method) {
                calls.offer(*call, step.state, number as u32);
            }
        }
    }

    fn via(&self, program: &Program, step: u32) -> Vec<String> {
        let mut out = Vec::new();
        let mut at = step;
        while at != TASK {
            let step = &self.steps[at as usize];
            out.push(program.short_name(step.method));
            at = step.from;
        }
        out.reverse();
        out
    }
}

/// For each block the index of the state it is in: the nearest that every path to it enters.
fn states_of_blocks(body: &Body, task: &TaskBody) -> Box<[u32]> {
    let dominators = Tree::of(&Graph::with_exceptions(body), 0);
    let state_at = |block: u32| task.blocks.iter().position(|b| *b == block);
    let state_of = |block: usize| {
        let mut at = Some(block as u32);
        while let Some(block) = at {
            if let Some(index) = state_at(block) {
                return index as u32;
            }
            at = dominators.parent(block);
        }
        0
    };
    (0..body.blocks.len()).map(state_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_states_are_kept_whatever_the_order() {
        let offered = [(9, 1), (4, 7), (4, 2), (8, 3), (1, 5), (1, 6), (3, 3)];
        let kept = [(1, 5), (3, 3), (4, 2)];
        for turn in 0..offered.len() {
            let mut turned = offered;
            turned.rotate_left(turn);
            let mut nearest = Nearest::default();
            for (state, with) in turned {
                nearest.keep(state, with, 3);
            }
            assert_eq!(nearest.all(), kept, "turned by {turn}");
        }
    }

    #[test]
    fn a_layer_never_takes_a_state_twice_nor_more_than_it_has_room_for() {
        let mut layer = Layer::new(1);
        for wave in 0..4 {
            for state in 0..4 {
                layer.offer(0, wave * 2 + state, wave);
            }
            layer.arrive(|_, next, nearest| {
                for (state, with) in next.all() {
                    nearest.append(*state, *with);
                }
            });
        }
        let nearest = layer.nearest[0];
        assert_eq!(
            nearest.all(),
            [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1)]
        );
    }
}
