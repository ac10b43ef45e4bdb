//! Scenario files: TOML, checked whole before anything runs. Every complaint names its place.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{App, Dtp, Flow, Host, Node, Ping, Scenario, Side, SlowStart, Step, Tcp, Timer};
use crate::dtp::Tuning;
use crate::spec::{self, Spec, suggest, units};
use crate::time::SECOND;

/// Hosts in a file at most: each has an address of its own in a network of 254.
const MOST_HOSTS: usize = 253;
/// Samples of a run at most; each is kept, for each flow.
const MOST_SAMPLES: u64 = 10_000_000;

/// What is wrong with a scenario file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Bytes of the file that it is about.
    pub span: Range<usize>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl Problem {
    fn at(span: Range<usize>, message: impl Into<String>) -> Self {
        Problem { span, message: message.into() }
    }

    /// The complaint with file, line, column, the line itself and a mark under the word.
    pub fn render(&self, file: &str, text: &str) -> String {
        let start = self.span.start.min(text.len());
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let number = text[..start].matches('\n').count() + 1;
        let column = text[line_start..start].chars().count();
        let end = self.span.end.clamp(start, line_start + line.len());
        let width = text[start..end].chars().count().max(1);
        format!("{file}:{number}:{}: {}\n{line}\n{}{}", column + 1, self.message, " ".repeat(column), "^".repeat(width))
    }
}

/// A scenario and what should be said aloud about it.
pub type Read = (Scenario, Vec<String>);

type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: Option<Text>,
    title: Option<String>,
    duration: Option<Text>,
    #[serde(rename = "steady-from")]
    steady_from: Option<Text>,
    interval: Option<Text>,
    #[serde(rename = "until-complete", default)]
    until_complete: bool,
    #[serde(default)]
    node: Vec<RawNode>,
    #[serde(default)]
    host: Vec<RawHost>,
    #[serde(default)]
    flow: Vec<Spanned<RawFlow>>,
    #[serde(default)]
    ping: Vec<RawPing>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawNode {
    name: Text,
    down: Option<Text>,
    up: Option<Text>,
    line: Option<Text>,
    down_line: Option<Text>,
    up_line: Option<Text>,
    delay: Option<Text>,
    down_delay: Option<Text>,
    up_delay: Option<Text>,
    #[serde(default)]
    step: Vec<RawStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawStep {
    at: Text,
    line: Option<Text>,
    down_line: Option<Text>,
    up_line: Option<Text>,
    delay: Option<Text>,
    down_delay: Option<Text>,
    up_delay: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawHost {
    name: Text,
    side: Text,
    address: Option<Text>,
    delay: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawFlow {
    name: Option<Text>,
    count: Option<Spanned<i64>>,
    client: Option<Text>,
    server: Option<Text>,
    servers: Option<Vec<Text>>,
    app: Option<Text>,
    direction: Option<Text>,
    start: Option<Text>,
    every: Option<Text>,
    stop: Option<Text>,
    size: Option<Text>,
    rate: Option<Text>,
    packet: Option<Spanned<i64>>,
    on: Option<Text>,
    off: Option<Text>,
    request: Option<Text>,
    response: Option<Text>,
    think: Option<Text>,
    connections: Option<Spanned<i64>>,
    sender: Option<Text>,
    ecn: Option<bool>,
    slow_start: Option<Text>,
    timer: Option<Text>,
    window: Option<Text>,
    delayed_acks: Option<bool>,
    retries: Option<Spanned<i64>>,
    patience: Option<Text>,
    dscp: Option<Spanned<i64>>,
    reliable: Option<Spanned<bool>>,
    controller: Option<Text>,
    silent_from: Option<Text>,
    silent_until: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawPing {
    name: Option<Text>,
    client: Option<Text>,
    server: Option<Text>,
    interval: Option<Text>,
    size: Option<Spanned<i64>>,
    start: Option<Text>,
    dscp: Option<Spanned<i64>>,
}

/// Reads a scenario file; `senders` are the congestion controls that whoever runs it has.
///
/// # Errors
/// The first thing that cannot be meant, with its place.
pub fn read(text: &str, senders: &[&str]) -> Result<Read, Problem> {
    let raw: RawScenario = toml::from_str(text).map_err(|e| from_toml(&e))?;
    Reader { senders, warnings: Vec::new() }.scenario(raw)
}

/// A complaint of the TOML reader, with the key that was probably meant.
fn from_toml(e: &toml::de::Error) -> Problem {
    let span = e.span().unwrap_or(0..0);
    let message = e.message();
    let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match words.split_first() {
        Some((word, known)) if message.starts_with("unknown field") => {
            let hint = suggest::hint(word, known.iter().copied());
            Problem::at(span, format!("\"{word}\" has no meaning here{hint}\nallowed: {}", known.join(", ")))
        }
        _ if message.ends_with("expected a string") => Problem::at(
            span,
            format!("{message}: times, rates and sizes are in quotes, with their unit, like \"5s\" or \"10mbit\""),
        ),
        _ => Problem::at(span, message.to_string()),
    }
}

struct Reader<'a> {
    senders: &'a [&'a str],
    warnings: Vec<String>,
}

type Checked<T> = Result<T, Problem>;

/// Reads one word, or says where and why not.
fn word<T>(text: &Text, parse: impl Fn(&str) -> Result<T, String>) -> Checked<T> {
    parse(text.get_ref()).map_err(|e| Problem::at(text.span(), e))
}

fn or<T>(text: &Option<Text>, parse: impl Fn(&str) -> Result<T, String>, default: T) -> Checked<T> {
    text.as_ref().map_or(Ok(default), |t| word(t, parse))
}

fn maybe<T>(text: &Option<Text>, parse: impl Fn(&str) -> Result<T, String>) -> Checked<Option<T>> {
    text.as_ref().map(|t| word(t, parse)).transpose()
}

fn number(value: &Option<Spanned<i64>>, range: std::ops::RangeInclusive<i64>, default: i64) -> Checked<i64> {
    let Some(value) = value else { return Ok(default) };
    let n = *value.get_ref();
    if range.contains(&n) {
        return Ok(n);
    }
    Err(Problem::at(value.span(), format!("{n} is outside {}…{}", range.start(), range.end())))
}

/// A time in ns, up to 1000 hours. tc takes a bare number for microseconds; here it must have its unit.
pub fn time(text: &str) -> Result<u64, String> {
    if text != "0" && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(format!("\"{text}\" needs a unit: s, ms or us"));
    }
    units::time_ns(text, 1)
}

fn rate(text: &str) -> Result<u64, String> {
    let bps = units::rate(text)?.bits_per_second();
    if bps == 0 { Err("a rate of zero carries nothing".into()) } else { Ok(bps) }
}

fn size(text: &str) -> Result<u64, String> {
    units::size(text).map(u64::from)
}

/// A name, which also is part of the names of files.
fn name(text: &Text) -> Checked<String> {
    let name = text.get_ref();
    let plain = |c: char| !c.is_control() && !matches!(c, '/' | '\\');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
        let why =
            format!("\"{name}\" cannot be in the name of a file: 1 to 64 bytes, no slash, no dot at its beginning");
        return Err(Problem::at(text.span(), why));
    }
    Ok(name.clone())
}

