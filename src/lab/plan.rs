//! From a scenario to the routers of the lab: one for each node that does something, with the stages of both directions.
//!
//! A node's time of flight needs no router of its own: it becomes a `netem delay` in front of the next pipeline in the
//! direction of travel, as in `host → netem → aqm → host`, and where none follows, in front of the last one passed (a constant
//! delay does not care on which side of a queue it is). A node's line becomes a `tbf` behind its pipeline.

use crate::scenario::{Host, Node, Scenario};
use crate::spec::{self, Spec};
use crate::time::MICROSECOND;

/// One router of the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// The node's name.
    pub name: String,
    /// Toward the clients, and toward the servers.
    pub legs: [Leg; 2],
    /// What changes while it runs, in order of time.
    pub steps: Vec<Change>,
}

/// One direction of a router.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// Time of flight in front of the pipeline, ns.
    pub flight: u64,
    /// The scenario's pipeline with its line; `None` where the scenario has neither.
    pub pipeline: Option<Spec>,
    /// Packets that the flight holds at most.
    pub held: u64,
}

/// A router's new pipelines.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, ns after the begin.
    pub at: u64,
    /// Down and up, flights included.
    pub specs: [Option<Spec>; 2],
}

impl Leg {
    /// Everything weir does in this direction.
    pub fn spec(&self) -> Spec {
        whole(self.flight, self.held, self.pipeline.as_ref())
    }
}

/// A bucket for a line: two full packets, or a quarter millisecond.
fn burst(bps: u64) -> u64 {
    (bps / 8 / 4000).max(3028)
}

fn read(words: &str) -> Spec {
    spec::parse(words).expect("made of stages that were read before").spec
}

/// The `netem` that keeps packets for a time of flight.
pub fn flight_words(flight: u64, held: u64) -> String {
    format!("netem delay {}us limit {held}", flight / MICROSECOND)
}

fn whole(flight: u64, held: u64, pipeline: Option<&Spec>) -> Spec {
    match (flight, pipeline) {
        (0, None) => Spec::unlimited(),
        (0, Some(spec)) => spec.clone(),
        (_, None) => read(&flight_words(flight, held)),
        (_, Some(spec)) => read(&format!("{} | {spec}", flight_words(flight, held))),
    }
}

/// A node's pipeline with its line behind it.
fn with_line(spec: Option<&Spec>, line: Option<u64>) -> Option<Spec> {
    let Some(bps) = line else { return spec.cloned() };
    let queue = spec.map_or_else(|| Spec::unlimited().to_string(), Spec::to_string);
    Some(read(&format!("{queue} | tbf rate {bps}bit burst {}", burst(bps))))
}

/// The highest rate that a scenario speaks of, bits per second; a gigabit if of none.
fn highest_rate(scenario: &Scenario) -> u64 {
    let specs = scenario.nodes.iter().flat_map(|n| n.down.iter().chain(&n.up)).filter_map(Spec::bottleneck);
    let lines = |n: &Node| {
        let steps = n.steps.iter().flat_map(|s| [s.down_line, s.up_line]);
        [n.down_line, n.up_line].into_iter().chain(steps).flatten().max()
    };
    specs.chain(scenario.nodes.iter().filter_map(lines)).max().unwrap_or(1_000_000_000)
}

/// Packets that a flight holds: twice what is under way in packets of 500 bytes, and room for bursts.
fn held(rate: u64, flight: u64) -> u64 {
    ((u128::from(rate) * u128::from(flight) / 2_000_000_000_000) as u64 + 2000).min(60_000)
}

/// The router that is the line of a host with a delay of its own.
pub fn line(scenario: &Scenario, host: usize) -> Router {
    let Host { name, delay, .. } = &scenario.hosts[host];
    let leg = || Leg { flight: *delay, pipeline: None, held: held(highest_rate(scenario), *delay) };
    Router { name: format!("line-{name}"), legs: [leg(), leg()], steps: Vec::new() }
}

