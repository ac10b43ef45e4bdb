//! What commands that run scenarios have in common: which cases, how often, and where to.

use std::path::{Path, PathBuf};

use weir::scenario::builtin::{self, Builtin, Case};
use weir::scenario::file;
use weir::spec::suggest;

use super::{CompatArg, Failure};

/// Arguments of every command that runs a scenario.
#[derive(clap::Args)]
pub(crate) struct ScenarioArgs {
    /// A scenario file, or the name of a built-in one (--list shows them)
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    scenario: Option<String>,
    /// Seed of everything random; repeats count on from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each case, with one seed after another
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,
    /// Write manifest, summary, series, distributions and report into this folder
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// A parameter of a built-in scenario
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Only this case of a scenario that has several
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Print one command per run instead of running, for parallel(1) or an array of jobs
    #[arg(long)]
    pub(crate) emit_jobs: bool,
    /// Print the scenario file instead of running it
    #[arg(long)]
    pub(crate) print: bool,
    /// Show the built-in scenarios and their parameters
    #[arg(long)]
    pub(crate) list: bool,
    /// Which kernel's decisions
    #[arg(long, default_value = "latest")]
    pub(crate) compat: CompatArg,
    /// JSON for programs
    #[arg(short, long)]
    pub(crate) json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not NAME=VALUE"))?;
    Ok((name.into(), value.into()))
}

/// One run of one case.
pub(crate) struct Job<'a> {
    pub(crate) case: &'a Case,
    pub(crate) seed: u64,
    /// Where it writes; the command may add to it.
    pub(crate) folder: Option<PathBuf>,
}

impl ScenarioArgs {
    /// The scenario as it was asked for.
    pub(crate) fn name(&self) -> &str {
        self.scenario.as_deref().unwrap_or_default()
    }

    /// The built-in scenario that was asked for, if it is one.
    pub(crate) fn builtin(&self) -> Option<&'static Builtin> {
        builtin::named(self.name())
    }

    /// Gives a parameter of a built-in scenario a value, unless it was given one. Says whether it did.
    #[cfg(feature = "xdp")]
    pub(crate) fn default_param(&mut self, name: &str, value: &str) -> bool {
        let missing = !self.params.iter().any(|(n, _)| n == name);
        if missing {
            self.params.push((name.into(), value.into()));
        }
        missing
    }

    /// The cases that are meant, each of which can be read; what should be said about them is said.
    pub(crate) fn cases(&self, senders: &[&str]) -> Result<Vec<Case>, Failure> {
        let cases = self.chosen()?;
        for case in &cases {
            let read = file::read(&case.text, senders);
            let (_, warnings) = read.map_err(|p| Failure::Words(p.render(self.name(), &case.text)))?;
            warnings.iter().for_each(|w| eprintln!("weir: warning: {w}"));
        }
        Ok(cases)
    }

    fn chosen(&self) -> Result<Vec<Case>, Failure> {
        let name = self.name();
        let mut cases = if let Some(b) = self.builtin() {
            builtin::cases(b, &self.params).map_err(Failure::Words)?
        } else if !Path::new(name).exists() {
            let known: Vec<&str> = builtin::ALL.iter().map(|b| b.name).collect();
            let hint = suggest::hint(name, known.iter().copied());
            return Err(Failure::Words(format!(
                "\"{name}\" is neither a file nor a built-in scenario{hint}\nbuilt in: {}",
                known.join(", ")
            )));
        } else {
            if let Some((p, _)) = self.params.first() {
                return Err(Failure::Words(format!("--param {p}: a scenario file has no parameters; edit it instead")));
            }
            let text = std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"))?;
            let stem = Path::new(name).file_stem().map_or(name.into(), |s| s.to_string_lossy().into_owned());
            vec![Case { name: stem, text }]
        };
        if let Some(only) = &self.case {
            let names: Vec<String> = cases.iter().map(|c| c.name.clone()).collect();
            cases.retain(|c| c.name == *only);
            if cases.is_empty() {
                return Err(Failure::Words(format!("--case {only}: {name} has {}", names.join(", "))));
            }
        }
        Ok(cases)
    }

    /// The runs: each case with each seed.
    pub(crate) fn jobs<'a>(&self, cases: &'a [Case]) -> Vec<Job<'a>> {
        let mut out = Vec::new();
        for case in cases {
            for r in 0..u64::from(self.repeat) {
                let seed = self.seed.wrapping_add(r);
                let folder = self.output.as_ref().map(|dir| {
                    let dir = if cases.len() > 1 { dir.join(&case.name) } else { dir.clone() };
                    if self.repeat > 1 { dir.join(format!("seed-{seed}")) } else { dir }
                });
                out.push(Job { case, seed, folder });
            }
        }
        out
    }

    /// Refuses a folder that has something in it: what two runs leave there would be read as one.
    pub(crate) fn check_output(&self) -> Result<(), Failure> {
        let Some(folder) = &self.output else { return Ok(()) };
        // What is hidden is no result: the guest's own things are there while it runs.
        let seen = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        };
        if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.any(seen)) {
            let folder = folder.display();
            return Err(Failure::Words(format!("-o {folder}: it is not empty; give another folder, or remove it")));
        }
        Ok(())
    }

    /// The words of a command that makes one run; the command may add to them.
    pub(crate) fn command(&self, command: &str, job: &Job<'_>) -> Vec<String> {
        let mut words = vec!["weir".into(), command.into(), quoted(self.name()), "--seed".into(), job.seed.to_string()];
        for (key, value) in &self.params {
            words.extend(["--param".into(), quoted(&format!("{key}={value}"))]);
        }
        if self.builtin().is_some() {
            words.extend(["--case".into(), quoted(&job.case.name)]);
        }
        if let CompatArg::V6_12 = self.compat {
            words.extend(["--compat".into(), self.compat_word().into()]);
        }
        if let Some(folder) = &job.folder {
            words.extend(["-o".into(), quoted(&folder.display().to_string())]);
        }
        words
    }

    /// Which kernel's decisions, as a word.
    pub(crate) fn compat_word(&self) -> &'static str {
        if let CompatArg::V6_12 = self.compat { "6.12" } else { "latest" }
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:,%".contains(&b));
    if plain && !word.is_empty() { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// The built-in scenarios with their parameters.
pub(crate) fn list(senders: &[&str]) -> String {
    let mut out = String::new();
    for b in builtin::ALL {
        out += &format!("{}: {}\n", b.name, b.title);
        for p in b.params {
            out += &format!("    --param {}={}    {}\n", p.name, p.default, p.help);
        }
    }
    out + &format!("senders: {}\n", senders.join(", "))
}
