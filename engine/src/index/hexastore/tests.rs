use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use proptest::prelude::*;

use super::*;

type Row = [Option<String>; 3];

fn columns(rows: &[Row]) -> StatementColumns {
    let column = |at: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter(
            rows.iter().map(|row| row[at].as_deref()),
        ))
    };
    let names = StatementColumns::NAMES;
    let batch =
        RecordBatch::try_from_iter_with_nullable((0..3).map(|at| (names[at], column(at), true)))
            .unwrap();
    StatementColumns::of(&batch).unwrap()
}

fn built(rows: &[Row], part: usize) -> Hexastore {
    let parts: Vec<_> = rows.chunks(part).map(columns).collect();
    Hexastore::open(build(&parts).into()).unwrap()
}

fn matches(row: &Row, pattern: &TriplePattern<'_>) -> bool {
    pattern
        .parts()
        .iter()
        .zip(row)
        .all(|(wanted, part)| wanted.is_none_or(|wanted| part.as_deref() == Some(wanted)))
}

/// Rows over few words, so that everything repeats and some parts are missing.
fn rows(size: usize) -> impl Strategy<Value = Vec<Row>> {
    let word =
        |letters: &'static str| prop::option::weighted(0.8, letters.prop_map(|word: String| word));
    prop::collection::vec(
        (word("[a-d]{0,2}"), word("[r-t]"), word("[a-dé]{0,3}")).prop_map(|(s, r, o)| [s, r, o]),
        0..size,
    )
}

/// Returns every pattern that `row` fits, and one that it doesn't.
fn patterns(row: &Row) -> impl Iterator<Item = TriplePattern<'_>> {
    let known = (0..8).map(|mask: u32| {
        TriplePattern::from(std::array::from_fn(|at| {
            (mask >> at & 1 == 1).then(|| row[at].as_deref().unwrap_or("zz"))
        }))
    });
    known.chain([TriplePattern {
        relation: Some("nobody says this"),
        ..TriplePattern::default()
    }])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_pattern_matches_what_a_scan_matches(rows in rows(700), part in 1_usize..400) {
        let store = built(&rows, part);
        prop_assert_eq!(store.rows(), rows.len() as u64);
        let is_triple = |row: &Row| row.iter().all(Option::is_some);
        prop_assert_eq!(store.len(), rows.iter().filter(|row| is_triple(row)).count());
        for pattern in rows.iter().step_by(29).flat_map(patterns) {
            let scanned: Vec<u32> = (0..rows.len()).filter(|row| is_triple(&rows[*row]) && matches(&rows[*row], &pattern)).map(|row| row as u32).collect();
            let found = store.find(&pattern);
            prop_assert_eq!(found.len(), scanned.len());
            let mut statements: Vec<_> = found.iter().collect();
            prop_assert_eq!(found.rows().collect::<Vec<_>>(), statements.iter().map(|found| found.row).collect::<Vec<_>>());
            statements.sort_by_key(|found| found.row);
            for (statement, row) in statements.iter().zip(&scanned) {
                let stated = &rows[*row as usize];
                prop_assert_eq!([statement.subject, statement.relation, statement.object].map(|part| Some(part.to_owned())), stated.clone());
            }
            prop_assert_eq!(statements.iter().map(|found| found.row).collect::<Vec<_>>(), scanned);
        }
    }

    #[test]
    fn filters_on_columns_find_partial_statements(rows in rows(500), part in 1_usize..400) {
        let store = built(&rows, part);
        for pattern in rows.iter().step_by(23).flat_map(patterns).filter(|pattern| pattern.parts() != [None; 3]) {
            let scanned: Vec<u32> = (0..rows.len()).filter(|row| matches(&rows[*row], &pattern)).map(|row| row as u32).collect();
            prop_assert_eq!(store.count_with(&pattern), scanned.len());
            prop_assert_eq!(store.rows_with(&pattern), scanned);
        }
    }
}

fn many(count: u32) -> Vec<Row> {
    let text = |word: &str, number: u32| Some(format!("{word} {number}"));
    (0..count)
        .map(|at| {
            [
                text("who", at / 7),
                text("says", at % 11),
                text("what", at.wrapping_mul(2_654_435_761) >> 17),
            ]
        })
        .collect()
}

#[test]
fn matches_stand_in_the_order_of_what_is_known() {
    let rows = many(5_000);
    let store = built(&rows, 1_000);
    for pattern in patterns(&rows[1234]) {
        let order = TripleOrder::of(&pattern);
        let keys: Vec<_> = store
            .find(&pattern)
            .iter()
            .map(|found| {
                order
                    .roles()
                    .map(|role| [found.subject, found.relation, found.object][role as usize])
            })
            .collect();
        assert!(keys.is_sorted(), "{order:?}");
    }
    assert_eq!(store.find(&TriplePattern::default()).len(), 5_000);
}

#[test]
fn the_parts_in_which_rows_come_make_no_difference() {
    let rows = many(3_000);
    let whole = build(&[columns(&rows)]);
    let parts: Vec<_> = rows.chunks(701).map(columns).collect();
    assert!(whole == build(&parts));
}

#[test]
fn packing_takes_less_than_half_of_plain_numbers() {
    let rows = many(100_000);
    let store = built(&rows, 65_536);
    let orders: usize = store.find(&TriplePattern::default()).len() * 6 * 16;
    let terms: usize = rows.iter().flatten().flatten().map(String::len).sum();
    let size = build(&[columns(&rows)]).len();
    assert!(size < orders / 2 + terms, "{size} bytes");
}

#[test]
fn an_empty_segment_has_an_empty_hexastore() {
    for parts in [
        vec![],
        vec![columns(&[])],
        vec![columns(&[[None, None, None]])],
    ] {
        let store = Hexastore::open(build(&parts).into()).unwrap();
        assert!(store.is_empty() && store.find(&TriplePattern::default()).is_empty());
        assert_eq!(
            store.rows_with(&TriplePattern {
                subject: Some("a"),
                ..TriplePattern::default()
            }),
            Vec::<u32>::new()
        );
    }
}

#[test]
fn a_damaged_hexastore_is_refused() {
    let bytes = build(&[columns(&many(300))]);
    for at in (0..bytes.len()).step_by(13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Hexastore::open(damaged.into()).is_err(), "byte {at}");
    }
    assert!(Hexastore::open(bytes[..bytes.len() - 1].to_vec().into()).is_err());
    assert!(Hexastore::open(Vec::new().into()).is_err());
}

#[test]
fn a_forged_hexastore_with_a_right_checksum_does_not_panic() {
    let bytes = build(&[columns(&many(300))]);
    for at in (8..bytes.len() - CHECKSUM).step_by(7) {
        let mut forged = bytes.clone();
        forged[at] ^= 0xff;
        let end = forged.len() - CHECKSUM;
        let checksum = blake3::hash(&forged[..end]);
        forged[end..].copy_from_slice(checksum.as_bytes());
        if let Ok(store) = Hexastore::open(forged.into()) {
            for pattern in patterns(&many(300)[17]) {
                store.find(&pattern).iter().for_each(drop);
                drop(store.rows_with(&pattern));
            }
        }
    }
}
