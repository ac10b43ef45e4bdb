//! Whatever the path, a transfer ends: it is complete, or given up for a reason that it was given.

use proptest::prelude::*;

use weir::pipeline::Link;
use weir::scenario::file;
use weir::scenario::result::Outcome;
use weir::sim;

const SENDERS: [&str; 7] = ["reno", "cubic", "dctcp", "bbr", "bbr2", "prague", "fixed"];

/// A path and what is sent over it.
#[derive(Clone, Debug)]
struct Experiment {
    /// Bits per second.
    rate: u64,
    /// One way, us.
    delay: u64,
    /// Of a thousand packets, lost at random, each way.
    lost: u32,
    /// Of a thousand packets, doubled and put behind others.
    disturbed: u32,
    queue: String,
    sender: &'static str,
    size: u64,
    window: u64,
    flows: u32,
    ecn: bool,
    delayed: bool,
    up: bool,
    seed: u64,
}

fn queues() -> impl Strategy<Value = String> {
    prop_oneof![
        (2u32..300).prop_map(|n| format!("pfifo limit {n}")),
        (2u32..300).prop_map(|n| format!("codel limit {n} ecn")),
        (1u32..20).prop_map(|ms| format!("codel ce_threshold {ms}ms")),
        Just("fq_codel".to_string()),
        Just("cake ack-filter".to_string()),
    ]
}

fn experiments() -> impl Strategy<Value = Experiment> {
    let path = (13u32..34, 0u64..2_000_000, 0u32..300, 0u32..200, queues());
    let flow = (0..SENDERS.len(), 0u32..21, 12u32..25, 1u32..4);
    (path, flow, any::<(bool, bool, bool, u64)>()).prop_map(|(path, flow, choice)| Experiment {
        rate: 1 << path.0,
        delay: path.1,
        lost: path.2,
        disturbed: path.3,
        queue: path.4,
        sender: SENDERS[flow.0],
        // No longer than some minutes for the bits alone.
        size: (1u64 << flow.1).min((1u64 << path.0) * 20),
        window: 1 << flow.2,
        flows: flow.3,
        ecn: choice.0,
        delayed: choice.1,
        up: choice.2,
        seed: choice.3,
    })
}

fn run(e: &Experiment) -> Outcome {
    let (lost, disturbed) = (f64::from(e.lost) / 10.0, f64::from(e.disturbed) / 10.0);
    let netem = format!("netem loss {lost}% duplicate {disturbed}% delay 1ms reorder {disturbed}% limit 100000");
    let text = format!(
        "duration = \"3000000s\"\ninterval = \"100000s\"\nuntil-complete = true\n\
         [[node]]\nname = \"loss\"\ndown = \"{netem}\"\nup = \"{netem}\"\n\
         [[node]]\nname = \"rt\"\ndown = \"{queue}\"\nup = \"{queue}\"\n\
         down-line = \"{rate}bit\"\nup-line = \"{rate}bit\"\ndelay = \"{delay}us\"\n\
         [[flow]]\nname = \"f\"\nsender = \"{sender}\"\ncount = {flows}\nsize = \"{size}\"\nwindow = \"{window}\"\n\
         ecn = {ecn}\ndelayed-acks = {delayed}\ndirection = \"{way}\"\nretries = 100\n",
        queue = e.queue,
        rate = e.rate,
        delay = e.delay,
        sender = e.sender,
        flows = e.flows,
        size = e.size,
        window = e.window,
        ecn = e.ecn,
        delayed = e.delayed,
        way = if e.up { "up" } else { "down" },
    );
    let (scenario, _) = file::read(&text, &sim::SENDERS).map_err(|p| p.render("test", &text)).unwrap();
    sim::build(&scenario, e.seed, Link::default()).unwrap().run(None)
}

#[test]
fn a_call_that_is_never_answered_is_given_up_with_the_seventh_and_ends_the_run() {
    for way in ["down", "up"] {
        for deaf in ["down", "up"] {
            let text = format!(
                "duration = \"3600s\"\nuntil-complete = true\n[[node]]\nname = \"rt\"\ndelay = \"10ms\"\n\
                 {deaf} = \"netem loss 100%\"\n[[flow]]\nsize = \"10k\"\ndirection = \"{way}\"\n"
            );
            let (scenario, _) = file::read(&text, &sim::SENDERS).map_err(|p| p.render("test", &text)).unwrap();
            let outcome = sim::build(&scenario, 1, Link::default()).unwrap().run(None);
            assert!(outcome.flows[0].aborted, "{way} {deaf}");
            // After 1 + 2 + … + 64 s of calls that nobody hears. Who hears them and is not heard counts its answers to
            // each of them too, and gives up before.
            let seconds = if deaf == "up" { 127 } else { 63 };
            assert_eq!(outcome.elapsed / 1_000_000_000, seconds, "{way} {deaf}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_transfer_ends_on_any_path_and_no_byte_is_lost_or_counted_twice(e in experiments()) {
        let outcome = run(&e);
        for flow in &outcome.flows {
            prop_assert!(flow.completed.is_some() || flow.aborted, "{flow:?}");
            if flow.completed.is_some() {
                prop_assert_eq!(flow.bytes, e.size);
            }
            // Seven SYNs in vain are the only reason to give up with a hundred retries.
            prop_assert!(!flow.aborted || flow.bytes == 0, "{flow:?}");
            if e.lost == 0 {
                prop_assert!(flow.completed.is_some(), "{flow:?}");
            }
        }
        // Nothing spins: a handful of events for each frame at each of the four ports.
        let ticks = outcome.elapsed / 100_000_000_000_000 + 10;
        prop_assert!(outcome.events < 10 * outcome.frames + 100 * ticks, "{} {}", outcome.events, outcome.frames);
    }
}
