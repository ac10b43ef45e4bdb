//! Echo requests at regular times, and how long their answers took.
//!
//! Uses the kernel's unprivileged ICMP socket where this group may, else a raw one. One thread sends, one receives; both
//! block. An answer counts whenever it comes before the end of the wait.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Error, Percentiles, histogram_of_nanoseconds};

/// What to ask, how often and for how long.
#[derive(Clone, Copy, Debug)]
pub struct PingPlan {
    /// Whom.
    pub to: IpAddr,
    /// Time between two requests, at least a millisecond.
    pub every: Duration,
    /// For how long.
    pub duration: Duration,
    /// How long to wait for answers after the last request.
    pub wait: Duration,
    /// The DS byte.
    pub tos: u8,
}

/// What came back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PingResult {
    /// Requests sent.
    pub sent: u64,
    /// Answers, one for a request.
    pub received: u64,
    /// Requests without an answer in time.
    pub lost: u64,
    /// Round trip times, microseconds.
    pub rtt_us: Percentiles,
    /// The same in nanoseconds, for histograms and pictures.
    #[serde(skip, default = "histogram_of_nanoseconds")]
    pub nanos: Histogram<u64>,
}

const HEADER: usize = 8;
const PAYLOAD: usize = 56;

/// Sends the requests and gathers the answers; returns after the duration and the wait at the latest.
///
/// # Errors
/// No socket to be had, or the kernel has no way to the address.
pub fn ping(plan: &PingPlan) -> Result<PingResult, Error> {
    let mut nanos = histogram_of_nanoseconds();
    let sent = ping_each(plan, &AtomicBool::new(false), |_, rtt| nanos.saturating_record(rtt.as_nanos() as u64))?;
    let received = nanos.len();
    Ok(PingResult { sent, received, lost: sent - received, rtt_us: Percentiles::of(&nanos), nanos })
}

/// The same, until `stop` is true at the latest: tells of each answer when its request was sent and how long it took, and
/// gives the number of requests.
///
/// # Errors
/// As [`ping`].
pub fn ping_each(plan: &PingPlan, stop: &AtomicBool, each: impl FnMut(Instant, Duration) + Send) -> Result<u64, Error> {
    let (socket, raw) = open(plan)?;
    let wait_once = Duration::from_millis(50).min(plan.wait.max(Duration::from_millis(1)));
    socket.set_read_timeout(Some(wait_once)).map_err(Error::when("cannot set a timeout"))?;
    let key: u64 = RandomState::new().hash_one(std::process::id());
    let every = plan.every.max(Duration::from_millis(1));
    let requests = (plan.duration.as_nanos() / every.as_nanos()).max(1).min(u128::from(u32::MAX)) as u32;
    // When each was sent; taken out by its answer.
    let sent_at: Mutex<Vec<Option<Instant>>> = Mutex::new(Vec::with_capacity(requests as usize));
    let begun = Instant::now();
    let until = begun + every * requests + plan.wait;
    let socket_of = &socket;

    thread::scope(|scope| {
        let outstanding = Outstanding { key, raw, requests, until, sent_at: &sent_at, stop };
        let receiver = scope.spawn(move || outstanding.gather(socket_of, each));
        let mut failed = None;
        let mut sent = 0;
        for number in 0..requests {
            if !sleep_until(begun + every * number, stop) {
                break;
            }
            sent += 1;
            let request = request(plan.to, key, number);
            sent_at.lock().unwrap_or_else(PoisonError::into_inner).push(Some(Instant::now()));
            match socket.send(&request) {
                Ok(_) => {}
                // A full queue on the way out is a loss like any other.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) || e.kind() == ErrorKind::WouldBlock => {}
                // The last request's refusal, told by the kernel with the next one.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => {
                    failed = Some(Error::new(format_args!("cannot send to {}", plan.to), e));
                    break;
                }
            }
        }
        receiver.join().map_err(|_| Error::panicked("who gathers answers"))?;
        failed.map_or(Ok(sent), Err)
    })
}

/// Sleeps, in pieces, and says whether to go on.
fn sleep_until(when: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = when.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
    false
}

