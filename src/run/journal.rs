//! The journals of a running bridge as files: `--log DIR`, and `weir log`.
//!
//! Each direction has a table of arrivals and one of outcomes, with the columns that `weir trace` reads and writes, so what
//! happened live can be decided again in virtual time. Where notes were lost there is a row that says how many. At the end
//! the sum must close: what arrived was sent or dropped, is inside, or was lost.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::bridge::{Bridge, Way};
use super::clock;
use crate::engine::journal::{Ended, Note, Notes};
use crate::qdisc::Reason;
use crate::time::{Instant, MILLISECOND, SECOND};
use crate::trace::format::{ARRIVAL_COLUMNS, Arrival, OUTCOME_COLUMNS, Outcome, arrival_row, outcome_row};

/// How often the notes of the engines are fetched, ns.
const EVERY: u64 = 20 * MILLISECOND;

/// A log of a bridge at work.
pub struct Log {
    files: Files,
    /// Empty buffers for the journals.
    spare: [Vec<Note>; 2],
    due: Instant,
    until: Instant,
}

impl Log {
    /// Lets both engines keep journals, until `until` or [`Log::end`], and writes them into `directory`.
    ///
    /// # Errors
    /// As [`Files::begin`], or a worker has ended.
    pub fn begin(bridge: &Bridge, directory: &Path, until: Instant) -> io::Result<Log> {
        let now = clock::now();
        let files = Files::begin(directory, now)?;
        bridge.keep_journals(true).ok_or_else(ended)?;
        Ok(Log { files, spare: Default::default(), due: now + EVERY, until })
    }

    /// When [`Log::write`] is to be called next.
    pub fn due(&self) -> Instant {
        self.due.min(self.until)
    }

    /// Whether its time is over.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Writes what was noted since the last time.
    ///
    /// # Errors
    /// What the file system says, or a worker has ended.
    pub fn write(&mut self, bridge: &Bridge) -> io::Result<()> {
        for way in Way::BOTH {
            let spare = std::mem::take(&mut self.spare[way as usize]);
            let notes = bridge.take_notes(way, spare).ok_or_else(ended)?;
            self.files.write(way, clock::now(), &notes)?;
            self.spare[way as usize] = notes.notes;
        }
        self.due = clock::now() + EVERY;
        Ok(())
    }

    /// Writes the rest, and lets the engines keep no journals any more.
    ///
    /// # Errors
    /// What the file system says, or a worker has ended.
    pub fn end(mut self, bridge: &Bridge) -> io::Result<Written> {
        let rest = self.write(bridge);
        bridge.keep_journals(false);
        rest?;
        let facts = bridge.facts();
        let about = |way: Way| {
            let i = way as usize;
            json!({ "from": facts.nics[i], "to": facts.nics[1 - i], "spec": facts.specs[i].to_string() })
        };
        let seconds = clock::now().since(self.files.began) as f64 / SECOND as f64;
        self.files.end(json!({
            "weir": env!("CARGO_PKG_VERSION"),
            "instance": facts.name,
            "seconds": seconds,
            "down": about(Way::Down),
            "up": about(Way::Up),
        }))
    }
}

fn ended() -> io::Error {
    io::Error::other("a worker has ended")
}

/// A compressed table.
struct Table {
    path: PathBuf,
    rows: csv::Writer<GzEncoder<BufWriter<File>>>,
}

impl Table {
    fn create(path: PathBuf, columns: &[&str]) -> io::Result<Table> {
        let file = BufWriter::new(File::create(&path)?);
        let mut rows = csv::Writer::from_writer(GzEncoder::new(file, Compression::fast()));
        rows.write_record(columns)?;
        Ok(Table { path, rows })
    }

    fn end(self) -> io::Result<PathBuf> {
        let compressed = self.rows.into_inner().map_err(|e| io::Error::other(e.to_string()))?;
        compressed.finish()?.flush()?;
        Ok(self.path)
    }
}

/// What one direction's tables hold.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Packets that arrived.
    pub arrived: u64,
    /// Of them, sent.
    pub sent: u64,
    /// Sent with a mark of ours, whenever they arrived.
    pub marked: u64,
    /// Dropped, by reason.
    pub dropped: [u64; Reason::ALL.len()],
    /// Still inside at the end.
    pub inside: u64,
    /// Ends of packets that came before the journal, and of copies that `netem` made.
    pub unnumbered: u64,
    /// Notes that found no room.
    pub lost: u64,
}

impl Tally {
    fn note(&mut self, ended: &Ended) {
        self.marked += u64::from(ended.dropped.is_none() && !ended.marks.is_empty());
        match (ended.number, ended.dropped) {
            (None, _) => self.unnumbered += 1,
            (Some(_), None) => self.sent += 1,
            (Some(_), Some(reason)) => self.dropped[reason as usize] += 1,
        }
    }

    /// Packets dropped.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether every arrival has one end or is inside. Not known where notes were lost.
    pub fn closes(&self) -> Option<bool> {
        (self.lost == 0).then(|| self.arrived == self.sent + self.drops() + self.inside)
    }

