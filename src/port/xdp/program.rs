//! The gate from the side of user space: loaded, configured, attached, read.
//!
//! `bpf/gate.bpf.c` is compiled by `build.rs` and carried in the binary. `bpf/weir.h` is the
//! contract; its structs are mirrored here.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, libbpf_sys};

use super::notes;
use super::umem::Mapping;
use crate::time::Instant;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.bpf.o"));

/// What the program is called.
pub const PROGRAM: &str = "weir_gate";
/// The most receive queues a gate can serve.
pub const MAX_QUEUES: u32 = 256;

/// What becomes of a frame when nobody serves its queue, or whoever does hangs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// Straight out of the other NIC.
    #[default]
    Bypass,
    /// To this machine's own stack.
    Pass,
    /// Dropped.
    Drop,
}

impl OnFailure {
    /// Whether the gate stays when its owner dies.
    pub fn outlives_owner(self) -> bool {
        self != OnFailure::Pass
    }
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Config {
    stale_ns: u64,
    on_failure: u32,
    reserved: u32,
}

/// The outcomes at a gate (`struct weir_counters`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, serde::Serialize)]
#[repr(C)]
pub struct GateCounters {
    /// Handed to the socket of their queue.
    pub redirected: u64,
    /// Sent straight to the other NIC.
    pub bypassed: u64,
    /// Left to this machine's stack.
    pub passed: u64,
    /// Dropped at the gate.
    pub dropped: u64,
    /// Of the last three: no socket on the queue.
    pub no_socket: u64,
    /// Of the last three: the owner's heartbeat was old.
    pub stale: u64,
    /// Of those dropped: the redirect itself was refused.
    pub redirect_failed: u64,
    /// Of those redirected: no room for the arrival time.
    pub unstamped: u64,
}

impl GateCounters {
    fn add(&mut self, bytes: &[u8]) {
        let fields = [
            &mut self.redirected,
            &mut self.bypassed,
            &mut self.passed,
            &mut self.dropped,
            &mut self.no_socket,
            &mut self.stale,
            &mut self.redirect_failed,
            &mut self.unstamped,
        ];
        for (field, word) in fields.into_iter().zip(bytes.chunks_exact(8)) {
            *field += u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        }
    }
}

/// What the gate writes in front of a frame (`struct weir_stamp`).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Stamp {
    pub(super) arrived_ns: u64,
    pub(super) magic: u64,
}

impl Stamp {
    const MAGIC: u64 = 0x7765_6972_7374_6d70;

    #[cfg(test)]
    pub(super) fn new(arrived_ns: u64) -> Stamp {
        Stamp { arrived_ns, magic: Self::MAGIC }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.magic == Self::MAGIC
    }
}

/// How a program is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By the driver, before the kernel makes a packet of the frame.
    Native,
    /// By the kernel, after that: slower.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        })
    }
}

/// Says that the owner lives, by a word in memory that the gate reads.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    memory: Arc<Mapping>,
}

impl Heartbeat {
    /// The owner lives at `now` (`CLOCK_MONOTONIC`).
    pub fn beat(&self, now: Instant) {
        // SAFETY: the mapping is a page, aligned, and lives as long as `self`; the gate reads the
        // word as a whole.
        let word = unsafe { self.memory.start().cast::<AtomicU64>().as_ref() };
        word.store(now.as_nanos(), Ordering::Relaxed);
    }
}

/// A gate that is loaded, for one NIC.
pub struct Gate {
    // Keeps the maps of `object` for those who go on reading them.
    counters: MapHandle,
    sockets: MapHandle,
    heartbeat: Heartbeat,
    object: Object,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

pub(super) fn bpf(e: libbpf_rs::Error) -> io::Error {
    io::Error::new(
        match e.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        },
        format!("{e:#}{}", notes::take()),
    )
}

