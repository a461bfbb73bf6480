//! What checkers judge: one trial's events with what the baselines taught.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::plan::Plan;
use crate::site::SiteId;

/// One trial, whole.
#[derive(Clone, Debug)]
pub struct History {
    pub plan: Plan,
    pub nodes: Vec<String>,
    pub clients: Vec<ClientRole>,
    /// Virtual milliseconds pass this many times faster than real ones.
    pub warp: f64,
    pub events: Vec<Event>,
}

/// A client and the node it talks to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRole {
    pub client: String,
    pub node: String,
}

/// What clean runs look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    pub format: u32,
    pub runs: u32,
    pub warp: f64,
    /// Longest time to readiness, real milliseconds.
    pub ready_ms: u64,
    /// Longest workload, real milliseconds.
    pub workload_ms: u64,
    /// What nearly all operations end within, real milliseconds.
    pub op_ms: u64,
    /// Operations each client ends successfully, the least seen.
    pub ops: BTreeMap<String, u64>,
    /// Templates of WARN and worse lines that clean runs print.
    pub templates: BTreeSet<String>,
    /// What was reached: per site and node, the contexts and how often.
    pub reached: Vec<Reached>,
}

/// A site as clean runs reached it on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    pub site: SiteId,
    pub node: String,
    /// Context hash in hex.
    pub stack: String,
    /// Most hits in one run.
    pub hits: u32,
    /// Runs in which it was reached.
    pub runs: u32,
}
