//! The search of a campaign: plans come from the policy, outcomes go back to it.
//!
//! Trials run side by side and end in any order, and still the same campaign makes the same plans:
//! outcomes reach the policy in the order of its plans, and a fixed number of plans late.

use std::collections::{BTreeMap, VecDeque};

use temblor_explore::policy::Policy;
use temblor_model::bug::{Outcome, Verdict};
use temblor_model::campaign::{CampaignSpec, Tally};
use temblor_model::plan::Plan;

use crate::LabError;

/// A plan knows the outcomes of all plans before it but the last so many, itself counted. One at a
/// time follows the papers to the letter; more leave room for trials that take long.
const LAG: u64 = 16;

/// What the search has come to so far.
pub struct Search {
    pub policy: Box<dyn Policy>,
    lag: u64,
    /// Plans of trials that were begun and never finished.
    again: VecDeque<(u64, Plan)>,
    /// Stored failures: of those that were not confirmed before the interruption, it is told
    /// now whether they are bugs.
    pub failed: VecDeque<(Plan, Outcome)>,
    /// Plans wait until clients begin to work.
    working: bool,
    /// Plans handed out, stored ones included.
    planned: u64,
    /// Outcomes that the policy does not know yet.
    outcomes: BTreeMap<u64, (Plan, Outcome)>,
    learned: u64,
    pub tally: Tally,
    pub failure: Option<LabError>,
}

/// What a job does next.
pub enum Next {
    /// Its place in the order of plans.
    Plan(u64, Plan),
    /// The next plan depends on a trial that still runs.
    Wait,
    Over,
}

impl Search {
    pub fn new(policy: Box<dyn Policy>, spec: &CampaignSpec) -> Search {
        let lag = match (policy.learns(), spec.jobs) {
            (false, _) => u64::MAX,
            (true, 1) => 1,
            (true, _) => LAG,
        };
        Search {
            policy,
            lag,
            again: VecDeque::new(),
            failed: VecDeque::new(),
            working: spec.working,
            planned: 0,
            outcomes: BTreeMap::new(),
            learned: 0,
            tally: Tally::default(),
            failure: None,
        }
    }

    /// A trial of the campaign that is resumed: the policy is asked for its plan again.
    pub fn stored(
        &mut self,
        plan: &Plan,
        outcome: Option<&Outcome>,
        in_bug: impl Fn(&Outcome) -> bool,
    ) {
        self.learn();
        self.policy.next();
        self.planned += 1;
        match outcome {
            Some(outcome) => {
                self.done(self.planned, plan.clone(), outcome.clone());
                if outcome.verdict == Verdict::Fail && !in_bug(outcome) {
                    self.failed.push_back((plan.clone(), outcome.clone()));
                }
            }
            None => self.again.push_back((self.planned, plan.clone())),
        }
    }

    /// Nothing is left to begin, or something failed for good.
    pub fn is_over(&self, limit: u64) -> bool {
        let nothing_left = self.again.is_empty() && self.failed.is_empty();
        self.failure.is_some() || nothing_left && self.planned >= limit
    }

    pub fn next(&mut self, limit: u64) -> Next {
        if let Some((order, plan)) = self.again.pop_front() {
            return Next::Plan(order, plan);
        }
        if self.planned >= limit {
            return Next::Over;
        }
        if !self.learn() {
            return Next::Wait;
        }
        let Some(mut plan) = self.policy.next() else {
            return Next::Over;
        };
        plan.working |= self.working;
        self.planned += 1;
        Next::Plan(self.planned, plan)
    }

    /// A trial is done.
    pub fn done(&mut self, order: u64, plan: Plan, outcome: Outcome) {
        self.tally.count(&outcome);
        if self.policy.learns() {
            self.outcomes.insert(order, (plan, outcome));
        }
    }

