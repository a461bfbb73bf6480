//! Several policies on one target: which bugs each exposed, in which trial and after which time.
//!
//! Every policy runs with every seed. Each such pair is a campaign of its own in the store; the
//! contest's folder, beside them, says which they are and what they came to.

mod curve;
pub(crate) mod table;

pub use curve::{Over, median_steps, steps};
pub use table::{Row, Table, resume_command};

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use temblor_model::bug::Outcome;
use temblor_model::campaign::{CampaignEvent, CampaignSpec};

use crate::store::{Store, StoreError, folder_name, fresh_folder, names_in, read_json};
use crate::tally;
use crate::view::CampaignView;

const FILE: &str = "compare.json";
const FOLDER_PREFIX: &str = "compare-";

/// All campaigns of a contest: what `compare.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    pub format: u32,
    /// What every campaign is asked to do; policy and seed are each one's own.
    pub spec: CampaignSpec,
    pub policies: Vec<String>,
    pub seeds: Vec<u64>,
    pub campaigns: Vec<Entry>,
}

/// One policy with one seed: a campaign, and what it came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub policy: String,
    pub seed: u64,
    /// The name of the campaign's folder, which lies beside the contest's.
    pub folder: String,
    /// It ended by itself: by its trials, its budget, or because its policy had no more plans.
    pub finished: bool,
    /// Search trials, as are all counts below.
    pub trials: u64,
    /// Trials in which a fault fired, in which a planned one was never reached, and without
    /// a verdict.
    pub fired: u64,
    pub unreached: u64,
    pub unknown: u64,
    /// Faults that fired.
    pub injections: u64,
    /// What the search took, confirmations included, clean runs not.
    pub seconds: f64,
    /// The first exposed first.
    pub bugs: Vec<Exposed>,
}

/// A bug as one campaign exposed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exposed {
    /// What makes it the same bug in another campaign: the known bug it matches, else its
    /// signature.
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    pub id: String,
    pub title: String,
    /// The first trial that showed it, counted among the search trials from 1.
    pub trial: u64,
    /// From the beginning of the search to the end of that trial; none where it was not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// A campaign that is still to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub policy: String,
    pub seed: u64,
    /// Its folder, where it was begun before.
    pub folder: Option<String>,
}

impl Contest {
    pub const FORMAT: u32 = 1;

    pub fn new(spec: CampaignSpec, policies: Vec<String>, seeds: Vec<u64>) -> Contest {
        Contest {
            format: Contest::FORMAT,
            spec,
            policies,
            seeds,
            campaigns: Vec::new(),
        }
    }

    /// Reads what a contest's folder says.
    pub fn open(folder: &Path) -> Result<Contest, StoreError> {
        read_json(&folder.join(FILE), Contest::FORMAT)
    }

    /// Makes a folder for a new contest among the campaigns of its target.
    pub fn create_folder(&self, root: &Path, stamp: &str) -> Result<PathBuf, StoreError> {
        let target = root.join(folder_name(&self.spec.target));
        fs::create_dir_all(&target).map_err(StoreError::io(&target, "cannot make the folder"))?;
        fresh_folder(&target, &folder_name(&format!("{FOLDER_PREFIX}{stamp}")))
    }

    /// The campaigns that are not finished, in their order: every policy has its first seed
    /// before any has its second, so that a contest that is cut short still compares.
    pub fn left(&self) -> Vec<Turn> {
        let pairs = self.seeds.iter();
        let pairs = pairs.flat_map(|seed| self.policies.iter().map(move |p| (p, *seed)));
        let turn = |(policy, seed): (&String, u64)| {
            let entry = self.entry(policy, seed);
            let is_left = entry.is_none_or(|e| !e.finished);
            is_left.then(|| Turn {
                policy: policy.clone(),
                seed,
                folder: entry.map(|e| e.folder.clone()),
            })
        };
        pairs.filter_map(turn).collect()
    }

    pub fn entry(&self, policy: &str, seed: u64) -> Option<&Entry> {
        let mut all = self.campaigns.iter();
        all.find(|e| e.policy == policy && e.seed == seed)
    }

    /// Puts an entry into its place, in the place of what was known of it before.
    pub fn put(&mut self, entry: Entry) {
        let same = |e: &Entry| (&e.policy, e.seed) == (&entry.policy, entry.seed);
        match self.campaigns.iter().position(same) {
            Some(at) => self.campaigns[at] = entry,
            None => self.campaigns.push(entry),
        }
    }

    /// The campaigns of one policy that have trials, by seed.
    pub fn of_policy(&self, policy: &str) -> Vec<&Entry> {
        let of_seed = |seed: &u64| self.entry(policy, *seed);
        let all = self.seeds.iter().filter_map(of_seed);
        all.filter(|e| e.finished || e.trials > 0).collect()
    }

