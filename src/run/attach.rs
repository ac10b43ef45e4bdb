//! Who may shape what, and how the gate comes to a NIC and leaves it.
//!
//! An instance has a name, and owns its name and both its NICs by locks in `/run/weir`; the kernel
//! opens a lock when its owner dies. A gate that shall outlive its owner is pinned in
//! `/run/weir/bpf` under the NIC's namespace and index, so the next owner finds it and takes its
//! place without a gap. A program that is not ours is never touched.

mod lock;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};

use self::lock::command_of;
pub use self::lock::{Lock, check_name};
use super::nic::{IfName, NicFacts, NicGuard, XdpMode, XdpProgram};
use crate::port::xdp::program::{Gate, Link, Mode, PROGRAM};
use crate::run::DIRECTORY;
use crate::sys::namespace;

/// Where gates are pinned.
const PINS: &str = "/run/weir/bpf";
/// `BPF_FS_MAGIC`.
const BPF_FS: u64 = 0xcafe_4a11;
/// How often and how long to wait for a predecessor that is just dying.
const PATIENCE: (u32, Duration) = (20, Duration::from_millis(25));

/// Why an instance cannot have a name or a NIC.
#[derive(Debug)]
pub enum Refused {
    /// The word cannot be the name of an instance.
    BadName(String),
    /// Somebody who lives has it.
    Owned {
        /// What is owned, in words.
        what: String,
        /// By which process.
        pid: u32,
        /// What that process was started as.
        command: String,
        /// Whether that process is stopped.
        stopped: bool,
    },
    /// Another XDP program is at the NIC.
    Foreign {
        /// The NIC.
        nic: String,
        /// The program's name and number.
        program: String,
        /// How it is run.
        mode: String,
        /// Who holds it, if that can be seen.
        holder: String,
        /// The command that takes it away.
        remedy: String,
    },
    /// The driver does not run programs, and generic mode was not wanted.
    NotNative {
        /// The NIC.
        nic: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel or the file system said no.
    Io {
        /// To what.
        what: String,
        /// How.
        error: io::Error,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::BadName(name) => write!(
                f,
                "'{name}' cannot be the name of an instance: allowed are 1 to 64 letters, digits and '_.:@-', \
                 the first no '.' or '-'; choose one with --name"
            ),
            Refused::Owned { what, pid, command, stopped: false } => {
                write!(f, "{what} belongs to process {pid} ({command}), which is running; end it with `kill {pid}`")?;
                f.write_str(", or choose other NICs or another --name")
            }
            Refused::Owned { what, pid, command, stopped: true } => write!(
                f,
                "{what} belongs to process {pid} ({command}), which is stopped; \
                 let it go on with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`"
            ),
            Refused::Foreign { nic, program, mode, holder, remedy } => write!(
                f,
                "{nic} has an XDP program that is not weir's: {program}, {mode} mode, {holder}; \
                 if nobody needs it, remove it with `{remedy}`"
            ),
            Refused::NotNative { nic, error } => write!(
                f,
                "the driver of {nic} does not run XDP programs ({error}); --mode generic does without it, more slowly"
            ),
            Refused::Io { what, error } if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "root is needed, call it with sudo ({what}: {error})")
            }
            Refused::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Refused {}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> Refused {
    let what = what.into();
    move |error| Refused::Io { what, error }
}

/// Removes the pins of gates whose NIC is gone, in whichever namespace it was, and what their dead owners kept of it.
///
/// # Errors
/// If the file system does not let it.
pub fn sweep() -> io::Result<()> {
    for (namespace, index) in in_pins(sweep_pins)?? {
        NicGuard::forget_one(index, namespace, Path::new(DIRECTORY));
    }
    Ok(())
}

/// Gives the namespace and the index of each that was gone.
fn sweep_pins() -> io::Result<Vec<(u64, u32)>> {
    let mut gone = Vec::new();
    for entry in std::fs::read_dir(PINS)?.flatten() {
        let path = entry.path();
        if Link::open(&path).and_then(|link| link.info()).is_ok_and(|info| info.interface == 0) {
            std::fs::remove_file(&path)?;
            gone.extend(entry.file_name().to_str().and_then(pinned_for));
        }
    }
    Ok(gone)
}

/// The namespace and the index in the name of a pin.
fn pinned_for(name: &str) -> Option<(u64, u32)> {
    let (namespace, index) = name.strip_prefix("nic-")?.split_once('-')?;
    Some((namespace.parse().ok()?, index.parse().ok()?))
}

/// A gate at a NIC.
#[derive(Debug)]
pub struct Placed {
    link: Link,
    pin: Option<PathBuf>,
    /// How the program is run.
    pub mode: Mode,
    /// Whether a gate of a predecessor was there.
    pub replaced: bool,
}

/// Which modes may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum WantedMode {
    /// Native, or generic with a warning.
    #[default]
    Auto,
    /// Native or not at all.
    Native,
    /// Generic.
    Generic,
}

