//! The files of the scenarios with TCP: what each writes from its parameters.

use super::{Case, PING, Values, bulk, burst, head, ms, node};
use crate::time::{MICROSECOND, SECOND};

pub(super) fn mtu_scaling(v: &Values) -> Result<Vec<Case>, String> {
    const RULES: [&str; 6] = ["kernel", "1mtu", "2mtu", "4mtu", "2mtu-flows", "4mtu-flows"];
    let (rate, bps, sender) = (v.text("rate"), v.rate("rate")?, v.text("sender"));
    let half = ms(v.time("rtt")? / 2);
    let (flows, seconds) = (v.count("flows")?, v.seconds()?);
    let mode = v.several("mode", &["ingress", "egress"])?[0];
    let mut out = Vec::new();
    for load in v.several("load", &["down32", "up32", "rrul"])? {
        let one = [v.text("rule")];
        for rule in if one == ["all"] { &RULES[..] } else { &one[..] } {
            // What the baselines measured: the kernel's rule as it is, the others in both modes.
            let both = if *rule == "kernel" { "" } else { " both" };
            let occupancy = format!("min-occupancy {rule}{both}");
            let name = format!("{load}-{rule}");
            let mut text = head(&name, "minimum occupancy behind a bottleneck", seconds);
            let ingress = if mode == "ingress" { " ingress" } else { "" };
            let down = format!("cake bandwidth {rate} ethernet{ingress} {occupancy}");
            let up = format!("cake bandwidth {rate} ethernet {occupancy}");
            text += &node("rt", &[("down", &down), ("up", &up)]);
            let fifo = format!("pfifo limit 1000 | tbf rate {rate} burst {}", burst(bps));
            text += &node("isp", &[("down", &fifo), ("delay", &half)]);
            text += &match load {
                "down32" => bulk("down", flows, "down", sender),
                "up32" => bulk("up", flows, "up", sender),
                _ => bulk("down", 4, "down", sender) + &bulk("up", 4, "up", sender),
            };
            out.push(Case { name, text: text + PING });
        }
    }
    Ok(out)
}

pub(super) fn bbr20(v: &Values) -> Result<Vec<Case>, String> {
    let (rate, bps) = (v.text("rate"), v.rate("rate")?);
    let threshold = match v.text("threshold") {
        // Twenty full packets: 242 µs at 1 Gbit/s.
        "auto" => 242 * MICROSECOND * 1_000_000_000 / bps,
        _ => v.time("threshold")?,
    };
    let threshold = threshold.max(MICROSECOND);
    let rtt = match v.text("rtt") {
        "auto" => 1_000_000_000_000_000 / bps,
        _ => v.time("rtt")?,
    };
    let (flows, seconds, sender) = (v.count("flows")?, v.seconds()?, v.text("sender"));
    let aqm = v.several("aqm", &["codel", "fq_codel"])?[0];
    let mut text = head(&format!("bbr20-{aqm}-{sender}"), "twenty flows at a step threshold", seconds);
    // The last flow comes after two seconds; shares need some more to settle.
    let from = match seconds {
        20.. => 10,
        8.. => seconds - 4,
        _ => seconds.div_ceil(2),
    };
    text = text.lines().filter(|l| !l.starts_with("steady-from")).map(|l| format!("{l}\n")).collect();
    text += &format!("steady-from = \"{from}s\"\n");
    let down = format!("{aqm} ce_threshold {} | tbf rate {rate} burst {}", ms(threshold), burst(bps).min(3028));
    text += &node("rt", &[("down", &down)]);
    text += &node("dl", &[("delay", &ms(rtt / 2))]);
    text += &bulk("flow", flows, "down", sender);
    text += "every = \"100ms\"\necn = true\n";
    let name = format!("{aqm}-{sender}");
    Ok(vec![Case { name, text: text + PING }])
}

/// The lossy link of the seed, both ways.
fn lossy_link(v: &Values) -> Result<String, String> {
    let (rate, loss, delay) = (v.text("rate"), v.text("loss"), v.text("delay"));
    v.rate("rate")?;
    v.time("delay")?;
    let stage = format!("netem delay {delay} loss {loss} rate {rate}");
    Ok(node("lossy", &[("down", &stage), ("up", &stage)]))
}

