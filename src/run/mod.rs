//! Running on a real machine: NICs made ready and given back as they were.

pub mod nic;

/// Where a running weir keeps what others have to find: control sockets, pinned programs, settings to put back.
pub const DIRECTORY: &str = "/run/weir";
