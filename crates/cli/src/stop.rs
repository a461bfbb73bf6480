//! Ctrl-C: the first ends the work in good order, the second at once. `pause` asks for the same
//! from another terminal, and asking twice does no harm.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// What `pause` sends. Not SIGINT: after a Ctrl-C, or a second pause, that would end the campaign
/// in the middle of its reports.
const PAUSE: libc::c_int = libc::SIGUSR1;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    if STOP.swap(true, Ordering::Relaxed) {
        // SAFETY: _exit is async-signal-safe. Cells end with us: their init watches our socket.
        unsafe { libc::_exit(130) }
    }
}

extern "C" fn on_pause(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Becomes true when the user wants an end.
pub fn on_request() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic and _exit.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
    // SAFETY: the handler only touches an atomic.
    unsafe { libc::signal(PAUSE, on_pause as *const () as libc::sighandler_t) };
    &STOP
}

/// Whether the user wanted an end.
pub fn was_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Another process, held fast: whatever becomes of its number, this means no other one.
pub struct Process(OwnedFd);

impl Process {
    pub fn hold(pid: u32) -> io::Result<Process> {
        // SAFETY: takes two numbers; a process that is not there is an error.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        match fd {
            0.. => {
                // SAFETY: the call has just made it, and nobody else has it.
                Ok(Process(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks a `temblor` that watches [`on_request`] to end its work in good order.
    pub fn ask_to_end(&self) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        let fd = self.0.as_raw_fd();
        // SAFETY: the descriptor is open; without info the kernel fills it in as for kill().
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, PAUSE, no_info, 0) };
        match sent {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn asking_twice_ends_in_good_order_too() {
        let stop = on_request();
        let own = Process::hold(std::process::id()).unwrap();
        for _ in 0..2 {
            own.ask_to_end().unwrap();
        }
        let began = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        assert!(was_requested());
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let held = Process::hold(child.id()).unwrap();
        child.wait().unwrap();
        let error = held.ask_to_end().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
