//! Interfaces, their addresses and their drivers' XDP features, as the kernel tells over netlink.

use std::fs;
use std::io;

#[cfg(feature = "xdp")]
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, NlaBuffer, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
#[cfg(feature = "xdp")]
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth};
use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, Prop, XdpAttached,
};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};

use super::{XdpMode, XdpSupport};

/// An interface as one message describes it.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Link {
    pub(in crate::run) index: u32,
    pub(in crate::run) name: String,
    pub(in crate::run) alt_names: Vec<String>,
    pub(in crate::run) kind: Option<String>,
    pub(in crate::run) ethernet: bool,
    pub(in crate::run) loopback: bool,
    pub(in crate::run) up: bool,
    pub(in crate::run) carrier: bool,
    pub(in crate::run) carrier_changes: u32,
    pub(in crate::run) mtu: u32,
    pub(in crate::run) address: Vec<u8>,
    pub(in crate::run) master: Option<u32>,
    pub(in crate::run) rx_queues: u32,
    pub(in crate::run) tx_queues: u32,
    pub(in crate::run) promiscuity: u32,
    pub(in crate::run) xdp: Option<(XdpMode, u32)>,
    pub(in crate::run) peer: Option<Peer>,
}

impl Link {
    /// The hardware address as people write it.
    pub(in crate::run) fn written_address(&self) -> String {
        super::mac_words(&self.address)
    }
}

/// The interface this one is tied to (`eth0@if7`).
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Peer {
    pub(in crate::run) index: u32,
    /// In another namespace, by this one's number for it.
    pub(in crate::run) elsewhere: Option<i32>,
}

/// All interfaces of this namespace.
pub(in crate::run) fn links() -> io::Result<Vec<Link>> {
    links_by(LinkMessage::default(), NLM_F_DUMP)
}

/// The interface with this index.
pub(in crate::run) fn link(index: u32) -> io::Result<Link> {
    let mut which = LinkMessage::default();
    which.header.index = index;
    links_by(which, 0)?.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The interface with this index in another namespace, by this one's number for that.
pub(super) fn link_elsewhere(index: u32, namespace: i32) -> io::Result<Link> {
    let mut which = LinkMessage::default();
    which.header.index = index;
    which.attributes.push(LinkAttribute::IfNetnsId(namespace));
    links_by(which, 0)?.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn links_by(which: LinkMessage, flags: u16) -> io::Result<Vec<Link>> {
    let answers = ask_route(RouteNetlinkMessage::GetLink(which), flags)?;
    Ok(answers
        .into_iter()
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Some(read_link(message)),
            _ => None,
        })
        .collect())
}

fn read_link(message: LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        loopback: flags.contains(LinkFlags::Loopback),
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::LowerUp),
        ..Link::default()
    };
    let (mut peer, mut elsewhere) = (None, None);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Address(bytes) => link.address = bytes,
            LinkAttribute::Controller(index) => link.master = Some(index),
            LinkAttribute::NumRxQueues(n) => link.rx_queues = n,
            LinkAttribute::NumTxQueues(n) => link.tx_queues = n,
            LinkAttribute::Promiscuity(n) => link.promiscuity = n,
            LinkAttribute::CarrierChanges(n) => link.carrier_changes = n,
            LinkAttribute::Link(index) => peer = Some(index),
            LinkAttribute::LinkNetNsId(namespace) => elsewhere = Some(namespace),
            LinkAttribute::Xdp(xdp) => link.xdp = read_xdp(&xdp),
            LinkAttribute::PropList(properties) => {
                link.alt_names.extend(properties.into_iter().filter_map(|p| match p {
                    Prop::AltIfName(name) => Some(name),
                    _ => None,
                }));
            }
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        link.kind = Some(kind.to_string());
                    }
                }
            }
            _ => {}
        }
    }
    link.peer = peer.filter(|index| *index != 0).map(|index| Peer { index, elsewhere });
    link
}

