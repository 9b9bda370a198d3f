//! Values of all types, as text and in binary.

use gristmill_tests::lake::TestLake;
use gristmill_tests::test_server::{Protocol, TestServer, limits};
use serde_json::{Value, json};

use super::session::{Sessions, value};

/// Queries of one value, with its text.
const VALUES: [(&str, &str); 35] = [
    ("true", "t"),
    ("CAST(NULL AS BOOLEAN)", "NULL"),
    ("CAST(-7 AS SMALLINT)", "-7"),
    ("CAST(7 AS INT)", "7"),
    ("CAST(9223372036854775807 AS BIGINT)", "9223372036854775807"),
    ("CAST(1.5 AS REAL)", "1.5"),
    ("CAST(0.1 AS DOUBLE)", "0.1"),
    ("CAST('NaN' AS DOUBLE)", "NaN"),
    ("1e300", "1e300"),
    ("CAST(-1.50 AS DECIMAL(10,2))", "-1.50"),
    (
        "CAST('123456789012345678901234567890.12' AS DECIMAL(38,2))",
        "123456789012345678901234567890.12",
    ),
    ("'tea'", "tea"),
    ("''", ""),
    ("CAST(NULL AS VARCHAR)", "NULL"),
    ("NULL", "NULL"),
    ("X'00ff'", "\\x00ff"),
    ("DATE '2027-01-31'", "2027-01-31"),
    ("DATE '1969-12-31'", "1969-12-31"),
    ("TIME '12:30:01.5'", "12:30:01.500"),
    ("TIMESTAMP '2027-01-31T12:30:00'", "2027-01-31 12:30:00"),
    (
        "arrow_cast('2027-01-31T12:30:00.25Z', 'Timestamp(Millisecond, Some(\"UTC\"))')",
        "2027-01-31 12:30:00.250+00",
    ),
    ("ARRAY[1, 2, NULL]", "{1,2,NULL}"),
    ("ARRAY['a', 'b c', '']", "{a,\"b c\",\"\"}"),
    ("ARRAY[true]", "{t}"),
    ("ARRAY[ARRAY[1], ARRAY[2, 3]]", "[[1],[2,3]]"),
    (
        "named_struct('a', 1, 'b', ARRAY['x'])",
        "{\"a\":1,\"b\":[\"x\"]}",
    ),
    ("ARRAY[named_struct('a', 1)]", "[{\"a\":1}]"),
    ("MAP(ARRAY['k'], ARRAY[2])", "{\"k\":2}"),
    ("arrow_cast(5, 'UInt64')", "5"),
    ("arrow_cast('x', 'Dictionary(Int32, Utf8)')", "x"),
    ("arrow_cast(0, 'Decimal128(38, -2)')", "0"),
    ("'{\"a\": 5}' -> 'a'", "5"),
    ("'{\"a\": \"x\"}' -> 'a'", "\"x\""),
    ("'{\"a\": {\"b\": [1, null]}}' -> 'a'", "{\"b\":[1,null]}"),
    ("'{}' -> 'a'", "NULL"),
];

#[tokio::test(flavor = "multi_thread")]
async fn values_of_all_types_are_the_same_as_text_and_in_binary() {
    let lake = TestLake::new().await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    for (query, expected) in VALUES {
        let query = format!("SELECT {query} AS a");
        assert_eq!(value(&client, &query).await, expected, "{query}");
        let rows = client.query(&query, &[]).await.unwrap();
        assert_eq!(rows.len(), 1, "{query}");
    }
    let row = "SELECT true, CAST(-7 AS SMALLINT), CAST(7 AS INT), CAST(8 AS BIGINT), \
               CAST(1.5 AS REAL), CAST(2.5 AS DOUBLE), 'tea', X'00ff', DATE '2027-01-31', \
               TIMESTAMP '2027-01-31T12:30:00.25', ARRAY[1, NULL], ARRAY['a', ''], \
               named_struct('a', 1), CAST(NULL AS INT)";
    let row = client.query_one(row, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(row.get::<_, i16>(1), -7);
    assert_eq!(row.get::<_, i32>(2), 7);
    assert_eq!(row.get::<_, i64>(3), 8);
    assert_eq!(row.get::<_, f32>(4), 1.5);
    assert_eq!(row.get::<_, f64>(5), 2.5);
    assert_eq!(row.get::<_, &str>(6), "tea");
    assert_eq!(row.get::<_, &[u8]>(7), [0, 255]);
    assert_eq!(row.get::<_, chrono::NaiveDate>(8).to_string(), "2027-01-31");
    let time = row.get::<_, chrono::NaiveDateTime>(9);
    assert_eq!(time.to_string(), "2027-01-31 12:30:00.250");
    assert_eq!(row.get::<_, Vec<Option<i64>>>(10), [Some(1), None]);
    assert_eq!(row.get::<_, Vec<String>>(11), ["a", ""]);
    assert_eq!(row.get::<_, Value>(12), json!({ "a": 1 }));
    assert_eq!(row.get::<_, Option<i32>>(13), None);
    let zoned = "SELECT arrow_cast('2027-01-31T12:30:00Z', 'Timestamp(Second, Some(\"UTC\"))')";
    let zoned = client.query_one(zoned, &[]).await.unwrap();
    let zoned = zoned.get::<_, chrono::DateTime<chrono::Utc>>(0);
    assert_eq!(zoned.to_rfc3339(), "2027-01-31T12:30:00+00:00");
    server.end().await;
}
