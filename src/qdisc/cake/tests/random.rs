//! Random schedules in every mode: what must hold whatever happens.

use proptest::prelude::*;

use super::*;
use crate::time::{MILLISECOND, SECOND};

#[derive(Clone, Debug)]
enum Op {
    /// A packet of a flow.
    Enqueue { flow: u8, len: u32, ds: u8 },
    /// The device asks so many times.
    Dequeue(u8),
    /// Time passes; cake is not asked.
    Wait(u64),
    /// Time passes, and cake is asked whenever it wants to be.
    Serve(u64),
    /// Other parameters of the list.
    Change(usize),
}

/// Every mode, with extremes among them.
const LINES: [&str; 16] = [
    "cake besteffort",
    "cake bandwidth 10mbit",
    "cake bandwidth 10mbit besteffort flowblind",
    "cake bandwidth 1mbit diffserv4 srchost ingress",
    "cake bandwidth 10mbit precedence dsthost",
    "cake bandwidth 20mbit diffserv8 hosts ethernet",
    "cake bandwidth 5mbit flows wash",
    "cake bandwidth 5mbit dual-srchost conservative",
    "cake bandwidth 5mbit dual-dsthost ingress docsis",
    "cake diffserv4 triple-isolate",
    "cake bandwidth 10mbit memlimit 1",
    "cake bandwidth 10mbit diffserv4 memlimit 30kb ingress",
    "cake bandwidth 10mbit memlimit 30kb heap exact lan",
    "cake bandwidth 64kbit datacentre mpu 256 overhead -64",
    "cake bandwidth 8bit besteffort",
    "cake bandwidth 10mbit autorate-ingress ingress ce_threshold 1ms min-occupancy or both",
];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..12u8, prop_oneof![Just(1514u32), Just(64), 14..1514u32], prop_oneof![Just(0u8), any::<u8>()])
            .prop_map(|(flow, len, ds)| Op::Enqueue { flow, len, ds }),
        3 => (1..4u8).prop_map(Op::Dequeue),
        2 => (0..20 * MILLISECOND).prop_map(Op::Wait),
        2 => (0..50 * MILLISECOND).prop_map(Op::Serve),
    ];
    prop::collection::vec(op, 1..300)
}

fn with_changes() -> impl Strategy<Value = Vec<Op>> {
    (ops(), prop::collection::vec((any::<prop::sample::Index>(), 0..LINES.len()), 0..12)).prop_map(
        |(mut ops, changes)| {
            for (at, to) in changes {
                ops.insert(at.index(ops.len()), Op::Change(to));
            }
            ops
        },
    )
}

/// Four hosts behind twelve flows; the DSCP is the packet's own.
fn headers(id: u8) -> Headers {
    flow(id % 4, id % 3, 1000 + u16::from(id))
}

fn run(bench: &mut Bench, ops: &[Op], check: bool) {
    for op in ops {
        match *op {
            Op::Enqueue { flow, len, ds } => {
                bench.send(flow.into(), &headers(flow), len, ds);
            }
            Op::Dequeue(n) => (0..n).for_each(|_| {
                let now = bench.cake.now(Instant::from_nanos(bench.now));
                let due = !bench.cake.shaper.is_throttled(now) && bench.cake.packets() > 0;
                let before = bench.fates.len();
                let got = bench.ask().is_some();
                // In ingress mode a drop is charged, too, and may be all that the moment allows.
                let charged_for_drops = bench.cake.params.ingress && bench.fates.len() > before;
                assert!(got == due || charged_for_drops && !got, "work conservation");
            }),
            Op::Wait(ns) => bench.now += ns,
            Op::Serve(ns) => bench.run_until(bench.now + ns),
            Op::Change(to) => bench.change(LINES[to]),
        }
        if check {
            bench.check();
        }
    }
}

