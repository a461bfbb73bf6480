//! Decides at a hit whether the current step fires. Pure: a board, a hit, and a way to get the
//! stack when the trigger wants it. No JVM, no clock, no lock.

use std::sync::atomic::Ordering;

use temblor_model::board::spec::{TriggerKind, access_key, context_key, place_key, state_key};
use temblor_model::board::table::is_first;
use temblor_model::board::view::{Board, StepRec};
use temblor_model::board::{ANY_FAULT, ANY_SITE, ANY_STATE, ARM_SET, ARM_STEP};
use temblor_model::plan::Contexts;
use temblor_model::{FNV_START, fnv64_from};

/// An arrival at an armed site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub site: u32,
    pub arm: u8,
    /// Which hit of the site this is in this process, from 1.
    pub count: u32,
    /// Abstract state of the task that hits; none outside all tasks.
    pub state: Option<u32>,
}

/// What a trigger may want to know of a hit, and what costs time to find out.
pub trait Around {
    /// Hash of the stack.
    fn stack(&mut self) -> u64;

    /// Accesses of data about nodes in this process in the last so many nanoseconds, the latest
    /// first.
    fn accesses(&mut self, within_ns: u64) -> Vec<u32>;

    /// This access is why the step fires.
    fn follows(&mut self, access: u32);
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

/// Whether the step that may fire next is about such hits.
pub fn concerns(board: &Board, node: u64, hit: Hit) -> bool {
    case(board, node, hit).is_some()
}

fn case(board: &Board, node: u64, hit: Hit) -> Option<Case<'_>> {
    if hit.arm & (ARM_STEP | ARM_SET) == 0 {
        return None;
    }
    let index = board.header().current_step.load(Ordering::Acquire);
    let step = board.steps().get(index as usize)?;
    let site_matches = match step.site {
        ANY_SITE => hit.arm & ARM_SET != 0,
        site => site == hit.site,
    };
    let state = hit.state.map_or(0, |s| s + 1);
    let state_matches = step.state == ANY_STATE || step.state == state;
    let node_matches = step.node == 0 || step.node == node;
    (site_matches && state_matches && node_matches).then_some(Case {
        board,
        node,
        index,
        step,
        hit,
    })
}

/// Evaluates the step that may fire next; asks `around` only where the trigger wants it.
pub fn decide(board: &Board, node: u64, hit: Hit, around: &mut dyn Around) -> Decision {
    let Some(case) = case(board, node, hit) else {
        return Decision::Pass;
    };
    let (step, index) = (case.step, case.index);
    match TriggerKind::from_u32(step.trigger) {
        Some(TriggerKind::AtHit) => case.at_hit(around),
        Some(TriggerKind::Random) => case.random(around),
        Some(TriggerKind::NewContext) => {
            let by = Contexts::from_u32(step.by).unwrap_or_default();
            let place = place_key(by, node, hit.state, || around.stack());
            case.if_new(context_key(hit.site, place), around)
        }
        Some(TriggerKind::NewState) => case.if_new(state_key(node, hit.state), around),
        Some(TriggerKind::AfterAccess) => case.after_access(around),
        Some(TriggerKind::AnyOf) => case.once(around),
        Some(TriggerKind::Ask) => Decision::Ask { step: index },
        Some(TriggerKind::Lab) | None => Decision::Pass,
    }
}

/// A hit that the current step is about.
#[derive(Clone, Copy)]
struct Case<'a> {
    board: &'a Board,
    node: u64,
    index: u32,
    step: &'a StepRec,
    hit: Hit,
}

impl Case<'_> {
    fn at_hit(self, around: &mut dyn Around) -> Decision {
        if self.step.stack != 0 && self.step.stack != around.stack() {
            return Decision::Pass;
        }
        match self.is_nth() {
            true => self.take(),
            false => Decision::Pass,
        }
    }

    /// Counted on the board, for all nodes together. Of racing threads exactly one draws `nth`.
    fn is_nth(self) -> bool {
        self.step.count.fetch_add(1, Ordering::AcqRel) + 1 == self.step.nth.max(1)
    }

    fn random(self, around: &mut dyn Around) -> Decision {
        // A full threshold stands for probability 1, whatever is drawn.
        let threshold = self.step.threshold;
        if threshold != u64::MAX && self.draw() >= threshold || self.is_barred(around) {
            return Decision::Pass;
        }
        self.take()
    }

    /// What cannot fail here would use up what is new.
    fn if_new(self, key: u64, around: &mut dyn Around) -> Decision {
        let known = self.board.contexts().binary_search(&key).is_ok();
        let idle = known || self.fault().is_none() || self.is_barred(around);
        match !idle && is_first(self.board.seen(), key) && self.is_nth() {
            true => self.take(),
            false => Decision::Pass,
        }
    }

    /// What is accessed all the time must not hide what is accessed once.
    fn after_access(self, around: &mut dyn Around) -> Decision {
        for access in around.accesses(u64::from(self.step.within_ns)) {
            let decision = self.if_new(access_key(access), around);
            if decision != Decision::Pass {
                around.follows(access);
                return decision;
            }
        }
        Decision::Pass
    }

    /// The site's arm goes with its fault: no other step fires there.
    fn once(self, around: &mut dyn Around) -> Decision {
        if self.fault().is_none() || self.is_barred(around) {
            return Decision::Pass;
        }
        let arm = &self.board.arms()[self.hit.site as usize];
        if arm.fetch_and(!ARM_SET, Ordering::AcqRel) & ARM_SET == 0 {
            return Decision::Pass;
        }
        let decision = self.take();
        if decision == Decision::Pass {
            arm.fetch_or(ARM_SET, Ordering::AcqRel);
        }
        decision
    }

    fn is_barred(self, around: &mut dyn Around) -> bool {
        !self.board.barred().is_empty() && self.board.is_barred(self.hit.site, around.stack())
    }

    fn take(self) -> Decision {
        match self.fault() {
            Some(fault) if self.board.take_step(self.index) => Decision::Fire {
                step: self.index,
                fault,
            },
            _ => Decision::Pass,
        }
    }

    /// The fault itself, or one of the site's own.
    fn fault(self) -> Option<u32> {
        if self.step.fault != ANY_FAULT {
            return Some(self.step.fault);
        }
        let own = self.board.site_faults(self.hit.site);
        let own = own.filter(|own| own.count > 0)?;
        // Another number than the one that was compared with the threshold, or low rates would
        // always take the first fault.
        Some(own.first + (mix(self.draw()) % u64::from(own.count)) as u32)
    }

    /// The same number for the same seed, node, step, site and hit, whatever other threads do.
    fn draw(self) -> u64 {
        let mut hash = fnv64_from(FNV_START, &self.board.header().seed.to_le_bytes());
        hash = fnv64_from(hash, &self.node.to_le_bytes());
        for part in [self.index, self.hit.site, self.hit.count] {
            hash = fnv64_from(hash, &part.to_le_bytes());
        }
        mix(hash)
    }
}

/// Spreads every input bit over all output bits: FNV alone leaves the high ones too regular.
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ value >> 32
}

#[cfg(test)]
mod tests;
