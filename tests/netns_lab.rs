//! `weir lab`, live: real TCP through weir for two seconds, and what is left of it afterwards. Needs root.

#![cfg(feature = "xdp")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir::lab::flows;
use weir::pipeline::Link;
use weir::rng::Random;
use weir::scenario::{App, file, pages};
use weir::sim;

#[path = "live/possible.rs"]
mod possible;
use possible::possible;

/// Both directions, two clients, a flight, every kind of flow.
const SCENARIO: &str = r#"
name = "small"
duration = "2s"
steady-from = "500ms"

[[node]]
name = "rt"
down = "cake bandwidth 20mbit"
up = "cake bandwidth 20mbit"
[[node]]
name = "dl"
delay = "2ms"

[[host]]
name = "a"
side = "client"
[[host]]
name = "b"
side = "client"

[[flow]]
name = "down"
client = "a"
sender = "cubic"
[[flow]]
name = "up"
client = "b"
direction = "up"
sender = "reno"
ecn = true
[[flow]]
name = "asks"
app = "request"
[[flow]]
name = "pages"
app = "web"
client = "b"
think = "50ms"
connections = 3
[[flow]]
name = "call"
app = "constant"
rate = "64kbit"
packet = 160

[[ping]]
client = "b"
"#;

/// A folder of its own, with the scenario in it.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // From the last time.
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).expect("a folder");
    fs::write(place.join("small.toml"), SCENARIO).expect("a file");
    place
}

fn lab(place: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(place).args(["lab", "small.toml"]).args(words);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn read(file: PathBuf) -> Value {
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// What a process has in weir's folder, and what labs keep of interfaces.
fn left_by(pid: u32) -> Vec<String> {
    let files = fs::read_dir("/run/weir").into_iter().flatten().flatten();
    let names = files.map(|e| (e.path(), e.file_name().to_string_lossy().into_owned()));
    let ours = |path: &Path, name: &str| {
        let owner = || fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("\"pid\":{pid},")));
        name.starts_with(&format!("lab-{pid}-")) || (name.ends_with(".nic.json") && owner())
    };
    names.filter(|(path, name)| ours(path, name)).map(|(_, name)| name).collect()
}

/// Some pages are complete, and their bytes are those that follow from seed 1, with at most a part of the next page.
fn are_pages_of_the_seed(flow: &Value) {
    let (opened, bytes) = (flow["answers"].as_u64().expect("pages"), flow["bytes"].as_u64().expect("bytes"));
    assert!(opened > 0, "{flow}");
    let (complete, with_next) = bytes_of_pages(opened);
    assert!((complete..=with_next).contains(&bytes), "{complete} to {with_next}: {flow}");
}

/// What the first `n` pages of the scenario have, and the first `n` + 1.
fn bytes_of_pages(n: u64) -> (u64, u64) {
    let (scenario, _) = file::read(SCENARIO, &sim::SENDERS).expect("a scenario");
    let tasks = flows::tasks(&scenario, 1).expect("flows of the lab");
    let task = tasks.iter().find(|t| t.name == "pages").expect("there are pages");
    let App::Web { think, .. } = task.app else { panic!("{:?}", task.app) };
    let mut random = Random::seeded(task.seed);
    let mut complete = 0;
    for _ in 0..n {
        complete += pages::objects(&mut random).iter().sum::<u64>();
        random.exponential(think);
    }
    (complete, complete + pages::objects(&mut random).iter().sum::<u64>())
}

#[test]
fn one_seed_is_the_same_pages_in_the_simulator_and_in_the_lab() {
    let (scenario, _) = file::read(SCENARIO, &sim::SENDERS).expect("a scenario");
    let outcome = sim::build(&scenario, 1, Link::default()).expect("a simulation").run(None);
    let pages = &outcome.flows[3];
    are_pages_of_the_seed(&json!({ "answers": pages.times.len(), "bytes": pages.bytes }));
}

