//! Files are read back by the histogram's own reader, or against the documented layout.

use base64::Engine;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::*;

fn ramp(n: u64) -> Histogram<u64> {
    let mut h = empty();
    (1..=n).for_each(|ms| h.saturating_record(ms * MILLISECOND));
    h
}

#[test]
fn what_is_longer_than_the_longest_counts_as_that() {
    let mut s = Sojourns::new();
    s.record(u64::MAX, 3 * LONGEST, 7);
    assert_eq!([s.decision.len(), s.total.len()], [1, 1]);
    assert!(s.decision.max() >= LONGEST && s.decision.max() < LONGEST * 2);
}

#[test]
fn a_packet_counts_in_its_tin_and_in_its_direction() {
    let mut s = Sojourns::with_tins(3);
    s.record(5, 9, 2);
    s.record(6, 9, 0);
    let lens = |s: &Sojourns| s.tins.iter().map(Histogram::len).collect::<Vec<_>>();
    assert_eq!((s.decision.len(), lens(&s)), (2, vec![1, 0, 1]));
    let mut sum = Sojourns::new();
    sum.add(&s);
    sum.add(&s);
    assert_eq!((sum.decision.len(), lens(&sum)), (4, vec![2, 0, 2]));
    s.reset();
    assert_eq!((s.decision.len(), lens(&s)), (0, vec![0, 0, 0]));
}

#[test]
fn recording_never_takes_more_memory() {
    let mut h = empty();
    let before = h.distinct_values();
    [1, MILLISECOND, SECOND, LONGEST, u64::MAX].iter().for_each(|v| h.saturating_record(*v));
    assert_eq!(h.distinct_values(), before);
    assert!(!h.is_auto_resize());
}

#[test]
fn tags_have_neither_spaces_nor_commas() {
    let tins = [("Best Effort".to_string(), 1), ("Voice".to_string(), 2)];
    let s = Sojourns::with_tins(3);
    let names: Vec<_> = tagged("down", &s, true, &tins).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["down", "down/total", "down/best-effort", "down/voice"]);
    assert!(names.iter().all(|n| Tag::new(n).is_some()));
}

#[test]
fn an_interval_log_is_read_back_by_the_librarys_own_reader() {
    let start = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    let mut file = Vec::new();
    let mut log = IntervalLog::begin(&mut file, start, &["weir test".to_string()]).unwrap();
    let recorded = [("down", ramp(100)), ("up", ramp(3)), ("down/best-effort", empty())];
    for second in 0..2 {
        for (tag, h) in &recorded {
            log.write(tag, Duration::from_secs(second), Duration::from_millis(1001), h).unwrap();
        }
    }
    log.flush().unwrap();

    let mut lines = Vec::new();
    let (mut started, mut based) = (None, None);
    for entry in IntervalLogIterator::new(&file) {
        match entry.expect("a line that can be read") {
            LogEntry::StartTime(t) => started = Some(t),
            LogEntry::BaseTime(t) => based = Some(t),
            LogEntry::Interval(i) => lines.push(i),
        }
    }
    assert_eq!(started, Some(Duration::from_millis(1_700_000_000_250)));
    assert_eq!(based, started);
    assert_eq!(lines.len(), 6);
    for (i, line) in lines.iter().enumerate() {
        let (tag, wanted) = &recorded[i % 3];
        assert_eq!(line.tag().map(|t| t.as_str()), Some(*tag));
        assert_eq!(line.start_timestamp(), Duration::from_secs(i as u64 / 3));
        assert_eq!(line.duration(), Duration::from_millis(1001));
        let bytes = base64::engine::general_purpose::STANDARD.decode(line.encoded_histogram()).unwrap();
        let got: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(&got, wanted);
        assert!((line.max() - wanted.max() as f64 / MILLISECOND as f64).abs() < 0.001);
    }
    // HdrHistogram's own tools read compressed version 2 only: cookie 0x1c849304.
    assert!(lines.iter().all(|l| l.encoded_histogram().starts_with("HISTFAAAA")));
}

#[test]
fn a_tag_that_would_break_the_line_is_refused() {
    let mut log = IntervalLog::begin(Vec::new(), SystemTime::UNIX_EPOCH, &[]).unwrap();
    for tag in ["", "best effort", "a,b", "a\nb"] {
        let refused = log.write(tag, Duration::ZERO, Duration::ZERO, &empty()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{tag:?}");
    }
}

#[test]
fn percentiles_are_in_the_layout_of_the_plotters() {
    let mut h = empty();
    [25, 50, 75].iter().for_each(|us| h.saturating_record(us * 1000));
    let mut out = Vec::new();
    write_hgrm(&mut out, &h).unwrap();
    let text = String::from_utf8(out).unwrap();
    let expected = "       Value     Percentile TotalCount 1/(1-Percentile)

    0.025007 0.000000000000          1           1.00
    0.025007 0.100000000000          1           1.11
    0.025007 0.200000000000          1           1.25
    0.025007 0.300000000000          1           1.43
    0.050015 0.400000000000          2           1.67
    0.050015 0.500000000000          2           2.00
    0.050015 0.550000000000          2           2.22
    0.050015 0.600000000000          2           2.50
    0.050015 0.650000000000          2           2.86
    0.075007 0.700000000000          3           3.33
    0.075007 1.000000000000          3
#[Mean    =     0.049992, StdDeviation   =     0.020403]
#[Max     =     0.075007, Total count    =            3]
#[Buckets =           27, SubBuckets     =         2048]
";
    assert_eq!(text, expected);
}

#[test]
fn an_empty_histogram_makes_a_file_too() {
    let mut out = Vec::new();
    write_hgrm(&mut out, &empty()).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("#[Max     =     0.000000, Total count    =            0]"), "{text}");
}
