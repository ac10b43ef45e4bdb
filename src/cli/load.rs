//! `weir load serve|send|ping`: bulk TCP through the kernel, and pings beside it.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::Serialize;
use weir::lab::load::{self, LoadResult, Plan, Way};
use weir::lab::ping::{self, PingPlan, PingResult};
use weir::lab::senders::FlowOptions;
use weir::lab::{Error, Percentiles};

use super::Failure;

/// `weir load …`
#[derive(Parser, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand, Debug)]
enum Role {
    /// Answer `weir load send` at an address, until the time is over.
    Serve(Serve),
    /// Send and receive bulk flows with a server, and print what both ends saw.
    Send(Send),
    /// Send echo requests at regular times.
    Ping(Ping),
    /// Send data-transfer frames at the rate that the depth codes in them allow, to `weir load dtp-recv`.
    DtpSend(super::load_dtp::Send),
    /// Receive data-transfer frames, and tell their senders what codes came.
    DtpRecv(super::load_dtp::Recv),
}

#[derive(Parser, Debug)]
struct Serve {
    /// Address and port to listen on.
    at: SocketAddr,
    /// Stop after so many seconds.
    #[arg(long, default_value = "600", value_parser = seconds, value_name = "SECONDS")]
    duration: Duration,
}

#[derive(Parser, Debug)]
struct Send {
    /// Address and port of `weir load serve`; with several, flows take them in turn (pings go to the first).
    #[arg(required = true)]
    server: Vec<SocketAddr>,
    /// This host's address that flows come from, if not the one the kernel chooses.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Flows from here to the server.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=4096))]
    up: u16,
    /// Flows from the server to here.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=4096))]
    down: u16,
    /// How long all flows run together, seconds.
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
    duration: Duration,
    /// Left out of the figures at the start of that time, seconds.
    #[arg(long, default_value = "0", value_parser = seconds, value_name = "SECONDS")]
    warm_up: Duration,
    /// Time between the starts of two flows, seconds.
    #[arg(long, default_value = "0", value_parser = seconds, value_name = "SECONDS")]
    stagger: Duration,
    /// Congestion control of every flow, by the kernel's name.
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    cc: String,
    /// DS byte of every flow, 0 to 255; the kernel keeps its two ECN bits.
    #[arg(long, default_value_t = 0, value_name = "BYTE")]
    tos: u8,
    /// Time between two looks at each connection, seconds.
    #[arg(long, default_value = "0.1", value_parser = seconds, value_name = "SECONDS")]
    sample_every: Duration,
    /// Every look at every flow, as CSV.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Ping the server all the time, with so many seconds between two requests.
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    ping: Option<Duration>,
    /// JSON for programs.
    #[arg(short, long)]
    json: bool,
}

#[derive(Parser, Debug)]
struct Ping {
    /// Whom to ask.
    to: IpAddr,
    /// Time between two requests, seconds.
    #[arg(long, default_value = "0.1", value_parser = seconds, value_name = "SECONDS")]
    every: Duration,
    /// For how long, seconds.
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
    duration: Duration,
    /// How long to wait for the last answers, seconds.
    #[arg(long, default_value = "2", value_parser = seconds, value_name = "SECONDS")]
    wait: Duration,
    /// DS byte of the requests.
    #[arg(long, default_value_t = 0, value_name = "BYTE")]
    tos: u8,
    /// JSON for programs.
    #[arg(short, long)]
    json: bool,
}

pub(super) fn seconds(word: &str) -> Result<Duration, String> {
    super::seconds(word, 86_400)
}

/// What `send -j` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    load: LoadResult,
    ping: Option<PingResult>,
}

/// Does what the words say.
///
/// # Errors
/// What went wrong on the way.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.role {
        Role::Serve(serve) => load::serve(serve.at, serve.duration).map_err(failed),
        Role::Send(send) => run_send(&send),
        Role::Ping(ping) => run_ping(&ping),
        Role::DtpSend(send) => send.run(),
        Role::DtpRecv(recv) => recv.run(),
    }
}

pub(super) fn failed(e: Error) -> Failure {
    Failure::Run(e.to_string())
}