impl Gate {
    /// Loads the program for a NIC whose frames go to the NIC with index `peer` when nobody serves
    /// them. A heartbeat older than `stale` nanoseconds means that the owner hangs.
    ///
    /// # Errors
    /// If the kernel refuses the program.
    pub fn load(peer: u32, on_failure: OnFailure, stale: u64) -> io::Result<Gate> {
        notes::keep();
        let mut open = ObjectBuilder::default().name("weir").map_err(bpf)?.open_memory(OBJECT).map_err(bpf)?;
        let config = Config { stale_ns: stale, on_failure: on_failure as u32, reserved: 0 };
        for mut map in open.maps_mut() {
            if map.name().as_bytes().ends_with(b".rodata") {
                let mut bytes = [0u8; size_of::<Config>()];
                bytes[..8].copy_from_slice(&config.stale_ns.to_ne_bytes());
                bytes[8..12].copy_from_slice(&config.on_failure.to_ne_bytes());
                let initial = map.initial_value_mut().ok_or_else(|| io::Error::other("the gate has no settings"))?;
                initial[..bytes.len()].copy_from_slice(&bytes);
            }
        }
        let object = open.load().map_err(bpf)?;
        let map = |name: &str| -> io::Result<MapHandle> {
            let map = object.maps().find(|m| m.name() == name);
            MapHandle::try_from(&map.ok_or_else(|| io::Error::other(format!("the gate has no map {name}")))?)
                .map_err(bpf)
        };
        map("peer")?.update(&0u32.to_ne_bytes(), &peer.to_ne_bytes(), MapFlags::ANY).map_err(bpf)?;
        let page = rustix::param::page_size();
        let memory = Arc::new(Mapping::shared(map("heartbeat")?.as_fd(), page, 0)?);
        Ok(Gate { counters: map("counters")?, sockets: map("sockets")?, heartbeat: Heartbeat { memory }, object })
    }

    /// Where the owner says that it lives.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// Frames of `queue` go to `socket` from now on.
    ///
    /// # Errors
    /// If the socket is not bound to that queue.
    pub fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let fd = socket.as_raw_fd() as u32;
        self.sockets.update(&queue.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY).map_err(bpf)
    }

    /// No frame goes to a socket any more.
    pub fn close(&self) {
        for queue in 0..MAX_QUEUES {
            // Most are not there.
            let _ = self.sockets.delete(&queue.to_ne_bytes());
        }
    }

    /// What became of the frames so far.
    pub fn counters(&self) -> GateCounters {
        let mut sum = GateCounters::default();
        if let Ok(Some(cpus)) = self.counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY) {
            cpus.iter().for_each(|bytes| sum.add(bytes));
        }
        sum
    }

    fn program(&self) -> io::Result<BorrowedFd<'_>> {
        let program = self.object.progs().next().ok_or_else(|| io::Error::other("the gate has no program"))?;
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: the descriptor belongs to the object, which `self` keeps.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Attaches the gate to a NIC.
    ///
    /// # Errors
    /// `ResourceBusy` if another program is attached there, `Unsupported` if the driver does not
    /// do `mode`.
    pub fn attach(&self, interface: u32, mode: Mode) -> io::Result<Link> {
        let opts = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
            flags: match mode {
                Mode::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
                Mode::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
            },
            ..Default::default()
        };
        let program = self.program()?.as_raw_fd();
        // SAFETY: `opts` is initialised and outlives the call.
        let fd =
            unsafe { libbpf_sys::bpf_link_create(program, interface as i32, libbpf_sys::BPF_XDP, &raw const opts) };
        Ok(Link { fd: owned(fd)? })
    }

    /// Puts the gate in the place of the one that `link` attached.
    ///
    /// # Errors
    /// If the NIC is gone.
    pub fn replace(&self, link: &Link) -> io::Result<()> {
        // SAFETY: both descriptors are open; no options.
        let done =
            unsafe { libbpf_sys::bpf_link_update(link.fd.as_raw_fd(), self.program()?.as_raw_fd(), std::ptr::null()) };
        result(done).map(|_| ())
    }
}

pub(super) fn result(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::from_raw_os_error(-ret)) } else { Ok(ret) }
}

fn owned(ret: i32) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor that nobody else has.
    result(ret).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

/// What holds a gate at a NIC. Unless pinned, it ends with its last descriptor.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

/// What the kernel says of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkInfo {
    /// The program.
    pub program: u32,
    /// The interface index, zero if that interface is gone.
    pub interface: u32,
}

