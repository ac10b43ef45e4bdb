//! The tables: arrivals in, verdicts out, both CSV, gzipped if the name ends in `.gz`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::classify::Headers;
use crate::packet::Marks;
use crate::qdisc::{Observation, Reason};
use crate::time::Instant;
use crate::wire::protocol;
use crate::wire::transport::Segment;

/// One arriving packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the table.
    pub id: u64,
    /// When, ns after the clock base.
    pub t_ns: u64,
    /// Length as the discipline sees it, bytes.
    pub len: u32,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// DSCP and ECN.
    pub ds: u8,
    /// Memory charged; the model's value if the table has none.
    pub truesize: u32,
    /// TCP flags, sequence and acknowledgement numbers, and options.
    pub tcp: Option<(u8, u32, u32, Vec<u8>)>,
    /// Firewall mark.
    pub fwmark: u32,
    /// Kernel priority.
    pub priority: u32,
}

impl Arrival {
    /// What a table says of a frame of `len` bytes, of which `bytes` were kept. The flow is that of the innermost headers;
    /// a frame that is not IP has unspecified addresses and protocol 0.
    pub fn of_frame(id: u64, t_ns: u64, len: u32, bytes: &[u8]) -> Arrival {
        let headers = Headers::parse(bytes);
        let keys = headers.keys;
        let address = |octets: [u8; 16]| match (keys.version, octets) {
            (6, octets) => IpAddr::from(octets),
            (_, [a, b, c, d, ..]) => IpAddr::from([a, b, c, d]),
        };
        let network = bytes.get(usize::from(headers.net_offset)..).unwrap_or_default();
        let tcp = Segment::find(network).map(|s| {
            let fields = (s.tcp.seq(), s.tcp.ack(), s.tcp.option_bytes().to_vec());
            (s.tcp.flags() as u8, fields.0, fields.1, fields.2)
        });
        Arrival {
            id,
            t_ns,
            len,
            src: address(keys.src),
            dst: address(keys.dst),
            protocol: keys.protocol,
            sport: keys.ports[0],
            dport: keys.ports[1],
            ds: headers.ds,
            truesize: crate::packet::truesize(len),
            tcp: tcp.filter(|_| keys.protocol == protocol::TCP),
            fwmark: 0,
            priority: 0,
        }
    }
}

/// The columns of a table of arrivals, without those that no frame has.
pub const ARRIVAL_COLUMNS: [&str; 14] = [
    "id",
    "t_ns",
    "len_bytes",
    "src_ip",
    "dst_ip",
    "proto",
    "sport",
    "dport",
    "dscp",
    "ecn",
    "tcp_flags",
    "tcp_seq",
    "tcp_ack",
    "tcp_opts",
];

/// The text of each column of an arrival.
pub fn arrival_row(a: &Arrival) -> [String; 14] {
    let (flags, seq, ack, options) = match &a.tcp {
        Some((flags, seq, ack, options)) => {
            let hex = options.iter().map(|b| format!("{b:02x}")).collect();
            (format!("{flags:02x}"), seq.to_string(), ack.to_string(), hex)
        }
        None => Default::default(),
    };
    [
        a.id.to_string(),
        a.t_ns.to_string(),
        a.len.to_string(),
        a.src.to_string(),
        a.dst.to_string(),
        a.protocol.to_string(),
        a.sport.to_string(),
        a.dport.to_string(),
        (a.ds >> 2).to_string(),
        (a.ds & 3).to_string(),
        flags,
        seq,
        ack,
        options,
    ]
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its number in the table of arrivals.
    pub id: u64,
    /// When it left or was dropped, ns after the clock base.
    pub t_ns: u64,
    /// Time since it arrived, ns.
    pub sojourn_ns: u64,
    /// Marked on leaving; empty if not.
    pub marks: Marks,
    /// Why it was dropped; `None` if it was sent.
    pub dropped: Option<Reason>,
    /// Length, bytes.
    pub len: u32,
    /// DSCP and ECN as it left or was dropped.
    pub ds: u8,
    /// The queue it came from, at that moment.
    pub seen: Observation,
}

impl Outcome {
    /// `sent`, `marked` or `dropped`.
    pub fn verdict(&self) -> &'static str {
        match (self.dropped, self.marks.is_empty()) {
            (Some(_), _) => "dropped",
            (None, true) => "sent",
            (None, false) => "marked",
        }
    }

    /// The reason column.
    pub fn reason(&self) -> String {
        match self.dropped {
            None => format!("{:?}", self.marks),
            Some(Reason::Aqm | Reason::Flood) => "aqm".into(),
            Some(Reason::QueueFull | Reason::Memory) => "overflow".into(),
            Some(other) => other.name().into(),
        }
    }
}