    fn json(&self) -> Value {
        let dropped = Reason::ALL.iter().zip(self.dropped).filter(|(_, n)| *n > 0);
        json!({
            "arrived": self.arrived,
            "sent": self.sent,
            "marked": self.marked,
            "dropped": dropped.map(|(r, n)| (r.name().to_string(), n.into())).collect::<serde_json::Map<_, _>>(),
            "inside": self.inside,
            "unnumbered": self.unnumbered,
            "lost": self.lost,
            "closes": self.closes(),
        })
    }
}

/// One direction.
struct Direction {
    arrivals: Table,
    outcomes: Table,
    tally: Tally,
}

/// The tables of both directions.
pub struct Files {
    directory: PathBuf,
    began: Instant,
    directions: [Direction; 2],
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The directions' sums, down and up.
    pub tallies: [Tally; 2],
}

impl Written {
    /// For people: a line for each direction, and the files.
    pub fn lines(&self) -> Vec<String> {
        let tally = |(way, t): (Way, &Tally)| {
            let sum = match t.closes() {
                None => format!("{} notes were lost, since they came faster than they could be written", t.lost),
                Some(true) => "the sum closes".into(),
                Some(false) => "the sum does not close: a fault in weir".into(),
            };
            format!(
                "{}: {} arrived, {} sent ({} marked), {} dropped, {} inside; {sum}",
                way.name(),
                t.arrived,
                t.sent,
                t.marked,
                t.drops(),
                t.inside
            )
        };
        let files = self.files.iter().map(|f| format!("wrote {}", f.display()));
        Way::BOTH.into_iter().zip(&self.tallies).map(tally).chain(files).collect()
    }
}

impl Files {
    /// Makes the directory and begins the tables; times count from `now`.
    ///
    /// # Errors
    /// What the file system says; also if there are tables in the directory, which are not written over.
    pub fn begin(directory: &Path, now: Instant) -> io::Result<Files> {
        std::fs::create_dir_all(directory)?;
        let table = |way: Way, what: &str| directory.join(format!("{}.{what}.csv.gz", way.name()));
        for way in Way::BOTH {
            let path = table(way, "arrivals");
            if path.exists() {
                let why = format!("{} is there already; give another directory, or remove it", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
        }
        let begin = |way| {
            Ok::<_, io::Error>(Direction {
                arrivals: Table::create(table(way, "arrivals"), &ARRIVAL_COLUMNS)?,
                outcomes: Table::create(table(way, "outcomes"), &OUTCOME_COLUMNS)?,
                tally: Tally::default(),
            })
        };
        let directions = [begin(Way::Down)?, begin(Way::Up)?];
        Ok(Files { directory: directory.into(), began: now, directions })
    }

    /// Writes what was noted of a direction.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&mut self, way: Way, now: Instant, notes: &Notes) -> io::Result<()> {
        let Direction { arrivals, outcomes, tally } = &mut self.directions[way as usize];
        for note in &notes.notes {
            match note {
                Note::Arrived(a) => {
                    tally.arrived += 1;
                    let bytes = &a.bytes[..usize::from(a.kept)];
                    let arrival = Arrival::of_frame(a.number, a.at.since(self.began), a.len, bytes);
                    arrivals.rows.write_record(arrival_row(&arrival))?;
                }
                Note::Ended(e) => {
                    tally.note(e);
                    outcomes.rows.write_record(ended_row(e, self.began))?;
                }
            }
        }
        if notes.lost > 0 {
            let mut row = vec![String::new(); OUTCOME_COLUMNS.len()];
            row[1] = now.since(self.began).to_string();
            row[2] = "lost".into();
            row[3] = format!("{} notes", notes.lost);
            outcomes.rows.write_record(row)?;
        }
        tally.lost += notes.lost;
        tally.inside = notes.inside;
        Ok(())
    }

    /// Ends the tables and writes the sums beside them; `about` says what they are of.
    ///
    /// # Errors
    /// What the file system says.
    pub fn end(self, about: Value) -> io::Result<Written> {
        let path = self.directory.join("log.json");
        let tallies = self.directions.each_ref().map(|direction| direction.tally.clone());
        let mut files = Vec::new();
        for direction in self.directions {
            files.extend([direction.arrivals.end()?, direction.outcomes.end()?]);
        }
        let mut all = about;
        for (way, tally) in Way::BOTH.into_iter().zip(&tallies) {
            all[way.name()]["sum"] = tally.json();
        }
        std::fs::write(&path, format!("{all:#}\n"))?;
        files.push(path);
        Ok(Written { files, tallies })
    }
}

fn ended_row(e: &Ended, began: Instant) -> [String; OUTCOME_COLUMNS.len()] {
    let outcome = Outcome {
        id: e.number.unwrap_or_default(),
        t_ns: e.at.since(began),
        sojourn_ns: e.sojourn,
        marks: e.marks,
        dropped: e.dropped,
        len: e.len,
        ds: e.ds,
        seen: e.seen.clone(),
    };
    let mut row = outcome_row(&outcome, began);
    if e.number.is_none() {
        row[0].clear();
    }
    row
}
