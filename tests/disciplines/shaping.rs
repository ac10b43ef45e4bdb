//! `tbf`: bursts, spacing, and a worker that wakes late.

use proptest::prelude::*;
use weir::qdisc::Reason;
use weir::qdisc::tbf::Params;
use weir::time::{MILLISECOND as MS, SECOND};
use weir::units::Rate;

use crate::bench::{Bench, Offer, arrival, paced, through};

fn offer(len: u32) -> Offer {
    Offer { flow: 1, len, ..Offer::default() }
}

/// 8 kbit/s and a bucket of one packet: what was saved while idle lets the first leave at once, no more.
#[test]
fn after_ten_idle_seconds_the_first_packet_leaves_at_once_and_the_second_pays_in_full() {
    let arrivals = vec![arrival(10 * SECOND, offer(50)), arrival(10 * SECOND + MS, offer(50))];
    let (run, _) = through("pfifo | tbf rate 8kbit burst 50", None, arrivals);
    let left: Vec<u64> = run.outcomes.iter().map(|o| o.t_ns - 10 * SECOND).collect();
    assert_eq!(left, [0, 50 * MS]);
}

/// A burst at ten times the rate into a queue of one bandwidth-delay product.
#[test]
fn a_bucket_of_one_packet_spaces_a_burst_by_exactly_one_packet_time_and_drops_none() {
    let arrivals = paced(0, 12_112, 100 * 12_112, offer(1514));
    assert_eq!(arrivals.len(), 100);
    let (run, _) = through("bfifo limit 1875000 | tbf rate 100mbit burst 1514", None, arrivals);
    assert!(run.outcomes.iter().all(|o| o.dropped.is_none()));
    let gaps: Vec<u64> = run.outcomes.windows(2).map(|w| w[1].t_ns - w[0].t_ns).collect();
    assert_eq!(gaps, [121_120; 99]);
}

#[test]
fn what_does_not_fit_is_dropped_by_the_queue_and_never_by_an_unnamed_bucket() {
    let arrivals = paced(0, 12_112, 100 * 12_112, offer(1514));
    for queue in ["bfifo limit 30280", "codel limit 20", "fq_codel limit 20"] {
        let (run, _) = through(&format!("{queue} | tbf rate 100mbit burst 1514"), None, arrivals.clone());
        let reasons: Vec<_> = run.outcomes.iter().filter_map(|o| o.dropped).collect();
        assert!(!reasons.is_empty() && reasons.iter().all(|r| *r == Reason::QueueFull), "{queue}: {reasons:?}");
    }
}

/// A worker that always wakes late sends more at once: the bucket repays up to its depth.
#[test]
fn a_late_wake_up_costs_no_rate_as_long_as_the_bucket_covers_it() {
    for (mbit, lateness) in [10u64, 100, 900].into_iter().flat_map(|m| [0, 50_000, 500_000].map(|l| (m, l))) {
        let line = format!("pfifo limit 10000 | tbf rate {mbit}mbit");
        let mut b = Bench::new(&line, 10_000);
        let start = b.now;
        let (mut sent, mut longest) = (0u64, 0u64);
        while b.now.since(start) < SECOND {
            while b.pipeline.packets() < 1000 {
                b.enqueue(offer(1514));
            }
            let mut burst = 0;
            while let (Some(gone), _) = b.dequeue() {
                burst += u64::from(gone.len);
                while b.pipeline.packets() < 1000 {
                    b.enqueue(offer(1514));
                }
            }
            sent += burst;
            longest = longest.max(burst);
            let due = b.pipeline.next_event().expect("a packet waits for tokens");
            b.wait_until(due + lateness);
        }
        // A packet's time is cut to whole nanoseconds.
        let allowed = mbit * 125_000 * (b.now.since(start) + sent / 1514) / SECOND;
        let depth = u64::from(Params::new(Rate::from_bits_per_second(mbit * 1_000_000)).default_burst(1514));
        assert!(longest <= depth, "{line}, {lateness} ns late: {longest} bytes at once");
        // At the end the last sleep's worth is still owed.
        let owed = mbit * 125_000 * (lateness + sent / 1514) / SECOND + 2 * 1514;
        assert!(sent <= allowed + depth && sent + owed >= allowed, "{line}, {lateness} ns late: {sent} of {allowed}");
    }
}

proptest! {
    #[test]
    fn no_rate_and_no_mtu_make_a_bucket_of_nothing(bits in 8u64..400_000_000_000, mtu in 64u32..=9600) {
        let params = Params::new(Rate::from_bits_per_second(bits));
        prop_assert!(params.default_burst(mtu) >= 2 * mtu);
        let line = format!("pfifo | tbf rate {bits}bit");
        let mut b = Bench::on(&line, 4, weir::pipeline::Link { mtu, ..Default::default() });
        for _ in 0..3 {
            b.enqueue(offer(mtu));
        }
        prop_assert!(b.dequeue().0.is_some(), "a full bucket covers the largest packet ({line})");
        prop_assert!(b.dequeue().0.is_some(), "and a second ({line})");
        if b.dequeue().0.is_none() {
            let due = b.pipeline.next_event().expect("a packet waits");
            // Never at once, and never later than the packet takes at this rate, rounded up.
            let wait = due.since(b.now);
            let takes = u128::from(mtu) * u128::from(SECOND) / u128::from(bits / 8) + 1;
            prop_assert!(wait > 0 && u128::from(wait) <= takes, "{wait} of {takes} ({line})");
        }
    }
}
