//! What libbpf says beside its results: kept, and told only together with an error. Much of it is chatter, such as a note
//! on netlink attributes that older libraries do not know; the rest is the verifier's reason, which must not be lost.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;

/// Lines that are kept: a verifier's log ends with its reason.
const KEPT: usize = 20;

static SAID: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// From now on libbpf speaks to us and not to standard error.
pub(crate) fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| note(&text))));
}

fn note(text: &str) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() == KEPT {
        said.pop_front();
    }
    said.push_back(text.trim_end().to_owned());
}

/// What it has said since the last time, with a line break before each line.
pub(crate) fn take() -> String {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.drain(..).map(|line| format!("\n{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_told_once() {
        for n in 0..KEPT + 5 {
            note(&format!("line {n}\n"));
        }
        assert!(take().starts_with("\nline 5\nline 6\n"));
        assert_eq!(take(), "");
    }
}
