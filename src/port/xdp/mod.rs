//! AF_XDP: one UMEM for both NICs, a socket for every receive queue, and the gate that feeds them.
//!
//! With `src/sys` this is the only room where `unsafe` may live. The rings and the few socket
//! options are done here and not through libxdp: a direction fills from one NIC and completes on
//! another, every descriptor is checked against the pool's record of who has the frame, the kick
//! obeys the errors of `sendto`, and rings can be laid over plain memory for tests. What libxdp
//! would add, a dispatcher and its build (m4, a clang and an llc of one version), weir has no use
//! for.

#![allow(unsafe_code)]

pub mod ect1;
mod ends;
mod kick;
pub(crate) mod notes;
pub mod program;
mod rings;
mod socket;
mod umem;

pub use ends::{XdpRx, XdpTx};
pub use socket::{OpenError, Ports, Settings, SocketStatistics, open};
pub use umem::{Half, Umem};
