//! A run as a file that flent opens: its published data format, version 4, compressed JSON.
//!
//! flent draws by the name of one of its own tests, so the flows go under the names that a test of the same kind has: downloads
//! alone (`tcp_ndown`), uploads alone (`tcp_nup`), both (`rrul_be_nflows`), or pings (`ping`).

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use crate::scenario::result::{FlowResult, Outcome, jain};

/// The format's version.
const VERSION: u32 = 4;
/// The run's clock begins here; nothing says when it was made.
const TIME: &str = "1970-01-01T00:00:00.000000Z";
const PING: &str = "Ping (ms) ICMP";

/// What every file of flent's is called.
pub const SUFFIX: &str = ".flent.gz";

type Series = Vec<Option<f64>>;

/// Writes the file.
///
/// # Errors
/// What the file system says.
pub fn write(out: impl Write, outcome: &Outcome) -> io::Result<()> {
    let mut out = GzEncoder::new(out, Compression::default());
    serde_json::to_writer(&mut out, &document(outcome))?;
    out.finish()?.flush()
}

/// The document.
pub fn document(outcome: &Outcome) -> Value {
    let tcp = |up: bool| -> Vec<&FlowResult> {
        outcome.flows.iter().filter(|f| f.up == up && f.kind != "ping" && f.kind != "udp").collect()
    };
    let (down, up) = (tcp(false), tcp(true));
    let (test, marking) = match (down.is_empty(), up.is_empty()) {
        (false, false) => ("rrul_be_nflows", " BE"),
        (false, true) => ("tcp_ndown", ""),
        (true, false) => ("tcp_nup", ""),
        (true, true) => ("ping", ""),
    };
    let steps = outcome.flows.iter().map(|f| f.series.len().max(f.rtt_series.len())).max().unwrap_or(0);
    let x: Vec<f64> = (1..=steps).map(|i| i as f64 * outcome.scenario.interval as f64 / 1e9).collect();
    let mut series: Vec<(String, &str, Series)> = Vec::new();
    for (way, flows) in [("download", &down), ("upload", &up)] {
        let all: Vec<Series> = flows.iter().map(|f| megabits(f, outcome, steps)).collect();
        if !all.is_empty() {
            series.extend(totals(way, &all));
        }
        let named = all.into_iter().enumerate();
        series.extend(named.map(|(i, s)| (format!("TCP {way}{marking}::{}", i + 1), "Mbits/s", s)));
    }
    for (i, ping) in outcome.flows.iter().filter(|f| f.kind == "ping").enumerate() {
        let name = if i == 0 { PING.to_string() } else { format!("{PING}::{}", i + 1) };
        series.push((name, "ms", milliseconds(ping, steps)));
    }
    if let Some((_, unit, first)) = series.iter().find(|s| s.0 == PING).cloned() {
        series.push(("Ping (ms) avg".into(), unit, first));
    }
    let raw = |values: &Series| -> Value {
        let points = x.iter().zip(values).filter_map(|(t, v)| Some(json!({ "t": t, "val": (*v)? })));
        points.collect()
    };
    let (mut results, mut raws, mut meta) = (Map::new(), Map::new(), Map::new());
    for (name, unit, values) in &series {
        results.insert(name.clone(), json!(values));
        raws.insert(name.clone(), raw(values));
        meta.insert(name.clone(), json!({ "UNITS": unit }));
    }
    let seconds = outcome.elapsed as f64 / 1e9;
    json!({
        "version": VERSION,
        "metadata": {
            "NAME": test,
            "TITLE": outcome.scenario.name,
            "NOTE": format!("{} (weir {})", outcome.scenario.title, env!("CARGO_PKG_VERSION")),
            "HOST": "server",
            "HOSTS": ["server"],
            "LOCAL_HOST": "client",
            "TIME": TIME,
            "T0": TIME,
            "LENGTH": seconds.ceil(),
            "TOTAL_LENGTH": seconds.ceil(),
            "STEP_SIZE": outcome.scenario.interval as f64 / 1e9,
            "TEST_PARAMETERS": {
                "download_streams": down.len().to_string(),
                "upload_streams": up.len().to_string(),
            },
            "FLENT_VERSION": "2.0.0",
            "IP_VERSION": 4,
            "DATA_FILENAME": format!("{}{SUFFIX}", outcome.scenario.name),
            "FAILED_RUNNERS": 0,
            "SERIES_META": meta,
        },
        "x_values": x,
        "results": results,
        "raw_values": raws,
    })
}

