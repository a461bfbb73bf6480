//! The snapshots of a campaign: each is taken when a plan first wants it and kept while there is
//! room; the least recently used goes first. They end with the process.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use temblor_cluster::snapshot::ImagePlace;
use temblor_model::plan::{Fault, Plan, Step};

use crate::LabError;
use crate::campaign::lock;
use crate::frozen::{self, Frozen, Ice, Point};
use crate::trial::{Setup, TrialSpec};

/// A snapshot that could not be taken or used so often is not tried again.
const TRIES: u32 = 2;

/// Everything that tells snapshots of one set-up apart.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    point: Point,
    warp: f64,
    /// The steps that fire before the freeze.
    prefix: Vec<Step>,
}

#[derive(Default)]
struct Kept {
    /// Most recently used last.
    frozen: Vec<(Key, Arc<Frozen>)>,
    failures: Vec<(Key, u32)>,
    next: u64,
}

/// Takes, keeps and hands out frozen clusters.
pub struct Snapshots {
    criu: Vec<String>,
    place: ImagePlace,
    /// Where the folders of frozen cells are.
    dir: PathBuf,
    budget: u64,
    kept: Mutex<Kept>,
}

impl Snapshots {
    /// `dir` is for folders of frozen cells, and nothing else.
    pub fn new(criu: Vec<String>, dir: PathBuf) -> Result<Snapshots, LabError> {
        // What a killed campaign left.
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).map_err(|e| LabError::io("make", &dir, e))?;
        let place = ImagePlace::make(&dir.join("images"))?;
        Ok(Snapshots {
            criu,
            budget: place.budget(),
            place,
            dir,
            kept: Mutex::default(),
        })
    }

    /// `up to 6.1 GB of memory`.
    pub fn room(&self) -> String {
        let place = match self.place.is_in_memory() {
            true => "memory",
            false => "disk",
        };
        format!("up to {:.1} GB of {place}", self.budget as f64 / 1e9)
    }

    /// The snapshot nearest before the plan's next step. `None`: the trial has to start cold.
    /// `tell` hears of news.
    pub fn for_plan(
        &self,
        setup: &Setup,
        spec: &TrialSpec<'_>,
        stop: &AtomicBool,
        tell: &dyn Fn(String),
    ) -> Result<Option<Arc<Frozen>>, LabError> {
        if !can_fork(setup, spec) {
            return Ok(None);
        }
        let mut points = Vec::new();
        let shared = spec.shared;
        // What the lab itself did to network and processes is not in the images.
        let by_lab = |s: &Step| s.fault.is_lab();
        if shared > 0 && !spec.plan.steps[..shared].iter().any(by_lab) {
            points.push((Point::After(shared as u32), &spec.plan.steps[..shared]));
        }
        points.extend([(Point::Ready, &[][..]), (Point::Booted, &[][..])]);
        for (point, prefix) in points {
            let key = Key {
                point,
                warp: spec.warp,
                prefix: prefix.to_vec(),
            };
            let frozen = self.get(setup, spec, key, stop, tell)?;
            if let Some(frozen) = frozen.filter(|f| f.seen_by(setup, spec.plan).is_some()) {
                return Ok(Some(frozen));
            }
        }
        Ok(None)
    }

    fn get(
        &self,
        setup: &Setup,
        spec: &TrialSpec<'_>,
        key: Key,
        stop: &AtomicBool,
        tell: &dyn Fn(String),
    ) -> Result<Option<Arc<Frozen>>, LabError> {
        // One is taken at a time; whoever wants the same waits for it.
        let mut kept = lock(&self.kept);
        if let Some(at) = kept.frozen.iter().position(|(k, _)| *k == key) {
            let found = kept.frozen.remove(at);
            let frozen = found.1.clone();
            kept.frozen.push(found);
            return Ok(Some(frozen));
        }
        if kept.has_failed(&key) {
            return Ok(None);
        }
        kept.next += 1;
        let number = kept.next;
        let plan = Plan {
            steps: key.prefix.clone(),
            ..spec.plan.clone()
        };
        let before = TrialSpec {
            plan: &plan,
            dir: self.dir.join(number.to_string()),
            ..*spec
        };
        let images = self.place.dir().join(number.to_string());
        let files = self.place.dir().join(format!("{number}-forks"));
        let ice = Ice {
            criu: &self.criu,
            images: &images,
            memory: self.place.is_in_memory().then_some(files.as_path()),
        };
        let mut frozen = frozen::freeze(setup, &before, key.point, &ice, stop);
        if key.point == Point::Ready {
            let clean = TrialSpec {
                dir: self.dir.join(format!("{number}-clean")),
                ..*spec
            };
            frozen = frozen.and_then(|frozen| frozen.learn(setup, &clean, stop));
        }
        match frozen {
            Ok(frozen) => {
                // Of prefixes there are many; of the others one each.
                if key.prefix.is_empty() {
                    tell(format!(
                        "snapshot `{}`: {:.0} MB of {}, taken in {:.1} s",
                        frozen.point,
                        frozen.bytes() as f64 / 1e6,
                        self.room(),
                        frozen.seconds
                    ));
                }
                let frozen = Arc::new(frozen);
                kept.frozen.push((key, frozen.clone()));
                kept.make_room(self.budget);
                Ok(Some(frozen))
            }
            Err(LabError::Interrupted) => Err(LabError::Interrupted),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&before.dir);
                if key.prefix.is_empty() {
                    tell(format!("{error}; trials that need it start cold"));
                }
                kept.fail(key);
                Ok(None)
            }
        }
    }

    /// A fork of it did not come up: it is thrown away.
    pub fn discard(&self, frozen: &Arc<Frozen>) {
        let mut kept = lock(&self.kept);
        let same = |(_, f): &(Key, Arc<Frozen>)| Arc::ptr_eq(f, frozen);
        if let Some(at) = kept.frozen.iter().position(same) {
            let (key, _) = kept.frozen.remove(at);
            kept.fail(key);
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        lock(&self.kept).frozen.clear();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Kept {
    fn has_failed(&self, key: &Key) -> bool {
        // A prefix that does not fire is not tried again; other troubles may pass.
        let tries = if key.prefix.is_empty() { TRIES } else { 1 };
        self.failures.iter().any(|(k, n)| k == key && *n >= tries)
    }

    fn fail(&mut self, key: Key) {
        match self.failures.iter_mut().find(|(k, _)| *k == key) {
            Some((_, times)) => *times += 1,
            None => self.failures.push((key, 1)),
        }
    }

    /// The least recently used go, but never the last one: it is wanted now.
    fn make_room(&mut self, budget: u64) {
        let total =
            |frozen: &[(Key, Arc<Frozen>)]| frozen.iter().map(|(_, f)| f.bytes()).sum::<u64>();
        while self.frozen.len() > 1 && total(&self.frozen) > budget {
            self.frozen.remove(0);
        }
    }
}

/// Whether a trial may begin in the middle: nothing that it needs from its very start, and a clock
/// that goes on over the freeze, which only the virtual one does.
fn can_fork(setup: &Setup, spec: &TrialSpec<'_>) -> bool {
    let from_the_start = |s: &Step| matches!(s.fault, Fault::SlowDisk { .. });
    spec.warp > 1.0
        && !spec.plan.steps.iter().any(from_the_start)
        && !setup.target.nodes_use_seed()
        && (setup.target.gate || !setup.target.clients_use_seed())
}
