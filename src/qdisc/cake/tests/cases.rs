//! Small situations that once went wrong in some shaper.

use super::*;
use crate::rng::SplitMix64;
use crate::time::{MICROSECOND, MILLISECOND, SECOND};

const ECT_0: u8 = 2;
const CE: u8 = 3;

fn tin(bench: &Bench, shown: usize) -> TinStats {
    bench.cake.report().tins[shown].clone()
}

/// Keeps `flows` of full packets backlogged for a while; the bytes that each got.
fn share_of_bulk_flows(bench: &mut Bench, flows: &[Headers], duration: u64) -> Vec<u64> {
    let end = bench.now + duration;
    while bench.now < end {
        for (id, headers) in flows.iter().enumerate() {
            bench.top_up(id as u32, headers, 20);
        }
        bench.run_until(bench.now + MILLISECOND);
    }
    let mut bytes = vec![0; flows.len()];
    bench.sent().for_each(|f| bytes[f.flow as usize] += u64::from(f.len));
    bytes
}

#[test]
fn a_tag_or_ppp_is_not_counted_as_ethernet() {
    for (len, net_offset) in [(1014, 14), (1018, 18), (1026, 26)] {
        let mut bench = Bench::new("cake bandwidth 1mbit besteffort overhead 22");
        let headers = Headers { net_offset, ..flow(1, 1, 1) };
        (0..100).for_each(|_| assert!(bench.send(0, &headers, len, ECT_0)));
        bench.run_until(bench.now + SECOND);
        let sent: Vec<Fate> = bench.sent().copied().collect();
        assert_eq!(sent.len(), 100);
        assert!(sent.iter().all(|f| f.charged == 1022));
        assert!(sent.windows(2).all(|w| w[1].at - w[0].at == 8_176_000));
    }
}

#[test]
fn cells_decide_for_small_packets() {
    for (line, sizes, charged) in [
        ("cake atm overhead 10", &[28, 38, 39, 1478][..], &[53, 53, 106, 1643][..]),
        ("cake atm overhead 8", &[40, 41], &[53, 106]),
    ] {
        let mut bench = Bench::new(line);
        sizes.iter().for_each(|ip| assert!(bench.send(0, &flow(1, 1, 1), ip + 14, 0)));
        bench.drain_now();
        assert_eq!(bench.sent().map(|f| f.charged).collect::<Vec<_>>(), charged);
        let lengths = bench.cake.report().lengths;
        assert_eq!(
            (u32::from(lengths.min_adjusted), u32::from(lengths.max_adjusted)),
            (charged[0], *charged.last().unwrap())
        );
    }
}

#[test]
fn a_frame_is_counted_from_where_the_words_say() {
    for (words, charged) in [("raw", 1514), ("overhead 0", 1500), ("ethernet", 1538)] {
        assert_eq!(params(&format!("cake {words}")).cost(1514, 14).charged, charged, "{words}");
    }
}

#[test]
fn a_shaper_lets_the_first_packet_go_at_once_and_the_second_a_packet_time_later() {
    let mut bench = Bench::new("cake bandwidth 8kbit besteffort");
    bench.now += 10 * SECOND;
    let start = bench.now;
    bench.send(0, &flow(1, 1, 1), 50, 0);
    bench.run_until(start + MILLISECOND);
    bench.send(0, &flow(1, 1, 1), 50, 0);
    bench.run_until(start + SECOND);
    assert_eq!(bench.sent().map(|f| f.at - start).collect::<Vec<_>>(), [0, 50 * MILLISECOND]);
}

#[test]
fn a_burst_at_a_gigabit_leaves_at_a_hundred_megabit_without_a_drop() {
    let mut bench = Bench::new("cake bandwidth 100mbit besteffort");
    for _ in 0..100 {
        bench.send(0, &flow(1, 1, 1), 1514, ECT_0);
        bench.run_until(bench.now + 12_112);
    }
    bench.run_until(bench.now + SECOND);
    let sent: Vec<Fate> = bench.sent().copied().collect();
    assert_eq!(sent.len(), 100);
    assert!(sent.windows(2).all(|w| w[1].at - w[0].at == 121_120));
}

