//! The control socket of a running instance, and how others find and ask it.
//!
//! `/run/weir/NAME.sock`, for its owner only. A connection carries one request and its answer, each
//! a line of JSON. The instance answers between other work of its main thread, with what its
//! workers said between two packets; a client that is slow or silent is left alone after a second.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{hist, kept};
use crate::spec::{self, Spec};
use crate::stats::report::Report;

/// How long an instance waits for its client.
const CLIENT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a client waits for its instance.
const INSTANCE_PATIENCE: Duration = Duration::from_secs(5);
/// The longest request, in bytes.
const LONGEST_REQUEST: u64 = 1 << 16;

/// What can be asked of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Who it is: an [`Info`].
    Info,
    /// Its figures: `text`, and `qdiscs` as tc's array.
    Stats,
    /// Its histograms: `files`, each with `name` and `content`.
    Hist,
    /// Other parameters for one direction or both.
    Change {
        /// The new specification toward INSIDE.
        down: Option<String>,
        /// The new specification toward OUTSIDE.
        up: Option<String>,
    },
    /// Every arrival and its outcome into tables in this directory, for so many seconds.
    Log {
        /// An absolute path.
        directory: PathBuf,
        /// How long at most.
        seconds: f64,
    },
    /// The end of that, if it has not come by itself; `lines` for people.
    EndLog,
    /// An orderly end.
    Stop,
}

/// Who an instance is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// OUTSIDE and INSIDE.
    pub nics: [String; 2],
    /// Seconds since it started.
    pub seconds: f64,
    /// The specifications in force, toward INSIDE and toward OUTSIDE.
    pub down: String,
    /// See `down`.
    pub up: String,
}

/// What answers for an instance.
pub trait Instance {
    /// Who it is.
    fn info(&self) -> Info;

    /// Its directions, each at one moment.
    ///
    /// # Errors
    /// If a worker has ended.
    fn reports(&mut self) -> Result<Vec<Report>, String>;

    /// The specifications in force, down and up.
    fn specs(&self) -> [Spec; 2];

    /// Takes new parameters; both directions or none. The kinds are the same.
    ///
    /// # Errors
    /// Why not.
    fn change(&mut self, specs: [Option<Spec>; 2]) -> Result<(), String>;

    /// Writes every arrival and its outcome into tables in a directory, for so many seconds.
    ///
    /// # Errors
    /// Why not.
    fn log(&mut self, directory: &Path, seconds: f64) -> Result<(), String>;

    /// Ends that, if it goes on; gives lines about what was written.
    ///
    /// # Errors
    /// There was no log, or what went wrong with it.
    fn end_log(&mut self) -> Result<Vec<String>, String>;
}

/// An instance's end of the socket; the file is gone when dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.sock"))
}

/// Where a socket stands while it is not to be found, each time another: a draft with the number of our process, so that
/// it is swept if we die.
fn aside(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{n}.{}.draft", std::process::id()))
}

/// Takes away what a dead instance left. Whoever began meanwhile under the same name gets its socket back at once.
fn take_away(path: &Path) -> io::Result<()> {
    let aside = aside(path);
    match std::fs::rename(path, &aside) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    }
    let back = match UnixStream::connect(&aside) {
        Ok(_) => std::fs::hard_link(&aside, path),
        Err(_) => Ok(()),
    };
    kept::remove(&aside).and(back)
}

impl Server {
    /// Opens the socket of an instance. What a dead one left under its name is taken away.
    ///
    /// # Errors
    /// `AddrInUse` if somebody who lives answers there, or what the file system says.
    pub fn bind(directory: &Path, name: &str) -> io::Result<Server> {
        std::fs::create_dir_all(directory)?;
        let path = path(directory, name);
        let running = || io::Error::new(io::ErrorKind::AddrInUse, format!("{name} is running"));
        match UnixStream::connect(&path) {
            Ok(_) => return Err(running()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(_) => take_away(&path)?,
        }
        // Nobody sees it before it listens: between the two it looks like a dead one.
        let draft = aside(&path);
        kept::remove(&draft)?;
        let listener = UnixListener::bind(&draft)?;
        let ready = std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| std::fs::hard_link(&draft, &path));
        kept::remove(&draft)?;
        match ready {
            Ok(()) => Ok(Server { listener, path }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(running()),
            Err(e) => Err(e),
        }
    }

    /// Answers all who wait, and says whether one of them wants the instance to end.
    pub fn serve(&self, instance: &mut dyn Instance) -> bool {
        let mut stop = false;
        while let Ok((client, _)) = self.listener.accept() {
            // A client that breaks off is its own problem.
            stop |= serve_one(client, instance).unwrap_or(false);
        }
        stop
    }
}

impl AsFd for Server {
    /// Readable when somebody asks.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Somebody may have taken it away already.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve_one(mut client: UnixStream, instance: &mut dyn Instance) -> io::Result<bool> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(CLIENT_PATIENCE))?;
    client.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&client).take(LONGEST_REQUEST)).read_line(&mut line)?;
    let request = serde_json::from_str(&line).map_err(|e| format!("not a request: {e}"));
    let stop = request == Ok(Request::Stop);
    let answer = match request.and_then(|r| answer(r, instance)) {
        Ok(value) => json!({ "ok": value }),
        Err(why) => json!({ "error": why }),
    };
    client.write_all(format!("{answer}\n").as_bytes())?;
    Ok(stop)
}

