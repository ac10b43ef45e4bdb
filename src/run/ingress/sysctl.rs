//! The settings of an interface under `/proc/sys/net/ipv4/conf` and `/proc/sys/net/ipv6/conf`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Settings by family and name (`ipv6/accept_dad`), with their values.
pub(super) type Sysctls = BTreeMap<String, String>;

/// No IPv6 on an interface: no addresses, no routes, no solicitations.
pub(super) const DISABLE_IPV6: &str = "ipv6/disable_ipv6";
/// Whether a new address is asked for on the link before it is used.
pub(super) const ACCEPT_DAD: &str = "ipv6/accept_dad";

/// What is an interface's own, or is set apart here.
const OWN: [&str; 5] = ["ipv6/stable_secret", "ipv6/mtu", "ipv4/mc_forwarding", "ipv6/mc_forwarding", ACCEPT_DAD];
/// What changes others when it is written, so it goes first.
const FIRST: [&str; 2] = ["ipv4/forwarding", "ipv6/forwarding"];

fn path(interface: &str, setting: &str) -> Option<PathBuf> {
    let (family, name) = setting.split_once('/')?;
    // Names of interfaces may hold dots; a path has no trouble with them.
    Some(Path::new("/proc/sys/net").join(family).join("conf").join(interface).join(name))
}

/// A setting of an interface; `None` where this kernel has no such thing, as without IPv6.
pub(super) fn get(interface: &str, setting: &str) -> Option<String> {
    Some(fs::read_to_string(path(interface, setting)?).ok()?.trim().to_string())
}

/// Sets it, where there is such a thing.
pub(super) fn set(interface: &str, setting: &str, value: &str) -> Result<(), String> {
    let now = get(interface, setting);
    if now.is_none() || now.as_deref() == Some(value) {
        return Ok(());
    }
    let path = path(interface, setting).ok_or("no such setting")?;
    fs::write(&path, value).map_err(|e| format!("cannot write {value} to {}: {e}", path.display()))
}

/// Sets on one interface what is set on another, as far as the kernel takes it.
pub(super) fn copy(from: &str, to: &str) -> io::Result<()> {
    let mut names: Vec<String> = FIRST.map(String::from).to_vec();
    for family in ["ipv4", "ipv6"] {
        for entry in fs::read_dir(Path::new("/proc/sys/net").join(family).join("conf").join(from)).into_iter().flatten()
        {
            names.push(format!("{family}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    for name in names.iter().filter(|name| !OWN.contains(&name.as_str())) {
        if let Some(value) = get(from, name) {
            // What cannot be written is the kernel's to decide, as how addresses are made without a secret.
            let _ = set(to, name, &value);
        }
    }
    Ok(())
}
