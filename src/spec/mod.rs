//! The specification language: `tc`'s words for stages, joined by `|`.
//!
//! `parse` knows parameters, not state: a [`Spec`] is what was asked for, and [`Spec::build`] makes
//! the stages. Printing a parsed specification gives one that parses to the same. What tc accepts
//! silently but cannot mean is refused here with its position, the reason, what is allowed and the
//! nearest keyword.

mod autorate;
mod cake;
mod codel;
mod doubts;
mod dualpi2;
mod fifo;
mod fq_codel;
mod frames;
mod htb;
pub mod lex;
mod link;
mod mb_ecn;
mod netem;
mod sce;
pub mod suggest;
mod tbf;
pub mod thresholds;
pub mod units;

use std::fmt;

use crate::pipeline::{Link, Pipeline};
use crate::qdisc::{self, Handle, Qdisc};
use crate::units::Rate;
use lex::{Cursor, Token, tokens};

/// What is wrong with a specification, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Byte offset of the offending word in the line.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
    /// What is wrong.
    pub message: String,
    /// The words that could have stood there.
    pub allowed: Vec<String>,
    /// The one that was probably meant.
    pub nearest: Option<String>,
}

impl SpecError {
    /// An error about `len` bytes at `at`.
    pub fn new(at: usize, len: usize, message: impl Into<String>) -> Self {
        SpecError { at, len, message: message.into(), allowed: Vec::new(), nearest: None }
    }

    /// The message, with the word that was probably meant and those that are allowed.
    pub(crate) fn why(&self) -> String {
        let mut why = self.message.clone();
        why += &self.nearest.as_deref().map_or_else(String::new, suggest::did_you_mean);
        if !self.allowed.is_empty() {
            why += &format!("\nallowed: {}", self.allowed.join(", "));
        }
        why
    }

    /// The error with the line it is about and a mark under the word.
    pub fn render(&self, line: &str) -> String {
        let before = line.get(..self.at).unwrap_or(line).chars().count();
        let width = line.get(self.at..self.at + self.len).map_or(1, |w| w.chars().count()).max(1);
        format!("{line}\n{}{}\n{self}", " ".repeat(before), "^".repeat(width))
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.at + 1, self.why())
    }
}

impl std::error::Error for SpecError {}

/// A keyword of a stage, for errors, documentation and the tests made from the table.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// As it is written.
    pub name: &'static str,
    /// What follows it, as in tc's usage; empty for a word alone.
    pub args: &'static str,
    /// A use that changes something from the default.
    pub sample: &'static str,
    /// What it does, with its default.
    pub help: &'static str,
}

/// How the parameters of one kind of stage are written.
pub(crate) trait Grammar: Sized {
    /// The keywords.
    const WORDS: &'static [Word];

    /// Takes one keyword, and its arguments from `args`.
    fn word(&mut self, name: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError>;

    /// The words that give these parameters.
    fn words(&self) -> String;

    /// A word that tc would accept here under another name, or no word of the table at all.
    fn allowed() -> Vec<&'static str> {
        Self::WORDS.iter().map(|w| w.name).collect()
    }

    /// Reads all words of a stage.
    fn read(mut self, stage: &str, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Self, SpecError> {
        while let Some(token) = args.next_word() {
            if !Self::WORDS.iter().any(|w| w.name == token.text) {
                return Err(args.unknown(stage, &Self::allowed()));
            }
            self.word(token.text, args, warnings)?;
        }
        Ok(self)
    }
}

/// One stage with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// `pfifo`, `bfifo`, `pfifo_head_drop`.
    Fifo(qdisc::fifo::Params),
    /// `tbf`.
    Tbf(qdisc::tbf::Params),
    /// `codel`.
    Codel(qdisc::codel::Params),
    /// `htb`, one class.
    Htb(qdisc::htb::Params),
    /// `netem`.
    Netem(Box<qdisc::netem::Params>),
    /// `link`.
    Link(qdisc::link::Params),
    /// `fq_codel`.
    FqCodel(qdisc::fq_codel::Params),
    /// `dualpi2`.
    Dualpi2(qdisc::dualpi2::Params),
    /// `cake`.
    Cake(qdisc::cake::Params),
    /// A stage that queues, with `mb-ecn`.
    Marked {
        /// The stage.
        inner: Box<Stage>,
        /// What `mb-ecn` says.
        mb_ecn: Box<crate::mark::mb_ecn::Params>,
    },
}

