//! A cluster frozen on its way through a trial, and trials that go on from there.
//!
//! A fork is a whole trial: its history begins with what happened before the freeze, hits are
//! counted from there on, and its clock goes on as if nothing had been. So a plan means the same
//! from a snapshot as from a cold start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use temblor_cluster::snapshot::{Snapshot, copy_tree};
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::{Baseline, Reached};
use temblor_model::plan::{Plan, Step, Trigger};
use temblor_model::visit::Visit;

use crate::LabError;
use crate::board::{BOARD_FILE, BoardFile};
use crate::compile::{self, Hold, Recording};
use crate::judge;
use crate::running::{ClientRun, EventOut, NodeRun, Running};
use crate::trial::{self, Jvms, Setup, TrialSpec, VirtualClock};

/// Where on its way a cluster is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// JVMs are up, and wait at their first hook.
    Booted,
    /// All nodes serve, clients are connected and have not begun.
    Ready,
    /// So many steps of the plan have fired, just now.
    After(u32),
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Point::Booted => write!(f, "booted"),
            Point::Ready => write!(f, "ready"),
            Point::After(1) => write!(f, "after a fault"),
            Point::After(n) => write!(f, "after {n} faults"),
        }
    }
}

impl Point {
    fn hold(self) -> Hold {
        match self {
            Point::Booted => Hold::FirstHook,
            // The gate holds the clients, and nodes wait for them.
            Point::Ready => Hold::Nowhere,
            Point::After(steps) => Hold::AfterSteps(steps),
        }
    }
}

/// A frozen cluster.
pub struct Frozen {
    pub point: Point,
    snapshot: Snapshot,
    board: BoardFile,
    clock: VirtualClock,
    stage: Stage,
    /// The steps that have fired.
    steps: Vec<Step>,
    nodes: Vec<NodeRun>,
    clients: Vec<ClientRun>,
    /// What had happened, without recorded hits.
    events: Vec<Event>,
    /// Before clients warmed up: what they did then is not counted.
    hits: Hits,
    /// In a clean fork, once that is known.
    after: Option<Hits>,
    /// The same by states.
    visits: Vec<Visit>,
    /// The frames behind the contexts of both, each told once by its process.
    contexts: BTreeMap<String, Vec<String>>,
    pub seconds: f64,
    /// A place in memory for the files of forks.
    memory: Option<PathBuf>,
    forks: AtomicU64,
}

/// Where nodes have their files, in a trial's folder. In a fork it may be a link into memory, where
/// nothing waits for a disk: what is reported was seen in a cold trial, on the disk.
const NODES: &str = "nodes";

/// Ends a trial's use of memory: its nodes' files come to its folder if they are to be kept.
pub fn settle_files(dir: &Path, keep: bool) -> Result<(), LabError> {
    let link = dir.join(NODES);
    let Ok(memory) = std::fs::read_link(&link) else {
        return Ok(());
    };
    let _ = std::fs::remove_file(&link);
    let kept = match keep && memory.exists() {
        true => copy_tree(&memory, &link, &[]).map(drop),
        false => Ok(()),
    };
    let _ = std::fs::remove_dir_all(&memory);
    kept.map_err(|(path, e)| LabError::io("keep", &path, e))
}

/// The frames behind contexts, as far as they were told.
fn frames(events: &[Event]) -> impl Iterator<Item = (String, Vec<String>)> {
    events.iter().filter_map(|e| match &e.what {
        What::Context { stack, frames, .. } => Some((stack.clone(), frames.clone())),
        _ => None,
    })
}

/// How often a site was hit by a node, in a context.
#[derive(Default)]
struct Hits(HashMap<(u32, String, String), u32>);

impl Hits {
    fn of(events: &[Event]) -> Hits {
        let mut hits = Hits::default();
        for event in events {
            if let What::Hit {
                node, site, stack, ..
            } = &event.what
            {
                let key = (*site, node.clone(), stack.clone());
                *hits.0.entry(key).or_insert(0) += 1;
            }
        }
        hits
    }

