//! A campaign: clean runs first, then plan after plan, then bugs.
//!
//! Search trials are numbered in the order in which the policy gave their plans, so a campaign
//! resumes by asking a fresh policy for the same plans again and learning what is stored.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use temblor_cluster::artifact;
use temblor_explore::checker::{self, Checker};
use temblor_explore::policy::{self, FaultKind, Scope};
use temblor_explore::triage::{KnownPattern, Signature};
use temblor_model::bug::{Bug, Outcome, Verdict};
use temblor_model::campaign::{
    BugLine, CampaignEvent, CampaignSpec, EventSink, Purpose, StartLine, StartSpec, Summary, Tally,
};
use temblor_model::history::Baseline;
use temblor_model::plan::Plan;

use crate::LabError;
use crate::board::BOARD_FILE;
use crate::clean::Clean;
use crate::compile::Recording;
use crate::confirm::{Bugs, shrink_stored};
use crate::frozen::settle_files;
use crate::judge;
use crate::limits::Limits;
use crate::load::Gate;
use crate::search::{Next, Search};
use crate::snapshots::Snapshots;
use crate::trial::{self, Finished, Jvms, Setup, TrialSpec};

/// Until the outcome that the next plan depends on is looked for again.
const WAIT: Duration = Duration::from_millis(20);

/// So many trials in a row whose cells break down end the campaign.
const BREAKDOWNS: u32 = 5;

/// What an interrupted campaign left in its store.
#[derive(Default)]
pub struct Past {
    pub baseline: Option<Baseline>,
    /// Search trials in the order of their numbers; without an outcome they are run again.
    pub searched: Vec<(Plan, Option<Outcome>)>,
    pub bugs: Vec<Bug>,
    /// The first number that is free.
    pub next_trial: u64,
}

