//! What is drawn for a flow when a run is laid out, in the simulator and in the lab: one seed is the same starts, pages and
//! pauses in both.

use super::App;
use crate::rng::Random;
use crate::time::MILLISECOND;

/// Flows start within so long of the moment they were told to, ns: no two hosts are in step.
const START_JITTER: u64 = MILLISECOND;

/// Where the draws of a run with this seed come from.
pub fn of_run(seed: u64) -> Random {
    Random::seeded(seed ^ 0x57E1_A5ED_0000_0001)
}

/// How much later than told something starts, ns.
pub fn jitter(random: &mut Random) -> u64 {
    random.u64() % START_JITTER
}

/// What is drawn for a flow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Draws {
    /// How much later than told it starts, ns.
    pub jitter: u64,
    /// Its connections; one, unless it opens pages.
    pub connections: Vec<Seeds>,
}

/// The seeds of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seeds {
    /// Of what identifies its ends; nothing does in datagrams.
    pub ends: u64,
    /// Of what the application does. A flow of pages goes by its first connection's.
    pub app: u64,
}

impl Draws {
    /// Of the next flow of a run.
    pub fn next(app: &App, random: &mut Random) -> Draws {
        let jitter = jitter(random);
        let n = if let App::Web { connections, .. } = app { *connections } else { 1 };
        let datagrams = matches!(app, App::Constant { .. } | App::OnOff { .. });
        let mut seeds = || Seeds { ends: if datagrams { 0 } else { random.u64() }, app: random.u64() };
        Draws { jitter, connections: (0..n).map(|_| seeds()).collect() }
    }

    /// The seeds of its first connection.
    pub fn first(&self) -> Seeds {
        self.connections.first().copied().unwrap_or_default()
    }
}
