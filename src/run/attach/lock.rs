//! Who may shape what: one living process owns a name, a NIC or a WAN at a time.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{PATIENCE, Refused, failed};
use crate::run::DIRECTORY;
use crate::sys::namespace;

/// Refuses what cannot be the name of an instance: it becomes the name of a file.
///
/// # Errors
/// [`Refused::BadName`].
pub fn check_name(name: &str) -> Result<(), Refused> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:@-".contains(c);
    let good = (1..=64).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with(['.', '-']);
    if good { Ok(()) } else { Err(Refused::BadName(name.into())) }
}

/// Something that one living process owns at a time.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Owns the name of an instance.
    ///
    /// # Errors
    /// If it is no name, or has a living owner.
    pub fn name(name: &str) -> Result<Lock, Refused> {
        check_name(name)?;
        Lock::take(&format!("{name}.lock"), &format!("the name '{name}'"))
    }

    /// Owns a NIC of this network namespace.
    ///
    /// # Errors
    /// If it has a living owner.
    pub fn nic(index: u32, name: &str) -> Result<Lock, Refused> {
        let namespace = namespace::network().map_err(failed("this network namespace"))?;
        // No instance can have such a name: it starts with a dot.
        Lock::take(&format!(".nic-{namespace}-{index}.lock"), name)
    }

    /// Owns an interface of this network namespace as the WAN of `weir ingress`.
    ///
    /// # Errors
    /// If it has a living owner.
    pub fn wan(index: u32, name: &str) -> Result<Lock, Refused> {
        let namespace = namespace::network().map_err(failed("this network namespace"))?;
        Lock::take(&format!(".wan-{namespace}-{index}.lock"), name)
    }

    fn take(file: &str, what: &str) -> Result<Lock, Refused> {
        std::fs::create_dir_all(DIRECTORY).map_err(failed(DIRECTORY))?;
        sweep_locks(file);
        let path = Path::new(DIRECTORY).join(file);
        let mut tries = PATIENCE.0;
        loop {
            let mut open = File::options();
            let mut file =
                open.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed(what))?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Its last owner may have removed it in between; then we locked what nobody sees.
                let seen = std::fs::metadata(&path).map(|m| m.ino()).ok();
                if seen == file.metadata().map(|m| m.ino()).ok() {
                    file.set_len(0).map_err(failed(what))?;
                    write!(file, "{}", std::process::id()).map_err(failed(what))?;
                    return Ok(Lock { file, path });
                }
                continue;
            }
            let pid = owner(&mut file);
            let state = state_of(pid);
            tries -= 1;
            if tries == 0 || state == Some('T') {
                let command = command_of(pid);
                return Err(Refused::Owned { what: what.into(), pid, command, stopped: state == Some('T') });
            }
            std::thread::sleep(PATIENCE.1);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Removes the locks that dead owners left, but for the one called `but`. Whoever takes one of them
/// meanwhile sees that it is gone, and tries again.
fn sweep_locks(but: &str) {
    for entry in std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name == but || !name.as_bytes().ends_with(b".lock") {
            continue;
        }
        if File::open(entry.path()).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn owner(file: &mut File) -> u32 {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0)
}

/// The letter that `/proc` has for what a process is doing.
fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything, brackets too.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// What a process was called with.
pub(super) fn command_of(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = bytes.split(|b| *b == 0).filter(|w| !w.is_empty()).map(String::from_utf8_lossy).collect();
    if words.is_empty() { "unknown".into() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_directory() {
        for good in ["eth0-eth1", "lab", "a.b:c@d_e"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(65);
        for bad in ["", ".", "..", "../x", "a/b", "-x", ".nic-1-2", "a b", "ä", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_state_and_its_words() {
        let me = std::process::id();
        assert!(matches!(state_of(me), Some('R' | 'S')));
        assert!(!command_of(me).is_empty());
        assert_eq!(state_of(u32::MAX), None);
    }
}
