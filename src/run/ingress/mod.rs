//! An ingress shaper: a pair of interfaces like `ifb`, with weir between it and WAN. The host lives at its end of the
//! pair, which has WAN's hardware address; whatever comes from WAN has passed weir before the host sees it.
//!
//! What the host has on WAN can be moved to its end of the pair, and goes back at the end: addresses, routes and permanent
//! neighbours as the kernel tells them, and WAN's settings are copied. Each step can be taken again without harm, and the
//! record (`record.rs`) is written before the first, so that whoever finds it can finish or undo what a dead owner began.

mod carried;
mod pair;
mod record;
mod sysctl;

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use self::carried::Carried;
use self::pair::Pair;
use self::record::{Phase, Record};
use super::attach::{self, Lock};
use super::bridge::{self, Bridge};
use super::left::{self, give_back};
use super::nic::{self, IfName, NicFacts, NicGuard, can_be_named, netlink};
use crate::port::xdp::Settings as PortSettings;
use crate::run::DIRECTORY;

/// What went wrong, in words for people: names the interface, and what to type where something helps.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(why: String) -> Self {
        Error(why)
    }
}

fn say(e: impl fmt::Display) -> Error {
    Error(e.to_string())
}

fn when(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
    move |e| Error(format!("{what}: {e}"))
}

/// The name of an interface to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewName(String);

impl FromStr for NewName {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let wrong = if word.is_empty() || matches!(word, "." | ".." | "all" | "default") {
            "cannot be one"
        } else if word.len() >= libc::IFNAMSIZ {
            "is longer than 15 bytes"
        } else if !can_be_named(word) || word.contains([':', '%']) {
            "has a slash, a colon, a percent sign or a space in it"
        } else {
            return Ok(NewName(word.into()));
        };
        Err(Error(format!("the name '{word}' for a new interface {wrong}; take one like ifb-wan")))
    }
}

impl fmt::Display for NewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The interface behind which the bottleneck is.
    pub wan: IfName,
    /// How the host's end of the pair is called.
    pub host: NewName,
    /// Move what the host has on WAN to its end of the pair, and back.
    pub moves: bool,
}

/// A pair at work. Dropping it takes everything back; the bridge between WAN and the pair must have ended before.
#[derive(Debug)]
pub struct Ingress {
    record: Record,
    host: String,
    adopted: bool,
    undone: bool,
    _lock: Lock,
}

impl Ingress {
    /// Makes the pair, starts a bridge between WAN and it, and moves what is to be moved. `settings` are the bridge's but
    /// for its NICs.
    ///
    /// # Errors
    /// If anything is in the way; everything is as it was then.
    pub fn start(wanted: &Wanted, settings: &bridge::Settings) -> Result<(Ingress, Bridge), Error> {
        let directory = Path::new(DIRECTORY);
        let mut wan = NicFacts::inspect(&wanted.wan).map_err(say)?;
        check_wan(&wan)?;
        let lock = Lock::wan(wan.index, &wan.name).map_err(say)?;
        // Only to see that they can be had: the bridge takes them.
        Lock::name(&settings.name).map_err(say)?;
        Lock::nic(wan.index, &wan.name).map_err(say)?;
        sweep(directory)?;

        let left = Record::find(&wan, directory).map_err(when(directory.display()))?;
        let adopted = left.as_ref().map(|record| can_be_adopted(record, wanted)).transpose()?.unwrap_or(false);
        let mut ingress = match left {
            Some(record) if adopted => {
                Ingress { record, host: wanted.host.0.clone(), adopted, undone: false, _lock: lock }
            }
            left => {
                if let Some(record) = left {
                    undo(record, &wan, directory)?;
                    wan = NicFacts::inspect(&wanted.wan).map_err(say)?;
                }
                check_names(&wan, &wanted.host)?;
                let carried = if wanted.moves { what_can_move(&wan)? } else { Carried::default() };
                let mut record = Record::new(&wan, &wanted.host.0).map_err(when(&wan.name))?;
                record.carried = carried;
                record.write(directory)?;
                let host = wanted.host.0.clone();
                // From here on, dropping it undoes what was done.
                let ingress = Ingress { record, host, adopted, undone: false, _lock: lock };
                ingress.make_pair(&wan)?;
                ingress
            }
        };
        pair::finish_frames(&ingress.host)?;
        let peer = ingress.record.peer.parse().map_err(say)?;
        let settings = bridge::Settings { nics: [wanted.wan.clone(), peer], ..settings.clone() };
        let mut bridge = Bridge::start(&settings).map_err(say)?;
        bridge.show_as(1, &ingress.host);
        if wanted.moves && !adopted {
            ingress.go_there()?;
        }
        if let Some(value) = sysctl::get(&wan.name, sysctl::ACCEPT_DAD) {
            sysctl::set(&ingress.host, sysctl::ACCEPT_DAD, &value)?;
        }
        Ok((ingress, bridge))
    }

