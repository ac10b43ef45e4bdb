//! `weir load dtp-send|dtp-recv`: the two ends of paths that listen to multi-bit ECN, over packet sockets.

use std::time::Duration;

use clap::Parser;
use serde::Serialize;
use weir::dtp::Tuning;
use weir::lab::dtp;
use weir::lab::dtp::load::{self, Received, Sent, Sink, Source};
use weir::run::nic::IfName;
use weir::stats::mb_ecn::{capacity, depth};

use super::Failure;
use super::load::{failed, seconds};

/// `weir load dtp-send …`
#[derive(Parser, Debug)]
pub(crate) struct Send {
    /// Interface to send from.
    interface: IfName,
    /// MAC address of the destination.
    #[arg(long, value_parser = dtp::mac, value_name = "MAC")]
    to: [u8; 6],
    /// MAC address of the source, if not the interface's: each is a path with a controller of its own.
    #[arg(long, value_parser = dtp::mac, value_name = "MAC")]
    from: Option<[u8; 6]>,
    /// Flows that share the path.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    flows: u16,
    /// How many of them are reliable, from the last on.
    #[arg(long, default_value_t = 0, value_name = "N")]
    reliable: u16,
    /// Bytes of payload in a frame.
    #[arg(long, default_value_t = 1400, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(9..=1449))]
    payload: u16,
    /// How long the first flow sends, seconds.
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
    duration: Duration,
    /// Each next flow starts so much later, and ends so much earlier, seconds.
    #[arg(long, default_value = "0", value_parser = seconds, value_name = "SECONDS")]
    stagger: Duration,
    /// Parameters of the controller: scaled, or reference.
    #[arg(long, default_value = "scaled", value_parser = tuning, value_name = "NAME")]
    controller: Tuning,
    /// JSON for programs, with the controller's state ten times a second.
    #[arg(short, long)]
    json: bool,
}

/// `weir load dtp-recv …`
#[derive(Parser, Debug)]
pub(crate) struct Recv {
    /// Interface to receive at.
    interface: IfName,
    /// MAC address of the destination, if not the interface's.
    #[arg(long = "as", value_parser = dtp::mac, value_name = "MAC")]
    mac: Option<[u8; 6]>,
    /// Bytes of payload in a frame.
    #[arg(long, default_value_t = 1400, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(9..=1449))]
    payload: u16,
    /// Ends after so many seconds at the latest.
    #[arg(long, default_value = "600", value_parser = seconds, value_name = "SECONDS")]
    duration: Duration,
    /// What comes so soon after the first frame does not count, seconds.
    #[arg(long, default_value = "2", value_parser = seconds, value_name = "SECONDS")]
    skip: Duration,
    /// Ends when nothing came for so long, seconds.
    #[arg(long, default_value = "2", value_parser = seconds, value_name = "SECONDS")]
    idle: Duration,
    /// Parameters of the senders' controllers: scaled, or reference.
    #[arg(long, default_value = "scaled", value_parser = tuning, value_name = "NAME")]
    controller: Tuning,
    /// JSON for programs.
    #[arg(short, long)]
    json: bool,
}

fn tuning(name: &str) -> Result<Tuning, String> {
    Tuning::named(name).ok_or_else(|| format!("allowed: {}", Tuning::ALL.map(|t| t.name).join(", ")))
}

fn as_json(value: &impl Serialize) {
    println!("{}", serde_json::to_string_pretty(value).unwrap_or_default());
}

impl Send {
    /// Sends until all flows are over.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.reliable > self.flows {
            return Err(Failure::Words("--reliable: there are not so many --flows".into()));
        }
        if self.stagger * 2 * u32::from(self.flows - 1) >= self.duration {
            return Err(Failure::Words(
                "--stagger: the last flow would end before it starts; make --duration longer".into(),
            ));
        }
        let from = self.from.map_or_else(|| dtp::mac_of(&self.interface), Ok).map_err(failed)?;
        let source = Source {
            interface: self.interface,
            from,
            to: self.to,
            flows: self.flows,
            reliable: self.reliable,
            payload: self.payload,
            duration: self.duration,
            stagger: self.stagger,
            tuning: self.controller,
        };
        let sent = load::send(&source).map_err(failed)?;
        if self.json {
            as_json(&sent);
        } else {
            print!("{}", sent_text(&sent));
        }
        Ok(())
    }
}

fn sent_text(sent: &Sent) -> String {
    let frames: Vec<String> = sent.frames.iter().map(u64::to_string).collect();
    let mut out = format!(
        "frames by flow: {}; sent again {}; updates {}; round trip {:.1} ms\n",
        frames.join(" "),
        sent.retransmissions,
        sent.updates,
        sent.rtt_ms
    );
    if let Some(last) = sent.looks.last() {
        out += &format!("Upstream congestion level: {}\n", last.ece);
        out += &format!("Paced rate (bytes/s): {:.0}\n", last.rate);
        out += &format!("Current congestion regime: {}\n", last.regime);
        out += &format!("Path capacity (bytes/s): {}\n", last.capacity);
    }
    out
}

impl Recv {
    /// Receives until nothing comes any more.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mac = self.mac.map_or_else(|| dtp::mac_of(&self.interface), Ok).map_err(failed)?;
        let sink = Sink {
            interface: self.interface,
            mac,
            payload: self.payload,
            duration: self.duration,
            skip: self.skip,
            idle: self.idle,
            tuning: self.controller,
        };
        let received = load::receive(&sink).map_err(failed)?;
        if self.json {
            as_json(&received);
        } else {
            print!("{}", received_text(&received));
        }
        Ok(())
    }
}

fn received_text(r: &Received) -> String {
    let mut out = String::new();
    for f in &r.flows {
        out += &format!("{} flow {}: {:.3} Mbit/s\n", f.source, f.flow, f.goodput / 1e6);
    }
    let sources: Vec<String> = r.sources.iter().map(|s| format!("{:.3}", s / 1e6)).collect();
    out += &format!(
        "by source: {} Mbit/s; Jain per source {:.4}, per flow {:.4}\n",
        sources.join(" "),
        r.jain_sources,
        r.jain_flows
    );
    out + &format!(
        "mean depth {:.2} packets, codes {} to {}; capacity {}; updates {}\n",
        r.mean_depth,
        depth(r.depth_codes.0),
        depth(r.depth_codes.1),
        capacity(r.capacity_codes.1),
        r.updates
    )
}
