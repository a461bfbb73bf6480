//! Starts, breaks and stops real systems: targets as checked facts, cells to run them in, their
//! processes, node and network faults, and what their logs and clients say.
//!
//! Invariant: this crate knows no sites, no policies and no verdicts.

pub mod artifact;
pub mod cell;
pub mod corrupt;
mod glob;
pub mod snapshot;
pub mod start;
pub mod tail;
pub mod target;
