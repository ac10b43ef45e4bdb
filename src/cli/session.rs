//! A run of a bridge as its terminal sees it: signals, a line of progress, the control socket,
//! histograms, and the report at the end.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use weir::port::xdp::SocketStatistics;
use weir::run::alarms::Alarms;
use weir::run::bridge::{Bridge, Facts, Reading, Way};
use weir::run::control::{Info, Instance, Server};
use weir::run::journal::Log;
use weir::run::quiet::Quiet;
use weir::run::{DIRECTORY, clock, hist};
use weir::spec::Spec;
use weir::stats::format::time_ns;
use weir::stats::report::Report;
use weir::time::{Instant, SECOND};

use super::Failure;

/// A line for people. Where nobody can read it, it is left out: that is no reason to end.
macro_rules! say {
    ($($words:tt)*) => {
        {
            let _ = writeln!(std::io::stderr(), $($words)*);
        }
    };
}

/// How a run is wanted.
pub(crate) struct Options {
    /// End after this time.
    pub(crate) duration: Option<Duration>,
    /// Where to write histograms.
    pub(crate) hist: Option<PathBuf>,
    /// Where to write every arrival and its outcome.
    pub(crate) log: Option<PathBuf>,
    /// Where to write what `autorate` saw and decided.
    pub(crate) autorate_log: Option<PathBuf>,
    /// JSON for programs.
    pub(crate) json: bool,
}

/// Who else looks after something once a second, and what there is to say of it.
pub(crate) type Watch = Box<dyn Fn() -> Vec<String>>;

/// Runs the bridge that `start` gives until its time is over, somebody stops it, or something fails.
pub(crate) fn run(
    options: Options,
    start: impl FnOnce() -> Result<(Bridge, Option<Watch>), String>,
) -> Result<(), Failure> {
    // Before anything is touched, so that no signal can come in between.
    let mut signals = Signals::new().map_err(|e| format!("signals: {e}"))?;
    let steered = options.autorate_log.as_ref().map(|path| {
        File::create(path).map(BufWriter::new).map_err(|e| format!("--autorate-log {}: {e}", path.display()))
    });
    let steered = steered.transpose()?;
    let (bridge, watch) = start()?;
    let mut session = Session::new(bridge, watch, &options)?;
    session.steered = steered;
    if let Some(directory) = &options.log {
        session.begin_log(directory, Instant::NEVER).map_err(|e| format!("--log {}: {e}", directory.display()))?;
    }
    let fault = session.run(options.duration, &mut signals);
    session.end(options.json)?;
    fault.map_or(Ok(()), |why| Err(Failure::Run(why)))
}

/// SIGINT and SIGTERM, as something to wait for.
pub(crate) struct Signals {
    arrived: UnixStream,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Signals> {
        let (arrived, notify) = UnixStream::pair()?;
        arrived.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, notify.try_clone()?)?;
        }
        Ok(Signals { arrived })
    }

    /// Waits for one, but no longer than this.
    pub(crate) fn wait(&mut self, length: Duration) {
        // A socket takes any time but none at all; whatever comes, the wait is over.
        let _ = self.arrived.set_nonblocking(false);
        let _ = self.arrived.set_read_timeout(Some(length.max(Duration::from_millis(1))));
        self.take();
    }

    fn take(&mut self) -> bool {
        self.arrived.read(&mut [0; 16]).is_ok_and(|n| n > 0)
    }
}

struct Session {
    bridge: Bridge,
    control: Option<Server>,
    hist: Option<hist::Files>,
    log: Option<Log>,
    /// What the last log said at its end, until somebody asks.
    logged_lines: Option<Result<Vec<String>, String>>,
    /// Where the log of `autorate` goes.
    steered: Option<BufWriter<File>>,
    /// When the last interval of the histograms ended.
    logged: Instant,
    readings: [Option<Reading>; 2],
    alarms: [Alarms; 2],
    quiet: Quiet,
    watch: Option<Watch>,
    progress: Progress,
}

impl Session {
    fn new(bridge: Bridge, watch: Option<Watch>, options: &Options) -> Result<Session, String> {
        let facts = bridge.facts();
        let control = Server::bind(Path::new(DIRECTORY), &facts.name).map_err(|e| format!("control socket: {e}"))?;
        let about: Vec<_> =
            Way::BOTH.iter().map(|w| format!("weir {} {}", arrow(facts, *w), facts.specs[*w as usize])).collect();
        let begin = |dir: &PathBuf| {
            hist::Files::begin(dir, &facts.name, &about).map_err(|e| format!("--hist {}: {e}", dir.display()))
        };
        let hist = options.hist.as_ref().map(begin).transpose()?;
        let (logged, progress) = (facts.started, Progress::new(options.json));
        Ok(Session {
            control: Some(control),
            hist,
            log: None,
            logged_lines: None,
            steered: None,
            logged,
            readings: [None, None],
            alarms: Default::default(),
            quiet: Quiet::default(),
            watch,
            progress,
            bridge,
        })
    }

