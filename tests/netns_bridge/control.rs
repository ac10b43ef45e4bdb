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
fn a_rate_that_moves_is_told_logged_and_decided_again() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let log = std::env::temp_dir().join(format!("weir-autorate-{}.jsonl", std::process::id()));
    let spec = |range| format!("\"cake bandwidth 20mbit autorate {range}\"");
    let (down, up) = (spec("2mbit 50mbit"), spec("5mbit 30mbit"));
    let bridge = rig.bridge(&format!("--name moves --down {down} --up {up} --autorate-log {}", log.display()));
    let transfer = rig.transfer();
    // Nothing is slower than the shaper here, so under load the rate goes up.
    let rates = || stats("moves").iter().map(|q| q["weir"]["autorate"]["rate"].as_u64().unwrap()).collect::<Vec<_>>();
    wait_until("the rate rises", || rates().iter().any(|r| *r > 2_500_000));
    let told = stats("moves");
    for (q, most) in told.iter().zip([6_250_000, 3_750_000]) {
        assert_eq!(q["weir"]["autorate"]["max"], most);
        assert!(q["options"]["bandwidth"].as_u64().is_some_and(|r| r <= most), "{q}");
        assert!(q["weir"]["autorate"]["base_ns"].as_u64().is_some_and(|ns| ns > 0), "{q}");
    }
    let (code, _, error) = weir(&["change", "moves", "--down", "cake bandwidth 10mbit autorate 2mbit 10mbit"]);
    assert_eq!(code, 0, "{error}");
    wait_until("the new limits hold", || stats("moves")[0]["weir"]["autorate"]["max"] == 1_250_000);
    assert!(stats("moves")[0]["options"]["bandwidth"].as_u64().is_some_and(|r| r <= 1_250_000));
    transfer.end();
    assert_eq!(weir(&["stop", "moves"]).0, 0);
    assert_eq!(bridge.wait().0, 0);

    let (code, said, error) = weir(&["replay", "--autorate", log.to_str().expect("plain")]);
    assert_eq!(code, 0, "{said}{error}");
    assert!(said.contains("rising"), "{said}");
    std::fs::remove_file(&log).expect("weir made it");
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
