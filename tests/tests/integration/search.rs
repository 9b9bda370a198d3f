//! `search` over the memory of the demo: filters, what counts as a match, excerpts, and how many
//! of 60 questions find their answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use arrow::array::AsArray;
use gristmill_engine::index::vectors::embed::embedder;
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{
    SearchFilter, SearchMode, SearchRequest, SessionContext, SqlOptions, lake_context, search_rows,
};
use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::generated_page::assert_generated;
use gristmill_tests::paths::workspace;
use serde_json::Value;

const MODES: [&str; 3] = ["text", "vector", "hybrid"];

/// Runs a command that succeeds and returns its output as JSON.
fn run(folder: &Path, words: &[&str]) -> Value {
    let mut command = gristmill();
    command.current_dir(folder);
    let (code, out, err) = ended(command.args(words).args(["--format", "jsonl", "--quiet"]));
    assert_eq!(code, 0, "{words:?}: {err}");
    serde_json::from_str(&out).unwrap_or_default()
}

/// Returns a lake with the demo's memory, with vectors.
fn lake() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let memory = workspace().join("cli/src/commands/demo/company.jsonl");
    run(folder.path(), &["ingest", memory.to_str().unwrap()]);
    run(folder.path(), &["reindex", "--embed"]);
    folder
}

/// Returns the results of a search.
fn results(folder: &Path, words: &[&str]) -> Vec<Value> {
    let found = run(folder, &[&["search"], words].concat());
    found["results"].as_array().unwrap().clone()
}

/// A condition on a grain.
type Condition = fn(&Value) -> bool;

/// Options, and the condition that they state.
const FILTERS: [(&[&str], Condition); 6] = [
    (&["--type", "belief"], |grain| grain["type"] == "belief"),
    (&["--type", "goal,tool_call"], |grain| {
        grain["type"] == "goal" || grain["type"] == "action"
    }),
    (&["--user", "theo"], |grain| grain["user_id"] == "theo"),
    (&["--session", "clinic-jonas-1"], |grain| {
        grain["session_id"] == "clinic-jonas-1"
    }),
    (&["--since", "2026-11-09"], |grain| {
        grain["created_at"].as_i64() >= Some(1_794_182_400_000)
    }),
    (
        &[
            "--user",
            "lucia",
            "--type",
            "belief",
            "--since",
            "1793865740000",
        ],
        |grain| {
            grain["user_id"] == "lucia"
                && grain["type"] == "belief"
                && grain["created_at"].as_i64() >= Some(1_793_865_740_000)
        },
    ),
];

#[test]
fn more_results_than_a_search_has_are_refused() {
    let lake = lake();
    for mode in MODES {
        let function = match mode {
            "text" => "search".to_owned(),
            mode => format!("{mode}_search"),
        };
        let statement = format!("SELECT count(*) FROM {function}('battery', 10001)");
        for words in [
            &["search", "battery", "--mode", mode, "-n", "10001"][..],
            &["sql", &statement],
        ] {
            let (code, out, err) = ended(gristmill().current_dir(lake.path()).args(words));
            assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
            assert!(err.contains("at most 10000 results"), "{words:?}: {err}");
        }
    }
}

#[test]
fn a_filter_chooses_before_the_best_are_taken() {
    let lake = lake();
    for mode in MODES {
        let text = match mode {
            "text" => "battery OR refund OR Rezept OR termostato OR the OR la",
            _ => "la calefacción del salón a 20 grados y la batería",
        };
        let all = results(lake.path(), &[text, "--mode", mode, "-n", "10000"]);
        assert!(all.len() > 30, "{mode}: {}", all.len());
        for (options, condition) in FILTERS {
            let expected: Vec<_> = all
                .iter()
                .filter(|found| condition(&found["grain"]))
                .collect();
            for limit in ["1", "3", "40"] {
                let words = [&[text, "--mode", mode, "-n", limit][..], options].concat();
                let found = results(lake.path(), &words);
                let count = expected.len().min(limit.parse().unwrap());
                assert_eq!(found.len(), count, "{words:?}");
                assert!(
                    found.iter().all(|found| condition(&found["grain"])),
                    "{words:?}"
                );
                // The candidates of a hybrid search depend on the limit, and so its scores.
                if mode != "hybrid" {
                    let addresses = |found: &Value| found["content_address"].clone();
                    let expected: Vec<_> = expected
                        .iter()
                        .take(count)
                        .copied()
                        .map(addresses)
                        .collect();
                    let found: Vec<_> = found.iter().map(addresses).collect();
                    assert_eq!(found, expected, "{words:?}");
                }
            }
        }
    }
    let words = ["search", "the", "--user", "theo", "-n", "2"];
    let counted = "SELECT count(*) AS n FROM search('the', 10000) WHERE user_id = 'theo'";
    assert_eq!(
        run(lake.path(), &words)["total"],
        run(lake.path(), &["sql", counted])["n"]
    );
}

#[test]
fn a_search_without_a_match_returns_nothing() {
    let lake = lake();
    for mode in MODES {
        for text in [
            "zebra quasar",
            "the rules of chess",
            "quantum entanglement lecture",
            "-tea",
        ] {
            let found = run(lake.path(), &["search", "--mode", mode, "--", text]);
            assert_eq!(found["results"], Value::Array(Vec::new()), "{mode}: {text}");
            assert_eq!(found["total"], 0, "{mode}: {text}");
        }
    }
}

