//! Senders that read the depth of the queue in their frames, in virtual time: the runs of
//! `spec/mb-ecn.md` §7 within its tolerances, and what becomes of them when paths are many or the
//! link misbehaves.

use weir::dtp::{Codes, Regime};
use weir::pipeline::Link;
use weir::scenario::result::{Outcome, PathResult, jain};
use weir::scenario::{builtin, file};
use weir::sim;

/// Payload bits per second that a link of 10 Mbit/s carries: 1400 of 1435 bytes.
const CEILING: f64 = 10e6 * 1400.0 / 1435.0;

fn run(text: &str) -> Outcome {
    let (scenario, _) = file::read(text, &sim::SENDERS).map_err(|p| p.render("test", text)).unwrap();
    sim::build(&scenario, 1, Link::default()).unwrap().run(None)
}

fn built_in(name: &str, params: &[(&str, &str)]) -> Outcome {
    let given: Vec<_> = params.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    run(&builtin::cases(builtin::named(name).unwrap(), &given).unwrap()[0].text)
}

fn mbit(outcome: &Outcome) -> Vec<f64> {
    outcome.flows.iter().map(|f| f.goodput / 1e6).collect()
}

fn drops(outcome: &Outcome) -> u64 {
    outcome.ports.iter().map(|p| p.drops[0]).sum()
}

/// What holds in every run of the table: nothing dropped, 1 to 16 packets on average, and the code
/// of 10 Mbit/s in the frames.
fn as_the_seed(outcome: &Outcome) {
    assert_eq!(drops(outcome), 0);
    for path in &outcome.paths {
        assert!((1.0..16.0).contains(&path.codes.mean_depth()), "{}: {}", path.name, path.codes.mean_depth());
        // The first four frames of a flow are not marked, since it has to be learned.
        assert!(path.codes.capacities.iter().enumerate().all(|(cap, n)| [0, 81].contains(&cap) || *n == 0));
        assert!(path.codes.capacities[81] > 1000 && path.codes.capacities[0] <= 4);
        assert_eq!(path.points.last().unwrap().capacity, 1_245_184);
    }
}

fn within(x: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&x), "{x} is not in {low}…{high}");
}

const CONTROLLERS: [&str; 2] = ["scaled", "reference"];

#[test]
fn one_flow_fills_the_link_and_drops_nothing() {
    for controller in CONTROLLERS {
        let outcome = built_in("mb-ecn-one", &[("controller", controller)]);
        as_the_seed(&outcome);
        within(mbit(&outcome)[0], 9.40, 9.76);
    }
}

#[test]
fn two_flows_of_one_path_share_its_rate_evenly() {
    for controller in CONTROLLERS {
        let outcome = built_in("mb-ecn-two", &[("controller", controller)]);
        as_the_seed(&outcome);
        assert_eq!(outcome.paths.len(), 1, "one destination, one controller");
        let rates = mbit(&outcome);
        rates.iter().for_each(|r| within(*r, 4.65, 4.90));
        within(rates[0] / rates[1], 0.98, 1.02);
    }
}

#[test]
fn a_raw_flow_cannot_take_more_than_a_reliable_one() {
    for controller in CONTROLLERS {
        let outcome = built_in("mb-ecn-reliable", &[("controller", controller)]);
        as_the_seed(&outcome);
        let rates = mbit(&outcome);
        within(rates[0] / rates[1], 1.00, 1.06);
    }
}

#[test]
fn flows_that_come_and_go_get_their_share_at_once() {
    for controller in CONTROLLERS {
        let outcome = built_in("mb-ecn-staggered", &[("controller", controller)]);
        as_the_seed(&outcome);
        let rates = mbit(&outcome);
        within(rates[0], 6.1, 6.6);
        within(rates[1], 4.1, 4.5);
        within(rates[2], 3.0, 3.4);
        // Second 35 to 45: three flows, none of which had to push the others.
        let thirds: Vec<u64> = outcome.flows.iter().map(|f| f.series[350..450].iter().sum()).collect();
        assert!(jain(&thirds.iter().map(|b| *b as f64).collect::<Vec<_>>()) > 0.9999, "{thirds:?}");
    }
}

