//! The probes, by kind, and how they measure.

mod guests;
mod sleeps;
mod sockets;
mod waits;

use libc::{clockid_t, timespec};

pub const SEC: i64 = 1_000_000_000;
/// What the probes wait for: one real second at the factor of sixty.
pub const ASKED: i64 = 60 * SEC;
/// A wait that is not scaled takes 3600 virtual seconds; a loaded machine has 45 real ones.
const TOO_LONG: i64 = 2700 * SEC;

pub static ALL: &[(&str, fn())] = &[
    ("nanosleep", sleeps::nanosleep),
    ("nanosleep_interrupted", sleeps::nanosleep_interrupted),
    ("nanosleep_invalid", sleeps::nanosleep_invalid),
    ("clock_nanosleep", sleeps::clock_nanosleep),
    (
        "clock_nanosleep_until_mono",
        sleeps::clock_nanosleep_until_mono,
    ),
    (
        "clock_nanosleep_until_wall",
        sleeps::clock_nanosleep_until_wall,
    ),
    ("usleep", sleeps::usleep),
    ("sleep", sleeps::sleep),
    ("clocks_agree", sleeps::clocks_agree),
    ("cond_timedwait_wall", waits::cond_timedwait_wall),
    ("cond_timedwait_mono", waits::cond_timedwait_mono),
    ("cond_clockwait", waits::cond_clockwait),
    ("cond_endless", waits::cond_endless),
    ("sem_timedwait", waits::sem_timedwait),
    ("sem_clockwait", waits::sem_clockwait),
    ("mutex_timedlock", waits::mutex_timedlock),
    ("mutex_clocklock", waits::mutex_clocklock),
    ("rwlock_timedwrlock", waits::rwlock_timedwrlock),
    ("futex_relative", waits::futex_relative),
    ("futex_of_rust_std", waits::futex_of_rust_std),
    ("poll", sockets::poll),
    ("ppoll", sockets::ppoll),
    ("epoll_wait", sockets::epoll_wait),
    ("epoll_pwait2", sockets::epoll_pwait2),
    ("select", sockets::select),
    ("select_early", sockets::select_early),
    ("pselect", sockets::pselect),
    ("no_timeout", sockets::no_timeout),
    ("timerfd_relative", sockets::timerfd_relative),
    ("timerfd_mono", sockets::timerfd_mono),
    ("timerfd_wall", sockets::timerfd_wall),
    ("receive_timeout", sockets::receive_timeout),
    ("source_address", sockets::source_address),
    ("cancelled_in_sleep", guests::cancelled_in_sleep),
    ("forked", guests::forked),
    ("looked_up_by_hand", guests::looked_up_by_hand),
    ("other_system_calls", guests::other_system_calls),
];

pub fn now(id: clockid_t) -> i64 {
    let mut ts = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: ts is ours to write.
    assert_eq!(unsafe { libc::clock_gettime(id, &mut ts) }, 0);
    ts.tv_sec * SEC + ts.tv_nsec
}

pub fn timespec(nanos: i64) -> timespec {
    timespec {
        tv_sec: nanos / SEC,
        tv_nsec: nanos % SEC,
    }
}

/// Runs what should wait for [`ASKED`], and checks by both clocks that it did.
pub fn takes_what_was_asked(wait: impl FnOnce()) {
    let clocks = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME];
    let start = clocks.map(now);
    wait();
    for (id, start) in clocks.into_iter().zip(start) {
        let passed = now(id) - start;
        // A nanosecond is lost if the first reading was rounded down.
        assert!(passed >= ASKED - 1, "clock {id}: only {passed} ns passed");
        assert!(
            passed < TOO_LONG,
            "clock {id}: {passed} ns passed, as if not scaled"
        );
    }
}

pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
