//! Alignment of two arrays: which item of the new array corresponds to which of the old one.

use gristmill_schemas::json::Json;

/// The largest product of the array lengths for which items are paired by similarity; above it they
/// are paired by index.
const PAIR_LIMIT: usize = 1 << 14;

/// Returns pairs of indices, both ascending: the old item at the first corresponds to the new item
/// at the second.
pub(super) fn align(old: &[Json], new: &[Json]) -> Vec<(usize, usize)> {
    let head = common_prefix(old.iter().zip(new));
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = common_prefix(old_rest.iter().rev().zip(new_rest.iter().rev()));
    let (old_rest, new_rest) = (
        &old_rest[..old_rest.len() - tail],
        &new_rest[..new_rest.len() - tail],
    );
    let heads = (0..head).map(|index| (index, index));
    let middle = align_middle(old_rest, new_rest)
        .into_iter()
        .map(|(left, right)| (head + left, head + right));
    let tails = (0..tail).map(|index| (old.len() - tail + index, new.len() - tail + index));
    heads.chain(middle).chain(tails).collect()
}

/// Returns the number of identical pairs at the start.
fn common_prefix<'j>(pairs: impl Iterator<Item = (&'j Json<'j>, &'j Json<'j>)>) -> usize {
    pairs.take_while(|(old, new)| old.is_identical(new)).count()
}

/// Pairs items by index if each pair is similar or if there are too many, else by similarity.
fn align_middle(old: &[Json], new: &[Json]) -> Vec<(usize, usize)> {
    let all_similar =
        || old.len() == new.len() && old.iter().zip(new).all(|(old, new)| likeness(old, new) > 0);
    if all_similar() || old.len() * new.len() > PAIR_LIMIT {
        (0..old.len().min(new.len()))
            .map(|index| (index, index))
            .collect()
    } else {
        best_pairs(old, new)
    }
}

/// Returns the pairing with the greatest sum of [`likeness`], by dynamic programming: time and
/// memory are proportional to the product of the lengths.
fn best_pairs(old: &[Json], new: &[Json]) -> Vec<(usize, usize)> {
    let scores = suffix_scores(old, new);
    let width = new.len() + 1;
    let (mut left, mut right, mut pairs) = (0, 0, Vec::new());
    while left < old.len() && right < new.len() {
        let here = scores[left * width + right];
        if here == scores[(left + 1) * width + right] {
            left += 1;
        } else if here == scores[left * width + right + 1] {
            right += 1;
        } else {
            pairs.push((left, right));
            (left, right) = (left + 1, right + 1);
        }
    }
    pairs
}

/// Returns a matrix, row by row with `new.len() + 1` columns: the best score of `old[row..]` and
/// `new[column..]`.
fn suffix_scores(old: &[Json], new: &[Json]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut scores = vec![0u32; (old.len() + 1) * width];
    for left in (0..old.len()).rev() {
        for right in (0..new.len()).rev() {
            let paired = likeness(&old[left], &new[right]);
            let with = if paired > 0 {
                paired + scores[(left + 1) * width + right + 1]
            } else {
                0
            };
            let without = scores[(left + 1) * width + right].max(scores[left * width + right + 1]);
            scores[left * width + right] = with.max(without);
        }
    }
    scores
}

/// Returns the score of two items as a pair; 0 if pairing them saves nothing.
fn likeness(old: &Json, new: &Json) -> u32 {
    match (old, new) {
        (old, new) if old.is_identical(new) => 64,
        (Json::Object(left), Json::Object(right)) => {
            // A shared key scores 1, an equal member 3.
            let right = right.index();
            let score = |(key, value): (&str, &Json)| {
                right
                    .get(key)
                    .map_or(0, |twin| 1 + 2 * u32::from(twin == value))
            };
            left.iter().map(score).sum::<u32>().min(63)
        }
        (Json::Array(_), Json::Array(_)) | (Json::String(_), Json::String(_)) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(old: &str, new: &str) -> Vec<(usize, usize)> {
        let (old, new) = (
            Json::parse(old.as_bytes()).unwrap(),
            Json::parse(new.as_bytes()).unwrap(),
        );
        align(old.as_array().unwrap(), new.as_array().unwrap())
    }

    #[test]
    fn equal_items_are_paired_across_insertions_and_removals() {
        assert_eq!(pairs("[1,2,3]", "[0,1,2,9,3]"), [(0, 1), (1, 2), (2, 4)]);
        assert_eq!(pairs("[1,2,3]", "[3]"), [(2, 0)]);
        assert_eq!(pairs("[]", "[1]"), []);
    }

    #[test]
    fn items_of_the_same_type_are_paired_even_if_they_differ() {
        let old = r#"[{"type":"a","x":1},{"type":"b","x":2}]"#;
        assert_eq!(pairs(old, r#"[{"type":"b","x":3}]"#), [(1, 0)]);
        assert_eq!(
            pairs(old, r#"[{"type":"z"},{"type":"a"},{"type":"b"}]"#),
            [(0, 1), (1, 2)]
        );
    }
}
