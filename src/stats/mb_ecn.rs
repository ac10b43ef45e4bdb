//! What multi-bit ECN did, behind what tc prints of the discipline (`spec/mb-ecn.md` §5.7).

use serde_json::{Map, Value, json};

use super::format;
use crate::mark::mb_ecn::{Carrier, Stats, code, dtp::Untouched};
use crate::units::Rate;

/// A depth code in words: `10 (5.7 packets)`.
pub fn depth(ecn: u8) -> String {
    match ecn {
        0 => "0 (at most one packet)".into(),
        _ => format!("{ecn} ({} packets)", format::significant(code::value(ecn.into()), 3)),
    }
}

/// A capacity code in words: `81 (9961Kbit)`.
pub fn capacity(cap: u8) -> String {
    match cap {
        0 => "0 (not known)".into(),
        _ => format!("{cap} ({})", format::rate(Rate::from_bytes_per_second(code::decode(cap)))),
    }
}

/// The lines for people.
pub(super) fn text(s: &Stats) -> String {
    let t = &s.tally;
    let mut out = format!(
        "  mb-ecn depth {} max {} capacity {}\n  candidates {} marked_ecn {} marked_cap {} unchanged {} marked_ce {} suppressed {} learned {}\n",
        depth(t.own_ecn),
        depth(t.max_own_ecn),
        capacity(s.own_cap),
        t.candidates,
        t.marked_ecn,
        t.marked_cap,
        t.unchanged,
        t.marked_ce,
        t.suppressed,
        s.learned
    );
    for (name, _, c) in carriers(s).into_iter().filter(|(_, on, _)| *on) {
        out += &format!("  {name}: recognised {} marked {}\n", c.recognised, c.marked);
    }
    let refused: Vec<_> = reasons(s).filter(|(_, n)| *n > 0).map(|(why, n)| format!("{why} {n}")).collect();
    if !refused.is_empty() {
        out += &format!("  untouched: {}\n", refused.join(" "));
    }
    out
}

/// The same with stable keys.
pub(super) fn figures(s: &Stats) -> Value {
    let t = &s.tally;
    let untouched: Map<String, Value> = reasons(s).map(|(why, n)| (why.to_string(), n.into())).collect();
    json!({
        "enabled": true,
        "learned": s.learned,
        "candidates": t.candidates,
        "marked_ecn": t.marked_ecn,
        "marked_cap": t.marked_cap,
        "unchanged": t.unchanged,
        "marked_ce": t.marked_ce,
        "suppressed": t.suppressed,
        "carriers": Value::Object(carriers(s).into_iter().map(|(name, on, c)| {
            (name.to_string(), json!({ "enabled": on, "recognised": c.recognised, "marked": c.marked }))
        }).collect()),
        "untouched": untouched,
        "own_ecn": t.own_ecn,
        "max_own_ecn": t.max_own_ecn,
        "own_cap": s.own_cap,
    })
}

/// By carrier: its word, whether it is on, and what was done. That of `l4s` is a packet's ECN field:
/// every one that became CE is a mark.
fn carriers(s: &Stats) -> [(&'static str, bool, Carrier); 3] {
    let [dtp, hbh] = s.tally.carriers;
    let l4s = Carrier { recognised: s.tally.ect_1, marked: s.tally.marked_ce };
    [("dtp", s.params.dtp.is_some(), dtp), ("l4s", s.params.l4s, l4s), ("hbh", s.params.hbh, hbh)]
}

fn reasons(s: &Stats) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    Untouched::ALL.iter().map(|why| (why.name(), s.tally.untouched[*why as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_in_words() {
        assert_eq!(depth(0), "0 (at most one packet)");
        assert_eq!(depth(10), "10 (5.66 packets)");
        assert_eq!(capacity(81), "81 (9961Kbit)");
        assert_eq!(capacity(0), "0 (not known)");
    }
}
