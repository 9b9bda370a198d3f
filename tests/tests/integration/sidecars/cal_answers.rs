//! Answers of CAL with intact, missing and damaged sidecars, and exact counts and pages.

use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::lake::patient_session;

use super::{context, lake, reopened, rows, sidecars};

/// Returns CAL statements that sidecars answer, made from the lake's content.
async fn statements(lake: &Lake) -> Vec<String> {
    let cells = |query: &'static str| async move { rows(lake, query).await };
    let subjects =
        cells("SELECT subject FROM beliefs GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 3").await;
    let texts = cells(
        "SELECT content FROM events WHERE content LIKE '% % %' ORDER BY content_address LIMIT 6",
    )
    .await;
    let old = cells("SELECT content_address FROM supersessions ORDER BY 1 LIMIT 1").await;
    let mut statements = vec![
        "RECALL WHERE query = \"nothing-has-this-word\"".to_owned(),
        "RECALL WHERE query = \"-- !\"".to_owned(),
        "RECALL WHERE query = \"prefers\" | COUNT".to_owned(),
        "RECALL beliefs WHERE query = \"PREFERS\" AND score >= 0.3 | LIMIT 50".to_owned(),
        "RECALL events WHERE query = \"the\" | ORDER BY time DESC | LIMIT 7".to_owned(),
        "RECALL WHERE query = \"the\" AND importance >= 0.9 | LIMIT 2".to_owned(),
        "RECALL events WHERE query = \"the\" AND time = \"2020-01-01\" WITH superseded".to_owned(),
        "RECALL WHERE query = \"the\" | OFFSET 3 | LIMIT 4".to_owned(),
        "RECALL WHERE query = \"the\" | GROUP BY type".to_owned(),
    ];
    // Pages of the best, of which the texts of few candidates are read.
    for word in ["the", "to the", "prefers", "a"] {
        for stages in ["| FIRST", "| LIMIT 2", "| LIMIT 40", "| LIMIT 400", ""] {
            statements.push(format!("RECALL WHERE query = {word:?} {stages}"));
            statements.push(format!("RECALL events WHERE query = {word:?} {stages}"));
        }
    }
    for subject in &subjects {
        statements.push(format!("RECALL WHERE subject = {subject:?} | LIMIT 100"));
        statements.push(format!(
            "RECALL beliefs WHERE subject = {subject:?} WITH superseded | LIMIT 100"
        ));
        statements.push(format!(
            "RECALL WHERE subject = {subject:?} AND query = \"prefers\""
        ));
    }
    for text in &texts {
        let words: Vec<&str> = text
            .split(' ')
            .filter(|word| word.chars().all(char::is_alphanumeric))
            .take(3)
            .collect();
        for several in 1..=words.len() {
            statements.push(format!(
                "RECALL WHERE query = {:?} | LIMIT 100",
                words[..several].join(" ")
            ));
        }
    }
    statements.extend(
        old.iter()
            .map(|address| format!("HISTORY sha256:{address}")),
    );
    statements
}

/// Returns the answers to `statements`, without duration and amount read.
async fn answers(lake: &Lake, statements: &[String]) -> Vec<String> {
    let context = context(lake).await;
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let mut answers = Vec::new();
    for statement in statements {
        let answer = executor
            .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
            .await;
        let answer = answer.unwrap_or_else(|error| panic!("{statement}: {error}"));
        answers.push(format!("{:?}", answer.answer));
    }
    answers
}

/// Returns the number of matches of `statement`.
async fn total(lake: &Lake, statement: &str) -> u64 {
    let context = lake_context(lake, &SqlOptions::default()).await.unwrap();
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let response = executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await
        .unwrap();
    response.answer.total
}

