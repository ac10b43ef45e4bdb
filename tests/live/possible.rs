//! Whether tests with namespaces can run here.

/// Whether this process may make namespaces; says so if not.
pub(crate) fn possible() -> bool {
    let enter = || weir::sys::enter_new_network_namespace().is_ok();
    let possible = std::thread::spawn(enter).join().expect("no panic");
    if !possible {
        eprintln!("SKIPPED: needs root");
    }
    possible
}
