//! The nouns of Temblor: sites, plans, events, outcomes, bugs, and the board's layout.
//!
//! Invariant: this crate knows no files, sockets, clocks or bytecode. Everything here is plain
//! data with a serialised form, or a view over memory that somebody else mapped.

pub mod board;
pub mod bug;
pub mod campaign;
pub mod catalog;
pub mod event;
pub mod history;
pub mod hooks;
pub mod names;
pub mod op;
pub mod plan;
pub mod settings;
pub mod site;
pub mod visit;

/// FNV-1a over bytes: the one hash for names, contexts and class identity, stable everywhere.
pub const fn fnv64(bytes: &[u8]) -> u64 {
    fnv64_from(FNV_START, bytes)
}

/// The start value of [`fnv64_from`].
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues an FNV-1a hash, for values that arrive in pieces.
pub const fn fnv64_from(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash ^= bytes[i] as u64;
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}
