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

/// An operation as one on registers: each key holds a value, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reg {
    /// Puts `value`, whatever was there.
    Write,
    /// Puts `value` where there was none; fails where there was one.
    Create,
    /// Takes the value away.
    Delete,
    /// Must give the newest value; no `value` in an answer that is `ok`: there is none.
    Read,
    /// May give an old value, but within a session never an older one than before.
    StaleRead,
    /// Asks to be told once when the key changes after `order`; `ok` when told.
    Watch,
    /// The whole state as one node has it, in `value`, taken when all is quiet.
    Digest,
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
    /// What the operation means to the store as a set of registers, where it means anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reg: Option<Reg>,
    /// Where the answer stands in the system's own order of writes, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The session in which it was done, where the system has sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
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
