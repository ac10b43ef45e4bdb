//! Scenarios that come along. Each is a file like any other, written from a few parameters; several
//! cases of one scenario stand side by side in one table.

mod mb_ecn;
mod tcp;

use crate::spec::{suggest, units};
use crate::time::MICROSECOND;

/// A parameter of a built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Its value if nothing is said.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// One file of a built-in scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the case within the scenario, for rows and folders.
    pub name: String,
    /// The file.
    pub text: String,
}

type Make = fn(&Values) -> Result<Vec<Case>, String>;

/// A built-in scenario.
#[derive(Clone, Copy)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    make: Make,
}

/// The values of a scenario's parameters.
pub struct Values<'a> {
    builtin: &'a Builtin,
    given: &'a [(String, String)],
}

const fn param(name: &'static str, default: &'static str, help: &'static str) -> Param {
    Param { name, default, help }
}

const SENDER: Param = param("sender", "cubic", "congestion control of the bulk flows");
const SECONDS: Param = param("seconds", "30", "length of the run, s");

/// All of them.
pub const ALL: &[Builtin] = &[
    Builtin {
        name: "mtu-scaling",
        title: "CAKE behind a bottleneck: the minimum occupancy below which its AQM is off, rule by rule",
        params: &[
            param("rate", "10mbit", "rate of the bottleneck and of cake"),
            param("rtt", "50ms", "round trip"),
            param("rule", "all", "one min-occupancy rule, or all"),
            param("load", "all", "down32, up32, rrul, or all"),
            param("flows", "32", "flows of down32 and up32"),
            param("mode", "ingress", "cake in ingress mode, or egress"),
            SENDER,
            SECONDS,
        ],
        make: tcp::mtu_scaling,
    },
    Builtin {
        name: "bbr20",
        title: "Twenty flows, one every 100 ms, at a step threshold of 20 packets' time",
        params: &[
            param("rate", "1gbit", "rate of the bottleneck"),
            param("rtt", "auto", "round trip; auto keeps the pipe at 1 Gbit/s × 1 ms"),
            param("threshold", "auto", "ce_threshold; auto is the time of 20 full packets"),
            param("aqm", "codel", "codel or fq_codel"),
            param("flows", "20", "number of flows"),
            param("sender", "bbr2", "congestion control of the flows"),
            param("seconds", "30", "length of the run, s"),
        ],
        make: tcp::bbr20,
    },
    Builtin {
        name: "lossy",
        title: "A download over a link that loses a tenth, each way",
        params: &[
            param("rate", "1mbit", "rate, each way"),
            param("loss", "10%", "packets lost, each way"),
            param("delay", "500ms", "one-way delay"),
            param("size", "284000", "bytes of the download"),
            param("sender", "all", "one congestion control, or all of bbr, cubic, reno"),
        ],
        make: tcp::lossy,
    },
    Builtin {
        name: "rto",
        title: "The two estimators of the retransmission timeout on the lossy link, side by side",
        params: &[
            param("rate", "1mbit", "rate, each way"),
            param("loss", "10%", "packets lost, each way"),
            param("delay", "500ms", "one-way delay"),
            param("size", "284000", "bytes of the download"),
            param("patience", "24s", "a socket without progress for so long is given up"),
            param("timer", "all", "rfc793, rfc6298, jacobson, or all of the first two"),
        ],
        make: tcp::rto,
    },
    Builtin {
        name: "rrul",
        title: "Realtime response under load: four flows each way and a ping",
        params: &[
            param("rate", "100mbit", "rate, each way"),
            param("rtt", "20ms", "round trip"),
            param("qdisc", "cake bandwidth RATE", "the pipeline of both directions; RATE stands for the rate"),
            param("flows", "4", "flows each way"),
            SENDER,
            param("seconds", "60", "length of the run, s"),
        ],
        make: tcp::rrul,
    },
    Builtin {
        name: "square",
        title: "A link whose capacity jumps",
        params: &[
            param("high", "50mbit", "the high rate"),
            param("low", "10mbit", "the low rate"),
            param("period", "10s", "time at each"),
            param("rtt", "40ms", "round trip"),
            param("qdisc", "codel", "the queue before the link"),
            param("flows", "2", "number of flows"),
            SENDER,
            param("seconds", "60", "length of the run, s"),
        ],
        make: tcp::square,
    },
    Builtin {
        name: "staggered",
        title: "Flows that arrive one after another and leave in the same order",
        params: &[
            param("rate", "100mbit", "rate of the bottleneck"),
            param("rtt", "20ms", "round trip"),
            param("qdisc", "codel | tbf rate RATE burst BURST", "the pipeline; RATE and BURST stand for the rate's"),
            param("flows", "4", "number of flows"),
            param("every", "10s", "time between arrivals, and between departures"),
            SENDER,
        ],
        make: tcp::staggered,
    },
    Builtin {
        name: "hosts",
        title: "One flow of one host against eight of another",
        params: &[
            param("rate", "50mbit", "rate of the bottleneck"),
            param("rtt", "20ms", "round trip"),
            param("isolation", "all", "flows, dual, triple, or all"),
            param("servers", "all", "one server for all, own servers, or all"),
            param("direction", "down", "down or up"),
            SENDER,
            SECONDS,
        ],
        make: tcp::hosts,
    },
    Builtin {
        name: "voip-beside-bulk",
        title: "A call beside bulk transfers",
        params: &[
            param("rate", "10mbit", "rate of the bottleneck"),
            param("rtt", "40ms", "round trip"),
            param("qdisc", "all", "one pipeline, or all of pfifo, codel, fq_codel and cake"),
            param("flows", "4", "bulk flows"),
            SENDER,
            SECONDS,
        ],
        make: tcp::voip,
    },
    Builtin {
        name: "shaping",
        title: "How exactly a rate is kept: one flow and many under a shaper",
        params: &[
            param("rate", "100mbit", "the rate"),
            param("rtt", "20ms", "round trip"),
            param("qdisc", "cake bandwidth RATE", "the pipeline; RATE and BURST stand for the rate's"),
            param("flows", "32", "number of flows"),
            SENDER,
            param("seconds", "20", "length of the run, s"),
        ],
        make: tcp::shaping,
    },
    mb_ecn::ONE,
    mb_ecn::TWO,
    mb_ecn::RELIABLE,
    mb_ecn::STAGGERED,
    mb_ecn::ASYMMETRIC,
    mb_ecn::PATHS,
    mb_ecn::L4S,
];

