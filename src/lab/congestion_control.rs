//! DCTCP for kernels that have it not: `bpf/dctcp.bpf.c`, registered for a run. With ECT(1) on its packets it also takes the
//! place of Prague, which hardly a kernel has: both cut by the share of marks.
//!
//! Its name in the kernel has our process's number in it, so that two labs do not meet; it is gone with its owner, however that
//! ends.

use std::io;

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};

use super::{Error, senders};
use crate::port::xdp::notes;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o"));

/// What scenarios call it.
pub const DCTCP: &str = "dctcp";
/// A scalable sender with ECT(1).
pub const PRAGUE: &str = "prague";
/// What results call the DCTCP in its place.
pub const DCTCP_ECT1: &str = "dctcp-ect1";
/// What the kernel's name of ours begins with.
const PREFIX: &str = "dctcp_";
/// Bytes of a name in the kernel, the last one zero.
const NAME: usize = 16;

/// A DCTCP of the kernel's or of ours.
pub struct Dctcp {
    name: String,
    // The program goes with its link.
    _registered: Option<(Link, Object)>,
}

/// The congestion controls that a scenario can name here.
pub fn senders() -> Vec<String> {
    let mut list = senders::available();
    list.retain(|name| !name.starts_with(PREFIX));
    for ours in [DCTCP, PRAGUE] {
        if !list.iter().any(|name| name == ours) {
            list.push(ours.into());
        }
    }
    list
}

/// Whether `sender` is Prague in a kernel that has none.
pub fn is_replaced(sender: &str) -> bool {
    sender == PRAGUE && !senders::available().iter().any(|name| name == PRAGUE)
}

impl Dctcp {
    /// The kernel's, or else ours, registered now.
    ///
    /// # Errors
    /// The kernel has neither it nor BTF, or refuses the program.
    pub fn get() -> Result<Dctcp, Error> {
        if senders::available().iter().any(|name| name == DCTCP) {
            return Ok(Dctcp { name: DCTCP.into(), _registered: None });
        }
        let name = format!("{PREFIX}{}", std::process::id());
        let registered = register(&name).map_err(|e| {
            let why = "the kernel has no dctcp and does not take ours, which needs kernel 6.4 with BTF";
            Error::new(why, e)
        })?;
        Ok(Dctcp { name, _registered: Some(registered) })
    }

    /// What the kernel calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn register(name: &str) -> io::Result<(Link, Object)> {
    let bpf = |e: libbpf_rs::Error| io::Error::other(format!("{e:#}{}", notes::take()));
    notes::keep();
    let mut open = ObjectBuilder::default().name("weir_dctcp").map_err(bpf)?.open_memory(OBJECT).map_err(bpf)?;
    for mut map in open.maps_mut().filter(|m| m.name() == DCTCP) {
        // The name comes first in the operations, as bpf/dctcp.bpf.c has them.
        let operations = map.initial_value_mut().ok_or_else(|| io::Error::other("the program has no operations"))?;
        operations[..NAME].fill(0);
        operations[..name.len().min(NAME - 1)].copy_from_slice(&name.as_bytes()[..name.len().min(NAME - 1)]);
    }
    let mut object = open.load().map_err(bpf)?;
    let mut map = object.maps_mut().find(|m| m.name() == DCTCP).ok_or_else(|| io::Error::other("no operations"))?;
    let link = map.attach_struct_ops().map_err(bpf)?;
    Ok((link, object))
}
