//! A scenario's flows on real sockets: a thread for each end of each flow, in its host's namespace.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::Error;
use super::congestion_control::{DCTCP_ECT1, is_replaced};
use super::course::{Course, Meter};
use super::space::Space;
use super::watch::Watch;
use super::{dtp, ping, tcp_flow, udp_flow};
use crate::rng::Random;
use crate::scenario::draws::{self, Draws};
use crate::scenario::{App, Dtp, Flow, Ping, Scenario, SlowStart, Tcp, Timer};
use crate::time::MILLISECOND;

/// The port of the first flow.
const FIRST_PORT: u16 = 20_000;

/// One flow with its two ends.
#[derive(Clone)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The line of the scenario it came from.
    pub group: String,
    /// What it does.
    pub app: App,
    /// When it starts, ns.
    pub start: u64,
    /// When it stops, ns; the end of the run at the latest.
    pub stop: u64,
    /// TCP's choices.
    pub tcp: Tcp,
    /// What the kernel calls its congestion control.
    pub control: String,
    /// Whether its packets have ECT(1) where the kernel says ECT(0).
    pub ect1: bool,
    /// Code point.
    pub dscp: u8,
    /// Seed of what is random in it, as in the simulator.
    pub seed: u64,
    /// Index of the client among the hosts.
    pub client: usize,
    /// Index of the server.
    pub server: usize,
    /// Where the server listens.
    pub at: SocketAddr,
}

impl Task {
    /// Whether its bytes go toward the servers.
    pub fn up(&self) -> bool {
        match self.app {
            App::Bulk { up, .. } | App::Constant { up, .. } | App::OnOff { up, .. } => up,
            App::Request { .. } | App::Web { .. } => false,
            App::Dtp(ref dtp) => dtp.up,
        }
    }

    /// Whether it is datagrams.
    pub fn is_udp(&self) -> bool {
        matches!(self.app, App::Constant { .. } | App::OnOff { .. })
    }

    /// What it is in the layer that listens to multi-bit ECN, if it is there.
    pub fn dtp(&self) -> Option<&Dtp> {
        if let App::Dtp(dtp) = &self.app { Some(dtp) } else { None }
    }

    /// Whether it is the kernel's TCP.
    pub fn is_tcp(&self) -> bool {
        !self.is_udp() && self.dtp().is_none()
    }

    /// What sends, for people.
    pub fn kind(&self) -> &str {
        match self.app {
            App::Dtp(_) => "dtp",
            _ if self.is_udp() => "udp",
            _ if self.ect1 => DCTCP_ECT1,
            _ => &self.tcp.sender,
        }
    }
}

/// What one end did.
pub struct End {
    /// What arrived there.
    pub meter: Meter,
    /// Times from question to answer, ns.
    pub times: Vec<u64>,
    /// When it had all, ns after the begin.
    pub completed: Option<u64>,
    /// Whether the kernel gave the connection up.
    pub aborted: bool,
    /// Datagrams sent.
    pub sent: u64,
    /// … and received.
    pub received: u64,
    /// Frames that were sent again by us and not by the kernel: whole run, steady part.
    pub retransmissions: [u64; 2],
}

impl End {
    /// One at which nothing has happened.
    pub fn new(course: &Course) -> End {
        End {
            meter: Meter::new(course),
            times: Vec::new(),
            completed: None,
            aborted: false,
            sent: 0,
            received: 0,
            retransmissions: [0, 0],
        }
    }
}

/// A flow under way.
pub struct Running {
    /// What it is.
    pub task: Task,
    /// Its sender, if it is TCP.
    pub watch: Option<Arc<Watch>>,
    client: Receiver<Result<End, Error>>,
    server: Receiver<Result<End, Error>>,
}

/// Where an end of a flow is awaited.
pub(super) type Told = Sender<Result<End, Error>>;

