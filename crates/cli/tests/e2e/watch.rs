//! Waits for a moment in a running program, and disturbs it then.

use std::path::Path;
use std::time::Instant;

use crate::program::{LIMIT, POLL, Running, processes_of};

pub fn signal(running: &Running, signal: i32) {
    // SAFETY: plain system call on a process that was not waited for yet.
    let sent = unsafe { libc::kill(running.child.id() as i32, signal) };
    assert_eq!(sent, 0, "signal {signal}");
}

/// Waits until something is so; says what when it never is.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(POLL);
    }
}

/// Asserts that the looking finds what runs, so that finding nothing means something.
pub fn assert_something_runs(folder: &Path) {
    until("processes of the trial are seen", || {
        processes_of(folder).len() > 2
    });
}
