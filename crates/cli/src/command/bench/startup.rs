//! What an idle agent adds to the start of a cluster: alternating runs with and without it.

use std::time::{Duration, Instant};

use anyhow::bail;
use temblor_cluster::cell::{Cell, CellSpec, ProbeSpec};
use temblor_cluster::start::{Extra, TrialPlace, node_process, write_node_files};
use temblor_lab::board::BoardFile;
use temblor_lab::compile::{self, AnyFaults, Ground, Hold, Recording};
use temblor_model::plan::Plan;

use super::java::Scratch;
use super::{Measure, median};
use crate::prepare::{Prepared, library};

/// A cluster that is not up by then never will be.
const UP_LIMIT: Duration = Duration::from_secs(60);

pub fn measure(prepared: &Prepared, rounds: usize) -> anyhow::Result<Measure> {
    let scratch = Scratch::new("bench-startup")?;
    let hooks = scratch.path().join("hooks");
    let bytes = temblor_model::hooks::encode(&prepared.catalog, false, |_| true);
    std::fs::write(&hooks, bytes)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let dir = |kind: &str| scratch.path().join(format!("{kind}{round}"));
        without.push(start(prepared, &dir("plain"), None)?);
        with.push(start(prepared, &dir("agent"), Some(&hooks))?);
    }
    Ok(Measure {
        name: "start-up of three nodes with an idle agent",
        value: median(&mut with) / median(&mut without),
        unit: "x",
        bar: 1.05,
    })
}

/// Seconds until all nodes serve.
fn start(
    prepared: &Prepared,
    dir: &std::path::Path,
    hooks: Option<&std::path::Path>,
) -> anyhow::Result<f64> {
    let target = &prepared.target;
    let cell = Cell::open(CellSpec::new(dir))?;
    let place = TrialPlace {
        dir: cell.dir().to_path_buf(),
        seed: 1,
        load: 100,
    };
    let nodes = target.cast.node_names();
    let any = AnyFaults {
        throw: false,
        crash: false,
        delay_ms: None,
        sites: None,
    };
    let ground = Ground {
        catalog: &prepared.catalog,
        nodes: &nodes,
        any: &any,
        baseline: None,
    };
    let spec = compile::board(&Plan::clean(), ground, Recording::None, Hold::Nowhere)?;
    let board = BoardFile::create(&place.dir.join("board"), &spec)?;
    let preload = library("libtemblor_warp.so")?.display().to_string();
    let began = Instant::now();
    for node in &target.cast.nodes {
        write_node_files(target, &place, node)?;
        let jvm = hooks.map(|hooks| {
            let agent = library("libtemblor_agent.so")?;
            let (agent, board, hooks) = (agent.display(), board.path().display(), hooks.display());
            let option = format!(
                "-agentpath:{agent}=board={board},hooks={hooks},node={}",
                node.name
            );
            anyhow::Ok(option)
        });
        let jvm = jvm.transpose()?.into_iter().collect();
        let extra = Extra {
            jvm,
            env: vec![("LD_PRELOAD".into(), preload.clone())],
        };
        cell.start(node_process(target, &place, node, &extra)?)?;
    }
    let mut waiting: Vec<_> = target.cast.nodes.iter().collect();
    while !waiting.is_empty() {
        if began.elapsed() > UP_LIMIT {
            bail!("the cluster is not up after {} s", UP_LIMIT.as_secs());
        }
        let to = target.check_address(waiting[0], &target.ready);
        let send = target.ready.send.clone();
        let answer = cell.probe(ProbeSpec {
            to,
            send,
            within_ms: 1_000,
            one_line: true,
        })?;
        match answer
            .text()
            .is_some_and(|text| target.ready.expect.is_match(text))
        {
            true => drop(waiting.remove(0)),
            false => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    cell.close()?;
    Ok(seconds)
}
