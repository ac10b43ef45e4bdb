//! Starting, ending, dying, freezing, and coming again.

use std::path::Path;

use super::rig::Rig;
use crate::live::{left_in_run, possible, wait_until};

fn unshaped(rig: &Rig) -> bool {
    rig.program_at("out").is_none() && rig.program_at("ins").is_none()
}

#[test]
fn a_clean_end_leaves_the_interfaces_as_they_were() {
    if !possible() {
        return;
    }
    for on_failure in ["bypass", "pass", "drop"] {
        let rig = Rig::new();
        let before = (rig.r.sh("ethtool -k out"), rig.r.sh("ethtool -k ins"));
        let bridge = rig.bridge(&format!("--name clean-{on_failure} --on-failure {on_failure}"));
        assert!(rig.program_at("out").is_some() && rig.program_at("ins").is_some());
        assert_eq!(rig.r.nic("out").promiscuity, 1);
        wait_until("b answers", || rig.answers());
        let report = bridge.end();
        assert_eq!(report["directions"][0]["census_missing"], 0);
        assert!(unshaped(&rig));
        assert_eq!((rig.r.nic("out").promiscuity, rig.r.nic("ins").promiscuity), (0, 0));
        assert_eq!((rig.r.sh("ethtool -k out"), rig.r.sh("ethtool -k ins")), before);
        assert_eq!(left_in_run(&["clean-", &rig.r.number()]), [""; 0]);
    }
}

#[test]
fn a_transfer_survives_the_death_of_weir_and_is_shaped_again_by_the_next() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name killed --down \"pfifo limit 1000 | tbf rate 50mbit burst 20k\"");
    let transfer = rig.transfer();
    transfer.goes_on("through weir", 500_000);
    let program = rig.program_at("out");
    bridge.kill();
    assert_eq!(rig.program_at("out"), program, "the gate stays");
    transfer.goes_on("without weir", 20_000_000);

    let next = rig.bridge("--name killed --down \"pfifo limit 1000 | tbf rate 50mbit burst 20k\"");
    assert!(next.said().contains("took over"), "{}", next.said());
    assert_ne!(rig.program_at("out"), program, "its own gate is in the old one's place");
    transfer.goes_on("through the next weir", 1_000_000);
    transfer.end();
    let report = next.end();
    let down = &report["directions"][0];
    assert!(down["sent"]["bytes"].as_u64() >= Some(1_000_000), "{down}");
    assert!(unshaped(&rig));
    assert_eq!(left_in_run(&["killed", &rig.r.number()]), [""; 0]);
}

#[test]
fn a_veth_whose_peer_would_lose_what_goes_past_a_dead_weir_is_told_until_it_has_a_program_or_gro() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name told");
    assert!(!bridge.said().contains("past a dead weir"), "both peers have a program: {}", bridge.said());
    bridge.end();
    rig.b.sh("ip link set dev b0 xdpdrv off");
    let bridge = rig.bridge("--name told");
    let said = bridge.said();
    assert!(said.contains("note: ins: its peer is in another namespace") && !said.contains("out: its peer"), "{said}");
    bridge.end();
    rig.b.sh("ip addr flush dev b0");
    rig.b.sh(&format!("ip link set b0 netns {}", rig.r.thread));
    rig.r.sh("ip link set b0 up");
    let bridge = rig.bridge("--name told");
    let said = bridge.said();
    assert!(
        said.contains("warning: ins: its peer b0 has neither GRO nor") && said.contains("ethtool -K b0 gro on"),
        "{said}"
    );
    bridge.end();
    rig.r.sh("ethtool -K b0 gro on");
    let bridge = rig.bridge("--name told");
    assert!(!bridge.said().contains("past a dead weir"), "{}", bridge.said());
    bridge.end();
}

