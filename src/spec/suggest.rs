//! "Did you mean": the nearest keyword.

/// The candidate with the smallest edit distance to `word`, if that is close enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (word.chars().count() / 2).max(1);
    candidates
        .into_iter()
        .map(|c| (distance(word, c), c))
        .filter(|(d, _)| *d <= reach)
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// What a message goes on with when a word is not known: the nearest of those that are, or nothing.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, did_you_mean)
}

/// The same for a word that was found before.
pub(super) fn did_you_mean(nearest: &str) -> String {
    format!("; did you mean \"{nearest}\"?")
}

/// Edit distance with insertion, deletion, replacement and exchange of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word_and_nonsense_finds_none() {
        let words = ["ingress", "interval", "target", "limit"];
        assert_eq!(nearest("ingres", words), Some("ingress"));
        assert_eq!(nearest("taregt", words), Some("target"));
        assert_eq!(nearest("xyzzy", words), None);
    }
}
