//! The test's own target, two small nodes, and a store of its own for every test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use temblor_model::plan::Plan;

use crate::program::{LIMIT, Output, Running, assert_nothing_runs, temblor};

const TARGET: &str = include_str!("mini/target.toml");
const SOURCES: [(&str, &str); 2] = [
    ("Node.java", include_str!("mini/src/mini/Node.java")),
    ("Workload.java", include_str!("mini/src/mini/Workload.java")),
];
/// Few, quick, deterministic: the same hits in every clean run.
const BRIEF: [&str; 10] = [
    "--baselines",
    "1",
    "--confirm",
    "0",
    "--confirm-unwarped",
    "0",
    "--delay",
    "3s",
    "--sites",
    r"mini\.Node\.(put|get)\(",
];

/// A folder with the target and a store.
pub struct Mini {
    folder: tempfile::TempDir,
}

impl Mini {
    pub fn new() -> Mini {
        Mini::changed(|toml| toml.to_string())
    }

    /// With a node or a workload that misbehaves in a way of its own.
    pub fn misbehaving(node: &str, client: &str) -> Mini {
        Mini::changed(|toml| {
            toml.replace("NODE_MODE", node)
                .replace("CLIENT_MODE", client)
        })
    }

    /// With another target.toml.
    pub fn changed(change: impl FnOnce(&str) -> String) -> Mini {
        let folder = tempfile::Builder::new()
            .prefix("temblor-e2e-")
            .tempdir()
            .unwrap();
        let mini = Mini { folder };
        let sources = mini.target().join("src/mini");
        std::fs::create_dir_all(&sources).unwrap();
        for (name, text) in SOURCES {
            std::fs::write(sources.join(name), text).unwrap();
        }
        std::fs::write(mini.target().join("target.toml"), change(TARGET)).unwrap();
        mini
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn target(&self) -> PathBuf {
        self.folder().join("mini")
    }

    pub fn store(&self) -> PathBuf {
        self.folder().join("store")
    }

    /// A file of the test's own.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// `temblor ARGS` in this folder, so with its store; `mini` stands for the target's folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(temblor());
        for arg in args {
            match *arg {
                "mini" => command.arg(self.target()),
                other => command.arg(other),
            };
        }
        command
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args), self.folder())
    }

    /// Runs to the end; nothing may be left running, whatever came of it.
    pub fn run(&self, args: &[&str]) -> Output {
        let output = self.start(args).wait(LIMIT);
        assert_nothing_runs(self.folder());
        output
    }

    /// The arguments of a short campaign on the target.
    pub fn campaign<'a>(args: &[&'a str]) -> Vec<&'a str> {
        let jobs: &[&str] = if args.contains(&"--jobs") {
            &[]
        } else {
            &["--jobs", "1"]
        };
        [&["run", "mini"], &BRIEF[..], jobs, args].concat()
    }

    /// The newest campaign's folder.
    pub fn latest(&self) -> PathBuf {
        self.store().join("latest")
    }

    /// The search trials of the newest campaign that are done: number to plan and outcome.
    pub fn searched(&self) -> BTreeMap<u64, (Plan, String)> {
        searched(&self.latest())
    }

    /// The plans of the search in the order of their trials.
    pub fn plans(&self) -> Vec<Plan> {
        self.searched()
            .into_values()
            .map(|(plan, _)| plan)
            .collect()
    }
}

/// The finished search trials in a campaign's folder. The first trial is the clean run.
fn searched(campaign: &Path) -> BTreeMap<u64, (Plan, String)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(campaign.join("trials"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<u64>() else {
            continue;
        };
        let Ok(outcome) = std::fs::read_to_string(entry.path().join("outcome.json")) else {
            continue;
        };
        let plan = std::fs::read_to_string(entry.path().join("plan.toml")).unwrap();
        let plan: Plan = toml::from_str(&plan).unwrap();
        if !plan.steps.is_empty() {
            found.insert(number, (plan, outcome));
        }
    }
    found
}
