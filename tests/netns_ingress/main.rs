//! `weir ingress` in front of a host, and of a router with a LAN behind it: what the host has moves and comes back,
//! whenever weir dies, and what it sends is finished. Needs root and AF_XDP.

#![cfg(feature = "xdp")]

mod checksums;
mod life;
#[path = "../live/mod.rs"]
mod live;
mod moving;
mod refusals;
mod rig;
