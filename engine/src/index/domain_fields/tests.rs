//! Compares the index with a pass over all grains.

use std::collections::BTreeSet;

use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::{Json, Object};
use proptest::prelude::*;

use super::*;
use crate::text::with_grain_if_any;

/// The names of a grain's own fields and of those in its `context`.
type Names = (Vec<String>, Vec<String>);

fn blob_of((own, context): &Names) -> Vec<u8> {
    let mut json = Object::new();
    json.insert("type", "event");
    json.insert("created_at", 1_767_225_600_000_i64);
    json.insert("role", "user");
    json.insert("content", "hello");
    for name in own {
        json.insert(name.as_str(), "x");
    }
    if !context.is_empty() {
        let mut inner = Object::new();
        for name in context {
            inner.insert(name.as_str(), "y");
        }
        json.insert("context", Json::Object(inner));
    }
    let encoded = encode_json(&Json::Object(json), EncodeOptions::default());
    encoded.expect("a valid grain").blob
}

/// Collects the rows of `grains`, as parts of `size` rows.
fn parts_of(grains: &[Names], size: usize) -> Vec<FieldRows> {
    let part = |grains: &[Names]| {
        let mut rows = FieldRows::default();
        for grain in grains {
            with_grain_if_any(&blob_of(grain), |grain| rows.add(grain));
        }
        rows
    };
    grains.chunks(size).map(part).collect()
}

fn index_of(parts: Vec<FieldRows>) -> DomainFieldIndex {
    DomainFieldIndex::open(build(parts).into()).expect("an intact index")
}

fn names() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(vec![
        "hc:icd10",
        "con:x",
        "int:base_url",
        "ib",
        "note",
        "größe",
        "a:b:c",
    ]);
    prop::collection::btree_set(name.prop_map(str::to_owned), 0..4)
        .prop_map(|names| names.into_iter().collect())
}

proptest! {
    #[test]
    fn the_rows_of_a_field_are_those_of_a_pass_over_all_grains(
        grains in prop::collection::vec((names(), names()), 0..40),
        size in 1_usize..20,
    ) {
        let index = index_of(parts_of(&grains, size));
        prop_assert_eq!(index.segment_rows(), grains.len() as u64);
        for (field, keys) in [
            ("hc:icd10", vec!["hc:icd10"]),
            ("int:base_url", vec!["int:base_url", "ib"]),
            ("note", vec!["note"]),
            ("größe", vec!["größe"]),
            ("other", vec![]),
        ] {
            let has = |names: &Vec<String>| names.iter().any(|name| keys.contains(&name.as_str()));
            let expected = grains.iter().enumerate();
            let expected = expected.filter(|(_, (own, context))| has(own) || has(context));
            let expected: BTreeSet<u32> = expected.map(|(row, _)| row as u32).collect();
            let found = index.rows_with([field]).expect("valid bitmaps");
            prop_assert_eq!(found.iter().collect::<BTreeSet<u32>>(), expected);
        }
    }
}

#[test]
fn the_same_rows_have_the_same_bytes_however_they_are_cut_into_parts() {
    let many = |at: usize| {
        (0..9)
            .map(|more| format!("k{}", at * 7 % 3_000 + more))
            .collect()
    };
    let grains: Vec<Names> = (0..700)
        .map(|at| (many(at), vec![format!("hc:{}", at % 40)]))
        .collect();
    let whole = build(parts_of(&grains, grains.len()));
    for size in [1, 64, 333] {
        assert!(
            build(parts_of(&grains, size)) == whole,
            "parts of {size} rows"
        );
    }
}

#[test]
fn rows_with_too_many_or_too_long_names_may_have_any_field() {
    let mut grains: Vec<Names> = (0..MAX_NAMES + 100)
        .map(|at| (vec![format!("k{at}")], Vec::new()))
        .collect();
    grains.push((vec!["n".repeat(MAX_NAME_BYTES + 1)], Vec::new()));
    grains.push((vec!["hc:icd10".to_owned()], Vec::new()));
    let index = index_of(parts_of(&grains, 500));
    assert_eq!(index.names.len(), MAX_NAMES);
    let (long, coded) = (MAX_NAMES as u32 + 100, MAX_NAMES as u32 + 101);
    let rows = |name: &str| index.rows_with([name]).expect("valid bitmaps");
    assert!(rows("hc:icd10").contains(coded), "names with a prefix stay");
    assert!(rows("hc:icd10").contains(long));
    for at in 0..MAX_NAMES as u32 + 100 {
        assert!(rows(&format!("k{at}")).contains(at), "row {at}");
    }
}

#[test]
fn rows_that_cannot_be_decoded_may_have_any_field() {
    let mut rows = FieldRows::default();
    rows.add(None);
    let found = index_of(vec![rows]).rows_with(["hc:icd10"]);
    assert_eq!(found.map(|rows| rows.iter().collect()), Some(vec![0]));
}

#[test]
fn damaged_bytes_are_refused() {
    let whole = build(parts_of(&[(vec!["hc:x".to_owned()], Vec::new())], 1));
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(DomainFieldIndex::open(damaged.into()).is_err(), "byte {at}");
        let cut = whole.get(..at).unwrap_or_default().to_vec();
        assert!(DomainFieldIndex::open(cut.into()).is_err(), "length {at}");
    }
    // Lengths that are wrong, with the right checksum.
    let body = whole.len() - CHECKSUM;
    for at in MAGIC.len()..body {
        let mut forged = whole.get(..body).unwrap_or_default().to_vec();
        forged[at] = 255;
        forged.extend(*blake3::hash(&forged).as_bytes());
        if let Ok(index) = DomainFieldIndex::open(forged.into()) {
            index.rows_with(["hc:x"]);
        }
    }
}
