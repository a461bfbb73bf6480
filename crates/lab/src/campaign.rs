//! A campaign: clean runs first, then plan after plan, then bugs.
//!
//! Search trials are numbered in the order in which the policy gave their plans, so a campaign
//! resumes by asking a fresh policy for the same plans again and learning what is stored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use temblor_explore::checker::{self, Checker};
use temblor_explore::learn_baseline;
use temblor_explore::policy::{self, FaultKind, Policy, Scope};
use temblor_explore::triage::{KnownPattern, Signature};
use temblor_model::bug::{Bug, Outcome, Verdict};
use temblor_model::campaign::{
    BugLine, CampaignEvent, CampaignSpec, EventSink, Purpose, Summary, WarpSpec,
};
use temblor_model::history::Baseline;
use temblor_model::plan::Plan;

use crate::LabError;
use crate::compile::Recording;
use crate::confirm::Bugs;
use crate::judge;
use crate::limits::Limits;
use crate::load::{self, Gate};
use crate::trial::{self, Finished, Jvms, Setup, TrialSpec};
use crate::troubles::troubles;

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
    covered: Mutex<BTreeSet<u32>>,
    pub(crate) checkers: Vec<Box<dyn Checker>>,
}

/// The clean runs, on the campaign's clock and on the real one.
pub(crate) struct Clean {
    pub baseline: Baseline,
    /// Learned when replays on the real clock are wanted.
    pub unwarped: Option<Baseline>,
}

impl Clean {
    pub(crate) fn at(&self, warp: f64) -> &Baseline {
        match &self.unwarped {
            Some(unwarped) if warp == 1.0 => unwarped,
            _ => &self.baseline,
        }
    }
}

/// What the search has come to so far.
struct Search {
    policy: Box<dyn Policy>,
    /// Plans of trials that were begun and never finished.
    again: VecDeque<(u64, Plan)>,
    /// Stored failures: of those that were not confirmed before the interruption, it is told
    /// now whether they are bugs.
    failed: VecDeque<(Plan, Outcome)>,
    /// Plans handed out, stored ones included.
    planned: u64,
    /// Outcomes that wait for those before them.
    unlearned: BTreeMap<u64, (Plan, Outcome)>,
    learned: u64,
    tally: Tally,
    failure: Option<LabError>,
}

