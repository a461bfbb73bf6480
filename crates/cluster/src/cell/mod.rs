//! A cell: the pid, network, mount and time namespaces and the folder in which one trial lives and
//! dies. This file is the lab's side; the other side is the program `temblor-cell`.
//!
//! Processes: `temblor-cell open` (outer, waits) > init (1 inside) > keeper > nodes and clients.
//! When init is gone the kernel has ended all that was inside, daemons included. Init goes when
//! `Cell` is closed or dropped, and also when the lab is killed: its end of the socket closes.
//!
//! Since each cell has a network of its own, a port can never be in use by a stranger: the only
//! processes that could hold it are the trial's own.

mod below;
mod cpu;
mod doctor;
mod error;
mod ice;
mod init;
mod keeper;
mod kernel;
mod lab_side;
pub mod message;
mod namespaces;
mod partition;
mod probe;
mod program;

pub use below::{DiskCache, DiskOp, HeldOp, SlowDisk};
pub use doctor::{Finding, criu_findings, doctor};
pub use error::CellError;
pub(crate) use kernel::{clone_blocks, free_bytes_at, memory_bytes, next_data};
pub use lab_side::{Cell, CellSpec, LaterAnswer};
pub use message::{Clocks, ExitNotice, IceOrder, ProbeAnswer, ProbeSpec, ProcId, ProcessSpec};
pub use probe::PROBE_ADDR;
pub use program::main as program_main;

/// The user this process runs as.
pub(crate) fn user_id() -> u32 {
    kernel::ids().0
}
