//! Scenarios: what is connected to what, who sends, and what is measured. Shared by the simulator
//! and the lab, which both know nothing of TOML.
//!
//! The topology is a row of nodes between clients and servers. Each node has a pipeline toward the
//! clients (`down`) and one toward the servers (`up`), so bottlenecks can stand in a row and in both
//! directions:
//!
//! ```text
//! clients ── node 0 ── node 1 ── … ── servers
//!          ⟵ down          up ⟶
//! ```

pub mod builtin;
pub mod draws;
pub mod file;
pub mod pages;
pub mod result;

use std::net::IpAddr;

use crate::spec::Spec;
use crate::time::SECOND;

/// A whole experiment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Short name, for folders.
    pub name: String,
    /// What it shows, for people.
    pub title: String,
    /// How long it runs, ns.
    pub duration: u64,
    /// Figures count from here on, ns.
    pub steady_from: u64,
    /// Width of a step of the series over time, ns.
    pub interval: u64,
    /// Ends as soon as every flow with a size is complete or given up.
    pub until_complete: bool,
    /// From the clients to the servers.
    pub nodes: Vec<Node>,
    /// Clients and servers.
    pub hosts: Vec<Host>,
    /// Who sends.
    pub flows: Vec<Flow>,
    /// Echo requests.
    pub pings: Vec<Ping>,
}

/// A node of the row.
#[derive(Clone, Debug)]
pub struct Node {
    /// For people.
    pub name: String,
    /// The pipeline toward the clients.
    pub down: Option<Spec>,
    /// The pipeline toward the servers.
    pub up: Option<Spec>,
    /// Rate of its line toward the clients, bits per second.
    pub down_line: Option<u64>,
    /// Rate of its line toward the servers, bits per second.
    pub up_line: Option<u64>,
    /// Time of flight behind it toward the clients, ns.
    pub down_delay: u64,
    /// Time of flight behind it toward the servers, ns.
    pub up_delay: u64,
    /// Changes while it runs.
    pub steps: Vec<Step>,
}

/// A change of a node's lines or delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, ns.
    pub at: u64,
    /// New rate toward the clients, bits per second.
    pub down_line: Option<u64>,
    /// New rate toward the servers, bits per second.
    pub up_line: Option<u64>,
    /// New time of flight toward the clients, ns.
    pub down_delay: Option<u64>,
    /// New time of flight toward the servers, ns.
    pub up_delay: Option<u64>,
}

/// Which end of the row a host is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Before the first node.
    Client,
    /// Behind the last.
    Server,
}

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    /// For people, and for flows to refer to.
    pub name: String,
    /// Where it is.
    pub side: Side,
    /// Its address.
    pub address: IpAddr,
    /// Time of flight of its own line, each way, ns.
    pub delay: u64,
}

/// What a flow does.
#[derive(Clone, Debug, PartialEq)]
pub enum App {
    /// TCP, as much as the window allows, or `size` bytes.
    Bulk {
        /// Bytes to send; `None` until the flow stops.
        size: Option<u64>,
        /// Toward the clients, or toward the servers.
        up: bool,
    },
    /// TCP: the client asks, the server answers, the client thinks.
    Request {
        /// Bytes of a question.
        request: u64,
        /// Bytes of an answer.
        response: u64,
        /// Mean time between an answer and the next question, ns; exponential.
        think: u64,
    },
    /// TCP: pages of several objects over a few connections at once, then reading time.
    Web {
        /// Mean reading time, ns; exponential.
        think: u64,
        /// Connections at once.
        connections: u32,
    },
    /// UDP at a constant rate.
    Constant {
        /// Bits of payload per second.
        rate: u64,
        /// Bytes of payload per datagram.
        packet: u32,
        /// Toward the clients, or toward the servers.
        up: bool,
    },
    /// UDP in bursts: mean lengths, exponential.
    OnOff {
        /// Bits of payload per second while on.
        rate: u64,
        /// Bytes of payload per datagram.
        packet: u32,
        /// Toward the clients, or toward the servers.
        up: bool,
        /// Mean time on, ns.
        on: u64,
        /// Mean time off, ns.
        off: u64,
    },
    /// Data-transfer frames of a layer whose paths listen to multi-bit ECN. All flows between the same
    /// two hosts, in the same direction and with the same `dscp` share one controller.
    Dtp(Dtp),
}

