//! What is refused, with the command that helps, before anything is touched.

use super::rig::Rig;
use crate::live::{possible, wait_until, weir_program};

/// Starts it, expects a refusal, and that nothing has changed.
fn refused(rig: &Rig, words: &str, expected: &[&str]) {
    let before = (rig.belongings(), rig.host.sh("ip -br link"));
    let weir = rig.host.weir(&format!("ingress {words}"));
    let (code, _) = weir.wait();
    let said = weir.said();
    assert!(code != 0, "{words}: {said}");
    for word in expected {
        assert!(said.contains(word), "{words}: '{word}' is not in: {said}");
    }
    assert_eq!((rig.belongings(), rig.host.sh("ip -br link")), before, "{words}");
}

#[test]
fn what_cannot_be_is_refused_with_the_command_that_helps_and_nothing_is_touched() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let move_it = "wan --host shaped --move-addresses";
    refused(&rig, "lo --host shaped", &["lo: is the loopback"]);
    refused(&rig, "nowhere --host shaped", &["no interface 'nowhere'", "wan"]);
    refused(&rig, "wan --host lan0", &["interface lan0 already", "ip link del lan0"]);
    refused(&rig, "wan --host a-name-of-16-byt", &["longer than 15 bytes"]);
    refused(&rig, "wan --host shaped --down \"cake bandwith 5mbit\"", &["did you mean \"bandwidth\""]);
    rig.host.sh("ip rule add from all oif wan lookup 100 priority 700");
    refused(&rig, move_it, &["700: oif wan", "ip rule del priority 700"]);
    rig.host.sh("ip rule del priority 700");
    rig.host.sh("ip nexthop add id 7 via 10.78.0.1 dev wan");
    rig.host.sh("ip route add 10.97.0.0/16 nhid 7");
    refused(&rig, move_it, &["10.97.0.0/16", "nexthop object 7"]);
    rig.host.sh("ip nexthop del id 7");
    rig.host.sh(&format!("{} napi wan", weir_program()));
    refused(&rig, move_it, &["'pass_all'", "ip link set dev wan xdpdrv off"]);
    rig.host.sh("ip link set dev wan xdpdrv off");
    rig.far.sh("ip link set far0 down");
    wait_until("the host knows", || rig.belongings().contains("linkdown"));
    refused(&rig, move_it, &["wan has no carrier", "ip -br link show dev wan"]);
    rig.host.sh("ip link set wan down");
    refused(&rig, move_it, &["ip link set dev wan up"]);
    rig.host.sh("ip link add bridge0 type bridge");
    rig.host.sh("ip link set wan master bridge0");
    refused(&rig, move_it, &["member of the bridge bridge0", "ip link set dev wan nomaster"]);
}

#[test]
fn a_wan_with_a_living_owner_is_refused_by_its_pid_and_goes_on() {
    if !possible() {
        return;
    }
    let rig = Rig::new();
    let weir = rig.ingress("--move-addresses");
    let kill = format!("kill {}", weir.pid());
    refused(&rig, "wan --host other --name other", &[&kill]);
    weir.end();
    let bridge = rig.host.weir("bridge wan lan0 --name taken").runs();
    let kill = format!("kill {}", bridge.pid());
    refused(&rig, "wan --host shaped --move-addresses", &[&kill]);
}
