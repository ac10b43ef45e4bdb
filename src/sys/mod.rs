//! Calls to the kernel that no library offers safely. With `port/xdp` the only room where `unsafe`
//! may live.

pub mod namespace;
pub mod nic;
