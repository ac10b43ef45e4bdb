//! Nodes whose shapers follow their link, in virtual time.

use super::{Event, ORIGIN, Simulation};
use crate::autorate::{INTERVAL, Line, Pilot};
use crate::pipeline::Link;
use crate::spec::Spec;

/// A node with `autorate`.
pub(super) struct Steering {
    pilot: Pilot,
    ports: [usize; 2],
    specs: [Spec; 2],
    link: Link,
    log: Vec<Line>,
}

impl Steering {
    /// What it wrote down.
    pub(super) fn into_log(self) -> Vec<Line> {
        self.log
    }
}

impl Simulation {
    /// Puts a pilot at each node that has the word `autorate`.
    pub(super) fn take_pilots(&mut self, link: Link) {
        for (n, node) in self.scenario.nodes.iter().enumerate() {
            let specs = [&node.down, &node.up].map(|s| s.clone().unwrap_or_else(Spec::unlimited));
            let ranges = specs.each_ref().map(Spec::range);
            if ranges.iter().all(Option::is_none) {
                continue;
            }
            let (pilot, log) = Pilot::new(ORIGIN, ranges);
            let ports = [2 * n, 2 * n + 1];
            self.network.watch(ports, self.seed);
            self.events.at(ORIGIN + INTERVAL, Event::Autorate(self.pilots.len() as u32));
            self.pilots.push(Steering { pilot, ports, specs, link, log });
        }
    }

    /// An interval of a pilot ends.
    pub(super) fn steer(&mut self, i: usize) {
        let (now, s) = (self.now, &mut self.pilots[i]);
        let looks = [0, 1].map(|way| self.network.look(s.ports[way], &s.specs[way]));
        let (lines, rates) = s.pilot.tick(now, &looks);
        s.log.extend(lines);
        for (way, rate) in rates.into_iter().enumerate() {
            if let Some(rate) = rate {
                let spec = s.specs[way].at_rate(rate);
                self.network.steer(now, s.ports[way], &spec, s.link, &mut self.events);
            }
        }
        self.events.at(now + INTERVAL, Event::Autorate(i as u32));
    }
}
