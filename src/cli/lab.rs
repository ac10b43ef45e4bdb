//! `weir lab`: whole experiments with the kernel's TCP, live, in namespaces made for them.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use weir::lab::course::Course;
use weir::lab::noise::{self, Noise};
use weir::lab::router::Manner;
use weir::lab::run::{self, Order, RouterKind, Row, Run};
use weir::lab::{congestion_control, flows, machine};
use weir::report::{folder, repeats, summary};
use weir::run::worker::{Poll, cores};
use weir::scenario::builtin::Case;
use weir::scenario::file;
use weir::scenario::result::Outcome;
use weir::stats::report::quantiles;

use super::cases::{self, Job, quoted};
use super::{Failure, guest, read_spec};

/// Arguments of `weir lab`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: cases::ScenarioArgs,
    /// Who routes: "weir", a pipeline that weir has in place of the first router's, "kernel" or "kernel:PIPELINE" for
    /// the kernel's own qdiscs. Several take turns
    #[arg(long = "router", value_name = "ROUTER")]
    routers: Vec<String>,
    /// How weir waits; adaptive where there are two cores or more, else sleep
    #[arg(long, value_enum)]
    poll: Option<Poll>,
    /// In virtual time, in a guest with the kernel's TCP and all its disciplines; see weir guest
    #[arg(long = "virtual")]
    in_guest: bool,
}

/// A router by what was asked for.
struct Router {
    words: String,
    /// Name of its column and folder.
    label: String,
    kind: RouterKind,
}

/// One run.
struct Turn<'a> {
    job: Job<'a>,
    router: &'a Router,
    /// Case and router.
    label: String,
}

/// What is kept of a run.
struct Done {
    text: String,
    json: Value,
    figures: repeats::Figures,
}

/// Runs `weir lab`.
pub(crate) fn run(mut args: Args) -> Result<(), Failure> {
    if args.in_guest && !(args.common.list || args.common.print || args.common.emit_jobs) {
        args.common.check_output()?;
        return guest::again("--virtual", args.common.output.as_deref());
    }
    let senders = if args.in_guest { guest::senders() } else { congestion_control::senders() };
    let senders: Vec<&str> = senders.iter().map(String::as_str).collect();
    if args.common.list {
        print!("{}", cases::list(&senders));
        return Ok(());
    }
    let params = args.common.builtin().map_or(&[][..], |b| b.params);
    let foreign = params.iter().find(|p| p.name == "sender" && p.default != "all" && !senders.contains(&p.default));
    if let Some(p) = foreign.filter(|_| args.common.default_param("sender", "dctcp")) {
        eprintln!("weir: the kernel's TCP has no {}; taken instead: --param sender=dctcp", p.default);
    }
    let cases = args.common.cases(&senders)?;
    if args.common.print {
        cases.iter().for_each(|c| println!("# {}\n{}", c.name, c.text));
        return Ok(());
    }
    let routers = routers(&args.routers)?;
    let turns = turns(&args, &cases, &routers);
    if args.common.emit_jobs {
        turns.iter().for_each(|turn| println!("{}", command(turn, &args)));
        return Ok(());
    }
    args.common.check_output()?;
    machine::go_before(machine::HOSTS);
    let interrupt = Interrupt::watch().map_err(|e| format!("signals: {e}"))?;
    let mut done = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for turn in &turns {
        let first = !seen.contains(&turn.label.as_str());
        done.push(one(turn, first, &args, &senders, &interrupt)?);
        seen.push(&turn.label);
        // A terminal has a bar; a log has a line.
        if turns.len() > 1 && !std::io::stderr().is_terminal() {
            eprintln!("weir: {} of {} runs done: {}", done.len(), turns.len(), turn.label);
        }
    }
    print(&turns, &done, &args);
    Ok(())
}

