//! Delays below the program: what a slow disk or a network that stalls does to it, to see whether
//! an operation that was delayed inside the program would block there at all.
//!
//! Disk: a file system that passes everything through to the folder it covers and holds back what
//! it is told to. Network: packets are dropped for a while, and TCP sends them again.
//! Durations are of the real clock; the program's own clock is not known here.

mod disks;
mod files;
mod lab;
mod pass_through;
mod rules;
mod server;
mod stall;

use serde::{Deserialize, Serialize};

pub(super) use disks::Disks;
pub(super) use server::serve_or_say;

use stall::{packets_dropped, stall_script, state_script, unstall_script};

/// A kind of operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskOp {
    Read,
    Write,
    /// fsync and fdatasync, of files and folders.
    Sync,
    Open,
    /// A new file, folder, link or pipe.
    Create,
    Rename,
    /// Of a file or a folder.
    Remove,
    /// Truncation and preallocation.
    Resize,
    /// The names in a folder.
    List,
}

/// Which operations are held back, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowDisk {
    pub ops: Vec<DiskOp>,
    /// A pattern relative to the mounted folder: `version-2/log.*`, `**`. A rename matches by
    /// either of its names.
    pub path: String,
    /// How long each is held before it is done.
    pub delay_ms: u64,
    /// So many that match pass untouched first.
    #[serde(default)]
    pub skip: u32,
    /// Only so many are held; `None` is all.
    #[serde(default)]
    pub count: Option<u32>,
    /// Only those that come so soon after the rule is given; `None` is for ever.
    #[serde(default)]
    pub for_ms: Option<u64>,
}

/// What lies between the program and the delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskCache {
    /// Nothing: each write and most reads get to the delays before the call returns. The folder
    /// seen from outside the cell is up to date at any time.
    Through,
    /// The page cache, as above a real disk: a write returns at once and is held when it is
    /// flushed, for which fsync waits. What was not flushed is lost with the cell, and files must
    /// not be changed from outside. Unlike most disk file systems, closing a file flushes it.
    Back,
}

/// An operation that was held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldOp {
    pub op: DiskOp,
    /// Relative to the mounted folder; of a rename, the old name.
    pub path: String,
    /// How long it was held; `None` while it still is.
    pub held_ms: Option<u64>,
}

/// What the lab wants of the disk below one folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskOrder {
    /// Covers the folder. Needed before all others.
    Mount(DiskCache),
    Slow(SlowDisk),
    /// Ends all rules and lets go what is held.
    Free,
    /// Nothing; the answer lists what was held so far, as every answer does.
    Tell,
}
