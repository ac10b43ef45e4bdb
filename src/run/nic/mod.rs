//! Network interfaces: what they are, whether they can be the end of a wire, what has to be set on them for that, and how
//! they get back what they had.
//!
//! Everything is asked over netlink and ethtool in the caller's network namespace; sysfs shows the namespace it was
//! mounted in, which may be another. A name is resolved once; from then on the index counts.

mod checks;
pub(super) mod ethtool;
mod guard;
pub(super) mod netlink;
#[cfg(feature = "xdp")]
mod probe;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use checks::{Check, Verdict, machine_checks, nic_checks};
#[cfg(feature = "xdp")]
pub(super) use checks::{bypass, check, refusal};
#[cfg(feature = "xdp")]
pub(super) use guard::owner;
pub use guard::{NicGuard, forget, left_over};

/// What went wrong, in words for people: names the interface and ends with what to type.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

fn when(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Error {
    move |why| Error(format!("{what}: {why}"))
}

/// The name of an interface, as typed: its own or one of its alternative names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IfName(String);

/// The longest alternative name, bytes.
const LONGEST_NAME: usize = 127;

impl FromStr for IfName {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let wrong = if word.is_empty() || word == "." || word == ".." {
            "is no name"
        } else if word.len() > LONGEST_NAME {
            "is longer than 127 bytes"
        } else if !can_be_named(word) {
            "has a slash, a space or a control character in it"
        } else {
            return Ok(IfName(word.to_string()));
        };
        Err(Error(format!("interface name '{word}' {wrong}; `ip -br link` lists the names")))
    }
}

/// A hardware address as people write it.
pub fn mac_words(address: &[u8]) -> String {
    address.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}

/// Whether the kernel takes these bytes in the name of an interface: names are also files below `/sys/class/net`.
pub(in crate::run) fn can_be_named(word: &str) -> bool {
    !word.bytes().any(|b| b == b'/' || b.is_ascii_whitespace() || b.is_ascii_control())
}

impl fmt::Display for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How an XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the network stack, after the driver.
    Generic,
    /// In the NIC.
    Hardware,
    /// Several of these at once.
    Several,
}

/// An XDP program that is attached to an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct XdpProgram {
    /// Where it runs.
    pub mode: XdpMode,
    /// The kernel's number of it.
    pub id: u32,
    /// Its name, where we may look it up.
    pub name: Option<String>,
}

/// What a driver says of its XDP, kernel 6.3 and newer (`linux/netdev.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct XdpSupport {
    /// Runs programs in native mode.
    pub native: bool,
    /// Programs may redirect, to a socket or another interface.
    pub redirect: bool,
    /// Other interfaces may redirect to it.
    pub redirect_target: bool,
    /// AF_XDP without a copy.
    pub zero_copy: bool,
    /// Frames in several buffers.
    pub multi_buffer: bool,
}

/// The other end of a veth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VethPeer {
    /// Its index, in its own namespace.
    pub index: u32,
    /// It is in this namespace, and this is its name.
    pub name: Option<String>,
    /// Of the offloads that hide frames from the other end's XDP program, those that are on; `None` if we cannot look.
    pub offloads_on: Option<Vec<String>>,
    /// It has NAPI, by GRO or by an XDP program in its driver, without which the kernel loses what is redirected to it;
    /// `None` if we cannot tell.
    pub napi: Option<bool>,
}

