//! The store: where everything a campaign came to lies on disk, and how it is read again.
//!
//! ```text
//! <root>/<target>/<stamp>/   campaign.toml catalog.json baseline.json campaign.jsonl
//!     trials/<n>/            plan.toml outcome.json, events.jsonl or events.jsonl.gz,
//!                            logs/ nodes/ clients/ unless thinned (`keep.rs`)
//!     bugs/<id>/             bug.json plan.toml report.html report.md
//!     campaign.html states.html machines.json lengths.json report.md junit.xml results.sarif
//!     index.sqlite           the trials and bugs in tables, made from the files (`index.rs`)
//!     lab.pid                locked by the process that runs the campaign (`claim.rs`)
//! <root>/<target>/compare-<stamp>/         several campaigns compared (`contest`)
//! <root>/<target>/latest, <root>/latest      links to the newest campaign
//! ```
//!
//! Invariant: whatever ends the process, what was announced can be read again. Whole files appear
//! by rename, streams grow by lines, and a trial is whole once its outcome.json is there.

mod claim;
mod error;
mod files;
mod find;
mod index;
mod keep;
mod listing;
mod sink;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use temblor_model::bug::{Bug, Outcome};
use temblor_model::campaign::{CampaignEvent, CampaignSpec, Purpose};
use temblor_model::catalog::SiteCatalog;
use temblor_model::event::Event;
use temblor_model::history::Baseline;
use temblor_model::plan::Plan;

pub use claim::{Claim, Runner, running};
pub use error::StoreError;
pub use files::{LineFile, Lines};
pub(crate) use files::{read_json, read_lines, read_toml, write_json, write_toml, write_whole};
pub use find::{campaigns, find_bug, find_campaign};
pub use listing::Listed;
pub use sink::{StoreFailure, StoreSink};

/// Newest formats this version reads, where the model names no constant.
const BUG_FORMAT: u32 = 1;
const BASELINE_FORMAT: u32 = 1;

/// One campaign's folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    spec: CampaignSpec,
    claim: Option<Arc<Claim>>,
}

/// The finished trials of a campaign, and those that are not whole.
#[derive(Debug, Default)]
pub struct Trials {
    pub done: BTreeMap<u64, (Plan, Outcome)>,
    /// Half-written trials with the reason: left out, never deleted.
    pub torn: Vec<(String, String)>,
}

impl Store {
    /// Makes the folder of a new campaign and points the `latest` links at it.
    pub fn create(root: &Path, spec: &CampaignSpec, stamp: &str) -> Result<Store, StoreError> {
        let target = root.join(folder_name(&spec.target));
        fs::create_dir_all(&target).map_err(StoreError::io(&target, "cannot make the folder"))?;
        let folder = fresh_folder(&target, &folder_name(stamp))?;
        for part in ["trials", "bugs"] {
            let part = folder.join(part);
            fs::create_dir(&part).map_err(StoreError::io(&part, "cannot make the folder"))?;
        }
        write_toml(&folder.join("campaign.toml"), spec)?;
        let name = folder.file_name().unwrap_or_default();
        link_latest(&target.join("latest"), Path::new(name))?;
        let from_root = Path::new(target.file_name().unwrap_or_default()).join(name);
        link_latest(&root.join("latest"), &from_root)?;
        let spec = spec.clone();
        let claim = None;
        Ok(Store {
            folder,
            spec,
            claim,
        })
    }

    /// Opens the folder of a campaign: to resume it, to report on it, to replay its bugs.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let spec = read_toml(&path.join("campaign.toml"), CampaignSpec::FORMAT)?;
        Ok(Store {
            folder: path.to_owned(),
            spec,
            claim: None,
        })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    pub fn spec(&self) -> &CampaignSpec {
        &self.spec
    }

    /// Changes what the campaign was asked to do: a resumed one may be asked for more.
    pub fn change_spec(
        &mut self,
        change: impl FnOnce(&mut CampaignSpec),
    ) -> Result<(), StoreError> {
        change(&mut self.spec);
        write_toml(&self.folder.join("campaign.toml"), &self.spec)
    }

    pub fn trial_dir(&self, trial: u64) -> PathBuf {
        self.folder.join("trials").join(trial.to_string())
    }

    /// Where the lab puts the logs of a trial's processes.
    pub fn logs_dir(&self, trial: u64) -> PathBuf {
        self.trial_dir(trial).join("logs")
    }

    pub fn events_path(&self, trial: u64) -> PathBuf {
        self.trial_dir(trial).join("events.jsonl")
    }

