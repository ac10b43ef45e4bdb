//! What an interface carries for this machine: addresses, routes and permanent neighbours, read from one interface and
//! put on another. They are kept as the kernel told them, so that nothing is lost that this file does not know of.

use std::io;

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHopFlags, RouteProtocol, RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use serde::{Deserialize, Serialize};

use crate::run::nic::netlink;

const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];
/// A lifetime that does not end (`INFINITY_LIFE_TIME`).
const FOR_EVER: u32 = u32::MAX;
/// Parts of a second in which the kernel tells a route's lifetime (`USER_HZ`).
const TICKS: u32 = 100;
/// The table of a machine's own addresses (`RT_TABLE_LOCAL`).
const LOCAL_TABLE: u8 = 255;

/// What an interface carried at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Carried {
    /// The interface it was read from.
    index: u32,
    name: String,
    /// When, in seconds after boot: lifetimes count from then.
    at: u64,
    addresses: Vec<Item>,
    routes: Vec<Item>,
    neighbours: Vec<Item>,
}

/// One of them, as the kernel told it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Item {
    /// For people.
    what: String,
    message: Vec<u8>,
}

impl Item {
    fn of(what: String, message: RouteNetlinkMessage) -> Item {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        Item { what, message: bytes }
    }

    fn message(&self) -> io::Result<RouteNetlinkMessage> {
        match NetlinkMessage::deserialize(&self.message).map_err(io::Error::other)?.payload {
            NetlinkPayload::InnerMessage(message) => Ok(message),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Carried {
    /// Reads what an interface carries now.
    pub(super) fn of(index: u32, name: &str) -> io::Result<Carried> {
        let mut carried = Carried { index, name: name.into(), at: uptime()?, ..Carried::default() };
        let mut first_six = 0;
        for answer in netlink::dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))? {
            let RouteNetlinkMessage::NewAddress(message) = answer else { continue };
            if message.header.index == index {
                let what = address_text(&message);
                let six = message.header.family == AddressFamily::Inet6;
                let item = Item::of(what, RouteNetlinkMessage::NewAddress(message));
                // The kernel tells IPv6's newest address first, and IPv4's oldest; here the oldest come first.
                carried.addresses.insert(if six { first_six } else { carried.addresses.len() }, item);
                first_six += usize::from(!six);
            }
        }
        let mut routes: Vec<RouteMessage> = all_routes()?.into_iter().filter(|r| leads_to(r, index)).collect();
        // A gateway must be reachable before a route goes by it.
        routes.sort_by_key(|r| r.attributes.iter().any(goes_by_gateway));
        carried.routes =
            routes.into_iter().map(|r| Item::of(route_text(&r), RouteNetlinkMessage::NewRoute(r))).collect();
        for answer in netlink::dump(RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()))? {
            let RouteNetlinkMessage::NewNeighbour(message) = answer else { continue };
            if message.header.ifindex == index && message.header.state == NeighbourState::Permanent {
                let what = neighbour_text(&message);
                carried.neighbours.push(Item::of(what, RouteNetlinkMessage::NewNeighbour(message)));
            }
        }
        Ok(carried)
    }

    /// Addresses for people, but for those that every interface makes for itself.
    pub(super) fn addresses(&self) -> Vec<&str> {
        self.addresses.iter().map(|a| a.what.as_str()).filter(|a| !a.starts_with("fe80:")).collect()
    }

    /// How many addresses and routes there are that an interface does not make for itself.
    pub(super) fn counts(&self) -> (usize, usize) {
        let chosen = |item: &&Item| matches!(item.message(), Ok(RouteNetlinkMessage::NewRoute(r)) if r.header.protocol != RouteProtocol::Kernel);
        (self.addresses().len(), self.routes.iter().filter(chosen).count())
    }

    /// A route that cannot be moved, and why.
    pub(super) fn obstacle(&self) -> Option<String> {
        self.routes.iter().find_map(|item| {
            let Ok(RouteNetlinkMessage::NewRoute(route)) = item.message() else { return None };
            let id = route.attributes.iter().find_map(|a| match a {
                RouteAttribute::NhId(id) => Some(*id),
                _ => None,
            })?;
            let what = &item.what;
            Some(format!(
                "the route {what} goes by the nexthop object {id}, which weir does not move; \
                 say its gateway in the route itself, or move by hand and leave --move-addresses out"
            ))
        })
    }

    /// Puts everything on another interface, where it is not there already. What has outlived its time in between is
    /// left out. Gives what could not be put, and why.
    pub(super) fn put(&self, index: u32, name: &str) -> Vec<String> {
        let items = self.addresses.iter().chain(&self.routes).chain(&self.neighbours);
        let put = |item: &Item| self.put_one(item, index, name).err().map(|e| format!("{}: {e}", item.what));
        items.filter_map(put).collect()
    }

