//! Notices a direction that stands still while the other is busy: a wire in the wrong socket, or
//! traffic that returns another way.

/// How long a direction must stand still, in seconds.
const PATIENCE: u32 = 60;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Quiet {
    received: [u64; 2],
    seconds: [u32; 2],
}

impl Quiet {
    /// Takes the packets received so far, once a second. Gives a direction that has been still for
    /// a minute while the other was not: once, until it moves again.
    pub fn second(&mut self, received: [u64; 2]) -> Option<usize> {
        let grew = [0, 1].map(|i| received[i] > self.received[i]);
        self.received = received;
        let mut found = None;
        for i in 0..2 {
            if grew[i] {
                self.seconds[i] = 0;
            } else if grew[1 - i] {
                self.seconds[i] = self.seconds[i].saturating_add(1);
                if self.seconds[i] == PATIENCE {
                    found = Some(i);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_that_stands_still_beside_a_busy_one_is_named_once() {
        let mut quiet = Quiet::default();
        let named: Vec<_> = (1..300).filter_map(|s| quiet.second([s * 100, 5])).collect();
        assert_eq!(named, [1]);
        assert_eq!(quiet.second([30_000, 6]), None);
        let again: Vec<_> = (1..100).filter_map(|s| quiet.second([30_000 + s, 6])).collect();
        assert_eq!(again, [1]);
    }

    #[test]
    fn two_idle_directions_are_nothing_to_speak_of() {
        let mut quiet = Quiet::default();
        assert!((0..1000).all(|_| quiet.second([0, 0]).is_none()));
    }
}
