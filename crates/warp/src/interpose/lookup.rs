//! `dlsym`, for those who take a function out of libc by hand and so past us.
//!
//! HotSpot up to JDK 14 finds `clock_gettime` in librt that way; its `nanoTime` would run on the
//! real clock while its waits run on ours. The answer is changed only if it is the very function we
//! stand before: a library's own `poll` or `connect` stays its own. For RTLD_NEXT and RTLD_DEFAULT
//! the answer depends on who asks, so those jump on to the real function as if we were not there;
//! both see the preloaded library anyway where they should.

use core::arch::naked_asm;
use core::ffi::{c_char, c_void};

use super::{descriptors as d, kernel as k, reading as r, sleeping as s, waiting as w};
use crate::real::{self, Symbol, symbols};
use crate::source_addr;

#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        // RTLD_NEXT is -1 and RTLD_DEFAULT is 0.
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "ja {in_library}",
        "mov rax, qword ptr [rip + {real}]",
        "cmp rax, 1",
        "ja 2f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "je 3f",
        "2: jmp rax",
        "3: ret",
        in_library = sym in_library,
        real = sym symbols::dlsym,
        find = sym find,
    )
}

extern "C" fn find() -> usize {
    symbols::dlsym.find().unwrap_or(0)
}

unsafe extern "C-unwind" fn in_library(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's arguments, as dlsym demands them.
    let found = unsafe { real::dlsym(handle, name) };
    match ours(found as usize) {
        Some(ours) => ours as *mut c_void,
        None => found,
    }
}

fn ours(found: usize) -> Option<usize> {
    let table: [(&Symbol, usize); _] = [
        (
            &symbols::clock_gettime,
            r::clock_gettime as *const () as usize,
        ),
        (
            &symbols::gettimeofday,
            r::gettimeofday as *const () as usize,
        ),
        (&symbols::time, r::time as *const () as usize),
        (
            &symbols::timespec_get,
            r::timespec_get as *const () as usize,
        ),
        (&symbols::nanosleep, s::nanosleep as *const () as usize),
        (
            &symbols::clock_nanosleep,
            s::clock_nanosleep as *const () as usize,
        ),
        (&symbols::usleep, s::usleep as *const () as usize),
        (&symbols::sleep, s::sleep as *const () as usize),
        (
            &symbols::pthread_cond_timedwait,
            w::pthread_cond_timedwait as *const () as usize,
        ),
        (
            &symbols::pthread_cond_clockwait,
            w::pthread_cond_clockwait as *const () as usize,
        ),
        (
            &symbols::sem_timedwait,
            w::sem_timedwait as *const () as usize,
        ),
        (
            &symbols::sem_clockwait,
            w::sem_clockwait as *const () as usize,
        ),
        (
            &symbols::pthread_mutex_timedlock,
            w::pthread_mutex_timedlock as *const () as usize,
        ),
        (
            &symbols::pthread_mutex_clocklock,
            w::pthread_mutex_clocklock as *const () as usize,
        ),
        (
            &symbols::pthread_rwlock_timedrdlock,
            w::pthread_rwlock_timedrdlock as *const () as usize,
        ),
        (
            &symbols::pthread_rwlock_timedwrlock,
            w::pthread_rwlock_timedwrlock as *const () as usize,
        ),
        (&symbols::poll, d::poll as *const () as usize),
        (&symbols::ppoll, d::ppoll as *const () as usize),
        (&symbols::epoll_wait, d::epoll_wait as *const () as usize),
        (&symbols::epoll_pwait, d::epoll_pwait as *const () as usize),
        (
            &symbols::epoll_pwait2,
            d::epoll_pwait2 as *const () as usize,
        ),
        (&symbols::select, d::select as *const () as usize),
        (&symbols::pselect, d::pselect as *const () as usize),
        (
            &symbols::timerfd_settime,
            k::timerfd_settime as *const () as usize,
        ),
        (
            &symbols::timerfd_gettime,
            k::timerfd_gettime as *const () as usize,
        ),
        (&symbols::setsockopt, k::setsockopt as *const () as usize),
        (&symbols::getsockopt, k::getsockopt as *const () as usize),
        (
            &symbols::connect,
            source_addr::connect as *const () as usize,
        ),
    ];
    let is_found = |(symbol, _): &&(&Symbol, usize)| symbol.address() == Some(found);
    table.iter().find(is_found).map(|(_, ours)| *ours)
}
