//! The kernel calls a cell needs, each behind a safe function. All unsafe code of the crate that
//! concerns namespaces, processes and raw sockets is here.

use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn c_string(text: &[u8]) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Leaves one kind of namespace (pid and time: for children to come).
pub fn unshare(flag: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a flag, touches no memory of ours.
    check(unsafe { libc::unshare(flag) }).map(drop)
}

/// The effective user and group.
pub fn ids() -> (u32, u32) {
    // SAFETY: these calls cannot fail and take nothing.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Forks. The caller must be single-threaded: the child goes on with everything the parent had.
pub fn fork_single_threaded() -> io::Result<Option<i32>> {
    debug_assert_eq!(thread_count(), 1, "fork in a multi-threaded process");
    // SAFETY: with one thread no lock can be held by a thread that the child lacks.
    let pid = check(unsafe { libc::fork() })?;
    Ok((pid > 0).then_some(pid))
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Waits until a child of this process ends.
pub fn wait_for(pid: i32) -> io::Result<()> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for one int.
        match check(unsafe { libc::waitpid(pid, &mut status, 0) }) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// How a process ended: `(pid, code, signal)`.
pub type Ended = (i32, Option<i32>, Option<i32>);

/// Reaps one ended child, if there is one.
pub fn reap() -> Option<Ended> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for one int.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    if libc::WIFSIGNALED(status) {
        Some((pid, None, Some(libc::WTERMSIG(status))))
    } else {
        Some((pid, Some(libc::WEXITSTATUS(status)), None))
    }
}

/// The kernel kills this process when its parent ends.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: this option takes one number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

/// Orphans below this process become its children.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: this option takes one number.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }).map(drop)
}

/// A session and process group of its own. Safe to call between fork and exec.
pub fn new_session() -> io::Result<()> {
    // SAFETY: takes nothing; async-signal-safe.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Sends a signal to one process.
pub fn signal(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// CLOCK_MONOTONIC of this process's time namespace.
pub fn monotonic_ns() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the timespec is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Sends a signal to a process group.
pub fn signal_group(pgid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(-pgid, signal) }).map(drop)
}

/// Mounts, as mount(2).
pub fn mount(source: &str, at: &Path, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let source = c_string(source.as_bytes())?;
    let at = c_string(at.as_os_str().as_bytes())?;
    let kind = c_string(kind.as_bytes())?;
    // SAFETY: three strings that end with NUL and outlive the call; no data.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            flags,
            std::ptr::null(),
        )
    };
    check(result).map(drop)
}

/// Sets the loopback interface up.
pub fn loopback_up() -> io::Result<()> {
    let socket = tcp_socket()?;
    // SAFETY: `ifreq` is plain data, valid as zeros.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) }).map(drop)
}

/// Puts `from` at the place `to`, which stays open over exec.
pub fn move_fd(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: dup2 checks both numbers; the caller owns what was at `to`.
    check(unsafe { libc::dup2(from, to) }).map(drop)
}

/// Closes every file descriptor from `first` on. Only for processes that hold none of them in
/// values that would close them again.
pub fn close_from(first: RawFd) {
    // SAFETY: the caller vouches that no owner of these descriptors is left.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first as libc::c_uint,
            libc::c_uint::MAX,
            0,
        )
    };
}

/// Closes one descriptor. Only where no owner of it will: in a fork that never returns.
pub fn close_fd(fd: RawFd) {
    // SAFETY: the caller vouches that nobody in this process uses it any more.
    unsafe { libc::close(fd) };
}

/// Takes ownership of an inherited descriptor.
pub fn own_fd(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: fcntl has just shown that it is open, and the caller hands over its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Ends this process without running anything else.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// Blocks SIGCHLD and yields a descriptor that becomes readable when a child ends.
pub fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is plain data, initialised by sigemptyset before use.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &set,
            std::ptr::null_mut(),
        ))?;
        check(libc::signalfd(
            -1,
            &set,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))?
    };
    // SAFETY: signalfd has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Empties what `child_signals` has to say.
pub fn drain(fd: &OwnedFd) {
    let mut buffer = [0u8; 1024];
    // SAFETY: the buffer is as long as said.
    while unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
}

