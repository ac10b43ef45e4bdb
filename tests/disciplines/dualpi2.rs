//! `dualpi2`: the controller and the coupling against their closed forms, and the scheduler.

use weir::mark::ecn::{CE, ECT_0, ECT_1, NOT_ECT};
use weir::packet::Marks;
use weir::qdisc::{Reason, dualpi2};
use weir::stats::StageStats;
use weir::time::{MILLISECOND as MS, SECOND};

use crate::bench::{Bench, Offer, paced, through};

fn offer(flow: u16, len: u32, ds: u8) -> Offer {
    Offer { flow, len, ds, ..Offer::default() }
}

fn stats(b: &Bench) -> Box<dualpi2::Stats> {
    match b.stats() {
        StageStats::Dualpi2(s) => s,
        other => panic!("{other:?}"),
    }
}

fn share(prob: u32) -> f64 {
    f64::from(prob) / 2f64.powi(32)
}

/// A packet that the AQM never touches: class 1:2.
const EXEMPT: u32 = 0x1_0002;

/// A load of r times the link that does not yield settles where the drops take the excess:
/// p′² = 1 − 1/r, at the target delay.
#[test]
fn an_unyielding_load_settles_at_the_square_root_of_its_excess() {
    const LINK: u64 = 10_000_000;
    for percent in [105u64, 110, 125] {
        // 1250 bytes take a millisecond.
        let (run, _) =
            through("dualpi2", Some(LINK), paced(0, MS * 100 / percent, 40 * SECOND, offer(1, 1250, NOT_ECT)));
        let settled: Vec<_> = run.updates.iter().filter(|u| (15 * SECOND..40 * SECOND).contains(&u.t_ns)).collect();
        let mean = |of: &dyn Fn(usize) -> f64| (0..settled.len()).map(of).sum::<f64>() / settled.len() as f64;
        let p = mean(&|i| share(settled[i].prob));
        let delay = mean(&|i| settled[i].delays_ns[0] as f64 / MS as f64);
        let expected = (1.0 - 100.0 / percent as f64).sqrt();
        assert!((p - expected).abs() < 0.03 * expected, "{percent} %: p′ is {p}, expected {expected}");
        assert!((delay - 15.0).abs() < 1.0, "{percent} %: the delay is {delay} ms");
    }
}

/// Of n packets met with probabilities pᵢ, so many are hit, give or take five standard deviations.
fn hits_fit(hits: usize, probabilities: &[f64]) -> bool {
    let mean: f64 = probabilities.iter().sum();
    let variance: f64 = probabilities.iter().map(|p| p * (1.0 - p)).sum();
    (hits as f64 - mean).abs() <= 5.0 * variance.sqrt()
}

#[test]
fn l4s_is_marked_k_times_as_often_as_p_and_classic_dropped_by_its_square() {
    for k in 1..=4u64 {
        let line = format!("dualpi2 coupling_factor {k} step_thresh 10s");
        let mut arrivals = paced(0, MS * 100 / 103, 40 * SECOND, offer(1, 1250, NOT_ECT));
        arrivals.extend(paced(500, 5 * MS, 40 * SECOND, offer(2, 125, ECT_1)));
        let (run, arrivals) = through(&line, Some(10_000_000), arrivals);
        let settled = run.outcomes.iter().filter(|o| o.t_ns > 5 * SECOND && o.t_ns < 40 * SECOND);
        let (l, c): (Vec<_>, Vec<_>) = settled.partition(|o| arrivals[o.id as usize].ds == ECT_1);
        let prob = |o: &&weir::trace::format::Outcome| share(o.seen.prob.unwrap());
        let marked = l.iter().filter(|o| o.marks.has(Marks::PI2)).count();
        let dropped = c.iter().filter(|o| o.dropped == Some(Reason::Aqm)).count();
        assert!(hits_fit(marked, &l.iter().map(|o| k as f64 * prob(o)).collect::<Vec<_>>()), "k {k}: {marked} marked");
        assert!(hits_fit(dropped, &c.iter().map(|o| prob(o).powi(2)).collect::<Vec<_>>()), "k {k}: {dropped} dropped");
        let ratio = (marked as f64 / l.len() as f64).powi(2) / (dropped as f64 / c.len() as f64);
        assert!((ratio / (k * k) as f64 - 1.0).abs() < 0.15, "k {k}: (L share)² / C share is {ratio}");
    }
}

