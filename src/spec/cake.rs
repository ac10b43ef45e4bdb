//! Words of `cake` (`spec/cake.md` §3, §4), and weir's own additions to them.

use super::lex::Cursor;
use super::{Grammar, Spec, SpecError, Stage, Word, autorate, sce, units};
use crate::qdisc::cake::{AckFilter, CeThreshold, FlowMode, Framing, MinOccupancy, Params, QUEUES_ALLOWED, TinMode};
use crate::units::Rate;

/// Overheads that cake accepts, bytes.
const OVERHEADS: std::ops::RangeInclusive<i32> = -64..=256;

/// Presets with their interval in µs; the target is a twentieth of it.
const PRESETS: [(&str, u32); 8] = [
    ("datacentre", 100),
    ("lan", 1_000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("internet", 100_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
    ("interplanetary", 1_000_000_000),
];

/// Link keywords that add to the overhead: framing they set, bytes they add, mpu they set.
const LINKS: [(&str, Option<Framing>, i32, Option<u16>); 13] = [
    ("ipoa-vcmux", Some(Framing::Atm), 8, None),
    ("ipoa-llcsnap", Some(Framing::Atm), 16, None),
    ("bridged-vcmux", Some(Framing::Atm), 24, None),
    ("bridged-llcsnap", Some(Framing::Atm), 32, None),
    ("pppoa-vcmux", Some(Framing::Atm), 10, None),
    ("pppoa-llc", Some(Framing::Atm), 14, None),
    ("pppoe-vcmux", Some(Framing::Atm), 32, None),
    ("pppoe-llcsnap", Some(Framing::Atm), 40, None),
    ("pppoe-ptm", Some(Framing::Ptm), 30, None),
    ("bridged-ptm", Some(Framing::Ptm), 22, None),
    ("docsis", Some(Framing::None), 18, Some(64)),
    ("ethernet", None, 38, Some(84)),
    ("ether-vlan", None, 4, None),
];

const fn word(name: &'static str, args: &'static str, sample: &'static str, help: &'static str) -> Word {
    Word { name, args, sample, help }
}

/// What a line has said so far, where the parameters alone do not show it.
#[derive(Default)]
struct Line {
    /// For each group of words that exclude each other, the one given last.
    given: Vec<(&'static str, String)>,
    preset: Option<String>,
    /// Gathered before it is known to fit.
    overhead: i32,
    overhead_given: bool,
    raw: bool,
    /// Where `autorate` stands.
    autorate: Option<usize>,
}

impl Line {
    /// Notes a word of a group; a different one before it is overridden, which is said aloud.
    fn choose(&mut self, group: &'static str, word: &str, warnings: &mut Vec<String>) {
        match self.given.iter_mut().find(|(g, _)| *g == group) {
            Some((_, before)) => {
                if before != word || group == "rate" {
                    warnings.push(format!("cake: \"{word}\" overrides \"{before}\" given before it"));
                }
                *before = word.to_string();
            }
            None => self.given.push((group, word.to_string())),
        }
    }

    /// Adds to the overhead.
    fn add(&mut self, bytes: i32, args: &Cursor<'_>) -> Result<(), SpecError> {
        self.set(self.overhead + bytes, args)
    }

    fn set(&mut self, bytes: i32, args: &Cursor<'_>) -> Result<(), SpecError> {
        if !OVERHEADS.contains(&bytes) {
            return Err(args.refuse(format!("the overheads on this line sum to {bytes}, outside −64…256")));
        }
        self.overhead = bytes;
        self.overhead_given = true;
        Ok(())
    }
}

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        word("bandwidth", "RATE", "bandwidth 50mbit", "rate of the shaper; default unlimited"),
        word("unlimited", "", "unlimited", "no shaper (default)"),
        word("autorate-ingress", "", "autorate-ingress", "follow the rate at which packets arrive"),
        word("autorate", autorate::ARGS, "bandwidth 20mbit autorate 2mbit 50mbit", autorate::HELP),
        word("rtt", "TIME", "rtt 50ms", "interval, and a twentieth of it as target; default 100ms"),
        word("datacentre", "", "datacentre", "rtt 100us"),
        word("lan", "", "lan", "rtt 1ms"),
        word("metro", "", "metro", "rtt 10ms"),
        word("regional", "", "regional", "rtt 30ms"),
        word("internet", "", "internet", "rtt 100ms (default)"),
        word("oceanic", "", "oceanic", "rtt 300ms"),
        word("satellite", "", "satellite", "rtt 1s"),
        word("interplanetary", "", "interplanetary", "rtt 1000s"),
        word("besteffort", "", "besteffort", "one tin"),
        word("precedence", "", "precedence", "eight tins by IP precedence"),
        word("diffserv8", "", "diffserv8", "eight tins"),
        word("diffserv4", "", "diffserv4", "four tins: Bulk, Best Effort, Video, Voice"),
        word("diffserv", "", "diffserv", "the same as diffserv4"),
        word("diffserv3", "", "diffserv3", "three tins: Bulk, Best Effort, Voice (default)"),
        word("flowblind", "", "flowblind", "one queue per tin"),
        word("srchost", "", "srchost", "a queue per source host"),
        word("dsthost", "", "dsthost", "a queue per destination host"),
        word("hosts", "", "hosts", "a queue per pair of hosts"),
        word("flows", "", "flows", "a queue per flow"),
        word("dual-srchost", "", "dual-srchost", "a queue per flow, source hosts share evenly"),
        word("dual-dsthost", "", "dual-dsthost", "a queue per flow, destination hosts share evenly"),
        word("triple-isolate", "", "triple-isolate", "a queue per flow, the busier host decides (default)"),
        word("nat", "", "nat", "accepted; a bridge sees no translated addresses"),
        word("nonat", "", "nonat", "addresses as they stand in the packet (default)"),
        word("wash", "", "wash", "clear the DSCP once it has chosen the tin"),
        word("nowash", "", "nowash", "leave the DSCP (default)"),
        word("split-gso", "", "split-gso", "accepted; XDP sees single frames (default)"),
        word("no-split-gso", "", "no-split-gso", "accepted; XDP sees single frames"),
        word("ack-filter", "", "ack-filter", "drop ACKs that a newer one makes redundant, keep one older"),
        word("ack-filter-aggressive", "", "ack-filter-aggressive", "the same, and keep only the newest"),
        word("no-ack-filter", "", "no-ack-filter", "leave ACKs alone (default)"),
        word("memlimit", "SIZE", "memlimit 4mb", "memory for packets at most; default by rate and rtt"),
        word("fwmark", "MASK", "fwmark 0xff00", "bits of the mark that choose the tin; a bridge sees no marks"),
        word("ingress", "", "ingress", "stand behind the bottleneck: count what is dropped, too"),
        word("egress", "", "egress", "stand before the bottleneck (default)"),
        word("atm", "", "atm", "53 bytes for each 48 begun"),
        word("ptm", "", "ptm", "one byte more for each 64 begun"),
        word("noatm", "", "noatm", "no framing (default)"),
        word("overhead", "N", "overhead 44", "bytes added to each network packet, −64…256; replaces what was gathered"),
        word("mpu", "N", "mpu 64", "smallest length charged, 0…256"),
        word("raw", "", "raw", "count whole frames, add nothing (default)"),
        word("conservative", "", "conservative", "atm overhead 48"),
        word("via-ethernet", "", "via-ethernet", "accepted, ignored (default)"),
        word("ipoa-vcmux", "", "ipoa-vcmux", "atm, 8 bytes more"),
        word("ipoa-llcsnap", "", "ipoa-llcsnap", "atm, 16 bytes more"),
        word("bridged-vcmux", "", "bridged-vcmux", "atm, 24 bytes more"),
        word("bridged-llcsnap", "", "bridged-llcsnap", "atm, 32 bytes more"),
        word("pppoa-vcmux", "", "pppoa-vcmux", "atm, 10 bytes more"),
        word("pppoa-llc", "", "pppoa-llc", "atm, 14 bytes more"),
        word("pppoe-vcmux", "", "pppoe-vcmux", "atm, 32 bytes more"),
        word("pppoe-llcsnap", "", "pppoe-llcsnap", "atm, 40 bytes more"),
        word("pppoe-ptm", "", "pppoe-ptm", "ptm, 30 bytes more"),
        word("bridged-ptm", "", "bridged-ptm", "ptm, 22 bytes more"),
        word("docsis", "", "docsis", "noatm, 18 bytes more, mpu 64"),
        word("ethernet", "", "ethernet", "38 bytes more, mpu 84"),
        word("ether-vlan", "", "ether-vlan", "4 bytes more, once for each tag"),
        word(
            "ce_threshold",
            "TIME",
            "ce_threshold 1ms",
            "weir: mark every packet that can be marked above this sojourn",
        ),
        word(
            "ce_threshold_selector",
            "V/M",
            "ce_threshold 1ms ce_threshold_selector 0x1/0x3",
            "weir: only those whose DS byte under the mask M is V",
        ),
        sce::WORD,
        word(
            "min-occupancy",
            "kernel|none|1mtu|2mtu|4mtu|2mtu-flows|4mtu-flows|or [both]",
            "min-occupancy 2mtu both",
            "weir: how much must stand before the AQM acts, in ingress mode or both",
        ),
        word("queues", "N", "queues 4096", "weir: queues per tin, a power of two in 256…65536; default 1024"),
        word(
            "heap",
            "kernel|exact",
            "heap exact",
            "weir: who loses when memory is short: by the kernel's heap, or the fattest",
        ),
    ];

    fn read(mut self, stage: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Self, SpecError> {
        let mut line = Line::default();
        while let Some(token) = args.next_word() {
            let Some(word) = Self::WORDS.iter().find(|w| w.name == token.text) else {
                return Err(args.unknown(stage, &Self::allowed()));
            };
            self.line_word(word.name, &mut line, args, warnings)?;
        }
        if let (Some(at), Some(range)) = (line.autorate, self.range) {
            if self.autorate {
                return Err(autorate::refuse(
                    at,
                    "\"autorate\" and \"autorate-ingress\" would both set the rate: the one from round trips, the other from what arrives; keep one",
                ));
            }
            autorate::check(at, "bandwidth", self.rate, range)?;
        }
        self.overhead = line.overhead as i16;
        self.compensated = line.overhead_given && !line.raw;
        if line.raw && line.overhead != 0 {
            warnings.push(format!(
                "cake: with \"raw\" on the line, overhead {} counts from the whole frame, not from the network header",
                line.overhead
            ));
        }
        if self.nat {
            warnings.push(
                "cake: \"nat\" has no effect: a bridge sees packets before or behind the translation, not both; shape on the inner side of the router, where addresses are those of the hosts".into(),
            );
        }
        if self.fwmark != 0 {
            warnings.push(
                "cake: \"fwmark\" has no effect on a bridge, which sees no marks; in weir trace, the column \"mark\" gives them".into(),
            );
        }
        Ok(self)
    }

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
        self.line_word(name, &mut Line::default(), args, warnings)
    }

    fn words(&self) -> String {
        let d = Params::default();
        let mut out: Vec<String> = Vec::new();
        let mut put = |differs: bool, text: String| {
            if differs {
                out.push(text);
            }
        };
        put(self.rate != d.rate, format!("bandwidth {}", units::show_rate(self.rate)));
        put(self.autorate, "autorate-ingress".into());
        self.range.into_iter().for_each(|r| put(true, autorate::show(r)));
        put(self.tins != d.tins, self.tins.word().into());
        put(self.flows != d.flows, self.flows.word().into());
        put(self.nat, "nat".into());
        put(self.wash, "wash".into());
        put(self.ingress, "ingress".into());
        put(self.ack_filter != d.ack_filter, ack_filter_word(self.ack_filter).into());
        put(!self.split_gso, "no-split-gso".into());
        if self.target_us == target_us(self.interval_us) {
            put(self.interval_us != d.interval_us, format!("rtt {}", units::show_us(self.interval_us)));
        } else {
            put(true, "rtt 0".into());
        }
        if self.compensated {
            put(true, format!("overhead {}", self.overhead));
        } else {
            put(self.overhead != 0, format!("raw overhead {}", self.overhead));
        }
        put(self.framing == Framing::Atm, "atm".into());
        put(self.framing == Framing::Ptm, "ptm".into());
        put(self.mpu != 0, format!("mpu {}", self.mpu));
        put(self.memlimit != 0, format!("memlimit {}", units::show_size(self.memlimit.min(u32::MAX.into()) as u32)));
        put(self.fwmark != 0, format!("fwmark 0x{:x}", self.fwmark));
        if let Some(ce) = self.ce_threshold {
            put(true, format!("ce_threshold {}", units::show_us(ce.us)));
            put(ce.mask != 0, format!("ce_threshold_selector 0x{:x}/0x{:x}", ce.selector, ce.mask));
        }
        self.sce_threshold.into_iter().for_each(|t| put(true, sce::show(t)));
        if self.min_occupancy != d.min_occupancy || self.min_occupancy_both {
            let both = if self.min_occupancy_both { " both" } else { "" };
            put(true, format!("min-occupancy {}{both}", self.min_occupancy.word()));
        }
        put(self.queues != d.queues, format!("queues {}", self.queues));
        put(self.exact_heap, "heap exact".into());
        out.join(" ")
    }
}

impl Params {
    fn line_word(
        &mut self,
        name: &str,
        line: &mut Line,
        args: &mut Cursor<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), SpecError> {
        if let Some((_, us)) = PRESETS.iter().find(|(n, _)| *n == name) {
            if let Some(first) = line.preset.replace(name.to_string()) {
                return Err(args.refuse(format!("duplicate preset: \"{first}\" was given before \"{name}\"")));
            }
            line.choose("rtt", name, warnings);
            (self.interval_us, self.target_us) = (*us, target_us(*us));
            return Ok(());
        }
        if let Some((_, framing, bytes, mpu)) = LINKS.iter().find(|(n, ..)| *n == name) {
            line.add(*bytes, args)?;
            self.framing = framing.unwrap_or(self.framing);
            self.mpu = mpu.unwrap_or(self.mpu);
            return Ok(());
        }
        if let Some(mode) = TinMode::ALL.into_iter().find(|m| m.word() == name) {
            line.choose("tins", name, warnings);
            self.tins = mode;
            return Ok(());
        }
        if let Some(mode) = FlowMode::ALL.into_iter().find(|m| m.word() == name) {
            line.choose("flows", name, warnings);
            self.flows = mode;
            return Ok(());
        }
        match name {
            "bandwidth" | "unlimited" => {
                if self.autorate {
                    warnings.push(format!("cake: \"{name}\" switches off \"autorate-ingress\" given before it"));
                }
                line.choose("rate", name, warnings);
                self.autorate = false;
                self.rate = if name == "unlimited" { Rate::default() } else { args.arg(bandwidth)? };
            }
            "autorate-ingress" => self.autorate = true,
            "autorate" => (line.autorate, self.range) = (Some(args.at()), Some(autorate::read(args)?)),
            "rtt" => {
                line.choose("rtt", name, warnings);
                match args.arg(units::time_us)? {
                    0 => {
                        warnings.push(
                            "cake: \"rtt 0\" sets only the target, to 1us, and leaves the interval at 100ms".into(),
                        );
                        (self.interval_us, self.target_us) = (Params::default().interval_us, 1);
                    }
                    us => (self.interval_us, self.target_us) = (us, target_us(us)),
                }
            }
            "diffserv" => {
                line.choose("tins", name, warnings);
                self.tins = TinMode::Diffserv4;
            }
            "nat" | "nonat" => {
                line.choose("nat", name, warnings);
                self.nat = name == "nat";
            }
            "wash" | "nowash" => {
                line.choose("wash", name, warnings);
                self.wash = name == "wash";
            }
            "split-gso" | "no-split-gso" => {
                line.choose("gso", name, warnings);
                self.split_gso = name == "split-gso";
            }
            "ack-filter" | "ack-filter-aggressive" | "no-ack-filter" => {
                line.choose("ack", name, warnings);
                let all = [AckFilter::Off, AckFilter::Filter, AckFilter::Aggressive];
                self.ack_filter = all.into_iter().find(|f| ack_filter_word(*f) == name).unwrap_or_default();
            }
            "memlimit" => self.memlimit = args.arg(units::size)?.into(),
            "fwmark" => self.fwmark = args.arg(units::count)?,
            "ingress" | "egress" => {
                line.choose("direction", name, warnings);
                self.ingress = name == "ingress";
            }
            "atm" | "ptm" | "noatm" => {
                line.choose("framing", name, warnings);
                self.framing = match name {
                    "atm" => Framing::Atm,
                    "ptm" => Framing::Ptm,
                    _ => Framing::None,
                };
            }
            "overhead" => {
                let bytes = args.arg(decimal(OVERHEADS))?;
                if line.overhead_given && line.overhead != 0 {
                    let before = line.overhead;
                    warnings.push(format!("cake: \"overhead {bytes}\" replaces the {before} bytes gathered before it"));
                }
                line.set(bytes, args)?;
            }
            "mpu" => self.mpu = args.arg(decimal(0..=256))? as u16,
            "raw" => {
                if line.overhead != 0 || self.framing != Framing::None {
                    warnings.push("cake: \"raw\" clears the overhead and framing given before it".into());
                }
                line.raw = true;
                line.overhead = 0;
                self.framing = Framing::None;
            }
            "conservative" => {
                if line.overhead != 0 {
                    let before = line.overhead;
                    warnings.push(format!("cake: \"conservative\" replaces the {before} bytes gathered before it"));
                }
                line.set(48, args)?;
                self.framing = Framing::Atm;
            }
            "via-ethernet" => {}
            "ce_threshold" => {
                let us = args.arg(units::time_us)?;
                let CeThreshold { selector, mask, .. } =
                    self.ce_threshold.unwrap_or(CeThreshold { us, selector: 0, mask: 0 });
                self.ce_threshold = Some(CeThreshold { us, selector, mask });
            }
            "ce_threshold_selector" => {
                let Some(ce) = &mut self.ce_threshold else {
                    return Err(args
                        .refuse("\"ce_threshold_selector\" selects nothing without \"ce_threshold TIME\" before it"));
                };
                (ce.selector, ce.mask) = args.arg(selector)?;
            }
            "sce_threshold" => self.sce_threshold = Some(sce::read(args)?),
            "min-occupancy" => {
                self.min_occupancy = args.arg(rule)?;
                self.min_occupancy_both =
                    args.optional(|w| if w == "both" { Ok(()) } else { Err(String::new()) }).is_some();
            }
            "queues" => self.queues = args.arg(queues)?,
            "heap" => {
                self.exact_heap = args.arg(|w| match w {
                    "kernel" => Ok(false),
                    "exact" => Ok(true),
                    _ => Err("allowed: kernel, exact".into()),
                })?;
            }
            _ => return Err(args.unknown("cake", &Self::allowed())),
        }
        Ok(())
    }
}

impl Spec {
    /// The same with every `cake` in ingress mode: it stands behind the bottleneck, so what it drops has passed there.
    #[must_use]
    pub fn behind_the_bottleneck(mut self) -> Spec {
        for stage in &mut self.stages {
            match stage {
                Stage::Cake(params) => params.ingress = true,
                Stage::Marked { inner, .. } => {
                    if let Stage::Cake(params) = &mut **inner {
                        params.ingress = true;
                    }
                }
                _ => {}
            }
        }
        self
    }
}

fn target_us(interval_us: u32) -> u32 {
    (interval_us / 20).max(1)
}

/// The word for a filter.
pub(crate) fn ack_filter_word(filter: AckFilter) -> &'static str {
    match filter {
        AckFilter::Off => "no-ack-filter",
        AckFilter::Filter => "ack-filter",
        AckFilter::Aggressive => "ack-filter-aggressive",
    }
}

