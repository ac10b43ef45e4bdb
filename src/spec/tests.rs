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
pub(super) fn every_word_counts(stage: &str, words: &[Word]) {
    let default = spec(stage);
    for word in words {
        let line = format!("{stage} {}", word.sample);
        reads_back(&line);
        let default_is = |name: &str| match stage {
            "codel" => name == "noecn",
            "fq_codel" => name == "ecn",
            "dualpi2" => ["drop_on_overload", "drop_dequeue", "l4s_ect", "split_gso"].contains(&name),
            "cake" => word.help.contains("(default)"),
            _ => name == "nowash",
        };
        let without_effect = default_is(word.name);
        assert_eq!(spec(&line) == default, without_effect, "{line}");
    }
}

#[test]
fn autorate_is_printed_back_and_refused_with_its_reason_where_it_cannot_be() {
    for line in [
        "cake bandwidth 20mbit autorate 2mbit 50mbit ingress",
        "cake bandwidth 20mbit autorate 20mbit 20mbit",
        "fq_codel | tbf rate 5mbit burst 5kb autorate 1mbit 9mbit",
        "tbf rate 5mbit latency 50ms peakrate 10mbit mtu 2k autorate 1mbit 9mbit",
        "pfifo mb-ecn l4s | tbf rate 5mbit autorate 1mbit 9mbit | netem delay 5ms",
    ] {
        reads_back(line);
        assert!(spec(line).range().is_some(), "{line}");
        let other = spec(line).at_rate(spec(line).range().expect("above").min);
        assert_eq!(other.to_string().matches("autorate").count(), 1);
        assert_ne!(other, spec(&line.replace("20mbit 20mbit", "19mbit 20mbit")), "another rate in force");
    }
    for (line, at, why) in [
        ("cake bandwidth 20mbit autorate 50mbit 2mbit", 38, "MIN is above MAX; write \"autorate 2mbit 50mbit\""),
        ("cake bandwidth 60mbit autorate 2mbit 50mbit", 22, "\"bandwidth 60mbit\" is not between 2mbit and 50mbit"),
        ("cake bandwidth 1mbit autorate 2mbit 50mbit", 21, "\"bandwidth 1mbit\" is not between 2mbit and 50mbit"),
        ("cake autorate 2mbit 50mbit", 5, "\"autorate\" needs a rate to start from: \"bandwidth RATE\""),
        ("cake autorate 2mbit 50mbit unlimited", 5, "\"autorate\" needs a rate to start from"),
        ("cake bandwidth 9mbit autorate 0 50mbit", 30, "a rate of 0"),
        ("cake bandwidth 9mbit autorate 2mbit", 35, "\"autorate\" needs a value"),
        ("cake bandwidth 9mbit autorate-ingress autorate 2mbit 50mbit", 38, "would both set the rate"),
        ("pfifo | tbf rate 9mbit autorate 10mbit 20mbit", 23, "\"rate 9mbit\" is not between 10mbit and 20mbit"),
        ("pfifo | tbf rate 9mbit peakrate 15mbit mtu 2k autorate 1mbit 20mbit", 46, "MAX must be lower than"),
        ("cake bandwidth 9mbit autorate 1mbit 20mbit | tbf rate 9mbit autorate 1mbit 9mbit", 45, "stands twice"),
    ] {
        let e = parse(line).expect_err(line);
        assert!(e.message.contains(why), "{line}: {e}");
        assert_eq!(e.at, at, "{line}: {e}");
    }
}

/// What is printed of stages at work, specification apart: from their state, not from their words.
fn state(line: &str) -> String {
    use crate::stats::{own, rows::rows, tc_json, tc_text};
    let stages = spec(line).build(Link::default()).stats(crate::time::Instant::ZERO);
    let rows = rows("", &stages);
    let json = |r| serde_json::to_string(&tc_json::stage(r)).expect("plain JSON");
    rows.iter().map(|r| tc_text::stage(r) + &own::lines(r.stats) + &json(r)).collect()
}

/// Every word of a table that changes a parameter changes what is printed of the state.
fn every_word_shows(stage: &str, words: &[Word]) {
    let default = state(stage);
    let hidden: Vec<&str> = words
        .iter()
        .filter(|word| {
            let line = format!("{stage} {}", word.sample);
            spec(&line) != spec(stage) && state(&line) == default
        })
        .map(|w| w.name)
        .collect();
    assert!(hidden.is_empty(), "{stage}: nothing is to be seen of {hidden:?}");
}

