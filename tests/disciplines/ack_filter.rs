//! cake's ACK filter beside other flows.

use weir::qdisc::Reason;
use weir::time::{MICROSECOND as US, SECOND};
use weir::trace::format::{Arrival, Outcome};

use crate::bench::{Offer, of_flow, paced, through};

/// 64 bytes at 1 Mbit/s, nanoseconds.
const ONE_PACKET: u64 = 512_000;

/// Pure acknowledgements, each of more than the one before.
fn acks(every: u64, until: u64) -> Vec<Arrival> {
    let mut acks = paced(0, every, until, Offer { flow: 1, len: 54, ..Offer::default() });
    for (i, a) in acks.iter_mut().enumerate() {
        a.protocol = 6;
        a.tcp = Some((0x10, 1, 1 + 2896 * i as u32, Vec::new()));
    }
    acks
}

/// Nine of ten acknowledgements are filtered; what is left of them is offered again, without the others.
#[test]
fn filtered_acknowledgements_cost_another_flow_neither_its_share_nor_time() {
    let datagrams = paced(0, 80 * US, 2 * SECOND, Offer { flow: 2, len: 64, ..Offer::default() });
    let of_the_other = |acks: Vec<Arrival>| {
        let all = [acks, datagrams.clone()].concat();
        let (run, arrivals) = through("cake bandwidth 1mbit ack-filter", None, all);
        let filtered: Vec<u64> = run
            .outcomes
            .iter()
            .filter(|o| o.dropped == Some(Reason::AckFilter))
            .map(|o| arrivals[o.id as usize].t_ns)
            .collect();
        let sent = |o: &&&Outcome| o.dropped.is_none() && o.t_ns < 2 * SECOND;
        let mut waited: Vec<u64> =
            of_flow(&run, &arrivals, 2).iter().filter(sent).map(|o| o.t_ns - arrivals[o.id as usize].t_ns).collect();
        waited.sort_unstable();
        (filtered, waited)
    };
    let all = acks(80 * US, 2 * SECOND);
    let (filtered, with_all) = of_the_other(all.clone());
    assert!(filtered.len() * 10 > all.len() * 8, "{} of {}", filtered.len(), all.len());
    let survivors = all.into_iter().filter(|a| !filtered.contains(&a.t_ns)).collect();
    let (again, with_survivors) = of_the_other(survivors);
    assert!(again.is_empty(), "they are all needed: {}", again.len());
    assert_eq!(with_all.len(), with_survivors.len(), "its share");
    let (median, alone) = (with_all[with_all.len() / 2], with_survivors[with_survivors.len() / 2]);
    assert!(median.abs_diff(alone) < ONE_PACKET, "{median} ns against {alone} ns");
}
