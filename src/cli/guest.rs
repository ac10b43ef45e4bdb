//! `weir guest`: a command in virtual time.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use weir::lab::guest::{self, Plan};

use super::Failure;

/// `weir guest …`
#[derive(Parser, Debug)]
pub(crate) struct Args {
    /// The one folder that can be written in the guest; the command starts in it.
    #[arg(short, long, default_value = "out/guest", value_name = "DIR")]
    out: PathBuf,
    /// End the guest after so many seconds on the wall.
    #[arg(long, default_value_t = 1800, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Memory of the guest, MiB.
    #[arg(long, default_value_t = 2048, value_name = "MIB", value_parser = clap::value_parser!(u32).range(128..=65_536))]
    memory: u32,
    /// Let the guest's clock run as the wall's does.
    #[arg(long)]
    real_time: bool,
    /// The command; "weir" is this program.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

/// Does what the words say.
///
/// # Errors
/// What is missing or went wrong, or the command's own exit code.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut words = args.words;
    if words[0] == "weir" {
        let own = env::current_exe().map_err(|e| Failure::Run(format!("cannot find this program: {e}")))?;
        words[0] = own.into();
    }
    let plan = Plan {
        words,
        out: args.out,
        limit: Duration::from_secs(args.limit),
        memory: args.memory,
        real_time: args.real_time,
    };
    match guest::run(&plan) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Code(code)),
        Err(e) => Err(Failure::Run(e.to_string())),
    }
}
