//! Every group of the vectors, and what a marker does to frames.

use serde_json::Value;

use super::*;
use crate::classify::Headers;
use crate::wire::{checksum, ipv4::Ipv4, ipv6::Ipv6};

fn vectors(group: &str) -> Value {
    let text = include_str!("../../../tests/data/mb-ecn-vectors.json");
    let all: Value = serde_json::from_str(text).expect("the vectors are JSON");
    all[group].clone()
}

fn each(group: &str, mut test: impl FnMut(&Value)) {
    let rows = vectors(group);
    let rows = rows.as_array().expect("a list");
    assert!(!rows.is_empty());
    rows.iter().for_each(&mut test);
}

/// An integer; large ones are written as text.
fn int(v: &Value) -> u64 {
    v.as_u64().or_else(|| v.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{v} is no number"))
}

fn byte(v: &Value) -> u8 {
    int(v) as u8
}

fn hex(v: &Value) -> Vec<u8> {
    let text = v.as_str().expect("hexadecimal");
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("a digit")).collect()
}

#[test]
fn depths_and_rates_have_the_codes_of_the_vectors() {
    each("ecn_encode", |v| assert_eq!(code::encode(int(&v["depth_pkts"])), byte(&v["code"]), "{v}"));
    each("capacity_encode", |v| assert_eq!(code::encode(int(&v["rate_bytes_per_s"])), byte(&v["code"]), "{v}"));
    each("decode_floor", |v| assert_eq!(code::decode(byte(&v["code"])), int(&v["value"]), "{v}"));
    each("capacity_decode", |v| {
        let rate = Rate::from_bytes_per_second(code::decode(byte(&v["code"])));
        assert_eq!(rate.bytes_per_second(), int(&v["rate_bytes_per_s"]), "{v}");
        assert_eq!(rate.bits_per_second(), int(&v["rate_bit_per_s"]), "{v}");
    });
    each("ecn_table", |v| {
        let c = byte(&v["code"]);
        assert_eq!(code::decode(c), int(&v["decode_floor"]));
        assert_eq!((code::value(c.into()) * 1000.0).round() as u64, int(&v["decode_milli"]), "{v}");
        if !v["depth_min"].is_null() {
            let (min, max) = (int(&v["depth_min"]), int(&v["depth_max"]));
            assert!((min..=max).all(|d| code::encode(d) == c), "{v}");
            assert!(code::encode(max + 1) > c && (min == 0 || code::encode(min - 1) < c));
        }
    });
}

#[test]
fn the_code_never_overstates_and_fits_a_byte() {
    for x in (0..200_000).chain((0..64).map(|e| 1u64 << e)).chain([u64::MAX]) {
        let c = code::encode(x);
        assert!(x == 0 || code::decode(c) <= x);
        assert!(code::encode(x.saturating_add(1)) >= c);
    }
    for c in (32..=255).chain([0, 4, 8, 12, 16, 17, 20, 21, 24, 25, 28, 29, 30]) {
        assert_eq!(code::encode(code::decode(c)), c);
    }
}

#[test]
fn a_hop_keeps_the_deeper_queue_and_the_slower_link() {
    each("hop_ecn", |v| {
        assert_eq!(code::merge_ecn(byte(&v["carried"]), byte(&v["own"])), byte(&v["out"]), "{v}");
    });
    each("hop_cap", |v| {
        assert_eq!(code::merge_cap(byte(&v["carried"]), byte(&v["own"])), byte(&v["out"]), "{v}");
    });
    each("legacy_0_23_ecn", |v| {
        assert_eq!(code::merge_ecn_of_0_23(byte(&v["carried"]), int(&v["depth_pkts"])), byte(&v["out"]), "{v}");
    });
}

#[test]
fn the_check_byte_is_that_of_the_captures() {
    each("poa_hcs", |v| assert_eq!([dtp::poa_hcs(&hex(&v["eid_len"]))], hex(&v["hcs"])[..], "{v}"));
    let check = vectors("crc8_check");
    assert_eq!([dtp::poa_hcs(check["ascii"].as_str().unwrap().as_bytes())], hex(&check["crc"])[..]);
}

/// The two frames of the captures by name.
fn frame(name: &str) -> Vec<u8> {
    let v = &vectors("frames")[name.trim_start_matches("frames.")];
    let mut bytes = hex(if v["frame_hex"].is_string() { &v["frame_hex"] } else { &v["header_hex"] });
    bytes.resize(int(&v["frame_len"]) as usize, 0);
    bytes
}