/// The routers from the clients to the servers; at least one.
pub fn routers(scenario: &Scenario) -> Vec<Router> {
    let does_something = |n: &Node| {
        let lines = [n.down_line, n.up_line].iter().any(Option::is_some);
        n.down.is_some() || n.up.is_some() || lines || !n.steps.is_empty()
    };
    let mut chosen: Vec<usize> = (0..scenario.nodes.len()).filter(|i| does_something(&scenario.nodes[*i])).collect();
    if chosen.is_empty() {
        chosen.extend((!scenario.nodes.is_empty()).then_some(0));
    }
    let nodes = &scenario.nodes;
    let down = flights((0..nodes.len()).rev().map(|i| (i, nodes[i].down_delay)), &chosen);
    let up = flights((0..nodes.len()).map(|i| (i, nodes[i].up_delay)), &chosen);
    let rate = highest_rate(scenario);
    let router = |(place, node): (usize, &Node)| {
        let leg = |flight: u64, spec: &Option<Spec>, line| Leg {
            flight,
            pipeline: with_line(spec.as_ref(), line),
            held: held(rate, flight),
        };
        let legs = [leg(down[place], &node.down, node.down_line), leg(up[place], &node.up, node.up_line)];
        Router { name: node.name.clone(), steps: changes(node, &legs), legs }
    };
    let mut out: Vec<Router> = chosen.iter().map(|i| &nodes[*i]).enumerate().map(router).collect();
    if out.is_empty() {
        let leg = || Leg { flight: 0, pipeline: None, held: 0 };
        out.push(Router { name: "wire".into(), legs: [leg(), leg()], steps: Vec::new() });
    }
    out
}

/// For each chosen node, what packets have flown since the one before it; what is left at the end counts for the last.
fn flights(travel: impl Iterator<Item = (usize, u64)>, chosen: &[usize]) -> Vec<u64> {
    let mut out = vec![0; chosen.len()];
    let (mut flown, mut last) = (0, None);
    for (node, delay) in travel {
        if let Some(place) = chosen.iter().position(|c| *c == node) {
            out[place] += std::mem::take(&mut flown);
            last = Some(place);
        }
        flown += delay;
    }
    if let Some(place) = last {
        out[place] += flown;
    }
    out
}

fn changes(node: &Node, legs: &[Leg; 2]) -> Vec<Change> {
    let mut steps: Vec<_> = node.steps.clone();
    steps.sort_by_key(|s| s.at);
    let change = |leg: &Leg, spec: &Option<Spec>, line: Option<u64>| {
        line.map(|bps| whole(leg.flight, leg.held, with_line(spec.as_ref(), Some(bps)).as_ref()))
    };
    let step = |s: &crate::scenario::Step| Change {
        at: s.at,
        specs: [change(&legs[0], &node.down, s.down_line), change(&legs[1], &node.up, s.up_line)],
    };
    steps.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::file;

    fn routers_of(nodes: &str) -> Vec<Router> {
        let text = format!("{nodes}\n[[ping]]\n");
        routers(&file::read(&text, &[]).expect("a scenario").0)
    }

    fn words(router: &Router) -> [String; 2] {
        router.legs.each_ref().map(|l| l.spec().to_string())
    }

    #[test]
    fn the_flight_of_a_node_without_pipelines_goes_in_front_of_the_next_queue() {
        let all = routers_of(
            "[[node]]\nname = \"rt\"\ndown = \"cake bandwidth 50mbit\"\n[[node]]\nname = \"dl\"\ndelay = \"10ms\"",
        );
        assert_eq!(all.len(), 1);
        let [down, up] = words(&all[0]);
        assert_eq!(down, format!("netem limit 2250 delay 10ms | {}", read("cake bandwidth 50mbit")));
        assert_eq!(up, "netem limit 2250 delay 10ms");
    }

    #[test]
    fn a_flight_between_two_routers_belongs_to_the_second_in_the_direction_of_travel() {
        let all = routers_of(
            "[[node]]\nname = \"rt\"\ndown = \"codel\"\nup = \"codel\"\n[[node]]\nname = \"isp\"\ndown = \"pfifo limit 9 | tbf rate 10mbit burst 3028\"\ndown-delay = \"3ms\"\nup-delay = \"4ms\"",
        );
        let flights: Vec<[u64; 2]> = all.iter().map(|r| r.legs.each_ref().map(|l| l.flight / 1_000_000)).collect();
        // Up: 4 ms behind isp, and no router after it.
        assert_eq!(flights, [[3, 0], [0, 4]]);
        assert_eq!(all[1].legs[1].pipeline, None);
    }

    #[test]
    fn a_line_is_a_shaper_behind_the_queue_and_a_step_changes_its_rate() {
        let all = routers_of(
            "[[node]]\nname = \"rt\"\ndown = \"codel\"\ndown-line = \"50mbit\"\ndelay = \"1ms\"\n[[node.step]]\nat = \"2s\"\ndown-line = \"10mbit\"",
        );
        let before = all[0].legs[0].spec();
        let after = all[0].steps[0].specs[0].as_ref().expect("a change");
        assert!(before.to_string().ends_with("tbf rate 50mbit burst 3028b"), "{before}");
        assert!(after.to_string().ends_with("tbf rate 10mbit burst 3028b") && after.same_kind(&before), "{after}");
    }

    #[test]
    fn a_scenario_without_nodes_is_a_wire() {
        let all = routers_of("");
        assert_eq!((all.len(), all[0].name.as_str()), (1, "wire"));
    }
}
