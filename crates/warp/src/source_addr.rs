//! A node's own source address on the one loopback all nodes of a trial share.
//!
//! The kernel gives every connection to 127.x the source address 127.0.0.1 or the destination's
//! own, whichever node it comes from. A rule that partitions two nodes could then not tell who is
//! speaking. With `TEMBLOR_SOURCE_ADDR=127.0.0.2` a socket that connects to the loopback, and that
//! nobody has bound, is bound to that address first, without a port (IP_BIND_ADDRESS_NO_PORT: the
//! port is chosen at connect, as always, and may be shared by connections to different peers).
//! If that fails, the connection is made as if we were not there. `::1`, which has no second
//! address, and datagrams sent without connect keep theirs; so do those of Java, which binds its
//! datagram sockets to a port of any address itself.

use core::mem::size_of;
use std::net::Ipv4Addr;

use libc::{in_addr, in6_addr, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// An IPv4 or IPv6 socket address, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address {
    V4(Ipv4Addr, u16),
    V6([u8; 16], u16),
}

impl Address {
    /// # Safety
    /// `address` is NULL or points to `len` bytes.
    unsafe fn read(address: *const sockaddr, len: socklen_t) -> Option<Self> {
        let len = len as usize;
        if address.is_null() || len < size_of::<sa_family_t>() {
            return None;
        }
        // SAFETY: within `len` bytes; the caller's address need not be aligned.
        unsafe {
            match i32::from(address.cast::<sa_family_t>().read_unaligned()) {
                libc::AF_INET if len >= size_of::<sockaddr_in>() => {
                    let v4 = address.cast::<sockaddr_in>().read_unaligned();
                    Some(Self::V4(
                        Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)),
                        v4.sin_port,
                    ))
                }
                // Older programs leave out the scope at the end.
                libc::AF_INET6 if len >= size_of::<sockaddr_in6>() - size_of::<u32>() => {
                    let bytes = address.cast::<u8>();
                    let port = bytes.add(2).cast::<u16>().read_unaligned();
                    Some(Self::V6(
                        bytes.add(8).cast::<[u8; 16]>().read_unaligned(),
                        port,
                    ))
                }
                _ => None,
            }
        }
    }

    /// The IPv4 address, also of an IPv6 address that stands for one.
    fn v4(self) -> Option<Ipv4Addr> {
        match self {
            Self::V4(v4, _) => Some(v4),
            Self::V6(v6, _) => std::net::Ipv6Addr::from(v6).to_ipv4_mapped(),
        }
    }

    fn is_bound(self) -> bool {
        match self {
            Self::V4(v4, port) => port != 0 || !v4.is_unspecified(),
            Self::V6(v6, port) => {
                let unspecified = v6 == [0; 16] || self.v4().is_some_and(|v4| v4.is_unspecified());
                port != 0 || !unspecified
            }
        }
    }

    /// `source` with any port, in the family of this address.
    fn same_family(self, source: Ipv4Addr) -> Self {
        match self {
            Self::V4(..) => Self::V4(source, 0),
            Self::V6(..) => Self::V6(source.to_ipv6_mapped().octets(), 0),
        }
    }

    /// Hands the address to `call` in the kernel's shape.
    fn with_sockaddr<T>(self, call: impl FnOnce(*const sockaddr, socklen_t) -> T) -> T {
        match self {
            Self::V4(v4, sin_port) => {
                let address = sockaddr_in {
                    sin_family: libc::AF_INET as sa_family_t,
                    sin_port,
                    sin_addr: in_addr {
                        s_addr: v4.to_bits().to_be(),
                    },
                    sin_zero: [0; 8],
                };
                call(
                    (&raw const address).cast(),
                    size_of::<sockaddr_in>() as socklen_t,
                )
            }
            Self::V6(s6_addr, sin6_port) => {
                let address = sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as sa_family_t,
                    sin6_port,
                    sin6_flowinfo: 0,
                    sin6_addr: in6_addr { s6_addr },
                    sin6_scope_id: 0,
                };
                call(
                    (&raw const address).cast(),
                    size_of::<sockaddr_in6>() as socklen_t,
                )
            }
        }
    }
}

/// The address to bind to before connecting a socket, now at `local`, to `destination`.
fn address_to_bind(source: Ipv4Addr, local: Address, destination: Address) -> Option<Address> {
    let to_loopback = destination.v4().is_some_and(|v4| v4.is_loopback());
    (to_loopback && !local.is_bound()).then(|| local.same_family(source))
}

