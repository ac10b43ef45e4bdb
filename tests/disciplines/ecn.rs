//! Marks: whose they are, which school they follow, and what happens to those who ignore them.

use weir::mark::ecn::{CE, ECT_0, ECT_1, NOT_ECT};
use weir::packet::Marks;
use weir::qdisc::Reason;
use weir::qdisc::codel::Ticks;
use weir::stats::StageStats;
use weir::time::{MILLISECOND as MS, SECOND};

use crate::bench::{Bench, Offer, of_flow, paced, through};

fn offer(flow: u16, ds: u8) -> Offer {
    Offer { flow, len: 1000, ds, ..Offer::default() }
}

/// 100 packets that came as CE, 50 ECT(0) marked here, 10 dropped by the AQM, 5 for memory.
#[test]
fn marks_made_here_marks_that_came_and_drops_by_reason_are_four_different_numbers() {
    // 100 packets of 1000 bytes charged 2304 each.
    let mut b = Bench::new("fq_codel flows 1 ce_threshold 1ms drop_batch 1 memory_limit 230400", 200);
    for i in 0..105 {
        b.enqueue(offer(1, if i % 2 == 0 { ECT_0 } else { NOT_ECT }));
    }
    assert_eq!(b.dropped_by(Reason::Memory), 5);
    b.wait(2 * MS);
    while b.dequeue().0.is_some() {}
    assert_eq!((b.counters.marked_ce_threshold, b.counters.left.ce), (50, 50));

    for _ in 0..100 {
        b.enqueue(offer(1, CE));
        b.wait(2 * MS);
        assert_eq!(b.dequeue().0.unwrap().ds, CE);
    }
    // A standing queue of packets that cannot be marked, until CoDel has signalled ten times.
    while b.dropped_by(Reason::Aqm) < 10 {
        b.enqueue(offer(1, NOT_ECT));
        b.wait(MS);
        if b.pipeline.packets() > 20 {
            b.dequeue();
        }
    }
    assert_eq!(b.counters.arrived.ce, 100);
    assert_eq!((b.counters.marked_ce_threshold, b.counters.marked_ecn), (50, 0));
    assert_eq!((b.dropped_by(Reason::Aqm), b.dropped_by(Reason::Memory)), (10, 5));
    // The kernel's word counts the marks that came as its own, once more.
    let StageStats::FqCodel(s) = b.stats() else { panic!("fq_codel") };
    assert_eq!(s.tally.ce_mark, 150);
}

#[test]
fn sce_marks_ect_0_above_its_own_threshold_and_ce_wins() {
    for line in ["codel sce_threshold 1ms ce_threshold 5ms", "fq_codel sce_threshold 1ms ce_threshold 5ms"] {
        let mut b = Bench::new(line, 10);
        let mut after = |ds: u8, wait: u64| {
            b.enqueue(offer(1, ds));
            b.wait(wait);
            let gone = b.dequeue().0.unwrap();
            (gone.ds, gone.marks)
        };
        assert_eq!(after(ECT_0, MS), (ECT_0, Marks::NONE), "{line}: not above");
        assert_eq!(after(ECT_0, MS + 1), (ECT_1, Marks::SCE), "{line}");
        assert_eq!(after(ECT_1, 2 * MS), (ECT_1, Marks::NONE), "{line}: never the reverse");
        assert_eq!(after(ECT_0, 6 * MS), (CE, Marks::CE_THRESHOLD), "{line}: CE wins");
        assert_eq!(after(NOT_ECT, 6 * MS), (NOT_ECT, Marks::NONE), "{line}");
        let tally = match b.stats() {
            StageStats::Codel(s) => s.tally,
            StageStats::FqCodel(s) => s.tally,
            other => panic!("{other:?}"),
        };
        assert_eq!((tally.sce_mark, tally.ce_mark, tally.ecn_mark), (1, 1, 0), "{line}: counted apart");
        assert_eq!((b.counters.marked_sce, b.counters.marked_ce_threshold), (1, 1), "{line}");
        assert_eq!(b.random.draws32, 0, "{line}: a step draws nothing");
    }
}

