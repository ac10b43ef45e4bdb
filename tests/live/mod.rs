//! What tests with namespaces share: namespaces that live in threads of this process and go with it, however it ends; a
//! weir that runs; a transfer that checks each byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir::run::nic::{IfName, NicFacts};

mod possible;
pub(crate) use possible::possible;

/// How long anything may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks again and again until there is nothing left to wait for; gives what there is
/// when patience ends.
pub(crate) fn settled<T>(mut look: impl FnMut() -> Result<(), T>) -> Result<(), T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            last => return last,
        }
    }
}

/// Waits until `what` is true.
pub(crate) fn wait_until(why: &str, mut what: impl FnMut() -> bool) {
    let found = settled(|| if what() { Ok(()) } else { Err(()) });
    assert!(found.is_ok(), "waited in vain until {why}");
}

/// The files in `/run/weir` whose names contain one of these words.
pub(crate) fn left_in_run(words: &[&str]) -> Vec<String> {
    let files = |dir: &str| -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(dir) else { return vec![] };
        entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    };
    let mut all = [files("/run/weir"), files("/run/weir/bpf")].concat();
    all.retain(|file| words.iter().any(|word| file.contains(word)));
    all
}

/// Runs a command and gives what it prints.
pub(crate) fn run(words: &str) -> String {
    let mut parts = words.split_whitespace();
    let program = parts.next().expect("a program");
    let output = Command::new(program).args(parts).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace with a thread in it.
pub(crate) struct Ns {
    jobs: Sender<Job>,
    /// The number of that thread, by which `ip` finds the namespace.
    pub(crate) thread: u32,
}

impl Ns {
    pub(crate) fn new() -> Ns {
        let (jobs, inbox) = channel::<Job>();
        let (told, tell) = channel();
        thread::spawn(move || {
            weir::sys::enter_new_network_namespace().expect("root may");
            let me = std::fs::read_link("/proc/thread-self").expect("/proc is there");
            let thread = me.file_name().and_then(|n| n.to_str()?.parse().ok()).expect("a number");
            told.send(thread).expect("somebody waits");
            run("ip link set lo up");
            inbox.into_iter().for_each(|job| job());
        });
        Ns { jobs, thread: tell.recv().expect("the namespace is made") }
    }

    /// Does something in the namespace.
    pub(crate) fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, wait) = channel();
        let job = move || {
            let _ = done.send(f());
        };
        self.jobs.send(Box::new(job)).expect("the namespace lives");
        wait.recv().expect("the job has not panicked")
    }

    /// Runs a command in the namespace.
    pub(crate) fn sh(&self, words: &str) -> String {
        let words = words.to_string();
        self.run(move || run(&words))
    }

    /// Runs a command of weir in the namespace that goes on; double quotes keep words together.
    pub(crate) fn weir(&self, words: &str) -> Weir {
        let words = shell_words(words);
        self.run(move || {
            let mut command = Command::new(weir_program());
            command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            Weir::of(command.spawn().expect("it is built"))
        })
    }

    /// Whether somebody answers a ping.
    pub(crate) fn reaches(&self, whom: impl std::fmt::Display) -> bool {
        let words = format!("-c 1 -W 1 {whom}");
        self.run(move || Command::new("ping").args(words.split(' ')).output().is_ok_and(|o| o.status.success()))
    }

    /// The number of the namespace, by which files in `/run/weir` are told apart.
    pub(crate) fn number(&self) -> String {
        self.run(|| weir::sys::namespace::network().expect("/proc")).to_string()
    }

    /// What `ethtool -k` says of all features of an interface, without its name.
    pub(crate) fn features(&self, nic: &str) -> Vec<String> {
        self.sh(&format!("ethtool -k {nic}")).lines().skip(1).map(String::from).collect()
    }

    /// What an interface is like.
    pub(crate) fn nic(&self, name: &str) -> NicFacts {
        let name: IfName = name.parse().expect("a name");
        self.run(move || NicFacts::inspect(&name).expect("it is there"))
    }
}

pub(crate) fn weir_program() -> &'static str {
    env!("CARGO_BIN_EXE_weir")
}

/// Words in which double quotes keep spaces together.
fn shell_words(line: &str) -> Vec<String> {
    let quoted = |(i, part): (usize, &str)| match i % 2 {
        0 => part.split_whitespace().map(String::from).collect(),
        _ => vec![part.to_string()],
    };
    line.split('"').enumerate().flat_map(quoted).collect()
}

