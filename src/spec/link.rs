//! Words of `link`, and the two kinds of file it reads (`spec/netem.md` §13 and §14).

use super::lex::{Cursor, Token};
use super::{Grammar, SpecError, Word, units};
use crate::qdisc::link::{Ending, OPPORTUNITY, Params, Record, Table};
use crate::units::Rate;

/// Reads a `link` stage, and its file.
pub(super) fn read(stage: Token<'_>, args: &mut Cursor<'_>, warnings: &mut Vec<String>) -> Result<Params, SpecError> {
    let Some(file) = args.next_word() else {
        return Err(SpecError::new(stage.at, stage.text.len(), "link needs a file: \"link FILE\""));
    };
    let refuse = |why: String| SpecError::new(file.at, file.text.len(), why);
    let what = "link takes a file of a recorded link; a constant rate is \"tbf rate 10mbit burst 5k\"";
    match std::fs::metadata(file.text) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return Err(refuse(format!("{} is no regular file; {what}", file.text))),
        Err(e) => return Err(refuse(format!("{}: {e}; {what}", file.text))),
    }
    let text = std::fs::read_to_string(file.text).map_err(|e| refuse(format!("{}: {e}", file.text)))?;
    let record = record(&text).map_err(|why| refuse(format!("{}{why}", file.text)))?;
    let is_table = matches!(record, Record::Table(_));
    let params = Params::new(file.text, record).read("link", args, warnings)?;
    let default = Params { overhead: params.overhead, frame: params.frame, ..params.clone() };
    let for_opportunities = params.once || params.smooth || params.bytes != OPPORTUNITY;
    if is_table && for_opportunities {
        return Err(refuse(format!(
            "{} is a table of rates; \"once\", \"bytes\" and \"smooth\" are for files of opportunities",
            default.file
        )));
    }
    Ok(params)
}

impl Grammar for Params {
    const WORDS: &'static [Word] = &[
        Word { name: "once", args: "", sample: "once", help: "the link is dead after the last line; default loops" },
        Word { name: "bytes", args: "N", sample: "bytes 1504", help: "bytes in an opportunity; default 1500" },
        Word { name: "overhead", args: "N", sample: "overhead 4", help: "bytes added to each packet, 0…65535" },
        Word {
            name: "frame",
            args: "",
            sample: "frame",
            help: "charges the whole frame; default what follows the Ethernet header",
        },
        Word { name: "smooth", args: "", sample: "smooth", help: "spreads opportunities of one millisecond over it" },
    ];

    fn word(&mut self, name: &str, args: &mut Cursor<'_>, _: &mut Vec<String>) -> Result<(), SpecError> {
        match name {
            "once" => self.once = true,
            "bytes" => {
                self.bytes = args.arg(|w| match units::size(w)? {
                    0 => Err("an opportunity of 0 bytes is none".into()),
                    n => Ok(n),
                })?;
            }
            "overhead" => self.overhead = args.arg(units::integer(0..=65535))? as u16,
            "frame" => self.frame = true,
            "smooth" => self.smooth = true,
            _ => return Err(args.unknown("link", &Self::allowed())),
        }
        Ok(())
    }

    fn words(&self) -> String {
        let mut out = self.file.clone();
        if self.once {
            out += " once";
        }
        if self.bytes != OPPORTUNITY {
            out += &format!(" bytes {}", units::show_size(self.bytes));
        }
        if self.overhead != 0 {
            out += &format!(" overhead {}", self.overhead);
        }
        if self.frame {
            out += " frame";
        }
        if self.smooth {
            out += " smooth";
        }
        out
    }
}

/// What a file says; the error begins with the place in it.
fn record(text: &str) -> Result<Record, String> {
    let mut lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).collect();
    // One empty line at the end is what editors leave there.
    if lines.last().is_some_and(|(_, l)| l.is_empty()) {
        lines.pop();
    }
    lines.retain(|(_, l)| !l.starts_with('#'));
    let Some((_, first)) = lines.first() else { return Err(": nothing in it".into()) };
    match first.split_whitespace().count() {
        2 => table(&lines).map(Record::Table),
        _ => opportunities(&lines).map(|m| Record::Opportunities(m.into())),
    }
}

/// The longest stamp, ms: 1000 hours.
const LONGEST: u64 = 3_600_000_000;

fn opportunities(lines: &[(usize, &str)]) -> Result<Vec<u64>, String> {
    let mut out: Vec<u64> = Vec::with_capacity(lines.len());
    for (n, line) in lines {
        let digits = !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit());
        let stamp = line.parse().ok().filter(|s| digits && *s <= LONGEST);
        let stamp =
            stamp.ok_or(format!(", line {n}: \"{line}\" is not a whole number of milliseconds up to {LONGEST}"))?;
        if out.last().is_some_and(|last| *last > stamp) {
            return Err(format!(", line {n}: {stamp} is earlier than the line before"));
        }
        out.push(stamp);
    }
    if out.last() == Some(&0) {
        return Err(": all its lines say 0, so it has no length".into());
    }
    Ok(out)
}

