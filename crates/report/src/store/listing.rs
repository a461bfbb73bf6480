//! A campaign's finished trials, a line each: what a list shows without opening any of them.

use std::collections::HashMap;

use serde::Serialize;
use temblor_model::bug::{Judgement, Outcome, Verdict};
use temblor_model::campaign::Purpose;

use super::{Store, StoreError, index};

/// One finished trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    pub trial: u64,
    pub purpose: Purpose,
    pub verdict: Verdict,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// The first fault that fired; site and node are empty for faults the lab executes.
    pub fault: Option<String>,
    pub site: Option<String>,
    pub node: Option<String>,
    /// The checker that decided, and its first symptom, or why it cannot tell.
    pub checker: Option<String>,
    pub symptom: Option<String>,
    /// Ids of the bugs it showed.
    pub bugs: Vec<String>,
}

impl Listed {
    pub(crate) fn of(trial: u64, purpose: Purpose, outcome: &Outcome, bugs: Vec<String>) -> Listed {
        let decided = |j: &&Judgement| j.verdict == outcome.verdict;
        let decisive = outcome
            .judgements
            .iter()
            .find(decided)
            .filter(|_| outcome.verdict != Verdict::Pass);
        let symptom = |j: &Judgement| {
            let first = j.symptoms.first().map(|s| s.summary.clone());
            first.or_else(|| j.reason.clone())
        };
        let fired = outcome.fired.first();
        Listed {
            trial,
            purpose,
            verdict: outcome.verdict,
            seconds: outcome.seconds,
            cpu_seconds: outcome.cpu_seconds,
            fault: fired.map(|f| f.fault.clone()),
            site: fired.map(|f| f.site.clone()),
            node: fired.map(|f| f.node.clone()),
            checker: decisive.map(|j| j.checker.clone()),
            symptom: decisive.and_then(symptom),
            bugs,
        }
    }
}

impl Store {
    /// The finished trials by number.
    pub fn listing(&self) -> Result<Vec<Listed>, StoreError> {
        match index::ask(self, |index, store| index.listing(store))? {
            Some(listed) => Ok(listed),
            None => self.listing_of_files(),
        }
    }

    /// The same, however long it takes.
    pub fn listing_of_files(&self) -> Result<Vec<Listed>, StoreError> {
        let purposes = self.purposes_of_files()?;
        let mut bugs: HashMap<u64, Vec<String>> = HashMap::new();
        let mut all = self.bugs()?;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        for bug in all {
            for trial in bug.trials {
                let ids = bugs.entry(trial).or_default();
                if ids.last() != Some(&bug.id) {
                    ids.push(bug.id.clone());
                }
            }
        }
        let line = |(trial, (_, outcome)): (u64, (_, Outcome))| {
            let purpose = purposes.get(&trial).copied().unwrap_or(Purpose::Search);
            let bugs = bugs.remove(&trial).unwrap_or_default();
            Listed::of(trial, purpose, &outcome, bugs)
        };
        let trials = self.trials_of_files()?.done;
        Ok(trials.into_iter().map(line).collect())
    }
}
