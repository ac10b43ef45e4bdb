//! `weir guest`: a command in virtual time.

use std::env;
use std::ffi::OsString;
#[cfg(feature = "xdp")]
use std::fs;
#[cfg(feature = "xdp")]
use std::iter;
#[cfg(feature = "xdp")]
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use weir::lab::guest::{self, Plan};

use super::Failure;

/// `weir guest …`
#[derive(Parser, Debug)]
pub(crate) struct Args {
    /// The one folder that can be written in the guest
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
    enter(&Plan {
        words,
        out: args.out,
        limit: Duration::from_secs(args.limit),
        memory: args.memory,
        real_time: args.real_time,
    })
}

/// Congestion controls of the guest's kernel (`tools/guest.d/config`), and Prague, whose place its DCTCP takes.
#[cfg(feature = "xdp")]
pub(crate) fn senders() -> Vec<String> {
    ["reno", "cubic", "bbr", "dctcp", "prague"].map(String::from).to_vec()
}

/// This very command in the guest, without the word that sent it there. Only `out` can be written.
///
/// # Errors
/// As [`run`].
#[cfg(feature = "xdp")]
pub(crate) fn again(word: &str, out: Option<&Path>) -> Result<(), Failure> {
    let own = env::current_exe().map_err(|e| Failure::Run(format!("cannot find this program: {e}")))?;
    let passing = env::temp_dir().join(format!("weir-guest-{}", std::process::id()));
    let plan = Plan {
        words: iter::once(own.into()).chain(env::args_os().skip(1).filter(|w| w != word)).collect(),
        out: out.unwrap_or(&passing).to_owned(),
        limit: Duration::from_secs(3600),
        memory: 2048,
        real_time: false,
    };
    let result = enter(&plan);
    if out.is_none() {
        // Nothing of value is in it, and it may not even have been made.
        let _ = fs::remove_dir_all(&passing);
    }
    result
}

fn enter(plan: &Plan) -> Result<(), Failure> {
    match guest::run(plan) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Code(code)),
        Err(e) => Err(Failure::Run(e.to_string())),
    }
}