/// What an interface is and how it is set, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicFacts {
    /// Its name now.
    pub name: String,
    /// Other names it answers to.
    pub alt_names: Vec<String>,
    /// The kernel's index of it.
    pub index: u32,
    /// Hardware address, as people write it.
    pub address: String,
    /// Frames begin with an Ethernet header.
    pub ethernet: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// Kind of a virtual interface: `veth`, `bridge`, `bond`, `vlan`, …
    pub kind: Option<String>,
    /// A wireless station or access point.
    pub wireless: bool,
    /// Driver's name, where ethtool says it.
    pub driver: Option<String>,
    /// Set up (`ip link set … up`).
    pub up: bool,
    /// The other side of the wire is there.
    pub carrier: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// The largest MTU of its peer with which native mode works, tried out; `None` where that cannot be tried.
    pub native_mtu: Option<u32>,
    /// The bridge, bond or other master it belongs to.
    pub master: Option<String>,
    /// Kind of that master.
    pub master_kind: Option<String>,
    /// RX queues in use.
    pub rx_queues: u32,
    /// TX queues in use.
    pub tx_queues: u32,
    /// How many want it promiscuous.
    pub promiscuity: u32,
    /// Addresses of this machine on it.
    pub ip_addresses: Vec<String>,
    /// The program that is attached.
    pub xdp: Option<XdpProgram>,
    /// What its driver says it can; `None` before kernel 6.3.
    pub xdp_support: Option<XdpSupport>,
    /// Features of those we switch that are on, by the kernel's names.
    pub merging_or_stripping: Vec<String>,
    /// The other end, if it is a veth.
    pub peer: Option<VethPeer>,
}

/// Whether an interface is set up and the other side of its wire is there; false if it is gone.
pub fn carries(index: u32) -> bool {
    netlink::link(index).is_ok_and(|link| link.up && link.carrier)
}

/// Whether there is no interface with this index in this namespace.
pub fn is_gone(index: u32) -> bool {
    netlink::link(index).is_err_and(|e| e.raw_os_error() == Some(libc::ENODEV))
}

impl NicFacts {
    /// Looks an interface up by its name or an alternative name.
    ///
    /// # Errors
    /// There is none of that name in this network namespace.
    pub fn inspect(name: &IfName) -> Result<Self, Error> {
        let links = netlink::links().map_err(when("cannot list the interfaces"))?;
        let link = links.iter().find(|l| l.name == name.0 || l.alt_names.contains(&name.0)).ok_or_else(|| {
            let names: Vec<&str> = links.iter().map(|l| l.name.as_str()).collect();
            Error(format!(
                "no interface '{name}' in this network namespace; there are: {}. `ip netns` lists other namespaces",
                names.join(", ")
            ))
        })?;
        Ok(Self::from_link(link, &links))
    }

    /// All interfaces of this network namespace.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn all() -> Result<Vec<Self>, Error> {
        let links = netlink::links().map_err(when("cannot list the interfaces"))?;
        Ok(links.iter().map(|link| Self::from_link(link, &links)).collect())
    }

    /// Finds out with which MTU native mode works, where that can be tried without touching the interface: on another one
    /// of its kind.
    pub fn probe_native_mtu(&mut self) {
        if self.kind.as_deref() == Some("veth") {
            self.native_mtu = largest_native_mtu_of_veth();
        }
    }

    fn from_link(link: &netlink::Link, links: &[netlink::Link]) -> Self {
        let master = link.master.and_then(|index| links.iter().find(|l| l.index == index));
        let channels = ethtool::channels(&link.name);
        let peer = link.peer.filter(|_| link.kind.as_deref() == Some("veth")).map(|peer| {
            let here = links.iter().find(|l| peer.elsewhere.is_none() && l.index == peer.index);
            let there = peer.elsewhere.and_then(|namespace| netlink::link_elsewhere(peer.index, namespace).ok());
            let program = here.or(there.as_ref()).is_some_and(|l| l.xdp.is_some_and(|(m, _)| m != XdpMode::Generic));
            let gro = here.and_then(|l| ethtool::on_of(&l.name, &["rx-gro"]).ok()).map(|on| !on.is_empty());
            VethPeer {
                index: peer.index,
                name: here.map(|l| l.name.clone()),
                offloads_on: here.and_then(|l| ethtool::on_of(&l.name, &checks::PEER_OFFLOADS).ok()),
                napi: if program { Some(true) } else { gro },
            }
        });
        NicFacts {
            name: link.name.clone(),
            alt_names: link.alt_names.clone(),
            index: link.index,
            address: link.written_address(),
            ethernet: link.ethernet,
            loopback: link.loopback,
            kind: link.kind.clone(),
            wireless: netlink::is_wireless(link),
            driver: ethtool::driver(&link.name),
            up: link.up,
            carrier: link.carrier,
            mtu: link.mtu,
            native_mtu: None,
            master: master.map(|l| l.name.clone()).or_else(|| link.master.map(|index| format!("interface {index}"))),
            master_kind: master.and_then(|l| l.kind.clone()),
            rx_queues: channels.map_or(link.rx_queues, |c| c.0),
            tx_queues: channels.map_or(link.tx_queues, |c| c.1),
            promiscuity: link.promiscuity,
            ip_addresses: netlink::addresses(link.index).unwrap_or_default(),
            xdp: link.xdp.map(|(mode, id)| XdpProgram { mode, id, name: program_name(id) }),
            xdp_support: netlink::xdp_support(link.index),
            merging_or_stripping: ethtool::on_of(&link.name, &guard::SWITCHED_OFF.map(|f| f.0)).unwrap_or_default(),
            peer,
        }
    }
}

