//! Reading the clock: what JVMs do millions of times a second, so the shortest path of all.

use core::ffi::{c_int, c_void};

use super::driven_by;
use crate::clock::{NANOS_PER_SEC, Origin};
use crate::{current, real};
use libc::{clockid_t, time_t, timespec, timeval};

/// C11's only base for `timespec_get`; libc has no name for it.
const TIME_UTC: c_int = 1;

fn wall() -> Option<i64> {
    loop {
        let clock = current::clock()?;
        let real_now = real::now(libc::CLOCK_MONOTONIC)?;
        // Else this process was frozen in between, and the two are of different times.
        if current::gap() == clock.gap {
            return Some(clock.to_virtual(Origin::Wall, real_now));
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clock_gettime(id: clockid_t, ts: *mut timespec) -> c_int {
    // SAFETY: the caller's pointer, written by the real function or here as the caller asked.
    unsafe {
        let (true, Some((origin, driver))) = (current::is_on(), driven_by(id)) else {
            return real::clock_gettime(id, ts);
        };
        loop {
            let gap = current::gap();
            let answer = real::clock_gettime(driver, ts);
            // Fetched only now, so that nothing else of it is carried across the call.
            if answer == 0
                && let Some(clock) = current::clock()
            {
                // This process was frozen in between: the reading is from before.
                if clock.gap != gap {
                    continue;
                }
                let real_now = crate::clock::nanos((*ts).tv_sec, (*ts).tv_nsec);
                *ts = real::to_timespec(clock.to_virtual(origin, real_now));
            }
            return answer;
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gettimeofday(tv: *mut timeval, tz: *mut c_void) -> c_int {
    // SAFETY: the caller's pointers, NULL or to be written.
    unsafe {
        let (Some(tv), Some(wall)) = (tv.as_mut(), wall()) else {
            return real::gettimeofday(tv, tz);
        };
        let (seconds, nanos) = crate::clock::seconds_and_nanos(wall);
        *tv = timeval {
            tv_sec: seconds,
            tv_usec: nanos / 1000,
        };
        // The time zone is none of ours; nearly nobody asks for it.
        if tz.is_null() {
            0
        } else {
            real::gettimeofday(core::ptr::null_mut(), tz)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn time(t: *mut time_t) -> time_t {
    // SAFETY: the caller's pointer, NULL or to be written.
    unsafe {
        let Some(wall) = wall() else {
            return real::time(t);
        };
        let seconds = wall.div_euclid(NANOS_PER_SEC);
        if !t.is_null() {
            *t = seconds;
        }
        seconds
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn timespec_get(ts: *mut timespec, base: c_int) -> c_int {
    // SAFETY: the caller's pointer, to be written.
    unsafe {
        match wall() {
            Some(wall) if base == TIME_UTC => {
                *ts = real::to_timespec(wall);
                base
            }
            _ => real::timespec_get(ts, base),
        }
    }
}