    fn put_one(&self, item: &Item, index: u32, name: &str) -> io::Result<()> {
        let age = self.age()?;
        let (message, flags) = match item.message()? {
            RouteNetlinkMessage::NewAddress(mut message) => {
                if !self.readdress(&mut message, index, name, age) {
                    return Ok(());
                }
                (RouteNetlinkMessage::NewAddress(message), NLM_F_EXCL)
            }
            RouteNetlinkMessage::NewRoute(mut message) => {
                if joins_others(&message) {
                    let mut wanted = message.clone();
                    self.redirect(&mut wanted, index);
                    let wanted = timeless(wanted);
                    if all_routes()?.into_iter().any(|route| timeless(route) == wanted) {
                        return Ok(());
                    }
                    // Beside the old one it would become one route with it, so the old one goes first.
                    let old = RouteNetlinkMessage::DelRoute(plain(message.clone()));
                    allow(netlink::change(old, 0), &[libc::ESRCH])?;
                }
                if !age_route(&mut message, age) {
                    return Ok(());
                }
                self.redirect(&mut message, index);
                (RouteNetlinkMessage::NewRoute(plain(message)), NLM_F_APPEND)
            }
            RouteNetlinkMessage::NewNeighbour(mut message) => {
                message.header.ifindex = index;
                let told = |a: &NeighbourAttribute| {
                    matches!(a, NeighbourAttribute::CacheInfo(_) | NeighbourAttribute::Probes(_))
                };
                message.attributes.retain(|a| !told(a));
                (RouteNetlinkMessage::NewNeighbour(message), NLM_F_EXCL)
            }
            _ => return Ok(()),
        };
        allow(netlink::change(message, NLM_F_CREATE | flags), &[libc::EEXIST])
    }

    /// Seconds since it was read.
    fn age(&self) -> io::Result<u32> {
        Ok(u32::try_from(uptime()?.saturating_sub(self.at)).unwrap_or(FOR_EVER))
    }

    /// Makes a message of an address speak of another interface; false if its time is over.
    fn readdress(&self, message: &mut AddressMessage, index: u32, name: &str, age: u32) -> bool {
        message.header.index = index;
        let passing = AddressFlags::Tentative | AddressFlags::Dadfailed | AddressFlags::Deprecated;
        let mut lives = true;
        for attribute in &mut message.attributes {
            match attribute {
                AddressAttribute::Label(label) => *label = relabel(label, &self.name, name),
                AddressAttribute::Flags(flags) => *flags = flags.difference(passing),
                AddressAttribute::CacheInfo(life) => {
                    for seconds in [&mut life.ifa_valid, &mut life.ifa_preferred] {
                        if *seconds != FOR_EVER {
                            *seconds = seconds.saturating_sub(age);
                        }
                    }
                    lives = life.ifa_valid > 0;
                }
                _ => {}
            }
        }
        lives
    }

    /// Makes a route lead to another interface where it led to the one it was read from.
    fn redirect(&self, message: &mut RouteMessage, index: u32) {
        for attribute in &mut message.attributes {
            match attribute {
                RouteAttribute::Oif(oif) if *oif == self.index => *oif = index,
                RouteAttribute::MultiPath(hops) => {
                    for hop in hops.iter_mut().filter(|hop| hop.interface_index == self.index) {
                        hop.interface_index = index;
                    }
                }
                _ => {}
            }
        }
    }

    /// Says what of this an interface does not carry; what interfaces make for themselves may differ.
    pub(super) fn missing_on(&self, index: u32, name: &str) -> io::Result<Vec<&str>> {
        let there = Carried::of(index, name)?;
        let routes: Vec<RouteMessage> = there.routes.iter().filter_map(|item| route_in(item).map(timeless)).collect();
        let age = self.age()?;
        let is_there = |item: &Item| match item.message() {
            Ok(RouteNetlinkMessage::NewAddress(mut message)) => {
                let over = !self.readdress(&mut message, index, name, age);
                over || there.addresses.iter().any(|a| a.what == item.what)
            }
            Ok(RouteNetlinkMessage::NewRoute(mut route)) => {
                self.redirect(&mut route, index);
                let over = !age_route(&mut route, age);
                over || route.header.protocol == RouteProtocol::Kernel || routes.contains(&timeless(route))
            }
            _ => true,
        };
        let items = self.addresses.iter().chain(&self.routes);
        Ok(items.filter(|item| !is_there(item)).map(|item| item.what.as_str()).collect())
    }

