use super::*;
use crate::pipeline::Link;
use crate::qdisc::Reason;
use crate::stats::histogram::empty;
use crate::time::{Instant, MILLISECOND};

fn report() -> Report {
    let spec = crate::spec::parse("codel ecn | tbf rate 20mbit burst 5k").unwrap().spec;
    let stages = spec.build(Link::default()).stats(Instant::ZERO);
    let mut sojourns = Sojourns::of(&stages);
    (1..=1000).for_each(|i| sojourns.record(i * MILLISECOND / 100, i * MILLISECOND / 50, 0));
    let mut drops = DropCounts::default();
    drops.packets[Reason::Aqm as usize] = 3;
    drops.bytes[Reason::Aqm as usize] = 4542;
    Report {
        direction: "down",
        from: "wan".into(),
        to: "lan".into(),
        spec: spec.to_string(),
        seconds: 12.34,
        stages,
        counters: Counters {
            received_packets: 1007,
            received_bytes: 1_007_000,
            sent_packets: 1000,
            sent_bytes: 1_000_000,
            marked_ecn: 5,
            arrived: CodePoints { ect0: 1007, ..CodePoints::default() },
            left: CodePoints { ect0: 995, ce: 5, ..CodePoints::default() },
            ..Counters::default()
        },
        drops,
        backlog: (4, 4000),
        census: Census { capacity: 4096, free: 2000, queued: 4, receiving: 2048, sending: 44 },
        sojourns,
        late: empty(),
        autorate: None,
        devices: vec![
            ("gate", json!({ "redirected": 1007, "bypassed": 0 })),
            ("kernel", json!({ "rx_ring_full": 0 })),
            ("queues", json!([{ "rx_ring_full": 0 }, { "rx_ring_full": 7, "rx_fill_ring_empty": 2 }])),
        ],
    }
}

#[test]
fn a_report_is_what_tc_prints_and_weirs_lines_below() {
    let expected = " weir down wan->lan 12.3s: codel ecn | tbf rate 20mbit burst 5kb
  received 1007000 bytes 1007 pkt, unparsed 0
  sent 1000000 bytes 1000 pkt, refused 0
  dropped 3 pkt: aqm 3
  marked here: ecn 5 pi2 0 ce_threshold 0 step 0 sce 0
  arrived not_ect 0 ect1 0 ect0 1007 ce 0 no_ds 0
  left not_ect 0 ect1 0 ect0 995 ce 5 no_ds 0
  sojourn decision p50 5.001ms p90 9.003ms p99 9.904ms p99.9 9.994ms max 10ms
  sojourn total p50 10ms p90 18.01ms p99 19.81ms p99.9 19.99ms max 20ms
  late p50 0ns p90 0ns p99 0ns p99.9 0ns max 0ns
  longest catch-up burst 0 bytes, 0ns late
  frames 4096: free 2000 queued 4 receiving 2048 sending 44 missing 0
  gate redirected 1007
  queues 1 rx_ring_full 7 rx_fill_ring_empty 2
";
    let text = report().text();
    let (tc, weir) = text.split_at(text.find(" weir down").unwrap());
    assert_eq!(weir, expected);
    assert!(tc.starts_with("qdisc tbf 1: dev lan root refcnt 2 rate 20Mbit burst 5Kb \n Sent 0 bytes"), "{tc}");
    assert!(tc.contains("\nqdisc codel 10: dev lan parent 1:1 limit 1000p target 5ms interval 100ms ecn \n"), "{tc}");
}

#[test]
fn weirs_additions_stand_under_one_key_of_the_direction() {
    let qdiscs = report().qdiscs();
    assert_eq!(qdiscs.len(), 2);
    assert_eq!(qdiscs.iter().map(|q| &q["direction"]).collect::<Vec<_>>(), ["down", "down"]);
    assert!(qdiscs[1].get("weir").is_none());
    let weir = &qdiscs[0]["weir"];
    assert_eq!(weir["dropped"], json!({ "packets": 3, "by_reason": { "aqm": { "packets": 3, "bytes": 4542 } } }));
    assert_eq!(weir["marked"], json!({ "ecn": 5, "pi2": 0, "ce_threshold": 0, "step": 0, "sce": 0 }));
    assert_eq!(weir["sojourn_ns"]["decision"]["count"], 1000);
    assert_eq!(weir["census_missing"], 0);
    assert_eq!(weir["queues"][1]["rx_ring_full"], 7);
    assert!(weir["sojourn_ns"].get("tins").is_none());
}

#[test]
fn every_name_in_the_json_is_in_the_table_of_counters() {
    fn names(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(k, v)| {
                out.push(k.clone());
                names(v, out);
            }),
            Value::Array(list) => list.iter().for_each(|v| names(v, out)),
            _ => {}
        }
    }
    let described = ["direction", "from", "to", "spec", "seconds", "count", "p50", "p90", "p99", "p99.9", "max"];
    let table = include_str!("../counters.rs");
    let mut all = Vec::new();
    names(&report().json(), &mut all);
    for name in all.iter().filter(|n| !described.contains(&n.as_str())) {
        assert!(table.contains(&format!("`{name}`")), "{name}");
    }
}