    /// Runs until the time is over or somebody wants an end. Gives what went wrong, if something did.
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
            if self.bridge.steering_due().is_some_and(|due| now >= due) {
                self.steer();
            }
            self.write_log(now);
            let steer = self.bridge.steering_due().unwrap_or(Instant::NEVER);
            let log = self.log.as_ref().map_or(Instant::NEVER, Log::due);
            let nanos = end.min(next).min(steer).min(log).since(now);
            let timeout = Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as _ };
            let links = self.bridge.links();
            let mut fds: Vec<_> = [links.events(), signals.arrived.as_fd()]
                .into_iter()
                .chain(self.control.as_ref().map(AsFd::as_fd))
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            // An interrupted wait is looked at like any other.
            let _ = poll(&mut fds, Some(&timeout));
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                let changed = links.update();
                if let Some(nic) = links.gone() {
                    return Some(format!("{} is gone, so this ends", self.bridge.facts().nics[nic]));
                }
                if let Some(up) = changed {
                    self.progress.clear();
                    for (nic, up) in self.bridge.facts().nics.iter().zip(up) {
                        say!("weir: the link of {nic} is {}", if up { "up" } else { "down" });
                    }
                }
            }
            if ready[1] && signals.take() {
                return None;
            }
            if ready.get(2) == Some(&true) && self.serve() {
                return None;
            }
        }
    }

    /// Ends an interval of `autorate`.
    fn steer(&mut self) {
        let lines = self.bridge.steer();
        let Some(log) = &mut self.steered else { return };
        if let Err(e) = lines.iter().try_for_each(|line| writeln!(log, "{line}")) {
            self.progress.clear();
            say!("weir: --autorate-log: {e}; no more is written");
            self.steered = None;
        }
    }

    fn begin_log(&mut self, directory: &Path, until: Instant) -> Result<(), String> {
        if self.log.is_some() {
            return Err("a log is being written already; it ends by itself, or with the instance".into());
        }
        self.log = Some(Log::begin(&self.bridge, directory, until).map_err(|e| e.to_string())?);
        self.logged_lines = None;
        Ok(())
    }

    /// Writes what is due of the log, and ends it when its time is over.
    fn write_log(&mut self, now: Instant) {
        let Some(log) = &mut self.log else { return };
        if log.is_over(now) {
            self.close_log();
            return;
        }
        if now < log.due() {
            return;
        }
        if let Err(e) = log.write(&self.bridge) {
            self.progress.clear();
            say!("weir: log: {e}; no more is written");
            // The engines go on without.
            let _ = self.bridge.keep_journals(false);
            self.log = None;
            self.logged_lines = Some(Err(e.to_string()));
        }
    }

    fn close_log(&mut self) {
        let Some(log) = self.log.take() else { return };
        let lines = log.end(&self.bridge).map(|written| written.lines()).map_err(|e| e.to_string());
        self.progress.clear();
        match &lines {
            Ok(lines) => lines.iter().for_each(|line| say!("weir: {line}")),
            Err(e) => say!("weir: log: {e}"),
        }
        self.logged_lines = Some(lines);
    }

    /// Answers those who ask, and says whether one of them wants an end.
    fn serve(&mut self) -> bool {
        let Some(control) = self.control.take() else { return false };
        let stop = control.serve(self);
        self.control = Some(control);
        stop
    }

    fn every_second(&mut self) -> Option<String> {
        for way in Way::BOTH {
            let i = way as usize;
            let before = self.readings[i].take();
            let Some(reading) = self.bridge.read(way) else {
                return Some(format!("the worker of direction {} has ended; its frames are bypassed", way.name()));
            };
            let sockets = reading.queues.iter().copied().fold(SocketStatistics::default(), SocketStatistics::plus);
            let nics = &self.bridge.facts().nics;
            let (from, to) = (nics[i].as_str(), nics[1 - i].as_str());
            for line in self.alarms[i].note([from, to], &reading.snapshot, reading.gate, sockets) {
                self.progress.clear();
                say!("weir: {line}");
            }
            self.readings[i] = Some(reading);
            self.note(way, before.as_ref());
        }
        for line in self.watch.iter().flat_map(|watch| watch()) {
            self.progress.clear();
            say!("weir: {line}");
        }
        self.logged = clock::now();
        let received = self.readings.each_ref().map(|r| r.as_ref().map_or(0, |r| r.snapshot.counters.received_packets));
        if let Some(i) = self.quiet.second(received) {
            self.progress.clear();
            let facts = self.bridge.facts();
            let [still, busy] = [Way::BOTH[i], Way::BOTH[1 - i]].map(|way| arrow(facts, way));
            say!(
                "weir: nothing came for {still} in a minute, while {busy} is busy: are the interfaces the right ones?"
            );
        }
        if let Some(log) = &mut self.steered {
            // What cannot be written is said when the next line is.
            let _ = log.flush();
        }
        self.progress.show();
        None
    }

    /// Takes what was recorded since the last time into the line of progress and the log.
    fn note(&mut self, way: Way, before: Option<&Reading>) {
        let interval = self.bridge.take_interval(way);
        let Some(reading) = &self.readings[way as usize] else { return };
        self.progress.note(way, before, reading, interval.decision.value_at_quantile(0.99));
        let Some(hist) = &mut self.hist else { return };
        let from = Duration::from_nanos(self.logged.since(self.bridge.facts().started));
        let length = Duration::from_nanos(clock::now().since(self.logged));
        if let Err(e) = hist.interval(way.name(), &reading.snapshot.stages, &interval, from, length) {
            self.progress.clear();
            say!("weir: histograms: {e}; no more are written");
            self.hist = None;
        }
    }

    /// Takes the last figures, ends the bridge, and says what there is to say.
    fn end(mut self, as_json: bool) -> Result<(), String> {
        for way in Way::BOTH {
            let before = self.readings[way as usize].take();
            self.readings[way as usize] = self.bridge.read(way);
            self.note(way, before.as_ref());
        }
        self.close_log();
        self.progress.clear();
        let facts = self.bridge.facts().clone();
        let reports = self.reports();
        let Session { bridge, control, hist, .. } = self;
        drop((control, bridge));
        let Ok(reports) = reports else { return Ok(()) };
        if as_json {
            println!("{}", to_json(&facts, &reports));
        } else {
            reports.iter().for_each(|r| print!("{}", r.text()));
        }
        if let Some(hist) = hist {
            let files = hist.end(&reports).map_err(|e| format!("histograms: {e}"))?;
            files.iter().for_each(|f| say!("weir: wrote {}", f.display()));
        }
        Ok(())
    }
}