/// Unblocks all signals. Safe to call between fork and exec.
pub fn unblock_signals() -> io::Result<()> {
    // SAFETY: the set is plain data, initialised by sigemptyset; async-signal-safe calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        check(libc::sigprocmask(
            libc::SIG_SETMASK,
            &set,
            std::ptr::null_mut(),
        ))
        .map(drop)
    }
}

/// Waits until one of the descriptors is readable or closed; says which. `None` waits for ever.
pub fn readable(fds: &[RawFd], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    poll(fds, libc::POLLIN, limit)
}

fn poll(fds: &[RawFd], events: libc::c_short, limit: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events,
            revents: 0,
        })
        .collect();
    // A part of a millisecond rounds up: a limit must not become a busy loop.
    let limit_ms = limit.map_or(-1, |l| {
        l.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32
    });
    // SAFETY: pointer and length are those of one vector.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, limit_ms) };
    match check(result) {
        Ok(_) => Ok(polled.iter().map(|p| p.revents != 0).collect()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; fds.len()]),
        Err(error) => Err(error),
    }
}

/// A handle to a process that never comes to mean another one.
pub fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Kills the process behind the handle; one that has ended is no error.
pub fn kill_pidfd(fd: &OwnedFd) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: numbers and a null siginfo, which the call allows.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            libc::SIGKILL,
            none,
            0,
        )
    };
    let error = io::Error::last_os_error();
    if result < 0 && error.raw_os_error() != Some(libc::ESRCH) {
        Err(error)
    } else {
        Ok(())
    }
}

fn tcp_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers only.
    let fd = check(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn socket_address(ip: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(ip).to_be(),
        },
        sin_zero: [0; 8],
    }
}

const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

/// Connects from a given source address, which the standard library cannot do.
pub fn connect_from(
    source: Ipv4Addr,
    to: SocketAddrV4,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let socket = tcp_socket()?;
    let fd = socket.as_raw_fd();
    let from = socket_address(source, 0);
    // SAFETY: a whole `sockaddr_in` with its length.
    check(unsafe { libc::bind(fd, (&raw const from).cast(), ADDRESS_BYTES) })?;
    let to = socket_address(*to.ip(), to.port());
    // SAFETY: a whole `sockaddr_in` with its length.
    match check(unsafe { libc::connect(fd, (&raw const to).cast(), ADDRESS_BYTES) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if poll(&[fd], libc::POLLOUT, Some(left))?[0] {
            break;
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    let stream = TcpStream::from(socket);
    match stream.take_error()? {
        Some(error) => Err(error),
        None => stream.set_nonblocking(false).map(|()| stream),
    }
}

/// Makes `to` share the blocks of `from`, where the file system can.
pub fn clone_blocks(from: &std::fs::File, to: &std::fs::File) -> io::Result<()> {
    // SAFETY: FICLONE takes two descriptors.
    check(unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) }).map(drop)
}

/// The next part of a file, from `at` on, that is no hole. A file system that knows no holes has
/// one part.
pub fn next_data(file: &std::fs::File, at: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |from: u64, whence| {
        // SAFETY: takes numbers only.
        let found = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
        match found {
            ..0 => Err(io::Error::last_os_error()),
            found => Ok(found as u64),
        }
    };
    if at >= len {
        return Ok(None);
    }
    match seek(at, libc::SEEK_DATA) {
        Ok(start) => Ok(Some((start, seek(start, libc::SEEK_HOLE)?.min(len)))),
        // Nothing but a hole is left.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Some((at, len))),
        Err(error) => Err(error),
    }
}

/// What is free on the file system of a folder.
pub fn free_bytes_at(dir: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let dir = c_string(dir.as_os_str().as_bytes())?;
    // SAFETY: `statvfs` is plain data, valid as zeros; the string ends with NUL.
    unsafe {
        let mut facts: libc::statvfs = std::mem::zeroed();
        check(libc::statvfs(dir.as_ptr(), &mut facts))?;
        Ok(facts.f_bavail * facts.f_frsize)
    }
}

/// The machine's memory.
pub fn memory_bytes() -> u64 {
    // SAFETY: takes a number only.
    let ask = |name| unsafe { libc::sysconf(name) }.max(0) as u64;
    ask(libc::_SC_PHYS_PAGES) * ask(libc::_SC_PAGESIZE)
}
