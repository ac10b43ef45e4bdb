//! `weir explain`: what a specification resolves to, and what one frame is counted as.

use std::fmt::Write;

use serde_json::{Value, json};
use weir::packet::truesize;
use weir::pipeline::Link;
use weir::qdisc::{cake, codel};
use weir::spec::Spec;
use weir::stats::format::{rate, size, time_ns};
use weir::stats::{StageStats, tc_text};
use weir::time::Instant;
use weir::units::LinkLayer;

use super::{CompatArg, Failure, read_spec};

/// Arguments of `weir explain`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The pipeline, as tc would say it: "cake bandwidth 50mbit diffserv4 ethernet"
    #[arg(value_name = "SPEC", required_unless_present = "mb_ecn")]
    spec: Option<String>,
    /// Instead: a byte of multi-bit ECN, or a whole frame that carries it, in hexadecimal
    #[arg(long, value_name = "HEX", conflicts_with = "spec")]
    mb_ecn: Option<String>,
    /// The frame to count, bytes, link header included and FCS not; the largest if not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(14..=65_550))]
    frame: Option<u32>,
    /// Where the network header starts in it: 14 on Ethernet, 4 more for each tag, 8 more for PPPoE
    #[arg(long, value_name = "BYTES", default_value_t = 14)]
    header: u16,
    /// MTU of the device, bytes, without the 14 of the Ethernet header
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(64..=65_535))]
    mtu: u32,
    /// Which kernel's decisions
    #[arg(long, default_value = "latest")]
    compat: CompatArg,
    /// JSON for programs
    #[arg(short, long)]
    json: bool,
}

