//! The functions of libc that lie behind ours, found once and called through a pointer.
//!
//! Our constructor finds them all. Other preloaded libraries may call us before it has run, so each
//! is also found at its first use; finding one twice does no harm. Nothing here locks or allocates
//! after that, so our functions stay as safe in signal handlers and after fork as the real ones.
//! All are called with an unwinding ABI: cancelling a thread unwinds through the calls it is in.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{
    clockid_t, epoll_event, fd_set, itimerspec, nfds_t, pollfd, pthread_cond_t, pthread_mutex_t,
    pthread_rwlock_t, sem_t, sigset_t, sockaddr, socklen_t, suseconds_t, time_t, timespec, timeval,
};

const UNKNOWN: usize = 0;
const MISSING: usize = 1;

/// One function of libc. The address comes first: assembly reads it.
#[repr(C)]
pub struct Symbol {
    address: AtomicUsize,
    name: &'static CStr,
}

impl Symbol {
    const fn new(name: &'static CStr) -> Self {
        Self {
            address: AtomicUsize::new(UNKNOWN),
            name,
        }
    }

    #[inline]
    pub fn address(&self) -> Option<usize> {
        match self.address.load(Ordering::Relaxed) {
            UNKNOWN => self.find(),
            MISSING => None,
            address => Some(address),
        }
    }

    #[cold]
    pub fn find(&self) -> Option<usize> {
        // SAFETY: errno is this thread's own; both lookups get NUL-terminated names.
        let address = unsafe {
            let errno = *libc::__errno_location();
            let address = self.versioned().unwrap_or_else(|| next(self.name));
            *libc::__errno_location() = errno;
            address
        };
        let address = if address == UNKNOWN { MISSING } else { address };
        self.address.store(address, Ordering::Relaxed);
        (address != MISSING).then_some(address)
    }

    /// Condition variables have two layouts, and without a version the older may be found. dlsym
    /// is ours, so the real one is found by version too: 2.34 in libc, earlier in libdl.
    fn versioned(&self) -> Option<usize> {
        let versions: &[&CStr] = match self.name.to_bytes() {
            b"pthread_cond_timedwait" => &[c"GLIBC_2.3.2", c"GLIBC_2.17"],
            b"dlsym" => &[c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"],
            _ => &[],
        };
        let find = |version: &&CStr| {
            // SAFETY: NUL-terminated name and version.
            unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) as usize }
        };
        versions
            .iter()
            .map(find)
            .find(|address| *address != UNKNOWN)
    }
}

/// The next definition after this library. Never a tail call: dlsym looks at who called it.
fn next(name: &CStr) -> usize {
    if name == c"dlsym" {
        return UNKNOWN; // not by itself
    }
    // SAFETY: a NUL-terminated name; the real dlsym, as our own would look for itself.
    unsafe { dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

/// Finds every function, so that no later call has to.
pub fn find_all() {
    for symbol in symbols::ALL {
        symbol.find();
    }
}

macro_rules! real_functions {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, or $missing:expr;)*) => {
        #[allow(non_upper_case_globals)]
        pub mod symbols {
            use super::Symbol;
            $(pub static $name: Symbol = {
                let bytes = concat!(stringify!($name), "\0").as_bytes();
                match ::core::ffi::CStr::from_bytes_with_nul(bytes) {
                    Ok(name) => Symbol::new(name),
                    Err(_) => panic!("a function name without NUL"),
                }
            };)*
            pub static ALL: &[&Symbol] = &[$(&$name),*];
        }
        $(
            #[allow(clippy::too_many_arguments)]
            #[inline]
            pub unsafe fn $name($($arg: $ty),*) -> $ret {
                let Some(address) = symbols::$name.address() else { return $missing };
                // SAFETY: the address is that function's, of this signature; the caller answers
                // for the arguments.
                unsafe {
                    let function: unsafe extern "C-unwind" fn($($ty),*) -> $ret =
                        core::mem::transmute(address);
                    function($($arg),*)
                }
            }
        )*
    };
}

