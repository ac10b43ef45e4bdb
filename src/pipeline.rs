//! Stages in a row, in the order a packet meets them (decisions.md 1 and 2).
//!
//! A *pulling* stage (`tbf`, `htb`, `link`) takes the queue before it as its child. A *pushing* stage
//! (`netem`, or a shaper in the middle) hands what is due to the stage behind it, at the moment it is
//! due, whether or not anybody can send. The last is pulled by whoever has room to send.

use crate::classify::Headers;
use crate::pool::Frame;
use crate::qdisc::{Compat, Cx, Qdisc};
use crate::spec::{Spec, Stage};
use crate::stats::StageStats;
use crate::time::Instant;
use crate::units::Rate;

/// What a pipeline is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The largest packet, link header included, in bytes (the kernel's `psched_mtu`).
    pub mtu: u32,
    /// Which kernel's decisions are wanted.
    pub compat: Compat,
}

impl Default for Link {
    fn default() -> Self {
        Link { mtu: 1514, compat: Compat::Latest }
    }
}

/// A direction's stages at work.
pub struct Pipeline {
    stages: Vec<Box<dyn Qdisc>>,
    /// Packets handed to each stage so far.
    received: Vec<u64>,
    /// How fast the port below takes packets, if that is known.
    port: Option<Rate>,
}

/// Calls `f` for a stage and the children that it pulls from, each with its own specification.
fn each(
    stage: &mut dyn Qdisc,
    group: &[Stage],
    f: &mut dyn FnMut(&mut dyn Qdisc, &Stage) -> Result<(), String>,
) -> Result<(), String> {
    let Some((own, children)) = group.split_last() else { return Ok(()) };
    f(stage, own)?;
    match (children, stage.child_mut()) {
        ([], _) => Ok(()),
        (_, Some(child)) => each(child, children, f),
        (_, None) => Err(format!("{} pulls from no other stage here", own.kind())),
    }
}

