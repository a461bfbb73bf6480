//! `target.toml` as it is written. Only its form is checked here; `resolve` checks the facts.

use std::collections::BTreeMap;

use serde::Deserialize;
use temblor_model::settings::AnalysisSettings;
use toml::Spanned;

/// How long a node may take to become ready, where the target does not say.
pub const READY_WITHIN_MS: u64 = 20_000;
/// How long a node may take to say how it is, where the target does not say.
pub const HEALTH_WITHIN_MS: u64 = 5_000;
/// How much longer clients may take if there are faults, where the target does not say.
pub const REACTION_MS: u64 = 60_000;

/// The only format there is.
pub const FORMAT: u32 = 1;

/// The whole file, with what it inherits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    pub format: Spanned<u32>,
    /// A file of the same keys, below this one: what is missing here is taken from there.
    pub inherit: Option<Spanned<String>>,
    pub name: Spanned<String>,
    pub version: Spanned<String>,
    #[serde(default)]
    pub summary: String,
    /// Accepted major versions, best first.
    pub jdk: Spanned<Vec<String>>,
    pub source: Spanned<SourceConfig>,
    pub analysis: AnalysisSettings,
    // A target that can be run has these four; one that can only be analysed has none of them.
    pub node: Option<Spanned<NodeConfig>>,
    pub ready: Option<Spanned<ProbeConfig>>,
    pub log: Option<Spanned<LogConfig>>,
    pub workload: Option<Spanned<WorkloadConfig>>,
    /// How a node is asked later whether it is well; as `ready` when omitted.
    pub health: Option<Spanned<ProbeConfig>>,
    pub stop: Option<Spanned<StopConfig>>,
    pub warp: Option<Spanned<WarpConfig>>,
}

/// Where the classes come from: exactly one of these.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// A folder of Java sources, compiled at first use.
    pub java: Option<Spanned<String>>,
    /// Patterns of jars in the target's folder.
    pub jars: Option<Vec<Spanned<String>>>,
    /// Coordinates, `group:artifact:version`.
    pub maven: Option<Vec<Spanned<String>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// All there may be; the first `count` of them are used, or all.
    pub names: Spanned<Vec<String>>,
    pub count: Option<Spanned<u32>>,
    pub main: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub jvm: Vec<String>,
    /// More of them for processes that live for one trial only.
    #[serde(default)]
    pub cold_jvm: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Every node has these ports, at an address of its own.
    pub ports: BTreeMap<String, Spanned<u16>>,
    /// Where it keeps its files, in its folder; `data` when omitted.
    pub data: Option<Spanned<String>>,
    /// Written to the node's folder before it starts: path to template.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// What `{set.NAME}` stands for; a workload may say otherwise.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// What `{list.NAME}` stands for: one item per member of the cluster.
    #[serde(default)]
    pub lists: BTreeMap<String, ListConfig>,
}

/// A text repeated for every member: the placeholders in it are that member's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListConfig {
    pub item: String,
    #[serde(default = "comma")]
    pub join: String,
}

fn comma() -> String {
    ",".into()
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeConfig {
    pub port: Spanned<String>,
    #[serde(default)]
    pub send: String,
    pub expect: Spanned<String>,
    /// The answer ends when the node closes, not with its first line.
    #[serde(default)]
    pub whole: bool,
    /// Real milliseconds until a node must have answered so.
    pub within_ms: Option<Spanned<u64>>,
    /// With a group `role`: what the node says it is.
    pub role: Option<Spanned<String>>,
    /// Roles that at most one node may have at a time.
    #[serde(default)]
    pub single: Vec<String>,
}

/// How nodes are stopped at the end of a trial; without it all are killed at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopConfig {
    /// Names or roles, the first to be asked first; who is not named comes last.
    pub order: Vec<String>,
    /// Real milliseconds a node may take to end by itself.
    pub within_ms: Spanned<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// With groups `level` and `message`, and perhaps `thread` and `logger`.
    pub line: Spanned<String>,
    /// With a group `role`, in messages: what the node takes itself for, before it says so to
    /// others and after.
    pub role: Option<Spanned<String>>,
    /// Those of these roles that at most one node may have at a time.
    #[serde(default)]
    pub single: Vec<String>,
    /// Those of these roles in which a node should serve.
    #[serde(default)]
    pub serving: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadConfig {
    /// A folder of Java sources, compiled against the target's own classes.
    pub java: Option<Spanned<String>>,
    pub main: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub jvm: Vec<String>,
    /// More of them for processes that live for one trial only.
    #[serde(default)]
    pub cold_jvm: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Written to a client's folder before it starts: path to template.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// How many client processes; as many as nodes when omitted. They take the nodes in turn.
    pub clients: Option<Spanned<u32>>,
    /// Whether clients wait for a file `finale` in their folder and look at what is left then.
    #[serde(default)]
    pub finale: bool,
    /// Whether clients write a file `here` to their folder once they are connected, and begin when
    /// there is a file `go`.
    #[serde(default)]
    pub gate: bool,
    /// Whether clients that find a file `warm` while they wait do some work that leaves no trace, and
    /// write a file `warmed`.
    #[serde(default)]
    pub warms: bool,
    /// How much longer than without faults clients may take, for time-outs, elections and retries.
    /// Virtual milliseconds.
    pub reaction_ms: Option<u64>,
    /// The workload that is run when none is asked for.
    pub default: Option<Spanned<String>>,
    /// The workloads there are; `{workload}` is the name of the one that is run.
    #[serde(default)]
    pub kinds: BTreeMap<String, Spanned<KindConfig>>,
}

/// One of several workloads: what it changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindConfig {
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Added to the arguments.
    #[serde(default)]
    pub args: Vec<String>,
    pub nodes: Option<Spanned<u32>>,
    pub clients: Option<Spanned<u32>>,
    /// Nodes that start, with their clients, when the workload has run for `late_ms`.
    pub late: Option<Spanned<Vec<String>>>,
    /// Virtual milliseconds.
    #[serde(default)]
    pub late_ms: u64,
    /// Names or roles of nodes that are killed and started again, once, while clients work.
    pub again: Option<Spanned<Vec<String>>>,
    /// What happens to them instead of that.
    #[serde(default)]
    pub again_by: AgainBy,
    /// When: so long after the workload began and they serve. Virtual milliseconds.
    #[serde(default)]
    pub again_ms: u64,
    /// Nodes whose connections with other nodes are reset from the beginning, for `away_ms`.
    pub away: Option<Spanned<Vec<String>>>,
    /// Virtual milliseconds.
    #[serde(default)]
    pub away_ms: u64,
    /// Nodes that the others are not told of: members once the workload makes them so.
    pub joining: Option<Spanned<Vec<String>>>,
}

/// How a workload has nodes come again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgainBy {
    /// They are killed and started.
    #[default]
    Kill,
    /// Their connections with other nodes are reset.
    Reset,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarpConfig {
    /// The largest factor worth trying.
    pub max: Spanned<f64>,
}
