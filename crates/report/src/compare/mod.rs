//! Two campaigns side by side: which bugs each found and how soon, and what each did for it.

mod text;

pub(crate) use text::side_words;

use std::collections::BTreeSet;

use serde::Serialize;
use temblor_model::bug::Bug;
use temblor_model::campaign::Purpose;

use crate::store::{Store, StoreError};
use crate::tally::{self, Verdicts};
use crate::view::CampaignView;

/// What `--json` prints, and what the pages show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub format: u32,
    pub a: Side,
    pub b: Side,
    /// What the two were asked to do differently.
    pub differ: Vec<Difference>,
    pub both: Vec<SameBug>,
    pub only_a: Vec<SameBug>,
    pub only_b: Vec<SameBug>,
}

/// One of the two campaigns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    pub store: String,
    pub target: String,
    pub policy: String,
    pub seed: u64,
    pub jobs: u32,
    pub unfinished: bool,
    /// Search trials, as are all counts below.
    pub trials: u64,
    pub verdicts: Verdicts,
    /// Trials in which a fault fired, and in which a planned one was never reached.
    pub fired: u64,
    pub unreached: u64,
    /// Wall-clock time of all sessions; not known where one was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials_per_hour: Option<f64>,
    /// Distinct sites, and contexts, at which a fault fired.
    pub sites: u64,
    pub contexts: u64,
    /// Basic blocks covered, of all; only with coverage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered: Option<(u64, u64)>,
    /// Signatures: several may be one known bug.
    pub signatures: u64,
    /// After how many search trials each distinct bug was there, in order: the curve of bugs.
    pub found_after: Vec<u64>,
}

/// Something the two campaigns were asked to do differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: &'static str,
    pub a: String,
    pub b: String,
}

/// What counts as one bug in both campaigns: the same known bug, or the same signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SameBug {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    pub title: String,
    pub a: Vec<Found>,
    pub b: Vec<Found>,
}

/// A bug as one campaign found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    pub id: String,
    pub signature: String,
    /// The first trial that showed it.
    pub trial: u64,
    /// How many search trials it took: unlike numbers of trials, comparable.
    pub after: u64,
    /// `3 of 3`.
    pub confirmed: String,
}

impl Comparison {
    pub const FORMAT: u32 = 1;

    /// As one JSON object.
    pub fn json(&self) -> String {
        // Strings, numbers and lists always serialise.
        serde_json::to_string(self).expect("a comparison is plain data")
    }
}

/// Compares what two campaigns have come to so far.
pub fn compare(a: &Store, b: &Store) -> Result<Comparison, StoreError> {
    let (a, b) = (CampaignView::gather(a)?, CampaignView::gather(b)?);
    Ok(of_views(&a, &b))
}

/// As [`compare`], of campaigns already read.
pub fn of_views(a: &CampaignView, b: &CampaignView) -> Comparison {
    let mut comparison = Comparison {
        format: Comparison::FORMAT,
        a: side(a),
        b: side(b),
        differ: differences(a, b),
        both: Vec::new(),
        only_a: Vec::new(),
        only_b: Vec::new(),
    };
    for bug in same_bugs(a, b) {
        let list = match (bug.a.is_empty(), bug.b.is_empty()) {
            (false, false) => &mut comparison.both,
            (false, true) => &mut comparison.only_a,
            (true, _) => &mut comparison.only_b,
        };
        comparison.a.found_after.extend(first_after(&bug.a));
        comparison.b.found_after.extend(first_after(&bug.b));
        list.push(bug);
    }
    comparison.a.found_after.sort_unstable();
    comparison.b.found_after.sort_unstable();
    comparison
}

/// After how many search trials a bug was first there.
fn first_after(found: &[Found]) -> Option<u64> {
    found.iter().map(|f| f.after).min()
}

fn side(view: &CampaignView) -> Side {
    let verdicts = tally::verdicts(view, Purpose::Search);
    let growth = tally::growth(view);
    let last = |totals: &[u64]| totals.last().copied().unwrap_or(0);
    let count = |keep: fn(&temblor_model::bug::Outcome) -> bool| {
        tally::search(view).filter(|t| keep(&t.outcome)).count() as u64
    };
    let per_hour = |seconds: f64| verdicts.all() as f64 * 3600.0 / seconds;
    Side {
        store: view.store.clone(),
        target: view.spec.target.clone(),
        policy: view.spec.policy.clone(),
        seed: view.spec.seed,
        jobs: view.spec.jobs,
        unfinished: view.unfinished,
        trials: verdicts.all(),
        verdicts,
        fired: count(|o| !o.fired.is_empty()),
        unreached: count(|o| !o.unreached.is_empty()),
        seconds: view.session_seconds,
        trials_per_hour: view.session_seconds.map(per_hour),
        sites: last(&growth.sites),
        contexts: last(&growth.contexts),
        covered: view.summary.covered,
        signatures: view.bugs.len() as u64,
        found_after: Vec::new(),
    }
}

