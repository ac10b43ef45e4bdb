//! What a wire needs is set on a NIC, and put back: by the guard when it is dropped, or, if the process was killed, by the
//! next guard for the same NIC, which finds the original settings in a file.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::checks::check;
use super::{Error, IfName, NicFacts, ethtool, netlink, wait_for_carrier, when};
use crate::run::kept::{self, boot};
use crate::sys::namespace::network;

/// What is switched off, and what would go wrong with it on.
pub(super) const SWITCHED_OFF: [(&str, &str); 8] = [
    ("rx-vlan-hw-parse", "the NIC takes VLAN tags out of the frames"),
    ("rx-vlan-stag-hw-parse", "the NIC takes 802.1ad tags out of the frames"),
    ("rx-vlan-filter", "the NIC keeps VLANs to itself that nobody here has asked for"),
    ("rx-lro", "the NIC merges TCP segments into frames that never were on the wire"),
    ("rx-gro-hw", "the NIC merges TCP segments into frames larger than the wire takes"),
    ("rx-gro", "the stack merges segments before a program in generic mode sees them"),
    ("rx-gro-list", "the stack chains segments before a program in generic mode sees them"),
    ("rx-udp-gro-forwarding", "the stack merges UDP datagrams before a program in generic mode sees them"),
];

const FORMAT: u32 = 1;
/// A link is back when it has had carrier for so long ...
const STABLE: Duration = Duration::from_millis(500);
/// ... and is not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// The original settings of a NIC, as kept in its file while they are changed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    format: u32,
    interface: String,
    index: u32,
    address: String,
    boot: String,
    owner: Owner,
    /// Features that were wanted on.
    features_on: Vec<String>,
}

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    /// Clock ticks after boot at which it started.
    started: u64,
}

impl Owner {
    fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The second field is the program's name in parentheses, which may hold anything; the start is the 22nd.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let started = after_name.split_whitespace().nth(19).and_then(|word| word.parse().ok());
        Ok(Owner { pid, started: started.ok_or(io::ErrorKind::InvalidData)? })
    }

    fn is_alive(self) -> bool {
        Owner::of(self.pid).is_ok_and(|now| now == self)
    }
}

/// A NIC that is ready to be the end of a wire. When this is dropped, the NIC is as it was.
#[derive(Debug)]
pub struct NicGuard {
    facts: NicFacts,
    originally_on: Vec<String>,
    file: PathBuf,
    warnings: Vec<String>,
    restored: bool,
    // Promiscuous mode lasts as long as this socket.
    _promiscuous: Socket,
}

impl NicGuard {
    /// Makes a NIC ready: promiscuous, and nothing that merges frames or takes tags out of them. All of it or nothing: on
    /// an error the NIC is as it was. The original settings are kept in a file in `directory` (`/run/weir`) meanwhile.
    ///
    /// # Errors
    /// There is no such interface, it cannot be the end of a wire (the first failing line of `weir doctor` says why), a
    /// living weir has it, or the kernel refuses a change.
    pub fn prepare(name: &IfName, directory: &Path) -> Result<Self, Error> {
        let facts = NicFacts::inspect(name)?;
        check(&facts)?;
        let file = file_of(&facts, directory)?;
        let left_over = read_kept(&file).filter(|kept| kept.is_of(&facts));
        let others = |kept: &&Kept| kept.owner.pid != process::id() && kept.owner.is_alive();
        if let Some(kept) = left_over.as_ref().filter(others) {
            let pid = kept.owner.pid;
            return Err(Error(format!(
                "{} is in the hands of a running weir, pid {pid}; to end it: kill {pid}",
                facts.name
            )));
        }
        let features =
            ethtool::features(&facts.name).map_err(when(format_args!("{}: cannot read features", facts.name)))?;
        let on_now = SWITCHED_OFF.iter().filter(|f| features.state(f.0).is_some_and(|s| s.wanted && s.changeable));
        let mut originally_on: Vec<String> = on_now.map(|f| f.0.to_string()).collect();
        // What a killed weir has left switched off was on before it.
        for feature in left_over.iter().flat_map(|kept| &kept.features_on) {
            if !originally_on.contains(feature) {
                originally_on.push(feature.clone());
            }
        }
        Kept::of(&facts, &originally_on)?.write(&file)?;
        let promiscuous = match make_promiscuous(&facts) {
            Ok(socket) => socket,
            Err(e) => {
                // Nothing was changed yet. If weir was killed before, its file still holds.
                if left_over.is_none() {
                    fs::remove_file(&file).ok();
                }
                return Err(e);
            }
        };
        // From here on, dropping the guard undoes what was done.
        let mut guard =
            NicGuard { facts, originally_on, file, warnings: Vec::new(), restored: false, _promiscuous: promiscuous };
        guard.switch_off(&features)?;
        guard.await_link()?;
        Ok(guard)
    }

    /// What the NIC was like before.
    pub fn facts(&self) -> &NicFacts {
        &self.facts
    }