fn routers(words: &[String]) -> Result<Vec<Router>, Failure> {
    let default = ["weir".to_string()];
    let words = if words.is_empty() { &default[..] } else { words };
    let mut out: Vec<Router> = Vec::new();
    for words in words {
        let kind = match words.as_str() {
            "weir" => RouterKind::Weir(None),
            "kernel" => RouterKind::Kernel(None),
            spec if spec.starts_with("kernel:") => RouterKind::Kernel(Some(read_spec(spec[7..].trim())?)),
            spec => RouterKind::Weir(Some(read_spec(spec)?)),
        };
        let label = weir::stats::histogram::tag(&words.split(" |").next().unwrap_or(words).replace(':', "-"));
        let same = out.iter().filter(|r| r.label == label || r.label.starts_with(&format!("{label}-"))).count();
        let label = if same > 0 { format!("{label}-{}", same + 1) } else { label };
        out.push(Router { words: words.clone(), label, kind });
    }
    Ok(out)
}

/// The runs in their order: routers take turns within each repeat.
fn turns<'a>(args: &Args, cases: &'a [Case], routers: &'a [Router]) -> Vec<Turn<'a>> {
    let mut out = Vec::new();
    for job in args.common.jobs(cases) {
        for router in routers {
            let several = routers.len() > 1;
            let folder = job.folder.as_ref().map(|f| if several { f.join(&router.label) } else { f.clone() });
            let label = if several { format!("{} {}", job.case.name, router.label) } else { job.case.name.clone() };
            out.push(Turn { job: Job { case: job.case, seed: job.seed, folder }, router, label });
        }
    }
    out
}

/// The command that makes one run.
fn command(turn: &Turn<'_>, args: &Args) -> String {
    let mut words = args.common.command("lab", &turn.job);
    if !args.routers.is_empty() {
        words.extend(["--router".into(), quoted(&turn.router.words)]);
    }
    if let Some(poll) = args.poll {
        words.extend(["--poll".into(), format!("{poll:?}").to_lowercase()]);
    }
    if args.in_guest {
        words.push("--virtual".into());
    }
    words.join(" ")
}

