//! The vectors of `spec/netem.md` §15.7, through the device of the traces.

use super::*;
use crate::packet::Marks;
use crate::pipeline::{Link, Pipeline};
use crate::rng::Random;
use crate::trace::device::{self, CLOCK_BASE, Setup};
use crate::trace::format::Arrival;

const MS: u64 = 1_000_000;

fn arrival(id: u64, t_ns: u64, len: u32) -> Arrival {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    Arrival {
        id,
        t_ns,
        len,
        src: address,
        dst: address,
        protocol: 17,
        sport: 1,
        dport: 2,
        ds: 2,
        truesize: 2304,
        tcp: None,
        fwmark: 0,
        priority: 0,
    }
}

/// Departures in ns after the start, and the stage's figures, for arrivals `(time, length)`.
fn run_over(params: Params, child: Option<Box<dyn Qdisc>>, arrivals: &[(u64, u32)]) -> (Vec<u64>, Stats) {
    let arrivals: Vec<_> = arrivals.iter().enumerate().map(|(i, (t, len))| arrival(i as u64, *t, *len)).collect();
    let mut pipeline = Pipeline::new(vec![Box::new(RecordedLink::new(&params, child))]);
    let setup = Setup { link_bps: None, clock_base: CLOCK_BASE, random: Random::seeded(1) };
    let run = device::run(&mut pipeline, setup, &arrivals, |_, _| {});
    let StageStats::Link(stats) = pipeline.stages().next().expect("a stage").stats(run.end) else {
        panic!("a link says that it is one")
    };
    let sent = run.outcomes.iter().filter(|o| o.dropped.is_none());
    (sent.map(|o| o.t_ns).collect(), *stats)
}

fn opportunities(millis: &[u64]) -> Params {
    Params { frame: true, ..Params::new("trace", Record::Opportunities(millis.into())) }
}

/// Departures in ms.
fn at(params: Params, arrivals: &[(u64, u32)]) -> Vec<u64> {
    let arrivals: Vec<_> = arrivals.iter().map(|(ms, len)| (ms * MS, *len)).collect();
    run_over(params, None, &arrivals).0.iter().map(|t| t / MS).collect()
}

fn table(lines: &[(u64, u64)], ending: Ending) -> Params {
    let lines: Vec<_> = lines.iter().map(|(t, r)| (*t, Rate::from_bytes_per_second(*r))).collect();
    Params { frame: true, ..Params::new("table", Record::Table(Table::new(&lines, ending).expect("a table"))) }
}

#[test]
fn opportunities_carry_packets_as_mahimahi_does() {
    assert_eq!(at(opportunities(&[0, 1, 2]), &[(0, 1500); 6]), [1, 2, 2, 3, 4, 4]);
    assert_eq!(at(opportunities(&[3, 3, 7]), &[(0, 1000), (0, 1000), (0, 1000), (1, 400)]), [3, 3, 3, 7]);
    assert_eq!(at(opportunities(&[5]), &[(0, 600), (0, 600), (0, 600), (5, 600)]), [5, 5, 10, 10]);
    assert_eq!(at(opportunities(&[2, 4]), &[(0, 3000), (0, 100)]), [4, 6]);
    let to_the_byte = Params { bytes: 1504, overhead: 4, ..opportunities(&[1]) };
    assert_eq!(at(to_the_byte, &[(0, 1500), (0, 40), (0, 1456), (0, 1)]), [1, 2, 2, 3]);
}

#[test]
fn a_trace_that_is_used_once_leaves_the_rest_waiting() {
    let once = Params { once: true, ..opportunities(&[2, 4]) };
    let (sent, stats) = run_over(once, None, &[(0, 1500); 4]);
    assert_eq!(sent, [2 * MS, 4 * MS]);
    assert_eq!((stats.basic.qlen, stats.over), (2, true));
}

#[test]
fn opportunities_without_packets_are_counted_as_wasted() {
    // 1 1 1 3 7: five opportunities in a round of 7 ms.
    let trace = || opportunities(&[1, 1, 1, 3, 7]);
    let (sent, stats) = run_over(trace(), None, &[(0, 1500), (0, 100), (0, 100), (7 * MS, 100), (700 * MS, 1500)]);
    // The packet of 7 ms misses the opportunity of 7 ms; that of 700 ms, too, and takes the first of 701 ms.
    assert_eq!(sent, [MS, MS, MS, 8 * MS, 701 * MS]);
    let passed = 5 * 100 + 3;
    assert_eq!(stats.tally, Tally { opportunities: passed, used: 3300, wasted: passed * 1500 - 3300 });
}

