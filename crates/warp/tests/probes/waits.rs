//! Waiting for other threads that never come.

use super::{ASKED, errno, now, takes_what_was_asked, timespec};
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, sem_t};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Newer than the declarations of the libc crate.
mod external {
    use super::{clockid_t, pthread_cond_t, pthread_mutex_t, sem_t};
    use libc::{c_int, timespec};

    unsafe extern "C" {
        pub fn pthread_cond_clockwait(
            cond: *mut pthread_cond_t,
            mutex: *mut pthread_mutex_t,
            id: clockid_t,
            abstime: *const timespec,
        ) -> c_int;
        pub fn sem_clockwait(sem: *mut sem_t, id: clockid_t, abstime: *const timespec) -> c_int;
        pub fn pthread_mutex_clocklock(
            mutex: *mut pthread_mutex_t,
            id: clockid_t,
            abstime: *const timespec,
        ) -> c_int;
        pub fn pthread_rwlock_timedwrlock(
            lock: *mut libc::pthread_rwlock_t,
            abstime: *const timespec,
        ) -> c_int;
    }
}

/// Calls `wait` with a condition on that clock and a locked mutex.
fn with_cond<T>(
    id: clockid_t,
    wait: impl FnOnce(*mut pthread_cond_t, *mut pthread_mutex_t) -> T,
) -> T {
    // SAFETY: all three are initialised before their use and outlive it.
    unsafe {
        let mut attributes: libc::pthread_condattr_t = std::mem::zeroed();
        let mut cond = libc::PTHREAD_COND_INITIALIZER;
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        assert_eq!(libc::pthread_condattr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_condattr_setclock(&mut attributes, id), 0);
        assert_eq!(libc::pthread_cond_init(&mut cond, &attributes), 0);
        assert_eq!(libc::pthread_mutex_lock(&mut mutex), 0);
        wait(&mut cond, &mut mutex)
    }
}

fn cond_timedwait(id: clockid_t) {
    with_cond(id, |cond, mutex| {
        takes_what_was_asked(|| {
            let deadline = timespec(now(id) + ASKED);
            // SAFETY: initialised, and the mutex is ours.
            let answer = unsafe { libc::pthread_cond_timedwait(cond, mutex, &deadline) };
            assert_eq!(answer, libc::ETIMEDOUT);
        });
        // SAFETY: as above.
        let past = unsafe { libc::pthread_cond_timedwait(cond, mutex, &timespec(0)) };
        assert_eq!(past, libc::ETIMEDOUT);
        let invalid = libc::timespec {
            tv_sec: 1,
            tv_nsec: -1,
        };
        // SAFETY: as above.
        let invalid = unsafe { libc::pthread_cond_timedwait(cond, mutex, &invalid) };
        assert_eq!(invalid, libc::EINVAL);
    });
}

pub fn cond_timedwait_wall() {
    cond_timedwait(libc::CLOCK_REALTIME);
}

pub fn cond_timedwait_mono() {
    cond_timedwait(libc::CLOCK_MONOTONIC);
}

pub fn cond_clockwait() {
    with_cond(libc::CLOCK_MONOTONIC, |cond, mutex| {
        takes_what_was_asked(|| {
            let id = libc::CLOCK_REALTIME;
            let deadline = timespec(now(id) + ASKED);
            // SAFETY: initialised, and the mutex is ours.
            let answer = unsafe { external::pthread_cond_clockwait(cond, mutex, id, &deadline) };
            assert_eq!(answer, libc::ETIMEDOUT);
        });
    });
}

/// A deadline at the end of time is waited for until somebody signals.
pub fn cond_endless() {
    for id in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
        with_cond(id, |cond, mutex| {
            let (cond_address, mutex_address) = (cond as usize, mutex as usize);
            let waker = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_nanos(ASKED as u64 / 4));
                // SAFETY: both outlive this thread, which is joined; the waiter is waiting once
                // the mutex is free.
                unsafe {
                    libc::pthread_mutex_lock(mutex_address as *mut pthread_mutex_t);
                    libc::pthread_cond_signal(cond_address as *mut pthread_cond_t);
                    libc::pthread_mutex_unlock(mutex_address as *mut pthread_mutex_t);
                }
            });
            let forever = libc::timespec {
                tv_sec: i64::MAX,
                tv_nsec: 999_999_999,
            };
            // SAFETY: initialised, and the mutex is ours.
            unsafe {
                assert_eq!(libc::pthread_cond_timedwait(cond, mutex, &forever), 0);
                libc::pthread_mutex_unlock(mutex);
            }
            waker.join().expect("it signals");
        });
    }
}