    fn of_key(&self, key: &(u32, String, String)) -> u32 {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// All that match, of any node or context where none is given.
    fn count(&self, site: u32, node: Option<&String>, stack: Option<&String>) -> u32 {
        let matches = |key: &&(u32, String, String)| {
            key.0 == site && node.is_none_or(|n| *n == key.1) && stack.is_none_or(|s| *s == key.2)
        };
        self.0.keys().filter(matches).map(|key| self.0[key]).sum()
    }
}

/// What freezes: CRIU, and where its images go.
pub struct Ice<'a> {
    pub criu: &'a [String],
    pub images: &'a Path,
    /// A place in memory for the files of forks.
    pub memory: Option<&'a Path>,
}

/// Runs a trial up to a point and freezes it there.
pub fn freeze(
    setup: &Setup,
    spec: &TrialSpec<'_>,
    point: Point,
    ice: &Ice<'_>,
    stop: &AtomicBool,
) -> Result<Frozen, LabError> {
    let began = Instant::now();
    let spec = TrialSpec {
        recording: Recording::Whole,
        jvms: match point {
            Point::Ready if setup.target.warms => Jvms::Lasting,
            _ => Jvms::Hooked,
        },
        from: None,
        dir: spec.dir.clone(),
        ..*spec
    };
    let mut ignore = |_: &Event| {};
    let mut running = trial::cold(setup, &spec, point.hold(), &mut ignore, stop)?;
    trial::until(&mut running, &spec, point)?;
    running.take_in();
    let page = running.clock.page();
    let frozen = Snapshot::take(&running.cell, ice.criu, ice.images, page);
    // Nobody writes any more: what is left belongs to the time before.
    running.finish();
    let snapshot = frozen?;
    let steps = running.board.current_step() as usize;
    // By time: what was read late has its place among what happened with it.
    let counted_us = running.counted_us.unwrap_or(u64::MAX);
    let counted = running.events.partition_point(|e| e.at_us <= counted_us);
    let hits = Hits::of(&running.events[..counted]);
    let contexts = frames(&running.events).collect();
    let mut events = std::mem::take(&mut running.events);
    events.retain(|e| !matches!(e.what, What::Hit { .. } | What::Context { .. }));
    Ok(Frozen {
        point,
        snapshot,
        stage: running.stage,
        steps: spec.plan.steps[..steps].to_vec(),
        nodes: std::mem::take(&mut running.nodes),
        clients: std::mem::take(&mut running.clients),
        events,
        hits,
        after: None,
        visits: Vec::new(),
        contexts,
        clock: running.clock.clone(),
        board: running.board,
        memory: ice.memory.map(Path::to_path_buf),
        forks: AtomicU64::new(0),
        seconds: began.elapsed().as_secs_f64(),
    })
}

impl Frozen {
    /// Learns from a clean fork what is still to come: some things a cluster does only once.
    pub fn learn(
        mut self,
        setup: &Setup,
        spec: &TrialSpec<'_>,
        stop: &AtomicBool,
    ) -> Result<Frozen, LabError> {
        let plan = Plan {
            working: true,
            ..Plan::clean()
        };
        let clean = TrialSpec {
            plan: &plan,
            recording: Recording::Whole,
            from: Some(&self),
            dir: spec.dir.clone(),
            ..*spec
        };
        let finished = trial::run(setup, &clean, &mut |_| {}, stop);
        settle_files(&spec.dir, false)?;
        let _ = std::fs::remove_dir_all(&spec.dir);
        let finished = finished?;
        let events = &finished.history.events;
        self.after = Some(Hits::of(events));
        self.visits = judge::visits(&finished.history);
        self.contexts.extend(frames(events));
        Ok(self)
    }

    /// Corrects what clean runs say by the clean fork, if there was one.
    pub fn teach(&self, baseline: &mut Baseline) {
        let Some(after) = &self.after else {
            return;
        };
        correct(baseline, &self.hits, after);
        baseline.visits = self.visits.clone();
        for (stack, frames) in &self.contexts {
            let known = baseline.contexts.entry(stack.clone());
            known.or_insert_with(|| frames.clone());
        }
    }

    /// The size of its images.
    pub fn bytes(&self) -> u64 {
        self.snapshot.bytes()
    }

