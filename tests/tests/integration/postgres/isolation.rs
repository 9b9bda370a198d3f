//! A token sees one namespace only, also in the catalog.

use gristmill_tests::test_server::{Protocol, TestServer, limits, own};

use super::session::{Sessions, texts, value};
use crate::{http, namespaces};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gets_the_answers_of_a_lake_with_its_namespace_only() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let (expected, found) = (
        TestServer::start(Protocol::Postgres, &alone, own(), limits()).await,
        TestServer::start(Protocol::Postgres, &shared, own(), limits()).await,
    );
    let (alone, shared) = (expected.connect().await, found.connect().await);
    let generated = http::TABLES
        .iter()
        .flat_map(|table| http::QUERIES.map(|query| query.replace("TABLE", table)));
    // The protocols share the confinement, and the test over HTTP asks all of these.
    let generated = generated.step_by(3);
    let queries: Vec<String> = generated.chain(http::PROBES.map(str::to_owned)).collect();
    let addresses: Vec<String> = namespaces::grains_of("foreign", 60)
        .iter()
        .map(|text| namespaces::address(text))
        .collect();
    for query in &queries {
        let (expected, found) = (texts(&alone, query).await, texts(&shared, query).await);
        assert_eq!(found, expected, "{query}");
        let message = match shared.simple_query(query).await {
            Ok(messages) => format!("{messages:?}"),
            Err(error) => format!("{error:?}"),
        };
        let named = message.contains("foreign") && !query.contains("foreign");
        let leaked = addresses.iter().any(|address| message.contains(address));
        assert!(!named && !leaked, "{query}: {message}");
    }
    for query in [
        "SELECT * FROM grains",
        "SELECT * FROM current WHERE object LIKE '%tea%'",
    ] {
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
            let answer = texts(&shared, &format!("{explain} {query}")).await;
            let answer = format!("{answer:?}");
            for hidden in ["parquet", "namespace =", "foreign", "output_rows=144"] {
                assert!(!answer.contains(hidden), "{hidden}: {answer}");
            }
        }
    }
    let count = "SELECT count(*) FROM grains WHERE namespace = $1";
    for (namespace, rows) in [("own", 24), ("foreign", 0)] {
        let row = shared.query_one(count, &[&namespace]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), rows, "{namespace}");
    }
    expected.end().await;
    found.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_has_what_the_session_can_query_and_nothing_else() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let (expected, found) = (
        TestServer::start(Protocol::Postgres, &alone, own(), limits()).await,
        TestServer::start(Protocol::Postgres, &shared, own(), limits()).await,
    );
    let (alone, shared) = (expected.connect().await, found.connect().await);
    for query in [
        "SELECT relname, relkind FROM pg_class ORDER BY relname",
        "SELECT * FROM pg_catalog.pg_attribute ORDER BY attrelid, attnum",
        "SELECT * FROM pg_type ORDER BY oid",
        "SELECT * FROM pg_namespace ORDER BY oid",
        "SELECT * FROM pg_tables ORDER BY tablename",
        "SELECT * FROM pg_views ORDER BY viewname",
        "SELECT * FROM pg_database",
        "SELECT * FROM pg_roles",
        "SELECT * FROM pg_stat_user_tables",
        "SELECT version(), current_schema(), current_database(), pg_catalog.current_schema()",
        "SELECT current_user, session_user, current_setting('TimeZone'), pg_table_size('audit')",
        "SELECT 'audit'::regclass, to_regclass('audit'), pg_catalog.format_type(25, -1)",
    ] {
        let (expected, found) = (texts(&alone, query).await, texts(&shared, query).await);
        assert_eq!(found, expected, "{query}");
        let found = format!("{found:?}");
        for hidden in [
            "foreign",
            "\"rejects\"",
            "\"audit\"",
            "\"segments\"",
            "parquet",
        ] {
            assert!(!found.contains(hidden), "{query}: {found}");
        }
    }
    for (name, is_known) in [
        ("audit", false),
        ("public.segments", false),
        ("nothing", false),
        ("grains", true),
        ("public.current", true),
        ("\"beliefs\"", true),
        ("pg_catalog.pg_class", true),
    ] {
        for query in ["SELECT to_regclass('NAME')", "SELECT 'NAME'::regclass"] {
            let query = query.replace("NAME", name);
            let found = value(&shared, &query).await;
            assert_eq!(found != "NULL", is_known, "{query}: {found}");
        }
    }
    let tables = "SELECT count(*) FROM pg_class c JOIN information_schema.tables t ON c.relname = \
                  t.table_name WHERE t.table_schema = 'public'";
    let all = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(value(&shared, tables).await, value(&shared, all).await);
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'pg_%'";
    assert_eq!(value(&shared, listed).await, "0");
    let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'grains'::regclass";
    let all = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'grains'";
    assert_eq!(value(&shared, columns).await, value(&shared, all).await);
    expected.end().await;
    found.end().await;
}
