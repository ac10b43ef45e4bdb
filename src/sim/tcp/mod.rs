//! TCP at one end of a connection: a sending half, a receiving half, and the handshake.
//!
//! Bytes are counted in 64 bits from zero; the wire has 32 of them behind an initial sequence
//! number. There is no close: a transfer is over when its last byte has come.

pub mod control;
pub mod rate;
pub mod receiver;
pub mod rtt;
pub mod scoreboard;
pub mod sender;
pub mod ticks;

use super::frames::Said;
use crate::mark::ecn;
use crate::time::{Instant, MILLISECOND, SECOND};
use crate::wire::transport::flag;
use control::{Kind, SlowStart};
use receiver::{Echo, Own, Receiver, Reply};
use rtt::{Estimator, Rtt};
use sender::{Heard, Options, Piece, Sender};

/// The window scale that both ends announce (RFC 7323 §2).
pub const WINDOW_SCALE: u8 = 10;
/// Data in a full segment: 1500 less IPv4, TCP and timestamps.
pub const MSS: u32 = 1448;
/// Bytes of headers of a full segment's frame, which a pace counts too.
pub const HEADERS: u32 = 66;
/// A lost SYN is sent again after so long, ns (RFC 6298 §2.1), then twice as long.
const SYN_TIMEOUT: u64 = SECOND;
/// SYNs sent in vain before giving up.
const SYN_TRIES: u32 = 7;

/// Both halves' choices.
#[derive(Clone, Debug)]
pub struct Config {
    /// Congestion control.
    pub control: Kind,
    /// How slow start ends, where the control has a choice.
    pub slow_start: SlowStart,
    /// Whether ECN is asked for, and agreed to.
    pub ecn: bool,
    /// The retransmission timer.
    pub estimator: Estimator,
    /// What the receive window opens to at most, bytes.
    pub receive_window: u64,
    /// Delayed acknowledgements.
    pub delayed_acks: bool,
    /// Bytes of data in a segment.
    pub mss: u32,
    /// Code point, 0…63.
    pub dscp: u8,
    /// The connection is given up after so many timeouts in a row.
    pub retries: u32,
    /// … or after so long without progress, ns; `None` waits.
    pub patience: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            control: Kind::Cubic,
            slow_start: SlowStart::HyStart,
            ecn: false,
            estimator: Estimator::Rfc6298 { floor: SECOND / 5 },
            receive_window: 6 << 20,
            delayed_acks: true,
            mss: MSS,
            dscp: 0,
            retries: 15,
            patience: None,
        }
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Waits to be called.
    Listening,
    /// Has called.
    SynSent,
    /// Has answered a call.
    SynReceived,
    /// Data may flow.
    Established,
    /// Given up.
    Aborted,
}

/// One end of a connection.
pub struct Endpoint {
    config: Config,
    /// Where it stands.
    pub phase: Phase,
    /// The sending half.
    pub tx: Sender,
    /// The receiving half.
    pub rx: Receiver,
    initial: u32,
    peer_initial: u32,
    ecn: bool,
    syn_at: Instant,
    syn_again: Instant,
    syn_tries: u32,
    ack_due: bool,
    /// An acknowledgement for what came before a change of marking: edge and echo.
    early: Option<(u64, bool)>,
    echo: Echo,
    pending: Option<Piece>,
    marks_heard: u64,
    progress: Instant,
    /// Time that this moment's earliest filed timer event stands at; owned by the network's loop.
    pub filed: Instant,
}

impl Endpoint {
    /// An end that waits; its first sequence number, and what its control draws, come from `seed`.
    pub fn new(config: Config, seed: u64) -> Self {
        let initial = (seed >> 32) as u32;
        let control = config.control.make(config.mss, config.slow_start, seed);
        let echo = control.echo();
        let modern = config.control != Kind::Fixed;
        let options = Options { mss: config.mss, modern, restart_after_idle: true };
        Endpoint {
            tx: Sender::new(options, control, Rtt::new(config.estimator)),
            rx: Receiver::new(config.mss, config.receive_window, Echo::Off, config.delayed_acks),
            config,
            phase: Phase::Listening,
            initial,
            peer_initial: 0,
            ecn: false,
            syn_at: Instant::ZERO,
            syn_again: Instant::NEVER,
            syn_tries: 0,
            ack_due: false,
            early: None,
            echo,
            pending: None,
            marks_heard: 0,
            progress: Instant::ZERO,
            filed: Instant::NEVER,
        }
    }

