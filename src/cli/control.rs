//! `weir stats`, `list`, `stop`, `hist` and `change`: talk to a running instance.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir::run::DIRECTORY;
use weir::run::control::{Info, Request, ask, choose, names};
use weir::sys::namespace::network;

use super::{Failure, read_spec};

/// Which instance is meant.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// The instance; may be left away when only one is running
    name: Option<String>,
}

impl Which {
    pub(crate) fn ask(&self, request: &Request) -> Result<Value, Failure> {
        let name = self.choose()?;
        Ok(ask(Path::new(DIRECTORY), &name, request)?)
    }

    pub(crate) fn choose(&self) -> Result<String, Failure> {
        Ok(choose(Path::new(DIRECTORY), self.name.as_deref())?)
    }
}

/// Arguments of `weir stats`.
#[derive(clap::Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    which: Which,
    /// JSON for programs: tc's array, with weir's additions under "weir"
    #[arg(short, long)]
    json: bool,
}

/// Arguments of `weir list`.
#[derive(clap::Args)]
pub(crate) struct List {
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
}

/// Arguments of `weir hist`.
#[derive(clap::Args)]
pub(crate) struct Hist {
    #[command(flatten)]
    which: Which,
    /// Where to write the files; the current directory unless said otherwise
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
}

/// Arguments of `weir change`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("directions").required(true).multiple(true))]
pub(crate) struct Change {
    #[command(flatten)]
    which: Which,
    /// New parameters toward INSIDE: the same stages as now, written in full
    #[arg(long, value_name = "SPEC", group = "directions")]
    down: Option<String>,
    /// New parameters toward OUTSIDE
    #[arg(long, value_name = "SPEC", group = "directions")]
    up: Option<String>,
}

/// Runs `weir stats`.
pub(crate) fn stats(args: &Stats) -> Result<(), Failure> {
    let answer = args.which.ask(&Request::Stats)?;
    if args.json {
        println!("{}", answer["qdiscs"]);
    } else {
        print!("{}", answer["text"].as_str().unwrap_or_default());
    }
    Ok(())
}

/// Runs `weir list`.
pub(crate) fn list(args: &List) -> Result<(), Failure> {
    let directory = Path::new(DIRECTORY);
    let mut all = Vec::new();
    for name in names(directory) {
        match ask(directory, &name, &Request::Info) {
            Ok(info) => all.push(info),
            Err(why) => all.push(json!({ "name": name, "error": why })),
        }
    }
    if args.json {
        println!("{}", Value::Array(all));
        return Ok(());
    }
    for one in all {
        match serde_json::from_value::<Info>(one.clone()) {
            Ok(info) => print!("{}", show(&info)),
            Err(_) => println!("{}: {}", plain(&one["name"]), plain(&one["error"])),
        }
    }
    Ok(())
}

fn show(i: &Info) -> String {
    let [outside, inside] = &i.nics;
    format!(
        "{}: process {}, {outside} and {inside}{}, up {}\n  down {outside}->{inside}: {}\n  up {inside}->{outside}: {}\n",
        i.name,
        i.pid,
        elsewhere(i.pid).unwrap_or_default(),
        age(i.seconds),
        i.down,
        i.up
    )
}

/// In which network namespace a process is, if it is another one than ours.
fn elsewhere(pid: u32) -> Option<String> {
    let number = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).ok();
    let there = PathBuf::from(format!("/proc/{pid}/ns/net"));
    let number_there = number(&there)?;
    if network().ok()? == number_there {
        return None;
    }
    let mut named = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    Some(match named.find(|entry| number(&entry.path()) == Some(number_there)) {
        Some(entry) => format!(" in namespace {}", entry.file_name().to_string_lossy()),
        None => format!(" in another namespace (nsenter --net={})", there.display()),
    })
}

fn age(seconds: f64) -> String {
    let s = seconds as u64;
    match (s / 86400, s / 3600 % 24, s / 60 % 60) {
        (0, 0, 0) => format!("{s}s"),
        (0, 0, m) => format!("{m}m{}s", s % 60),
        (0, h, m) => format!("{h}h{m}m"),
        (d, h, _) => format!("{d}d{h}h"),
    }
}

/// Runs `weir stop`.
pub(crate) fn stop(which: &Which) -> Result<(), Failure> {
    which.ask(&Request::Stop).map(drop).map_err(|failure| match (failure, left_hint()) {
        (Failure::Run(why), Some(hint)) => Failure::Run(format!("{why}; {hint}")),
        (failure, _) => failure,
    })
}

/// What helps if one that was killed is looked for.
#[cfg(feature = "xdp")]
fn left_hint() -> Option<String> {
    let left = weir::run::left::everywhere();
    let (nics, commands): (Vec<_>, Vec<_>) = left.into_iter().unzip();
    (!nics.is_empty())
        .then(|| format!("one that was killed has left something at {}: {}", nics.join(", "), commands.join("; ")))
}

#[cfg(not(feature = "xdp"))]
fn left_hint() -> Option<String> {
    None
}

/// Runs `weir hist`.
pub(crate) fn hist(args: &Hist) -> Result<(), Failure> {
    let answer = args.which.ask(&Request::Hist)?;
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(&args.output).map_err(|e| failed(&args.output, e))?;
    for file in answer["files"].as_array().into_iter().flatten() {
        // What an instance sends is a name in the directory given, whatever it says.
        let Some(name) = Path::new(plain(&file["name"])).file_name() else { continue };
        let path = args.output.join(name);
        std::fs::write(&path, plain(&file["content"])).map_err(|e| failed(&path, e))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Runs `weir change`.
pub(crate) fn change(args: &Change) -> Result<(), Failure> {
    // Here the words are wrong, with exit code 2; there only the moment.
    for line in [&args.down, &args.up].into_iter().flatten() {
        read_spec(line)?;
    }
    let request = Request::Change { down: args.down.clone(), up: args.up.clone() };
    let answer = args.which.ask(&request)?;
    for (direction, asked) in [("down", &args.down), ("up", &args.up)] {
        if asked.is_some() {
            println!("{direction}: {}", plain(&answer[direction]));
        }
    }
    Ok(())
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
