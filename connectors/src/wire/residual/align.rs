//! Which items of one array become which of another.

use gristmill_schemas::json::Json;

/// Above this many pairs of items, items are paired by their places instead of by what they hold.
const PAIR_LIMIT: usize = 1 << 14;

/// Pairs of places, both rising: the item at the first becomes the item at the second.
pub(super) fn align(old: &[Json], new: &[Json]) -> Vec<(usize, usize)> {
    let head = old
        .iter()
        .zip(new)
        .take_while(|(old, new)| old.is_identical(new))
        .count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(old, new)| old.is_identical(new))
        .count();
    let (old_rest, new_rest) = (
        &old_rest[..old_rest.len() - tail],
        &new_rest[..new_rest.len() - tail],
    );
    let by_place = || {
        (0..old_rest.len().min(new_rest.len()))
            .map(|place| (place, place))
            .collect()
    };
    let alike = |(old, new): (&Json, &Json)| likeness(old, new) > 0;
    let middle = match old_rest.len() == new_rest.len() && old_rest.iter().zip(new_rest).all(alike)
    {
        true => by_place(),
        false if old_rest.len() * new_rest.len() > PAIR_LIMIT => by_place(),
        false => best_pairs(old_rest, new_rest),
    };
    let heads = (0..head).map(|place| (place, place));
    let middle = middle
        .into_iter()
        .map(|(left, right)| (head + left, head + right));
    let tails = (0..tail).map(|place| (old.len() - tail + place, new.len() - tail + place));
    heads.chain(middle).chain(tails).collect()
}

/// The pairing with the greatest sum of [`likeness`], by dynamic programming.
fn best_pairs(old: &[Json], new: &[Json]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    let mut best = vec![0u32; (old.len() + 1) * width];
    for left in (0..old.len()).rev() {
        for right in (0..new.len()).rev() {
            let paired = likeness(&old[left], &new[right]);
            let with = if paired > 0 {
                paired + best[(left + 1) * width + right + 1]
            } else {
                0
            };
            let without = best[(left + 1) * width + right].max(best[left * width + right + 1]);
            best[left * width + right] = with.max(without);
        }
    }
    let (mut left, mut right, mut pairs) = (0, 0, Vec::new());
    while left < old.len() && right < new.len() {
        let here = best[left * width + right];
        if here == best[(left + 1) * width + right] {
            left += 1;
        } else if here == best[left * width + right + 1] {
            right += 1;
        } else {
            pairs.push((left, right));
            (left, right) = (left + 1, right + 1);
        }
    }
    pairs
}

/// How much two items are worth as a pair: 0 if one tells nothing about the other.
fn likeness(old: &Json, new: &Json) -> u32 {
    match (old, new) {
        (old, new) if old.is_identical(new) => 64,
        (Json::Object(left), Json::Object(right)) => {
            // A shared key makes a pair, a shared member a better one.
            let right = right.lookup();
            let worth = |(key, value): (&str, &Json)| {
                right
                    .get(key)
                    .map_or(0, |twin| 1 + 2 * u32::from(twin == value))
            };
            left.iter().map(worth).sum::<u32>().min(63)
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
    fn equal_items_find_each_other_over_insertions_and_removals() {
        assert_eq!(pairs("[1,2,3]", "[0,1,2,9,3]"), [(0, 1), (1, 2), (2, 4)]);
        assert_eq!(pairs("[1,2,3]", "[3]"), [(2, 0)]);
        assert_eq!(pairs("[]", "[1]"), []);
    }

    #[test]
    fn items_of_one_tag_are_paired_even_if_they_differ() {
        let old = r#"[{"type":"a","x":1},{"type":"b","x":2}]"#;
        assert_eq!(pairs(old, r#"[{"type":"b","x":3}]"#), [(1, 0)]);
        assert_eq!(
            pairs(old, r#"[{"type":"z"},{"type":"a"},{"type":"b"}]"#),
            [(0, 1), (1, 2)]
        );
    }
}
