//! What trials cost, from a cold start and from a snapshot: alternating starts, then a short
//! campaign of each kind.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use temblor_cluster::target::Choice;
use temblor_lab::compile::Recording;
use temblor_lab::limits::Limits;
use temblor_lab::snapshots::Snapshots;
use temblor_lab::trial::{self, Jvms, TrialSpec};
use temblor_lab::{Past, Setup};
use temblor_model::campaign::{CampaignSpec, StartLine, StartSpec, Summary, WarpSpec};
use temblor_model::plan::Plan;

use super::java::Scratch;
use super::{machine, median};
use crate::args::TrialsArgs;
use crate::command::campaign;
use crate::command::replay::Wanted;
use crate::exit::Exit;
use crate::prepare::{self, Prepared};

/// From nothing to a ready cluster.
const READY_BAR_S: f64 = 0.3;
const COLD_BAR: f64 = 1_200.0;
const WARM_BAR: f64 = 5_000.0;

/// One kind of start.
#[derive(Default)]
struct Starts {
    seconds: Vec<f64>,
    megabytes: Vec<f64>,
}

pub fn run(args: &TrialsArgs) -> anyhow::Result<Exit> {
    let choice = Choice {
        workload: args.workload.clone(),
        nodes: None,
    };
    let prepared = prepare::prepare(&args.target, &choice, false)?;
    let scratch = Scratch::new("bench-trials")?;
    let (cold, warm) = starts(args, &prepared, &scratch)?;
    let per_hour = |start, trials| campaign_of(args, &prepared, &scratch, start, trials);
    let from_cold = per_hour(StartSpec::Cold, args.cold_trials)?;
    let from_snapshot = per_hour(StartSpec::Snapshot, args.trials)?;
    let result = Result {
        cold,
        warm,
        from_cold,
        from_snapshot,
    };
    match args.json {
        true => println!("{}", result.json()),
        false => result.print(),
    }
    Ok(match result.holds() {
        true => Exit::Pass,
        false => Exit::Unknown,
    })
}

/// Cold and thawed starts in turn, one cluster at a time.
fn starts(
    args: &TrialsArgs,
    prepared: &Prepared,
    scratch: &Scratch,
) -> anyhow::Result<(Starts, Starts)> {
    let spec = spec(args, prepared, StartSpec::Snapshot, 0);
    let setup = prepared.setup(&spec, scratch.path())?;
    let criu = temblor_cluster::artifact::find_criu()?;
    let snapshots = Snapshots::new(criu.argv().to_vec(), scratch.path().join("snapshots"))?;
    let plan = Plan::clean();
    let never = AtomicBool::new(false);
    let cold_spec = trial_spec(&setup, &plan, scratch);
    let tell = |text: String| eprintln!("{text}");
    let frozen = snapshots.for_plan(&setup, &cold_spec, &never, &tell)?;
    let frozen = frozen.context("no snapshot could be taken")?;
    let warm_spec = TrialSpec {
        from: Some(&frozen),
        dir: cold_spec.dir.clone(),
        ..cold_spec
    };
    let (mut cold, mut warm) = (Starts::default(), Starts::default());
    for round in 0..=args.starts {
        for (spec, starts) in [(&cold_spec, &mut cold), (&warm_spec, &mut warm)] {
            let began = Instant::now();
            let (seconds, megabytes) = trial::time_to_ready(&setup, spec, began, &never)?;
            // The first pair only warms the caches up.
            if round > 0 {
                starts.seconds.push(seconds);
                starts.megabytes.push(megabytes);
            }
            let _ = std::fs::remove_dir_all(&spec.dir);
        }
    }
    Ok((cold, warm))
}

fn trial_spec<'a>(setup: &Setup, plan: &'a Plan, scratch: &Scratch) -> TrialSpec<'a> {
    TrialSpec {
        plan,
        dir: scratch.path().join("trial"),
        jvms: Jvms::Hooked,
        recording: Recording::None,
        warp: setup.target.warp_max,
        limits: Limits::first(setup.target.ready.within_ms),
        baseline: None,
        shared: 0,
        from: None,
    }
}

/// One exception per trial, while clients work.
fn spec(args: &TrialsArgs, prepared: &Prepared, start: StartSpec, trials: u64) -> CampaignSpec {
    let choice = Choice {
        workload: args.workload.clone(),
        nodes: None,
    };
    let wanted = Wanted::clean(&args.target, choice);
    CampaignSpec {
        policy: "survey".into(),
        faults: vec!["throw".into()],
        working: true,
        start,
        trials,
        jobs: args.jobs.unwrap_or(0),
        // Only the search is measured: what it finds is not confirmed.
        confirm: 0,
        confirm_unwarped: 0,
        shrink: 0,
        plan: None,
        ..wanted.spec(prepared, trials, WarpSpec::Auto)
    }
}