fn answer(request: Request, instance: &mut dyn Instance) -> Result<Value, String> {
    match request {
        Request::Info => serde_json::to_value(instance.info()).map_err(|e| e.to_string()),
        Request::Stop => Ok(Value::Null),
        Request::Stats => {
            let reports = instance.reports()?;
            let text: String = reports.iter().map(Report::text).collect();
            let qdiscs: Vec<Value> = reports.iter().flat_map(Report::qdiscs).collect();
            Ok(json!({ "text": text, "qdiscs": qdiscs }))
        }
        Request::Hist => {
            let name = instance.info().name;
            let files = hist::files(&name, &instance.reports()?).map_err(|e| e.to_string())?;
            let files: Vec<_> =
                files.into_iter().map(|(name, content)| json!({ "name": name, "content": content })).collect();
            Ok(json!({ "files": files }))
        }
        Request::Log { directory, seconds } => {
            if !(directory.is_absolute() && seconds > 0.0 && seconds <= 1e9) {
                return Err("a log wants an absolute path and a number of seconds".into());
            }
            instance.log(&directory, seconds).map(|()| Value::Null)
        }
        Request::EndLog => instance.end_log().map(|lines| json!({ "lines": lines })),
        Request::Change { down, up } => {
            let wanted = [checked("down", down, &instance.specs()[0])?, checked("up", up, &instance.specs()[1])?];
            if wanted.iter().all(Option::is_none) {
                return Err("nothing to change: give --down SPEC, --up SPEC or both".into());
            }
            let mut warnings = Vec::new();
            let [down, up] = wanted.map(|w| w.map(|parsed| (warnings.extend(parsed.warnings), parsed.spec).1));
            instance.change([down, up])?;
            let info = instance.info();
            Ok(json!({ "down": info.down, "up": info.up, "warnings": warnings }))
        }
    }
}

/// Reads a specification that shall take the place of another.
fn checked(direction: &str, line: Option<String>, now: &Spec) -> Result<Option<spec::Parsed>, String> {
    let Some(line) = line else { return Ok(None) };
    let parsed = spec::parse(&line).map_err(|e| format!("{direction}: {}", e.render(&line)))?;
    if !parsed.spec.same_kind(now) {
        let kinds = |s: &Spec| s.stages().iter().map(|s| s.kind()).collect::<Vec<_>>().join(" | ");
        return Err(format!(
            "{direction}: {} is at work and {} is wanted; only parameters can change at run time. \
             For other stages end the instance and start it anew",
            kinds(now),
            kinds(&parsed.spec)
        ));
    }
    Ok(Some(parsed))
}

/// Asks an instance.
///
/// # Errors
/// In words: that there is no such instance, that it does not answer, or what it answers.
pub fn ask(directory: &Path, name: &str, request: &Request) -> Result<Value, String> {
    let mut stream = UnixStream::connect(path(directory, name)).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => no_such(directory, name),
        io::ErrorKind::PermissionDenied => format!("{name} belongs to somebody else: call it as root"),
        _ => format!("{name}: {e}"),
    })?;
    let silent = |e: io::Error| match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!(
                "{name} does not answer; is its process stopped? `pgrep -a weir` shows its number, `kill -CONT` wakes it"
            )
        }
        _ => format!("{name}: {e}"),
    };
    stream.set_read_timeout(Some(INSTANCE_PATIENCE)).map_err(silent)?;
    let line = serde_json::to_string(request).map_err(|e| e.to_string())?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(silent)?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).map_err(silent)?;
    let answer: Value = serde_json::from_str(&answer).map_err(|_| format!("{name} ended before it answered"))?;
    match (answer.get("ok"), answer.get("error").and_then(Value::as_str)) {
        (Some(ok), _) => Ok(ok.clone()),
        (_, Some(why)) => Err(why.to_string()),
        _ => Err(format!("{name} gave an answer without sense: {answer}")),
    }
}

fn no_such(directory: &Path, name: &str) -> String {
    let there = names(directory);
    if there.is_empty() {
        return format!("no instance {name}: none is running");
    }
    format!("no instance {name}: there is {}", there.join(", "))
}

/// The names of the instances that run, in order. What dead ones left is taken away.
pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names = Vec::new();
    for path in entries.flatten().map(|e| e.path()) {
        let (Some("sock"), Some(name)) = (path.extension().and_then(|e| e.to_str()), path.file_stem()) else {
            continue;
        };
        match UnixStream::connect(&path) {
            // Only its owner may do this, and only for the owner it matters.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => drop(take_away(&path)),
            _ => names.push(name.to_string_lossy().into_owned()),
        }
    }
    names.sort();
    names
}

/// The instance that is meant: the one named, or the only one.
///
/// # Errors
/// In words: none is running, or which there are.
pub fn choose(directory: &Path, name: Option<&str>) -> Result<String, String> {
    if let Some(name) = name {
        return Ok(name.to_string());
    }
    let mut there = names(directory);
    match there.len() {
        0 => Err("no instance is running".into()),
        1 => Ok(there.remove(0)),
        n => Err(format!("{n} instances are running, say which: {}", there.join(", "))),
    }
}

#[cfg(test)]
mod tests;
