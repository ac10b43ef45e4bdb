//! The runs of the Ouroboros tutorial on congestion avoidance (`spec/mb-ecn.md` §7), and more of their
//! kind: many paths on one link, and coded marking for a scalable sender.

use super::{Builtin, Case, PING, Param, Values, bulk, head, ms, node, param};

const RATE: Param = param("rate", "10mbit", "rate of the bottleneck");
const RTT: Param = param("rtt", "2ms", "round trip");
const QDISC: Param = param(
    "qdisc",
    "pfifo limit 1000 mb-ecn dtp | tbf rate RATE burst BURST",
    "the pipeline; RATE and BURST stand for the rate's",
);
const CONTROLLER: Param = param("controller", "scaled", "scaled, or reference for the one of the specification");

/// Those of `weir sim --list`.
pub(super) const ONE: Builtin = Builtin {
    name: "mb-ecn-one",
    title: "Multi-bit ECN: one flow",
    params: &[RATE, RTT, QDISC, CONTROLLER, param("seconds", "20", "length of the run, s")],
    make: one,
};
pub(super) const TWO: Builtin = Builtin {
    name: "mb-ecn-two",
    title: "Multi-bit ECN: two flows that share the controller of one path",
    params: &[RATE, RTT, QDISC, CONTROLLER, param("seconds", "30", "length of the run, s")],
    make: two,
};
pub(super) const RELIABLE: Builtin = Builtin {
    name: "mb-ecn-reliable",
    title: "Multi-bit ECN: a raw flow beside a reliable one",
    params: &[RATE, RTT, QDISC, CONTROLLER, param("seconds", "30", "length of the run, s")],
    make: reliable,
};
pub(super) const STAGGERED: Builtin = Builtin {
    name: "mb-ecn-staggered",
    title: "Multi-bit ECN: three flows come one after another and leave in turn",
    params: &[RATE, RTT, QDISC, CONTROLLER, param("every", "15s", "time between two changes")],
    make: staggered,
};
pub(super) const ASYMMETRIC: Builtin = Builtin {
    name: "mb-ecn-asymmetric",
    title: "Multi-bit ECN: one flow of one source against five of another",
    params: &[RATE, RTT, QDISC, CONTROLLER, param("seconds", "120", "length of the run, s; the first 60 do not count")],
    make: asymmetric,
};
pub(super) const PATHS: Builtin = Builtin {
    name: "mb-ecn-paths",
    title: "Multi-bit ECN: many sources on one link, each with a controller of its own",
    params: &[
        RATE,
        RTT,
        QDISC,
        CONTROLLER,
        param("paths", "30", "number of sources, at most 200"),
        param("every", "100ms", "time between the starts of two of them"),
        param("seconds", "120", "length of the run, s; the first half does not count"),
    ],
    make: paths,
};
pub(super) const L4S: Builtin = Builtin {
    name: "mb-ecn-l4s",
    title: "Multi-bit ECN: coded marking of ECT(1), for scalable senders",
    params: &[
        param("rate", "100mbit", "rate of the bottleneck"),
        param("rtt", "10ms", "round trip"),
        // One queue for all, as in an L4S queue, and marks by summing up, which is less noisy than chance. A
        // steeper curve than 6 ms makes ten flows swing: at 3 ms the mean is half and the longest waits the same.
        param(
            "qdisc",
            "cake bandwidth RATE besteffort flowblind mb-ecn l4s saturation 6ms",
            "the pipeline; RATE and BURST stand for the rate's",
        ),
        param("flows", "all", "number of flows, or all for one and ten"),
        param("sender", "prague", "congestion control of the flows"),
        param("seconds", "30", "length of the run, s"),
    ],
    make: l4s,
};

