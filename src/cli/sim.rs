//! `weir sim`: whole experiments in virtual time.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use weir::pipeline::Link;
use weir::report::{folder, repeats, summary};
use weir::scenario::builtin::{self, Case};
use weir::scenario::file;
use weir::scenario::result::Outcome;
use weir::sim;
use weir::spec::suggest;

use super::{CompatArg, Failure};

/// Arguments of `weir sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A scenario file, or the name of a built-in one (--list shows them)
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    scenario: Option<String>,
    /// Seed of everything random; repeats count on from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each case, with one seed after another
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// Runs at once; all cores if nothing is said
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Write manifest, summary, series, distributions and report into this folder
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// A parameter of a built-in scenario
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Only this case of a scenario that has several
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Print one command per run instead of running, for parallel(1) or an array of jobs
    #[arg(long)]
    emit_jobs: bool,
    /// End after this much virtual time and print the state of all queues
    #[arg(long, value_name = "TIME", value_parser = file::time)]
    stop_at: Option<u64>,
    /// Write what became of each packet, port by port
    #[arg(long, requires = "output")]
    trace: bool,
    /// Print the scenario file instead of running it
    #[arg(long)]
    print: bool,
    /// Show the built-in scenarios and their parameters
    #[arg(long)]
    list: bool,
    /// Which kernel's decisions
    #[arg(long, default_value = "latest")]
    compat: CompatArg,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not NAME=VALUE"))?;
    Ok((name.into(), value.into()))
}

/// One run of one case.
struct Job<'a> {
    case: &'a Case,
    seed: u64,
    folder: Option<PathBuf>,
}

/// What is kept of a run.
struct Done {
    text: String,
    json: Value,
    figures: repeats::Figures,
    dump: Option<String>,
    frames: u64,
}

/// Runs `weir sim`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.list {
        print!("{}", list());
        return Ok(());
    }
    let name = args.scenario.as_deref().unwrap_or_default();
    let cases = chosen(name, &args)?;
    if args.print {
        cases.iter().for_each(|c| println!("# {}\n{}", c.name, c.text));
        return Ok(());
    }
    for case in &cases {
        let (_, warnings) =
            file::read(&case.text, &sim::SENDERS).map_err(|p| Failure::Words(p.render(name, &case.text)))?;
        warnings.iter().for_each(|w| eprintln!("weir: warning: {w}"));
    }
    let jobs = jobs(&cases, &args);
    if args.emit_jobs {
        jobs.iter().for_each(|job| println!("{}", command(name, job, &args)));
        return Ok(());
    }
    let begun = std::time::Instant::now();
    let done = all(&jobs, name, &args)?;
    print(&jobs, &done, &args);
    if !args.json {
        let frames: u64 = done.iter().map(|d| d.frames).sum();
        let wall = begun.elapsed().as_secs_f64();
        eprintln!("{} runs, {frames} frames through ports, {wall:.2} s", done.len());
    }
    Ok(())
}

fn list() -> String {
    let mut out = String::new();
    for b in builtin::ALL {
        out += &format!("{}: {}\n", b.name, b.title);
        for p in b.params {
            out += &format!("    --param {}={}    {}\n", p.name, p.default, p.help);
        }
    }
    out + &format!("senders: {}\n", sim::SENDERS.join(", "))
}

/// The cases that are meant.
fn chosen(name: &str, args: &Args) -> Result<Vec<Case>, Failure> {
    let mut cases = if let Some(b) = builtin::named(name) {
        builtin::cases(b, &args.params).map_err(Failure::Words)?
    } else if !Path::new(name).exists() {
        let known: Vec<&str> = builtin::ALL.iter().map(|b| b.name).collect();
        let hint = suggest::nearest(name, known.iter().copied()).map(|n| format!("; did you mean \"{n}\"?"));
        return Err(Failure::Words(format!(
            "\"{name}\" is neither a file nor a built-in scenario{}\nbuilt in: {}",
            hint.unwrap_or_default(),
            known.join(", ")
        )));
    } else {
        if let Some((p, _)) = args.params.first() {
            return Err(Failure::Words(format!("--param {p}: a scenario file has no parameters; edit it instead")));
        }
        let text = std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"))?;
        let stem = Path::new(name).file_stem().map_or(name.into(), |s| s.to_string_lossy().into_owned());
        vec![Case { name: stem, text }]
    };
    if let Some(only) = &args.case {
        let names: Vec<String> = cases.iter().map(|c| c.name.clone()).collect();
        cases.retain(|c| c.name == *only);
        if cases.is_empty() {
            return Err(Failure::Words(format!("--case {only}: {name} has {}", names.join(", "))));
        }
    }
    Ok(cases)
}