pub(super) fn lossy(v: &Values) -> Result<Vec<Case>, String> {
    let link = lossy_link(v)?;
    let chosen = match v.text("sender") {
        "all" => vec!["bbr", "cubic", "reno"],
        one => vec![one],
    };
    let case = |sender: &str| {
        let mut text = head(&format!("lossy-{sender}"), "a download over a lossy link", 600);
        text += "interval = \"500ms\"\nuntil-complete = true\n";
        text += &link;
        text += &bulk("download", 1, "down", sender);
        text += &format!("size = \"{}\"\n", v.text("size"));
        Case { name: sender.into(), text }
    };
    Ok(chosen.into_iter().map(case).collect())
}

pub(super) fn rto(v: &Values) -> Result<Vec<Case>, String> {
    let link = lossy_link(v)?;
    v.time("patience")?;
    let case = |timer: &str| {
        let mut text = head(&format!("rto-{timer}"), "a small stack over a lossy link", 1200);
        text += "interval = \"500ms\"\nuntil-complete = true\n";
        text += &link;
        text += &bulk("download", 1, "down", "fixed");
        text += &format!("size = \"{}\"\ntimer = \"{timer}\"\n", v.text("size"));
        text += &format!("patience = \"{}\"\nretries = 100\n", v.text("patience"));
        Case { name: timer.into(), text }
    };
    if v.text("timer") == "jacobson" {
        return Ok(vec![case("jacobson")]);
    }
    Ok(v.several("timer", &["rfc793", "rfc6298"])?.into_iter().map(case).collect())
}

pub(super) fn rrul(v: &Values) -> Result<Vec<Case>, String> {
    v.rate("rate")?;
    let pipeline = v.pipeline(v.text("qdisc"), v.text("rate"))?;
    let (flows, sender) = (v.count("flows")?, v.text("sender"));
    let mut text = head("rrul", "realtime response under load", v.seconds()?);
    text += &node("rt", &[("down", &pipeline), ("up", &pipeline)]);
    text += &node("dl", &[("delay", &ms(v.time("rtt")? / 2))]);
    text += &bulk("down", flows, "down", sender);
    text += &bulk("up", flows, "up", sender);
    Ok(vec![Case { name: "rrul".into(), text: text + PING }])
}

pub(super) fn square(v: &Values) -> Result<Vec<Case>, String> {
    let (high, low, period) = (v.text("high"), v.text("low"), v.time("period")?);
    v.rate("high")?;
    v.rate("low")?;
    if period == 0 {
        return Err(v.bad("period", "must be longer than zero"));
    }
    let seconds = v.seconds()?;
    let mut text = head("square", "a link whose capacity jumps", seconds);
    let half = ms(v.time("rtt")? / 2);
    text += &node("rt", &[("down", v.text("qdisc")), ("down-line", high), ("delay", &half)]);
    for i in 1..(seconds * SECOND).div_ceil(period) {
        let line = if i % 2 == 1 { low } else { high };
        text += &format!("\n[[node.step]]\nat = \"{}\"\ndown-line = \"{line}\"\n", ms(i * period));
    }
    text += &bulk("down", v.count("flows")?, "down", v.text("sender"));
    Ok(vec![Case { name: "square".into(), text: text + PING }])
}

pub(super) fn staggered(v: &Values) -> Result<Vec<Case>, String> {
    v.rate("rate")?;
    let pipeline = v.pipeline(v.text("qdisc"), v.text("rate"))?;
    let (flows, every) = (v.count("flows")?, v.time("every")?);
    let seconds = (2 * flows * every).div_ceil(SECOND).max(2);
    let mut text = head("staggered", "flows that arrive and leave", seconds);
    text += &node("rt", &[("down", &pipeline)]);
    text += &node("dl", &[("delay", &ms(v.time("rtt")? / 2))]);
    for i in 0..flows {
        text += &bulk(&format!("flow{}", i + 1), 1, "down", v.text("sender"));
        text += &format!("start = \"{}\"\nstop = \"{}\"\n", ms(i * every), ms((flows + i) * every));
    }
    Ok(vec![Case { name: "staggered".into(), text: text + PING }])
}

