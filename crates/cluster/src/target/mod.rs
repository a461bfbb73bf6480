//! Targets: `target.toml` parsed (`config`), then resolved to facts that have all been checked.

mod cast;
mod compile;
mod config;
mod error;
mod find;
mod known;
mod resolve;
mod run;
mod settings;
mod source_text;
mod template;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::PathBuf;

use regex::Regex;
use temblor_model::settings::AnalysisSettings;

use crate::artifact::Jdk;

pub use cast::{Cast, Client, List, Node};
pub use config::{AgainBy, TargetConfig};
pub use error::{ConfigError, TargetError};
pub use find::{TARGET_FILE, TargetPlace, find_target, list_targets};
pub use known::{KnownBug, KnownMatch, read_known as known_bugs};
pub use resolve::{fetch_target, fetch_target_with, parse_target, target_status};
pub use template::{Facts, UnknownPlaceholder};

/// Nodes have 127.0.0.1 and on, clients 127.0.0.101 and on; each range must end before the next.
pub const NODES_MAX: usize = 99;
/// A client that looks at what is left waits for this file in its folder.
pub const FINALE: &str = "finale";
/// The file by which a client says that it is connected, where it waits for [`GO`].
pub const HERE: &str = "here";
/// The file that has clients warm up while they wait, and the one by which they say that they have.
pub const WARM: &str = "warm";
pub const WARMED: &str = "warmed";
/// The file that lets clients begin.
pub const GO: &str = "go";
/// As many clients as have an address.
pub const CLIENTS_MAX: u32 = 99;

/// A system's classes and what it tells about them: all that is needed to analyse it.
#[derive(Clone, Debug)]
pub struct TargetCode {
    pub name: String,
    pub version: String,
    pub summary: String,
    /// The folder of its `target.toml`.
    pub dir: PathBuf,
    pub jdk: Jdk,
    /// Absolute paths of jars and class folders.
    pub classpath: Vec<PathBuf>,
    pub analysis: AnalysisSettings,
}

/// A system under test, ready to be started.
#[derive(Clone, Debug)]
pub struct Target {
    pub code: TargetCode,
    pub cast: Cast,
    pub node: Program,
    /// Where a node keeps its files, relative to its folder.
    pub data: String,
    pub ready: Check,
    pub health: Check,
    /// Roles that at most one node may have at a time.
    pub single_roles: Vec<String>,
    pub log_line: Regex,
    /// With a group `role`, in the messages of logs.
    pub log_role: Option<Regex>,
    /// Those of the log's roles in which a node should serve.
    pub serving_roles: Vec<String>,
    pub workload: Program,
    /// Clients wait for the file [`FINALE`] in their folder and look at what is left then.
    pub finale: bool,
    /// Clients connect, say so by the file [`HERE`] in their folder, and wait for [`GO`].
    pub gate: bool,
    /// While they wait, the file [`WARM`] has them warm up all processes.
    pub warms: bool,
    /// How much longer than without faults clients may take, virtual milliseconds.
    pub reaction_ms: u64,
    /// When late nodes start, virtual milliseconds after the workload began.
    pub late_ms: u64,
    /// Names or roles of nodes that are killed and started again while clients work.
    pub again: Vec<String>,
    /// What happens to them instead of that.
    pub again_by: AgainBy,
    /// When: virtual milliseconds after the workload began and they serve.
    pub again_ms: u64,
    /// Nodes whose connections with others are reset from the beginning of the workload.
    pub away: Vec<String>,
    /// For how long, virtual milliseconds.
    pub away_ms: u64,
    pub stop: Option<Stop>,
    /// The largest warp factor worth trying.
    pub warp_max: f64,
    pub known: Vec<KnownBug>,
}

/// A Java program as templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Beside the target's own.
    pub classpath: Vec<PathBuf>,
    pub main: String,
    pub args: Vec<String>,
    pub jvm: Vec<String>,
    /// More of them for processes that live for one trial only.
    pub cold_jvm: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Templates of the files in its folder, by relative path.
    pub files: BTreeMap<String, String>,
}

impl Program {
    /// Whether a template mentions the trial's seed.
    fn uses_seed(&self) -> bool {
        let texts = self.args.iter().chain(&self.jvm);
        let mut all = texts.chain(self.env.values()).chain(self.files.values());
        all.any(|text| text.contains("{seed}"))
    }
}

impl Target {
    /// Whether nodes are started differently for every seed.
    pub fn nodes_use_seed(&self) -> bool {
        self.node.uses_seed()
    }

    /// Whether clients are; those that wait to be let in learn it then.
    pub fn clients_use_seed(&self) -> bool {
        self.workload.uses_seed()
    }
}

/// What may be chosen when a target is resolved; what is not given is the target's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub workload: Option<String>,
    pub nodes: Option<u32>,
}

/// How nodes are asked to stop at the end of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Names or roles, the first to be asked first.
    pub order: Vec<String>,
    /// Real milliseconds a node may take.
    pub within_ms: u64,
}

/// A question a healthy node answers.
#[derive(Clone, Debug)]
pub struct Check {
    pub port: u16,
    pub send: String,
    pub expect: Regex,
    /// The answer ends when the node closes, not with its first line.
    pub whole: bool,
    /// Real milliseconds.
    pub within_ms: u64,
    /// With a group `role`.
    pub role: Option<Regex>,
}

/// What can be done with a target on this machine as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    pub summary: String,
    /// The versions of the JDK it accepts, best first.
    pub majors: Vec<u32>,
    /// The one it would get.
    pub jdk: Option<Jdk>,
    /// Whether its classes are here.
    pub jars: bool,
    /// Whether they come with it and need not be fetched.
    pub bundled: bool,
    /// Whether it can be run; else it can only be analysed.
    pub runs: bool,
}

impl TargetStatus {
    /// Whether nothing needs to be fetched.
    pub fn is_here(&self) -> bool {
        self.jars && self.jdk.is_some()
    }
}

impl TargetCode {
    /// `trio@1`.
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

impl Target {
    /// `trio@1`.
    pub fn full_name(&self) -> String {
        self.code.full_name()
    }

    /// Whether its workload can do less than all of its work.
    pub fn can_do_less(&self) -> bool {
        self.workload.args.iter().any(|arg| arg.contains("{load}"))
    }

    /// Where to ask a node.
    pub fn check_address(&self, node: &Node, check: &Check) -> SocketAddrV4 {
        SocketAddrV4::new(node.addr, check.port)
    }
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
}
