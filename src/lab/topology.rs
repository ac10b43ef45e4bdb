//! The lab's network: a namespace for each host and each router, joined by veths.
//!
//! ```text
//! host ──┐                                                  ┌── host
//!        ├─ (switch) ── lab-in ROUTER lab-out ── lab-in … ──┤
//! host ──┘                                                  └── host
//! ```
//!
//! A host with a delay of its own has one more router before it, which holds packets for so long, each way.
//! A switch (the kernel's bridge) stands only where a side has several hosts. Routers bridge, so all hosts share one network;
//! addresses and neighbours are set by hand, since nobody shall have to ask through a link that loses or delays.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Error;
use super::space::Space;
use crate::port::xdp::ect1;
use crate::port::xdp::program::pass_everything;
use crate::run::nic::{self, NicFacts, mac_words};
use crate::scenario::{Host, Scenario, Side};

/// A router's interface toward the clients, INSIDE.
pub const INSIDE: &str = "lab-in";
/// A router's interface toward the servers, OUTSIDE.
pub const OUTSIDE: &str = "lab-out";
/// A host's interface.
pub const HOST: &str = "eth0";

/// What leaves a host is finished: XDP sees frames before checksums are filled in and segments cut.
const OFFLOADS_OFF: [&str; 10] = ["-K", HOST, "tx", "off", "tso", "off", "gso", "off", "txvlan", "off"];

/// Namespaces, by what is in them. Dropped, all is gone.
pub struct Topology {
    /// In the order of the scenario's hosts.
    pub hosts: Vec<Space>,
    /// From the clients to the servers.
    pub routers: Vec<Space>,
    /// By host, for those with a delay: what holds their packets.
    pub lines: BTreeMap<usize, Space>,
    /// Between routers and several hosts.
    _switches: Vec<Space>,
}

/// Where a veth ends: a namespace and the interface's name there.
struct End<'a>(&'a Space, String);

impl Topology {
    /// Makes it, with so many routers.
    ///
    /// # Errors
    /// Not root, or no `ip` and `ethtool`.
    pub fn build(scenario: &Scenario, routers: usize) -> Result<Topology, Error> {
        // Of a lab that was killed, its namespaces went with it; what it kept of their interfaces has no use any more.
        nic::forget(std::path::Path::new(crate::run::DIRECTORY), |nic| [INSIDE, OUTSIDE].contains(&nic));
        let v6 = scenario.hosts.iter().any(|h| h.address.is_ipv6());
        let make = |n: usize, v6: bool| (0..n).map(|_| quiet_space(v6)).collect::<Result<Vec<_>, _>>();
        let hosts = make(scenario.hosts.len(), v6)?;
        let routers = make(routers, false)?;
        let delayed = (0..hosts.len()).filter(|h| scenario.hosts[*h].delay > 0);
        let lines = delayed.map(|h| Ok((h, quiet_space(false)?))).collect::<Result<BTreeMap<_, _>, Error>>()?;
        let mut switches = Vec::new();
        for pair in routers.windows(2) {
            join(&End(&pair[0], OUTSIDE.into()), &End(&pair[1], INSIDE.into()), None)?;
        }
        for (side, router, name) in [(Side::Client, routers.first(), INSIDE), (Side::Server, routers.last(), OUTSIDE)] {
            let Some(router) = router else { continue };
            let here: Vec<usize> = (0..hosts.len()).filter(|i| scenario.hosts[*i].side == side).collect();
            if let [only] = here[..] {
                let line = lines.get(&only).map(|line| (line, side));
                attach(&End(&hosts[only], HOST.into()), line, &End(router, name.into()), only)?;
                continue;
            }
            let switch = quiet_space(false)?;
            switch.ip("link add br0 type bridge stp_state 0 mcast_snooping 0\nlink set br0 up\n")?;
            join(&End(&switch, "uplink".into()), &End(router, name.into()), None)?;
            switch.ip("link set uplink master br0\n")?;
            for host in here {
                let port = format!("port{host}");
                let line = lines.get(&host).map(|line| (line, side));
                attach(&End(&hosts[host], HOST.into()), line, &End(&switch, port.clone()), host)?;
                switch.ip(&format!("link set {port} master br0\n"))?;
            }
            switches.push(switch);
        }
        for (i, space) in hosts.iter().enumerate() {
            set_up_host(space, i, &scenario.hosts)?;
        }
        hosts.iter().try_for_each(|space| space.wait_until_up(HOST))?;
        Ok(Topology { hosts, routers, lines, _switches: switches })
    }