#[test]
fn one_flow_of_one_source_gets_as_much_as_five_of_another() {
    for controller in CONTROLLERS {
        let outcome = built_in("mb-ecn-asymmetric", &[("controller", controller)]);
        as_the_seed(&outcome);
        let sources = outcome.by_path();
        within(sources[0] / sources[1], 0.98, 1.02);
        assert!(jain(&sources) >= 0.999);
        let rates = mbit(&outcome);
        within(jain(&rates), 0.54, 0.57);
        let (least, most) = rates[1..].iter().fold((f64::MAX, 0.0), |(a, b), r| (r.min(a), r.max(b)));
        assert!(most / least <= 1.03, "{rates:?}");
    }
}

#[test]
fn the_regimes_are_those_of_a_greedy_source() {
    let outcome = built_in("mb-ecn-one", &[]);
    let seen = |r: Regime| outcome.paths[0].points.iter().filter(|p| p.regime == r).count();
    assert!(seen(Regime::SlowStart) > 0, "it looks for the capacity in the first moments");
    assert!(seen(Regime::ProportionalDecrease) > 100);
    assert_eq!(seen(Regime::SourceLimited) + seen(Regime::IncreaseHeld), 0);
}

/// The figures of the reference controller come out as those of the model it was specified with.
#[test]
fn the_reference_controller_gives_the_figures_it_was_specified_with() {
    let text = include_str!("data/mb-ecn-vectors.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    let said = &all["reference_controller_simulation"];
    let number = |v: &serde_json::Value| v.as_f64().unwrap();
    let near = |x: f64, v: &serde_json::Value, share: f64| {
        within(x, number(v) * (1.0 - share), number(v) * (1.0 + share));
    };
    let reference = ("controller", "reference");
    near(mbit(&built_in("mb-ecn-one", &[reference]))[0], &said["one_flow"], 0.005);
    for (rate, key) in [("1mbit", "one_flow_1mbit"), ("100mbit", "one_flow_100mbit")] {
        near(mbit(&built_in("mb-ecn-one", &[reference, ("rate", rate)]))[0], &said[key], 0.01);
    }
    let two = mbit(&built_in("mb-ecn-two", &[reference]));
    let staggered = mbit(&built_in("mb-ecn-staggered", &[reference]));
    for (got, key) in [(two, "two_flows"), (staggered, "staggered")] {
        for (x, v) in got.iter().zip(said[key].as_array().unwrap()) {
            near(*x, v, 0.01);
        }
    }
    let asymmetric = built_in("mb-ecn-asymmetric", &[reference]);
    near(asymmetric.by_path()[0] / 1e6, &said["asym"]["source_a"], 0.01);
    near(asymmetric.by_path()[1] / 1e6, &said["asym"]["source_b"], 0.01);
    // Its fault, for which there is another: thirty paths leave a sixth of the link unused.
    let many = built_in("mb-ecn-paths", &[reference]);
    assert!(mbit(&many).iter().sum::<f64>() < 8.6);
}

fn efficient_and_fair(outcome: &Outcome, ceiling: f64) {
    assert_eq!(drops(outcome), 0);
    let rates: Vec<f64> = outcome.flows.iter().map(|f| f.goodput).collect();
    let sum: f64 = rates.iter().sum();
    assert!(sum >= 0.95 * ceiling, "{sum} of {ceiling}");
    assert!(jain(&rates) >= 0.99, "{}", jain(&rates));
}

#[test]
fn thirty_paths_on_ten_megabits_are_efficient_and_fair() {
    let outcome = built_in("mb-ecn-paths", &[]);
    assert_eq!(outcome.paths.len(), 30);
    efficient_and_fair(&outcome, CEILING);
    efficient_and_fair(&built_in("mb-ecn-paths", &[("every", "0ms")]), CEILING);
}

#[test]
fn a_hundred_paths_on_a_hundred_megabits_are_efficient_and_fair() {
    efficient_and_fair(&built_in("mb-ecn-paths", &[("paths", "100"), ("rate", "100mbit")]), 10.0 * CEILING);
}

#[test]
fn a_hundred_paths_have_less_than_a_packet_between_two_updates_and_share_all_the_same() {
    efficient_and_fair(&built_in("mb-ecn-paths", &[("paths", "100")]), CEILING);
}

/// Two sources on `up`, then a delay, then `back` for what returns.
fn two_sources(up: &str, far: &str, words: [&str; 2], seconds: u64) -> Outcome {
    run(&format!(
        r#"
name = "two"
duration = "{seconds}s"
steady-from = "{}s"
[[node]]
name = "rt"
{up}
[[node]]
name = "far"
delay = "1ms"
{far}
[[host]]
name = "a"
side = "client"
[[host]]
name = "b"
side = "client"
[[flow]]
name = "a"
app = "dtp"
direction = "up"
client = "a"
{}
[[flow]]
name = "b"
app = "dtp"
direction = "up"
client = "b"
{}
"#,
        seconds / 2,
        words[0],
        words[1]
    ))
}

const SHAPED: &str = "up = \"pfifo limit 1000 mb-ecn dtp | tbf rate 10mbit burst 3k\"";

fn bits(outcome: &Outcome, flow: usize, seconds: std::ops::Range<usize>) -> f64 {
    let bytes: u64 = outcome.flows[flow].series[seconds.start * 10..seconds.end * 10].iter().sum();
    bytes as f64 * 8.0 / seconds.len() as f64
}

fn last_rates(path: &PathResult, seconds: std::ops::Range<u64>) -> Vec<f64> {
    let range = seconds.start * 1_000_000_000..seconds.end * 1_000_000_000;
    path.points.iter().filter(|p| range.contains(&p.at)).map(|p| p.rate).collect()
}

#[test]
fn a_path_whose_far_end_stops_answering_slows_to_the_floor_and_comes_back() {
    let silent = "silent-from = \"40s\"\nsilent-until = \"80s\"";
    let outcome = two_sources(SHAPED, "", ["", silent], 160);
    assert_eq!(drops(&outcome), 0);
    assert!(bits(&outcome, 1, 50..80) < 0.01 * CEILING);
    assert!(bits(&outcome, 0, 50..80) > 0.97 * CEILING, "the other takes what is left");
    let again = [0, 1].map(|f| bits(&outcome, f, 130..160));
    assert!(jain(&again) > 0.99 && again.iter().sum::<f64>() > 0.97 * CEILING, "{again:?}");
}

#[test]
fn updates_that_are_lost_cost_a_little_of_the_link_and_no_packet() {
    // Cuts are the rarer and the larger for it.
    for (percent, share) in [(5, 0.96), (20, 0.9), (50, 0.8)] {
        let outcome = two_sources(SHAPED, &format!("down = \"netem loss {percent}%\""), ["", ""], 240);
        let port = |name: &str| outcome.ports.iter().find(|p| p.name == name).unwrap();
        assert_eq!(port("rt.up").drops[0], 0);
        assert!(port("far.down").drops[0] > 100, "updates and answers are lost");
        let rates = outcome.by_path();
        assert!(rates.iter().sum::<f64>() > share * CEILING, "{percent} %: {rates:?}");
        assert!(jain(&rates) > 0.98, "{percent} %: {rates:?}");
        assert!(port("rt.up").peak.0 < 500);
    }
}

#[test]
fn a_link_that_slows_to_a_tenth_and_recovers_is_followed_without_a_drop() {
    let up = "up = \"pfifo limit 1000 mb-ecn dtp\"\nup-line = \"10mbit\"\n[[node.step]]\nat = \"40s\"\nup-line = \"1mbit\"\n[[node.step]]\nat = \"80s\"\nup-line = \"10mbit\"";
    let outcome = two_sources(up, "", ["", ""], 140);
    assert_eq!(drops(&outcome), 0);
    let sum = |seconds: std::ops::Range<usize>| bits(&outcome, 0, seconds.clone()) + bits(&outcome, 1, seconds);
    assert!(sum(20..40) > 0.97 * CEILING);
    assert!(sum(60..80) > 0.95 * CEILING / 10.0);
    assert!(sum(110..140) > 0.97 * CEILING);
    let told = |at: usize| outcome.paths[0].points[at * 10].capacity;
    assert_eq!([told(30), told(70), told(130)], [1_245_184, 110_336, 1_245_184]);
    let fair = [0, 1].map(|f| bits(&outcome, f, 60..80));
    assert!(jain(&fair) > 0.98, "{fair:?}");
}

#[test]
fn of_two_bottlenecks_the_deeper_queue_and_the_slower_link_count() {
    let second = "up = \"pfifo limit 1000 mb-ecn dtp | tbf rate 5mbit burst 3k\"";
    let outcome = two_sources(SHAPED, second, ["", ""], 120);
    assert_eq!(drops(&outcome), 0);
    let rates = outcome.by_path();
    assert!(rates.iter().sum::<f64>() > 0.97 * CEILING / 2.0, "{rates:?}");
    assert!(jain(&rates) > 0.99);
    for path in &outcome.paths {
        assert_eq!(Codes::range(&path.codes.capacities, 0), Some((77, 77)), "5 Mbit/s");
        assert!(last_rates(path, 60..120).iter().all(|r| *r < 625_000.0));
    }
    let depth = |name: &str| outcome.ports.iter().find(|p| p.name == name).unwrap().total.mean();
    assert!(depth("far.up") > 10.0 * depth("rt.up"), "the queue stands where the link is slow");
}

#[test]
fn a_sender_that_does_not_listen_gets_what_it_takes_and_the_paths_share_the_rest() {
    let deaf = "\n[[flow]]\nname = \"deaf\"\napp = \"constant\"\ndirection = \"up\"\nrate = \"4mbit\"\npacket = 1400\nclient = \"a\"";
    let outcome = two_sources(SHAPED, "", ["", deaf], 120);
    assert_eq!(drops(&outcome), 0);
    let paths = outcome.by_path();
    within(outcome.goodput("deaf") / 4e6, 0.99, 1.01);
    within(paths.iter().sum::<f64>() / (CEILING - 4e6 * 1442.0 / 1435.0), 0.95, 1.0);
    assert!(jain(&paths) > 0.99);
}

#[test]
fn a_source_that_does_not_use_its_rate_is_limited_by_itself_and_keeps_no_credit() {
    let outcome = two_sources(SHAPED, "", ["", "rate = \"1mbit\""], 120);
    assert_eq!(drops(&outcome), 0);
    within(outcome.flows[1].goodput / 1e6, 0.98, 1.02);
    assert!(outcome.flows[0].goodput > 0.97 * (CEILING - 1e6));
    let of = |p: &&weir::scenario::result::PathPoint| p.regime == Regime::SourceLimited;
    // Now and then cuts bring the rate so near to what is used that it may grow again.
    assert!(outcome.paths[1].points.iter().filter(of).count() > 300);
    assert!(last_rates(&outcome.paths[1], 60..120).iter().all(|r| *r < 4.0 * 125_000.0));
}

#[test]
fn coded_marking_keeps_the_queue_under_two_milliseconds_at_a_hundred_megabits() {
    for flows in ["1", "10"] {
        let outcome = built_in("mb-ecn-l4s", &[("flows", flows)]);
        let port = outcome.ports.iter().find(|p| p.name == "rt.up").unwrap();
        let steady = port.depth.iter().find(|d| d.at.since(outcome.origin) >= 5_000_000_000).unwrap();
        let last = port.depth.last().unwrap();
        let bits = (last.sent_bytes - steady.sent_bytes) as f64 * 8.0;
        let used = bits / (last.at.since(steady.at) as f64 / 1e9) / 100e6;
        let p99 = port.total.value_at_quantile(0.99) as f64 / 1e6;
        assert_eq!(port.drops[1], 0, "{flows} flows");
        assert!(used > 0.95, "{flows} flows: {used} of the link, p99 {p99} ms");
        assert!(p99 < 2.0, "{flows} flows: p99 {p99} ms, {used} of the link");
    }
}

#[test]
fn the_folder_of_a_run_shows_regimes_rates_and_fairness_of_its_paths() {
    let folder = std::env::temp_dir().join(format!("weir-mb-ecn-{}", std::process::id()));
    let words = ["sim", "mb-ecn-two", "--param", "seconds=5", "-o", folder.to_str().unwrap()];
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (report, series) = (read("report.html"), read("path-cl-sv.csv"));
    let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    for panel in ["Congestion regime", "Congestion level", "Paced rate", "Path capacity", "Jain index"] {
        assert!(report.contains(&format!("<h2>{panel}</h2>")), "{panel}");
    }
    assert!(report.contains("<title>proportional dec</title>"));
    let lines: Vec<&str> = series.lines().collect();
    assert_eq!(lines[0], "t_s,rate_bytes_per_s,ece,capacity_bytes_per_s,regime");
    assert_eq!(lines.len(), 51, "a line for each tenth of a second");
    assert_eq!(summary["paths"][0]["capacity_codes"], serde_json::json!([81, 81]));
    assert_eq!(summary["jain_sources"], 1.0);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("81 (9961Kbit)") && text.contains("Jain per source 1.0000"), "{text}");
}
