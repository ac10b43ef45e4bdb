//! The sockets: opened, bound, and split into the halves that the two directions need.
//!
//! A socket serves one receive queue of one NIC. The socket of queue 0 sends as well. Direction
//! *i* receives on all queues of NIC *i* and sends on queue 0 of the other NIC, and all its frames
//! are in half *i* of the memory.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpMmapOffsets, XdpRingOffset, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::ends::{RxQueue, XdpRx, XdpTx};
use super::rings::{Consumer, Desc, Entry, Layout, Producer};
use super::umem::{Half, Mapping, Umem};

/// What the kernel keeps free in front of a received frame, in bytes.
const KERNEL_HEADROOM: u32 = 256;
/// Ethernet header and two VLAN tags, in bytes.
pub(super) const LINK_HEADER: u32 = 14 + 2 * 4;
/// Entries of the RX and fill rings of a queue. At half a million frames a second a worker may be
/// away for four milliseconds.
const RX_RING: u32 = 2048;
/// Entries of the TX and completion rings.
pub(super) const TX_RING: u32 = 256;
/// Frames with the sending device at a time. They are behind the discipline, so: few.
pub(super) const IN_FLIGHT: u32 = 64;

/// What sockets are opened for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Interface index of each NIC.
    pub interfaces: [u32; 2],
    /// Receive queues of each NIC.
    pub queues: [u32; 2],
    /// The larger MTU of the two, bytes.
    pub mtu: u32,
    /// Frames for each direction.
    pub frames: usize,
}

impl Settings {
    /// Bytes of a frame's chunk; `None` if the MTU is too large for one page.
    pub fn chunk(&self) -> Option<u32> {
        [2048, 4096].into_iter().find(|chunk| self.mtu + LINK_HEADER + KERNEL_HEADROOM <= *chunk)
    }

    /// The largest MTU a chunk can take, bytes.
    pub const LARGEST_MTU: u32 = 4096 - KERNEL_HEADROOM - LINK_HEADER;

    /// Frames that fill the rings of a direction when nothing is queued.
    pub fn in_rings(&self, direction: usize) -> usize {
        (self.queues[direction] * RX_RING + IN_FLIGHT) as usize
    }
}

/// What could not be done to a socket.
#[derive(Debug)]
pub struct OpenError {
    /// Which NIC, 0 or 1.
    pub nic: usize,
    /// Which of its queues.
    pub queue: u32,
    /// What was asked of the kernel.
    pub step: &'static str,
    /// What it said.
    pub errno: Errno,
}

