//! `weir report DIR…`: folders that `weir sim` and `weir lab` have written, joined into one comparison.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir::report::against::{self, Comparison, Side};
use weir::report::hgrm::Distribution;
use weir::report::repeats::{self, Figures};
use weir::report::summary;
use weir::report::svg::{self, Curve};
use weir::stats::histogram::tag;

use super::Failure;

/// Arguments of `weir report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folders with a summary.json, or with such folders in them; those called seed-N are repeats of one run
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Draw the round trips of one group, all runs in one picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The group that percentiles and picture are about; the first that all runs have, unless said otherwise
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Judge the other routers by this one, in each case that both have run: medians, what they may differ by, and what
    /// this one's own repeats span
    #[arg(long, value_name = "ROUTER", conflicts_with_all = ["svg", "group"])]
    against: Option<String>,
    /// With --against: the table as Markdown
    #[arg(long, requires = "against")]
    markdown: bool,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
}

/// A run that was found.
struct Found {
    label: String,
    folder: PathBuf,
    summary: Value,
    figures: Figures,
}

/// Runs `weir report`.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for folder in &args.folders {
        let before = runs.len();
        find(folder, folder, args.folders.len() > 1, &mut runs)?;
        if runs.len() == before {
            let why = "no summary.json in it; weir sim and weir lab write one with -o DIR";
            return Err(Failure::Words(format!("{}: {why}", folder.display())));
        }
    }
    if let Some(router) = &args.against {
        return against(&runs, router, args);
    }
    if args.json {
        let run = |r: &Found| json!({ "run": r.label, "folder": r.folder, "summary": r.summary });
        println!("{:#}", Value::Array(runs.iter().map(run).collect()));
        return Ok(());
    }
    let named: Vec<(&str, &Figures)> = runs.iter().map(|r| (r.label.as_str(), &r.figures)).collect();
    print!("{}", repeats::text(&named));
    let Some(group) = group(args, &named)? else { return Ok(()) };
    if runs.len() <= repeats::COLUMNS {
        println!("\n{group}\n{}", repeats::percentile_rows(&named, &group).trim_end());
    }
    if let Some(file) = &args.svg {
        let picture = svg::percentiles("Round trips", &group, &curves(&runs, &group)?);
        fs::write(file, picture).map_err(|e| Failure::Run(format!("cannot write {}: {e}", file.display())))?;
    }
    Ok(())
}

/// The table of routers beside one of them.
fn against(runs: &[Found], router: &str, args: &Args) -> Result<(), Failure> {
    // A label is the case, then the router; a folder that is one case has its own name for it.
    let one = args.folders[0].file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
    let split = |r: &Found| match r.label.rsplit_once('/') {
        Some((case, router)) => (case.to_string(), router.to_string()),
        None => (one.clone(), r.label.clone()),
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in runs.iter().map(split) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let side = |(case, router): &(String, String)| -> Vec<&Figures> {
        runs.iter().filter(|r| split(r) == (case.clone(), router.clone())).map(|r| &r.figures).collect()
    };
    let mut all = Vec::new();
    for pair in pairs.iter().filter(|p| p.1 != router) {
        let other = (pair.0.clone(), router.to_string());
        if pairs.contains(&other) {
            let here = Side { router: &pair.1, runs: side(pair) };
            all.push(Comparison::of(&pair.0, &here, &Side { router, runs: side(&other) }));
        }
    }
    if all.is_empty() {
        let had: Vec<&str> = pairs.iter().map(|p| p.1.as_str()).collect();
        return Err(Failure::Words(format!(
            "--against {router}: no case has runs of it and of another; routers here: {}. They come from weir lab … --router weir \
             --router kernel -o DIR",
            had.join(", ")
        )));
    }
    if args.json {
        println!("{:#}", json!(all));
        return Ok(());
    }
    let rows = against::rows(&all);
    print!("{}", if args.markdown { against::markdown(&rows) } else { summary::table(&rows) });
    println!("\n{}", against::bounds(&all));
    Ok(())
}

/// Folders with a summary below one, in the order of their names.
fn find(folder: &Path, top: &Path, several: bool, out: &mut Vec<Found>) -> Result<(), Failure> {
    let file = folder.join("summary.json");
    if file.is_file() {
        let bad = |e: String| Failure::Run(format!("{}: {e}", file.display()));
        let text = fs::read_to_string(&file).map_err(|e| bad(e.to_string()))?;
        let summary: Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let figures = Figures::read(&summary).map_err(bad)?;
        out.push(Found { label: label(folder, top, several), folder: folder.into(), summary, figures });
        return Ok(());
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return Err(Failure::Words(format!("{}: no such folder", folder.display())));
    };
    let mut inner: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    inner.sort();
    inner.iter().try_for_each(|f| find(f, top, several, out))
}

/// A run by its place, without the seed.
fn label(folder: &Path, top: &Path, several: bool) -> String {
    let below = folder.strip_prefix(top).unwrap_or(folder);
    let named = below.iter().map(|part| part.to_string_lossy()).filter(|part| !part.starts_with("seed-"));
    let head = top.file_name().map(|n| n.to_string_lossy());
    let mut parts: Vec<String> = named.map(|p| p.into_owned()).collect();
    if several || parts.is_empty() {
        parts.splice(0..0, head.map(|h| h.into_owned()));
    }
    parts.join("/")
}

/// The group that is meant, if all runs have one.
fn group(args: &Args, runs: &[(&str, &Figures)]) -> Result<Option<String>, Failure> {
    let all = repeats::common_groups(runs);
    match &args.group {
        Some(name) if !all.contains(&name.as_str()) => {
            Err(Failure::Words(format!("--group {name}: the groups that all runs have are {}", all.join(", "))))
        }
        Some(name) => Ok(Some(name.clone())),
        None => Ok(all.first().map(|n| n.to_string())),
    }
}

fn curves(runs: &[Found], group: &str) -> Result<Vec<Curve>, Failure> {
    let mut out = Vec::new();
    for (colour, run) in runs.iter().enumerate() {
        let file = run.folder.join(format!("rtt-{}.hgrm", tag(group)));
        let bad = |e: String| Failure::Run(format!("{}: {e}", file.display()));
        let text = fs::read_to_string(&file).map_err(|e| bad(e.to_string()))?;
        let distribution = Distribution::parse(&text).map_err(bad)?;
        out.push(Curve { label: run.label.clone(), colour, dashed: false, distribution });
    }
    Ok(out)
}