    /// The matching hits that lie before the freeze, for the plan's next step; none when the plan
    /// asks for something that has passed, or cannot be counted.
    pub fn seen_by(&self, setup: &Setup, plan: &Plan) -> Option<u32> {
        if !plan.steps.starts_with(&self.steps) {
            return None;
        }
        let Some(step) = plan.steps.get(self.steps.len()) else {
            return Some(0);
        };
        // Hits between two steps count from the first, at which everybody was held.
        if self.point == Point::Booted || !self.steps.is_empty() {
            return Some(0);
        }
        let counts_before = |hits: u32| if plan.working { 0 } else { hits };
        match &step.when {
            Trigger::After { .. } => Some(0),
            Trigger::Hit {
                site,
                node,
                stack,
                state,
                nth,
            } => {
                // In which state earlier hits were is not known.
                if state.is_some() && !plan.working {
                    return None;
                }
                let site = setup.catalog.by_name(site)?.id;
                let (node, stack) = (node.as_ref(), stack.as_ref());
                let seen = counts_before(self.hits.count(site, node, stack));
                let after = (self.after.as_ref()).map_or(u32::MAX, |a| a.count(site, node, stack));
                (seen < *nth && *nth - seen <= after).then_some(seen)
            }
            // What it may choose from begins with the workload, or lies before the freeze.
            when => (when.is_online() && plan.working).then_some(0),
        }
    }

    /// A folder in memory for a fork's files, and the link to it.
    fn make_room_for_files(&self, dir: &Path) -> Result<(), LabError> {
        // Of a trial that was cut short.
        settle_files(dir, false)?;
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let number = self.forks.fetch_add(1, Ordering::Relaxed);
        let folder = memory.join(format!("{number}-files"));
        let link = dir.join(NODES);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::os::unix::fs::symlink(&folder, &link))
            .map_err(|e| LabError::io("make", &link, e))
    }

    /// A trial that goes on from here.
    pub(crate) fn fork<'a>(
        &self,
        setup: &'a Setup,
        spec: &TrialSpec<'a>,
        out: EventOut<'a>,
        stop: &'a AtomicBool,
    ) -> Result<Running<'a>, LabError> {
        let began = Instant::now();
        let seen = self.seen_by(setup, spec.plan).ok_or_else(|| {
            LabError::Internal("a plan that asks for what lies before its snapshot".into())
        })?;
        let hooked = setup.hooked();
        let ground = setup.ground(&hooked, spec.baseline);
        let board = compile::board(spec.plan, ground, spec.recording, Hold::Nowhere)?;
        std::fs::create_dir_all(&spec.dir)
            .map_err(|e| LabError::io("make the trial's folder", &spec.dir, e))?;
        self.make_room_for_files(&spec.dir)?;
        let copied = self.snapshot.copy_files(&spec.dir, &[BOARD_FILE])?;
        let board = BoardFile::create(&spec.dir.join(BOARD_FILE), &board)?;
        if !board.board().inherit(&self.board.board()) {
            return Err(LabError::Internal(
                "the plan does not fit into its snapshot's board".into(),
            ));
        }
        let fired = self.steps.len();
        if fired > 0 {
            let header = board.board().header();
            header.current_step.store(fired as u32, Ordering::Release);
        }
        if let Some(step) = board.board().steps().get(fired) {
            step.count.store(seen, Ordering::Release);
        }
        let (cell, clocks) = self.snapshot.thaw(&spec.dir)?;
        let clock = self.clock.forked(clocks, cell.dir());
        let mut running = Running::forked(setup, spec, cell, board, clock, out, stop);
        running.began = began;
        running.stage = self.stage;
        running.nodes = (self.nodes.iter())
            .map(|node| node.forked(&running.place))
            .collect();
        running.clients = (self.clients.iter())
            .map(|client| client.forked(&running.place))
            .collect();
        for event in &self.events {
            running.relay(event.clone());
        }
        running.step_since = (fired as u32, Instant::now());
        let text = format!(
            "goes on from the snapshot `{}`, its files are {copied}",
            self.point
        );
        running.notice("lab", text);
        Ok(running)
    }
}

