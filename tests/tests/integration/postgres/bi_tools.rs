//! What `docs/bi-tools.md` states about the statements of BI tools.

use gristmill_tests::test_server::{Protocol, TestServer, limits};

use super::session::{Sessions, texts};
use crate::namespaces;

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_tools_that_only_postgresql_has_are_answered() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    let cases: [(&str, &[&str]); 9] = [
        (
            "SELECT to_char(TIMESTAMP '2026-03-01 10:20:30', 'YYYY-MM-DD HH24:MI') AS t",
            &["2026-03-01 10:20"],
        ),
        (
            "SELECT count(*) AS n FROM grains WHERE created_at >= \
             to_timestamp('2026-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
            &["144"],
        ),
        (
            "SELECT count(*) AS n FROM grains WHERE created_at < to_date('2026-01-01', \
             'YYYY-MM-DD')",
            &["0"],
        ),
        (
            "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg/_%' ESCAPE '/' \
             ORDER BY nspname",
            &["information_schema", "public"],
        ),
        (
            "SELECT t.typname FROM pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive \
             WHERE p.oid IS NULL AND t.typname = 'text'",
            &["text"],
        ),
        (
            "SELECT character_set_name FROM INFORMATION_SCHEMA.character_sets",
            &[],
        ),
        (
            "SELECT c.constraint_name FROM information_schema.table_constraints AS c \
             JOIN information_schema.key_column_usage AS k ON c.table_name = k.table_name",
            &[],
        ),
        (
            "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN \
             pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = \
             'pg_namespace'::regclass WHERE n.nspname = 'public' ORDER BY nspname",
            &["2200", "public", "10"],
        ),
        (
            "SELECT r.name, r.seq FROM (SELECT a.attname AS name, \
             (information_schema._pg_expandarray(i.indkey)).n AS seq, \
             information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS num FROM \
             pg_catalog.pg_attribute a JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid \
             WHERE i.indisprimary) r WHERE r.num = (r.keys).x ORDER BY r.seq",
            &[],
        ),
    ];
    for (query, expected) in cases {
        let found = texts(&client, query).await;
        let found = found.unwrap_or_else(|code| panic!("{query}: {code}"));
        let found: Vec<String> = found.into_iter().flatten().flatten().collect();
        assert_eq!(found, expected, "{query}");
    }
    server.end().await;
}

/// What the page lists as not supported.
#[tokio::test(flavor = "multi_thread")]
async fn what_tools_cannot_use_is_refused() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Postgres, &lake, None, limits()).await;
    let client = server.connect().await;
    for query in [
        "SELECT g.type, g.* FROM grains AS g",
        "SELECT type FROM grains FETCH FIRST 1 ROWS ONLY",
        "SELECT TOP 1 type FROM grains",
        "CREATE TEMPORARY TABLE t (a int)",
        "SELECT a INTO t FROM (SELECT 1 AS a) AS x",
        "SELECT age(now()) AS a",
        "SELECT pg_typeof(1) AS a",
        "SELECT format('%s', 'a') AS a",
        "SELECT make_interval(days => 1) AS a",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY confidence) FROM beliefs",
        "SELECT udt_name FROM information_schema.columns",
        "SELECT n_live_tup FROM pg_stat_user_tables",
        "SELECT array_upper(ARRAY[1], 1) AS a",
    ] {
        let answer = texts(&client, query).await;
        assert!(answer.is_err(), "{query}: {answer:?}");
    }
    server.end().await;
}
