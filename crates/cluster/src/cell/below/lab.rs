//! What the lab can ask of a cell's disks and network.

use std::net::Ipv4Addr;
use std::path::Path;

use super::super::error::CellError;
use super::super::lab_side::{Cell, unexpected};
use super::super::message::{FromCell, ToCell};
use super::{DiskCache, DiskOrder, HeldOp, SlowDisk};
use super::{packets_dropped, stall_script, state_script, unstall_script};

type Result<T> = std::result::Result<T, CellError>;

impl Cell {
    /// Covers a folder with a file system that can delay. Before anything in the cell uses the
    /// folder: what is open already goes past it. It stays until the cell is closed and is not
    /// seen from outside. Better not where processes have their output files: the keeper opens
    /// those, and would wait like anyone else.
    pub fn slow_disk_mount(&self, folder: &Path, cache: DiskCache) -> Result<()> {
        self.disk("mount a slow disk", folder, DiskOrder::Mount(cache))
            .map(drop)
    }

    /// Holds operations back from now on, besides those of earlier rules. The first rule that
    /// means an operation decides. A process killed while it waits ends when the wait is over.
    pub fn slow_disk(&self, folder: &Path, rule: SlowDisk) -> Result<()> {
        self.disk("slow a disk down", folder, DiskOrder::Slow(rule))
            .map(drop)
    }

    /// Ends all rules of a folder and lets go what is held; lists what was.
    pub fn slow_disk_free(&self, folder: &Path) -> Result<Vec<HeldOp>> {
        self.disk("free a slow disk", folder, DiskOrder::Free)
    }

    /// What was held back so far, oldest first: without any, the delay met nothing.
    pub fn slow_disk_held(&self, folder: &Path) -> Result<Vec<HeldOp>> {
        self.disk("ask a slow disk", folder, DiskOrder::Tell)
    }

    fn disk(&self, what: &str, folder: &Path, order: DiskOrder) -> Result<Vec<HeldOp>> {
        // Seen from here the folder is never covered.
        let folder = folder.canonicalize().map_err(|source| CellError::Folder {
            dir: folder.to_path_buf(),
            source,
        })?;
        let what = format!("{what} in {}", folder.display());
        let ask = |request| ToCell::Disk {
            request,
            folder,
            order,
        };
        match self.ask(&what, ask)? {
            FromCell::Disk { held, .. } => Ok(held),
            other => Err(unexpected(what, &other)),
        }
    }

    /// Before the nodes start: lets stalls end about when they should. Says whether the kernel
    /// allows it (6.15 does); else what was sent in a stall may take as long again to arrive.
    pub fn stall_ready(&self) -> Result<bool> {
        let what = "shorten the intervals of TCP";
        match self.ask(what, |request| ToCell::ResendSoon { request })? {
            FromCell::ResendSoon { allowed, .. } => Ok(allowed),
            other => Err(unexpected(what.to_string(), &other)),
        }
    }

    /// Holds TCP from one address to another, in that direction and besides earlier stalls, until
    /// `unstall`. With a port, only connections that have it at either end. `None` is every
    /// other address but that of probes.
    pub fn stall(
        &self,
        from: Option<Ipv4Addr>,
        to: Option<Ipv4Addr>,
        port: Option<u16>,
    ) -> Result<()> {
        self.load_rules("stall the network", stall_script(from, to, port))
            .map(drop)
    }

    /// Ends all stalls; how many packets they dropped. None at all means they met nothing.
    pub fn unstall(&self) -> Result<u64> {
        let printed = self.load_rules("look at the stalls", state_script())?;
        self.load_rules("end the stalls of the network", unstall_script())?;
        Ok(packets_dropped(&printed))
    }
}