    /// Calls the other end.
    pub fn connect(&mut self, now: Instant) {
        self.phase = Phase::SynSent;
        self.syn_again = now;
    }

    /// The application writes `bytes` more; `u64::MAX` for more than can ever be sent.
    pub fn write(&mut self, now: Instant, bytes: u64) {
        if self.tx.una == self.tx.nxt {
            self.progress = now;
        }
        self.tx.written = self.tx.written.saturating_add(bytes).min(1 << 62);
    }

    /// The application has no more to write.
    pub fn stop(&mut self) {
        self.tx.written = self.tx.nxt;
    }

    /// Whether everything written was acknowledged.
    pub fn is_drained(&self) -> bool {
        self.tx.una == self.tx.written
    }

    /// Whether ECN was agreed on.
    pub fn has_ecn(&self) -> bool {
        self.ecn
    }

    fn syn_flags(&self) -> u16 {
        match (self.phase, self.config.ecn, self.echo) {
            (_, false, _) => 0,
            (Phase::SynReceived, ..) if !self.ecn => 0,
            (Phase::SynReceived, _, Echo::Accurate) => flag::CWR,
            (Phase::SynReceived, ..) => flag::ECE,
            (_, _, Echo::Accurate) => flag::AE | flag::CWR | flag::ECE,
            _ => flag::CWR | flag::ECE,
        }
    }

    /// Takes in a segment. Gives a round trip in ns, as a capture at this end would have it: when the
    /// segment newly covers one that was sent only once.
    pub fn on_segment(&mut self, now: Instant, said: &Said) -> Option<u64> {
        if said.flags & flag::SYN != 0 {
            self.on_syn(now, said);
            return None;
        }
        if matches!(self.phase, Phase::Listening | Phase::SynSent | Phase::Aborted) {
            return None;
        }
        if self.phase == Phase::SynReceived {
            self.establish(now, said.stamp.1);
        }
        let rtt = self.on_acknowledgement(now, said);
        if said.len > 0 {
            self.on_data(now, said);
        } else {
            let edge = self.peer_initial.wrapping_add(1).wrapping_add(self.rx.next as u32);
            self.rx.bare(said.seq == edge, said.stamp.0);
        }
        rtt
    }

    fn on_syn(&mut self, now: Instant, said: &Said) {
        let acks = said.flags & flag::ACK != 0;
        match self.phase {
            Phase::Listening | Phase::SynReceived if !acks => {
                self.peer_initial = said.seq;
                self.rx.stamp = said.stamp.0;
                let asked = said.flags & (flag::CWR | flag::ECE) == flag::CWR | flag::ECE;
                self.ecn = self.config.ecn && asked;
                if self.phase == Phase::Listening {
                    self.phase = Phase::SynReceived;
                    self.syn_again = now;
                } else {
                    self.syn_again = now;
                }
            }
            Phase::SynSent if acks => {
                self.peer_initial = said.seq;
                self.rx.stamp = said.stamp.0;
                self.ecn = self.config.ecn && said.flags & (flag::ECE | flag::CWR) != 0;
                self.establish(now, said.stamp.1);
                self.ack_due = true;
            }
            Phase::Established if acks => self.ack_due = true,
            _ => {}
        }
    }

    fn establish(&mut self, now: Instant, echoed: u32) {
        self.phase = Phase::Established;
        self.syn_again = Instant::NEVER;
        self.progress = now;
        if self.ecn {
            self.rx.set_echo(self.echo);
        }
        // A SYN sent more than once is timed by what is echoed of it; a small stack has no timestamps, and may not time
        // it at all (RFC 6298 §3).
        let rtt = match self.syn_tries {
            1 => Some(now.since(self.syn_at)),
            _ if self.config.control == Kind::Fixed => None,
            _ => Some(u64::from(sender::stamp(now).wrapping_sub(echoed)) * MILLISECOND),
        };
        if let Some(rtt) = rtt {
            self.tx.rtt.sample(now.as_nanos(), rtt);
        }
        if self.syn_tries > 2 && echoed != sender::stamp(self.syn_at) {
            // A path that loses SYNs deserves a careful start (RFC 5681 §3.1), unless the first one
            // was only slow.
            self.tx.window.cwnd = 1;
        }
    }

