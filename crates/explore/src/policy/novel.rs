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
//! - `sieve-s` (Sieve §6.2): the same without groups; `sieve-i`: each site once.
//!
//! A site that others wait for and that a timeout protects is two faults in Algorithm 1, which goes
//! by `fault.type`: the paper's ZK-4817 only shows with both delays at one place. The two types
//! take turns here, each in the order of the run, so that neither has to wait for the end of the
//! other. `sieve-i` has one fault for each site.
//!
//! `--contexts` tells contexts apart by something else than the stack: the abstract state of the
//! task that hits is coarser, and most of what different stacks show is the same.
//!
//! "New" is what no fault was injected at yet. The papers say "not visited" of states and failure
//! IDs; read to the letter, a policy would end with its first trial, which visits nearly all there
//! is to visit before its workload ends. A policy ends when everything was seen (`scan.rs`).
//!
//! `--sweep` is more than the paper has: also shorter delays, which clients survive, and timeouts far
//! overstepped. It goes over each site once with each length before it goes over the states in which
//! they are hit, and over these before the stacks: in the order of the run, hundreds of trials may
//! pass before one comes to the second kind of call.

use std::collections::{BTreeMap, VecDeque};

use temblor_model::bug::{FiredFault, Outcome};
use temblor_model::fnv64;
use temblor_model::plan::{Among, Contexts, FOR_EVER_MS, Fault, Plan, Trigger};
use temblor_model::site::{Site, SiteId};
use temblor_model::visit::state_name;

use super::draw::Draw;
use super::scan::{Pass, Scan, Seen, Struck};
use super::space::{is_wanted, requesting};
use super::{Policy, Scope};
use crate::delays;

/// How long before the hit an access may be, real milliseconds.
const WITHIN_MS: u64 = 5;

/// Delays where others wait for the site (virtual milliseconds), and where a timeout protects it
/// (percent of that): those of the paper, then those of a sweep.
const DELAYS: [(u64, u32); 3] = [(FOR_EVER_MS, 150), (15_000, 50), (60_000, 1_000)];

