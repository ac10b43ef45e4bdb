//! Dying, coming again, and being undone.

use super::rig::{FAR, FAR_6, Rig};
use crate::live::{Weir, left_in_run, possible, run, wait_until};

const SHAPED: &str = "--move-addresses --down \"cake bandwidth 50mbit\" --up \"cake bandwidth 50mbit\"";

/// The files that belong to the host's namespace.
fn left_of(rig: &Rig) -> Vec<String> {
    let mut all = left_in_run(&[&rig.host.number()]);
    // The lock of a dead process is nobody's; the next one sweeps it.
    all.retain(|file| !file.ends_with(".lock"));
    all
}

#[test]
fn transfers_through_a_router_go_on_through_moving_death_the_next_start_and_the_end() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let before = rig.belongings();
    let (up, down) = (rig.transfer_up(), rig.transfer_down());
    let both_go_on = |why: &str, bytes| {
        up.goes_on(why, bytes);
        down.goes_on(why, bytes);
    };
    both_go_on("before weir", 1_000_000);
    let weir = rig.ingress(SHAPED);
    both_go_on("through weir", 1_000_000);
    weir.kill();
    assert_eq!(rig.differs_from(&before, "shaped"), [""; 0], "what was moved stays while the gate forwards");
    both_go_on("past the dead weir", 20_000_000);
    let next = rig.ingress(SHAPED);
    assert!(next.said().contains("shaped was there"), "{}", next.said());
    assert_eq!(rig.differs_from(&before, "shaped"), [""; 0], "the next one takes over what is there");
    both_go_on("through the next weir", 1_000_000);
    let report = next.end();
    for direction in report["directions"].as_array().expect("two") {
        assert!(direction["sent"]["bytes"].as_u64() >= Some(1_000_000), "{direction}");
        assert_eq!(direction["census_missing"], 0);
    }
    both_go_on("after weir", 20_000_000);
    up.end();
    down.end();
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
    assert_eq!(left_of(&rig), [""; 0]);
}

#[test]
fn a_weir_killed_at_any_step_is_undone_by_restore_and_by_the_next_start() {
    if !possible() {
        return;
    }
    let rig = Rig::with_much_to_move();
    let before = rig.belongings();
    let record = || left_of(&rig).iter().any(|f| f.ends_with("ingress.json"));
    let shows = |words: &str, what: &str| {
        let words = words.to_string();
        let text = rig.host.run(move || std::panic::catch_unwind(|| run(&words)).unwrap_or_default());
        text.contains(what)
    };
    type Step<'a> = (&'a str, &'a dyn Fn(&Weir) -> bool);
    let steps: [Step<'_>; 6] = [
        ("the record is there", &|_| record()),
        ("the pair is there", &|_| shows("ip link", "shaped")),
        ("an address is there", &|_| shows("ip addr show", "scope global shaped")),
        ("the last address has left", &|_| !shows("ip addr show", "scope global wan")),
        ("IPv6 has left", &|_| !shows("ip -6 addr show dev wan", "inet6")),
        ("it is at work", &|weir| weir.said().contains("polling")),
    ];
    for (n, (why, there)) in steps.iter().enumerate() {
        let weir = rig.try_ingress(SHAPED);
        wait_until(why, || there(&weir) || !weir.is_running());
        weir.kill();
        if n % 2 == 0 {
            rig.restore();
        } else {
            rig.ingress(SHAPED).end();
        }
        assert_eq!(rig.differs_from(&before, "wan"), [""; 0], "killed when {why}");
        assert_eq!(left_of(&rig), [""; 0], "killed when {why}");
    }
    wait_until("the far end answers", || rig.host.reaches(FAR) && rig.host.reaches(FAR_6));
}

#[test]
fn a_start_with_other_words_undoes_what_a_dead_one_left_and_begins_anew() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let before = rig.belongings();
    rig.ingress("--move-addresses").kill();
    let other = rig.host.weir("ingress wan --host other -j --move-addresses").runs();
    wait_until("it has moved", || other.said().contains("moved"));
    let links = rig.host.sh("ip link");
    assert!(links.contains("other") && !links.contains("shaped"), "{links}");
    wait_until("the far end answers", || rig.host.reaches(FAR));
    other.end();
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
    assert_eq!(left_of(&rig), [""; 0]);
}

#[test]
fn a_pair_that_somebody_removed_costs_nothing_that_was_moved() {
    if !possible() {
        return;
    }
    let rig = Rig::with_much_to_move();
    let before = rig.belongings();
    rig.ingress("--move-addresses").kill();
    rig.host.sh("ip link del shaped");
    rig.restore();
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
    assert_eq!(left_of(&rig), [""; 0]);
}

#[test]
fn a_pair_that_is_removed_under_a_running_one_ends_it_and_all_comes_back() {
    if !possible() {
        return;
    }
    let rig = Rig::with_much_to_move();
    let before = rig.belongings();
    let weir = rig.ingress("--move-addresses");
    rig.host.sh("ip link del shaped");
    let (code, _) = weir.wait();
    assert!(code == 1 && weir.said().contains("shaped is gone"), "{}", weir.said());
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
    assert_eq!(left_of(&rig), [""; 0]);
}

#[test]
fn a_wan_that_was_renamed_after_a_death_is_undone_under_its_new_name() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    rig.host.sh("ethtool -K wan gro on");
    let before = rig.host.features("wan");
    rig.ingress("--move-addresses --name renamed").kill();
    assert_ne!(rig.host.features("wan"), before);
    rig.host.sh("ip link set wan down");
    rig.host.sh("ip link set wan name wan9");
    rig.host.sh("ip link set wan9 up");
    let restore = rig.host.weir("ingress wan9 --restore");
    assert_eq!(restore.wait().0, 0, "{}", restore.said());
    assert_eq!(rig.host.features("wan9"), before);
    assert!(rig.host.sh("ip addr show dev wan9").contains("10.78.0.2/24"));
    assert_eq!(left_of(&rig), [""; 0]);
    assert!(!std::path::Path::new("/run/weir/renamed.sock").exists());
}

#[test]
fn a_living_one_is_not_undone_and_doctor_knows_a_dead_one() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let weir = rig.ingress("--move-addresses");
    let restore = rig.host.weir("ingress wan --restore");
    assert_eq!(restore.wait().0, 1);
    assert!(restore.said().contains(&format!("kill {}", weir.pid())), "{}", restore.said());
    wait_until("it still works", || rig.host.reaches(FAR));
    weir.kill();
    let doctor = rig.host.weir("doctor wan");
    let (_, text) = doctor.wait();
    assert!(text.contains("weir ingress wan --restore"), "{text}");
    rig.restore();
    let again = rig.host.weir("ingress wan --restore");
    assert_eq!(again.wait().0, 0);
    assert!(again.said().contains("no weir ingress has left anything"), "{}", again.said());
}