    /// Whether the pair of a dead owner was taken over as it was.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    /// How many addresses and routes were moved.
    pub fn moved(&self) -> Option<(usize, usize)> {
        (self.record.phase == Phase::Moved).then(|| self.record.carried.counts())
    }

    /// Addresses that are on WAN now, where they do not answer.
    pub fn stranded(&self) -> Vec<String> {
        let now = Carried::of(self.record.index, &self.record.wan);
        now.map(|c| c.addresses().into_iter().map(String::from).collect()).unwrap_or_default()
    }

    /// Looks whether the host's end still finishes its frames, and makes it do so again. Gives lines for people.
    pub fn watch(&self) -> impl Fn() -> Vec<String> + use<> {
        let host = self.host.clone();
        move || match pair::finish_frames(&host) {
            Ok(on) if !on.is_empty() => vec![format!(
                "somebody had switched on {} at {host}, with which frames leave it unfinished; switched off again",
                on.join(", ")
            )],
            // It may have another name by now; that is not worth a line a second.
            _ => vec![],
        }
    }

    /// Takes everything back; as dropping it, but says what went wrong.
    ///
    /// # Errors
    /// What could not be put back. The record stays then, and the next start tries again.
    pub fn restore(mut self) -> Result<(), Error> {
        self.take_back()
    }

    fn take_back(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.undone, true) {
            return Ok(());
        }
        let name = self.record.wan.parse().map_err(say)?;
        let wan = NicFacts::inspect(&name).ok().filter(|wan| wan.index == self.record.index);
        match wan.or_else(|| by_index(self.record.index)) {
            Some(wan) => undo(self.record.clone(), &wan, Path::new(DIRECTORY)),
            None => forget(&self.record, Path::new(DIRECTORY)),
        }
    }

    fn make_pair(&self, wan: &NicFacts) -> Result<(), Error> {
        let host = &self.host;
        let [host_index, peer_index] =
            pair::make(wan, host, &self.record.peer).map_err(when(format_args!("cannot make the pair {host}")))?;
        pair::finish_frames(host)?;
        sysctl::copy(&wan.name, host).map_err(when(format_args!("the settings of {host}")))?;
        // The link has been asked for the address that it makes of WAN's, and for those that move, by WAN.
        sysctl::set(host, sysctl::ACCEPT_DAD, "0")?;
        // weir's end has nothing to say of itself.
        sysctl::set(&self.record.peer, sysctl::DISABLE_IPV6, "1")?;
        for (index, name) in [(host_index, host), (peer_index, &self.record.peer)] {
            netlink::set_up(index).map_err(when(format_args!("cannot set {name} up")))?;
        }
        Ok(())
    }

    /// Moves everything from WAN to the host's end.
    fn go_there(&mut self) -> Result<(), Error> {
        let directory = Path::new(DIRECTORY);
        let wan = self.record.wan.clone();
        // What has happened since it was first read, as a lease renewed.
        self.record.carried = Carried::of(self.record.index, &wan).map_err(when(&wan))?;
        for setting in [sysctl::DISABLE_IPV6, sysctl::ACCEPT_DAD] {
            if let Some(value) = sysctl::get(&wan, setting) {
                self.record.sysctls.insert(setting.into(), value);
            }
        }
        self.record.phase = Phase::Moving;
        self.record.write(directory)?;
        let gone = || Error(format!("{} is gone", self.host));
        let Pair { host: Some((index, host)), .. } = find_pair(&self.record.peer)?.ok_or_else(gone)? else {
            return Err(gone());
        };
        let failed = |why: String| Error(format!("cannot move what {wan} has to {host}, so all of it stays: {why}"));
        let put = |carried: &Carried| match carried.put(index, &host).as_slice() {
            [] => Ok(()),
            failures => Err(failed(failures.join("; "))),
        };
        put(&self.record.carried)?;
        self.record.carried.take_off().map_err(failed)?;
        sysctl::set(&wan, sysctl::DISABLE_IPV6, "1").map_err(failed)?;
        // With an address, routes by it may have gone at its other place, too.
        put(&self.record.carried)?;
        let missing = self.record.carried.missing_on(index, &host).map_err(|e| failed(e.to_string()))?;
        if !missing.is_empty() {
            return Err(failed(format!("the kernel does not show {} there", missing.join(", "))));
        }
        self.record.phase = Phase::Moved;
        self.record.write(directory)?;
        Ok(())
    }
}