fn jobs<'a>(cases: &'a [Case], args: &Args) -> Vec<Job<'a>> {
    let mut out = Vec::new();
    for case in cases {
        for r in 0..u64::from(args.repeat) {
            let seed = args.seed.wrapping_add(r);
            let folder = args.output.as_ref().map(|dir| {
                let dir = if cases.len() > 1 { dir.join(&case.name) } else { dir.clone() };
                if args.repeat > 1 { dir.join(format!("seed-{seed}")) } else { dir }
            });
            out.push(Job { case, seed, folder });
        }
    }
    out
}

fn quoted(word: &str) -> String {
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:,%".contains(&b));
    if plain && !word.is_empty() { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// The command that makes one run.
fn command(name: &str, job: &Job<'_>, args: &Args) -> String {
    let mut words = vec!["weir".into(), "sim".into(), quoted(name), "--seed".into(), job.seed.to_string()];
    for (key, value) in &args.params {
        words.extend(["--param".into(), quoted(&format!("{key}={value}"))]);
    }
    if builtin::named(name).is_some() {
        words.extend(["--case".into(), quoted(&job.case.name)]);
    }
    if let CompatArg::V6_12 = args.compat {
        words.extend(["--compat".into(), "6.12".into()]);
    }
    if let Some(ns) = args.stop_at {
        words.extend(["--stop-at".into(), format!("{}us", ns / 1000)]);
    }
    if let Some(folder) = &job.folder {
        words.extend(["-o".into(), quoted(&folder.display().to_string())]);
    }
    if args.trace {
        words.push("--trace".into());
    }
    words.join(" ")
}

/// Does all jobs, several at once; the results stand in the order of the jobs.
fn all(jobs: &[Job<'_>], name: &str, args: &Args) -> Result<Vec<Done>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = args.jobs.map_or(cores, |j| j as usize).min(jobs.len()).max(1);
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<Done, String>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let finished = AtomicUsize::new(0);
    let progress = std::io::stderr().is_terminal() && jobs.len() > 1;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(i) else { break };
                    let result = one(job, name, args);
                    *slots[i].lock().expect("no thread panics while it holds a slot") = Some(result);
                    let n = finished.fetch_add(1, Ordering::Relaxed) + 1;
                    if progress {
                        eprint!("\r{n} of {} runs", jobs.len());
                    }
                }
            });
        }
    });
    if progress {
        eprint!("\r\x1b[K");
    }
    let taken = slots.into_iter().map(|s| s.into_inner().expect("no thread panics while it holds a slot"));
    taken.map(|r| r.expect("every job was taken").map_err(Failure::Run)).collect()
}

fn one(job: &Job<'_>, name: &str, args: &Args) -> Result<Done, String> {
    let (scenario, _) = file::read(&job.case.text, &sim::SENDERS).map_err(|p| p.render(name, &job.case.text))?;
    let link = Link { compat: args.compat.into(), ..Link::default() };
    let mut simulation = sim::build(&scenario, job.seed, link)?;
    if args.trace {
        simulation.trace();
    }
    let dump = args.stop_at.map(|ns| {
        simulation.run_until(sim::ORIGIN + ns);
        simulation.dump()
    });
    let outcome = simulation.run(args.stop_at);
    if let Some(folder) = &job.folder {
        write(folder, job, name, &outcome, args).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    Ok(Done {
        text: summary::text(&outcome),
        json: summary::json(&outcome),
        figures: repeats::Figures::of(&outcome),
        dump,
        frames: outcome.frames,
    })
}

fn write(folder: &Path, job: &Job<'_>, name: &str, outcome: &Outcome, args: &Args) -> std::io::Result<()> {
    let builtin = builtin::named(name).is_some();
    let compat = if let CompatArg::V6_12 = args.compat { "6.12" } else { "latest" };
    let manifest = folder::Manifest {
        command: "weir sim",
        scenario: if builtin { name } else { &job.case.name },
        case: builtin.then_some(job.case.name.as_str()),
        text: &job.case.text,
        compat,
        stopped_at: args.stop_at.map(|ns| ns as f64 / 1e9),
        engine: json!({ "kind": "virtual time", "events": outcome.events, "frames": outcome.frames }),
    };
    folder::write(folder, &manifest, outcome)
}

fn print(jobs: &[Job<'_>], done: &[Done], args: &Args) {
    if args.json {
        let runs =
            jobs.iter().zip(done).map(|(j, d)| json!({ "case": j.case.name, "seed": j.seed, "summary": d.json }));
        println!("{:#}", Value::Array(runs.collect()));
        return;
    }
    if let [one] = done {
        print!("{}", one.text);
    } else {
        let named: Vec<(&str, &repeats::Figures)> =
            jobs.iter().zip(done).map(|(j, d)| (j.case.name.as_str(), &d.figures)).collect();
        print!("{}", repeats::text(&named));
    }
    for (job, dump) in jobs.iter().zip(done).filter_map(|(j, d)| Some((j, d.dump.as_ref()?))) {
        print!("\n{} (seed {}) {dump}", job.case.name, job.seed);
    }
}
