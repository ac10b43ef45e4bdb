//! What must hold of every discipline, whatever it is offered and whenever: sums, order, rates,
//! no idling with work due, bounded work per call. Time passing is one of the operations.

use std::collections::HashMap;

use crate::bench::{Bench, Gone, Offer, parsed};
use proptest::prelude::*;
use weir::spec::Stage;
use weir::time::Instant;

/// One step of a schedule.
#[derive(Clone, Debug)]
enum Op {
    Enqueue { flow: u16, len: u32 },
    Dequeue,
    Wait(u64),
    Change(usize),
}

fn ops(lengths: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0u16..12, lengths).prop_map(|(flow, len)| Op::Enqueue { flow, len }),
        5 => Just(Op::Dequeue),
        2 => (0u64..2_000_000).prop_map(Op::Wait),
        1 => (0u64..200_000_000).prop_map(Op::Wait),
        1 => (0usize..4).prop_map(Op::Change),
    ];
    prop::collection::vec(op, 1..400)
}

/// The ECN field a flow always has, so that dualpi2 keeps it in one queue.
fn ecn(flow: u16) -> u8 {
    (flow % 4) as u8
}

/// Packets of one flow leave in the order they came.
#[derive(Default)]
struct Order(HashMap<u16, u64>);

impl Order {
    fn left(&mut self, gone: &Gone) {
        if let Some(before) = self.0.insert(gone.flow, gone.id) {
            assert!(before < gone.id, "flow {}: packet {} left after {before}", gone.flow, gone.id);
        }
    }
}

/// Runs a schedule; `variants` are specifications to change between, the first is built. A call may
/// drop at most `most` packets, a change as many as it likes.
fn run(variants: &[&str], ops: &[Op], most: usize) {
    let mut b = Bench::new(variants[0], ops.len());
    let mut order = Order::default();
    for op in ops {
        let dropped = match *op {
            Op::Enqueue { flow, len } => b.enqueue(Offer { flow, len, ds: ecn(flow), ..Offer::default() }),
            Op::Wait(nanos) => {
                b.wait(nanos);
                Vec::new()
            }
            Op::Change(n) => {
                b.change(variants[n % variants.len()]);
                Vec::new()
            }
            Op::Dequeue => {
                let (sent, dropped) = b.dequeue();
                sent.iter().for_each(|s| order.left(s));
                if sent.is_none() {
                    nothing_was_due(&b);
                }
                dropped
            }
        };
        assert!(dropped.len() <= most, "{op:?} dropped {}", dropped.len());
        assert!(dropped.iter().all(|d| d.dropped.is_some()));
    }
    drain(&mut b, &mut order);
}

/// A discipline that gives nothing holds nothing, or says when it will give.
fn nothing_was_due(b: &Bench) {
    if b.pipeline.packets() > 0 {
        let next = b.pipeline.next_event().expect("packets wait and nobody will ask for them");
        assert!(next > b.now, "the next event {next:?} is not after {:?}", b.now);
    }
}

/// Serves what is left. An event may be a controller's, but before long something must leave.
fn drain(b: &mut Bench, order: &mut Order) {
    while b.pipeline.packets() > 0 {
        let left_before = b.counts()[1..].iter().sum::<u64>();
        let mut events = 0;
        while b.counts()[1..].iter().sum::<u64>() == left_before {
            if let (Some(gone), _) = b.dequeue() {
                order.left(&gone);
            } else if b.pipeline.packets() > 0 {
                b.wait_until(b.pipeline.next_event().expect("packets wait and nobody will ask for them"));
            }
            events += 1;
            assert!(events < 1000, "nothing leaves");
        }
    }
}

