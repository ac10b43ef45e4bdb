//! `fq_codel`: isolation, fairness, and who pays when a limit is passed.

use std::collections::HashMap;

use weir::pipeline::Link;
use weir::qdisc::{Reason, fq_codel};
use weir::stats::StageStats;

use crate::bench::{Bench, Gone, Offer};

fn offer(flow: u16, len: u32) -> Offer {
    Offer { flow, len, ..Offer::default() }
}

fn stats(b: &Bench) -> Box<fq_codel::Stats> {
    match b.stats() {
        StageStats::FqCodel(s) => s,
        other => panic!("{other:?}"),
    }
}

fn flows(sent: &[Gone]) -> Vec<u16> {
    sent.iter().map(|g| g.flow).collect()
}

fn take(b: &mut Bench, n: usize) -> Vec<Gone> {
    (0..n).map(|_| b.dequeue().0.expect("a packet waits")).collect()
}

#[test]
fn a_sparse_flow_overtakes_ten_bulk_flows() {
    let mut b = Bench::new("fq_codel", 1000);
    for _ in 0..20 {
        for flow in 0..10 {
            b.enqueue(offer(flow, 1514));
        }
    }
    take(&mut b, 20);
    b.enqueue(offer(99, 100));
    assert_eq!(flows(&take(&mut b, 2)), [99, 0]);
}

#[test]
fn flows_share_bytes_and_not_packets() {
    let mut b = Bench::new("fq_codel", 3000);
    for _ in 0..200 {
        b.enqueue(offer(1, 1514));
        b.enqueue(offer(2, 700));
        b.enqueue(offer(3, 100));
    }
    // As long as all three have packets: the smallest run out after 20 000 bytes.
    let mut bytes: HashMap<u16, i64> = HashMap::new();
    while bytes.get(&3).is_none_or(|n| *n < 18_000) {
        let gone = take(&mut b, 1)[0];
        *bytes.entry(gone.flow).or_default() += i64::from(gone.len);
        let most = bytes.values().max().unwrap();
        let least = (1..=3).map(|f| bytes.get(&f).copied().unwrap_or(0)).min().unwrap();
        // A quantum ahead, and the part of a packet that passed the deficit.
        assert!(most - least <= 2 * 1514, "{bytes:?}");
    }
}

#[test]
fn a_new_flow_that_ran_empty_passes_once_behind_the_old_ones() {
    let mut b = Bench::new("fq_codel", 100);
    for _ in 0..10 {
        b.enqueue(offer(1, 1514));
        b.enqueue(offer(2, 1514));
    }
    take(&mut b, 2);
    b.enqueue(offer(9, 100));
    assert_eq!(flows(&take(&mut b, 1)), [9]);
    // The next call finds flow 9 empty and puts it behind 1 and 2.
    assert_eq!(flows(&take(&mut b, 1)), [1]);
    assert_eq!((stats(&b).new_flow_count, stats(&b).new_flows_len, stats(&b).old_flows_len), (3, 0, 3));
    b.enqueue(offer(9, 100));
    assert_eq!(stats(&b).new_flow_count, 3, "it is not new again");
    assert_eq!(flows(&take(&mut b, 3)), [2, 9, 1]);
}

#[test]
fn a_flow_of_small_packets_stays_ahead_for_one_quantum_only() {
    let mut b = Bench::new("fq_codel quantum 300", 100);
    for _ in 0..10 {
        b.enqueue(offer(1, 1514));
    }
    take(&mut b, 1);
    for _ in 0..5 {
        b.enqueue(offer(9, 100));
    }
    assert_eq!(flows(&take(&mut b, 3)), [9, 9, 9]);
    // Flow 1 owes 1214 bytes: four more rounds before its next packet, and flow 9 has 3 packets in each.
    assert_eq!(flows(&take(&mut b, 3)), [9, 9, 1]);
}

#[test]
fn over_the_limit_the_fattest_flow_gives_half_its_bytes_from_the_head() {
    let fill = |line: &str| {
        let mut b = Bench::new(line, 200);
        for i in 0..90 {
            b.enqueue(offer(1, 1000));
            if i % 9 == 0 {
                b.enqueue(offer(2, 1514));
            }
        }
        let dropped = b.enqueue(offer(2, 100));
        assert!(dropped.iter().all(|d| d.flow == 1 && d.dropped == Some(Reason::QueueFull)));
        let first: Vec<u64> = dropped.iter().map(|d| d.id).take(3).collect();
        assert_eq!(first, [0, 2, 3], "from the head");
        dropped.len()
    };
    assert_eq!(fill("fq_codel limit 100"), 45);
    assert_eq!(fill("fq_codel limit 100 drop_batch 8"), 8);
    assert_eq!(fill("fq_codel limit 100 drop_batch 46"), 45);
}

#[test]
fn at_least_one_packet_goes_even_if_the_batch_is_full_of_it() {
    let mut b = Bench::new("fq_codel limit 1 drop_batch 1", 10);
    assert!(b.enqueue(offer(1, 1000)).is_empty());
    // The newcomer is the fattest and goes; had it been the smaller, the other would.
    assert_eq!(b.enqueue(offer(2, 1001))[0].flow, 2);
    assert_eq!(b.enqueue(offer(2, 999))[0].flow, 1);
    assert_eq!(stats(&b).drop_overlimit, 2);
    assert_eq!(take(&mut b, 1)[0].flow, 2);
}

