//! The live driver: NICs made ready and given back, the gate attached and detached, threads and the clock.
//!
//! Everything with a lock, a log line or an allocation that depends on the run lives here and not
//! on the data path.

#[cfg(feature = "xdp")]
pub mod alarms;
#[cfg(feature = "xdp")]
pub mod attach;
#[cfg(feature = "xdp")]
pub mod autorate;
#[cfg(feature = "xdp")]
pub mod bridge;
#[cfg(feature = "xdp")]
pub mod clock;
pub mod control;
pub mod hist;
#[cfg(feature = "xdp")]
pub mod ingress;
#[cfg(feature = "xdp")]
pub mod journal;
mod kept;
#[cfg(feature = "xdp")]
pub mod left;
#[cfg(feature = "xdp")]
pub mod links;
pub mod nic;
pub mod quiet;
#[cfg(feature = "xdp")]
pub mod worker;

/// Where a running weir keeps what others have to find: control sockets, pinned programs, settings to put back.
pub const DIRECTORY: &str = "/run/weir";