/// Opens a table for reading.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(File::open(path)?);
    // By content and not by name: a table keeps its meaning when it is renamed.
    let gz = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if gz { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// Creates a table for writing.
///
/// # Errors
/// If the file cannot be created.
pub fn create(path: &Path) -> io::Result<Box<dyn Write>> {
    let file = BufWriter::new(File::create(path)?);
    Ok(match path.extension() {
        Some(e) if e == "gz" => Box::new(GzEncoder::new(file, flate2::Compression::default())),
        _ => Box::new(file),
    })
}

/// A table whose columns are found by name.
pub struct Columns {
    names: Vec<String>,
}

impl Columns {
    /// The columns of a header line.
    pub fn new(header: &csv::StringRecord) -> Self {
        Columns { names: header.iter().map(|n| n.trim().to_string()).collect() }
    }

    /// The text in a column; empty if the table has no such column.
    pub fn get<'r>(&self, row: &'r csv::StringRecord, name: &str) -> &'r str {
        self.names.iter().position(|n| n == name).and_then(|i| row.get(i)).unwrap_or("").trim()
    }

    /// Whether the table has a column.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }
}

/// Reads a table of arrivals.
///
/// # Errors
/// A column that is missing, a value that cannot be read (with its line), or rows out of order.
pub fn read_arrivals(input: impl Read) -> Result<Vec<Arrival>, String> {
    let mut reader = csv::Reader::from_reader(input);
    let columns = Columns::new(reader.headers().map_err(|e| e.to_string())?);
    for needed in ["id", "t_ns", "len_bytes"] {
        if !columns.has(needed) {
            return Err(format!("the table of arrivals has no column \"{needed}\""));
        }
    }
    let mut out: Vec<Arrival> = Vec::new();
    for (i, row) in reader.records().enumerate() {
        let line = i + 2;
        let row = row.map_err(|e| format!("line {line}: {e}"))?;
        let arrival = read_arrival(&columns, &row).map_err(|e| format!("line {line}: {e}"))?;
        if out.last().is_some_and(|last| last.t_ns > arrival.t_ns) {
            return Err(format!(
                "line {line}: t_ns {} is earlier than the line before; sort the table by time",
                arrival.t_ns
            ));
        }
        out.push(arrival);
    }
    Ok(out)
}

fn read_arrival(columns: &Columns, row: &csv::StringRecord) -> Result<Arrival, String> {
    fn number<T: std::str::FromStr>(name: &str, text: &str, default: Option<T>) -> Result<T, String> {
        match (text.is_empty(), default) {
            (true, Some(d)) => Ok(d),
            _ => text.parse().map_err(|_| format!("column {name}: \"{text}\" is not a number in its range")),
        }
    }
    let get = |name: &str| columns.get(row, name);
    let address = |name: &str| match get(name) {
        "" => Ok(IpAddr::from([0, 0, 0, 0])),
        text => text.parse().map_err(|_| format!("column {name}: \"{text}\" is not an IP address")),
    };
    let len = number("len_bytes", get("len_bytes"), None)?;
    let dscp: u8 = number("dscp", get("dscp"), Some(0))?;
    let ecn: u8 = number("ecn", get("ecn"), Some(0))?;
    if dscp > 63 || ecn > 3 {
        return Err(format!("dscp {dscp} and ecn {ecn} do not fit 6 and 2 bits"));
    }
    let protocol = number("proto", get("proto"), Some(17))?;
    let tcp = if protocol == 6 && columns.has("tcp_flags") && !get("tcp_flags").is_empty() {
        let flags = u8::from_str_radix(get("tcp_flags").trim_start_matches("0x"), 16)
            .map_err(|_| "column tcp_flags: not hexadecimal".to_string())?;
        let options = hex(get("tcp_opts"))?;
        Some((flags, number("tcp_seq", get("tcp_seq"), Some(0))?, number("tcp_ack", get("tcp_ack"), Some(0))?, options))
    } else {
        None
    };
    Ok(Arrival {
        id: number("id", get("id"), None)?,
        t_ns: number("t_ns", get("t_ns"), None)?,
        len,
        src: address("src_ip")?,
        dst: address("dst_ip")?,
        protocol,
        sport: number("sport", get("sport"), Some(0))?,
        dport: number("dport", get("dport"), Some(0))?,
        ds: dscp << 2 | ecn,
        truesize: number("truesize", get("truesize"), Some(crate::packet::truesize(len)))?,
        tcp,
        fwmark: number("mark", get("mark"), Some(0))?,
        priority: number("priority", get("priority"), Some(0))?,
    })
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("column tcp_opts: \"{text}\" is not a multiple of four bytes in hexadecimal");
    if text.len() % 8 != 0 || !text.is_ascii() {
        return Err(bad());
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).map_err(|_| bad())).collect()
}

