//! Waiting for descriptors, and the times the kernel keeps for them.

use super::{ASKED, SEC, errno, now, takes_what_was_asked, timespec};
use std::ffi::c_int;
use std::mem::size_of;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};

const ASKED_MILLIS: c_int = (ASKED / 1_000_000) as c_int;

/// A socket to which nobody ever sends.
fn silent() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("a port")
}

fn pollfd(socket: &UdpSocket) -> libc::pollfd {
    libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

pub fn poll() {
    let socket = silent();
    // SAFETY: one whole pollfd.
    takes_what_was_asked(|| unsafe {
        assert_eq!(libc::poll(&mut pollfd(&socket), 1, ASKED_MILLIS), 0);
    });
}

pub fn ppoll() {
    let socket = silent();
    // SAFETY: one whole pollfd, a whole timespec, no mask.
    takes_what_was_asked(|| unsafe {
        assert_eq!(
            libc::ppoll(&mut pollfd(&socket), 1, &timespec(ASKED), null()),
            0
        );
    });
}

fn epoll() -> c_int {
    // SAFETY: no pointers.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    assert!(epoll >= 0);
    epoll
}

pub fn epoll_wait() {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event.
    takes_what_was_asked(|| unsafe {
        assert_eq!(libc::epoll_wait(epoll(), &mut event, 1, ASKED_MILLIS), 0);
    });
    // SAFETY: as above; what is refused is refused as ever.
    unsafe {
        assert_eq!(libc::epoll_wait(-1, &mut event, 1, 5), -1);
        assert_eq!(errno(), libc::EBADF);
    }
}

pub fn epoll_pwait2() {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event, a whole timespec, no mask.
    takes_what_was_asked(|| unsafe {
        assert_eq!(
            libc::epoll_pwait2(epoll(), &mut event, 1, &timespec(ASKED), null()),
            0
        );
    });
}

fn read_set(socket: &UdpSocket) -> (c_int, libc::fd_set) {
    // SAFETY: an empty set is made before one low descriptor is put into it.
    unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_ZERO(&mut set);
        libc::FD_SET(socket.as_raw_fd(), &mut set);
        (socket.as_raw_fd() + 1, set)
    }
}

pub fn select() {
    let socket = silent();
    let (count, mut set) = read_set(&socket);
    let mut timeout = libc::timeval {
        tv_sec: ASKED / SEC,
        tv_usec: 0,
    };
    // SAFETY: a whole set and timeval.
    takes_what_was_asked(|| unsafe {
        let answer = libc::select(count, &mut set, null_mut(), null_mut(), &mut timeout);
        assert_eq!(answer, 0);
    });
    assert_eq!((timeout.tv_sec, timeout.tv_usec), (0, 0));
}

/// What is left of the timeout is told in virtual time.
pub fn select_early() {
    let socket = silent();
    socket
        .send_to(b"!", socket.local_addr().expect("its address"))
        .expect("sent");
    let (count, mut set) = read_set(&socket);
    let mut timeout = libc::timeval {
        tv_sec: 1000 * ASKED / SEC,
        tv_usec: 0,
    };
    // SAFETY: a whole set and timeval.
    let answer = unsafe { libc::select(count, &mut set, null_mut(), null_mut(), &mut timeout) };
    assert_eq!(answer, 1);
    // In real time a sixtieth at most would be left.
    let left = timeout.tv_sec * SEC;
    assert!(left > 100 * ASKED && left <= 1000 * ASKED, "{left}");
}

pub fn pselect() {
    let socket = silent();
    let (count, mut set) = read_set(&socket);
    // SAFETY: a whole set and timespec, no mask.
    takes_what_was_asked(|| unsafe {
        let timeout = timespec(ASKED);
        let answer = libc::pselect(count, &mut set, null_mut(), null_mut(), &timeout, null());
        assert_eq!(answer, 0);
    });
}

/// Zero does not wait, and without a timeout a ready socket is reported at once.
pub fn no_timeout() {
    let socket = silent();
    let poll = |timeout| {
        // SAFETY: one whole pollfd.
        unsafe { libc::poll(&mut pollfd(&socket), 1, timeout) }
    };
    assert_eq!(poll(0), 0);
    socket
        .send_to(b"!", socket.local_addr().expect("its address"))
        .expect("sent");
    assert_eq!(poll(-1), 1);
    assert_eq!(poll(c_int::MAX), 1);
    // SAFETY: one whole pollfd, no timeout, no mask.
    let endless = unsafe { libc::ppoll(&mut pollfd(&socket), 1, null(), null()) };
    assert_eq!(endless, 1);
}

