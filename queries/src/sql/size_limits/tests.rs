//! Tests of the limits.

use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;

use super::super::first_value::first_value;
use super::super::{SqlOptions, bare_context};
use super::NO_OPTION;

#[tokio::test]
async fn results_within_the_limit_are_those_of_the_functions() {
    for (query, expected) in [
        ("SELECT repeat('ab', 3)", "ababab"),
        ("SELECT repeat('ab', -1)", ""),
        ("SELECT lpad('a', 3, 'xy')", "xya"),
        ("SELECT rpad('a', 3)", "a  "),
        ("SELECT array_repeat('a', 2)", "[a, a]"),
        ("SELECT repeat(NULL, 3)", ""),
        ("SELECT length(repeat('x', 10000000))", "10000000"),
        ("SELECT replace('aXa', 'X', 'yy')", "ayya"),
        (
            r"SELECT regexp_replace('abc', '([ab])', '<\1>', 'g')",
            "<a><b>c",
        ),
        ("SELECT array_resize([1], 3, 7)", "[1, 7, 7]"),
        ("SELECT array_repeat([1, NULL], 2)", "[[1, ], [1, ]]"),
        ("SELECT array_to_string(['a', NULL], ', ', '?')", "a, ?"),
        ("SELECT range(1, 4)", "[1, 2, 3]"),
        ("SELECT encode('ab', 'hex')", "6162"),
        ("SELECT translate('abc', 'ab', 'xy')", "xyc"),
        ("SELECT string_to_array('a,b', ',')", "[a, b]"),
        ("SELECT generate_series(4, 0, -2)", "[4, 2, 0]"),
        (
            "SELECT range(DATE '2026-01-30', DATE '2026-02-02', INTERVAL '1 day')",
            "[2026-01-30, 2026-01-31, 2026-02-01]",
        ),
        ("SELECT 'a' || 1", "a1"),
        ("SELECT 'a' || NULL IS NULL", "true"),
        ("SELECT NULL || 'a' IS NULL", "true"),
        (
            "SELECT max(a || '-' || n) FROM (VALUES ('x', 3), (NULL, 4)) AS t (a, n)",
            "x-3",
        ),
        ("SELECT encode(x'61'::bytea || x'62'::bytea, 'hex')", "6162"),
        ("SELECT [1] || [2, 3]", "[1, 2, 3]"),
        ("SELECT [1] || 2", "[1, 2]"),
        ("SELECT 1 || [2]", "[1, 2]"),
        ("SELECT [[1]] || [2]", "[[1], [2]]"),
        (
            "SELECT array_sort(array_union([1, 2], [2, 3]))",
            "[1, 2, 3]",
        ),
        // By its bounds a batch is too large, by its results it isn't.
        (
            "SELECT sum(length(regexp_replace(repeat('x', 20000 + value % 2), 'y', repeat('z', \
             100)))) FROM range(0, 200)",
            "4000100",
        ),
        (
            "SELECT max(length(repeat(a, n))) FROM (VALUES ('x', 3), ('yy', 4)) AS t (a, n)",
            "8",
        ),
    ] {
        assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
    }
}

#[tokio::test]
async fn the_operator_names_columns_and_has_placeholders() {
    let context = bare_context(&SqlOptions::default()).unwrap();
    let frame = context.sql("SELECT 'a' || $1 AS b, 'c' || 'd'").await;
    let frame = frame
        .unwrap()
        .with_param_values(vec![ScalarValue::from("x")]);
    let batches = frame.unwrap().collect().await.unwrap();
    let schema = batches[0].schema();
    assert_eq!(schema.field(1).name(), "Utf8(\"c\") || Utf8(\"d\")");
    let first = array_value_to_string(batches[0].column(0), 0).unwrap();
    assert_eq!(first, "ax");
}

#[tokio::test]
async fn results_that_exist_at_the_same_time_share_a_limit() {
    let calls = |count: usize| vec!["repeat('x', 200000 + value)"; count];
    let query = |expression: String| format!("SELECT max(length({expression})) FROM range(0, 200)");
    let joined = |count| query(format!("concat({})", calls(count).join(", ")));
    let most = first_value(&joined(3)).await;
    assert_eq!(most.as_deref(), Ok("600597"));
    let refused = first_value(&joined(100)).await.unwrap_err();
    assert!(refused.contains("more than 10631107"), "{refused}");
    let items = format!(
        "SELECT max(cardinality([{}])) FROM range(0, 200)",
        calls(3).join(", ")
    );
    assert_eq!(first_value(&items).await.as_deref(), Ok("3"));
    let items = calls(100).join(", ");
    let items = format!("SELECT max(cardinality([{items}])) FROM range(0, 200)");
    let refused = first_value(&items).await.unwrap_err();
    assert!(refused.contains("more than 10631107"), "{refused}");
    let keys: Vec<String> = (0..100)
        .map(|number| format!("repeat('x', 200000 + value + {number})"))
        .collect();
    let keys = keys.join(", ");
    let grouped = format!("SELECT count(*) FROM range(0, 200) GROUP BY {keys}");
    let refused = first_value(&grouped).await.unwrap_err();
    assert!(refused.contains("more than 10737418"), "{refused}");
    // Those of a chain, and of branches, don't.
    let chain = query(calls(1).repeat(6).join(" || "));
    assert_eq!(first_value(&chain).await.as_deref(), Ok("1201194"));
    let branches: String = (0..50)
        .map(|row| format!(" WHEN {row} THEN repeat('x', 300000 + value)"))
        .collect();
    let branches = query(format!(
        "CASE value{branches} ELSE repeat('y', 1000000) END"
    ));
    assert_eq!(first_value(&branches).await.as_deref(), Ok("1000000"));
}

