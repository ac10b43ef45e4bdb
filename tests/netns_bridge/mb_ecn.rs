//! Multi-bit ECN on live frames: the two bytes change where they should, and nothing else does anywhere.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::Value;
use weir::dtp::frame::{HEADER, Header};
use weir::mark::mb_ecn::{code, dtp::poa_hcs};
use weir::rng::SplitMix64;

use super::frames::{at, passes, passes_as};
use super::rig::Rig;
use crate::live::{possible, weir_program};

const SHAPED: &str = "--down \"pfifo limit 1000 mb-ecn dtp trust-all | tbf rate 10mbit burst 3k\"";

/// A data-transfer frame with a number in its payload and no codes yet.
fn data(number: u32) -> Vec<u8> {
    let header = Header {
        dst: [2, 0, 0, 0, 0, 0x99],
        src: [2, 0, 0, 0, 0, 0x77],
        endpoint: 2,
        address: [10, 77, 0, 2],
        qos: 0,
        ecn: 0,
        cap: 0,
        eid: Header::flow_eid(2, 0xA291_5EFB),
    };
    let mut frame = header.write(1400).to_vec();
    frame.resize(HEADER + 1400, 0x5A);
    frame[HEADER..HEADER + 4].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The frame with other codes in it.
fn told(frame: &[u8], at: usize, ecn: u8, cap: u8) -> Vec<u8> {
    let mut out = frame.to_vec();
    (out[at], out[at + 1]) = (ecn, cap);
    out
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../data/mb-ecn-vectors.json")).expect("JSON")
}

fn hex(v: &Value) -> Vec<u8> {
    let text = v.as_str().expect("hexadecimal");
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("a digit")).collect()
}

#[test]
fn each_frame_of_a_burst_tells_how_many_wait_behind_it_and_differs_in_nothing_else() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    // What a kernel sends by itself would stand in the queue and count.
    for ns in [&rig.a, &rig.b] {
        ns.run(|| std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("root may"));
    }
    // At 1 Mbit/s half the burst takes a quarter of a second to leave: the other half has come by then, on a busy machine too.
    let bridge = rig.bridge(&format!("--name depth {}", SHAPED.replace("10mbit", "1mbit")));
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    const BURST: u32 = 40;
    for number in 0..BURST {
        (&a).write_all(&data(number)).expect("the socket takes it");
    }
    let mut came = Vec::new();
    let mut seen = [0; 4096];
    b.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    while came.len() < BURST as usize {
        let n = (&b).read(&mut seen).expect("all come");
        if seen[12..14] == [0xA0, 0x00] {
            came.push(seen[..n].to_vec());
        }
    }
    let codes: Vec<u8> = came.iter().map(|f| f[25]).collect();
    for (number, frame) in came.iter().enumerate() {
        let sent = data(number as u32);
        assert!(frame[25] <= code::encode(BURST.into()));
        assert_eq!(*frame, told(&sent, 25, frame[25], 67), "frame {number} differs in its depth and its capacity only");
    }
    assert_eq!(codes.last(), Some(&0), "nothing waits behind the last");
    let expected: Vec<u8> = (0..20).rev().map(code::encode).collect();
    assert_eq!(codes[20..], expected, "when all have come, the queue is what is still to come");
    let report = bridge.end();
    let text = report.to_string();
    assert!(text.contains("\"marked_cap\":40"), "{text}");
}

#[test]
fn tagged_frames_are_told_behind_their_tags_and_frames_that_say_more_stay_as_they_are() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge(&format!("--name tagged {SHAPED}"));
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    let plain = data(7);
    assert!(passes_as(&a, &b, &plain, &told(&plain, 25, 0, 81)));
    // Deeper elsewhere, and slower elsewhere.
    for said in [told(&plain, 25, 30, 81), told(&plain, 25, 30, 77)] {
        assert!(passes(&a, &b, &said));
    }
    assert!(passes_as(&a, &b, &told(&plain, 25, 30, 94), &told(&plain, 25, 30, 81)));
    for tags in [&[0x81, 0x00, 0x60, 100][..], &[0x88, 0xA8, 0xE0, 100, 0x81, 0x00, 0x60, 7]] {
        let tagged = [&plain[..12], tags, &plain[12..]].concat();
        // The kernel takes the outermost tag off before it shows a frame to a packet socket.
        let shown = [&tagged[..12], &tagged[16..]].concat();
        assert!(passes_as(&a, &b, &tagged, &told(&shown, 25 + tags.len() - 4, 0, 81)), "{tags:x?}");
    }
    bridge.end();
}