#[derive(Default)]
struct Tally {
    trials: u64,
    fired: u64,
    unreached: u64,
    unknown: u64,
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
            covered: Mutex::default(),
            checkers: checker::all(),
        }
    }

    pub(crate) fn emit(&self, event: CampaignEvent) {
        lock(&self.sink).event(&event);
    }

    fn note(&self, text: String) {
        self.emit(CampaignEvent::Note { text });
    }

    /// Runs the campaign to its end.
    pub fn run(&self, past: Past) -> Result<Summary, LabError> {
        let resumed = past
            .searched
            .iter()
            .filter(|(_, outcome)| outcome.is_some())
            .count();
        self.start(&past, resumed as u64);
        let clean = self.clean_runs(past.baseline.clone())?;
        let search = Mutex::new(self.search(&clean, &past)?);
        let bugs = Bugs::new(past.bugs);
        let gate = Gate::new(self.spec.jobs);
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
        let summary = self.summary(&search.tally, &bugs, interrupted);
        self.emit(CampaignEvent::Finished {
            summary: summary.clone(),
        });
        Ok(summary)
    }

    /// The smallest plan that still shows a stored bug.
    pub fn shrink(&self, past: Past, bug: &Bug) -> Result<Bug, LabError> {
        let unknown = || LabError::Command(format!("`{}` is no signature", bug.signature));
        let signature = Signature::from_text(&bug.signature).ok_or_else(unknown)?;
        self.start(&past, 0);
        let clean = self.clean_runs(past.baseline)?;
        let bugs = Bugs::new(Vec::new());
        let smaller = bugs.shrink_stored(self, &clean, bug, &signature)?;
        let summary = self.summary(&Tally::default(), &bugs, false);
        self.emit(CampaignEvent::Finished { summary });
        Ok(smaller)
    }

    /// Tells that the campaign begins, and at which number.
    fn start(&self, past: &Past, resumed: u64) {
        self.next_trial
            .store(past.next_trial.max(1), Ordering::Relaxed);
        self.emit(CampaignEvent::Started {
            spec: self.spec.clone(),
            store: self.dir.display().to_string(),
            sites: self.setup.catalog.sites.len(),
            resumed,
        });
    }

    fn budget_is_over(&self) -> bool {
        let budget = self.spec.budget_s;
        budget > 0 && self.began.elapsed() > Duration::from_secs(budget)
    }

    /// A clean run that makes the archives of classes, where they can be made and are not there.
    fn train(&self) -> Result<(), LabError> {
        let archives = &self.setup.archives;
        if !archives.are_missing() {
            return Ok(());
        }
        self.note("one run to keep the classes that every JVM loads".into());
        let dir = self.dir.join("training");
        let spec = TrialSpec {
            plan: &Plan::clean(),
            dir: dir.clone(),
            jvms: Jvms::Training,
            recording: Recording::None,
            warp: 1.0,
            limits: Limits::first(self.setup.target.ready.within_ms),
            baseline: None,
        };
        // What goes wrong here shows, and is told, in the clean runs that follow.
        match trial::run(self.setup, &spec, &mut |_| {}, self.stop) {
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(_) => {}
            Ok(_) => archives.keep_trained(),
        }
        let _ = std::fs::remove_dir_all(dir);
        Ok(())
    }

    /// Clean runs: they must pass before anything is injected.
    fn clean_runs(&self, stored: Option<Baseline>) -> Result<Clean, LabError> {
        self.train()?;
        let baseline = match stored {
            Some(baseline) => baseline,
            None => {
                let baseline = self.choose_warp()?;
                self.emit(CampaignEvent::BaselineDone {
                    baseline: baseline.clone(),
                });
                baseline
            }
        };
        let wants_real = self.spec.confirm_unwarped > 0 && baseline.warp > 1.0;
        let unwarped = match wants_real {
            true => Some(self.baselines(1.0, 1)?),
            false => None,
        };
        Ok(Clean { baseline, unwarped })
    }

    /// The largest warp factor at which clean runs pass.
    fn choose_warp(&self) -> Result<Baseline, LabError> {
        let mut factor = match self.spec.warp {
            WarpSpec::Off => 1.0,
            WarpSpec::Factor(factor) => factor,
            WarpSpec::Auto => self.setup.target.warp_max,
        };
        loop {
            match self.baselines(factor, self.spec.baselines.max(1)) {
                Err(LabError::Baseline { what, .. })
                    if self.spec.warp == WarpSpec::Auto && factor > 1.0 =>
                {
                    let slower = (factor / 2.0).max(1.0);
                    self.note(format!(
                        "clean runs fail {factor} times faster than the wall ({}); trying {slower}",
                        what.lines().next().unwrap_or_default()
                    ));
                    factor = slower;
                }
                other => return other,
            }
        }
    }

    /// So many clean runs, as many side by side as the campaign's trials.
    fn baselines(&self, warp: f64, runs: u32) -> Result<Baseline, LabError> {
        let jobs = match self.spec.jobs {
            0 => load::cores(),
            jobs => jobs,
        }
        .min(runs);
        let left = AtomicU64::new(runs.into());
        let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        let one_job = || {
            let mut histories = Vec::new();
            while take().is_ok() {
                histories.push(self.clean_run(warp)?.history);
            }
            Ok::<_, LabError>(histories)
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..jobs).map(|_| scope.spawn(one_job)).collect();
            jobs.into_iter().map(|j| j.join()).collect()
        });
        let mut histories = Vec::new();
        for result in results {
            let panicked = |_| LabError::Internal("a clean run panicked".into());
            histories.extend(result.map_err(panicked)??);
        }
        Ok(learn_baseline(&histories))
    }

    fn clean_run(&self, warp: f64) -> Result<Finished, LabError> {
        let plan = Plan::clean();
        let limits = Limits::first(self.setup.target.ready.within_ms);
        let trial = self.announce(Purpose::Baseline, &plan);
        let finished = self.run_trial(trial, &plan, warp, Recording::All, limits, None)?;
        let judgements = checker::judge_all(&finished.history, None, &self.checkers);
        let outcome = Outcome {
            format: Outcome::FORMAT,
            trial,
            verdict: checker::verdict(&judgements),
            judgements,
            fired: Vec::new(),
            unreached: Vec::new(),
            warp,
            seconds: finished.seconds,
            cpu_seconds: finished.cpu_seconds,
        };
        let logs = self.trial_dir(trial).join("logs");
        let troubles = troubles(&finished, &outcome, &logs);
        self.emit(CampaignEvent::TrialDone {
            trial,
            purpose: Purpose::Baseline,
            plan,
            outcome,
        });
        match troubles.is_empty() {
            true => Ok(finished),
            false => Err(LabError::Baseline {
                what: troubles.join("\n"),
                folder: logs,
            }),
        }
    }

    fn number(&self) -> u64 {
        self.next_trial.fetch_add(1, Ordering::Relaxed)
    }

    fn trial_dir(&self, trial: u64) -> PathBuf {
        self.dir.join("trials").join(trial.to_string())
    }

    fn run_trial(
        &self,
        trial: u64,
        plan: &Plan,
        warp: f64,
        recording: Recording,
        limits: Limits,
        baseline: Option<&Baseline>,
    ) -> Result<Finished, LabError> {
        let dir = self.trial_dir(trial);
        let spec = TrialSpec {
            plan,
            dir,
            jvms: Jvms::Hooked,
            recording,
            warp,
            limits,
            baseline,
        };
        let mut out = |event: &temblor_model::event::Event| {
            self.emit(CampaignEvent::Trial {
                trial,
                event: event.clone(),
            });
        };
        let finished = trial::run(self.setup, &spec, &mut out, self.stop);
        // All that was on it is in the events by now.
        let _ = std::fs::remove_file(spec.dir.join("board"));
        if let Ok(finished) = &finished {
            lock(&self.covered).extend(&finished.covered);
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
        self.judged_trial_numbered(trial, purpose, plan, warp, clean)
    }

    /// Gives a trial its number and tells of it, before anything else happens to it.
    fn announce(&self, purpose: Purpose, plan: &Plan) -> u64 {
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
        warp: f64,
        clean: &Clean,
    ) -> Result<Outcome, LabError> {
        let baseline = clean.at(warp);
        let limits = Limits::derive(baseline, plan, warp);
        let finished =
            self.run_trial(trial, plan, warp, Recording::None, limits, Some(baseline))?;
        let catalog = &self.setup.catalog;
        let outcome = judge::outcome(trial, &finished, baseline, catalog, &self.checkers);
        self.emit(CampaignEvent::TrialDone {
            trial,
            purpose,
            plan: plan.clone(),
            outcome: outcome.clone(),
        });
        Ok(outcome)
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
        };
        let mut search = Search {
            policy: policy::build(&self.spec.policy, &scope)?,
            again: VecDeque::new(),
            failed: VecDeque::new(),
            planned: 0,
            unlearned: BTreeMap::new(),
            learned: 0,
            tally: Tally::default(),
            failure: None,
        };
        for (plan, outcome) in &past.searched {
            search.policy.next();
            search.planned += 1;
            match outcome {
                Some(outcome) => {
                    search.learn(search.planned, plan.clone(), outcome.clone());
                    let in_bug = |b: &Bug| b.trials.contains(&outcome.trial);
                    if outcome.verdict == Verdict::Fail && !past.bugs.iter().any(in_bug) {
                        search.failed.push_back((plan.clone(), outcome.clone()));
                    }
                }
                None => search.again.push_back((search.planned, plan.clone())),
            }
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
            let Some(_pass) = gate.enter(is_over) else {
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
            let (order, trial, plan) = {
                let mut search = lock(search);
                let Some((order, plan)) = search.next(self.spec.trials) else {
                    return Ok(());
                };
                // Under the lock: numbers, and their news in the store, follow the order of plans.
                (order, self.announce(Purpose::Search, &plan), plan)
            };
            let warp = clean.baseline.warp;
            let outcome = self.judged_trial_numbered(trial, Purpose::Search, &plan, warp, clean)?;
            lock(search).learn(order, plan.clone(), outcome.clone());
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

impl Search {
    /// Nothing is left to begin, or something failed for good.
    fn is_over(&self, limit: u64) -> bool {
        let nothing_left = self.again.is_empty() && self.failed.is_empty();
        self.failure.is_some() || nothing_left && self.planned >= limit
    }

    fn next(&mut self, limit: u64) -> Option<(u64, Plan)> {
        if let Some(again) = self.again.pop_front() {
            return Some(again);
        }
        if self.planned >= limit {
            return None;
        }
        let plan = self.policy.next()?;
        self.planned += 1;
        Some((self.planned, plan))
    }

    /// Outcomes reach the policy in the order of its plans, however the trials finish.
    fn learn(&mut self, order: u64, plan: Plan, outcome: Outcome) {
        self.tally.trials += 1;
        self.tally.fired += u64::from(!outcome.fired.is_empty());
        self.tally.unreached += u64::from(!outcome.unreached.is_empty());
        self.tally.unknown += u64::from(outcome.verdict == Verdict::Unknown);
        self.unlearned.insert(order, (plan, outcome));
        while let Some((plan, outcome)) = self.unlearned.remove(&(self.learned + 1)) {
            self.policy.learn(&plan, &outcome);
            self.learned += 1;
        }
    }
}