fn read_xdp(attributes: &[LinkXdp]) -> Option<(XdpMode, u32)> {
    let (mut mode, mut id) = (None, 0);
    for attribute in attributes {
        match attribute {
            LinkXdp::Attached(XdpAttached::Driver) => mode = Some(XdpMode::Native),
            LinkXdp::Attached(XdpAttached::SocketBuffer) => mode = Some(XdpMode::Generic),
            LinkXdp::Attached(XdpAttached::Hardware) => mode = Some(XdpMode::Hardware),
            LinkXdp::Attached(XdpAttached::Multiple) => mode = Some(XdpMode::Several),
            LinkXdp::ProgId(n) => id = *n,
            // With several, there is one number for each mode and none for all.
            LinkXdp::DrvProgId(n) | LinkXdp::SkbProgId(n) | LinkXdp::HwProgId(n) if id == 0 => id = *n,
            _ => {}
        }
    }
    mode.map(|mode| (mode, id))
}

/// The IP addresses of an interface.
pub(super) fn addresses(index: u32) -> io::Result<Vec<String>> {
    let answers = dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let mut addresses = Vec::new();
    for answer in answers {
        let RouteNetlinkMessage::NewAddress(message) = answer else { continue };
        if message.header.index != index {
            continue;
        }
        addresses.extend(message.attributes.iter().find_map(|a| match a {
            AddressAttribute::Address(ip) => Some(format!("{ip}/{}", message.header.prefix_len)),
            _ => None,
        }));
    }
    Ok(addresses)
}

/// A wireless interface, as sysfs knows it, provided sysfs speaks of the same interface.
pub(super) fn is_wireless(link: &Link) -> bool {
    let path = |file: &str| format!("/sys/class/net/{}/{file}", link.name);
    let same = fs::read_to_string(path("ifindex")).is_ok_and(|i| i.trim() == link.index.to_string());
    same && link.kind.is_none() && fs::exists(path("phy80211")).unwrap_or(false)
}

/// Makes a veth pair; each end has a name, and beside it what else is wanted of it.
#[cfg(feature = "xdp")]
pub(in crate::run) fn add_veth_pair(ends: [(&str, Vec<LinkAttribute>); 2]) -> io::Result<[u32; 2]> {
    let names = ends.each_ref().map(|(name, _)| name.to_string());
    let [mut one, other] = ends.map(|(name, mut attributes)| {
        let mut message = LinkMessage::default();
        attributes.push(LinkAttribute::IfName(name.into()));
        message.attributes = attributes;
        message
    });
    one.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
    ]));
    change(RouteNetlinkMessage::NewLink(one), NLM_F_CREATE | NLM_F_EXCL)?;
    let links = links()?;
    let index = |name: &str| links.iter().find(|l| l.name == name).map(|l| l.index).ok_or(io::ErrorKind::NotFound);
    Ok([index(&names[0])?, index(&names[1])?])
}

/// Sets an interface's MTU.
#[cfg(feature = "xdp")]
pub(super) fn set_mtu(index: u32, mtu: u32) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Mtu(mtu));
    change(RouteNetlinkMessage::SetLink(message), 0)
}

/// Sets an interface up.
#[cfg(feature = "xdp")]
pub(in crate::run) fn set_up(index: u32) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    change(RouteNetlinkMessage::SetLink(message), 0)
}

/// Removes an interface; of a veth, both ends.
#[cfg(feature = "xdp")]
pub(in crate::run) fn delete_link(index: u32) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    change(RouteNetlinkMessage::DelLink(message), 0)
}

/// Asks the kernel to change something, and waits for its word.
#[cfg(feature = "xdp")]
pub(in crate::run) fn change(what: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    ask_route(what, flags | NLM_F_ACK).map(drop)
}

/// All there is of something.
pub(in crate::run) fn dump(what: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    ask_route(what, NLM_F_DUMP)
}

fn ask_route(question: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(question));
    message.header.flags = NLM_F_REQUEST | flags;
    message.header.sequence_number = 1;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let mut answers = Vec::new();
    ask(NETLINK_ROUTE, &bytes, |answer| {
        let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer).map_err(io::Error::other)?;
        if let NetlinkPayload::InnerMessage(message) = parsed.payload {
            answers.push(message);
        }
        Ok(())
    })?;
    Ok(answers)
}

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const MULTIPART: u16 = 2;