#[test]
fn the_captured_frames_are_read_as_they_were_described() {
    for name in ["data_seed", "flow_update_seed"] {
        let bytes = frame(name);
        let expect = &vectors("frames")[name]["expect"];
        let c = dtp::classify(&bytes, &Layout::default()).expect("a candidate");
        assert_eq!(c.ecn_at as u64, int(&expect["ecn_off"]));
        assert_eq!(u64::from(c.key.eid), int(&expect["poa_eid"]));
        assert_eq!(u64::from(bytes[c.ecn_at]), int(&expect["ecn"]));
        assert_eq!(u64::from(bytes[c.ecn_at + 1]), int(&expect["cap"]));
        assert_eq!(c.is_flow, name == "data_seed");
    }
    let bytes = frame("flow_update_seed");
    let expect = &vectors("frames")["flow_update_seed"]["expect"];
    let update = endpoint::FlowUpdate::read(&bytes[35..]).expect("a flow update");
    assert_eq!(update.eid.to_be_bytes()[..], hex(&expect["fa_r_eid_hex"])[..]);
    assert_eq!((u64::from(update.ece), u64::from(update.cap)), (int(&expect["fa_ece"]), int(&expect["fa_cap"])));
    assert_eq!(update.write()[..], bytes[35..]);
}

#[test]
fn look_alikes_are_told_from_data_transfer_frames_by_the_first_test_they_fail() {
    each("parse_cases", |v| {
        let found = dtp::classify(&hex(&v["frame_hex"]), &Layout::default());
        match (v["result"].as_str(), found) {
            (Some("candidate"), Ok(c)) => assert_eq!(c.ecn_at as u64, int(&v["ecn_off"]), "{}", v["name"]),
            (Some("untouched"), Err(r)) => assert_eq!(Some(r.why.name()), v["reason"].as_str(), "{}", v["name"]),
            (_, found) => panic!("{}: {found:?}", v["name"]),
        }
    });
}

#[test]
fn only_the_two_bytes_are_rewritten_and_a_second_hop_of_the_same_kind_changes_nothing() {
    each("rewrite", |v| {
        let before = frame(v["input"].as_str().unwrap());
        let own_ecn = code::encode(int(&v["own_depth_pkts"]));
        let own_cap = code::encode(int(&v["own_rate_bytes_per_s"]));
        assert_eq!((own_ecn, own_cap), (byte(&v["own_ecn"]), byte(&v["own_cap"])), "{v}");
        let mut after = before.clone();
        let at = dtp::classify(&before, &Layout::default()).unwrap().ecn_at;
        dtp::apply(&mut after, at, own_ecn, own_cap);
        assert_eq!((after[at], after[at + 1]), (byte(&v["ecn_out"]), byte(&v["cap_out"])), "{v}");
        let changed: Vec<u64> = (0..before.len()).filter(|i| before[*i] != after[*i]).map(|i| i as u64).collect();
        let expected: Vec<u64> = v["changed_offsets"].as_array().unwrap().iter().map(int).collect();
        assert_eq!(changed, expected, "{v}");
        assert_eq!(dtp::apply(&mut after, at, own_ecn, own_cap), Changed::default());
    });
}