/// The columns of a table of outcomes.
pub const OUTCOME_COLUMNS: [&str; 25] = [
    "id",
    "t_ns",
    "verdict",
    "reason",
    "sojourn_ns",
    "tin",
    "queue",
    "charged_len",
    "ecn",
    "dscp",
    "count",
    "p_drop",
    "bulk_flows",
    "sparse_flows",
    "decaying_flows",
    "dropping",
    "tokens_ns",
    "ptokens_ns",
    "ctokens_ns",
    "mode",
    "head_ns",
    "prob",
    "credit",
    "draws",
    "time_to_send_ns",
];

/// The text of each column of an outcome; `base` is the origin of its times.
pub fn outcome_row(o: &Outcome, base: Instant) -> [String; 25] {
    fn show<T: ToString>(v: Option<T>) -> String {
        v.map_or(String::new(), |v| v.to_string())
    }
    let s = &o.seen;
    let relative = |t: Option<Instant>| show(t.map(|t| t.signed_since(base)));
    let flows = |i: usize| show(s.flows.map(|f| f[i]));
    let charged = if o.dropped.is_some() { String::new() } else { s.charged.unwrap_or(o.len).to_string() };
    [
        o.id.to_string(),
        o.t_ns.to_string(),
        o.verdict().to_string(),
        o.reason(),
        o.sojourn_ns.to_string(),
        show(s.tin),
        show(s.queue),
        charged,
        (o.ds & 3).to_string(),
        (o.ds >> 2).to_string(),
        show(s.count),
        show(s.p_drop),
        flows(0),
        flows(1),
        flows(2),
        show(s.dropping.map(u8::from)),
        show(s.tokens),
        show(s.ptokens),
        show(s.ctokens),
        show(s.mode),
        relative(s.head),
        show(s.prob),
        show(s.credit),
        show(s.draws),
        relative(s.time_to_send),
    ]
}

/// Writes a table of outcomes; columns that are empty throughout are left away.
///
/// # Errors
/// If the file cannot be written.
pub fn write_outcomes(out: impl Write, outcomes: &[Outcome], base: Instant) -> io::Result<()> {
    const ALWAYS: usize = 10;
    let rows: Vec<_> = outcomes.iter().map(|o| outcome_row(o, base)).collect();
    let kept: Vec<usize> =
        (0..OUTCOME_COLUMNS.len()).filter(|&i| i < ALWAYS || rows.iter().any(|r| !r[i].is_empty())).collect();
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(kept.iter().map(|&i| OUTCOME_COLUMNS[i]))?;
    for row in &rows {
        writer.write_record(kept.iter().map(|&i| row[i].as_str()))?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_out_of_order_or_with_a_bad_value_is_refused_with_its_line() {
        let table = |rows: &str| read_arrivals(format!("id,t_ns,len_bytes,dscp\n{rows}").as_bytes());
        assert!(table("0,5,100,0\n1,4,100,0\n").unwrap_err().starts_with("line 3"));
        assert!(table("0,5,x,0\n").unwrap_err().contains("len_bytes"));
        assert!(table("0,5,100,64\n").is_err());
        assert!(read_arrivals("id,t_ns\n".as_bytes()).unwrap_err().contains("len_bytes"));
        assert_eq!(table("0,5,100,46\n").unwrap()[0].ds, 46 << 2);
    }

    #[test]
    fn what_is_written_of_a_frame_reads_as_the_arrival_it_was() {
        use crate::wire::build::{Build, TcpFields};
        let tcp = TcpFields { flags: 0x18, seq: 7, ack: 9, options: vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2] };
        let (src, dst): (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let build = Build { len: 1514, src, dst, protocol: 6, sport: 80, dport: 4711, ds: 0xba, tcp: Some(tcp) };
        let of_frame = Arrival::of_frame(3, 42, 1514, &build.headers());
        let mut arp = vec![0xff; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        let all = [of_frame, Arrival::of_frame(4, 43, 60, &arp)];
        assert_eq!(all[0].tcp, Some((0x18, 7, 9, vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2])));
        assert_eq!((all[0].src, all[0].sport, all[0].ds, all[1].protocol), (src, 80, 0xba, 0));
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(ARRIVAL_COLUMNS).unwrap();
        all.iter().for_each(|a| writer.write_record(arrival_row(a)).unwrap());
        assert_eq!(read_arrivals(writer.into_inner().unwrap().as_slice()).unwrap(), all);
    }
}
