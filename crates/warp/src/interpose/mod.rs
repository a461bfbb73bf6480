//! Our versions of libc's functions, one file per kind, and what they share.
//!
//! Each does the same: without a clock, or when there is nothing to convert (no timeout, an endless
//! or an invalid one), the real function gets the caller's own arguments and answers for itself.
//! Otherwise it gets a real time instead of the virtual one. Frames hold nothing to drop, because
//! cancelling a thread unwinds through them.

mod descriptors;
mod kernel;
#[cfg(target_arch = "x86_64")]
mod lookup;
mod reading;
mod sleeping;
#[cfg(target_arch = "x86_64")]
mod system_call;
mod waiting;

use crate::clock::{Clock, NANOS_PER_SEC, Origin, nanos};
use crate::{current, real};
use libc::{clockid_t, timespec};

/// The clock and a timeout to scale, or `None` if the call is to be passed on as it is: no clock,
/// no timeout, zero, negative or invalid.
///
/// # Safety
/// `timeout` is NULL or points to a timespec.
unsafe fn timeout(timeout: *const timespec) -> Option<(Clock, i64)> {
    let clock = current::clock()?;
    // SAFETY: as promised by the caller.
    let timeout = unsafe { timeout.as_ref() }?;
    let nanos = valid(timeout)?;
    (nanos > 0).then_some((clock, nanos))
}

/// As [`timeout`], for a point in time; zero is a deadline, in the past.
///
/// # Safety
/// `deadline` is NULL or points to a timespec.
unsafe fn deadline(deadline: *const timespec) -> Option<(Clock, i64)> {
    let clock = current::clock()?;
    // SAFETY: as promised by the caller.
    let deadline = unsafe { deadline.as_ref() }?;
    Some((clock, valid(deadline)?))
}

fn valid(ts: &timespec) -> Option<i64> {
    let in_range = ts.tv_sec >= 0 && (0..NANOS_PER_SEC).contains(&ts.tv_nsec);
    in_range.then(|| nanos(ts.tv_sec, ts.tv_nsec))
}

/// The origin of a clock that we virtualise, and the real clock that drives it.
#[inline]
fn driven_by(id: clockid_t) -> Option<(Origin, clockid_t)> {
    match id {
        libc::CLOCK_REALTIME => Some((Origin::Wall, libc::CLOCK_MONOTONIC)),
        libc::CLOCK_REALTIME_COARSE => Some((Origin::Wall, libc::CLOCK_MONOTONIC_COARSE)),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => Some((Origin::Mono, id)),
        _ => None,
    }
}

/// A real CLOCK_REALTIME for a real CLOCK_MONOTONIC, for waits that know no other clock. The wall
/// is read last, so that the time between the readings makes the wait longer, not shorter.
fn on_the_wall(real_mono: i64) -> Option<timespec> {
    let ahead = real_mono.saturating_sub(real::now(libc::CLOCK_MONOTONIC)?);
    let wall = real::now(libc::CLOCK_REALTIME)?;
    Some(real::to_timespec(wall.saturating_add(ahead).max(0)))
}
