//! Every arrival and what became of it, written while traffic passes.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::rig::Rig;
use crate::live::{possible, weir_program};

/// A row of a table, by column.
type Row = std::collections::HashMap<String, String>;

fn table(path: &Path) -> Vec<Row> {
    let file = std::fs::File::open(path).expect("it was written");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a whole gzip file");
    csv::Reader::from_reader(text.as_bytes()).deserialize().map(|row| row.expect("a row")).collect()
}

fn column<'r>(rows: &'r [Row], name: &str) -> Vec<&'r str> {
    rows.iter().map(|row| row[name].as_str()).collect()
}

/// Holds the tables of a direction to each other and to their sum; gives how many were dropped.
fn holds_together(directory: &Path, way: &str) -> u64 {
    let sums: Value =
        serde_json::from_slice(&std::fs::read(directory.join("log.json")).expect("written")).expect("JSON");
    let sum = &sums[way]["sum"];
    assert_eq!(sum["closes"], true, "{sums:#}");
    let arrivals = table(&directory.join(format!("{way}.arrivals.csv.gz")));
    let outcomes = table(&directory.join(format!("{way}.outcomes.csv.gz")));
    assert_eq!(sum["arrived"], arrivals.len());
    let numbers: Vec<u64> = column(&arrivals, "id").iter().map(|n| n.parse().expect("a number")).collect();
    assert!(numbers.iter().copied().eq(1..=arrivals.len() as u64), "in order, none missing");
    let ends: Vec<&str> = column(&outcomes, "id").into_iter().filter(|id| !id.is_empty()).collect();
    assert_eq!(ends.iter().collect::<HashSet<_>>().len(), ends.len(), "each packet ends once");
    let dropped = column(&outcomes, "verdict").iter().filter(|v| **v == "dropped").count() as u64;
    let counted: u64 = sum["dropped"].as_object().expect("by reason").values().filter_map(Value::as_u64).sum();
    assert_eq!(counted, dropped);
    dropped
}

#[test]
fn a_log_from_the_start_has_what_the_statistics_count_and_can_be_decided_again() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let directory = std::env::temp_dir().join(format!("weir-log-start-{}", std::process::id()));
    let spec = "codel target 1ms interval 10ms | tbf rate 20mbit burst 5kb";
    let words = format!("--name logged --down \"{spec}\" --up \"pfifo limit 1000\" --log {}", directory.display());
    let bridge = rig.bridge(&words);
    let transfer = rig.transfer();
    transfer.goes_on("through weir", 2_000_000);
    transfer.end();
    let report = bridge.end();

    let dropped = [holds_together(&directory, "down"), holds_together(&directory, "up")];
    for (i, dropped) in dropped.into_iter().enumerate() {
        assert_eq!(
            report["directions"][i]["dropped"]["packets"].as_u64(),
            Some(dropped),
            "{:#}",
            report["directions"][i]
        );
    }
    assert!(dropped[0] > 0, "CoDel had something to do");

    let arrivals = directory.join("down.arrivals.csv.gz");
    let verdicts = directory.join("again.csv");
    let again = Command::new(weir_program())
        .args(["trace", "--qdisc", spec])
        .args([arrivals.as_os_str(), "-o".as_ref(), verdicts.as_os_str()])
        .output()
        .expect("it is built");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let rows = csv::Reader::from_path(&verdicts).expect("written").into_records().count();
    assert_eq!(rows, table(&arrivals).len(), "a verdict for each that arrived");
    std::fs::remove_dir_all(&directory).expect("ours");
}

#[test]
fn a_log_of_a_running_instance_begins_and_ends_with_packets_inside() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let directory = std::env::temp_dir().join(format!("weir-log-later-{}", std::process::id()));
    let bridge = rig.bridge("--name asked-log --down \"pfifo limit 50 | tbf rate 10mbit burst 5k\"");
    let transfer = rig.transfer();
    transfer.goes_on("through weir", 300_000);
    let log = |seconds: &str| {
        let mut command = Command::new(weir_program());
        command.args(["log", "asked-log", "--duration", seconds, "-o"]).arg(&directory);
        command.output().expect("it is built")
    };
    let done = log("1");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(said.matches("the sum closes").count(), 2, "{said}");
    holds_together(&directory, "down");
    let outcomes = table(&directory.join("down.outcomes.csv.gz"));
    assert!(column(&outcomes, "id").contains(&""), "some were inside before");

    let refused = log("1");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is there already"), "{refused:?}");
    transfer.goes_on("after the log", 100_000);
    transfer.end();
    bridge.end();
    std::fs::remove_dir_all(&directory).expect("ours");
}
