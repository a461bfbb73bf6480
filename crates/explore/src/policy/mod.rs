//! Policies choose the next plan from what was seen. One file each, and the list of them all.
//!
//! A policy is deterministic under its seed. To resume a campaign, build the policy again and
//! play the stored trials to it (`next` for each, `learn` with each stored outcome): it then
//! stands exactly where it stood.

mod bsrr;
mod chronos;
mod draw;
mod novel;
mod pairs;
mod plain;
mod replay;
mod scan;
mod scatter;
mod space;
mod survey;

use regex::Regex;
use temblor_model::bug::Outcome;
use temblor_model::campaign::StateLevel;
use temblor_model::catalog::SiteCatalog;
use temblor_model::history::Baseline;
use temblor_model::plan::{Contexts, Plan};

pub use bsrr::Bsrr;
pub use chronos::Chronos;
pub use novel::Novel;
pub use pairs::Pairs;
pub use plain::{Exhaustive, Random};
pub use replay::Replay;
pub use scatter::Scatter;
pub use survey::Survey;

/// Chooses the plans of a campaign.
pub trait Policy: Send {
    /// The next plan, or None when there is nothing left to try.
    fn next(&mut self) -> Option<Plan>;

    /// Whether plans depend on outcomes: if not, nobody waits for these.
    fn learns(&self) -> bool {
        false
    }

    /// What a trial came to. Called in order of trial numbers.
    fn learn(&mut self, _: &Plan, _: &Outcome) {}

    /// How many of a plan's first steps are those of many other plans: they need to run once, and
    /// each plan can go on from there.
    fn shared(&self, _: &Plan) -> usize {
        0
    }
}

/// A kind of fault that policies may put at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    Throw,
    Delay,
    Crash,
}

impl FaultKind {
    pub const ALL: [FaultKind; 3] = [FaultKind::Throw, FaultKind::Delay, FaultKind::Crash];

    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Throw => "throw",
            FaultKind::Delay => "delay",
            FaultKind::Crash => "crash",
        }
    }
}

impl std::str::FromStr for FaultKind {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| PolicyError::UnknownFault {
            name: text.into(),
            known: Self::ALL.map(FaultKind::name).join(", "),
        })
    }
}

/// What a policy may choose from.
pub struct Scope<'a> {
    pub catalog: &'a SiteCatalog,
    pub baseline: &'a Baseline,
    /// Kinds of faults to inject.
    pub faults: &'a [FaultKind],
    /// Length of an injected delay, virtual milliseconds; the policy's own when there is none.
    pub delay_ms: Option<u64>,
    /// Only sites whose name matches; all without it.
    pub sites: Option<Regex>,
    pub seed: u64,
    /// The plan to run, for `replay`.
    pub plan: Option<&'a Plan>,
    /// How often `replay` runs it.
    pub times: u64,
    /// What counts as one state.
    pub level: StateLevel,
    /// What tells the contexts of a site apart.
    pub contexts: Contexts,
    /// Try shorter and longer delays, too, where the policy chooses their length.
    pub sweep: bool,
    /// Only hits after clients began to work, none of the cluster's start.
    pub working: bool,
}

/// Why there is no such policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("there is no policy `{name}`; choose one of: {known}")]
    UnknownPolicy { name: String, known: String },
    #[error("there is no kind of fault `{name}`; choose from: {known}")]
    UnknownFault { name: String, known: String },
    #[error("policy `replay` needs a plan: give the plan.toml of a bug or a trial")]
    NoPlan,
}