/// CoDel's limit on drops per call, and the packet that a full queue refuses.
const CODEL: usize = 256;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn fifos_keep_the_sums_and_the_order(ops in ops(1..=9000)) {
        run(&["pfifo limit 30", "pfifo limit 5", "pfifo limit 0"], &ops, 1);
        run(&["bfifo limit 30k", "bfifo limit 1k"], &ops, 1);
        run(&["pfifo_head_drop limit 30", "pfifo_head_drop limit 1"], &ops, 1);
    }

    #[test]
    fn codel_keeps_the_sums_and_the_order(ops in ops(1..=9000)) {
        run(&["codel limit 60", "codel limit 3 target 1ms interval 10ms", "codel ecn ce_threshold 2ms", "codel sce_threshold 1ms 5ms"], &ops, CODEL);
        run(&["codel target 100us interval 1ms", "codel limit 100 target 1us interval 1us"], &ops, CODEL);
    }

    #[test]
    fn fq_codel_keeps_the_sums_and_the_order(ops in ops(1..=9000)) {
        let batch = 64;
        run(&["fq_codel limit 60", "fq_codel limit 3 quantum 300", "fq_codel memory_limit 20k noecn", "fq_codel drop_batch 1 limit 10"], &ops, CODEL + batch);
        run(&["fq_codel flows 2 target 100us interval 1ms noecn", "fq_codel flows 2 memory_limit 0"], &ops, CODEL + batch);
    }

    #[test]
    fn dualpi2_keeps_the_sums_and_the_order(ops in ops(1..=9000)) {
        // At overload every packet that is looked at may be dropped, and all of them may wait.
        run(&["dualpi2 limit 60", "dualpi2 limit 3", "dualpi2 memlimit 20000", "dualpi2 step_thresh 2p overflow"], &ops, ops.len());
        run(&["dualpi2 any_ect drop_enqueue target 100us tupdate 100us", "dualpi2 any_ect drop_enqueue classic_protection 100"], &ops, 1);
    }

    #[test]
    fn cake_keeps_the_sums_and_the_order(ops in ops(1..=9000)) {
        // A queue short of memory gives up to half of it.
        for line in ["cake bandwidth 10mbit", "cake bandwidth 100mbit memlimit 60k flows", "cake unlimited besteffort sce_threshold 1ms"] {
            let kept: Vec<Op> = ops.iter().filter(|op| !matches!(op, Op::Change(_))).cloned().collect();
            run(&[line], &kept, ops.len());
        }
    }

    #[test]
    fn tbf_and_its_children_keep_the_sums_and_the_order(ops in ops(1..=9000)) {
        for queue in ["pfifo limit 60", "codel limit 60", "fq_codel limit 60", "dualpi2 limit 60", "bfifo limit 60k"] {
            let slow = format!("{queue} | tbf rate 10mbit burst 9000");
            let fast = format!("{queue} | tbf rate 100mbit burst 20000");
            run(&[&slow, &fast], &ops, ops.len());
        }
        run(&["tbf rate 10mbit burst 9000 limit 30k", "tbf rate 20mbit burst 3000 limit 3k"], &ops, 1);
    }

    #[test]
    fn tbf_sends_no_more_than_its_rate_and_one_burst_over_any_window(
        ops in ops(1..=3000),
        queue in prop::sample::select(vec!["pfifo", "codel", "fq_codel", "dualpi2"]),
        mbit in 1u64..1000,
        burst in 3000u32..30_000,
    ) {
        let line = format!("{queue} | tbf rate {mbit}mbit burst {burst}");
        let mut b = Bench::new(&line, ops.len());
        let mut sent: Vec<(Instant, u64)> = Vec::new();
        for op in &ops {
            match *op {
                Op::Enqueue { flow, len } => drop(b.enqueue(Offer { flow, len, ds: ecn(flow), ..Offer::default() })),
                Op::Dequeue => while let (Some(gone), _) = b.dequeue() {
                    sent.push((gone.at, gone.len.into()));
                },
                Op::Wait(nanos) => b.wait(nanos),
                Op::Change(_) => {
                    if let Some(next) = b.pipeline.next_event() {
                        b.wait_until(next);
                    }
                }
            }
        }
        for first in 0..sent.len() {
            let mut bytes = 0;
            for (n, (at, len)) in sent[first..].iter().enumerate() {
                bytes += len;
                let window = u128::from(at.since(sent[first].0));
                // Each packet's time is cut to a whole nanosecond: at most one byte at 8 Gbit/s.
                let allowed = window * u128::from(mbit) * 125_000 / 1_000_000_000 + u128::from(burst) + n as u128 + 1;
                prop_assert!(u128::from(bytes) <= allowed, "{bytes} bytes in {window} ns, {allowed} allowed ({line})");
            }
        }
    }

    #[test]
    fn a_change_to_the_same_parameters_changes_no_verdict(ops in ops(60..=1514)) {
        for line in ["codel limit 60 ecn", "fq_codel limit 60", "dualpi2 limit 60", "fq_codel limit 60 | tbf rate 10mbit burst 5000"] {
            let verdicts = |changes: bool| {
                let mut b = Bench::new(line, ops.len());
                let mut gone = Vec::new();
                for op in &ops {
                    match *op {
                        Op::Enqueue { flow, len } => gone.extend(b.enqueue(Offer { flow, len, ds: ecn(flow), ..Offer::default() })),
                        Op::Dequeue => {
                            let (sent, dropped) = b.dequeue();
                            gone.extend(dropped);
                            gone.extend(sent);
                        }
                        Op::Wait(nanos) => b.wait(nanos),
                        Op::Change(_) if changes => gone.extend(b.change(line)),
                        Op::Change(_) => {}
                    }
                }
                gone
            };
            prop_assert_eq!(verdicts(true), verdicts(false), "{}", line);
        }
    }
}

#[test]
fn a_change_to_another_kind_or_another_number_of_flows_is_refused_whole() {
    for (works, wanted) in [
        ("fq_codel", "fq_codel flows 2048 limit 1"),
        ("fq_codel", "codel"),
        ("dualpi2", "fq_codel"),
        ("fq_codel | tbf rate 1mbit", "fq_codel flows 7 | tbf rate 2mbit"),
    ] {
        let mut b = Bench::new(works, 8);
        let before = format!("{:?}", b.pipeline.stats(b.now));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| b.change(wanted)));
        assert!(refused.is_err(), "{works} to {wanted}");
        assert_eq!(format!("{:?}", b.pipeline.stats(b.now)), before, "{works} to {wanted}");
    }
    assert!(matches!(parsed("dualpi2").stages(), [Stage::Dualpi2(_)]));
}