#[test]
fn a_memory_limit_of_zero_lets_nothing_in_and_is_named_as_the_reason() {
    let mut b = Bench::new("fq_codel memory_limit 0", 10);
    assert_eq!(b.enqueue(offer(1, 100))[0].dropped, Some(Reason::Memory));
    assert_eq!((stats(&b).drop_overlimit, stats(&b).drop_overmemory, stats(&b).memory_used), (1, 1, 0));
    assert_eq!(b.dequeue(), (None, vec![]));
}

/// 64-byte packets of ten thousand flows against one megabyte of memory.
#[test]
fn a_flood_of_small_flows_never_passes_the_memory_limit_and_a_sparse_flow_still_comes_through() {
    let limit = 1_000_000;
    let mut b = Bench::new(&format!("fq_codel flows 16384 memory_limit {limit}"), 2000);
    for i in 0..60_000u32 {
        b.enqueue(offer((i % 10_000) as u16, 64));
        assert!(stats(&b).memory_used <= limit, "{}", stats(&b).memory_used);
        if i % 5000 == 4999 {
            // Smaller than all others: not the fattest.
            let sparse = 20_000 + (i / 5000) as u16;
            b.enqueue(offer(sparse, 60));
            // A new flow stands behind those that became new before it, each with one packet.
            let ahead = stats(&b).new_flows_len;
            let served = (1..=ahead).find(|_| take(&mut b, 1)[0].flow == sparse).expect("within one round");
            assert!(served > 100, "the flood did not stand before it");
        }
    }
    assert!(b.dropped_by(Reason::Memory) > 40_000, "{}", b.dropped_by(Reason::Memory));
}

#[test]
fn a_priority_with_the_handle_names_the_flow() {
    let sent = |priority: u32| {
        let mut b = Bench::new("fq_codel", 100);
        for _ in 0..3 {
            b.enqueue(Offer { priority, ..offer(1, 300) });
            b.enqueue(Offer { priority, ..offer(2, 300) });
        }
        flows(&take(&mut b, 6))
    };
    let apart = [1, 1, 1, 2, 2, 2];
    assert_eq!(sent(0), apart, "by hash");
    assert_eq!(sent(0x1_0005), [1, 2, 1, 2, 1, 2], "1:5 is one queue");
    assert_eq!(sent(0x1_0401), apart, "1:1025 is none of 1024");
    assert_eq!(sent(0x1_0000), apart, "1:0 names none");
    assert_eq!(sent(0x10_0005), apart, "10:5 is meant for another");
}

#[test]
fn a_child_of_a_shaper_has_handle_10() {
    let mut b = Bench::new("fq_codel | tbf rate 1gbit burst 100k", 100);
    for _ in 0..3 {
        b.enqueue(Offer { priority: 0x10_0005, ..offer(1, 300) });
        b.enqueue(Offer { priority: 0x10_0005, ..offer(2, 300) });
    }
    assert_eq!(flows(&take(&mut b, 6)), [1, 2, 1, 2, 1, 2]);
}

#[test]
fn a_smaller_limit_takes_from_the_fattest_and_says_flushed() {
    let mut b = Bench::new("fq_codel", 100);
    for _ in 0..10 {
        b.enqueue(offer(1, 1000));
    }
    for _ in 0..5 {
        b.enqueue(offer(2, 1000));
    }
    let dropped = b.change("fq_codel limit 8");
    let of = |flow| dropped.iter().filter(|d| d.flow == flow).count();
    assert_eq!((of(1), of(2)), (6, 1));
    assert!(dropped.iter().all(|d| d.dropped == Some(Reason::Flushed)));
}

#[test]
fn codel_in_a_flow_looks_at_the_backlog_of_all_flows() {
    // A flow with one packet at a time, each 20 ms old when it is looked at. Alone it is never
    // dropped: nothing is behind it. Beside a standing queue it is, after an interval.
    let drops = |behind: u32| {
        let mut b = Bench::new("fq_codel", 1000);
        let mut dropped = 0;
        for _ in 0..behind {
            b.enqueue(offer(2, 1514));
        }
        for _ in 0..20 {
            b.enqueue(offer(1, 1000));
            b.wait(20_000_000);
            // Up to and with the packet of flow 1, or its end.
            for _ in 0..2 {
                let (sent, dead) = b.dequeue();
                dropped += dead.iter().filter(|d| d.flow == 1).count();
                if sent.is_none_or(|g| g.flow == 1) || !dead.is_empty() {
                    break;
                }
            }
        }
        dropped
    };
    assert_eq!(drops(0), 0);
    assert!(drops(500) > 0);
}

#[test]
fn the_quantum_is_the_mtu_of_the_link_unless_told() {
    let on = |line: &str, mtu: u32| stats(&Bench::on(line, 1, Link { mtu, ..Link::default() })).quantum;
    assert_eq!(on("fq_codel", 9014), 9014);
    assert_eq!(on("fq_codel", 100), 256);
    assert_eq!(on("fq_codel quantum 300", 9014), 300);
}