    fn on_acknowledgement(&mut self, now: Instant, said: &Said) -> Option<u64> {
        let una = self.tx.una;
        let base = self.initial.wrapping_add(1);
        let unwrap = |n: u32| una.wrapping_add_signed(i64::from(n.wrapping_sub(base.wrapping_add(una as u32)) as i32));
        let ack = unwrap(said.ack);
        let modern = self.config.control != Kind::Fixed;
        let mut blocks = [(0u64, 0u64); 4];
        let n = if modern { usize::from(said.blocks) } else { 0 };
        for (block, (a, b)) in blocks.iter_mut().zip(said.sack).take(n) {
            *block = (unwrap(a), unwrap(b));
        }
        let accurate = self.rx.echo() == Echo::Accurate;
        let marked = if !self.ecn {
            Some(0)
        } else if accurate {
            // The three ECN flags are a counter of marked packets, from 5 on (RFC 9768 §3.2.1).
            let count = u64::from(said.flags & flag::AE != 0) << 2
                | u64::from(said.flags & flag::CWR != 0) << 1
                | u64::from(said.flags & flag::ECE != 0);
            let new = count.wrapping_sub(self.marks_heard + 5) & 7;
            self.marks_heard += new;
            Some(new as u32)
        } else {
            None
        };
        let heard = Heard {
            ack,
            room: ack + (u64::from(said.window) << WINDOW_SCALE),
            blocks: &blocks[..n],
            ece: said.flags & flag::ECE != 0,
            marked,
            stamp: said.stamp.1,
            data: said.len > 0,
        };
        let rtt = self.tx.on_ack(now, &heard);
        if self.tx.una > una {
            self.progress = now;
        }
        rtt
    }

    fn on_data(&mut self, now: Instant, said: &Said) {
        let next = self.rx.next;
        let at = self.peer_initial.wrapping_add(1).wrapping_add(next as u32);
        let offset = i64::from(said.seq.wrapping_sub(at) as i32);
        let from = next.wrapping_add_signed(offset);
        if offset < 0 && next < offset.unsigned_abs() {
            return;
        }
        let field = said.ds & 3;
        if self.rx.owes_before(field) {
            self.early = Some((self.rx.next, self.rx.ece()));
            self.rx.acknowledge(&mut [(0, 0); 4], 0);
        }
        let cwr = said.flags & flag::CWR != 0;
        let span = (from, from + u64::from(said.len));
        let echoed = said.stamp.1;
        let own = Own {
            timeout: self.tx.rtt.timeout(),
            rtt: self.tx.rtt.smoothed(),
            answered: (echoed != 0).then(|| u64::from(sender::stamp(now).wrapping_sub(echoed)).max(1) * MILLISECOND),
        };
        let reply = self.rx.data(now, span, said.stamp.0, field, cwr, own);
        // Who has read all that was written at once, and has nothing of its own under way, says so without delay.
        let read = said.flags & flag::PSH != 0 && self.tx.una == self.tx.nxt;
        self.ack_due |= reply == Reply::Now || read;
    }

    /// Time has come for whatever is due.
    pub fn on_timer(&mut self, now: Instant) {
        if now >= self.rx.due {
            self.ack_due = true;
        }
        if self.phase != Phase::Established {
            return;
        }
        if self.pending.is_none() {
            self.pending = self.tx.on_timer(now);
        }
        let idle = self.tx.una == self.tx.nxt;
        let impatient = self.config.patience.is_some_and(|ns| !idle && now.since(self.progress) >= ns);
        if impatient || self.tx.rtt.backoffs() > self.config.retries {
            self.phase = Phase::Aborted;
        }
    }

    /// When [`Endpoint::on_timer`] is to be called next.
    pub fn next_timer(&self) -> Instant {
        match self.phase {
            Phase::Aborted | Phase::Listening => Instant::NEVER,
            Phase::SynSent | Phase::SynReceived => self.syn_again,
            Phase::Established => self.tx.next_timer().min(self.rx.due),
        }
    }

