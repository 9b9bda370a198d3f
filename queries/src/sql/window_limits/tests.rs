//! Tests of the limits.

use std::sync::Arc;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::prelude::SessionContext;

use super::super::first_value::{first_value_in, first_value_with};
use super::super::{SharedMemory, SqlOptions, bare_context};
use super::held_rows::{self, OperatorMemory, ResultBytes};

/// Returns the first value of `query` in a session with 64 MiB.
async fn first_value(query: &str) -> Result<String, String> {
    let options = SqlOptions {
        memory: Some(64 << 20),
        ..SqlOptions::default()
    };
    first_value_with(query, &options).await
}

/// Returns a session as in a server, for a query with 64 MiB.
fn server_session() -> SessionContext {
    let options = SqlOptions {
        memory: Some(256 << 20),
        ..SqlOptions::default()
    };
    let context = bare_context(&options).unwrap();
    let memory = SharedMemory::of(&context, 1);
    memory.session(&context, 64 << 20).unwrap()
}

#[tokio::test]
async fn results_within_the_limit_are_those_of_the_functions() {
    for (query, expected) in [
        (
            "SELECT array_agg(value) OVER (ORDER BY value) FROM range(0, 3) ORDER BY value DESC",
            "[0, 1, 2]",
        ),
        ("SELECT array_agg(value) OVER () FROM range(0, 2)", "[0, 1]"),
        (
            "SELECT sum(array_length(a)) FROM (SELECT array_agg(value) OVER (PARTITION BY value % \
             1000) AS a FROM range(0, 20000))",
            "400000",
        ),
        (
            "SELECT string_agg(a, '') FROM (SELECT min(value::text) OVER (ORDER BY value ROWS \
             BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM range(0, 5))",
            "00012",
        ),
        (
            "SELECT max(value) OVER (PARTITION BY value % 2 ORDER BY value DESC) FROM range(0, 5) \
             ORDER BY value LIMIT 1",
            "4",
        ),
        (
            "SELECT first_value(value::text) OVER (ORDER BY value DESC) FROM range(0, 5)",
            "4",
        ),
        (
            "SELECT last_value(value) IGNORE NULLS OVER (ORDER BY value ROWS BETWEEN UNBOUNDED \
             PRECEDING AND UNBOUNDED FOLLOWING) FROM range(0, 5)",
            "4",
        ),
        (
            "SELECT nth_value(value, 2) OVER (ORDER BY value ROWS BETWEEN CURRENT ROW AND \
             UNBOUNDED FOLLOWING) FROM range(0, 5) ORDER BY value",
            "1",
        ),
        (
            "SELECT min(value) FILTER (WHERE value > 2) OVER () FROM range(0, 5)",
            "3",
        ),
        // Wide, but few.
        (
            "SELECT max(length(a)) FROM (SELECT max(repeat('x', 1000000)) OVER (ORDER BY value) AS \
             a FROM range(0, 3))",
            "1000000",
        ),
        (
            "SELECT max(length(a)) FROM (SELECT first_value(repeat('x', 1000000)) OVER (ORDER BY \
             value) AS a FROM range(0, 3))",
            "1000000",
        ),
        (
            "SELECT lead(value::text, 1, 'none') OVER (ORDER BY value) FROM range(0, 2) ORDER BY \
             value DESC",
            "none",
        ),
        (
            "SELECT lag(nullif(value, 1)) IGNORE NULLS OVER (ORDER BY value) FROM range(0, 3) \
             ORDER BY value DESC",
            "0",
        ),
        // Streamed, so that few results are in memory.
        (
            "SELECT sum(length(a)) FROM (SELECT max(repeat('x', 1000)) OVER (ORDER BY value) AS a \
             FROM range(0, 200000))",
            "200000000",
        ),
    ] {
        assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
        let value = first_value_in(&server_session(), query).await;
        assert_eq!(value.as_deref(), Ok(expected), "{query} in a server");
    }
}

#[tokio::test]
async fn results_beyond_the_limit_are_refused_before_they_are_made() {
    for query in [
        "SELECT max(array_length(a)) FROM (SELECT array_agg(value) OVER () AS a FROM range(0, \
         100000))",
        "SELECT max(array_length(a)) FROM (SELECT array_agg(value) OVER (PARTITION BY value % 100) \
         AS a FROM range(0, 1000000))",
        "SELECT max(array_length(a)) FROM (SELECT array_agg(value) OVER (ORDER BY value) AS a FROM \
         range(0, 200000))",
        "SELECT max(length(a)) FROM (SELECT string_agg(repeat('x', 10), '') OVER () AS a FROM \
         range(0, 100000))",
        "SELECT max(length(a)) FROM (SELECT max(repeat('x', CASE WHEN value = 0 THEN 1000000 ELSE \
         0 END)) OVER () AS a FROM range(0, 10000))",
        "SELECT max(length(a)) FROM (SELECT first_value(repeat('x', 1000000) || (value % 2)) OVER \
         () AS a FROM range(0, 100))",
        "SELECT max(length(a)) FROM (SELECT min(value || repeat('x', 1000000)) OVER (ORDER BY \
         value ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a FROM range(0, 100))",
    ] {
        let refused = first_value(query).await.unwrap_err();
        assert!(refused.contains("over a window"), "{query}: {refused}");
        let refused = first_value_in(&server_session(), query).await.unwrap_err();
        let refused = refused.to_lowercase();
        assert!(refused.contains("window"), "{query} in a server: {refused}");
    }
}