fn one(turn: &Turn<'_>, first: bool, args: &Args, senders: &[&str], interrupt: &Interrupt) -> Result<Done, Failure> {
    let text = &turn.job.case.text;
    let (scenario, _) = file::read(text, senders).map_err(|p| p.render(args.common.name(), text))?;
    if first {
        flows::warnings(&scenario).iter().for_each(|w| eprintln!("weir: warning: {w}"));
    }
    let poll = args.poll.unwrap_or(if cores().len() > 1 { Poll::Adaptive } else { Poll::Sleep });
    interrupt.check()?;
    let row = run::row(&scenario, &turn.router.kind).map_err(|e| e.to_string())?;
    let commands = run::commands(&row).map_err(|e| e.to_string())?;
    if first {
        commands.iter().for_each(|c| eprintln!("weir: {c}"));
    }
    let noise = noise::listen().map_err(|e| e.to_string())?;
    let too_fine = too_fine(&noise, &row);
    if first {
        too_fine.iter().for_each(|w| eprintln!("weir: warning: {w}"));
    }
    interrupt.check()?;
    let run = Run::start(Order {
        scenario: &scenario,
        seed: turn.job.seed,
        row: &row,
        manner: Manner { poll, compat: args.common.compat.into() },
        noise: Some(noise.echo.clone()),
    });
    let run = run.map_err(|e| e.to_string())?;
    interrupt.follow(run.course());
    let bar = follow(&turn.label, run.course());
    let result = run.finish();
    if let Some(bar) = bar {
        // It only draws.
        let _ = bar.join();
    }
    let result = result.map_err(|e| e.to_string())?;
    result.warnings.iter().for_each(|w| eprintln!("weir: warning: {w}"));
    let outcome = result.outcome;
    if let Some(folder) = &turn.job.folder {
        let floor = json!({
            "echo_ns": quantiles(&noise.echo),
            "wakeup_late_ns": quantiles(&noise.late),
            "too_fine": too_fine,
        });
        let written = write(folder, turn, &outcome, result.about, floor, args);
        written.map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    Ok(Done {
        text: format!("{}\n{}", summary::text(&outcome), summary::round_trips(&outcome)),
        json: summary::json(&outcome),
        figures: repeats::Figures::of(&outcome),
    })
}

/// What the machine is too coarse for, of what it shall do.
fn too_fine(noise: &Noise, row: &Row) -> Vec<String> {
    let legs = row.iter().flat_map(|(router, _)| router.legs.iter().zip(["down", "up"]).map(move |leg| (router, leg)));
    legs.flat_map(|(router, (leg, way))| noise.too_fine(&format!("{}.{way}", router.name), &leg.spec())).collect()
}

fn write(
    folder: &Path,
    turn: &Turn<'_>,
    outcome: &Outcome,
    about: Value,
    floor: Value,
    args: &Args,
) -> std::io::Result<()> {
    let builtin = args.common.builtin().is_some();
    let case = turn.job.case;
    let mut engine = json!({ "kind": "live", "router": turn.router.words });
    if let (Some(engine), Value::Object(about)) = (engine.as_object_mut(), about) {
        engine.extend(about);
        engine.insert("noise_floor".into(), floor);
    }
    let manifest = folder::Manifest {
        command: "weir lab",
        scenario: if builtin { args.common.name() } else { &case.name },
        case: builtin.then_some(case.name.as_str()),
        text: &case.text,
        compat: args.common.compat_word(),
        stopped_at: None,
        engine,
    };
    folder::write(folder, &manifest, outcome)
}

fn print(turns: &[Turn<'_>], done: &[Done], args: &Args) {
    if args.common.json {
        let run = |(t, d): (&Turn<'_>, &Done)| json!({ "case": t.job.case.name, "router": t.router.words, "seed": t.job.seed, "summary": d.json });
        println!("{:#}", Value::Array(turns.iter().zip(done).map(run).collect()));
        return;
    }
    if let [one] = done {
        print!("{}", one.text);
        return;
    }
    let named: Vec<(&str, &repeats::Figures)> =
        turns.iter().zip(done).map(|(t, d)| (t.label.as_str(), &d.figures)).collect();
    print!("{}", repeats::text(&named));
    if named.len() <= repeats::COLUMNS {
        for group in repeats::common_groups(&named) {
            print!("\n{group}\n{}", repeats::percentile_rows(&named, group));
        }
    }
}

/// SIGINT and SIGTERM end the run that goes on, and those after it.
struct Interrupt {
    state: Arc<Mutex<(bool, Option<Arc<Course>>)>>,
}

impl Interrupt {
    fn watch() -> std::io::Result<Interrupt> {
        let state = Arc::new(Mutex::new((false, None::<Arc<Course>>)));
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for _ in signals.forever() {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                state.0 = true;
                if let Some(course) = &state.1 {
                    course.interrupt();
                }
            }
        });
        Ok(Interrupt { state })
    }

    fn follow(&self, course: &Arc<Course>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(Arc::clone(course));
        if state.0 {
            course.interrupt();
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match self.state.lock().unwrap_or_else(PoisonError::into_inner).0 {
            true => Err(Failure::Run("interrupted".into())),
            false => Ok(()),
        }
    }
}

/// A bar on a terminal, for a run that takes more than two seconds.
fn follow(label: &str, course: &Arc<Course>) -> Option<thread::JoinHandle<()>> {
    const STEP: u64 = 200_000_000;
    if !std::io::stderr().is_terminal() || course.duration <= 2_000_000_000 {
        return None;
    }
    let bar = ProgressBar::new(course.duration / 1_000_000_000);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} s") {
        bar.set_style(style);
    }
    bar.set_message(label.to_string());
    bar.enable_steady_tick(Duration::from_secs(1));
    let course = Arc::clone(course);
    Some(thread::spawn(move || {
        while course.sleep_until(course.now() + STEP) {
            bar.set_position(course.now() / 1_000_000_000);
        }
        bar.finish_and_clear();
    }))
}
