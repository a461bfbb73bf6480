//! What a target tells the analysis about itself: the `[analysis]` table of its `target.toml`.
//!
//! Names of classes are written with dots; `pkg.Class.method` names every overload. A `*` in the
//! class's or the method's name stands for any part of it.

use serde::{Deserialize, Serialize};

use crate::site::{Direction, Medium};

/// Everything specific to a target that the analysis may know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnalysisSettings {
    /// Prefixes of the class names that are the target's own. Empty takes all.
    pub packages: Vec<String>,
    /// Prefixes below them that are left out: generated code, clients, test tools.
    pub exclude: Vec<String>,
    /// Exceptions to inject: a type stands for itself and its subtypes, a pattern with `*` for
    /// the types whose names match. Empty is the I/O family.
    pub exceptions: Vec<String>,
    /// Methods whose every call is a site, whatever they declare.
    pub calls: Vec<String>,
    /// Calls that do I/O though no analysis tells.
    pub io: Vec<IoRule>,
    /// Calls that do not, though they look like it.
    pub not_io: Vec<String>,
    /// Streams and channels that live in memory, besides those of the JDK.
    pub memory: Vec<String>,
    /// Worker bases: whose subclasses are task units, and the method that runs.
    pub tasks: Vec<TaskRule>,
    /// Methods that take and give back a lock of the target's own.
    pub locks: Vec<LockRule>,
    /// Methods that run the closure they are given while they hold a lock.
    pub lock_wrappers: Vec<String>,
    /// Methods that read the clock, besides those found by analysis.
    pub clocks: Vec<ClockRule>,
    /// Methods that send messages to other nodes, and methods that handle them.
    pub sends: Vec<String>,
    pub handles: Vec<String>,
    /// Types whose values say which nodes there are.
    pub meta_types: Vec<String>,
    /// Also make every exception handler of a task method a state.
    pub handler_states: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoRule {
    /// `pkg.Class.method`; overriding methods of subclasses count too.
    pub call: String,
    pub medium: Medium,
    pub direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRule {
    /// A class or interface.
    pub base: String,
    /// Its method that a thread runs; every overload.
    pub method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockRule {
    pub acquire: String,
    pub release: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockRule {
    pub call: String,
    pub unit: crate::catalog::TimeUnit,
}