/// The answer in place of a function this libc does not have.
#[cold]
fn no_such<T: From<i8>>() -> T {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    T::from(-1)
}

real_functions! {
    clock_gettime(id: clockid_t, ts: *mut timespec) -> c_int, or no_such();
    gettimeofday(tv: *mut timeval, tz: *mut c_void) -> c_int, or no_such();
    time(t: *mut time_t) -> time_t, or no_such();
    timespec_get(ts: *mut timespec, base: c_int) -> c_int, or 0;
    nanosleep(req: *const timespec, rem: *mut timespec) -> c_int, or no_such();
    clock_nanosleep(id: clockid_t, flags: c_int, req: *const timespec, rem: *mut timespec)
        -> c_int, or libc::ENOSYS;
    usleep(micros: c_uint) -> c_int, or no_such();
    sleep(seconds: c_uint) -> c_uint, or seconds;
    pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t,
        deadline: *const timespec) -> c_int, or libc::ENOSYS;
    pthread_cond_clockwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, id: clockid_t,
        deadline: *const timespec) -> c_int, or libc::ENOSYS;
    sem_timedwait(sem: *mut sem_t, deadline: *const timespec) -> c_int, or no_such();
    sem_clockwait(sem: *mut sem_t, id: clockid_t, deadline: *const timespec)
        -> c_int, or no_such();
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, deadline: *const timespec)
        -> c_int, or libc::ENOSYS;
    pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, id: clockid_t, deadline: *const timespec)
        -> c_int, or libc::ENOSYS;
    pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, deadline: *const timespec)
        -> c_int, or libc::ENOSYS;
    pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, deadline: *const timespec)
        -> c_int, or libc::ENOSYS;
    poll(fds: *mut pollfd, count: nfds_t, millis: c_int) -> c_int, or no_such();
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t)
        -> c_int, or no_such();
    __poll_chk(fds: *mut pollfd, count: nfds_t, millis: c_int, size: usize)
        -> c_int, or no_such();
    __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
        mask: *const sigset_t, size: usize) -> c_int, or no_such();
    epoll_wait(epoll: c_int, events: *mut epoll_event, max: c_int, millis: c_int)
        -> c_int, or no_such();
    epoll_pwait(epoll: c_int, events: *mut epoll_event, max: c_int, millis: c_int,
        mask: *const sigset_t) -> c_int, or no_such();
    epoll_pwait2(epoll: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
        mask: *const sigset_t) -> c_int, or no_such();
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int, or no_such();
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t) -> c_int, or no_such();
    timerfd_settime(fd: c_int, flags: c_int, new: *const itimerspec, old: *mut itimerspec)
        -> c_int, or no_such();
    timerfd_gettime(fd: c_int, now: *mut itimerspec) -> c_int, or no_such();
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t)
        -> c_int, or no_such();
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t)
        -> c_int, or no_such();
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int, or no_such();
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long)
        -> c_long, or no_such();
    dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void, or core::ptr::null_mut();
}

/// A real clock in nanoseconds.
#[inline]
pub fn now(id: clockid_t) -> Option<i64> {
    let mut ts = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: ts is ours to write.
    let answer = unsafe { clock_gettime(id, &mut ts) };
    (answer == 0).then(|| crate::clock::nanos(ts.tv_sec, ts.tv_nsec))
}

/// Times in the shapes libc takes.
#[inline]
pub fn to_timespec(nanos: i64) -> timespec {
    let (tv_sec, tv_nsec) = crate::clock::seconds_and_nanos(nanos);
    timespec { tv_sec, tv_nsec }
}

/// Rounded up, as a timeval is only ever a timeout.
pub fn to_timeval(nanos: i64) -> timeval {
    let micros = crate::clock::round_up(nanos, 1000);
    timeval {
        tv_sec: micros.div_euclid(1_000_000),
        tv_usec: micros.rem_euclid(1_000_000) as suseconds_t,
    }
}
