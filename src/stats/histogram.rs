//! How long packets waited: histograms, and the files made of them.
//!
//! The data path records into [`Sojourns`], which has all its memory from the start. Whoever wants
//! to know hands the worker an empty one and gets the full one for it, so nothing is copied or
//! locked there (the pattern of HdrHistogram's `Recorder`).
//!
//! * `.hlog`: interval log, version 2 compressed, written by the histogram's own serialiser; values
//!   are nanoseconds.
//! * `.hgrm`: percentiles in the layout that HdrHistogram's plotters read; values are milliseconds.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::StageStats;
use crate::time::{MILLISECOND, SECOND};

/// Longest sojourn told apart, in nanoseconds; longer ones count as this.
pub const LONGEST: u64 = 100 * SECOND;

/// The most tins that a queueing stage has.
const MAX_TINS: usize = 8;

/// The tails that are reported, by name and as a share.
pub const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A histogram for sojourns, empty: 1 ns to 100 s in three significant digits, so that it never grows.
pub fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds that a histogram can have")
}

/// How long packets waited, in nanoseconds: of a span of time, until somebody takes it.
#[derive(Clone, Debug)]
pub struct Sojourns {
    /// From the XDP hook until the queueing stage let the packet go.
    pub decision: Histogram<u64>,
    /// From the XDP hook until the packet was handed to the sending device.
    pub total: Histogram<u64>,
    /// As `decision`, for each tin of the queueing stage in its internal order; none if it has no tins.
    pub tins: Vec<Histogram<u64>>,
}

impl Sojourns {
    /// Nothing recorded yet, without tins.
    pub fn new() -> Self {
        Sojourns::with_tins(0)
    }

    /// The same for a queueing stage with so many tins.
    pub fn with_tins(tins: usize) -> Self {
        Sojourns { decision: empty(), total: empty(), tins: vec![empty(); tins] }
    }

    /// Nothing recorded yet, for a direction with these stages. Where there are tins there is room
    /// for as many as any change can make.
    pub fn of(stages: &[StageStats]) -> Self {
        let tins = stages.iter().any(|s| !s.tins().is_empty());
        Sojourns::with_tins(if tins { MAX_TINS } else { 0 })
    }

    /// A packet leaves: `decision` and `total` as in the fields, `tin` in the stage's internal order.
    pub fn record(&mut self, decision: u64, total: u64, tin: u8) {
        self.decision.saturating_record(decision);
        self.total.saturating_record(total);
        if let Some(h) = self.tins.get_mut(usize::from(tin)) {
            h.saturating_record(decision);
        }
    }

    /// Adds what another recorded.
    pub fn add(&mut self, other: &Sojourns) {
        let same = "histograms of the same bounds";
        self.decision.add(&other.decision).expect(same);
        self.total.add(&other.total).expect(same);
        // A change of parameters may change the number of tins.
        if self.tins.len() < other.tins.len() {
            self.tins.resize(other.tins.len(), empty());
        }
        for (mine, theirs) in self.tins.iter_mut().zip(&other.tins) {
            mine.add(theirs).expect(same);
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.decision.reset();
        self.total.reset();
        self.tins.iter_mut().for_each(|h| h.reset());
    }
}

impl Default for Sojourns {
    fn default() -> Self {
        Sojourns::new()
    }
}

/// What a direction's histograms are called in files (decisions.md 13).
///
/// The queueing stages are `down`; `down/total` stands beside it where a stage before or behind
/// them keeps packets too; tins are `down/best-effort`, in the order they are shown.
pub fn tagged<'a>(
    direction: &str,
    sojourns: &'a Sojourns,
    with_total: bool,
    tins: &[(String, usize)],
) -> Vec<(String, &'a Histogram<u64>)> {
    let mut out = vec![(direction.to_string(), &sojourns.decision)];
    if with_total {
        out.push((format!("{direction}/total"), &sojourns.total));
    }
    for (name, index) in tins {
        if let Some(h) = sojourns.tins.get(*index) {
            out.push((format!("{direction}/{}", tag(name)), h));
        }
    }
    out
}

