//! `weir top`: the figures of a running instance, once a second.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde_json::Value;
use weir::run::control::Request;
use weir::stats::format::time_ns;

use super::Failure;
use super::control::Which;

/// Arguments of `weir top`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    delay: u64,
    /// End after so many looks
    #[arg(short = 'n', long, value_name = "N")]
    looks: Option<u64>,
}

/// Runs `weir top`.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.which.choose()?;
    let screen = std::io::stdout().is_terminal();
    let mut before = Value::Null;
    for look in 0.. {
        let now = args.which.ask(&Request::Stats)?["qdiscs"].take();
        if look > 0 {
            // Home, draw, and clear what is left below: no flicker.
            let (home, rest) = if screen { ("\x1b[H", "\x1b[J") } else { ("", "") };
            let table = table(&name, &before, &now).replace('\n', if screen { "\x1b[K\n" } else { "\n" });
            print!("{home}{table}{rest}");
            // What cannot be written is said by the next line.
            let _ = std::io::stdout().flush();
        } else if screen {
            print!("\x1b[2J");
        }
        if args.looks.is_some_and(|n| look >= n) {
            break;
        }
        before = now;
        std::thread::sleep(Duration::from_secs(args.delay));
    }
    Ok(())
}

/// A line per direction and tin.
fn table(name: &str, before: &Value, now: &Value) -> String {
    let mut out = format!(
        "{name}\n{:<22}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
        "", "Mbit/s", "pkt/s", "waiting", "dropped", "marked", "p50", "p99", "max"
    );
    for weir in directions(now) {
        let earlier = directions(before).find(|d| d["direction"] == weir["direction"]).unwrap_or(&Value::Null);
        let seconds = (weir["seconds"].as_f64().unwrap_or(0.0) - earlier["seconds"].as_f64().unwrap_or(0.0)).max(1e-3);
        let grown = |path: &str| number(weir, path).saturating_sub(number(earlier, path));
        let marked: u64 = ["ecn", "ce_threshold", "step", "sce"].iter().map(|m| grown(&format!("/marked/{m}"))).sum();
        let text = |key: &str| weir[key].as_str().unwrap_or_default();
        let label = format!("{} {}->{}", text("direction"), text("from"), text("to"));
        let [p50, p99, max] = quantiles(&weir["sojourn_ns"]["decision"]);
        out += &format!(
            "{label:<22}{:>12.3}{:>10.0}{:>10}{:>10}{marked:>10}{p50:>10}{p99:>10}{max:>10}\n",
            grown("/sent/bytes") as f64 * 8e-6 / seconds,
            grown("/sent/packets") as f64 / seconds,
            number(weir, "/backlog/packets"),
            grown("/dropped/packets"),
        );
        for (tin, h) in weir["sojourn_ns"]["tins"].as_object().into_iter().flatten() {
            let [p50, p99, max] = quantiles(h);
            out += &format!("  {tin:<72}{p50:>10}{p99:>10}{max:>10}\n");
        }
    }
    out
}

fn directions(qdiscs: &Value) -> impl Iterator<Item = &Value> {
    qdiscs.as_array().into_iter().flatten().filter_map(|q| q.get("weir"))
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn quantiles(h: &Value) -> [String; 3] {
    ["p50", "p99", "max"].map(|q| time_ns(h[q].as_u64().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_and_drops_are_those_since_the_last_look() {
        let look = |seconds: f64, n: u64| {
            json!([{ "kind": "tbf", "weir": {
                "direction": "down", "from": "wan", "to": "lan", "seconds": seconds,
                "sent": { "bytes": n * 1000, "packets": n }, "backlog": { "packets": 7 },
                "dropped": { "packets": n / 10 }, "marked": { "ecn": n / 5 },
                "sojourn_ns": { "decision": { "p50": 1_500_000, "p99": 20_000_000, "max": 1_000_000_000 } },
            } }, { "kind": "codel" }])
        };
        let table = table("a", &look(1.0, 1000), &look(3.0, 3000));
        let line = table.lines().nth(2).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["down", "wan->lan", "8.000", "1000", "7", "200", "400", "1.5ms", "20ms", "1s"]);
        assert_eq!(table.lines().count(), 3);
    }
}
