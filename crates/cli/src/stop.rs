//! Ctrl-C: the first ends the work in good order, the second at once.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    if STOP.swap(true, Ordering::Relaxed) {
        // SAFETY: _exit is async-signal-safe. Cells end with us: their init watches our socket.
        unsafe { libc::_exit(130) }
    }
}

/// Becomes true when the user wants an end.
pub fn on_request() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic and _exit.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    &STOP
}

/// Whether the user wanted an end.
pub fn was_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}