/// A flow of data-transfer frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dtp {
    /// Bytes of payload per frame.
    pub packet: u32,
    /// Toward the clients, or toward the servers.
    pub up: bool,
    /// Bits of payload per second; `None` for as much as the path allows.
    pub rate: Option<u64>,
    /// With acknowledgements and retransmission.
    pub reliable: bool,
    /// Name of the controller's parameters.
    pub controller: String,
    /// The destination answers nothing from the first moment to the second, ns.
    pub silent: Option<(u64, u64)>,
}

/// A flow, or several alike.
#[derive(Clone, Debug)]
pub struct Flow {
    /// For people; a number is added where `count` is more than one.
    pub name: String,
    /// How many.
    pub count: u32,
    /// The client, an index into the hosts.
    pub client: usize,
    /// The server; where several are named, flow i takes server i modulo their number.
    pub servers: Vec<usize>,
    /// What it does.
    pub app: App,
    /// When the first starts, ns.
    pub start: u64,
    /// How much later each next one starts, ns.
    pub every: u64,
    /// When all stop, ns; `None` at the end.
    pub stop: Option<u64>,
    /// TCP's choices.
    pub tcp: Tcp,
    /// Code point, 0…63.
    pub dscp: u8,
    /// Index of the first file line's span, for messages about it later.
    pub group: String,
}

/// How slow start ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlowStart {
    /// At a loss or a mark.
    Plain,
    /// HyStart, as Linux runs it.
    #[default]
    HyStart,
    /// HyStart++ (RFC 9406).
    HyStartPlusPlus,
}

/// Which estimator sets the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timer {
    /// RFC 6298 with Linux's floor of 200 ms.
    #[default]
    Rfc6298,
    /// Its arithmetic of 1988, without Karn's rule and floor.
    Jacobson,
    /// RFC 793's smoothed average.
    Rfc793,
}

/// TCP's choices.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Name of the congestion control.
    pub sender: String,
    /// Whether ECN is negotiated.
    pub ecn: bool,
    /// How slow start ends.
    pub slow_start: SlowStart,
    /// The retransmission timer.
    pub timer: Timer,
    /// What the receive window opens to at most, bytes.
    pub window: u64,
    /// Delayed acknowledgements.
    pub delayed_acks: bool,
    /// Timeouts in a row until it is given up; `None` for the stack's own number.
    pub retries: Option<u32>,
    /// Time without progress until it is given up, ns.
    pub patience: Option<u64>,
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            sender: "cubic".into(),
            ecn: false,
            slow_start: SlowStart::default(),
            timer: Timer::default(),
            window: 16 << 20,
            delayed_acks: true,
            retries: None,
            patience: None,
        }
    }
}

/// Echo requests from a client to a server.
#[derive(Clone, Debug)]
pub struct Ping {
    /// For people.
    pub name: String,
    /// The client.
    pub client: usize,
    /// The server.
    pub server: usize,
    /// Between requests, ns.
    pub interval: u64,
    /// Bytes of data behind the echo header.
    pub size: u32,
    /// First request, ns.
    pub start: u64,
    /// Code point, 0…63.
    pub dscp: u8,
}

/// Time between two datagrams of `packet` bytes at `rate` bits per second, ns.
pub fn gap(rate: u64, packet: u32) -> u64 {
    (u128::from(packet) * 8 * u128::from(SECOND) / u128::from(rate.max(1))) as u64
}

impl Scenario {
    /// One with nothing in it: a client, a server, no nodes, no flows.
    pub fn empty(name: &str) -> Self {
        let host = |name: &str, side, address: &str| Host {
            name: name.into(),
            side,
            address: address.parse().expect("an address"),
            delay: 0,
        };
        Scenario {
            name: name.into(),
            title: String::new(),
            duration: 30 * SECOND,
            steady_from: 5 * SECOND,
            interval: SECOND / 10,
            until_complete: false,
            nodes: Vec::new(),
            hosts: vec![host("cl", Side::Client, "10.0.1.2"), host("sv", Side::Server, "10.0.9.2")],
            flows: Vec::new(),
            pings: Vec::new(),
        }
    }

    /// The time of flight of a round trip without hosts' own lines, ns.
    pub fn base_rtt(&self) -> u64 {
        self.nodes.iter().map(|n| n.down_delay + n.up_delay).sum()
    }
}
