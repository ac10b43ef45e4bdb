use super::*;
use crate::run::nic::{VethPeer, XdpProgram, XdpSupport};

fn fit() -> NicFacts {
    NicFacts {
        name: "eth1".into(),
        alt_names: vec![],
        index: 2,
        address: "02:00:00:00:00:01".into(),
        ethernet: true,
        loopback: false,
        kind: None,
        wireless: false,
        driver: Some("ice".into()),
        up: true,
        carrier: true,
        mtu: 1500,
        native_mtu: None,
        master: None,
        master_kind: None,
        rx_queues: 4,
        tx_queues: 4,
        promiscuity: 0,
        ip_addresses: vec![],
        xdp: None,
        xdp_support: Some(XdpSupport {
            native: true,
            redirect: true,
            redirect_target: true,
            zero_copy: true,
            multi_buffer: true,
        }),
        merging_or_stripping: vec![],
        peer: None,
    }
}

/// The failing lines, as a start that is refused would print them.
fn failures(nic: &NicFacts) -> Vec<String> {
    nic_checks(nic).iter().filter(|c| c.verdict == Verdict::Fail).map(ToString::to_string).collect()
}

#[test]
fn a_fit_nic_has_only_ok_lines() {
    assert!(nic_checks(&fit()).iter().all(|c| c.verdict == Verdict::Ok), "{:?}", nic_checks(&fit()));
}

#[test]
fn every_failure_ends_with_what_to_type() {
    let broken = NicFacts {
        up: false,
        master: Some("br0".into()),
        master_kind: Some("bridge".into()),
        kind: Some("bond".into()),
        xdp: Some(XdpProgram { mode: XdpMode::Generic, id: 7, name: Some("filter".into()) }),
        ..fit()
    };
    let failures: Vec<Check> = nic_checks(&broken).into_iter().filter(|c| c.verdict == Verdict::Fail).collect();
    assert_eq!(failures.iter().map(|c| c.check).collect::<Vec<_>>(), ["kind", "member", "up", "program"]);
    assert!(failures.iter().all(|c| c.fix.is_some()));
}

#[test]
fn a_member_of_a_bridge_is_refused_with_the_bridge_and_the_command() {
    let member = NicFacts { master: Some("br0".into()), master_kind: Some("bridge".into()), ..fit() };
    assert_eq!(
        failures(&member),
        ["eth1: is a member of the bridge br0, which would get nothing any more; ip link set dev eth1 nomaster"]
    );
}

#[test]
fn a_foreign_program_is_named_with_the_command_that_takes_it_off_in_its_mode() {
    let taken = |mode, name: &str| NicFacts { xdp: Some(XdpProgram { mode, id: 9, name: Some(name.into()) }), ..fit() };
    assert_eq!(
        failures(&taken(XdpMode::Generic, "foreign")),
        [
            "eth1: xdp program 9 (foreign) is attached in generic mode by somebody else; ip link set dev eth1 xdpgeneric off"
        ]
    );
    assert_eq!(failures(&taken(XdpMode::Native, "weir_gate")), [""; 0]);
}

#[test]
fn which_kinds_can_be_the_end_of_a_wire() {
    let verdict = |nic: &NicFacts| nic_checks(nic)[0].verdict;
    let of_kind = |kind: &str| NicFacts { kind: Some(kind.into()), ..fit() };
    for kind in ["veth", "tun", "netkit"] {
        assert_eq!(verdict(&of_kind(kind)), Verdict::Ok, "{kind}");
    }
    for kind in ["vlan", "macvlan", "ipvlan"] {
        assert_eq!(verdict(&of_kind(kind)), Verdict::Note, "{kind}");
    }
    for kind in ["bond", "team", "bridge", "dummy", "ifb"] {
        assert_eq!(verdict(&of_kind(kind)), Verdict::Fail, "{kind}");
    }
    for kind in ["gre", "wireguard", "ppp", "ipip"] {
        assert_eq!(verdict(&NicFacts { ethernet: false, ..of_kind(kind) }), Verdict::Fail, "{kind}");
    }
    assert_eq!(verdict(&NicFacts { wireless: true, ..fit() }), Verdict::Fail);
    assert_eq!(verdict(&NicFacts { loopback: true, ..fit() }), Verdict::Fail);
}

#[test]
fn a_veth_whose_peer_has_more_tx_queues_than_it_has_rx_queues_has_no_native_mode() {
    let none =
        XdpSupport { native: false, redirect: false, redirect_target: false, zero_copy: false, multi_buffer: false };
    let veth = NicFacts { kind: Some("veth".into()), rx_queues: 1, xdp_support: Some(none), ..fit() };
    assert!(failures(&veth)[0].contains("ethtool -L eth1 rx N"), "{:?}", failures(&veth));
}

#[test]
fn an_mtu_over_a_limit_is_said_with_the_limit_that_was_found() {
    let line = |set: u32, in_memory, native_mtu| {
        let mut lines = Lines { nic: None, lines: Vec::new() };
        mtu(&NicFacts { mtu: set, native_mtu, ..fit() }, in_memory, &mut lines);
        (lines.lines[0].verdict, lines.lines[0].message.clone())
    };
    assert_eq!(line(3498, Some(3826), Some(3498)), (Verdict::Ok, "MTU 3498; native mode takes up to 3498".into()));
    assert_eq!(line(3499, Some(3826), Some(3498)), (Verdict::Fail, "MTU 3499 > 3498 allowed in native mode".into()));
    assert_eq!(line(9000, Some(3826), Some(3498)).0, Verdict::Fail);
    assert_eq!(line(9000, None, None), (Verdict::Ok, "MTU 9000".into()));
}

