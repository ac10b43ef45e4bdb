//! Histograms as files: `--hist DIR` of a run, and `weir hist`.
//!
//! `NAME.hlog` has a line a second and direction; `NAME-down.hgrm` has the percentiles of the whole
//! run. Beside `down` and `up` there are `down/total` where an impairment keeps packets too, and
//! `down/best-effort` … where the queueing stage has tins (decisions.md 13).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::stats::StageStats;
use crate::stats::histogram::{IntervalLog, Sojourns, tagged, write_hgrm};
use crate::stats::report::Report;

/// The files of a run.
pub struct Files {
    directory: PathBuf,
    name: String,
    log: IntervalLog<BufWriter<File>>,
}

impl Files {
    /// Makes the directory and begins the log.
    ///
    /// # Errors
    /// What the file system says.
    pub fn begin(directory: &Path, name: &str, about: &[String]) -> io::Result<Files> {
        std::fs::create_dir_all(directory)?;
        let file = File::create(directory.join(format!("{name}.hlog")))?;
        let log = IntervalLog::begin(BufWriter::new(file), SystemTime::now(), about)?;
        Ok(Files { directory: directory.into(), name: name.into(), log })
    }

    /// What was recorded for one direction in an interval that began `from` after the start.
    ///
    /// # Errors
    /// What the file system says.
    pub fn interval(
        &mut self,
        direction: &str,
        stages: &[StageStats],
        sojourns: &Sojourns,
        from: Duration,
        length: Duration,
    ) -> io::Result<()> {
        for (tag, h) in tags(direction, stages, sojourns) {
            self.log.write(&tag, from, length, h)?;
        }
        self.log.flush()
    }

    /// Ends the log and writes the percentiles of the whole run; gives the files' paths.
    ///
    /// # Errors
    /// What the file system says.
    pub fn end(mut self, reports: &[Report]) -> io::Result<Vec<PathBuf>> {
        self.log.flush()?;
        let mut paths = vec![self.directory.join(format!("{}.hlog", self.name))];
        for (name, content) in percentiles(&self.name, reports)? {
            let path = self.directory.join(name);
            File::create(&path)?.write_all(content.as_bytes())?;
            paths.push(path);
        }
        Ok(paths)
    }
}

/// Everything since the start as files, by name: an interval log with one line a tag, and percentiles.
///
/// # Errors
/// What the serialiser says.
pub fn files(name: &str, reports: &[Report]) -> io::Result<Vec<(String, String)>> {
    let mut log = Vec::new();
    let seconds = reports.iter().map(|r| r.seconds).fold(0.0, f64::max);
    let length = Duration::from_secs_f64(seconds);
    let start = SystemTime::now().checked_sub(length).unwrap_or(SystemTime::UNIX_EPOCH);
    let about: Vec<String> = reports.iter().map(|r| format!("weir {name} {}: {}", r.direction, r.spec)).collect();
    let mut writer = IntervalLog::begin(&mut log, start, &about)?;
    for r in reports {
        for (tag, h) in tags(r.direction, &r.stages, &r.sojourns) {
            writer.write(&tag, Duration::ZERO, length, h)?;
        }
    }
    let log = String::from_utf8(log).map_err(io::Error::other)?;
    let mut files = vec![(format!("{name}.hlog"), log)];
    files.extend(percentiles(name, reports)?);
    Ok(files)
}

fn percentiles(name: &str, reports: &[Report]) -> io::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for r in reports {
        for (tag, h) in tags(r.direction, &r.stages, &r.sojourns) {
            let mut out = Vec::new();
            write_hgrm(&mut out, h)?;
            let content = String::from_utf8(out).map_err(io::Error::other)?;
            files.push((format!("{name}-{}.hgrm", tag.replace('/', "-")), content));
        }
    }
    Ok(files)
}

fn tags<'a>(
    direction: &str,
    stages: &[StageStats],
    sojourns: &'a Sojourns,
) -> Vec<(String, &'a hdrhistogram::Histogram<u64>)> {
    let impaired = stages.iter().any(|s| s.kind() == "netem");
    let tins: Vec<_> = stages.iter().flat_map(StageStats::tins).collect();
    tagged(direction, sojourns, impaired, &tins)
}