#[test]
fn a_receiver_averages_and_a_sender_cuts_as_the_vectors_do() {
    each("ewma_q5", |v| {
        let mut average = endpoint::Ewma::default();
        let levels: Vec<u64> = v["codes"].as_array().unwrap().iter().map(|c| average.push(byte(c)).into()).collect();
        assert_eq!(levels, v["level"].as_array().unwrap().iter().map(int).collect::<Vec<_>>(), "{}", v["name"]);
        assert_eq!(u64::from(average.level()), *levels.last().unwrap());
    });
    each("ece_decode", |v| {
        let ece = int(&v["ece"]) as u16;
        assert_eq!((f64::from(ece) * 100.0 / 32.0).round() as u64, int(&v["code_x100"]), "{v}");
        let milli = endpoint::depth(ece) * 1000.0;
        let expected = v["depth_milli_pkts"].as_f64().unwrap();
        assert!((milli - expected).abs() <= 0.5 + expected * 1e-12, "{v}: {milli}");
    });
    each("cut", |v| assert_eq!(endpoint::cut(int(&v["rate"]), int(&v["ece"]) as u16), int(&v["new_rate"]), "{v}"));
    each("fa_flow_update", |v| {
        let eid = u64::from_be_bytes(hex(&v["r_eid_hex"]).try_into().unwrap());
        let update = endpoint::FlowUpdate { eid, ece: int(&v["ece"]) as u16, cap: byte(&v["cap"]) };
        assert_eq!(update.write()[..], hex(&v["msg_hex"])[..]);
        assert_eq!(endpoint::FlowUpdate::read(&update.write()), Some(update));
    });
    each("jain", |v| {
        let x: Vec<f64> = v["x"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert_eq!((endpoint::jain(&x) * 1000.0).round() as u64, int(&v["jain_x1000"]), "{v}");
    });
}

#[test]
fn the_figures_of_the_tutorial_follow_from_one_another() {
    let seed = vectors("seed_expectations");
    let ceiling = int(&seed["link_bit_per_s"]) * int(&seed["payload_len"]) / int(&seed["frame_len"]);
    assert_eq!(ceiling, int(&seed["payload_ceiling_bit_per_s"]) - 1, "rounded there, cut here");
    assert_eq!(
        code::decode(code::encode(int(&seed["link_bit_per_s"]) / 8)),
        int(&seed["rib_snapshots"][0]["capacity"])
    );
    let simulated = vectors("reference_controller_simulation");
    assert_eq!(int(&simulated["drops"]), 0);
    assert!(simulated["one_flow"].as_f64().unwrap() < ceiling as f64 / 1e6);
}

#[test]
fn header_checksums_change_as_rfc_1624_says() {
    each("ip_checksum", |v| {
        let word = |name: &str| u16::from_be_bytes(hex(&v[name]).try_into().unwrap());
        assert_eq!(checksum::update(word("hc"), word("m"), word("m_new")), word("hc_new"), "{}", v["name"]);
        if v["before_hex"].is_string() && hex(&v["before_hex"])[1] != hex(&v["after_hex"])[1] {
            let mut header = hex(&v["before_hex"]);
            Ipv4::new_checked(&mut header[..]).unwrap().set_ds(hex(&v["after_hex"])[1]);
            assert_eq!(header, hex(&v["after_hex"]), "{}", v["name"]);
        }
    });
    each("ipv6_traffic_class", |v| {
        let mut packet = hex(&v["before_hex"]);
        packet.resize(40, 0);
        Ipv6::new_checked(&mut packet[..]).unwrap().set_ds(hex(&v["tc_after"])[0]);
        assert_eq!(packet[..4], hex(&v["after_hex"])[..]);
    });
}

#[test]
fn the_coded_probability_is_that_of_the_vectors() {
    each("mark_probability_q16", |v| {
        assert_eq!(u64::from(l4s::probability(byte(&v["code"]), byte(&v["sat"]))), int(&v["p_q16"]), "{v}");
    });
    each("mark_sat", |v| {
        let rate = Rate::from_bytes_per_second(int(&v["rate_bytes_per_s"]));
        assert_eq!(l4s::saturation(rate), byte(&v["sat"]), "{v}");
    });
    let mut sum = Accumulator::default();
    let marked = (0..1024).filter(|_| sum.marks(l4s::ONE / 4 + 64)).count();
    assert_eq!(marked, 257, "1024 packets resolve a thousandth");
}

#[test]
fn options_of_hosts_are_found_and_signals_of_others_compared() {
    each("hbh_option", |v| {
        let expected = hex(&v["ext_header_hex"]);
        let made = hbh::extension_header(byte(&v["next_header"]), byte(&v["ecn"]), byte(&v["cap"]));
        assert_eq!(made[..], expected[..]);
        let packet = [&ipv6(8 + 100)[..], &made, &[0; 100]].concat();
        assert_eq!(hbh::find(&packet), Some(46));
    });
    each("ipv4_option", |v| {
        assert_eq!(hbh::ipv4_option(byte(&v["ecn"]), byte(&v["cap"]))[..], hex(&v["option_hex"])[..]);
    });
    each("scone_rate", |v| {
        assert_eq!(code::scone_signal(int(&v["rate_bit_per_s"])), Some(byte(&v["signal"])), "{v}");
    });
}

/// An IPv6 header with hop-by-hop options behind it.
fn ipv6(payload: u16) -> [u8; 40] {
    let mut header = [0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&payload.to_be_bytes());
    (header[7], header[8], header[24]) = (64, 0x20, 0x20);
    header
}

#[test]
fn an_option_is_found_behind_others_and_only_where_it_is_whole() {
    let packet = |options: &[u8]| {
        let mut header = vec![17, ((options.len() + 2).div_ceil(8) - 1) as u8];
        header.extend(options);
        header.resize((usize::from(header[1]) + 1) * 8, 0);
        [&ipv6(header.len() as u16)[..], &header].concat()
    };
    let ours = [0x3E, 4, 0x4D, 0x42, 7, 81];
    assert_eq!(hbh::find(&packet(&ours)), Some(46));
    let padded = [&[1, 2, 0, 0, 0][..], &ours].concat();
    assert_eq!(hbh::find(&packet(&padded)), Some(51), "behind PadN and Pad1");
    assert_eq!(hbh::find(&packet(&[0x3E, 4, 0x4D, 0x43, 7, 81])), None, "another experiment");
    assert_eq!(hbh::find(&packet(&[0x3E, 5, 0x4D, 0x42, 7, 81, 0])), None, "another length");
    let many = [&[0; 8][..], &ours].concat();
    assert_eq!(hbh::find(&packet(&many)), None, "behind more options than are looked at");
    let whole = packet(&ours);
    assert!((0..whole.len()).all(|n| hbh::find(&whole[..n]).is_none()));
    let mut no_options = whole;
    no_options[6] = 17;
    assert_eq!(hbh::find(&no_options), None);
}

struct OneFrame(Vec<u8>);

impl Frames for OneFrame {
    fn bytes(&self, _: Slot, _: &Packet) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self, _: Slot, _: &Packet) -> &mut [u8] {
        &mut self.0
    }
}

