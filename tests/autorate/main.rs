//! `autorate MIN MAX` in virtual time: real TCP laws in front of a link whose rate moves.

mod frames;

use weir::autorate::{Decision, Interval, Line, Why, log};
use weir::pipeline::Link;
use weir::scenario::file;
use weir::scenario::result::Outcome;
use weir::sim;
use weir::time::{MILLISECOND, SECOND};

/// Home router, then the modem with its FIFO and the link that moves, then 20 ms each way.
const SHAPED: &str = r#"
interval = "100ms"
[[node]]
name = "rt"
down = "cake bandwidth 20mbit autorate 2mbit 50mbit ingress"
up = "cake bandwidth 20mbit autorate 2mbit 50mbit"
[[node]]
name = "link"
down = "pfifo limit 1000"
up = "pfifo limit 1000"
line = "20mbit"
delay = "20ms"
"#;

/// The link over time: seconds, and what changes then.
fn steps(steps: &[(u64, &str)]) -> String {
    steps.iter().map(|(at, what)| format!("[[node.step]]\nat = \"{at}s\"\n{what}\n")).collect()
}

fn flows(count: u32, direction: &str) -> String {
    format!("[[flow]]\nname = \"{direction}\"\ncount = {count}\ndirection = \"{direction}\"\nsender = \"cubic\"\n")
}

fn run(seconds: u64, parts: &[&str]) -> Outcome {
    let text = format!("duration = \"{seconds}s\"\n{SHAPED}{}", parts.concat());
    let (scenario, _) = file::read(&text, &sim::SENDERS).map_err(|p| p.render("test", &text)).unwrap();
    sim::build(&scenario, 1, Link::default()).unwrap().run(None)
}

const DOWN: usize = 0;
const UP: usize = 1;
const NAMES: [&str; 2] = ["down", "up"];

fn decisions(outcome: &Outcome, way: usize) -> Vec<Decision> {
    let decision = |l: &Line| if let Line::Decision(d) = l { Some(*d) } else { None };
    outcome.autorate[0].iter().filter_map(decision).filter(|d| d.way == way).collect()
}

fn intervals(outcome: &Outcome) -> Vec<Interval> {
    outcome.autorate[0].iter().filter_map(|l| if let Line::Interval(i) = l { Some(*i) } else { None }).collect()
}

/// Mbit/s in force at a second.
fn rate_at(outcome: &Outcome, way: usize, second: f64) -> f64 {
    let all = intervals(outcome);
    let at = all.iter().rfind(|i| i.at as f64 <= second * 1e9).expect("something happened before");
    [at.down, at.up][way].rate as f64 * 8e-6
}

/// Mbit/s that the modem sent between two seconds, and the longest wait there, ms.
fn link(outcome: &Outcome, way: usize, from: u64, to: u64) -> (f64, f64) {
    let port = outcome.ports.iter().find(|p| p.name == format!("link.{}", NAMES[way])).expect("it has a queue");
    let within = |at: u64| at > from * SECOND && at <= to * SECOND;
    let points: Vec<_> = port.depth.iter().filter(|d| within(d.at.since(outcome.origin))).collect();
    let bytes = points[points.len() - 1].sent_bytes - points[0].sent_bytes;
    let nanos = points[points.len() - 1].at.since(points[0].at);
    (bytes as f64 * 8e3 / nanos as f64, points.iter().map(|d| d.worst).max().unwrap_or(0) as f64 / 1e6)
}

fn story(outcome: &Outcome) -> String {
    let line = |l: &Line| if let Line::Decision(d) = l { Some(log::sentence(d) + "\n") } else { None };
    outcome.autorate[0].iter().filter_map(line).collect()
}

fn words(decisions: &[Decision], from: u64, to: u64) -> Vec<&'static str> {
    let within = |d: &&Decision| (from * SECOND..=to * SECOND).contains(&d.at);
    decisions.iter().filter(within).map(|d| d.why.word()).collect()
}