pub(super) fn hosts(v: &Values) -> Result<Vec<Case>, String> {
    let (rate, half, sender) = (v.text("rate"), ms(v.time("rtt")? / 2), v.text("sender"));
    v.rate("rate")?;
    let direction = v.several("direction", &["down", "up"])?[0];
    let mut out = Vec::new();
    for isolation in v.several("isolation", &["triple", "dual", "flows"])? {
        for servers in v.several("servers", &["one", "own"])? {
            let word = match (isolation, direction) {
                ("triple", _) => "triple-isolate",
                ("dual", "down") => "dual-dsthost",
                ("dual", _) => "dual-srchost",
                _ => "flows",
            };
            let name = format!("{direction}-{isolation}-{servers}");
            let mut text = head(&name, "one flow of one host against eight of another", v.seconds()?);
            text += &node("rt", &[(direction, &format!("cake bandwidth {rate} {word}"))]);
            text += &node("dl", &[("delay", &half)]);
            for host in ["host1", "host2"] {
                text += &format!("\n[[host]]\nname = \"{host}\"\nside = \"client\"\n");
            }
            let n = if servers == "one" { 1 } else { 9 };
            for i in 1..=n {
                text += &format!("\n[[host]]\nname = \"sv{i}\"\nside = \"server\"\n");
            }
            text += &bulk("host1", 1, direction, sender);
            text += "client = \"host1\"\nserver = \"sv1\"\n";
            text += &bulk("host2", 8, direction, sender);
            let all: Vec<String> = (2..=9).map(|i| format!("\"sv{}\"", if n == 1 { 1 } else { i })).collect();
            text += &format!("client = \"host2\"\nservers = [{}]\n", all.join(", "));
            out.push(Case { name, text: text + PING + "client = \"host1\"\nserver = \"sv1\"\n" });
        }
    }
    Ok(out)
}

pub(super) fn voip(v: &Values) -> Result<Vec<Case>, String> {
    let rate = v.text("rate");
    v.rate("rate")?;
    let known = [
        ("pfifo", "pfifo limit 1000 | tbf rate RATE burst BURST"),
        ("codel", "codel | tbf rate RATE burst BURST"),
        ("fq_codel", "fq_codel | tbf rate RATE burst BURST"),
        ("cake", "cake bandwidth RATE diffserv4"),
    ];
    let asked = v.text("qdisc");
    let mut chosen: Vec<(&str, &str)> = known.into_iter().filter(|(n, _)| asked == "all" || asked == *n).collect();
    if chosen.is_empty() {
        chosen.push(("own", asked));
    }
    let mut out = Vec::new();
    for (name, pipeline) in chosen {
        let pipeline = v.pipeline(pipeline, rate)?;
        let mut text = head(&format!("voip-{name}"), "a call beside bulk transfers", v.seconds()?);
        text += &node("rt", &[("down", &pipeline), ("up", &pipeline)]);
        text += &node("dl", &[("delay", &ms(v.time("rtt")? / 2))]);
        text += &bulk("bulk", v.count("flows")?, "down", v.text("sender"));
        // G.711: 160 bytes every 20 ms behind 12 of RTP, marked EF (RFC 3551, RFC 4594).
        for direction in ["down", "up"] {
            text += &format!(
                "\n[[flow]]\nname = \"call-{direction}\"\napp = \"constant\"\ndirection = \"{direction}\"\nrate = \"68800bit\"\npacket = 172\ndscp = 46\n"
            );
        }
        out.push(Case { name: name.into(), text: text + PING });
    }
    Ok(out)
}

pub(super) fn shaping(v: &Values) -> Result<Vec<Case>, String> {
    v.rate("rate")?;
    let pipeline = v.pipeline(v.text("qdisc"), v.text("rate"))?;
    let mut text = head("shaping", "how exactly a rate is kept", v.seconds()?);
    text += &node("rt", &[("down", &pipeline)]);
    text += &node("dl", &[("delay", &ms(v.time("rtt")? / 2))]);
    text += &bulk("down", v.count("flows")?, "down", v.text("sender"));
    Ok(vec![Case { name: "shaping".into(), text: text + PING }])
}