fn table(lines: &[(usize, &str)]) -> Result<Table, String> {
    let mut rates: Vec<(u64, Rate)> = Vec::new();
    let mut ending = Ending::Holds;
    for (i, (n, line)) in lines.iter().enumerate() {
        let at = |why: String| format!(", line {n}: {why}");
        let [time, rate] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(at(format!("\"{line}\" is not \"TIME RATE\"")));
        };
        let time = units::time_ns(time, crate::time::SECOND).map_err(at)?;
        if rates.last().map_or(time != 0, |(last, _)| *last >= time) {
            let why = if rates.is_empty() { "the first time must be 0" } else { "times must ascend" };
            return Err(at(why.into()));
        }
        match rate {
            "loop" | "end" if i + 1 < lines.len() => {
                return Err(at(format!("\"{rate}\" stands in the last line only")));
            }
            "loop" | "end" if rates.is_empty() => return Err(at("a rate is missing before it".into())),
            "loop" => ending = Ending::Loops(time),
            "end" => ending = Ending::Ends(time),
            _ => rates.push((time, units::rate_or_zero(rate).map_err(at)?)),
        }
    }
    Table::new(&rates, ending).map_err(|why| format!(": {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::{parse, tests::every_word_counts};
    use super::*;

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("weir-link-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a plain name").to_string()
    }

    #[test]
    fn every_word_is_read_has_an_effect_and_is_printed_back() {
        let path = file("words", "1\n2\n2\n5\n");
        every_word_counts(&format!("pfifo | link {path}"), Params::WORDS);
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn files_of_opportunities_are_read_as_mahimahi_writes_them() {
        assert_eq!(record("# cellular\n0\n3\n3\n7\n"), Ok(Record::Opportunities([0, 3, 3, 7].into())));
        assert_eq!(record("5\n\n"), Ok(Record::Opportunities([5].into())), "one empty line at the end");
        for (text, place) in [
            ("", ": nothing"),
            ("# only\n", ": nothing"),
            ("0\n0\n", ": all its lines"),
            ("1\n\n\n", ", line 2"),
            ("1\nx\n", ", line 2"),
            ("1\n-2\n", ", line 2"),
            ("1\n+2\n", ", line 2"),
            ("3\n2\n", ", line 2: 2 is earlier"),
            ("1\n2 3 4\n", ", line 2"),
            ("99999999999\n", ", line 1"),
        ] {
            let why = record(text).expect_err(text);
            assert!(why.starts_with(place), "{text:?}: {why}");
        }
    }

    #[test]
    fn tables_of_rates_are_read_with_units_or_in_seconds() {
        let rate = Rate::from_bits_per_second;
        let expected = |ending| {
            let lines = [(0, rate(1_000_000)), (1_500_000_000, rate(0)), (2_000_000_000, rate(5_000_000_000))];
            Ok(Record::Table(Table::new(&lines, ending).expect("a table")))
        };
        assert_eq!(record("0 1mbit\n1.5 0\n2s 5gbit\n"), expected(Ending::Holds));
        assert_eq!(record("0 1mbit\n1500ms 0bit\n2 5gbit\n3s loop\n"), expected(Ending::Loops(3_000_000_000)));
        assert_eq!(record("0 1mbit\n1500ms 0\n2 5gbit\n3000ms end\n"), expected(Ending::Ends(3_000_000_000)));
        for (text, place) in [
            ("1 1mbit\n", ", line 1: the first"),
            ("0 1mbit\n0 2mbit\n", ", line 2: times"),
            ("0 1mbit\n1\n", ", line 2"),
            ("0 1mbit\n1 x\n", ", line 2"),
            ("0 1mbit\n1 loop\n2 1mbit\n", ", line 2"),
            ("0 loop\n", ", line 1"),
            ("0 0\n1 loop\n", ": a loop"),
        ] {
            let why = record(text).expect_err(text);
            assert!(why.starts_with(place), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_link_without_its_file_or_with_words_of_the_other_kind_is_refused() {
        let path = file("table", "0 1mbit\n");
        for (line, at) in [
            ("pfifo | link".to_string(), 8),
            ("pfifo | link /nonexistent/trace".to_string(), 13),
            (format!("pfifo | link {path} once"), 13),
            (format!("pfifo | link {path} bytes 1504"), 13),
            (format!("pfifo | link {path} smoth"), 14 + path.len()),
        ] {
            assert_eq!(parse(&line).expect_err(&line).at, at, "{line}");
        }
        let alone = parse(&format!("link {path}")).expect("a link without a queue");
        assert!(alone.warnings[0].contains("without a limit"), "{:?}", alone.warnings);
        std::fs::remove_file(path).expect("it was there");
    }
}
