//! A router of the lab that is the kernel: weir's words become nested `tc` commands on the interfaces of a bridge.

use serde_json::{Value, json};

use super::Error;
use super::course::Course;
use super::plan::{Leg, Router};
use super::router::{Looks, Routed, Started};
use super::space::{Space, feed};
use super::topology::{INSIDE, OUTSIDE, like_a_nic};
use crate::scenario::result::{Depth, PortResult};
use crate::spec::{Spec, Stage};
use crate::time::Instant;

/// Words that weir has and tc has not, by stage; `*` is any stage.
const OWN_WORDS: [(&str, &str); 8] = [
    ("cake", "min-occupancy"),
    ("cake", "queues"),
    ("cake", "heap"),
    ("cake", "ce_threshold"),
    ("*", "sce_threshold"),
    ("*", "mb-ecn"),
    ("netem", "ordered"),
    ("netem", "seed"),
];
/// The kernel's tbf wants a limit of its own queue even when another takes its place.
const TBF_LIMIT: &str = "limit 1000000";

/// A command for `tc`, without the program's name.
pub type Command = String;

/// The commands that give an interface's egress a pipeline.
///
/// # Errors
/// A stage or a word that is weir's own: which, and why not.
pub fn compile(spec: &Spec, dev: &str) -> Result<Vec<Command>, Error> {
    // The last stage is the root: it pulls from the one before it.
    let mut commands = Vec::new();
    let mut parent = "root".to_string();
    for (depth, stage) in spec.stages().iter().rev().enumerate() {
        let words = stage.to_string();
        check(stage, &words)?;
        if depth > 0 && stage.kind() == "netem" {
            return Err(Error::new(words, "netem stands on a node of its own when the kernel routes"));
        }
        let handle = depth + 1;
        let at = format!("dev {dev} {parent} handle {handle}:");
        match stage {
            Stage::Htb(_) => {
                commands.push(format!("qdisc add {at} htb default 1"));
                commands.push(format!("class add dev {dev} parent {handle}: classid {handle}:1 {words}"));
            }
            Stage::Tbf(p) if p.limit.is_none() => commands.push(format!("qdisc add {at} {words} {TBF_LIMIT}")),
            _ => commands.push(format!("qdisc add {at} {words}")),
        }
        parent = format!("parent {handle}:1");
    }
    Ok(commands)
}

fn check(stage: &Stage, words: &str) -> Result<(), Error> {
    if let Stage::Link(_) = stage {
        return Err(Error::new(words, "\"link\" is weir's own; the kernel has no such qdisc"));
    }
    for (kind, own) in OWN_WORDS {
        if (kind == "*" || kind == stage.kind()) && words.split(' ').any(|w| w == own) {
            return Err(Error::new(
                words,
                format!("\"{own}\" is weir's own; the kernel's {} has it not", stage.kind()),
            ));
        }
    }
    Ok(())
}

/// Tries a router's commands where nobody minds, so that what this kernel cannot do is said before anything is made.
///
/// # Errors
/// The command and what tc says, with the name of the qdisc if the kernel lacks it.
pub fn try_out(commands: &[Vec<Command>; 2]) -> Result<(), Error> {
    let space = Space::new()?;
    space.ip(&format!(
        "link add {INSIDE} type veth peer name {OUTSIDE}\nlink set {INSIDE} up\nlink set {OUTSIDE} up\n"
    ))?;
    commands.iter().flatten().try_for_each(|c| tc(&space, c))
}

/// Whether this kernel has `netem`.
pub fn has_netem() -> bool {
    try_out(&[vec![format!("qdisc add dev {INSIDE} root handle 1: netem delay 1ms")], Vec::new()]).is_ok()
}

fn tc(space: &Space, command: &str) -> Result<(), Error> {
    let words: Vec<&str> = command.split(' ').collect();
    space.command("tc", &words).map(drop).map_err(|e| {
        let said = e.to_string();
        let kind = words.iter().skip_while(|w| !w.ends_with(':')).nth(1).copied().unwrap_or("that");
        match said.contains("unknown") || said.contains("not found") {
            true => Error(format!("this kernel has no {kind}: {said}; weir has it: leave out --router kernel")),
            false => Error(said),
        }
    })
}

/// The legs of a router as commands: down on the inner interface, up on the outer.
///
/// # Errors
/// As [`compile`].
pub fn commands(router: &Router) -> Result<[Vec<Command>; 2], Error> {
    let leg = |leg: &Leg, dev: &str| match (leg.flight, &leg.pipeline) {
        (0, None) => Ok(Vec::new()),
        _ => compile(&leg.spec(), dev),
    };
    Ok([leg(&router.legs[0], INSIDE)?, leg(&router.legs[1], OUTSIDE)?])
}