/// A campaign ready to run.
pub struct Campaign<'a> {
    pub setup: &'a Setup,
    pub spec: &'a CampaignSpec,
    /// The campaign's folder; trials live in `trials/<n>` below it.
    pub dir: PathBuf,
    pub known: Vec<KnownPattern>,
    /// Set from outside to end the campaign early.
    pub stop: &'a AtomicBool,
    sink: Mutex<&'a mut dyn EventSink>,
    next_trial: AtomicU64,
    began: Instant,
    /// When the search began.
    searching: OnceLock<Instant>,
    covered: Mutex<BTreeSet<u32>>,
    starts: Mutex<Vec<StartLine>>,
    /// Trials in a row whose cells broke down.
    breakdowns: AtomicU32,
    /// Where trials of the search go on from; none: they start cold.
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) checkers: Vec<Box<dyn Checker>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a thread that panicked while it held one of our locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Campaign<'a> {
    pub fn new(
        setup: &'a Setup,
        spec: &'a CampaignSpec,
        dir: PathBuf,
        known: Vec<KnownPattern>,
        sink: &'a mut dyn EventSink,
        stop: &'a AtomicBool,
    ) -> Campaign<'a> {
        Campaign {
            setup,
            spec,
            dir,
            known,
            stop,
            sink: Mutex::new(sink),
            next_trial: AtomicU64::new(1),
            began: Instant::now(),
            searching: OnceLock::new(),
            covered: Mutex::default(),
            starts: Mutex::default(),
            breakdowns: AtomicU32::new(0),
            snapshots: None,
            checkers: checker::all(),
        }
    }

    pub(crate) fn emit(&self, event: CampaignEvent) {
        lock(&self.sink).event(&event);
    }

    pub(crate) fn note(&self, text: String) {
        self.emit(CampaignEvent::Note { text });
    }

    /// Runs the campaign to its end.
    pub fn run(mut self, past: Past) -> Result<Summary, LabError> {
        let mut before = Tally::default();
        for outcome in past.searched.iter().filter_map(|(_, o)| o.as_ref()) {
            before.count(outcome);
        }
        self.start(&past, before);
        if self.spec.start == StartSpec::Snapshot {
            self.snapshots = self.open_snapshots();
        }
        self.run_all(past)
    }

    /// Where there can be none, people are told why and what to do.
    fn open_snapshots(&self) -> Option<Snapshots> {
        let made = artifact::find_criu().map_err(|e| e.to_string());
        let made = made.and_then(|criu| {
            let dir = self.dir.join("snapshots");
            Snapshots::new(criu.argv().to_vec(), dir).map_err(|e| e.to_string())
        });
        match made {
            Ok(snapshots) => Some(snapshots),
            Err(why) => {
                self.note(format!("no snapshots, trials start cold: {why}"));
                None
            }
        }
    }

    fn run_all(&self, past: Past) -> Result<Summary, LabError> {
        let clean = self.clean_runs(past.baseline.clone())?;
        let search = Mutex::new(self.search(&clean, &past)?);
        let bugs = Bugs::new(past.bugs);
        let gate = Gate::new(self.spec.jobs);
        let searching = *self.searching.get_or_init(Instant::now);
        std::thread::scope(|scope| {
            for _ in 0..gate.most {
                scope.spawn(|| {
                    if let Err(e) = self.work(scope, &gate, &clean, &search, &bugs) {
                        lock(&search).failure.get_or_insert(e);
                    }
                });
            }
        });
        let mut search = lock(&search);
        let interrupted = self.stop.load(Ordering::Relaxed) || self.budget_is_over();
        match search.failure.take().or(bugs.failure()) {
            Some(LabError::Interrupted) | None => {}
            Some(error) => return Err(error),
        }
        let summary = Summary {
            search_seconds: searching.elapsed().as_secs_f64(),
            ..self.summary(&search.tally, &bugs, interrupted)
        };
        self.emit(CampaignEvent::Finished {
            summary: summary.clone(),
        });
        Ok(summary)
    }

    /// The smallest plan that still shows a stored bug.
    pub fn shrink(&self, past: Past, bug: &Bug) -> Result<Bug, LabError> {
        let unknown = || LabError::Command(format!("`{}` is no signature", bug.signature));
        let signature = Signature::from_text(&bug.signature).ok_or_else(unknown)?;
        self.start(&past, Tally::default());
        let clean = self.clean_runs(past.baseline)?;
        let bugs = Bugs::new(Vec::new());
        let smaller = shrink_stored(self, &clean, bug, &signature)?;
        let summary = self.summary(&Tally::default(), &bugs, false);
        self.emit(CampaignEvent::Finished { summary });
        Ok(smaller)
    }

    /// Tells that the campaign begins, and at which number.
    fn start(&self, past: &Past, before: Tally) {
        self.next_trial
            .store(past.next_trial.max(1), Ordering::Relaxed);
        self.emit(CampaignEvent::Started {
            spec: self.spec.clone(),
            store: self.dir.display().to_string(),
            sites: self.setup.catalog.sites.len(),
            before,
            bugs: past.bugs.len() as u64,
        });
    }

    fn budget_is_over(&self) -> bool {
        let budget = self.spec.budget_s;
        budget > 0 && self.began.elapsed() > Duration::from_secs(budget)
    }

    pub(crate) fn number(&self) -> u64 {
        self.next_trial.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn trial_dir(&self, trial: u64) -> PathBuf {
        self.dir.join("trials").join(trial.to_string())
    }

    /// Runs a trial of the search from the nearest snapshot, any other from a cold start: what is
    /// reported was seen there.
    pub(crate) fn run_trial(
        &self,
        trial: u64,
        purpose: Purpose,
        spec: TrialSpec<'_>,
    ) -> Result<Finished, LabError> {
        let mut out = |event: &temblor_model::event::Event| {
            self.emit(CampaignEvent::Trial {
                trial,
                event: event.clone(),
            });
        };
        let frozen = match (&self.snapshots, purpose) {
            (Some(snapshots), Purpose::Search) => {
                let tell = |text| self.note(text);
                snapshots.for_plan(self.setup, &spec, self.stop, &tell)?
            }
            _ => None,
        };
        let forked = TrialSpec {
            from: frozen.as_deref(),
            dir: spec.dir.clone(),
            ..spec
        };
        let mut finished = trial::run(self.setup, &forked, &mut out, self.stop);
        if let (Err(LabError::Snapshot(error)), Some(frozen), Some(snapshots)) =
            (&finished, &frozen, &self.snapshots)
        {
            self.note(format!("{error}; trial {trial} starts cold"));
            snapshots.discard(frozen);
            settle_files(&spec.dir, false)?;
            let _ = std::fs::remove_dir_all(&spec.dir);
            finished = trial::run(self.setup, &spec, &mut out, self.stop);
        }
        // All that was on it is in the events by now.
        let _ = std::fs::remove_file(spec.dir.join(BOARD_FILE));
        match &finished {
            Ok(finished) => lock(&self.covered).extend(&finished.covered),
            Err(_) => settle_files(&spec.dir, false)?,
        }
        finished
    }

    /// A trial with faults: started, run, judged, told.
    pub(crate) fn judged_trial(
        &self,
        purpose: Purpose,
        plan: &Plan,
        warp: f64,
        clean: &Clean,
    ) -> Result<Outcome, LabError> {
        let trial = self.announce(purpose, plan);
        self.judged_trial_numbered(trial, purpose, plan, 0, warp, clean)
    }

    /// Gives a trial its number and tells of it, before anything else happens to it.
    pub(crate) fn announce(&self, purpose: Purpose, plan: &Plan) -> u64 {
        let trial = self.number();
        let plan = plan.clone();
        self.emit(CampaignEvent::TrialStarted {
            trial,
            purpose,
            plan,
        });
        trial
    }

    fn judged_trial_numbered(
        &self,
        trial: u64,
        purpose: Purpose,
        plan: &Plan,
        shared: usize,
        warp: f64,
        clean: &Clean,
    ) -> Result<Outcome, LabError> {
        let baseline = clean.at(warp);
        let limits = Limits::derive(baseline, plan, warp, self.setup.target.reaction_ms);
        let spec = TrialSpec {
            plan,
            dir: self.trial_dir(trial),
            jvms: Jvms::Hooked,
            recording: Recording::None,
            warp,
            limits,
            baseline: Some(baseline),
            shared,
            from: None,
        };
        let finished = match self.run_trial(trial, purpose, spec) {
            Ok(finished) => {
                self.breakdowns.store(0, Ordering::Relaxed);
                finished
            }
            Err(error) => {
                let outcome = self.broken_trial(trial, plan, warp, error)?;
                self.tell_done(trial, purpose, plan, &outcome);
                return Ok(outcome);
            }
        };
        let ran = Instant::now();
        let catalog = &self.setup.catalog;
        let outcome = judge::outcome(trial, &finished, baseline, catalog, &self.checkers);
        settle_files(&self.trial_dir(trial), outcome.verdict != Verdict::Pass)?;
        self.tell_done(trial, purpose, plan, &outcome);
        if purpose == Purpose::Search {
            self.count_start(&finished, ran.elapsed().as_secs_f64());
        }
        Ok(outcome)
    }

    fn tell_done(&self, trial: u64, purpose: Purpose, plan: &Plan, outcome: &Outcome) {
        self.emit(CampaignEvent::TrialDone {
            trial,
            purpose,
            plan: plan.clone(),
            outcome: outcome.clone(),
            at_s: self.searching.get().map(|s| s.elapsed().as_secs_f64()),
        });
    }

    /// A cell that breaks down costs its trial, not the campaign; where they all do, something is
    /// wrong with the machine.
    fn broken_trial(
        &self,
        trial: u64,
        plan: &Plan,
        warp: f64,
        error: LabError,
    ) -> Result<Outcome, LabError> {
        match error {
            LabError::Cell(cause)
                if self.breakdowns.fetch_add(1, Ordering::Relaxed) + 1 < BREAKDOWNS =>
            {
                let reason = format!("its cell broke down: {cause}");
                Ok(judge::broken(trial, plan, warp, reason))
            }
            error => Err(error),
        }
    }

    /// Adds what a trial took, and what judging and storing it did, to those that began alike.
    fn count_start(&self, finished: &Finished, judging: f64) {
        let from = finished.from.map_or("cold".to_string(), |p| p.to_string());
        let mut starts = lock(&self.starts);
        let at = starts.iter().position(|line| line.from == from);
        let at = at.unwrap_or_else(|| {
            starts.push(StartLine {
                from,
                ..StartLine::default()
            });
            starts.len() - 1
        });
        let line = &mut starts[at];
        line.trials += 1;
        line.seconds += finished.seconds + judging;
        line.cpu_seconds += finished.cpu_seconds;
        for (part, seconds) in finished.parts.iter().copied().chain([("judging", judging)]) {
            match line.parts.iter_mut().find(|(known, _)| known == part) {
                Some((_, sum)) => *sum += seconds,
                None => line.parts.push((part.to_string(), seconds)),
            }
        }
    }

    /// A policy that stands where the stored trials left it.
    fn search(&self, clean: &Clean, past: &Past) -> Result<Search, LabError> {
        let faults: Result<Vec<FaultKind>, _> =
            self.spec.faults.iter().map(|f| f.parse()).collect();
        let faults = faults?;
        let sites = crate::check::site_pattern(&self.spec.sites)?;
        let scope = Scope {
            catalog: &self.setup.catalog,
            baseline: &clean.baseline,
            faults: &faults,
            delay_ms: self.spec.delay_ms,
            sites,
            seed: self.spec.seed,
            plan: self.spec.plan.as_ref(),
            times: self.spec.trials,
            level: self.spec.level,
            contexts: self.spec.contexts,
            sweep: self.spec.sweep,
            working: self.spec.working,
        };
        let policy = policy::build(&self.spec.policy, &scope)?;
        let mut search = Search::new(policy, self.spec);
        for (plan, outcome) in &past.searched {
            let in_bug = |o: &Outcome| past.bugs.iter().any(|b| b.trials.contains(&o.trial));
            search.stored(plan, outcome.as_ref(), in_bug);
        }
        Ok(search)
    }

    /// One job: takes plans until there are none.
    fn work<'scope, 'env>(
        &'env self,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        gate: &'env Gate,
        clean: &'env Clean,
        search: &'env Mutex<Search>,
        bugs: &'env Bugs,
    ) -> Result<(), LabError> {
        loop {
            let is_over = || {
                let over = self.stop.load(Ordering::Relaxed) || self.budget_is_over();
                over || bugs.has_failed() || lock(search).is_over(self.spec.trials)
            };
            let Some(pass) = gate.enter(is_over) else {
                return match self.stop.load(Ordering::Relaxed) {
                    true => Err(LabError::Interrupted),
                    false => Ok(()),
                };
            };
            let stored = lock(search).failed.pop_front();
            if let Some((plan, outcome)) = stored {
                bugs.consider(self, scope, clean, plan, outcome)?;
                continue;
            }
            let (order, trial, plan, shared) = {
                let mut search = lock(search);
                let (order, plan) = match search.next(self.spec.trials) {
                    Next::Plan(order, plan) => (order, plan),
                    Next::Wait => {
                        drop((search, pass));
                        std::thread::sleep(WAIT);
                        continue;
                    }
                    Next::Over => return Ok(()),
                };
                // Under the lock: numbers, and their news in the store, follow the order of plans.
                let shared = search.policy.shared(&plan);
                (order, self.announce(Purpose::Search, &plan), plan, shared)
            };
            let (purpose, warp) = (Purpose::Search, clean.baseline.warp);
            let outcome = self.judged_trial_numbered(trial, purpose, &plan, shared, warp, clean)?;
            gate.learn(outcome.seconds, outcome.cpu_seconds);
            lock(search).done(order, plan.clone(), outcome.clone());
            if outcome.verdict == Verdict::Fail {
                bugs.consider(self, scope, clean, plan, outcome)?;
            }
        }
    }

    /// By id from the usual store; from any other by the bug's folder.
    fn replay_command(&self, id: &str) -> String {
        match self.dir.starts_with("store") {
            true => format!("./temblor replay {id}"),
            false => format!(
                "./temblor replay {}",
                self.dir.join("bugs").join(id).display()
            ),
        }
    }

    fn summary(&self, tally: &Tally, bugs: &Bugs, interrupted: bool) -> Summary {
        let line = |bug: Bug| BugLine {
            report: self
                .dir
                .join("bugs")
                .join(&bug.id)
                .join("report.html")
                .display()
                .to_string(),
            replay: self.replay_command(&bug.id),
            confirmed: confirmed(&bug),
            id: bug.id,
            signature: bug.signature,
            known: bug.known,
            title: bug.title,
            plan: bug.plan,
        };
        Summary {
            target: self.spec.target.clone(),
            policy: self.spec.policy.clone(),
            seed: self.spec.seed,
            store: self.dir.display().to_string(),
            trials: tally.trials,
            fired: tally.fired,
            unreached: tally.unreached,
            unknown: tally.unknown,
            unconfirmed: bugs.unconfirmed(),
            bugs: bugs.all().into_iter().map(line).collect(),
            seconds: self.began.elapsed().as_secs_f64(),
            covered: self.spec.coverage.then(|| {
                (
                    lock(&self.covered).len() as u64,
                    self.setup.catalog.block_count.into(),
                )
            }),
            search_seconds: 0.0,
            starts: lock(&self.starts).clone(),
            interrupted,
        }
    }
}

/// `3 of 3, 1 of 1 on the real clock`.
fn confirmed(bug: &Bug) -> String {
    let c = &bug.confirmed;
    match c.unwarped_of {
        0 => format!("{} of {}", c.times, c.of),
        of => format!(
            "{} of {}, {} of {of} on the real clock",
            c.times, c.of, c.unwarped_times
        ),
    }
}
