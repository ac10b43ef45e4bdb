//! Is this machine ready, is this NIC ready: what `weir doctor` prints, and why a NIC is refused at the start. Pure: facts
//! in, lines out.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::{Error, NicFacts, XdpMode, guard};

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Works, but there is something to know.
    Note,
    /// Does not work like this.
    Fail,
}

/// One line of `weir doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable key for programs.
    pub check: &'static str,
    /// The interface it is about; `None` for the machine.
    pub nic: Option<String>,
    /// How it went.
    pub verdict: Verdict,
    /// For people.
    pub message: String,
    /// What to type; with each failure, and with notes where there is something.
    pub fix: Option<String>,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nic) = &self.nic {
            write!(f, "{nic}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.fix {
            Some(fix) => write!(f, "; {fix}"),
            None => Ok(()),
        }
    }
}

impl Check {
    /// A start is refused because of it. What only attaching can tell is left to attaching.
    fn refuses(&self) -> bool {
        matches!(self.check, "ethernet" | "kind" | "member" | "up")
    }
}

/// The first reason why an interface cannot be the end of a wire.
pub(in crate::run) fn refusal(nic: &NicFacts) -> Option<Check> {
    nic_checks(nic).into_iter().find(|c| c.verdict == Verdict::Fail && c.refuses())
}

/// Refuses an interface that cannot be the end of a wire.
///
/// # Errors
/// The first failing line of `weir doctor` that says why.
pub(in crate::run) fn check(nic: &NicFacts) -> Result<(), Error> {
    refusal(nic).map_or(Ok(()), |refusal| Err(Error(refusal.to_string())))
}

/// Collects the lines of one interface or of the machine.
struct Lines {
    nic: Option<String>,
    lines: Vec<Check>,
}

impl Lines {
    fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.push(check, Verdict::Ok, message, None);
    }

    fn note(&mut self, check: &'static str, message: impl Into<String>, fix: Option<String>) {
        self.push(check, Verdict::Note, message, fix);
    }

    fn fail(&mut self, check: &'static str, message: impl Into<String>, fix: impl Into<String>) {
        self.push(check, Verdict::Fail, message, Some(fix.into()));
    }

    fn push(&mut self, check: &'static str, verdict: Verdict, message: impl Into<String>, fix: Option<String>) {
        self.lines.push(Check { check, nic: self.nic.clone(), verdict, message: message.into(), fix });
    }
}

/// Offloads of a veth that make frames reach the other end unfinished: without a checksum, unsegmented, or with their tag
/// beside them.
pub(super) const PEER_OFFLOADS: [&str; 5] = [
    "tx-checksum-ip-generic",
    "tx-tcp-segmentation",
    "tx-generic-segmentation",
    "tx-vlan-hw-insert",
    "tx-vlan-stag-hw-insert",
];
const PEER_FIX: &str = "tx off tso off gso off txvlan off";

/// Drivers with native XDP in kernel 6.1 and 6.2, which do not tell themselves.
const NATIVE_DRIVERS: &[&str] = &[
    "veth",
    "virtio_net",
    "tun",
    "i40e",
    "ice",
    "ixgbe",
    "ixgbevf",
    "igb",
    "igc",
    "mlx4_en",
    "mlx5_core",
    "bnxt_en",
    "qede",
    "nfp",
    "ena",
    "sfc",
    "hv_netvsc",
    "gve",
    "atlantic",
    "stmmac",
    "mvneta",
    "mvpp2",
    "dpaa2-eth",
    "fsl_enetc",
    "fsl_dpaa",
    "fec",
    "netsec",
    "cpsw",
    "thunder-nicvf",
    "lan966x-switch",
    "mtk_soc_eth",
    "tsnep",
];

