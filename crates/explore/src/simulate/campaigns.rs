//! Campaigns against the simulated target: each policy finds the bugs it is meant for.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::bug::{FiredFault, Outcome};
use temblor_model::campaign::StateLevel;
use temblor_model::plan::{Contexts, Fault, Plan, Trigger};

use super::Simulated;
use crate::policy::Policy;

/// A campaign that plans so many trials ahead of what it learned.
pub struct Campaign<'a> {
    target: &'a Simulated,
    policy: Box<dyn Policy>,
    /// Plan n is asked for when the outcomes of plans 1 to n - lag are learned.
    lag: usize,
    learned: usize,
    pub trials: Vec<(Plan, Outcome)>,
}

impl<'a> Campaign<'a> {
    pub fn new(target: &'a Simulated, name: &str, seed: u64, lag: usize) -> Campaign<'a> {
        Campaign {
            target,
            policy: target.policy(name, seed),
            lag,
            learned: 0,
            trials: Vec::new(),
        }
    }

    fn next(&mut self) -> Option<Plan> {
        while self.learned + self.lag <= self.trials.len() {
            let (plan, outcome) = &self.trials[self.learned];
            self.policy.learn(plan, outcome);
            self.learned += 1;
        }
        self.policy.next()
    }

    /// Runs up to so many more trials.
    pub fn go(&mut self, trials: usize) {
        for _ in 0..trials {
            let Some(plan) = self.next() else { return };
            let outcome = self.target.outcome(self.trials.len() as u64, &plan);
            self.trials.push((plan, outcome));
        }
    }

    /// Runs until each of the bugs was shown, but no more than so many trials.
    fn go_for(&mut self, bugs: &[&str], most: usize) {
        let mut left: Vec<&str> = bugs.to_vec();
        while !left.is_empty() && self.trials.len() < most {
            let before = self.trials.len();
            self.go(1);
            let Some((_, outcome)) = self.trials.get(before) else {
                return;
            };
            left.retain(|bug| !outcome.symptoms().any(|s| s.summary.ends_with(bug)));
        }
    }

    /// Goes through stored trials as a campaign that is resumed does.
    pub fn play(&mut self, stored: &[(Plan, Outcome)]) {
        for (plan, outcome) in stored {
            assert_eq!(self.next().as_ref(), Some(plan));
            self.trials.push((plan.clone(), outcome.clone()));
        }
    }

    pub fn plans(&self) -> Vec<Plan> {
        self.trials.iter().map(|(plan, _)| plan.clone()).collect()
    }

    /// The trial (from 1) in which a planted bug first shows.
    fn first(&self, bug: &str) -> Option<usize> {
        let shows = |(_, outcome): &(Plan, Outcome)| {
            let mut symptoms = outcome.symptoms();
            symptoms.any(|s| s.summary.ends_with(bug))
        };
        self.trials.iter().position(shows).map(|i| i + 1)
    }

    /// What was injected at, once for each trial in which anything was.
    fn contexts(&self) -> Vec<(&str, &str)> {
        let fired = self.trials.iter().flat_map(|(_, outcome)| &outcome.fired);
        fired.map(|f| (f.site.as_str(), f.stack.as_str())).collect()
    }
}

fn run<'a>(
    target: &'a Simulated,
    name: &str,
    seed: u64,
    lag: usize,
    trials: usize,
) -> Campaign<'a> {
    let mut campaign = Campaign::new(target, name, seed, lag);
    campaign.go(trials);
    campaign
}

/// Each bug within its bound, whatever the seed, alone and with many jobs.
fn check(target: &Simulated, name: &str, bounds: &[(&str, usize)]) {
    check_seeds(target, name, bounds, 20);
}

fn check_seeds(target: &Simulated, name: &str, bounds: &[(&str, usize)], seeds: u64) {
    let known = |bug: &&str| target.planted.iter().any(|p| p.name == *bug);
    assert!(bounds.iter().all(|(bug, _)| known(bug)));
    for (seed, lag) in (0..seeds).flat_map(|seed| [(seed, 1), (seed, 16)]) {
        // What is out when a result comes in, for each of the passes of a sweep.
        let ahead = 5 * (lag - 1);
        let most = bounds.iter().map(|(_, bound)| bound + ahead).max();
        let bugs: Vec<&str> = bounds.iter().map(|(bug, _)| *bug).collect();
        let mut campaign = Campaign::new(target, name, seed, lag);
        campaign.go_for(&bugs, most.unwrap_or(0));
        for (bug, bound) in bounds {
            let found = campaign.first(bug);
            let in_time = found.is_some_and(|found| found <= bound + ahead);
            assert!(
                in_time,
                "{name}, seed {seed}, lag {lag}: {bug} in {found:?}"
            );
        }
    }
}