async fn plan(lake: &Lake, statement: &str) -> String {
    let context = lake_context(lake, &SqlOptions::default()).await.unwrap();
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let text = format!("EXPLAIN {statement}");
    let answer = executor
        .run_text(text.as_bytes(), &Bindings::new(), Options::default())
        .await
        .unwrap();
    answer.answer.plan.unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cal_answers_do_not_depend_on_sidecars_and_explain_names_those_used() {
    let folder = tempfile::tempdir().unwrap();
    let whole = lake(folder.path()).await;
    let statements = statements(&whole).await;
    let expected = answers(&whole, &statements).await;
    let found = expected
        .iter()
        .filter(|answer| !answer.contains("results: []"))
        .count();
    assert!(
        statements.len() > 20 && found > 15,
        "{found} of {}",
        statements.len()
    );

    // So many that the texts of few of them are read.
    let large = total(&whole, "RECALL WHERE query = \"the\" | LIMIT 2").await;
    assert!(large > 200, "{large}");

    let search = "RECALL WHERE query = \"prefers\"";
    let explained = plan(&whole, search).await;
    assert!(
        explained.contains("index=fulltext(prefers)") && !explained.contains("read whole"),
        "{explained}"
    );
    let explained = plan(
        &whole,
        "RECALL beliefs WHERE subject = \"nobody\" AND query = \"tea\"",
    )
    .await;
    assert!(
        explained.contains("index=fulltext(tea) and hexastore(subject): 0 of"),
        "{explained}"
    );

    let texts = sidecars(folder.path(), "fulltext.bin");
    std::fs::remove_file(&texts[0]).unwrap();
    std::fs::write(&texts[2], b"nothing").unwrap();
    let hurt = reopened(folder.path()).await;
    assert_eq!(answers(&hurt, &statements).await, expected);
    let explained = plan(&hurt, search).await;
    assert!(explained.contains("2 read whole"), "{explained}");

    std::fs::remove_dir_all(folder.path().join("lake/index")).unwrap();
    let bare = reopened(folder.path()).await;
    assert_eq!(answers(&bare, &statements).await, expected);
    assert!(plan(&bare, search).await.contains("3 read whole"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_totals_and_pages_are_exact_for_any_limit() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    // The expected answer, row by row.
    let beliefs = "SELECT relation, subject, confidence, content_address FROM grains
                   WHERE type = 'belief' AND content_address NOT IN (SELECT content_address FROM supersessions)";
    let beliefs: Vec<Vec<String>> = rows(&lake, beliefs)
        .await
        .iter()
        .map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<_>>())
        .filter(|row| row.len() == 4)
        .collect();
    let context = context(&lake).await;
    let executor = Executor::new(context, patient_session(1_800_000_000_000));
    let ask = async |text: String| {
        let answer = executor
            .run_text(text.as_bytes(), &Bindings::new(), Options::default())
            .await;
        answer
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .answer
    };
    let mut relations: Vec<&String> = beliefs.iter().map(|row| &row[0]).collect();
    relations.sort();
    relations.dedup();
    assert!(relations.len() > 3);
    for relation in relations {
        for least in [0.0, 0.5, 0.9] {
            let fits =
                |row: &&Vec<String>| row[0] == *relation && row[2].parse::<f64>().unwrap() >= least;
            let expected = beliefs.iter().filter(fits).count() as u64;
            let query =
                format!("RECALL beliefs WHERE relation = {relation:?} AND confidence >= {least:?}");
            let counted = ask(format!("{query} | COUNT")).await;
            assert_eq!(counted.value.unwrap().as_u64(), Some(expected), "{query}");
            for limit in [1_u64, 7, 1000] {
                let answer = ask(format!("{query} | LIMIT {limit}")).await;
                let page = (answer.total, answer.results.len() as u64);
                assert_eq!(
                    page,
                    (expected, expected.min(limit)),
                    "{query} LIMIT {limit}"
                );
            }
            let skipped = ask(format!("{query} | OFFSET 3 | LIMIT 1000")).await;
            assert_eq!(
                skipped.results.len() as u64,
                expected.saturating_sub(3).min(1000),
                "{query}"
            );
            let mut subjects: Vec<&String> =
                beliefs.iter().filter(fits).map(|row| &row[1]).collect();
            subjects.sort();
            subjects.dedup();
            let found = ask(format!("{query} | SUBJECTS")).await.value.unwrap();
            assert_eq!(
                found.as_array().unwrap().len(),
                subjects.len().min(1000),
                "{query}"
            );
        }
    }
}
