//! The simulator from outside: the command, its files, and whether runs come out as the law says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use weir::pipeline::Link;
use weir::scenario::file;
use weir::scenario::result::Outcome;
use weir::sim;

fn run(text: &str, seed: u64) -> Outcome {
    let (scenario, _) = file::read(text, &sim::SENDERS).map_err(|p| p.render("test", text)).unwrap();
    sim::build(&scenario, seed, Link::default()).unwrap().run(None)
}

fn weir(words: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().unwrap()
}

fn files(folder: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>, root: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into, root);
        } else {
            into.insert(path.strip_prefix(root).unwrap().to_path_buf(), std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_number_of_jobs() {
    let folder = std::env::temp_dir().join(format!("weir-sim-{}", std::process::id()));
    let tree = |name: &str, jobs: &str| {
        let out = folder.join(name);
        let words = ["--param", "sender=dctcp", "--param", "rate=100mbit", "--param", "seconds=2", "--repeat", "3"];
        let done = weir(&[&["sim", "bbr20", "--jobs", jobs, "-o", out.to_str().unwrap()], &words[..]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut all = BTreeMap::new();
        files(&out, &mut all, &out);
        (done.stdout, all)
    };
    let (one, four) = (tree("one", "1"), tree("four", "4"));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(one.1.len() > 60, "{:?}", one.1.keys());
    assert_eq!(one.1.keys().collect::<Vec<_>>(), four.1.keys().collect::<Vec<_>>());
    for (name, bytes) in &one.1 {
        assert!(four.1[name] == *bytes, "{} differs", name.display());
    }
    assert_eq!(one.0, four.0);
}

/// Comment and DS byte of each frame in a capture.
fn capture(path: &Path) -> Vec<(String, u8)> {
    let mut reader = PcapNgReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut out = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let comment = packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                _ => None,
            });
            out.push((comment.unwrap(), packet.data[15]));
        }
    }
    out
}

