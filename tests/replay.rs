//! `weir replay` from outside: captures built here go in, and what became of each frame is read back.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgBlock, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, TsResolution};
use weir::wire::build::Build;

/// A folder of its own that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-replay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A UDP frame of 1000 bytes with a DS byte.
fn frame(ds: u8) -> Vec<u8> {
    let build = Build {
        len: 1000,
        src: "10.0.0.1".parse().unwrap(),
        dst: "10.0.0.2".parse().unwrap(),
        protocol: 17,
        sport: 1000,
        dport: 2000,
        ds,
        tcp: None,
    };
    build.frame()
}

/// When frame `i` was recorded: one every 100 µs.
fn at(i: usize) -> Duration {
    Duration::new(1_700_000_000, 0) + Duration::from_micros(100) * i as u32
}

fn pcap(frames: &[Vec<u8>], resolution: TsResolution) -> Vec<u8> {
    let header = PcapHeader { ts_resolution: resolution, datalink: DataLink::ETHERNET, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (i, data) in frames.iter().enumerate() {
        writer.write_packet(&PcapPacket::new(at(i), data.len() as u32, data)).unwrap();
    }
    writer.into_writer()
}

/// A capture with time stamps in units of 10^-`digits` s.
fn pcapng(frames: &[Vec<u8>], digits: u8) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    let options = vec![InterfaceDescriptionOption::IfTsResol(digits)];
    let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
    writer.write_block(&interface.into_block()).unwrap();
    for (i, data) in frames.iter().enumerate() {
        // The crate writes the number of ns as it stands.
        let units = at(i).as_nanos() as u64 / 10u64.pow(9 - u32::from(digits));
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(units),
            original_len: data.len() as u32,
            data: data.as_slice().into(),
            options: vec![],
        };
        writer.write_block(&block.into_block()).unwrap();
    }
    writer.into_inner()
}

fn replay(folder: &Folder, capture: &[u8], qdisc: &str, more: &[&str]) -> Output {
    let input = folder.file("in");
    std::fs::write(&input, capture).unwrap();
    let words = ["replay", "--qdisc", qdisc, &input, &folder.file("out.pcapng")];
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).args(more).output().unwrap()
}

/// A frame that came out: ns since the capture began, bytes, comment.
type Left = (u128, Vec<u8>, String);

fn left(folder: &Folder) -> Vec<Left> {
    let bytes = std::fs::read(folder.file("out.pcapng")).unwrap();
    let mut reader = PcapNgReader::new(bytes.as_slice()).unwrap();
    let mut out = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let [EnhancedPacketOption::Comment(comment)] = packet.options.as_slice() else {
                panic!("{:?}", packet.options)
            };
            let since = packet.timestamp.as_nanos() - at(0).as_nanos();
            out.push((since, packet.data.to_vec(), comment.to_string()));
        }
    }
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// 1000 bytes at 8 Mbit/s take a millisecond; a bucket of 2000 bytes lets two through at once.
const SHAPED: &str = "pfifo limit 4 | tbf rate 8mbit burst 2000";

