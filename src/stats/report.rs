//! What is said of a direction, to people and to programs: `weir stats`, `weir bridge` at its end.
//!
//! First what tc prints for the same disciplines, then weir's additions. Everything in a report is
//! of one moment, so sums over its parts hold.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::StageStats;
use super::counters::{Census, CodePoints, Counters, DropCounts};
use super::format::time_ns;
use super::histogram::{QUANTILES, Sojourns, tag};
use super::{own, rows, tc_json, tc_text};

/// A direction at one moment.
#[derive(Clone, Debug)]
pub struct Report {
    /// `down` or `up`.
    pub direction: &'static str,
    /// The NIC it receives on.
    pub from: String,
    /// The NIC it sends on.
    pub to: String,
    /// The specification in force.
    pub spec: String,
    /// Seconds since the start.
    pub seconds: f64,
    /// The stages, a child behind the stage that pulls it.
    pub stages: Vec<StageStats>,
    /// What was counted.
    pub counters: Counters,
    /// What was dropped.
    pub drops: DropCounts,
    /// Packets and bytes that wait.
    pub backlog: (u32, u64),
    /// Where the frames are.
    pub census: Census,
    /// How long packets waited since the start.
    pub sojourns: Sojourns,
    /// How late the worker was, ns.
    pub late: Histogram<u64>,
    /// What `autorate` does, as a line and as an object.
    pub autorate: Option<(String, Value)>,
    /// Counters of the devices, by group: objects of numbers, or lists of such.
    pub devices: Vec<(&'static str, Value)>,
}

impl Report {
    /// tc's lines, then weir's.
    pub fn text(&self) -> String {
        let mut out: String = rows::rows(&self.to, &self.stages).iter().map(tc_text::stage).collect();
        self.lines(&mut out).expect("a String takes everything");
        out
    }

    fn lines(&self, out: &mut String) -> std::fmt::Result {
        let c = &self.counters;
        writeln!(out, " weir {} {}->{} {:.1}s: {}", self.direction, self.from, self.to, self.seconds, self.spec)?;
        let drops: Vec<_> = self.drops.happened().map(|(r, n, _)| format!(" {} {n}", r.name())).collect();
        self.stages.iter().for_each(|s| out.push_str(&own::lines(s)));
        if let Some((line, _)) = &self.autorate {
            writeln!(out, "  autorate {line}")?;
        }
        writeln!(out, "  received {} bytes {} pkt, unparsed {}", c.received_bytes, c.received_packets, c.unparsed)?;
        writeln!(out, "  sent {} bytes {} pkt, refused {}", c.sent_bytes, c.sent_packets, c.refused)?;
        writeln!(out, "  dropped {} pkt:{}", self.drops.total(), or_none(&drops.concat()))?;
        let marked = self.marked().map(|(name, n)| format!(" {name} {n}")).concat();
        writeln!(out, "  marked here:{marked}")?;
        writeln!(out, "  arrived{}", code_points(&c.arrived))?;
        writeln!(out, "  left{}", code_points(&c.left))?;
        writeln!(out, "  sojourn decision {}", quantile_line(&self.sojourns.decision))?;
        writeln!(out, "  sojourn total {}", quantile_line(&self.sojourns.total))?;
        for (name, h) in self.tins() {
            writeln!(out, "  sojourn {} {}", tag(&name), quantile_line(h))?;
        }
        writeln!(out, "  late {}", quantile_line(&self.late))?;
        let burst = c.longest_catch_up;
        writeln!(out, "  longest catch-up burst {} bytes, {} late", burst.bytes, time_ns(burst.late_ns))?;
        let n = &self.census;
        writeln!(
            out,
            "  frames {}: free {} queued {} receiving {} sending {} missing {}",
            n.capacity,
            n.free,
            n.queued,
            n.receiving,
            n.sending,
            n.missing()
        )?;
        for (name, counters) in &self.devices {
            match counters {
                Value::Array(list) => {
                    for (i, one) in list.iter().enumerate() {
                        device_line(out, &format!("{name} {i}"), one)?;
                    }
                }
                one => device_line(out, name, one)?,
            }
        }
        Ok(())
    }