#[test]
fn a_run_carries_tcp_both_ways_and_writes_down_everything() {
    if !possible() {
        return;
    }
    let place = place("lab-run");
    let output = lab(&place, &["-o", "out"]).output().expect("it is built");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("noise floor") && text.contains("p99.9"), "{text}");

    let out = place.join("out");
    let summary = read(out.join("summary.json"));
    for flow in summary["flows"].as_array().expect("flows") {
        let moved = flow["bytes"].as_u64() > Some(0) || flow["received"].as_u64() > Some(0);
        assert!(moved && flow["rtt_ms"]["p50"].as_f64() > Some(0.0), "{flow}");
    }
    are_pages_of_the_seed(&summary["flows"][3]);
    let ping = &summary["flows"][5];
    assert_eq!(ping["sender"], "ping");
    assert!(ping["rtt_ms"]["p0"].as_f64() >= Some(4.0), "two milliseconds each way: {ping}");
    let ports: Vec<&Value> = summary["ports"].as_array().expect("ports").iter().map(|p| &p["name"]).collect();
    assert_eq!(ports, ["rt.down", "rt.up"]);

    let engine = &read(out.join("manifest.json"))["engine"];
    assert_eq!(engine["offloads"]["tcp-segmentation-offload"], false);
    for key in ["kernel", "cores", "clock_source", "noise_floor", "routers"] {
        assert!(!engine[key].is_null(), "{key}");
    }
    let files = ["report.html", "run.hlog", "noise.hgrm", "rtt-ping.hgrm", "sojourn-rt.down.hgrm", "flow-up.csv"];
    for file in files.iter().chain(&["port-rt.down.csv", "flow-asks.csv", "flow-pages.csv", "flow-call.csv"]) {
        assert!(fs::metadata(out.join(file)).is_ok_and(|m| m.len() > 0), "{file}");
    }
}