    /// What could not be switched off, and what that means: for people, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a killed weir has left settings of this NIC to be put back.
    pub fn is_left_over(facts: &NicFacts, directory: &Path) -> bool {
        of_the_dead(facts, directory).is_ok_and(|left| left.is_some())
    }

    /// Removes what dead owners have left of interfaces of this namespace that are gone, of any namespace before the
    /// machine was started, and in the middle of writing.
    ///
    /// # Errors
    /// The namespace cannot be told.
    pub fn sweep(directory: &Path) -> Result<(), Error> {
        let (here, boot) = (format!(".{}{SUFFIX}", namespace()?), boot());
        for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = path.to_string_lossy();
            let over = |kept: Kept| {
                // The numbers of namespaces and interfaces are given again: another address is another interface.
                let is_there = || netlink::link(kept.index).is_ok_and(|link| link.written_address() == kept.address);
                kept.boot != boot || name.ends_with(&here) && !kept.owner.is_alive() && !is_there()
            };
            if (name.ends_with(SUFFIX) && read_kept(&path).is_some_and(over)) || kept::is_abandoned_draft(&path) {
                fs::remove_file(&path).ok();
            }
        }
        Ok(())
    }

    /// Removes what a dead owner has left of an interface that is gone, whatever its namespace.
    #[cfg(feature = "xdp")]
    pub(in crate::run) fn forget_one(index: u32, namespace: u64, directory: &Path) {
        let file = directory.join(format!("{index}.{namespace}{SUFFIX}"));
        if read_kept(&file).is_some_and(|kept| !kept.owner.is_alive()) {
            fs::remove_file(&file).ok();
        }
    }

    /// Puts back what a dead owner has left changed. Says whether there was something.
    ///
    /// # Errors
    /// The kernel refuses. The file with the original settings then stays.
    pub fn put_back_left_over(facts: &NicFacts, directory: &Path) -> Result<bool, Error> {
        let Some((file, kept)) = of_the_dead(facts, directory)? else { return Ok(false) };
        switch_on(facts.index, &kept.features_on)?;
        remove(&file)?;
        Ok(true)
    }

    /// Gives the NIC back as it was; as dropping the guard, but says what went wrong.
    ///
    /// # Errors
    /// The kernel refuses. The file with the original settings then stays.
    pub fn restore(mut self) -> Result<(), Error> {
        self.put_back()
    }

    fn switch_off(&mut self, features: &ethtool::Features) -> Result<(), Error> {
        let name = &self.facts.name;
        let off: Vec<(&str, bool)> = SWITCHED_OFF
            .iter()
            .filter(|f| features.state(f.0).is_some_and(|s| s.changeable && (s.wanted || s.active)))
            .map(|f| (f.0, false))
            .collect();
        if !off.is_empty() {
            features.set(name, &off).map_err(when(format_args!("{name}: cannot switch off {}", words(&off))))?;
        }
        let after = ethtool::features(name).map_err(when(format_args!("{name}: cannot read features")))?;
        for (feature, harm) in SWITCHED_OFF {
            if after.state(feature).is_some_and(|s| s.active) {
                self.warnings
                    .push(format!("{name}: {feature} stays on, the driver does not let it be switched off: {harm}"));
            }
        }
        Ok(())
    }

    /// Some NICs reset their link for a change of features; then it is waited for, and not for ever.
    fn await_link(&mut self) -> Result<(), Error> {
        let name = &self.facts.name;
        let link = netlink::link(self.facts.index).map_err(when(format_args!("{name} is gone")))?;
        let back = link.carrier || (self.facts.carrier && wait_for_carrier(self.facts.index, STABLE, PATIENCE)?);
        if !back {
            self.warnings.push(format!("{name}: no carrier; packets pass when something is at its other end"));
        }
        Ok(())
    }

    fn put_back(&mut self) -> Result<(), Error> {
        if self.restored {
            return Ok(());
        }
        self.restored = true;
        switch_on(self.facts.index, &self.originally_on)?;
        remove(&self.file)
    }
}

impl Drop for NicGuard {
    fn drop(&mut self) {
        if let Err(e) = self.put_back() {
            // Whoever reads it may be gone, which is no reason to leave more undone.
            let _ = writeln!(io::stderr(), "weir: {e}");
        }
    }
}

/// Switches features on by the interface's index: it may have been renamed, or be gone, which leaves nothing to put back.
fn switch_on(index: u32, features_on: &[String]) -> Result<(), Error> {
    let Ok(link) = netlink::link(index) else { return Ok(()) };
    let on: Vec<(&str, bool)> = features_on.iter().map(|f| (f.as_str(), true)).collect();
    if on.is_empty() {
        return Ok(());
    }
    let name = &link.name;
    let what = || format!("{name}: cannot switch {} back on; by hand: {}", words(&on), command(name, &on));
    let features = ethtool::features(name).map_err(|e| when(what())(e))?;
    features.set(name, &on).map_err(|e| when(what())(e))
}

fn remove(file: &Path) -> Result<(), Error> {
    kept::remove(file).map_err(when(format_args!("cannot remove {}", file.display())))
}