    /// Tells the policy all that the next plan depends on, and no more; false while some of it is
    /// not known.
    fn learn(&mut self) -> bool {
        while self.learned.saturating_add(self.lag) <= self.planned {
            let Some((plan, outcome)) = self.outcomes.remove(&(self.learned + 1)) else {
                return false;
            };
            self.policy.learn(&plan, &outcome);
            self.learned += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use temblor_model::campaign::{StartSpec, StateLevel, WarpSpec};
    use temblor_model::plan::Contexts;

    /// Its n-th plan tells by its seed how many outcomes it knew.
    struct Counting {
        learned: u64,
        order: Arc<Mutex<Vec<u64>>>,
    }

    impl Policy for Counting {
        fn next(&mut self) -> Option<Plan> {
            Some(Plan {
                seed: self.learned,
                ..Plan::clean()
            })
        }

        fn learns(&self) -> bool {
            true
        }

        fn learn(&mut self, _: &Plan, outcome: &Outcome) {
            self.learned += 1;
            self.order.lock().unwrap().push(outcome.trial);
        }
    }

    fn spec(jobs: u32) -> CampaignSpec {
        CampaignSpec {
            format: 1,
            target: "x@1".into(),
            target_dir: None,
            workload: None,
            nodes: None,
            policy: "x".into(),
            seed: 0,
            trials: 100,
            budget_s: 0,
            jobs,
            warp: WarpSpec::Off,
            start: StartSpec::Cold,
            working: false,
            faults: Vec::new(),
            delay_ms: None,
            level: StateLevel::State,
            contexts: Contexts::default(),
            sweep: false,
            sites: String::new(),
            jdk_sites: false,
            hook_clients: false,
            coverage: false,
            baselines: 1,
            confirm: 0,
            confirm_unwarped: 0,
            shrink: 0,
            keep_mb: 1,
            plan: None,
        }
    }

    fn outcome(trial: u64) -> Outcome {
        Outcome {
            format: 1,
            trial,
            verdict: Verdict::Pass,
            judgements: Vec::new(),
            fired: Vec::new(),
            unreached: Vec::new(),
            warp: 1.0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            visits: Vec::new(),
            from: None,
        }
    }

    fn search(jobs: u32) -> (Search, Arc<Mutex<Vec<u64>>>) {
        let order: Arc<Mutex<Vec<u64>>> = Arc::default();
        let policy = Counting {
            learned: 0,
            order: order.clone(),
        };
        (Search::new(Box::new(policy), &spec(jobs)), order)
    }

    fn plan(search: &mut Search) -> Option<(u64, u64)> {
        match search.next(100) {
            Next::Plan(order, plan) => Some((order, plan.seed)),
            _ => None,
        }
    }

    #[test]
    fn one_job_waits_for_every_outcome() {
        let (mut search, _) = search(1);
        for n in 1..5 {
            assert_eq!(plan(&mut search), Some((n, n - 1)));
            assert_eq!(plan(&mut search), None, "the outcome is not known");
            search.done(n, Plan::clean(), outcome(n));
        }
    }

    #[test]
    fn plans_know_the_same_however_trials_end() {
        let (mut search, order) = search(0);
        for n in 1..=LAG {
            assert_eq!(plan(&mut search), Some((n, 0)));
        }
        assert_eq!(plan(&mut search), None);
        for n in (1..=LAG).rev() {
            search.done(n, Plan::clean(), outcome(n));
        }
        // All are known, and still each plan is told of one more only.
        for n in LAG + 1..=2 * LAG {
            assert_eq!(plan(&mut search), Some((n, n - LAG)));
        }
        let expected: Vec<u64> = (1..=LAG).collect();
        assert_eq!(*order.lock().unwrap(), expected);
    }

    #[test]
    fn a_resumed_search_stands_where_it_stood() {
        let (mut search, _) = search(0);
        for n in 1..=20 {
            let known = (n != 18).then(|| outcome(n));
            search.stored(&Plan::clean(), known.as_ref(), |_| false);
        }
        assert_eq!(plan(&mut search), Some((18, 0)), "begun and not finished");
        assert_eq!(plan(&mut search), Some((21, 5)));
    }
}
