use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use gristmill_schemas::grain::{EncodeOptions, Field, encode_json};
use gristmill_schemas::json::Json;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::query::QueryPart;
use super::*;
use crate::text::{Frequencies, Scorer, Statistics, Terms, with_grain};

fn blob(content: &str, number: usize) -> Vec<u8> {
    let content = serde_json::to_string(content).unwrap();
    let json = format!(
        r#"{{"type":"event","content":{content},"created_at":{}}}"#,
        1_768_477_800_000_u64 + number as u64
    );
    encode_json(
        &Json::parse(json.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob
}

fn piece(blobs: &[Vec<u8>]) -> TextPiece {
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(blobs));
    let mut piece = TextPieceBuilder::new().unwrap();
    piece
        .add(&RecordBatch::try_from_iter([(TextPiece::COLUMN, column)]).unwrap())
        .unwrap();
    piece.finish().unwrap()
}

/// Returns a lake of segments of `segment` texts, in pieces of `rows`.
fn lake(texts: &[String], segment: usize, rows: usize) -> LakeTextIndex {
    let blobs: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| blob(text, number))
        .collect();
    let segments: Vec<_> = blobs
        .chunks(segment)
        .map(|blobs| {
            let pieces: Vec<_> = blobs.chunks(rows).map(piece).collect();
            let text = SegmentTextIndex::open(pack(&pieces).concat().into()).unwrap();
            assert_eq!(text.rows(), blobs.len() as u64);
            Arc::new(text)
        })
        .collect();
    LakeTextIndex::new(&segments).unwrap()
}

/// Returns the texts that fit `query`, found by reading all of them.
fn scanned(texts: &[String], query: &TextQuery) -> Vec<usize> {
    let stands = |text: &[String], part: &QueryPart| match part {
        QueryPart::Phrase(phrase) => text.windows(phrase.len()).any(|window| window == phrase),
        QueryPart::Prefix(prefix) => text.iter().any(|word| word.starts_with(prefix)),
        QueryPart::Fuzzy(word, changes) => text
            .iter()
            .any(|other| distance(word, other) <= usize::from(*changes)),
    };
    let fits = |text: &[String]| {
        let required = query
            .required
            .iter()
            .all(|parts| parts.iter().any(|part| stands(text, part)));
        !query.is_empty() && required && !query.excluded.iter().any(|part| stands(text, part))
    };
    let words = |text: &String| crate::text::words(text).collect::<Vec<_>>();
    (0..texts.len())
        .filter(|at| fits(&words(&texts[*at])))
        .collect()
}