impl Link {
    /// The link pinned at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> io::Result<Link> {
        let path = c_path(path)?;
        // SAFETY: a string that ends in zero.
        Ok(Link { fd: owned(unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) })? })
    }

    /// Gives the link a name under which it survives.
    ///
    /// # Errors
    /// If `path` is not in a bpffs, or taken.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let path = c_path(path)?;
        // SAFETY: an open descriptor and a string that ends in zero.
        result(unsafe { libbpf_sys::bpf_obj_pin(self.fd.as_raw_fd(), path.as_ptr()) }).map(|_| ())
    }

    /// What it holds where.
    ///
    /// # Errors
    /// If it is no XDP link.
    pub fn info(&self) -> io::Result<LinkInfo> {
        let mut info = libbpf_sys::bpf_link_info::default();
        let mut len = size_of_val(&info) as u32;
        // SAFETY: the kernel writes at most `len` bytes of `info`, which is plain data.
        result(unsafe { libbpf_sys::bpf_link_get_info_by_fd(self.fd.as_raw_fd(), &raw mut info, &raw mut len) })?;
        if info.type_ != libbpf_sys::BPF_LINK_TYPE_XDP {
            return Err(io::Error::other("not an XDP link"));
        }
        // SAFETY: the member that belongs to this type; it is a number either way.
        let interface = unsafe { info.__bindgen_anon_1.xdp.ifindex };
        Ok(LinkInfo { program: info.prog_id, interface })
    }

    /// Takes the program off the NIC at once, whoever else holds the link.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn detach(&self) -> io::Result<()> {
        // SAFETY: an open descriptor.
        result(unsafe { libbpf_sys::bpf_link_detach(self.fd.as_raw_fd()) }).map(|_| ())
    }
}

/// Attaches a program that passes everything, in native mode: a veth has NAPI then, without which
/// what another interface redirects to its peer is lost (decisions.md 18). It stays until
/// `ip link set dev … xdp off` or until the interface is gone.
///
/// # Errors
/// If the kernel refuses; a program that is there already stays.
pub fn pass_everything(interface: u32) -> io::Result<()> {
    let pass = [
        libbpf_sys::bpf_insn {
            code: (libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K) as u8,
            imm: libbpf_sys::XDP_PASS as i32,
            ..Default::default()
        },
        libbpf_sys::bpf_insn { code: (libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT) as u8, ..Default::default() },
    ];
    // SAFETY: two instructions and two strings that outlive the call; no options.
    let program = owned(unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_XDP,
            c"pass_all".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            pass.as_ptr(),
            pass.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    })?;
    let flags = libbpf_sys::XDP_FLAGS_DRV_MODE | libbpf_sys::XDP_FLAGS_UPDATE_IF_NOEXIST;
    // SAFETY: an open descriptor; no options.
    let done = unsafe { libbpf_sys::bpf_xdp_attach(interface as i32, program.as_raw_fd(), flags, std::ptr::null()) };
    result(done).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `#define` in the header says.
    fn defined(name: &str) -> String {
        let header = include_str!("../../../bpf/weir.h");
        let line = header.lines().find(|l| l.starts_with(&format!("#define {name} "))).unwrap();
        line.split_whitespace().nth(2).unwrap().to_string()
    }

    #[test]
    fn the_header_and_this_file_agree() {
        assert_eq!(defined("WEIR_MAX_QUEUES"), MAX_QUEUES.to_string());
        assert_eq!(defined("WEIR_STAMP_MAGIC"), format!("{:#x}ULL", Stamp::MAGIC));
        let header = include_str!("../../../bpf/weir.h");
        let members = |name: &str| {
            let body = header.split(&format!("struct {name} {{")).nth(1).unwrap().split('}').next().unwrap();
            body.lines()
                .filter(|l| l.trim_start().starts_with("__u"))
                .map(str::trim)
                .map(|l| l.split(';').next().unwrap().split_whitespace().map(String::from).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let size = |name: &str| members(name).iter().map(|m| if m[0] == "__u64" { 8 } else { 4 }).sum::<usize>();
        assert_eq!(size("weir_config"), size_of::<Config>());
        assert_eq!(size("weir_stamp"), size_of::<Stamp>());
        assert_eq!(size("weir_counters"), size_of::<GateCounters>());
        let json = serde_json::to_value(GateCounters::default()).unwrap();
        let ours: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        let theirs: Vec<_> = members("weir_counters").into_iter().map(|m| m[1].clone()).collect();
        assert_eq!(ours, theirs, "same names in the same order");
    }
}
