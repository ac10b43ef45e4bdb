//! Three namespaces in a row, `a` - `r` - `b`, joined by veths, with `weir bridge` in the middle.

use std::net::Ipv4Addr;

use crate::live::{Ns, Transfer, Weir, weir_program};

/// The three namespaces. OUTSIDE is `out`, towards `a`; INSIDE is `ins`, towards `b`.
pub(crate) struct Rig {
    pub(crate) a: Ns,
    pub(crate) r: Ns,
    pub(crate) b: Ns,
}

pub(crate) const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

impl Rig {
    /// One queue each, MTU 1500.
    pub(crate) fn new() -> Rig {
        Rig::with(1, 1500)
    }

    /// So many queues, and that MTU.
    pub(crate) fn with(queues: u32, mtu: u32) -> Rig {
        let rig = Rig { a: Ns::new(), r: Ns::new(), b: Ns::new() };
        for (near, far, ns, address) in [("out", "a0", &rig.a, A), ("ins", "b0", &rig.b, B)] {
            let q = format!("numtxqueues {queues} numrxqueues {queues}");
            rig.r.sh(&format!("ip link add {near} {q} mtu {mtu} type veth peer name {far} {q} mtu {mtu}"));
            rig.r.sh(&format!("ip link set {far} netns {}", ns.thread));
            rig.r.sh(&format!("ip link set {near} up"));
            ns.sh(&format!("ip link set {far} up"));
            ns.sh(&format!("ip addr add {address}/24 dev {far}"));
            ns.sh(&format!("ethtool -K {far} tx off tso off gso off gro off txvlan off"));
            ns.sh(&format!("{} napi {far}", weir_program()));
        }
        rig
    }

    /// Starts `weir bridge out ins` with more words, and waits until it shapes.
    pub(crate) fn bridge(&self, words: &str) -> Weir {
        self.try_bridge(words).runs()
    }

    /// The same, without waiting.
    pub(crate) fn try_bridge(&self, words: &str) -> Weir {
        self.r.weir(&format!("bridge out ins -j {words}"))
    }

    /// A transfer from `a` to `b`.
    pub(crate) fn transfer(&self) -> Transfer {
        Transfer::start(&self.a, &self.b, B.into())
    }

    /// The program at one of the bridge's interfaces.
    pub(crate) fn program_at(&self, nic: &str) -> Option<u32> {
        self.r.nic(nic).xdp.map(|p| p.id)
    }

    /// Whether `b` answers `a`.
    pub(crate) fn answers(&self) -> bool {
        self.a.reaches(B)
    }
}