/// Starts a bridge with these queues in a router's namespace.
///
/// # Errors
/// What `ip` or `tc` says.
pub fn start(space: &Space, router: &Router) -> Result<Started, Error> {
    let commands = commands(router)?;
    [INSIDE, OUTSIDE].into_iter().try_for_each(|dev| like_a_nic(space, dev))?;
    space.ip(&format!(
        "link add br0 type bridge stp_state 0 mcast_snooping 0\nlink set br0 up\nlink set {INSIDE} master br0\nlink set {OUTSIDE} master br0\n"
    ))?;
    commands.iter().flatten().try_for_each(|c| tc(space, c))?;
    let router = router.clone();
    Started::of(space, move |ready, go| {
        let _ = ready.send(Ok(()));
        let Ok(course) = go.recv() else { return Err(Error("the run did not begin".into())) };
        work(&router, &commands, &course)
    })
}

/// Gives a stage that is there other words. The stages below a changed one are told theirs again: a new limit of tbf's would
/// else become that of its child.
fn alter(command: &Command) -> Result<(), Error> {
    let words = command.replacen(" add ", " change ", 1);
    if words.contains(" htb default ") {
        return Ok(());
    }
    feed("tc", &words.split(' ').collect::<Vec<_>>(), "").map(drop)
}

fn work(router: &Router, commands: &[Vec<Command>; 2], course: &Course) -> Result<Routed, Error> {
    let mut ports = [Port::new(course), Port::new(course)];
    let mut steps = router.steps.iter().peekable();
    let mut next = 0;
    loop {
        let change = steps.peek().map_or(u64::MAX, |c| c.at);
        let goes_on = course.sleep_until(next.min(change));
        if goes_on && change <= course.now() {
            for (spec, dev) in steps.next().iter().flat_map(|c| c.specs.iter().zip([INSIDE, OUTSIDE])) {
                for command in spec.as_ref().map_or(Ok(Vec::new()), |s| compile(s, dev))? {
                    alter(&command)?;
                }
            }
            continue;
        }
        for (port, dev) in ports.iter_mut().zip([INSIDE, OUTSIDE]) {
            let shown = feed("tc", &["-s", "-j", "qdisc", "show", "dev", dev], "")?;
            let qdiscs: Value =
                serde_json::from_str(&shown).map_err(|e| Error::new("tc -j prints what cannot be read", e))?;
            port.note(course.now(), &qdiscs);
        }
        if !goes_on {
            break;
        }
        next += course.interval * (1 + (course.now() - next) / course.interval);
    }
    let frames = ports.iter().map(|p| p.sent_packets).sum();
    let shown = ["down", "up"].into_iter().zip(ports).zip(&router.legs).filter(|(_, leg)| leg.pipeline.is_some());
    Ok(Routed {
        ports: shown.map(|((way, port), _)| port.result(format!("{}.{way}", router.name))).collect(),
        about: json!({ "name": router.name, "router": "kernel", "tc": commands }),
        warnings: Vec::new(),
        frames,
    })
}

/// What tc tells of one direction.
struct Port {
    looks: Looks,
    sent_packets: u64,
}

impl Port {
    fn new(course: &Course) -> Port {
        Port { looks: Looks::new(course), sent_packets: 0 }
    }

    fn note(&mut self, now: u64, qdiscs: &Value) {
        let all = qdiscs.as_array().map_or(&[][..], Vec::as_slice);
        let root = all.iter().find(|q| q["root"] == true).unwrap_or(&Value::Null);
        let figure = |key: &str| root[key].as_u64().unwrap_or(0);
        self.sent_packets = figure("packets");
        let seen = Depth {
            at: Instant::from_nanos(now),
            packets: figure("qlen") as u32,
            bytes: figure("backlog"),
            marks: all.iter().map(marks).sum(),
            drops: figure("drops"),
            sent_bytes: figure("bytes"),
            worst: 0,
        };
        self.looks.note(now, seen);
    }

    fn result(self, name: String) -> PortResult {
        PortResult { sent_packets: self.sent_packets, ..self.looks.result(name) }
    }
}

/// Marks of one qdisc: its own, or those of its tins.
fn marks(qdisc: &Value) -> u64 {
    let own = ["ecn_mark", "ce_mark"].iter().filter_map(|key| qdisc[key].as_u64()).sum::<u64>();
    let tins = qdisc["tins"].as_array().into_iter().flatten();
    own + tins.filter_map(|t| t["ecn_mark"].as_u64()).sum::<u64>()
}