fn differences(a: &CampaignView, b: &CampaignView) -> Vec<Difference> {
    let facts = |view: &CampaignView| {
        let s = &view.spec;
        let delay = s.delay_ms.map(|ms| format!("{} s", ms as f64 / 1000.0));
        let speed = view.baseline.as_ref().map(|b| format!("×{}", b.warp));
        [
            ("target", s.target.clone()),
            ("workload", s.workload.clone().unwrap_or_default()),
            ("nodes", s.nodes.map_or(String::new(), |n| n.to_string())),
            ("policy", s.policy.clone()),
            ("seed", s.seed.to_string()),
            ("faults", s.faults.join(",")),
            ("delay", delay.unwrap_or_default()),
            ("sites", s.sites.clone()),
            ("JDK sites", s.jdk_sites.to_string()),
            ("coverage", s.coverage.to_string()),
            ("jobs", s.jobs.to_string()),
            ("clock", speed.unwrap_or_default()),
        ]
    };
    let pairs = facts(a).into_iter().zip(facts(b));
    let differ = pairs.filter(|(a, b)| a.1 != b.1);
    differ
        .map(|((what, a), (_, b))| Difference { what, a, b })
        .collect()
}

/// Bugs of both sides, those that are the same together, the first found first.
fn same_bugs(a: &CampaignView, b: &CampaignView) -> Vec<SameBug> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (is_a, view) in [(true, a), (false, b)] {
        for (after, bug) in tally::found_after(view) {
            let mut group = Group::of(is_a, after, bug);
            // One bug may tie two groups together: by its known id to one, by its signature to
            // the other.
            let (same, others) = groups.into_iter().partition(|g| g.same_as(&group));
            groups = others;
            for other in same {
                group = other.joined(group);
            }
            groups.push(group);
        }
    }
    let mut bugs: Vec<SameBug> = groups.into_iter().map(Group::bug).collect();
    let first = |bug: &SameBug| {
        let all = bug.a.iter().chain(&bug.b);
        all.map(|f| f.after).min().unwrap_or(0)
    };
    bugs.sort_by(|a, b| (first(a), &a.title).cmp(&(first(b), &b.title)));
    bugs
}

/// Bugs that are one.
struct Group<'a> {
    known: BTreeSet<&'a str>,
    signatures: BTreeSet<&'a str>,
    found: Vec<(bool, u64, &'a Bug)>,
}

impl<'a> Group<'a> {
    fn of(is_a: bool, after: u64, bug: &'a Bug) -> Group<'a> {
        Group {
            known: bug.known.as_deref().into_iter().collect(),
            signatures: BTreeSet::from([bug.signature.as_str()]),
            found: vec![(is_a, after, bug)],
        }
    }

    fn same_as(&self, other: &Group<'_>) -> bool {
        let known = self.known.iter().any(|k| other.known.contains(k));
        known || self.signatures.iter().any(|s| other.signatures.contains(s))
    }

    fn joined(mut self, other: Group<'a>) -> Group<'a> {
        self.known.extend(other.known);
        self.signatures.extend(other.signatures);
        self.found.extend(other.found);
        self
    }

    fn bug(self) -> SameBug {
        let known: Vec<&str> = self.known.into_iter().collect();
        let mut same = SameBug {
            known: (!known.is_empty()).then(|| known.join(", ")),
            title: self
                .found
                .first()
                .map_or(String::new(), |f| f.2.title.clone()),
            ..SameBug::default()
        };
        for (is_a, after, bug) in self.found {
            let found = Found {
                id: bug.id.clone(),
                signature: bug.signature.clone(),
                trial: bug.trials.iter().min().copied().unwrap_or(0),
                after,
                confirmed: format!("{} of {}", bug.confirmed.times, bug.confirmed.of),
            };
            match is_a {
                true => same.a.push(found),
                false => same.b.push(found),
            }
        }
        same
    }
}