#[test]
fn a_transfer_survives_a_frozen_weir_and_is_shaped_again_when_it_thaws() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name frozen --down \"pfifo limit 1000 | tbf rate 50mbit burst 20k\"");
    let transfer = rig.transfer();
    transfer.goes_on("through weir", 500_000);
    bridge.signal("STOP");
    transfer.goes_on("beside the frozen weir", 20_000_000);

    let second = rig.try_bridge("--name frozen");
    let (code, _) = second.wait();
    let refusal = second.said();
    let pid = bridge.pid();
    assert_eq!(code, 1);
    assert!(refusal.contains(&format!("kill -CONT {pid}")) && refusal.contains("stopped"), "{refusal}");

    bridge.signal("CONT");
    transfer.goes_on("through the thawed weir", 1_000_000);
    transfer.end();
    let report = bridge.end();
    let down = &report["directions"][0];
    assert!(down["gate"]["stale"].as_u64() > Some(0), "{down}");
    assert_eq!(down["gate"]["bypassed"], down["gate"]["stale"]);
    assert_eq!(down["census_missing"], 0);
}

#[test]
fn what_has_a_living_owner_is_refused_by_name_and_by_interface() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name owner");
    for words in ["--name owner", "--name another"] {
        let second = rig.try_bridge(words);
        assert_eq!(second.wait().0, 1);
        assert!(second.said().contains(&format!("kill {}", bridge.pid())), "{}", second.said());
    }
    wait_until("the first still works", || rig.answers());
    bridge.end();
}

#[test]
fn a_program_that_is_not_ours_is_named_and_left_alone() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let weir = env!("CARGO_BIN_EXE_weir");
    rig.r.sh(&format!("{weir} napi ins"));
    let theirs = rig.program_at("ins");
    let bridge = rig.try_bridge("--name foreign");
    assert_eq!(bridge.wait().0, 1);
    let said = bridge.said();
    for word in ["pass_all", "native", "ip link set dev ins xdpdrv off"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!((rig.program_at("out"), rig.program_at("ins")), (None, theirs));
    rig.r.sh("ip link set dev ins xdpdrv off");
    rig.bridge("--name foreign").end();
}

#[test]
fn with_drop_nothing_passes_a_dead_weir_and_with_pass_the_gate_goes_with_it() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name strict --on-failure drop");
    wait_until("b answers", || rig.answers());
    bridge.kill();
    assert!(!rig.answers());
    let next = rig.bridge("--name strict --on-failure pass");
    wait_until("b answers", || rig.answers());
    next.kill();
    wait_until("the gate is gone", || unshaped(&rig));
    rig.bridge("--name strict").end();
    assert_eq!(left_in_run(&["strict", &rig.r.number()]), [""; 0]);
}

#[test]
fn what_a_dead_weir_left_for_interfaces_that_are_gone_is_swept_by_the_next() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let number = rig.r.number();
    // Numbers of namespaces are given again: what others have left is not counted, nor a dead one's socket, which anybody who
    // looks for instances takes away.
    let others = left_in_run(&["swept", &number]);
    let bridge = rig.bridge("--name swept");
    let of_this = || -> Vec<String> {
        let mut left = left_in_run(&["swept", &number]);
        left.retain(|file| !others.contains(file) && !file.ends_with(".sock"));
        left
    };
    bridge.kill();
    let left = of_this();
    assert_eq!(left.len(), 7, "a name, two interfaces, two records, two pins: {left:?}");
    drop(rig);
    // The kernel takes a namespace apart in its own time.
    let next = Rig::new();
    wait_until("nothing is left", || {
        next.bridge("--name sweeper").end();
        of_this().is_empty()
    });
}

