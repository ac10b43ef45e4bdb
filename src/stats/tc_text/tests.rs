//! Against what tc printed for the kernel's disciplines (`tests/tc/`).

use serde_json::{Map, Value};

use crate::pipeline::Link;
use crate::qdisc::{Compat, codel};
use crate::spec;
use crate::stats::rows::rows;
use crate::stats::{Basic, StageStats, tc_json, tc_text};
use crate::time::Instant;

struct Recorded {
    spec: &'static str,
    text: String,
    json: &'static str,
}

fn recorded(file: &'static str) -> Vec<Recorded> {
    let mut out = Vec::new();
    for block in file.split("## ").skip(1) {
        let (spec, rest) = block.split_once('\n').expect("a specification");
        let (text, json) = rest.split_once("#json\n").expect("the same as JSON");
        out.push(Recorded { spec, text: text.into(), json: json.trim_end() });
    }
    out
}

/// A pipeline's figures, with the counters that were recorded.
fn with_counters(spec: &str, objects: &[Map<String, Value>]) -> Vec<StageStats> {
    let spec = spec::parse(spec).expect("tc took it").spec;
    let mut stages = spec.build(Link { compat: Compat::V6_12, ..Link::default() }).stats(Instant::from_nanos(1 << 40));
    for (stage, object) in stages.iter_mut().zip(objects) {
        fill(stage, object);
    }
    stages
}

fn fill(stage: &mut StageStats, o: &Map<String, Value>) {
    let get = |key: &str| o.get(key).and_then(Value::as_i64).unwrap_or(0);
    let basic = Basic {
        sent_bytes: get("bytes") as u64,
        sent_packets: get("packets") as u64,
        drops: get("drops") as u64,
        overlimits: get("overlimits") as u64,
        backlog: get("backlog") as u64,
        qlen: get("qlen") as u32,
    };
    match stage {
        StageStats::Fifo { basic: b, .. } => *b = basic,
        StageStats::Tbf(s) => s.basic = basic,
        StageStats::Htb(s) => s.basic = basic,
        StageStats::Netem(s) => s.basic = basic,
        StageStats::Link(s) => s.basic = basic,
        StageStats::Marked { .. } => unreachable!("nothing was recorded of it"),
        StageStats::FqCodel(s) => {
            s.basic = basic;
            s.drop_overlimit = get("drop_overlimit") as u32;
            s.drop_overmemory = get("drop_overmemory") as u32;
            s.new_flow_count = get("new_flow_count") as u32;
            s.memory_used = get("memory_used") as u32;
            s.new_flows_len = get("new_flows_len") as u32;
            s.old_flows_len = get("old_flows_len") as u32;
            s.tally.maxpacket = get("maxpacket") as u32;
            s.tally.ecn_mark = get("ecn_mark") as u32;
            s.tally.ce_mark = get("ce_mark") as u32;
        }
        StageStats::Dualpi2(s) => s.basic = basic,
        StageStats::Codel(s) => {
            s.basic = basic;
            s.state.count = get("count") as u32;
            s.state.lastcount = get("lastcount") as u32;
            s.state.ldelay = ticks(get("ldelay"));
            s.state.dropping = o.contains_key("dropping");
            s.drop_next = ticks(get("drop_next").abs()).0 as i32 * get("drop_next").signum() as i32;
            s.tally.maxpacket = get("maxpacket") as u32;
            s.tally.ecn_mark = get("ecn_mark") as u32;
            s.tally.ce_mark = get("ce_mark") as u32;
            s.drop_overlimit = get("drop_overlimit") as u32;
        }
        other => panic!("{} is compared elsewhere", other.kind()),
    }
}

/// The ticks that are shown as so many microseconds.
fn ticks(us: i64) -> codel::Ticks {
    let floor = codel::Ticks::from_us(us as u32);
    [floor.0, floor.0 + 1].map(codel::Ticks).into_iter().find(|t| i64::from(t.as_us()) == us).expect("a shown time")
}

fn compare(file: &'static str) {
    for r in recorded(file) {
        let objects: Vec<Map<String, Value>> = serde_json::from_str(r.json).expect("tc's JSON");
        let dev = objects[0].get("dev").and_then(Value::as_str).unwrap_or("");
        let stages = with_counters(r.spec, &objects);
        let rows = rows(dev, &stages);
        let text: String = rows.iter().map(tc_text::stage).collect();
        assert_eq!(text, r.text, "{}", r.spec);
        let json: Vec<_> = rows.iter().map(tc_json::stage).collect();
        assert_eq!(serde_json::to_string(&json).expect("plain JSON"), r.json, "{}", r.spec);
    }
}

#[test]
fn fifos_print_as_tc_prints_them() {
    compare(include_str!("../../../tests/tc/fifo.txt"));
}

#[test]
fn token_buckets_print_as_tc_prints_them() {
    compare(include_str!("../../../tests/tc/tbf.txt"));
}

#[test]
fn codel_prints_as_tc_prints_it_alone_and_as_a_child() {
    compare(include_str!("../../../tests/tc/codel.txt"));
}

#[test]
fn fq_codel_prints_as_tc_prints_it_alone_and_as_a_child() {
    compare(include_str!("../../../tests/tc/fq_codel.txt"));
}

#[test]
fn impairments_print_as_tc_prints_them_alone_and_over_a_queue() {
    compare(include_str!("../../../tests/tc/netem.txt"));
}

#[test]
fn a_bucket_that_needs_no_limit_shows_none() {
    let stages = with_counters("codel | tbf rate 20mbit burst 5k", &[]);
    assert_eq!(tc_text::options(&stages[0]), "rate 20Mbit burst 5Kb ");
    assert!(!tc_json::options(&stages[0]).contains_key("lat"));
}

#[test]
fn counters_beyond_32_bits_are_shown_whole() {
    let big = 5_000_000_000;
    let basic = Basic { sent_bytes: big, sent_packets: big, drops: big, overlimits: big, backlog: big, qlen: 7 };
    let stages = [StageStats::Fifo { kind: crate::qdisc::fifo::Kind::Packets, limit: 10, basic }];
    let text: String = rows("", &stages).iter().map(tc_text::stage).collect();
    assert_eq!(
        text,
        "qdisc pfifo 1: root refcnt 2 limit 10p\n \
         Sent 5000000000 bytes 5000000000 pkt (dropped 5000000000, overlimits 5000000000 requeues 0) \n \
         backlog 5000000000b 7p requeues 0\n"
    );
}