    /// Takes everything off the interface it was read from, but for what belongs to IPv6: that goes when IPv6 is
    /// switched off there.
    pub(super) fn take_off(&self) -> Result<(), String> {
        let failed = |what: &str| {
            let what = format!("{what} on {}", self.name);
            move |e: io::Error| format!("{what}: {e}")
        };
        // The last first: with the first address of a subnet the others would go, too.
        for item in self.addresses.iter().rev() {
            match item.message().map_err(failed(&item.what))? {
                RouteNetlinkMessage::NewAddress(message) if message.header.family == AddressFamily::Inet => {
                    let gone = netlink::change(RouteNetlinkMessage::DelAddress(message), 0);
                    allow(gone, &[libc::EADDRNOTAVAIL]).map_err(failed(&item.what))?;
                }
                _ => {}
            }
        }
        for item in &self.neighbours {
            if let RouteNetlinkMessage::NewNeighbour(message) = item.message().map_err(failed(&item.what))? {
                let gone = netlink::change(RouteNetlinkMessage::DelNeighbour(message), 0);
                allow(gone, &[libc::ENOENT]).map_err(failed(&item.what))?;
            }
        }
        // Most are gone with their addresses.
        for route in all_routes().map_err(failed("routes"))? {
            if leads_to(&route, self.index) && route.header.address_family == AddressFamily::Inet {
                let what = route_text(&route);
                let gone = netlink::change(RouteNetlinkMessage::DelRoute(plain(route)), 0);
                allow(gone, &[libc::ESRCH]).map_err(failed(&what))?;
            }
        }
        Ok(())
    }
}

/// The rules of this namespace that name an interface, as `ip rule` says them.
pub(super) fn rules_naming(name: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for family in FAMILIES {
        let mut which = RuleMessage::default();
        which.header.family = family;
        for answer in netlink::dump(RouteNetlinkMessage::GetRule(which))? {
            let RouteNetlinkMessage::NewRule(rule) = answer else { continue };
            let (mut at, mut named) = (0, None);
            for attribute in &rule.attributes {
                match attribute {
                    RuleAttribute::Priority(n) => at = *n,
                    RuleAttribute::Iifname(n) if n == name => named = Some("iif"),
                    RuleAttribute::Oifname(n) if n == name => named = Some("oif"),
                    _ => {}
                }
            }
            found.extend(named.map(|word| format!("{at}: {word} {name}")));
        }
    }
    Ok(found)
}

fn all_routes() -> io::Result<Vec<RouteMessage>> {
    let mut routes = Vec::new();
    for family in FAMILIES {
        let mut which = RouteMessage::default();
        which.header.address_family = family;
        let told = match netlink::dump(RouteNetlinkMessage::GetRoute(which)) {
            Err(e) if family == AddressFamily::Inet6 && e.raw_os_error() == Some(libc::EOPNOTSUPP) => vec![],
            told => told?,
        };
        for answer in told {
            let RouteNetlinkMessage::NewRoute(route) = answer else { continue };
            // Those of the machine's own addresses come and go with the addresses.
            let of_an_address = route.header.protocol == RouteProtocol::Kernel
                && (route.header.table == LOCAL_TABLE || route.header.kind == RouteType::Multicast);
            if !of_an_address && !route.header.flags.contains(RouteFlags::Cloned) {
                routes.push(route);
            }
        }
    }
    Ok(routes)
}

fn leads_to(route: &RouteMessage, index: u32) -> bool {
    route.attributes.iter().any(|a| match a {
        RouteAttribute::Oif(oif) => *oif == index,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == index),
        _ => false,
    })
}

/// Whether the kernel makes one route of several gateways of it and another to the same place.
fn joins_others(route: &RouteMessage) -> bool {
    let several = |a: &RouteAttribute| matches!(a, RouteAttribute::MultiPath(_));
    let six = route.header.address_family == AddressFamily::Inet6;
    route.attributes.iter().any(|a| several(a) || six && goes_by_gateway(a))
}

fn goes_by_gateway(attribute: &RouteAttribute) -> bool {
    match attribute {
        RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => true,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.attributes.iter().any(goes_by_gateway)),
        _ => false,
    }
}

/// A route without what only the kernel says of it.
fn plain(mut route: RouteMessage) -> RouteMessage {
    route.header.flags &= RouteFlags::Onlink;
    route.attributes.retain(|a| !matches!(a, RouteAttribute::CacheInfo(_)));
    for attribute in &mut route.attributes {
        if let RouteAttribute::MultiPath(hops) = attribute {
            hops.iter_mut().for_each(|hop| hop.flags &= RouteNextHopFlags::Onlink);
        }
    }
    route
}

/// A route without its lifetime, to compare.
fn timeless(route: RouteMessage) -> RouteMessage {
    let mut route = plain(route);
    route.attributes.retain(|a| !matches!(a, RouteAttribute::Expires(_)));
    route
}

