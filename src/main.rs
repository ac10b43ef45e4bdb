//! The `weir` command: arguments in, exit code out. Each subcommand has its file in `cli/`.

mod cli;

use std::any::Any;
use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    let usual = panic::take_hook();
    // It is said below, when everything is undone.
    panic::set_hook(Box::new(move |info| {
        if cannot_print(info.payload()).is_none() {
            usual(info);
        }
    }));
    let ended = panic::catch_unwind(|| {
        let code = cli::main();
        match io::stdout().flush() {
            Err(e) => cannot_write(&e.to_string()),
            Ok(()) => code,
        }
    });
    ended.unwrap_or_else(|panic| match cannot_print(panic.as_ref()) {
        Some(why) => cannot_write(why),
        None => ExitCode::from(101),
    })
}

/// Why `print!` or `eprint!` has given up, if that is what a panic is about.
fn cannot_print(panic: &(dyn Any + Send)) -> Option<&str> {
    let told = panic.downcast_ref::<String>()?.strip_prefix("failed printing to std")?;
    told.split_once(": ").map(|(_, why)| why)
}

/// Whoever reads our output may have enough, as in `weir report DIR | head`: that is no fault to be told.
fn cannot_write(why: &str) -> ExitCode {
    let why = why.split(" (os error").next().unwrap_or(why);
    if why == "Broken pipe" {
        return ExitCode::SUCCESS;
    }
    // It may be the same full disk.
    let _ = writeln!(io::stderr(), "weir: cannot write: {why}");
    ExitCode::from(1)
}