/// A weir that runs.
pub(crate) struct Weir {
    child: Mutex<Child>,
    stderr: Arc<Mutex<String>>,
    all_said: Receiver<()>,
}

impl Weir {
    fn of(mut child: Child) -> Weir {
        let stderr = Arc::new(Mutex::new(String::new()));
        let (pipe, text) = (child.stderr.take().expect("piped"), Arc::clone(&stderr));
        let (end, all_said) = channel();
        thread::spawn(move || {
            let _end = end;
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut text = text.lock().expect("no panic");
                text.push_str(&line);
                text.push('\n');
            }
        });
        Weir { child: Mutex::new(child), stderr, all_said }
    }

    /// Waits until it shapes.
    pub(crate) fn runs(self) -> Weir {
        wait_until("weir runs", || {
            assert!(self.is_running(), "it ended: {}", self.said());
            self.said().contains("polling")
        });
        self
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().expect("no panic").id()
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.child.lock().expect("no panic").try_wait(), Ok(None))
    }

    /// What it has printed for people so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    pub(crate) fn signal(&self, name: &str) {
        run(&format!("kill -{name} {}", self.pid()));
    }

    /// Kills it without a warning.
    pub(crate) fn kill(self) {
        let mut child = self.child.lock().expect("no panic");
        child.kill().expect("ours to end");
        child.wait().expect("ended");
    }

    /// Ends it, and gives its report.
    pub(crate) fn end(self) -> Value {
        self.signal("INT");
        let (code, report) = self.wait();
        assert_eq!(code, 0);
        serde_json::from_str(&report).expect("JSON")
    }

    /// Waits for its end. Gives its exit code and what it printed for programs.
    pub(crate) fn wait(&self) -> (i32, String) {
        let mut text = String::new();
        let pipe = self.child.lock().expect("no panic").stdout.take();
        pipe.expect("piped").read_to_string(&mut text).expect("text");
        wait_until("weir ends", || !self.is_running());
        // Nothing is sent on it; it closes when all has been read.
        let _ = self.all_said.recv_timeout(PATIENCE);
        let status = self.child.lock().expect("no panic").wait().expect("ended");
        (status.code().expect("not by a signal"), text)
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A TCP transfer that goes on until it is stopped.
pub(crate) struct Transfer {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    ends: Vec<JoinHandle<()>>,
}

impl Transfer {
    /// From one namespace to an address of another.
    pub(crate) fn start(from: &Ns, to: &Ns, at: IpAddr) -> Transfer {
        let received = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::clone(&received);
        let (port, receiver) = to.run(move || {
            let listener = TcpListener::bind((at, 0)).expect("an address of ours");
            let port = listener.local_addr().expect("bound").port();
            (port, thread::spawn(move || receive(&listener, &count)))
        });
        let stopped = Arc::clone(&stop);
        let sender = from.run(move || thread::spawn(move || send(SocketAddr::from((at, port)), &stopped)));
        Transfer { received, stop, ends: vec![sender, receiver] }
    }

    /// Waits until so many bytes more have come.
    pub(crate) fn goes_on(&self, why: &str, bytes: u64) {
        let goal = self.received.load(Ordering::Relaxed) + bytes;
        wait_until(&format!("the transfer goes on {why}"), || self.received.load(Ordering::Relaxed) >= goal);
    }

    /// Ends it; every byte sent must have come, and no other.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ends.into_iter().for_each(|end| end.join().expect("both ends agree"));
    }
}

/// What is sent at a place in the stream.
fn byte_at(at: u64) -> u8 {
    (at % 251) as u8
}

fn send(to: SocketAddr, stop: &AtomicBool) {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).expect("connected");
    socket2::SockRef::from(&stream).set_tcp_congestion(b"cubic").expect("cubic is there");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    let mut at = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let block: Vec<u8> = (at..at + 16_384).map(byte_at).collect();
        stream.write_all(&block).expect("it goes on");
        at += block.len() as u64;
    }
}

fn receive(listener: &TcpListener, count: &AtomicU64) {
    let (mut stream, _) = listener.accept().expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut block = vec![0; 65_536];
    let mut at = 0u64;
    loop {
        let n = stream.read(&mut block).expect("it goes on");
        if n == 0 {
            return;
        }
        assert!(block[..n].iter().zip(at..).all(|(b, at)| *b == byte_at(at)), "the stream is as it was sent");
        at += n as u64;
        count.store(at, Ordering::Relaxed);
    }
}