/// How a stage takes part in a pipeline (decisions.md 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Holds packets until it is pulled.
    Queue,
    /// Pulls from the queue before it.
    Puller,
    /// Takes whatever comes and passes it on when it is due.
    Pusher,
}

const KINDS: &[&str] =
    &["pfifo", "bfifo", "pfifo_head_drop", "tbf", "htb", "link", "netem", "codel", "fq_codel", "dualpi2", "cake"];

impl Stage {
    fn parse(kind: Token<'_>, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Stage, SpecError> {
        use qdisc::fifo::Kind;
        let fifo = |kind, args: &mut Cursor<'_>, warnings: &mut Vec<String>| {
            let name = Kind::word(kind);
            qdisc::fifo::Params { kind, limit: None }.read(name, args, warnings).map(Stage::Fifo)
        };
        match kind.text {
            "pfifo" => fifo(Kind::Packets, args, warnings),
            "bfifo" => fifo(Kind::Bytes, args, warnings),
            "pfifo_head_drop" => fifo(Kind::HeadDrop, args, warnings),
            "tbf" => tbf::read(kind, args, warnings).map(Stage::Tbf),
            "link" => link::read(kind, args, warnings).map(Stage::Link),
            "netem" => netem::read(kind, args, warnings).map(|p| Stage::Netem(Box::new(p))),
            "htb" => htb::read(kind, args, warnings).map(Stage::Htb),
            "cake" => qdisc::cake::Params::default().read("cake", args, warnings).map(Stage::Cake),
            "codel" => qdisc::codel::Params::default().read("codel", args, warnings).map(Stage::Codel),
            "fq_codel" => qdisc::fq_codel::Params::default().read("fq_codel", args, warnings).map(Stage::FqCodel),
            "dualpi2" => dualpi2::read(kind, args, warnings).map(Stage::Dualpi2),
            _ => {
                let mut e = SpecError::new(kind.at, kind.text.len(), format!("\"{}\" is no stage", kind.text));
                e.allowed = KINDS.iter().map(|s| s.to_string()).collect();
                e.nearest = suggest::nearest(kind.text, KINDS.iter().copied()).map(str::to_string);
                Err(e)
            }
        }
    }

    /// The word that begins it.
    pub fn kind(&self) -> &'static str {
        match self {
            Stage::Fifo(p) => p.kind.word(),
            Stage::Tbf(_) => "tbf",
            Stage::Codel(_) => "codel",
            Stage::FqCodel(_) => "fq_codel",
            Stage::Dualpi2(_) => "dualpi2",
            Stage::Cake(_) => "cake",
            Stage::Marked { inner, .. } => inner.kind(),
            Stage::Htb(_) => "htb",
            Stage::Netem(_) => "netem",
            Stage::Link(_) => "link",
        }
    }

    /// The rate at which it lets packets go, if it has one.
    fn rate(&self) -> Option<Rate> {
        match self {
            Stage::Tbf(p) => Some(p.rate),
            Stage::Htb(p) => Some(p.rate),
            Stage::Netem(p) => p.rate.map(|r| r.rate),
            Stage::Link(p) => Some(p.mean()),
            Stage::Cake(p) => (!p.rate.is_zero()).then_some(p.rate),
            Stage::Marked { inner, .. } => inner.rate(),
            Stage::Fifo(_) | Stage::Codel(_) | Stage::FqCodel(_) | Stage::Dualpi2(_) => None,
        }
    }

    /// Whether ECT(1) is a mark to it, and whether it is the sign of L4S.
    fn ect_1(&self) -> sce::Ect1 {
        let of = |threshold: Option<_>, selector, mask| sce::Ect1::of(threshold.is_some(), selector, mask);
        match self {
            Stage::Codel(p) => of(p.sce_threshold, 0, 0),
            Stage::FqCodel(p) => of(p.sce_threshold, p.ce_threshold_selector, p.ce_threshold_mask),
            Stage::Cake(p) => {
                let (selector, mask) = p.ce_threshold.map_or((0, 0), |ce| (ce.selector, ce.mask));
                of(p.sce_threshold, selector, mask)
            }
            Stage::Dualpi2(_) => sce::Ect1 { mark: false, l4s: true },
            Stage::Marked { inner, mb_ecn } => inner.ect_1().or(sce::Ect1 { mark: false, l4s: mb_ecn.l4s }),
            _ => sce::Ect1::default(),
        }
    }

    fn role(&self) -> Role {
        match self {
            Stage::Fifo(_) | Stage::Codel(_) | Stage::FqCodel(_) | Stage::Dualpi2(_) | Stage::Cake(_) => Role::Queue,
            Stage::Tbf(_) | Stage::Htb(_) | Stage::Link(_) => Role::Puller,
            Stage::Netem(_) => Role::Pusher,
            Stage::Marked { inner, .. } => inner.role(),
        }
    }

    /// The stage by itself on a link, to see what its words resolve to.
    pub fn alone(&self, link: Link) -> Box<dyn Qdisc> {
        self.build(link, Handle::ROOT, None)
    }

    /// The stage at work; a puller gets the queue before it as its child.
    fn build(&self, link: Link, handle: Handle, child: Option<Box<dyn Qdisc>>) -> Box<dyn Qdisc> {
        match self {
            Stage::Fifo(p) => Box::new(qdisc::fifo::Fifo::new(*p, link.mtu)),
            Stage::Tbf(p) => Box::new(qdisc::tbf::Tbf::new(p, child, link.mtu)),
            Stage::Codel(p) => Box::new(qdisc::codel::Codel::new(p, link)),
            Stage::Htb(p) => Box::new(qdisc::htb::Htb::new(p, child, link.mtu)),
            Stage::Netem(p) => Box::new(qdisc::netem::Netem::new(p, link)),
            Stage::Link(p) => Box::new(qdisc::link::RecordedLink::new(p, child)),
            Stage::FqCodel(p) => Box::new(qdisc::fq_codel::FqCodel::new(p, link, handle)),
            Stage::Dualpi2(p) => Box::new(qdisc::dualpi2::Dualpi2::new(p, link, handle)),
            Stage::Cake(p) => Box::new(qdisc::cake::Cake::new(p, link, handle)),
            Stage::Marked { inner, mb_ecn } => {
                Box::new(qdisc::marking::Marking::new(mb_ecn, inner.build(link, handle, child)))
            }
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Stage::Fifo(p) => p.words(),
            Stage::Tbf(p) => p.words(),
            Stage::Codel(p) => p.words(),
            Stage::Htb(p) => p.words(),
            Stage::Netem(p) => p.words(),
            Stage::Link(p) => p.words(),
            Stage::FqCodel(p) => p.words(),
            Stage::Dualpi2(p) => dualpi2::words(p),
            Stage::Cake(p) => p.words(),
            Stage::Marked { inner, mb_ecn } => return write!(f, "{inner} {}", mb_ecn::words(mb_ecn)),
        };
        f.write_str(self.kind())?;
        if !words.is_empty() {
            write!(f, " {words}")?;
        }
        Ok(())
    }
}

