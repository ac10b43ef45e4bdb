//! ECT(1) for a host's TCP: `bpf/ect1.bpf.c`, at the egress of its interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{ObjectBuilder, libbpf_sys};

use super::notes;
use super::program::{bpf, result};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ect1.bpf.o"));

/// What sockets have as `SO_MARK` whose ECT(0) becomes ECT(1).
pub const MARK: u32 = 0x7765_4531;

/// From now on what marked sockets send there has ECT(1) where it had ECT(0), as long as the interface lasts.
///
/// # Errors
/// The kernel refuses the program; before 6.6 there is no such place for one.
pub fn attach(interface: u32) -> io::Result<()> {
    notes::keep();
    let open = ObjectBuilder::default().name("weir_ect1").map_err(bpf)?.open_memory(OBJECT).map_err(bpf)?;
    let object = open.load().map_err(bpf)?;
    let program = object.progs().next().ok_or_else(|| io::Error::other("no program"))?;
    // SAFETY: a descriptor that `object` keeps open during the call; no options.
    let done = unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            program.as_fd().as_raw_fd(),
            interface as i32,
            libbpf_sys::BPF_TCX_EGRESS,
            std::ptr::null(),
        )
    };
    result(done).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_this_file_agree() {
        let header = include_str!("../../../bpf/weir.h");
        let line = header.lines().find(|l| l.starts_with("#define WEIR_ECT1_MARK ")).expect("it is there");
        assert_eq!(line.split_whitespace().nth(2), Some(format!("{MARK:#x}").as_str()));
    }
}
