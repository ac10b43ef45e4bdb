//! Namespaces: which network we are in, and a way into the mounts everybody sees.

use std::io;
use std::os::unix::fs::MetadataExt;

/// The number of the calling thread's network namespace.
///
/// # Errors
/// If `/proc` is not there.
pub fn network() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// Calls `f` where it sees the initial mount namespace. What is mounted or pinned in a private one
/// ends with it, and `ip netns exec` makes a private one for each command. Where the initial one
/// may not even be looked at, as in some sandboxes, `f` sees what this thread sees.
///
/// # Errors
/// If this thread is elsewhere and may not go there.
#[cfg(feature = "xdp")]
pub fn in_initial_mounts<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

    let Ok(initial) = File::open("/proc/1/ns/mnt") else { return Ok(f()) };
    if initial.metadata()?.ino() == std::fs::metadata("/proc/thread-self/ns/mnt")?.ino() {
        return Ok(f());
    }
    std::thread::scope(|s| {
        let there = s.spawn(|| {
            // SAFETY: this undoes the sharing of the working directory only, not of descriptors.
            unsafe { unshare_unsafe(UnshareFlags::FS)? };
            move_into_link_name_space(initial.as_fd(), Some(LinkNameSpaceType::Mount))?;
            Ok(f())
        });
        there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
