//! What must hold for any line as a specification. Run by the fuzz target of the same name, and by
//! `tests/spec_corpus.rs` over the corpus.

/// Panics if anything does not hold. Gives whether the line was accepted.
pub(crate) fn run(line: &str) -> bool {
    match weir::spec::parse(line) {
        Ok(parsed) => {
            let printed = parsed.spec.to_string();
            match weir::spec::parse(&printed) {
                Ok(again) => {
                    assert_eq!(again.spec, parsed.spec, "{line:?} prints as {printed:?}");
                    assert_eq!(again.spec.to_string(), printed, "{line:?}");
                }
                Err(e) => panic!("{line:?} prints as what is refused:\n{}", e.render(&printed)),
            }
            true
        }
        Err(e) => {
            assert!(e.at <= line.len() && line.is_char_boundary(e.at), "{line:?}: {e:?}");
            assert!(!e.message.is_empty());
            assert!(e.render(line).starts_with(line));
            if let Some(word) = &e.nearest {
                assert!(e.allowed.contains(word), "{line:?} suggests {word:?}, which is not allowed there");
            }
            false
        }
    }
}
