//! Being a polite guest: cancellation, fork, symbols looked up by hand, other system calls.

use super::{ASKED, now, takes_what_was_asked, timespec};
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

/// Declared with the unwinding ABI, as a C program would call it: cancelling unwinds through it.
mod unwinding {
    unsafe extern "C-unwind" {
        pub fn nanosleep(req: *const libc::timespec, rem: *mut libc::timespec) -> libc::c_int;
    }
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

extern "C-unwind" fn sleep_long(_: *mut c_void) -> *mut c_void {
    // SAFETY: a whole timespec, and no rest wanted.
    unsafe { unwinding::nanosleep(&timespec(1000 * ASKED), null_mut()) };
    null_mut()
}

pub fn cancelled_in_sleep() {
    type Unwinding = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
    type Plain = extern "C" fn(*mut c_void) -> *mut c_void;
    let mut result: *mut c_void = null_mut();
    // SAFETY: the two types of function differ only in what may unwind; glibc lets it.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let start = transmute::<Unwinding, Plain>(sleep_long);
        assert_eq!(
            libc::pthread_create(&mut thread, std::ptr::null(), start, null_mut()),
            0
        );
        libc::usleep(5_000_000);
        assert_eq!(pthread_cancel(thread), 0);
        assert_eq!(libc::pthread_join(thread, &mut result), 0);
    }
    assert_eq!(result as isize, -1, "PTHREAD_CANCELED");
}

/// The child of a fork goes on with the same clock.
pub fn forked() {
    let before = now(libc::CLOCK_MONOTONIC);
    takes_what_was_asked(|| {
        // SAFETY: the child only makes calls that are allowed after fork.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                libc::nanosleep(&timespec(ASKED), null_mut());
                libc::_exit(c_int::from(now(libc::CLOCK_MONOTONIC) < before + ASKED));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
    });
}

/// As HotSpot of JDK 8 and 11 does. A library's own symbols, and unknown ones, stay what they are.
pub fn looked_up_by_hand() {
    type ClockGettime = unsafe extern "C" fn(c_int, *mut libc::timespec) -> c_int;
    // SAFETY: the function is what its name says.
    unsafe {
        libc::usleep(5_000_000); // let the clocks part
        for library in [c"librt.so.1", c"libc.so.6"] {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY);
            assert!(!handle.is_null());
            let address = libc::dlsym(handle, c"clock_gettime".as_ptr());
            let clock_gettime: ClockGettime = transmute(address);
            let mut ts = timespec(0);
            let before = now(libc::CLOCK_MONOTONIC);
            assert_eq!(clock_gettime(libc::CLOCK_MONOTONIC, &mut ts), 0);
            let found = ts.tv_sec * super::SEC + ts.tv_nsec;
            assert!(
                before <= found && found <= now(libc::CLOCK_MONOTONIC),
                "{library:?}"
            );
            assert!(libc::dlsym(handle, c"no_such_function".as_ptr()).is_null());
            assert!(!libc::dlerror().is_null());
            let getpid: extern "C" fn() -> c_int =
                transmute(libc::dlsym(handle, c"getpid".as_ptr()));
            assert_eq!(getpid(), libc::getpid());
        }
        assert!(!libc::dlsym(libc::RTLD_DEFAULT, c"poll".as_ptr()).is_null());
        // The program itself has no other definition behind ours but libc's.
        assert!(!libc::dlsym(libc::RTLD_NEXT, c"poll".as_ptr()).is_null());
    }
}

/// All six arguments arrive, and errors come back.
pub fn other_system_calls() {
    let size = 4096usize;
    // SAFETY: a fresh anonymous page, of nobody else's memory, and given back.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::syscall(
            libc::SYS_mmap,
            0usize,
            size,
            protection,
            flags,
            -1isize,
            0usize,
        );
        assert!(page > 0);
        (page as *mut u8).write(1);
        assert_eq!(libc::syscall(libc::SYS_munmap, page, size), 0);
        assert_eq!(libc::syscall(libc::SYS_close, -1), -1);
    }
    assert_eq!(super::errno(), libc::EBADF);
}