impl Pipeline {
    /// Stages in the order a packet meets them; each but the last pushes into the next.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(stages: Vec<Box<dyn Qdisc>>) -> Self {
        assert!(!stages.is_empty(), "a pipeline has at least one stage");
        let received = vec![0; stages.len()];
        let mut pipeline = Pipeline { stages, received, port: None };
        pipeline.set_drain(None);
        pipeline
    }

    /// Says when the stages begin to work; see [`Qdisc::start`].
    pub fn start(&mut self, now: Instant) {
        for stage in &mut self.stages {
            stage.start(now);
        }
    }

    /// Says how fast the port below takes packets, if that is known. Each stage is told the lowest
    /// of the rates behind it.
    pub fn set_drain(&mut self, port: Option<Rate>) {
        self.port = port;
        let mut below = port;
        for stage in self.stages.iter_mut().rev() {
            stage.set_drain(below);
            below = Rate::lower(stage.rate(), below);
        }
    }

    /// Whether the stages at work can take the parameters of `spec`.
    ///
    /// # Errors
    /// Why not: other kinds of stages, or a parameter that is settled when a stage begins.
    pub fn can_change(&mut self, spec: &Spec) -> Result<(), String> {
        let groups = spec.groups();
        if groups.len() != self.stages.len() {
            return Err(format!("{} stages are at work and {} are wanted", self.stages.len(), groups.len()));
        }
        let mut pairs = self.stages.iter_mut().zip(groups);
        pairs.try_for_each(|(stage, group)| each(stage.as_mut(), group, &mut |q, wanted| q.can_change(wanted)))
    }

    /// Takes the parameters of `spec` between two packets; all stages or none. Nothing that waits is
    /// lost but what no longer fits, which leaves through the drops.
    ///
    /// # Errors
    /// As [`Pipeline::can_change`].
    pub fn change(&mut self, spec: &Spec, link: Link, now: Instant, cx: &mut Cx<'_>) -> Result<(), String> {
        self.can_change(spec)?;
        for (stage, group) in self.stages.iter_mut().zip(spec.groups()) {
            each(stage.as_mut(), group, &mut |q, wanted| {
                q.change(wanted, link, now, cx);
                Ok(())
            })?;
        }
        self.set_drain(self.port);
        Ok(())
    }

    /// Gives the stage with `autorate` the rate that `spec` has there, between two packets, and leaves all
    /// others as they are. Nothing is lost, but where `tbf` has a queue of its own with a `latency`: its limit
    /// is a time, so at a lower rate it holds less.
    pub fn steer(&mut self, spec: &Spec, link: Link, now: Instant, cx: &mut Cx<'_>) {
        self.steered(spec, &mut |stage, wanted| stage.change(wanted, link, now, cx));
        self.set_drain(self.port);
    }

    /// The rate in force at the stage with `autorate`.
    pub fn steered_rate(&mut self, spec: &Spec) -> Option<Rate> {
        let mut rate = None;
        self.steered(spec, &mut |stage, _| rate = stage.rate());
        rate
    }

    fn steered(&mut self, spec: &Spec, f: &mut dyn FnMut(&mut dyn Qdisc, &Stage)) {
        for (stage, group) in self.stages.iter_mut().zip(spec.groups()) {
            // A specification of other kinds is not what is at work, and steers nothing.
            let _ = each(stage.as_mut(), group, &mut |q, wanted| {
                if wanted.range().is_some() && q.can_change(wanted).is_ok() {
                    f(q, wanted);
                }
                Ok(())
            });
        }
    }

    /// Takes a packet in.
    pub fn enqueue(&mut self, now: Instant, frame: Frame, headers: &Headers, cx: &mut Cx<'_>) {
        self.received[0] += 1;
        self.stages[0].enqueue(now, frame, headers, cx);
        self.push(now, cx);
    }

    /// Gives the next packet that may leave at `now`.
    pub fn dequeue(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Frame> {
        self.push(now, cx);
        self.stages.last_mut()?.dequeue(now, cx)
    }

    /// Moves what is due from each stage into the next.
    #[inline]
    fn push(&mut self, now: Instant, cx: &mut Cx<'_>) {
        if self.stages.len() > 1 {
            self.push_all(now, cx);
        }
    }

    fn push_all(&mut self, now: Instant, cx: &mut Cx<'_>) {
        for i in 1..self.stages.len() {
            while let Some(frame) = self.stages[i - 1].dequeue(now, cx) {
                let packet = &cx.pool[&frame];
                // The bytes are looked at anew, since a stage may have changed them; the DS byte is
                // the record's, which the frame gets when it leaves.
                let mut headers = Headers::parse(cx.frames.bytes(frame.slot(), packet));
                if headers.network == packet.network {
                    headers.ds = packet.ds;
                }
                self.received[i] += 1;
                self.stages[i].enqueue(now, frame, &headers, cx);
            }
        }
    }

    /// When to ask again; see [`Qdisc::next_event`].
    pub fn next_event(&self) -> Option<Instant> {
        self.stages.iter().filter_map(|s| s.next_event()).min()
    }

    /// See [`Qdisc::tick`].
    pub fn tick(&mut self, now: Instant, cx: &mut Cx<'_>) {
        for stage in &mut self.stages {
            stage.tick(now, cx);
        }
        self.push(now, cx);
    }

    /// Packets held in all stages.
    pub fn packets(&self) -> u32 {
        self.stages.iter().map(|s| s.packets()).sum()
    }

    /// Bytes held in all stages.
    pub fn bytes(&self) -> u64 {
        self.stages.iter().map(|s| s.bytes()).sum()
    }

    /// The stages, in the order a packet meets them; a pulling stage stands for itself and its
    /// [`Qdisc::child`].
    pub fn stages(&self) -> impl DoubleEndedIterator<Item = &dyn Qdisc> {
        self.stages.iter().map(|s| s.as_ref())
    }

    /// Figures of all stages, in the order a packet meets them; a child behind the stage that pulls
    /// it. Allocates: not for the data path.
    pub fn stats(&self, now: Instant) -> Vec<StageStats> {
        let with_children = |s| std::iter::successors(Some(s), |s: &&dyn Qdisc| s.child());
        self.stages().flat_map(with_children).map(|s| s.stats(now)).collect()
    }

    /// Packets handed to each stage so far, in the order of [`Pipeline::stages`]. What a stage
    /// received and made itself is what it sent, dropped and holds.
    pub fn received(&self) -> &[u64] {
        &self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use crate::time::SECOND;

    fn built(line: &str) -> Pipeline {
        spec::parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec.build(Link::default())
    }

    /// A queue that notes what it is told.
    struct Probe(std::sync::mpsc::Sender<Option<Rate>>);

    impl Qdisc for Probe {
        fn enqueue(&mut self, _: Instant, _: Frame, _: &Headers, _: &mut Cx<'_>) {}
        fn dequeue(&mut self, _: Instant, _: &mut Cx<'_>) -> Option<Frame> {
            None
        }
        fn set_drain(&mut self, below: Option<Rate>) {
            self.0.send(below).expect("the test listens");
        }
        fn packets(&self) -> u32 {
            0
        }
        fn bytes(&self) -> u64 {
            0
        }
        fn hold(&mut self, _: u32) {}
        fn let_go(&mut self, _: u32) {}
        fn stats(&self, now: Instant) -> crate::stats::StageStats {
            crate::qdisc::fifo::Fifo::bytes(0).stats(now)
        }
    }

    #[test]
    fn each_stage_is_told_the_lowest_rate_behind_it_at_build_and_at_change() {
        let mbit = |n: u64| Rate::from_bits_per_second(n * 1_000_000);
        let tbf = |rate, child: Option<Box<dyn Qdisc>>| -> Box<dyn Qdisc> {
            Box::new(crate::qdisc::tbf::Tbf::new(&crate::qdisc::tbf::Params::new(rate), child, 1514))
        };
        let (tell, told) = std::sync::mpsc::channel();
        let mut pipeline = Pipeline::new(vec![tbf(mbit(100), Some(Box::new(Probe(tell)))), tbf(mbit(200), None)]);
        assert_eq!(told.try_iter().last(), Some(Some(mbit(100))), "its own shaper is the lowest");
        pipeline.set_drain(Some(mbit(50)));
        assert_eq!(told.try_iter().last(), Some(Some(mbit(50))), "the port is");
        pipeline.set_drain(None);
        assert_eq!(told.try_iter().last(), Some(Some(mbit(100))));
    }

    #[test]
    fn the_next_event_is_the_earliest_of_all_stages() {
        let mut pipeline = built("netem delay 5ms | pfifo | tbf rate 8kbit burst 1514");
        assert_eq!(pipeline.next_event(), None);
        let now = Instant::from_nanos(SECOND);
        let mut bench = (crate::pool::Pool::new(4), crate::qdisc::Drops::default(), crate::rng::Random::seeded(1));
        let mut hashing = crate::classify::Hashing::Numbered(Default::default());
        let mut frames = crate::pool::NoFrames;
        let mut cx = Cx {
            pool: &mut bench.0,
            drops: &mut bench.1,
            random: &mut bench.2,
            hashing: &mut hashing,
            frames: &mut frames,
        };
        let mut arrive = |pipeline: &mut Pipeline, at| {
            let frame = cx.pool.take().expect("a record");
            cx.pool[&frame].len = 1514;
            pipeline.enqueue(at, frame, &Headers::default(), &mut cx);
            while let Some(frame) = pipeline.dequeue(at, &mut cx) {
                cx.pool.give(frame);
            }
        };
        arrive(&mut pipeline, now);
        assert_eq!(pipeline.next_event(), Some(now + 5_000_000), "the delay");
        arrive(&mut pipeline, now + 6_000_000);
        assert_eq!(pipeline.next_event(), Some(now + 11_000_000), "the second packet's delay");
        arrive(&mut pipeline, now + 12_000_000);
        assert_eq!(pipeline.next_event(), Some(now + 17_000_000), "earlier than the tokens");
        assert_eq!(pipeline.received(), [3, 2]);
        assert_eq!(pipeline.packets(), 2);
    }
}
