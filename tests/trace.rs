//! `weir trace` as a user runs it: tables in, tables out, exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Three full packets at once into 10 Mbit/s.
const BURST: &str = "id,t_ns,len_bytes\n0,1000,1514\n1,1000,1514\n2,1000,1514\n";

#[test]
fn a_plain_table_goes_in_and_verdicts_come_out() {
    let dir = folder("plain");
    let (input, output) = (dir.join("in.csv"), dir.join("out.csv"));
    fs::write(&input, BURST).unwrap();
    let run = weir(&[
        "trace",
        "--qdisc",
        "pfifo limit 1",
        "--link",
        "10mbit",
        input.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("3 packets, 2 sent (0 marked), 1 dropped"), "{}", text(&run.stderr));
    let rows = fs::read_to_string(&output).unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows[0], "id,t_ns,verdict,reason,sojourn_ns,tin,queue,charged_len,ecn,dscp");
    assert_eq!(rows[1], "0,1000,sent,,0,,-1,1514,0,0");
    assert_eq!(rows[2], "2,1000,dropped,overflow,0,,-1,,0,0");
    assert_eq!(rows[3], "1,1212200,sent,,1211200,,-1,1514,0,0");
}

#[test]
fn a_gzipped_table_gives_the_same_verdicts() {
    let dir = folder("gz");
    let (plain, packed) = (dir.join("out.csv"), dir.join("out.csv.gz"));
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/codel/reentry_10m/input.csv.gz");
    for output in [&plain, &packed] {
        let args = ["trace", "--qdisc", "codel", "--link", "10mbit", "--compat", "6.12", input.to_str().unwrap(), "-o"];
        let run = weir(&[&args[..], &[output.to_str().unwrap()]].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
    }
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(fs::File::open(&packed).unwrap()), &mut unpacked)
        .unwrap();
    assert_eq!(unpacked, fs::read_to_string(&plain).unwrap());
}

#[test]
fn words_that_cannot_be_understood_exit_with_2_and_write_nothing() {
    let dir = folder("words");
    let (input, output) = (dir.join("in.csv"), dir.join("none.csv"));
    fs::write(&input, BURST).unwrap();
    for spec in ["codel taget 5ms", "codel | codel", "pfifo | tbf rate -1mbit"] {
        let run = weir(&["trace", "--qdisc", spec, input.to_str().unwrap(), "-o", output.to_str().unwrap()]);
        assert_eq!(run.status.code(), Some(2), "{spec}");
        assert!(text(&run.stderr).contains('^'), "{}", text(&run.stderr));
        assert!(!output.exists());
    }
    let run = weir(&[
        "trace",
        "--qdisc",
        "codel",
        "--random",
        "dice",
        input.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
    ]);
    assert_eq!(run.status.code(), Some(2));
}

#[test]
fn a_run_that_fails_exits_with_1_and_names_the_file_and_line() {
    let dir = folder("fails");
    let (input, output) = (dir.join("in.csv"), dir.join("out.csv"));
    fs::write(&input, "id,t_ns,len_bytes\n0,9,100\n1,8,100\n").unwrap();
    let run = weir(&["trace", "--qdisc", "codel", input.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("in.csv: line 3"), "{}", text(&run.stderr));
}

/// A copy of a recorded scenario with one departure a nanosecond off.
#[test]
fn a_recording_that_differs_is_named_with_its_first_packet_and_exits_with_1() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/codel/limit8_10m_bursts");
    let to = folder("golden/codel/limit8_10m_bursts");
    for file in ["config.json", "stats.json", "input.csv.gz"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let mut rows = String::new();
    let packed = fs::File::open(from.join("output.csv.gz")).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut rows).unwrap();
    let mut lines: Vec<String> = rows.lines().map(str::to_string).collect();
    let mut columns: Vec<String> = lines[3].split(',').map(str::to_string).collect();
    columns[1] = (columns[1].parse::<u64>().unwrap() + 1).to_string();
    lines[3] = columns.join(",");
    fs::write(to.join("output.csv.gz"), lines.join("\n")).unwrap();

    let golden = folder("golden");
    let run = weir(&["trace", "--golden", golden.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    let out = text(&run.stdout);
    assert!(out.starts_with("codel/limit8_10m_bursts: row 2, packet 10: t_ns is 122000, "), "{out}");
    assert!(out.ends_with("1 scenarios, 0 ok, 1 differ, 0 packets compared\n"), "{out}");
}