/// Where the gate of a NIC is pinned.
fn pin_of(nic: &NicFacts) -> io::Result<PathBuf> {
    // A bpffs takes no dots.
    Ok(Path::new(PINS).join(format!("nic-{}-{}", namespace::network()?, nic.index)))
}

/// Brings a gate to a NIC; in the place of one that a dead owner left, if there is one. Pinned, if
/// it shall outlive this process.
///
/// # Errors
/// If another program is there, or the kernel refuses.
pub fn place(gate: &Gate, nic: &NicFacts, wanted: WantedMode, pinned: bool) -> Result<Placed, Refused> {
    let name = nic.name.as_str();
    let pin = pin_of(nic).map_err(failed("this network namespace"))?;
    let leftover = in_pins(|| Link::open(&pin)).unwrap_or_else(Err).ok();
    let there = if leftover.is_some() { nic.xdp.clone() } else { settled(nic) };
    let ours = leftover.filter(|link| link.info().is_ok_and(|i| i.interface == nic.index && at(&there) == i.program));
    let mode =
        there.as_ref().map(|program| if program.mode == XdpMode::Generic { Mode::Generic } else { Mode::Native });
    let fits = |mode| match wanted {
        WantedMode::Auto => true,
        WantedMode::Native => mode == Mode::Native,
        WantedMode::Generic => mode == Mode::Generic,
    };
    if !(pinned && ours.is_some()) {
        // What is pinned belongs to a NIC that is gone, or shall not survive any more.
        let _ = in_pins(|| std::fs::remove_file(&pin));
    }
    let there_was = ours.is_some();
    match (ours, mode) {
        (Some(link), Some(mode)) if fits(mode) => {
            gate.replace(&link).map_err(failed(format!("replacing the gate at {name}")))?;
            return Ok(Placed { link, pin: pinned.then_some(pin), mode, replaced: true });
        }
        (Some(link), _) => {
            link.detach().map_err(failed(format!("detaching the old gate from {name}")))?;
            let _ = in_pins(|| std::fs::remove_file(&pin));
        }
        (None, _) => {
            if let Some(there) = there {
                return Err(foreign(nic, &there));
            }
        }
    }
    let (link, mode) = attach(gate, nic, wanted)?;
    let placed = Placed { link, pin: None, mode, replaced: there_was };
    if pinned { keep(placed, pin, name) } else { Ok(placed) }
}

/// Refuses a NIC at which a program is that is not weir's, before anything is touched.
///
/// # Errors
/// [`Refused::Foreign`].
pub fn check_program(nic: &NicFacts) -> Result<(), Refused> {
    match &nic.xdp {
        Some(there) if there.name.as_deref() != Some(PROGRAM) => Err(foreign(nic, there)),
        _ => Ok(()),
    }
}

/// Takes off a NIC the gate that a dead owner left there. Says whether there was one.
///
/// # Errors
/// If the kernel refuses.
pub fn take_off(nic: &NicFacts) -> io::Result<bool> {
    let pin = pin_of(nic)?;
    in_pins(|| {
        let Ok(link) = Link::open(&pin) else { return Ok(false) };
        if link.info()?.interface == nic.index {
            link.detach()?;
        }
        std::fs::remove_file(&pin).map(|()| true)
    })?
}

/// Whether a gate is pinned for a NIC, and still there.
pub fn is_pinned(nic: &NicFacts) -> bool {
    // Without making the place: whoever asks wants nothing changed.
    let info = |pin: PathBuf| namespace::in_initial_mounts(|| Link::open(&pin)?.info())?;
    pin_of(nic).and_then(info).is_ok_and(|info| info.interface == nic.index)
}

fn at(program: &Option<XdpProgram>) -> u32 {
    program.as_ref().map_or(0, |p| p.id)
}

/// The program at a NIC, when a gate of a process that is just ending has had time to go.
fn settled(nic: &NicFacts) -> Option<XdpProgram> {
    let name: IfName = nic.name.parse().ok()?;
    let mut there = nic.xdp.clone();
    for _ in 0..PATIENCE.0 {
        if there.as_ref().is_none_or(|p| p.name.as_deref() != Some(PROGRAM)) {
            break;
        }
        std::thread::sleep(PATIENCE.1);
        there = NicFacts::inspect(&name).ok()?.xdp;
    }
    there
}

