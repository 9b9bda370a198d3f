//! "Did you mean …?": the most similar of the allowed names.

/// Returns the name that is most similar to `word`, with at most one edit in three characters.
/// Edits are insertions, deletions, substitutions and transpositions; case is ignored.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    near(word, names, 1).into_iter().next()
}

/// Returns up to `most` distinct names as [`nearest`] does, most similar first.
pub fn near<'n>(word: &str, names: impl IntoIterator<Item = &'n str>, most: usize) -> Vec<&'n str> {
    let word = word.to_ascii_lowercase();
    // The distance takes quadratic time. All names are short, so a long word is similar to none.
    if word.len() > 40 {
        return Vec::new();
    }
    let allowed = (word.chars().count() / 3).max(1);
    let measured = names
        .into_iter()
        .map(|name| (distance(&word, &name.to_ascii_lowercase()), name));
    let mut near: Vec<(usize, &str)> = measured
        .filter(|(changes, _)| *changes <= allowed)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(most).map(|(_, name)| name).collect()
}

/// Returns the edit distance of two words (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before_previous: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (row, &l) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &r) in right.iter().enumerate() {
            let replaced = previous[column] + usize::from(l != r);
            let mut least = replaced
                .min(previous[column + 1] + 1)
                .min(current[column] + 1);
            let swapped = row > 0 && column > 0 && l == right[column - 1] && left[row - 1] == r;
            if swapped {
                least = least.min(before_previous[column - 1] + 1);
            }
            current.push(least);
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    previous[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_has_a_similar_name_and_an_unrelated_word_has_none() {
        let names = ["subject", "object", "relation", "confidence"];
        assert_eq!(nearest("subjct", names), Some("subject"));
        assert_eq!(nearest("Confidance", names), Some("confidence"));
        assert_eq!(nearest("ojbect", names), Some("object"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest(&"x".repeat(10_000), names), None);
    }

    #[test]
    fn distance_counts_the_four_kinds_of_edits() {
        for (left, right, changes) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("abc", "axc", 1),
        ] {
            assert_eq!(distance(left, right), changes, "{left} {right}");
            assert_eq!(distance(right, left), changes, "{right} {left}");
        }
    }
}