/// Waits until a lab has its router.
fn wait_for_router(lab: &mut Child) {
    let lock = format!("/run/weir/lab-{}-rt.lock", lab.id());
    let patience = Instant::now() + Duration::from_secs(20);
    while !Path::new(&lock).exists() {
        assert!(lab.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < patience, "no router");
        thread::yield_now();
    }
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    if !possible() {
        return;
    }
    let place = place("lab-interrupted");
    let mut child = lab(&place, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it is built");
    wait_for_router(&mut child);
    let pid = child.id();
    Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill");
    let output = child.wait_with_output().expect("ended");
    assert!(!output.status.success() && said(&output).contains("interrupted"), "{}", said(&output));
    assert_eq!(left_by(pid), [""; 0]);
}

#[test]
fn what_a_killed_run_leaves_is_cleared_by_the_next() {
    if !possible() {
        return;
    }
    let place = place("lab-killed");
    let mut child = lab(&place, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is built");
    wait_for_router(&mut child);
    let killed = child.id();
    child.kill().expect("ours to end");
    child.wait().expect("ended");
    let next = lab(&place, &[]).output().expect("it is built");
    assert!(next.status.success(), "{}", said(&next));
    assert_eq!(left_by(killed), [""; 0]);
}

#[test]
fn the_kernel_routes_what_it_has_and_is_refused_what_it_has_not() {
    if !possible() {
        return;
    }
    let place = place("lab-kernel");
    let spec = "kernel:pfifo limit 100 | tbf rate 20mbit burst 5k";
    let output = lab(&place, &["--router", spec, "-o", "out"]).output().expect("it is built");
    assert!(output.status.success(), "{}", said(&output));
    let printed = "rt: tc qdisc add dev lab-in parent 1:1 handle 2: pfifo limit 100";
    assert!(said(&output).contains(printed), "{}", said(&output));
    let manifest = read(place.join("out/manifest.json"));
    let routers: Vec<&Value> = manifest["engine"]["routers"].as_array().expect("routers").iter().collect();
    assert_eq!(routers[0]["router"], "kernel");
    let summary = read(place.join("out/summary.json"));
    assert!(summary["ports"][0]["sent_packets"].as_u64() > Some(0), "{summary}");
    assert!(summary["groups"][0]["goodput_mbit"].as_f64() > Some(0.0), "{summary}");
    are_pages_of_the_seed(&summary["flows"][3]);
    let report = fs::read_to_string(place.join("out/report.html")).expect("a report");
    assert!(report.contains("<h2>Sojourn</h2><p class=\"dim\">not measured by the kernel</p>"));
    assert!(!report.contains("Longest sojourn"));

    let refused = lab(&place, &["--router", "kernel:cake bandwidth 20mbit min-occupancy 2mtu"]).output();
    let refused = refused.expect("it is built");
    assert!(!refused.status.success() && said(&refused).contains("\"min-occupancy\" is weir's own"));
}

#[test]
fn dctcp_is_there_for_a_run_and_gone_after_it() {
    if !possible() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let place = place("lab-dctcp");
    let scenario = SCENARIO.replace("sender = \"cubic\"", "sender = \"dctcp\"");
    fs::write(place.join("small.toml"), scenario).expect("a file");
    let mut child = lab(&place, &["-o", "out"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("built");
    let name = format!("dctcp_{}", child.id());
    wait_for_router(&mut child);
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", said(&output));
    let summary = read(place.join("out/summary.json"));
    assert_eq!(summary["groups"][0]["sender"], "dctcp");
    assert!(summary["groups"][0]["goodput_mbit"].as_f64() > Some(0.0), "{summary}");
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("/proc");
    assert!(!list.contains(&name), "{list}");
}

/// Paths of both directions, two of them to one server: shared, reliable, and slower than they may be.
const LAYER: &str = r#"
name = "layer"
duration = "4s"
steady-from = "2s"

[[node]]
name = "rt"
down = "fq_codel mb-ecn dtp | tbf rate 10mbit burst 15k"
up = "pfifo limit 1000 mb-ecn dtp | tbf rate 10mbit burst 15k"
[[node]]
name = "far"
delay = "1ms"

[[host]]
name = "a"
side = "client"
[[host]]
name = "b"
side = "client"

[[flow]]
name = "two"
count = 2
app = "dtp"
client = "a"
direction = "up"
[[flow]]
name = "reliable"
app = "dtp"
client = "b"
direction = "up"
reliable = true
[[flow]]
name = "call"
app = "dtp"
client = "a"
rate = "400kbit"
packet = 500
[[flow]]
name = "tcp"
client = "b"
"#;

#[test]
fn data_transfer_frames_learn_the_link_in_the_lab_and_nothing_is_dropped() {
    if !possible() {
        return;
    }
    let place = place("lab-layer");
    fs::write(place.join("small.toml"), LAYER).expect("a file");
    let output = lab(&place, &["-o", "out"]).output().expect("it is built");
    assert!(output.status.success(), "{}", said(&output));
    let out = place.join("out");
    let summary = read(out.join("summary.json"));
    let list = |key: &str| summary[key].as_array().expect(key).clone();

    let names: Vec<Value> = list("paths").iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["a-sv", "b-sv", "sv-a"]);
    for path in &list("paths")[..2] {
        assert_eq!((&path["capacity_codes"], &path["capacity_bytes_per_s"]), (&json!([81, 81]), &json!(1_245_184)));
        assert!(path["updates"].as_u64() > Some(1) && path["goodput_mbit"].as_f64() > Some(0.0), "{path}");
    }
    assert_eq!(list("ports")[1]["drops"], 0, "{summary}");
    let flows = list("flows");
    for flow in &flows[..4] {
        assert_eq!(flow["sender"], "dtp");
        assert!(flow["sent"].as_u64() >= flow["received"].as_u64() && flow["bytes"].as_u64() > Some(0), "{flow}");
        assert!(flow["rtt_ms"]["p0"].as_f64() >= Some(1.0), "a millisecond of flight: {flow}");
    }
    // 100 packets a second, and the one at the start.
    assert!(flows[3]["sent"].as_u64().is_some_and(|n| (1..=401).contains(&n)), "{}", flows[3]);
    assert!(flows[4]["sender"] == "cubic" && flows[4]["bytes"].as_u64() > Some(0), "{}", flows[4]);

    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("Congestion regime") && page.contains("proportional dec"));
    let path = fs::read_to_string(out.join("path-a-sv.csv")).expect("a path");
    assert!(path.lines().any(|line| line.contains(",1245184,")), "{path}");
}

#[test]
fn flows_of_one_path_cannot_ask_for_two_controllers() {
    let place = place("lab-controllers");
    let scenario = LAYER.replace("name = \"two\"", "name = \"other\"\ncontroller = \"reference\"")
        + "\n[[flow]]\nname = \"late\"\napp = \"dtp\"\nclient = \"a\"\ndirection = \"up\"\n";
    fs::write(place.join("small.toml"), scenario).expect("a file");
    if !possible() {
        return;
    }
    let refused = lab(&place, &[]).output().expect("it is built");
    let words = "flow late: its path has another controller than \"scaled\"";
    assert!(!refused.status.success() && said(&refused).contains(words), "{}", said(&refused));
}

#[test]
fn prague_is_dctcp_with_ect1_and_so_marked_where_only_ect1_is() {
    if !possible() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let place = place("lab-ect1");
    let scenario = r#"
        duration = "3s"
        steady-from = "1s"
        node = [{ name = "rt", up = "pfifo limit 1000 mb-ecn l4s | tbf rate 20mbit burst 15k" }]
        flow = [
            { name = "scalable", sender = "prague", direction = "up" },
            { name = "classic", sender = "dctcp", direction = "up" },
        ]
    "#;
    fs::write(place.join("small.toml"), scenario).expect("a file");
    let output = lab(&place, &["-o", "out"]).output().expect("it is built");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("dctcp-ect1, DCTCP with ECT(1), takes its place"), "{}", said(&output));
    let summary = read(place.join("out/summary.json"));
    let [scalable, classic] = &summary["flows"].as_array().expect("flows")[..] else { panic!("{summary}") };
    assert_eq!((&scalable["sender"], &classic["sender"]), (&json!("dctcp-ect1"), &json!("dctcp")));
    assert!(scalable["acked_marked"].as_u64() > Some(0), "{scalable}");
    assert!(summary["ports"][0]["marks"].as_u64() > Some(0), "{summary}");
    assert_eq!(classic["acked_marked"], 0, "a pfifo marks nobody else: {classic}");
}

#[test]
fn a_host_with_a_delay_is_so_much_farther_each_way() {
    if !possible() {
        return;
    }
    let place = place("lab-delay");
    let scenario = r#"
        duration = "2s"
        steady-from = "500ms"
        node = [{ name = "rt", down = "cake bandwidth 20mbit", delay = "1ms" }]
        host = [
            { name = "near", side = "client" },
            { name = "far", side = "client", delay = "5ms" },
            { name = "sv", side = "server", delay = "2ms" },
        ]
        flow = [{ name = "down", client = "far" }]
        ping = [{ name = "near", client = "near" }, { name = "far", client = "far" }]
    "#;
    fs::write(place.join("small.toml"), scenario).expect("a file");
    let output = lab(&place, &["-o", "out"]).output().expect("it is built");
    assert!(output.status.success(), "{}", said(&output));
    let summary = read(place.join("out/summary.json"));
    let [down, near, far] = &summary["flows"].as_array().expect("flows")[..] else { panic!("{summary}") };
    assert!(down["bytes"].as_u64() > Some(0), "{down}");
    let least = |flow: &Value| flow["rtt_ms"]["p0"].as_f64().expect("echoes");
    // Twice the node and the server's line, and for one of them its own.
    assert!(least(near) >= 6.0 && least(far) >= 16.0, "{summary}");
}
