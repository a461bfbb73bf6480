//! `bsrr`: budgeted state round robin (Legolas §4.3, Algorithm 2). One state a trial, five
//! injections in each state, at a random one of its requests.
//!
//! A state tuple is (node, abstract state), or with `--states operation` (node, state, site). A
//! request is a hit of a site in scope that has faults, unless it only meets memory. The clean runs
//! are what the paper's first trial is: they fill the list, and nothing is injected in them.
//!
//! Readings, where the paper is open:
//!
//! - `c`, a state's requests, is the mean over the trials that came to it. The total of all trials
//!   grows without end, so that the probability would go to 0; the paper's own reason for the
//!   formula is that one of the `c` requests of the coming trial be granted.
//! - `resetIfAllUsed`: states that only show up after a fault can never be focused on with
//!   success, for the focused state takes the trial's only fault; nor can those of a leader on a
//!   node that is not elected. A state is used up, and leaves the list, too, when as many trials as
//!   its budget looked for it in vain; otherwise such states would in the end have the list for
//!   themselves, and no trial would inject anything. After a reset the list is in the order in
//!   which states first came.
//! - With several jobs, a plan is made before the trials that run beside it are learned from. Then
//!   a state may get a few more injections than its budget.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use temblor_model::bug::Outcome;
use temblor_model::campaign::StateLevel;
use temblor_model::plan::{Fault, Plan, Trigger};
use temblor_model::site::SiteId;
use temblor_model::visit::Visit;

use super::draw::Draw;
use super::space::requesting;
use super::{Policy, Scope};

/// Injections that a state is granted before all are reset.
const BUDGET: u32 = 5;
/// The probability that a trial comes to its state and still grants nothing.
const EPSILON: f64 = 0.01;

/// What counts as one state: node, abstract state, and site at the level of operations.
type Tuple = (String, Option<u32>, Option<SiteId>);
/// In these states the sites were only hit where nothing can fail.
type InMemory = BTreeSet<(Option<u32>, SiteId)>;

/// See the module.
pub struct Bsrr {
    level: StateLevel,
    /// Names, by id.
    states: Vec<String>,
    sites: Vec<String>,
    /// By id: hits of the site are requests.
    requesting: Vec<bool>,
    /// What was visited, in the order in which it first was.
    infos: Vec<Info>,
    places: BTreeMap<Tuple, usize>,
    /// The round-robin list, as places in `infos`.
    list: VecDeque<usize>,
    /// The focused state of each plan that was not learned from yet.
    unlearned: VecDeque<usize>,
    in_memory: InMemory,
    draw: Draw,
}

/// What is known of a state.
struct Info {
    tuple: Tuple,
    budget: u32,
    /// Trials on end that focused on it and injected nothing.
    in_vain: u32,
    /// Hits of each site in all trials, and the trials that had any.
    hits: BTreeMap<SiteId, u64>,
    trials: u64,
}

impl Info {
    fn new(tuple: Tuple) -> Info {
        Info {
            tuple,
            budget: BUDGET,
            in_vain: 0,
            hits: BTreeMap::new(),
            trials: 0,
        }
    }

    /// Its requests in all trials: hits that meet only memory are none.
    fn requests(&self, in_memory: &InMemory) -> u64 {
        let state = self.tuple.1;
        let real = |site: &SiteId| !in_memory.contains(&(state, *site));
        let hits = self.hits.iter().filter(|(site, _)| real(site));
        hits.map(|(_, hits)| hits).sum()
    }

    fn is_used_up(&self, in_memory: &InMemory) -> bool {
        self.budget == 0 || self.in_vain >= BUDGET || self.requests(in_memory) == 0
    }

    fn rate(&self, in_memory: &InMemory) -> f64 {
        let trials = self.trials.max(1);
        rate((self.requests(in_memory) + trials / 2) / trials)
    }
}

/// The probability for each of a state's `c` requests; to six places, so that it is the same
/// number on every machine.
fn rate(c: u64) -> f64 {
    let exact = 1.0 - (EPSILON.ln() / (c as f64 + 1.0)).exp();
    (exact * 1e6).round() / 1e6
}

impl Bsrr {
    pub fn new(scope: &Scope<'_>) -> Bsrr {
        let catalog = scope.catalog;
        let mut bsrr = Bsrr {
            level: scope.level,
            states: catalog.states.iter().map(|s| s.name.clone()).collect(),
            sites: catalog.sites.iter().map(|s| s.name.clone()).collect(),
            requesting: requesting(scope),
            infos: Vec::new(),
            places: BTreeMap::new(),
            list: VecDeque::new(),
            unlearned: VecDeque::new(),
            in_memory: InMemory::new(),
            draw: Draw::new(scope.seed),
        };
        bsrr.visited(&scope.baseline.visits);
        bsrr
    }

