//! `syscall(2)`, for those who wait on futexes themselves: Rust's standard library does, and with
//! it our own agent, whose deadlines would otherwise lie k times too far away.
//!
//! The function is variadic and some calls must not return through a frame of ours (vfork, clone).
//! So all calls but the two we know jump on to the real function, registers and stack untouched.

use core::arch::naked_asm;
use core::ffi::{c_int, c_long};

use super::{deadline, on_the_wall, timeout};
use crate::clock::Origin;
use crate::real::{self, symbols};
use libc::timespec;

// The operations of futex(2) that take a time; libc does not name them all.
const FUTEX_WAIT: c_long = 0;
const FUTEX_LOCK_PI: c_long = 6;
const FUTEX_WAIT_BITSET: c_long = 9;
const FUTEX_WAIT_REQUEUE_PI: c_long = 11;
const FUTEX_LOCK_PI2: c_long = 13;
const FUTEX_PRIVATE: c_long = 128;
const FUTEX_CLOCK_REALTIME: c_long = 256;

#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    naked_asm!(
        "cmp rdi, {futex}",
        "je {timed}",
        "cmp rdi, {clock_gettime}",
        "je {timed}",
        "mov rax, qword ptr [rip + {real}]",
        // 0 is not found yet, 1 is missing: both are for the function that can look.
        "cmp rax, 1",
        "jbe {timed}",
        "jmp rax",
        futex = const libc::SYS_futex,
        clock_gettime = const libc::SYS_clock_gettime,
        timed = sym timed,
        real = sym symbols::syscall,
    )
}

unsafe extern "C-unwind" fn timed(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the caller's arguments; only those the call has are looked at.
    unsafe {
        match number {
            libc::SYS_clock_gettime => {
                super::reading::clock_gettime(a as c_int, b as *mut timespec).into()
            }
            libc::SYS_futex => match futex(b, d as *const timespec) {
                Some((operation, time)) => {
                    let time = (&raw const time) as c_long;
                    real::syscall(number, a, operation, c, time, e, f)
                }
                None => real::syscall(number, a, b, c, d, e, f),
            },
            _ => real::syscall(number, a, b, c, d, e, f),
        }
    }
}

/// The operation and time to wait for in place of the caller's, or `None` to leave them.
///
/// # Safety
/// `time` is what futex(2) takes: for operations that wait, NULL or a timespec.
unsafe fn futex(operation: c_long, time: *const timespec) -> Option<(c_long, timespec)> {
    let on_wall = operation & FUTEX_CLOCK_REALTIME != 0;
    let origin = if on_wall { Origin::Wall } else { Origin::Mono };
    // SAFETY: these operations take a timespec or NULL.
    unsafe {
        match operation & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME) {
            FUTEX_WAIT => {
                let (clock, asked) = timeout(time)?;
                Some((operation, real::to_timespec(clock.scale_timeout(asked))))
            }
            FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI | FUTEX_LOCK_PI2 => {
                let (clock, deadline) = deadline(time)?;
                let real_mono = clock.to_real_deadline(origin, deadline);
                Some((
                    operation & !FUTEX_CLOCK_REALTIME,
                    real::to_timespec(real_mono),
                ))
            }
            // The only one that knows no clock but the wall.
            FUTEX_LOCK_PI => {
                let (clock, deadline) = deadline(time)?;
                let real_mono = clock.to_real_deadline(Origin::Wall, deadline);
                Some((operation, on_the_wall(real_mono)?))
            }
            _ => None,
        }
    }
}