/// A direction's pipeline, as asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    stages: Vec<Stage>,
}

/// A specification, and what should be said aloud about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What was asked for.
    pub spec: Spec,
    /// Things accepted but worth a line.
    pub warnings: Vec<String>,
}

/// Whether a stage begins with this word.
pub fn is_stage(word: &str) -> bool {
    KINDS.contains(&word)
}

/// Reads a line of stages.
///
/// # Errors
/// The first word that is unknown, impossible, or out of place.
pub fn parse(line: &str) -> Result<Parsed, SpecError> {
    let words = tokens(line);
    let mut warnings = Vec::new();
    let mut stages: Vec<Stage> = Vec::new();
    let mut rest = words.as_slice();
    loop {
        let bar = rest.iter().position(|t| t.text == "|");
        let (stage, end) = match bar {
            Some(i) => (&rest[..i], rest[i].at),
            None => (rest, line.len()),
        };
        let Some((kind, args)) = stage.split_first() else {
            let mut e = SpecError::new(end, 1, "a stage is missing here");
            e.allowed = KINDS.iter().map(|s| s.to_string()).collect();
            return Err(e);
        };
        let (args, signal) = mb_ecn::split(*kind, args, end)?;
        let mut stage = Stage::parse(*kind, &mut Cursor::new(&args, end), &mut warnings)?;
        if let Some(params) = signal {
            stage = Stage::Marked { inner: Box::new(stage), mb_ecn: Box::new(params) };
        }
        place(&stages, &stage, *kind, &mut warnings)?;
        stages.push(stage);
        match bar {
            Some(i) => rest = &rest[i + 1..],
            None => break,
        }
    }
    let spec = Spec { stages };
    let full = Link::default().mtu;
    warnings.extend(spec.doubts(full));
    warnings.extend(spec.short_limits(full, None));
    Ok(Parsed { spec, warnings })
}

