//! DCTCP (RFC 8257), counting as Linux does: alpha in whole parts of 1024.

use super::{Ack, Cause, Control, Totals, Window};
use crate::sim::tcp::receiver::Echo;
use crate::time::Instant;

/// Weight of a round's fraction of marks, as a power of two (§4.2).
const G: u32 = 4;
/// Of alpha: all was marked.
const ONE: u32 = 1024;

pub(super) struct Dctcp {
    /// The average fraction of marked packets, parts of [`ONE`].
    alpha: u32,
    end: u64,
    delivered: u64,
    marked: u64,
}

impl Dctcp {
    pub(super) fn new() -> Self {
        Dctcp { alpha: ONE, end: 0, delivered: 0, marked: 0 }
    }
}

impl Control for Dctcp {
    fn echo(&self) -> Echo {
        Echo::Exact
    }

    /// The round that has ended is counted before the acknowledgement that ends it is.
    fn on_arrival(&mut self, so_far: &Totals) {
        if so_far.una < self.end {
            return;
        }
        let delivered = (so_far.delivered - self.delivered).max(1);
        let marked = so_far.marked - self.marked;
        // An alpha below sixteen has no sixteenth and is forgotten at once: a flow of which less than a quarter is marked
        // may so stay near zero for long.
        let decay = match self.alpha >> G {
            0 => self.alpha,
            part => part,
        };
        let news = (marked * u64::from(ONE >> G) / delivered) as u32;
        self.alpha = (self.alpha - decay + news).min(ONE);
        (self.delivered, self.marked, self.end) = (so_far.delivered, so_far.marked, so_far.nxt);
    }

    fn grow(&mut self, window: &mut Window, ack: &Ack) {
        super::reno::Reno.grow(window, ack);
    }

    fn reduce(&mut self, window: &Window, _: Instant, cause: Cause) -> u32 {
        let cut = match cause {
            Cause::Mark => (u64::from(window.cwnd) * u64::from(self.alpha) / u64::from(2 * ONE)) as u32,
            _ => window.cwnd / 2,
        };
        (window.cwnd - cut).max(2)
    }

    fn inner(&self) -> f64 {
        f64::from(self.alpha) / f64::from(ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The alpha after a round of a hundred packets of which so many are marked.
    fn after(alpha: u32, marked: u64) -> u32 {
        let mut dctcp = Dctcp { alpha, ..Dctcp::new() };
        dctcp.on_arrival(&Totals { una: 1, nxt: 2, delivered: 100, marked });
        dctcp.alpha
    }

    #[test]
    fn alpha_is_the_average_of_the_fractions_by_a_sixteenth() {
        assert_eq!(after(1024, 100), 1024);
        assert_eq!(after(1024, 0), 960);
        assert_eq!(after(160, 50), 150 + 32);
    }

    #[test]
    fn an_alpha_that_has_no_sixteenth_is_forgotten_so_little_marking_never_cuts() {
        assert_eq!(after(15, 0), 0);
        assert_eq!(after(15, 20), 12);
        let mut window = Window::new();
        window.cwnd = 100;
        let mut dctcp = Dctcp { alpha: 15, ..Dctcp::new() };
        assert_eq!(dctcp.reduce(&window, Instant::ZERO, Cause::Mark), 100);
        assert_eq!(dctcp.reduce(&window, Instant::ZERO, Cause::Loss), 50);
    }
}
