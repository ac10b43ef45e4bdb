//! CoDel where a packet takes longer than the target.

use weir::qdisc::codel;
use weir::stats::StageStats;
use weir::time::{MILLISECOND as MS, SECOND};
use weir::trace::format::Outcome;

use crate::bench::{Bench, Offer, of_flow, paced, through};

fn offer(flow: u16, len: u32) -> Offer {
    Offer { flow, len, ..Offer::default() }
}

/// 200-byte packets at 1 Mbit/s with 15 of them standing: 3000 bytes, more than the MTU and less than the
/// jumbo frame that went before.
#[test]
fn the_least_occupancy_is_the_mtu_of_the_link_and_does_not_stick_at_a_jumbo_frame() {
    for line in ["codel", "fq_codel"] {
        let drops = |jumbo: bool| {
            let mut b = Bench::new(line, 100);
            if jumbo {
                b.enqueue(offer(1, 9000));
                b.dequeue();
            }
            for _ in 0..15 {
                b.enqueue(offer(1, 200));
            }
            let mut at = Vec::new();
            for call in 0..500 {
                b.wait(1_600_000);
                b.enqueue(offer(1, 200));
                at.extend(b.dequeue().1.iter().map(|_| call));
            }
            let (law, tally) = match b.stats() {
                StageStats::Codel(s) => (s.law, s.tally),
                StageStats::FqCodel(s) => (s.law, s.tally),
                other => panic!("{other:?}"),
            };
            assert_eq!((law.mtu, tally.maxpacket), (1514, if jumbo { 9000 } else { 200 }));
            at
        };
        assert!(!drops(false).is_empty(), "{line}");
        assert_eq!(drops(true), drops(false), "{line}");
    }
}

#[test]
fn the_last_packet_is_safe_however_old_it_is() {
    for line in ["codel target 1us interval 1us", "fq_codel target 1us interval 1us"] {
        let mut b = Bench::new(line, 10);
        for _ in 0..100 {
            b.enqueue(offer(1, 1514));
            b.wait(SECOND);
            assert!(b.dequeue().0.is_some(), "{line}");
        }
    }
}

/// Two bulk flows and one packet of 100 bytes each second at 64 kbit/s, with the target cake would
/// take there: one and a half packet times.
#[test]
fn at_64_kbit_both_bulk_flows_progress_and_a_sparse_packet_waits_for_one_other_at_most() {
    // Fast enough never to run empty, or they would be new again and stand before it.
    let mut arrivals = paced(0, 100 * MS, 120 * SECOND, offer(1, 1514));
    arrivals.extend(paced(1, 100 * MS, 120 * SECOND, offer(2, 1514)));
    arrivals.extend(paced(50 * MS, SECOND, 120 * SECOND, offer(3, 100)));
    let (run, arrivals) = through("fq_codel target 284ms interval 568ms | tbf rate 64kbit burst 1600", None, arrivals);
    let [one, two, sparse] = [1, 2, 3].map(|flow| of_flow(&run, &arrivals, flow));
    let sent = |flow: &[&Outcome]| flow.iter().filter(|o| o.dropped.is_none() && o.t_ns < 120 * SECOND).count();
    let bulk = [sent(&one), sent(&two)];
    // 1514 bytes take 189.25 ms, 100 bytes 12.5 ms: about 300 bulk packets, half for each.
    assert!(bulk[0].abs_diff(bulk[1]) <= 2 && bulk[0] > 290, "{bulk:?}");
    assert!(sparse.iter().all(|o| o.dropped.is_none()));
    let slowest = sparse.iter().map(|o| o.sojourn_ns).max().unwrap();
    assert!(slowest <= 189_250_000 + 12_500_000, "{slowest}");
}

#[test]
fn a_burst_of_fifteen_into_a_queue_of_ten_is_ten_departures_and_five_drops_with_a_reason() {
    for line in ["pfifo limit 10", "codel limit 10", "fq_codel limit 10 drop_batch 1", "dualpi2 limit 10"] {
        let mut b = Bench::new(line, 15);
        let dropped: Vec<_> = (0..15).flat_map(|_| b.enqueue(offer(1, 1000))).collect();
        assert_eq!(dropped.iter().map(|d| d.dropped.unwrap().name()).collect::<Vec<_>>(), ["queue_full"; 5], "{line}");
        let departures = (0..15).filter(|_| b.dequeue().0.is_some()).count();
        assert_eq!((departures, b.counts()), (10, [15, 10, 5]), "{line}");
    }
}

/// Whatever the rate of the link: nothing that is derived from it or from the MTU is nothing.
#[test]
fn no_derived_length_or_time_is_zero_from_8_bit_to_400_gbit() {
    for mtu in [64, 576, 1514, 9600] {
        let link = weir::pipeline::Link { mtu, ..Default::default() };
        for line in ["codel target 1us", "fq_codel", "dualpi2", "dualpi2 limit 1 tupdate 1us"] {
            match Bench::on(line, 1, link).stats() {
                StageStats::Codel(s) => assert!(s.law.interval.0 > 0 && s.law.mtu == mtu),
                StageStats::FqCodel(s) => assert!(s.quantum >= 256 && s.law.target == codel::Ticks(4882)),
                StageStats::Dualpi2(s) => {
                    assert!(s.memory_limit >= 2 * mtu && s.tupdate_ns > 0 && s.alpha > 0 && s.beta > 0);
                    assert!(s.credit_init < 0);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