#[test]
fn late_wake_ups_are_repaid_and_the_average_is_exact() {
    for mbit in [10u64, 100, 900] {
        for late in [0, 50 * MICROSECOND, 500 * MICROSECOND] {
            let mut bench = Bench::new(&format!("cake bandwidth {mbit}mbit besteffort memlimit 64mb rtt 1000s"));
            let start = bench.now;
            (0..2000).for_each(|_| assert!(bench.send(0, &flow(1, 1, 1), 1514, 0)));
            bench.drain_now();
            while let Some(at) = bench.cake.next_event().filter(|_| bench.cake.packets() > 0) {
                bench.now = at.as_nanos() + late;
                bench.drain_now();
            }
            let last = bench.sent().last().unwrap().at - start;
            let exact = bench.cake.shaper.pace.time(1514) * 1999;
            assert!((exact..=exact + late).contains(&last), "{mbit} Mbit/s, {late} ns late: {last} for {exact}");
        }
    }
}

#[test]
fn nothing_derived_is_zero_or_beyond_its_range_for_any_rate_and_mtu() {
    for exponent in 0..36 {
        for mtu in [64, 576, 1514, 9600] {
            for mode in TinMode::ALL {
                let rate = Rate::from_bytes_per_second(1 << exponent);
                let p = Params { rate, tins: mode, queues: 256, ..Params::default() };
                let cake = Cake::new(&p, Link { mtu, ..Link::default() }, Handle::ROOT);
                let report = cake.report();
                assert!(report.memory_limit > 0);
                for tin in report.tins {
                    // A threshold that was shifted to nothing is none.
                    assert_eq!(tin.law.mtu_time == 0, tin.threshold.is_zero(), "{mode:?} {rate:?} {mtu}");
                    assert!(tin.law.target >= 5_000_000 && tin.law.interval >= 2 * tin.law.target);
                    assert!(tin.law.interval < 1 << 48 && (300..=1514).contains(&tin.flow_quantum));
                    assert!(tin.quantum > 0);
                }
            }
        }
    }
}

#[test]
fn the_same_address_on_two_vlans_is_two_hosts() {
    let on = |vlan: u32, port: u16| {
        let mut headers = flow(2, 9, port);
        headers.keys.vlan = vlan;
        headers
    };
    let mut flows = vec![on(10, 1)];
    flows.extend((0..8).map(|port| on(20, 100 + port)));
    let mut bench = Bench::new("cake bandwidth 20mbit besteffort dual-srchost");
    let bytes = share_of_bulk_flows(&mut bench, &flows, 10 * SECOND);
    let (one, eight) = (bytes[0] as f64, bytes[1..].iter().sum::<u64>() as f64);
    assert!((one / eight - 1.0).abs() < 0.02, "{one} and {eight}");
}

#[test]
fn hosts_share_evenly_however_many_flows_they_have() {
    let by = |mode: &str, of: &dyn Fn(u8) -> Headers| {
        let flows: Vec<Headers> = (0..9).map(of).collect();
        let mut bench = Bench::new(&format!("cake bandwidth 20mbit besteffort {mode}"));
        let bytes = share_of_bulk_flows(&mut bench, &flows, 10 * SECOND);
        bytes[0] as f64 / bytes[1..].iter().sum::<u64>() as f64
    };
    let sources = |i: u8| flow(u8::from(i > 0), 10 + i, 1);
    let destinations = |i: u8| flow(10 + i, u8::from(i > 0), 1);
    for (mode, of, ratio) in [
        ("dual-srchost", &sources as &dyn Fn(u8) -> Headers, 1.0),
        ("dual-dsthost", &destinations, 1.0),
        ("triple-isolate", &sources, 1.0),
        ("triple-isolate", &destinations, 1.0),
        ("flows", &sources, 0.125),
        ("dual-dsthost", &sources, 0.125),
    ] {
        let got = by(mode, of);
        assert!((got / ratio - 1.0).abs() < 0.02, "{mode}: {got} for {ratio}");
    }
}

#[test]
fn streams_of_acks_are_no_load_for_their_host() {
    let mut bench = Bench::new("cake bandwidth 10mbit besteffort dual-srchost");
    let (a, b) = (flow(1, 1, 1), flow(2, 2, 2));
    let acks: Vec<Headers> = (0..30).map(|i| flow(1, 100 + i, 1000 + u16::from(i))).collect();
    let end = bench.now + 10 * SECOND;
    while bench.now < end {
        for (id, headers) in [(0, &a), (1, &b)] {
            bench.top_up(id, headers, 20);
        }
        let turn = (bench.now / MILLISECOND) as usize;
        bench.send(2, &acks[turn % 30], 66, 0);
        bench.run_until(bench.now + MILLISECOND);
    }
    let bytes = |id| bench.sent().filter(|f| f.flow == id).map(|f| u64::from(f.len)).sum::<u64>() as f64;
    assert!((bytes(0) / bytes(1) - 1.0).abs() < 0.02, "{} and {}", bytes(0), bytes(1));
}

