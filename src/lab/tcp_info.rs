//! What the kernel knows of one TCP connection: `TCP_INFO`, the fields we look at.

use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

/// One look at a connection, from its sender's end. Fields this kernel does not have are zero.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Smoothed round trip time, microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the round trip time, microseconds.
    pub rttvar_us: u32,
    /// Smallest round trip time seen, microseconds.
    pub min_rtt_us: u32,
    /// Retransmission timeout, microseconds.
    pub rto_us: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow start threshold, segments.
    pub ssthresh: u32,
    /// Segment size in sending direction, bytes of payload.
    pub mss: u32,
    /// Segments on their way: sent, and neither acknowledged nor thought lost.
    pub in_flight: u32,
    /// Segments sent again, in all.
    pub retransmits: u32,
    /// Times the retransmission timer went off (kernel 6.7).
    pub timeouts: u32,
    /// Segments known to have arrived.
    pub delivered: u32,
    /// Of these, segments whose ACK said congestion was experienced.
    pub delivered_ce: u32,
    /// Payload acknowledged, bytes.
    pub bytes_acked: u64,
    /// Payload sent again, bytes.
    pub bytes_retransmitted: u64,
    /// Rate at which the kernel paces this connection, bytes per second; all ones when it does not.
    pub pacing_rate: u64,
    /// The kernel's last estimate of the delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Both ends agreed on ECN.
    pub ecn: bool,
}

/// `TCPI_OPT_ECN`.
const OPTION_ECN: u8 = 8;

/// Where each field is in the kernel's `struct tcp_info`. The struct only ever grows at its end.
mod field {
    pub(super) const OPTIONS: usize = 5;
    pub(super) const RTO: usize = 8;
    pub(super) const SND_MSS: usize = 16;
    pub(super) const UNACKED: usize = 24;
    pub(super) const SACKED: usize = 28;
    pub(super) const LOST: usize = 32;
    pub(super) const RETRANS: usize = 36;
    pub(super) const RTT: usize = 68;
    pub(super) const RTTVAR: usize = 72;
    pub(super) const SSTHRESH: usize = 76;
    pub(super) const CWND: usize = 80;
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const PACING_RATE: usize = 104;
    pub(super) const BYTES_ACKED: usize = 120;
    pub(super) const MIN_RTT: usize = 148;
    pub(super) const DELIVERY_RATE: usize = 160;
    pub(super) const DELIVERED: usize = 192;
    pub(super) const DELIVERED_CE: usize = 196;
    pub(super) const BYTES_RETRANS: usize = 208;
    pub(super) const TOTAL_RTO: usize = 240;
}

impl TcpInfo {
    /// Looks at a connection now.
    ///
    /// # Errors
    /// What the kernel says: not a TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut bytes = [0; 512];
        let len = crate::sys::tcp_info(socket, &mut bytes)?;
        Ok(Self::from_bytes(&bytes[..len]))
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four")));
        let u64_at = |at: usize| bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight")));
        TcpInfo {
            rtt_us: u32_at(field::RTT),
            rttvar_us: u32_at(field::RTTVAR),
            min_rtt_us: u32_at(field::MIN_RTT),
            rto_us: u32_at(field::RTO),
            cwnd: u32_at(field::CWND),
            ssthresh: u32_at(field::SSTHRESH),
            mss: u32_at(field::SND_MSS),
            in_flight: (u32_at(field::UNACKED).saturating_add(u32_at(field::RETRANS)))
                .saturating_sub(u32_at(field::SACKED).saturating_add(u32_at(field::LOST))),
            retransmits: u32_at(field::TOTAL_RETRANS),
            timeouts: bytes
                .get(field::TOTAL_RTO..field::TOTAL_RTO + 2)
                .map_or(0, |b| u32::from(u16::from_ne_bytes([b[0], b[1]]))),
            delivered: u32_at(field::DELIVERED),
            delivered_ce: u32_at(field::DELIVERED_CE),
            bytes_acked: u64_at(field::BYTES_ACKED),
            bytes_retransmitted: u64_at(field::BYTES_RETRANS),
            pacing_rate: u64_at(field::PACING_RATE),
            delivery_rate: u64_at(field::DELIVERY_RATE),
            ecn: bytes.get(field::OPTIONS).is_some_and(|o| o & OPTION_ECN != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn bytes_a_peer_has_acknowledged_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let (mut receiver, _) = listener.accept().expect("connected");
        sender.write_all(&[7; 1000]).expect("room");
        receiver.read_exact(&mut [0; 1000]).expect("sent");
        // The answer carries the acknowledgement.
        receiver.write_all(&[1]).expect("room");
        sender.read_exact(&mut [0]).expect("answered");
        let info = TcpInfo::of(sender.as_fd()).expect("a TCP socket");
        assert_eq!((info.bytes_acked, info.retransmits), (1001, 0), "the SYN counts as one byte");
        assert!(info.cwnd > 0 && info.mss > 0 && info.min_rtt_us > 0, "{info:?}");
    }

    #[test]
    fn fields_an_older_kernel_does_not_fill_in_are_zero() {
        let mut bytes = vec![0xff; 104];
        bytes[field::OPTIONS] = 0;
        let info = TcpInfo::from_bytes(&bytes);
        assert_eq!((info.retransmits, info.pacing_rate, info.delivered, info.ecn), (u32::MAX, 0, 0, false));
    }
}
