//! Sleeping and reading.

use super::{ASKED, SEC, errno, now, takes_what_was_asked, timespec};
use std::ptr::null_mut;

pub fn nanosleep() {
    takes_what_was_asked(|| {
        // SAFETY: a whole timespec, and no rest wanted.
        assert_eq!(unsafe { libc::nanosleep(&timespec(ASKED), null_mut()) }, 0);
    });
}

extern "C" fn nothing(_: libc::c_int) {}

/// Who sleeps the rest after each signal has slept what was asked, not less and not more.
pub fn nanosleep_interrupted() {
    // SAFETY: valid settings, and a handler that does nothing. The timer is the kernel's, and so
    // in real time: it rings several times.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, null_mut()), 0);
        let often = libc::timeval {
            tv_sec: 0,
            tv_usec: 150_000,
        };
        let timer = libc::itimerval {
            it_interval: often,
            it_value: often,
        };
        assert_eq!(
            libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &timer, 0),
            0
        );
    }
    let mut interruptions = 0;
    takes_what_was_asked(|| {
        let mut rest = timespec(ASKED);
        // SAFETY: a whole timespec, which may be both the request and the rest.
        while unsafe { libc::nanosleep(&raw const rest, &raw mut rest) } == -1 {
            assert_eq!(errno(), libc::EINTR);
            assert!(rest.tv_sec * SEC + rest.tv_nsec < ASKED);
            interruptions += 1;
        }
    });
    assert!(interruptions > 0);
}

pub fn nanosleep_invalid() {
    for (tv_sec, tv_nsec) in [(-1, 0), (0, SEC), (0, -1)] {
        let request = libc::timespec { tv_sec, tv_nsec };
        // SAFETY: a whole timespec, and no rest wanted.
        assert_eq!(unsafe { libc::nanosleep(&request, null_mut()) }, -1);
        assert_eq!(errno(), libc::EINVAL);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::nanosleep(&timespec(0), null_mut()) }, 0);
}

fn clock_sleep(id: libc::clockid_t, flags: libc::c_int, request: i64) {
    // SAFETY: a whole timespec, and no rest wanted.
    let answer = unsafe { libc::clock_nanosleep(id, flags, &timespec(request), null_mut()) };
    assert_eq!(answer, 0);
}

pub fn clock_nanosleep() {
    takes_what_was_asked(|| clock_sleep(libc::CLOCK_MONOTONIC, 0, ASKED));
}

fn sleep_until(id: libc::clockid_t) {
    takes_what_was_asked(|| {
        let deadline = now(id) + ASKED;
        clock_sleep(id, libc::TIMER_ABSTIME, deadline);
        assert!(now(id) >= deadline);
        clock_sleep(id, libc::TIMER_ABSTIME, 0); // long past
    });
}

pub fn clock_nanosleep_until_mono() {
    sleep_until(libc::CLOCK_MONOTONIC);
}

pub fn clock_nanosleep_until_wall() {
    sleep_until(libc::CLOCK_REALTIME);
}

pub fn usleep() {
    // SAFETY: no pointers.
    takes_what_was_asked(|| assert_eq!(unsafe { libc::usleep((ASKED / 1000) as u32) }, 0));
}

pub fn sleep() {
    // SAFETY: no pointers.
    takes_what_was_asked(|| assert_eq!(unsafe { libc::sleep((ASKED / SEC) as u32) }, 0));
}

/// All ways to read the wall give one time, and the CPU's clock is not ours.
pub fn clocks_agree() {
    let mut tv = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let before = now(libc::CLOCK_REALTIME);
    // SAFETY: tv is ours to write; nobody wants a time zone.
    let (time, answer) = unsafe {
        (
            libc::time(null_mut()),
            libc::gettimeofday(&mut tv, null_mut()),
        )
    };
    let after = now(libc::CLOCK_REALTIME);
    assert_eq!(answer, 0);
    assert!(before / SEC <= time && time <= after / SEC);
    let micros = tv.tv_sec * 1_000_000 + tv.tv_usec;
    assert!(before / 1000 <= micros && micros <= after / 1000);
    let mut via_kernel = timespec(0);
    let id = libc::CLOCK_MONOTONIC;
    let before = now(id);
    // SAFETY: via_kernel is ours to write.
    unsafe { libc::syscall(libc::SYS_clock_gettime, id, &raw mut via_kernel) };
    let via_kernel = via_kernel.tv_sec * SEC + via_kernel.tv_nsec;
    assert!(before <= via_kernel && via_kernel <= now(id));
    clock_sleep(libc::CLOCK_MONOTONIC, 0, ASKED);
    assert!(now(libc::CLOCK_PROCESS_CPUTIME_ID) < ASKED);
}