#[test]
fn collisions_are_as_rare_as_the_number_of_queues_makes_them() {
    // With 1024 queues in sets of eight, 500 flows fill one set in fifty beyond its eight; queues are
    // what helps.
    let collisions = |queues: u32, flows: u32, seed: u64| {
        let mut random = SplitMix64::new(seed);
        let mut hashing = Hashing::Keyed([random.next_u64(), random.next_u64()]);
        let mut table = super::super::flows::Flows::new(queues);
        let mut count = 0;
        for n in 0..flows {
            let headers = flow((n >> 8) as u8, n as u8, 40_000 + n as u16);
            let (f, found) = table.find(hashing.flow(&headers.keys));
            table[f].state = State::Sparse;
            table.occupy(f);
            count += u32::from(found == super::super::flows::Found::Collision);
        }
        count
    };
    let without = |queues, flows| (0..1000).filter(|&seed| collisions(queues, flows, seed) == 0).count();
    assert!(without(1024, 100) >= 999);
    assert!(without(8192, 500) >= 999);
    let mean = (0..1000).map(|seed| collisions(1024, 500, seed)).sum::<u32>() / 1000;
    assert!((1..=5).contains(&mean), "{mean}");
    assert!(collisions(1024, 1025, 1) >= 1);
}

#[test]
fn more_flows_than_queues_collide_are_counted_and_go_on() {
    let mut bench = Bench::new("cake bandwidth 1gbit besteffort flows");
    bench.hashing = Hashing::Keyed([1, 2]);
    for n in 0..1025u32 {
        bench.send(n, &flow((n >> 8) as u8, n as u8, 7), 100, 0);
    }
    assert!(tin(&bench, 0).counters.way_collisions >= 1);
    bench.run_until(bench.now + SECOND);
    assert_eq!(bench.sent().count(), 1025);
}

#[test]
fn thresholds_at_ten_megabit_are_those_on_record() {
    for (mode, thresholds) in [
        ("besteffort", &[1_250_000][..]),
        ("diffserv3", &[78_125, 1_250_000, 312_500]),
        ("diffserv4", &[78_125, 1_250_000, 625_000, 312_500]),
        ("diffserv8", &[1_250_000, 1_093_750, 957_031, 837_402, 732_726, 641_135, 560_993, 490_868]),
        ("precedence", &[1_250_000, 1_093_750, 957_031, 837_402, 732_726, 641_135, 560_993, 490_868]),
    ] {
        let bench = Bench::new(&format!("cake bandwidth 10mbit {mode}"));
        let got: Vec<u64> = bench.cake.report().tins.iter().map(|t| t.threshold.bytes_per_second()).collect();
        assert_eq!(got, thresholds, "{mode}");
    }
}

#[test]
fn one_jumbo_frame_does_not_move_the_rule_of_minimum_occupancy() {
    let mut bench = Bench::new("cake bandwidth 1mbit besteffort");
    let before = tin(&bench, 0).law;
    for len in [200, 9014, 200] {
        bench.send(0, &flow(1, 1, 1), len, 0);
        bench.run_until(bench.now + SECOND);
    }
    assert_eq!(tin(&bench, 0).law, before);
    assert_eq!((before.mtu_time, tin(&bench, 0).counters.max_len), (12_112_000, 9014));
}

#[test]
fn at_64_kilobit_a_sparse_packet_waits_for_one_packet_at_most() {
    let mut bench = Bench::new("cake bandwidth 64kbit besteffort");
    let law = tin(&bench, 0).law;
    assert_eq!((law.target, law.interval, law.mtu_time), (283_875_000, 567_750_000, 189_250_000));
    let start = bench.now;
    while bench.now < start + 60 * SECOND {
        for id in 0..2 {
            bench.top_up(id, &flow(1 + id as u8, 1, 1), 12);
        }
        bench.send(2, &flow(3, 1, 1), 100, 0);
        bench.run_until(bench.now + SECOND);
    }
    let progress = |id| bench.sent().filter(|f| f.flow == id).count();
    assert!(progress(0) > 80 && progress(1) > 80);
    // At first all three are new and take turns.
    let sparse = bench.sent().filter(|f| f.flow == 2 && f.at > start + 2 * SECOND);
    let worst = sparse.map(|f| f.sojourn).max().unwrap();
    assert!(worst <= law.mtu_time + 12_500_000, "{worst}");
}