/// What is to be said of one interface.
pub fn nic_checks(nic: &NicFacts) -> Vec<Check> {
    let mut lines = Lines { nic: Some(nic.name.clone()), lines: Vec::new() };
    kind(nic, &mut lines);
    member(nic, &mut lines);
    if nic.up {
        if nic.carrier {
            lines.ok("link", "up, with carrier");
        } else {
            lines.note("link", "up, but without carrier: nothing is at the other end of the cable", None);
        }
    } else {
        lines.fail("up", "is down", format!("ip link set dev {} up", nic.name));
    }
    xdp_program(nic, &mut lines);
    xdp_support(nic, &mut lines);
    mtu(nic, super::largest_mtu_in_memory(), &mut lines);
    queues(nic, &mut lines);
    features(nic, guard::owner(nic, Path::new(crate::run::DIRECTORY)), &mut lines);
    peer(nic, &mut lines);
    lines.lines.extend(bypass(nic));
    // Every interface has a link-local address; nobody would miss it.
    let addresses: Vec<&str> =
        nic.ip_addresses.iter().map(String::as_str).filter(|a| !a.starts_with("fe80:")).collect();
    if !addresses.is_empty() {
        lines.note(
            "addresses",
            format!(
                "has addresses of this machine ({}), which do not answer on it while weir has its frames",
                addresses.join(", ")
            ),
            None,
        );
    }
    lines.lines
}

/// Which kinds can be the end of a wire, which not, and what to take instead.
fn kind(nic: &NicFacts, lines: &mut Lines) {
    let name = &nic.name;
    let instead = |what: &str| format!("weir bridge wants {what} in its place");
    let kind = nic.kind.as_deref().unwrap_or("physical");
    if nic.loopback {
        lines.fail("kind", "is the loopback: its frames come back where they left", instead("a NIC, or a veth"));
    } else if nic.wireless {
        lines.fail(
            "kind",
            "is wireless: an access point takes frames only from the station's own address, so it cannot be bridged",
            instead("a wired NIC (shape at the router's other port)"),
        );
    } else if !nic.ethernet {
        lines.fail(
            "ethernet",
            format!("carries no Ethernet frames (kind {kind}): a tunnel or a point-to-point link"),
            instead("the Ethernet NIC below it"),
        );
    } else {
        match kind {
            "bond" | "team" => lines.fail(
                "kind",
                format!("is a {kind}: each member would need a share of one rate"),
                instead("one member, taken out of it,"),
            ),
            "bridge" | "openvswitch" => lines.fail(
                "kind",
                format!("is a {kind}: a program on it would see only what is for this machine"),
                instead(&format!(
                    "one of its ports, taken out with `ip link set dev PORT nomaster`, instead of {name},"
                )),
            ),
            "vlan" | "macvlan" | "macvtap" | "ipvlan" | "macsec" | "vrf" => lines.note(
                "kind",
                format!("is a {kind} on top of another interface: works in generic mode only, which is slower"),
                Some("name the interface below it; weir carries VLAN tags through".into()),
            ),
            "dummy" | "ifb" | "nlmon" => lines.fail(
                "kind",
                format!("is of kind {kind}, which has nobody at its other end"),
                "make a veth: ip link add A type veth peer name B",
            ),
            _ => lines.ok("kind", format!("{kind}, driver {}", nic.driver.as_deref().unwrap_or("unknown"))),
        }
    }
}

fn member(nic: &NicFacts, lines: &mut Lines) {
    match &nic.master {
        Some(master) => lines.fail(
            "member",
            format!(
                "is a member of the {} {master}, which would get nothing any more",
                nic.master_kind.as_deref().unwrap_or("master")
            ),
            format!("ip link set dev {} nomaster", nic.name),
        ),
        None => lines.ok("member", "belongs to no bridge or bond"),
    }
}

fn xdp_program(nic: &NicFacts, lines: &mut Lines) {
    let Some(program) = &nic.xdp else {
        lines.ok("program", "no XDP program is attached");
        return;
    };
    let name = program.name.as_deref().unwrap_or("of unknown name");
    let off = match program.mode {
        XdpMode::Native => "xdpdrv",
        XdpMode::Generic => "xdpgeneric",
        XdpMode::Hardware => "xdpoffload",
        XdpMode::Several => "xdp",
    };
    let what = format!("XDP program {} ({name}) is attached in {:?} mode", program.id, program.mode).to_lowercase();
    if name.starts_with("weir") {
        lines.note("program", format!("{what}: weir's own"), None);
    } else {
        lines.fail("program", format!("{what} by somebody else"), format!("ip link set dev {} {off} off", nic.name));
    }
}

