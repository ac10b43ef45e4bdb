//! What WAN has goes to the host's new interface, and comes back.

use super::rig::{FAR, FAR_6, Rig};
use crate::live::{possible, wait_until};

/// One setting of an interface.
fn setting(rig: &Rig, interface: &str, name: &str) -> String {
    let (family, name) = name.split_once('/').expect("family/name");
    rig.host.sh(&format!("cat /proc/sys/net/{family}/conf/{interface}/{name}"))
}

#[test]
fn everything_moves_and_at_the_end_everything_is_as_it_was() {
    if !possible() {
        return;
    }
    let rig = Rig::with_much_to_move();
    let before = rig.belongings();
    let settings = || ["ipv6/disable_ipv6", "ipv6/accept_dad", "ipv6/accept_ra"].map(|s| setting(&rig, "wan", s));
    let settings_before = settings();
    let weir = rig.ingress("--move-addresses");
    assert_eq!(rig.differs_from(&before, "shaped"), [""; 0]);
    let left = rig.belongings();
    assert!(!left.contains("wan"), "{left}");
    for name in ["ipv4/rp_filter", "ipv4/proxy_arp", "ipv4/forwarding", "ipv6/accept_ra", "ipv6/forwarding"] {
        assert_eq!(setting(&rig, "shaped", name), setting(&rig, "wan", name), "{name}");
    }
    assert_eq!(rig.host.nic("shaped").address, rig.host.nic("wan").address);
    assert!(weir.said().contains("moved 8 addresses"), "{}", weir.said());
    wait_until("the far end answers", || rig.host.reaches(FAR) && rig.host.reaches(FAR_6));
    wait_until("it answers the router's LAN", || rig.lan.reaches(FAR) && rig.lan.reaches(FAR_6));
    let report = weir.end();
    assert_eq!(report["inside"], "shaped");
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
    assert_eq!(settings(), settings_before);
    wait_until("the far end answers", || rig.host.reaches(FAR) && rig.host.reaches(FAR_6));
}

#[test]
fn what_changed_while_it_ran_goes_back_as_it_is_then() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let before = rig.belongings();
    let weir = rig.ingress("--move-addresses");
    rig.host.sh("ip addr add 10.78.0.4/24 dev shaped");
    rig.host.sh("ip route add 10.95.0.0/16 via 10.78.0.1 src 10.78.0.4");
    rig.host.sh("ip addr del fd78::2/64 dev shaped");
    weir.end();
    let after = rig.belongings();
    assert!(after.contains("10.95.0.0/16 via 10.78.0.1 dev wan src 10.78.0.4"), "{after}");
    assert!(!after.contains("fd78::2"), "{after}");
    rig.host.sh("ip route del 10.95.0.0/16");
    rig.host.sh("ip addr del 10.78.0.4/24 dev wan");
    rig.host.sh("ip addr add fd78::2/64 dev wan nodad");
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
}

#[test]
fn what_cannot_be_put_on_the_new_interface_stays_with_all_the_rest() {
    if !possible() {
        return;
    }
    let rig = Rig::with_much_to_move();
    // A route whose gateway cannot be reached any more: the kernel keeps it, and would not take it anew.
    rig.host.sh("ip route add 10.96.0.0/16 via 10.81.0.1");
    rig.host.sh("ip route del 10.81.0.0/24 dev wan");
    let before = rig.belongings();
    let weir = rig.try_ingress("--move-addresses");
    assert_eq!(weir.wait().0, 1);
    assert!(weir.said().contains("all of it stays: 10.96.0.0/16 via 10.81.0.1: "), "{}", weir.said());
    assert_eq!(rig.differs_from(&before, "wan"), [""; 0]);
    assert!(!rig.host.sh("ip link").contains("shaped"));
}

#[test]
fn without_moving_the_host_is_told_what_to_type_and_the_new_interface_works() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let weir = rig.ingress("");
    let said = weir.said();
    let hint = "ip addr del 10.78.0.2/24 dev wan && ip addr add 10.78.0.2/24 dev shaped";
    assert!(said.contains(hint) && said.contains("--move-addresses"), "{said}");
    for words in hint.split(" && ") {
        rig.host.sh(words);
    }
    wait_until("the far end answers", || rig.host.reaches(FAR));
    weir.end();
    assert!(!rig.host.sh("ip link").contains("shaped"));
}
