//! The clock of this process: read from the environment once, then three numbers in memory.
//!
//! The state is atomics, not a lock or a `OnceLock`: two threads, or a signal handler, that come
//! first at the same time both read the same environment and store the same numbers.

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::net::Ipv4Addr;

use crate::clock::{Clock, Factor};
use crate::{real, settings};

const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNREAD);
static FACTOR: AtomicU64 = AtomicU64::new(0);
static BASE_MONO: AtomicI64 = AtomicI64::new(0);
static BASE_WALL: AtomicI64 = AtomicI64::new(0);
static NO_GAP: AtomicI64 = AtomicI64::new(0);
static GAP: AtomicPtr<AtomicI64> = AtomicPtr::new((&raw const NO_GAP).cast_mut());
/// 0 means none; it is no address in 127.0.0.0/8.
static SOURCE_ADDR: AtomicU32 = AtomicU32::new(0);

/// The trial's clock, or `None` if time is to be left alone.
#[inline]
pub fn clock() -> Option<Clock> {
    match state() {
        ON => Some(Clock {
            factor: Factor::from_bits(FACTOR.load(Ordering::Relaxed)),
            base_mono: BASE_MONO.load(Ordering::Relaxed),
            base_wall: BASE_WALL.load(Ordering::Relaxed),
            gap: gap(),
        }),
        _ => None,
    }
}

/// What the lab has written to the trial's page: it may freeze all processes and let them go on
/// later, and for them no time has passed.
#[inline]
pub fn gap() -> i64 {
    // SAFETY: the pointer is to our own static or to a page that stays mapped.
    unsafe { &*GAP.load(Ordering::Relaxed) }.load(Ordering::Relaxed)
}

#[inline]
pub fn is_on() -> bool {
    state() == ON
}

/// The address this node connects from, if it has one of its own.
pub fn source_addr() -> Option<Ipv4Addr> {
    state();
    match SOURCE_ADDR.load(Ordering::Relaxed) {
        0 => None,
        bits => Some(Ipv4Addr::from_bits(bits)),
    }
}

#[inline]
fn state() -> u8 {
    match STATE.load(Ordering::Acquire) {
        UNREAD => read_environment(),
        state => state,
    }
}

#[cold]
fn read_environment() -> u8 {
    let [factor, mono_ns, real_ns, source_addr] = [
        c"TEMBLOR_WARP_FACTOR",
        c"TEMBLOR_WARP_MONO_NS",
        c"TEMBLOR_WARP_REAL_NS",
        c"TEMBLOR_SOURCE_ADDR",
    ]
    .map(variable);
    let clock = settings::clock(factor, mono_ns, real_ns);
    let source_addr = settings::source_addr(source_addr);
    if let Ok(Some(source_addr)) = source_addr {
        SOURCE_ADDR.store(source_addr.to_bits(), Ordering::Relaxed);
    }
    let state = match clock {
        Ok(Some(clock)) => {
            FACTOR.store(clock.factor.bits(), Ordering::Relaxed);
            BASE_MONO.store(clock.base_mono, Ordering::Relaxed);
            BASE_WALL.store(clock.base_wall, Ordering::Relaxed);
            ON
        }
        _ => OFF,
    };
    // Only the first one here complains.
    if STATE
        .compare_exchange(UNREAD, state, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
    {
        if let Err(error) = clock {
            complain(format_args!("{error}; the clock is left alone"));
        }
        if let Err(error) = source_addr {
            complain(format_args!("{error}; connections are left alone"));
        }
    }
    state
}

fn variable(name: &CStr) -> Option<&'static str> {
    // SAFETY: getenv gives NULL or a NUL-terminated string of the environment, which nobody changes
    // while the process starts.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return None;
        }
        CStr::from_ptr(value)
    };
    Some(value.to_str().unwrap_or("(not UTF-8)"))
}

/// One line on stderr, in one write and without allocating: the process may be barely alive.
fn complain(message: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; 256],
        len: 0,
    };
    // A line that is too long is cut, which is no failure.
    let _ = write!(line, "temblor-warp: {message}");
    line.bytes[line.len] = b'\n';
    // SAFETY: the bytes are ours, len + 1 of them written; errno is this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(
            libc::STDERR_FILENO,
            line.bytes.as_ptr().cast(),
            line.len + 1,
        );
        *libc::__errno_location() = errno;
    }
}

struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte stays free for the newline.
        let taken = text.len().min(self.bytes.len() - 1 - self.len);
        self.bytes[self.len..self.len + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// Maps the page that the lab writes to; without one the clock never stands still.
fn map_page() {
    let Some(path) = variable(c"TEMBLOR_WARP_PAGE") else {
        return;
    };
    // The value ends with NUL: it is the environment's own.
    let path = path.as_ptr().cast();
    // SAFETY: a path that ends with NUL; the mapping is one whole page of the file, or none.
    let page = unsafe {
        let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return complain(format_args!("cannot open TEMBLOR_WARP_PAGE; time may jump"));
        }
        let page = libc::mmap(
            core::ptr::null_mut(),
            size_of::<i64>(),
            libc::PROT_READ,
            libc::MAP_SHARED,
            file,
            0,
        );
        libc::close(file);
        page
    };
    if page != libc::MAP_FAILED {
        GAP.store(page.cast(), Ordering::Relaxed);
    }
}

extern "C" fn start() {
    real::find_all();
    if state() == ON {
        map_page();
    }
}

// Run by the dynamic linker when it has loaded us, before main.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