fn timerfd(id: libc::clockid_t, flags: c_int, value: impl FnOnce() -> i64) {
    // SAFETY: no pointers.
    let timer = unsafe { libc::timerfd_create(id, 0) };
    assert!(timer >= 0);
    takes_what_was_asked(|| {
        let setting = libc::itimerspec {
            it_interval: timespec(ASKED),
            it_value: timespec(value()),
        };
        let mut left = libc::itimerspec {
            it_interval: timespec(0),
            it_value: timespec(0),
        };
        let mut count = 0u64;
        // SAFETY: whole settings, and room for the count.
        unsafe {
            assert_eq!(libc::timerfd_settime(timer, flags, &setting, null_mut()), 0);
            assert_eq!(libc::timerfd_gettime(timer, &mut left), 0);
            assert_eq!(
                libc::read(timer, (&raw mut count).cast(), size_of::<u64>()),
                8
            );
        }
        assert_eq!(left.it_interval.tv_sec, ASKED / SEC);
        assert!(
            left.it_value.tv_sec <= ASKED / SEC,
            "{}",
            left.it_value.tv_sec
        );
        assert!(count >= 1);
    });
}

pub fn timerfd_relative() {
    timerfd(libc::CLOCK_MONOTONIC, 0, || ASKED);
}

pub fn timerfd_mono() {
    let id = libc::CLOCK_MONOTONIC;
    timerfd(id, libc::TFD_TIMER_ABSTIME, || now(id) + ASKED);
}

pub fn timerfd_wall() {
    let id = libc::CLOCK_REALTIME;
    timerfd(id, libc::TFD_TIMER_ABSTIME, || now(id) + ASKED);
}

pub fn receive_timeout() {
    let socket = silent();
    let asked = std::time::Duration::from_nanos(ASKED as u64);
    socket.set_read_timeout(Some(asked)).expect("set");
    let back = socket.read_timeout().expect("read").expect("there is one");
    assert!(
        back >= asked && back < asked + std::time::Duration::from_secs(3),
        "{back:?}"
    );
    takes_what_was_asked(|| {
        let error = socket.recv(&mut [0]).expect_err("nobody sends");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    });
    socket.set_read_timeout(None).expect("unset");
    assert_eq!(socket.read_timeout().expect("read"), None);
}

fn connected_from(family: c_int, kind: c_int, port: u16) -> std::net::IpAddr {
    use std::os::fd::FromRawFd;
    let ip = if family == libc::AF_INET {
        "127.0.0.1"
    } else {
        "::ffff:127.0.0.1"
    };
    // SAFETY: a fresh descriptor has one owner, and the address is whole.
    unsafe {
        let fd = libc::socket(family, kind, 0);
        assert!(fd >= 0);
        let socket = UdpSocket::from_raw_fd(fd);
        let answer = match ip.parse().expect("an address") {
            std::net::IpAddr::V4(v4) => {
                let mut address: libc::sockaddr_in = std::mem::zeroed();
                address.sin_family = libc::AF_INET as u16;
                address.sin_port = port.to_be();
                address.sin_addr.s_addr = v4.to_bits().to_be();
                libc::connect(
                    fd,
                    (&raw const address).cast(),
                    size_of_val(&address) as u32,
                )
            }
            std::net::IpAddr::V6(v6) => {
                let mut address: libc::sockaddr_in6 = std::mem::zeroed();
                address.sin6_family = libc::AF_INET6 as u16;
                address.sin6_port = port.to_be();
                address.sin6_addr.s6_addr = v6.octets();
                libc::connect(
                    fd,
                    (&raw const address).cast(),
                    size_of_val(&address) as u32,
                )
            }
        };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
        socket
            .local_addr()
            .expect("its address")
            .ip()
            .to_canonical()
    }
}

/// Streams and datagrams, of both families, leave from the node's own address.
pub fn source_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            assert_eq!(connected_from(family, kind, port).to_string(), "127.0.0.2");
        }
    }
}
