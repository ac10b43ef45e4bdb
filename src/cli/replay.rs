//! `weir replay`: recorded frames through a pipeline in virtual time, or the log of `autorate` decided again.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, PcapError, TsResolution};
use weir::autorate::{Decision, log};
use weir::pipeline::Link;
use weir::spec::units;
use weir::stats::{rows, tc_text};
use weir::time::{MICROSECOND, SECOND};
use weir::trace::capture::{Capture, Fate};
use weir::trace::device::CLOCK_BASE;
use weir::trace::replay::Replay;

use super::{CompatArg, Failure, not_its_own, read_spec};

/// Arguments of `weir replay`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The pipeline, as tc would say it: "cake bandwidth 10mbit"
    #[arg(long, value_name = "SPEC", required_unless_present = "autorate")]
    qdisc: Option<String>,
    /// Recorded frames: pcap or pcapng, Ethernet
    #[arg(value_name = "IN.pcap[ng]", required_unless_present = "autorate")]
    input: Option<PathBuf>,
    /// What leaves, in order of time, each frame with a comment: verdict, sojourn, tin
    #[arg(value_name = "OUT.pcapng", required_unless_present = "autorate")]
    output: Option<PathBuf>,
    /// Instead of frames: a log of `weir bridge --autorate-log`. Decides it all again and prints the decisions;
    /// ends with code 1 if one is not as it was
    #[arg(long, value_name = "LOG", conflicts_with_all = ["qdisc", "input", "output"])]
    autorate: Option<PathBuf>,
    /// Rate of the line below, or none if it is never busy
    #[arg(long, default_value = "none", value_name = "RATE|none")]
    link: String,
    /// Write dropped frames too, with their reason, at the moment they were dropped
    #[arg(long)]
    with_drops: bool,
    /// Print the stages' statistics at the end
    #[arg(long)]
    stats: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which kernel's decisions
    #[arg(long, default_value = "latest")]
    compat: CompatArg,
}

/// A recorded frame: ns since its epoch, length on the wire, bytes kept.
type Recorded = (u64, u32, Vec<u8>);

/// Runs `weir replay`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let named = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    if let Some(path) = &args.autorate {
        return decide_again(path).map_err(|e| Failure::Run(named(path, &e)));
    }
    let (Some(qdisc), Some(input), Some(output)) = (&args.qdisc, &args.input, &args.output) else {
        return Err(Failure::Words("--qdisc SPEC, IN and OUT are needed, or --autorate LOG".into()));
    };
    let spec = read_spec(qdisc)?;
    let link_bps = match args.link.as_str() {
        "none" => None,
        word => Some(units::rate(word).map_err(|e| Failure::Words(format!("--link {word}: {e}")))?.bits_per_second()),
    };
    not_its_own(input, output)?;
    let frames = read(input).map_err(|e| named(input, &e))?;
    let first = frames.first().ok_or_else(|| named(input, &"no frames in it"))?.0;
    let link = Link { compat: args.compat.into(), ..Link::default() };
    let mut replay = Replay::new(spec.build(link), link_bps, args.seed, CLOCK_BASE);
    let file = File::create(output).map_err(|e| named(output, &e))?;
    let mut out = Capture::begin(BufWriter::new(file)).map_err(|e| named(output, &e))?;
    let (mut sent, mut marked, mut dropped) = (0u64, 0u64, 0u64);
    let mut failed = None;
    let mut take = |fate: &Fate| {
        dropped += u64::from(fate.dropped.is_some());
        sent += u64::from(fate.dropped.is_none());
        marked += u64::from(fate.dropped.is_none() && !fate.packet.marks.is_empty());
        if fate.dropped.is_none() || args.with_drops {
            let at = first + fate.at.since(CLOCK_BASE);
            if let Err(e) = out.frame(at, fate) {
                failed.get_or_insert(e);
            }
        }
    };
    let mut last = first;
    for (at, len, bytes) in frames {
        // Clocks of captures may step back; time here does not.
        last = last.max(at);
        replay.arrive(CLOCK_BASE + (last - first), len, bytes, &mut take);
    }
    replay.drain(&mut take);
    if let Some(e) = failed {
        return Err(Failure::Run(named(output, &e)));
    }
    out.end().map_err(|e| named(output, &e))?;
    if args.stats {
        let all = replay.pipeline().stats(replay.now());
        rows::rows("replay", &all).iter().for_each(|row| print!("{}", tc_text::stage(row)));
    }
    let held = replay.pipeline().packets();
    let rest = if held > 0 { format!(", {held} never due") } else { String::new() };
    eprintln!(
        "{spec}: {} frames, {sent} sent ({marked} marked), {dropped} dropped{rest}",
        sent + dropped + u64::from(held)
    );
    Ok(())
}