/// Sends one question and hands over each message of the answer, header included.
fn ask(protocol: isize, question: &[u8], mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(question, 0)?;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while rest.len() >= HEADER {
            let len = u32::from_ne_bytes(rest[0..4].try_into().expect("four bytes")) as usize;
            let kind = u16::from_ne_bytes(rest[4..6].try_into().expect("two bytes"));
            let flags = u16::from_ne_bytes(rest[6..8].try_into().expect("two bytes"));
            let message = rest.get(..len).filter(|m| m.len() >= HEADER).ok_or(io::ErrorKind::InvalidData)?;
            match kind {
                DONE => return Ok(()),
                ERROR => {
                    let code = message.get(HEADER..HEADER + 4).ok_or(io::ErrorKind::InvalidData)?;
                    let code = i32::from_ne_bytes(code.try_into().expect("four bytes"));
                    return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
                }
                _ => take(message)?,
            }
            if flags & MULTIPART == 0 {
                return Ok(());
            }
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// Constants of generic netlink's controller (`linux/genetlink.h`) and of the `netdev` family (`linux/netdev.h`).
mod generic {
    pub(super) const CONTROLLER: u16 = 0x10;
    pub(super) const GET_FAMILY: u8 = 3;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
    pub(super) const DEV_GET: u8 = 1;
    pub(super) const DEV_IFINDEX: u16 = 1;
    pub(super) const DEV_XDP_FEATURES: u16 = 3;
    pub(super) const FEATURE_BASIC: u64 = 1;
    pub(super) const FEATURE_REDIRECT: u64 = 2;
    pub(super) const FEATURE_NDO_XMIT: u64 = 4;
    pub(super) const FEATURE_ZERO_COPY: u64 = 8;
    pub(super) const FEATURE_RX_SG: u64 = 32;
}

/// What a driver says of its XDP; `None` where the kernel has no such family (before 6.3).
pub(super) fn xdp_support(index: u32) -> Option<XdpSupport> {
    let family = ask_generic(generic::CONTROLLER, generic::GET_FAMILY, generic::FAMILY_NAME, b"netdev\0").ok()?;
    let id = u16::from_ne_bytes(value_of(&family, generic::FAMILY_ID)?.get(..2)?.try_into().ok()?);
    let device = ask_generic(id, generic::DEV_GET, generic::DEV_IFINDEX, &index.to_ne_bytes()).ok()?;
    let bits = u64::from_ne_bytes(value_of(&device, generic::DEV_XDP_FEATURES)?.get(..8)?.try_into().ok()?);
    Some(XdpSupport {
        native: bits & generic::FEATURE_BASIC != 0,
        redirect: bits & generic::FEATURE_REDIRECT != 0,
        redirect_target: bits & generic::FEATURE_NDO_XMIT != 0,
        zero_copy: bits & generic::FEATURE_ZERO_COPY != 0,
        multi_buffer: bits & generic::FEATURE_RX_SG != 0,
    })
}

/// One generic netlink command with one attribute; the attributes of the answer.
fn ask_generic(family: u16, command: u8, attribute: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let attribute_len = 4 + value.len();
    let len = (HEADER + 4 + attribute_len).next_multiple_of(4);
    let mut bytes = Vec::with_capacity(len);
    bytes.extend((len as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend(1u32.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((attribute_len as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(len, 0);
    let mut answer = Vec::new();
    ask(NETLINK_GENERIC, &bytes, |message| {
        answer = message.get(HEADER + 4..).unwrap_or_default().to_vec();
        Ok(())
    })?;
    Ok(answer)
}

fn value_of(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    let found = NlasIterator::new(attributes).filter_map(Result::ok).find(|nla: &NlaBuffer<&[u8]>| nla.kind() == kind);
    found.map(|nla| nla.value().to_vec())
}
