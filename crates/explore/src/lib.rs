//! Pure decisions: which plan comes next, what a history comes to, which bug it is.
//!
//! Invariant: no clock, no threads, no IO, no target's name. Values in, values out; everything
//! random comes from the campaign's seed.

pub mod baseline;
pub mod checker;
pub mod delays;
pub mod dump;
pub mod effects;
pub mod exact;
pub mod ops;
pub mod policy;
pub mod replays;
pub mod shrink;
pub mod template;
pub mod triage;

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod simulate;

pub use baseline::learn_baseline;
