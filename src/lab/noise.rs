//! The machine's own noise floor: how late it wakes who sleeps, and how long an echo takes over a bare veth.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Error;
use super::ping::{self, PingPlan};
use super::space::Space;
use crate::scenario::result::nanoseconds;
use crate::spec::Spec;
use crate::spec::thresholds::Threshold;
use crate::time::{MICROSECOND, MILLISECOND};

/// How long it is listened to.
const LENGTH: Duration = Duration::from_secs(1);
/// Between two echo requests, and the length of each sleep.
const EVERY: Duration = Duration::from_millis(2);

const MAC: [&str; 2] = ["02:00:00:00:ff:01", "02:00:00:00:ff:02"];

/// What was heard, ns.
pub struct Noise {
    /// Echoes from one namespace to another.
    pub echo: Histogram<u64>,
    /// From when a sleeper should have woken until it did.
    pub late: Histogram<u64>,
}

impl Noise {
    /// The time that a thousandth of the sleepers woke later than, ns: below it a machine measures itself.
    pub fn floor(&self) -> u64 {
        self.late.value_at_quantile(0.999)
    }

    /// What a pipeline cannot be trusted to do on this machine, a sentence for each AQM that acts on less than the
    /// [floor](Self::floor). weir's lateness does not count as sojourn to an AQM, but what waits meanwhile is sent at once.
    pub fn too_fine(&self, place: &str, spec: &Spec) -> Vec<String> {
        let floor = self.floor();
        let ms = |ns: u64| ns as f64 / MILLISECOND as f64;
        let below = |t: &Threshold| u64::from(t.us) * MICROSECOND < floor;
        let say = |t: Threshold| {
            format!(
                "{place}: {} of {} is {:.3} ms, and this machine wakes up to {:.3} ms late (p99.9): its marks and drops \
                 tell of the machine too; `--virtual` has no noise",
                t.word,
                t.stage,
                ms(u64::from(t.us) * MICROSECOND),
                ms(floor)
            )
        };
        spec.thresholds().into_iter().filter(below).map(say).collect()
    }
}

/// Listens for a second.
///
/// # Errors
/// No namespaces, or no socket for echo requests.
pub fn listen() -> Result<Noise, Error> {
    let (near, far) = (Space::new()?, Space::new()?);
    let there = far.thread();
    near.ip(&format!("link add v address {} type veth peer name v address {} netns {there}\n", MAC[0], MAC[1]))?;
    for (i, space) in [&near, &far].into_iter().enumerate() {
        // Nobody has to ask for the other's hardware address.
        let (other, mac) = (2 - i, MAC[1 - i]);
        space.ip(&format!(
            "link set v up\naddr add 10.0.0.{}/24 dev v\nneigh add 10.0.0.{other} lladdr {mac} dev v nud permanent\n",
            i + 1
        ))?;
    }
    near.wait_until_up("v")?;
    far.wait_until_up("v")?;
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let until = std::sync::Arc::clone(&over);
    let sleeper = thread::spawn(move || sleep_and_wake(&until));
    let plan = PingPlan {
        to: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        every: EVERY,
        duration: LENGTH,
        wait: Duration::from_millis(100),
        tos: 0,
    };
    let echo = near.run(move || ping::ping(&plan))?;
    over.store(true, Ordering::Relaxed);
    let late = sleeper.join().map_err(|_| Error::panicked("a sleeper"))?;
    let mut all = nanoseconds();
    for v in echo?.nanos.iter_recorded() {
        all.saturating_record_n(v.value_iterated_to(), v.count_at_value());
    }
    Ok(Noise { echo: all, late })
}

fn sleep_and_wake(over: &AtomicBool) -> Histogram<u64> {
    let mut late = nanoseconds();
    while !over.load(Ordering::Relaxed) {
        let due = Instant::now() + EVERY;
        thread::sleep(EVERY);
        late.saturating_record((Instant::now().saturating_duration_since(due).as_nanos() as u64).max(1));
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_below_the_floor_is_named_and_one_above_is_not() {
        let mut noise = Noise { echo: nanoseconds(), late: nanoseconds() };
        noise.late.record_n(60_000, 990).expect("in range");
        noise.late.record_n(20 * MILLISECOND, 10).expect("in range");
        let of = |words: &str| noise.too_fine("rt.down", &crate::spec::parse(words).expect("a pipeline").spec);
        let said = of("codel ce_threshold 242us | tbf rate 1gbit burst 3028");
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("rt.down: ce_threshold of codel is 0.242 ms"), "{said:?}");
        assert!(of("cake bandwidth 10mbit rtt 1s").is_empty());
        assert!(of("pfifo | tbf rate 1mbit burst 2k").is_empty());
    }
}
