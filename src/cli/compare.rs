//! `weir compare LABEL=DIR…`: runs side by side, as a table and as a picture.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use serde_json::json;
use weir::report::compare::{Run, as_text, table};
use weir::report::svg;

use super::Failure;

/// `weir compare …`
#[derive(Parser)]
pub(crate) struct Args {
    /// A run: the head of its column, and the directory with its bridge.json, load.json and .hgrm files
    #[arg(value_name = "LABEL=DIR", required = true, value_parser = run_word)]
    runs: Vec<(String, PathBuf)>,
    /// Draw how long packets waited, all runs in one picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The title of the picture
    #[arg(long, default_value = "How long packets waited", value_name = "TEXT")]
    title: String,
    /// What was measured, below the title
    #[arg(long, default_value = "", value_name = "TEXT")]
    subtitle: String,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
}

fn run_word(word: &str) -> Result<(String, PathBuf), String> {
    let (label, directory) = word.split_once('=').ok_or("a label, '=' and a directory")?;
    if label.is_empty() || directory.is_empty() {
        return Err("a label, '=' and a directory".into());
    }
    Ok((label.into(), directory.into()))
}

/// Reads the runs, prints the table, draws the picture.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let read = args.runs.iter().map(|(label, directory)| Run::read(label, directory));
    let runs: Vec<Run> = read.collect::<Result<_, _>>()?;
    let rows = table(&runs);
    if let Some(file) = &args.svg {
        let curves: Vec<svg::Curve> = runs.iter().enumerate().flat_map(|(i, r)| r.curves(i)).collect();
        let picture = svg::percentiles(&args.title, &args.subtitle, &curves);
        fs::write(file, picture).map_err(|e| Failure::Run(format!("cannot write {}: {e}", file.display())))?;
    }
    if args.json {
        let labels: Vec<&str> = runs.iter().map(|r| r.label.as_str()).collect();
        println!("{:#}", json!({ "runs": labels, "rows": rows }));
    } else {
        print!("{}", as_text(&runs, &rows));
    }
    Ok(())
}