    /// The next segment to be sent at `now`; called until there is none.
    pub fn next_segment(&mut self, now: Instant) -> Option<Said> {
        match self.phase {
            Phase::Listening | Phase::Aborted => return None,
            Phase::SynSent | Phase::SynReceived => return self.next_syn(now),
            Phase::Established => {}
        }
        if let Some((edge, ece)) = self.early.take() {
            return Some(self.acknowledgement(now, edge, ece, &[]));
        }
        if let Some(piece) = self.pending.take().or_else(|| self.tx.next_piece(now)) {
            return Some(self.data_segment(now, piece));
        }
        self.ack_due.then(|| self.plain_acknowledgement(now))
    }

    fn next_syn(&mut self, now: Instant) -> Option<Said> {
        if now < self.syn_again {
            return None;
        }
        self.syn_tries += 1;
        if self.syn_tries > SYN_TRIES {
            self.phase = Phase::Aborted;
            return None;
        }
        if self.syn_tries == 1 {
            self.syn_at = now;
        }
        self.syn_again = now + (SYN_TIMEOUT << (self.syn_tries - 1));
        let answer = self.phase == Phase::SynReceived;
        let ack = if answer { (flag::ACK, self.peer_initial.wrapping_add(1)) } else { (0, 0) };
        Some(Said {
            flags: flag::SYN | ack.0 | self.syn_flags(),
            seq: self.initial,
            ack: ack.1,
            window: u16::MAX,
            ds: self.ds(false),
            stamp: (sender::stamp(now), self.rx.stamp),
            ..Said::default()
        })
    }

    /// The DS byte of data sent for the first time, or of anything else. Classic ECN does not mark the
    /// latter (RFC 3168 §6.1.4, §6.1.5); DCTCP and scalable controls do.
    fn ds(&self, data: bool) -> u8 {
        let everywhere = matches!(self.echo, Echo::Exact | Echo::Accurate);
        let ect = match self.ecn && (data || everywhere) {
            false => ecn::NOT_ECT,
            true if self.echo == Echo::Accurate => ecn::ECT_1,
            true => ecn::ECT_0,
        };
        self.config.dscp << 2 | ect
    }

    fn acknowledgement(&mut self, now: Instant, edge: u64, ece: bool, blocks: &[receiver::Span]) -> Said {
        let base = self.peer_initial.wrapping_add(1);
        let wire = |n: u64| base.wrapping_add(n as u32);
        let echo = match self.rx.echo() {
            Echo::Accurate => {
                let count = (self.rx.marks() + 5) as u16;
                (((count >> 2) & 1) * flag::AE) | (((count >> 1) & 1) * flag::CWR) | ((count & 1) * flag::ECE)
            }
            _ => u16::from(ece) * flag::ECE,
        };
        let mut said = Said {
            flags: flag::ACK | echo,
            seq: self.initial.wrapping_add(1).wrapping_add(self.tx.nxt as u32),
            ack: wire(edge),
            window: (self.rx.window() >> WINDOW_SCALE).min(0xFFFF) as u16,
            ds: self.ds(false),
            stamp: (sender::stamp(now), self.rx.stamp),
            blocks: blocks.len() as u8,
            ..Said::default()
        };
        said.sack.iter_mut().zip(blocks).for_each(|(to, (a, b))| *to = (wire(*a), wire(*b)));
        said
    }

    fn plain_acknowledgement(&mut self, now: Instant) -> Said {
        self.ack_due = false;
        let mut blocks = [(0, 0); 4];
        let n = self.rx.acknowledge(&mut blocks, 3);
        self.acknowledgement(now, self.rx.next, self.rx.ece(), &blocks[..n])
    }

    fn data_segment(&mut self, now: Instant, piece: Piece) -> Said {
        let said = self.plain_acknowledgement(now);
        let cwr = u16::from(piece.cwr && self.rx.echo() == Echo::Classic) * flag::CWR;
        let push = u16::from(piece.push) * flag::PSH;
        Said {
            flags: said.flags | cwr | push,
            seq: self.initial.wrapping_add(1).wrapping_add(piece.span.0 as u32),
            len: (piece.span.1 - piece.span.0) as u32,
            ds: self.ds(!piece.again),
            ..said
        }
    }
}
