//! Vectors that compaction, erasure and repeated indexing keep instead of making them again.

use std::fs;

use gristmill_tests::paths::workspace;
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// Segments of the lake.
const SEGMENTS: usize = 5;

/// Texts whose nearest grains are compared.
const QUERIES: [&str; 3] = ["cargo bike battery", "invoice", "temperature at night"];

/// Runs a command that succeeds. Returns its result.
fn run(sandbox: &Sandbox, words: &[&str]) -> Value {
    sandbox.run("lake", 0, words)
}

/// Returns the grains of the demo.
fn memory() -> Vec<String> {
    let memory = workspace().join("cli/src/commands/demo/company.jsonl");
    let memory = fs::read_to_string(memory).unwrap();
    memory.lines().map(str::to_owned).collect()
}

/// Ingests each of `parts` by a run of its own.
fn ingest<'a>(sandbox: &Sandbox, parts: impl Iterator<Item = &'a [String]>) {
    for (number, part) in parts.enumerate() {
        let name = format!("memory-{number}.jsonl");
        fs::write(sandbox.path(&name), part.join("\n")).unwrap();
        run(sandbox, &["ingest", &name]);
        fs::remove_file(sandbox.path(&name)).unwrap();
    }
}

/// Returns a sandbox with a lake of several segments with vectors.
fn lake() -> Sandbox {
    let sandbox = Sandbox::new();
    let memory = memory();
    ingest(&sandbox, memory.chunks(memory.len().div_ceil(SEGMENTS)));
    let report = run(&sandbox, &["reindex", "--embed"]);
    assert_eq!(report["vectors"]["segments"], SEGMENTS, "{report}");
    sandbox
}

/// Returns addresses and scores of the grains nearest to each of [`QUERIES`], by address.
fn nearest(sandbox: &Sandbox) -> [Vec<(String, f64)>; 3] {
    QUERIES.map(|query| {
        let words = ["search", query, "--mode", "vector", "--limit", "40"];
        let found = run(sandbox, &words);
        let result = |result: &Value| {
            let address = result["content_address"].as_str().unwrap().to_owned();
            (address, result["score"].as_f64().unwrap())
        };
        let mut results: Vec<_> = found["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(result)
            .collect();
        assert!(!results.is_empty(), "{query}");
        results.sort_by(|left, right| left.0.cmp(&right.0));
        results
    })
}

/// Returns the numbers of segments that `reindex` indexed, and left as they are.
fn indexed(report: &Value) -> [Option<u64>; 2] {
    ["segments", "whole"].map(|count| report["vectors"][count].as_u64())
}

#[test]
fn merged_segments_keep_the_vectors_of_their_rows() {
    let sandbox = lake();
    let before = nearest(&sandbox);
    let report = run(&sandbox, &["compact"]);
    assert_eq!(report["segments_after"], 1, "{report}");
    assert_eq!(report["without_vectors"], 0, "{report}");
    assert_eq!(nearest(&sandbox), before);
    let again = run(&sandbox, &["reindex", "--embed"]);
    assert_eq!(indexed(&again), [Some(0), Some(1)], "{again}");
    let all = run(&sandbox, &["reindex", "--embed", "--all"]);
    assert_eq!(indexed(&all), [Some(1), Some(0)], "{all}");
    assert_eq!(nearest(&sandbox), before, "vectors that were made again");
}

#[test]
fn vectors_that_would_be_incomplete_are_left_out_with_a_warning() {
    let sandbox = lake();
    let later = memory()[0].replace("1793606407000", "1793606407001");
    ingest(&sandbox, [&[later][..]].into_iter());
    let output = sandbox.output("lake", &["compact", "--format", "json"]);
    let warnings = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["segments_after"], 1, "{report}");
    assert_eq!(report["without_vectors"], SEGMENTS, "{report}");
    assert!(warnings.contains("reindex --embed"), "{warnings}");
    let report = run(&sandbox, &["reindex", "--embed"]);
    assert_eq!(indexed(&report), [Some(1), Some(0)], "{report}");
    nearest(&sandbox);
}

#[test]
fn an_erasure_keeps_the_vectors_of_the_remaining_rows_only() {
    let sandbox = lake();
    let of_ada = sandbox.addresses("lake", "user_id = 'ada'");
    let before = nearest(&sandbox);
    run(&sandbox, &["keys", "generate", "erasure"]);
    let erase = ["erase", "--user", "ada", "--execute", "--exclusive"];
    run(&sandbox, &erase);
    let incomplete = "SELECT segment FROM indexes GROUP BY 1 HAVING \
                      bool_and(index NOT LIKE 'vectors%' OR state <> 'fresh')";
    assert_eq!(sandbox.sql("lake", incomplete), Value::Array(Vec::new()));
    let mut lost = 0;
    for (before, after) in before.iter().zip(nearest(&sandbox)) {
        let erased = |(address, _): &&(String, f64)| of_ada.contains(address);
        lost += before.iter().filter(erased).count();
        assert_eq!(after.iter().find(erased), None);
        let kept = before.iter().filter(|hit| !erased(hit));
        assert!(kept.clone().all(|hit| after.contains(hit)), "{after:?}");
    }
    assert!(lost > 0, "none of the grains found before was hers");
    run(&sandbox, &["verify", "--sidecars"]);
}
