//! Sleeping: for a while, until a deadline, and what is left when a signal comes.

use core::ffi::{c_int, c_uint};

use super::{deadline, driven_by, timeout};
use crate::clock::{Clock, NANOS_PER_SEC, nanos};
use crate::{current, real};
use libc::{clockid_t, timespec};

/// Sleeps, and gives the virtual rest if it was interrupted.
///
/// # Safety
/// As nanosleep, which is a cancellation point.
unsafe fn sleep_for(clock: &Clock, asked: i64) -> Result<(), i64> {
    let request = real::to_timespec(clock.scale_timeout(asked));
    let mut rest = request;
    // SAFETY: both are ours.
    match unsafe { real::nanosleep(&request, &mut rest) } {
        0 => Ok(()),
        _ => Err(clock.scale_remaining(nanos(rest.tv_sec, rest.tv_nsec), asked)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nanosleep(req: *const timespec, rem: *mut timespec) -> c_int {
    // SAFETY: the caller's pointers, as nanosleep demands them.
    unsafe {
        let Some((clock, asked)) = timeout(req) else {
            return real::nanosleep(req, rem);
        };
        match sleep_for(&clock, asked) {
            Ok(()) => 0,
            Err(rest) => {
                if !rem.is_null() {
                    *rem = real::to_timespec(rest);
                }
                -1
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn usleep(micros: c_uint) -> c_int {
    // SAFETY: no pointers.
    unsafe {
        match current::clock() {
            Some(clock) if micros > 0 => {
                sleep_for(&clock, i64::from(micros) * 1000).map_or(-1, |()| 0)
            }
            _ => real::usleep(micros),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    // SAFETY: no pointers.
    unsafe {
        match current::clock() {
            Some(clock) if seconds > 0 => sleep_for(&clock, i64::from(seconds) * NANOS_PER_SEC)
                .map_or_else(|rest| (rest / NANOS_PER_SEC) as c_uint, |()| 0),
            _ => real::sleep(seconds),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clock_nanosleep(
    id: clockid_t,
    flags: c_int,
    req: *const timespec,
    rem: *mut timespec,
) -> c_int {
    // SAFETY: the caller's pointers, as clock_nanosleep demands them.
    unsafe {
        let Some((origin, driver)) = driven_by(id) else {
            return real::clock_nanosleep(id, flags, req, rem);
        };
        if flags & libc::TIMER_ABSTIME != 0 {
            // On the clock that drives it: a step of the real wall must not wake us.
            return match deadline(req) {
                Some((clock, deadline)) => {
                    let real = real::to_timespec(clock.to_real_deadline(origin, deadline));
                    real::clock_nanosleep(driver, flags, &real, rem)
                }
                None => real::clock_nanosleep(id, flags, req, rem),
            };
        }
        let Some((clock, asked)) = timeout(req) else {
            return real::clock_nanosleep(id, flags, req, rem);
        };
        let request = real::to_timespec(clock.scale_timeout(asked));
        let mut rest = request;
        let answer = real::clock_nanosleep(id, flags, &request, &mut rest);
        if answer == libc::EINTR && !rem.is_null() {
            let rest = nanos(rest.tv_sec, rest.tv_nsec);
            *rem = real::to_timespec(clock.scale_remaining(rest, asked));
        }
        answer
    }
}