/// The lowest and the highest rate decided between two seconds, Mbit/s, where it began included.
fn extremes(outcome: &Outcome, way: usize, from: u64, to: u64) -> (f64, f64) {
    let within = |d: &&Decision| (from * SECOND..=to * SECOND).contains(&d.at);
    let start = rate_at(outcome, way, from as f64);
    let rates = decisions(outcome, way).iter().filter(within).map(|d| d.to as f64 * 8e-6).collect::<Vec<_>>();
    rates.iter().fold((start, start), |(low, high), r| (low.min(*r), high.max(*r)))
}

#[test]
fn the_rate_follows_the_link_from_20_to_5_to_30_and_the_modem_does_not_fill() {
    let moves = steps(&[(20, "line = \"5mbit\""), (40, "line = \"30mbit\"")]);
    for count in [1, 8, 32] {
        for way in [DOWN, UP] {
            let o = run(60, &[&moves, &flows(count, NAMES[way])]);
            let name = format!("{count} {}", NAMES[way]);
            let all = decisions(&o, way);
            // Each at the moment, the reason included.
            let first = all.iter().find(|d| d.at > 20 * SECOND && d.to < d.from).expect("it goes down");
            assert!(first.at < 20 * SECOND + 500 * MILLISECOND, "{name}: {first:?}");
            assert!(matches!(first.why, Why::Bloat { .. } | Why::StillBloated { .. }), "{name}: {first:?}");
            assert!(words(&all, 20, 24).contains(&"drained"), "{name}\n{}", story(&o));
            assert!(words(&all, 40, 60).contains(&"rising"), "{name}\n{}", story(&o));
            // What goes down goes down for a queue, what goes up is rising or has drained.
            for d in &all {
                match d.to.cmp(&d.from) {
                    std::cmp::Ordering::Less => assert!(d.why.word().contains("bloat"), "{name}: {d:?}"),
                    std::cmp::Ordering::Greater => {
                        assert!(["rising", "drained"].contains(&d.why.word()), "{name}: {d:?}");
                    }
                    std::cmp::Ordering::Equal => {}
                }
            }
            // Followed down within two seconds, and up within twenty, TCP's own time included.
            assert!(rate_at(&o, way, 22.0) < 5.5, "{name}\n{}", story(&o));
            assert!(rate_at(&o, way, 59.0) > 24.0, "{name}\n{}", story(&o));
            let (busy, late) = (link(&o, way, 30, 40), link(&o, way, 50, 60));
            assert!(busy.0 > 3.7 && late.0 > 17.0, "{name}: {busy:?} {late:?}");
            // A thousand packets of 5 Mbit/s would be 2400 ms.
            let worst = [link(&o, way, 20, 23).1, busy.1, link(&o, way, 45, 60).1];
            assert!(worst[0] < 560.0 && worst[1] < 190.0 && worst[2] < 130.0, "{name}: {worst:?}");
            // The other way has nothing but acknowledgements, and keeps its rate.
            let other = extremes(&o, 1 - way, 2, 60);
            assert_eq!(other, (20.0, 20.0), "{name}\n{}", story(&o));
        }
    }
}

#[test]
fn both_ways_at_once_are_told_apart() {
    // Only the way up moves.
    let moves = steps(&[(20, "up-line = \"5mbit\"")]);
    let o = run(40, &[&moves, &flows(4, "down"), &flows(4, "up")]);
    let (down, up) = (extremes(&o, DOWN, 20, 40), extremes(&o, UP, 20, 23));
    assert!(up.0 < 5.5, "{up:?}\n{}", story(&o));
    assert!(down.0 > 15.0, "{down:?}\n{}", story(&o));
    assert!(link(&o, DOWN, 25, 40).0 > 15.0);
    assert!(link(&o, UP, 25, 40).1 < 200.0);
}

