//! A network namespace of the lab's own. It has no name and lives in a thread of this process, so it goes with the process,
//! however that ends.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::Error;

/// How often an interface is looked at until it is up, and how long not between.
const UP_TRIES: u32 = 500;
const UP_PAUSE: Duration = Duration::from_millis(10);

type Job = Box<dyn FnOnce() + Send>;

/// A namespace, and the thread in it that does what is asked.
pub struct Space {
    jobs: Sender<Job>,
    thread: u32,
}

impl Space {
    /// An empty one with its loopback interface up.
    ///
    /// # Errors
    /// Who is not root may not make one.
    pub fn new() -> Result<Space, Error> {
        let (jobs, inbox) = channel::<Job>();
        let (told, tell) = channel();
        thread::spawn(move || {
            let entered = crate::sys::enter_new_network_namespace().and_then(|()| thread_number());
            let fine = entered.is_ok();
            // Whoever waits is there: the caller, below.
            let _ = told.send(entered);
            if fine {
                inbox.into_iter().for_each(|job| job());
            }
        });
        let entered = tell.recv().map_err(|_| Error::panicked("a namespace's thread"))?;
        let thread = entered.map_err(Error::when("cannot make a network namespace (as root, it can be)"))?;
        let space = Space { jobs, thread };
        space.ip("link set lo up\n")?;
        Ok(space)
    }

    /// The thread's number: `ip link set … netns NUMBER` moves an interface here.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// Does something in the namespace; threads and processes started by it are there, too.
    ///
    /// # Errors
    /// It panicked.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let (done, wait) = channel();
        let job = move || {
            // Nobody waits any more if the caller's thread is gone.
            let _ = done.send(f());
        };
        let panicked = || Error::panicked("what ran in a namespace");
        self.jobs.send(Box::new(job)).map_err(|_| panicked())?;
        wait.recv().map_err(|_| panicked())
    }

    /// Lines for `ip -batch`.
    ///
    /// # Errors
    /// What `ip` says to the first line it cannot do.
    pub fn ip(&self, lines: &str) -> Result<(), Error> {
        let lines = lines.to_string();
        self.run(move || feed("ip", &["-batch", "-"], &lines).map(drop))?
    }

    /// Runs a command to its end and gives what it prints.
    ///
    /// # Errors
    /// It is not there, or says no.
    pub fn command(&self, program: &str, words: &[&str]) -> Result<String, Error> {
        let (program, words) = (program.to_string(), words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
        self.run(move || feed(&program, &words.iter().map(String::as_str).collect::<Vec<_>>(), ""))?
    }

    /// Waits until an interface takes what is sent: it does so a moment after it was set up, and drops what comes before.
    ///
    /// # Errors
    /// It does not within some seconds: its other end is not up.
    pub fn wait_until_up(&self, name: &str) -> Result<(), Error> {
        for _ in 0..UP_TRIES {
            if self.command("ip", &["-o", "link", "show", "dev", name])?.contains(" state UP ") {
                return Ok(());
            }
            thread::sleep(UP_PAUSE);
        }
        Err(Error::new(format_args!("interface {name}"), "its other end does not come up"))
    }

    /// Sets a kernel parameter of this namespace; `net.ipv4.tcp_ecn`.
    ///
    /// # Errors
    /// The kernel does not know it or not that value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let (name, value) = (name.to_string(), value.to_string());
        self.run(move || {
            std::fs::write(&path, &value).map_err(Error::when(format_args!("cannot set {name} to '{value}'")))
        })?
    }
}

fn thread_number() -> std::io::Result<u32> {
    let me = std::fs::read_link("/proc/thread-self")?;
    let number = me.file_name().and_then(|n| n.to_str()?.parse().ok());
    number.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Runs a program in the calling thread's namespace with something to read.
pub(super) fn feed(program: &str, words: &[&str], input: &str) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let missing = || Error::when(format!("cannot run {program}; `tools/setup` installs what the lab needs"));
    let mut child = command.spawn().map_err(missing())?;
    if let Some(mut pipe) = child.stdin.take() {
        // If it does not read to the end, it says why itself.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format_args!("{program} {}", words.join(" ")), said.trim().lines().next().unwrap_or("failed")))
}