/// Changes of one letter, or swaps of neighbours, that make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![(0..=right.len()).collect::<Vec<_>>()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let change = usize::from(left[i - 1] != right[j - 1]);
            let mut least = (rows[i - 1][j - 1] + change)
                .min(rows[i - 1][j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

fn found(lake: &LakeTextIndex, query: &TextQuery, segments: usize, segment: usize) -> Vec<usize> {
    let rows = lake.rows(query, segments).unwrap();
    rows.iter()
        .enumerate()
        .flat_map(|(number, rows)| rows.iter().map(move |row| number * segment + *row as usize))
        .collect()
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec![
        "tea",
        "Teapot",
        "teal",
        "milk",
        "東京",
        "don't",
        "dark_mode",
        "été",
        "eta",
        "ta",
    ]);
    prop::collection::vec(
        prop::collection::vec(word, 0..9).prop_map(|words| format!("! {}", words.join(" "))),
        1..60,
    )
}

const QUERIES: [&str; 12] = [
    "tea",
    "tea milk",
    "\"tea milk\"",
    "tea*",
    "te*",
    "tea~",
    "eta~2",
    "milk -tea",
    "東京 OR \"dark mode\"",
    "dark_mode",
    "tea OR nothing",
    "tea* OR mil~ -\"don't tea\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_search_finds_what_reading_every_grain_finds(texts in texts(), segment in 1_usize..40, rows in 1_usize..20) {
        let lake = lake(&texts, segment, rows);
        prop_assert_eq!(lake.len(), texts.len() as u64);
        for query in QUERIES {
            let query = TextQuery::parse(query).unwrap();
            let expected = scanned(&texts, &query);
            let segments = texts.len().div_ceil(segment);
            prop_assert_eq!(found(&lake, &query, segments, segment), expected.clone());
            prop_assert_eq!(lake.count(&query).unwrap(), expected.len());
            let (_, mut hits) = lake.search(&query, texts.len()).unwrap();
            prop_assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
            for limit in 1..6 {
                let best = lake.search(&query, limit).unwrap().1;
                prop_assert_eq!(best.len(), limit.min(hits.len()));
                // Of what is passed over depends in which order weights are summed.
                prop_assert!(best.iter().zip(&hits).all(|(best, hit)| (best.score - hit.score).abs() < 1e-6));
            }
            hits.sort_by_key(|hit| (hit.segment, hit.row));
            prop_assert_eq!(hits.iter().map(|hit| hit.segment * segment + hit.row as usize).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn scores_are_those_of_the_whole_lake(texts in texts(), segment in 1_usize..40) {
        let lake = lake(&texts, segment, 7);
        let terms = Terms::of("tea milk");
        let mut statistics = Statistics::new(2);
        let counted: Vec<_> = (0..texts.len()).map(|at| with_grain(&blob(&texts[at], at), |grain| Some(terms.count(grain))).unwrap()).collect();
        for found in &counted {
            statistics.add(u64::from(found.length), found.counts.iter().map(|count| u64::from(*count)));
        }
        let scorer = Scorer::new(&statistics);
        let (_, hits) = lake.search(&TextQuery::parse("tea milk").unwrap(), 1_000).unwrap();
        for hit in hits {
            let expected = scorer.score(&counted[hit.segment * segment + hit.row as usize]).unwrap();
            prop_assert!((hit.score - expected).abs() < 1e-5, "{} is not {expected}", hit.score);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rows_have_upper_bounds_of_the_scores_of_their_texts(texts in texts(), segment in 1_usize..40, rows in 1_usize..20, repeats in 1_usize..60, first in 0_u32..20) {
        // Lengths of long texts are rounded.
        let texts: Vec<String> = texts.iter().map(|text| text.repeat(repeats)).collect();
        let lake = lake(&texts, segment, rows);
        let segments = texts.len().div_ceil(segment);
        for words in ["tea", "tea milk", "milk teapot tea", "nothing", "tea nothing", "- !"] {
            let terms = Terms::of(words);
            let scorer = Scorer::new(&lake.statistics(terms.words()).unwrap());
            let counted = |at: usize| with_grain(&blob(&texts[at], at), |grain| Some(terms.count(grain))).unwrap();
            let bound = |mut found: Frequencies| {
                found.length = u32::try_from(rounded_length(found.length.into())).unwrap();
                scorer.score(&found)
            };
            let place = |at: usize| (at / segment, (at % segment) as u32);
            let expected: Vec<_> = (0..texts.len()).filter_map(|at| {
                let (bound, score) = (bound(counted(at))?, scorer.score(&counted(at))?);
                assert!(bound >= score && (counted(at).length > 40 || bound == score));
                Some((place(at), bound))
            }).collect();
            let scored = |within: Option<&[Vec<std::ops::Range<u32>>]>, limit: usize| {
                let hits = lake.scored_rows(&terms, &scorer, within, limit).unwrap()?;
                Some(hits.iter().map(|hit| ((hit.segment, hit.row), hit.score)).collect::<Vec<_>>())
            };
            prop_assert_eq!(scored(None, expected.len()), Some(expected.clone()));
            prop_assert!(expected.is_empty() || scored(None, expected.len() - 1).is_none());
            let ranges = vec![vec![0..1, first + 1..first + 5]; segments];
            let inside = |row: u32| row == 0 || (first + 1..first + 5).contains(&row);
            let expected: Vec<_> = expected.into_iter().filter(|((_, row), _)| inside(*row)).collect();
            prop_assert_eq!(scored(Some(ranges.as_slice()), expected.len()), Some(expected));
        }
    }
}

/// Returns the answer of `lake` to each query: the words' statistics, and every hit with its score.
fn answers(lake: &LakeTextIndex) -> Vec<(Statistics, Vec<TextHit>)> {
    let statistics = lake
        .statistics(&["tea".to_owned(), "milk".to_owned()])
        .unwrap();
    let search = |query| {
        lake.search(&TextQuery::parse(query).unwrap(), 1_000)
            .unwrap()
            .1
    };
    QUERIES
        .map(|query| (statistics.clone(), search(query)))
        .to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_piece_without_some_rows_equals_one_built_from_the_others(texts in texts(), gone in prop::collection::vec(any::<bool>(), 60), again in any::<prop::sample::Index>(), repeats in 1_usize..40) {
        // Long texts: tantivy keeps no exact length of these.
        let blobs: Vec<_> = texts.iter().enumerate().map(|(at, text)| blob(&text.repeat(repeats), at)).collect();
        let mut kept: Vec<u32> = (0..blobs.len() as u32).filter(|at| *at == 0 || !gone[*at as usize]).collect();
        let mut text = Arc::new(SegmentTextIndex::open(pack(&[piece(&[blob("other", 0)]), piece(&blobs)]).concat().into()).unwrap());
        let mut before: Vec<u32> = (0..blobs.len() as u32).collect();
        // Rows are taken out of a piece that rows were taken out of, too.
        for left in [kept.clone(), { kept.swap_remove(again.index(kept.len())); kept.sort_unstable(); kept }] {
            let lost = |at: &u32| !left.contains(at);
            let gone: Vec<u32> = (0..).zip(&before).filter(|(_, at)| lost(at)).map(|(row, _)| row).collect();
            let words = before.iter().filter(|at| lost(at)).map(|at| words_in(&blobs[*at as usize])).sum();
            let carried = text.piece_without(1, before.len() as u32, &gone, words).unwrap();
            prop_assert_eq!(carried.is_none(), left.is_empty());
            let Some(carried) = carried else { break };
            let left_blobs: Vec<_> = left.iter().map(|at| blobs[*at as usize].clone()).collect();
            let [carried, made] = [carried, piece(&left_blobs)].map(|own| {
                Arc::new(SegmentTextIndex::open(pack(&[piece(&[blob("other", 0)]), own]).concat().into()).unwrap())
            });
            let [own, made] = [&carried, &made].map(|text| answers(&LakeTextIndex::new(std::slice::from_ref(text)).unwrap()));
            prop_assert_eq!(own, made);
            (text, before) = (carried, left);
        }
    }
}

#[test]
fn a_word_of_rows_that_are_gone_is_nowhere_in_the_piece() {
    let blobs: Vec<_> = (0..300)
        .map(|at| blob(if at == 7 { "marguerite" } else { "tea" }, at))
        .collect();
    let text = Arc::new(SegmentTextIndex::open(pack(&[piece(&blobs)]).concat().into()).unwrap());
    let words = |gone: &[u32]| {
        let piece = text
            .piece_without(0, 300, gone, gone.len() as u64)
            .unwrap()
            .unwrap();
        let text = Arc::new(SegmentTextIndex::open(pack(&[piece]).concat().into()).unwrap());
        assert_eq!(text.rows(), 300 - gone.len() as u64);
        // What a beginning represents is looked up in the dictionary.
        LakeTextIndex::new(&[text])
            .unwrap()
            .search(&TextQuery::parse("marg* OR te*").unwrap(), 1)
            .unwrap()
            .0
            .required
    };
    assert_eq!(words(&[]), [[["marguerite"], ["tea"]]]);
    assert_eq!(words(&[7]), [[["tea"]]]);
    // Only of whole pieces.
    assert!(text.piece_without(0, 299, &[7], 1).unwrap().is_none());
    assert!(text.piece_without(1, 299, &[7], 1).unwrap().is_none());
}

#[test]
fn the_best_hits_are_first_and_at_most_as_many_as_requested() {
    let texts: Vec<String> = (0..50)
        .map(|at| format!("tea {}", "and so on ".repeat(at % 10)))
        .collect();
    let lake = lake(&texts, 20, 8);
    let (terms, hits) = lake.search(&TextQuery::parse("te*").unwrap(), 7).unwrap();
    assert_eq!(terms.required, [[["tea"]]]);
    let texts: Vec<_> = hits
        .iter()
        .map(|hit| hit.segment * 20 + hit.row as usize)
        .collect();
    assert_eq!(texts, [0, 10, 20, 30, 40, 1, 11]);
    assert!(lake.search(&TextQuery::default(), 7).unwrap().1.is_empty());
    assert!(
        lake.search(&TextQuery::parse("tea").unwrap(), 0)
            .unwrap()
            .1
            .is_empty()
    );
    assert_eq!(
        lake.search(&TextQuery::parse("tea").unwrap(), usize::MAX)
            .unwrap()
            .1
            .len(),
        50
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_search_within_rows_finds_its_hits_among_them(texts in texts(), segment in 1_usize..40, wanted in prop::collection::vec(any::<bool>(), 60)) {
        let lake = lake(&texts, segment, 7);
        let mut within = vec![RoaringBitmap::new(); texts.len().div_ceil(segment)];
        for at in (0..texts.len()).filter(|at| wanted[*at]) {
            within[at / segment].insert((at % segment) as u32);
        }
        for query in QUERIES {
            let query = TextQuery::parse(query).unwrap();
            for needed in [WordsNeeded::All, WordsNeeded::Any] {
                let all = lake.search_within(&query, needed, texts.len(), None).unwrap().1;
                let expected: Vec<_> = all.into_iter().filter(|hit| within[hit.segment].contains(hit.row)).collect();
                for limit in [1, 3, 100] {
                    let found = lake.search_within(&query, needed, limit, Some(&within)).unwrap().1;
                    prop_assert_eq!(found.len(), limit.min(expected.len()));
                    prop_assert!(found.iter().zip(&expected).all(|(found, hit)| (found.score - hit.score).abs() < 1e-6));
                }
            }
        }
    }
}

#[test]
fn enough_words_are_a_third_of_their_weight() {
    // Every grain has `the`, ten have `tea`, one has `samovar`.
    let texts: Vec<String> = (0..100)
        .map(|at| match at {
            0 => "the samovar".to_owned(),
            at if at % 10 == 1 => "the tea".to_owned(),
            _ => "the rest".to_owned(),
        })
        .collect();
    let lake = lake(&texts, 40, 7);
    let enough = |text: &str| -> Vec<u32> {
        let rows = lake.rows_with_enough(&TextQuery::parse(text).unwrap());
        (0..)
            .zip(rows.unwrap())
            .flat_map(|(segment, rows)| rows.into_iter().map(move |row| segment * 40 + row))
            .collect()
    };
    assert!(enough("where is this the samovar").is_empty());
    assert_eq!(enough("where samovar"), [0]);
    assert_eq!(enough("the samovar"), [0]);
    assert_eq!(enough("the tea"), [1, 11, 21, 31, 41, 51, 61, 71, 81, 91]);
    assert_eq!(
        enough("the samovar tea"),
        [0, 1, 11, 21, 31, 41, 51, 61, 71, 81, 91]
    );
    assert_eq!(enough("samovar tea zebra"), [0]);
    assert!(enough("the zebra").is_empty());
    assert!(enough("zeb* the").is_empty());
    assert!(enough("samovar the -samovar").is_empty());
    assert_eq!(enough("samovar"), [0]);
}

#[test]
fn a_lake_without_segments_has_no_text() {
    let lake = LakeTextIndex::new(&[]).unwrap();
    assert!(lake.is_empty());
    assert!(
        lake.search(&TextQuery::parse("tea").unwrap(), 5)
            .unwrap()
            .1
            .is_empty()
    );
}

#[test]
fn grains_that_cannot_be_read_have_no_words_and_keep_their_row() {
    let blobs = [b"nothing".to_vec(), blob("tea", 1)];
    let text = SegmentTextIndex::open(pack(&[piece(&blobs)]).concat().into()).unwrap();
    let lake = LakeTextIndex::new(&[Arc::new(text)]).unwrap();
    assert_eq!(
        lake.rows(&TextQuery::parse("tea").unwrap(), 1).unwrap(),
        [[1]]
    );
}

#[test]
fn a_damaged_index_is_refused() {
    let bytes = pack(&[piece(&[blob("tea time", 0), blob("milk", 1)])]).concat();
    for at in (0..bytes.len()).step_by(11) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(SegmentTextIndex::open(damaged.into()).is_err(), "byte {at}");
    }
    assert!(SegmentTextIndex::open(bytes[..bytes.len() - 1].to_vec().into()).is_err());
    assert!(SegmentTextIndex::open(Vec::new().into()).is_err());
}

#[test]
fn an_index_whose_metadata_is_no_object_is_refused_though_its_checksum_is_right() {
    let parts = pack(&[piece(&[blob("tea", 0)])]);
    let mut head: serde_json::Value = serde_json::from_slice(&parts[0][12..]).unwrap();
    head["meta"] = "none".into();
    let head = serde_json::to_vec(&head).unwrap();
    let head = [&parts[0][..8], &(head.len() as u32).to_le_bytes(), &head].concat();
    let content = [vec![head.into()], parts[1..parts.len() - 1].to_vec()]
        .concat()
        .concat();
    let bytes = [&content[..], blake3::hash(&content).as_bytes()].concat();
    let refused = SegmentTextIndex::open(bytes.into()).unwrap_err();
    assert!(refused.to_string().contains("metadata"), "{refused}");
}

#[test]
fn matched_fields_are_those_that_have_the_words() {
    let json = r#"{"type":"belief","subject":"ann","relation":"mg:prefers","object":"green tea","confidence":1.0,
        "created_at":1768477800000,"namespace":"demo","user_id":"u"}"#;
    let blob = encode_json(
        &Json::parse(json.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob;
    let shown: BTreeMap<&str, Highlight> = [
        "ann tea",
        "prefers",
        "\"green tea\"",
        "coffee",
        "tea prefers",
    ]
    .into_iter()
    .map(|text| {
        let terms = SearchTerms::literal(&TextQuery::parse(text).unwrap());
        (
            text,
            with_grain(&blob, |grain| Some(highlight(grain, &terms))).unwrap(),
        )
    })
    .collect();
    assert_eq!(shown["ann tea"].fields, [Field::Subject, Field::Object]);
    assert_eq!(shown["prefers"].fields, [Field::Relation]);
    assert_eq!(shown["\"green tea\""].fields, [Field::Object]);
    assert_eq!(shown["coffee"].fields, []);
    assert_eq!(
        shown["tea prefers"].fields,
        [Field::Relation, Field::Object]
    );
    // A short grain is shown whole, whether or not a word matches.
    assert!(
        shown
            .values()
            .all(|shown| shown.snippet == "ann prefers green tea")
    );
}

#[test]
fn a_snippet_shows_the_text_of_a_message_once() {
    let terms = SearchTerms::literal(&TextQuery::parse("flour").unwrap());
    for (blocks, snippet) in [
        (
            r#"{"type":"text","text":"how much flour"}"#,
            "how much flour",
        ),
        (
            r#"{"type":"text","text":"how much flour"},{"type":"text","text":"for two"}"#,
            "how much flour for two",
        ),
    ] {
        let json = format!(
            r#"{{"type":"event","content":"how much flour","content_blocks":[{blocks}],"created_at":1768477800000}}"#
        );
        let json = Json::parse(json.as_bytes()).unwrap();
        let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        let shown = with_grain(&blob, |grain| Some(highlight(grain, &terms))).unwrap();
        assert_eq!(shown.fields, [Field::Content, Field::ContentBlocks]);
        assert_eq!(shown.snippet, snippet);
    }
}
