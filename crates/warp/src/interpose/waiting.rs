//! Waiting for other threads: condition variables, semaphores, locks. All deadlines are absolute.

use core::ffi::c_int;

use super::{deadline, driven_by, on_the_wall};
use crate::clock::{Clock, Origin};
use crate::real::{self, symbols};
use libc::{
    CLOCK_MONOTONIC, clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, sem_t, timespec,
};

/// A virtual deadline as a real one on the clock named, which is CLOCK_MONOTONIC or CLOCK_REALTIME.
fn on_clock(clock: &Clock, id: clockid_t, deadline: i64) -> Option<timespec> {
    match driven_by(id)?.0 {
        Origin::Mono => Some(real::to_timespec(
            clock.to_real_deadline(Origin::Mono, deadline),
        )),
        Origin::Wall => on_the_wall(clock.to_real_deadline(Origin::Wall, deadline)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the caller's pointers, as the real function demands them.
    unsafe {
        let (Some((clock, deadline)), Some(now)) = (deadline(abstime), real::now(CLOCK_MONOTONIC))
        else {
            return real::pthread_cond_timedwait(cond, mutex, abstime);
        };
        let origin = clock.nearest_origin(deadline, now);
        let real_mono = clock.to_real_deadline(origin, deadline);
        // With a clock of our choice (glibc 2.30) a step of the real wall cannot end the wait.
        if symbols::pthread_cond_clockwait.address().is_some() {
            let real = real::to_timespec(real_mono);
            return real::pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &real);
        }
        let real = match origin {
            Origin::Mono => Some(real::to_timespec(real_mono)),
            Origin::Wall => on_the_wall(real_mono),
        };
        let real = real.as_ref().map_or(abstime, core::ptr::from_ref);
        real::pthread_cond_timedwait(cond, mutex, real)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    id: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the caller's pointers, as the real function demands them.
    unsafe {
        match (deadline(abstime), id) {
            (Some((clock, deadline)), CLOCK_MONOTONIC | libc::CLOCK_REALTIME) => {
                let origin = driven_by(id).map_or(Origin::Mono, |(origin, _)| origin);
                let real = real::to_timespec(clock.to_real_deadline(origin, deadline));
                real::pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &real)
            }
            _ => real::pthread_cond_clockwait(cond, mutex, id, abstime),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(sem: *mut sem_t, abstime: *const timespec) -> c_int {
    // SAFETY: the caller's pointers, as the real function demands them.
    unsafe {
        let Some((clock, deadline)) = deadline(abstime) else {
            return real::sem_timedwait(sem, abstime);
        };
        let real_mono = clock.to_real_deadline(Origin::Wall, deadline);
        if symbols::sem_clockwait.address().is_some() {
            return real::sem_clockwait(sem, CLOCK_MONOTONIC, &real::to_timespec(real_mono));
        }
        let real = on_the_wall(real_mono);
        real::sem_timedwait(sem, real.as_ref().map_or(abstime, core::ptr::from_ref))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(
    sem: *mut sem_t,
    id: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the caller's pointers, as the real function demands them.
    unsafe {
        match (deadline(abstime), id) {
            (Some((clock, deadline)), CLOCK_MONOTONIC | libc::CLOCK_REALTIME) => {
                let origin = driven_by(id).map_or(Origin::Mono, |(origin, _)| origin);
                let real = real::to_timespec(clock.to_real_deadline(origin, deadline));
                real::sem_clockwait(sem, CLOCK_MONOTONIC, &real)
            }
            _ => real::sem_clockwait(sem, id, abstime),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    id: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the caller's pointers, as the real function demands them.
    unsafe {
        // On the caller's own clock: a priority-inheriting mutex may refuse another.
        let real = deadline(abstime).and_then(|(clock, deadline)| on_clock(&clock, id, deadline));
        let real = real.as_ref().map_or(abstime, core::ptr::from_ref);
        real::pthread_mutex_clocklock(mutex, id, real)
    }
}

/// Locks with a deadline on the wall clock and no other choice.
macro_rules! locks_by_the_wall {
    ($($name:ident($ty:ty);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(lock: *mut $ty, abstime: *const timespec) -> c_int {
            // SAFETY: the caller's pointers, as the real function demands them.
            unsafe {
                let real = deadline(abstime).and_then(|(clock, deadline)| {
                    on_clock(&clock, libc::CLOCK_REALTIME, deadline)
                });
                real::$name(lock, real.as_ref().map_or(abstime, core::ptr::from_ref))
            }
        }
    )*};
}

locks_by_the_wall! {
    pthread_mutex_timedlock(pthread_mutex_t);
    pthread_rwlock_timedrdlock(pthread_rwlock_t);
    pthread_rwlock_timedwrlock(pthread_rwlock_t);
}