/// Head and nodes of a run, of which the first `steady` seconds do not count.
fn begin(v: &Values, title: &str, seconds: u64, steady: u64) -> Result<String, String> {
    v.rate("rate")?;
    let pipeline = v.pipeline(v.text("qdisc"), v.text("rate"))?;
    let mut text: String = head(v.builtin.name, title, seconds)
        .lines()
        .filter(|l| !l.starts_with("steady-from"))
        .map(|l| format!("{l}\n"))
        .collect();
    text += &format!("steady-from = \"{steady}s\"\n");
    text += &node("rt", &[("up", &pipeline)]);
    text += &node("far", &[("delay", &ms(v.time("rtt")? / 2))]);
    Ok(text)
}

fn flow(v: &Values, name: &str, count: u64, words: &str) -> String {
    let controller = v.text("controller");
    format!(
        "\n[[flow]]\nname = \"{name}\"\ncount = {count}\napp = \"dtp\"\ndirection = \"up\"\ncontroller = \"{controller}\"\n{words}"
    )
}

fn single(v: &Values, text: String) -> Result<Vec<Case>, String> {
    Ok(vec![Case { name: v.builtin.name.into(), text }])
}

fn one(v: &Values) -> Result<Vec<Case>, String> {
    let text = begin(v, "one flow", v.count("seconds")?, 2)?;
    single(v, text + &flow(v, "flow", 1, ""))
}

fn two(v: &Values) -> Result<Vec<Case>, String> {
    let text = begin(v, "two flows, one controller", v.count("seconds")?, 2)?;
    single(v, text + &flow(v, "flow", 2, ""))
}

fn reliable(v: &Values) -> Result<Vec<Case>, String> {
    let text = begin(v, "a raw flow beside a reliable one", v.count("seconds")?, 2)?;
    single(v, text + &flow(v, "raw", 1, "") + &flow(v, "reliable", 1, "reliable = true\n"))
}

fn staggered(v: &Values) -> Result<Vec<Case>, String> {
    let every = v.time("every")?;
    let seconds = (5 * every).div_ceil(crate::time::SECOND).max(1);
    // Each flow's average is over its whole run, slow start included.
    let mut text = begin(v, "flows that come and go", seconds, 0)?;
    for (i, last) in [(0, 5), (1, 4), (2, 3)] {
        let words = format!("start = \"{}\"\nstop = \"{}\"\n", ms(i * every), ms(last * every));
        text += &flow(v, &format!("flow{}", i + 1), 1, &words);
    }
    single(v, text)
}

fn host(name: &str) -> String {
    format!("\n[[host]]\nname = \"{name}\"\nside = \"client\"\n")
}

fn asymmetric(v: &Values) -> Result<Vec<Case>, String> {
    let seconds = v.count("seconds")?;
    if seconds <= 60 {
        return Err(v.bad("seconds", "the first 60 do not count; give more"));
    }
    let mut text = begin(v, "one flow against five", seconds, 60)?;
    text += &(host("a") + &host("b"));
    text += &flow(v, "a", 1, "client = \"a\"\n");
    text += &flow(v, "b", 5, "client = \"b\"\nstart = \"20s\"\n");
    single(v, text)
}

fn paths(v: &Values) -> Result<Vec<Case>, String> {
    let (seconds, n, every) = (v.count("seconds")?, v.count("paths")?, v.time("every")?);
    if n > 200 {
        return Err(v.bad("paths", "at most 200"));
    }
    let mut text = begin(v, "many sources on one link", seconds, seconds / 2)?;
    (1..=n).for_each(|i| text += &host(&format!("s{i}")));
    for i in 1..=n {
        text += &flow(v, &format!("s{i}"), 1, &format!("client = \"s{i}\"\nstart = \"{}\"\n", ms((i - 1) * every)));
    }
    single(v, text)
}

fn l4s(v: &Values) -> Result<Vec<Case>, String> {
    let counts = match v.text("flows") {
        "all" => vec![1, 10],
        _ => vec![v.count("flows")?],
    };
    let case = |n: u64| {
        let mut text = begin(v, "coded marking of ECT(1)", v.count("seconds")?, 5)?;
        text += &bulk("flow", n, "up", v.text("sender"));
        Ok(Case { name: format!("{n}-flows"), text: text + PING })
    };
    counts.into_iter().map(case).collect()
}
