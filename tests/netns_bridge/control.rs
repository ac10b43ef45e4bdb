//! Talking to a running instance.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::rig::Rig;
use crate::live::{possible, wait_until, weir_program};

/// Runs a command of weir; its exit code and what it prints.
fn weir(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(weir_program()).args(words).output().expect("it is built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("not by a signal"), text(&output.stdout), text(&output.stderr))
}

pub(super) fn stats(name: &str) -> Vec<Value> {
    let (code, text, error) = weir(&["stats", "-j", name]);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn an_instance_under_load_answers_changes_and_stops() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let spec = "\"codel | tbf rate 50mbit burst 20k\"";
    let bridge = rig.bridge(&format!("--name asked --down {spec} --up \"cake bandwidth 50mbit diffserv4\""));
    let transfer = rig.transfer();
    transfer.goes_on("through weir", 500_000);

    let (code, list, _) = weir(&["list", "-j"]);
    assert_eq!(code, 0);
    let list: Vec<Value> = serde_json::from_str(&list).expect("JSON");
    let mine = list.iter().find(|i| i["name"] == "asked").expect("it is listed");
    assert_eq!(mine["pid"], bridge.pid());
    assert_eq!(mine["nics"], serde_json::json!(["out", "ins"]));

    let before = stats("asked");
    let kinds: Vec<_> =
        before.iter().map(|q| (q["kind"].as_str().unwrap(), q["direction"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("tbf", "down"), ("codel", "down"), ("cake", "up")]);
    assert_eq!((&before[0]["dev"], &before[2]["dev"]), (&"ins".into(), &"out".into()));

    // Other kinds, and one good direction beside a bad one, change nothing.
    let other = ["change", "asked", "--down", "codel ecn | tbf rate 9mbit burst 20k", "--up", "fq_codel"];
    let (code, _, error) = weir(&other);
    assert_eq!(code, 1);
    assert!(error.contains("up: cake is at work and fq_codel is wanted"), "{error}");
    assert_eq!(weir(&["change", "asked", "--down", "codel | tbf rate 9mbt"]).0, 2);
    assert_eq!(stats("asked")[0]["options"]["rate"], 6_250_000);

    let (code, said, error) = weir(&["change", "asked", "--down", "codel ecn | tbf rate 20mbit burst 20k"]);
    assert_eq!((code, said.as_str()), (0, "down: codel ecn | tbf rate 20mbit burst 20kb\n"), "{error}");
    transfer.goes_on("at the other rate", 500_000);
    let after = stats("asked");
    assert_eq!(after[0]["options"]["rate"], 2_500_000);
    assert_eq!(after[1]["options"]["ecn"], true);
    assert!(after[0]["packets"].as_u64() > before[0]["packets"].as_u64(), "counters go on");
    assert!(after[0]["weir"]["dropped"]["by_reason"].get("flushed").is_none());
    transfer.end();

    let into = std::env::temp_dir().join(format!("weir-asked-{}", std::process::id()));
    let (code, files, error) = weir(&["hist", "asked", "-o", into.to_str().expect("plain")]);
    assert_eq!(code, 0, "{error}");
    for tag in ["down", "up", "up-best-effort"] {
        assert!(files.contains(&format!("asked-{tag}.hgrm")), "{files}");
    }
    std::fs::remove_dir_all(&into).expect("made above");

    assert_eq!(weir(&["stop", "asked"]).0, 0);
    assert_eq!(bridge.wait().0, 0);
    assert!(!Path::new("/run/weir/asked.sock").exists());
    let (code, _, error) = weir(&["stats", "asked"]);
    assert_eq!(code, 1);
    assert!(error.contains("no instance asked"), "{error}");
}

#[test]
fn what_a_killed_instance_left_is_not_taken_for_an_instance() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    rig.bridge("--name gone").kill();
    let (code, list, _) = weir(&["list"]);
    assert_eq!(code, 0);
    assert!(!list.contains("gone:"), "{list}");
    let next = rig.bridge("--name gone");
    wait_until("the next one answers", || weir(&["stats", "gone"]).0 == 0);
    next.end();
}
