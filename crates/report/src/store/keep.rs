//! What is kept of a trial, so that a long campaign does not fill the disk.
//!
//! | trial | what stays |
//! |---|---|
//! | passed | plan, outcome, events (compressed): all that reports and checkers read |
//! | a clean run that passed | its logs too; the first one is kept whole |
//! | failed, unknown | everything, as long as all trials together fit into the limit |
//!
//! Over the limit, trials lose their nodes' files first, then clients' files and logs: what was
//! interrupted, then the oldest that are known to be no bug or one more sighting of one, then
//! those not decided yet. Never the first trial of a bug, nor the one its report shows.
//!
//! All of it happens in a thread of its own: the campaign must not wait for folders to vanish.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use temblor_model::bug::Verdict;
use temblor_model::campaign::Purpose;

use super::{Store, files, names_in};

/// Hands finished trials to the thread that thins them; dropped, it waits until that is done.
pub(super) struct Keeper {
    done: Option<Sender<Done>>,
    thread: Option<JoinHandle<()>>,
}

struct Done {
    trial: u64,
    purpose: Purpose,
    verdict: Verdict,
}

impl Keeper {
    pub(super) fn new() -> Keeper {
        Keeper {
            done: None,
            thread: None,
        }
    }

    /// A trial whose files are all written and whose processes are gone.
    pub(super) fn done(&mut self, store: &Store, trial: u64, purpose: Purpose, verdict: Verdict) {
        let done = self.done.get_or_insert_with(|| {
            let (done, inbox) = channel();
            let store = store.clone();
            let work = move || Trials::of(store).work(&inbox);
            let name = std::thread::Builder::new().name("keeper".into());
            // Without the thread all is kept, which is no loss.
            self.thread = name.spawn(work).ok();
            done
        });
        let _ = done.send(Done {
            trial,
            purpose,
            verdict,
        });
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.done = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How much of a trial is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Whole,
    /// All but the nodes' files.
    Logs,
    /// What every trial keeps.
    Events,
}

struct Kept {
    purpose: Purpose,
    verdict: Verdict,
    left: Left,
    bytes: u64,
}

/// The trials of a campaign as they lie on the disk.
struct Trials {
    store: Store,
    limit_bytes: u64,
    finished: BTreeMap<u64, Kept>,
    /// Folders that a resume set aside, with what they take.
    interrupted: BTreeMap<PathBuf, u64>,
    first_clean: Option<u64>,
}

impl Trials {
    /// Looks at what earlier sessions left.
    fn of(store: Store) -> Trials {
        let mut trials = Trials {
            limit_bytes: store.spec().keep_mb.saturating_mul(1_000_000),
            finished: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            first_clean: None,
            store,
        };
        let folder = trials.store.path().join("trials");
        for name in names_in(&folder).unwrap_or_default() {
            if name.parse::<u64>().is_err() {
                let path = folder.join(name);
                let bytes = disk_bytes(&path);
                trials.interrupted.insert(path, bytes);
            }
        }
        for line in trials.store.listing().unwrap_or_default() {
            trials.take(line.trial, line.purpose, line.verdict);
        }
        trials
    }

    fn work(mut self, inbox: &Receiver<Done>) {
        while let Ok(done) = inbox.recv() {
            // The first one was there already when the folder was looked at.
            if !self.finished.contains_key(&done.trial) {
                self.take(done.trial, done.purpose, done.verdict);
            }
            self.keep_to_limit();
        }
    }

    /// Adds a finished trial; one that passed is thinned.
    fn take(&mut self, trial: u64, purpose: Purpose, verdict: Verdict) {
        let folder = self.store.trial_dir(trial);
        let passed = verdict == Verdict::Pass;
        let clean = purpose == Purpose::Baseline;
        let first = passed && clean && self.first_clean.is_none_or(|first| first >= trial);
        if first {
            self.first_clean = Some(trial);
        } else if passed {
            remove(&folder, if clean { CLEAN } else { PASSED });
            compress_events(&folder);
        }
        let kept = Kept {
            purpose,
            verdict,
            left: match passed && !first {
                true => Left::Events,
                false => left(&folder),
            },
            bytes: disk_bytes(&folder),
        };
        self.finished.insert(trial, kept);
    }

