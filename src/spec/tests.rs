use super::*;

fn spec(line: &str) -> Spec {
    parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).spec
}

fn reads_back(line: &str) {
    let first = spec(line);
    let printed = first.to_string();
    assert_eq!(spec(&printed), first, "{line} printed as {printed}");
    assert_eq!(spec(&printed).to_string(), printed);
}

/// Every word of a table, alone: it is read, it changes the parameters, and it is printed back.
fn every_word_counts(stage: &str, words: &[Word]) {
    let default = spec(stage);
    for word in words {
        let line = format!("{stage} {}", word.sample);
        reads_back(&line);
        let without_effect = ["noecn", "nowash"].contains(&word.name);
        assert_eq!(spec(&line) == default, without_effect, "{line}");
    }
}

#[test]
fn every_word_of_every_table_is_read_has_an_effect_and_is_printed_back() {
    use qdisc::{codel, fifo, htb, tbf};
    every_word_counts("pfifo", fifo::Params::WORDS);
    every_word_counts("bfifo", fifo::Params::WORDS);
    every_word_counts("pfifo_head_drop", fifo::Params::WORDS);
    every_word_counts("codel", codel::Params::WORDS);
    every_word_counts("pfifo | tbf rate 1mbit", tbf::Params::WORDS);
    every_word_counts("htb rate 1mbit", htb::Params::WORDS);
}

#[test]
fn pipelines_of_the_manual_read_back() {
    for line in [
        "pfifo limit 1000 | tbf rate 20mbit burst 5k",
        "codel ce_threshold 242us | tbf rate 1gbit",
        "tbf rate 8mbit burst 60k limit 120k peakrate 9mbit mtu 6k",
        "tbf rate 8mbit burst 8k limit 60k overhead 18 linklayer atm",
        "codel limit 7 target 1ms interval 10ms ecn ce_threshold 0",
        "codel|tbf rate 1mbit|tbf rate 2mbit",
    ] {
        reads_back(line);
    }
}

#[test]
fn a_slip_is_refused_with_its_place_and_the_nearest_word() {
    let e = parse("codel taregt 5ms").unwrap_err();
    assert_eq!((e.at, e.len, e.nearest.as_deref()), (6, 6, Some("target")));
    assert!(e.allowed.contains(&"ce_threshold".to_string()));
    let e = parse("pfifo | tfb rate 1mbit").unwrap_err();
    assert_eq!((e.at, e.nearest.as_deref()), (8, Some("tbf")));
    let shown = parse("codel limit x").unwrap_err().render("codel limit x");
    assert_eq!(shown, "codel limit x\n            ^\ncolumn 13: illegal \"limit\": \"x\" is not a whole number");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (line, at) in [
        ("", 0),
        ("codel |", 7),
        ("| codel", 0),
        ("codel target -5ms", 13),
        ("codel interval 5000s", 15),
        ("codel limit", 11),
        ("codel memory_limit 5", 6),
        ("codel | codel", 8),
        ("codel | pfifo", 8),
        ("tbf rate 1mbit burst 10k", 0),
        ("tbf burst 10k limit 10k", 0),
        ("tbf rate 0 burst 10k limit 10k", 9),
        ("pfifo | tbf rate 10mbit burst 0", 30),
        ("pfifo | tbf rate 10mbit peakrate 9mbit mtu 2k", 8),
        ("pfifo | tbf rate 10mbit peakrate 11mbit", 8),
        ("pfifo | tbf rate 10mbit linklayer ppp", 34),
    ] {
        let e = parse(line).expect_err(line);
        assert_eq!(e.at, at, "{line}: {e}");
    }
}

#[test]
fn a_zero_that_tc_would_not_send_keeps_the_default() {
    assert_eq!(spec("codel limit 0 target 0 interval 0"), spec("codel"));
    assert_ne!(spec("codel ce_threshold 0"), spec("codel"));
}