    /// tc's objects, with `direction` in each, and weir's additions under `weir` in the first.
    pub fn qdiscs(&self) -> Vec<Value> {
        let mut weir = Some(self.json());
        let rows = rows::rows(&self.to, &self.stages);
        let object = |row| {
            let mut object = tc_json::stage(row);
            object.insert("direction".into(), self.direction.into());
            if let Some(weir) = weir.take() {
                object.insert("weir".into(), weir);
            }
            Value::Object(object)
        };
        rows.iter().map(object).collect()
    }

    /// weir's additions alone; the names are those of [`super::counters`].
    pub fn json(&self) -> Value {
        let c = &self.counters;
        let drops: Map<_, _> = self
            .drops
            .happened()
            .map(|(r, packets, bytes)| (r.name().into(), json!({ "packets": packets, "bytes": bytes })))
            .collect();
        let marked: Map<_, _> = self.marked().into_iter().map(|(name, n)| (name.into(), n.into())).collect();
        let tins: Map<_, _> = self.tins().into_iter().map(|(name, h)| (tag(&name), quantiles(h))).collect();
        let mut sojourn =
            json!({ "decision": quantiles(&self.sojourns.decision), "total": quantiles(&self.sojourns.total) });
        if !tins.is_empty() {
            sojourn["tins"] = tins.into();
        }
        let mut out = json!({
            "direction": self.direction,
            "from": self.from,
            "to": self.to,
            "spec": self.spec,
            "seconds": self.seconds,
            "received": { "packets": c.received_packets, "bytes": c.received_bytes },
            "sent": { "packets": c.sent_packets, "bytes": c.sent_bytes },
            "backlog": { "packets": self.backlog.0, "bytes": self.backlog.1 },
            "dropped": { "packets": self.drops.total(), "by_reason": drops },
            "marked": marked,
            "arrived": c.arrived,
            "left": c.left,
            "unparsed": c.unparsed,
            "refused": c.refused,
            "sojourn_ns": sojourn,
            "late_ns": quantiles(&self.late),
            "longest_catch_up": c.longest_catch_up,
            "census": self.census,
            "census_missing": self.census.missing(),
        });
        let stages: Vec<_> = self.stages.iter().filter_map(own::figures).collect();
        if !stages.is_empty() {
            out["stages"] = json!(stages);
        }
        if let Some((_, object)) = &self.autorate {
            out["autorate"] = object.clone();
        }
        for (name, counters) in &self.devices {
            out[*name] = counters.clone();
        }
        out
    }

    fn marked(&self) -> [(&'static str, u64); 5] {
        let c = &self.counters;
        [
            ("ecn", c.marked_ecn),
            ("pi2", c.marked_pi2),
            ("ce_threshold", c.marked_ce_threshold),
            ("step", c.marked_step),
            ("sce", c.marked_sce),
        ]
    }

    /// Tins in the order they are shown, with their histograms.
    fn tins(&self) -> Vec<(String, &Histogram<u64>)> {
        let tins = self.stages.iter().flat_map(StageStats::tins);
        tins.filter_map(|(name, i)| Some((name, self.sojourns.tins.get(i)?))).collect()
    }
}

/// Percentiles of a histogram of nanoseconds, as an object.
pub fn quantiles(h: &Histogram<u64>) -> Value {
    let mut map = Map::new();
    map.insert("count".into(), h.len().into());
    for (name, q) in QUANTILES {
        map.insert(name.into(), h.value_at_quantile(q).into());
    }
    map.insert("max".into(), h.max().into());
    map.into()
}

/// The same as a line.
pub fn quantile_line(h: &Histogram<u64>) -> String {
    let named = QUANTILES.map(|(name, q)| format!("{name} {}", time_ns(h.value_at_quantile(q))));
    format!("{} max {}", named.join(" "), time_ns(h.max()))
}

fn code_points(c: &CodePoints) -> String {
    format!(" not_ect {} ect1 {} ect0 {} ce {} no_ds {}", c.not_ect, c.ect1, c.ect0, c.ce, c.no_ds)
}

/// The counters of a group that are not zero; no line if all are.
fn device_line(out: &mut String, name: &str, counters: &Value) -> std::fmt::Result {
    let counters = counters.as_object().into_iter().flatten();
    let counted: Vec<_> = counters.filter(|(_, n)| n.as_u64() != Some(0)).map(|(k, n)| format!(" {k} {n}")).collect();
    if counted.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {name}{}", counted.concat())
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { " none" } else { text }
}

#[cfg(test)]
mod tests;
