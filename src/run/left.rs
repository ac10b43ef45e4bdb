//! What a killed weir has left, at a NIC and in its directory: found, told, and undone.

use std::path::Path;

use super::attach::{self, Lock};
use super::nic::{self, IfName, NicFacts, NicGuard};
use super::{DIRECTORY, control, ingress};

/// Takes the gate of a dead owner off an interface, and puts its features back. Says whether there was something.
///
/// # Errors
/// If the kernel refuses.
pub fn give_back(nic: &NicFacts) -> Result<bool, String> {
    let gate = attach::take_off(nic).map_err(|e| format!("cannot take the gate off {}: {e}", nic.name))?;
    let features = NicGuard::put_back_left_over(nic, Path::new(DIRECTORY)).map_err(|e| e.to_string())?;
    Ok(gate || features)
}

/// Undoes what a dead `weir bridge` has left at an interface. Says whether there was something.
///
/// # Errors
/// If its owner lives, or it is the WAN of a dead `weir ingress`, or the kernel refuses.
pub fn restore(name: &IfName) -> Result<bool, String> {
    let nic = NicFacts::inspect(name).map_err(|e| e.to_string())?;
    let _lock = Lock::nic(nic.index, &nic.name).map_err(|e| e.to_string())?;
    if let Some((what, command)) = ingress::left_over(&nic) {
        return Err(format!("{}: {what}; {command}", nic.name));
    }
    let found = give_back(&nic)?;
    sweep(Path::new(DIRECTORY));
    Ok(found)
}

/// What a dead weir has left at an interface, and the command that undoes it.
pub fn left_over(nic: &NicFacts) -> Option<(String, String)> {
    let ingress = ingress::left_over(nic);
    if ingress.is_some() {
        return ingress;
    }
    if nic::owner(nic, Path::new(DIRECTORY)).is_some() {
        return None;
    }
    let what = match (attach::is_pinned(nic), NicGuard::is_left_over(nic, Path::new(DIRECTORY))) {
        (false, false) => return None,
        (true, false) => "its gate",
        (false, true) => "settings changed",
        (true, true) => "its gate, and settings changed",
    };
    Lock::nic(nic.index, &nic.name).ok()?;
    Some((
        format!("a weir bridge that was killed has left {what}"),
        format!("weir bridge {} --restore   (or start it again as before)", nic.name),
    ))
}

/// The interfaces of this namespace at which a dead weir has left something, with the command that undoes it.
pub fn everywhere() -> Vec<(String, String)> {
    let there = NicFacts::all().unwrap_or_default().into_iter();
    there.filter_map(|nic| Some((nic.name.clone(), left_over(&nic)?.1))).collect()
}

/// Removes what dead owners have left in the directory of interfaces that are gone, and their sockets. What cannot be
/// removed is in nobody's way.
pub fn sweep(directory: &Path) {
    let _ = NicGuard::sweep(directory);
    let _ = attach::sweep();
    // Whoever looks for instances takes away the sockets of dead ones.
    control::names(directory);
}
