//! The board: one memory-mapped file per trial, shared by the lab and every node.
//!
//! It carries arm bytes, triggers, counters, coverage and one event ring per process. Whoever
//! maps the file survives or not as it pleases: what was written stays for the lab to read.
//!
//! - [`spec`]: what the lab wants on a board, and its bytes.
//! - [`view`]: a mapped board, its parts as atomics. All unsafe code of the crate is there.
//! - [`ring`]: the event ring of one process.
//! - [`record`]: what the agent writes into a ring.
//! - [`table`]: what the agent counts.

pub mod record;
pub mod ring;
pub mod spec;
pub mod table;
pub mod view;

/// First bytes of every board.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TMBBOARD");
/// Changes whenever the layout does: lab and agent of different builds refuse each other.
pub const VERSION: u32 = 4;
/// The step that may fire next, while none may.
pub const NO_STEP: u32 = u32::MAX;

/// Arm byte: hits are recorded.
pub const ARM_RECORD: u8 = 1;
/// Arm byte: some step of the plan waits for this very site.
pub const ARM_STEP: u8 = 2;
/// Arm byte: the site is in the set of the plan's `random`, `new-context` and `ask` steps.
pub const ARM_SET: u8 = 4;

/// Arm byte: visits of the site are counted, though no step fires there.
pub const ARM_COUNT: u8 = 16;
/// Arm byte of a point that is no site: it is told.
pub const ARM_POINT: u8 = 8;

/// `StepRec::state` of a step that takes any state.
pub const ANY_STATE: u32 = u32::MAX;
/// `StepRec::site` of a step that waits for any site of the set.
pub const ANY_SITE: u32 = u32::MAX;
/// `StepRec::fault` of a step that takes one of the site's own faults.
pub const ANY_FAULT: u32 = u32::MAX;

/// Length of a node's name on the board.
pub const NAME_LEN: usize = 48;
/// Questions that can be open at the same time.
pub const ASK_CELLS: usize = 32;
