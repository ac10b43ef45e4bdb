//! The `weir` command: arguments in, exit code out. Each subcommand has its file in `cli/`.

mod cli;

use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    let usual = panic::take_hook();
    // Whoever reads our output may have enough, as in `weir report DIR | head`: that is no fault to be told.
    panic::set_hook(Box::new(move |info| {
        let told = info.payload().downcast_ref::<String>();
        if !told.is_some_and(|t| t.starts_with("failed printing to stdout") && t.contains("Broken pipe")) {
            usual(info);
        }
    }));
    cli::main()
}