impl Running {
    /// A flow whose ends, the client's and the server's, will be told.
    pub(super) fn awaited(task: &Task) -> (Running, [Told; 2]) {
        let ((told_client, client), (told_server, server)) = (channel(), channel());
        (Running { task: task.clone(), watch: None, client, server }, [told_client, told_server])
    }

    /// Waits for both ends: the client's and the server's.
    ///
    /// # Errors
    /// What went wrong at one of them.
    pub fn ends(&self) -> Result<[End; 2], Error> {
        let end = |from: &Receiver<_>| from.recv().unwrap_or_else(|_| Err(Error::panicked("an end of a flow")));
        Ok([end(&self.client)?, end(&self.server)?])
    }
}

/// The flows of a scenario, one by one.
///
/// # Errors
/// One that the lab cannot do: the line of the scenario and why.
pub fn tasks(scenario: &Scenario, seed: u64) -> Result<Vec<Task>, Error> {
    let mut random = draws::of_run(seed);
    let mut out: Vec<Task> = Vec::new();
    for flow in &scenario.flows {
        let refuse = |why: &str| Err(Error::new(format_args!("flow {}", flow.name), why));
        match flow.app {
            App::Dtp(ref dtp) if dtp.packet > dtp::LONGEST => {
                return refuse(&format!(
                    "packet: no more than {} bytes fit into a frame of 1514 in the lab",
                    dtp::LONGEST
                ));
            }
            App::Constant { packet, .. } | App::OnOff { packet, .. } if (packet as usize) < udp_flow::STAMP => {
                return refuse("packet: the lab's datagrams carry number and time, 16 bytes");
            }
            _ => {}
        }
        for i in 0..flow.count {
            out.push(task(scenario, flow, i, out.len(), &mut random)?);
        }
    }
    Ok(out)
}

fn task(scenario: &Scenario, flow: &Flow, i: u32, number: usize, random: &mut Random) -> Result<Task, Error> {
    let server = flow.servers[i as usize % flow.servers.len()];
    let port = u16::try_from(number).ok().and_then(|n| FIRST_PORT.checked_add(n));
    let port = port.ok_or_else(|| Error::new(format_args!("flow {}", flow.name), "more flows than ports"))?;
    let draws = Draws::next(&flow.app, random);
    Ok(Task {
        name: if flow.count == 1 { flow.name.clone() } else { format!("{}-{}", flow.name, i + 1) },
        group: flow.group.clone(),
        app: flow.app.clone(),
        start: flow.start + flow.every * u64::from(i) + draws.jitter,
        stop: flow.stop.unwrap_or(scenario.duration).min(scenario.duration),
        control: flow.tcp.sender.clone(),
        tcp: flow.tcp.clone(),
        ect1: is_replaced(&flow.tcp.sender),
        dscp: flow.dscp,
        seed: draws.first().app,
        client: flow.client,
        server,
        at: SocketAddr::new(scenario.hosts[server].address, port),
    })
}

/// What a scenario says and the kernel's TCP does not take from us, for people.
pub fn warnings(scenario: &Scenario) -> Vec<String> {
    let mut out = Vec::new();
    if scenario.flows.iter().any(|f| is_replaced(&f.tcp.sender)) {
        out.push(format!("this kernel has no prague: {DCTCP_ECT1}, DCTCP with ECT(1), takes its place"));
    }
    for flow in &scenario.flows {
        let d = Tcp::default();
        let mut said = |there: bool, word: &str| {
            if there {
                out.push(format!("flow {}: {word} is the simulator's; the kernel's TCP has its own", flow.name));
            }
        };
        said(flow.tcp.slow_start != SlowStart::default(), "slow-start");
        said(flow.tcp.timer != Timer::default(), "timer");
        said(flow.tcp.delayed_acks != d.delayed_acks, "delayed-acks");
        said(flow.tcp.retries.is_some(), "retries");
    }
    if scenario.pings.iter().any(|p| p.size != 56) {
        out.push("pings of the lab have 56 bytes of data".into());
    }
    out
}

