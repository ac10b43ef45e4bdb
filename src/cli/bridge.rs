//! `weir bridge`: shape between two NICs.

use std::path::PathBuf;
use std::time::Duration;

use weir::port::xdp::program::{Mode, OnFailure};
use weir::qdisc::Compat;
use weir::run::attach::WantedMode;
use weir::run::bridge::{Bridge, Facts, LEAST_WAITING, Settings, WAITING, Way};
use weir::run::left;
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
    #[arg(required_unless_present = "restore")]
    inside: Option<IfName>,
    /// Only undo what a weir bridge that was killed has left at these interfaces, or at this one
    #[arg(long, conflicts_with_all = ["down", "up", "duration", "hist", "json"])]
    restore: bool,
    #[command(flatten)]
    running: Running,
    /// How this instance is called; OUTSIDE-INSIDE unless said otherwise
    #[arg(long)]
    name: Option<String>,
    /// What becomes of frames when weir dies or hangs
    #[arg(long, value_enum, default_value = "bypass")]
    on_failure: OnFailureArg,
}

/// What every live run can be told.
#[derive(clap::Args)]
pub(crate) struct Running {
    /// What packets to INSIDE wait in, as tc would say it: "codel | tbf rate 20mbit burst 5k"
    #[arg(long, value_name = "SPEC")]
    pub(crate) down: Option<String>,
    /// What packets to OUTSIDE wait in
    #[arg(long, value_name = "SPEC")]
    pub(crate) up: Option<String>,
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
    /// Write every arrival and its outcome into tables in this directory, as `weir trace` has them
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// What "autorate" saw and decided, a line of JSON each, for `weir replay --autorate`
    #[arg(long, value_name = "FILE")]
    autorate_log: Option<PathBuf>,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
    /// How the XDP program is run: auto takes native, or else generic with a warning
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) mode: WantedMode,
    /// Largest packet for the disciplines, bytes, without the 14 of the Ethernet header; that of the interfaces unless
    /// said otherwise
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=65_535))]
    mtu: Option<u32>,
    /// Frames that can wait in each direction
    #[arg(long, default_value_t = WAITING as u32, value_parser = clap::value_parser!(u32).range(LEAST_WAITING as i64..=4_194_304))]
    frames: u32,
    /// Which kernel's decisions
    #[arg(long, value_enum, default_value = "latest")]
    compat: CompatArg,
}

impl Running {
    /// The settings of the bridge.
    pub(crate) fn settings(
        &self,
        name: String,
        nics: [IfName; 2],
        specs: [Spec; 2],
        on_failure: OnFailure,
    ) -> Settings {
        Settings {
            name,
            nics,
            specs,
            poll: self.poll,
            cores: self.cores,
            on_failure,
            mode: self.mode,
            mtu: self.mtu,
            waiting: self.frames as usize,
            compat: Compat::from(self.compat),
        }
    }

    /// How its terminal sees it.
    pub(crate) fn options(&self) -> session::Options {
        session::Options {
            duration: self.duration,
            hist: self.hist.clone(),
            log: self.log.clone(),
            autorate_log: self.autorate_log.clone(),
            json: self.json,
        }
    }

    /// Refuses options that have nothing to do.
    pub(crate) fn check(&self, specs: &[Spec; 2]) -> Result<(), Failure> {
        if self.autorate_log.is_some() && specs.iter().all(|s| s.range().is_none()) {
            return Err(Failure::Words(
                "--autorate-log: no direction has the word \"autorate\": \"cake bandwidth 20mbit autorate 2mbit 50mbit\""
                    .into(),
            ));
        }
        Ok(())
    }
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

/// The length of a run.
pub(crate) fn seconds(word: &str) -> Result<Duration, String> {
    super::seconds(word, 1_000_000_000)
}

/// Runs `weir bridge`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let (outside, inside) = match (args.outside, args.inside) {
        (outside, Some(inside)) if !args.restore => (outside, inside),
        (outside, inside) => return restore([Some(outside), inside]),
    };
    let running = &args.running;
    let specs = [direction(running.down.as_deref(), Way::Down)?, direction(running.up.as_deref(), Way::Up)?];
    running.check(&specs)?;
    let name = args.name.unwrap_or_else(|| format!("{outside}-{inside}"));
    let on_failure = match args.on_failure {
        OnFailureArg::Bypass => OnFailure::Bypass,
        OnFailureArg::Pass => OnFailure::Pass,
        OnFailureArg::Drop => OnFailure::Drop,
    };
    let settings = running.settings(name, [outside, inside], specs, on_failure);
    session::run(running.options(), || {
        let bridge = Bridge::start(&settings).map_err(|e| e.to_string())?;
        introduce(bridge.facts(), running.mode);
        Ok((bridge, None))
    })
}

/// Undoes what was left, at each interface as far as it goes.
fn restore(nics: [Option<IfName>; 2]) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for nic in nics.into_iter().flatten() {
        match left::restore(&nic) {
            Ok(true) => eprintln!("weir: {nic} is as it was before weir bridge"),
            Ok(false) => eprintln!("weir: no weir bridge has left anything at {nic}"),
            Err(e) => failures.push(e),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Run(failures.join("\nweir: "))) }
}

/// What packets wait in that way; without words, as much as there is memory.
pub(crate) fn direction(words: Option<&str>, way: Way) -> Result<Spec, Failure> {
    match words {
        Some(words) => read_spec(words),
        None => {
            let spec = Spec::unlimited();
            eprintln!("weir: no --{} SPEC: packets {} wait in \"{spec}\"", way.name(), way.name());
            Ok(spec)
        }
    }
}

/// Says what was found out at the start.
pub(crate) fn introduce(facts: &Facts, wanted: WantedMode) {
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
    for note in &facts.notes {
        eprintln!("weir: note: {note}");
    }
    if facts.replaced {
        eprintln!("weir: took over from an instance that had died");
    }
}
