//! weir: CAKE and CoDel in user space.
//!
//! The house has floors, and each imports only from those below it:
//!
//! * [`time`], [`units`], [`rng`], [`packet`], [`pool`]: plain types. Time is an argument everywhere.
//! * [`wire`]: bounded lenses on the bytes of a frame. [`classify`]: bytes to what the queues need.
//! * [`mark`]: what may be done to the DS byte. [`qdisc`]: the disciplines, one file or folder each.
//! * [`spec`]: the words people write (`tc`'s), to the parameters of the disciplines and back.
//! * [`stats`]: counters, histograms, `tc`'s text and JSON.
//! * [`pipeline`]: stages in a row. [`trace`]: virtual time over a table of arrivals.
//! * [`dtp`]: the ends of a layer that speaks multi-bit ECN, sans-IO, for [`sim`] and the live load.
//! * [`port`]: where frames come from and go to. [`engine`]: one direction's data plane.
//! * [`run`]: the live driver: threads, clock, attaching (feature `xdp`, as `port::xdp`).
//!
//! ARCHITECTURE.md has the picture, the frame's route and the invariants.

pub mod autorate;
pub mod classify;
pub mod dtp;
pub mod engine;
pub mod lab;
pub mod mark;
pub mod packet;
pub mod pipeline;
pub mod pool;
pub mod port;
pub mod qdisc;
pub mod report;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod sim;
pub mod spec;
pub mod stats;
pub mod sys;
pub mod time;
pub mod trace;
pub mod units;
pub mod wire;