#[test]
fn a_question_finds_what_its_rare_words_are_about() {
    let lake = lake();
    let content = |found: &Value| found["grain"]["content"].as_str().map(str::to_owned);
    let found = results(
        lake.path(),
        &["does the insurance pay for a stolen bike", "-n", "1"],
    );
    let best = content(&found[0]).unwrap();
    assert!(
        best.starts_with("Does the insurance pay if the bike is stolen"),
        "{best}"
    );
    // A grain with all words excludes those that have only some.
    let found = results(lake.path(), &["insurance stolen"]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn every_result_has_an_excerpt() {
    let lake = lake();
    let question = "broken electric bicycle";
    for mode in MODES {
        for found in results(lake.path(), &[question, "--mode", mode]) {
            let excerpt = found["snippet"].as_str().unwrap_or_default();
            assert!(excerpt.len() > 10, "{mode}: {found}");
        }
    }
    let found = results(
        lake.path(),
        &[
            "is she allergic to nuts",
            "--mode",
            "vector",
            "--user",
            "ada",
            "--type",
            "belief",
        ],
    );
    let excerpts: Vec<_> = found
        .iter()
        .filter_map(|found| found["snippet"].as_str())
        .collect();
    assert!(
        excerpts.contains(&"Ada Brennan is_allergic_to peanuts"),
        "{excerpts:?}"
    );
}

/// Questions with texts of which one is part of each right answer.
const QUESTIONS: &str = include_str!("../../cases/search/questions.jsonl");

/// Number of results in which an answer counts.
const BEST: usize = 5;

/// Returns whether an answer is among the best results.
async fn is_answered(context: &SessionContext, question: &Value, mode: SearchMode) -> bool {
    let request = SearchRequest {
        text: question["question"].as_str().unwrap(),
        limit: BEST,
        mode,
        filter: &SearchFilter::default(),
    };
    let found = search_rows(context, "grain_json(blob) AS grain", request);
    let batches = found.await.unwrap().collect().await.unwrap();
    let answers = question["answers"].as_array().unwrap();
    let grains = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
    let mut grains = grains;
    grains.any(|grain| {
        answers
            .iter()
            .any(|answer| grain.contains(answer.as_str().unwrap()))
    })
}

/// Number of questions of each language that the search by words, by meaning and the hybrid one
/// answer, with the vectors of the embedder `spec`.
async fn answered_questions(folder: &Path, spec: &str) -> BTreeMap<String, [usize; 3]> {
    let lake = folder.join("lake");
    let lake = Lake::open(lake.to_str().unwrap()).await.unwrap();
    let options = SqlOptions {
        embedder: Some(embedder(spec).unwrap()),
        ..SqlOptions::default()
    };
    let context = lake_context(&lake, &options).await.unwrap();
    let modes = [SearchMode::Text, SearchMode::Vector, SearchMode::Hybrid];
    let mut answered: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for question in QUESTIONS.lines() {
        let question: Value = serde_json::from_str(question).unwrap();
        let language = question["language"].as_str().unwrap().to_owned();
        let counts = answered.entry(language).or_default();
        for (mode, count) in modes.into_iter().zip(counts) {
            *count += usize::from(is_answered(&context, &question, mode).await);
        }
    }
    assert_eq!((QUESTIONS.lines().count(), answered.len()), (60, 4));
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_answered_questions_is_that_of_the_page() {
    let folder = lake();
    let answered = answered_questions(folder.path(), "static").await;
    let table = table("built-in model", &answered);
    assert_generated("docs/search.md", "quality", &table, "search::");
}

/// The same with a sentence transformer, in the folder `GRISTMILL_BERT`: the model has 90 MB and
/// isn't part of the repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_a_sentence_transformer_is_that_of_the_page() {
    let Ok(model) = std::env::var("GRISTMILL_BERT") else {
        eprintln!("skipped: GRISTMILL_BERT isn't the folder of all-MiniLM-L6-v2");
        return;
    };
    let spec = format!("bert:{model}");
    let folder = lake();
    run(folder.path(), &["--embedder", &spec, "reindex", "--embed"]);
    let answered = answered_questions(folder.path(), &spec).await;
    let table = table("all-MiniLM-L6-v2", &answered);
    assert_generated("docs/search.md", "quality-bert", &table, "search::");
}

/// Returns the table of the page, of a search that finds in hybrid mode as much as in each other.
fn table(model: &str, answered: &BTreeMap<String, [usize; 3]>) -> String {
    let all = answered
        .values()
        .fold([0; 3], |sum, own| [0, 1, 2].map(|at| sum[at] + own[at]));
    let [words, meaning, hybrid] = all;
    assert!(hybrid >= words.max(meaning), "{all:?}");
    let mut table = format!("| | by words | by meaning ({model}) | hybrid |\n|---|---|---|---|\n");
    let names = [
        ("en", "English"),
        ("de", "German"),
        ("fr", "French"),
        ("es", "Spanish"),
    ];
    for (code, name) in names {
        let [words, meaning, hybrid] = answered[code];
        let _ = writeln!(table, "| {name}, of 15 | {words} | {meaning} | {hybrid} |");
    }
    let percent = all.map(|count| format!("**{count} ({} %)**", (count * 100 + 30) / 60));
    let _ = writeln!(table, "| all, of 60 | {} |", percent.join(" | "));
    table
}
