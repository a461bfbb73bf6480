//! What all hooks add to a whole run without faults: alternating runs with and without the agent.

use std::sync::atomic::AtomicBool;

use anyhow::bail;
use serde_json::json;
use temblor_lab::compile::Recording;
use temblor_lab::limits::Limits;
use temblor_lab::trial::{self, Jvms, Setup, TrialSpec};
use temblor_model::campaign::{CampaignSpec, WarpSpec};
use temblor_model::event::{Stage, What};
use temblor_model::history::History;
use temblor_model::plan::Plan;

use super::java::Scratch;
use super::{Measure, machine, median};
use crate::args::OverheadArgs;
use crate::command::replay::Wanted;
use crate::exit::Exit;
use crate::prepare;
use temblor_cluster::target::Choice;

/// What one run took, seconds.
#[derive(Default)]
struct Runs {
    processor: Vec<f64>,
    workload: Vec<f64>,
    whole: Vec<f64>,
}

pub fn run(args: &OverheadArgs) -> anyhow::Result<Exit> {
    let choice = Choice {
        workload: args.workload.clone(),
        nodes: None,
    };
    let prepared = prepare::prepare(&args.target, &choice, false)?;
    let scratch = Scratch::new("bench-overhead")?;
    let wanted = Wanted::clean(&args.target, choice);
    let spec: CampaignSpec = wanted.spec(&prepared, 0, WarpSpec::Auto);
    let setup = prepared.setup(&spec, scratch.path())?;
    let (mut bare, mut hooked) = (Runs::default(), Runs::default());
    // The first pair only warms the caches up; where archives of classes are missing, it makes
    // them.
    let first = match setup.archives.are_missing() {
        true => Jvms::Training,
        false => Jvms::Bare,
    };
    one(&setup, &scratch, first, &mut Runs::default())?;
    setup.archives.keep_trained();
    for round in 1..=args.rounds {
        one(&setup, &scratch, Jvms::Bare, &mut bare)?;
        one(&setup, &scratch, Jvms::Hooked, &mut hooked)?;
        if !args.json {
            eprintln!("round {round} of {}", args.rounds);
        }
    }
    let ratio = |name, hooked: &mut Vec<f64>, bare: &mut Vec<f64>| Measure {
        name,
        value: median(hooked) / median(bare),
        unit: "x",
        bar: args.bar,
    };
    let measures = [
        ratio("processor time", &mut hooked.processor, &mut bare.processor),
        ratio("the workload", &mut hooked.workload, &mut bare.workload),
        ratio("the whole run", &mut hooked.whole, &mut bare.whole),
    ];
    let seconds = median(&mut bare.processor);
    if args.json {
        let all = measures
            .iter()
            .map(|m| json!({"name": m.name, "ratio": m.value}));
        let all: Vec<_> = all.collect();
        println!(
            "{}",
            json!({"machine": machine(), "processor_s": seconds, "measures": all})
        );
    } else {
        println!("{}", machine());
        println!(
            "{} sites hooked, none armed, {} pairs",
            setup.catalog.sites.len(),
            args.rounds
        );
        println!("a run without the agent takes {seconds:.2} s of processor time");
        for m in &measures {
            let verdict = if m.ok() { "holds" } else { "MISSED" };
            println!("  {:<16} {:.3} x  bar {} {verdict}", m.name, m.value, m.bar);
        }
    }
    // Users wait for the workload.
    Ok(if measures[1].ok() {
        Exit::Pass
    } else {
        Exit::Unknown
    })
}

/// One clean run.
fn one(setup: &Setup, scratch: &Scratch, jvms: Jvms, runs: &mut Runs) -> anyhow::Result<()> {
    let dir = scratch.path().join("trial");
    let plan = Plan::clean();
    let spec = TrialSpec {
        plan: &plan,
        dir: dir.clone(),
        jvms,
        recording: Recording::None,
        warp: setup.target.warp_max,
        limits: Limits::first(setup.target.ready.within_ms),
        baseline: None,
        shared: 0,
        from: None,
    };
    let never = AtomicBool::new(false);
    let finished = trial::run(setup, &spec, &mut |_| {}, &never)?;
    let _ = std::fs::remove_dir_all(&dir);
    let Some(workload) = workload_s(&finished.history) else {
        bail!("a run without faults did not end its workload");
    };
    runs.processor.push(finished.cpu_seconds);
    runs.workload.push(workload);
    runs.whole.push(finished.seconds);
    Ok(())
}

fn workload_s(history: &History) -> Option<f64> {
    let began = |wanted: Stage| {
        let is = |what: &What| matches!(what, What::Stage { stage } if *stage == wanted);
        let event = history.events.iter().find(|e| is(&e.what))?;
        Some(event.at_us as f64 / 1e6)
    };
    Some(began(Stage::Heal)? - began(Stage::Workload)?)
}