impl Drop for Ingress {
    fn drop(&mut self) {
        if let Err(e) = self.take_back() {
            // Whoever reads it may be gone.
            let _ = writeln!(std::io::stderr(), "weir: {e}");
        }
    }
}

/// Undoes what a dead `weir ingress` has left at an interface. Says whether there was something.
///
/// # Errors
/// If its owner lives, or something cannot be put back.
pub fn restore(name: &IfName) -> Result<bool, Error> {
    let directory = Path::new(DIRECTORY);
    let wan = NicFacts::inspect(name).map_err(say)?;
    let _lock = Lock::wan(wan.index, &wan.name).map_err(say)?;
    sweep(directory)?;
    let record = Record::find(&wan, directory).map_err(when(directory.display()))?;
    let found = record.is_some();
    record.map_or(Ok(()), |record| undo(record, &wan, directory))?;
    left::sweep(directory);
    Ok(found)
}

/// What a dead `weir ingress` has left at an interface, and the command that undoes it.
pub fn left_over(wan: &NicFacts) -> Option<(String, String)> {
    let record = Record::find(wan, Path::new(DIRECTORY)).ok()??;
    let dead = Lock::wan(wan.index, &wan.name).is_ok();
    let moved = if record.phase == Phase::Pair { "" } else { ", which has its addresses" };
    dead.then(|| {
        (
            format!("a weir ingress that was killed has left {} in front of it{moved}", record.host),
            format!("weir ingress {} --restore   (or start it again as before)", wan.name),
        )
    })
}

/// Puts everything on WAN that belongs there, and removes the pair. Can be done again, from wherever it was interrupted.
fn undo(mut record: Record, wan: &NicFacts, directory: &Path) -> Result<(), Error> {
    let name = &wan.name;
    let pair = find_pair(&record.peer)?;
    if record.phase == Phase::Moved {
        // What the host has now is what counts, and not what it had when it was moved there.
        if let Some((index, host)) = pair.as_ref().and_then(|p| p.host.as_ref()) {
            record.carried = Carried::of(*index, host).map_err(when(host))?;
        }
        record.phase = Phase::Moving;
        record.write(directory)?;
    }
    // From here on everything is done that can be, and what cannot is told at the end.
    let mut failures = Vec::new();
    let moves = record.phase == Phase::Moving;
    if moves {
        failures.extend(sysctl::set(name, sysctl::ACCEPT_DAD, "0").err());
        if let Some(value) = record.sysctls.get(sysctl::DISABLE_IPV6) {
            failures.extend(sysctl::set(name, sysctl::DISABLE_IPV6, value).err());
        }
        // What fails here is tried once more below.
        record.carried.put(wan.index, name);
    }
    failures.extend(give_back(wan).err());
    if let Some(pair) = pair {
        if let Some(peer) = by_index(pair.peer) {
            failures.extend(give_back(&peer).err());
        }
        failures.extend(netlink::delete_link(pair.peer).err().map(|e| format!("{}: {e}", record.peer)));
    }
    // Of a pair that somebody else removed.
    failures.extend(NicGuard::sweep(directory).err().map(|e| e.to_string()));
    failures.extend(attach::sweep().err().map(|e| format!("pinned programs: {e}")));
    if moves {
        // With an address, routes by it may have gone at its other place, too.
        failures.extend(record.carried.put(wan.index, name));
        if let Some(value) = record.sysctls.get(sysctl::ACCEPT_DAD) {
            failures.extend(sysctl::set(name, sysctl::ACCEPT_DAD, value).err());
        }
        let missing = record.carried.missing_on(wan.index, name).map_err(when(name))?;
        failures.extend(missing.into_iter().map(|what| format!("{what} is not there")));
    }
    if failures.is_empty() {
        return Ok(record.remove(directory)?);
    }
    Err(Error(format!(
        "cannot give {name} back all it had: {}; when that is settled: weir ingress {name} --restore; \
         to give up on it: rm {}",
        failures.join("; "),
        record.file(directory).display()
    )))
}

/// Removes what is left of a record whose WAN is gone.
fn forget(record: &Record, directory: &Path) -> Result<(), Error> {
    // After a restart of the machine, an interface of that name is another one.
    let pair = if record.is_current() { find_pair(&record.peer)? } else { None };
    if let Some(pair) = pair {
        netlink::delete_link(pair.peer).map_err(when(format_args!("cannot remove {}", record.peer)))?;
    }
    Ok(record.remove(directory)?)
}

