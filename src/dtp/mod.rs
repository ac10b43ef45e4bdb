//! The ends of an Ouroboros layer, as far as congestion avoidance goes (`spec/mb-ecn.md` §2 and §6):
//! frames, the receiver that averages and reports, the controller of a path, and the packet
//! scheduler that divides its rate among flows. The simulator and the live load share it; nothing
//! here reads a clock or touches a socket, and the shaper itself uses none of it.
//!
//! ```text
//!  flows ── tags ── path ── pace ──► frames ── … weir … ──► receiver
//!                    ▲                                         │
//!                controller ◄──── flow updates: ece, cap ──────┘
//! ```

pub mod codes;
pub mod controller;
pub mod frame;
pub mod path;
pub mod receiver;
pub mod reliable;
pub mod writer;

pub use codes::Codes;
pub use controller::{Controller, Regime, Tuning};
pub use path::Path;
pub use receiver::{Receiver, Report};
pub use writer::Writer;

/// The time between two flow updates of a path, ns: 67 ms (`spec/mb-ecn.md` §6.1).
pub const UPDATE: u64 = 1 << 26;