#[test]
fn a_thin_uplink_has_the_target_that_its_frames_ask_for() {
    let p = params("cake bandwidth 831kbit besteffort");
    let cake = Cake::new(&p, Link { mtu: 1506, ..Link::default() }, Handle::ROOT);
    let law = cake.report().tins[0].law;
    assert_eq!([law.mtu_time / 100_000, law.target / 100_000, law.interval / 100_000], [144, 217, 1167]);
}

#[test]
fn the_aqm_acts_where_the_rule_in_force_says() {
    for (line, bulk, above) in [
        ("cake bandwidth 10mbit besteffort ingress", 32, 77_516_800),
        ("cake bandwidth 10mbit besteffort ingress min-occupancy or", 32, 5_000_000),
        ("cake bandwidth 10mbit besteffort", 32, 5_000_000),
        ("cake bandwidth 10mbit besteffort min-occupancy 4mtu-flows both", 32, 155_033_600),
        ("cake bandwidth 1mbit besteffort", 1, 48_448_000),
        ("cake bandwidth 1mbit besteffort min-occupancy or", 1, 18_168_000),
        ("cake bandwidth 1mbit besteffort min-occupancy or both", 1, 24_224_000),
        ("cake bandwidth 1mbit besteffort min-occupancy 4mtu", 1, 18_168_000),
        ("cake bandwidth 1mbit besteffort ingress min-occupancy 4mtu", 1, 48_448_000),
        ("cake bandwidth 1mbit besteffort ingress min-occupancy none", 1, 18_168_000),
    ] {
        let p = params(line);
        let bench = Bench::new(line);
        let law = tin(&bench, 0).law;
        assert_eq!(p.acts_above(&law, bulk), above, "{line}");
        let bulk = if bench.cake.bulk_counts { bulk } else { 0 };
        assert!(!law.is_over(above, bench.cake.rule, bulk) && law.is_over(above + 1, bench.cake.rule, bulk), "{line}");
    }
}

#[test]
fn a_flow_that_ignores_marks_meets_drops_and_its_neighbour_keeps_its_share() {
    let mut bench = Bench::new("cake bandwidth 1mbit besteffort flows memlimit 100kb");
    bench.random = Random::seeded(61);
    let (deaf, polite) = (flow(1, 1, 1), flow(2, 2, 2));
    for step in 0..2000u64 {
        bench.send(0, &deaf, 1514, ECT_0);
        if step % 8 == 0 {
            bench.send(1, &polite, 1514, 0);
        }
        bench.run_until(bench.now + 4 * MILLISECOND);
    }
    let count =
        |id, dropped: bool| bench.fates.iter().filter(|f| f.flow == id && f.dropped.is_some() == dropped).count();
    assert!(count(0, true) > 1000, "{}", count(0, true));
    assert!(count(1, true) == 0 && count(1, false) >= 248, "{} {}", count(1, true), count(1, false));
}

#[test]
fn marks_made_here_are_counted_apart_from_marks_that_arrived() {
    let mut bench = Bench::new("cake bandwidth 10mbit besteffort ce_threshold 1ms memlimit 50kb flows");
    for n in 0..100 {
        bench.send(0, &flow(1, 1, 1), 100, CE);
        bench.run_until(bench.now + MILLISECOND * u64::from(n % 2 == 0));
    }
    bench.run_until(bench.now + SECOND);
    let quiet = tin(&bench, 0).counters;
    assert_eq!((quiet.ce_in, quiet.marks, quiet.ce_made), (100, 0, 0));
    (0..60).for_each(|_| assert!(bench.send(1, &flow(2, 2, 2), 1514, ECT_0)));
    bench.run_until(bench.now + SECOND);
    let c = tin(&bench, 0).counters;
    let marked = bench.sent().filter(|f| f.flow == 1 && f.ds & 3 == CE).count() as u64;
    let lost = bench.fates.iter().filter(|f| f.dropped == Some(Reason::Memory)).count() as u64;
    assert_eq!((c.ce_in, c.ce_made, c.dropped_memory, c.dropped_aqm), (100, marked, lost, 0));
    assert!(marked > 10 && lost > 30 && c.drops == lost);
}