fn with_sem(wait: impl FnOnce(*mut sem_t) -> libc::c_int) {
    // SAFETY: zeroed memory is a place for a semaphore, initialised before its use.
    let mut sem: sem_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::sem_init(&mut sem, 0, 0) }, 0);
    takes_what_was_asked(|| assert_eq!((wait(&mut sem), errno()), (-1, libc::ETIMEDOUT)));
}

pub fn sem_timedwait() {
    with_sem(|sem| {
        let deadline = timespec(now(libc::CLOCK_REALTIME) + ASKED);
        // SAFETY: an initialised semaphore.
        unsafe { libc::sem_timedwait(sem, &deadline) }
    });
}

pub fn sem_clockwait() {
    with_sem(|sem| {
        let deadline = timespec(now(libc::CLOCK_MONOTONIC) + ASKED);
        // SAFETY: an initialised semaphore.
        unsafe { external::sem_clockwait(sem, libc::CLOCK_MONOTONIC, &deadline) }
    });
}

/// Locks a mutex that is locked already, which only the deadline ends.
fn with_locked_mutex(lock: impl FnOnce(*mut pthread_mutex_t) -> libc::c_int) {
    let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    // SAFETY: initialised.
    assert_eq!(unsafe { libc::pthread_mutex_lock(&mut mutex) }, 0);
    takes_what_was_asked(|| assert_eq!(lock(&mut mutex), libc::ETIMEDOUT));
}

pub fn mutex_timedlock() {
    with_locked_mutex(|mutex| {
        let deadline = timespec(now(libc::CLOCK_REALTIME) + ASKED);
        // SAFETY: an initialised mutex.
        unsafe { libc::pthread_mutex_timedlock(mutex, &deadline) }
    });
}

pub fn mutex_clocklock() {
    with_locked_mutex(|mutex| {
        let deadline = timespec(now(libc::CLOCK_MONOTONIC) + ASKED);
        // SAFETY: an initialised mutex.
        unsafe { external::pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, &deadline) }
    });
}

pub fn rwlock_timedwrlock() {
    let mut lock = libc::PTHREAD_RWLOCK_INITIALIZER;
    // SAFETY: initialised.
    assert_eq!(unsafe { libc::pthread_rwlock_rdlock(&mut lock) }, 0);
    takes_what_was_asked(|| {
        let deadline = timespec(now(libc::CLOCK_REALTIME) + ASKED);
        // SAFETY: initialised, and locked by this thread for reading only.
        let answer = unsafe { external::pthread_rwlock_timedwrlock(&mut lock, &deadline) };
        assert_eq!(answer, libc::ETIMEDOUT);
    });
}

pub fn futex_relative() {
    let word = 7u32;
    takes_what_was_asked(|| {
        let timeout = timespec(ASKED);
        // SAFETY: the word and the timeout outlive the call.
        let answer = unsafe {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(
                libc::SYS_futex,
                &raw const word,
                operation,
                7u32,
                &raw const timeout,
            )
        };
        assert_eq!((answer, errno()), (-1, libc::ETIMEDOUT));
    });
}

/// The standard library counts its deadlines by `clock_gettime` and waits on raw futexes.
pub fn futex_of_rust_std() {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    takes_what_was_asked(|| {
        let guard = mutex.lock().expect("nobody panicked");
        let never = |_: &mut ()| true;
        let timeout = Duration::from_nanos(ASKED as u64);
        let (_guard, result) = condvar
            .wait_timeout_while(guard, timeout, never)
            .expect("nobody panicked");
        assert!(result.timed_out());
    });
}