fn open(plan: &PingPlan) -> Result<(Socket, bool), Error> {
    let (domain, protocol) = match plan.to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let (socket, raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
        Ok(socket) => (socket, false),
        Err(_) => {
            let socket = Socket::new(domain, Type::RAW, Some(protocol)).map_err(|e| {
                Error::new(
                    "no ICMP socket",
                    format_args!("{e}; as root, or: sysctl net.ipv4.ping_group_range='0 2147483647'"),
                )
            })?;
            (socket, true)
        }
    };
    let set =
        if plan.to.is_ipv4() { socket.set_tos_v4(plan.tos.into()) } else { socket.set_tclass_v6(plan.tos.into()) };
    set.map_err(Error::when("cannot set the DS byte"))?;
    socket.connect(&SocketAddr::new(plan.to, 0).into()).map_err(Error::when(format_args!("no way to {}", plan.to)))?;
    Ok((socket, raw))
}

/// What is needed to know an answer.
struct Outstanding<'a> {
    key: u64,
    raw: bool,
    requests: u32,
    until: Instant,
    sent_at: &'a Mutex<Vec<Option<Instant>>>,
    stop: &'a AtomicBool,
}

impl Outstanding<'_> {
    fn gather(&self, mut socket: &Socket, mut each: impl FnMut(Instant, Duration)) {
        let mut received = 0;
        let mut buffer = [0; 2048];
        while received < self.requests && Instant::now() < self.until && !self.stop.load(Ordering::Relaxed) {
            let got = match socket.read(&mut buffer) {
                Ok(n) => n,
                Err(e) if is_passing(&e) => continue,
                Err(_) => break,
            };
            let now = Instant::now();
            let Some(number) = answer_to(&buffer[..got], self.raw, self.key) else { continue };
            let mut sent_at = self.sent_at.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sent) = sent_at.get_mut(number as usize).and_then(Option::take) {
                received += 1;
                each(sent, now - sent);
            }
        }
    }
}

fn is_passing(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

fn request(to: IpAddr, key: u64, number: u32) -> [u8; HEADER + PAYLOAD] {
    let mut bytes = [0; HEADER + PAYLOAD];
    bytes[0] = if to.is_ipv4() { 8 } else { 128 };
    bytes[4..6].copy_from_slice(&(key as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    bytes[HEADER..HEADER + 8].copy_from_slice(&key.to_be_bytes());
    bytes[HEADER + 8..HEADER + 12].copy_from_slice(&number.to_be_bytes());
    if to.is_ipv4() {
        let sum = internet_checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// The number of the request of ours that this message answers.
fn answer_to(message: &[u8], raw: bool, key: u64) -> Option<u32> {
    // A raw IPv4 socket shows the IP header too; an IPv6 one never does.
    let header = match message.first()? >> 4 {
        4 if raw => usize::from(message[0] & 15) * 4,
        _ => 0,
    };
    let icmp = message.get(header..)?;
    if !matches!(icmp.first()?, 0 | 129) {
        return None;
    }
    let payload = icmp.get(HEADER..HEADER + 12)?;
    (payload[..8] == key.to_be_bytes()).then(|| u32::from_be_bytes(payload[8..12].try_into().expect("four bytes")))
}

fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)]))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_key_with_and_without_the_ip_header() {
        let mut answer = request(IpAddr::from([127, 0, 0, 1]), 42, 7).to_vec();
        answer[0] = 0;
        assert_eq!(answer_to(&answer, false, 42), Some(7));
        let with_header = [&[0x45; 20][..], &answer].concat();
        assert_eq!(answer_to(&with_header, true, 42), Some(7));
        assert_eq!(answer_to(&answer, false, 43), None);
        assert_eq!(answer_to(&answer[..15], false, 42), None);
    }

    #[test]
    fn our_own_request_seen_on_loopback_is_no_answer() {
        assert_eq!(answer_to(&request(IpAddr::from([127, 0, 0, 1]), 42, 7), false, 42), None);
        assert_eq!(answer_to(&request("::1".parse().expect("an address"), 42, 7), true, 42), None);
    }

    #[test]
    fn the_checksum_over_a_request_is_zero() {
        assert_eq!(internet_checksum(&request(IpAddr::from([10, 0, 0, 1]), 0x0123_4567_89ab_cdef, 99)), 0);
    }
}