fn campaign_of(
    args: &TrialsArgs,
    prepared: &Prepared,
    scratch: &Scratch,
    start: StartSpec,
    trials: u64,
) -> anyhow::Result<Summary> {
    let spec = spec(args, prepared, start, trials);
    let store = campaign::create_store(&scratch.path().join("store"), &spec, prepared)?;
    // As JSON: its progress goes to stderr, and what is printed is the bench's own.
    campaign::run(prepared, store, Past::default(), true, None)
}

struct Result {
    cold: Starts,
    warm: Starts,
    from_cold: Summary,
    from_snapshot: Summary,
}

impl Result {
    fn figures(&self) -> [(&'static str, f64, f64, bool); 3] {
        let ready = median(&mut self.warm.seconds.clone());
        let (cold, warm) = (per_hour(&self.from_cold), per_hour(&self.from_snapshot));
        [
            (
                "ready cluster from a snapshot, s",
                ready,
                READY_BAR_S,
                ready <= READY_BAR_S,
            ),
            (
                "trials per hour from cold",
                cold,
                COLD_BAR,
                cold >= COLD_BAR,
            ),
            (
                "trials per hour from snapshots",
                warm,
                WARM_BAR,
                warm >= WARM_BAR,
            ),
        ]
    }

    fn holds(&self) -> bool {
        self.figures().iter().all(|(.., holds)| *holds)
    }

    fn lines(&self) -> impl Iterator<Item = &StartLine> {
        self.from_cold
            .starts
            .iter()
            .chain(&self.from_snapshot.starts)
    }

    fn json(&self) -> serde_json::Value {
        let starts = |starts: &Starts| {
            json!({
                "ready_s": median(&mut starts.seconds.clone()),
                "memory_mb": median(&mut starts.megabytes.clone()),
            })
        };
        let figures = self.figures().map(|(name, value, bar, holds)| {
            json!({"name": name, "value": value, "bar": bar, "ok": holds})
        });
        json!({
            "machine": machine(),
            "cold": starts(&self.cold),
            "snapshot": starts(&self.warm),
            "measures": figures,
            "parts": self.lines().collect::<Vec<_>>(),
        })
    }

    fn print(&self) {
        println!("{}\n", machine());
        let (cold, warm) = (
            median(&mut self.cold.seconds.clone()),
            median(&mut self.warm.seconds.clone()),
        );
        println!(
            "from nothing to a ready cluster: cold {cold:.2} s, from a snapshot {warm:.2} s \
             ({:.0} times faster; {} of each in turn)",
            cold / warm,
            self.cold.seconds.len()
        );
        println!(
            "memory of one cluster, shared pages once: cold {:.0} MB, from a snapshot {:.0} MB",
            median(&mut self.cold.megabytes.clone()),
            median(&mut self.warm.megabytes.clone())
        );
        for (name, value, bar, holds) in self.figures() {
            let verdict = if holds { "holds" } else { "MISSED" };
            println!("  {name:<36} {value:>9.2}  bar {bar:>7} {verdict}");
        }
        // What the rates leave out, because longer campaigns pay it once.
        for (name, summary) in [
            ("cold", &self.from_cold),
            ("from snapshots", &self.from_snapshot),
        ] {
            println!(
                "  {name}: {} trials in {:.0} s after {:.0} s of clean runs and snapshots",
                summary.trials,
                summary.search_seconds,
                summary.seconds - summary.search_seconds
            );
        }
        println!("\nwhere a trial's time goes, mean seconds of the trials that began so:");
        for line in self.lines() {
            let each = |sum: f64| sum / line.trials.max(1) as f64;
            let parts: Vec<String> = (line.parts.iter())
                .map(|(part, sum)| format!("{part} {:.2}", each(*sum)))
                .collect();
            println!(
                "  {:<8} {:>4} trials  {:.2} s, {:.2} s of processor time: {}",
                line.from,
                line.trials,
                each(line.seconds),
                each(line.cpu_seconds),
                parts.join(", ")
            );
        }
    }
}

/// Trials of the search by the time that took.
fn per_hour(summary: &Summary) -> f64 {
    summary.trials as f64 * 3600.0 / summary.search_seconds.max(1e-9)
}