    /// From now on marked sockets of all hosts send ECT(1) where the kernel says ECT(0), and no host sends several packets
    /// where its pacing means one.
    ///
    /// # Errors
    /// The kernel does not take the program for it.
    pub fn let_hosts_say_ect1(&self) -> Result<(), Error> {
        let attach = || ect1::attach(index_of(HOST)?).map_err(Error::when("ECT(1), which needs kernel 6.6"));
        self.hosts.iter().try_for_each(|host| {
            host.ip(&format!("link set {HOST} gso_max_segs 1\n"))?;
            host.run(attach)?
        })
    }
}

/// A namespace in which nobody speaks unasked.
fn quiet_space(v6: bool) -> Result<Space, Error> {
    let space = Space::new()?;
    if !v6 {
        for which in ["all", "default"] {
            // A kernel without IPv6 has no such file, and needs none.
            let _ = space.set(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1");
        }
    }
    Ok(space)
}

/// The MAC address of a host.
pub fn mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, (host >> 8) as u8, host as u8]
}

fn join(a: &End<'_>, b: &End<'_>, host: Option<usize>) -> Result<(), Error> {
    let address = host.map(|h| format!(" address {}", mac_words(&mac(h)))).unwrap_or_default();
    let (name, peer, there) = (&a.1, &b.1, b.0.thread());
    a.0.ip(&format!("link add {name}{address} type veth peer name {peer} netns {there}\nlink set {name} up\n"))?;
    b.0.ip(&format!("link set {peer} up\n"))
}

/// Joins a host to the network, with its line between them if it has one.
fn attach(host: &End<'_>, line: Option<(&Space, Side)>, network: &End<'_>, number: usize) -> Result<(), Error> {
    let Some((line, side)) = line else { return join(host, network, Some(number)) };
    let [near, far] = if side == Side::Client { [INSIDE, OUTSIDE] } else { [OUTSIDE, INSIDE] };
    join(host, &End(line, near.into()), Some(number))?;
    join(&End(line, far.into()), network, None)
}

fn set_up_host(space: &Space, me: usize, hosts: &[Host]) -> Result<(), Error> {
    space.command("ethtool", &OFFLOADS_OFF)?;
    let mut lines = match hosts[me].address {
        IpAddr::V4(a) => format!("addr add {a}/32 dev {HOST}\nroute add 0.0.0.0/0 dev {HOST}\n"),
        IpAddr::V6(a) => format!("addr add {a}/128 dev {HOST} nodad\nroute add ::/0 dev {HOST}\n"),
    };
    for (i, other) in hosts.iter().enumerate().filter(|(i, _)| *i != me) {
        if other.address.is_ipv4() == hosts[me].address.is_ipv4() {
            lines += &format!("neigh add {} lladdr {} dev {HOST} nud permanent\n", other.address, mac_words(&mac(i)));
        }
    }
    space.ip(&lines)?;
    // As the baselines have it: windows up to 16 MB, nothing remembered of earlier connections.
    for (name, value) in [
        ("net.ipv4.tcp_no_metrics_save", "1"),
        ("net.ipv4.tcp_rmem", "4096 131072 16777216"),
        ("net.ipv4.tcp_wmem", "4096 16384 16777216"),
        // A listener takes ECN when asked; who connects asks if its flow shall have it.
        ("net.ipv4.tcp_ecn", "2"),
    ] {
        space.set(name, value)?;
    }
    // A kernel that routes takes a flow's number from the socket if it still can, and a socket takes another one after a timeout:
    // the flow would go on in another queue. No frame carries that number. Kernels before 5.17 have no such file.
    let _ = space.set("net.core.txrehash", "0");
    like_a_nic(space, HOST)
}

/// An interface that takes frames as a real NIC does: by NAPI, unmerged, and with nothing left of the socket that sent them.
/// A veth else hands over the sender's own buffer, and a TCP that sees how many of those a router still holds sends no more
/// than its small-queue limit, as if the router's queue were its own.
///
/// # Errors
/// It is not there, or cannot have an XDP program.
pub fn like_a_nic(space: &Space, name: &'static str) -> Result<(), Error> {
    space.command("ethtool", &["-K", name, "gro", "off"])?;
    space.run(move || pass_everything(index_of(name)?).map_err(Error::when(format_args!("NAPI for {name}"))))?
}

/// The index of an interface of the calling thread's namespace.
fn index_of(name: &str) -> Result<u32, Error> {
    let parsed = name.parse().map_err(|e| Error::new(name, e))?;
    Ok(NicFacts::inspect(&parsed).map_err(|e| Error::new(name, e))?.index)
}