/// Within a flow and tin, packets leave in the order they came.
fn in_order(fates: &[Fate]) {
    let mut last = std::collections::HashMap::new();
    for f in fates.iter().filter(|f| f.dropped.is_none()) {
        let before = last.insert((f.flow, f.tin), f.number);
        assert!(
            before.is_none_or(|n| n < f.number),
            "flow {} in tin {}: {:?} before {}",
            f.flow,
            f.tin,
            before,
            f.number
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_balance_after_every_call_in_every_mode(ops in ops(), line in 0..LINES.len()) {
        let mut bench = Bench::new(LINES[line]);
        run(&mut bench, &ops, true);
        in_order(&bench.fates);
    }

    #[test]
    fn books_balance_when_modes_change_on_the_fly(ops in with_changes(), line in 0..LINES.len()) {
        let mut bench = Bench::new(LINES[line]);
        run(&mut bench, &ops, true);
        prop_assert!(bench.fates.iter().all(|f| f.dropped != Some(Reason::Flushed)), "a change loses nothing");
    }

    #[test]
    fn a_seed_gives_the_same_run_again_from_any_clock(ops in ops(), line in 0..LINES.len() - 1) {
        let runs = [1 << 40, (1 << 31) - 7, (1 << 32) - 7, (1u64 << 63) - 7].map(|origin| {
            let mut bench = Bench::new(LINES[line]);
            bench.random = Random::seeded(7);
            bench.now = origin;
            run(&mut bench, &ops, false);
            bench.fates.iter().map(|f| Fate { at: f.at - origin, ..*f }).collect::<Vec<_>>()
        });
        prop_assert!(runs.iter().all(|r| *r == runs[0]));
    }

    /// While there is always something to send and cake is asked when it wants to be, the bytes that
    /// begin within a window are at most what the rate allows, plus one packet.
    #[test]
    fn no_window_has_more_than_the_rate_and_a_packet(ops in ops(), line in prop::sample::select(vec![1usize, 5, 6, 7])) {
        let mut bench = Bench::new(LINES[line]);
        for op in &ops {
            match op {
                Op::Enqueue { flow, len, ds } => { bench.send((*flow).into(), &headers(*flow), *len, *ds); }
                Op::Dequeue(_) => {}
                Op::Wait(ns) | Op::Serve(ns) => bench.run_until(bench.now + ns),
                Op::Change(_) => {}
            }
            bench.drain_now();
        }
        let sent: Vec<Fate> = bench.sent().copied().collect();
        let rate = u128::from(bench.cake.rate.bytes_per_second());
        for from in 0..sent.len() {
            let mut bytes = 0u128;
            for to in from..sent.len().min(from + 60) {
                let window = u128::from(sent[to].at - sent[from].at);
                // The last packet of a window begins in it. The fixed point may be short by 2^-30.
                prop_assert!(bytes * u128::from(SECOND) <= (window + 60) * rate + rate, "{from}..{to}");
                bytes += u128::from(sent[to].charged);
            }
        }
    }
}

#[test]
fn a_million_events_with_four_hosts_and_changing_modes_keep_the_counters_equal_to_a_recount() {
    let mut bench = Bench::new("cake bandwidth 50mbit dual-srchost");
    let mut random = crate::rng::SplitMix64::new(38);
    let modes = ["flows", "dual-srchost", "dual-dsthost", "triple-isolate"];
    for step in 0..1_000_000u32 {
        let r = random.next_u64();
        match r % 100 {
            0..=54 => {
                let id = (r >> 8) as u8 % 8;
                bench.send(id.into(), &headers(id), 60 + (r >> 16) as u32 % 1455, 0);
            }
            55..=97 => {
                bench.now += (r >> 16) % 400_000;
                bench.ask();
            }
            98 => bench.now += (r >> 16) % (200 * MILLISECOND),
            _ if step % 7 == 0 => {
                let mode = modes[(r >> 16) as usize % 4];
                bench.change(&format!("cake bandwidth 50mbit {mode}"));
            }
            _ => {}
        }
        if step % 2_003 == 0 {
            bench.check();
        }
        bench.fates.clear();
        bench.number = u64::from(bench.cake.packets());
    }
}
