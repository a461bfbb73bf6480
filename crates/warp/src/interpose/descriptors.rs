//! Waiting for file descriptors: poll, epoll and select.
//!
//! Timeouts in milliseconds are handed on in nanoseconds where the kernel takes them, since one
//! real millisecond is k virtual ones.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use super::timeout;
use crate::clock::{Clock, nanos, round_up};
use crate::current;
use crate::real::{self, symbols};
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

const NANOS_PER_MILLI: i64 = 1_000_000;

/// The clock and the real timeout; `None` for no clock, no waiting (0) and endless waiting (< 0).
fn scaled_millis(millis: c_int) -> Option<i64> {
    let clock = current::clock()?;
    (millis > 0).then(|| clock.scale_timeout(i64::from(millis) * NANOS_PER_MILLI))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, millis: c_int) -> c_int {
    // SAFETY: the caller's pointers, as poll demands them.
    unsafe {
        match scaled_millis(millis) {
            Some(real) => real::ppoll(fds, count, &real::to_timespec(real), ptr::null()),
            None => real::poll(fds, count, millis),
        }
    }
}

/// What `poll` is called in programs built with _FORTIFY_SOURCE; `size` is that of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    millis: c_int,
    size: usize,
) -> c_int {
    // SAFETY: the caller's pointers, as poll demands them.
    unsafe {
        match scaled_millis(millis) {
            Some(real) => {
                real::__ppoll_chk(fds, count, &real::to_timespec(real), ptr::null(), size)
            }
            None => real::__poll_chk(fds, count, millis, size),
        }
    }
}

/// A real timeout in place of the caller's, which stays if there is nothing to scale.
unsafe fn scaled(asked: *const timespec, place: &mut timespec) -> *const timespec {
    // SAFETY: NULL or a timespec, as promised by the caller.
    match unsafe { timeout(asked) } {
        Some((clock, nanos)) => {
            *place = real::to_timespec(clock.scale_timeout(nanos));
            place
        }
        None => asked,
    }
}

const NO_TIME: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let mut place = NO_TIME;
    // SAFETY: the caller's pointers, as ppoll demands them.
    unsafe { real::ppoll(fds, count, scaled(timeout, &mut place), mask) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    size: usize,
) -> c_int {
    let mut place = NO_TIME;
    // SAFETY: the caller's pointers, as ppoll demands them.
    unsafe { real::__ppoll_chk(fds, count, scaled(timeout, &mut place), mask, size) }
}

/// Whether the kernel takes nanoseconds (5.11) and lets us ask (old sandboxes refuse what is new).
static EPOLL_TAKES_NANOS: AtomicBool = AtomicBool::new(true);

/// # Safety
/// As epoll_pwait.
unsafe fn epoll_for(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    real_nanos: i64,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's pointers, as epoll_pwait demands them; errno is this thread's own.
    unsafe {
        if EPOLL_TAKES_NANOS.load(Ordering::Relaxed) && symbols::epoll_pwait2.address().is_some() {
            let errno = *libc::__errno_location();
            let timeout = real::to_timespec(real_nanos);
            let answer = real::epoll_pwait2(epoll, events, max, &timeout, mask);
            let refused = matches!(*libc::__errno_location(), libc::ENOSYS | libc::EPERM);
            if answer != -1 || !refused {
                return answer;
            }
            EPOLL_TAKES_NANOS.store(false, Ordering::Relaxed);
            *libc::__errno_location() = errno;
        }
        let millis = round_up(real_nanos, NANOS_PER_MILLI).min(c_int::MAX.into());
        real::epoll_pwait(epoll, events, max, millis as c_int, mask)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    millis: c_int,
) -> c_int {
    // SAFETY: the caller's pointers, as epoll_wait demands them.
    unsafe {
        match scaled_millis(millis) {
            Some(real) => epoll_for(epoll, events, max, real, ptr::null()),
            None => real::epoll_wait(epoll, events, max, millis),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    millis: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's pointers, as epoll_pwait demands them.
    unsafe {
        match scaled_millis(millis) {
            Some(real) => epoll_for(epoll, events, max, real, mask),
            None => real::epoll_pwait(epoll, events, max, millis, mask),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let mut place = NO_TIME;
    // SAFETY: the caller's pointers, as epoll_pwait2 demands them.
    unsafe { real::epoll_pwait2(epoll, events, max, scaled(timeout, &mut place), mask) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's pointers, as select demands them.
    unsafe {
        let Some((clock, asked)) = asked_of_select(timeout) else {
            return real::select(count, read, write, except, timeout);
        };
        let mut rest = real::to_timeval(clock.scale_timeout(asked));
        let answer = real::select(count, read, write, except, &mut rest);
        // Linux leaves the rest there, and programs count on it.
        let rest = nanos(rest.tv_sec, rest.tv_usec.saturating_mul(1000));
        *timeout = real::to_timeval(clock.scale_remaining(rest, asked));
        answer
    }
}

/// # Safety
/// `timeout` is NULL or points to a timeval.
unsafe fn asked_of_select(timeout: *const timeval) -> Option<(Clock, i64)> {
    let clock = current::clock()?;
    // SAFETY: as promised by the caller.
    let timeout = unsafe { timeout.as_ref() }?;
    // More than a million microseconds are allowed here.
    let in_range = timeout.tv_sec >= 0 && timeout.tv_usec >= 0;
    let asked = nanos(timeout.tv_sec, timeout.tv_usec.saturating_mul(1000));
    (in_range && asked > 0).then_some((clock, asked))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let mut place = NO_TIME;
    // SAFETY: the caller's pointers, as pselect demands them.
    unsafe {
        real::pselect(
            count,
            read,
            write,
            except,
            scaled(timeout, &mut place),
            mask,
        )
    }
}