/// Starts the threads of a flow. The server's end listens when this returns.
///
/// # Errors
/// The server's end cannot listen.
pub fn start(task: &Task, hosts: &[Space], asks: &[Arc<Mutex<()>>], course: &Arc<Course>) -> Result<Running, Error> {
    let watch = task.is_tcp().then(|| Watch::new(course));
    let (up, seen) = (task.up(), watch.clone());
    // The sender's end is the one that is looked at.
    let [for_client, for_server] = if up { [seen, None] } else { [None, seen] };
    let (running, [told_client, told_server]) = Running::awaited(task);

    let (this, c) = (task.clone(), Arc::clone(course));
    hosts[task.server].run(move || {
        let listening = if this.is_udp() {
            udp_flow::Server::new(&this).map(tcp_flow::Either::Udp)
        } else {
            tcp_flow::Server::new(&this).map(tcp_flow::Either::Tcp)
        };
        listening.map(|listening| {
            thread::spawn(move || {
                let end = match listening {
                    tcp_flow::Either::Udp(server) => server.run(&this, &c),
                    tcp_flow::Either::Tcp(server) => server.run(&this, &c, for_server.as_deref()),
                };
                // Nobody waits any more if the run has failed elsewhere.
                let _ = told_server.send(noted(end, &c));
            });
        })
    })??;

    let (this, c, asks) = (task.clone(), Arc::clone(course), Arc::clone(&asks[task.client]));
    hosts[task.client].run(move || {
        thread::spawn(move || {
            let end = match (c.sleep_until(this.start), this.is_udp()) {
                (false, _) => Ok(End::new(&c)),
                (true, true) => udp_flow::client(&this, &c),
                (true, false) => tcp_flow::client(&this, &c, &asks, for_client.as_deref()),
            };
            let _ = told_client.send(noted(end, &c));
        });
    })?;
    Ok(Running { watch, ..running })
}

/// One flow that fails ends the run.
pub(super) fn noted<T>(end: Result<T, Error>, course: &Course) -> Result<T, Error> {
    if let Err(e) = &end {
        course.fail(e);
    }
    end
}

/// Echo requests under way.
pub struct Pinging {
    /// What they are.
    pub ping: Ping,
    done: Receiver<Result<End, Error>>,
}

impl Pinging {
    /// Starts them.
    ///
    /// # Errors
    /// The client's namespace is gone.
    pub fn start(ping: &Ping, scenario: &Scenario, hosts: &[Space], course: &Arc<Course>) -> Result<Pinging, Error> {
        let (told, done) = channel();
        let to = scenario.hosts[ping.server].address;
        let (this, c) = (ping.clone(), Arc::clone(course));
        hosts[ping.client].run(move || {
            thread::spawn(move || {
                let _ = told.send(noted(echo(&this, to, &c), &c));
            });
        })?;
        Ok(Pinging { ping: ping.clone(), done })
    }

    /// Waits for their end.
    ///
    /// # Errors
    /// No socket for them.
    pub fn end(&self) -> Result<End, Error> {
        self.done.recv().unwrap_or_else(|_| Err(Error::panicked("a pinger")))
    }
}

fn echo(ping: &Ping, to: std::net::IpAddr, course: &Course) -> Result<End, Error> {
    let mut end = End::new(course);
    if !course.sleep_until(ping.start) {
        return Ok(end);
    }
    let left = course.duration.saturating_sub(course.now());
    let ns = std::time::Duration::from_nanos;
    let plan = ping::PingPlan {
        to,
        every: ns(ping.interval),
        duration: ns(left),
        wait: ns(200 * MILLISECOND),
        tos: ping.dscp << 2,
    };
    let (mut meter, mut received) = (Meter::new(course), 0);
    end.sent = ping::ping_each(&plan, course.early_end(), |sent, rtt| {
        received += 1;
        meter.took(course.at(sent), rtt.as_nanos() as u64);
    })?;
    (end.meter, end.received) = (meter, received);
    Ok(end)
}
