//! Times the kernel keeps for a descriptor: timers and socket timeouts. Set in real time, read back
//! in virtual time.

use core::ffi::{c_int, c_void};
use core::mem::size_of;

use super::{on_the_wall, valid};
use crate::clock::{Clock, Origin, nanos};
use crate::{current, real};
use libc::{itimerspec, socklen_t, timespec, timeval};

// The 64-bit names of Linux 5.1; on 64-bit machines they mean the same as the old ones.
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_NEW: c_int = 67;

/// A timer setting in real time; `None` if it is invalid, and the kernel shall say so.
fn timer_to_real(clock: &Clock, new: &itimerspec, absolute: bool) -> Option<itimerspec> {
    let (value, interval) = (valid(&new.it_value)?, valid(&new.it_interval)?);
    let it_value = match value {
        0 => new.it_value, // disarms
        _ if absolute => {
            let now = real::now(libc::CLOCK_MONOTONIC)?;
            let origin = clock.nearest_origin(value, now);
            // A deadline of zero would disarm; the first nanosecond has passed as well.
            let real_mono = clock.to_real_deadline(origin, value).max(1);
            match origin {
                Origin::Mono => real::to_timespec(real_mono),
                Origin::Wall => on_the_wall(real_mono)?,
            }
        }
        _ => real::to_timespec(clock.scale_timeout(value)),
    };
    Some(itimerspec {
        it_value,
        it_interval: real::to_timespec(clock.scale_timeout(interval)),
    })
}

fn timer_to_virtual(clock: &Clock, timer: &mut itimerspec) {
    let back = |ts: &timespec| {
        real::to_timespec(clock.scale_remaining(nanos(ts.tv_sec, ts.tv_nsec), i64::MAX))
    };
    timer.it_value = back(&timer.it_value);
    timer.it_interval = back(&timer.it_interval);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    // SAFETY: the caller's pointers, as timerfd_settime demands them.
    unsafe {
        let (Some(clock), Some(setting)) = (current::clock(), new.as_ref()) else {
            return real::timerfd_settime(fd, flags, new, old);
        };
        let absolute = flags & libc::TFD_TIMER_ABSTIME != 0;
        let setting = timer_to_real(&clock, setting, absolute);
        let setting = setting.as_ref().map_or(new, core::ptr::from_ref);
        let answer = real::timerfd_settime(fd, flags, setting, old);
        if answer == 0
            && let Some(old) = old.as_mut()
        {
            timer_to_virtual(&clock, old);
        }
        answer
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn timerfd_gettime(fd: c_int, now: *mut itimerspec) -> c_int {
    // SAFETY: the caller's pointer, filled by the real function first.
    unsafe {
        let answer = real::timerfd_gettime(fd, now);
        if answer == 0
            && let (Some(clock), Some(now)) = (current::clock(), now.as_mut())
        {
            timer_to_virtual(&clock, now);
        }
        answer
    }
}

/// The clock, if the option is a timeout.
fn socket_timeout(level: c_int, name: c_int, len: usize) -> Option<Clock> {
    let is_timeout = matches!(
        name,
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW
    );
    let fits = level == libc::SOL_SOCKET && is_timeout && len >= size_of::<timeval>();
    if fits { current::clock() } else { None }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller's pointer to `len` bytes, as setsockopt demands; it need not be aligned.
    unsafe {
        if !value.is_null()
            && let Some(clock) = socket_timeout(level, name, len as usize)
        {
            let asked: timeval = value.cast::<timeval>().read_unaligned();
            // Zero is endless, negative is nothing, and a wrong fraction is the kernel's to refuse.
            if asked.tv_sec >= 0 && (0..1_000_000).contains(&asked.tv_usec) {
                let asked = nanos(asked.tv_sec, asked.tv_usec * 1000);
                let real = real::to_timeval(clock.scale_timeout(asked));
                let len = size_of::<timeval>() as socklen_t;
                return real::setsockopt(fd, level, name, (&raw const real).cast(), len);
            }
        }
        real::setsockopt(fd, level, name, value, len)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's pointers; the real function fills them first and says how far.
    unsafe {
        let answer = real::getsockopt(fd, level, name, value, len);
        if answer == 0
            && !value.is_null()
            && let Some(clock) = len
                .as_ref()
                .and_then(|n| socket_timeout(level, name, *n as usize))
        {
            let real: timeval = value.cast::<timeval>().read_unaligned();
            let real = nanos(real.tv_sec, real.tv_usec.saturating_mul(1000));
            let back = real::to_timeval(clock.scale_remaining(real, i64::MAX));
            value.cast::<timeval>().write_unaligned(back);
        }
        answer
    }
}