    fn bytes(&self) -> u64 {
        let finished: u64 = self.finished.values().map(|kept| kept.bytes).sum();
        finished + self.interrupted.values().sum::<u64>()
    }

    fn keep_to_limit(&mut self) {
        let mut over = self.bytes().saturating_sub(self.limit_bytes);
        if over == 0 {
            return;
        }
        for (folder, bytes) in &mut self.interrupted {
            if over == 0 {
                return;
            }
            remove(folder, PASSED);
            let now = disk_bytes(folder);
            over = over.saturating_sub(bytes.saturating_sub(now));
            *bytes = now;
        }
        let order = self.order();
        for (to, parts) in [(Left::Logs, NODES), (Left::Events, PASSED)] {
            for trial in &order {
                let Some(kept) = self.finished.get_mut(trial).filter(|kept| kept.left < to) else {
                    continue;
                };
                if over == 0 {
                    return;
                }
                let folder = self.store.trial_dir(*trial);
                remove(&folder, parts);
                if to == Left::Events {
                    compress_events(&folder);
                }
                let now = disk_bytes(&folder);
                over = over.saturating_sub(kept.bytes.saturating_sub(now));
                (kept.bytes, kept.left) = (now, to);
            }
        }
    }

    /// Trials that may lose files, those that are missed least first.
    fn order(&self) -> Vec<u64> {
        let bugs = self.store.bugs().unwrap_or_default();
        let mut shown: BTreeSet<u64> = self.first_clean.into_iter().collect();
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        for bug in &bugs {
            shown.extend(bug.trials.first());
            let same = |trial: &&u64| {
                let stored = self.store.trial(**trial);
                stored.is_ok_and(|whole| whole.is_some_and(|(plan, _)| plan == bug.plan))
            };
            shown.extend(bug.trials.iter().find(same));
            seen.extend(&bug.trials);
        }
        let undecided = |trial: &u64| {
            let kept = &self.finished[trial];
            let may_be_a_bug = kept.verdict == Verdict::Fail && kept.purpose == Purpose::Search;
            may_be_a_bug && !seen.contains(trial)
        };
        let all = self.finished.keys().copied();
        let mut order: Vec<u64> = all.filter(|trial| !shown.contains(trial)).collect();
        // Stable: the oldest first among equals.
        order.sort_by_key(undecided);
        order
    }
}

const NODES: &[&str] = &["nodes"];
const CLEAN: &[&str] = &["nodes", "clients"];
const PASSED: &[&str] = &["nodes", "clients", "logs"];

/// What cannot be removed stays, and is counted on.
fn remove(folder: &Path, parts: &[&str]) {
    for part in parts {
        let _ = fs::remove_dir_all(folder.join(part));
    }
}

/// A trial whose events cannot be compressed keeps them as they are.
fn compress_events(folder: &Path) {
    let _ = files::compress(&folder.join("events.jsonl"));
}

fn left(folder: &Path) -> Left {
    let there = |part: &str| folder.join(part).exists();
    match (there("nodes"), there("clients") || there("logs")) {
        (true, _) => Left::Whole,
        (false, true) => Left::Logs,
        (false, false) => Left::Events,
    }
}

/// What a folder takes on the disk; files with holes take less than their length.
fn disk_bytes(path: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let Ok(metadata) = path.symlink_metadata() else {
        return 0;
    };
    let own = metadata.blocks() * BLOCK;
    if !metadata.is_dir() {
        return own;
    }
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    own + inside.map(|entry| disk_bytes(&entry.path())).sum::<u64>()
}