/// Whether a stage may stand behind those before it.
fn place(before: &[Stage], stage: &Stage, at: Token<'_>, warnings: &mut Vec<String>) -> Result<(), SpecError> {
    let refuse = |why: String| Err(SpecError::new(at.at, at.text.len(), why));
    let ect_1 = before.iter().map(Stage::ect_1).fold(stage.ect_1(), sce::Ect1::or);
    if ect_1.mark && ect_1.l4s {
        return refuse(sce::BOTH.into());
    }
    let previous = before.last().map(|s| (s.kind(), s.role()));
    let has_child = matches!(previous, Some((_, Role::Queue | Role::Puller)));
    if stage.range().is_some() && before.iter().any(|s| s.range().is_some()) {
        return refuse("\"autorate\" stands twice in this direction: two shapers would chase each other; keep the one at the bottleneck".into());
    }
    match (previous, stage) {
        (Some((a, Role::Queue)), _) if stage.role() == Role::Queue => {
            let b = stage.kind();
            refuse(format!("\"{a} | {b}\": {b} would drain {a} at once, so {a} would never queue; put a shaper such as tbf between them, or leave one away"))
        }
        (Some((a, Role::Queue)), Stage::Netem(_)) => {
            warnings.push(format!(
                "\"{a} | netem\": netem takes whatever comes, so {a} will never queue; a rate limit for {a} is \"{a} | tbf rate …\", and a delay belongs before {a} or behind the shaper"
            ));
            Ok(())
        }
        (_, Stage::Link(p)) if !has_child => {
            warnings.push(format!(
                "link: without a queue before it, it makes one without a limit; write \"pfifo limit N | link {}\" to bound it",
                p.file
            ));
            Ok(())
        }
        (_, Stage::Tbf(p)) if !has_child && p.limit.is_none() => refuse(
            "without a queue before it, tbf needs \"limit SIZE\" or \"latency TIME\" for its own, or write \"pfifo | tbf …\"".into(),
        ),
        _ => Ok(()),
    }
}

impl Spec {
    /// The stages, in the order a packet meets them.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// One FIFO without a limit worth speaking of: what a direction without a specification gets.
    pub fn unlimited() -> Spec {
        let limit = Some(u32::MAX);
        Spec { stages: vec![Stage::Fifo(qdisc::fifo::Params { kind: qdisc::fifo::Kind::Packets, limit })] }
    }

    /// The lowest rate among its stages, bits per second, if one has a rate.
    pub fn bottleneck(&self) -> Option<u64> {
        self.stages.iter().filter_map(Stage::rate).map(|r| r.bits_per_second()).min()
    }

    /// Whether `other` has the same kinds of stages in the same order, so that a running instance
    /// can change from one to the other.
    pub fn same_kind(&self, other: &Spec) -> bool {
        self.stages.len() == other.stages.len()
            && self.stages.iter().zip(&other.stages).all(|(a, b)| a.kind() == b.kind())
    }

    /// The stages that a pipeline has, each with the stages it pulls from before it.
    pub(crate) fn groups(&self) -> Vec<&[Stage]> {
        let pulls = |from: &Stage, stage: &Stage| stage.role() == Role::Puller && from.role() != Role::Pusher;
        self.stages.chunk_by(|from, next| pulls(from, next)).collect()
    }

    /// The stages at work on a link.
    pub fn build(&self, link: Link) -> Pipeline {
        let mut built: Vec<Box<dyn Qdisc>> = Vec::new();
        let mut previous = None;
        for (i, stage) in self.stages.iter().enumerate() {
            let child = match (stage.role(), previous) {
                (Role::Puller, Some(Role::Queue | Role::Puller)) => built.pop(),
                _ => None,
            };
            let handle = match self.stages.get(i + 1).map(Stage::role) {
                Some(Role::Puller) => Handle::CHILD,
                _ => Handle::ROOT,
            };
            built.push(stage.build(link, handle, child));
            previous = Some(stage.role());
        }
        Pipeline::new(built)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, stage) in self.stages.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{stage}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