type Build = fn(&Scope<'_>) -> Result<Box<dyn Policy>, PolicyError>;

/// All policies, by name.
const POLICIES: &[(&str, Build)] = &[
    ("bsrr", |scope| Ok(Box::new(Bsrr::new(scope)))),
    ("chronos", |scope| Ok(Box::new(Chronos::new(scope)))),
    // What checkers say when nothing is injected: every failure is a false alarm.
    ("clean", |scope| {
        Ok(Box::new(Replay::new(Plan::clean(), scope.times)))
    }),
    ("crashtuner", |scope| Ok(Box::new(Novel::crashtuner(scope)))),
    ("exhaustive", |scope| Ok(Box::new(Exhaustive::new(scope)))),
    ("fate", |scope| Ok(Box::new(Novel::fate(scope)))),
    ("new-state", |scope| Ok(Box::new(Novel::new_state(scope)))),
    ("pairs", |scope| Ok(Box::new(Pairs::new(scope)))),
    ("random", |scope| Ok(Box::new(Random::new(scope)))),
    ("replay", |scope| {
        let plan = scope.plan.ok_or(PolicyError::NoPlan)?;
        Ok(Box::new(Replay::new(plan.clone(), scope.times)))
    }),
    ("scatter", |scope| Ok(Box::new(Scatter::new(scope)))),
    ("sieve", |scope| Ok(Box::new(Novel::sieve(scope)))),
    ("sieve-i", |scope| Ok(Box::new(Novel::sieve_i(scope)))),
    ("sieve-s", |scope| Ok(Box::new(Novel::sieve_s(scope)))),
    ("survey", |scope| Ok(Box::new(Survey::new(scope)))),
];

/// The names that [`build`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, _)| *name)
}

/// Builds a policy by name.
pub fn build(name: &str, scope: &Scope<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let found = POLICIES.iter().find(|(known, _)| *known == name);
    let (_, build) = found.ok_or_else(|| PolicyError::UnknownPolicy {
        name: name.into(),
        known: names().collect::<Vec<_>>().join(", "),
    })?;
    build(scope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Campaign, Simulated};

    /// Plans that the lab may be ahead of what it learned.
    const LAGS: [usize; 2] = [1, 16];

    fn plans(name: &str, seed: u64, count: usize, lag: usize) -> Vec<Plan> {
        let target = Simulated::rich();
        let mut campaign = Campaign::new(&target, name, seed, lag);
        campaign.go(count);
        campaign.plans()
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let target = Simulated::small();
        let error = build("exhastive", &target.scope(1)).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("exhastive") && names().all(|name| text.contains(name)));
        let error = "hang".parse::<FaultKind>().unwrap_err().to_string();
        assert!(error.contains("throw, delay, crash"), "{error}");
    }

    #[test]
    fn replay_without_a_plan_says_what_it_needs() {
        let target = Simulated::small();
        let scope = Scope {
            plan: None,
            ..target.scope(1)
        };
        assert_eq!(build("replay", &scope).err(), Some(PolicyError::NoPlan));
    }

    #[test]
    fn the_same_seed_gives_the_same_plans() {
        for name in names() {
            for lag in LAGS {
                let [one, other] = [0; 2].map(|_| plans(name, 7, 100, lag));
                assert_eq!(one, other, "{name}, lag {lag}");
            }
        }
    }

    #[test]
    fn another_seed_gives_other_plans() {
        for name in names().filter(|name| !["clean", "replay"].contains(name)) {
            assert_ne!(plans(name, 7, 50, 1), plans(name, 8, 50, 1), "{name}");
        }
    }

    #[test]
    fn a_resumed_campaign_equals_an_uninterrupted_one() {
        let target = Simulated::rich();
        for (name, lag) in names().flat_map(|name| LAGS.map(|lag| (name, lag))) {
            let whole = plans(name, 3, 160, lag);
            for cut in [1, 17, 60] {
                let mut before = Campaign::new(&target, name, 3, lag);
                before.go(cut);
                let mut resumed = Campaign::new(&target, name, 3, lag);
                resumed.play(&before.trials);
                resumed.go(160 - cut);
                assert_eq!(resumed.plans(), whole, "{name} cut at {cut}, lag {lag}");
            }
        }
    }

    #[test]
    fn plans_of_policies_that_learn_nothing_do_not_depend_on_the_number_of_jobs() {
        for name in [
            "clean",
            "random",
            "survey",
            "exhaustive",
            "pairs",
            "scatter",
            "replay",
        ] {
            assert_eq!(plans(name, 5, 40, 1), plans(name, 5, 40, 16), "{name}");
        }
    }

    #[test]
    fn what_was_learned_changes_the_plans_of_all_others() {
        for name in ["bsrr", "crashtuner", "fate", "new-state", "sieve"] {
            assert_ne!(plans(name, 5, 40, 1), plans(name, 5, 40, 16), "{name}");
        }
    }
}