    pub fn bug_dir(&self, id: &str) -> PathBuf {
        self.folder.join("bugs").join(folder_name(id))
    }

    pub fn write_catalog(&self, catalog: &SiteCatalog) -> Result<(), StoreError> {
        write_json(&self.folder.join("catalog.json"), catalog)
    }

    pub fn catalog(&self) -> Result<Option<SiteCatalog>, StoreError> {
        if_there(&self.folder.join("catalog.json"), SiteCatalog::FORMAT)
    }

    pub fn write_baseline(&self, baseline: &Baseline) -> Result<(), StoreError> {
        write_json(&self.folder.join("baseline.json"), baseline)
    }

    pub fn baseline(&self) -> Result<Option<Baseline>, StoreError> {
        if_there(&self.folder.join("baseline.json"), BASELINE_FORMAT)
    }

    /// Makes a trial's folder and stores its plan. What an interrupted attempt under the same
    /// number left is kept beside it.
    pub fn start_trial(&self, trial: u64, plan: &Plan) -> Result<LineFile, StoreError> {
        let folder = self.trial_dir(trial);
        if folder.join("outcome.json").exists() {
            return Err(StoreError::TrialExists {
                path: folder,
                trial,
            });
        }
        if folder.join("plan.toml").exists() {
            set_aside(&folder)?;
        }
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).map_err(StoreError::io(&logs, "cannot make the folder"))?;
        write_toml(&folder.join("plan.toml"), plan)?;
        LineFile::append_to(&self.events_path(trial))
    }

    pub fn write_outcome(&self, outcome: &Outcome) -> Result<(), StoreError> {
        let path = self.trial_dir(outcome.trial).join("outcome.json");
        write_json(&path, outcome)
    }

    /// Puts another judgement of a trial in the place of the stored one, which is kept beside
    /// it. After several, the one beside it is still the first: what the campaign acted on.
    pub fn rejudge(&self, outcome: &Outcome) -> Result<(), StoreError> {
        let path = self.trial_dir(outcome.trial).join("outcome.json");
        let before = path.with_extension("json.before");
        if !before.exists() {
            let first = fs::read(&path).map_err(StoreError::io(&path, "cannot read"))?;
            write_whole(&before, &first)?;
        }
        self.write_outcome(outcome)
    }

    /// The events of a trial, thinned or not; torn lines are counted and left out.
    pub fn events(&self, trial: u64) -> Result<Lines<Event>, StoreError> {
        load_events(&self.events_path(trial))
    }

    /// The finished trials by number.
    pub fn outcomes(&self) -> Result<BTreeMap<u64, (Plan, Outcome)>, StoreError> {
        Ok(self.trials()?.done)
    }

    /// All trials: the finished ones, and what is left of those that were interrupted.
    pub fn trials(&self) -> Result<Trials, StoreError> {
        match index::ask(self, |index, store| index.trials(store))? {
            Some(trials) => Ok(trials),
            None => self.trials_of_files(),
        }
    }

    /// The same, however long it takes.
    pub fn trials_of_files(&self) -> Result<Trials, StoreError> {
        let mut trials = Trials::default();
        for name in names_in(&self.folder.join("trials"))? {
            let folder = self.folder.join("trials").join(&name);
            let Ok(number) = name.parse::<u64>() else {
                trials.torn.push((name, "set aside by a resume".into()));
                continue;
            };
            match read_trial(&folder) {
                Ok(Some(whole)) => {
                    trials.done.insert(number, whole);
                }
                Ok(None) => trials.torn.push((name, "no outcome: interrupted".into())),
                Err(newer @ StoreError::Newer { .. }) => return Err(newer),
                Err(e) => trials.torn.push((name, e.to_string())),
            }
        }
        Ok(trials)
    }

    /// One finished trial, if it is whole.
    pub fn trial(&self, trial: u64) -> Result<Option<(Plan, Outcome)>, StoreError> {
        read_trial(&self.trial_dir(trial))
    }

    /// Why each trial was run, as the campaign's stream tells.
    pub fn purposes(&self) -> Result<BTreeMap<u64, Purpose>, StoreError> {
        match index::ask(self, |index, store| index.purposes(store))? {
            Some(purposes) => Ok(purposes),
            None => self.purposes_of_files(),
        }
    }

    fn purposes_of_files(&self) -> Result<BTreeMap<u64, Purpose>, StoreError> {
        let lines = self.campaign_events()?;
        let purpose = |event: &CampaignEvent| match event {
            CampaignEvent::TrialStarted { trial, purpose, .. }
            | CampaignEvent::TrialDone { trial, purpose, .. } => Some((*trial, *purpose)),
            _ => None,
        };
        Ok(lines.values.iter().filter_map(purpose).collect())
    }

    /// The stream of the campaign, without the events inside trials.
    pub fn campaign_events(&self) -> Result<Lines<CampaignEvent>, StoreError> {
        read_lines(&self.folder.join("campaign.jsonl"))
    }

    pub(crate) fn campaign_lines(&self) -> Result<LineFile, StoreError> {
        LineFile::append_to(&self.folder.join("campaign.jsonl"))
    }

    /// Stores a bug and its plan; a bug that is there already is replaced.
    pub fn write_bug(&self, bug: &Bug) -> Result<(), StoreError> {
        let folder = self.bug_dir(&bug.id);
        write_toml(&folder.join("plan.toml"), &bug.plan)?;
        write_json(&folder.join("bug.json"), bug)
    }

    pub fn bug(&self, id: &str) -> Result<Bug, StoreError> {
        read_json(&self.bug_dir(id).join("bug.json"), BUG_FORMAT)
    }

    /// The bugs found so far, the first found first. Folders without a whole bug.json are left
    /// out: the bug will be found again when the campaign is resumed.
    pub fn bugs(&self) -> Result<Vec<Bug>, StoreError> {
        let mut bugs: Vec<Bug> = Vec::new();
        for name in names_in(&self.folder.join("bugs"))? {
            match self.bug(&name) {
                Ok(bug) => bugs.push(bug),
                Err(newer @ StoreError::Newer { .. }) => return Err(newer),
                Err(_) => continue,
            }
        }
        bugs.sort_by(|a, b| (a.trials.first(), &a.id).cmp(&(b.trials.first(), &b.id)));
        Ok(bugs)
    }
}

