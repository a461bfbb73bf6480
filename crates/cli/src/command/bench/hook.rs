//! What a hit costs: one that cannot fire, one that decides, one that asks, one that records.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use temblor_analysis::Request;
use temblor_cluster::artifact::Jdk;
use temblor_lab::board::{BoardFile, answer};
use temblor_model::board::spec::{BoardSpec, FaultKind, FaultSpec, StepSpec, TriggerKind};
use temblor_model::board::{ARM_RECORD, ARM_SET, ARM_STEP};
use temblor_model::catalog::SiteCatalog;
use temblor_model::{fnv64, hooks};

use super::Measure;
use super::java::{Scratch, compile, figure, figures};
use crate::prepare::library;

const SOURCE: &str = include_str!("../../../../agent/bench/HookBench.java");

/// A bench program with hooks at the calls of its variants.
struct Bench<'a> {
    jdk: &'a Jdk,
    dir: &'a Path,
    catalog: SiteCatalog,
    percent: u32,
}

pub fn measure(jdk: &Jdk, percent: u32) -> anyhow::Result<Vec<Measure>> {
    let scratch = Scratch::new("bench-hook")?;
    let dir = scratch.path();
    compile(jdk, dir, "HookBench", SOURCE)?;
    let mut request = Request::new(vec![dir.to_path_buf()], &jdk.home, Vec::new());
    request.settings.calls.push("HookBench.call".into());
    let catalog = temblor_analysis::analyze(&request)?.catalog;
    // The empty loop stays as it is: it is what the others are compared with.
    let hooked = |id: u32| {
        let site = catalog.site(id);
        site.is_some_and(|s| s.callee == "HookBench.call" && s.method != "empty")
    };
    std::fs::write(dir.join("hooks"), hooks::encode(&catalog, false, hooked))?;
    let bench = Bench {
        jdk,
        dir,
        catalog: catalog.clone(),
        percent,
    };
    let idle = bench.run(&["empty", "disarmed"], BoardSpec::default(), "disarmed", 0)?;
    let elsewhere = step(TriggerKind::AtHit, fnv64(b"another node"));
    let other = bench.run(&["other"], elsewhere, "other", ARM_STEP)?;
    // A state to look for, and visits to be counted by their stacks.
    let focused = BoardSpec {
        counts: true,
        ..step(TriggerKind::Random, 0)
    };
    let bsrr = bench.run(&["other"], focused, "other", ARM_SET)?;
    let recording = BoardSpec {
        ring_units: 1 << 17,
        hits_per_site: u32::MAX,
        stacks_per_site: 0,
        ..BoardSpec::default()
    };
    let record = bench.run(&["record"], recording, "record", ARM_RECORD)?;
    let asked = bench.run(&["asked"], step(TriggerKind::Ask, 0), "asked", ARM_STEP)?;
    let over = figure(&idle, "disarmed")? - figure(&idle, "empty")?;
    Ok(vec![
        Measure {
            name: "a hit that cannot fire, over the empty loop",
            value: over.max(0.0),
            unit: "ns",
            bar: 3.0,
        },
        Measure {
            name: "a decision at an armed site",
            value: figure(&other, "other")?,
            unit: "ns",
            bar: 1_000.0,
        },
        Measure {
            name: "a bsrr decision, stack and counting included (paper: 3 ms)",
            value: figure(&bsrr, "other")? / 1000.0,
            unit: "us",
            bar: 3_000.0,
        },
        Measure {
            name: "a recorded hit, without its stack",
            value: figure(&record, "record")?,
            unit: "ns",
            bar: 1_000.0,
        },
        Measure {
            name: "a decision asked of the lab, p50",
            value: figure(&asked, "asked-p50")? / 1000.0,
            unit: "us",
            bar: 50.0,
        },
        Measure {
            name: "a decision asked of the lab, p99",
            value: figure(&asked, "asked-p99")? / 1000.0,
            unit: "us",
            bar: 50.0,
        },
    ])
}

/// A board with one step at the site that is filled in later.
fn step(trigger: TriggerKind, node: u64) -> BoardSpec {
    let step = StepSpec {
        trigger,
        site: 0,
        node,
        ..StepSpec::default()
    };
    let fault = FaultSpec {
        kind: FaultKind::Crash,
        amount: 0,
        class: String::new(),
    };
    BoardSpec {
        steps: vec![step],
        faults: vec![fault],
        ..BoardSpec::default()
    }
}

impl Bench<'_> {
    /// Runs variants with the site of `method` armed so; questions are answered with "go on".
    fn run(
        &self,
        variants: &[&str],
        mut spec: BoardSpec,
        method: &str,
        arm: u8,
    ) -> anyhow::Result<Vec<(String, f64)>> {
        let is_site =
            |s: &&temblor_model::site::Site| s.method == method && s.callee == "HookBench.call";
        let site = self.catalog.sites.iter().find(is_site);
        let site = site.map(|s| s.id).unwrap_or_default();
        spec.catalog_hash = self.catalog.hash();
        spec.arms = vec![0; self.catalog.sites.len()];
        spec.points = self.catalog.points();
        spec.arms[site as usize] = arm;
        spec.block_count = self.catalog.block_count;
        for step in &mut spec.steps {
            step.site = site;
        }
        let path = self.dir.join(format!("board-{method}"));
        let board = BoardFile::create(&path, &spec)?;
        let agent = format!(
            "-agentpath:{}=board={},hooks={},node=n1",
            library("libtemblor_agent.so")?.display(),
            path.display(),
            self.dir.join("hooks").display()
        );
        let mut command = Command::new(self.jdk.java());
        command.arg(agent).arg("-cp").arg(self.dir).arg("HookBench");
        command.arg(self.percent.to_string()).args(variants);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Some(question) = board.wait_question(Duration::from_millis(20)) {
                        answer(question, 0);
                    }
                }
            });
            let result = figures(&mut command);
            done.store(true, Ordering::Relaxed);
            result
        })
    }
}
