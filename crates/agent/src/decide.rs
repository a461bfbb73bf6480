//! Decides at a hit whether the current step fires. Pure: a board, a hit, and a way to get the
//! stack when the trigger wants it. No JVM, no clock, no lock.

use std::sync::atomic::Ordering;

use temblor_model::board::spec::{TriggerKind, context_key};
use temblor_model::board::view::{Board, StepRec};
use temblor_model::board::{ANY_FAULT, ANY_SITE, ARM_SET, ARM_STEP};
use temblor_model::{FNV_START, fnv64_from};

/// An arrival at an armed site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub site: u32,
    pub arm: u8,
    /// Which hit of the site this is in this process, from 1.
    pub count: u32,
}

/// What is to be done at a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Pass,
    /// The step is taken: nobody else fires it. `fault` is an index on the board.
    Fire {
        step: u32,
        fault: u32,
    },
    /// The lab decides about this step.
    Ask {
        step: u32,
    },
}

/// Evaluates the step that may fire next. `stack` walks the stack; called only where wanted.
pub fn decide(board: &Board, node: u64, hit: Hit, stack: &mut dyn FnMut() -> u64) -> Decision {
    if hit.arm & (ARM_STEP | ARM_SET) == 0 {
        return Decision::Pass;
    }
    let index = board.header().current_step.load(Ordering::Acquire);
    let Some(step) = board.steps().get(index as usize) else {
        return Decision::Pass;
    };
    let site_matches = match step.site {
        ANY_SITE => hit.arm & ARM_SET != 0,
        site => site == hit.site,
    };
    if !site_matches || (step.node != 0 && step.node != node) {
        return Decision::Pass;
    }
    match TriggerKind::from_u32(step.trigger) {
        Some(TriggerKind::AtHit) => at_hit(board, node, index, step, hit, stack),
        Some(TriggerKind::Random) => random(board, node, index, step, hit),
        Some(TriggerKind::NewContext) => {
            let key = context_key(hit.site, stack());
            match board.contexts().binary_search(&key) {
                Ok(_) => Decision::Pass,
                Err(_) => take(board, node, index, step, hit),
            }
        }
        Some(TriggerKind::Ask) => Decision::Ask { step: index },
        _ => Decision::Pass,
    }
}

fn at_hit(
    board: &Board,
    node: u64,
    index: u32,
    step: &StepRec,
    hit: Hit,
    stack: &mut dyn FnMut() -> u64,
) -> Decision {
    if step.stack != 0 && step.stack != stack() {
        return Decision::Pass;
    }
    // Counted on the board, for all nodes together. Of racing threads exactly one draws `nth`.
    if step.count.fetch_add(1, Ordering::AcqRel) + 1 != step.nth.max(1) {
        return Decision::Pass;
    }
    take(board, node, index, step, hit)
}

fn random(board: &Board, node: u64, index: u32, step: &StepRec, hit: Hit) -> Decision {
    // A full threshold stands for probability 1, whatever is drawn.
    if step.threshold != u64::MAX && draw(board, node, index, hit) >= step.threshold {
        return Decision::Pass;
    }
    take(board, node, index, step, hit)
}

fn take(board: &Board, node: u64, index: u32, step: &StepRec, hit: Hit) -> Decision {
    match fault_of(board, node, index, step.fault, hit) {
        Some(fault) if board.take_step(index) => Decision::Fire { step: index, fault },
        _ => Decision::Pass,
    }
}

/// The fault itself, or one of the site's own.
fn fault_of(board: &Board, node: u64, index: u32, fault: u32, hit: Hit) -> Option<u32> {
    if fault != ANY_FAULT {
        return Some(fault);
    }
    let own = board.site_faults(hit.site).filter(|own| own.count > 0)?;
    // Another number than the one that was compared with the threshold, or low rates would
    // always take the first fault.
    let drawn = mix(draw(board, node, index, hit));
    Some(own.first + (drawn % u64::from(own.count)) as u32)
}

/// The same number for the same seed, node, step, site and hit, whatever other threads do.
fn draw(board: &Board, node: u64, index: u32, hit: Hit) -> u64 {
    let mut hash = fnv64_from(FNV_START, &board.header().seed.to_le_bytes());
    hash = fnv64_from(hash, &node.to_le_bytes());
    for part in [index, hit.site, hit.count] {
        hash = fnv64_from(hash, &part.to_le_bytes());
    }
    mix(hash)
}

/// Spreads every input bit over all output bits: FNV alone leaves the high ones too regular.
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ value >> 32
}

#[cfg(test)]
mod tests;
