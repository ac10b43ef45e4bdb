//! The pair of interfaces between weir and the host: frames that go in at one end come out of the other.

use std::io;

use netlink_packet_route::link::LinkAttribute;

use crate::run::nic::{NicFacts, ethtool, netlink};

/// What makes the host's end send frames unfinished: without a checksum, in one piece for several, or with their VLAN tag
/// beside them. weir sees what is sent before anybody would finish it.
fn unfinished(feature: &str) -> bool {
    feature.starts_with("tx-checksum-")
        || feature.ends_with("-segmentation")
        || matches!(feature, "tx-gso-list" | "tx-gso-partial" | "tx-vlan-hw-insert" | "tx-vlan-stag-hw-insert")
}

/// What gives the host's end NAPI, without which the kernel loses what the gate sends round a dead weir.
const NAPI: &str = "rx-gro";

/// Makes a pair in the likeness of WAN: the host's end has its hardware address, both have its MTU. Gives their indices,
/// the host's first. Both are down.
pub(super) fn make(wan: &NicFacts, host: &str, peer: &str) -> io::Result<[u32; 2]> {
    let link = netlink::link(wan.index)?;
    let mtu = LinkAttribute::Mtu(wan.mtu);
    let likeness = vec![mtu.clone(), LinkAttribute::Address(link.address)];
    netlink::add_veth_pair([(host, likeness), (peer, vec![mtu])])
}

/// Makes the host's end finish its frames before it sends them. Gives what had to be switched off for that.
///
/// # Errors
/// If the kernel refuses, or something stays on.
pub(super) fn finish_frames(host: &str) -> Result<Vec<String>, String> {
    let failed = |e: io::Error| format!("{host}: cannot read or switch features: {e}");
    let features = ethtool::features(host).map_err(failed)?;
    let on: Vec<String> = features.on(unfinished).into_iter().map(String::from).collect();
    let napi = features.on(|f| f == NAPI).is_empty();
    if on.is_empty() && !napi {
        return Ok(on);
    }
    let mut wanted: Vec<(&str, bool)> = on.iter().map(|f| (f.as_str(), false)).collect();
    wanted.push((NAPI, true));
    features.set(host, &wanted).map_err(failed)?;
    let still = ethtool::features(host).map_err(failed)?;
    let still = still.on(unfinished);
    if still.is_empty() { Ok(on) } else { Err(format!("{host}: the kernel keeps {} on", still.join(", "))) }
}

/// A pair as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// weir's end, by index.
    pub(super) peer: u32,
    /// The host's end, by index and name; `None` if somebody has taken it to another namespace.
    pub(super) host: Option<(u32, String)>,
}

/// The pair whose weir's end is called like this.
pub(super) fn find(peer: &str) -> io::Result<Option<Pair>> {
    let links = netlink::links()?;
    let ours = links.iter().find(|l| l.name == peer && l.kind.as_deref() == Some("veth"));
    Ok(ours.map(|ours| {
        let host = links.iter().find(|l| ours.peer.is_some_and(|p| p.elsewhere.is_none() && p.index == l.index));
        Pair { peer: ours.index, host: host.map(|h| (h.index, h.name.clone())) }
    }))
}