#[test]
fn survey_finds_every_planted_bug_within_its_bound() {
    // The end of the round that must show it: see the rounds in policy/survey.rs.
    let bounds = [
        ("slow write under a lock", 260),
        ("acceptor ends in one context", 260),
        ("state after the third append", 920),
        ("only the last node", 510),
        ("a rare exception", 1_400),
    ];
    check(&Simulated::small(), "survey", &bounds);
}

#[test]
fn scatter_finds_every_planted_bug_in_time() {
    let target = Simulated::small();
    for seed in 0..10 {
        let bugs: Vec<&str> = target.planted.iter().map(|bug| bug.name).collect();
        let mut campaign = Campaign::new(&target, "scatter", seed, 1);
        campaign.go_for(&bugs, 20_000);
        for bug in &target.planted {
            let found = campaign.first(bug.name);
            assert!(found.is_some(), "seed {seed}: {} is never shown", bug.name);
        }
    }
}

#[test]
fn bsrr_finds_what_needs_a_state() {
    let mut target = Simulated::rich();
    let bounds = [
        ("a torn last save", 800),
        ("a stage that bears no fault", 100),
    ];
    check(&target, "bsrr", &bounds);
    target.level = StateLevel::Operation;
    let bounds = [
        ("a torn last save", 4_000),
        ("a stage that bears no fault", 500),
    ];
    check_seeds(&target, "bsrr", &bounds, 6);
}

#[test]
fn bsrr_goes_on_injecting_when_all_budgets_were_used_up() {
    let target = Simulated::rich();
    for lag in [1, 16] {
        let campaign = run(&target, "bsrr", 4, lag, 2_000);
        for thousand in campaign.trials.chunks(1_000) {
            let fired = thousand.iter().filter(|(_, o)| !o.fired.is_empty());
            let fired = fired.count();
            assert!((800..1_000).contains(&fired), "lag {lag}: {fired} of 1000");
        }
    }
}

#[test]
fn bsrr_looks_at_states_that_only_faults_bring_about() {
    let target = Simulated::rich();
    let campaign = run(&target, "bsrr", 4, 1, 100);
    let recovering = &target.catalog.states[Simulated::RECOVERING as usize].name;
    let focused = |(plan, _): &&(Plan, Outcome)| {
        let when = &plan.steps[0].when;
        matches!(when, Trigger::InState { state, .. } if state.as_ref() == Some(recovering))
    };
    assert!(campaign.trials.iter().any(|t| focused(&t)));
}

#[test]
fn bsrr_counts_the_requests_of_wanted_sites_only() {
    let mut target = Simulated::rich();
    target.sites = regex::Regex::new("Log").ok();
    let campaign = run(&target, "bsrr", 4, 1, 50);
    for (plan, _) in &campaign.trials {
        let Trigger::InState { state, .. } = &plan.steps[0].when else {
            panic!("{plan}")
        };
        // Sites of that name are of the first task.
        let state = state.as_deref().unwrap();
        assert!(state.starts_with("x.T0."), "{state}");
    }
}

#[test]
fn new_state_fate_and_crashtuner_find_what_is_new_once() {
    let target = Simulated::rich();
    check(&target, "new-state", &[("a stage that bears no fault", 30)]);
    check(&target, "fate", &[("one context bears no fault", 124)]);
    check(&target, "crashtuner", &[("half a member", 5)]);
}

