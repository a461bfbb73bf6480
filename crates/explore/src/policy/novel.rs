//! Policies that inject where something is new: each trial takes the first hit of its kind that
//! no earlier trial was injected at.
//!
//! - `new-state` (Legolas §4.3): a state of a node. Any fault of the site.
//! - `fate` (Legolas §7.4): a failure ID, that is a site with its stack. Any fault of the site.
//! - `crashtuner` (Legolas §7.4): an access of data about nodes, at most 5 ms before the hit. Any
//!   fault of the site.
//! - `sieve` (Sieve §4.4, Algorithm 1): a site with its stack, of the last guarded sites of basic
//!   blocks. A delay: five minutes where others wait for the site, one and a half times the
//!   timeout where one protects it.
//! - `sieve-s` (Sieve §6.2): the same without groups; `sieve-i`: also without stacks.
//!
//! `--contexts` tells contexts apart by something else than the stack: the abstract state of the
//! task that hits is coarser, and most of what different stacks show is the same.
//!
//! "New" is what no fault was injected at yet. The papers say "not visited" of states and failure
//! IDs; read to the letter, a policy would end with its first trial, which visits nearly all there
//! is to visit before its workload ends.
//!
//! With several jobs, plans that run side by side must not take the same hit: a plan takes the
//! second new one while one plan is out, the third while two are, and so on. A trial that had fewer
//! new ones than that tells how many are left, and counting goes round these. A policy has seen
//! everything when three trials in a row that would have taken the first new one came to none.
//!
//! `--sweep` is more than the paper has: also shorter delays, which clients survive, and timeouts far
//! overstepped. It goes over each site once with each length before it goes over the states in which
//! they are hit, and over these before the stacks: in the order of the run, hundreds of trials may
//! pass before one comes to the second kind of call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use temblor_model::board::spec::place_key;
use temblor_model::bug::{FiredFault, Outcome};
use temblor_model::fnv64;
use temblor_model::plan::{Among, Contexts, Fault, Plan, Trigger};
use temblor_model::site::{Site, SiteId};
use temblor_model::visit::{context_name, state_name};

use super::draw::Draw;
use super::space::{SYNC_MS, is_wanted, requesting};
use super::{Policy, Scope};

/// Trials in a row that may come to nothing new before all was seen.
const PATIENCE: u32 = 3;
/// How long before the hit an access may be, real milliseconds.
const WITHIN_MS: u64 = 5;

/// Delays where others wait for the site (virtual milliseconds), and where a timeout protects it
/// (percent of that): those of the paper, then those of a sweep.
const DELAYS: [(u64, u32); 3] = [(SYNC_MS, 150), (15_000, 50), (60_000, 1_000)];

/// See the module.
pub struct Novel {
    kind: Kind,
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
    site_ids: BTreeMap<String, SiteId>,
    state_ids: BTreeMap<String, u32>,
    draw: Draw,
}

/// What has to be new.
#[derive(Clone, Copy)]
enum Kind {
    State,
    Context { among: Among },
    Access,
}

/// One pass over all that is new.
#[derive(Clone)]
struct Pass {
    fault: Fault,
    /// What tells contexts apart.
    by: Contexts,
}

/// A hit that was injected at.
struct Struck {
    site: SiteId,
    node: u64,
    state: Option<u32>,
    stack: u64,
}

impl Struck {
    fn context(&self, by: Contexts) -> String {
        let place = place_key(by, self.node, self.state, || self.stack);
        context_name(self.site, place)
    }
}

/// What is not new any more in this pass.
#[derive(Default)]
struct Known {
    /// Of states or contexts, by name.
    names: BTreeSet<String>,
    accesses: BTreeSet<u32>,
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

impl Novel {
    pub fn new_state(scope: &Scope<'_>) -> Novel {
        Novel::of_any_fault(scope, Kind::State)
    }

    pub fn fate(scope: &Scope<'_>) -> Novel {
        let kind = Kind::Context { among: Among::All };
        Novel::of_any_fault(scope, kind)
    }

    pub fn crashtuner(scope: &Scope<'_>) -> Novel {
        Novel::of_any_fault(scope, Kind::Access)
    }

    pub fn sieve(scope: &Scope<'_>) -> Novel {
        Novel::of_delays(scope, Among::Groups, scope.contexts)
    }

    pub fn sieve_s(scope: &Scope<'_>) -> Novel {
        Novel::of_delays(scope, Among::Guarded, scope.contexts)
    }

    pub fn sieve_i(scope: &Scope<'_>) -> Novel {
        Novel::of_delays(scope, Among::Guarded, Contexts::Site)
    }

    fn of_any_fault(scope: &Scope<'_>, kind: Kind) -> Novel {
        let has_sites = requesting(scope).contains(&true);
        let has_accesses = !scope.catalog.meta_accesses.is_empty();
        let possible = has_sites && (has_accesses || !matches!(kind, Kind::Access));
        let pass = Pass {
            fault: Fault::Any,
            by: scope.contexts,
        };
        let passes = possible.then_some(pass);
        Novel::new(scope, kind, passes.into_iter().collect())
    }

