//! Tokens, and what they see.

use arrow::util::pretty::pretty_format_batches;
use arrow_flight::sql::CommandGetTables;
use arrow_flight::sql::client::FlightSqlServiceClient;
use gristmill_queries::sql::Confinement;
use gristmill_server::http::Scope;
use tonic::{Code, Status};

use gristmill_tests::test_server::{Protocol, TestServer, limits, own};

use super::client::{Client, client_of, collected, connected, count, rows_of, status_of};
use crate::{http, namespaces};

/// Returns the rows of an answer as text, or its error.
async fn answer(client: &mut Client, query: &str) -> Result<String, Status> {
    let rows = rows_of(client, query).await?;
    Ok(pretty_format_batches(&rows).unwrap().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gets_the_answers_of_a_lake_with_its_namespace_only() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let (expected, found) = (
        TestServer::start(Protocol::Flight, &alone, own(), limits()).await,
        TestServer::start(Protocol::Flight, &shared, own(), limits()).await,
    );
    let (mut alone, mut shared) = (connected(&expected).await, connected(&found).await);
    let generated = http::TABLES
        .iter()
        .flat_map(|table| http::QUERIES.map(|query| query.replace("TABLE", table)));
    // The protocols share the confinement, and the test over HTTP asks all of these.
    let generated = generated.step_by(3);
    let queries: Vec<String> = generated.chain(http::PROBES.map(str::to_owned)).collect();
    for query in &queries {
        let (expected, found) = tokio::join!(answer(&mut alone, query), answer(&mut shared, query));
        if let Err(error) = &found {
            let named = error.message().contains("foreign") && !query.contains("foreign");
            assert!(!named, "{query}: {error}");
        }
        // An error of a running query names the row that failed first.
        let comparable = |answer: Result<String, Status>| answer.map_err(|error| error.code());
        assert_eq!(comparable(found), comparable(expected), "{query}");
    }
    for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
        let answer = answer(&mut shared, &format!("{explain} SELECT * FROM grains")).await;
        let answer = answer.unwrap();
        for hidden in ["parquet", "namespace =", "foreign", "output_rows=144"] {
            assert!(!answer.contains(hidden), "{hidden}: {answer}");
        }
    }
    expected.end().await;
    found.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_of_another_token_shows_nothing_of_its_namespace() {
    let lake = namespaces::lake(true).await;
    let whole = TestServer::start(
        Protocol::Flight,
        &lake,
        Some(Confinement::default()),
        limits(),
    )
    .await;
    let confined = TestServer::start(Protocol::Flight, &lake, own(), limits()).await;
    let (mut whole_client, mut confined_client) =
        (connected(&whole).await, connected(&confined).await);
    let query = "SELECT namespace, count(*) AS n FROM grains GROUP BY namespace";
    let info = whole_client.execute(query.to_owned(), None).await.unwrap();
    assert_eq!(count(&mut whole_client, info.clone()).await, 2);
    let rows = collected(&mut confined_client, info).await.unwrap();
    let rows = pretty_format_batches(&rows).unwrap().to_string();
    assert!(rows.contains("own") && !rows.contains("foreign"), "{rows}");
    whole.end().await;
    confined.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_needs_a_token_and_bulk_reads_are_audited() {
    let mut lake = namespaces::lake(true).await;
    let server = TestServer::start(
        Protocol::Flight,
        &lake,
        Some(Confinement::default()),
        limits(),
    )
    .await;
    for token in [None, Some(""), Some("gm_"), Some("x'; --")] {
        let mut stranger = client_of(server.address, token).await;
        let refused = rows_of(&mut stranger, "SELECT 1").await.unwrap_err();
        assert_eq!(
            refused.code(),
            Code::Unauthenticated,
            "{token:?}: {refused}"
        );
        for refused in [
            stranger.get_catalogs().await.map(drop),
            stranger
                .get_tables(CommandGetTables::default())
                .await
                .map(drop),
            stranger.get_table_types().await.map(drop),
            stranger.get_sql_info(vec![]).await.map(drop),
            stranger
                .prepare("SELECT 1".to_owned(), None)
                .await
                .map(drop),
        ] {
            let code = refused.map_err(|error| status_of(error).code());
            assert_eq!(code, Err(Code::Unauthenticated));
        }
    }
    // A name and the token as password give the token for later calls.
    let token = server.token.clone().unwrap();
    let mut named = client_of(server.address, None).await;
    let given = named.handshake("anyone", &token).await.unwrap();
    assert_eq!(given, token.as_bytes());
    let all = "SELECT content_address FROM grains";
    assert!(rows_of(&mut named, all).await.is_ok());
    let mut stranger = client_of(server.address, None).await;
    assert!(stranger.handshake("anyone", "gm_").await.is_err());
    // Rows are recorded, although the client reads the first ones only.
    let mut client: FlightSqlServiceClient<_> = connected(&server).await;
    let info = client
        .execute(format!("{all} ORDER BY 1"), None)
        .await
        .unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    drop(client.do_get(ticket).await.unwrap());
    server.end().await;
    lake.lake.refresh().await.unwrap();
    let query = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    let entries: usize = lake.value(query).await.parse().unwrap();
    assert!((1..=2).contains(&entries), "{entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_the_scope_read_may_not_query() {
    let lake = namespaces::lake(false).await;
    let scopes = [Scope::Govern];
    let server =
        TestServer::start_with(Protocol::Flight, &lake, own(), &scopes, limits(), None).await;
    let mut client = connected(&server).await;
    let refused = rows_of(&mut client, "SELECT 1").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    server.end().await;
}
