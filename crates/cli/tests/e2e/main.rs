//! The whole program, as its users run it, on a small target of the tests' own.
//!
//! Every test has a folder and a store of its own; at most two clusters run at a time.

mod analyze;
mod bad_input;
mod compare;
mod contract;
mod disturbed;
mod full_disk;
mod interruption;
mod mini;
mod program;
mod replays;
mod snapshots;
mod stored;
mod watch;