    /// Lines 16 to 22 for all requests of a trial.
    fn visited(&mut self, visits: &[Visit]) {
        let in_memory = visits.iter().filter(|v| v.in_memory);
        self.in_memory.extend(in_memory.map(|v| (v.state, v.site)));
        let mut requests: BTreeMap<_, (u32, BTreeMap<SiteId, u64>)> = BTreeMap::new();
        for visit in visits.iter().filter(|v| self.is_request(v)) {
            let site = (self.level == StateLevel::Operation).then_some(visit.site);
            let tuple = (visit.node.as_str(), visit.state, site);
            let (first, hits) = requests.entry(tuple).or_insert((u32::MAX, BTreeMap::new()));
            *first = visit.first.min(*first);
            *hits.entry(visit.site).or_insert(0) += u64::from(visit.hits);
        }
        let mut requests: Vec<_> = requests.into_iter().collect();
        requests.sort_by_key(|(_, (first, _))| *first);
        for ((node, state, site), (_, hits)) in requests {
            let tuple = (node.to_owned(), state, site);
            let next = self.infos.len();
            let place = *self.places.entry(tuple.clone()).or_insert(next);
            if place == next {
                self.infos.push(Info::new(tuple));
                self.list.push_back(place);
            }
            let info = &mut self.infos[place];
            for (site, hits) in hits {
                *info.hits.entry(site).or_insert(0) += hits;
            }
            info.trials += 1;
        }
    }

    fn is_request(&self, visit: &Visit) -> bool {
        let is_named = visit.state.is_none_or(|s| (s as usize) < self.states.len());
        let requesting = self.requesting.get(visit.site as usize);
        let known = self.in_memory.contains(&(visit.state, visit.site));
        is_named && visit.hits > 0 && !known && requesting == Some(&true)
    }

    /// Lines 2 to 13; the state to focus on.
    fn rotate(&mut self) -> Option<usize> {
        let in_memory = &self.in_memory;
        if self.infos.iter().all(|i| i.is_used_up(in_memory)) {
            for info in &mut self.infos {
                info.budget = BUDGET;
                info.in_vain = 0;
            }
            self.list = (0..self.infos.len()).collect();
        }
        while let Some(place) = self.list.pop_front() {
            if !self.infos[place].is_used_up(in_memory) {
                self.list.push_back(place);
                break;
            }
        }
        while let Some(front) = self.list.front()
            && self.infos[*front].is_used_up(in_memory)
        {
            self.list.pop_front();
        }
        self.list.front().copied()
    }
}

impl Policy for Bsrr {
    fn next(&mut self) -> Option<Plan> {
        let focus = self.rotate()?;
        self.unlearned.push_back(focus);
        let info = &self.infos[focus];
        let (node, state, site) = &info.tuple;
        let when = Trigger::InState {
            state: state.map(|s| self.states[s as usize].clone()),
            node: Some(node.clone()),
            site: site.map(|s| self.sites[s as usize].clone()),
            rate: info.rate(&self.in_memory),
        };
        Some(Plan::single(self.draw.plan_seed(), when, Fault::Any))
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, _: &Plan, outcome: &Outcome) {
        self.visited(&outcome.visits);
        let Some(place) = self.unlearned.pop_front() else {
            return;
        };
        let info = &mut self.infos[place];
        if outcome.fired.is_empty() {
            info.in_vain += 1;
        } else {
            info.budget = info.budget.saturating_sub(1);
            info.in_vain = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_requests_is_granted_nearly_always() {
        for (c, expected) in [
            (0, 0.99),
            (1, 0.9),
            (2, 0.784557),
            (9, 0.369043),
            (99, 0.045007),
        ] {
            assert_eq!(rate(c), expected, "{c}");
        }
    }

    #[test]
    fn the_rate_goes_by_the_requests_of_a_trial_not_of_all_trials() {
        let mut info = Info::new(("n1".into(), None, None));
        (info.hits, info.trials) = ([(4, 900)].into(), 100);
        assert_eq!(info.rate(&InMemory::new()), rate(9));
    }

    #[test]
    fn hits_that_only_meet_memory_are_no_requests() {
        let mut info = Info::new(("n1".into(), Some(2), None));
        (info.hits, info.trials) = ([(4, 900), (5, 100)].into(), 100);
        let elsewhere = InMemory::from([(None, 4)]);
        assert_eq!(info.rate(&elsewhere), rate(10));
        let packed = InMemory::from([(Some(2), 4)]);
        assert_eq!(info.rate(&packed), rate(1));
        assert!(!info.is_used_up(&packed));
        assert!(info.is_used_up(&InMemory::from([(Some(2), 4), (Some(2), 5)])));
    }
}
