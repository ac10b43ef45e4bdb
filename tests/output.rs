//! What is printed, and where to.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
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
    assert_eq!((ended.code(), text.as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_told_in_a_line() {
    for words in [["explain", "cake bandwidth 10mbit"].as_slice(), &["doctor"], &["list", "-j"], &["sim", "--list"]] {
        let full = fs::File::options().write(true).open("/dev/full").expect("it is everywhere");
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(words).stdout(full).output().expect("weir starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert_eq!(said, "weir: cannot write: No space left on device\n", "{words:?}");
    }
}

#[test]
fn routers_of_a_folder_are_judged_by_one_of_them_case_by_case() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-against");
    let _ = fs::remove_dir_all(&place);
    for (case, router, seed, mbit) in [
        ("cake", "weir", 1, 19.1),
        ("cake", "kernel", 1, 19.0),
        ("cake", "weir", 2, 19.1),
        ("cake", "kernel", 2, 19.2),
        ("codel", "weir", 1, 18.0),
        ("codel", "kernel", 1, 19.0),
        ("alone", "weir", 1, 1.0),
    ] {
        let folder = place.join(format!("{case}/seed-{seed}/{router}"));
        fs::create_dir_all(&folder).expect("a folder");
        let summary = format!(
            r#"{{"groups": [{{"name": "down", "sender": "cubic", "goodput_mbit": {mbit}}}], "ports": [], "flows": []}}"#
        );
        fs::write(folder.join("summary.json"), summary).expect("a file");
    }
    let report = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("report").arg(&place).args(words).output();
        let output = output.expect("weir runs");
        (output.status.code(), [output.stdout, output.stderr].map(|b| String::from_utf8(b).expect("text")).concat())
    };
    let (code, text) = report(&["--against", "kernel", "--markdown"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(lines[2], "| cake: weir / kernel | 2 | down | - | 19.10 / 19.10 | - | - | - | - | within |");
    assert_eq!(lines[3], "| kernel alone |  |  |  | 19.00..19.20 | - | - | - | - |  |");
    assert_eq!(lines[4], "| codel: weir / kernel | 1 | down | - | 18.00 / 19.00 | - | - | - | - | Mbit/s -5.3 % |");
    assert!(lines[7].starts_with("1 of 2 figures within their bounds"), "{text}");
    let (code, text) = report(&["--against", "hardware"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--against hardware: no case has runs of it and of another"), "{text}");
}