/// Waits until an interface has had carrier for `stable` without a break, for `limit` at most, and says whether it has.
/// Setting a NIC up for XDP may reset its link, and what is sent before it is back is lost.
///
/// # Errors
/// The interface is gone.
pub fn wait_for_carrier(index: u32, stable: Duration, limit: Duration) -> Result<bool, Error> {
    let begun = Instant::now();
    let mut since = None;
    let mut changes = None;
    loop {
        let link = netlink::link(index).map_err(when(format_args!("interface {index} is gone")))?;
        let now = begun.elapsed();
        if !link.carrier || changes != Some(link.carrier_changes) {
            since = link.carrier.then_some(now);
            changes = Some(link.carrier_changes);
        }
        if since.is_some_and(|since| now - since >= stable) {
            return Ok(true);
        }
        if now >= limit {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(feature = "xdp")]
use probe::largest_native_mtu_of_veth;

#[cfg(not(feature = "xdp"))]
fn largest_native_mtu_of_veth() -> Option<u32> {
    None
}

/// The largest MTU that a frame's memory has room for; `None` in a binary that has no such memory.
fn largest_mtu_in_memory() -> Option<u32> {
    #[cfg(feature = "xdp")]
    return Some(crate::port::xdp::Settings::LARGEST_MTU);
    #[cfg(not(feature = "xdp"))]
    None
}

#[cfg(feature = "xdp")]
fn program_name(id: u32) -> Option<String> {
    let mut programs = libbpf_rs::query::ProgInfoIter::default();
    programs.find(|p| p.id == id).map(|p| p.name.to_string_lossy().into_owned())
}

#[cfg(not(feature = "xdp"))]
fn program_name(_: u32) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_dot_are_names_and_names_with_a_slash_are_not() {
        assert_eq!("eth0.100".parse::<IfName>().expect("a VLAN device's name").to_string(), "eth0.100");
        assert!("enp66s0f0np0v1234567".parse::<IfName>().is_ok(), "alternative names may be long");
        for wrong in ["", "..", "a/b", "a b", "eth0\n", &"x".repeat(128)] {
            let error = wrong.parse::<IfName>().expect_err("no name").to_string();
            assert!(error.contains("ip -br link"), "{error}");
        }
    }

    #[test]
    fn loopback_is_known_for_what_it_is() {
        let lo = NicFacts::inspect(&"lo".parse().expect("a name")).expect("every namespace has it");
        assert!(lo.loopback && !lo.wireless);
        assert_eq!((lo.index, lo.master, lo.peer), (1, None, None));
    }

    #[test]
    fn an_interface_that_is_not_there_is_named_with_those_that_are() {
        let error = NicFacts::inspect(&"nosuch0".parse().expect("a name")).expect_err("not there").to_string();
        assert!(error.starts_with("no interface 'nosuch0'") && error.contains("lo"), "{error}");
    }
}