    /// What the campaign of one policy and seed is asked to do.
    pub fn spec_of(&self, turn: &Turn) -> CampaignSpec {
        CampaignSpec {
            policy: turn.policy.clone(),
            seed: turn.seed,
            ..self.spec.clone()
        }
    }

    /// How many campaigns there are to be, and how many of them are finished.
    pub fn done(&self) -> (usize, usize) {
        let of = self.policies.len() * self.seeds.len();
        (of - self.left().len(), of)
    }

    /// As one JSON object on one line.
    pub fn json(&self) -> String {
        // Strings, numbers and lists always serialise.
        serde_json::to_string(self).expect("a contest is plain data")
    }
}

impl Entry {
    /// What a campaign in the store has come to so far.
    pub fn gather(store: &Store, finished: bool) -> Result<Entry, StoreError> {
        let view = CampaignView::gather(store)?;
        let clock = SearchClock::read(store)?;
        let folder = store.path().file_name().unwrap_or_default();
        Ok(Entry {
            folder: folder.to_string_lossy().into_owned(),
            finished,
            ..Entry::of_view(&view, &clock)
        })
    }

    fn of_view(view: &CampaignView, clock: &SearchClock) -> Entry {
        let count = |keep: fn(&Outcome) -> bool| {
            tally::search(view).filter(|t| keep(&t.outcome)).count() as u64
        };
        let mut entry = Entry {
            policy: view.spec.policy.clone(),
            seed: view.spec.seed,
            trials: count(|_| true),
            fired: count(|o| !o.fired.is_empty()),
            unreached: count(|o| !o.unreached.is_empty()),
            unknown: count(|o| o.verdict == temblor_model::bug::Verdict::Unknown),
            injections: tally::search(view)
                .map(|t| t.outcome.fired.len() as u64)
                .sum(),
            seconds: clock.seconds,
            ..Entry::default()
        };
        for (trial, bug) in tally::found_after(view) {
            let key = bug.known.clone().unwrap_or_else(|| bug.signature.clone());
            // Several signatures may be one known bug; the first one tells when it was exposed.
            if entry.bugs.iter().any(|b| b.key == key) {
                continue;
            }
            let first = bug.trials.iter().min();
            entry.bugs.push(Exposed {
                key,
                known: bug.known.clone(),
                id: bug.id.clone(),
                title: bug.title.clone(),
                trial,
                seconds: first.and_then(|first| clock.at.get(first).copied()),
            });
        }
        entry
    }

    /// Search trials an hour; none before there is one.
    pub fn trials_per_hour(&self) -> Option<f64> {
        let known = self.trials > 0 && self.seconds > 0.0;
        known.then(|| self.trials as f64 * 3600.0 / self.seconds)
    }
}

/// When trials ended, in seconds of searching: what lies between two sessions does not count.
#[derive(Debug, Default)]
struct SearchClock {
    at: BTreeMap<u64, f64>,
    seconds: f64,
}

impl SearchClock {
    fn read(store: &Store) -> Result<SearchClock, StoreError> {
        let mut clock = SearchClock::default();
        let mut before = 0.0;
        for event in store.campaign_events()?.values {
            let at_s = match event {
                CampaignEvent::Started { .. } => {
                    before = clock.seconds;
                    continue;
                }
                CampaignEvent::TrialDone {
                    trial,
                    at_s: Some(at_s),
                    ..
                } => {
                    clock.at.insert(trial, before + at_s);
                    at_s
                }
                CampaignEvent::Finished { summary } => summary.search_seconds,
                _ => continue,
            };
            clock.seconds = clock.seconds.max(before + at_s);
        }
        Ok(clock)
    }
}

/// The folder of a contest: a path (of the folder or of a file in it), or its name in the store.
pub fn find_contest(root: &Path, wanted: &str) -> Result<PathBuf, StoreError> {
    let direct = Path::new(wanted);
    for folder in [Some(direct), direct.parent(), Some(&root.join(wanted))] {
        if let Some(folder) = folder.filter(|f| f.join(FILE).is_file()) {
            return Ok(folder.to_owned());
        }
    }
    let mut there = Vec::new();
    for target in names_in(root)?.into_iter().filter(|n| n != "latest") {
        for name in names_in(&root.join(&target)).unwrap_or_default() {
            let folder = root.join(&target).join(&name);
            if !name.starts_with(FOLDER_PREFIX) || !folder.join(FILE).is_file() {
                continue;
            }
            if name == wanted {
                return Ok(folder);
            }
            there.push(format!("{target}/{name}"));
        }
    }
    Err(StoreError::NotFound {
        what: "comparison",
        wanted: wanted.to_owned(),
        root: root.to_owned(),
        there,
    })
}
