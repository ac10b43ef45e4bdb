//! Files that outlive their process, so that another can undo what it did: written whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::time::Duration;

/// No write of one of our files takes longer.
const LONGEST_WRITE: Duration = Duration::from_secs(60);

/// The machine as it runs now: another after each restart.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// Writes a file, and its folder if that is not there, so that after any interruption there is either the old one or the
/// new one. Its draft says whose it is.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let draft = path.with_extension(format!("{}.draft", process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(folder)?.sync_all()
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// A draft that its writer has not come to rename: it says which process that was, or else is older than any write takes.
pub(super) fn is_abandoned_draft(path: &Path) -> bool {
    let Some(stem) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".draft")) else { return false };
    if let Some(pid) = stem.rsplit('.').next().and_then(|word| word.parse::<u32>().ok()) {
        return !Path::new(&format!("/proc/{pid}")).exists();
    }
    let age = || fs::metadata(path).and_then(|m| m.modified()).ok()?.elapsed().ok();
    age().is_some_and(|age| age > LONGEST_WRITE)
}
