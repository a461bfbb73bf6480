//! Questions to the lab: a cell on the board, a doorbell, a wait with a deadline.

use std::sync::atomic::Ordering;
use std::time::Duration;

use temblor_model::board::view::{AskCell, Board, ask};

use crate::clock;

/// An answer mostly comes within this time (real nanoseconds): looking for it without a sleep saves
/// the time that waking up takes, which is as long again.
const LOOK_NS: u64 = 100_000;

/// What a question is about.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub slot: u32,
    pub step: u32,
    pub site: u32,
    pub stack: u64,
    pub count: u32,
}

/// Asks and waits; `None` when the lab did not answer within the board's deadline (real time).
pub fn ask(board: &Board, question: Question) -> Option<u32> {
    let limit_ns = u64::from(board.header().ask_deadline_ms) * 1_000_000;
    let deadline = clock::now_ns() + limit_ns;
    let cell = claim(board, deadline)?;
    cell.slot.store(question.slot, Ordering::Relaxed);
    cell.step.store(question.step, Ordering::Relaxed);
    cell.site.store(question.site, Ordering::Relaxed);
    cell.stack.store(question.stack, Ordering::Relaxed);
    cell.count.store(question.count, Ordering::Relaxed);
    cell.answer.store(0, Ordering::Relaxed);
    cell.state.store(ask::ASKED, Ordering::Release);
    let doorbell = &board.header().doorbell;
    doorbell.fetch_add(1, Ordering::Release);
    clock::wake(doorbell);
    let answered = wait_for_answer(cell, deadline);
    let answer = answered.then(|| cell.answer.load(Ordering::Relaxed));
    cell.state.store(ask::FREE, Ordering::Release);
    clock::wake(&cell.state);
    answer
}

fn left(deadline_ns: u64) -> Option<Duration> {
    let left = deadline_ns.saturating_sub(clock::now_ns());
    (left > 0).then(|| Duration::from_nanos(left))
}

/// Takes a free cell; with all in use, waits a little for one.
fn claim(board: &Board, deadline_ns: u64) -> Option<&'static AskCell> {
    loop {
        let free = board.asks().iter().find(|cell| {
            let claim = (ask::FREE, ask::CLAIMED);
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            cell.state
                .compare_exchange(claim.0, claim.1, order.0, order.1)
                .is_ok()
        });
        if free.is_some() {
            return free;
        }
        let first = &board.asks()[0].state;
        let pause = left(deadline_ns)?.min(Duration::from_millis(5));
        clock::wait(first, first.load(Ordering::Relaxed), pause);
    }
}

fn wait_for_answer(cell: &AskCell, deadline_ns: u64) -> bool {
    let asleep_at = deadline_ns.min(clock::now_ns() + LOOK_NS);
    while cell.state.load(Ordering::Acquire) == ask::ASKED && clock::now_ns() < asleep_at {
        std::thread::yield_now();
    }
    while cell.state.load(Ordering::Acquire) == ask::ASKED {
        match left(deadline_ns) {
            Some(left) => clock::wait(&cell.state, ask::ASKED, left),
            // Taken back, unless the answer came at this very moment.
            None => {
                let (from, to) = (ask::ASKED, ask::CLAIMED);
                let order = (Ordering::AcqRel, Ordering::Acquire);
                return cell
                    .state
                    .compare_exchange(from, to, order.0, order.1)
                    .is_err();
            }
        }
    }
    true
}