/// Removes what dead owners have left of pairs whose WAN is gone.
fn sweep(directory: &Path) -> Result<(), Error> {
    let links = netlink::links().map_err(when("cannot list the interfaces"))?;
    let there: Vec<(u32, String)> = links.iter().map(|l| (l.index, l.written_address())).collect();
    for record in Record::orphans(&there, directory).map_err(when(directory.display()))? {
        forget(&record, directory)?;
    }
    Ok(())
}

fn find_pair(peer: &str) -> Result<Option<Pair>, Error> {
    pair::find(peer).map_err(when("cannot list the interfaces"))
}

fn by_index(index: u32) -> Option<NicFacts> {
    let name = netlink::link(index).ok()?.name;
    NicFacts::inspect(&name.parse().ok()?).ok()
}

/// Whether what a dead owner left is what is wanted now, whole and at work.
fn can_be_adopted(record: &Record, wanted: &Wanted) -> Result<bool, Error> {
    let as_wanted = if wanted.moves { Phase::Moved } else { Phase::Pair };
    let host = find_pair(&record.peer)?.and_then(|pair| pair.host);
    let is_up = |index| netlink::link(index).is_ok_and(|l| l.up);
    Ok(record.phase == as_wanted && host.is_some_and(|(index, name)| name == wanted.host.0 && is_up(index)))
}

/// Refuses a WAN in front of which there can be no pair.
fn check_wan(wan: &NicFacts) -> Result<(), Error> {
    let name = &wan.name;
    if let Some(refusal) = nic::refusal(wan) {
        return Err(Error(refusal.to_string()));
    }
    if !wan.carrier {
        return Err(Error(format!(
            "{name} has no carrier: nothing is at the other end of its cable; \
             start again when `ip -br link show dev {name}` says UP"
        )));
    }
    if wan.mtu > PortSettings::LARGEST_MTU {
        return Err(say(bridge::Error::Mtu { nic: name.clone(), mtu: wan.mtu }));
    }
    attach::check_program(wan).map_err(say)?;
    let links = netlink::links().map_err(when("cannot list the interfaces"))?;
    let stacked = |l: &&netlink::Link| {
        l.peer.is_some_and(|p| p.elsewhere.is_none() && p.index == wan.index) && l.kind.as_deref() != Some("veth")
    };
    if let Some(above) = links.iter().find(stacked) {
        let (upper, kind) = (&above.name, above.kind.as_deref().unwrap_or("interface"));
        return Err(Error(format!(
            "the {kind} {upper} is on top of {name} and would get nothing any more; \
             take it away with `ip link del {upper}`, and make it on the new interface afterwards"
        )));
    }
    Ok(())
}

/// Refuses names that are taken.
fn check_names(wan: &NicFacts, host: &NewName) -> Result<(), Error> {
    let peer = Record::new(wan, &host.0).map_err(when(&wan.name))?.peer;
    let links = netlink::links().map_err(when("cannot list the interfaces"))?;
    for name in [&host.0, &peer] {
        if links.iter().any(|l| l.name == *name || l.alt_names.contains(name)) {
            return Err(Error(format!(
                "there is an interface {name} already, and weir makes its own; \
                 choose another --host, or remove it with `ip link del {name}`"
            )));
        }
    }
    Ok(())
}

/// What is on WAN, refused if part of it cannot be moved.
fn what_can_move(wan: &NicFacts) -> Result<Carried, Error> {
    let name = &wan.name;
    let rules = carried::rules_naming(name).map_err(when("cannot read the rules"))?;
    if let Some(rule) = rules.first() {
        let priority = rule.split(':').next().unwrap_or_default();
        return Err(Error(format!(
            "the rule '{rule}' names {name}, and weir does not move rules; \
             remove it with `ip rule del priority {priority}` and make it for the new interface, \
             or move by hand and leave --move-addresses out"
        )));
    }
    let carried = Carried::of(wan.index, name).map_err(when(format_args!("cannot read what {name} has")))?;
    match carried.obstacle() {
        Some(why) => Err(Error(why)),
        None => Ok(carried),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_interface_has_a_name_that_the_kernel_and_its_settings_can_have() {
        for good in ["ifb0", "wan.shaped", "a23456789012345"] {
            assert_eq!(good.parse::<NewName>().expect("a name").to_string(), good);
        }
        for bad in ["", "..", "all", "a/b", "eth0:1", "if%d", "a b", "a234567890123456"] {
            assert!(bad.parse::<NewName>().is_err(), "{bad}");
        }
    }
}
