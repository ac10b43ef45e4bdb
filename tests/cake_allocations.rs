//! Nothing is allocated for a packet by a discipline alone, from the first packet on: in overload,
//! idling, dropping, marking, in every mode of cake.

use weir::classify::{Hashing, Headers};
use weir::packet::{Packet, truesize};
use weir::pipeline::Link;
use weir::pool::Pool;
use weir::qdisc::{Cx, Drops, NoFrames};
use weir::rng::{Random, SplitMix64};
use weir::spec;
use weir::time::Instant;
use weir::wire::build::Build;

fn frame(flow: u8, len: u32, ds: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (src, dst) = ([10, 0, 0, flow].into(), [192, 0, 2, flow % 5].into());
    Build { len, src, dst, protocol: 17, sport: 4000 + u16::from(flow), dport: 53, ds, tcp: None }.write(&mut bytes);
    bytes
}

/// Overload, drops, marks, idling and recovery; allocations after the pipeline was built.
fn allocations(line: &str) -> u64 {
    let mut pipeline = spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec.build(Link::default());
    let frames: Vec<Vec<u8>> = (0..40).map(|f| frame(f, 60 + u32::from(f) * 37, f * 6)).collect();
    let mut pool = Pool::new(2000);
    let mut drops = Drops::default();
    let mut random = Random::seeded(1);
    let mut hashing = Hashing::Keyed([1, 2]);
    let mut dice = SplitMix64::new(2);
    let mut now = Instant::from_nanos(1 << 40);
    let mut sent = 0u32;

    let counted = allocation_counter::measure(|| {
        for step in 0..60_000u32 {
            let r = dice.next_u64();
            let cx = &mut Cx {
                pool: &mut pool,
                drops: &mut drops,
                random: &mut random,
                hashing: &mut hashing,
                frames: &mut NoFrames,
            };
            if step % 10_000 < 8_000 {
                let bytes = &frames[r as usize % frames.len()];
                let headers = Headers::parse(bytes);
                if let Some(frame) = cx.pool.take() {
                    let packet = &mut cx.pool[&frame];
                    *packet = Packet::default();
                    packet.arrived = now;
                    packet.len = bytes.len() as u32;
                    packet.truesize = truesize(packet.len);
                    headers.apply(packet);
                    pipeline.enqueue(now, frame, &headers, cx);
                }
            }
            now = now + (r >> 32) % 400_000;
            while let Some(frame) = pipeline.dequeue(now, cx) {
                sent += 1;
                cx.pool.give(frame);
            }
            while let Some((frame, _)) = cx.drops.pop(cx.pool) {
                cx.pool.give(frame);
            }
        }
    });
    assert!(sent > 1000, "{line}: {sent} sent");
    counted.count_total
}

#[test]
fn no_packet_costs_an_allocation_in_any_discipline() {
    for line in [
        "pfifo limit 100",
        "bfifo limit 50k",
        "pfifo_head_drop limit 100",
        "codel ecn | tbf rate 10mbit burst 5k",
        "tbf rate 10mbit burst 5k limit 60k",
        "cake",
        "cake bandwidth 10mbit",
        "cake bandwidth 10mbit diffserv8 dual-srchost ingress memlimit 100kb",
        "cake bandwidth 10mbit diffserv4 ack-filter-aggressive wash conservative memlimit 50kb heap exact",
        "cake bandwidth 10mbit autorate-ingress ce_threshold 1ms queues 4096",
    ] {
        assert_eq!(allocations(line), 0, "{line}");
    }
}
