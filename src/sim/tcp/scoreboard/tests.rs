use super::*;

const MSS: u64 = 1000;

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

fn heard(now: Instant) -> Echoed {
    Echoed { now, stamp: 0, min_rtt: 0 }
}

/// `n` segments, one each 10 µs.
fn sent(n: u64) -> (Scoreboard, Sampler) {
    let (mut board, mut sampler) = (Scoreboard::new(MSS as u32), Sampler::default());
    for i in 0..n {
        let snapshot = sampler.snapshot(at(10 * i), board.packets_out());
        board.sent(at(10 * i), i * MSS, (i + 1) * MSS, snapshot);
    }
    (board, sampler)
}

fn counts(b: &Scoreboard) -> (u32, u32, u32, u32) {
    (b.packets_out(), b.sacked_out, b.lost_out, b.in_flight())
}

#[test]
fn a_sack_block_counts_its_packets_once_however_often_it_is_repeated() {
    let (mut board, mut sampler) = sent(10);
    let first = board.acknowledge(&heard(at(1000)), 0, &[(2 * MSS, 4 * MSS)], &mut sampler);
    let again = board.acknowledge(&heard(at(1010)), 0, &[(2 * MSS, 5 * MSS)], &mut sampler);
    assert_eq!((first.delivered, again.delivered), (2, 1));
    assert_eq!(counts(&board), (10, 3, 0, 7));
}

#[test]
fn what_was_sent_well_before_a_delivered_packet_is_lost() {
    let (mut board, mut sampler) = sent(10);
    board.acknowledge(&heard(at(1000)), 0, &[(9 * MSS, 10 * MSS)], &mut sampler);
    assert_eq!(board.detect(at(1000), 0), (9, None));
    assert_eq!(counts(&board), (10, 1, 9, 0));
}

#[test]
fn within_the_reordering_window_nothing_is_lost_and_a_timer_is_asked_for() {
    let (mut board, mut sampler) = sent(2);
    board.acknowledge(&heard(at(1000)), 0, &[(MSS, 2 * MSS)], &mut sampler);
    let (lost, wait) = board.detect(at(1000), 50_000);
    assert_eq!((lost, wait), (0, Some(50_000)));
    assert_eq!(board.detect(at(1050), 50_000).0, 1);
}

#[test]
fn lost_packets_are_sent_again_from_the_lowest_on_and_each_once() {
    let (mut board, mut sampler) = sent(4);
    board.acknowledge(&heard(at(1000)), 0, &[(3 * MSS, 4 * MSS)], &mut sampler);
    board.detect(at(1000), 0);
    let spans: Vec<_> = std::iter::from_fn(|| board.resend_lost(at(1000), Snapshot::default())).collect();
    assert_eq!(spans, [(0, MSS), (MSS, 2 * MSS), (2 * MSS, 3 * MSS)]);
    assert_eq!(counts(&board), (4, 1, 3, 3));
}

#[test]
fn a_lost_retransmission_is_found_by_the_next_one_delivered() {
    let (mut board, mut sampler) = sent(4);
    board.acknowledge(&heard(at(1000)), 0, &[(3 * MSS, 4 * MSS)], &mut sampler);
    board.detect(at(1000), 0);
    board.resend_lost(at(1000), Snapshot::default());
    board.resend_lost(at(1001), Snapshot::default());
    board.acknowledge(&heard(at(2001)), 0, &[(MSS, 2 * MSS), (3 * MSS, 4 * MSS)], &mut sampler);
    assert_eq!(board.detect(at(2001), 0).0, 1);
    assert_eq!(board.resend_lost(at(2001), Snapshot::default()), Some((0, MSS)));
}

#[test]
fn a_packet_below_one_already_delivered_shows_reordering() {
    let (mut board, mut sampler) = sent(3);
    board.acknowledge(&heard(at(1000)), 0, &[(2 * MSS, 3 * MSS)], &mut sampler);
    assert!(!board.rack.reordered);
    board.acknowledge(&heard(at(1001)), 3 * MSS, &[], &mut sampler);
    assert!(board.rack.reordered);
    assert_eq!(counts(&board), (0, 0, 0, 0));
}

#[test]
fn after_a_timeout_all_but_the_recent_and_the_delivered_is_lost() {
    let (mut board, mut sampler) = sent(10);
    board.acknowledge(&heard(at(1000)), 0, &[(4 * MSS, 5 * MSS)], &mut sampler);
    assert_eq!(board.timed_out(at(1000), 925_000), 7, "those sent up to 75 µs, less the one delivered");
    assert_eq!(counts(&board), (10, 1, 7, 2));
}

#[test]
fn taking_back_a_loss_restores_the_pipe_and_the_order_of_sending() {
    let (mut board, mut sampler) = sent(10);
    board.timed_out(at(1000), 0);
    board.unmark();
    assert_eq!(counts(&board), (10, 0, 0, 10));
    board.acknowledge(&heard(at(1000)), 0, &[(9 * MSS, 10 * MSS)], &mut sampler);
    assert_eq!(board.detect(at(1000), 0).0, 9);
}

#[test]
fn what_waited_behind_a_retransmission_is_no_round_trip_for_the_timer() {
    let (mut board, mut sampler) = sent(2);
    board.timed_out(at(1000), 0);
    board.resend_lost(at(1000), Snapshot::default());
    let change = board.acknowledge(&heard(at(2000)), 2 * MSS, &[], &mut sampler);
    assert_eq!((change.rtt_cumulative, change.since_first), (None, Some(2_000_000)));
}

#[test]
fn an_echo_older_than_the_retransmission_is_no_word_of_it() {
    let (mut board, mut sampler) = sent(10);
    board.timed_out(at(400_000), 0);
    board.resend_lost(at(400_000), Snapshot::default());
    let late = Echoed { now: at(500_000), stamp: 1, min_rtt: 20_000_000 };
    board.acknowledge(&late, MSS, &[], &mut sampler);
    assert_eq!(board.rack.rtt, 0, "the first sending was late, and the others are not lost for it");
    let (mut board, mut sampler) = sent(10);
    board.timed_out(at(400_000), 0);
    board.resend_lost(at(400_000), Snapshot::default());
    board.acknowledge(&Echoed { stamp: 400, ..late }, MSS, &[], &mut sampler);
    assert_eq!(board.rack.rtt, 100_000_000);
}
