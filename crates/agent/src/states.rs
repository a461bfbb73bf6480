//! The abstract states of the tasks that run in this process, and what else is told beside hits.
//!
//! A task that begins is put on its thread's stack, one that ends is taken off it; what a thread
//! hits belongs to the task on top. So tasks nest, and each instance has a state of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jvmti_bindings::sys::jni::jobject;
use temblor_model::board::record::RecordWhat;
use temblor_model::board::spec::PointId;
use temblor_model::board::table;

use crate::agent::Agent;
use crate::clock;
use crate::hit::Guard;
use crate::jvm::Jni;

/// Different values of one timeout that are told: some count down, each time another.
const VALUES: usize = 16;

thread_local! {
    static TASKS: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

/// A task on its thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    task: u32,
    state: u32,
}

/// What a process remembers of its states, accesses and timeouts.
#[derive(Debug, Default)]
pub struct Told {
    /// Task of each state, and whether it is where the task begins.
    tasks: Vec<(u32, bool)>,
    /// When each access of data about nodes was last; 0 is never.
    accessed_ns: Vec<AtomicU64>,
    timeouts: Mutex<HashMap<u32, Vec<u64>>>,
}

impl Told {
    pub fn new(tasks: Vec<(u32, bool)>, accesses: u32) -> Told {
        Told {
            tasks,
            accessed_ns: (0..accesses).map(|_| AtomicU64::new(0)).collect(),
            ..Told::default()
        }
    }

    /// Accesses of data about nodes in the last so many nanoseconds, the latest first.
    pub fn accesses(&self, within_ns: u64) -> Vec<u32> {
        let since_ns = clock::now_ns().saturating_sub(within_ns);
        let times = self.accessed_ns.iter().map(|at| at.load(Ordering::Relaxed));
        let recent = (0..)
            .zip(times)
            .filter(|(_, at)| *at > 0 && *at >= since_ns);
        let mut recent: Vec<(u32, u64)> = recent.collect();
        recent.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        recent.into_iter().map(|(access, _)| access).collect()
    }

    pub fn accessed(&self, access: u32) {
        if let Some(at) = self.accessed_ns.get(access as usize) {
            at.store(clock::now_ns(), Ordering::Relaxed);
        }
    }

    /// True the first time a timeout has this value.
    fn is_new(&self, timeout: u32, value: u64) -> bool {
        let mut known = self.timeouts.lock().unwrap_or_else(PoisonError::into_inner);
        let values = known.entry(timeout).or_default();
        let new = values.len() < VALUES && !values.contains(&value);
        if new {
            values.push(value);
        }
        new
    }
}

/// The state of the task that runs on this thread.
pub fn current() -> Option<u32> {
    TASKS.with_borrow(|tasks| tasks.last().map(|t| t.state))
}

/// A task entered a state.
pub fn enter(agent: &Agent, state: u32) {
    let Some(&(task, begins)) = agent.told.tasks.get(state as usize) else {
        return;
    };
    let from = TASKS.with_borrow_mut(|tasks| entered(tasks, task, state, begins));
    if agent.place.board.header().counts != 0 {
        let moves = agent.place.board.moves(agent.place.slot);
        table::count_move(moves, from, state);
    }
}

/// Gives the state the task was in before.
fn entered(tasks: &mut Vec<Running>, task: u32, state: u32, begins: bool) -> Option<u32> {
    let at = tasks.iter().rposition(|t| t.task == task);
    // A loop that begins the task comes back to its first state; inside another task it is a new
    // instance.
    let same = match at {
        Some(at) if begins => at + 1 == tasks.len(),
        other => other.is_some(),
    };
    match at.filter(|_| same) {
        Some(at) => {
            // Whoever was above it has ended without a word.
            tasks.truncate(at + 1);
            Some(std::mem::replace(&mut tasks[at].state, state))
        }
        None => {
            tasks.push(Running { task, state });
            None
        }
    }
}

/// A task ended, by return or by exception.
pub fn leave(task: u32) {
    TASKS.with_borrow_mut(|tasks| left(tasks, task));
}

fn left(tasks: &mut Vec<Running>, task: u32) {
    if let Some(at) = tasks.iter().rposition(|t| t.task == task) {
        tasks.truncate(at);
    }
}

/// A timeout is about to be used; `unit` is null where the code has it fixed.
pub fn told(agent: &Agent, jni: Jni, unit: jobject, value: i64, point: i32) {
    let Some(_guard) = Guard::enter() else { return };
    let points = agent.place.board.header().points();
    let Some(PointId::Timeout(timeout)) = u32::try_from(point).ok().and_then(|p| points.point(p))
    else {
        return;
    };
    let value = match unit.is_null() {
        true => Some(value),
        false => jni.unit_ms(unit, value),
    };
    let Some(value) = value.and_then(|v| u64::try_from(v).ok()) else {
        return;
    };
    if agent.told.is_new(timeout, value) {
        agent.journal.write(RecordWhat::Timeout { timeout, value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(tasks: &[Running]) -> Vec<u32> {
        tasks.iter().map(|t| t.state).collect()
    }

    #[test]
    fn tasks_nest_and_ends_uncover_what_was_below() {
        let mut tasks = Vec::new();
        assert_eq!(entered(&mut tasks, 1, 10, true), None);
        assert_eq!(entered(&mut tasks, 1, 12, false), Some(10));
        assert_eq!(entered(&mut tasks, 2, 20, true), None);
        assert_eq!(states(&tasks), [12, 20]);
        left(&mut tasks, 2);
        assert_eq!(states(&tasks), [12]);
        left(&mut tasks, 1);
        left(&mut tasks, 1);
        assert!(tasks.is_empty());
    }

    #[test]
    fn a_loop_to_the_first_state_is_the_same_instance() {
        let mut tasks = Vec::new();
        entered(&mut tasks, 1, 10, true);
        entered(&mut tasks, 1, 11, false);
        assert_eq!(entered(&mut tasks, 1, 10, true), Some(11));
        assert_eq!(states(&tasks), [10]);
        // Called by another task, it is another instance.
        entered(&mut tasks, 2, 20, true);
        assert_eq!(entered(&mut tasks, 1, 10, true), None);
        assert_eq!(states(&tasks), [10, 20, 10]);
    }

    #[test]
    fn whoever_ended_without_a_word_is_gone_with_the_next_state_below() {
        let mut tasks = Vec::new();
        entered(&mut tasks, 1, 10, true);
        entered(&mut tasks, 2, 20, true);
        assert_eq!(entered(&mut tasks, 1, 11, false), Some(10));
        assert_eq!(states(&tasks), [11]);
    }

    #[test]
    fn accesses_are_told_the_latest_first_and_each_once() {
        let told = Told::new(Vec::new(), 4);
        let long_ns = u64::MAX;
        assert!(told.accesses(long_ns).is_empty(), "none was yet");
        for access in [2, 0, 2, 3, 0, 9] {
            told.accessed(access);
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        assert_eq!(told.accesses(long_ns), [0, 3, 2]);
        assert!(told.accesses(0).is_empty(), "all are in the past");
    }

    #[test]
    fn a_timeout_that_counts_down_does_not_flood_the_ring() {
        let told = Told::new(Vec::new(), 0);
        assert!(told.is_new(3, 5_000) && !told.is_new(3, 5_000) && told.is_new(4, 5_000));
        let new = (0..100).filter(|v| told.is_new(3, *v)).count();
        assert_eq!(new, VALUES - 1);
    }
}