#[tokio::test]
async fn results_beyond_the_limit_are_refused_before_they_are_made() {
    for query in [
        "SELECT repeat('x', 2000000000)",
        "SELECT length(lpad('x', 2000000000))",
        "SELECT rpad('x', 2000000000, 'ab')",
        "SELECT array_length(array_repeat(1, 2000000000))",
        "SELECT length(replace(repeat('a', 20000), 'a', repeat('b', 100000)))",
        "SELECT length(replace(a, '', repeat('b', 200000))) FROM (VALUES (repeat('a', 2000))) \
         AS t (a)",
        "SELECT length(regexp_replace(repeat('a', 20000), 'a', repeat('b', 100000), 'g'))",
        r"SELECT length(regexp_replace(repeat('a', 100000), '.*', repeat('\0', 10000)))",
        "SELECT array_length(array_resize([1], 200000000, 7))",
        "SELECT array_length(array_repeat(array_repeat(1, 30000), 30000))",
        "SELECT array_length(array_resize([[1]], 30000, range(0, 30000)))",
        "SELECT array_length(array_repeat(CAST(repeat('x', 1000000) AS BYTEA), 1000))",
        "SELECT array_length(array_repeat(a, 30000)) FROM (VALUES (range(0, 30000)), ([1])) AS \
         t (a)",
        "SELECT length(array_to_string(array_repeat('a', 1000000), repeat('b', 1000)))",
        // Not a constant: as a name of a column that takes minutes.
        "SELECT length(encode(repeat(repeat('x', 1000), CAST(200000 + random() AS BIGINT)), \
         'hex'))",
        "SELECT length(translate(repeat(repeat('a', 1000), 100000), 'a', '€'))",
        "SELECT array_length(string_to_array(repeat(repeat(',', 1000), 100000), ','))",
        "SELECT sum(length(concat(a, a, a, a, a, a))) FROM (SELECT repeat('x', 100000 + value) \
         AS a FROM range(0, 2000))",
        "SELECT sum(length(concat_ws(repeat('-', 100000), value, value, value))) FROM range(0, \
         2000)",
        "SELECT sum(length(overlay(repeat('x', 200000) placing value::text from 2))) FROM \
         range(0, 2000)",
        "SELECT sum(length(to_char(to_timestamp(value), repeat('%A', 100000)))) FROM \
         range(0, 2000)",
        "SELECT array_length(range(0, 200000000))",
        "SELECT array_length(generate_series(0, 9223372036854775807))",
        "SELECT array_length(range(DATE '0001-01-01', DATE '9999-12-31', INTERVAL '1 second'))",
        "SELECT array_length(range(TIMESTAMP '1900-01-01', TIMESTAMP '2100-01-01', INTERVAL '1 \
         millisecond'))",
        "SELECT max(length(a || repeat('x', 200000))) FROM (SELECT repeat('y', value) AS a FROM \
         range(0, 2000))",
        "SELECT max(cardinality(array_union(range(0, 1000000 + value), range(value, 1500000)))) \
         FROM range(0, 2)",
        "SELECT max(cardinality(array_distinct(range(0, 2000000 + value)))) FROM range(0, 2)",
        "SELECT max(cardinality(range(0, 15000000 + value) || range(0, 15000000 + value))) FROM \
         range(0, 2)",
        "SELECT repeat(a, 9223372036854775807) FROM (VALUES ('x'), ('yy')) AS t (a)",
        "SELECT max(cardinality(array_replace_all(array_repeat('x', 1000), 'x', repeat('y', 300 + \
         value)))) FROM range(1, 1000)",
    ] {
        let refused = first_value(query).await.unwrap_err();
        let limits = ["more than 268435456", "more than 16777216"];
        assert!(
            limits.iter().any(|limit| refused.contains(limit)),
            "{query}: {refused}"
        );
        assert!(refused.ends_with(NO_OPTION), "{query}: {refused}");
    }
}
