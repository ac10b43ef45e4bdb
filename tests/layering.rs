//! Who may import whom: the floors of ARCHITECTURE.md, read from the `use` lines.

use std::fs;
use std::path::{Path, PathBuf};

/// A floor, and the parts of the crate that it may import. A path is matched by its first part,
/// `port::xdp` by two.
const FLOORS: &[(&str, &[&str])] = &[
    ("time", &[]),
    ("units", &["time"]),
    ("rng", &[]),
    ("packet", &["time"]),
    ("pool", &["packet", "time", "rng"]),
    ("wire", &[]),
    ("classify", &["wire", "packet", "rng"]),
    ("autorate", &["time", "units", "rng", "wire"]),
    ("mark", &["packet", "pool", "wire", "time", "units", "rng", "classify", "qdisc"]),
    ("qdisc", &["time", "units", "rng", "packet", "pool", "classify", "mark", "wire", "stats", "pipeline", "spec"]),
    ("pipeline", &["time", "units", "pool", "classify", "qdisc", "packet", "spec", "stats"]),
    ("spec", &["units", "pipeline", "qdisc", "mark", "time", "packet", "pool", "classify", "rng"]),
    (
        "engine",
        &[
            "time", "units", "rng", "packet", "pool", "wire", "classify", "autorate", "mark", "qdisc", "pipeline",
            "spec", "stats", "port",
        ],
    ),
    ("dtp", &["time", "mark"]),
    ("port", &["time", "rng", "packet", "pool"]),
];

/// What no floor of the core may touch, whatever it is called.
const OUTSIDE: &[&str] =
    &["std::net::Udp", "std::net::Tcp", "std::fs", "std::thread", "SystemTime", "std::time::Instant", "tracing::"];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The files of a floor: `src/NAME.rs` and everything in `src/NAME/`, without tests.
fn files_of(floor: &str) -> Vec<PathBuf> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut out = Vec::new();
    let single = src.join(format!("{floor}.rs"));
    if single.is_file() {
        out.push(single);
    }
    if src.join(floor).is_dir() {
        sources(&src.join(floor), &mut out);
    }
    out.retain(|p| !p.ends_with("tests.rs") && !p.components().any(|c| c.as_os_str() == "tests"));
    out
}

/// The part of a file above its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().unwrap_or_default().to_string()
}

#[test]
fn each_floor_imports_only_from_below() {
    for (floor, allowed) in FLOORS {
        let files = files_of(floor);
        assert!(!files.is_empty() || *floor == "engine" || *floor == "port", "no source for {floor}");
        for file in files {
            for line in code(&file).lines().map(str::trim).filter(|l| !l.starts_with("//")) {
                for part in line.split("crate::").skip(1) {
                    let name: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    assert!(
                        name.is_empty() || name == *floor || allowed.contains(&name.as_str()),
                        "{}: {floor} must not import {name}: {line}",
                        file.display()
                    );
                }
            }
        }
    }
}

#[test]
fn the_core_reads_no_clock_and_opens_nothing() {
    for floor in [
        "time", "units", "rng", "packet", "pool", "wire", "classify", "autorate", "mark", "qdisc", "pipeline", "spec",
        "engine",
    ] {
        for file in files_of(floor) {
            for line in code(&file).lines().filter(|l| !l.trim_start().starts_with("//")) {
                for word in OUTSIDE {
                    // `link FILE` and `distribution PATH` read their tables when the specification is
                    // read, before anything runs.
                    let path = file.to_string_lossy();
                    let reads_a_table =
                        *word == "std::fs" && ["spec/link", "spec/netem"].iter().any(|f| path.contains(f));
                    assert!(!line.contains(word) || reads_a_table, "{}: {line}", file.display());
                }
            }
        }
    }
}
