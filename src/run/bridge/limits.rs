//! What a bridge cannot be, and what is looked at before anything is touched.

use std::fmt;

use super::Settings;
use crate::port::xdp::program::MAX_QUEUES;
use crate::port::xdp::{OpenError, Settings as PortSettings};
use crate::run::attach::Refused;
use crate::run::nic::{self, NicFacts};
use crate::run::worker::cores;

/// Why a bridge cannot be.
#[derive(Debug)]
pub enum Error {
    /// A NIC is not there, or cannot be the end of a wire.
    Nic(nic::Error),
    /// Both are the same NIC.
    SameNic(String),
    /// The MTU of a NIC is larger than a frame's memory.
    Mtu {
        /// The NIC.
        nic: String,
        /// Its MTU.
        mtu: u32,
    },
    /// More cores than there are.
    Cores(usize, usize),
    /// A NIC has more receive queues than a gate serves.
    Queues {
        /// The NIC.
        nic: String,
        /// Its receive queues.
        queues: u32,
    },
    /// A name or a NIC cannot be had.
    Refused(Refused),
    /// A socket cannot be opened.
    Socket {
        /// The NIC.
        nic: String,
        /// What went wrong.
        error: OpenError,
    },
    /// The memory is too small for what delays keep under way: the arithmetic.
    Memory(String),
    /// Something else of the kernel's.
    Io(&'static str, std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Nic(e) => e.fmt(f),
            Error::SameNic(nic) => write!(f, "OUTSIDE and INSIDE are both {nic}; a bridge needs two interfaces"),
            Error::Mtu { nic, mtu } => {
                let most = PortSettings::LARGEST_MTU;
                write!(f, "the MTU of {nic} is {mtu}, and a frame has room for {most}: `ip link set {nic} mtu {most}`")
            }
            Error::Cores(wanted, there) => {
                write!(f, "--cores {wanted}: allowed are 1 and 2, and this process may use {there}")
            }
            Error::Queues { nic, queues } => {
                write!(f, "{nic} has {queues} receive queues, and a gate serves {MAX_QUEUES}: ")?;
                write!(f, "`ethtool -L {nic} combined {MAX_QUEUES}`")
            }
            Error::Refused(e) => e.fmt(f),
            Error::Socket { nic, error } => write!(f, "{nic}: {error}"),
            Error::Memory(why) => f.write_str(why),
            Error::Io(what, e) => write!(f, "{what}: {e}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<nic::Error> for Error {
    fn from(e: nic::Error) -> Self {
        Error::Nic(e)
    }
}

impl From<Refused> for Error {
    fn from(e: Refused) -> Self {
        Error::Refused(e)
    }
}

pub(super) fn queues(nic: &NicFacts) -> Result<u32, Error> {
    if nic.rx_queues > MAX_QUEUES {
        return Err(Error::Queues { nic: nic.name.clone(), queues: nic.rx_queues });
    }
    Ok(nic.rx_queues.max(1))
}

pub(super) fn mtu(nic: &NicFacts) -> Result<u32, Error> {
    if nic.mtu > PortSettings::LARGEST_MTU {
        return Err(Error::Mtu { nic: nic.name.clone(), mtu: nic.mtu });
    }
    Ok(nic.mtu)
}

/// Frames that the delays of a direction keep under way, beside those that wait; refused if half
/// the memory that is free is too little for two directions of them.
pub(super) fn delayed(settings: &Settings, ports: &PortSettings) -> Result<usize, Error> {
    let (chunk, mtu) = (u64::from(ports.chunk().unwrap_or(4096)), settings.mtu.unwrap_or(ports.mtu) + 14);
    let room = memory_available().map_or(u64::MAX, |bytes| bytes / 2 / (2 * chunk));
    let mut most = 0;
    for spec in &settings.specs {
        spec.fit(room, chunk, mtu, None).map_err(Error::Memory)?;
        most = most.max(spec.frames_needed(mtu, None));
    }
    Ok(most as usize)
}

/// Bytes that can be had without swapping, if the kernel says so.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The last of the cores we may use: the first has the most to do besides.
pub(super) fn choose_cores(wanted: Option<usize>) -> Result<Vec<usize>, Error> {
    let Some(wanted) = wanted else { return Ok(vec![]) };
    let allowed = cores();
    if !(1..=2).contains(&wanted) || wanted > allowed.len() {
        return Err(Error::Cores(wanted, allowed.len()));
    }
    Ok(allowed[allowed.len() - wanted..].to_vec())
}
