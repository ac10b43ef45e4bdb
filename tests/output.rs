//! What is printed, and where to.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_enough_is_no_fault() {
    let (mut said, errors) = UnixStream::pair().expect("two ends");
    let (gone, output) = UnixStream::pair().expect("two ends");
    drop(gone);
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["explain", "cake bandwidth 10mbit"])
        .stdout(Stdio::from(OwnedFd::from(output)))
        .stderr(Stdio::from(OwnedFd::from(errors)))
        .spawn()
        .expect("weir starts");
    let ended = weir.wait().expect("weir ends");
    let mut text = String::new();
    said.read_to_string(&mut text).expect("text");
    assert_eq!((ended.success(), text.as_str()), (false, ""));
}