impl Values<'_> {
    fn text(&self, name: &str) -> &str {
        let given = self.given.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        given.unwrap_or_else(|| self.builtin.params.iter().find(|p| p.name == name).map_or("", |p| p.default))
    }

    fn bad(&self, name: &str, why: impl std::fmt::Display) -> String {
        format!("--param {name}={}: {why}", self.text(name))
    }

    fn count(&self, name: &str) -> Result<u64, String> {
        self.text(name).parse().ok().filter(|n| *n > 0).ok_or_else(|| self.bad(name, "not a number above zero"))
    }

    /// The length of a run, s; the unit may stand behind it.
    fn seconds(&self) -> Result<u64, String> {
        let text = self.text("seconds");
        let number = text.strip_suffix('s').unwrap_or(text).parse().ok();
        number.filter(|n| *n > 0).ok_or_else(|| self.bad("seconds", "not a number of seconds above zero"))
    }

    fn rate(&self, name: &str) -> Result<u64, String> {
        let rate = units::rate(self.text(name)).map_err(|e| self.bad(name, e))?;
        if rate.is_zero() { Err(self.bad(name, "a rate of zero carries nothing")) } else { Ok(rate.bits_per_second()) }
    }

    fn time(&self, name: &str) -> Result<u64, String> {
        super::file::time(self.text(name)).map_err(|e| self.bad(name, e))
    }

    /// The values that are meant: one of `choices`, or all of them.
    fn several<'a>(&'a self, name: &str, choices: &[&'a str]) -> Result<Vec<&'a str>, String> {
        let value = self.text(name);
        if value == "all" {
            return Ok(choices.to_vec());
        }
        if choices.contains(&value) {
            return Ok(vec![value]);
        }
        let hint = suggest::hint(value, choices.iter().copied());
        Err(self.bad(name, format!("not one of all, {}{hint}", choices.join(", "))))
    }

    /// A pipeline with RATE and BURST filled in.
    fn pipeline(&self, text: &str, rate: &str) -> Result<String, String> {
        let bps = units::rate(rate)?.bits_per_second();
        Ok(text.replace("RATE", rate).replace("BURST", &burst(bps).to_string()))
    }
}