fn run_send(args: &Send) -> Result<(), Failure> {
    if args.up + args.down == 0 {
        return Err(Failure::Words("no flow: say --up N, --down N or both".into()));
    }
    if args.warm_up >= args.duration {
        return Err(Failure::Words("--warm-up must be shorter than --duration".into()));
    }
    let samples_file = args
        .samples
        .as_ref()
        .map(|path| File::create(path).map_err(|e| Failure::Run(format!("cannot write {}: {e}", path.display()))));
    let samples_file = samples_file.transpose()?;
    let plan = Plan {
        servers: args.server.clone(),
        from: args.from,
        up: args.up.into(),
        down: args.down.into(),
        stagger: args.stagger,
        warm_up: args.warm_up,
        options: FlowOptions {
            duration: args.duration,
            congestion_control: args.cc.clone(),
            tos: args.tos,
            sample_every: args.sample_every,
        },
    };
    let before = args.stagger * u32::from(args.up + args.down - 1) + args.warm_up;
    let ping_plan = args.ping.map(|every| PingPlan {
        to: args.server[0].ip(),
        every,
        duration: args.duration - args.warm_up,
        wait: Duration::from_secs(2),
        tos: 0,
    });
    let (load, ping) = thread::scope(|scope| {
        // Only pings under the whole load count.
        let pinger = ping_plan.map(|plan| {
            scope.spawn(move || {
                thread::sleep(before);
                ping::ping(&plan)
            })
        });
        let load = load::run(&plan).map_err(failed)?;
        let ping = match pinger {
            Some(p) => Some(p.join().map_err(|_| Failure::Run("the pinger panicked".into()))?.map_err(failed)?),
            None => None,
        };
        Ok::<_, Failure>((load, ping))
    })?;
    if let Some(file) = samples_file {
        write_samples(file, &load).map_err(|e| Failure::Run(format!("cannot write the samples: {e}")))?;
    }
    if args.json {
        print_json(&Report { load, ping })
    } else {
        print!("{}", load_text(&load));
        if let Some(ping) = &ping {
            print!("{}", ping_text(ping));
        }
        Ok(())
    }
}

fn run_ping(args: &Ping) -> Result<(), Failure> {
    let plan = PingPlan { to: args.to, every: args.every, duration: args.duration, wait: args.wait, tos: args.tos };
    let result = ping::ping(&plan).map_err(failed)?;
    if args.json {
        print_json(&result)
    } else {
        print!("{}", ping_text(&result));
        Ok(())
    }
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::Run(format!("cannot write JSON: {e}")))?;
    println!("{text}");
    Ok(())
}

fn milliseconds(p: &Percentiles) -> String {
    let ms = |us: f64| us / 1000.0;
    format!("p50 {:.3}  p90 {:.3}  p99 {:.3}  max {:.3} ms", ms(p.p50), ms(p.p90), ms(p.p99), ms(p.max))
}

fn load_text(load: &LoadResult) -> String {
    let mut text = format!("{}, {} s counted\n", load.congestion_control, load.seconds);
    for flow in &load.flows {
        text += &format!(
            "{:<4} {:>3}  {:>10.3} Mbit/s  retransmits {:<6} ce {:<6} rtt {}\n",
            way_word(flow.way),
            flow.index,
            flow.goodput / 1e6,
            flow.retransmits,
            flow.delivered_ce,
            milliseconds(&flow.rtt_us)
        );
    }
    for (way, sum) in [(Way::Up, &load.up), (Way::Down, &load.down)] {
        if sum.flows > 0 {
            text += &format!(
                "{:<4} all  {:>10.3} Mbit/s  retransmits {:<6} ce {:<6} jain {:.3}\n",
                way_word(way),
                sum.goodput / 1e6,
                sum.retransmits,
                sum.delivered_ce,
                sum.jain
            );
        }
    }
    text
}

fn ping_text(ping: &PingResult) -> String {
    format!("ping {} sent, {} lost, rtt {}\n", ping.sent, ping.lost, milliseconds(&ping.rtt_us))
}

fn way_word(way: Way) -> &'static str {
    match way {
        Way::Up => "up",
        Way::Down => "down",
    }
}

fn write_samples(file: File, load: &LoadResult) -> io::Result<()> {
    let mut out = io::BufWriter::new(file);
    writeln!(
        out,
        "way,flow,end,at_us,bytes,rtt_us,rttvar_us,min_rtt_us,cwnd,ssthresh,retransmits,delivered,delivered_ce,pacing_rate,delivery_rate"
    )?;
    for flow in &load.flows {
        for (name, end) in [("sender", &flow.sender), ("receiver", &flow.receiver)] {
            for s in &end.samples {
                let t = &s.tcp;
                writeln!(
                    out,
                    "{},{},{name},{},{},{},{},{},{},{},{},{},{},{},{}",
                    way_word(flow.way),
                    flow.index,
                    s.at_us,
                    s.bytes,
                    t.rtt_us,
                    t.rttvar_us,
                    t.min_rtt_us,
                    t.cwnd,
                    t.ssthresh,
                    t.retransmits,
                    t.delivered,
                    t.delivered_ce,
                    t.pacing_rate,
                    t.delivery_rate
                )?;
            }
        }
    }
    out.flush()
}
