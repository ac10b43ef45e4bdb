//! `weir bridge`: shape between two NICs.

use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use weir::port::xdp::program::{Mode, OnFailure};
use weir::qdisc::Compat;
use weir::run::attach::WantedMode;
use weir::run::bridge::{Bridge, Facts, Reading, Settings, WAITING, Way};
use weir::run::clock;
use weir::run::nic::IfName;
use weir::run::worker::Poll;
use weir::spec::Spec;
use weir::stats::histogram::Sojourns;
use weir::time::{Instant, SECOND};

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
    // Before anything is touched, so that no signal can come in between.
    let mut signals = Signals::new().map_err(|e| format!("signals: {e}"))?;
    let bridge = Bridge::start(&settings).map_err(|e| e.to_string())?;
    introduce(bridge.facts(), args.mode);
    let mut session = Session { bridge, readings: [None, None], missing: [0, 0], progress: Progress::new(args.json) };
    let fault = session.run(args.duration, &mut signals);
    let (facts, reports) = session.end();
    match reports {
        Some(reports) if args.json => println!("{}", to_json(&facts, &reports)),
        Some(reports) => reports.iter().for_each(|r| print!("{}", r.text(&facts))),
        None => {}
    }
    fault.map_or(Ok(()), |why| Err(Failure::Run(why)))
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

/// SIGINT and SIGTERM, as something to wait for.
struct Signals {
    arrived: UnixStream,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let (arrived, notify) = UnixStream::pair()?;
        arrived.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
        }
        Ok(Signals { arrived })
    }

    fn take(&mut self) -> bool {
        self.arrived.read(&mut [0; 16]).is_ok_and(|n| n > 0)
    }
}

/// A running bridge as its terminal sees it.
struct Session {
    bridge: Bridge,
    readings: [Option<Reading>; 2],
    missing: [i64; 2],
    progress: Progress,
}

impl Session {
    /// Runs until the time is over or a signal comes. Gives what went wrong, if something did.
    fn run(&mut self, duration: Option<Duration>, signals: &mut Signals) -> Option<String> {
        let started = self.bridge.facts().started;
        let end = duration.map_or(Instant::NEVER, |d| started + d.as_nanos() as u64);
        let mut next = started + SECOND;
        loop {
            let now = clock::now();
            if now >= end {
                return None;
            }
            if now >= next {
                next = next + SECOND * (1 + now.since(next) / SECOND);
                if let Some(fault) = self.every_second() {
                    return Some(fault);
                }
            }
            let nanos = end.min(next).since(now);
            let timeout = Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as _ };
            let links = self.bridge.links();
            let (links_fd, signals_fd) = (links.events(), signals.arrived.as_fd());
            let mut fds = [links_fd, signals_fd].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // An interrupted wait is looked at like any other.
            let _ = poll(&mut fds, Some(&timeout));
            let [link_event, signal] = fds.map(|fd| !fd.revents().is_empty());
            if link_event {
                if let Some(up) = links.update() {
                    self.progress.clear();
                    for (nic, up) in self.bridge.facts().nics.iter().zip(up) {
                        eprintln!("weir: the link of {nic} is {}", if up { "up" } else { "down" });
                    }
                }
            }
            if signal && signals.take() {
                return None;
            }
        }
    }

    fn every_second(&mut self) -> Option<String> {
        for way in Way::BOTH {
            let i = way as usize;
            let before = self.readings[i].take();
            let Some(reading) = self.bridge.read(way) else {
                return Some(format!("the worker of direction {} has ended; its frames are bypassed", way.name()));
            };
            let missing = reading.snapshot.census.missing();
            if missing != 0 && missing != self.missing[i] {
                self.progress.clear();
                eprintln!(
                    "weir: {missing} frames of direction {} are nowhere: {:?}",
                    way.name(),
                    reading.snapshot.census
                );
            }
            self.missing[i] = missing;
            self.progress.note(way, before.as_ref(), &reading);
            self.readings[i] = Some(reading);
        }
        self.progress.show();
        None
    }

    /// Takes the last figures and ends the bridge.
    fn end(mut self) -> (Facts, Option<[Report; 2]>) {
        self.progress.clear();
        let facts = self.bridge.facts().clone();
        let mut report = |way| {
            let reading = self.bridge.read(way)?;
            let sojourns = self.bridge.sojourns(way).clone();
            Some(Report { way, reading, sojourns, seconds: clock::now().since(facts.started) as f64 / 1e9 })
        };
        let reports = report(Way::Down).zip(report(Way::Up)).map(|(down, up)| [down, up]);
        (facts, reports)
    }
}

/// One line that is written over once a second, on a terminal only.
struct Progress {
    shown: bool,
    line: String,
}

impl Progress {
    fn new(json: bool) -> Self {
        Progress { shown: std::io::stderr().is_terminal() && !json, line: String::new() }
    }

    fn note(&mut self, way: Way, before: Option<&Reading>, now: &Reading) {
        let bytes = |r: &Reading| r.snapshot.counters.sent_bytes;
        let since = before.map_or(0, bytes);
        let mbit = (bytes(now) - since) as f64 * 8.0 / 1e6;
        let p99 = millis(now.interval.decision.value_at_quantile(0.99));
        let (backlog, drops) = (now.snapshot.backlog_packets, now.snapshot.drops.total());
        if way == Way::Down {
            self.line.clear();
        }
        self.line += &format!("{}: {mbit:.2} Mbit/s, {backlog} waiting, p99 {p99}, {drops} dropped  ", way.name());
    }

