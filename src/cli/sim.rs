//! `weir sim`: whole experiments in virtual time.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use weir::pipeline::Link;
use weir::report::captures::Captures;
use weir::report::{folder, repeats, summary};
use weir::scenario::file;
use weir::scenario::result::{Outcome, nanoseconds};
use weir::sim;

use super::Failure;
use super::cases::{self, Job};

/// Arguments of `weir sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: cases::ScenarioArgs,
    /// Runs at once; all cores if nothing is said
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// End after this much virtual time and print the state of all queues
    #[arg(long, value_name = "TIME", value_parser = file::time)]
    stop_at: Option<u64>,
    /// Write what became of each packet, port by port
    #[arg(long, requires = "output")]
    trace: bool,
    /// Write the headers of each frame that leaves a port or is dropped there as a capture, port by port, each with a
    /// comment: verdict, sojourn, tin
    #[arg(long, requires = "output")]
    pcap: bool,
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
    let common = &args.common;
    if common.list {
        print!("{}", cases::list(&sim::SENDERS));
        return Ok(());
    }
    let cases = common.cases(&sim::SENDERS)?;
    if common.print {
        cases.iter().for_each(|c| println!("# {}\n{}", c.name, c.text));
        return Ok(());
    }
    let jobs = common.jobs(&cases);
    if common.emit_jobs {
        jobs.iter().for_each(|job| println!("{}", command(job, &args)));
        return Ok(());
    }
    let begun = std::time::Instant::now();
    common.check_output()?;
    check_memory(&jobs, &args, weir::sys::memory_available().unwrap_or(u64::MAX))?;
    let done = all(&jobs, &args)?;
    print(&jobs, &done, &args);
    if !args.common.json {
        let frames: u64 = done.iter().map(|d| d.frames).sum();
        let wall = begun.elapsed().as_secs_f64();
        eprintln!("{} runs, {frames} frames through ports, {wall:.2} s", done.len());
    }
    Ok(())
}

/// The command that makes one run.
fn command(job: &Job<'_>, args: &Args) -> String {
    let mut words = args.common.command("sim", job);
    if let Some(ns) = args.stop_at {
        words.extend(["--stop-at".into(), format!("{}us", ns / 1000)]);
    }
    if args.trace {
        words.push("--trace".into());
    }
    if args.pcap {
        words.push("--pcap".into());
    }
    words.join(" ")
}

/// How many runs go at once.
fn threads(jobs: &[Job<'_>], args: &Args) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    args.jobs.map_or(cores, |j| j as usize).min(jobs.len()).max(1)
}

/// Refuses runs whose flows do not fit into the memory that is free: a flow's round trips take a quarter of a MiB.
fn check_memory(jobs: &[Job<'_>], args: &Args, free: u64) -> Result<(), Failure> {
    let at_once = threads(jobs, args) as u64;
    let flows_of = |job: &Job<'_>| -> Option<u64> {
        let (scenario, _) = file::read(&job.case.text, &sim::SENDERS).ok()?;
        Some(scenario.flows.iter().map(|flow| u64::from(flow.count)).sum())
    };
    let flows = jobs.iter().filter_map(flows_of).max().unwrap_or(0);
    let each = nanoseconds().distinct_values() as u64 * size_of::<u64>() as u64;
    if flows * each * at_once <= free {
        return Ok(());
    }
    let (mib, fit) = (|bytes: u64| bytes >> 20, free / each);
    Err(Failure::Run(format!(
        "{flows} flows in each of {at_once} runs at once take {} MiB, and {} MiB are free: --jobs 1 has one run at a time, and \
         {fit} flows fit",
        mib(flows * each * at_once),
        mib(free)
    )))
}

/// Does all jobs, several at once; the results stand in the order of the jobs.
fn all(jobs: &[Job<'_>], args: &Args) -> Result<Vec<Done>, Failure> {
    let threads = threads(jobs, args);
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
                    let result = one(job, args);
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

fn one(job: &Job<'_>, args: &Args) -> Result<Done, String> {
    let text = &job.case.text;
    let (scenario, _) = file::read(text, &sim::SENDERS).map_err(|p| p.render(args.common.name(), text))?;
    let link = Link { compat: args.common.compat.into(), ..Link::default() };
    let mut simulation = sim::build(&scenario, job.seed, link)?;
    if args.trace {
        simulation.trace();
    }
    let captures = match &job.folder {
        Some(folder) if args.pcap => Some(capture(&mut simulation, folder).map_err(|e| in_folder(folder, &e))?),
        _ => None,
    };
    let dump = args.stop_at.map(|ns| {
        simulation.run_until(ns);
        simulation.dump()
    });
    let outcome = simulation.run(args.stop_at);
    if let Some(folder) = &job.folder {
        // The simulation is over, so nobody else has them any more.
        let captures =
            captures.and_then(Arc::into_inner).map(|c| c.into_inner().unwrap_or_else(PoisonError::into_inner));
        captures
            .map_or(Ok(()), Captures::end)
            .and_then(|()| write(folder, job, &outcome, args))
            .map_err(|e| in_folder(folder, &e))?;
    }
    Ok(Done {
        text: summary::text(&outcome),
        json: summary::json(&outcome),
        figures: repeats::Figures::of(&outcome),
        dump,
        frames: outcome.frames,
    })
}

fn in_folder(folder: &Path, e: &std::io::Error) -> String {
    format!("{}: {e}", folder.display())
}

/// Has the frames of a simulation written down in `folder`.
fn capture(simulation: &mut sim::Simulation, folder: &Path) -> std::io::Result<Arc<Mutex<Captures>>> {
    let captures = Arc::new(Mutex::new(Captures::new(folder, sim::ORIGIN)?));
    let shared = Arc::clone(&captures);
    simulation.show_to(Box::new(move |port, fate| {
        shared.lock().unwrap_or_else(PoisonError::into_inner).frame(port, fate);
    }));
    Ok(captures)
}

fn write(folder: &Path, job: &Job<'_>, outcome: &Outcome, args: &Args) -> std::io::Result<()> {
    let builtin = args.common.builtin().is_some();
    let manifest = folder::Manifest {
        command: "weir sim",
        scenario: if builtin { args.common.name() } else { &job.case.name },
        case: builtin.then_some(job.case.name.as_str()),
        text: &job.case.text,
        compat: args.common.compat_word(),
        stopped_at: args.stop_at.map(|ns| ns as f64 / 1e9),
        engine: json!({ "kind": "virtual time", "events": outcome.events, "frames": outcome.frames }),
    };
    folder::write(folder, &manifest, outcome)
}

fn print(jobs: &[Job<'_>], done: &[Done], args: &Args) {
    if args.common.json {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn runs_that_do_not_fit_into_memory_are_refused_with_what_fits() {
        let words = ["sim", "shaping", "--param", "flows=1000", "--repeat", "4", "--jobs", "4"];
        let args = Words::parse_from(words).args;
        let cases = args.common.cases(&sim::SENDERS).unwrap_or_default();
        let jobs = args.common.jobs(&cases);
        assert!(check_memory(&jobs, &args, 2 << 30).is_ok());
        let Err(Failure::Run(message)) = check_memory(&jobs, &args, 512 << 20) else { panic!("it fits") };
        assert!(message.starts_with("1000 flows in each of 4 runs at once take "), "{message}");
        assert!(message.contains(" and 512 MiB are free: --jobs 1 has one run at a time"), "{message}");
    }
}