/// A queue that nobody serves ages by a period each run: the sum of the law is a polynomial.
#[test]
fn a_stalled_queue_drives_p_along_the_closed_form() {
    let mut b = Bench::new("dualpi2", 10);
    b.enqueue(offer(1, 1514, NOT_ECT));
    let (alpha, beta, target, t) = (0.16, 3.2, 0.015, 0.016);
    for n in 1..=12u32 {
        b.wait(16 * MS);
        let x = f64::from(n);
        let expected = alpha * (t * x * (x + 1.0) / 2.0 - target * x) + beta * t * x;
        let p = share(stats(&b).prob);
        assert!((p - expected).abs() < 0.002 * expected, "run {n}: {p}, expected {expected}");
    }
    b.wait(SECOND);
    assert_eq!(stats(&b).prob, u32::MAX);
}

/// A queue held at a constant delay: after the step of the proportional term, p′ rises by
/// alpha · (q − target) a run.
#[test]
fn a_standing_delay_raises_p_by_alpha_times_the_error_each_run() {
    let mut b = Bench::new("dualpi2", 100);
    let mut probs = Vec::new();
    for ms in 0..1000 {
        b.enqueue(Offer { priority: EXEMPT, ..offer(1, 1000, NOT_ECT) });
        if ms >= 20 {
            assert!(b.dequeue().0.is_some());
        }
        b.wait(MS);
        probs.push(share(stats(&b).prob));
    }
    // The head is 20 ms old at each run, 5 ms above the target; 50 runs from the 6th to the 56th.
    let rise = (probs[899] - probs[99]) / 50.0;
    assert!((rise - 0.16 * 0.005).abs() < 0.16 * 0.005 * 0.002, "{rise}");
    assert!(probs.windows(2).skip(40).all(|w| w[1] >= w[0]));
}

#[test]
fn an_empty_queue_lets_p_fall_to_zero() {
    let mut b = Bench::new("dualpi2", 10);
    b.enqueue(offer(1, 1514, NOT_ECT));
    b.wait(100 * MS);
    assert!(stats(&b).prob > 0);
    b.dequeue();
    b.wait(10 * SECOND);
    assert_eq!(stats(&b).prob, 0);
}

/// With both queues full each byte of C is paid for by wl / wc bytes of L.
#[test]
fn both_queues_full_share_the_link_by_their_weights() {
    for (words, c_share) in [("", 0.10), ("classic_protection 50", 0.50), ("classic_protection 25", 0.25)] {
        let mut b = Bench::new(&format!("dualpi2 {words}"), 4000);
        for i in 0..2000 {
            b.enqueue(offer(1, 500 + i % 1000, NOT_ECT));
            b.enqueue(Offer { priority: EXEMPT, ..offer(2, 1000, NOT_ECT) });
        }
        let (mut c, mut all) = (0.0, 0.0);
        for _ in 0..2000 {
            let gone = b.dequeue().0.unwrap();
            all += f64::from(gone.len);
            c += if gone.flow == 1 { f64::from(gone.len) } else { 0.0 };
        }
        assert!((c / all - c_share).abs() < 0.005, "{words}: {}", c / all);
    }
}

#[test]
fn without_protection_l_always_goes_first() {
    let mut b = Bench::new("dualpi2 classic_protection 0", 100);
    for _ in 0..10 {
        b.enqueue(offer(1, 1514, NOT_ECT));
        b.enqueue(offer(2, 1514, ECT_1));
    }
    let sent: Vec<u16> = (0..20).map(|_| b.dequeue().0.unwrap().flow).collect();
    assert_eq!(sent, [[2; 10], [1; 10]].concat());
}

#[test]
fn the_ecn_field_chooses_the_queue_and_ce_is_low_latency() {
    let in_l = |line: &str| {
        [NOT_ECT, ECT_1, ECT_0, CE].map(|ecn| {
            let mut b = Bench::new(line, 1);
            b.enqueue(offer(1, 100, ecn));
            stats(&b).packets_in_l == 1
        })
    };
    assert_eq!(in_l("dualpi2"), [false, true, false, true]);
    assert_eq!(in_l("dualpi2 any_ect"), [false, true, true, true]);
}