/// The process that has this NIC ready for a wire now.
pub(in crate::run) fn owner(facts: &NicFacts, directory: &Path) -> Option<u32> {
    let kept = read_kept(&file_of(facts, directory).ok()?)?;
    (kept.is_of(facts) && kept.owner.is_alive()).then_some(kept.owner.pid)
}

/// The command that switches features off.
pub(super) fn command_off(facts: &NicFacts) -> String {
    let off: Vec<(&str, bool)> = facts.merging_or_stripping.iter().map(|f| (f.as_str(), false)).collect();
    command(&facts.name, &off)
}

/// The original settings that a killed weir has left in `directory`, as the command that puts them back.
pub fn left_over(facts: &NicFacts, directory: &Path) -> Option<String> {
    let (_, kept) = of_the_dead(facts, directory).ok()??;
    let on: Vec<(&str, bool)> = kept.features_on.iter().map(|f| (f.as_str(), true)).collect();
    (!on.is_empty()).then(|| command(&facts.name, &on))
}

fn words(features: &[(&str, bool)]) -> String {
    features.iter().map(|f| f.0).collect::<Vec<_>>().join(", ")
}

fn command(interface: &str, features: &[(&str, bool)]) -> String {
    let words: Vec<String> = features.iter().map(|(f, on)| format!("{f} {}", if *on { "on" } else { "off" })).collect();
    format!("ethtool -K {interface} {}", words.join(" "))
}

const SUFFIX: &str = ".nic.json";

/// One file for each interface of each namespace. By its index, since it may have another name when it is looked for.
fn file_of(facts: &NicFacts, directory: &Path) -> Result<PathBuf, Error> {
    Ok(directory.join(format!("{}.{}{SUFFIX}", facts.index, namespace()?)))
}

/// The number of this network namespace.
fn namespace() -> Result<u64, Error> {
    network().map_err(when("cannot tell the network namespace"))
}

/// Removes what killed processes have kept of interfaces that went with them: files in `directory` of interfaces for which
/// `gone` is true. Gives the number of files.
pub fn forget(directory: &Path, gone: impl Fn(&str) -> bool) -> usize {
    let mut forgotten = 0;
    for file in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if !file.to_string_lossy().ends_with(SUFFIX) {
            continue;
        }
        let dead = read_kept(&file).is_some_and(|kept| gone(&kept.interface) && !kept.owner.is_alive());
        forgotten += usize::from(dead && fs::remove_file(&file).is_ok());
    }
    forgotten
}

/// What a dead owner has kept of an interface, and where.
fn of_the_dead(facts: &NicFacts, directory: &Path) -> Result<Option<(PathBuf, Kept)>, Error> {
    let file = file_of(facts, directory)?;
    let kept = read_kept(&file).filter(|kept| kept.is_of(facts) && !kept.owner.is_alive());
    Ok(kept.map(|kept| (file, kept)))
}

fn read_kept(file: &Path) -> Option<Kept> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

impl Kept {
    fn of(facts: &NicFacts, features_on: &[String]) -> Result<Self, Error> {
        Ok(Kept {
            format: FORMAT,
            interface: facts.name.clone(),
            index: facts.index,
            address: facts.address.clone(),
            boot: boot(),
            owner: Owner::of(process::id()).map_err(when("cannot read /proc"))?,
            features_on: features_on.to_vec(),
        })
    }

    /// Speaks of this interface and not of one that had its name and number before.
    fn is_of(&self, facts: &NicFacts) -> bool {
        (self.format, self.index, &self.address, &self.boot) == (FORMAT, facts.index, &facts.address, &boot())
    }

    fn write(&self, file: &Path) -> Result<(), Error> {
        let write = || kept::replace(file, &serde_json::to_vec_pretty(self)?);
        write().map_err(when(format_args!("cannot keep the settings of {} in {}", self.interface, file.display())))
    }
}

/// A packet socket that receives nothing and holds a membership in promiscuous mode.
fn make_promiscuous(facts: &NicFacts) -> Result<Socket, Error> {
    let name = &facts.name;
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)
        .map_err(when(format_args!("{name}: no packet socket (CAP_NET_RAW is needed: call it as root)")))?;
    crate::sys::join_promiscuous(socket.as_fd(), facts.index)
        .map_err(when(format_args!("{name}: cannot become promiscuous")))?;
    let link = netlink::link(facts.index).map_err(when(format_args!("{name} is gone")))?;
    if link.promiscuity == 0 {
        return Err(Error(format!("{name}: the kernel took the membership, but the interface is not promiscuous")));
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_with_its_number_but_another_start_is_not() {
        let me = Owner::of(process::id()).expect("/proc");
        assert!(me.is_alive());
        assert!(!Owner { started: me.started + 1, ..me }.is_alive());
    }

    #[test]
    fn features_are_put_back_by_a_command_that_can_be_typed() {
        assert_eq!(command("eth1", &[("rx-gro", true), ("rx-lro", false)]), "ethtool -K eth1 rx-gro on rx-lro off");
    }
}