/// A name that may stand in a tag: lower case, without spaces and commas.
pub fn tag(name: &str) -> String {
    name.to_lowercase().replace([' ', ',', '\r', '\n'], "-")
}

/// Writes an interval log: a line per tag each time it is asked to.
pub struct IntervalLog<W> {
    out: W,
    serializer: V2DeflateSerializer,
}

/// The unit of the log's "max" column, as HdrHistogram's own writers have it: milliseconds.
const MAX_DIVISOR: f64 = MILLISECOND as f64;

impl<W: Write> IntervalLog<W> {
    /// Begins a log. `start` is the wall-clock time that its first interval begins at; each `about`
    /// becomes a comment line.
    ///
    /// # Errors
    /// What the writer says.
    pub fn begin(mut out: W, start: SystemTime, about: &[String]) -> io::Result<Self> {
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Histogram log format version 1.3]");
        for line in about {
            builder.add_comment(line);
        }
        builder.add_comment("[values in nanoseconds, Interval_Max in milliseconds]");
        builder.with_start_time(start).with_base_time(start).with_max_value_divisor(MAX_DIVISOR);
        let mut serializer = V2DeflateSerializer::new();
        builder.begin_log_with(&mut out, &mut serializer)?;
        writeln!(out, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"")?;
        Ok(IntervalLog { out, serializer })
    }

    /// One line: what was recorded in an interval that began `from` after the log's start.
    ///
    /// # Errors
    /// What the writer says; `InvalidInput` for a tag with a comma, a space or a line break.
    pub fn write(&mut self, tag: &str, from: Duration, length: Duration, h: &Histogram<u64>) -> io::Result<()> {
        let tag = Tag::new(tag).filter(|t| !t.as_str().is_empty()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("\"{tag}\" cannot be the tag of a histogram"))
        })?;
        let mut builder = IntervalLogWriterBuilder::new();
        // The divisor again, but without the header that names it.
        let mut line = Vec::new();
        let mut log = builder.with_max_value_divisor(MAX_DIVISOR).begin_log_with(&mut line, &mut self.serializer)?;
        log.write_histogram(h, from, length, Some(tag)).map_err(io::Error::other)?;
        let text = line.split(|b| *b == b'\n').find(|l| !l.is_empty() && l[0] != b'#').unwrap_or_default();
        self.out.write_all(text)?;
        self.out.write_all(b"\n")
    }

    /// Sees to it that everything written so far is in the file.
    ///
    /// # Errors
    /// What the writer says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Steps between two powers of two of the distance to 100 %.
const TICKS_PER_HALF: u32 = 5;

/// Writes percentiles in milliseconds, in the layout of HdrHistogram's percentile output: columns
/// Value, Percentile, TotalCount, 1/(1-Percentile), then the moments behind `#[`.
///
/// # Errors
/// What the writer says.
pub fn write_hgrm(out: &mut impl Write, h: &Histogram<u64>) -> io::Result<()> {
    let ms = |v: f64| v / MILLISECOND as f64;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for v in h.iter_quantiles(TICKS_PER_HALF) {
        let (value, quantile) = (ms(v.value_iterated_to() as f64), v.quantile_iterated_to());
        total += v.count_since_last_iteration();
        if quantile < 1.0 {
            writeln!(out, "{value:12.6} {quantile:2.12} {total:10} {:14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:12.6} {quantile:2.12} {total:10}")?;
        }
    }
    writeln!(out, "#[Mean    = {:12.6}, StdDeviation   = {:12.6}]", ms(h.mean()), ms(h.stdev()))?;
    writeln!(out, "#[Max     = {:12.6}, Total count    = {:12}]", ms(h.max() as f64), h.len())?;
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", h.buckets(), sub_buckets(h))
}

/// Sub-buckets of a histogram's first bucket: the power of two that tells its digits apart.
fn sub_buckets(h: &Histogram<u64>) -> u64 {
    (2 * 10u64.pow(h.sigfig().into())).next_power_of_two()
}

#[cfg(test)]
mod tests;