impl Instance for Session {
    fn info(&self) -> Info {
        let facts = self.bridge.facts();
        let [down, up] = facts.specs.each_ref().map(Spec::to_string);
        Info {
            name: facts.name.clone(),
            pid: std::process::id(),
            nics: facts.nics.clone(),
            seconds: clock::now().since(facts.started) as f64 / 1e9,
            down,
            up,
        }
    }

    fn reports(&mut self) -> Result<Vec<Report>, String> {
        let ended = |way: Way| format!("the worker of direction {} has ended", way.name());
        Way::BOTH.into_iter().map(|way| self.bridge.report(way).ok_or_else(|| ended(way))).collect()
    }

    fn specs(&self) -> [Spec; 2] {
        self.bridge.facts().specs.clone()
    }

    fn change(&mut self, specs: [Option<Spec>; 2]) -> Result<(), String> {
        self.bridge.change(specs.clone())?;
        self.progress.clear();
        let facts = self.bridge.facts();
        let seconds = clock::now().since(facts.started) as f64 / 1e9;
        for (way, spec) in Way::BOTH.into_iter().zip(specs) {
            if let Some(spec) = spec {
                say!("weir: {seconds:.3}s {} changed: {spec}", arrow(facts, way));
            }
        }
        Ok(())
    }

    fn log(&mut self, directory: &Path, seconds: f64) -> Result<(), String> {
        let until = clock::now() + (seconds * SECOND as f64) as u64;
        self.begin_log(directory, until)
    }

    fn end_log(&mut self) -> Result<Vec<String>, String> {
        self.close_log();
        self.logged_lines.take().unwrap_or_else(|| Err("no log was begun".into()))
    }
}

/// A direction by its name and its ports, so that nobody has to guess which is which.
fn arrow(facts: &Facts, way: Way) -> String {
    let i = way as usize;
    format!("{} {}->{}", way.name(), facts.nics[i], facts.nics[1 - i])
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

    fn note(&mut self, way: Way, before: Option<&Reading>, now: &Reading, p99: u64) {
        let bytes = |r: &Reading| r.snapshot.counters.sent_bytes;
        let since = before.map_or(0, bytes);
        let mbit = (bytes(now) - since) as f64 * 8.0 / 1e6;
        let (backlog, drops) = (now.snapshot.backlog_packets, now.snapshot.drops.total());
        if way == Way::Down {
            self.line.clear();
        }
        let p99 = time_ns(p99);
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

fn to_json(facts: &Facts, reports: &[Report]) -> Value {
    let direction = |(r, mode): (&Report, _)| {
        let mut json = r.json();
        json["mode"] = format!("{mode}").into();
        json
    };
    json!({
        "name": facts.name,
        "outside": facts.nics[0],
        "inside": facts.nics[1],
        "zero_copy": facts.zero_copy,
        "poll": format!("{:?}", facts.poll).to_lowercase(),
        "cores": facts.cores,
        "seconds": reports.iter().map(|r| r.seconds).fold(0.0, f64::max),
        "directions": reports.iter().zip(facts.modes).map(direction).collect::<Vec<_>>(),
        "qdiscs": reports.iter().flat_map(Report::qdiscs).collect::<Vec<_>>(),
    })
}