#[test]
fn sieve_finds_slow_io_that_others_wait_for() {
    let target = Simulated::rich();
    let anywhere = [
        ("a lock held for minutes", 41),
        ("a timeout overstepped by half", 41),
    ];
    check(&target, "sieve-i", &anywhere);
    let in_context = [
        ("a lock held in one context", 42),
        ("a lock held for minutes", 42),
        ("a timeout overstepped by half", 42),
        ("a lock and a timeout overstepped", 42),
    ];
    check(&target, "sieve", &in_context);
    check(
        &target,
        "sieve-s",
        &in_context.map(|(bug, _)| (bug, 62 + 3)),
    );
    let blind = run(&target, "sieve-i", 1, 1, 1_000);
    assert_eq!(blind.first("a lock held in one context"), None);
    assert_eq!(blind.first("a lock and a timeout overstepped"), None);
}

#[test]
fn a_sweep_finds_what_other_delays_show() {
    let mut target = Simulated::rich();
    let other = ["a short wait is overtaken", "a timeout overstepped far"];
    let campaign = run(&target, "sieve", 1, 1, 1_000);
    assert!(other.iter().all(|bug| campaign.first(bug).is_none()));
    target.sweep = true;
    // In the second and in the third pass; both kinds of delays take turns.
    check(&target, "sieve", &[(other[0], 83), (other[1], 132)]);
}

#[test]
fn whoever_is_waited_for_is_slow_for_as_long_as_the_user_says() {
    let mut target = Simulated::rich();
    target.delay_ms = Some(15_000);
    check(&target, "sieve", &[("a short wait is overtaken", 42)]);
    let campaign = run(&target, "sieve", 1, 1, 1_000);
    assert_eq!(campaign.first("a lock held for minutes"), None);
    assert!(campaign.first("a timeout overstepped by half").is_some());
}

/// With each length each site once, then with each length the rest of each site's stacks. Guarded
/// sites are outside all tasks here, so that their states add nothing.
#[test]
fn a_sweep_takes_sites_before_their_stacks() {
    let mut target = Simulated::rich();
    target.sweep = true;
    let campaign = run(&target, "sieve", 1, 1, 1_000);
    // Of the sites that others wait for, and of those that a timeout protects: how many, in how
    // many contexts. One is both.
    for (waited_for, sites, contexts) in [(true, 11, 21), (false, 21, 21)] {
        let is_kind = |plan: &Plan| match plan.steps[0].fault {
            Fault::SiteDelay { sync_ms, .. } => sync_ms.is_some() == waited_for,
            _ => false,
        };
        let of_kind = campaign.trials.iter().filter(|(plan, _)| is_kind(plan));
        let fired = of_kind.clone().flat_map(|(_, outcome)| &outcome.fired);
        let taken: Vec<_> = fired.map(|f| (f.site.as_str(), &f.stack)).collect();
        let distinct: BTreeSet<_> = taken.iter().collect();
        assert_eq!((distinct.len(), taken.len()), (contexts, 3 * contexts));
        for round in taken.chunks(sites).take(3) {
            let seen: BTreeSet<&str> = round.iter().map(|(site, _)| *site).collect();
            assert_eq!(seen.len(), sites);
        }
        // Three trials in vain end each of the passes.
        assert_eq!(of_kind.clone().count(), 3 * contexts + 9 * 3);
        let mut by_length: BTreeMap<String, usize> = BTreeMap::new();
        for (plan, _) in of_kind {
            *by_length.entry(fault(plan)).or_default() += 1;
        }
        let counts: Vec<usize> = by_length.into_values().collect();
        assert_eq!(counts, [contexts + 9; 3]);
    }
}

fn fault(plan: &Plan) -> String {
    plan.steps[0].fault.to_string()
}

#[test]
fn chronos_follows_what_delays_bring_about() {
    let target = Simulated::rich();
    check(&target, "chronos", &[("the third delay in a row", 60)]);
    let campaign = run(&target, "chronos", 2, 1, 300);
    let sizes: BTreeSet<usize> = campaign.plans().iter().map(|p| p.steps.len()).collect();
    assert_eq!(sizes, BTreeSet::from([6, 7, 8]));
    assert_eq!(campaign.trials.len(), 300);
}

