//! Clean runs: what a campaign learns from them, and that they pass.

use std::sync::atomic::{AtomicU64, Ordering};

use temblor_explore::checker;
use temblor_explore::learn_baseline;
use temblor_model::bug::Outcome;
use temblor_model::campaign::{CampaignEvent, Purpose, WarpSpec};
use temblor_model::history::Baseline;
use temblor_model::plan::Plan;

use crate::LabError;
use crate::campaign::Campaign;
use crate::compile::Recording;
use crate::limits::Limits;
use crate::load;
use crate::trial::{self, Finished, Jvms, TrialSpec};
use crate::troubles::troubles;

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

impl Campaign<'_> {
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
            shared: 0,
            from: None,
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
    pub(crate) fn clean_runs(&self, stored: Option<Baseline>) -> Result<Clean, LabError> {
        self.train()?;
        let baseline = match stored {
            Some(baseline) => baseline,
            None => {
                let mut baseline = self.choose_warp()?;
                self.learn_from_fork(&mut baseline)?;
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

    /// Where all trials go on from a ready cluster, plans are made for what its forks reach. The
    /// snapshot is kept for the search. Trials that start their own cluster elect their own leader.
    fn learn_from_fork(&self, baseline: &mut Baseline) -> Result<(), LabError> {
        let Some(snapshots) = self.snapshots.as_ref().filter(|_| self.spec.working) else {
            return Ok(());
        };
        let plan = Plan::clean();
        let spec = TrialSpec {
            plan: &plan,
            dir: self.dir.join("snapshots"),
            jvms: Jvms::Hooked,
            recording: Recording::Whole,
            warp: baseline.warp,
            limits: Limits::derive(
                baseline,
                &plan,
                baseline.warp,
                self.setup.target.reaction_ms,
            ),
            baseline: Some(baseline),
            shared: 0,
            from: None,
        };
        let tell = |text| self.note(text);
        if let Some(ready) = snapshots.for_plan(self.setup, &spec, self.stop, &tell)? {
            ready.teach(baseline);
        }
        Ok(())
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
        let plan = Plan {
            working: self.spec.working,
            ..Plan::clean()
        };
        let limits = Limits::first(self.setup.target.ready.within_ms);
        let trial = self.announce(Purpose::Baseline, &plan);
        let spec = TrialSpec {
            plan: &plan,
            dir: self.trial_dir(trial),
            jvms: Jvms::Hooked,
            recording: Recording::All,
            warp,
            limits,
            baseline: None,
            shared: 0,
            from: None,
        };
        let finished = self.run_trial(trial, Purpose::Baseline, spec)?;
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
            visits: Vec::new(),
            from: None,
        };
        let logs = self.trial_dir(trial).join("logs");
        let may_notice = !self.setup.target.again.is_empty();
        let troubles = troubles(&finished, &outcome, &logs, may_notice);
        self.emit(CampaignEvent::TrialDone {
            trial,
            purpose: Purpose::Baseline,
            plan,
            outcome,
            at_s: None,
        });
        match troubles.is_empty() {
            true => Ok(finished),
            false => Err(LabError::Baseline {
                what: troubles.join("\n"),
                folder: logs,
            }),
        }
    }
}
