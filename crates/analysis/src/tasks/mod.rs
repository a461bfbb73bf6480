//! Task units and their abstract states: what the threads of a target do, and in which stages.
//!
//! After Legolas §4: a task unit is a class or closure with a method that a thread runs. Where a
//! branch of that method depends on a field of the task, what it decides about is a state.
//!
//! - [`entry`]: which methods are run as tasks.
//! - [`depend`]: whether a value depends on the fields of a task.
//! - [`condition`]: branches that belong together, as in `a && b`.
//! - [`states`]: Algorithm 1 of the paper.
//! - [`reach`]: in which states a site is reached.

mod condition;
mod depend;
mod entry;
mod reach;
mod states;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_model::catalog::{Diagnostic, State, Task};
use temblor_model::settings::AnalysisSettings;

pub use reach::reach;

use crate::calls::CallGraph;
use crate::program::{MethodId, Program};

/// The tasks of a target and their states.
#[derive(Debug, Default)]
pub struct Tasks {
    pub tasks: Vec<Task>,
    pub states: Vec<State>,
    /// Behind each task, in the same order.
    pub bodies: Vec<TaskBody>,
}

/// The method behind a task.
#[derive(Debug)]
pub struct TaskBody {
    pub method: MethodId,
    /// Id of its first state; the others follow.
    pub first_state: u32,
    /// The block at which each of its states is entered.
    pub blocks: Vec<u32>,
}

/// Finds all tasks and states. Ids follow the order of class, method, position.
pub fn find(
    program: &Program,
    graph: &CallGraph,
    settings: &AnalysisSettings,
    diagnostics: &mut Vec<Diagnostic>,
) -> Tasks {
    let units = entry::find(program, graph, settings, diagnostics);
    let found: Vec<states::Found> = units
        .par_iter()
        .map(|unit| states::find(program, graph, unit, settings.handler_states))
        .collect();
    let mut out = Tasks::default();
    let mut named: FxHashMap<String, u32> = FxHashMap::default();
    for (unit, found) in units.iter().zip(found) {
        let id = out.tasks.len() as u32;
        let first_state = out.states.len() as u32;
        let name = unique(program.full_name(unit.method), &mut named);
        for (index, state) in found.states.iter().enumerate() {
            let index = index as u32;
            out.states.push(State {
                id: first_state + index,
                name: format!("{name}:{index}"),
                task: id,
                index,
                place: program.place(unit.method, state.pc),
                condition: state.condition.clone(),
            });
        }
        out.tasks.push(Task {
            id,
            name,
            kind: unit.kind,
            closure: unit.closure,
            place: program.place(unit.method, 0),
            variables: found.variables,
        });
        out.bodies.push(TaskBody {
            method: unit.method,
            first_state,
            blocks: found.states.iter().map(|s| s.block).collect(),
        });
    }
    out
}

/// Overloads whose parameters have the same simple names get a number.
fn unique(name: String, named: &mut FxHashMap<String, u32>) -> String {
    let count = named.entry(name.clone()).or_default();
    *count += 1;
    match *count {
        1 => name,
        count => format!("{name}#{count}"),
    }
}