/// All forks have the roles of the clean one, so what it reached they will; and a workload that is
/// shorter than from a cold start. A plan that asks for anything else could not go on from there.
fn correct(baseline: &mut Baseline, before: &Hits, after: &Hits) {
    let mut known = BTreeSet::new();
    for r in &mut baseline.reached {
        let key = (r.site, r.node.clone(), r.stack.clone());
        let fork = before.of_key(&key).min(r.early) + after.of_key(&key);
        r.runs = 0;
        if fork > 0 {
            r.least = r.least.min(fork);
            r.runs = baseline.runs;
        }
        known.insert(key);
    }
    for (key, &hits) in after.0.iter().filter(|(key, _)| !known.contains(*key)) {
        let (site, node, stack) = key.clone();
        baseline.reached.push(Reached {
            site,
            node,
            stack,
            hits,
            least: hits,
            early: 0,
            runs: baseline.runs,
        });
    }
    let place = |r: &Reached| (r.site, r.node.clone(), r.stack.clone());
    baseline.reached.sort_by_cached_key(place);
}

/// What a whole cluster may take until it is held where it is to be frozen.
pub(crate) const HELD_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial's folder whose nodes' files are in memory.
    fn linked() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (trial, memory) = (folder.path().join("trial"), folder.path().join("memory"));
        std::fs::create_dir_all(memory.join("n1")).unwrap();
        std::fs::write(memory.join("n1/log"), "data").unwrap();
        std::fs::create_dir_all(&trial).unwrap();
        std::os::unix::fs::symlink(&memory, trial.join(NODES)).unwrap();
        (folder, trial, memory)
    }

    #[test]
    fn files_of_a_suspicious_trial_come_to_its_folder() {
        let (_folder, trial, memory) = linked();
        settle_files(&trial, true).unwrap();
        assert!(!trial.join(NODES).is_symlink() && !memory.exists());
        let kept = std::fs::read_to_string(trial.join("nodes/n1/log"));
        assert_eq!(kept.unwrap(), "data");
        // Once more: nothing is in memory, and what is kept stays.
        settle_files(&trial, false).unwrap();
        assert!(trial.join("nodes/n1/log").exists());
    }

    #[test]
    fn files_of_others_go_and_a_link_into_nothing_is_no_trouble() {
        let (_folder, trial, memory) = linked();
        settle_files(&trial, false).unwrap();
        assert!(!trial.join(NODES).is_symlink() && !memory.exists());
        std::os::unix::fs::symlink(&memory, trial.join(NODES)).unwrap();
        settle_files(&trial, true).unwrap();
        assert!(!trial.join(NODES).is_symlink());
    }

    #[test]
    fn hits_are_counted_by_what_a_plan_asks_for() {
        let hit = |node: &str, site, stack: &str| Event {
            at_us: 1,
            what: What::Hit {
                node: node.into(),
                site,
                count: 1,
                stack: stack.into(),
                thread: "t".into(),
            },
        };
        let hits = Hits::of(&[hit("n1", 4, "aa"), hit("n1", 4, "bb"), hit("n2", 4, "aa")]);
        let (n1, aa) = ("n1".to_string(), "aa".to_string());
        assert_eq!(hits.count(4, None, None), 3);
        assert_eq!(hits.count(4, Some(&n1), None), 2);
        assert_eq!(hits.count(4, None, Some(&aa)), 2);
        assert_eq!(hits.count(4, Some(&n1), Some(&aa)), 1);
        assert_eq!(hits.count(5, None, None), 0);
    }

    #[test]
    fn clean_runs_are_corrected_by_what_a_fork_reaches() {
        let key = |node: &str| (4, node.to_string(), "aa".to_string());
        let before = Hits([(key("n1"), 9)].into());
        let after = Hits([(key("n1"), 80), (key("n3"), 7)].into());
        let reached = |node: &str, runs| Reached {
            site: 4,
            node: node.into(),
            stack: "aa".into(),
            hits: 100,
            least: 95,
            early: 3,
            runs,
        };
        let mut baseline = Baseline {
            runs: 4,
            reached: vec![reached("n1", 4), reached("n2", 4)],
            ..Baseline::default()
        };
        correct(&mut baseline, &before, &after);
        let seen = |r: &Reached| (r.node.clone(), r.least, r.runs);
        let seen: Vec<_> = baseline.reached.iter().map(seen).collect();
        // Of the hits before the freeze only as many count as clean runs have before the work.
        let expected = [("n1", 83, 4), ("n2", 95, 0), ("n3", 7, 4)];
        assert_eq!(seen, expected.map(|(n, l, r)| (n.to_string(), l, r)));
    }
}
