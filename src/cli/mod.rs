//! The command line. 0 is success, 1 a run that failed, 2 words that cannot be understood.

#[cfg(feature = "xdp")]
mod bridge;
mod cases;
mod codes;
mod compare;
mod control;
mod doctor;
mod explain;
mod guest;
#[cfg(feature = "xdp")]
mod ingress;
#[cfg(feature = "xdp")]
mod lab;
mod load;
mod load_dtp;
#[cfg(feature = "xdp")]
mod log;
#[cfg(feature = "xdp")]
mod napi;
mod replay;
mod report;
#[cfg(feature = "xdp")]
mod session;
mod sim;
mod top;
mod trace;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};
use weir::qdisc::Compat;
use weir::spec::{self, Spec};

/// CAKE and CoDel in user space: a bottleneck router, an ingress shaper, and a microscope on latency.
#[derive(Parser)]
#[command(name = "weir", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shape between two network interfaces
    #[cfg(feature = "xdp")]
    Bridge(Box<bridge::Args>),
    /// Shape what comes from WAN before this machine sees it, at an interface made for that
    #[cfg(feature = "xdp")]
    Ingress(Box<ingress::Args>),
    /// Send recorded frames through a pipeline in virtual time
    Replay(replay::Args),
    /// Run a scenario in virtual time, senders included
    Sim(sim::Args),
    /// Run a scenario live: the kernel's TCP in namespaces made for it, and weir between them
    #[cfg(feature = "xdp")]
    Lab(lab::Args),
    /// Run a table of arrivals through a pipeline in virtual time; a verdict per packet
    Trace(trace::Args),
    /// Real TCP load and pings between two ends, through the kernel: what demo and lab measure with
    Load(load::Args),
    /// A command in a whole Linux in virtual time, which tools/guest builds
    Guest(guest::Args),
    /// What tc -s qdisc show would print for a running instance, and more
    Stats(control::Stats),
    /// Which instances are running
    List(control::List),
    /// End a running instance in good order
    Stop(control::Which),
    /// Write the histograms of a running instance
    Hist(control::Hist),
    /// Write every arrival at a running instance and what became of it
    #[cfg(feature = "xdp")]
    Log(log::Args),
    /// Give a running instance other parameters, between two packets
    Change(control::Change),
    /// The figures of a running instance, once a second
    Top(top::Args),
    /// Let the far end of a veth take redirected frames: attach a program there that passes everything
    #[cfg(feature = "xdp")]
    Napi(napi::Args),
    /// What a specification resolves to, and what one frame is counted as
    Explain(explain::Args),
    /// Is this machine ready, and if not, the command that fixes it
    Doctor(doctor::Args),
    /// Folders of weir sim and weir lab joined into one comparison
    Report(report::Args),
    /// Runs of weir bridge and weir load side by side, as a table and as a picture
    Compare(compare::Args),
}

/// Why a command ended other than well.
pub(crate) enum Failure {
    /// The run failed: exit code 1.
    Run(String),
    /// Words that cannot be understood: exit code 2.
    Words(String),
    /// Another program ended with this code and has said why.
    Code(u8),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Run(message)
    }
}

/// Which kernel's decisions are wanted.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum CompatArg {
    /// Linux 6.12
    #[value(name = "6.12")]
    V6_12,
    /// The newest that the specifications describe
    Latest,
}

impl From<CompatArg> for Compat {
    fn from(arg: CompatArg) -> Compat {
        match arg {
            CompatArg::V6_12 => Compat::V6_12,
            CompatArg::Latest => Compat::Latest,
        }
    }
}

/// Reads a specification, saying its warnings aloud.
pub(crate) fn read_spec(line: &str) -> Result<Spec, Failure> {
    let parsed = spec::parse(line).map_err(|e| Failure::Words(e.render(line)))?;
    for warning in &parsed.warnings {
        eprintln!("weir: warning: {warning}");
    }
    Ok(parsed.spec)
}

/// Reads a number of seconds, up to `most`; the unit may stand behind it.
pub(crate) fn seconds(word: &str, most: u32) -> Result<Duration, String> {
    let number: f64 = word.strip_suffix('s').unwrap_or(word).parse().map_err(|_| "a number of seconds".to_string())?;
    if !(0.0..=f64::from(most)).contains(&number) {
        return Err(format!("between 0 and {most} seconds"));
    }
    Ok(Duration::from_secs_f64(number))
}

/// Refuses to write over what is being read.
pub(crate) fn not_its_own(input: &Path, output: &Path) -> Result<(), Failure> {
    let same = output.canonicalize().is_ok_and(|o| input.canonicalize().is_ok_and(|i| i == o));
    if same {
        return Err(Failure::Words(format!("{} is what is read; write to another file", output.display())));
    }
    Ok(())
}

/// The command line; what it says of a word that has no place helps those who type a pipeline as tc would take it.
fn read_words() -> Cli {
    Cli::try_parse().unwrap_or_else(|e| {
        let unquoted = std::env::args().any(|word| spec::is_stage(&word));
        if e.kind() != ErrorKind::UnknownArgument || !unquoted {
            e.exit();
        }
        // It goes where the hint goes.
        let _ = e.print();
        eprintln!("\na pipeline is one word, in quotes: --down 'cake bandwidth 10mbit'");
        std::process::exit(2);
    })
}

/// Runs the command that the arguments name.
pub(crate) fn main() -> ExitCode {
    let result = match read_words().command {
        #[cfg(feature = "xdp")]
        Command::Bridge(args) => bridge::run(*args),
        #[cfg(feature = "xdp")]
        Command::Ingress(args) => ingress::run(*args),
        Command::Replay(args) => replay::run(args),
        Command::Sim(args) => sim::run(args),
        #[cfg(feature = "xdp")]
        Command::Lab(args) => lab::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Stats(args) => control::stats(&args),
        Command::List(args) => control::list(&args),
        Command::Stop(which) => control::stop(&which),
        Command::Hist(args) => control::hist(&args),
        #[cfg(feature = "xdp")]
        Command::Log(args) => log::run(&args),
        Command::Change(args) => control::change(&args),
        Command::Top(args) => top::run(&args),
        Command::Guest(args) => guest::run(args),
        Command::Load(args) => load::run(args),
        #[cfg(feature = "xdp")]
        Command::Napi(args) => napi::run(&args),
        Command::Explain(args) => explain::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Run(message)) => {
            eprintln!("weir: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Code(code)) => ExitCode::from(code),
        Err(Failure::Words(message)) => {
            // No prefix: the message may begin with the line that its marks stand under.
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
