//! Tests of the limits.

use super::super::SqlOptions;
use super::super::first_value::first_value_with;

/// Returns the first value of `query` in a session with 64 MiB.
async fn first_value(query: &str) -> Result<String, String> {
    let options = SqlOptions {
        memory: Some(64 << 20),
        ..SqlOptions::default()
    };
    first_value_with(query, &options).await
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
            "SELECT sum(length(a)) FROM (SELECT string_agg(value::text, '') OVER (ORDER BY value \
             ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM range(0, 10))",
            "27",
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
        // Streamed, so that few results are in memory.
        (
            "SELECT sum(length(a)) FROM (SELECT max(repeat('x', 1000)) OVER (ORDER BY value) AS a \
             FROM range(0, 200000))",
            "200000000",
        ),
    ] {
        assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
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
        "SELECT max(length(a)) FROM (SELECT max(repeat('x', 1000000) || (value % 2)) OVER () AS a \
         FROM range(0, 10000))",
        "SELECT max(length(a)) FROM (SELECT first_value(repeat('x', 1000000) || (value % 2)) OVER \
         () AS a FROM range(0, 100))",
        "SELECT max(length(a)) FROM (SELECT min(value || repeat('x', 1000000)) OVER (ORDER BY \
         value ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a FROM range(0, 100))",
    ] {
        let refused = first_value(query).await.unwrap_err();
        assert!(refused.contains("over a window"), "{query}: {refused}");
    }
}