/// Says what the words mean; runs nothing.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if let Some(hex) = &args.mb_ecn {
        return super::codes::run(hex, args.json);
    }
    let spec = read_spec(args.spec.as_deref().unwrap_or_default())?;
    let link = Link { mtu: args.mtu + 14, compat: args.compat.into() };
    let frame = Frame { len: args.frame.unwrap_or(link.mtu), header: args.header };
    if u32::from(frame.header) > frame.len {
        return Err(Failure::Words(format!(
            "a frame of {} bytes has no network header at {}; give --header less than --frame",
            frame.len, frame.header
        )));
    }
    let explained = explain(&spec, link, frame);
    if args.json {
        let values: Vec<Value> = explained.into_iter().map(|e| e.json).collect();
        println!("{:#}", Value::Array(values));
    } else {
        let texts: Vec<String> = explained.into_iter().map(|e| e.text).collect();
        print!("{}", texts.join("\n"));
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Frame {
    len: u32,
    header: u16,
}

/// One stage, said in both ways.
struct Explained {
    text: String,
    json: Value,
}

fn explain(spec: &Spec, link: Link, frame: Frame) -> Vec<Explained> {
    spec.stages()
        .iter()
        .map(|stage| {
            // Each stage by itself: a child under a shaper resolves to the same.
            let stats = stage.alone(link).stats(Instant::ZERO);
            let mut text = format!("{stage}\n  as tc shows it: {}\n", tc_text::options(&stats).trim_end());
            let mut json = json!({ "kind": stage.kind(), "spec": stage.to_string(), "mtu": link.mtu });
            match (&stats, stage) {
                (StageStats::Cake(s), _) => cake(s, frame, &mut text, &mut json),
                (StageStats::Tbf(s), _) => {
                    let charged = s.time.charged(frame.len);
                    let nanos = s.time.nanos(frame.len);
                    let cells = if s.time.link_layer == LinkLayer::Atm { ", in cells of 53 bytes for each 48" } else { "" };
                    line(&mut text, "bucket", format!("{} ns of link time; no packet longer than {} bytes", s.depth, s.max_size));
                    line(
                        &mut text,
                        "frame",
                        format!(
                            "{} + {} = {charged} bytes{cells}, at least {}, counted from the frame's first byte; {} at {}",
                            frame.len, s.time.overhead, s.time.mpu, time_ns(nanos), rate(s.time.rate())
                        ),
                    );
                    json["rate"] = s.time.rate().bytes_per_second().into();
                    json["bucket_ns"] = s.depth.into();
                    json["max_size"] = s.max_size.into();
                    json["frame"] = json!({ "length": frame.len, "charged": charged, "time_ns": nanos });
                }
                (StageStats::Codel(s), _) => law(&s.law, &mut text, &mut json, s.limit),
                (StageStats::FqCodel(s), _) => law(&s.law, &mut text, &mut json, s.limit),
                (StageStats::Fifo { limit, .. }, _) => json["limit"] = (*limit).into(),
                _ => {}
            }
            if let Some(range) = stage.range() {
                let [low, high] = [range.min, range.max];
                line(
                    &mut text,
                    "autorate",
                    format!(
                        "{} to {}, from the rate given on: by round trips of TCP seen in passing, ten times a second; no probes. \
                         Without round trips, or idle, the rate stays",
                        rate(low),
                        rate(high)
                    ),
                );
                json["autorate"] = json!({ "min": low.bytes_per_second(), "max": high.bytes_per_second() });
            }
            if !matches!(stats, StageStats::Cake(_) | StageStats::Tbf(_)) {
                line(&mut text, "frame", format!("{} bytes, counted as they are; memory {}", frame.len, truesize(frame.len)));
                json["frame"] = json!({ "length": frame.len, "charged": frame.len });
            }
            Explained { text, json }
        })
        .collect()
}

fn line(out: &mut String, name: &str, text: String) {
    writeln!(out, "  {name}: {text}").expect("a String takes everything");
}

fn law(law: &codel::Law, text: &mut String, json: &mut Value, limit: u32) {
    let ns = |ticks: codel::Ticks| u64::from(ticks.0) * 1024;
    line(text, "target", format!("{} ({} ticks of 1024 ns)", time_ns(ns(law.target)), law.target.0));
    line(text, "interval", format!("{} ({} ticks)", time_ns(ns(law.interval)), law.interval.0));
    line(text, "never drops", format!("while at most {} bytes stand, one of the largest packets", law.mtu));
    line(text, "limit", format!("{limit} packets"));
    json["target_ns"] = ns(law.target).into();
    json["interval_ns"] = ns(law.interval).into();
    json["limit"] = limit.into();
    if law.ce_threshold != codel::Ticks::DISABLED {
        line(text, "ce_threshold", time_ns(ns(law.ce_threshold)));
        json["ce_threshold_ns"] = ns(law.ce_threshold).into();
    }
}

fn cake(s: &cake::Stats, frame: Frame, text: &mut String, json: &mut Value) {
    let p = &s.params;
    let bps = s.rate.bytes_per_second();
    if s.rate.is_zero() {
        line(text, "rate", "unlimited: tins take turns by weight, and nothing waits but for the link below".into());
    } else {
        line(text, "rate", format!("{} ({bps} bytes per second)", rate(s.rate)));
    }
    line(
        text,
        "memory",
        format!(
            "{} ({} bytes, {} full frames at {} each); frames of the UMEM are a second, hard limit; cake's own tables take {}",
            size(s.memory_limit),
            s.memory_limit,
            s.memory_limit / u64::from(truesize(1514)),
            truesize(1514),
            size(p.memory() as u64)
        ),
    );
    line(text, "queues", format!("{} in each of {} tins, {}", p.queues, s.tins.len(), p.flows.word()));
    let counted = counted(p, frame);
    text.push_str(&counted.text);
    if !s.rate.is_zero() {
        let nanos = s.pace.time(counted.charged);
        line(text, "  time", format!("{} at {}", time_ns(nanos), rate(s.rate)));
    }
    table(s, text);
    json["rate"] = bps.into();
    json["memory_limit"] = s.memory_limit.into();
    json["own_memory"] = p.memory().into();
    json["queues"] = p.queues.into();
    json["frame"] = counted.json;
    json["frame"]["time_ns"] = s.pace.time(counted.charged).into();
    json["tins"] = s.tins.iter().enumerate().map(|(i, t)| tin(p, i, t)).collect();
}

struct Counted {
    charged: u32,
    text: String,
    json: Value,
}

/// What a frame is counted as, step by step.
fn counted(p: &cake::Params, frame: Frame) -> Counted {
    let cost = p.cost(frame.len, frame.header);
    let mut out = String::new();
    line(&mut out, "frame", format!("{} bytes, link header included, FCS excluded", frame.len));
    let what = if p.compensated {
        line(
            &mut out,
            "  from",
            format!(
                "the network header, because an overhead is given: {} - {} = {} IP",
                frame.len, frame.header, cost.network
            ),
        );
        "IP"
    } else {
        line(&mut out, "  from", "the frame's first byte, because no overhead is given or \"raw\" is".into());
        "frame"
    };
    let sum = i64::from(cost.network) + i64::from(p.overhead);
    let sign = if p.overhead < 0 { '-' } else { '+' };
    line(&mut out, "  overhead", format!("{} {what} {sign} {} = {sum}", cost.network, p.overhead.unsigned_abs()));
    if i64::from(cost.padded) != sum {
        line(&mut out, "  mpu", format!("{sum} is less than {}, so {}", p.mpu, cost.padded));
    } else if p.mpu != 0 {
        line(&mut out, "  mpu", format!("{sum} is not less than {}", p.mpu));
    }
    match p.framing {
        cake::Framing::None => {}
        cake::Framing::Atm => line(
            &mut out,
            "  atm",
            format!("{} in {} cells of 48, 53 bytes each = {}", cost.padded, cost.padded.div_ceil(48), cost.charged),
        ),
        cake::Framing::Ptm => line(
            &mut out,
            "  ptm",
            format!("{} + {}, one for each 64 begun = {}", cost.padded, cost.charged - cost.padded, cost.charged),
        ),
    }
    line(&mut out, "  charged", format!("{} bytes", cost.charged));
    let json = json!({
        "length": frame.len,
        "counts_from": if p.compensated { "network header" } else { "frame" },
        "network": cost.network,
        "overhead": p.overhead,
        "mpu": p.mpu,
        "padded": cost.padded,
        "charged": cost.charged,
    });
    Counted { charged: cost.charged, text: out, json }
}

fn name(i: usize, t: &cake::TinStats) -> String {
    t.name.map_or(format!("Tin {i}"), str::to_string)
}

fn table(s: &cake::Stats, out: &mut String) {
    let p = &s.params;
    let mut row = |label: &str, cells: Vec<String>| {
        write!(out, "  {label:<10}").expect("a String takes everything");
        for cell in cells {
            write!(out, " {cell:>12}").expect("a String takes everything");
        }
        out.push('\n');
    };
    let each = |f: &dyn Fn(&cake::TinStats) -> String| s.tins.iter().map(f).collect::<Vec<_>>();
    row("", s.tins.iter().enumerate().map(|(i, t)| name(i, t)).collect());
    row("threshold", each(&|t| if t.threshold.is_zero() { "none".into() } else { rate(t.threshold) }));
    row("target", each(&|t| time_ns(t.law.target)));
    row("interval", each(&|t| time_ns(t.law.interval)));
    row("mtu_time", each(&|t| time_ns(t.law.mtu_time)));
    row("acts above", each(&|t| time_ns(p.acts_above(&t.law, 1))));
    if p.ingress || p.min_occupancy_both {
        row(" 32 flows", each(&|t| time_ns(p.acts_above(&t.law, 32))));
    }
    row("quantum", each(&|t| t.flow_quantum.to_string()));
    if s.rate.is_zero() {
        row("weight", each(&|t| t.quantum.to_string()));
    }
    let configured = u64::from(p.target_us) * 1000;
    if s.tins.iter().any(|t| t.law.target != configured) {
        out.push_str("  targets and intervals are scaled by MTU where one and a half of the largest packets take longer than the target\n");
    }
}

fn tin(p: &cake::Params, i: usize, t: &cake::TinStats) -> Value {
    json!({
        "name": name(i, t),
        "number": t.number,
        "threshold": t.threshold.bytes_per_second(),
        "target_ns": t.law.target,
        "interval_ns": t.law.interval,
        "mtu_time_ns": t.law.mtu_time,
        "acts_above_ns": p.acts_above(&t.law, 1),
        "quantum": t.flow_quantum,
        "weight": t.quantum,
    })
}
