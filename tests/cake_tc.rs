//! cake's words and figures against what tc printed for the kernel's (`tests/tc/`).

use serde_json::{Map, Value};
use weir::pipeline::Link;
use weir::qdisc::Compat;
use weir::qdisc::cake::{Counters, Delays, Lengths, TinStats};
use weir::spec;
use weir::stats::rows::rows;
use weir::stats::{Basic, StageStats, tc_json, tc_text};
use weir::time::Instant;

const LINK: Link = Link { mtu: 1514, compat: Compat::V6_12 };

fn stats_of(line: &str) -> Vec<StageStats> {
    let spec = spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec;
    spec.build(LINK).stats(Instant::from_nanos(1 << 40))
}

#[test]
fn every_set_of_options_prints_as_tc_printed_it_and_reads_back_the_same() {
    let mut sets = 0;
    for block in include_str!("tc/cake_options.txt").split("## ").skip(1) {
        let [line, text, json] = block.trim_end_matches('\n').split('\n').collect::<Vec<_>>()[..] else {
            panic!("three lines: {block}")
        };
        let stats = stats_of(line);
        assert_eq!(tc_text::options(&stats[0]), text, "{line}");
        assert_eq!(Value::Object(tc_json::options(&stats[0])).to_string(), json, "{line}");
        let first = spec::parse(line).unwrap().spec;
        let printed = first.to_string();
        assert_eq!(spec::parse(&printed).unwrap().spec, first, "{line} printed as {printed}");
        sets += 1;
    }
    assert!(sets > 95, "{sets} sets");
}

#[test]
fn what_tc_refuses_is_refused_with_its_place() {
    for (line, at) in [
        ("cake bandwidth 10foo", 15),
        ("cake bandwidth 10%", 15),
        ("cake bandwidth unlimited", 15),
        ("cake overhead 300", 14),
        ("cake overhead -65", 14),
        ("cake overhead 0x10", 14),
        ("cake mpu 257", 9),
        ("cake mpu x", 9),
        ("cake metro lan", 11),
        ("cake metro metro", 11),
        ("cake memlimit 5g", 14),
        ("cake fwmark 0xfffffffff", 12),
        ("cake bandwidth", 14),
        ("cake rtt 5xs", 9),
        ("cake ingres", 5),
        ("cake sync 100us", 5),
    ] {
        let e = spec::parse(line).expect_err(line);
        assert_eq!(e.at, at, "{line}: {e}");
    }
    assert_eq!(spec::parse("cake ingres").unwrap_err().nearest.as_deref(), Some("ingress"));
}

#[test]
fn what_tc_takes_but_cannot_mean_is_refused_too() {
    for (line, at) in [
        ("cake bandwidth -1mbit", 15),
        ("cake bandwidth 0", 15),
        ("cake bandwidth 7bit", 15),
        ("cake rtt 5000s", 9),
        ("cake rtt -1ms", 9),
        ("cake overhead 250 ether-vlan ether-vlan", 29),
        ("cake queues 1000", 12),
        ("cake queues 128", 12),
        ("cake queues 131072", 12),
        ("cake heap fat", 10),
        ("cake min-occupancy 3mtu", 19),
        ("cake ce_threshold_selector 1/3", 5),
        ("cake ce_threshold 1ms ce_threshold_selector 4/3", 44),
        ("cake ce_threshold 1ms ce_threshold_selector 4", 44),
    ] {
        let e = spec::parse(line).expect_err(line);
        assert_eq!(e.at, at, "{line}: {e}");
    }
}