#[test]
fn by_default_the_network_packet_is_charged_and_not_its_frame() {
    let plain = Params { frame: false, ..opportunities(&[1]) };
    assert_eq!(at(plain, &[(0, 1514), (0, 1514)]), [1, 2]);
    assert_eq!(at(opportunities(&[1]), &[(0, 1514), (0, 1514)]), [2, 3]);
}

#[test]
fn five_gigabit_of_opportunities_deliver_what_the_trace_says_to_the_packet() {
    // 417 opportunities each millisecond: 5.004 Gbit/s.
    let millis: Vec<u64> = (1..=20).flat_map(|ms| [ms; 417]).collect();
    for smooth in [false, true] {
        let params = Params { smooth, frame: false, ..opportunities(&millis) };
        assert_eq!(params.mean().bits_per_second(), 5_004_000_000);
        let (sent, stats) = run_over(params, None, &[(0, 1514); 5_000]);
        let expected = |i: u64| {
            let (ms, within) = (1 + i / 417, if smooth { (i % 417) * MS / 417 } else { 0 });
            ms * MS + within
        };
        assert_eq!(sent, (0..5_000).map(expected).collect::<Vec<_>>());
        assert_eq!(stats.tally.used, 7_500_000);
    }
}

#[test]
fn a_table_of_rates_is_integrated_exactly() {
    let two = table(&[(0, 125_000), (10 * MS, 250_000)], Ending::Holds);
    assert_eq!(run_over(two, None, &[(0, 1000); 3]).0, [8_000_000, 13_000_000, 17_000_000]);
    let outage = table(&[(0, 125_000), (10 * MS, 0), (15 * MS, 1_250_000)], Ending::Loops(20 * MS));
    let expected = [15_200_000, 16_400_000, 17_600_000, 18_800_000, 20_000_000, 35_200_000];
    assert_eq!(run_over(outage, None, &[(0, 1500); 6]).0, expected);
    let fast = || table(&[(0, 3_000_000)], Ending::Holds);
    assert_eq!(run_over(fast(), None, &[(0, 1); 6]).0, [334, 667, 1000, 1334, 1667, 2000]);
    assert_eq!(run_over(fast(), None, &[(0, 1), (1000, 1), (1000, 1)]).0, [334, 1334, 1667]);
    let slow = table(&[(0, 7)], Ending::Holds);
    let sent = run_over(slow, None, &[(0, 1); 7]).0;
    assert_eq!((sent[0], sent[6]), (142_857_143, 1_000_000_000));
}

#[test]
fn a_packet_that_comes_as_the_link_falls_idle_takes_what_is_left_of_that_nanosecond() {
    let fast = || table(&[(0, 3_000_000)], Ending::Holds);
    // 334 is 2/3 ns late for one byte; a packet there by then is charged from the exact moment.
    assert_eq!(run_over(fast(), None, &[(0, 1), (334, 1)]).0, [334, 667]);
    assert_eq!(run_over(fast(), None, &[(0, 1), (335, 1)]).0, [334, 669]);
}

#[test]
fn a_table_that_ends_keeps_what_it_could_not_send() {
    let (sent, stats) = run_over(table(&[(0, 1000)], Ending::Ends(2_000 * MS)), None, &[(0, 1500); 2]);
    assert_eq!(sent, [1_500 * MS]);
    assert_eq!((stats.basic.qlen, stats.over), (1, true));
}

#[test]
fn an_aqm_before_the_link_decides_when_the_first_byte_goes() {
    let codel = || -> Box<dyn Qdisc> {
        let p = crate::qdisc::codel::Params { ce_threshold_us: Some(2000), ..Default::default() };
        Box::new(crate::qdisc::codel::Codel::new(&p, Link::default()))
    };
    // Two opportunities a packet: the second begins at 3 ms, and its sojourn ends there.
    let arrivals: Vec<_> = (0..2).map(|i| arrival(i, 0, 3014)).collect();
    let params = Params { frame: false, ..opportunities(&[1]) };
    let mut pipeline = Pipeline::new(vec![Box::new(RecordedLink::new(&params, Some(codel())))]);
    let setup = Setup { link_bps: None, clock_base: CLOCK_BASE, random: Random::seeded(1) };
    let run = device::run(&mut pipeline, setup, &arrivals, |_, _| {});
    let seen: Vec<_> = run.outcomes.iter().map(|o| (o.t_ns / MS, o.marks)).collect();
    assert_eq!(seen, [(2, Marks::NONE), (4, Marks::CE_THRESHOLD)]);
}
