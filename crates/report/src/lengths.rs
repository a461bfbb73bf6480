//! What the length of a delay changes: trials that delayed one call in one context and differ in
//! nothing but how long. A call may bear 15 seconds and not 60; a warning that a short delay brings
//! about may be missing after a longer one.
//!
//! Only trials with a single fault are compared, by what fails and by what the thread that was hit
//! logs and clean runs do not: other threads have other reasons, too.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use temblor_model::bug::{Misbehaviour, Verdict};
use temblor_model::plan::Fault;

use crate::tally;
use crate::view::{CampaignView, TrialLine};

/// A call in one context that was delayed for several lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swept {
    pub site: String,
    /// Hash of the stack.
    pub stack: String,
    /// Abstract state of the task that was hit, where it was the same in all trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The shortest first.
    pub lengths: Vec<Length>,
}

/// What a delay of one length came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Length {
    /// Virtual milliseconds.
    pub ms: u64,
    pub trials: Vec<u64>,
    /// The worst of its trials.
    pub verdict: Verdict,
    /// What showed with this length, and not with every other one.
    pub only: BTreeSet<String>,
}

/// Trials by the delay's length in milliseconds.
type ByLength<'t> = BTreeMap<u64, Vec<&'t TrialLine>>;

impl Swept {
    /// Whether trials of different lengths came to different verdicts.
    pub fn turns(&self) -> bool {
        self.lengths
            .windows(2)
            .any(|w| w[0].verdict != w[1].verdict)
    }
}

/// Where the length of a delay makes a difference; different verdicts first.
pub fn swept(view: &CampaignView) -> Vec<Swept> {
    let mut places: BTreeMap<(&str, &str), ByLength<'_>> = BTreeMap::new();
    for trial in tally::search(view) {
        let [fired] = trial.outcome.fired.as_slice() else {
            continue;
        };
        let Some(Fault::Delay { ms }) = Fault::from_text(&fired.fault) else {
            continue;
        };
        let of_place = places.entry((&fired.site, &fired.stack)).or_default();
        of_place.entry(ms).or_default().push(trial);
    }
    let of_place = |((site, stack), by_length): ((&str, &str), ByLength<'_>)| Swept {
        site: site.to_owned(),
        stack: stack.to_owned(),
        state: state(by_length.values().flatten()),
        lengths: lengths(&by_length),
    };
    let mut swept: Vec<Swept> = places.into_iter().map(of_place).collect();
    swept.retain(|s| s.turns() || s.lengths.iter().any(|l| !l.only.is_empty()));
    swept.sort_by_key(|s| !s.turns());
    swept
}

fn state<'t>(trials: impl Iterator<Item = &'t &'t TrialLine>) -> Option<String> {
    let states = trials.flat_map(|t| &t.outcome.fired).map(|f| &f.state);
    let states: BTreeSet<&Option<String>> = states.collect();
    match Vec::from_iter(states).as_slice() {
        [one] => Option::clone(one),
        _ => None,
    }
}

fn lengths(by_length: &ByLength<'_>) -> Vec<Length> {
    let shown: Vec<BTreeSet<&str>> = by_length.values().map(|trials| shows(trials)).collect();
    let everywhere = |what: &&str| shown.iter().all(|shows| shows.contains(what));
    let length = |((ms, trials), shows): ((&u64, &Vec<&TrialLine>), &BTreeSet<&str>)| Length {
        ms: *ms,
        trials: trials.iter().map(|t| t.trial).collect(),
        verdict: worst(trials),
        only: shows
            .iter()
            .filter(|what| !everywhere(what))
            .map(|what| (*what).to_owned())
            .collect(),
    };
    by_length.iter().zip(&shown).map(length).collect()
}

fn worst(trials: &[&TrialLine]) -> Verdict {
    let verdicts = trials.iter().map(|t| t.outcome.verdict);
    verdicts.max().unwrap_or(Verdict::Pass)
}

/// What failed, and what the thread that was hit says of it.
fn shows<'t>(trials: &[&'t TrialLine]) -> BTreeSet<&'t str> {
    let judgements = trials.iter().flat_map(|t| &t.outcome.judgements);
    let symptoms = judgements.flat_map(|j| j.symptoms.iter().map(|s| (j.verdict, s)));
    let counts = symptoms.filter(|(verdict, symptom)| {
        let is_reaction = matches!(symptom.shows, Misbehaviour::Reaction(_));
        *verdict == Verdict::Fail || is_reaction
    });
    counts
        .map(|(_, symptom)| symptom.summary.as_str())
        .collect()
}