/// A bucket for a rate: two full packets, as the baselines have it, or a quarter millisecond.
fn burst(bps: u64) -> u64 {
    (bps / 8 / 4000).max(3028)
}

fn ms(ns: u64) -> String {
    format!("{}us", ns / MICROSECOND)
}

/// The cases of a built-in scenario.
///
/// # Errors
/// If a parameter is not the scenario's, or has a value that it cannot have.
pub fn cases(builtin: &Builtin, given: &[(String, String)]) -> Result<Vec<Case>, String> {
    for (name, value) in given {
        if !builtin.params.iter().any(|p| p.name == name) {
            let names: Vec<&str> = builtin.params.iter().map(|p| p.name).collect();
            let hint = suggest::hint(name, names.iter().copied());
            return Err(format!(
                "--param {name}={value}: {} has no parameter \"{name}\"{hint}\nallowed: {}",
                builtin.name,
                names.join(", ")
            ));
        }
    }
    (builtin.make)(&Values { builtin, given })
}

/// The built-in scenario with a name.
pub fn named(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|b| b.name == name)
}

fn head(name: &str, title: &str, seconds: u64) -> String {
    let steady = (seconds / 2).clamp(u64::from(seconds > 1), 5);
    format!("name = \"{name}\"\ntitle = \"{title}\"\nduration = \"{seconds}s\"\nsteady-from = \"{steady}s\"\n")
}

fn node(name: &str, words: &[(&str, &str)]) -> String {
    let mut out = format!("\n[[node]]\nname = \"{name}\"\n");
    words.iter().for_each(|(key, value)| out += &format!("{key} = \"{value}\"\n"));
    out
}

fn bulk(name: &str, count: u64, direction: &str, sender: &str) -> String {
    format!("\n[[flow]]\nname = \"{name}\"\ncount = {count}\ndirection = \"{direction}\"\nsender = \"{sender}\"\n")
}

const PING: &str = "\n[[ping]]\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::file;

    const SENDERS: [&str; 7] = ["reno", "cubic", "dctcp", "bbr", "bbr2", "prague", "fixed"];

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
    }

    #[test]
    fn every_built_in_scenario_is_a_file_that_can_be_read() {
        for builtin in ALL {
            for case in cases(builtin, &[]).unwrap() {
                let read = file::read(&case.text, &SENDERS).map_err(|p| p.render(&case.name, &case.text));
                read.unwrap();
            }
        }
    }

    #[test]
    fn the_threshold_is_242_us_at_a_gigabit_and_scales_with_rate_and_rtt() {
        let text = |rate: &str| cases(named("bbr20").unwrap(), &given(&[("rate", rate)])).unwrap()[0].text.clone();
        assert!(text("1gbit").contains("ce_threshold 242us | tbf rate 1gbit burst 3028"));
        assert!(text("100mbit").contains("ce_threshold 2420us"));
        assert!(text("100mbit").contains("delay = \"5000us\""));
    }

    #[test]
    fn a_wrong_parameter_is_refused_with_the_nearest_one() {
        let e = cases(named("rrul").unwrap(), &given(&[("rat", "1mbit")])).unwrap_err();
        assert!(e.contains("did you mean \"rate\"?"), "{e}");
        let e = cases(named("mtu-scaling").unwrap(), &given(&[("load", "down33")])).unwrap_err();
        assert!(e.contains("did you mean \"down32\"?"), "{e}");
    }

    #[test]
    fn the_mtu_scaling_table_has_a_row_for_every_load_and_rule() {
        assert_eq!(cases(named("mtu-scaling").unwrap(), &[]).unwrap().len(), 18);
        let one = cases(named("mtu-scaling").unwrap(), &given(&[("load", "up32"), ("rule", "2mtu")])).unwrap();
        assert!(one[0].text.contains("min-occupancy 2mtu both"));
    }
}
