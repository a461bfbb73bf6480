//! Sites: the places in the code where a fault may happen.

use serde::{Deserialize, Serialize};

use crate::catalog::{Guard, Reach};

/// A site's index in its catalog: what the board and the agent speak.
pub type SiteId = u32;

/// Where the hook of a site stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// Just before a call, inside the same try range.
    #[default]
    Call,
    /// At the entry of a JDK method that does I/O, whoever calls it.
    Entry,
}

/// What an I/O site touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    Disk,
    Network,
    /// I/O, but which of the two cannot be told from the call alone.
    Stream,
}

/// Which way the bytes of an I/O site go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Read,
    Write,
    /// Opening, closing, connecting, renaming and the like.
    Control,
}

/// The I/O a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Io {
    pub medium: Medium,
    pub direction: Direction,
}

/// One place where a fault may happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Index in the catalog; stable for the same class files.
    pub id: SiteId,
    /// `pkg.Class.method(Params)>pkg.Callee.method#k`: stable across builds that keep the method.
    pub name: String,
    pub kind: SiteKind,
    /// Internal name of the class that holds the site, with slashes.
    pub class: String,
    pub method: String,
    pub desc: String,
    /// Position in the unmodified code.
    pub pc: u32,
    pub line: Option<u32>,
    /// `pkg.Callee.method`, with dots.
    pub callee: String,
    /// Exceptions the call can raise, most general first, with dots.
    pub exceptions: Vec<String>,
    /// Why: where each of them comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// Present where the call does I/O: then a delay makes sense too.
    pub io: Option<Io>,
    /// What the I/O goes to, as far as it can be told: `file this.logFile`, `peer sock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_target: Option<String>,
    /// Some callers pass a stream that is in memory only; others do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_memory: bool,
    /// States of tasks in which the site is reached, nearest first; a few of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<Reach>,
    /// Regions and timeouts around it, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// The group of guarded sites of its basic block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

/// Where an exception of a site comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// With dots.
    pub exception: String,
    pub how: Raise,
    /// `pkg.Class.method`, and the line where it is thrown if it is.
    pub place: String,
}

/// How the analysis knows that an exception can be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Raise {
    /// The callee has no body here and declares it.
    Declared,
    /// A body throws it and nothing on the way handles it.
    Thrown,
}
