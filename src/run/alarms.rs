//! What should never happen, or should be known when it does: said once each time a figure grows.

use crate::engine::Snapshot;
use crate::port::xdp::SocketStatistics;
use crate::port::xdp::program::GateCounters;

/// Compares a direction's figures with those a second ago.
#[derive(Debug, Default)]
pub struct Alarms {
    /// Frames that are nowhere.
    missing: i64,
    /// Figures in the order of [`Alarms::note`].
    before: [u64; 7],
}

impl Alarms {
    /// Lines for people about what happened since the last call. `from` and `to` are the NICs that
    /// the direction receives on and sends on.
    pub fn note(
        &mut self,
        [from, to]: [&str; 2],
        snapshot: &Snapshot,
        gate: GateCounters,
        sockets: SocketStatistics,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let missing = snapshot.census.missing();
        if missing != self.missing {
            lines.push(format!("{from} to {to}: {missing} frames are nowhere: {:?}", snapshot.census));
            self.missing = missing;
        }
        let port = snapshot.port;
        // In copy mode a frame for which there was no buffer counts twice.
        let odd = sockets.rx_dropped.saturating_sub(sockets.rx_fill_ring_empty);
        let now = [
            gate.no_socket,
            gate.stale,
            odd,
            sockets.rx_invalid_descs + sockets.tx_invalid_descs,
            port.tx_stalls,
            port.tx_errors,
            port.rx_invalid + port.completion_invalid + port.tx_invalid,
        ];
        for (i, what) in [
            "frames came on a receive queue that nobody serves; after a change of queues, end weir and start it again",
            "frames went past weir, which had hung for more than 100 ms",
            "frames were lost since they do not fit: longer than the MTU was at the start, or in several buffers; after raising the \
             MTU, end weir and start it again",
            "descriptors were refused by the kernel: a fault of weir's",
            "times the device finished nothing for 10 ms and was given more",
            "times sending failed",
            "frames were named that the device did not have, or could not be sent: a fault",
        ]
        .into_iter()
        .enumerate()
        {
            let more = now[i].saturating_sub(self.before[i]);
            if more > 0 {
                lines.push(format!("{from} to {to}: {more} {what}"));
            }
        }
        self.before = now;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PortCounters;
    use crate::stats::counters::{Census, Counters, DropCounts};
    use crate::time::Instant;

    fn snapshot(free: usize, port: PortCounters) -> Snapshot {
        Snapshot {
            at: Instant::ZERO,
            counters: Counters::default(),
            drops: DropCounts::default(),
            port,
            census: Census { capacity: 10, free, ..Census::default() },
            backlog_packets: 0,
            backlog_bytes: 0,
            stages: vec![],
        }
    }

    #[test]
    fn each_thing_is_said_once_when_it_happens() {
        let (gate, sockets) = (GateCounters::default(), SocketStatistics::default());
        let fine = snapshot(10, PortCounters::default());
        let mut alarms = Alarms::default();
        assert_eq!(alarms.note(["a", "b"], &fine, gate, sockets), [""; 0]);

        let unserved = GateCounters { no_socket: 3, ..gate };
        let lines = alarms.note(["a", "b"], &fine, unserved, sockets);
        assert!(lines.len() == 1 && lines[0].starts_with("a to b: 3 frames came on a receive queue"), "{lines:?}");
        assert_eq!(alarms.note(["a", "b"], &fine, unserved, sockets), [""; 0]);

        let lost = snapshot(9, PortCounters::default());
        assert!(alarms.note(["a", "b"], &lost, unserved, sockets)[0].contains("1 frames are nowhere"));
        assert_eq!(alarms.note(["a", "b"], &lost, unserved, sockets), [""; 0]);
    }

    #[test]
    fn a_frame_without_a_buffer_is_not_taken_for_one_that_does_not_fit() {
        let fine = snapshot(10, PortCounters::default());
        let empty = SocketStatistics { rx_dropped: 5, rx_fill_ring_empty: 5, ..SocketStatistics::default() };
        let mut alarms = Alarms::default();
        assert_eq!(alarms.note(["a", "b"], &fine, GateCounters::default(), empty), [""; 0]);
        let long = SocketStatistics { rx_dropped: 7, ..empty };
        assert!(alarms.note(["a", "b"], &fine, GateCounters::default(), long)[0].contains("do not fit"));
    }
}