/// See the module.
pub struct Novel {
    kind: Kind,
    /// They take turns.
    scans: Vec<Scan>,
    turn: usize,
    /// The scan of each plan that was not learned from yet.
    unlearned: VecDeque<usize>,
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
        Novel::of_both_delays(scope, Among::Groups)
    }

    pub fn sieve_s(scope: &Scope<'_>) -> Novel {
        Novel::of_both_delays(scope, Among::Guarded)
    }

    pub fn sieve_i(scope: &Scope<'_>) -> Novel {
        let one = |(sync_ms, timeout_percent)| Fault::SiteDelay {
            sync_ms: Some(sync_ms),
            timeout_percent: Some(timeout_percent),
        };
        let among = Among::Guarded;
        let scan = scan(scope, among, Contexts::Site, one);
        Novel::new(scope, Kind::Context { among }, Vec::from_iter(scan))
    }

    fn of_both_delays(scope: &Scope<'_>, among: Among) -> Novel {
        let waited_for = |(sync_ms, _)| Fault::SiteDelay {
            sync_ms: Some(sync_ms),
            timeout_percent: None,
        };
        let timed = |(_, timeout_percent)| Fault::SiteDelay {
            sync_ms: None,
            timeout_percent: Some(timeout_percent),
        };
        let by = scope.contexts;
        let scans = [
            scan(scope, among, by, waited_for),
            scan(scope, among, by, timed),
        ];
        let scans = scans.into_iter().flatten();
        Novel::new(scope, Kind::Context { among }, scans.collect())
    }

    fn of_any_fault(scope: &Scope<'_>, kind: Kind) -> Novel {
        let has_sites = requesting(scope).contains(&true);
        let has_accesses = !scope.catalog.meta_accesses.is_empty();
        let possible = has_sites && (has_accesses || !matches!(kind, Kind::Access));
        let pass = Pass {
            fault: Fault::Any,
            by: scope.contexts,
        };
        let scan = possible.then(|| Scan::new([pass]));
        Novel::new(scope, kind, Vec::from_iter(scan))
    }

    fn new(scope: &Scope<'_>, kind: Kind, scans: Vec<Scan>) -> Novel {
        let site = |s: &Site| (s.name.clone(), s.id);
        let states = scope.catalog.states.iter();
        Novel {
            kind,
            scans,
            turn: 0,
            unlearned: VecDeque::new(),
            site_ids: scope.catalog.sites.iter().map(site).collect(),
            state_ids: states.map(|s| (s.name.clone(), s.id)).collect(),
            draw: Draw::new(scope.seed),
        }
    }

    fn trigger(&self, scan: &Scan, by: Contexts, nth: u32) -> Trigger {
        let known = scan.known();
        let names = || known.names.iter().cloned().collect();
        match self.kind {
            Kind::State => Trigger::NewState {
                known: names(),
                nth,
            },
            Kind::Context { among } => Trigger::NewContext {
                known: names(),
                nth,
                among,
                by,
            },
            Kind::Access => Trigger::AfterAccess {
                within_ms: WITHIN_MS,
                known: known.accesses.iter().copied().collect(),
                nth,
            },
        }
    }

    /// What a fault was injected at.
    fn seen(&self, fired: &FiredFault) -> Option<Seen> {
        let id = |name: &String| self.state_ids.get(name).copied();
        let state = fired.state.as_ref().and_then(id);
        match self.kind {
            Kind::State => Some(Seen::State(state_name(&fired.node, state))),
            Kind::Context { .. } => Some(Seen::Context(Struck {
                site: *self.site_ids.get(&fired.site)?,
                node: fnv64(fired.node.as_bytes()),
                state,
                stack: u64::from_str_radix(&fired.stack, 16).ok()?,
            })),
            Kind::Access => fired.access.map(Seen::Access),
        }
    }
}

/// A scan with delays; none where no site has any.
fn scan(
    scope: &Scope<'_>,
    among: Among,
    finest: Contexts,
    fault: impl Fn((u64, u32)) -> Fault,
) -> Option<Scan> {
    let mut lengths = DELAYS;
    lengths[0].0 = scope.delay_ms.unwrap_or(FOR_EVER_MS);
    let first = fault(lengths[0]);
    let has_fault = |site: &Site| delays::of_site(&first, site, Some(scope.baseline)).is_some();
    let mut sites = scope.catalog.among(among).into_iter();
    if !sites.any(|site| is_wanted(site, scope) && has_fault(site)) {
        return None;
    }
    let lengths = if scope.sweep {
        &lengths[..]
    } else {
        &lengths[..1]
    };
    let is_round = |by: &Contexts| *by == finest || scope.sweep && *by < finest;
    let rounds = Contexts::ALL.into_iter().filter(is_round);
    let round = |by| {
        let faults = lengths.iter().map(|length| fault(*length));
        faults.map(move |fault| Pass { fault, by })
    };
    Some(Scan::new(rounds.flat_map(round)))
}

impl Policy for Novel {
    fn next(&mut self) -> Option<Plan> {
        let count = self.scans.len();
        let mut turns = (self.turn..).take(count).map(|turn| turn % count);
        let at = turns.find(|at| !self.scans[*at].is_over())?;
        let (pass, nth) = self.scans[at].next()?;
        self.turn = at + 1;
        self.unlearned.push_back(at);
        let when = self.trigger(&self.scans[at], pass.by, nth);
        Some(Plan::single(self.draw.plan_seed(), when, pass.fault))
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, _: &Plan, outcome: &Outcome) {
        let Some(at) = self.unlearned.pop_front() else {
            return;
        };
        let seen = outcome.fired.iter().filter_map(|fired| self.seen(fired));
        let seen = seen.collect();
        self.scans[at].learn(!outcome.fired.is_empty(), seen);
    }
}