fn mbit(n: u64) -> Rate {
    Rate::from_bits_per_second(n * 1_000_000)
}

/// A frame through a marker, with `behind` packets behind it as it leaves; what became of it.
fn pass(marker: &mut Marker, bytes: &[u8], behind: u32) -> (Vec<u8>, Packet) {
    let (mut pool, mut frames, mut random) = (Pool::new(1), OneFrame(bytes.to_vec()), Random::seeded(3));
    let frame = pool.take().expect("a record");
    let slot = frame.slot();
    pool[slot] = Packet { len: bytes.len() as u32, ..Packet::default() };
    Headers::parse(bytes).apply(&mut pool[slot]);
    let now = Instant::from_nanos(1 << 40);
    pool[slot].enqueued = now;
    marker.arrives(now, slot, &mut pool, &frames);
    marker.queued(slot, Depth::single(0), &mut pool, &mut frames, &mut random);
    let seen = pool[slot];
    marker.leaves(now, slot, Depth::single(behind), &mut pool, &mut frames, &mut random);
    let packet = Packet { signal: seen.signal, ..pool[slot] };
    pool.give(frame);
    (frames.0, packet)
}

fn dtp_marker(trust_all: bool) -> Marker {
    let dtp = Dtp { trust_all, ..Dtp::default() };
    let mut marker = Marker::new(&Params { dtp: Some(dtp), ..Params::default() });
    marker.set_rate(Some(mbit(5)));
    marker
}

#[test]
fn a_flow_is_marked_from_its_fifth_frame_on_unless_it_is_trusted() {
    let bytes = frame("data_seed");
    let mut learning = dtp_marker(false);
    let outcomes: Vec<_> = (0..6).map(|_| pass(&mut learning, &bytes, 64)).collect();
    assert!(outcomes[..4].iter().all(|(out, p)| *out == bytes && p.signal == Signal::NONE));
    for (out, packet) in &outcomes[4..] {
        assert_eq!((out[25], out[26]), (24, 77));
        assert!(packet.signal.is_protected());
    }
    let stats = learning.stats(Instant::from_nanos(1 << 40));
    assert_eq!((stats.learned, stats.tally.marked_ecn, stats.tally.marked_cap), (1, 2, 2));
    assert_eq!(stats.tally.untouched[Untouched::Unlearned as usize], 4);
    assert_eq!(pass(&mut dtp_marker(true), &bytes, 64).0[25..27], [24, 77]);
    let known = Flow { src: bytes[6..12].try_into().unwrap(), dst: bytes[..6].try_into().unwrap(), eid: 2 };
    let dtp = Dtp { flows: vec![known], ..Dtp::default() };
    let mut marker = Marker::new(&Params { dtp: Some(dtp), ..Params::default() });
    assert_eq!(pass(&mut marker, &bytes, 64).0[25..27], [24, 81], "no rate is known: the capacity is kept");
}

#[test]
fn frames_that_are_not_recognised_leave_bit_for_bit() {
    each("parse_cases", |v| {
        let bytes = hex(&v["frame_hex"]);
        let mut marker = dtp_marker(true);
        let (out, packet) = pass(&mut marker, &bytes, 500);
        let candidate = v["result"] == "candidate";
        assert_eq!(out != bytes, candidate, "{}", v["name"]);
        assert_eq!(packet.signal.is_protected(), candidate, "{}", v["name"]);
    });
}