/// Decides what a log of `autorate` holds once more.
fn decide_again(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let done = log::replay(text.lines())?;
    for decision in &done.decisions {
        println!("{}", log::sentence(decision));
    }
    let said = |d: &Option<Decision>| d.as_ref().map_or("nothing".into(), log::sentence);
    for (line, logged, now) in &done.differences {
        println!("line {line}: in the log {}; now {}", said(logged), said(now));
    }
    eprintln!("{} intervals, {} decisions, {} different", done.intervals, done.decisions.len(), done.differences.len());
    match done.differences.len() {
        0 => Ok(()),
        n => Err(format!("{n} decisions are not as they were")),
    }
}

fn read(path: &Path) -> Result<Vec<Recorded>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    BufReader::new(file).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    match bytes.first_chunk::<4>() {
        Some([0x0A, 0x0D, 0x0D, 0x0A]) => read_pcapng(&bytes),
        _ => read_pcap(&bytes),
    }
}

fn ethernet(link: DataLink) -> Result<(), String> {
    if link == DataLink::ETHERNET { Ok(()) } else { Err(format!("frames of {link:?}; only Ethernet can be replayed")) }
}

/// What is wrong with a capture at `rest` of it, whose frame `frame` would come next.
fn broken(bytes: &[u8], rest: &[u8], frame: usize, e: &PcapError) -> String {
    let place = format!("frame {frame}, at byte {} of {}", bytes.len() - rest.len(), bytes.len());
    match e {
        PcapError::IncompleteBuffer => format!("{place}: the file ends within it"),
        e => format!("{place}: {e}"),
    }
}

fn read_pcap(bytes: &[u8]) -> Result<Vec<Recorded>, String> {
    let (mut rest, parser) = PcapParser::new(bytes).map_err(|e| match e {
        PcapError::IncompleteBuffer => "neither pcap nor pcapng: too short for a header".to_string(),
        e => format!("neither pcap nor pcapng: {e}"),
    })?;
    ethernet(parser.header().datalink)?;
    let unit = match parser.header().ts_resolution {
        TsResolution::MicroSecond => MICROSECOND,
        TsResolution::NanoSecond => 1,
    };
    let mut out = Vec::new();
    while !rest.is_empty() {
        // The raw record: a frame longer than the snap length is what `tcpdump -s` records, and no fault.
        let (behind, packet) = parser.next_raw_packet(rest).map_err(|e| broken(bytes, rest, out.len() + 1, &e))?;
        let at = u64::from(packet.ts_sec) * SECOND + u64::from(packet.ts_frac) * unit;
        out.push((at, packet.orig_len, packet.data.into_owned()));
        rest = behind;
    }
    Ok(out)
}

/// ns per unit of an interface's time stamps, as numerator and denominator.
fn resolution(interface: &InterfaceDescriptionBlock<'_>) -> (u128, u128) {
    let found = interface.options.iter().find_map(|o| match o {
        InterfaceDescriptionOption::IfTsResol(r) => Some(*r),
        _ => None,
    });
    match found.unwrap_or(6) {
        r if r & 0x80 != 0 => (1_000_000_000, 1 << (r & 0x3F)),
        r => (1_000_000_000, 10u128.pow(u32::from(r.min(30)))),
    }
}

fn read_pcapng(bytes: &[u8]) -> Result<Vec<Recorded>, String> {
    let (mut rest, mut parser) = PcapNgParser::new(bytes).map_err(|e| broken(bytes, bytes, 1, &e))?;
    let mut units = Vec::new();
    let mut out: Vec<Recorded> = Vec::new();
    while !rest.is_empty() {
        let (behind, block) = parser.next_block(rest).map_err(|e| broken(bytes, rest, out.len() + 1, &e))?;
        rest = behind;
        match block {
            Block::SectionHeader(_) => units.clear(),
            Block::InterfaceDescription(interface) => {
                ethernet(interface.linktype)?;
                units.push(resolution(&interface));
            }
            Block::EnhancedPacket(packet) => {
                let unit = units.get(packet.interface_id as usize);
                let (mul, div) = unit.ok_or_else(|| format!("frame {} names no interface", out.len() + 1))?;
                // The parser gives the raw units as ns.
                let at = packet.timestamp.as_nanos() * mul / div;
                let at = u64::try_from(at)
                    .map_err(|_| format!("frame {} is more than 584 years from 1970", out.len() + 1))?;
                out.push((at, packet.original_len, packet.data.into_owned()));
            }
            _ => {}
        }
    }
    Ok(out)
}
