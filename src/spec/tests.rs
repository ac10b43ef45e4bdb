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
        let default_is = |name: &str| match stage {
            "codel" => name == "noecn",
            "fq_codel" => name == "ecn",
            "dualpi2" => ["drop_on_overload", "drop_dequeue", "l4s_ect", "split_gso"].contains(&name),
            _ => name == "nowash",
        };
        let without_effect = default_is(word.name);
        assert_eq!(spec(&line) == default, without_effect, "{line}");
    }
}

#[test]
fn every_word_of_every_table_is_read_has_an_effect_and_is_printed_back() {
    use qdisc::{codel, fifo, fq_codel, tbf};
    every_word_counts("pfifo", fifo::Params::WORDS);
    every_word_counts("bfifo", fifo::Params::WORDS);
    every_word_counts("pfifo_head_drop", fifo::Params::WORDS);
    every_word_counts("codel", codel::Params::WORDS);
    every_word_counts("fq_codel", fq_codel::Params::WORDS);
    every_word_counts("dualpi2", dualpi2::Words::WORDS);
    every_word_counts("pfifo | tbf rate 1mbit", tbf::Params::WORDS);
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
        "fq_codel ce_threshold 242us | tbf rate 1gbit",
        "fq_codel limit 1200 flows 65536 quantum 300 target 5ms noecn ce_threshold 1ms ce_threshold_selector 0x01/0x3 memory_limit 4Mb drop_batch 8",
        "dualpi2 target 15ms tupdate 16ms alpha 0.156250 beta 3.195312 step_thresh 1ms coupling_factor 2 classic_protection 10% l4s_ect",
        "dualpi2 step_thresh 8pkts min_qlen_step 1 any_ect overflow drop_enqueue no_split_gso memlimit 150000",
        "dualpi2 max_rtt 100ms typical_rtt 15ms",
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
        ("fq_codel | dualpi2", 11),
        ("fq_codel flows 65537", 15),
        ("fq_codel quantum 1048577", 17),
        ("fq_codel ce_threshold_selector 1", 31),
        ("fq_codel ce_threshold_selector 3/1", 31),
        ("fq_codel memory_limit -1", 22),
        ("dualpi2 limit 0", 14),
        ("dualpi2 memlimit 1mb", 17),
        ("dualpi2 tupdate 0", 16),
        ("dualpi2 alpha 0.001", 14),
        ("dualpi2 coupling_factor 256", 24),
        ("dualpi2 classic_protection 101", 27),
        ("dualpi2 step_thresh 3x", 20),
        ("dualpi2 step_thresh 3p step_thresh 1ms", 35),
        ("dualpi2 max_rtt 1ms typical_rtt 2ms", 0),
        ("dualpi2 max_rtt 1000s", 0),
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

#[test]
fn fq_codel_reads_tcs_zeros_and_bounds_as_the_kernel_would() {
    assert_eq!(spec("fq_codel limit 0 flows 0 quantum 0 target 0 interval 0 drop_batch 0"), spec("fq_codel"));
    assert_ne!(spec("fq_codel memory_limit 0"), spec("fq_codel"));
    assert_eq!(spec("fq_codel quantum 100"), spec("fq_codel quantum 256"));
    assert_eq!(parse("fq_codel quantum 100").unwrap().warnings.len(), 1);
    assert_eq!(spec("fq_codel memory_limit 3gb"), spec("fq_codel memory_limit 2gb"));
}

#[test]
fn round_trip_times_make_a_controller_as_the_tool_computes_it() {
    let made = |line: &str| match spec(line).stages() {
        [Stage::Dualpi2(p)] => (p.target_us, p.tupdate_us, p.alpha, p.beta),
        other => panic!("{other:?}"),
    };
    // 0.1 · 16.666 ms / (100 ms)² = 0.16666 Hz; 0.3 / 100 ms is just below 3 Hz in binary, and cut.
    assert_eq!(made("dualpi2 max_rtt 100ms"), (16_666, 16_666, 42, 767));
    assert_eq!(made("dualpi2 typical_rtt 20ms"), (20_000, 20_000, 35, 640));
    assert_eq!(made("dualpi2 max_rtt 60ms typical_rtt 50ms"), (50_000, 20_000, 142, 1280));
    let warned = parse("dualpi2 target 5ms max_rtt 100ms").unwrap().warnings;
    assert_eq!(warned, ["dualpi2: max_rtt and typical_rtt replace target"]);
}