#[test]
fn what_only_looks_like_a_data_transfer_frame_passes_bit_for_bit() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge(&format!("--name alike {SHAPED}"));
    let (a, b) = (at(&rig.a, "a0"), at(&rig.b, "b0"));
    let whole = data(1);
    let mut alike: Vec<Vec<u8>> = (14..80).chain([200, 1000, 1434]).map(|len| whole[..len].to_vec()).collect();
    for v in vectors()["parse_cases"].as_array().expect("a list") {
        let frame = hex(&v["frame_hex"]);
        let tag = frame.len() >= 14 && [0x8100, 0x88A8].contains(&u16::from_be_bytes([frame[12], frame[13]]));
        if v["result"] == "untouched" && frame.len() >= 14 && !tag {
            alike.push(frame);
        }
    }
    let mut random = SplitMix64::new(11);
    for round in 0..200 {
        let len = 14 + (random.next_u64() % 1487) as usize;
        let mut frame: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        // To somebody, and not to all who listen.
        frame[..12].copy_from_slice(&whole[..12]);
        frame[12..14].copy_from_slice(&[0xA0, 0x00]);
        if round % 2 == 0 && len > 19 {
            frame[16..18].copy_from_slice(&((len - 19) as u16).to_be_bytes());
            frame[18] = poa_hcs(&frame[14..18]);
        }
        alike.push(frame);
    }
    for frame in &alike {
        assert!(passes(&a, &b, frame), "{} bytes: {:02x?}", frame.len(), &frame[..frame.len().min(40)]);
    }
    let text = bridge.end().to_string();
    assert!(text.contains("\"marked_ecn\":0") && text.contains("\"marked_cap\":0"), "{text}");
}

#[test]
fn two_sources_over_packet_sockets_learn_the_link_from_their_frames() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge(&format!("--name ends {}", SHAPED.replace(" trust-all", "")));
    let weir = |words: String| {
        move || {
            let words: Vec<String> = words.split(' ').map(String::from).collect();
            let mut command = std::process::Command::new(weir_program());
            command.args(words).stdout(std::process::Stdio::piped()).spawn().expect("it is built")
        }
    };
    let recv = rig.b.run(weir("load dtp-recv b0 --as 02:00:0a:4d:00:02 --skip 8 --idle 3 --duration 40 -j".into()));
    let send = |last: &str, flows: u32| {
        let words = format!(
            "load dtp-send a0 --from 02:00:0a:4d:01:{last} --to 02:00:0a:4d:00:02 --flows {flows} --duration 16 -j"
        );
        rig.a.run(weir(words))
    };
    let senders = [send("01", 1), send("02", 5)];
    let output = |child: std::process::Child| -> Value {
        let done = child.wait_with_output().expect("it ends by itself");
        assert!(done.status.success());
        serde_json::from_slice(&done.stdout).expect("JSON")
    };
    let sent = senders.map(output);
    let received = output(recv);
    let report = bridge.end().to_string();
    assert_eq!(received["flows"].as_array().expect("a list").len(), 6, "{received}");
    assert_eq!(received["capacity_codes"], serde_json::json!([81, 81]));
    for one in &sent {
        assert_eq!(one["looks"].as_array().and_then(|l| l.last()).expect("looks")["capacity"], 1_245_184);
        assert!(one["updates"].as_u64() > Some(20), "{one}");
    }
    assert!(report.contains("\"suppressed\""), "{report}");
    assert_eq!(sent[0]["retransmissions"], 0);
}
