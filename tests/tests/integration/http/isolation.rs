//! A token sees its namespace and its user only.

use gristmill_queries::sql::Confinement;
use gristmill_tests::damage::files_below;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};
use serde_json::{Value, json};

use super::{Answer, PROBES, QUERIES, Requests, TABLES, code};
use crate::namespaces;

fn of_user(user: &str) -> Option<Confinement> {
    own().map(|own| Confinement {
        user: Some(user.to_owned()),
        ..own
    })
}

/// Returns what two answers have in common: an error of a running query names the row that failed
/// first, which depends on the order of threads.
fn comparable(answer: &Answer) -> (u16, String) {
    match answer.status {
        200 => (200, answer.body.clone()),
        status => (status, code(answer)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gets_the_answers_of_a_lake_with_its_namespace_only() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let expected = TestServer::start(Protocol::Http, &alone, own(), limits()).await;
    let found = TestServer::start(Protocol::Http, &shared, own(), limits()).await;
    let generated = TABLES
        .iter()
        .flat_map(|table| QUERIES.map(|query| query.replace("TABLE", table)));
    let queries: Vec<String> = generated.chain(PROBES.map(str::to_owned)).collect();
    assert!(queries.len() >= 300, "{}", queries.len());
    let foreign = namespaces::grains_of("foreign", 60);
    let addresses: Vec<String> = foreign
        .iter()
        .map(|text| namespaces::address(text))
        .collect();
    for query in &queries {
        let (expected, found) = (expected.sql(query).await, found.sql(query).await);
        assert_eq!(comparable(&found), comparable(&expected), "{query}");
        let named = found.body.contains("foreign") && !query.contains("foreign");
        let leaked = addresses.iter().any(|address| found.body.contains(address));
        assert!(!named && !leaked, "{query}: {}", found.body);
    }
    let address = &addresses[0];
    for query in [
        format!("SELECT * FROM grains WHERE content_address = '{address}'"),
        format!("SELECT * FROM history('{address}')"),
        format!("SELECT * FROM provenance('{address}', 3)"),
    ] {
        let answer = found.sql(&query).await;
        assert!(!answer.body.contains("foreign"), "{query}: {}", answer.body);
    }
    for query in [
        "SELECT * FROM grains",
        "SELECT * FROM current WHERE object LIKE '%tea%'",
    ] {
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
            let answer = found.sql(&format!("{explain} {query}")).await;
            for hidden in ["parquet", "namespace =", "foreign", "output_rows=144"] {
                assert!(!answer.body.contains(hidden), "{hidden}: {}", answer.body);
            }
        }
    }
    expected.end().await;
    found.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gets_the_cal_answers_of_a_lake_with_its_namespace_only() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let (mine, foreign) = (
        namespaces::grains_of("own", 12),
        namespaces::grains_of("foreign", 60),
    );
    let targets: Vec<String> = [&mine[0], &mine[3], &foreign[0], &foreign[3]]
        .map(|text| namespaces::address(text))
        .to_vec();
    let expected = TestServer::start(Protocol::Http, &alone, own(), limits()).await;
    let found = TestServer::start(Protocol::Http, &shared, own(), limits()).await;
    for statement in namespaces::statements(&targets) {
        let without_duration = |answer: Answer| {
            let mut body: Value = serde_json::from_str(&answer.body).unwrap();
            if let Some(head) = body["_cal"].as_object_mut() {
                head.remove("duration_ms");
            }
            (answer.status, body)
        };
        let expected = without_duration(expected.cal(&statement).await);
        let found = without_duration(found.cal(&statement).await);
        assert_eq!(found, expected, "{statement}");
    }
    expected.end().await;
    found.end().await;
}

/// The version counts the changes of all namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn neither_the_page_of_a_token_nor_health_states_the_version_of_the_lake() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    let page = server.request("GET", "/", "", "").await;
    assert!(page.body.contains("<dt>belief</dt>"), "{}", page.body);
    assert!(!page.body.contains("at version"), "{}", page.body);
    let health = server.request("GET", "/healthz", "", "").await;
    assert_eq!(health.body, "{\"status\":\"ok\"}\n");
    server.end().await;
    let whole = Some(Confinement::default());
    let server = TestServer::start(Protocol::Http, &lake, whole, limits()).await;
    let page = server.request("GET", "/", "", "").await;
    assert!(page.body.contains("at version "), "{}", page.body);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_file_is_an_error_of_the_lake_and_not_named_to_a_token_that_sees_a_part_of_it() {
    let lake = namespaces::lake(true).await;
    let whole = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let part = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    let user = TestServer::start(Protocol::Http, &lake, of_user("u-1"), limits()).await;
    let files = files_below(&lake.folder().join("lake/grains"));
    for file in files {
        if file.extension().is_some_and(|ending| ending == "parquet") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let query = "SELECT blob FROM grains";
    let answer = whole.sql(query).await;
    assert_eq!((answer.status, &*code(&answer)), (500, "LAKE"));
    for server in [&part, &user] {
        let answer = server.sql(query).await;
        assert_eq!((answer.status, &*code(&answer)), (500, "LAKE"));
        let in_batch = "BATCH { a: RECALL beliefs }";
        for answer in [
            answer,
            server.cal("RECALL beliefs").await,
            server.cal(in_batch).await,
        ] {
            let is_named = answer.body.contains("parquet") || answer.body.contains("lake/");
            assert!(!is_named, "{}", answer.body);
            assert!(answer.body.contains("can't be read"), "{}", answer.body);
        }
    }
    for server in [whole, part, user] {
        server.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_user_sees_this_user_only() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Http, &lake, of_user("u-1"), limits()).await;
    let users = server
        .rows("SELECT DISTINCT user_id, namespace FROM grains")
        .await;
    assert_eq!(users, [json!({ "user_id": "u-1", "namespace": "own" })]);
    for statement in [
        "RECALL beliefs",
        "RECALL LIKE \"tea\"",
        "RECALL beliefs WITH superseded",
    ] {
        let answer = server.cal(statement).await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let results = answer["results"].as_array().unwrap();
        assert!(!results.is_empty(), "{statement}");
        for result in results {
            assert_eq!(result["grain"]["user_id"], "u-1", "{statement}");
        }
    }
    let found = server
        .post("/search", &json!({ "query": "tea", "limit": 100 }))
        .await;
    let found: Value = serde_json::from_str(&found.body).unwrap();
    assert_eq!(found["total"], 3, "{found}");
    server.end().await;
}
