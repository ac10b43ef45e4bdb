//! The largest MTU with which a veth still takes the gate in native mode. It depends on the kernel's version, page size and
//! headroom, so it is tried: on a pair of our own, in a namespace that goes with the thread.

use std::io;
use std::thread;

use crate::port::xdp::program::{Gate, Mode, OnFailure};

use super::netlink;

const SMALLEST: u32 = 68;
const LARGEST: u32 = 65_535;
/// The gate is loaded to be attached, never to be run.
const STALE: u64 = 1;

/// The largest MTU of a veth's peer with which native mode works; `None` if it cannot be tried (no rights, no veth).
pub(super) fn largest_native_mtu_of_veth() -> Option<u32> {
    thread::spawn(|| try_on_a_pair().ok().flatten()).join().ok().flatten()
}

fn try_on_a_pair() -> io::Result<Option<u32>> {
    crate::sys::enter_new_network_namespace()?;
    let [here, peer] = netlink::add_veth_pair([("probe0", vec![]), ("probe1", vec![])])?;
    let gate = Gate::load(peer, OnFailure::Drop, STALE)?;
    let works = |mtu: u32| {
        netlink::set_mtu(peer, mtu)?;
        match gate.attach(here, Mode::Native) {
            Ok(link) => link.detach().map(|()| true),
            Err(_) => Ok(false),
        }
    };
    if !works(SMALLEST)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (SMALLEST, LARGEST + 1);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if works(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(good))
}
