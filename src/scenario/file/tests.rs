use super::*;

const SENDERS: [&str; 3] = ["reno", "cubic", "dctcp"];

fn good(text: &str) -> Scenario {
    read(text, &SENDERS).map_err(|p| p.render("x.toml", text)).unwrap().0
}

fn bad(text: &str) -> String {
    read(text, &SENDERS).map_err(|p| p.render("x.toml", text)).unwrap_err()
}

#[test]
fn a_small_file_has_defaults_for_everything_else() {
    let s = good("[[flow]]\n");
    assert_eq!((s.duration, s.steady_from, s.interval), (30 * SECOND, 5 * SECOND, SECOND / 10));
    assert_eq!(s.flows[0].tcp.sender, "cubic");
    assert_eq!(s.flows[0].app, App::Bulk { size: None, up: false });
    assert_eq!(s.hosts.len(), 2);
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_one() {
    let message = bad("duration = \"3s\"\n[[flow]]\nsendr = \"reno\"\n");
    assert!(message.starts_with("x.toml:3:1: \"sendr\" has no meaning here; did you mean \"sender\"?"), "{message}");
    assert!(message.ends_with("sendr = \"reno\"\n^^^^^"), "{message}");
}

#[test]
fn an_unknown_sender_is_named_with_its_place_and_the_nearest_one() {
    let message = bad("[[flow]]\nsender = \"cubik\"\n");
    assert!(message.starts_with("x.toml:2:10: \"cubik\" is no sender; did you mean \"cubic\"?"), "{message}");
}

#[test]
fn a_wrong_word_in_a_pipeline_is_marked_inside_the_string() {
    let message = bad("[[flow]]\n[[node]]\nname = \"rt\"\ndown = \"codel targt 5ms\"\n");
    assert!(message.starts_with("x.toml:4:15: "), "{message}");
    assert!(message.ends_with("down = \"codel targt 5ms\"\n              ^^^^^"), "{message}");
}

#[test]
fn a_time_without_a_unit_is_refused() {
    assert!(bad("duration = \"30\"\n[[flow]]\n").contains("\"30\" needs a unit"));
}

#[test]
fn what_has_no_meaning_for_an_application_is_refused() {
    let message = bad("[[flow]]\napp = \"web\"\nsize = \"10k\"\n");
    assert!(message.starts_with("x.toml:3:8: \"size\" has no meaning for app = \"web\""), "{message}");
}

#[test]
fn a_flow_that_starts_after_the_end_is_refused() {
    let message = bad("duration = \"2s\"\n[[flow]]\nstart = \"1s\"\nevery = \"100ms\"\ncount = 20\n");
    assert!(message.starts_with("x.toml:3:9: the last of these would start after the end"), "{message}");
}

#[test]
fn two_hosts_with_one_address_are_refused() {
    let host = |n: u32| format!("[[host]]\nname = \"h{n}\"\nside = \"client\"\naddress = \"10.0.0.1\"\n");
    assert!(bad(&format!("[[flow]]\n{}{}", host(1), host(2))).contains("\"h1\" has 10.0.0.1 already"));
}

#[test]
fn nobody_sending_is_refused() {
    assert!(bad("duration = \"2s\"\n").contains("nobody sends"));
}

#[test]
fn a_line_rate_holds_for_both_directions_unless_one_is_named() {
    let s = good("[[flow]]\n[[node]]\nname = \"a\"\nline = \"10mbit\"\nup-line = \"1mbit\"\ndelay = \"5ms\"\n");
    let node = &s.nodes[0];
    assert_eq!((node.down_line, node.up_line), (Some(10_000_000), Some(1_000_000)));
    assert_eq!((node.down_delay, node.up_delay), (5_000_000, 5_000_000));
}

#[test]
fn a_name_that_would_leave_the_folder_and_one_that_is_there_twice_are_refused() {
    let message = bad("name = \"../../x\"\n[[flow]]\n");
    assert!(message.starts_with("x.toml:1:8: \"../../x\" cannot be in the name of a file"), "{message}");
    assert!(bad("[[flow]]\nname = \"a/b\"\n").contains("\"a/b\" cannot be"));
    let node = "[[node]]\nname = \"rt\"\n";
    assert!(bad(&format!("[[flow]]\n{node}{node}")).contains("there are two nodes called \"rt\""));
}

#[test]
fn a_time_without_quotes_is_shown_how_to_write_it() {
    assert!(bad("duration = 5\n[[flow]]\n").contains("with their unit, like \"5s\""));
}

#[test]
fn starts_so_far_apart_that_64_bits_do_not_hold_the_last_are_refused() {
    let message = bad("[[flow]]\nsize = \"10k\"\nevery = \"3599364697310us\"\ncount = 5126\n");
    assert!(message.contains("the last of these would start after the end"), "{message}");
}

#[test]
fn datagrams_less_than_a_nanosecond_apart_are_refused() {
    for app in ["constant", "on-off", "dtp"] {
        let flow = |rate: &str| format!("[[flow]]\napp = \"{app}\"\nrate = \"{rate}\"\npacket = 1\n");
        assert!(bad(&flow("100gbit")).contains("datagrams of 1 bytes would be less than a nanosecond apart"));
        good(&flow("8gbit"));
    }
}

#[test]
fn more_samples_than_can_be_kept_are_refused() {
    let message = bad("duration = \"3600000s\"\ninterval = \"1us\"\n[[ping]]\n");
    assert!(message.contains("3600000000000 intervals in one run, and 10000000 are the most"), "{message}");
    good("duration = \"10s\"\ninterval = \"1us\"\n[[ping]]\n");
}

#[test]
fn more_hosts_than_addresses_are_refused() {
    let hosts =
        |n: u32| -> String { (0..n).map(|i| format!("[[host]]\nname = \"h{i}\"\nside = \"client\"\n")).collect() };
    assert_eq!(good(&format!("[[flow]]\n{}", hosts(253))).hosts.len(), 254);
    assert!(bad(&format!("[[flow]]\n{}", hosts(254))).contains("there may be 253 hosts at most"));
}