#[test]
fn memory_is_counted_in_64_bits() {
    for (memlimit, kept) in [(6u64 << 30, 5000), (0, 14)] {
        let p = Params { memlimit, queues: 256, ..params("cake besteffort") };
        let mut bench = Bench::with(&p, Link::default(), 6000);
        (0..5000).for_each(|n| assert!(bench.send_with(n % 50, &flow(n as u8 % 50, 1, 1), 1514, 0, 1 << 20)));
        let limit = bench.cake.memory_limit;
        assert_eq!(bench.cake.memory, kept * (1 << 20));
        assert!(bench.cake.memory <= limit && bench.cake.memory_peak <= limit + (1 << 20));
    }
}

#[test]
fn a_flood_of_flows_costs_the_fattest_queue_and_not_the_sparse_flow() {
    let mut bench = Bench::new("cake bandwidth 10mbit besteffort flows memlimit 1mb queues 65536 heap exact");
    bench.hashing = Hashing::Keyed([3, 4]);
    bench.random = Random::seeded(83);
    let start = bench.now;
    // Five times as fast as they can leave. (With so many flows that the memory holds less than a
    // quantum of each, all of them are sparse, and nobody can be told from the attackers.)
    for n in 0..100_000u32 {
        let attacker = n % 100;
        bench.send(1, &flow((attacker >> 8) as u8, attacker as u8, 7), 64, 0);
        // Half of what is its share.
        if n % 5000 == 0 {
            bench.send(2, &flow(250, 250, 9), 64, 0);
        }
        bench.run_until(bench.now + 10 * MICROSECOND);
        bench.fates.retain(|f| f.flow == 2);
    }
    // Once the attackers have used up their first quantum; until then all are equally new.
    let settled = start + 200 * MILLISECOND;
    let ours: Vec<&Fate> = bench.fates.iter().filter(|f| f.flow == 2 && f.at > settled).collect();
    assert!(ours.len() >= 15 && ours.iter().all(|f| f.dropped.is_none()), "{}", ours.len());
    let worst = ours.iter().map(|f| f.sojourn).max().unwrap();
    assert!(worst <= MILLISECOND, "{worst}");
    let c = tin(&bench, 0).counters;
    assert!(c.dropped_memory > 50_000, "{c:?}");
    assert_eq!(c.drops, c.dropped_memory + c.dropped_flood + c.dropped_aqm);
}

#[test]
fn packets_and_bytes_are_the_benches_own_sums_with_and_without_a_rate() {
    for line in ["cake", "cake bandwidth 121120kbit besteffort"] {
        let mut bench = Bench::new(line);
        let mut bytes = 0;
        for n in 0..20_000u32 {
            let len = 60 + n % 1455;
            bench.send(n % 7, &flow(n as u8 % 7, 1, 1), len, 0);
            bytes += u64::from(len);
            bench.run_until(bench.now + 100 * MICROSECOND);
        }
        bench.run_until(bench.now + SECOND);
        let report = bench.cake.report();
        assert_eq!((report.basic.sent_packets, report.basic.sent_bytes), (20_000, bytes));
        let tins = report.tins.iter().map(|t| t.counters);
        assert_eq!(tins.clone().map(|c| c.bytes).sum::<u64>(), bytes);
        assert_eq!(tins.map(|c| c.sent_sparse + c.sent_bulk).sum::<u64>(), 20_000);
    }
}