#[test]
fn the_capture_of_a_port_has_every_frame_of_its_trace_with_what_became_of_it() {
    let folder = std::env::temp_dir().join(format!("weir-sim-pcap-{}", std::process::id()));
    let qdisc = "qdisc=codel limit 30 ce_threshold 1ms | tbf rate RATE burst BURST";
    let words = ["sim", "shaping", "--trace", "--pcap", "-o", folder.to_str().unwrap(), "--param", qdisc];
    let rest = ["--param", "rate=10mbit", "--param", "flows=4", "--param", "sender=dctcp", "--param", "seconds=3"];
    let done = weir(&[&words[..], &rest[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let frames = capture(&folder.join("frames-rt.down.pcapng"));
    let trace = std::fs::read_to_string(folder.join("trace-rt.down.csv")).unwrap();
    let replayed = folder.join("replayed.pcapng");
    let input = folder.join("frames-rt.down.pcapng");
    let again = weir(&["replay", "--qdisc", "pfifo", input.to_str().unwrap(), replayed.to_str().unwrap()]);
    let back = capture(&replayed).len();
    std::fs::remove_dir_all(&folder).unwrap();

    // t_ns,flow,len_bytes,verdict,reason,sojourn_ns,ds,tin
    let rows: Vec<Vec<&str>> = trace.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(frames.len(), rows.len());
    for ((comment, ds), row) in frames.iter().zip(&rows) {
        assert_eq!(ds.to_string(), row[6]);
        let verdict = format!("weir: {}", row[3]);
        assert!(comment.starts_with(&verdict), "{comment}: {row:?}");
        assert!(comment.ends_with(&format!("sojourn {} ns, tin {}", row[5], row[7])), "{comment}: {row:?}");
    }
    for verdict in ["sent", "marked", "dropped"] {
        assert!(rows.iter().any(|row| row[3] == verdict), "{verdict}");
    }
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(back, frames.len());
}

#[test]
fn words_that_cannot_be_understood_end_with_code_two_and_a_hint() {
    let done = weir(&["sim", "bbr21"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("did you mean \"bbr20\"?"));
}

#[test]
fn emitted_jobs_are_one_command_per_run() {
    let done =
        weir(&["sim", "bbr20", "--repeat", "2", "--seed", "7", "--emit-jobs", "-o", "out", "--param", "rate=10mbit"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "weir sim bbr20 --seed 7 --param rate=10mbit --case codel-bbr2 -o out/seed-7",
            "weir sim bbr20 --seed 8 --param rate=10mbit --case codel-bbr2 -o out/seed-8"
        ]
    );
}

#[test]
fn a_run_can_be_stopped_to_look_at_its_queues() {
    let done = weir(&["sim", "bbr20", "--param", "sender=cubic", "--param", "rate=10mbit", "--stop-at", "500ms"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("at 0.500000 s"), "{text}");
    assert!(text.contains("rt.down: ") && text.contains("packets, "), "{text}");
}

#[test]
fn a_trace_has_a_line_for_each_packet_of_each_port() {
    let folder = std::env::temp_dir().join(format!("weir-sim-trace-{}", std::process::id()));
    let words =
        ["sim", "bbr20", "--param", "sender=cubic", "--param", "rate=10mbit", "--param", "seconds=2", "--trace"];
    let done = weir(&[&words[..], &["-o", folder.to_str().unwrap()]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let trace = std::fs::read_to_string(folder.join("trace-rt.down.csv")).unwrap();
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("summary.json")).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut lines = trace.lines();
    assert_eq!(lines.next(), Some("t_ns,flow,len_bytes,verdict,reason,sojourn_ns,ds,tin"));
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    let of = |verdicts: &[&str]| rows.iter().filter(|r| verdicts.contains(&r[3])).count() as u64;
    let port = &summary["ports"][0];
    assert_eq!(of(&["sent", "marked"]), port["sent_packets"].as_u64().unwrap());
    assert_eq!(of(&["marked"]), port["marks"].as_u64().unwrap());
    assert!(of(&["marked"]) > 0);
    assert!(rows.iter().all(|r| r.len() == 8 && r[1].starts_with("flow-") || r[1] == "ping"), "{:?}", rows[0]);
}

const BOTTLENECK: &str = r#"
duration = "20s"
[[node]]
name = "rt"
down = "pfifo limit 100 | tbf rate 10mbit burst 3028"
[[node]]
name = "dl"
delay = "10ms"
[[flow]]
name = "down"
sender = "SENDER"
"#;

#[test]
fn one_flow_fills_a_bottleneck_and_nothing_is_lost_but_in_its_queue() {
    for sender in ["reno", "cubic"] {
        let outcome = run(&BOTTLENECK.replace("SENDER", sender), 1);
        let (flow, port) = (&outcome.flows[0], &outcome.ports[0]);
        let ceiling = 10e6 * 1448.0 / 1514.0;
        assert!((0.99..1.001).contains(&(flow.goodput / ceiling)), "{sender}: {}", flow.goodput);
        assert_eq!(flow.timeouts, 0, "{sender}");
        assert!(port.drops[0] > 0, "{sender}");
        assert_eq!(flow.retransmissions[0], port.drops[0], "{sender}: what was dropped was sent again, and only that");
        assert_eq!(port.peak.0, 100);
    }
}

#[test]
fn every_byte_arrives_in_order_through_a_queue_of_three_packets() {
    let text = r#"
duration = "60s"
until-complete = true
[[node]]
name = "rt"
down = "pfifo limit 3 | tbf rate 2mbit burst 3028"
delay = "20ms"
[[flow]]
name = "file"
size = "1000000"
"#;
    let outcome = run(text, 3);
    assert_eq!(outcome.flows[0].bytes, 1_000_000);
    assert!(outcome.ports[0].drops[0] > 10);
    let completed = outcome.flows[0].completed.unwrap();
    assert!(completed > 4_000_000_000 && completed < 10_000_000_000, "{completed}");
}

#[test]
fn a_path_of_several_bottlenecks_is_as_fast_as_the_slowest() {
    let text = r#"
duration = "10s"
[[node]]
name = "a"
down = "codel | tbf rate 20mbit burst 3028"
[[node]]
name = "b"
down = "codel | tbf rate 8mbit burst 3028"
up = "codel | tbf rate 6mbit burst 3028"
[[node]]
name = "c"
up = "codel | tbf rate 30mbit burst 3028"
delay = "10ms"
[[flow]]
name = "down"
[[flow]]
name = "up"
direction = "up"
"#;
    let outcome = run(text, 1);
    // Acknowledgements of the other direction take their share, and one CoDel queue holds both.
    let (down, up) = (outcome.goodput("down") / 8e6, outcome.goodput("up") / 6e6);
    assert!((0.75..0.957).contains(&down) && (0.75..0.957).contains(&up), "{down} {up}");
}

#[test]
fn an_idle_path_has_the_round_trip_of_its_lines_to_the_nanosecond() {
    let text = r#"
duration = "2s"
[[node]]
name = "a"
delay = "3ms"
line = "10mbit"
[[node]]
name = "b"
up-delay = "1ms"
down-delay = "2ms"
[[ping]]
size = 56
"#;
    let outcome = run(text, 1);
    // 98 bytes at 10 Mbit/s take 78.4 µs, each way.
    let exact = 9_000_000 + 2 * 78_400;
    let rtt = &outcome.flows[0].rtt;
    assert!(rtt.equivalent(rtt.min(), exact) && rtt.equivalent(rtt.max(), exact), "{}..{}", rtt.min(), rtt.max());
    assert_eq!((outcome.flows[0].sent, outcome.flows[0].received), (20, 20));
}

#[test]
fn a_line_that_changes_its_rate_is_followed() {
    let text = r#"
duration = "20s"
interval = "1s"
[[node]]
name = "rt"
down = "codel"
down-line = "20mbit"
delay = "10ms"
[[node.step]]
at = "10s"
down-line = "5mbit"
[[flow]]
name = "down"
"#;
    let outcome = run(text, 1);
    let mbit = |second: usize| outcome.flows[0].series[second] as f64 * 8.0 / 1e6;
    assert!((17.5..19.2).contains(&mbit(8)), "{}", mbit(8));
    assert!((4.3..4.8).contains(&mbit(18)), "{}", mbit(18));
}

#[test]
fn datagrams_keep_their_rate_and_their_code_point() {
    let text = r#"
duration = "10s"
[[node]]
name = "rt"
up = "pfifo limit 100 | tbf rate 10mbit burst 3028"
delay = "5ms"
[[flow]]
name = "call"
app = "constant"
direction = "up"
rate = "80kbit"
packet = 200
dscp = 46
"#;
    let (scenario, _) = file::read(text, &sim::SENDERS).unwrap();
    let mut simulation = sim::build(&scenario, 1, Link::default()).unwrap();
    simulation.trace();
    let outcome = simulation.run(None);
    let call = &outcome.flows[0];
    assert!(call.sent.abs_diff(500) <= 1 && call.sent - call.received <= 1, "{} {}", call.sent, call.received);
    assert!(outcome.ports[0].verdicts.iter().all(|v| v.ds == 46 << 2 && v.len == 242));
}

#[test]
fn questions_are_answered_in_a_round_trip_and_pages_in_several() {
    let text = r#"
duration = "20s"
[[node]]
name = "dl"
delay = "10ms"
[[flow]]
name = "ask"
app = "request"
response = "1000"
[[flow]]
name = "web"
app = "web"
think = "500ms"
"#;
    let outcome = run(text, 1);
    let (ask, web) = (&outcome.flows[0], &outcome.flows[1]);
    assert!(ask.times.len() > 100 && ask.times.iter().all(|t| *t == 20_000_000), "{:?}", &ask.times[..9]);
    assert!(
        web.times.len() > 5 && web.times.iter().all(|t| (40_000_000..2_000_000_000).contains(t)),
        "{:?}",
        web.times
    );
}

/// The baseline: twenty DCTCP flows at a step threshold of twenty packets.
#[test]
fn twenty_dctcp_flows_share_a_step_threshold_as_they_do_in_the_kernel() {
    let text = r#"
duration = "6s"
steady-from = "3s"
[[node]]
name = "rt"
down = "codel ce_threshold 242us | tbf rate 1gbit burst 3028"
[[node]]
name = "dl"
delay = "500us"
[[flow]]
name = "flow"
sender = "dctcp"
count = 20
every = "100ms"
"#;
    let outcome = run(text, 1);
    let rtt = outcome.rtt("flow");
    let (median, p99) = (rtt.value_at_quantile(0.5) as f64 / 1e6, rtt.value_at_quantile(0.99) as f64 / 1e6);
    assert_eq!(outcome.ports[0].drops[0], 0);
    assert!(outcome.flows.iter().all(|f| f.retransmissions[0] == 0));
    assert!((median / 1.26 - 1.0).abs() < 0.05 && (p99 / 2.556 - 1.0).abs() < 0.05, "{median} {p99}");
    assert!((outcome.goodput("flow") / 945.4e6 - 1.0).abs() < 0.02, "{}", outcome.goodput("flow"));
    // Linux: 43.79 to 51.58.
    let flows: Vec<u64> = outcome.flows.iter().map(|f| f.goodput as u64).collect();
    assert!(flows.iter().all(|f| (39_400_000..56_700_000).contains(f)), "{flows:?}");
}

/// Datagrams sent and received at a constant rate, through a pipeline and then a wire.
fn datagrams(pipeline: &str) -> (u64, u64) {
    let text = format!(
        "duration = \"10s\"\n[[node]]\nname = \"rt\"\nup = \"{pipeline}\"\n\
         [[flow]]\nname = \"udp\"\napp = \"constant\"\ndirection = \"up\"\nrate = \"800kbit\"\npacket = 1000\n"
    );
    let flow = &run(&text, 1).flows[0];
    (flow.sent, flow.received)
}

#[test]
fn a_corrupted_frame_is_lost_at_its_receiver() {
    let (sent, received) = datagrams("netem corrupt 100%");
    assert!(sent >= 999 && received == 0, "{sent} {received}");
    let (sent, received) = datagrams("netem corrupt 20% seed 7");
    assert!((750..850).contains(&(received * 1000 / sent)), "{sent} {received}");
}

#[test]
fn a_duplicated_frame_arrives_twice() {
    let (sent, received) = datagrams("netem duplicate 100%");
    assert!(2 * sent - received <= 2, "{sent} {received}");
}

#[test]
fn a_stop_behind_the_end_is_the_end() {
    let words = ["sim", "rrul", "--param", "seconds=2", "--param", "rate=10mbit", "--stop-at"];
    let stopped_at = |when: &str| weir(&[&words[..], &[when]].concat()).stdout;
    assert_eq!(stopped_at("50s"), stopped_at("2s"));
}

#[test]
fn a_folder_with_something_in_it_is_not_written_into() {
    let folder = std::env::temp_dir().join(format!("weir-sim-filled-{}", std::process::id()));
    std::fs::create_dir_all(folder.join(".guest")).unwrap();
    let words = ["sim", "rrul", "--param", "seconds=1", "--param", "rate=1mbit", "-o", folder.to_str().unwrap()];
    assert!(weir(&words).status.success(), "what is hidden is no result");
    std::fs::write(folder.join("summary.json"), "mine").unwrap();
    let done = weir(&["sim", "hosts", "-o", folder.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("is not empty"));
    assert_eq!(std::fs::read(folder.join("summary.json")).unwrap(), b"mine");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_pipeline_without_quotes_is_told_to_be_one_word() {
    let done = weir(&["explain", "cake", "bandwidth", "10mbit"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("one word, in quotes"));
}

#[test]
fn a_connection_that_would_send_for_ever_in_one_moment_is_refused() {
    let built = |text: &str| {
        let (scenario, _) = file::read(text, &sim::SENDERS).map_err(|p| p.message).unwrap();
        sim::build(&scenario, 1, Link::default()).map(|_| ())
    };
    let queue = "[[node]]\nname = \"rt\"\ndown = \"cake\"\nup = \"pfifo\"\n";
    for endless in ["", "app = \"request\"\nthink = \"0\"\n", "app = \"web\"\nthink = \"0\"\n"] {
        let flow = format!("[[flow]]\nname = \"f\"\n{endless}");
        for path in ["", queue] {
            let message = built(&format!("{flow}{path}")).unwrap_err();
            assert!(message.starts_with("flow \"f\": nothing on its way takes time"), "{message}");
        }
        built(&format!("{flow}{queue}line = \"1gbit\"\n")).unwrap();
        built(&format!("{flow}{queue}delay = \"1us\"\n")).unwrap();
        built(&format!("{flow}[[node]]\nname = \"rt\"\ndown = \"cake bandwidth 1gbit\"\n")).unwrap();
    }
    built("[[flow]]\nsize = \"10k\"\n").unwrap();
}