/// Says a route's remaining lifetime as the kernel takes it; false if it is over.
fn age_route(route: &mut RouteMessage, age: u32) -> bool {
    let ticks = route.attributes.iter().find_map(|a| match a {
        RouteAttribute::CacheInfo(info) if info.expires != 0 => Some(info.expires),
        _ => None,
    });
    let Some(ticks) = ticks else { return true };
    let left = (ticks / TICKS).saturating_sub(age);
    route.attributes.push(RouteAttribute::Expires(left));
    left > 0
}

fn route_in(item: &Item) -> Option<RouteMessage> {
    match item.message() {
        Ok(RouteNetlinkMessage::NewRoute(route)) => Some(route),
        _ => None,
    }
}

/// The label of an address begins with its interface's name by custom; one that would be too long stays as it is.
fn relabel(label: &str, from: &str, to: &str) -> String {
    match label.strip_prefix(from) {
        Some(rest) if (rest.is_empty() || rest.starts_with(':')) && to.len() + rest.len() < libc::IFNAMSIZ => {
            format!("{to}{rest}")
        }
        _ => label.into(),
    }
}

/// Takes these errors for success: what was wanted was so already.
fn allow(result: io::Result<()>, fine: &[i32]) -> io::Result<()> {
    match result {
        Err(e) if e.raw_os_error().is_some_and(|code| fine.contains(&code)) => Ok(()),
        other => other,
    }
}

fn address_text(message: &AddressMessage) -> String {
    let find = |local: bool| {
        message.attributes.iter().find_map(|a| match a {
            AddressAttribute::Local(ip) if local => Some(ip),
            AddressAttribute::Address(ip) if !local => Some(ip),
            _ => None,
        })
    };
    let (own, far) = (find(true).or(find(false)), find(false));
    let own_text = own.map_or("an address".into(), |ip| ip.to_string());
    let length = message.header.prefix_len;
    match far {
        Some(far) if own != Some(far) => format!("{own_text} peer {far}/{length}"),
        _ => format!("{own_text}/{length}"),
    }
}

fn route_text(route: &RouteMessage) -> String {
    use netlink_packet_route::route::RouteAddress;
    let ip = |a: &RouteAddress| match a {
        RouteAddress::Inet(ip) => ip.to_string(),
        RouteAddress::Inet6(ip) => ip.to_string(),
        other => format!("{other:?}"),
    };
    let mut text = "default".to_string();
    let mut more = String::new();
    let mut table = u32::from(route.header.table);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(to) => {
                text = format!("{}/{}", ip(to), route.header.destination_prefix_length);
            }
            RouteAttribute::Gateway(by) => more += &format!(" via {}", ip(by)),
            RouteAttribute::Priority(n) => more += &format!(" metric {n}"),
            RouteAttribute::Table(n) => table = *n,
            _ => {}
        }
    }
    if table != u32::from(RouteHeader::RT_TABLE_MAIN) {
        more += &format!(" table {table}");
    }
    text + &more
}

fn neighbour_text(message: &NeighbourMessage) -> String {
    let address = message.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::Destination(address) => Some(format!("{address:?}")),
        _ => None,
    });
    format!("the permanent neighbour {}", address.unwrap_or_default())
}

/// Seconds after boot, time asleep included.
fn uptime() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    text.split('.').next().and_then(|word| word.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::route::RouteCacheInfo;

    use super::*;

    #[test]
    fn a_label_goes_with_its_interface_unless_it_would_not_fit() {
        assert_eq!(relabel("eth0", "eth0", "host"), "host");
        assert_eq!(relabel("eth0:1", "eth0", "host"), "host:1");
        assert_eq!(relabel("eth01", "eth0", "host"), "eth01", "another name that begins the same");
        assert_eq!(relabel("eth0:backup", "eth0", "wan-shaped"), "eth0:backup");
        assert_eq!(relabel("host:1", "host", "eth0"), "eth0:1", "and back");
    }

    #[test]
    fn a_route_that_ends_ages_while_it_is_kept_and_one_that_does_not_end_stays() {
        let info = |expires| {
            let mut info = RouteCacheInfo::parse(&[0; 32]).expect("its length");
            info.expires = expires;
            info
        };
        let route = |expires| {
            let mut route = RouteMessage::default();
            route.attributes.push(RouteAttribute::CacheInfo(info(expires)));
            route
        };
        let mut ending = route(500 * TICKS);
        assert!(age_route(&mut ending, 100));
        assert_eq!(plain(ending).attributes, [RouteAttribute::Expires(400)]);
        assert!(!age_route(&mut route(500 * TICKS), 500));
        let mut endless = route(0);
        assert!(age_route(&mut endless, 1_000_000));
        assert_eq!(plain(endless).attributes, []);
    }
}
