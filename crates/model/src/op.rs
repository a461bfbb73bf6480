//! What a workload client reports: one JSON line when an operation begins, one when it ends.

use serde::{Deserialize, Serialize};

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpEvent {
    Invoke,
    Ok,
    /// Definitely not done.
    Fail,
    /// Done or not: the client cannot tell.
    Timeout,
    /// The answer contradicts what the client knows.
    Wrong,
}

/// One line of a client about one operation. Times are the client's own (virtual) clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    pub t: u64,
    pub client: String,
    pub node: String,
    pub phase: String,
    pub op: String,
    /// Unique within the client; ties the end to the beginning.
    pub id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    pub ev: OpEvent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A client's last line: its work is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    pub client: String,
    pub ok: u64,
    pub fail: u64,
    pub timeout: u64,
    pub wrong: u64,
}