/// Picks one of `choices`.
fn choice<T: Copy>(text: &Text, what: &str, choices: &[(&str, T)]) -> Checked<T> {
    let asked = text.get_ref().as_str();
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == asked) {
        return Ok(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(n, _)| *n).collect();
    let hint = suggest::hint(asked, names.iter().copied());
    Err(Problem::at(text.span(), format!("\"{asked}\" is no {what}{hint}\nallowed: {}", names.join(", "))))
}

impl Reader<'_> {
    fn scenario(mut self, raw: RawScenario) -> Checked<Read> {
        let called = raw.name.as_ref().map_or(Ok("scenario".into()), name)?;
        let mut s = Scenario::empty(&called);
        s.title = raw.title.clone().unwrap_or_default();
        s.duration = or(&raw.duration, time, s.duration)?;
        s.interval = or(&raw.interval, time, s.interval)?;
        s.steady_from = or(&raw.steady_from, time, (s.duration / 6).min(5 * SECOND))?;
        s.until_complete = raw.until_complete;
        for (value, text, what) in [(s.duration, &raw.duration, "duration"), (s.interval, &raw.interval, "interval")] {
            if value == 0 {
                let span = text.as_ref().map_or(0..0, Spanned::span);
                return Err(Problem::at(span, format!("a {what} of zero measures nothing")));
            }
        }
        let samples = s.duration / s.interval;
        if samples > MOST_SAMPLES {
            let span = raw.interval.as_ref().or(raw.duration.as_ref()).map_or(0..0, Spanned::span);
            let why = format!("{samples} intervals in one run, and {MOST_SAMPLES} are the most: make interval longer");
            return Err(Problem::at(span, why));
        }
        if let Some(text) = raw.steady_from.as_ref().filter(|_| s.steady_from >= s.duration) {
            return Err(Problem::at(text.span(), "the steady part must begin before the end; make duration longer"));
        }
        for node in &raw.node {
            let read = self.node(node)?;
            if s.nodes.iter().any(|other| other.name == read.name) {
                return Err(Problem::at(node.name.span(), format!("there are two nodes called \"{}\"", read.name)));
            }
            s.nodes.push(read);
        }
        self.hosts(&mut s, &raw.host)?;
        let mut names = HashSet::new();
        for (i, flow) in raw.flow.iter().enumerate() {
            let read = self.flow(&s, flow.get_ref(), flow.span(), i)?;
            if !names.insert(read.name.clone()) {
                let span = flow.get_ref().name.as_ref().map_or(flow.span(), Spanned::span);
                return Err(Problem::at(span, format!("there are two flows called \"{}\"", read.name)));
            }
            s.flows.push(read);
        }
        for (i, ping) in raw.ping.iter().enumerate() {
            let read = self.ping(&s, ping, i)?;
            s.pings.push(read);
        }
        if s.flows.is_empty() && s.pings.is_empty() {
            return Err(Problem::at(0..0, "nobody sends: add a [[flow]] or a [[ping]]"));
        }
        Ok((s, self.warnings))
    }

    fn pipeline(&mut self, text: &Text) -> Checked<Option<Spec>> {
        if text.get_ref().trim().is_empty() {
            return Ok(None);
        }
        let parsed = spec::parse(text.get_ref()).map_err(|e| {
            // Behind the opening quote.
            let start = text.span().start + 1 + e.at;
            Problem::at(start..start + e.len, e.why())
        })?;
        self.warnings.extend(parsed.warnings);
        Ok(Some(parsed.spec))
    }

    fn node(&mut self, raw: &RawNode) -> Checked<Node> {
        let mut pipeline = |text: &Option<Text>| match text {
            Some(t) => self.pipeline(t),
            None => Ok(None),
        };
        let delay = or(&raw.delay, time, 0)?;
        let line = maybe(&raw.line, rate)?;
        let steps = raw.step.iter().map(|s| {
            let both = maybe(&s.line, rate)?;
            let delay = maybe(&s.delay, time)?;
            Ok(Step {
                at: word(&s.at, time)?,
                down_line: maybe(&s.down_line, rate)?.or(both),
                up_line: maybe(&s.up_line, rate)?.or(both),
                down_delay: maybe(&s.down_delay, time)?.or(delay),
                up_delay: maybe(&s.up_delay, time)?.or(delay),
            })
        });
        Ok(Node {
            name: name(&raw.name)?,
            down: pipeline(&raw.down)?,
            up: pipeline(&raw.up)?,
            down_line: maybe(&raw.down_line, rate)?.or(line),
            up_line: maybe(&raw.up_line, rate)?.or(line),
            down_delay: or(&raw.down_delay, time, delay)?,
            up_delay: or(&raw.up_delay, time, delay)?,
            steps: steps.collect::<Checked<_>>()?,
        })
    }

    fn hosts(&mut self, s: &mut Scenario, raw: &[RawHost]) -> Checked<()> {
        let mut hosts: Vec<Host> = Vec::new();
        for (i, h) in raw.iter().enumerate() {
            let side = choice(&h.side, "side", &[("client", Side::Client), ("server", Side::Server)])?;
            let net = if side == Side::Client { 1 } else { 9 };
            if i >= MOST_HOSTS {
                return Err(Problem::at(h.name.span(), format!("there may be {MOST_HOSTS} hosts at most")));
            }
            let default = IpAddr::V4(Ipv4Addr::new(10, 0, net, i as u8 + 2));
            let address = or(&h.address, |t| t.parse().map_err(|_| format!("\"{t}\" is no IP address")), default)?;
            if hosts.iter().any(|other| other.name == *h.name.get_ref()) {
                return Err(Problem::at(h.name.span(), format!("there are two hosts called \"{}\"", h.name.get_ref())));
            }
            if let Some(other) = hosts.iter().find(|other| other.address == address) {
                let span = h.address.as_ref().map_or(h.name.span(), Spanned::span);
                return Err(Problem::at(span, format!("\"{}\" has {address} already", other.name)));
            }
            hosts.push(Host { name: name(&h.name)?, side, address, delay: or(&h.delay, time, 0)? });
        }
        for side in [Side::Client, Side::Server] {
            if !hosts.iter().any(|h| h.side == side) {
                let default = s.hosts.iter().find(|h| h.side == side).cloned();
                hosts.extend(default);
            }
        }
        s.hosts = hosts;
        Ok(())
    }

    fn host(&self, s: &Scenario, name: Option<&Text>, side: Side) -> Checked<usize> {
        let Some(name) = name else {
            return Ok(s.hosts.iter().position(|h| h.side == side).unwrap_or(0));
        };
        let choices: Vec<(&str, usize)> =
            s.hosts.iter().enumerate().filter(|(_, h)| h.side == side).map(|(i, h)| (h.name.as_str(), i)).collect();
        choice(name, if side == Side::Client { "client" } else { "server" }, &choices)
    }

    fn flow(&mut self, s: &Scenario, raw: &RawFlow, span: Range<usize>, i: usize) -> Checked<Flow> {
        let app = self.app(raw)?;
        let servers = match &raw.servers {
            None => vec![self.host(s, raw.server.as_ref(), Side::Server)?],
            Some(names) => names.iter().map(|n| self.host(s, Some(n), Side::Server)).collect::<Checked<_>>()?,
        };
        if servers.is_empty() {
            return Err(Problem::at(span, "a flow needs a server"));
        }
        let name = raw.name.as_ref().map_or_else(|| Ok(format!("flow{}", i + 1)), name)?;
        let flow = Flow {
            group: name.clone(),
            name,
            count: number(&raw.count, 1..=10_000, 1)? as u32,
            client: self.host(s, raw.client.as_ref(), Side::Client)?,
            servers,
            app,
            start: or(&raw.start, time, 0)?,
            every: or(&raw.every, time, 0)?,
            stop: maybe(&raw.stop, time)?,
            tcp: self.tcp(raw)?,
            dscp: number(&raw.dscp, 0..=63, 0)? as u8,
        };
        let start = raw.start.as_ref().map_or(span, Spanned::span);
        let last = flow.start.saturating_add(flow.every.saturating_mul(u64::from(flow.count - 1)));
        if last >= s.duration {
            return Err(Problem::at(start, "the last of these would start after the end; make duration longer"));
        }
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            let stop = raw.stop.as_ref().map_or(start, Spanned::span);
            return Err(Problem::at(stop, "it would stop before it starts"));
        }
        Ok(flow)
    }

    fn app(&self, raw: &RawFlow) -> Checked<App> {
        let up = match &raw.direction {
            Some(d) => choice(d, "direction", &[("down", false), ("up", true)])?,
            None => false,
        };
        let kinds = [("bulk", 0), ("request", 1), ("web", 2), ("constant", 3), ("on-off", 4), ("dtp", 5)];
        let kind = raw.app.as_ref().map_or(Ok(0), |a| choice(a, "application", &kinds))?;
        let name = kinds[kind].0;
        let largest = if kind == 5 { 1400 } else { 1472 };
        let packet = number(&raw.packet, 1..=1472, largest)? as u32;
        let wants = |present: bool, word: &str, kinds: &[usize], span: Option<Range<usize>>| match present {
            true if !kinds.contains(&kind) => {
                Err(Problem::at(span.unwrap_or(0..0), format!("\"{word}\" has no meaning for app = \"{name}\"")))
            }
            _ => Ok(()),
        };
        let span = |t: &Option<Text>| t.as_ref().map(Spanned::span);
        wants(raw.size.is_some(), "size", &[0], span(&raw.size))?;
        wants(raw.rate.is_some(), "rate", &[3, 4, 5], span(&raw.rate))?;
        if let Some(text) = raw.rate.as_ref() {
            if super::gap(word(text, rate)?, packet) == 0 {
                let why = format!("datagrams of {packet} bytes would be less than a nanosecond apart");
                return Err(Problem::at(text.span(), why));
            }
        }
        wants(raw.on.is_some(), "on", &[4], span(&raw.on))?;
        wants(raw.off.is_some(), "off", &[4], span(&raw.off))?;
        wants(raw.request.is_some(), "request", &[1], span(&raw.request))?;
        wants(raw.response.is_some(), "response", &[1], span(&raw.response))?;
        wants(raw.think.is_some(), "think", &[1, 2], span(&raw.think))?;
        wants(raw.direction.is_some(), "direction", &[0, 3, 4, 5], span(&raw.direction))?;
        wants(raw.packet.is_some(), "packet", &[3, 4, 5], raw.packet.as_ref().map(Spanned::span))?;
        let connections = raw.connections.as_ref();
        wants(connections.is_some(), "connections", &[2], connections.map(Spanned::span))?;
        wants(raw.reliable.is_some(), "reliable", &[5], raw.reliable.as_ref().map(Spanned::span))?;
        wants(raw.controller.is_some(), "controller", &[5], span(&raw.controller))?;
        wants(raw.silent_from.is_some(), "silent-from", &[5], span(&raw.silent_from))?;
        wants(raw.silent_until.is_some(), "silent-until", &[5], span(&raw.silent_until))?;
        Ok(match kind {
            5 => App::Dtp(self.dtp(raw, packet, up)?),
            0 => App::Bulk { size: maybe(&raw.size, size)?, up },
            1 => App::Request {
                request: or(&raw.request, size, 200)?,
                response: or(&raw.response, size, 10_000)?,
                think: or(&raw.think, time, SECOND / 10)?,
            },
            2 => App::Web {
                think: or(&raw.think, time, 5 * SECOND)?,
                connections: number(&raw.connections, 1..=32, 6)? as u32,
            },
            3 => App::Constant { rate: or(&raw.rate, rate, 1_000_000)?, packet, up },
            _ => App::OnOff {
                rate: or(&raw.rate, rate, 1_000_000)?,
                packet,
                up,
                on: or(&raw.on, time, SECOND)?,
                off: or(&raw.off, time, SECOND)?,
            },
        })
    }

    fn dtp(&self, raw: &RawFlow, packet: u32, up: bool) -> Checked<Dtp> {
        let names = Tuning::ALL.map(|t| (t.name, t.name));
        let controller = raw.controller.as_ref().map_or(Ok(names[0].0), |t| choice(t, "controller", &names))?;
        let from = maybe(&raw.silent_from, time)?;
        let until = maybe(&raw.silent_until, time)?;
        if let (None, Some(text)) = (from, &raw.silent_until) {
            return Err(Problem::at(text.span(), "\"silent-until\" needs \"silent-from\""));
        }
        Ok(Dtp {
            packet,
            up,
            rate: maybe(&raw.rate, rate)?,
            reliable: raw.reliable.as_ref().is_some_and(|r| *r.get_ref()),
            controller: controller.to_string(),
            silent: from.map(|from| (from, until.unwrap_or(u64::MAX))),
        })
    }

    fn tcp(&self, raw: &RawFlow) -> Checked<Tcp> {
        let d = Tcp::default();
        let senders: Vec<(&str, usize)> = self.senders.iter().enumerate().map(|(i, s)| (*s, i)).collect();
        let sender = match &raw.sender {
            Some(text) => self.senders[choice(text, "sender", &senders)?].to_string(),
            None => d.sender.clone(),
        };
        let starts =
            [("plain", SlowStart::Plain), ("hystart", SlowStart::HyStart), ("hystart++", SlowStart::HyStartPlusPlus)];
        let timers = [("rfc6298", Timer::Rfc6298), ("jacobson", Timer::Jacobson), ("rfc793", Timer::Rfc793)];
        let marks = matches!(sender.as_str(), "dctcp" | "bbr2" | "prague");
        Ok(Tcp {
            ecn: raw.ecn.unwrap_or(marks),
            slow_start: raw.slow_start.as_ref().map_or(Ok(d.slow_start), |t| choice(t, "slow start", &starts))?,
            timer: raw.timer.as_ref().map_or(Ok(d.timer), |t| choice(t, "timer", &timers))?,
            window: or(&raw.window, size, d.window)?.max(4096),
            delayed_acks: raw.delayed_acks.unwrap_or(true),
            retries: raw.retries.as_ref().map(|_| number(&raw.retries, 1..=100, 15)).transpose()?.map(|n| n as u32),
            patience: maybe(&raw.patience, time)?,
            sender,
        })
    }

    fn ping(&self, s: &Scenario, raw: &RawPing, i: usize) -> Checked<Ping> {
        let interval = or(&raw.interval, time, SECOND / 10)?;
        if interval == 0 {
            let span = raw.interval.as_ref().map_or(0..0, Spanned::span);
            return Err(Problem::at(span, "an interval of zero would never end"));
        }
        let default = if i == 0 { "ping".to_string() } else { format!("ping{}", i + 1) };
        Ok(Ping {
            name: raw.name.as_ref().map_or(Ok(default), name)?,
            client: self.host(s, raw.client.as_ref(), Side::Client)?,
            server: self.host(s, raw.server.as_ref(), Side::Server)?,
            interval,
            size: number(&raw.size, 0..=1464, 56)? as u32,
            start: or(&raw.start, time, 0)?,
            dscp: number(&raw.dscp, 0..=63, 0)? as u8,
        })
    }
}

#[cfg(test)]
mod tests;
