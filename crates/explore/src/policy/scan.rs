//! Going over all that is new with one kind of fault, pass after pass.
//!
//! With several jobs, plans that run side by side must not take the same hit: a plan takes the
//! second new one while one plan is out, the third while two are, and so on. A trial that had fewer
//! new ones than that tells how many are left, and counting goes round these. All was seen when
//! three trials in a row that would have taken the first new one came to none.

use std::collections::{BTreeSet, VecDeque};

use temblor_model::board::spec::place_key;
use temblor_model::plan::{Contexts, Fault};
use temblor_model::site::SiteId;
use temblor_model::visit::context_name;

/// Trials in a row that may come to nothing new before all was seen.
const PATIENCE: u32 = 3;

/// See the module.
#[derive(Default)]
pub struct Scan {
    /// What is left to go over, the current one first.
    passes: VecDeque<Pass>,
    known: Known,
    /// What was injected where.
    struck: Vec<(Fault, Struck)>,
    /// Trials in a row that came to nothing new.
    in_vain: u32,
    /// At most so many new ones are left in this pass, as far as trials have shown.
    left: Option<u32>,
    /// Plans that were made.
    turn: u32,
    /// Plans that were not learned from yet.
    unlearned: VecDeque<Issued>,
}

/// One pass over all that is new.
#[derive(Clone)]
pub struct Pass {
    pub fault: Fault,
    /// What tells contexts apart.
    pub by: Contexts,
}

/// What was injected at, so that it is not new any more.
pub enum Seen {
    /// By its name.
    State(String),
    Context(Struck),
    Access(u32),
}

/// A hit that was injected at.
pub struct Struck {
    pub site: SiteId,
    pub node: u64,
    pub state: Option<u32>,
    pub stack: u64,
}

impl Struck {
    fn context(&self, by: Contexts) -> String {
        let place = place_key(by, self.node, self.state, || self.stack);
        context_name(self.site, place)
    }
}

/// What is not new any more in this pass.
#[derive(Default)]
pub struct Known {
    /// Of states or contexts, by name.
    pub names: BTreeSet<String>,
    pub accesses: BTreeSet<u32>,
}

impl Known {
    fn len(&self) -> usize {
        self.names.len() + self.accesses.len()
    }
}

/// A plan that is out.
struct Issued {
    /// Passes that were left.
    passes: usize,
    /// How much was known.
    known: usize,
    nth: u32,
}

impl Scan {
    pub fn new(passes: impl IntoIterator<Item = Pass>) -> Scan {
        Scan {
            passes: passes.into_iter().collect(),
            ..Scan::default()
        }
    }

    pub fn is_over(&self) -> bool {
        self.passes.is_empty()
    }

    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The pass of the next plan, and which of the new ones it takes; None when it is over.
    pub fn next(&mut self) -> Option<(Pass, u32)> {
        let pass = self.passes.front()?.clone();
        let nth = self.nth();
        self.turn = self.turn.wrapping_add(1);
        self.unlearned.push_back(Issued {
            passes: self.passes.len(),
            known: self.known.len(),
            nth,
        });
        Some((pass, nth))
    }

    /// None that a plan takes which is out.
    fn nth(&self) -> u32 {
        let same_pass = |i: &&Issued| i.passes == self.passes.len();
        let ahead = self.unlearned.iter().filter(same_pass).count() as u32;
        match self.left {
            // Not by how many are out: with as many jobs, that is always the same number.
            Some(left) => 1 + self.turn % left.max(1),
            None => 1 + ahead,
        }
    }

    /// What the oldest plan came to that was not learned from: whether anything fired, and at what.
    pub fn learn(&mut self, fired: bool, seen: Vec<Seen>) {
        let Some(issued) = self.unlearned.pop_front() else {
            return;
        };
        let current = self.passes.front().cloned();
        let Some(pass) = current.filter(|_| issued.passes == self.passes.len()) else {
            return;
        };
        let before = self.known.len();
        for seen in seen {
            self.know(&pass, seen);
        }
        let is_new = self.known.len() > before;
        match (fired, self.left) {
            (true, left) => {
                self.in_vain = 0;
                // More than there should have been: nobody knows how many more.
                let less = left.and_then(|left| left.checked_sub(1));
                self.left = if is_new { less } else { left };
            }
            (false, left) => {
                self.in_vain += u32::from(issued.nth == 1);
                let since = (self.known.len() - issued.known) as u32;
                let most = (issued.nth - 1).saturating_sub(since);
                self.left = Some(left.unwrap_or(most).min(most));
            }
        }
        if self.in_vain >= PATIENCE {
            self.pass_is_over();
        }
    }

    fn know(&mut self, pass: &Pass, seen: Seen) {
        match seen {
            Seen::State(name) => {
                self.known.names.insert(name);
            }
            Seen::Context(struck) => {
                self.known.names.insert(struck.context(pass.by));
                self.struck.push((pass.fault.clone(), struck));
            }
            Seen::Access(access) => {
                self.known.accesses.insert(access);
            }
        }
    }

    /// Nothing is new in this pass any more.
    fn pass_is_over(&mut self) {
        self.passes.pop_front();
        self.known = Known::default();
        self.in_vain = 0;
        self.left = None;
        let Some(pass) = self.passes.front() else {
            return;
        };
        let same = self.struck.iter().filter(|(fault, _)| *fault == pass.fault);
        self.known.names = same.map(|(_, struck)| struck.context(pass.by)).collect();
    }
}
