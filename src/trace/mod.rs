//! Virtual time over a table of arrivals: one verdict per packet.
//!
//! `format.rs` reads and writes the tables, `device.rs` is the device that pulls (its service order
//! is part of what the verdicts depend on), `golden.rs` compares a whole recorded scenario, and
//! `figures.rs` gives our counters the names used there. `replay.rs` is the same device for whole
//! frames; both stand on the link and timer of `line.rs`. `capture.rs` writes frames with what became of them.

mod cake_figures;
pub mod capture;
pub mod device;
pub mod figures;
pub mod format;
pub mod golden;
mod line;
pub mod replay;