    fn show(&self) {
        if self.shown {
            eprint!("\r\x1b[K{}", self.line);
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

fn millis(nanos: u64) -> String {
    format!("{:.3} ms", nanos as f64 / 1e6)
}

/// The figures of a direction at the end.
struct Report {
    way: Way,
    reading: Reading,
    sojourns: Sojourns,
    seconds: f64,
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let mut map = serde_json::Map::new();
    map.insert("count".into(), histogram.len().into());
    for (name, q) in QUANTILES {
        map.insert(name.into(), histogram.value_at_quantile(q).into());
    }
    map.insert("max".into(), histogram.max().into());
    map.into()
}

fn quantile_line(histogram: &Histogram<u64>) -> String {
    let of = |(name, q): (&str, f64)| format!("{name} {}", millis(histogram.value_at_quantile(q)));
    QUANTILES.into_iter().map(of).chain([format!("max {}", millis(histogram.max()))]).collect::<Vec<_>>().join(", ")
}

impl Report {
    fn text(&self, facts: &Facts) -> String {
        let (from, to) = (&facts.nics[self.way as usize], &facts.nics[1 - self.way as usize]);
        let s = &self.reading.snapshot;
        let c = s.counters;
        let drops: Vec<_> = s.drops.happened().map(|(r, n, _)| format!("{} {n}", r.name())).collect();
        let drops = if drops.is_empty() { String::new() } else { format!(" ({})", drops.join(", ")) };
        let g = self.reading.gate;
        let mut text = format!("{} ({from} to {to}): {}\n", self.way.name(), facts.specs[self.way as usize]);
        let mut line = |name: &str, what: String| text += &format!("  {name:<9} {what}\n");
        line("received", format!("{} packets, {} bytes", c.received_packets, c.received_bytes));
        line("sent", format!("{} packets, {} bytes in {:.1} s", c.sent_packets, c.sent_bytes, self.seconds));
        line("dropped", format!("{} packets{drops}", s.drops.total()));
        let marks = [
            ("ecn", c.marked_ecn),
            ("ce_threshold", c.marked_ce_threshold),
            ("step", c.marked_step),
            ("sce", c.marked_sce),
        ];
        let marks = marks.map(|(name, n)| format!("{name} {n}")).join(", ");
        line("marked", marks);
        line("sojourn", quantile_line(&self.sojourns.decision));
        line("total", quantile_line(&self.sojourns.total));
        line("late", quantile_line(&self.reading.late));
        line(
            "gate",
            format!("redirected {}, bypassed {}, passed {}, dropped {}", g.redirected, g.bypassed, g.passed, g.dropped),
        );
        if g.no_socket + g.stale + g.redirect_failed > 0 {
            let why = format!("no_socket {}, stale {}, redirect_failed {}", g.no_socket, g.stale, g.redirect_failed);
            line("", format!("of those not redirected: {why}"));
        }
        let k = self.reading.sockets;
        if k != Default::default() {
            let lost = format!(
                "rx_ring_full {}, rx_fill_ring_empty {}, other {}",
                k.rx_ring_full, k.rx_fill_ring_empty, k.rx_dropped
            );
            line("kernel", format!("dropped before weir: {lost}"));
        }
        text
    }

    fn json(&self, facts: &Facts) -> Value {
        let s = &self.reading.snapshot;
        let c = s.counters;
        let drops: serde_json::Map<_, _> = s
            .drops
            .happened()
            .map(|(r, packets, bytes)| (r.name().into(), json!({"packets": packets, "bytes": bytes})))
            .collect();
        let (p, k) = (s.port, self.reading.sockets);
        json!({
            "direction": self.way.name(),
            "from": facts.nics[self.way as usize],
            "to": facts.nics[1 - self.way as usize],
            "spec": facts.specs[self.way as usize].to_string(),
            "mode": facts.modes[self.way as usize].to_string(),
            "received": {"packets": c.received_packets, "bytes": c.received_bytes},
            "sent": {"packets": c.sent_packets, "bytes": c.sent_bytes},
            "dropped": {"packets": s.drops.total(), "by_reason": drops},
            "backlog": {"packets": s.backlog_packets, "bytes": s.backlog_bytes},
            "marked": {
                "ecn": c.marked_ecn, "ce_threshold": c.marked_ce_threshold, "step": c.marked_step, "sce": c.marked_sce,
            },
            "unparsed": c.unparsed,
            "refused": c.refused,
            "sojourn_ns": {"decision": quantiles(&self.sojourns.decision), "total": quantiles(&self.sojourns.total)},
            "late_ns": quantiles(&self.reading.late),
            "census": s.census,
            "census_missing": s.census.missing(),
            "gate": self.reading.gate,
            "port": {
                "rx_invalid": p.rx_invalid, "rx_unstamped": p.rx_unstamped, "tx_invalid": p.tx_invalid,
                "kicks": p.kicks, "tx_busy": p.tx_busy, "tx_down": p.tx_down, "tx_errors": p.tx_errors,
                "completion_invalid": p.completion_invalid, "tx_stalls": p.tx_stalls,
            },
            "kernel": {
                "rx_dropped": k.rx_dropped, "rx_ring_full": k.rx_ring_full, "rx_fill_ring_empty": k.rx_fill_ring_empty,
                "rx_invalid_descs": k.rx_invalid_descs, "tx_invalid_descs": k.tx_invalid_descs,
            },
        })
    }
}

fn to_json(facts: &Facts, reports: &[Report; 2]) -> Value {
    json!({
        "name": facts.name,
        "outside": facts.nics[0],
        "inside": facts.nics[1],
        "zero_copy": facts.zero_copy,
        "poll": format!("{:?}", facts.poll).to_lowercase(),
        "cores": facts.cores,
        "seconds": reports[0].seconds,
        "directions": reports.each_ref().map(|r| r.json(facts)),
    })
}
