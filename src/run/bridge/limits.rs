//! What a bridge cannot be, and what is looked at before anything is touched.

use std::fmt;

use super::{LEAST_WAITING, Settings};
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

/// Frames of a direction: those that wait, those that its delays keep under way, and those in the rings. Refused if half
/// the memory that is free is too little for two directions of them.
pub(super) fn frames(settings: &Settings, ports: &PortSettings) -> Result<usize, Error> {
    frames_in(crate::sys::memory_available().unwrap_or(u64::MAX), settings, ports)
}

fn frames_in(memory: u64, settings: &Settings, ports: &PortSettings) -> Result<usize, Error> {
    let (chunk, mtu) = (u64::from(ports.chunk().unwrap_or(4096)), settings.mtu.unwrap_or(ports.mtu) + 14);
    let room = memory / 2 / (2 * chunk);
    let mut delayed = 0;
    for spec in &settings.specs {
        spec.fit(room, chunk, mtu, None).map_err(Error::Memory)?;
        delayed = delayed.max(spec.frames_needed(mtu, None));
    }
    let beside = delayed + ports.in_rings(0).max(ports.in_rings(1)) as u64;
    let waiting = settings.waiting as u64;
    if waiting + beside > room {
        let mib = |frames: u64| (frames * chunk * 2).div_ceil(1 << 20);
        let for_delays = if delayed > 0 { format!(" and {delayed} for delays") } else { String::new() };
        let remedy = match room.saturating_sub(beside) {
            most if most >= LEAST_WAITING as u64 => format!("--frames {most}, or less, fits"),
            _ => "provide more memory".into(),
        };
        return Err(Error::Memory(format!(
            "{waiting} frames that can wait in each direction, with {} in the rings{for_delays}, are {} MiB for both, and there \
             is room for {room} frames each ({} MiB, half of what is free); {remedy}",
            beside - delayed,
            mib(waiting + beside),
            mib(room),
        )));
    }
    Ok(((waiting + beside) as usize).next_multiple_of(64))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::xdp::program::OnFailure;
    use crate::qdisc::Compat;
    use crate::run::attach::WantedMode;
    use crate::spec;

    const GIB: u64 = 1 << 30;

    fn of(waiting: usize, words: &str, memory: u64) -> Result<usize, String> {
        let spec = spec::parse(words).expect("a specification").spec;
        let settings = Settings {
            nics: ["a", "b"].map(|n| n.parse().expect("a name")),
            specs: [spec.clone(), spec],
            name: "x".into(),
            poll: None,
            cores: None,
            on_failure: OnFailure::Bypass,
            mode: WantedMode::Auto,
            mtu: None,
            waiting,
            compat: Compat::Latest,
        };
        let ports = PortSettings { interfaces: [1, 2], queues: [1, 1], mtu: 1500, frames: 0 };
        frames_in(memory, &settings, &ports).map_err(|e| e.to_string())
    }

    #[test]
    fn frames_that_wait_are_held_against_the_memory_as_those_of_delays_are() {
        let rings = PortSettings { interfaces: [1, 2], queues: [1, 1], mtu: 1500, frames: 0 }.in_rings(0);
        assert_eq!(of(14_336, "pfifo", GIB), Ok((14_336 + rings).next_multiple_of(64)));
        // Half a GiB is 131072 frames of 2048 bytes in each of two directions.
        let most = 131_072 - rings;
        assert!(of(most, "pfifo", GIB).is_ok());
        let refused = of(most + 1, "pfifo", GIB).expect_err("one too many");
        assert!(
            refused.contains("there is room for 131072 frames") && refused.contains(&format!("--frames {most}")),
            "{refused}"
        );
        assert!(of(4_194_304, "pfifo", 8 * GIB).is_err());
        let delayed = of(131_072 - rings, "netem delay 10ms limit 1000 | pfifo", GIB).expect_err("delays take some");
        assert!(delayed.contains("for delays"), "{delayed}");
        assert!(of(64, "pfifo", 1 << 20).expect_err("no room at all").ends_with("provide more memory"));
    }
}
