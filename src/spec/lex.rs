//! A line of words, each with the column it stands in.

use super::SpecError;
use super::suggest::nearest;

/// One word and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word.
    pub text: &'a str,
    /// Byte offset of its first character in the line.
    pub at: usize,
}

/// Splits a line at white space; `|` is a word of its own even without space around it.
pub fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut start = None;
    let flush = |start: &mut Option<usize>, end: usize, out: &mut Vec<_>| {
        if let Some(s) = start.take() {
            out.push(Token { text: &line[s..end], at: s });
        }
    };
    for (i, c) in line.char_indices() {
        if c.is_whitespace() || c == '|' {
            flush(&mut start, i, &mut out);
            if c == '|' {
                out.push(Token { text: &line[i..i + 1], at: i });
            }
        } else if start.is_none() {
            start = Some(i);
        }
    }
    flush(&mut start, line.len(), &mut out);
    out
}

/// The words of one stage, read from left to right.
#[derive(Debug)]
pub struct Cursor<'a> {
    words: &'a [Token<'a>],
    end: usize,
    last: Token<'a>,
}

impl<'a> Cursor<'a> {
    /// Reads `words`; `end` is where the stage ends, for errors about what is missing.
    pub fn new(words: &'a [Token<'a>], end: usize) -> Self {
        Cursor { words, end, last: Token { text: "", at: end } }
    }

    /// The next word, if there is one.
    pub fn next_word(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        self.last = *first;
        Some(*first)
    }

    /// The next word, left in place.
    pub fn peek(&self) -> Option<Token<'a>> {
        self.words.first().copied()
    }

    /// The argument of the keyword just read, through `read`, which says what is wrong with it.
    ///
    /// # Errors
    /// If there is none, or `read` refuses it.
    pub fn arg<T>(&mut self, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, SpecError> {
        let keyword = self.last;
        self.value(keyword.text, read)
    }

    /// The next word as a value of `keyword`, which may stand further back than one word.
    ///
    /// # Errors
    /// As [`Cursor::arg`].
    pub fn value<T>(&mut self, keyword: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, SpecError> {
        let Some(word) = self.next_word() else {
            return Err(SpecError::new(self.end, 1, format!("\"{keyword}\" needs a value")));
        };
        read(word.text).map_err(|why| SpecError::new(word.at, word.text.len(), format!("illegal \"{keyword}\": {why}")))
    }

    /// Whether the next word begins with a digit: how tc tells an optional value from a keyword.
    pub fn begins_with_digit(&self) -> bool {
        self.peek().is_some_and(|w| w.text.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Like [`Cursor::arg`], but only if the next word can be read as such a value.
    pub fn optional<T>(&mut self, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let value = read(self.peek()?.text).ok()?;
        self.next_word();
        Some(value)
    }

    /// Where a word stands among those not yet read.
    pub fn find(&self, word: &str) -> Option<usize> {
        self.words.iter().find(|w| w.text == word).map(|w| w.at)
    }

    /// Where the word just read stands.
    pub fn at(&self) -> usize {
        self.last.at
    }

    /// An error about the word just read.
    pub fn refuse(&self, why: impl Into<String>) -> SpecError {
        SpecError::new(self.last.at, self.last.text.len(), why)
    }

    /// The error for a word that no table knows.
    pub fn unknown(&self, stage: &str, allowed: &[&str]) -> SpecError {
        let mut e = self.refuse(format!("\"{}\" is not a word of {stage}", self.last.text));
        e.allowed = allowed.iter().map(|s| s.to_string()).collect();
        e.nearest = nearest(self.last.text, allowed.iter().copied()).map(str::to_string);
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_a_word_with_or_without_space() {
        let words: Vec<_> = tokens("codel|tbf  rate 1gbit ").into_iter().map(|t| (t.text, t.at)).collect();
        assert_eq!(words, [("codel", 0), ("|", 5), ("tbf", 6), ("rate", 11), ("1gbit", 16)]);
    }
}