#[cfg(not(test))]
mod interposed {
    use super::*;
    use crate::{current, real};
    use core::ffi::{c_int, c_void};

    #[unsafe(no_mangle)]
    pub unsafe extern "C-unwind" fn connect(
        fd: c_int,
        address: *const sockaddr,
        len: socklen_t,
    ) -> c_int {
        // SAFETY: the caller's address, as connect demands it.
        unsafe {
            if let Some(source) = current::source_addr()
                && let Some(destination) = Address::read(address, len)
            {
                bind_first(fd, source, destination);
            }
            real::connect(fd, address, len)
        }
    }

    /// Whatever fails here is not reported: the connection is then made from the usual address.
    fn bind_first(fd: c_int, source: Ipv4Addr, destination: Address) {
        // SAFETY: all memory handed out is ours, and large enough for every kind of address.
        unsafe {
            let errno = *libc::__errno_location();
            let mut storage: libc::sockaddr_storage = core::mem::zeroed();
            let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
            let local = (&raw mut storage).cast::<sockaddr>();
            if libc::getsockname(fd, local, &mut len) == 0
                && let Some(local) = Address::read(local, len)
                && let Some(address) = address_to_bind(source, local, destination)
            {
                let on: c_int = 1;
                let value = (&raw const on).cast::<c_void>();
                let option = libc::IP_BIND_ADDRESS_NO_PORT;
                real::setsockopt(
                    fd,
                    libc::SOL_IP,
                    option,
                    value,
                    size_of::<c_int>() as socklen_t,
                );
                address.with_sockaddr(|address, len| libc::bind(fd, address, len));
            }
            *libc::__errno_location() = errno;
        }
    }
}

#[cfg(not(test))]
pub(crate) use interposed::connect;

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    const UNBOUND: Address = Address::V4(Ipv4Addr::UNSPECIFIED, 0);
    const PEER: Address = Address::V4(Ipv4Addr::new(127, 0, 0, 3), 80);
    const MAPPED_PEER: Address =
        Address::V6(Ipv4Addr::new(127, 0, 0, 3).to_ipv6_mapped().octets(), 80);

    fn mapped(v4: Ipv4Addr, port: u16) -> Address {
        Address::V6(v4.to_ipv6_mapped().octets(), port)
    }

    #[test]
    fn an_unbound_socket_to_the_loopback_is_bound_in_its_own_family() {
        assert_eq!(
            address_to_bind(SOURCE, UNBOUND, PEER),
            Some(Address::V4(SOURCE, 0))
        );
        for local in [Address::V6([0; 16], 0), mapped(Ipv4Addr::UNSPECIFIED, 0)] {
            assert_eq!(
                address_to_bind(SOURCE, local, MAPPED_PEER),
                Some(mapped(SOURCE, 0))
            );
        }
    }

    #[test]
    fn a_bound_socket_is_left_alone() {
        for local in [
            Address::V4(Ipv4Addr::LOCALHOST, 0),
            Address::V4(Ipv4Addr::UNSPECIFIED, 4000),
            Address::V6([0; 16], 4000),
            mapped(Ipv4Addr::LOCALHOST, 0),
        ] {
            assert_eq!(address_to_bind(SOURCE, local, PEER), None, "{local:?}");
        }
    }

    #[test]
    fn other_destinations_are_left_alone() {
        let v6_loopback = Address::V6(std::net::Ipv6Addr::LOCALHOST.octets(), 80);
        let elsewhere = Address::V4(Ipv4Addr::new(10, 0, 0, 1), 80);
        for destination in [
            v6_loopback,
            elsewhere,
            mapped(Ipv4Addr::new(10, 0, 0, 1), 80),
        ] {
            assert_eq!(
                address_to_bind(SOURCE, UNBOUND, destination),
                None,
                "{destination:?}"
            );
        }
    }

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for address in [UNBOUND, PEER, MAPPED_PEER] {
            // SAFETY: the pointer and length come from a whole address.
            let read = address.with_sockaddr(|address, len| unsafe { Address::read(address, len) });
            assert_eq!(read, Some(address));
            // SAFETY: fewer bytes than there are.
            let cut = address.with_sockaddr(|address, _| unsafe { Address::read(address, 7) });
            assert_eq!(cut, None);
        }
    }
}
