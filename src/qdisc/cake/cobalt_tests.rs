//! The vectors of `spec/cake.md` §13.1 and §23.

use super::*;
use crate::packet::{Network, Packet};
use crate::time::MILLISECOND;

const T0: i64 = 1_000_000_000;
const LAW: Law = Law { target: 5_000_000, interval: 100_000_000, mtu_time: 121_120 };

fn packet(ecn: u8) -> Packet {
    Packet { network: Network::V4, ds: ecn, ds_arrived: ecn, ..Packet::default() }
}

/// Judges a packet with so many ms of sojourn, `ms` after the origin: K, M or D.
fn judge(vars: &mut Vars, ms: i64, sojourn_ms: u64, ecn: u8) -> char {
    let over = LAW.is_over(sojourn_ms * MILLISECOND, MinOccupancy::Kernel, 0);
    let mut random = Random::constant(0, u32::MAX);
    let v = vars.judge(T0 + ms * 1_000_000, over, &LAW, &mut packet(ecn), &mut random, Compat::Latest);
    match v {
        Verdict { drop: Some(Reason::Aqm), marked: false } => 'D',
        Verdict { drop: None, marked: true } => 'M',
        Verdict { drop: None, marked: false } => 'K',
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_episode_of_packets_that_cannot_be_marked_goes_as_the_specification_lists() {
    let mut vars = Vars::default();
    for (ms, sojourn, verdict, count, dropping, drop_next, inv) in [
        (0, 0, 'K', 0, false, 1_100_000_000, 0),
        (10, 6, 'K', 1, true, 1_010_000_000, 0),
        (11, 6, 'D', 2, true, 1_080_710_678, 3_037_000_500),
        (12, 6, 'K', 2, true, 1_080_710_678, 3_037_000_500),
        (81, 6, 'D', 3, true, 1_138_445_704, 2_479_700_525),
        (82, 6, 'K', 3, true, 1_138_445_704, 2_479_700_525),
        (83, 4, 'K', 3, false, 1_138_445_704, 2_479_700_525),
        (150, 4, 'K', 2, false, 1_209_156_382, 3_037_000_500),
        (250, 4, 'K', 1, false, 1_309_156_381, 4_294_967_295),
        (400, 4, 'K', 0, false, 1_500_000_000, 4_294_967_295),
        (500, 6, 'K', 1, true, 1_599_999_999, 4_294_967_295),
        (599, 6, 'K', 1, true, 1_599_999_999, 4_294_967_295),
        (601, 6, 'D', 2, true, 1_670_710_677, 3_037_000_500),
    ] {
        assert_eq!(judge(&mut vars, ms, sojourn, 0), verdict, "at {ms} ms");
        assert_eq!(
            (vars.count, vars.dropping, vars.drop_next, vars.inv),
            (count, dropping, drop_next, inv),
            "at {ms} ms"
        );
    }
}

#[test]
fn an_episode_of_packets_that_can_be_marked_goes_as_the_specification_lists() {
    let mut vars = Vars::default();
    for (ms, verdict, count, drop_next) in [
        (0, 'K', 1, 1_000_000_000),
        (1, 'M', 2, 1_070_710_678),
        (300, 'M', 3, 1_300_000_000),
        (301, 'M', 4, 1_349_999_999),
        (302, 'K', 4, 1_349_999_999),
    ] {
        assert_eq!(judge(&mut vars, ms, 6, ecn::ECT_0), verdict, "at {ms} ms");
        assert_eq!((vars.count, vars.drop_next), (count, drop_next), "at {ms} ms");
    }
}

#[test]
fn blue_rises_on_overflow_and_falls_when_empty_at_most_once_per_target() {
    let at = |ns: i64| T0 + ns;
    let ms = |n: i64| n * 1_000_000;
    let mut vars = Vars::default();
    assert!(vars.queue_full(at(0), &LAW));
    assert_eq!(vars.p_drop, 16_777_216);
    assert!(!vars.queue_full(at(ms(4)), &LAW));
    assert!(!vars.queue_full(at(ms(5)), &LAW));
    assert_eq!(vars.p_drop, 16_777_216, "more than a target must pass");
    assert!(!vars.queue_full(at(ms(5) + 1), &LAW));
    assert_eq!(vars.p_drop, 33_554_432);
    assert!(!vars.found_empty(at(ms(11)), &LAW).0);
    assert_eq!((vars.p_drop, vars.count, vars.drop_next), (32_505_856, 0, 1_105_000_000));
    vars.found_empty(at(ms(120)), &LAW);
    assert_eq!(vars.p_drop, 31_457_280);
    vars.found_empty(at(ms(126)), &LAW);
    assert_eq!(vars.p_drop, 30_408_704);
}

#[test]
fn blue_goes_quiet_when_its_probability_is_used_up() {
    let mut vars = Vars { p_drop: BLUE_DOWN, ..Vars::default() };
    assert!(vars.found_empty(T0, &LAW).0);
    assert_eq!(vars.p_drop, 0);
    assert!(!vars.found_empty(2 * T0, &LAW).0);
}

#[test]
fn newer_kernels_do_not_draw_for_a_packet_that_codel_condemned() {
    for (compat, draws) in [(Compat::V6_12, 1), (Compat::Latest, 0)] {
        let mut vars = Vars { p_drop: 1, count: 1, dropping: true, ..Vars::default() };
        let mut random = Random::constant(0, 0);
        let verdict = vars.judge(T0, true, &LAW, &mut packet(0), &mut random, compat);
        assert_eq!(verdict.drop, Some(Reason::Aqm), "BLUE does not change the reason");
        assert_eq!(random.draws32, draws);
    }
}

#[test]
fn blue_drops_even_a_packet_that_was_just_marked() {
    let mut vars = Vars { p_drop: 1, count: 1, dropping: true, ..Vars::default() };
    let verdict = vars.judge(T0, true, &LAW, &mut packet(ecn::ECT_1), &mut Random::constant(0, 0), Compat::Latest);
    assert_eq!(verdict, Verdict { drop: Some(Reason::Flood), marked: true });
}

#[test]
fn inverse_roots_above_the_table_depend_on_the_way_there() {
    let mut vars = Vars { count: 15, ..Vars::default() };
    vars.update_inverse_root();
    let mut to = |count| {
        vars.count = count;
        vars.update_inverse_root();
        vars.inv
    };
    let up: Vec<u32> = (16..=32).map(&mut to).collect();
    assert_eq!(up[..5], [1_071_990_595, 1_040_347_021, 1_011_159_980, 984_308_765, 959_482_442]);
    assert_eq!((up[8], up[16]), (876_134_612, 758_971_400));
    let down: Vec<u32> = (15..32).rev().map(to).collect();
    assert_eq!((down[0], down[7], down[14], down[15]), (771_100_196, 876_142_304, 1_040_356_054, 1_072_200_871));
    assert_eq!(down[16], 1_108_955_788);
}

#[test]
fn the_step_uses_the_low_32_bits_of_a_long_interval() {
    assert_eq!(scale(1_000_000_000_000, u32::MAX), 3_567_587_327);
    assert_eq!(scale(9_084_000_000, u32::MAX), 494_065_407);
}

#[test]
fn targets_and_intervals_stretch_where_one_packet_takes_long() {
    for (mtu_time, target, interval) in [
        (189_250_000, 283_875_000, 567_750_000),
        (3_028_000_000, 4_542_000_000, 9_084_000_000),
        (12_112_000, 18_168_000, 113_168_000),
        (193_804_403, 290_706_604, 581_413_208),
        (1_211_200, 5_000_000, 100_000_000),
        (0, 5_000_000, 100_000_000),
    ] {
        assert_eq!(Law::new(5_000_000, 100_000_000, mtu_time), Law { target, interval, mtu_time });
    }
}

/// Each rule in each mode: the sojourn at which it begins to hold, for M = 1.2112 ms (10 Mbit/s) and
/// a target of 5 ms.
#[test]
fn each_rule_of_minimum_occupancy_begins_where_its_table_says() {
    let law = Law { target: 5_000_000, interval: 100_000_000, mtu_time: 1_211_200 };
    for (rule, bulk, threshold) in [
        (MinOccupancy::Kernel, 0, 5_000_000),
        (MinOccupancy::Kernel, 2, 5_000_000),
        (MinOccupancy::Kernel, 32, 77_516_800),
        (MinOccupancy::None, 32, 5_000_000),
        (MinOccupancy::OneMtu, 32, 5_000_000),
        (MinOccupancy::TwoMtu, 32, 5_000_000),
        (MinOccupancy::FourMtu, 32, 5_000_000),
        (MinOccupancy::TwoMtuFlows, 32, 77_516_800),
        (MinOccupancy::FourMtuFlows, 32, 155_033_600),
        (MinOccupancy::Or, 32, 5_000_000),
    ] {
        assert!(!law.is_over(threshold, rule, bulk), "{rule:?} with {bulk}: strictly above");
        assert!(law.is_over(threshold + 1, rule, bulk), "{rule:?} with {bulk}");
    }
    let slow = Law { target: 18_168_000, interval: 113_168_000, mtu_time: 12_112_000 };
    for (rule, bulk, threshold) in [
        (MinOccupancy::Kernel, 0, 48_448_000),
        (MinOccupancy::Kernel, 3, 72_672_000),
        (MinOccupancy::None, 0, 18_168_000),
        (MinOccupancy::OneMtu, 0, 18_168_000),
        (MinOccupancy::TwoMtu, 0, 24_224_000),
        (MinOccupancy::FourMtu, 0, 48_448_000),
        (MinOccupancy::TwoMtuFlows, 1, 24_224_000),
        (MinOccupancy::Or, 0, 18_168_000),
        (MinOccupancy::Or, 1, 24_224_000),
        (MinOccupancy::Or, 3, 48_448_000),
    ] {
        assert!(!slow.is_over(threshold, rule, bulk), "{rule:?} with {bulk}: strictly above");
        assert!(slow.is_over(threshold + 1, rule, bulk), "{rule:?} with {bulk}");
    }
}