#[tokio::test]
async fn results_that_wait_in_the_operator_count_until_it_passes_them_on() {
    let wide = "max(repeat('x', CASE WHEN value = 0 THEN 20000 ELSE 0 END))";
    for query in [
        // Another function waits for the end.
        format!("{wide} OVER (ORDER BY value) AS a, ntile(4) OVER (ORDER BY value) AS n"),
        format!(
            "{wide} OVER (ORDER BY value) AS a, sum(value) OVER (ORDER BY value ROWS BETWEEN \
             CURRENT ROW AND 100000 FOLLOWING) AS n"
        ),
        // All rows are peers.
        format!("{wide} OVER (ORDER BY value / 1000000) AS a, 1 AS n"),
        // One row is read, and each has the result.
        format!("{wide} FILTER (WHERE value = 0) OVER () AS a, 1 AS n"),
        "any_value(nullif(repeat('x', CASE WHEN value = 0 THEN 20000 ELSE 0 END), '')) OVER () AS \
         a, 1 AS n"
            .to_owned(),
        format!(
            "{wide} FILTER (WHERE value % 5000 = 0) OVER (PARTITION BY value % 2) AS a, 1 AS n"
        ),
        "lag(value::text, 20000, repeat('x', 20000)) OVER (ORDER BY value) AS a, ntile(4) OVER \
         (ORDER BY value) AS n"
            .to_owned(),
        "lead(value::text, 20000, repeat('x', 100000)) OVER (ORDER BY value) AS a, 1 AS n"
            .to_owned(),
        "lag(nullif(repeat('x', CASE WHEN value = 0 THEN 100000 ELSE 0 END), '')) IGNORE NULLS \
         OVER (ORDER BY value) AS a, 1 AS n"
            .to_owned(),
    ] {
        let query = format!("SELECT max(length(a) + n) FROM (SELECT {query} FROM range(0, 10000))");
        let refused = first_value_in(&server_session(), &query).await.unwrap_err();
        assert!(refused.contains("over a window"), "{query}: {refused}");
    }
}

#[tokio::test]
async fn the_rows_that_a_window_operator_holds_count_in_the_memory_of_the_query() {
    let wide = "SELECT value, repeat('x', 10000) || value AS a FROM range(0, 20000)";
    for query in [
        "SELECT max(s) FROM (SELECT sum(value) OVER () AS s FROM range(0, 50000000))".to_owned(),
        format!("SELECT max(length(a) + n) FROM (SELECT a, count(*) OVER () AS n FROM ({wide}))"),
        format!(
            "SELECT max(length(a) + n) FROM (SELECT a, sum(value) OVER (ROWS BETWEEN CURRENT ROW \
             AND 100000 FOLLOWING) AS n FROM ({wide}))"
        ),
        "SELECT max(n) FROM (SELECT max(repeat('x', 1000000)) OVER () AS n FROM range(0, 1000))"
            .to_owned(),
    ] {
        let refused = first_value_in(&server_session(), &query).await.unwrap_err();
        assert!(refused.contains("WindowRows"), "{query}: {refused}");
    }
    // Passed on before the input ends.
    let query = format!(
        "SELECT max(length(a) + n::bigint - 20000) FROM (SELECT a, row_number() OVER () AS n FROM \
         ({wide}))"
    );
    let longest = first_value_in(&server_session(), &query).await;
    assert_eq!(longest.as_deref(), Ok("10005"));
}

#[test]
fn what_is_passed_on_or_dropped_counts_no_more() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
    let memory = OperatorMemory::new(100);
    let held = memory.start(0, &pool);
    assert!(memory.started(0).is_some() && memory.started(0).is_none());
    held.read(400).unwrap();
    assert_eq!(pool.reserved(), 0, "the last batch");
    held.read(50).unwrap();
    assert_eq!(pool.reserved(), 800);
    held.pass_on(400, 0);
    assert_eq!(pool.reserved(), 0);
    held.read(500).unwrap();
    assert!(held.read(1).is_err());

    let results = |bytes| held.during(|| held_rows::add_results(bytes));
    let expected = |needed| Some(ResultBytes { needed, limit: 100 });
    assert_eq!(results(60), expected(60));
    assert_eq!(results(60), expected(120));
    held.pass_on(0, 50);
    assert_eq!(results(60), expected(70));
    let other = memory.start(1, &pool);
    let results = other.during(|| held_rows::add_results(20));
    assert_eq!(results, expected(90));
    drop((held, memory.started(1)));
    let results = other.during(|| held_rows::add_results(0));
    assert_eq!(results, expected(20));
    assert_eq!(held_rows::add_results(0), None);
    assert_eq!(pool.reserved(), 0);
}