/// Reads the events of a trial from its `events.jsonl`, or from the compressed file in its place.
pub fn load_events(path: &Path) -> Result<Lines<Event>, StoreError> {
    read_lines(path)
}

fn read_trial(folder: &Path) -> Result<Option<(Plan, Outcome)>, StoreError> {
    let outcome = folder.join("outcome.json");
    if !outcome.exists() {
        return Ok(None);
    }
    let plan = read_toml(&folder.join("plan.toml"), Plan::FORMAT)?;
    Ok(Some((plan, read_json(&outcome, Outcome::FORMAT)?)))
}

fn if_there<T: serde::de::DeserializeOwned>(
    path: &Path,
    known: u32,
) -> Result<Option<T>, StoreError> {
    match path.exists() {
        true => read_json(path, known).map(Some),
        false => Ok(None),
    }
}

/// The names in a folder, sorted; hidden ones (temporary files) are left out.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io(folder, "cannot list")(e)),
    };
    let names = entries.flatten();
    let names = names.map(|e| e.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('.')).collect();
    names.sort();
    Ok(names)
}

/// A name that is one path component, whatever the user called the target.
pub(crate) fn folder_name(name: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || "@._+-".contains(c);
    let name: String = name
        .chars()
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    match name.trim_start_matches('.') {
        "" | "latest" => format!("_{name}"),
        visible => visible.to_owned(),
    }
}

/// Two campaigns in one second get two folders.
pub(crate) fn fresh_folder(target: &Path, stamp: &str) -> Result<PathBuf, StoreError> {
    const MOST_PER_STAMP: u32 = 1000;
    let mut folder = target.join(stamp);
    for attempt in 2..=MOST_PER_STAMP {
        match fs::create_dir(&folder) {
            Ok(()) => break,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < MOST_PER_STAMP => {
                folder = target.join(format!("{stamp}-{attempt}"));
            }
            Err(e) => return Err(StoreError::io(&folder, "cannot make the folder")(e)),
        }
    }
    Ok(folder)
}

/// Replaces a link in one step, so that `latest` always leads somewhere.
fn link_latest(link: &Path, to: &Path) -> Result<(), StoreError> {
    let temporary = link.with_file_name(format!(".latest.{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    std::os::unix::fs::symlink(to, &temporary)
        .and_then(|()| fs::rename(&temporary, link))
        .map_err(StoreError::io(link, "cannot make the link"))
}

fn set_aside(folder: &Path) -> Result<(), StoreError> {
    const MOST_ATTEMPTS: u32 = 10_000;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = (1..MOST_ATTEMPTS)
        .map(|n| folder.with_file_name(format!("{name}.interrupted-{n}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| folder.with_file_name(format!("{name}.interrupted")));
    fs::rename(folder, &aside).map_err(StoreError::io(folder, "cannot set aside"))
}
