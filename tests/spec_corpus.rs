//! The fuzz corpus of specifications, run once by the ordinary compiler.

use std::path::Path;

#[path = "../fuzz/bodies/spec.rs"]
mod body;

fn lines() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/spec");
    let read = |e: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(e.unwrap().path()).unwrap();
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

#[test]
fn what_must_hold_for_any_line_holds_for_the_corpus() {
    let accepted = lines().iter().filter(|l| body::run(l)).count();
    assert!(accepted >= 8, "only {accepted} lines of the corpus are specifications");
}

#[test]
fn what_must_hold_for_any_line_holds_with_a_word_left_out_doubled_or_cut() {
    for line in lines() {
        let words: Vec<&str> = line.split(' ').collect();
        for n in 0..words.len() {
            body::run(&[&words[..n], &words[n + 1..]].concat().join(" "));
            body::run(&[&words[..=n], &words[n..]].concat().join(" "));
        }
        for (at, _) in line.char_indices() {
            body::run(&line[..at]);
        }
    }
}
