use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// Numbers in [-1, 1) that are always the same.
fn vectors(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count)
        .map(|_| (0..dimensions).map(|_| next()).collect())
        .collect()
}

fn built(vectors: &[Vec<f32>], metric: Metric) -> VectorIndex {
    let dimensions = vectors.first().map_or(4, Vec::len);
    let mut builder = VectorBuilder::new("a model", dimensions, metric).unwrap();
    for (row, vector) in vectors.iter().enumerate() {
        assert!(builder.add(row as u32, vector));
    }
    VectorIndex::open(builder.build(vectors.len() as u64).into()).unwrap()
}

fn exact(metric: Metric, left: &[f32], right: &[f32]) -> f64 {
    let dot = |left: &[f32], right: &[f32]| {
        left.iter()
            .zip(right)
            .map(|(l, r)| f64::from(*l) * f64::from(*r))
            .sum::<f64>()
    };
    match metric {
        Metric::Cosine => 1.0 - dot(left, right) / (dot(left, left) * dot(right, right)).sqrt(),
        Metric::L2 => dot(left, left) + dot(right, right) - 2.0 * dot(left, right),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn distances_are_those_of_the_metric(seed in any::<u64>(), dimensions in 1_usize..200) {
        let pair = vectors(2, dimensions, seed);
        for metric in [Metric::Cosine, Metric::L2] {
            let (left, right) = (metric.stored(&pair[0]).unwrap(), metric.stored(&pair[1]).unwrap());
            let expected = exact(metric, &pair[0], &pair[1]);
            prop_assert!((f64::from(metric.distance(&left, &right)) - expected).abs() < 0.01 * expected.max(1.0));
        }
    }
}

#[test]
fn the_graph_finds_nearly_all_of_what_a_scan_finds() {
    for metric in [Metric::Cosine, Metric::L2] {
        let all = vectors(1_500, 24, 1);
        let index = built(&all, metric);
        let mut found = 0;
        let questions = vectors(40, 24, 2);
        for question in &questions {
            let scanned: HashSet<u32> = index
                .scan(question, 10)
                .iter()
                .map(|near| near.row)
                .collect();
            let walked = index.search(question, 10, 64);
            assert!(
                walked
                    .windows(2)
                    .all(|pair| pair[0].distance <= pair[1].distance)
            );
            found += walked
                .iter()
                .filter(|near| scanned.contains(&near.row))
                .count();
        }
        let recall = found as f64 / (10 * questions.len()) as f64;
        assert!(recall >= 0.95, "{metric:?}: {recall}");
    }
}

#[test]
fn vectors_that_are_there_many_times_hide_no_others() {
    let mut all = vectors(1_200, 16, 7);
    let same = vectors(1, 16, 8).remove(0);
    for at in (0..all.len()).filter(|at| at % 3 > 0) {
        all[at].clone_from(&same);
    }
    let index = built(&all, Metric::Cosine);
    let lost = |row: &usize| {
        index
            .search(&all[*row], 1, 32)
            .first()
            .is_none_or(|near| near.row != *row as u32)
    };
    assert_eq!((0..all.len()).step_by(3).filter(lost).count(), 0);
    let found = index.search(&same, 500, 500);
    assert_eq!(
        found.iter().filter(|near| near.distance < 1e-3).count(),
        500
    );
}

#[test]
fn a_scan_is_exact() {
    let all = vectors(300, 16, 3);
    let index = built(&all, Metric::L2);
    let question = &vectors(1, 16, 4)[0];
    let mut expected: Vec<(f64, u32)> = (0..all.len())
        .map(|row| (exact(Metric::L2, question, &all[row]), row as u32))
        .collect();
    expected.sort_by(|left, right| left.0.total_cmp(&right.0));
    assert_eq!(index.scan(question, 5).first().unwrap().row, expected[0].1);
    assert_eq!(index.scan(question, 1_000).len(), 300);
}

#[test]
fn a_row_with_several_vectors_counts_once_with_its_nearest() {
    let mut builder = VectorBuilder::new("m", 2, Metric::Cosine).unwrap();
    for (row, vector) in [(7, [1.0, 0.0]), (7, [0.9, 0.1]), (3, [0.0, 1.0])] {
        assert!(builder.add(row, &vector));
    }
    let index = VectorIndex::open(builder.build(10).into()).unwrap();
    let near = index.search(&[1.0, 0.0], 5, 10);
    assert_eq!(near.iter().map(|near| near.row).collect::<Vec<_>>(), [7, 3]);
    assert!(near[0].distance < 1e-3);
}

#[test]
fn vectors_that_do_not_fit_are_not_added() {
    let mut builder = VectorBuilder::new("m", 3, Metric::Cosine).unwrap();
    assert!(!builder.add(0, &[1.0, 2.0]));
    assert!(!builder.add(0, &[0.0, 0.0, 0.0]));
    assert!(!builder.add(0, &[f32::NAN, 1.0, 1.0]));
    assert!(builder.is_empty());
    assert!(VectorBuilder::new("m", 0, Metric::L2).is_none());
    let index = VectorIndex::open(builder.build(4).into()).unwrap();
    assert!(index.search(&[1.0, 2.0, 3.0], 3, 3).is_empty() && index.segment_rows() == 4);
}

#[test]
fn a_question_of_other_dimensions_is_near_to_nothing() {
    let index = built(&vectors(10, 4, 5), Metric::Cosine);
    assert!(index.search(&[1.0], 3, 10).is_empty() && index.scan(&[0.0; 4], 3).is_empty());
}

#[test]
fn a_damaged_index_is_refused_and_a_forged_one_does_not_panic() {
    let mut builder = VectorBuilder::new("m", 3, Metric::L2).unwrap();
    for (row, vector) in vectors(40, 3, 6).iter().enumerate() {
        builder.add(row as u32, vector);
    }
    let bytes = builder.build(40);
    assert!(VectorIndex::open(bytes[..bytes.len() - 1].to_vec().into()).is_err());
    assert!(VectorIndex::open(Vec::new().into()).is_err());
    for at in (0..bytes.len()).step_by(5) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        let end = damaged.len() - CHECKSUM;
        let checksum = blake3::hash(&damaged[..end]);
        assert!(
            VectorIndex::open(damaged.clone().into()).is_err(),
            "byte {at}"
        );
        damaged[end..].copy_from_slice(checksum.as_bytes());
        if let Ok(index) = VectorIndex::open(damaged.into()) {
            index.search(&[0.1, 0.2, 0.3], 5, 20);
        }
    }
}

#[test]
fn models_have_files_of_their_own() {
    assert_ne!(file_name("a/b"), file_name("a-b"));
    assert!(is_vector_file(&file_name(
        "sentence-transformers/all-MiniLM-L6-v2"
    )));
    assert!(!is_vector_file("hexastore.bin"));
}
