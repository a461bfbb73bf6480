//! A campaign counted: verdicts, checkers, and how bugs and sites grow with its search trials.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use temblor_model::bug::{Bug, Verdict};
use temblor_model::campaign::Purpose;

use crate::view::{CampaignView, TrialLine};

/// How many trials came to each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    pub pass: u64,
    pub unknown: u64,
    pub fail: u64,
}

impl Verdicts {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Pass => self.pass += 1,
            Verdict::Unknown => self.unknown += 1,
            Verdict::Fail => self.fail += 1,
        }
    }

    pub fn all(self) -> u64 {
        self.pass + self.unknown + self.fail
    }
}

/// The verdicts of the trials that were run for one purpose.
pub fn verdicts(view: &CampaignView, purpose: Purpose) -> Verdicts {
    let mut verdicts = Verdicts::default();
    let trials = view.trials.iter().filter(|t| t.purpose == purpose);
    trials.for_each(|t| verdicts.add(t.outcome.verdict));
    verdicts
}

/// What one checker came to in the search trials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckerTally {
    pub checker: String,
    pub verdicts: Verdicts,
    /// Bugs that show a symptom of this checker.
    pub bugs: u64,
}

/// All checkers of a campaign, by name.
pub fn checkers(view: &CampaignView) -> Vec<CheckerTally> {
    let mut by_name: BTreeMap<&str, CheckerTally> = BTreeMap::new();
    for trial in search(view) {
        for judgement in &trial.outcome.judgements {
            let tally = by_name.entry(&judgement.checker).or_default();
            tally.verdicts.add(judgement.verdict);
        }
    }
    for (bug, _) in &view.bugs {
        let names: BTreeSet<&str> = bug.symptoms.iter().map(|s| s.checker.as_str()).collect();
        for name in names {
            by_name.entry(name).or_default().bugs += 1;
        }
    }
    let named = |(name, tally): (&str, CheckerTally)| CheckerTally {
        checker: name.to_owned(),
        ..tally
    };
    by_name.into_iter().map(named).collect()
}

/// The search trials in the order of their numbers.
pub fn search(view: &CampaignView) -> impl Iterator<Item = &TrialLine> {
    let search = |t: &&TrialLine| t.purpose == Purpose::Search;
    view.trials.iter().filter(search)
}

/// Running totals after each search trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    pub faults: Vec<u64>,
    /// Distinct sites at which a fault fired.
    pub sites: Vec<u64>,
    /// Distinct contexts: a site, reached in one way.
    pub contexts: Vec<u64>,
}

/// How a campaign's reach grows.
pub fn growth(view: &CampaignView) -> Growth {
    let mut growth = Growth::default();
    let (mut faults, mut sites, mut contexts) = (0, BTreeSet::new(), BTreeSet::new());
    for trial in search(view) {
        for fired in &trial.outcome.fired {
            faults += 1;
            // The lab's own faults have no site.
            if !fired.site.is_empty() {
                sites.insert(&fired.site);
                contexts.insert((&fired.site, &fired.stack));
            }
        }
        growth.faults.push(faults);
        growth.sites.push(sites.len() as u64);
        growth.contexts.push(contexts.len() as u64);
    }
    growth
}

/// After how many search trials each bug was there, in that order. A bug counts from the first
/// search trial at or after the one that showed it first.
pub fn found_after(view: &CampaignView) -> Vec<(u64, &Bug)> {
    let numbers: Vec<u64> = search(view).map(|t| t.trial).collect();
    let found = |bug: &Bug| {
        let first = bug.trials.iter().min().copied().unwrap_or(0);
        let before = numbers.partition_point(|n| *n < first);
        (before as u64 + 1).min(numbers.len() as u64)
    };
    let mut all: Vec<(u64, &Bug)> = view.bugs.iter().map(|(b, _)| (found(b), b)).collect();
    all.sort_by(|a, b| (a.0, &a.1.id).cmp(&(b.0, &b.1.id)));
    all
}