fn xdp_support(nic: &NicFacts, lines: &mut Lines) {
    let driver = nic.driver.as_deref().unwrap_or("unknown");
    let generic =
        format!("driver {driver} has no native XDP here: generic mode works, with a copy and an skb for each frame");
    match nic.xdp_support {
        Some(s) if s.native && s.redirect => {
            let copy = if s.zero_copy { "without a copy" } else { "with one copy for each frame" };
            lines.ok("xdp", format!("native XDP, AF_XDP {copy}"));
        }
        Some(_) if nic.kind.as_deref() == Some("veth") => lines.fail(
            "xdp",
            format!(
                "no native XDP: a veth needs at least as many RX queues ({}) as its peer has TX queues",
                nic.rx_queues
            ),
            format!(
                "ethtool -L {} rx N   with N the peer's TX queues, or at the peer: ethtool -L PEER tx {}",
                nic.name, nic.rx_queues
            ),
        ),
        Some(_) => lines.note("xdp", generic, None),
        None if NATIVE_DRIVERS.contains(&driver) => lines.ok("xdp", format!("driver {driver} is known for native XDP")),
        None => lines.note("xdp", generic, None),
    }
}

fn mtu(nic: &NicFacts, in_memory: Option<u32>, lines: &mut Lines) {
    let NicFacts { name, mtu, .. } = nic;
    match (in_memory, nic.native_mtu) {
        (Some(most), _) if *mtu > most => lines.fail(
            "mtu",
            format!("MTU {mtu} > {most}, the largest that a packet buffer of weir's has room for"),
            format!("ip link set dev {name} mtu {most}   and the same at its other end"),
        ),
        // A veth's limit is on what its peer may send; both ends have one MTU, or packets are lost anyway.
        (_, Some(most)) if *mtu > most => lines.fail(
            "mtu",
            format!("MTU {mtu} > {most} allowed in native mode"),
            format!("ip link set dev {name} mtu {most}   and the same at its other end; or weir bridge --mode generic"),
        ),
        (_, Some(most)) => lines.ok("mtu", format!("MTU {mtu}; native mode takes up to {most}")),
        _ => lines.ok("mtu", format!("MTU {mtu}")),
    }
}

fn queues(nic: &NicFacts, lines: &mut Lines) {
    lines.ok("queues", format!("{} RX, {} TX; all RX queues are served", nic.rx_queues, nic.tx_queues));
}

fn features(nic: &NicFacts, owner: Option<u32>, lines: &mut Lines) {
    let on = nic.merging_or_stripping.join(", ");
    match owner {
        _ if on.is_empty() => lines.ok("features", "nothing merges frames or takes tags out"),
        None => lines.ok("features", format!("weir switches off and puts back: {on}")),
        Some(pid) => lines.fail(
            "features",
            format!("somebody has switched on again what the running weir (pid {pid}) had switched off: {on}"),
            guard::command_off(nic),
        ),
    }
}

fn peer(nic: &NicFacts, lines: &mut Lines) {
    let Some(peer) = &nic.peer else { return };
    match (&peer.name, &peer.offloads_on) {
        (Some(name), Some(on)) if on.is_empty() => lines.ok("peer", format!("its peer {name} finishes its frames before it sends them")),
        (Some(name), Some(on)) => lines.fail(
            "peer",
            format!("its peer {name} sends frames unfinished ({}): checksums are wrong and segments merged", on.join(", ")),
            format!("ethtool -K {name} {PEER_FIX}"),
        ),
        _ => lines.note(
            "peer",
            "its peer is in another namespace; if that is where senders are, they must finish their frames before they send them",
            Some(format!("there: ethtool -K PEER {PEER_FIX}")),
        ),
    }
    if let Some(name) = &peer.name {
        lines.note(
            "sender",
            format!(
                "its peer {name} is in this namespace: a sender there is held back by this host's own stack, so what is measured \
                 with one is not what a host behind a cable meets"
            ),
            Some(format!("put senders into a namespace: ip link set {name} netns NAME")),
        );
    }
}

/// What is to be said of the way past a dead weir when it leads out of this interface.
pub(in crate::run) fn bypass(nic: &NicFacts) -> Option<Check> {
    let mut lines = Lines { nic: Some(nic.name.clone()), lines: Vec::new() };
    let peer = nic.peer.as_ref()?;
    match (peer.napi, &peer.name) {
        (Some(true), _) => lines.ok("bypass", "its peer takes what goes past a dead weir"),
        (Some(false), Some(name)) => lines.note(
            "bypass",
            format!("its peer {name} has neither GRO nor an XDP program, so the kernel loses what goes past a dead weir"),
            Some(format!("ethtool -K {name} gro on   (or: weir napi {name})")),
        ),
        _ => lines.note(
            "bypass",
            "its peer is in another namespace; without GRO or an XDP program there, the kernel loses what goes past a dead weir",
            Some("there: ethtool -K PEER gro on   (or: weir napi PEER)".into()),
        ),
    }
    lines.lines.pop()
}

