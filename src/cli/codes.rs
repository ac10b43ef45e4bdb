//! `weir explain --mb-ecn`: a code in words, and what a frame carries or why it is left alone.

use serde_json::{Value, json};
use weir::dtp::frame::{Header, Message};
use weir::mark::mb_ecn::{code, dtp, endpoint, hbh};
use weir::stats::mb_ecn::{capacity, depth};
use weir::wire::ethernet::header_len;

use super::Failure;

/// Says what the digits mean.
pub(super) fn run(hex: &str, as_json: bool) -> Result<(), Failure> {
    let bytes = bytes(hex).map_err(|why| Failure::Words(format!("--mb-ecn {hex}: {why}")))?;
    let (text, value) = match bytes[..] {
        [one] => one_code(one),
        _ => frame(&bytes),
    };
    if as_json {
        println!("{value:#}")
    } else {
        print!("{text}")
    }
    Ok(())
}

/// The bytes of hexadecimal digits, which may be set apart by spaces, colons or full stops.
fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let bare = hex.trim().trim_start_matches("0x");
    let digits: Vec<char> = bare.chars().filter(|c| !c.is_whitespace() && !":.-".contains(*c)).collect();
    let value = |c: &char| c.to_digit(16).map(|d| d as u8).ok_or(format!("\"{c}\" is no hexadecimal digit"));
    let nibbles = digits.iter().map(value).collect::<Result<Vec<u8>, _>>()?;
    match nibbles[..] {
        [] => Err("no digits; give a byte, as in 51, or a frame".into()),
        [low] => Ok(vec![low]),
        _ if nibbles.len() % 2 == 1 => Err("an odd number of digits; each byte has two".into()),
        _ => Ok(nibbles.chunks(2).map(|n| n[0] << 4 | n[1]).collect()),
    }
}

fn one_code(c: u8) -> (String, Value) {
    let text = format!("code 0x{c:02x}\n  as a depth: {}\n  as a capacity: {}\n", depth(c), capacity(c));
    let value = json!({ "code": c, "depth_packets": code::value(c.into()), "capacity_bytes_per_s": code::decode(c) });
    (text, value)
}

fn codes(ecn: u8, cap: u8, at: usize) -> (String, Value) {
    let text = format!("  depth: {}, byte {at}\n  capacity: {}, byte {}\n", depth(ecn), capacity(cap), at + 1);
    (text, json!({ "ecn": ecn, "cap": cap, "ecn_offset": at, "cap_offset": at + 1 }))
}

fn frame(bytes: &[u8]) -> (String, Value) {
    let ipv6 = bytes.get(12..14) == Some(&[0x86, 0xDD]);
    let option = bytes.get(header_len::ETHERNET..).filter(|_| ipv6).and_then(hbh::find);
    if let Some(at) = option.map(|at| at + header_len::ETHERNET) {
        let (text, mut value) = codes(bytes[at], bytes[at + 1], at);
        value["carrier"] = "hbh".into();
        return (format!("IPv6 packet with the hop-by-hop option, {} bytes\n{text}", bytes.len()), value);
    }
    let refused = |why: &str, key: &str| {
        let text = format!("left alone, {key}: {why}\n");
        (text, json!({ "carrier": null, "untouched": key, "why": why }))
    };
    let found = match dtp::classify(bytes, &dtp::Layout::default()) {
        Ok(found) => found,
        Err(e) => return refused(why(e.why), e.why.name()),
    };
    let (text, mut value) = codes(bytes[found.ecn_at], bytes[found.ecn_at + 1], found.ecn_at);
    let kind = if found.is_flow { "of a flow" } else { "of a component" };
    let mut out = format!("data-transfer frame {kind}, {} bytes, PoA endpoint {}\n{text}", bytes.len(), found.key.eid);
    value["carrier"] = "dtp".into();
    value["flow"] = found.is_flow.into();
    value["poa_eid"] = found.key.eid.into();
    // Behind depth and capacity stand eight bytes of EID.
    let start = found.ecn_at + 10;
    if let Some(Message::Update(u)) = bytes.get(start..).filter(|_| !found.is_flow).and_then(Message::read) {
        let level = f64::from(u.ece) / 32.0;
        out += &format!(
            "  flow update for EID {:016x}: average code {level:.2} ({:.1} packets), capacity {}\n",
            u.eid,
            endpoint::depth(u.ece),
            capacity(u.cap)
        );
        value["update"] = json!({ "eid": u.eid, "ece": u.ece, "cap": u.cap });
    }
    if let Some((header, payload)) = Header::read(bytes) {
        let address: String = header.address.iter().map(|b| format!("{b:02x}")).collect();
        out += &format!("  to address {address}, EID {:016x}, {payload} bytes of payload\n", header.eid);
        value["eid"] = header.eid.into();
        value["payload"] = payload.into();
    }
    (out, value)
}

fn why(reason: dtp::Untouched) -> &'static str {
    match reason {
        dtp::Untouched::Short => "too short for its headers; give the whole frame, from the Ethernet destination on",
        dtp::Untouched::Ethertype => "its ethertype is not a000, and it is no IPv6 packet with the option",
        dtp::Untouched::Hcs => "the check byte of its PoA header is wrong",
        dtp::Untouched::Length => "its PoA length does not fit its bytes; give the whole frame, padding included",
        dtp::Untouched::Management => "a management frame of the layer below",
        dtp::Untouched::DtpShort => "too short for a data-transfer header",
        dtp::Untouched::Structure => "a field has a value that no data-transfer header has",
        dtp::Untouched::Unlearned => "its flow is not known to carry data-transfer headers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_a_depth_and_a_capacity() {
        let (text, value) = one_code(81);
        assert!(text.contains("81 (9961Kbit)"), "{text}");
        assert_eq!(value["capacity_bytes_per_s"], 1_245_184);
        assert!(one_code(10).0.contains("10 (5.66 packets)"));
    }

    #[test]
    fn the_captured_update_is_read_out() {
        let text = include_str!("../../tests/data/mb-ecn-vectors.json");
        let all: Value = serde_json::from_str(text).unwrap();
        let hex = all["frames"]["flow_update_seed"]["frame_hex"].as_str().unwrap();
        let (text, value) = frame(&bytes(hex).unwrap());
        assert!(text.contains("average code 9.72 (5.4 packets), capacity 81 (9961Kbit)"), "{text}");
        assert_eq!(
            (value["ecn"].as_u64(), value["cap"].as_u64(), value["flow"].as_bool()),
            (Some(24), Some(0), Some(false))
        );
        let mut damaged = bytes(hex).unwrap();
        damaged[18] ^= 1;
        assert_eq!(frame(&damaged).1["untouched"], "hcs");
        assert_eq!(frame(&damaged[..20]).1["untouched"], "hcs");
        assert_eq!(frame(&[0; 5]).1["untouched"], "short");
    }

    #[test]
    fn digits_may_be_set_apart_and_others_are_refused() {
        assert_eq!(bytes("0x51"), Ok(vec![0x51]));
        assert_eq!(bytes("a"), Ok(vec![10]));
        assert_eq!(bytes("a0:00 5.1"), Ok(vec![0xA0, 0, 0x51]));
        assert!(bytes("abc").is_err() && bytes("").is_err() && bytes("5g").unwrap_err().contains("\"g\""));
    }
}