fn bandwidth(text: &str) -> Result<Rate, String> {
    match text {
        "unlimited" => Err("\"unlimited\" stands alone, without \"bandwidth\"".into()),
        _ => units::rate(text),
    }
}

/// A whole number in decimal, as tc reads it here.
fn decimal(range: std::ops::RangeInclusive<i32>) -> impl Fn(&str) -> Result<i32, String> {
    move |text| {
        let (low, high) = (range.start(), range.end());
        let value: i32 = text.parse().map_err(|_| format!("\"{text}\" is not a whole number in {low}…{high}"))?;
        if range.contains(&value) { Ok(value) } else { Err(format!("valid range is {low} to {high}")) }
    }
}

fn queues(text: &str) -> Result<u32, String> {
    let n = units::count(text)?;
    if n.is_power_of_two() && QUEUES_ALLOWED.contains(&n) {
        return Ok(n);
    }
    let (low, high) = (QUEUES_ALLOWED.start(), QUEUES_ALLOWED.end());
    Err(format!("{n} is not a power of two in {low}…{high} (256, 512, 1024, … 65536)"))
}

fn rule(text: &str) -> Result<MinOccupancy, String> {
    let allowed = || MinOccupancy::ALL.map(MinOccupancy::word).join(", ");
    MinOccupancy::ALL.into_iter().find(|r| r.word() == text).ok_or_else(|| format!("allowed: {}", allowed()))
}

fn selector(text: &str) -> Result<(u8, u8), String> {
    let (value, mask) = text.split_once('/').ok_or("value and mask are needed, as in 0x1/0x3")?;
    let byte = units::integer(0..=255);
    let (value, mask) = (byte(value)? as u8, byte(mask)? as u8);
    if value & !mask != 0 {
        return Err(format!("the value {value:#x} has bits outside the mask {mask:#x}, so nothing would be selected"));
    }
    Ok((value, mask))
}
