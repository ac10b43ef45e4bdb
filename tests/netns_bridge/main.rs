//! `weir bridge` between two veths: frames pass unchanged, traffic survives weir's death, and nothing is left behind.
//! Needs root and AF_XDP.

#![cfg(feature = "xdp")]

mod control;
mod frames;
mod life;
#[path = "../live/mod.rs"]
mod live;
mod log;
mod mb_ecn;
mod rig;