#[test]
fn a_link_that_stands_still_for_ten_seconds_is_no_slow_link() {
    for way in [DOWN, UP] {
        // One frame of data, and one acknowledgement, take ten seconds; then all that waited comes.
        let (data, acks) = (NAMES[way], NAMES[1 - way]);
        let still = format!("{data}-line = \"1200bit\"\n{acks}-line = \"56bit\"");
        let moves = steps(&[(20, &still), (30, "line = \"20mbit\"")]);
        let o = run(45, &[&moves, &flows(4, NAMES[way])]);
        let before = rate_at(&o, way, 20.0);
        let (low, _) = extremes(&o, way, 20, 32);
        assert!(low >= before * 0.85, "{}: {low} of {before}\n{}", NAMES[way], story(&o));
        let said = words(&decisions(&o, way), 20, 32);
        assert!(said.contains(&"recovering"), "{said:?}\n{}", story(&o));
        if way == UP {
            assert!(said.contains(&"stalled"), "{said:?}");
        }
        // Samples from before the stall are known as such.
        assert!(intervals(&o).iter().any(|i| i.far.stale > 0));
        assert!(extremes(&o, way, 32, 45).0 > 10.0, "{}", story(&o));
    }
}

#[test]
fn an_hour_of_silence_changes_nothing_and_takes_no_room_in_the_log() {
    let burst = |start: &str, stop: &str| flows(2, "down") + &format!("start = \"{start}\"\nstop = \"{stop}\"\n");
    let o = run(
        3640,
        &[
            &burst("0s", "10s"),
            &burst("3620s", "3640s")
                .replace("\"down\"", "\"later\"")
                .replace("direction = \"later\"", "direction = \"down\""),
        ],
    );
    let quiet: Vec<_> =
        decisions(&o, DOWN).into_iter().filter(|d| (12 * SECOND..3620 * SECOND).contains(&d.at)).collect();
    assert!(quiet.iter().all(|d| d.from == d.to), "{quiet:?}");
    assert_eq!(rate_at(&o, DOWN, 12.0), rate_at(&o, DOWN, 3620.0));
    assert!(intervals(&o).len() < 400, "{}", intervals(&o).len());
    assert!(decisions(&o, DOWN).iter().any(|d| d.at > 3620 * SECOND && d.to > d.from));
}

#[test]
fn datagrams_show_no_round_trip_and_that_is_said() {
    let udp = "[[flow]]\nname = \"udp\"\napp = \"constant\"\nrate = \"18mbit\"\npacket = 1200\n";
    let o = run(20, &[&steps(&[(10, "line = \"5mbit\"")]), udp]);
    let all = decisions(&o, DOWN);
    assert_eq!(words(&all, 0, 20), ["no-samples"], "{}", story(&o));
    assert!(all.iter().all(|d| d.from == d.to));
}

/// A call of 256 kbit/s in bursts of two seconds for ten minutes, on a link that would carry five times the rate, beside a
/// connection that now and then shows a round trip, with 15 ms of noise on the way.
#[test]
fn steady_low_traffic_is_not_starved_by_a_rate_that_decays() {
    let shaped = SHAPED
        .replace("cake bandwidth 20mbit autorate 2mbit 50mbit", "cake bandwidth 1mbit autorate 100kbit 5mbit")
        .replace("line = \"20mbit\"", "line = \"5mbit\"")
        .replace("down = \"pfifo limit 1000\"", "down = \"netem delay 8ms 7ms ordered | pfifo limit 1000\"");
    let radio =
        "[[flow]]\nname = \"radio\"\napp = \"on-off\"\nrate = \"256kbit\"\non = \"2s\"\noff = \"2s\"\npacket = 400\n";
    let asking =
        "[[flow]]\nname = \"asking\"\napp = \"request\"\nsender = \"cubic\"\nresponse = \"4000\"\nthink = \"1s\"\n";
    let text = format!("duration = \"600s\"\n{shaped}{radio}{asking}");
    let (scenario, _) = file::read(&text, &sim::SENDERS).map_err(|p| p.render("test", &text)).unwrap();
    let o = sim::build(&scenario, 1, Link::default()).unwrap().run(None);
    let shaper = o.ports.iter().find(|p| p.name == "rt.down").expect("it has a queue");
    assert_eq!(shaper.drops[0], 0, "{}", story(&o));
    let longest = shaper.depth.iter().map(|d| d.worst).max().expect("packets came");
    assert!(longest < 50 * MILLISECOND, "{longest} ns\n{}", story(&o));
    assert!(extremes(&o, DOWN, 1, 600).0 > 0.256, "{}", story(&o));
}

