//! The machine's real monotonic clock, and waiting on shared words, past any preloaded clock.
//!
//! The target may run on a virtual clock that interposes libc's symbols. Events and deadlines are
//! real time, so the clock is taken from libc itself and waits are raw system calls.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;
type Syscall = unsafe extern "C" fn(libc::c_long, ...) -> libc::c_long;

/// A symbol of libc itself. By version, because a preloaded clock answers for plain `dlsym` too:
/// old JDKs look the clock up that way.
fn of_libc(name: &CStr, version: &CStr) -> Option<*mut libc::c_void> {
    // SAFETY: NOLOAD only finds what is loaded already; the handle is kept for ever; both names
    // are C strings.
    let symbol = unsafe {
        let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if libc.is_null() {
            return None;
        }
        libc::dlvsym(libc, name.as_ptr(), version.as_ptr())
    };
    (!symbol.is_null()).then_some(symbol)
}

fn real_clock_gettime() -> Option<ClockGettime> {
    static FOUND: OnceLock<Option<ClockGettime>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let symbol = of_libc(c"clock_gettime", c"GLIBC_2.17")?;
        // SAFETY: the symbol has the C library's well-known signature.
        Some(unsafe { std::mem::transmute::<*mut libc::c_void, ClockGettime>(symbol) })
    })
}

/// libc's own `syscall`, or whichever there is.
fn real_syscall() -> Syscall {
    static FOUND: OnceLock<Syscall> = OnceLock::new();
    *FOUND.get_or_init(|| match of_libc(c"syscall", c"GLIBC_2.2.5") {
        // SAFETY: the symbol has the C library's well-known signature.
        Some(symbol) => unsafe { std::mem::transmute::<*mut libc::c_void, Syscall>(symbol) },
        None => libc::syscall,
    })
}

/// Nanoseconds of CLOCK_MONOTONIC, never warped.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both write one timespec; the raw call serves C libraries of another name.
    unsafe {
        match real_clock_gettime() {
            Some(read) => {
                read(libc::CLOCK_MONOTONIC, &mut time);
            }
            None => {
                real_syscall()(
                    libc::SYS_clock_gettime,
                    libc::CLOCK_MONOTONIC,
                    &raw mut time,
                );
            }
        }
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until the word is no longer `expected`, somebody wakes it, or the time is over.
/// The word is on shared memory, so the wait is not process-private.
pub fn wait(word: &AtomicU32, expected: u32, at_most: Duration) {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // SAFETY: the word outlives the call; a relative timeout of CLOCK_MONOTONIC is passed.
    unsafe {
        real_syscall()(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}

/// Wakes everybody who waits on the word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe {
        real_syscall()(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn the_clock_goes_forward() {
        let before = now_ns();
        assert!(before > 0 && now_ns() >= before);
    }

    #[test]
    fn a_waiter_is_woken_by_a_changed_word() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                word.store(1, Ordering::Release);
                wake(&word);
            });
            while word.load(Ordering::Acquire) == 0 {
                wait(&word, 0, Duration::from_secs(30));
            }
        });
        wait(&word, 1, Duration::from_millis(1)); // ends by its time limit
    }
}
