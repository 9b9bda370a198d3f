//! Embedders end to end: vectors without a download, and a sentence transformer compared with
//! another implementation.

use std::path::{Path, PathBuf};

use gristmill_engine::index::vectors::embed::{BertEmbedder, Embedder};
use gristmill_tests::binary::gristmill;
use gristmill_tests::paths::workspace;
use serde_json::Value;

/// Returns the output of `words`, one value per line.
fn json_rows(folder: &Path, words: &[&str]) -> Vec<Value> {
    let output = gristmill()
        .current_dir(folder)
        .args(words)
        .args(["--format", "jsonl", "--quiet"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn vectors_of_the_shipped_model_are_made_and_searched_without_naming_it() {
    let here = tempfile::tempdir().unwrap();
    let container = workspace().join("datasets/plain.mg");
    json_rows(
        here.path(),
        &["ingest", container.to_str().unwrap(), "--no-indexes"],
    );
    let reindexed = json_rows(here.path(), &["reindex", "--embed"]);
    let vectors = reindexed[0]["vectors"]["vectors"]["wordllama-224"]
        .as_u64()
        .unwrap();
    assert!(vectors > 500, "{reindexed:?}");

    let query =
        "SELECT content FROM events WHERE length(content) > 60 ORDER BY content_address LIMIT 1";
    let text = json_rows(here.path(), &["sql", query])[0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    let near = format!(
        "SELECT content, score FROM vector_search('{}', 3)",
        text.replace('\'', "''")
    );
    let near = json_rows(here.path(), &["sql", &near]);
    assert!(near.len() == 3 && near[0]["content"] == *text, "{near:?}");
    assert!(near[0]["score"].as_f64().unwrap() > 0.99, "{near:?}");
    let few = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.len() > 3)
        .take(4)
        .collect::<Vec<_>>()
        .join(" ");
    // Options may precede or follow the words.
    for words in [
        &["search", "-n", "2", "--mode", "hybrid", &few][..],
        &["search", &few, "-n", "2", "--embedder", "static"],
    ] {
        assert_eq!(
            json_rows(here.path(), words)[0]["results"]
                .as_array()
                .map(Vec::len),
            Some(2),
            "{words:?}"
        );
    }
}

#[test]
fn an_invalid_embedder_has_its_own_error() {
    let here = tempfile::tempdir().unwrap();
    for (spec, reason) in [
        ("bert", "is no embedder"),
        ("static:", "model.safetensors"),
        ("bert:nowhere", "it has no `config.json`"),
        ("bert:nowhere", "nowhere"),
    ] {
        let output = gristmill()
            .current_dir(here.path())
            .args(["sql", "SELECT 1", "--embedder", spec])
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && told.contains(reason),
            "{spec}: {told}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_program_that_embeds_does_not_get_the_passphrase() {
    let here = tempfile::tempdir().unwrap();
    let program = "printf '%s' \"${GRISTMILL_PASSPHRASE-unset}\" > seen; sed 's/.*/[1,2]/'\n";
    std::fs::write(here.path().join("embed.sh"), program).unwrap();
    let ended = gristmill()
        .current_dir(here.path())
        .env("GRISTMILL_PASSPHRASE", "of the keyring")
        .args(["sql", "SELECT 1", "--embedder", "command:sh embed.sh"])
        .output();
    assert!(ended.unwrap().status.success());
    let seen = std::fs::read_to_string(here.path().join("seen")).unwrap();
    assert_eq!(seen, "unset");
}

/// `cases/embeddings/minilm.json`: what `tools/bert_reference.py` computed from the same weights.
#[test]
fn a_sentence_transformer_matches_another_implementation() {
    let Some(folder) = std::env::var_os("GRISTMILL_MINILM").map(PathBuf::from) else {
        eprintln!(
            "skipped: GRISTMILL_MINILM doesn't name a folder with the model all-MiniLM-L6-v2"
        );
        return;
    };
    let case = std::fs::read(workspace().join("tests/cases/embeddings/minilm.json")).unwrap();
    let case: Value = serde_json::from_slice(&case).unwrap();
    let texts: Vec<String> = serde_json::from_value(case["texts"].clone()).unwrap();
    let beginnings: Vec<Vec<f32>> = serde_json::from_value(case["beginnings"].clone()).unwrap();
    let cosines: Vec<Vec<f32>> = serde_json::from_value(case["cosines"].clone()).unwrap();
    let embedder = BertEmbedder::open(&folder).unwrap();
    let vectors = embedder.embed(&texts).unwrap();
    assert!(texts.len() == 10 && vectors.len() == 10 && embedder.dimensions() == 384);
    let close = |found: f32, expected: f32| (found - expected).abs() < 1e-4;
    for (at, left) in vectors.iter().enumerate() {
        let beginning = left.iter().zip(&beginnings[at]);
        assert!(
            beginning
                .clone()
                .all(|(found, expected)| close(*found, *expected)),
            "{}: {beginning:?}",
            texts[at]
        );
        for (other, right) in vectors.iter().enumerate() {
            let cosine: f32 = left
                .iter()
                .zip(right)
                .map(|(left, right)| left * right)
                .sum();
            let expected = cosines[at][other];
            assert!(
                close(cosine, expected),
                "{cosine} for {expected}: {} / {}",
                texts[at],
                texts[other]
            );
        }
    }
}