#[test]
fn once_k_times_p_passes_one_both_queues_are_dropped_alike_or_the_limit_drops() {
    let stalled = |line: &str| {
        let mut b = Bench::new(line, 5000);
        for _ in 0..2000 {
            b.enqueue(offer(1, 1514, ECT_0));
            b.enqueue(offer(2, 1514, ECT_1));
        }
        b.wait(200 * MS);
        b
    };
    let mut b = stalled("dualpi2");
    let p = share(stats(&b).prob);
    assert!(2.0 * p > 1.0 && p < 1.0, "{p}");
    let (mut seen, mut dropped, mut l_unmarked) = ([0.0; 2], [0.0; 2], 0);
    for _ in 0..1000 {
        let (sent, dead) = b.dequeue();
        for gone in dead.iter().chain(&sent) {
            let queue = usize::from(gone.flow - 1);
            seen[queue] += 1.0;
            dropped[queue] += if gone.dropped.is_some() { 1.0 } else { 0.0 };
            l_unmarked += u32::from(queue == 1 && gone.dropped.is_none() && gone.ds != CE);
        }
    }
    for queue in 0..2 {
        let share = dropped[queue] / seen[queue];
        assert!((share - p * p).abs() < 0.08, "queue {queue}: {share} dropped, p′² is {}", p * p);
    }
    assert_eq!(l_unmarked, 0, "what is not dropped from L is marked");

    let mut b = stalled("dualpi2 overflow");
    assert_eq!(stats(&b).prob, u32::MAX / 2);
    for _ in 0..1000 {
        assert!(b.dequeue().1.iter().all(|d| d.flow == 1), "L is only marked");
    }
}

#[test]
fn the_step_marks_what_waited_longer_and_drops_it_if_it_cannot_be_marked() {
    let mut b = Bench::new("dualpi2 step_thresh 1ms", 10);
    b.enqueue(offer(1, 100, ECT_1));
    b.wait(MS);
    assert_eq!(b.dequeue().0.unwrap().ds, ECT_1, "not above");
    b.enqueue(offer(1, 100, ECT_1));
    b.enqueue(Offer { priority: 0x1_0001, ..offer(2, 100, NOT_ECT) });
    b.enqueue(Offer { priority: EXEMPT, ..offer(3, 100, NOT_ECT) });
    b.wait(MS + 1);
    let marked = b.dequeue().0.unwrap();
    assert_eq!((marked.ds, marked.marks), (CE, Marks::STEP));
    let (sent, dropped) = b.dequeue();
    assert_eq!((sent.unwrap().flow, dropped[0].flow, dropped[0].dropped), (3, 2, Some(Reason::Step)));
}

#[test]
fn a_step_in_packets_counts_those_behind_and_spares_who_found_a_short_queue() {
    let marked = |line: &str| {
        let mut b = Bench::new(line, 10);
        for _ in 0..6 {
            b.enqueue(offer(1, 100, ECT_1));
        }
        (0..6).map(|_| b.dequeue().0.unwrap().ds == CE).collect::<Vec<_>>()
    };
    assert_eq!(marked("dualpi2 step_thresh 3p"), [true, true, false, false, false, false]);
    assert_eq!(marked("dualpi2 step_thresh 1p min_qlen_step 2"), [false, false, true, true, false, false]);
}

#[test]
fn below_two_packets_of_backlog_nothing_is_drawn() {
    let mut b = Bench::new("dualpi2", 10);
    b.enqueue(offer(1, 1514, NOT_ECT));
    b.wait(SECOND);
    b.enqueue(offer(1, 1514, NOT_ECT));
    b.enqueue(offer(1, 1513, NOT_ECT));
    assert!(b.dequeue().0.is_some());
    assert_eq!(b.random.draws32, 0, "3027 bytes behind it");
    let mut b = Bench::new("dualpi2", 10);
    for _ in 0..3 {
        b.enqueue(offer(1, 1514, NOT_ECT));
    }
    b.dequeue();
    assert_eq!(b.random.draws32, 1, "3028 bytes behind it");
}

#[test]
fn a_smaller_limit_empties_the_classic_queue_first() {
    let mut b = Bench::new("dualpi2", 20);
    for _ in 0..5 {
        b.enqueue(offer(1, 1000, NOT_ECT));
        b.enqueue(offer(2, 1000, ECT_1));
    }
    let dropped: Vec<u16> = b.change("dualpi2 limit 3").iter().map(|d| d.flow).collect();
    assert_eq!(dropped, [1, 1, 1, 1, 1, 2, 2]);
    assert_eq!((stats(&b).basic.qlen, stats(&b).l.qlen, stats(&b).memory_used), (3, 3, 3 * 2304));
}