#[test]
fn every_kind_of_capture_gives_the_same_frames_with_verdict_sojourn_and_tin() {
    let frames: Vec<Vec<u8>> = (0..10).map(|_| frame(0)).collect();
    let captures = [
        ("pcap-us", pcap(&frames, TsResolution::MicroSecond)),
        ("pcap-ns", pcap(&frames, TsResolution::NanoSecond)),
        ("pcapng-us", pcapng(&frames, 6)),
        ("pcapng-ns", pcapng(&frames, 9)),
    ];
    for (name, capture) in captures {
        let folder = Folder::new(name);
        let done = replay(&folder, &capture, SHAPED, &["--with-drops"]);
        assert!(done.status.success(), "{name}: {}", text(&done.stderr));
        assert!(text(&done.stderr).contains("10 frames, 6 sent (0 marked), 4 dropped"), "{}", text(&done.stderr));
        let left = left(&folder);
        assert!(left.iter().all(|(_, bytes, _)| *bytes == frames[0]), "{name}");
        let told: Vec<(u128, &str)> = left.iter().map(|(at, _, comment)| (at / 1000, comment.as_str())).collect();
        // The bucket of 2000 bytes fills by 100 in 100 µs: the third frame waits for the 800 that are missing
        // and counts in the queue meanwhile.
        let sent = |us: u128, sojourn: u128| (us, format!("weir: sent, sojourn {} ns, tin 0", sojourn * 1000));
        let dropped = |us: u128| (us, "weir: dropped queue_full, sojourn 0 ns, tin 0".to_string());
        let expected = [
            sent(0, 0),
            sent(100, 0),
            dropped(600),
            dropped(700),
            dropped(800),
            dropped(900),
            sent(1000, 800),
            sent(2000, 1700),
            sent(3000, 2600),
            sent(4000, 3500),
        ];
        assert_eq!(told, expected.iter().map(|(us, c)| (*us, c.as_str())).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_mark_stands_in_the_frame_and_in_its_comment() {
    let folder = Folder::new("mark");
    let frames: Vec<Vec<u8>> = (0..4).map(|_| frame(2)).collect();
    let capture = pcap(&frames, TsResolution::NanoSecond);
    let done = replay(&folder, &capture, "codel ce_threshold 500us | tbf rate 8mbit burst 2000", &[]);
    assert!(text(&done.stderr).contains("4 frames, 4 sent (1 marked), 0 dropped"), "{}", text(&done.stderr));
    let left = left(&folder);
    let fields: Vec<u8> = left.iter().map(|(_, bytes, _)| bytes[15] & 3).collect();
    assert_eq!(fields, [2, 2, 2, 3]);
    // CoDel judges a frame when the shaper takes it up, 700 µs after its arrival; then it waits for the bucket.
    assert!(left[3].2.contains("marked") && left[3].2.contains("sojourn 1700000 ns"), "{}", left[3].2);
    // The header's checksum is right behind the mark.
    let sum = left[3].1[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum::<u32>();
    assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
}

#[test]
fn statistics_account_for_every_frame() {
    let folder = Folder::new("stats");
    let frames: Vec<Vec<u8>> = (0..10).map(|_| frame(0)).collect();
    let done = replay(&folder, &pcap(&frames, TsResolution::MicroSecond), SHAPED, &["--stats"]);
    let stats = text(&done.stdout);
    assert!(stats.contains("qdisc tbf") && stats.contains("qdisc pfifo"), "{stats}");
    assert_eq!(stats.matches("Sent 6000 bytes 6 pkt (dropped 4,").count(), 2, "{stats}");
    assert_eq!(left(&folder).len(), 6, "without --with-drops only what left is written");
}

#[test]
fn a_capture_that_ends_within_a_frame_is_refused_with_its_place_and_nothing_is_written() {
    let frames: Vec<Vec<u8>> = (0..3).map(|_| frame(0)).collect();
    // 24 bytes of header, 16 before each frame.
    let (short, third) = (pcap(&frames, TsResolution::MicroSecond), 24 + 2 * 1016);
    let ng = pcapng(&frames, 9);
    let cases = [
        ("cut", short[..short.len() - 1].to_vec(), format!("frame 3, at byte {third} of {}", short.len() - 1)),
        ("cut-ng", ng[..ng.len() - 4].to_vec(), "frame 3, at byte ".to_string()),
        ("header", short[..10].to_vec(), "too short for a header".to_string()),
        ("empty", pcap(&[], TsResolution::MicroSecond), "no frames in it".to_string()),
    ];
    for (name, capture, expected) in cases {
        let folder = Folder::new(name);
        let done = replay(&folder, &capture, "pfifo", &[]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(&expected), "{name}: {said}");
        assert!(!name.starts_with("cut") || said.contains("the file ends within it"), "{name}: {said}");
        assert!(!PathBuf::from(folder.file("out.pcapng")).exists(), "{name}");
    }
}

#[test]
fn frames_of_another_link_are_refused() {
    let header = PcapHeader { datalink: DataLink::RAW, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    writer.write_packet(&PcapPacket::new(at(0), 20, &[0x45; 20])).unwrap();
    let folder = Folder::new("raw");
    let done = replay(&folder, &writer.into_writer(), "pfifo", &[]);
    assert!(text(&done.stderr).contains("only Ethernet can be replayed"), "{}", text(&done.stderr));
}

#[test]
fn a_duplicate_is_the_same_frame_again() {
    let folder = Folder::new("duplicate");
    // More than the replay begins with room for: each is inside, and so is its twin.
    let frames: Vec<Vec<u8>> = (0..1500).map(|_| frame(0)).collect();
    let qdisc = "netem delay 10s duplicate 100% limit 4000";
    let done = replay(&folder, &pcap(&frames, TsResolution::MicroSecond), qdisc, &[]);
    assert!(text(&done.stderr).contains("3000 frames, 3000 sent"), "{}", text(&done.stderr));
    let left = left(&folder);
    assert_eq!(left.len(), 3000);
    assert!(left.iter().all(|(_, bytes, _)| *bytes == frames[0]));
}

#[test]
fn a_discipline_with_a_clock_of_its_own_starts_with_the_capture() {
    let folder = Folder::new("starts");
    let frames: Vec<Vec<u8>> = (0..40).map(|_| frame(2)).collect();
    // One 1500-byte opportunity each 5 ms, the first 5 ms after the start.
    std::fs::write(folder.file("trace"), "5\n").unwrap();
    let qdisc = format!("link {}", folder.file("trace"));
    let done = replay(&folder, &pcap(&frames, TsResolution::MicroSecond), &qdisc, &[]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(left(&folder).first().map(|f| f.0), Some(5_000_000));
}

#[test]
fn frames_that_the_capture_cut_off_are_replayed_at_their_length() {
    use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
    let header = PcapHeader { snaplen: 96, ts_resolution: TsResolution::MicroSecond, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for n in 0..3 {
        let data = frame(0)[..96].to_vec();
        let packet = RawPcapPacket { ts_sec: 1, ts_frac: n * 100, incl_len: 96, orig_len: 1000, data: data.into() };
        writer.write_raw_packet(&packet).unwrap();
    }
    let folder = Folder::new("snap");
    let done = replay(&folder, &writer.into_writer(), "pfifo | tbf rate 8mbit burst 1000", &["--stats"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("Sent 3000 bytes 3 pkt"), "{}", text(&done.stdout));
}

#[test]
fn a_capture_is_not_written_over_by_its_own_replay() {
    let folder = Folder::new("itself");
    let capture = pcap(&[frame(0)], TsResolution::MicroSecond);
    let input = folder.file("in");
    std::fs::write(&input, &capture).unwrap();
    let words = ["replay", "--qdisc", "pfifo", &input, &input];
    let done = Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("is what is read"), "{}", text(&done.stderr));
    assert_eq!(std::fs::read(&input).unwrap(), capture);
}

#[test]
fn a_log_with_nothing_in_it_is_no_log() {
    let folder = Folder::new("no-log");
    for nothing in ["", "\n \n"] {
        let log = folder.file("log");
        std::fs::write(&log, nothing).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_weir")).args(["replay", "--autorate", &log]).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        assert!(text(&done.stderr).contains("nothing is in it; a log begins with {\"autorate\":1}"));
    }
}

#[test]
fn a_time_that_64_bits_of_nanoseconds_do_not_hold_is_named_with_its_frame() {
    let folder = Folder::new("far");
    let mut capture = pcapng(&[frame(0)], 9);
    // The same numbers, but of seconds.
    let option = [9, 0, 1, 0, 9];
    let at = capture.windows(5).position(|w| w == option).unwrap();
    capture[at + 4] = 0;
    let done = replay(&folder, &capture, "pfifo", &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("frame 1 is more than 584 years from 1970"), "{}", text(&done.stderr));
}
