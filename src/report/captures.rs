//! A capture beside the other files of a run for each port: every frame that left it or was dropped there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::stats::histogram::tag;
use crate::time::Instant;
use crate::trace::capture::{Capture, Fate};

/// The captures of a run, each begun with the first frame of its port.
pub struct Captures {
    folder: PathBuf,
    origin: Instant,
    open: BTreeMap<String, Capture<BufWriter<File>>>,
    failed: Option<io::Error>,
}

impl Captures {
    /// Captures in `folder`, which is made, whose time begins at `origin`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(folder: &Path, origin: Instant) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Captures { folder: folder.to_path_buf(), origin, open: BTreeMap::new(), failed: None })
    }

    /// A frame left `port` or was dropped there. What the file system says is kept for [`Captures::end`], and nothing
    /// more is written.
    pub fn frame(&mut self, port: &str, fate: &Fate<'_>) {
        if self.failed.is_none() {
            self.failed = self.write(port, fate).err();
        }
    }

    fn write(&mut self, port: &str, fate: &Fate<'_>) -> io::Result<()> {
        let at = fate.at.since(self.origin);
        if let Some(capture) = self.open.get_mut(port) {
            return capture.frame(at, fate);
        }
        let path = self.folder.join(format!("frames-{}.pcapng", tag(port)));
        let mut capture = Capture::begin(BufWriter::new(File::create(path)?))?;
        capture.frame(at, fate)?;
        self.open.insert(port.into(), capture);
        Ok(())
    }

    /// Ends them.
    ///
    /// # Errors
    /// The first thing that the file system said.
    pub fn end(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)?;
        self.open.into_values().try_for_each(Capture::end)
    }
}
