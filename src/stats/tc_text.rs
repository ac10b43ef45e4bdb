//! `tc -s qdisc show`, word for word (`spec/cake.md` §20, `spec/codel.md` §1.7, §2.6 and §5).

use std::fmt::Write;

use super::StageStats;
use super::format::{rate, size, time_us};
use super::rows::Row;
use super::{tc_cake, tc_fq, tc_netem, tc_tbf};
use crate::qdisc::{codel, fifo, tbf};
use crate::units::LinkLayer;

/// All lines of one stage, each with its newline.
pub fn stage(row: &Row<'_>) -> String {
    let mut out = format!("qdisc {} {:x}: ", row.stats.kind(), row.handle);
    if !row.dev.is_empty() {
        push(&mut out, format_args!("dev {} ", row.dev));
    }
    match row.parent {
        Some(parent) => push(&mut out, format_args!("parent {parent:x}:1 ")),
        None => out.push_str("root refcnt 2 "),
    }
    out.push_str(&options(row.stats));
    out.push('\n');
    basic(row.stats, &mut out);
    xstats(row.stats, &mut out);
    out
}

/// The parameters in force, in tc's order and with its spaces.
pub fn options(stats: &StageStats) -> String {
    match stats {
        StageStats::Fifo { kind: fifo::Kind::Bytes, limit, .. } => format!("limit {}", size(*limit)),
        StageStats::Fifo { limit, .. } => format!("limit {limit}p"),
        StageStats::Tbf(s) => tbf_options(s),
        StageStats::Codel(s) => codel_options(s),
        StageStats::Htb(s) => tc_netem::htb_text(s),
        StageStats::Netem(s) => tc_netem::netem_text(s),
        StageStats::Link(s) => tc_netem::link_text(s),
        StageStats::Marked { inner, .. } => options(inner),
        StageStats::FqCodel(s) => tc_fq::fq_codel_options(s),
        StageStats::Dualpi2(s) => tc_fq::dualpi2_options(s),
        StageStats::Cake(s) => tc_cake::options_text(s),
    }
}

fn basic(stats: &StageStats, out: &mut String) {
    let (b, requeues) = (stats.basic(), stats.requeues());
    push(
        out,
        format_args!(
            " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {requeues}) \n backlog {} {}p requeues {requeues}\n",
            b.sent_bytes,
            b.sent_packets,
            stats.drops(),
            b.overlimits,
            size(b.backlog),
            b.qlen
        ),
    );
}

fn xstats(stats: &StageStats, out: &mut String) {
    match stats {
        StageStats::Fifo { .. } | StageStats::Tbf(_) => {}
        StageStats::Codel(s) => codel_xstats(s, out),
        StageStats::Htb(s) => tc_netem::htb_xstats(s, out),
        StageStats::Netem(s) => tc_netem::netem_xstats(s, out),
        StageStats::Link(s) => tc_netem::link_xstats(s, out),
        StageStats::Marked { inner, mb_ecn } => {
            xstats(inner, out);
            out.push_str(&super::mb_ecn::text(mb_ecn));
        }
        StageStats::FqCodel(s) => out.push_str(&tc_fq::fq_codel_xstats(s)),
        StageStats::Dualpi2(s) => out.push_str(&tc_fq::dualpi2_xstats(s)),
        StageStats::Cake(s) => tc_cake::xstats_text(s, out),
    }
}

fn tbf_options(s: &tbf::Stats) -> String {
    let shown = tc_tbf::Shown::of(s);
    let mut out = format!("rate {} burst {} ", rate(s.time.rate()), size(shown.burst));
    if let Some((peak, mtu)) = shown.peak {
        push(&mut out, format_args!("peakrate {} minburst {} ", rate(peak), size(mtu)));
    }
    match shown.limit {
        tc_tbf::Limit::Latency(us) => push(&mut out, format_args!("lat {} ", time_us(us))),
        tc_tbf::Limit::Bytes(n) => push(&mut out, format_args!("limit {} ", size(n))),
        tc_tbf::Limit::None => {}
    }
    if s.time.overhead != 0 {
        push(&mut out, format_args!("overhead {} ", s.time.overhead));
    }
    if s.time.link_layer == LinkLayer::Atm {
        out.push_str("linklayer atm ");
    }
    out
}

fn codel_options(s: &codel::Stats) -> String {
    let mut out = format!("limit {}p target {} ", s.limit, time_us(s.law.target.as_us().into()));
    if s.law.ce_threshold != codel::Ticks::DISABLED {
        push(&mut out, format_args!("ce_threshold {} ", time_us(s.law.ce_threshold.as_us().into())));
    }
    out.push_str(&tc_fq::sce_options(&s.law));
    push(&mut out, format_args!("interval {} ", time_us(s.law.interval.as_us().into())));
    if s.law.ecn {
        out.push_str("ecn ");
    }
    out
}

fn codel_xstats(s: &codel::Stats, out: &mut String) {
    let dropping = if s.state.dropping { " dropping" } else { "" };
    let next = s.drop_next_us();
    let sign = if next < 0 { "-" } else { "" };
    push(
        out,
        format_args!(
            "  count {} lastcount {} ldelay {}{dropping} drop_next {sign}{}\n  maxpacket {} ecn_mark {} drop_overlimit {}",
            s.state.count,
            s.state.lastcount,
            time_us(s.state.ldelay.as_us().into()),
            time_us(next.unsigned_abs()),
            s.tally.maxpacket,
            s.tally.ecn_mark,
            s.drop_overlimit
        ),
    );
    if s.tally.ce_mark != 0 {
        push(out, format_args!(" ce_mark {}", s.tally.ce_mark));
    }
    out.push_str(&tc_fq::sce_xstats(&s.law, &s.tally));
    out.push('\n');
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes everything");
}

#[cfg(test)]
mod tests;