    fn of_delays(scope: &Scope<'_>, among: Among, finest: Contexts) -> Novel {
        let sites = scope.catalog.among(among);
        let possible = sites.iter().any(|site| is_wanted(site, scope));
        let lengths = match (possible, scope.sweep) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => DELAYS.len(),
        };
        let is_round = |by: &Contexts| *by == finest || scope.sweep && *by < finest;
        let rounds = Contexts::ALL.into_iter().filter(is_round);
        let pass = |by, (sync_ms, timeout_percent)| Pass {
            fault: Fault::SiteDelay {
                sync_ms,
                timeout_percent,
            },
            by,
        };
        let mut delays = DELAYS;
        delays[0].0 = scope.delay_ms.unwrap_or(SYNC_MS);
        let round = |by| delays[..lengths].iter().map(move |d| pass(by, *d));
        Novel::new(
            scope,
            Kind::Context { among },
            rounds.flat_map(round).collect(),
        )
    }

    fn new(scope: &Scope<'_>, kind: Kind, passes: VecDeque<Pass>) -> Novel {
        let site = |s: &Site| (s.name.clone(), s.id);
        let states = scope.catalog.states.iter();
        Novel {
            kind,
            passes,
            known: Known::default(),
            struck: Vec::new(),
            in_vain: 0,
            left: None,
            turn: 0,
            unlearned: VecDeque::new(),
            site_ids: scope.catalog.sites.iter().map(site).collect(),
            state_ids: states.map(|s| (s.name.clone(), s.id)).collect(),
            draw: Draw::new(scope.seed),
        }
    }

    /// Which of the new ones the next plan takes: none that a plan takes which is out.
    fn nth(&self) -> u32 {
        let same_pass = |i: &&Issued| i.passes == self.passes.len();
        let ahead = self.unlearned.iter().filter(same_pass).count() as u32;
        match self.left {
            // Not by how many are out: with as many jobs, that is always the same number.
            Some(left) => 1 + self.turn % left.max(1),
            None => 1 + ahead,
        }
    }

    fn trigger(&self, pass: &Pass, nth: u32) -> Trigger {
        let names = || self.known.names.iter().cloned().collect();
        match self.kind {
            Kind::State => Trigger::NewState {
                known: names(),
                nth,
            },
            Kind::Context { among } => Trigger::NewContext {
                known: names(),
                nth,
                among,
                by: pass.by,
            },
            Kind::Access => Trigger::AfterAccess {
                within_ms: WITHIN_MS,
                known: self.known.accesses.iter().copied().collect(),
                nth,
            },
        }
    }

    /// What was injected at is not new any more.
    fn know(&mut self, pass: &Pass, fired: &FiredFault) {
        let id = |name: &String| self.state_ids.get(name).copied();
        let state = fired.state.as_ref().and_then(id);
        match self.kind {
            Kind::State => {
                self.known.names.insert(state_name(&fired.node, state));
            }
            Kind::Context { .. } => {
                let site = self.site_ids.get(&fired.site);
                let stack = u64::from_str_radix(&fired.stack, 16);
                if let (Some(&site), Ok(stack)) = (site, stack) {
                    let node = fnv64(fired.node.as_bytes());
                    let struck = Struck {
                        site,
                        node,
                        state,
                        stack,
                    };
                    self.known.names.insert(struck.context(pass.by));
                    self.struck.push((pass.fault.clone(), struck));
                }
            }
            Kind::Access => self.known.accesses.extend(fired.access),
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

impl Policy for Novel {
    fn next(&mut self) -> Option<Plan> {
        let pass = self.passes.front()?.clone();
        let nth = self.nth();
        self.turn = self.turn.wrapping_add(1);
        self.unlearned.push_back(Issued {
            passes: self.passes.len(),
            known: self.known.len(),
            nth,
        });
        let when = self.trigger(&pass, nth);
        Some(Plan::single(self.draw.plan_seed(), when, pass.fault))
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, _: &Plan, outcome: &Outcome) {
        let Some(issued) = self.unlearned.pop_front() else {
            return;
        };
        let current = self.passes.front().cloned();
        let Some(pass) = current.filter(|_| issued.passes == self.passes.len()) else {
            return;
        };
        let before = self.known.len();
        for fired in &outcome.fired {
            self.know(&pass, fired);
        }
        let is_new = self.known.len() > before;
        match (outcome.fired.is_empty(), self.left) {
            (false, left) => {
                self.in_vain = 0;
                // More than there should have been: nobody knows how many more.
                let less = left.and_then(|left| left.checked_sub(1));
                self.left = if is_new { less } else { left };
            }
            (true, left) => {
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
}
