//! `weir log`: every arrival at a running instance and what became of it, as tables.

use std::path::PathBuf;
use std::time::Duration;

use weir::run::control::Request;

use super::Failure;
use super::bridge::seconds;
use super::control::Which;
use super::session::Signals;

/// Arguments of `weir log`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Where to write the tables: down.arrivals.csv.gz, down.outcomes.csv.gz, the same for up, and log.json
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// How long; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    duration: Duration,
}

/// Runs `weir log`.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|e| format!("signals: {e}"))?;
    // The instance has a working directory of its own.
    let directory = std::path::absolute(&args.output).map_err(|e| format!("{}: {e}", args.output.display()))?;
    let seconds = args.duration.as_secs_f64();
    args.which.ask(&Request::Log { directory, seconds })?;
    eprintln!("weir: logging for {seconds} s; Ctrl-C ends it earlier");
    signals.wait(args.duration);
    let answer = args.which.ask(&Request::EndLog)?;
    for line in answer["lines"].as_array().into_iter().flatten() {
        println!("{}", line.as_str().unwrap_or_default());
    }
    Ok(())
}
