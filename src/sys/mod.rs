//! Calls into the kernel that no crate of ours wraps: one of the two rooms where `unsafe` may live. Each function here is
//! safe to call, checks what it is given, and knows nothing of queues.

#![allow(unsafe_code)]

pub mod namespace;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes that can be had without swapping, if the kernel says so.
pub fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Reads a socket's `TCP_INFO` into `into` and says how many bytes this kernel filled in.
///
/// # Errors
/// What the kernel says: the descriptor is no TCP socket.
pub fn tcp_info(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let mut len = into.len() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and so open; the pointer and `len` describe one writable slice, of which the
    // kernel writes at most `len` bytes, and says how many.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into.as_mut_ptr().cast(), &raw mut len)
    };
    if status == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

/// Lets TCP pace what this socket sends, at its own rate and at this one at most, bytes per second.
///
/// # Errors
/// What the kernel says: the descriptor is no socket.
pub fn pace(socket: BorrowedFd<'_>, most: u32) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed and so open; the pointer is to one live `u32` and the length is its size.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const most).cast(),
            mem::size_of_val(&most) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes an interface promiscuous for as long as this packet socket is open. The kernel counts such memberships, so it
/// ends with the process, however that ends.
///
/// # Errors
/// What the kernel says: no such interface, or the socket is no packet socket.
pub fn join_promiscuous(packet_socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the descriptor is borrowed and so open; the pointer is to one live `packet_mreq` and the length is its size.
    let status = unsafe {
        libc::setsockopt(
            packet_socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            mem::size_of_val(&request) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Every ethertype, for [`packet_socket`].
pub const ANY: u16 = libc::ETH_P_ALL as u16;

/// A packet socket that sends and receives whole frames at one interface: those of an ethertype, or with [`ANY`] all, also
/// what leaves there.
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`, `ENODEV` for no such interface.
pub fn packet_socket(ifindex: u32, ethertype: u16) -> io::Result<OwnedFd> {
    let protocol = ethertype.to_be();
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else has.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: i32::try_from(ifindex).map_err(|_| io::ErrorKind::InvalidInput)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer is to one live `sockaddr_ll` and the length is its size.
    let status = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), mem::size_of_val(&address) as libc::socklen_t)
    };
    if status == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Moves the calling thread into a new, empty network namespace, which lasts as long as a thread or a socket is in it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_new_network_namespace() -> io::Result<()> {
    // SAFETY: takes no pointers; a thread's network namespace decides what sockets it makes later see, and nothing in
    // memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves the calling thread into the network namespace behind a descriptor (an open `/run/netns/NAME`). Its mounts stay.
///
/// # Errors
/// `EINVAL` if it is something else, `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed and so open; see above for what changes.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `SIOCETHTOOL`, from `linux/sockios.h`.
const SIOCETHTOOL: u32 = 0x8946;

/// One ethtool request. `request` starts with the command and is as long as that command may make the kernel write: the
/// caller sizes it by the structs of `linux/ethtool.h`. Words, so that it is aligned for 32-bit and 64-bit fields alike.
///
/// # Errors
/// `EOPNOTSUPP` where the driver does not know the command, `ENODEV` for no such interface, `EPERM`, and what else the
/// kernel says. `InvalidInput` for a name that is empty or longer than 15 bytes.
pub fn ethtool(socket: BorrowedFd<'_>, interface: &str, request: &mut [u64]) -> io::Result<()> {
    let name = interface.as_bytes();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(&0) || request.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `ifreq` is plain data, for which all bytes zero is a value.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: the descriptor is borrowed and so open; `ifreq` lives until the call returns and points to `request`, which
    // is writable and, by this function's contract, as long as the command needs.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut ifreq) };
    if status >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn tcp_info_of_a_connected_socket_says_established() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let mut info = [0u8; 256];
        let len = tcp_info(socket.as_fd(), &mut info).expect("a TCP socket");
        assert!(len >= 192, "kernel 4.9 and later fill in at least 192 bytes, this one {len}");
        assert_eq!(info[0], 1);
    }

    #[test]
    fn an_interface_name_that_does_not_fit_is_refused_before_the_kernel_is_asked() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let refused = ethtool(socket.as_fd(), "a-name-of-16-byt", &mut [0]).expect_err("too long");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
