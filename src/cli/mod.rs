//! The words typed after `weir`, and the exit code they end in: 0 done, 1 a run that failed, 2 words that cannot be
//! understood. One file per subcommand; each has its arguments and a `run` that returns the code.

pub mod load;

use std::fmt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// CAKE and CoDel in user space.
#[derive(Parser, Debug)]
#[command(name = "weir", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Real TCP load and pings between two ends: what the demo and the lab measure with.
    Load(load::Args),
}

/// Why a command ends without having done what it was asked: the exit code and the words for people.
#[derive(Debug)]
pub enum Failure {
    /// A run that failed: exit code 1.
    Run(String),
    /// Words that cannot be understood: exit code 2.
    Words(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Run(text) | Failure::Words(text) => f.write_str(text),
        }
    }
}

impl Failure {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Run(_) => 1,
            Failure::Words(_) => 2,
        }
    }
}

/// Reads the command line, does what it says, and says what went wrong on standard error.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Load(args) => load::run(args),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("weir: {failure}");
        ExitCode::from(failure.code())
    })
}
