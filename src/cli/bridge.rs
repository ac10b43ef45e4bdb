//! `weir bridge`: shape between two NICs.

use std::path::PathBuf;
use std::time::Duration;

use weir::port::xdp::program::{Mode, OnFailure};
use weir::qdisc::Compat;
use weir::run::attach::WantedMode;
use weir::run::bridge::{Facts, Settings, WAITING, Way};
use weir::run::nic::IfName;
use weir::run::worker::Poll;
use weir::spec::Spec;

use super::session;
use super::{CompatArg, Failure, read_spec};

/// Arguments of `weir bridge`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The interface towards the far side
    outside: IfName,
    /// The interface towards the near side
    inside: IfName,
    /// What packets to INSIDE wait in, as tc would say it: "codel | tbf rate 20mbit burst 5k"
    #[arg(long, value_name = "SPEC")]
    down: Option<String>,
    /// What packets to OUTSIDE wait in
    #[arg(long, value_name = "SPEC")]
    up: Option<String>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// How to wait; busy when --cores is given, else adaptive
    #[arg(long, value_enum)]
    poll: Option<Poll>,
    /// Give cores to weir alone: 1 for both directions, or one for each
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// Write histograms of the sojourn into this directory
    #[arg(long, value_name = "DIR")]
    hist: Option<PathBuf>,
    /// What "autorate" saw and decided, a line of JSON each, for `weir replay --autorate`
    #[arg(long, value_name = "FILE")]
    autorate_log: Option<PathBuf>,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
    /// How this instance is called; OUTSIDE-INSIDE unless said otherwise
    #[arg(long)]
    name: Option<String>,
    /// What becomes of frames when weir dies or hangs
    #[arg(long, value_enum, default_value = "bypass")]
    on_failure: OnFailureArg,
    /// How the XDP program is run: auto takes native, or else generic with a warning
    #[arg(long, value_enum, default_value = "auto")]
    mode: WantedMode,
    /// Largest packet for the disciplines, bytes, without the 14 of the Ethernet header; that of the interfaces unless
    /// said otherwise
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=65_535))]
    mtu: Option<u32>,
    /// Frames that can wait in each direction
    #[arg(long, default_value_t = WAITING as u32, value_parser = clap::value_parser!(u32).range(64..=4_194_304))]
    frames: u32,
    /// Which kernel's decisions
    #[arg(long, value_enum, default_value = "latest")]
    compat: CompatArg,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OnFailureArg {
    /// Straight out of the other interface
    Bypass,
    /// To this machine's own stack
    Pass,
    /// Nowhere
    Drop,
}

fn seconds(word: &str) -> Result<Duration, String> {
    let number: f64 = word.strip_suffix('s').unwrap_or(word).parse().map_err(|_| "a number of seconds".to_string())?;
    if !(0.0..=1e9).contains(&number) {
        return Err("between 0 and 1000000000 seconds".to_string());
    }
    Ok(Duration::from_secs_f64(number))
}

/// Runs `weir bridge`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let specs = [direction(args.down.as_deref(), Way::Down)?, direction(args.up.as_deref(), Way::Up)?];
    if args.autorate_log.is_some() && specs.iter().all(|s| s.range().is_none()) {
        return Err(Failure::Words(
            "--autorate-log: no direction has the word \"autorate\": \"cake bandwidth 20mbit autorate 2mbit 50mbit\""
                .into(),
        ));
    }
    let settings = Settings {
        name: args.name.unwrap_or_else(|| format!("{}-{}", args.outside, args.inside)),
        nics: [args.outside, args.inside],
        specs,
        poll: args.poll,
        cores: args.cores,
        on_failure: match args.on_failure {
            OnFailureArg::Bypass => OnFailure::Bypass,
            OnFailureArg::Pass => OnFailure::Pass,
            OnFailureArg::Drop => OnFailure::Drop,
        },
        mode: args.mode,
        mtu: args.mtu,
        waiting: args.frames as usize,
        compat: Compat::from(args.compat),
    };
    let options =
        session::Options { duration: args.duration, hist: args.hist, autorate_log: args.autorate_log, json: args.json };
    session::run(&settings, options, |facts| introduce(facts, args.mode))
}

fn direction(words: Option<&str>, way: Way) -> Result<Spec, Failure> {
    match words {
        Some(words) => read_spec(words),
        None => {
            let spec = Spec::unlimited();
            eprintln!("weir: no --{} SPEC: packets {} wait in \"{spec}\"", way.name(), way.name());
            Ok(spec)
        }
    }
}

fn introduce(facts: &Facts, wanted: WantedMode) {
    let [a, b] = &facts.nics;
    let copies = if facts.zero_copy { "no copies" } else { "copying" };
    let [qa, qb] = facts.queues;
    eprintln!("weir: {a} ({qa} queues) and {b} ({qb} queues) as '{}': {copies}, {:?} polling", facts.name, facts.poll);
    for (nic, mode) in facts.nics.iter().zip(facts.modes) {
        if mode == Mode::Generic && wanted == WantedMode::Auto {
            eprintln!("weir: warning: the driver of {nic} does not run XDP programs; generic mode is slower");
        }
    }
    for warning in &facts.warnings {
        eprintln!("weir: warning: {warning}");
    }
    if facts.replaced {
        eprintln!("weir: took over from an instance that had died");
    }
}