impl OpenError {
    /// Whether another socket is bound to the queue.
    pub fn is_busy(&self) -> bool {
        self.errno == Errno::BUSY
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}: {}: {}", self.queue, self.step, self.errno)?;
        match self.errno {
            Errno::PERM | Errno::ACCESS => f.write_str(" (root, or CAP_NET_RAW and CAP_NET_ADMIN, is needed)"),
            Errno::BUSY => f.write_str(" (another AF_XDP socket serves this queue: `ss --xdp -p` names its owner)"),
            Errno::AFNOSUPPORT => f.write_str(" (this kernel has no AF_XDP: CONFIG_XDP_SOCKETS)"),
            Errno::NOBUFS | Errno::NOMEM => {
                f.write_str(" (not enough memory that may be locked: `ulimit -l unlimited`)")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for OpenError {}

/// All sockets of a bridge, split for its directions.
#[derive(Debug)]
pub struct Ports {
    /// For each direction: where it receives, where it sends, and its memory.
    pub directions: [(XdpRx, XdpTx, Half); 2],
    /// For each NIC: its sockets, in the order of the queues.
    pub sockets: [Vec<Arc<OwnedFd>>; 2],
    /// Whether the drivers put frames into our memory themselves.
    pub zero_copy: bool,
    /// Whether each NIC's link takes frames; whoever watches the links writes it.
    pub links: [Arc<AtomicBool>; 2],
}

/// Opens a socket for each receive queue of both NICs, all on one memory: without copies where
/// both drivers can, else with.
///
/// # Errors
/// If the kernel refuses; nothing stays open then.
pub fn open(settings: &Settings) -> Result<Ports, OpenError> {
    open_as(settings, true).or_else(|e| if e.is_busy() { Err(e) } else { open_as(settings, false) })
}

fn open_as(settings: &Settings, zero_copy: bool) -> Result<Ports, OpenError> {
    let fail = |nic, queue, step| move |errno| OpenError { nic, queue, step, errno };
    let chunk = settings.chunk().ok_or(Errno::MSGSIZE).map_err(fail(0, 0, "an MTU that fits a page"))?;
    let umem =
        Umem::new(settings.frames, chunk).map_err(|_| Errno::NOMEM).map_err(fail(0, 0, "memory for the frames"))?;
    let longest = settings.mtu + LINK_HEADER;
    let links = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
    let [half0, half1] = umem.halves();
    let windows = [half0.window(), half1.window()];

    let mut first: Option<Arc<OwnedFd>> = None;
    let mut sockets = [Vec::new(), Vec::new()];
    let mut rx = [(); 2].map(|()| Vec::new());
    let mut tx = [None, None];
    for nic in 0..2 {
        for queue in 0..settings.queues[nic] {
            let fail = |step| fail(nic, queue, step);
            let sends = queue == 0;
            let fd = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .map_err(fail("an AF_XDP socket"))?;
            if first.is_none() {
                let region = XdpUmemReg {
                    addr: umem.address(),
                    len: umem.len(),
                    chunk_size: chunk,
                    headroom: 0,
                    flags: XdpUmemRegFlags::empty(),
                    tx_metadata_len: 0,
                };
                sockopt::set_xdp_umem_reg(&fd, region).map_err(fail("registering the memory"))?;
            }
            sockopt::set_xdp_umem_fill_ring_size(&fd, RX_RING).map_err(fail("a fill ring"))?;
            sockopt::set_xdp_umem_completion_ring_size(&fd, TX_RING).map_err(fail("a completion ring"))?;
            sockopt::set_xdp_rx_ring_size(&fd, RX_RING).map_err(fail("an RX ring"))?;
            if sends {
                sockopt::set_xdp_tx_ring_size(&fd, TX_RING).map_err(fail("a TX ring"))?;
                sockopt::set_socket_send_buffer_size(&fd, 1 << 20).map_err(fail("a send buffer"))?;
            }
            let at = sockopt::xdp_mmap_offsets(&fd).map_err(fail("the layout of the rings"))?;
            let rings = Rings::map(&fd, &at, sends).map_err(fail("mapping the rings"))?;
            bind(&fd, settings.interfaces[nic], queue, first.as_deref(), zero_copy).map_err(fail("binding"))?;

            let fd = Arc::new(fd);
            first.get_or_insert_with(|| Arc::clone(&fd));
            rx[nic].push(RxQueue { fd: Arc::clone(&fd), rx: rings.rx, fill: rings.fill });
            if let Some(ring) = rings.tx {
                // Sent on this NIC is what the other direction queued.
                let window = windows[1 - nic];
                let link = Arc::clone(&links[nic]);
                tx[nic] = Some(XdpTx::new(Arc::clone(&fd), ring, rings.completion, window, longest, link));
            }
            sockets[nic].push(fd);
        }
    }
    let [rx0, rx1] = rx;
    let [Some(tx0), Some(tx1)] = tx else { unreachable!("queue 0 of each NIC has a TX ring") };
    Ok(Ports {
        directions: [(XdpRx::new(rx0, windows[0]), tx1, half0), (XdpRx::new(rx1, windows[1]), tx0, half1)],
        sockets,
        zero_copy,
        links,
    })
}

fn bind(fd: &OwnedFd, interface: u32, queue: u32, shared: Option<&OwnedFd>, zero_copy: bool) -> Result<(), Errno> {
    match shared {
        // The mode comes with the memory.
        Some(umem) => {
            let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, queue);
            rustix::net::bind(fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: umem.as_fd() })
        }
        None => {
            let mode = if zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
            let flags = mode | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
            rustix::net::bind(fd, &SocketAddrXdp::new(flags, interface, queue))
        }
    }
}

struct Rings {
    rx: Consumer<Desc>,
    fill: Producer<u64>,
    tx: Option<Producer<Desc>>,
    completion: Consumer<u64>,
}

impl Rings {
    fn map(fd: &OwnedFd, at: &XdpMmapOffsets, sends: bool) -> Result<Rings, Errno> {
        let (fill, fill_at) = map_ring::<u64>(fd, at.fr, RX_RING, XDP_UMEM_PGOFF_FILL_RING)?;
        let (completion, completion_at) = map_ring::<u64>(fd, at.cr, TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let (rx, rx_at) = map_ring::<Desc>(fd, at.rx, RX_RING, XDP_PGOFF_RX_RING)?;
        let tx = match sends {
            true => Some(map_ring::<Desc>(fd, at.tx, TX_RING, XDP_PGOFF_TX_RING)?),
            false => None,
        };
        Ok(Rings {
            rx: Consumer::new(rx, rx_at, RX_RING),
            fill: Producer::new(fill, fill_at, RX_RING),
            tx: tx.map(|(memory, at)| Producer::new(memory, at, TX_RING)),
            completion: Consumer::new(completion, completion_at, TX_RING),
        })
    }
}

fn map_ring<T: Entry>(fd: &OwnedFd, at: XdpRingOffset, size: u32, page: u64) -> Result<(Mapping, Layout), Errno> {
    let layout = Layout { producer: at.producer, consumer: at.consumer, flags: at.flags, entries: at.desc };
    Ok((Mapping::shared(fd, layout.bytes::<T>(size), page)?, layout))
}

/// What the kernel counted at a socket, by its own names.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SocketStatistics {
    /// Frames dropped on the way to the RX ring for other reasons, a wrong size among them.
    pub rx_dropped: u64,
    /// Frames dropped since the RX ring was full.
    pub rx_ring_full: u64,
    /// Frames dropped since the fill ring was empty.
    pub rx_fill_ring_empty: u64,
    /// Bad descriptors in the fill ring.
    pub rx_invalid_descs: u64,
    /// Bad descriptors in the TX ring.
    pub tx_invalid_descs: u64,
}

impl SocketStatistics {
    /// What the kernel says of one socket; nothing if it says nothing.
    pub fn of(socket: &OwnedFd) -> SocketStatistics {
        let Ok(s) = sockopt::xdp_statistics(socket) else { return SocketStatistics::default() };
        SocketStatistics {
            rx_dropped: s.rx_dropped,
            rx_ring_full: s.rx_ring_full.unwrap_or(0),
            rx_fill_ring_empty: s.rx_fill_ring_empty_descs.unwrap_or(0),
            rx_invalid_descs: s.rx_invalid_descs,
            tx_invalid_descs: s.tx_invalid_descs,
        }
    }

    /// The sums of two.
    #[must_use]
    pub fn plus(self, other: SocketStatistics) -> SocketStatistics {
        SocketStatistics {
            rx_dropped: self.rx_dropped + other.rx_dropped,
            rx_ring_full: self.rx_ring_full + other.rx_ring_full,
            rx_fill_ring_empty: self.rx_fill_ring_empty + other.rx_fill_ring_empty,
            rx_invalid_descs: self.rx_invalid_descs + other.rx_invalid_descs,
            tx_invalid_descs: self.tx_invalid_descs + other.tx_invalid_descs,
        }
    }
}