#[test]
fn a_word_that_overrides_another_is_said_aloud() {
    for (line, warnings) in [
        ("cake besteffort diffserv4", 1),
        ("cake flows hosts", 1),
        ("cake metro rtt 20ms", 1),
        ("cake ingress egress", 1),
        ("cake ack-filter no-ack-filter", 1),
        ("cake bandwidth 1mbit bandwidth 2mbit", 1),
        ("cake bandwidth 1mbit unlimited", 1),
        ("cake autorate-ingress bandwidth 1mbit", 1),
        ("cake ethernet overhead 10", 1),
        ("cake ethernet conservative", 1),
        ("cake ethernet raw", 1),
        ("cake raw overhead 10", 1),
        ("cake nat", 1),
        ("cake fwmark 0xff", 1),
        ("cake rtt 0", 1),
        ("cake bandwidth 1mbit autorate-ingress", 0),
        ("cake ethernet ether-vlan ether-vlan", 0),
        ("cake docsis ingress besteffort", 0),
        ("cake nonat nowash split-gso", 0),
    ] {
        let parsed = spec::parse(line).unwrap();
        assert_eq!(parsed.warnings.len(), warnings, "{line}: {:?}", parsed.warnings);
    }
}

/// A run's figures as tc printed them, put into ours.
fn with_counters(line: &str, object: &Map<String, Value>) -> StageStats {
    let get = |key: &str| object[key].as_u64().unwrap();
    let Some(StageStats::Cake(mut s)) = stats_of(line).into_iter().next() else { panic!("{line}") };
    s.basic = Basic {
        sent_bytes: get("bytes"),
        sent_packets: get("packets"),
        drops: get("drops"),
        overlimits: get("overlimits"),
        backlog: get("backlog"),
        qlen: get("qlen") as u32,
    };
    s.memory_peak = get("memory_used");
    s.lengths = Lengths::with_average_offset(get("avg_hdr_offset"));
    s.lengths.max_network = get("max_network_size") as u16;
    s.lengths.min_network = get("min_network_size") as u16;
    s.lengths.max_adjusted = get("max_adj_size") as u16;
    s.lengths.min_adjusted = get("min_adj_size") as u16;
    for (tin, t) in s.tins.iter_mut().zip(object["tins"].as_array().unwrap()) {
        fill(tin, t);
    }
    StageStats::Cake(s)
}

fn fill(tin: &mut TinStats, t: &Value) {
    let get = |key: &str| t[key].as_u64().unwrap();
    tin.backlog = get("backlog_bytes");
    tin.sparse = get("sparse_flows") as u32;
    tin.bulk = get("bulk_flows") as u32;
    tin.unresponsive = get("unresponsive_flows") as u32;
    tin.counters = Counters {
        packets: get("sent_packets"),
        bytes: get("sent_bytes"),
        drops: get("drops"),
        marks: get("ecn_mark"),
        ack_drops: get("ack_drops"),
        way_indirect: get("way_indirect_hits"),
        way_misses: get("way_misses"),
        way_collisions: get("way_collisions"),
        max_len: get("max_pkt_len") as u32,
        delays: Delays {
            average: get("avg_delay_us") * 1000,
            peak: get("peak_delay_us") * 1000,
            base: get("base_delay_us") * 1000,
        },
        ..Counters::default()
    };
}

#[test]
fn the_figures_of_a_run_print_as_tc_printed_them() {
    let mut runs = 0;
    for block in include_str!("tc/cake.txt").split("## ").skip(1) {
        let (line, rest) = block.split_once('\n').unwrap();
        let (text, json) = rest.split_once("#json\n").unwrap();
        let objects: Vec<Map<String, Value>> = serde_json::from_str(json.trim_end()).unwrap();
        let stages = [with_counters(line, &objects[0])];
        let dev = objects[0].get("dev").and_then(Value::as_str).unwrap_or("");
        let rows = rows(dev, &stages);
        assert_eq!(rows.iter().map(tc_text::stage).collect::<String>(), text, "{line}");
        let ours: Vec<_> = rows.iter().map(tc_json::stage).collect();
        assert_eq!(serde_json::to_string(&ours).unwrap(), json.trim_end(), "{line}");
        runs += 1;
    }
    assert_eq!(runs, 15);
}