fn megabits(flow: &FlowResult, outcome: &Outcome, steps: usize) -> Series {
    let mbit = |bytes: &u64| *bytes as f64 * 8e3 / outcome.scenario.interval as f64;
    let mut out: Series = flow.series.iter().map(|b| Some(mbit(b))).collect();
    out.resize(steps, None);
    out
}

fn milliseconds(flow: &FlowResult, steps: usize) -> Series {
    let mut out: Series = flow.rtt_series.iter().map(|s| (s.0 > 0).then_some(s.1 as f64 / 1e6)).collect();
    out.resize(steps, None);
    out
}

/// Sum, mean and fairness of the flows of one way.
fn totals<'a>(way: &str, all: &[Series]) -> [(String, &'a str, Series); 3] {
    let shares = |i: usize| all.iter().filter_map(|s| s[i]).collect::<Vec<f64>>();
    let over = |figure: &dyn Fn(&[f64]) -> f64| -> Series {
        (0..all[0].len()).map(shares).map(|s| (!s.is_empty()).then(|| figure(&s))).collect()
    };
    let sum = |s: &[f64]| s.iter().sum::<f64>();
    [
        (format!("TCP {way} avg"), "Mbits/s", over(&|s| sum(s) / s.len() as f64)),
        (format!("TCP {way} sum"), "Mbits/s", over(&sum)),
        (format!("TCP {way} fairness"), "Idx", over(&jain)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::file;

    fn document_of(flows: &str) -> Value {
        let text = format!(
            "name = \"t\"\nduration = \"2s\"\n[[node]]\nname = \"rt\"\ndown = \"codel | tbf rate 10mbit burst 3028\"\ndelay = \"5ms\"\n{flows}\n[[ping]]\n"
        );
        let (scenario, _) = file::read(&text, &["cubic"]).expect("a scenario");
        let outcome = crate::sim::build(&scenario, 1, Default::default()).expect("runs").run(None);
        document(&outcome)
    }

    #[test]
    fn flows_have_the_names_of_the_flent_test_of_their_kind() {
        let both = document_of("[[flow]]\ncount = 2\n[[flow]]\ndirection = \"up\"");
        assert_eq!(both["metadata"]["NAME"], "rrul_be_nflows");
        assert_eq!(both["metadata"]["TEST_PARAMETERS"]["download_streams"], "2");
        for name in ["TCP download BE::2", "TCP upload BE::1", "TCP download sum", PING, "Ping (ms) avg"] {
            assert_eq!(both["results"][name].as_array().map(Vec::len), both["x_values"].as_array().map(Vec::len));
        }
        assert_eq!(document_of("[[flow]]")["metadata"]["NAME"], "tcp_ndown");
        assert_eq!(document_of("")["metadata"]["NAME"], "ping");
    }

    #[test]
    fn an_interval_without_an_answer_is_null_and_no_raw_value() {
        let doc = document_of("");
        let results = doc["results"][PING].as_array().expect("a series");
        let raw = doc["raw_values"][PING].as_array().expect("values");
        assert_eq!(raw.len(), results.iter().filter(|v| !v.is_null()).count());
        assert!(raw.iter().all(|v| v["val"].as_f64() >= Some(10.0)));
    }

    #[test]
    fn the_sum_of_a_way_is_the_sum_of_its_flows() {
        let doc = document_of("[[flow]]\ncount = 2");
        let at = |name: &str| doc["results"][name][10].as_f64().expect("a figure");
        assert!((at("TCP download sum") - at("TCP download::1") - at("TCP download::2")).abs() < 1e-9);
    }
}
