//! Frames and what became of them, as a capture: pcapng, each frame with a comment that says verdict, sojourn and tin.

use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, PcapError};

use crate::packet::Packet;
use crate::qdisc::Reason;
use crate::time::Instant;

/// Nanoseconds, as the option of an interface has it.
const NANOSECONDS: u8 = 9;

/// What became of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Fate<'a> {
    /// When it left or was dropped.
    pub at: Instant,
    /// Its record, as it left.
    pub packet: &'a Packet,
    /// Its first bytes, or all of them, DS byte as it left.
    pub bytes: &'a [u8],
    /// Why it was dropped, if it was.
    pub dropped: Option<Reason>,
    /// From arrival, ns.
    pub sojourn: u64,
}

impl Fate<'_> {
    /// For the comment beside the frame: verdict, sojourn, tin.
    fn comment(&self) -> String {
        let verdict = match self.dropped {
            Some(reason) => format!("dropped {}", reason.name()),
            None if self.packet.marks.is_empty() => "sent".into(),
            None => format!("marked {:?}", self.packet.marks),
        };
        format!("weir: {verdict}, sojourn {} ns, tin {}", self.sojourn, self.packet.tin)
    }
}

/// A capture that is being written.
pub struct Capture<W: Write>(PcapNgWriter<W>);

impl<W: Write> Capture<W> {
    /// Begins one: Ethernet, time in nanoseconds.
    ///
    /// # Errors
    /// What `to` says.
    pub fn begin(to: W) -> io::Result<Self> {
        let mut writer = PcapNgWriter::new(to).map_err(plain)?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
        };
        writer.write_block(&interface.into_block()).map_err(plain)?;
        Ok(Capture(writer))
    }

    /// Writes a frame down, `at` ns after the epoch.
    ///
    /// # Errors
    /// What the file says.
    pub fn frame(&mut self, at: u64, fate: &Fate<'_>) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(at),
            original_len: fate.packet.len,
            data: fate.bytes.into(),
            options: vec![EnhancedPacketOption::Comment(fate.comment().into())],
        };
        self.0.write_block(&block.into_block()).map(|_| ()).map_err(plain)
    }

    /// Ends it.
    ///
    /// # Errors
    /// What the file says.
    pub fn end(self) -> io::Result<()> {
        self.0.into_inner().flush()
    }
}

fn plain(e: PcapError) -> io::Error {
    match e {
        PcapError::IoError(e) => e,
        e => io::Error::other(e),
    }
}