/// The kernel that is needed: Debian 12's.
const OLDEST_KERNEL: (u32, u32) = (6, 1);

/// Capabilities by number and name (`linux/capability.h`).
const CAPABILITIES: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (39, "CAP_BPF")];
const CAP_SYS_ADMIN: u32 = 21;
const CAP_IPC_LOCK: u32 = 14;
/// `AF_XDP`, from `linux/socket.h`.
const AF_XDP: i32 = 44;

/// What is to be said of the machine, whatever the interface.
pub fn machine_checks() -> Vec<Check> {
    let mut lines = Lines { nic: None, lines: Vec::new() };
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    kernel(release.trim(), &mut lines);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = effective_capabilities(&status);
    capabilities(effective, &mut lines);
    if cfg!(feature = "xdp") {
        lines.ok("build", "this binary was built with AF_XDP");
    } else {
        lines.fail("build", "this binary was built without AF_XDP", "cargo build --release");
    }
    sockets(&mut lines);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    memlock(locked_memory_limit(&limits), effective, &mut lines);
    bpffs(&mut lines);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    lines.ok("cores", format!("{cores} to run on; --poll busy wants one for itself for each direction"));
    lines.lines
}

fn kernel(release: &str, lines: &mut Lines) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST_KERNEL {
        lines.ok("kernel", format!("kernel {release}"));
    } else {
        lines.fail(
            "kernel",
            format!("kernel {release} is older than 6.1"),
            "apt-get install linux-image-amd64, then reboot",
        );
    }
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

fn capabilities(effective: u64, lines: &mut Lines) {
    let has = |bit: u32| effective >> bit & 1 == 1;
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, name)| !(has(*bit) || *name == "CAP_BPF" && has(CAP_SYS_ADMIN)))
        .map(|(_, name)| *name)
        .collect();
    if missing.is_empty() {
        lines.ok("rights", "may attach programs and open AF_XDP sockets");
    } else {
        lines.fail("rights", format!("lacks {}", missing.join(", ")), "call it as root: sudo weir …");
    }
}

fn sockets(lines: &mut Lines) {
    match Socket::new(Domain::from(AF_XDP), Type::RAW, None) {
        Ok(_) => lines.ok("af_xdp", "this kernel has AF_XDP sockets"),
        // Without the right, the kernel does not say whether it has them.
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => {}
        Err(e) => lines.fail(
            "af_xdp",
            format!("this kernel has no AF_XDP sockets ({e})"),
            "run a kernel with CONFIG_XDP_SOCKETS=y, as Debian's are",
        ),
    }
}

/// The limit in bytes; `None` for no limit.
fn locked_memory_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|l| l.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn memlock(limit: Option<u64>, effective: u64, lines: &mut Lines) {
    match limit {
        Some(bytes) if effective >> CAP_IPC_LOCK & 1 == 0 => lines.fail(
            "memlock",
            format!("may lock {} KiB of memory; packet buffers take more", bytes / 1024),
            "ulimit -l unlimited   (a systemd unit: LimitMEMLOCK=infinity)",
        ),
        _ => lines.ok("memlock", "may lock the memory for packet buffers"),
    }
}

fn bpffs(lines: &mut Lines) {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|l| l.split_whitespace().last() == Some("bpf")) {
        lines.fail(
            "bpffs",
            "this kernel has no bpf file system",
            "run a kernel with CONFIG_BPF_SYSCALL=y, as Debian's are",
        );
        return;
    }
    let namespace_of = |who: &str| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    match (namespace_of("self"), namespace_of("1")) {
        (Some(mine), Some(first)) if mine != first => lines.note(
            "bpffs",
            "runs in a mount namespace of its own (`ip netns exec` makes one): what it pins is gone with this command, and with it the bypass",
            Some("enter the network namespace with: nsenter --net=/run/netns/NAME weir …".into()),
        ),
        _ => lines.ok("bpffs", "pinned programs outlive weir, for the bypass"),
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