#[test]
fn a_feature_that_somebody_switches_on_under_a_running_weir_is_a_failure() {
    let on = NicFacts { merging_or_stripping: vec!["rx-gro".into(), "rx-lro".into()], ..fit() };
    let mut lines = Lines { nic: None, lines: Vec::new() };
    features(&on, None, &mut lines);
    features(&on, Some(7), &mut lines);
    features(&fit(), Some(7), &mut lines);
    assert_eq!([0, 1, 2].map(|i| lines.lines[i].verdict), [Verdict::Ok, Verdict::Fail, Verdict::Ok]);
    assert_eq!(lines.lines[1].fix.as_deref(), Some("ethtool -K eth1 rx-gro off rx-lro off"));
}

#[test]
fn unfinished_frames_of_a_peer_we_can_see_are_a_failure_and_of_one_we_cannot_see_a_note() {
    let with_peer = |peer| NicFacts { kind: Some("veth".into()), peer: Some(peer), ..fit() };
    let here = VethPeer {
        index: 3,
        name: Some("v1".into()),
        offloads_on: Some(vec!["tx-tcp-segmentation".into()]),
        napi: Some(true),
    };
    assert!(failures(&with_peer(here))[0].ends_with("ethtool -K v1 tx off tso off gso off txvlan off"));
    let elsewhere = nic_checks(&with_peer(VethPeer { index: 3, name: None, offloads_on: None, napi: None }));
    let line = elsewhere.iter().find(|c| c.check == "peer").expect("a line on the peer");
    assert_eq!(line.verdict, Verdict::Note);
}

#[test]
fn a_peer_that_would_lose_what_goes_past_a_dead_weir_is_named_with_the_command_that_helps() {
    let nic = |name: Option<&str>, napi| {
        let peer = VethPeer { index: 3, name: name.map(String::from), offloads_on: None, napi };
        NicFacts { kind: Some("veth".into()), peer: Some(peer), ..fit() }
    };
    let line = |name, napi| nic_checks(&nic(name, napi)).into_iter().find(|c| c.check == "bypass").expect("a line");
    assert_eq!(line(Some("v1"), Some(true)).verdict, Verdict::Ok);
    assert_eq!(line(None, Some(true)).verdict, Verdict::Ok);
    let here = line(Some("v1"), Some(false));
    assert_eq!(here.verdict, Verdict::Note);
    assert_eq!(here.fix.as_deref(), Some("ethtool -K v1 gro on   (or: weir napi v1)"));
    let elsewhere = line(None, None);
    assert_eq!(elsewhere.verdict, Verdict::Note);
    assert_eq!(elsewhere.fix.as_deref(), Some("there: ethtool -K PEER gro on   (or: weir napi PEER)"));
    assert!(nic_checks(&fit()).iter().all(|c| c.check != "bypass"));
}

#[test]
fn a_peer_where_this_host_itself_could_send_is_worth_a_note() {
    let nic = |name: Option<&str>| {
        let peer = VethPeer { index: 3, name: name.map(String::from), offloads_on: Some(vec![]), napi: Some(true) };
        NicFacts { kind: Some("veth".into()), peer: Some(peer), ..fit() }
    };
    let note = |nic: &NicFacts| nic_checks(nic).into_iter().find(|c| c.check == "sender");
    assert_eq!(
        note(&nic(Some("v1"))).and_then(|c| c.fix).as_deref(),
        Some("put senders into a namespace: ip link set v1 netns NAME")
    );
    assert!(note(&nic(None)).is_none());
}

#[test]
fn kernels_are_compared_by_number_and_not_by_letter() {
    let verdict = |release: &str| {
        let mut lines = Lines { nic: None, lines: Vec::new() };
        kernel(release, &mut lines);
        lines.lines[0].verdict
    };
    let verdicts = ["5.15.0-91-generic", "6.0.19", "6.1.0-18-amd64", "6.18.44", "10.0"].map(verdict);
    assert_eq!(verdicts, [Verdict::Fail, Verdict::Fail, Verdict::Ok, Verdict::Ok, Verdict::Ok]);
}

#[test]
fn rights_are_read_from_the_effective_set() {
    let status = "Name:\tweir\nCapPrm:\t0000000000000000\nCapEff:\t0000008000003000\nCapBnd:\t000001ffffffffff\n";
    let mut lines = Lines { nic: None, lines: Vec::new() };
    capabilities(effective_capabilities(status), &mut lines);
    capabilities(1 << 12, &mut lines);
    assert_eq!(lines.lines[0].verdict, Verdict::Ok);
    assert_eq!(lines.lines[1].message, "lacks CAP_NET_RAW, CAP_BPF");
}

#[test]
fn the_limit_on_locked_memory_counts_only_without_the_right_to_exceed_it() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max locked memory         8388608              unlimited            bytes     \n";
    assert_eq!(locked_memory_limit(limits), Some(8_388_608));
    assert_eq!(locked_memory_limit("Max locked memory         unlimited            unlimited            bytes"), None);
    let mut lines = Lines { nic: None, lines: Vec::new() };
    memlock(Some(65_536), 0, &mut lines);
    memlock(Some(65_536), 1 << CAP_IPC_LOCK, &mut lines);
    memlock(None, 0, &mut lines);
    assert_eq!([0, 1, 2].map(|i| lines.lines[i].verdict), [Verdict::Fail, Verdict::Ok, Verdict::Ok]);
}