#[test]
fn random_bytes_under_the_ethertype_are_never_written_to() {
    let mut random = crate::rng::SplitMix64::new(5);
    let mut marker = dtp_marker(true);
    for _ in 0..20_000 {
        let len = 14 + (random.next_u64() % 100) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        bytes[12..14].copy_from_slice(&0xA000u16.to_be_bytes());
        if len > 18 {
            // Past the check byte, to where it gets interesting.
            bytes[16..18].copy_from_slice(&((len - 19) as u16).to_be_bytes());
            bytes[18] = dtp::poa_hcs(&bytes[14..18]);
        }
        assert_eq!(pass(&mut marker, &bytes, 500).0, bytes);
    }
}

#[test]
fn a_second_marker_of_the_same_kind_changes_nothing() {
    let (once, _) = pass(&mut dtp_marker(true), &frame("data_seed"), 64);
    let mut second = dtp_marker(true);
    let (twice, _) = pass(&mut second, &once, 64);
    assert_eq!(once, twice);
    assert_eq!(second.tally.unchanged, 1);
}

#[test]
fn a_flow_that_lets_its_queue_grow_loses_the_protection_until_it_was_empty() {
    let bytes = frame("data_seed");
    let (mut pool, mut frames, mut random) = (Pool::new(1), OneFrame(bytes.clone()), Random::seeded(3));
    let mut marker = dtp_marker(true);
    let frame = pool.take().expect("a record");
    let slot = frame.slot();
    let now = Instant::from_nanos(1 << 40);
    let mut protected_at = |depth: u32, waited: u64| {
        pool[slot] = Packet { len: bytes.len() as u32, ..Packet::default() };
        marker.arrives(now, slot, &mut pool, &frames);
        marker.queued(slot, Depth::single(depth), &mut pool, &mut frames, &mut random);
        let protected = pool[slot].signal.is_protected();
        pool[slot].enqueued = now - waited;
        marker.leaves(now, slot, Depth::single(depth), &mut pool, &mut frames, &mut random);
        protected
    };
    assert!(protected_at(0, 0) && protected_at(1023, 0));
    assert!(!protected_at(1024, 0));
    assert!(!protected_at(5, 0), "not yet empty");
    assert!(protected_at(0, 0));
    assert!(protected_at(5, 501 * MILLISECOND), "found out as it leaves");
    assert!(!protected_at(5, 0));
    assert!(protected_at(0, 0));
    pool.give(frame);
}

#[test]
fn ect_1_is_marked_by_the_code_and_nothing_else_is() {
    let udp = |ds: u8| {
        let address = std::net::IpAddr::from([10, 0, 0, 1]);
        let build = crate::wire::build::Build {
            len: 100,
            src: address,
            dst: address,
            protocol: 17,
            sport: 1,
            dport: 2,
            ds,
            tcp: None,
        };
        build.frame()
    };
    let mut marker = Marker::new(&Params { l4s: true, ..Params::default() });
    marker.set_rate(Some(mbit(100)));
    assert_eq!(marker.saturation, 21);
    let ecn = |marker: &mut Marker, ds, depth| pass(marker, &udp(ds), depth).1.ecn();
    assert_eq!(ecn(&mut marker, 1, 38), 3, "certain at 5 ms");
    assert_eq!(ecn(&mut marker, 1, 1), 1, "never for one packet");
    assert_eq!([0, 2, 3].map(|ds| ecn(&mut marker, ds, 1000)), [0, 2, 3]);
    assert_eq!(marker.tally.marked_ce, 1);
}

#[test]
fn the_option_of_a_host_is_filled_in_and_nothing_else_of_its_packet() {
    let option = hbh::extension_header(17, 0, 0);
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD];
    bytes.extend(ipv6(16));
    bytes.extend(option);
    bytes.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    let mut marker = Marker::new(&Params { hbh: true, ..Params::default() });
    marker.set_rate(Some(mbit(10)));
    let (out, packet) = pass(&mut marker, &bytes, 6);
    let changed: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i] != out[*i]).collect();
    assert_eq!(changed, [60, 61]);
    assert_eq!((out[60], out[61], packet.signal.is_protected()), (10, 81, true));
    let mut plain = bytes.clone();
    plain[20] = 17;
    assert_eq!(pass(&mut marker, &plain, 6).0, plain);
}

#[test]
fn a_flow_among_others_counts_its_own_queue_as_often_as_there_are_flows() {
    let depth = Depth { own: 6, active: 3, total: 100, per_flow: true };
    assert_eq!(depth.packets(Whose::Own), 18);
    assert_eq!(depth.packets(Whose::Total), 100);
    assert_eq!(Depth { total: 10, ..depth }.packets(Whose::Own), 10);
    assert_eq!(Depth { active: 0, ..depth }.packets(Whose::Own), 6);
}
