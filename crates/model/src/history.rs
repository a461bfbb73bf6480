//! What checkers judge: one trial's events with what the baselines taught.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::event::{Event, What};
use crate::plan::Plan;
use crate::site::SiteId;
use crate::visit::{Move, Visit};

/// One trial, whole.
#[derive(Clone, Debug)]
pub struct History {
    pub plan: Plan,
    pub nodes: Vec<String>,
    pub clients: Vec<ClientRole>,
    /// Virtual milliseconds pass this many times faster than real ones.
    pub warp: f64,
    /// Roles that at most one node may have at a time.
    pub single_roles: Vec<String>,
    /// Roles, as logs have them, in which a node should serve.
    pub serving_roles: Vec<String>,
    pub events: Vec<Event>,
}

impl History {
    /// A stored trial, to be judged again. None when the events do not say who took part.
    pub fn from_events(plan: Plan, events: Vec<Event>) -> Option<History> {
        let began = events.iter().find_map(|event| match &event.what {
            What::Began {
                nodes,
                clients,
                warp,
                single_roles,
                serving_roles,
            } => Some(History {
                plan: plan.clone(),
                nodes: nodes.clone(),
                clients: clients.clone(),
                warp: *warp,
                single_roles: single_roles.clone(),
                serving_roles: serving_roles.clone(),
                events: Vec::new(),
            }),
            _ => None,
        })?;
        Some(History { events, ..began })
    }
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
    /// The frames of each context, innermost first.
    #[serde(default)]
    pub contexts: BTreeMap<String, Vec<String>>,
    /// Longest time from a start or from healing until a node serves, real milliseconds; 0 where
    /// it was not learned.
    #[serde(default)]
    pub recovery_ms: u64,
    /// How long operations take that succeed, per phase and kind.
    #[serde(default)]
    pub latency: Vec<Latency>,
    /// The longest that clients of each node got no answer in a usual run, over as many operations
    /// as they tried meanwhile; real milliseconds.
    #[serde(default)]
    pub waits_ms: BTreeMap<String, u64>,
    /// What clean runs came by, per node, state and site: the most hits in one run.
    #[serde(default)]
    pub visits: Vec<Visit>,
    /// How tasks went from state to state, all runs together.
    #[serde(default)]
    pub moves: Vec<Move>,
    /// The values of timeouts, virtual milliseconds, by their ids; ascending.
    #[serde(default)]
    pub timeouts: BTreeMap<u32, Vec<u64>>,
}

impl Baseline {
    /// Longest time until a node serves that was started or healed, real milliseconds.
    pub fn recovery_ms(&self) -> u64 {
        self.recovery_ms.max(self.ready_ms)
    }
}

/// How long the successful operations of one kind take, real microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub phase: String,
    pub op: String,
    /// Operations it was learned from.
    pub ops: u64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub max_us: u64,
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
    /// Fewest hits in a run that reached it: a fault at one of these is reached again.
    #[serde(default)]
    pub least: u32,
    /// Of these, before clients began to work: the most in one run.
    #[serde(default)]
    pub early: u32,
    /// Runs in which it was reached. Where trials go on from a frozen cluster: all of them if
    /// that reaches it, else none.
    pub runs: u32,
}
