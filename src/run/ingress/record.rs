//! What has to be undone, in a file that is there before the first change and gone after the last one. Whoever finds it
//! without its owner can undo what the owner did, wherever it was when it died.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::sysctl::Sysctls;
use crate::run::kept::{self, boot};
use crate::run::nic::NicFacts;
use crate::sys::namespace::network;

const FORMAT: u32 = 1;
const SUFFIX: &str = "ingress.json";

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// The pair is there or about to be; WAN has what it had.
    Pair,
    /// On the way, there or back: what is in the record belongs on WAN, and may be anywhere.
    Moving,
    /// Everything is at the host's end; what is there belongs on WAN in the end.
    Moved,
}

/// What was done to a WAN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    boot: String,
    namespace: u64,
    /// WAN's name, index and hardware address.
    pub(super) wan: String,
    pub(super) index: u32,
    address: String,
    /// The host's end of the pair, by the name it was made with.
    pub(super) host: String,
    /// weir's end.
    pub(super) peer: String,
    pub(super) phase: Phase,
    /// What WAN carried.
    pub(super) carried: Carried,
    /// What was set otherwise on WAN.
    pub(super) sysctls: Sysctls,
}

impl Record {
    pub(super) fn new(wan: &NicFacts, host: &str) -> io::Result<Record> {
        Ok(Record {
            format: FORMAT,
            boot: boot(),
            namespace: network()?,
            wan: wan.name.clone(),
            index: wan.index,
            address: wan.address.clone(),
            host: host.into(),
            peer: format!("weir{}", wan.index),
            phase: Phase::Pair,
            carried: Carried::default(),
            sysctls: Sysctls::default(),
        })
    }

    /// The record about an interface, if there is one.
    pub(super) fn find(wan: &NicFacts, directory: &Path) -> io::Result<Option<Record>> {
        let namespace = network()?;
        Ok(all(directory).into_iter().find(|r| {
            (r.format, r.namespace, r.index, &r.address) == (FORMAT, namespace, wan.index, &wan.address)
                && r.boot == boot()
        }))
    }

    /// Records of this namespace whose interface is not there any more, and of any before the machine was started. Numbers are
    /// given again: with another address it is another interface.
    pub(super) fn orphans(there: &[(u32, String)], directory: &Path) -> io::Result<Vec<Record>> {
        let namespace = network()?;
        let is_there = |r: &Record| there.iter().any(|(index, address)| (*index, address) == (r.index, &r.address));
        let mut found = all(directory);
        found.retain(|r| !r.is_current() || (r.namespace == namespace && !is_there(r)));
        Ok(found)
    }

    /// Whether it is about this machine as it runs now, and not about one before a restart.
    pub(super) fn is_current(&self) -> bool {
        self.boot == boot()
    }

    /// Where it is kept.
    pub(super) fn file(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.{}.{SUFFIX}", self.index, self.namespace))
    }

    /// Writes it so that after any interruption there is either the old one or the new one.
    pub(super) fn write(&self, directory: &Path) -> Result<(), String> {
        let path = self.file(directory);
        let write = || kept::replace(&path, &serde_json::to_vec(self)?);
        write().map_err(|e: io::Error| format!("cannot write {}, so nothing was changed: {e}", path.display()))
    }

    /// Everything is undone.
    pub(super) fn remove(&self, directory: &Path) -> Result<(), String> {
        let path = self.file(directory);
        kept::remove(&path).map_err(|e| format!("cannot remove {}: {e}", path.display()))
    }
}

fn all(directory: &Path) -> Vec<Record> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = files.filter(|path| path.to_string_lossy().ends_with(SUFFIX));
    ours.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
}
