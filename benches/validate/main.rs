//! The simulator against the laws that its senders are known by, and against what Linux does in the same experiments:
//! a line for each bound, and a page with pictures. `tools/validate` runs it.
//!
//! ```text
//! cargo bench --bench validate --no-default-features -- DIR
//! ```

mod kernel;
mod laws;
mod unseen;

use std::process::ExitCode;

use weir::pipeline::Link;
use weir::report::summary::table;
use weir::report::{escaped, page};
use weir::scenario::builtin;
use weir::scenario::file;
use weir::scenario::result::Outcome;
use weir::sim;

/// What was checked, in the order of the page.
#[derive(Default)]
pub(crate) struct Report {
    body: String,
    rows: Vec<Vec<String>>,
    checks: usize,
    missed: usize,
}

impl Report {
    /// Begins a section.
    pub(crate) fn section(&mut self, title: &str, about: &str) {
        self.rows_out();
        println!("\n== {title}");
        self.body += &format!("<h2>{title}</h2><p class=\"dim\">{about}</p>\n");
    }

    /// A figure that must lie between `low` and `high`.
    pub(crate) fn within(&mut self, what: &str, ours: f64, low: f64, high: f64) {
        self.row(what, &number(ours), &format!("{}..{}", number(low), number(high)), (low..=high).contains(&ours));
    }

    /// A figure that must be within `share` of `theirs`.
    pub(crate) fn near(&mut self, what: &str, ours: f64, theirs: f64, share: f64) {
        let off = ours / theirs - 1.0;
        let bound = format!("{} ± {} %, off by {:+.1} %", number(theirs), number(share * 100.0), off * 100.0);
        self.row(what, &number(ours), &bound, off.abs() <= share);
    }

    /// A row with a verdict.
    fn row(&mut self, what: &str, ours: &str, bound: &str, pass: bool) {
        let verdict = if pass { "pass" } else { "FAIL" };
        println!("{verdict}  {what:52} {ours:>9}  {bound}");
        self.rows.push([what, ours, bound, verdict].map(String::from).to_vec());
        self.checks += 1;
        self.missed += usize::from(!pass);
    }

    fn rows_out(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            rows.insert(0, ["", "ours", "bound", ""].map(String::from).to_vec());
            self.body += &format!("<pre>{}</pre>\n", escaped(&table(&rows)));
        }
    }

    /// Text as it stands.
    pub(crate) fn text(&mut self, text: &str) {
        self.rows_out();
        println!("{text}");
        self.body += &format!("<pre>{}</pre>\n", escaped(text));
    }

    /// A picture.
    pub(crate) fn picture(&mut self, title: &str, svg: &str) {
        self.rows_out();
        self.body += &format!("<h3>{title}</h3>{svg}\n");
    }
}

fn number(x: f64) -> String {
    let digits = match x.abs() {
        a if a >= 1000.0 || x == x.trunc() => 0,
        a if a >= 100.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    format!("{x:.digits$}")
}

/// Runs a scenario file.
pub(crate) fn run(text: &str, seed: u64) -> Outcome {
    let (scenario, _) = file::read(text, &sim::SENDERS).map_err(|p| p.render("validate", text)).expect("a scenario");
    sim::build(&scenario, seed, Link::default()).expect("known senders").run(None)
}

/// The cases of a built-in scenario with some parameters, each run with one seed.
pub(crate) fn cases(name: &str, params: &[(&str, &str)], seed: u64) -> Vec<(String, Outcome)> {
    let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let scenario = builtin::named(name).expect("a built-in scenario");
    let cases = builtin::cases(scenario, &given).expect("its parameters");
    cases.into_iter().map(|c| (c.name.clone(), run(&c.text, seed))).collect()
}

fn main() -> ExitCode {
    // Cargo adds --bench.
    let folder = std::env::args().skip(1).find(|a| !a.starts_with("--")).unwrap_or_else(|| "out/validate".into());
    let mut report = Report::default();
    laws::all(&mut report);
    kernel::all(&mut report);
    unseen::all(&mut report);
    report.rows_out();
    let about = format!("{} bounds, {} missed", report.checks, report.missed);
    let text = page::document("The simulator, validated", &about, &report.body);
    let path = std::path::Path::new(&folder).join("report.html");
    if let Err(e) = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text)) {
        eprintln!("{}: {e}", path.display());
        return ExitCode::FAILURE;
    }
    println!("\n{about}; {}", path.display());
    if report.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