#[test]
fn a_dead_bridge_is_known_to_doctor_and_stop_and_undone_by_restore() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    rig.r.sh("ethtool -K out gro on rxvlan on");
    let before = (rig.r.features("out"), rig.r.features("ins"));
    let ends = |words: &str| {
        let weir = rig.r.weir(words);
        let (code, text) = weir.wait();
        (code, text + &weir.said())
    };
    let bridge = rig.bridge("--name undone");
    let (code, said) = ends("bridge out ins --restore");
    assert!(code == 1 && said.contains(&format!("kill {}", bridge.pid())), "{said}");
    bridge.kill();
    let (_, doctor) = ends("doctor out ins");
    assert!(doctor.contains("weir bridge out --restore") && doctor.contains("weir bridge ins --restore"), "{doctor}");
    let (code, stop) = ends("stop undone");
    assert!(code == 1 && stop.contains("weir bridge out --restore"), "{stop}");
    rig.r.sh("ip link set out down");
    rig.r.sh("ip link set out name wan9");
    assert_eq!(ends("bridge wan9 ins --restore").0, 0);
    assert!(rig.program_at("wan9").is_none() && rig.program_at("ins").is_none());
    assert_eq!((rig.r.features("wan9"), rig.r.features("ins")), before);
    let mut left = left_in_run(&["undone", &rig.r.number()]);
    // The lock of a dead process is nobody's; the next one sweeps it.
    left.retain(|file| !file.ends_with(".lock"));
    assert_eq!(left, [""; 0]);
    let (code, said) = ends("bridge wan9 --restore");
    assert!(code == 0 && said.contains("no weir bridge has left anything at wan9"), "{said}");
}

#[test]
fn an_interface_that_goes_ends_the_bridge_and_the_other_is_as_it_was() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let before = rig.r.sh("ethtool -k ins");
    let bridge = rig.bridge("--name removed");
    rig.r.sh("ip link del out");
    let (code, report) = bridge.wait();
    assert!(code == 1 && bridge.said().contains("out is gone"), "{}", bridge.said());
    assert!(report.contains("census_missing"), "the figures are told all the same: {report}");
    assert!(rig.program_at("ins").is_none());
    assert_eq!(rig.r.sh("ethtool -k ins"), before);
    assert_eq!(left_in_run(&["removed", &rig.r.number()]), [""; 0]);
}

#[test]
fn a_full_disk_under_the_report_is_told_after_an_orderly_end() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let before = rig.r.sh("ethtool -k ins");
    let output = rig.r.run(|| {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is everywhere");
        let mut weir = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.args(["bridge", "out", "ins", "--name", "full", "--duration", "0.1"]).stdout(full);
        weir.output().expect("it is built")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.ends_with("weir: cannot write: No space left on device\n") && !said.contains("panicked"), "{said}");
    assert!(unshaped(&rig));
    assert_eq!(rig.r.sh("ethtool -k ins"), before);
    assert_eq!(left_in_run(&["full.", &rig.r.number()]), [""; 0]);
}

#[test]
fn starting_and_ending_without_a_pause_works_every_time() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    for n in 0..10 {
        let bridge = rig.bridge("--name quick");
        match n % 3 {
            0 => bridge.kill(),
            _ => {
                bridge.end();
            }
        }
    }
    assert!(unshaped(&rig) || Path::new("/run/weir/bpf").exists());
    rig.bridge("--name quick").end();
    assert!(unshaped(&rig));
}

#[test]
fn what_waits_when_the_link_goes_is_dropped_as_stale_and_traffic_comes_back_with_it() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let bridge = rig.bridge("--name flap --poll sleep --down \"pfifo limit 1000 | tbf rate 1mbit burst 3k\"");
    wait_until("b answers", || rig.answers());
    let transfer = rig.transfer();
    transfer.goes_on("through weir", 50_000);
    rig.b.sh("ip link set b0 down");
    wait_until("the loss of the link is seen", || bridge.said().contains("ins is down"));
    // A second without link, and what waited is not worth sending any more.
    let stale = || super::control::stats("flap")[0]["weir"]["dropped"]["by_reason"]["stale"]["packets"].as_u64();
    wait_until("what waited is stale", || stale() > Some(0));
    rig.b.sh("ip link set b0 up");
    wait_until("its return is seen", || bridge.said().contains("ins is up"));
    transfer.goes_on("after the link came back", 50_000);
    transfer.end();
    let down = &bridge.end()["directions"][0];
    assert!(down["dropped"]["by_reason"]["stale"]["packets"].as_u64() > Some(0), "{down}");
    assert_eq!(down["census_missing"], 0);
}
