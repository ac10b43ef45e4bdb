//! Three namespaces in a row, `far` - `host` - `lan`: `weir ingress` runs at the host, which is a router, too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::live::{Ns, Transfer, Weir, run, settled, wait_until, weir_program};

/// The far end of WAN.
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1));
pub(crate) const FAR_6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1));
/// Behind the host.
pub(crate) const LAN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 2));

/// The three namespaces. The host's interfaces are `wan` and `lan0`, the others' `far0` and `eth0`.
pub(crate) struct Rig {
    pub(crate) far: Ns,
    pub(crate) host: Ns,
    pub(crate) lan: Ns,
}

impl Rig {
    /// Addresses on both sides of the host, which forwards. Only the far end of WAN is set for XDP; the host and what is
    /// behind it have their interfaces as the kernel makes them.
    pub(crate) fn new() -> Rig {
        let rig = Rig { far: Ns::new(), host: Ns::new(), lan: Ns::new() };
        for (near, far, ns) in [("wan", "far0", &rig.far), ("lan0", "eth0", &rig.lan)] {
            rig.host.sh(&format!("ip link add {near} type veth peer name {far}"));
            rig.host.sh(&format!("ip link set {far} netns {}", ns.thread));
            rig.host.sh(&format!("ip link set {near} up"));
            ns.sh(&format!("ip link set {far} up"));
        }
        rig.far.sh("ethtool -K far0 tx off tso off gso off gro off txvlan off");
        rig.far.sh(&format!("{} napi far0", weir_program()));
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            rig.host.sh(&format!("sysctl -qw {setting}"));
        }
        for words in ["addr add 10.78.0.1/24 dev far0", "addr add fd78::1/64 dev far0 nodad"] {
            rig.far.sh(&format!("ip {words}"));
        }
        for words in [
            "addr add 10.78.0.2/24 dev wan",
            "addr add fd78::2/64 dev wan nodad",
            "addr add 10.79.0.1/24 dev lan0",
            "addr add fd79::1/64 dev lan0 nodad",
        ] {
            rig.host.sh(&format!("ip {words}"));
        }
        for words in [
            "addr add 10.79.0.2/24 dev eth0",
            "addr add fd79::2/64 dev eth0 nodad",
            "route add default via 10.79.0.1",
            "-6 route add default via fd79::1",
        ] {
            rig.lan.sh(&format!("ip {words}"));
        }
        rig.far.sh("ip route add 10.79.0.0/24 via 10.78.0.2");
        rig.far.sh("ip -6 route add fd79::/64 via fd78::2");
        wait_until("addresses are settled", || !rig.host.sh("ip -6 addr").contains("tentative"));
        rig
    }

    /// More of all kinds on WAN than a host usually has.
    pub(crate) fn with_much_to_move() -> Rig {
        let rig = Rig::new();
        for words in [
            "addr add 10.78.0.3/24 dev wan label wan:1",
            "addr add 10.80.0.2/32 dev wan scope link",
            "addr add 10.81.0.5/24 dev wan noprefixroute metric 77 valid_lft 7200 preferred_lft 3600",
            "addr add 10.82.0.1 peer 10.82.0.2/32 dev wan",
            "addr add fd78::3/64 dev wan nodad valid_lft 7200 preferred_lft 3600",
            "addr add fd78:1::3/64 dev wan nodad noprefixroute",
            "route add 10.81.0.0/24 dev wan proto kernel src 10.81.0.5 metric 100",
            "route add default via 10.78.0.1 src 10.78.0.3 metric 50 mtu lock 1400 advmss 1300 proto dhcp",
            "route add default via 10.78.0.9 metric 60 onlink dev wan",
            "route add 10.90.0.0/16 via 10.78.0.1 table 100 initcwnd 20",
            "route add 10.91.0.0/16 nexthop via 10.78.0.1 weight 2 nexthop via 10.79.0.2 weight 1",
            "route add 10.92.0.0/16 via inet6 fe80::1 dev wan",
            "route add unreachable 10.93.0.0/16",
            "-6 route add default via fd78::1 metric 20 proto static",
            "-6 route add fd92::/64 via fe80::1 dev wan expires 900",
            "-6 route add fd93::/64 nexthop via fd78::1 weight 1 nexthop via fd79::2 weight 3",
            "-6 route add fd94::/64 dev wan table 100",
            "neigh add 10.78.0.77 lladdr 02:00:00:00:00:77 dev wan nud permanent",
        ] {
            rig.host.sh(&format!("ip {words}"));
        }
        rig.host
            .sh("sysctl -qw net.ipv4.conf.wan.rp_filter=2 net.ipv4.conf.wan.proxy_arp=1 net.ipv6.conf.wan.accept_ra=2");
        rig
    }

    /// Starts `weir ingress wan --host shaped` with more words, and waits until it shapes.
    pub(crate) fn ingress(&self, words: &str) -> Weir {
        let weir = self.try_ingress(words);
        wait_until("the host's addresses are settled", || {
            assert!(weir.is_running(), "it ended: {}", weir.said());
            weir.said().contains("polling")
                && (weir.said().contains("firewall") || weir.said().contains("get an address"))
        });
        weir
    }

    /// The same, without waiting.
    pub(crate) fn try_ingress(&self, words: &str) -> Weir {
        self.host.weir(&format!("ingress wan --host shaped -j {words}"))
    }

    /// Undoes what a killed one has left.
    pub(crate) fn restore(&self) {
        let restore = self.host.weir("ingress wan --restore");
        let (code, _) = restore.wait();
        assert_eq!(code, 0, "{}", restore.said());
    }

    /// Everything that the host has, but for numbers that pass.
    pub(crate) fn belongings(&self) -> String {
        self.host.run(|| {
            let sorted = |words: &str| {
                let text = run(words);
                let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
                lines.sort_unstable();
                lines.join("\n")
            };
            let addresses = run("ip -o addr show");
            let mut all: Vec<String> =
                addresses.lines().filter_map(|l| l.split_once(": ")).map(|l| l.1.into()).collect();
            all.push(sorted("ip -4 -o route show table all"));
            all.push(sorted("ip -6 -o route show table all"));
            all.push(sorted("ip neigh show nud permanent"));
            timeless(&all.join("\n"))
        })
    }

    /// Says what the host has more, and what less, than it had, when it has it at `at`. What the kernel settles in its own
    /// time is waited for.
    pub(crate) fn differs_from(&self, before: &str, at: &str) -> Vec<String> {
        let compare = || {
            let now = self.belongings().replace(at, "wan");
            let not_in = |a: &str, b: &str, sign: &str| -> Vec<String> {
                a.lines().filter(|l| !b.lines().any(|other| other == *l)).map(|l| format!("{sign} {l}")).collect()
            };
            let mut all = [not_in(before, &now, "-"), not_in(&now, before, "+")].concat();
            if all.is_empty() && at == "wan" && now != before {
                all.push(format!("another order: {now}"));
            }
            if all.is_empty() { Ok(()) } else { Err(all) }
        };
        settled(compare).err().unwrap_or_default()
    }

    /// A transfer from behind the host to the far end of WAN.
    pub(crate) fn transfer_up(&self) -> Transfer {
        Transfer::start(&self.lan, &self.far, FAR)
    }

    /// A transfer from the far end of WAN to behind the host.
    pub(crate) fn transfer_down(&self) -> Transfer {
        Transfer::start(&self.far, &self.lan, LAN)
    }
}

/// Lifetimes without their figures.
fn timeless(text: &str) -> String {
    let word = |w: &str| match w.strip_suffix("sec") {
        Some(n) if n.bytes().all(|b| b.is_ascii_digit()) => "Nsec".to_string(),
        _ => w.to_string(),
    };
    let line = |l: &str| l.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