/// A row of routers for the kernel: what flies and what `netem` does goes to nodes of their own beside the queues. The second
/// of each pair says whether the kernel shall do it; without `netem` in the kernel, weir does those.
pub fn row(routers: &[Router], kernel_netem: bool) -> Result<Vec<(Router, bool)>, Error> {
    let mut out = Vec::new();
    for router in routers {
        let parts: [(Vec<&Stage>, Vec<&Stage>); 2] = router.legs.each_ref().map(split);
        if parts.iter().all(|(_, queues)| queues.is_empty()) {
            out.push((router.clone(), kernel_netem));
            continue;
        }
        // Down, packets come from the servers' side; a mere flight may stand on either.
        let extra = |i: usize| (!parts[i].0.is_empty()).then(|| read(&parts[i].0)).transpose();
        let wire = |name: &str, legs: [Leg; 2]| Router { name: name.into(), legs, steps: Vec::new() };
        let nothing = || Leg { flight: 0, pipeline: None, held: 0 };
        let flight = |i: usize| Leg { pipeline: None, ..router.legs[i].clone() };
        let name = format!("{}-wire", router.name);
        let up = extra(1)?;
        if let Some(spec) = &up {
            let leg = Leg { pipeline: Some(spec.clone()), ..router.legs[1].clone() };
            out.push((wire(&format!("{name}-up"), [nothing(), leg]), kernel_netem));
        }
        let mut queues = router.clone();
        for (i, leg) in queues.legs.iter_mut().enumerate() {
            leg.flight = 0;
            leg.pipeline = (!parts[i].1.is_empty()).then(|| read(&parts[i].1)).transpose()?;
        }
        queues.steps = router.steps.iter().map(|c| without_flight(c, &router.legs)).collect::<Result<_, _>>()?;
        out.push((queues, true));
        let down = Leg { pipeline: extra(0)?, ..router.legs[0].clone() };
        let legs = [down, if up.is_some() { nothing() } else { flight(1) }];
        if legs.iter().any(|l| l.flight > 0 || l.pipeline.is_some()) {
            out.push((wire(&name, legs), kernel_netem));
        }
    }
    Ok(out)
}

/// A pipeline's `netem` stages in front, and the rest.
fn split(leg: &Leg) -> (Vec<&Stage>, Vec<&Stage>) {
    let stages = leg.pipeline.iter().flat_map(|s| s.stages());
    let mut queued = false;
    stages.partition(|s| {
        queued |= s.kind() != "netem";
        !queued
    })
}

fn read(stages: &[&Stage]) -> Result<Spec, Error> {
    let words = stages.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(" | ");
    crate::spec::parse(&words).map(|p| p.spec).map_err(|e| Error::new(words, e))
}

fn without_flight(change: &super::plan::Change, legs: &[Leg; 2]) -> Result<super::plan::Change, Error> {
    let mut out = change.clone();
    for (spec, leg) in out.specs.iter_mut().zip(legs) {
        if let Some(spec) = spec.as_mut().filter(|_| leg.flight > 0) {
            *spec = read(&spec.stages().iter().skip(1).collect::<Vec<_>>())?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(words: &str) -> Result<Vec<Command>, String> {
        compile(&crate::spec::parse(words).expect("a pipeline").spec, "x").map_err(|e| e.to_string())
    }

    #[test]
    fn a_queue_before_a_shaper_is_its_child() {
        assert_eq!(
            compiled("pfifo limit 1000 | tbf rate 10mbit burst 3028").unwrap(),
            [
                "qdisc add dev x root handle 1: tbf rate 10mbit burst 3028b limit 1000000",
                "qdisc add dev x parent 1:1 handle 2: pfifo limit 1000"
            ]
        );
        assert_eq!(
            compiled("fq_codel | htb rate 5mbit").unwrap(),
            [
                "qdisc add dev x root handle 1: htb default 1",
                "class add dev x parent 1: classid 1:1 htb rate 5mbit",
                "qdisc add dev x parent 1:1 handle 2: fq_codel"
            ]
        );
    }

    #[test]
    fn what_is_weirs_own_is_refused_by_its_word() {
        for (words, own) in [
            ("cake bandwidth 10mbit min-occupancy 2mtu", "\"min-occupancy\" is weir's own"),
            ("codel sce_threshold 1ms | tbf rate 1mbit burst 3028", "\"sce_threshold\" is weir's own"),
        ] {
            assert!(compiled(words).is_err_and(|e| e.contains(own)), "{words}");
        }
    }

    #[test]
    fn flights_and_netem_stand_on_nodes_of_their_own() {
        let text = "[[node]]\nname = \"rt\"\ndown = \"pfifo limit 9 | tbf rate 1mbit burst 3028\"\ndelay = \"5ms\"\n[[ping]]\n";
        let scenario = crate::scenario::file::read(text, &[]).expect("a scenario").0;
        let row = row(&super::super::plan::routers(&scenario), false).expect("can be had");
        let names: Vec<(&str, bool)> = row.iter().map(|(r, kernel)| (r.name.as_str(), *kernel)).collect();
        assert_eq!(names, [("rt", true), ("rt-wire", false)]);
        assert_eq!(row[0].0.legs.each_ref().map(|l| l.flight), [0, 0]);
        assert_eq!(row[1].0.legs.each_ref().map(|l| l.flight), [5_000_000, 5_000_000]);
    }
}
