//! The live driver: threads, the clock, attaching and detaching, and what is told to people.
//!
//! Everything with a lock, a log line or an allocation that depends on the run lives here and not
//! on the data path.

pub mod attach;
pub mod bridge;
pub mod clock;
pub mod links;
pub mod worker;
