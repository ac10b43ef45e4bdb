//! `weir trace`: virtual time over a table of arrivals.

use std::path::{Path, PathBuf};

use weir::pipeline::Link;
use weir::qdisc::Compat;
use weir::rng::Random;
use weir::spec::units;
use weir::time::Instant;
use weir::trace::golden::Finding;
use weir::trace::{device, format, golden};

use super::{CompatArg, Failure, not_its_own, read_spec};

/// Arguments of `weir trace`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The pipeline, as tc would say it: "codel | tbf rate 10mbit burst 5k"
    #[arg(long, value_name = "SPEC", required_unless_present = "golden", conflicts_with = "golden")]
    qdisc: Option<String>,
    /// Table of arrivals, CSV, gzipped or not
    #[arg(value_name = "IN.csv[.gz]", required_unless_present = "golden", conflicts_with = "golden")]
    input: Option<PathBuf>,
    /// Where the verdicts go; gzipped if the name ends in .gz
    #[arg(short, long, value_name = "OUT.csv[.gz]", required_unless_present = "golden", conflicts_with = "golden")]
    output: Option<PathBuf>,
    /// Rate of the link below, or none if it is never busy
    #[arg(long, default_value = "none", value_name = "RATE|none", value_parser = link)]
    link: LinkRate,
    /// MTU of the device, bytes, without the 14 of the Ethernet header
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(64..=65_535))]
    mtu: u32,
    /// What the clock shows at t_ns = 0, ns
    #[arg(long, default_value_t = device::CLOCK_BASE.as_nanos(), value_name = "NS")]
    clock_base: u64,
    /// Random numbers: const:U16,U32 or splitmix:SEED
    #[arg(long, default_value = "const:32768,4294967295", value_parser = random)]
    random: Random,
    /// Which kernel's decisions; 6.12 with --golden unless said otherwise, else latest
    #[arg(long)]
    compat: Option<CompatArg>,
    /// Run recorded scenarios instead: folders with config.json, or folders of such folders
    #[arg(long, value_name = "DIR", num_args = 1..)]
    golden: Vec<PathBuf>,
}

#[derive(Clone, Copy)]
struct LinkRate(Option<u64>);

fn link(word: &str) -> Result<LinkRate, String> {
    match word {
        "none" => Ok(LinkRate(None)),
        _ => units::rate(word).map(|r| LinkRate(Some(r.bits_per_second()))),
    }
}

fn random(word: &str) -> Result<Random, String> {
    let bad = || format!("\"{word}\" is neither const:U16,U32 nor splitmix:SEED");
    if let Some(seed) = word.strip_prefix("splitmix:") {
        return seed.parse().map(Random::seeded).map_err(|_| bad());
    }
    let (u16, u32) = word.strip_prefix("const:").and_then(|w| w.split_once(',')).ok_or_else(bad)?;
    Ok(Random::constant(u16.parse().map_err(|_| bad())?, u32.parse().map_err(|_| bad())?))
}

/// Runs `weir trace`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if !args.golden.is_empty() {
        return golden(&args.golden, args.compat.map_or(Compat::V6_12, Compat::from));
    }
    let (Some(qdisc), Some(input), Some(output)) = (&args.qdisc, &args.input, &args.output) else {
        return Err(Failure::Words("trace needs --qdisc SPEC IN.csv -o OUT.csv, or --golden DIR".into()));
    };
    let spec = read_spec(qdisc)?;
    let named = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    not_its_own(input, output)?;
    let table = format::open(input).map_err(|e| named(input, &e))?;
    let arrivals = format::read_arrivals(table).map_err(|e| named(input, &e))?;
    let link = Link { mtu: args.mtu + 14, compat: args.compat.map_or(Compat::Latest, Compat::from) };
    let clock_base = Instant::from_nanos(args.clock_base);
    let setup = device::Setup { link_bps: args.link.0, clock_base, random: args.random };
    let run = device::run(&mut spec.build(link), setup, &arrivals, |_, _| {});
    let out = format::create(output).map_err(|e| named(output, &e))?;
    format::write_outcomes(out, &run.outcomes, clock_base).map_err(|e| named(output, &e))?;
    let dropped = run.outcomes.iter().filter(|o| o.dropped.is_some()).count();
    let marked = run.outcomes.iter().filter(|o| o.verdict() == "marked").count();
    eprintln!(
        "{spec}: {} packets, {} sent ({marked} marked), {dropped} dropped",
        run.outcomes.len(),
        run.outcomes.len() - dropped
    );
    Ok(())
}

fn golden(folders: &[PathBuf], compat: Compat) -> Result<(), Failure> {
    let mut scenarios = Vec::new();
    for folder in folders {
        let before = scenarios.len();
        collect(folder, &mut scenarios).map_err(|e| format!("{}: {e}", folder.display()))?;
        if scenarios.len() == before {
            return Err(Failure::Run(format!("{}: no folder with a config.json in it", folder.display())));
        }
    }
    let (mut packets, mut differing) = (0, 0);
    for folder in &scenarios {
        let name = name(folder);
        match golden::check(folder, compat) {
            Ok(Finding::Agrees { packets: n, figures }) => {
                packets += n;
                println!("{name}: {n} packets, {figures} figures: ok");
            }
            Ok(Finding::Differs(what)) | Err(what) => {
                differing += 1;
                println!("{name}: {what}");
            }
        }
    }
    println!(
        "{} scenarios, {} ok, {differing} differ, {packets} packets compared",
        scenarios.len(),
        scenarios.len() - differing
    );
    if differing > 0 {
        return Err(Failure::Run(format!("{differing} of {} scenarios differ", scenarios.len())));
    }
    Ok(())
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if golden::is_scenario(folder) {
        out.push(folder.to_path_buf());
        return Ok(());
    }
    let mut inside: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    inside.sort();
    for path in inside.iter().filter(|p| p.is_dir()) {
        collect(path, out)?;
    }
    Ok(())
}

/// The last two parts of a scenario's path, as `index.csv` names it.
fn name(folder: &Path) -> String {
    let parts: Vec<_> = folder.iter().rev().take(2).map(|p| p.to_string_lossy()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}