#[test]
fn a_thousand_changes_of_rate_lose_nothing_and_no_window_exceeds_the_higher_of_two() {
    let mut bench = Bench::new("cake bandwidth 10mbit besteffort memlimit 64mb rtt 1000s");
    let rates = [10u64, 20, 5, 10];
    for n in 0..1000usize {
        let (old, new) = (rates[n % 4], rates[(n + 1) % 4]);
        let begin = bench.fates.len();
        let end = bench.now + 50 * MILLISECOND;
        while bench.now < end {
            if bench.cake.packets() < 50 {
                bench.send(0, &flow(1, 1, 1), 1514, 0);
            }
            bench.run_until((bench.now + 121_120).min(end));
        }
        bench.change(&format!("cake bandwidth {new}mbit besteffort memlimit 64mb rtt 1000s"));
        let sent = &bench.fates[begin.saturating_sub(10)..];
        let before = rates[(n + 3) % 4];
        let highest = old.max(before);
        for w in sent.windows(10) {
            let bytes: u64 = w[..9].iter().map(|f| u64::from(f.len)).sum();
            assert!(bytes * 8000 <= (w[9].at - w[0].at + 10) * highest + 1514 * 8000, "change {n}");
        }
    }
    assert!(bench.fates.iter().all(|f| f.dropped.is_none()), "nothing is lost by a change");
    bench.check();
}

#[test]
fn packets_of_a_tin_that_is_no_more_are_sorted_anew_and_keep_their_order() {
    let mut bench = Bench::new("cake bandwidth 1mbit diffserv8");
    for n in 0..30 {
        bench.send(n % 3, &flow(n as u8 % 3, 1, 1), 1000, [0x20, 0xB8, 0xE0][n as usize % 3]);
    }
    bench.change("cake bandwidth 1mbit besteffort dual-srchost");
    bench.check();
    bench.run_until(bench.now + 10 * SECOND);
    assert_eq!(bench.fates.len(), 30);
    for id in 0..3 {
        let numbers: Vec<u64> =
            bench.fates.iter().filter(|f| f.flow == id && f.dropped.is_none()).map(|f| f.number).collect();
        assert!(numbers.is_sorted() && !numbers.is_empty());
    }
    assert!(bench.fates.iter().all(|f| f.dropped != Some(Reason::Flushed)));
}

#[test]
fn the_number_of_queues_and_another_kind_cannot_be_taken_at_work() {
    let bench = Bench::new("cake");
    for line in ["cake queues 256", "codel"] {
        let stage = spec::parse(line).unwrap().spec.stages()[0].clone();
        assert!(bench.cake.can_change(&stage).is_err(), "{line}");
    }
}

#[test]
fn a_debt_of_gigabytes_is_worked_off_in_one_round_when_the_shaper_goes() {
    let mut bench = Bench::new("cake bandwidth 1mbit diffserv4");
    (0..2).for_each(|n| assert!(bench.send(n, &flow(n as u8, 1, 1), 1000, [0, 0x20][n as usize])));
    bench.run_until(bench.now + MILLISECOND);
    bench.change("cake diffserv4");
    bench.cake.tins.iter_mut().for_each(|t| t.deficit = i32::MIN + 100);
    (0..4).for_each(|n| assert!(bench.send(n, &flow(n as u8, 1, 1), 1000, [0, 0x20][n as usize % 2])));
    bench.run_until(bench.now + SECOND);
    assert_eq!(bench.sent().count(), 6);
}

#[test]
fn a_sparse_flow_overtakes_ten_bulk_flows() {
    let mut bench = Bench::new("cake bandwidth 10mbit besteffort");
    let bulk: Vec<Headers> = (0..10).map(|i| flow(i, i, 1)).collect();
    share_of_bulk_flows(&mut bench, &bulk, SECOND);
    bench.send(77, &flow(99, 99, 1), 100, 0);
    bench.run_until(bench.now + 10 * MILLISECOND);
    let waited = bench.sent().find(|f| f.flow == 77).map(|f| f.sojourn);
    assert!(waited.is_some_and(|ns| ns <= 1_211_200), "{waited:?}");
}

#[test]
fn arp_goes_with_the_highest_and_the_unreadable_with_best_effort() {
    for (network, tin) in [(Network::Arp, 3), (Network::Other, 0)] {
        let mut bench = Bench::new("cake diffserv4");
        bench.send(0, &Headers { network, ..flow(1, 1, 1) }, 60, 0);
        bench.drain_now();
        assert_eq!(usize::from(bench.fates[0].tin), tin);
    }
}

#[test]
fn washing_clears_the_code_point_after_it_chose_the_tin() {
    let mut bench = Bench::new("cake diffserv4 wash");
    bench.send(0, &flow(1, 1, 1), 100, 46 << 2 | ECT_0);
    bench.drain_now();
    assert_eq!((bench.fates[0].tin, bench.fates[0].ds), (3, ECT_0));
}
