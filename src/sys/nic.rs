//! What the kernel says of a network interface.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCGIFMTU: Opcode = 0x8921;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const IFF_UP: i16 = 1;
const IFF_RUNNING: i16 = 0x40;
/// Longest name of an interface, its final zero included.
const IFNAMSIZ: usize = 16;

/// `struct ifreq` with a number in its union.
#[repr(C, align(8))]
struct IfReq {
    name: [u8; IFNAMSIZ],
    value: [u8; 24],
}

/// A network interface of this network namespace. Its index is what counts: names change.
#[derive(Debug)]
pub struct Nic {
    socket: OwnedFd,
    index: u32,
}

impl Nic {
    /// The interface called `name`, which may be an alternative name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> io::Result<Nic> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let index = rustix::net::netdevice::name_to_index(&socket, name)?;
        Ok(Nic { socket, index })
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What it is called now.
    ///
    /// # Errors
    /// If it is gone.
    pub fn name(&self) -> io::Result<String> {
        Ok(rustix::net::netdevice::index_to_name(&self.socket, self.index)?)
    }

    fn request(&self) -> io::Result<IfReq> {
        let name = self.name()?;
        let mut request = IfReq { name: [0; IFNAMSIZ], value: [0; 24] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(request)
    }

    /// Its MTU, in bytes.
    ///
    /// # Errors
    /// If it is gone.
    pub fn mtu(&self) -> io::Result<u32> {
        let mut request = self.request()?;
        // SAFETY: this call takes a `struct ifreq` and writes a number into its union.
        unsafe { ioctl(&self.socket, Updater::<SIOCGIFMTU, IfReq>::new(&mut request))? };
        Ok(u32::from_ne_bytes([request.value[0], request.value[1], request.value[2], request.value[3]]))
    }

    /// Whether it is up and its link is there.
    ///
    /// # Errors
    /// If it is gone.
    pub fn is_running(&self) -> io::Result<bool> {
        let mut request = self.request()?;
        // SAFETY: this call takes a `struct ifreq` and writes a number into its union.
        unsafe { ioctl(&self.socket, Updater::<SIOCGIFFLAGS, IfReq>::new(&mut request))? };
        let flags = i16::from_ne_bytes([request.value[0], request.value[1]]);
        Ok(flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING)
    }

    /// How many receive queues are in use; 1 where the driver does not say.
    ///
    /// # Errors
    /// If it is gone.
    pub fn receive_queues(&self) -> io::Result<u32> {
        // `struct ethtool_channels`: the command, four maxima, then rx, tx, other and combined.
        let [a, b, c, d] = ETHTOOL_GCHANNELS.to_ne_bytes();
        let mut request = [0u64; 5];
        request[0] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        if super::ethtool(self.socket.as_fd(), &self.name()?, &mut request).is_err() {
            return Ok(1);
        }
        let bytes = request.map(u64::to_ne_bytes);
        let word = |n: usize| {
            let at = 4 * (n % 2);
            u32::from_ne_bytes(bytes[n / 2][at..at + 4].try_into().expect("four bytes"))
        };
        Ok((word(5) + word(8)).max(1))
    }
}
