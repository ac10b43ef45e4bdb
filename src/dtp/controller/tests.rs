use super::*;

const START: Instant = Instant::from_nanos(1 << 40);

fn controller(tuning: Tuning) -> Controller {
    Controller::new(tuning, START)
}

#[test]
fn slow_start_waits_for_the_first_report_and_ends_at_the_capacity() {
    let mut c = controller(Tuning::REFERENCE);
    c.advance(START + UPDATE, false);
    assert!((c.rate() - 131_072.0).abs() < 1.0, "doubled once: {}", c.rate());
    c.advance(START + 5 * UPDATE, false);
    assert_eq!(c.rate(), 262_144.0, "blind, no more than four times the first");
    c.report(START + 5 * UPDATE, 0, 81);
    c.advance(START + 9 * UPDATE, false);
    assert_eq!(c.capacity(), 1_245_184);
    assert_eq!(c.regime(), Regime::AdditiveIncrease);
}

#[test]
fn a_cut_is_that_of_the_report_and_a_deep_queue_holds_the_increase() {
    let mut c = controller(Tuning::REFERENCE);
    c.report(START, 0, 81);
    c.advance(START + 6 * UPDATE, false);
    let now = START + 6 * UPDATE;
    let before = c.rate();
    c.report(now, 311, 81);
    assert!((c.rate() - before * (1.0 - 311.0 / 16_384.0)).abs() < 1e-6);
    assert_eq!(c.regime(), Regime::ProportionalDecrease);
    c.report(now, 768, 0);
    assert_eq!((c.regime(), c.capacity()), (Regime::IncreaseHeld, 1_245_184), "0 says nothing of the capacity");
    let held = c.rate();
    c.advance(now + 3 * UPDATE, false);
    assert_eq!(c.rate(), held);
}

#[test]
fn a_second_of_increase_is_an_eighth_of_the_capacity_of_both_laws() {
    for tuning in [Tuning::REFERENCE, Tuning { patience: None, ..Tuning::SCALED }] {
        let mut c = controller(tuning);
        c.report(START, 0, 81);
        while c.regime() == Regime::SlowStart {
            let next = c.at + UPDATE / 16;
            c.advance(next, false);
        }
        let (rate, at) = (c.rate(), c.at);
        c.advance(at + SECOND, false);
        let growth = (c.rate() - rate) / rate;
        assert!((0.124..0.14).contains(&growth), "{}: {growth}", tuning.name);
    }
}

#[test]
fn a_path_that_hears_nothing_halves_until_the_floor() {
    let mut c = controller(Tuning::REFERENCE);
    c.report(START, 0, 81);
    c.sent(1435);
    c.advance(START + 8 * UPDATE, false);
    let rate = c.rate();
    c.advance(START + 9 * UPDATE, false);
    assert!((c.rate() / rate - 0.5).abs() < 0.01, "{}", c.rate() / rate);
    c.advance(START + 30 * UPDATE, false);
    assert_eq!(c.rate(), Tuning::REFERENCE.floor);
}

#[test]
fn in_slow_start_the_scaled_controller_doubles_no_faster_than_answers_come_round() {
    let mut c = controller(Tuning::SCALED);
    c.report(START, 0, 0);
    let first = c.heartbeat(START).expect("slow start asks");
    c.advance(START + 10 * UPDATE, false);
    let limit = 4.0 * Tuning::SCALED.start;
    assert!((c.rate() - limit).abs() < 0.1 * limit, "twice, then it waits: {}", c.rate());
    c.alive(START + 10 * UPDATE, first);
    assert_eq!(c.rtt(), 10 * UPDATE);
    let rate = c.rate();
    c.advance(START + 11 * UPDATE, false);
    assert!((c.rate() / rate - 1.0718).abs() < 0.001, "a tenth of a round trip: {}", c.rate() / rate);
}

#[test]
fn a_report_in_place_of_lost_ones_counts_for_all_of_them() {
    let after = |updates: u64, tuning| {
        let mut c = controller(tuning);
        c.report(START, 0, 81);
        c.report(START + UPDATE, 160, 81);
        c.advance(START + (1 + updates) * UPDATE, false);
        let before = c.rate();
        c.report(START + (1 + updates) * UPDATE, 160, 81);
        1.0 - c.rate() / before
    };
    let once = 160.0 / 16_384.0;
    assert!((after(3, Tuning::SCALED) - 3.0 * once).abs() < 1e-9);
    assert!((after(9, Tuning::SCALED) - 4.0 * once).abs() < 1e-9, "but no more than four");
    assert!((after(3, Tuning::REFERENCE) - once).abs() < 1e-9);
}

#[test]
fn controllers_are_found_by_name() {
    assert_eq!(Tuning::named("reference"), Some(Tuning::REFERENCE));
    assert_eq!(Tuning::named("scaled"), Some(Tuning::default()));
    assert_eq!(Tuning::named("none"), None);
}
