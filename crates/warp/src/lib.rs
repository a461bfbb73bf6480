//! The virtual clock of a trial, preloaded (`LD_PRELOAD`) into every process of the target.
//!
//! All processes of a trial read one clock, k times faster than the real one:
//! `virtual = base + (real - base) * k`. What a process waits for becomes k times shorter, so a
//! session timeout of 30 s passes in 3 s at k = 10 and nobody inside can tell. The lab sets:
//!
//! | variable | meaning |
//! |---|---|
//! | `TEMBLOR_WARP_FACTOR` | k, a decimal from 0.001 to 1000000; missing or 1: no change |
//! | `TEMBLOR_WARP_MONO_NS` | real CLOCK_MONOTONIC at the base, in the trial's time namespace |
//! | `TEMBLOR_WARP_REAL_NS` | real CLOCK_REALTIME at the base |
//! | `TEMBLOR_WARP_PAGE` | a file whose first 8 bytes are nanoseconds in which the clock stood still |
//! | `TEMBLOR_SOURCE_ADDR` | a second duty, see `source_addr` |
//!
//! Both virtual clocks are driven by the real CLOCK_MONOTONIC. A step of the machine's wall clock,
//! or a cell thawed an hour after it was frozen, would otherwise appear inside k times as large.
//!
//! Left alone, because libc does not ask us or the kernel keeps the time: TCP retransmission and
//! keep-alive, file times, CPU clocks, `setitimer`/`timer_settime`/`alarm`, `sigtimedwait`, message
//! queues, C11 `cnd_timedwait`, programs that are static or issue system calls themselves. Raw
//! futexes and symbols looked up by `dlsym` are covered on x86-64 only. An unversioned symbol
//! answers references to every version, so a program older than glibc 2.3.2 (2002) with its other
//! layout of `pthread_cond_t` would be served wrongly; there is none on a 64-bit JVM.

pub mod clock;
pub mod settings;
pub mod source_addr;

// Not in the unit tests' executable: it would run on the clock it is testing.
#[cfg(not(test))]
mod current;
#[cfg(not(test))]
mod interpose;
#[cfg(not(test))]
mod real;
