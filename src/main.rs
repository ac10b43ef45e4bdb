//! The `weir` command: arguments in, exit code out. Each subcommand has its file in `cli/`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