#[test]
fn cake_has_the_same_sce_threshold() {
    let mut b = Bench::new("cake unlimited sce_threshold 1ms ce_threshold 5ms", 10);
    let mut after = |ds: u8, wait: u64| {
        b.enqueue(offer(1, ds));
        b.wait(wait);
        b.dequeue().0.unwrap().ds
    };
    assert_eq!([after(ECT_0, MS), after(ECT_0, MS + 1), after(ECT_0, 6 * MS)], [ECT_0, ECT_1, CE]);
    assert_eq!(b.counters.marked_sce, 1);
    let StageStats::Cake(s) = b.stats() else { panic!("cake") };
    assert_eq!(s.tins.iter().map(|t| t.counters.sce).sum::<u64>(), 1);
}

#[test]
fn sce_changes_no_decision_of_codel_and_needs_no_ecn() {
    let verdicts = |line: &str| {
        let mut b = Bench::new(line, 100);
        let mut dropped = Vec::new();
        for i in 0..2000u16 {
            b.enqueue(offer(i % 7, if i % 3 == 0 { ECT_0 } else { NOT_ECT }));
            b.wait(MS);
            if i >= 20 {
                dropped.extend(b.dequeue().1.iter().map(|d| d.id));
            }
        }
        (dropped, b.counters.marked_sce > 0)
    };
    let (with, marked) = verdicts("codel sce_threshold 1ms 5ms");
    assert_eq!(verdicts("codel"), (with, false));
    assert!(marked);
}

#[test]
fn a_ramp_marks_a_quarter_of_what_waited_a_quarter_of_the_way() {
    let mut b = Bench::new("codel sce_threshold 1ms 5ms", 10);
    let n = 10_000u32;
    for _ in 0..n {
        b.enqueue(offer(1, ECT_0));
        b.wait(2 * MS);
        b.dequeue();
    }
    let marked = b.counters.marked_sce as f64 / f64::from(n);
    assert!((marked - 0.25).abs() < 5.0 * (0.25 * 0.75 / f64::from(n)).sqrt(), "{marked}");
    assert_eq!(b.random.draws32, u64::from(n));
}

/// A flow that calls itself ECN-capable and never slows down, at 1 Mbit/s.
#[test]
fn dropping_takes_over_from_marks_that_are_ignored_and_the_neighbour_keeps_its_half() {
    let mut arrivals = paced(0, 4 * MS, 30 * SECOND, offer(1, ECT_0));
    // 0.48 Mbit/s.
    arrivals.extend(paced(700, 50 * MS / 3, 30 * SECOND, offer(2, NOT_ECT)));
    let (run, arrivals) = through("fq_codel limit 200 | tbf rate 1mbit burst 3k", None, arrivals);
    let [greedy, neighbour] = [1, 2].map(|flow| of_flow(&run, &arrivals, flow));
    assert!(greedy.iter().any(|o| o.marks.has(Marks::ECN)));
    assert!(greedy.iter().any(|o| o.dropped == Some(Reason::QueueFull)));
    assert!(neighbour.iter().all(|o| o.dropped.is_none()));
    // One packet of its own and one of the other, 8 ms each, and the one that the shaper holds.
    let slowest = neighbour.iter().map(|o| o.sojourn_ns).max().unwrap();
    assert!(slowest <= 3 * 8 * MS + 1000, "{slowest}");
}

#[test]
fn codels_ticks_are_within_one_tick_of_the_time_over_the_whole_range() {
    let mut last = 0;
    for us in (0..=u32::MAX).step_by(65_521).chain([1, 2, 50, 1000, 5000, 100_000, u32::MAX]) {
        let exact = u128::from(us) * 1000;
        let ticks = u128::from(Ticks::from_us(us).0);
        assert!(ticks * 1024 <= exact && exact < (ticks + 1) * 1024, "{us} us");
        last = last.max(ticks);
    }
    assert!(last < 1 << 32);
    assert_eq!([5000, 100_000, 1000, 50].map(|us| Ticks::from_us(us).as_us()), [4999, 99_999, 999, 49]);
}
