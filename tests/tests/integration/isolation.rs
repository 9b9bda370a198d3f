//! Random statements of a token of one namespace answer as over a lake without the others.
//!
//! The environment variable `GRISTMILL_ISOLATION` sets the number of statements;
//! `cargo run --release --bin isolation` sends 200,000.

use gristmill_tests::isolation::{IsolationRun, compare};

/// Statements without the variable.
const STATEMENTS: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn random_statements_of_a_namespace_answer_as_in_a_lake_without_the_others() {
    let count = std::env::var("GRISTMILL_ISOLATION")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(STATEMENTS);
    let run = IsolationRun {
        first: 0,
        count,
        seed: 20_261_127,
    };
    let found = compare(run).await;
    assert!(found.differences.is_empty(), "{found}");
    assert_eq!(found.compared, count);
    // The statements have answers, and the other namespace would change them.
    assert!(found.answered > count / 2, "{found}");
    assert!(found.with_rows > count / 4, "{found}");
    assert!(found.unlike_whole > found.sampled / 4, "{found}");
}
