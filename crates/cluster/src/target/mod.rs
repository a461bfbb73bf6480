//! Targets: `target.toml` parsed (`config`), then resolved to facts that have all been checked.

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
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use regex::Regex;
use temblor_model::settings::AnalysisSettings;

use crate::artifact::Jdk;

pub use config::TargetConfig;
pub use error::{ConfigError, TargetError};
pub use find::{TARGET_FILE, TargetPlace, find_target, list_targets};
pub use known::{KnownBug, KnownMatch, read_known as known_bugs};
pub use resolve::{fetch_target, fetch_target_with, parse_target, target_status};
pub use template::{Facts, UnknownPlaceholder};

/// Nodes have 127.0.0.1 and on, clients 127.0.0.101 and on; each range must end before the next.
pub const NODES_MAX: usize = 99;
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
    pub nodes: Vec<Node>,
    pub node: Program,
    /// Templates of the files in a node's folder, by relative path.
    pub files: BTreeMap<String, String>,
    pub ports: BTreeMap<String, u16>,
    pub ready: Check,
    pub health: Check,
    pub log_line: Regex,
    pub workload: Program,
    pub clients: Vec<Client>,
    /// The largest warp factor worth trying.
    pub warp_max: f64,
    pub known: Vec<KnownBug>,
}

/// A Java program as templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub main: String,
    pub args: Vec<String>,
    pub jvm: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// From 1.
    pub index: usize,
    pub addr: Ipv4Addr,
}

/// A client of the workload and the node it talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// `c1`, `c2`, ...
    pub name: String,
    /// From 1.
    pub index: usize,
    /// Its own address: partitions between nodes never cut it off.
    pub addr: Ipv4Addr,
    /// The name of its node.
    pub node: String,
}

/// A question a healthy node answers.
#[derive(Clone, Debug)]
pub struct Check {
    pub port: u16,
    pub send: String,
    pub expect: Regex,
    /// Real milliseconds.
    pub within_ms: u64,
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

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Where to ask a node.
    pub fn check_address(&self, node: &Node, check: &Check) -> SocketAddrV4 {
        SocketAddrV4::new(node.addr, check.port)
    }

    /// The placeholders of a node whose folder is `dir`.
    pub fn node_facts(&self, node: &Node, dir: &Path, seed: u64) -> Facts {
        node_facts(&self.nodes, &self.ports, node, dir, seed)
    }

    /// The placeholders of a client whose folder is `dir`; `{addr}` is its node's.
    pub fn client_facts(&self, client: &Client, dir: &Path, seed: u64) -> Facts {
        client_facts(&self.nodes, &self.ports, client, dir, seed)
    }
}

/// The placeholders that all processes of a trial share.
fn shared_facts(nodes: &[Node], ports: &BTreeMap<String, u16>, seed: u64) -> Facts {
    let mut facts = Facts::default();
    let of_nodes = |text: &dyn Fn(&Node) -> String| -> String {
        nodes.iter().map(text).collect::<Vec<_>>().join(",")
    };
    facts.set("seed", seed);
    facts.set(
        "nodes",
        of_nodes(&|node| format!("{}@{}", node.name, node.addr)),
    );
    for (name, port) in ports {
        facts.set(format!("port.{name}"), port);
        facts.set(
            format!("nodes.{name}"),
            of_nodes(&|node| format!("{}:{port}", node.addr)),
        );
    }
    facts
}

fn node_facts(
    nodes: &[Node],
    ports: &BTreeMap<String, u16>,
    node: &Node,
    dir: &Path,
    seed: u64,
) -> Facts {
    let mut facts = shared_facts(nodes, ports, seed);
    facts.set("node", &node.name);
    facts.set("index", node.index);
    facts.set("addr", node.addr);
    facts.set("dir", dir.display());
    facts
}

fn client_facts(
    nodes: &[Node],
    ports: &BTreeMap<String, u16>,
    client: &Client,
    dir: &Path,
    seed: u64,
) -> Facts {
    let mut facts = shared_facts(nodes, ports, seed);
    let node = nodes.iter().find(|node| node.name == client.node);
    facts.set("client", &client.name);
    facts.set("node", &client.node);
    facts.set("index", client.index);
    facts.set("addr", node.map_or(client.addr, |node| node.addr));
    facts.set("dir", dir.display());
    facts
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
}