#[test]
fn policies_that_look_for_what_is_new_end_three_trials_after_the_last() {
    let target = Simulated::rich();
    for (name, count) in [
        ("new-state", 30),
        ("fate", 124),
        ("crashtuner", 5),
        ("sieve", 42),
        ("sieve-s", 62),
        ("sieve-i", 41),
    ] {
        let campaign = run(&target, name, 1, 1, 1_000);
        // Each of the two kinds of delays ends for itself.
        let kinds = 1 + usize::from(["sieve", "sieve-s"].contains(&name));
        assert_eq!(campaign.trials.len(), count + 3 * kinds, "{name}");
        assert_eq!(campaign.contexts().len(), count, "{name}");
        // With many jobs, those come back in vain that were out when the last new one was taken,
        // and those that were out when that was known. States come in another order each time, so
        // that some are taken twice.
        let campaign = run(&target, name, 1, 16, 1_000);
        let most = match name {
            "new-state" => 2 * count + 3 * 16 + 3,
            _ => count + kinds * (2 * 16 + 3),
        };
        let trials = campaign.trials.len();
        assert!((count..=most).contains(&trials), "{name}: {trials} trials");
    }
}

/// Each context that clean runs come to once, whatever tells contexts apart.
#[test]
fn contexts_are_what_the_user_tells_apart() {
    let mut target = Simulated::rich();
    let baseline = &target.baseline;
    let reached = || baseline.reached.iter();
    let sites: BTreeSet<_> = reached().map(|r| r.site).collect();
    let states: BTreeSet<_> = baseline.visits.iter().map(|v| (v.site, v.state)).collect();
    let stacks: BTreeSet<_> = reached().map(|r| (r.site, &r.stack)).collect();
    let nodes: BTreeSet<_> = reached().map(|r| (r.site, &r.stack, &r.node)).collect();
    let counts = [sites.len(), states.len(), stacks.len(), nodes.len()];
    assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
    for (by, count) in Contexts::ALL.into_iter().zip(counts) {
        target.contexts = by;
        let campaign = run(&target, "fate", 1, 1, 2_000);
        let fired = campaign
            .trials
            .iter()
            .flat_map(|(_, outcome)| &outcome.fired);
        let apart = |f: &FiredFault| match by {
            Contexts::Site => String::new(),
            Contexts::State => format!("{:?}", f.state),
            Contexts::Stack => f.stack.clone(),
            Contexts::Node => format!("{} {}", f.node, f.stack),
        };
        let all: Vec<_> = fired.map(|f| (f.site.as_str(), apart(f))).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (count, count), "{by:?}");
    }
}

#[test]
fn plans_that_run_side_by_side_take_different_hits() {
    let target = Simulated::rich();
    for (name, count) in [("fate", 124), ("sieve", 42), ("sieve-s", 62)] {
        let campaign = run(&target, name, 1, 16, 1_000);
        let plans = campaign.plans();
        let fired = campaign.trials.iter().map(|(_, o)| &o.fired).zip(&plans);
        let taken: Vec<_> = fired
            .flat_map(|(all, plan)| all.iter().map(|f| (&f.site, &f.stack, fault(plan))))
            .collect();
        let distinct: BTreeSet<_> = taken.iter().collect();
        assert_eq!((taken.len(), distinct.len()), (count, count), "{name}");
    }
}

#[test]
fn nothing_to_look_at_is_nothing_to_try() {
    let small = Simulated::small();
    for name in ["crashtuner", "sieve", "sieve-s", "sieve-i", "chronos"] {
        assert_eq!(small.policy(name, 1).next(), None, "{name}");
    }
    let mut target = Simulated::rich().unreached();
    for name in ["bsrr", "chronos"] {
        assert_eq!(target.policy(name, 1).next(), None, "{name}");
    }
    target.faults.clear();
    for name in ["new-state", "fate", "crashtuner"] {
        assert_eq!(target.policy(name, 1).next(), None, "{name}");
    }
}

#[test]
fn states_beat_chance_where_a_bug_needs_one() {
    let target = Simulated::rich();
    const MOST: usize = 4_000;
    let median = |name: &str| {
        let found = |seed| {
            let mut campaign = Campaign::new(&target, name, seed, 1);
            campaign.go_for(&["a torn last save"], MOST);
            campaign.trials.len()
        };
        let mut all: Vec<usize> = (0..9).map(found).collect();
        all.sort_unstable();
        all[4]
    };
    let bsrr = median("bsrr");
    for blind in ["scatter", "random", "exhaustive"] {
        let trials = median(blind);
        assert!(10 * bsrr < trials, "bsrr {bsrr} trials, {blind} {trials}");
    }
}
