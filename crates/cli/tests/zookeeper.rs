//! Real ZooKeeper under test, in the program as its users run it: clean runs pass, and a fault fires
//! with evidence. `./test` fetches its jars.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};

use temblor_model::event::{Stage, What};
use temblor_report::Store;

const TARGET: &str = "zookeeper@3.6.2";

struct Run {
    store: tempfile::TempDir,
}

impl Run {
    fn new() -> Run {
        Run {
            store: tempfile::tempdir().unwrap(),
        }
    }

    fn temblor(&self, args: &[&str]) -> Output {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut command = Command::new(env!("CARGO_BIN_EXE_temblor"));
        command.arg("--store").arg(self.store.path()).args(args);
        let output = command.env("TEMBLOR_ROOT", root).current_dir(root).output();
        output.expect("the program starts")
    }

    fn latest(&self) -> PathBuf {
        self.store.path().join("latest")
    }
}

fn summary(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {output:#?}"))
}

/// How often each node was started in a trial, and how often one took itself for a leader while
/// clients worked; each said in its log what it took itself for.
fn starts(run: &Run, trial: u64) -> (BTreeMap<String, usize>, usize) {
    let store = Store::open(&run.latest()).unwrap();
    let mut starts = BTreeMap::new();
    let mut told = BTreeSet::new();
    let (mut working, mut elections) = (false, 0);
    for event in store.events(trial).unwrap().values {
        match event.what {
            What::NodeStarted { node, .. } => *starts.entry(node).or_default() += 1,
            What::Stage { stage } => working |= stage == Stage::Workload,
            What::Becomes { node, role } => {
                elections += usize::from(working && role == "LEADING");
                told.insert(node);
            }
            _ => {}
        }
    }
    assert!(starts.keys().eq(&told), "{starts:?} {told:?}");
    (starts, elections)
}

/// One after another in one test: each takes both cores.
#[test]
fn clean_runs_pass_and_a_fault_is_injected_with_evidence() {
    for workload in ["legolas", "sieve", "rejoin", "restart", "election"] {
        let run = Run::new();
        let clean = [
            "run",
            TARGET,
            "--workload",
            workload,
            "--policy",
            "clean",
            "--trials",
            "1",
            "--baselines",
            "2",
            "--confirm",
            "0",
            "--confirm-unwarped",
            "0",
            "--jobs",
            "1",
            "--json",
        ];
        let output = run.temblor(&clean);
        assert_eq!(output.status.code(), Some(0), "{workload}: {output:#?}");
        assert_eq!(summary(&output)["trials"], 1, "{workload}: {output:#?}");
        let junit = std::fs::read_to_string(run.latest().join("junit.xml")).unwrap();
        assert!(junit.contains("failures=\"0\""), "{junit}");
        let (starts, elections) = starts(&run, 3);
        let restarts = starts.into_values().filter(|n| *n == 2).count();
        let expected = usize::from(matches!(workload, "rejoin" | "restart"));
        assert_eq!(restarts, expected, "{workload}: nodes started twice");
        let expected = matches!(workload, "restart" | "election");
        assert_eq!(elections > 0, expected, "{workload}: elections under load");
    }
    let run = Run::new();
    let faulty = [
        "run",
        TARGET,
        "--faults",
        "throw",
        "--sites",
        r"Learner\.readPacket\(",
        "--trials",
        "1",
        "--baselines",
        "2",
        "--confirm",
        "0",
        "--confirm-unwarped",
        "0",
        "--jobs",
        "1",
        "--json",
    ];
    let output = run.temblor(&faulty);
    let summary = summary(&output);
    assert_eq!(
        (&summary["trials"], &summary["fired"]),
        (&1.into(), &1.into()),
        "{output:#?}"
    );
    let outcome = std::fs::read_to_string(run.latest().join("trials/3/outcome.json")).unwrap();
    let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
    let fired = &outcome["fired"][0];
    assert!(
        fired["site"]
            .as_str()
            .unwrap()
            .contains("Learner.readPacket"),
        "{outcome:#}"
    );
    assert!(!fired["stack"].as_str().unwrap().is_empty(), "{outcome:#}");
}