fn attach(gate: &Gate, nic: &NicFacts, wanted: WantedMode) -> Result<(Link, Mode), Refused> {
    let name = nic.name.as_str();
    let generic = || gate.attach(nic.index, Mode::Generic).map(|link| (link, Mode::Generic)).map_err(failed(name));
    if wanted == WantedMode::Generic {
        return generic();
    }
    match gate.attach(nic.index, Mode::Native) {
        Ok(link) => Ok((link, Mode::Native)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(failed(name)(error)),
        Err(error) if wanted == WantedMode::Native => Err(Refused::NotNative { nic: name.into(), error }),
        Err(_) => generic(),
    }
}

fn keep(placed: Placed, pin: PathBuf, nic: &str) -> Result<Placed, Refused> {
    in_pins(|| placed.link.pin(&pin)).unwrap_or_else(Err).map_err(failed(format!("pinning the gate of {nic}")))?;
    Ok(Placed { pin: Some(pin), ..placed })
}

impl Placed {
    /// Takes the gate off its NIC. No frame may be on its way to a socket any more: first
    /// [`Gate::close`], then [`grace`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn remove(self) -> io::Result<()> {
        if let Some(pin) = &self.pin {
            in_pins(|| std::fs::remove_file(pin))??;
        }
        self.link.detach()
    }
}

/// Waits until no CPU works with what it read from a map before.
pub fn grace() {
    // Where the call is missing, the time it takes serves as well.
    if rustix::thread::membarrier(rustix::thread::MembarrierCommand::Global).is_err() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Calls `f` where pins are, and makes the place first.
fn in_pins<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    namespace::in_initial_mounts(|| {
        std::fs::create_dir_all(PINS)?;
        if statfs(PINS)?.f_type as u64 != BPF_FS {
            mount("weir", PINS, "bpf", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
        }
        Ok(f())
    })?
}

fn foreign(nic: &NicFacts, there: &XdpProgram) -> Refused {
    let link = link_of(nic.index, there.id);
    let kind = if link.is_some() { "link_id" } else { "prog_id" };
    let holder = match holder_of(kind, link.unwrap_or(there.id)) {
        Some(pid) => format!("held by process {pid} ({})", command_of(pid)),
        None => "held by no running process".into(),
    };
    let (mode, word) = match there.mode {
        XdpMode::Native => ("native", "xdpdrv"),
        XdpMode::Generic => ("generic", "xdpgeneric"),
        XdpMode::Hardware => ("hardware", "xdpoffload"),
        XdpMode::Several => ("more than one", "xdp"),
    };
    let remedy = match link {
        Some(link) => format!("bpftool link detach id {link}"),
        None => format!("ip link set dev {} {word} off", nic.name),
    };
    let program = format!("'{}' (number {})", there.name.as_deref().unwrap_or("unknown"), there.id);
    Refused::Foreign { nic: nic.name.clone(), program, mode: mode.into(), holder, remedy }
}

/// The number of the link that holds a program at a NIC, if a link does.
fn link_of(index: u32, program: u32) -> Option<u32> {
    libbpf_rs::query::LinkInfoIter::default()
        .find(|link| {
            let at = matches!(&link.info, libbpf_rs::query::LinkTypeInfo::Xdp(x) if x.ifindex == index);
            at && link.prog_id == program
        })
        .map(|link| link.id)
}

/// A process that has a descriptor of which the kernel says `key: id`.
fn holder_of(key: &str, id: u32) -> Option<u32> {
    let numbered = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    std::fs::read_dir("/proc").ok()?.filter_map(numbered).find(|pid| {
        let Ok(infos) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
        infos.filter_map(Result::ok).any(|info| {
            let text = std::fs::read_to_string(info.path()).unwrap_or_default();
            text.lines().any(|line| line.split_once(':').is_some_and(|(k, v)| k == key && v.trim() == id.to_string()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_before_what_it_was_missed_for() {
        let denied = failed("the name 'eth0-lo'")(io::ErrorKind::PermissionDenied.into()).to_string();
        assert_eq!(denied, "root is needed, call it with sudo (the name 'eth0-lo': permission denied)");
        let full = failed("eth0")(io::ErrorKind::StorageFull.into()).to_string();
        assert!(full.starts_with("eth0: "), "{full}");
    }

    #[test]
    fn a_pin_says_whose_it_is() {
        assert_eq!(pinned_for("nic-4026532290-17"), Some((4_026_532_290, 17)));
        for other in ["nic-1", "nic-a-1", "1-2", "nic-1-2-3"] {
            assert_eq!(pinned_for(other), None, "{other}");
        }
    }
}