#[test]
fn a_longer_way_is_learned_within_five_seconds_under_load() {
    for way in [DOWN, UP] {
        let o = run(40, &[&steps(&[(20, "delay = \"35ms\"")]), &flows(8, NAMES[way])]);
        let all = decisions(&o, way);
        let moved =
            all.iter().find(|d| matches!(d.why, Why::BaseMoved { .. })).unwrap_or_else(|| panic!("{}", story(&o)));
        assert!((20 * SECOND..25 * SECOND).contains(&moved.at), "{moved:?}\n{}", story(&o));
        assert!(extremes(&o, way, 25, 40).0 > 12.0, "{}", story(&o));
        let later = intervals(&o).into_iter().rfind(|i| i.far.samples > 0).unwrap();
        assert!(later.far.base.abs_diff(70 * MILLISECOND) < 6 * MILLISECOND, "{later:?}");
    }
}

#[test]
fn a_log_decided_again_gives_the_same_decisions() {
    let moves = steps(&[(8, "line = \"5mbit\""), (16, "delay = \"35ms\""), (24, "line = \"30mbit\"")]);
    let o = run(32, &[&moves, &flows(4, "down"), &flows(2, "up")]);
    let text: Vec<String> = o.autorate[0].iter().map(Line::to_string).collect();
    let again = log::replay(text.iter().map(String::as_str)).unwrap();
    let logged = o.autorate[0].iter().filter_map(|l| if let Line::Decision(d) = l { Some(*d) } else { None });
    assert_eq!(again.decisions, logged.collect::<Vec<_>>());
    assert!(again.decisions.len() > 100);
    assert_eq!(again.differences, []);
    // Another decision, one that is missing, and one too many are each found.
    let i = text.iter().position(|l| l.contains("\"bloat\"")).unwrap();
    let Line::Decision(bloat) = &o.autorate[0][i] else { unreachable!() };
    let mut other = text.clone();
    other[i] = Line::Decision(Decision { to: bloat.to + 1, ..*bloat }).to_string();
    let differs = log::replay(other.iter().map(String::as_str)).unwrap().differences;
    assert_eq!(differs, [(i + 1, Some(Decision { to: bloat.to + 1, ..*bloat }), Some(*bloat))]);
    other.remove(i);
    assert_eq!(log::replay(other.iter().map(String::as_str)).unwrap().differences.len(), 1);
    other = text.clone();
    other.insert(i, text[i].clone());
    assert_eq!(log::replay(other.iter().map(String::as_str)).unwrap().differences.len(), 1);
    let error = log::replay(text[1..].iter().map(String::as_str)).unwrap_err();
    assert_eq!(error, "line 1: a log begins with {\"autorate\":1}");
}

#[test]
fn the_rate_in_force_is_what_the_shaper_says() {
    let o = run(20, &[&steps(&[(10, "line = \"5mbit\"")]), &flows(4, "down")]);
    let mut in_force = None;
    for line in &o.autorate[0] {
        match line {
            Line::Interval(i) => assert_eq!(in_force.unwrap_or(i.down.rate), i.down.rate, "at {}", i.at),
            Line::Decision(d) if d.way == DOWN => in_force = Some(d.to),
            _ => {}
        }
    }
    assert!(in_force.is_some());
}