#[test]
fn every_word_of_every_table_shows_in_the_state_that_is_printed() {
    use qdisc::{cake, codel, fifo, fq_codel, htb, netem, tbf};
    every_word_shows("cake", cake::Params::WORDS);
    every_word_shows("pfifo", fifo::Params::WORDS);
    every_word_shows("bfifo", fifo::Params::WORDS);
    every_word_shows("pfifo_head_drop", fifo::Params::WORDS);
    every_word_shows("codel", codel::Params::WORDS);
    every_word_shows("fq_codel", fq_codel::Params::WORDS);
    every_word_shows("dualpi2", dualpi2::Words::WORDS);
    every_word_shows("tbf rate 1mbit limit 50k", tbf::Params::WORDS);
    every_word_shows("htb rate 1mbit", htb::Params::WORDS);
    every_word_shows("netem", netem::Params::WORDS);
}

#[test]
fn every_word_of_every_table_is_read_has_an_effect_and_is_printed_back() {
    use qdisc::{cake, codel, fifo, fq_codel, htb, netem, tbf};
    every_word_counts("cake", cake::Params::WORDS);
    every_word_counts("pfifo", fifo::Params::WORDS);
    every_word_counts("bfifo", fifo::Params::WORDS);
    every_word_counts("pfifo_head_drop", fifo::Params::WORDS);
    every_word_counts("codel", codel::Params::WORDS);
    every_word_counts("fq_codel", fq_codel::Params::WORDS);
    every_word_counts("dualpi2", dualpi2::Words::WORDS);
    every_word_counts("pfifo | tbf rate 1mbit", tbf::Params::WORDS);
    every_word_counts("htb rate 1mbit", htb::Params::WORDS);
    every_word_counts("netem", netem::Params::WORDS);
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
        "netem limit 5k delay 25ms 1ms 25% distribution normal ordered | codel ce_threshold 242us | htb rate 1gbit",
        "htb rate 20mbit ceil 50mbit burst 15k cburst 3k overhead 24 mpu 84 quantum 3000 prio 1",
        "netem loss state 1% 90% 10% 80% 0.5% ecn duplicate 1% 3% corrupt 0.1% 5% seed 18446744073709551615",
        "netem delay 10ms 3ms 9% reorder 25% 50% gap 5 rate 8mbit -14 48 5",
        "netem delay 0 1ms",
        "netem slot distribution pareto 1ms 100us packets 5 bytes 64k",
        "netem slot distribution uniform 1ms 100us",
        "netem loss 1% 25%",
        "netem loss gemodel 1%",
        "cake bandwidth 10mbit mb-ecn dtp",
        "codel mb-ecn l4s limit 100 | tbf rate 100mbit",
        "fq_codel mb-ecn dtp ethertype 0xa001 flow 02:00:00:00:00:01/02:00:00:00:00:02/66 mb-ecn hbh mark-at enqueue depth total max 32 limit 50",
        "codel | tbf rate 10mbit | netem delay 10ms | tbf rate 1gbit limit 1m",
        "fq_codel ce_threshold 242us | tbf rate 1gbit",
        "fq_codel limit 1200 flows 65536 quantum 300 target 5ms noecn ce_threshold 1ms ce_threshold_selector 0x01/0x3 memory_limit 4Mb drop_batch 8",
        "dualpi2 target 15ms tupdate 16ms alpha 0.156250 beta 3.195312 step_thresh 1ms coupling_factor 2 classic_protection 10% l4s_ect",
        "dualpi2 step_thresh 8pkts min_qlen_step 1 any_ect overflow drop_enqueue no_split_gso memlimit 150000",
        "dualpi2 max_rtt 100ms typical_rtt 15ms",
        "cake bandwidth 10mbit sce_threshold 500us 2ms ce_threshold 5ms",
        "codel target 2199s interval 0x64",
        "codel sce_threshold 500us ce_threshold 2ms | tbf rate 1gbit",
        "fq_codel sce_threshold 1ms 5ms ce_threshold 10ms ce_threshold_selector 0xb8/0xfc",
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
        ("codel sce_threshold 5ms 5ms", 24),
        ("codel target 2200s", 13),
        ("fq_codel interval 4000s", 18),
        ("fq_codel ce_threshold 2200s", 22),
        ("cake sce_threshold 1ms ce_threshold 2ms ce_threshold_selector 0x1/0x3", 0),
        ("fq_codel ce_threshold 1ms ce_threshold_selector 1/3 | tbf rate 1mbit | codel sce_threshold 1ms", 71),
        ("codel sce_threshold", 19),
        ("fq_codel sce_threshold 1ms ce_threshold_selector 1/3", 0),
        ("codel sce_threshold 1ms | tbf rate 1mbit | dualpi2", 43),
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
        ("netem delay 1ms | tbf rate 1mbit", 18),
        ("htb ceil 1mbit", 0),
        ("htb rate 2mbit ceil 1mbit", 0),
        ("netem limit 0", 0),
        ("netem loss 0% loss gemodel 1%", 14),
        ("netem loss 101%", 11),
        ("netem ecn", 0),
        ("netem loss 0% ecn", 0),
        ("netem delay -5ms", 12),
        ("netem delay 5ms -1ms", 16),
        ("netem reorder 5%", 0),
        ("netem delay 1ms gap 5", 0),
        ("netem delay 1ms distribution normal", 0),
        ("netem delay 2ms 1ms distribution gauss", 33),
        ("netem delay 2ms 1ms distribution /nonexistent/table", 33),
        ("netem loss state 60% 10% 0% 0% 50%", 31),
        ("netem loss state 60% 60% 50%", 25),
        ("netem rate 10%", 11),
        ("netem rate 1mbit 20 -48", 20),
        ("netem rate 1mbit 20 48 -48", 23),
        ("netem slot 2ms 1ms", 15),
        ("netem slot distribution normal 1ms 0", 35),
        ("netem slot 1ms bytes 5 packets 5", 23),
        ("netem seed -1", 11),
        ("netem ordered", 0),
        ("codel mb-ecn", 12),
        ("codel mb-ecn dpt", 13),
        ("codel mb-ecn dtp mb-ecn dtp", 24),
        ("codel mb-ecn l4s trust-all", 17),
        ("codel mb-ecn dtp addr-size 9", 27),
        ("codel mb-ecn dtp flow 1/2/3", 22),
        ("codel mb-ecn dtp ethertype 5", 27),
        ("codel sce_threshold 1ms mb-ecn l4s", 0),
        ("codel mb-ecn l4s lmit 5", 17),
        ("pfifo | tbf rate 1mbit mb-ecn dtp", 23),
        ("netem delay 1ms mb-ecn hbh", 16),
        ("netem delay .5ms 1ms .25", 21),
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

fn warned(line: &str) -> Vec<String> {
    parse(line).unwrap_or_else(|e| panic!("{}", e.render(line))).warnings
}

#[test]
fn every_word_of_mb_ecn_is_read_has_an_effect_and_is_printed_back() {
    for word in mb_ecn::WORDS {
        let line = format!("pfifo mb-ecn {}", word.sample);
        let carrier = word.sample.split(' ').next().unwrap_or_default();
        reads_back(&line);
        assert_ne!(spec(&line), spec(&format!("pfifo mb-ecn {carrier}")), "{line}");
    }
}

#[test]
fn a_beginning_of_a_word_names_the_whole() {
    for (line, word) in
        [("netem d 5ms", "delay"), ("netem lo 1%", "loss"), ("netem li 5", "limit"), ("netem se 5", "seed")]
    {
        assert_eq!(parse(line).unwrap_err().nearest.as_deref(), Some(word), "{line}");
    }
}

#[test]
fn a_limit_below_what_is_under_way_is_said_with_the_number() {
    let only = |line: &str| {
        let w = warned(line);
        assert_eq!(w.len(), 1, "{line}: {w:?}");
        w.into_iter().next().unwrap()
    };
    let w = only("netem delay 25ms | codel | tbf rate 1gbit");
    assert!(w.contains("limit 1000") && w.contains("1gbit for 25ms") && w.contains("\"limit 2066\""), "{w}");
    assert!(only("netem delay 200ms rate 1gbit").contains("limit 16514"));
    assert!(warned("netem limit 2066 delay 25ms | codel | tbf rate 1gbit").is_empty());
    assert!(warned("netem delay 25ms | codel | tbf rate 100mbit").is_empty());
    assert!(warned("netem delay 25ms | codel").is_empty(), "without a rate there is nothing to count with");
    let port = Some(Rate::from_bits_per_second(10_000_000_000));
    assert_eq!(spec("netem delay 25ms | codel").short_limits(1514, port).len(), 1);
}

#[test]
fn frames_for_delays_are_counted_and_refused_with_the_arithmetic() {
    let far = spec("netem delay 500ms | codel | tbf rate 1gbit");
    assert_eq!(far.frames_needed(1514, None), 41_283);
    assert_eq!(spec("codel | tbf rate 1gbit").frames_needed(1514, None), 0);
    assert_eq!(spec("netem delay 1ms limit 5000 | pfifo | tbf rate 1gbit").frames_needed(1514, None), 5000);
    assert_eq!(far.fit(41_283, 4096, 1514, None), Ok(()));
    let why = far.fit(16_384, 4096, 1514, None).unwrap_err();
    for part in ["41283 frames", "1gbit for 500ms", "162 MiB", "16384 (64 MiB)"] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_queue_that_a_delay_would_drain_is_warned_about() {
    assert!(warned("codel | netem rate 10mbit")[0].contains("will never queue"));
    assert!(warned("codel | tbf rate 10mbit | netem delay 10ms").is_empty());
}

#[test]
fn what_netem_does_not_do_as_one_may_think_is_said() {
    for (line, part) in [
        ("netem delay 100", "read as 100us"),
        ("netem slot 800000", "read as 800000ns"),
        ("netem delay 10ms 20ms", "(25.0 % of them)"),
        ("netem delay 2s 1s", "not quite even"),
        ("netem delay 10s 3s", "cut to 2147483647ns"),
        ("netem delay 10ms 1ms 25%", "no effect"),
        ("netem loss 1% 25%", "0.00 %"),
        ("netem loss 5% 10%", "1.2"),
        ("netem delay 1ms delay 2ms", "given twice"),
    ] {
        assert!(warned(line).iter().any(|w| w.contains(part)), "{line}: {:?}", warned(line));
    }
    assert!(warned("netem delay 10ms 1ms loss 1% duplicate 1% corrupt 1%").is_empty());
}

#[test]
fn the_loss_of_a_model_in_the_long_run_is_known() {
    let loss = |line: &str| match spec(line).stages()[0].clone() {
        Stage::Netem(p) => p.loss.long_run(),
        other => panic!("{other}"),
    };
    assert!((loss("netem loss 10%") - 0.1).abs() < 1e-9);
    assert!((loss("netem loss gemodel 1% 10%") - 0.01 / 0.11).abs() < 1e-8);
    // Four states that are two: in and out of a lossy burst.
    assert!((loss("netem loss state 1% 10%") - 0.01 / 0.11).abs() < 1e-8);
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

#[test]
fn behind_the_bottleneck_cake_counts_what_it_drops_and_other_stages_stay_as_they_are() {
    let behind = |line: &str| parse(line).expect(line).spec.behind_the_bottleneck();
    let same = |line: &str| parse(line).expect(line).spec;
    assert_eq!(behind("cake bandwidth 9mbit"), same("cake bandwidth 9mbit ingress"));
    assert_eq!(behind("cake bandwidth 9mbit mb-ecn l4s"), same("cake bandwidth 9mbit ingress mb-ecn l4s"));
    assert_eq!(behind("codel | tbf rate 9mbit burst 5k"), same("codel | tbf rate 9mbit burst 5k"));
}

#[test]
fn what_is_hardly_ever_meant_is_said() {
    for (line, why) in [
        ("cake bandwidth 50", "at 48bit a frame of 1514 bytes takes 252 s; a rate without a unit"),
        ("pfifo limit 0", "\"limit 0\" drops every packet"),
        ("fq_codel memory_limit 0", "\"memory_limit 0\" drops"),
        ("pfifo limit 9 | tbf rate 10mbit burst 1500", "longer than the burst of 1500 bytes are dropped"),
        ("codel target 0", "codel: \"target 0\" changes nothing"),
        ("fq_codel flows 0", "fq_codel: \"flows 0\" changes nothing"),
    ] {
        let said = warned(line);
        assert!(said.len() == 1 && said[0].contains(why), "{line}: {said:?}");
    }
    assert!(warned("cake bandwidth 64kbit").is_empty());
}

#[test]
fn a_link_that_is_no_file_says_what_is_meant_by_link() {
    for line in ["link rate 10mbit", "link /dev/zero"] {
        assert!(parse(line).expect_err(line).message.contains("tbf rate 10mbit"), "{line}");
    }
}
