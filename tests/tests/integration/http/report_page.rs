//! `GET /`: the page of `gristmill report`, for what a token sees.

use gristmill_queries::pages::{ReportOptions, lake_report};
use gristmill_queries::sql::{Confinement, SqlOptions, lake_context};
use gristmill_tests::lake::TestLake;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};

use super::{Answer, Requests, code};
use crate::namespaces;

/// Returns a page without the line that states when it was made.
fn undated(page: &str) -> String {
    let lines = page.lines().filter(|line| !line.ends_with(" UTC</p>"));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n")
}

async fn page(server: &TestServer) -> Answer {
    let page = server.request("GET", "/", "", "").await;
    assert_eq!(page.status, 200, "{}", page.body);
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_that_of_report_and_runs_no_scripts() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let served = page(&server).await;
    let context = lake_context(&lake.lake, &SqlOptions::default()).await;
    let (place, version) = (lake.lake.location().name(), lake.lake.grains.version());
    let subject = format!("{place} at version {version}");
    let options = ReportOptions {
        subject: &subject,
        deadline: None,
    };
    let report = lake_report(&context.unwrap(), options).await.unwrap();
    assert_eq!(undated(&served.body), undated(&report.html));
    for title in [
        "Grains by namespace",
        "Personal data in messages",
        "Refused input",
        "Segments",
    ] {
        assert!(served.body.contains(title), "{title}: {}", served.body);
    }
    let head = served.head.to_ascii_lowercase();
    let policy = "content-security-policy: default-src 'none'; style-src 'unsafe-inline';";
    assert!(head.contains(policy), "{head}");
    assert!(!served.body.contains("<script"), "{}", served.body);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_gets_the_page_of_a_lake_with_its_namespace_only() {
    let (alone, shared) = (namespaces::lake(false).await, namespaces::lake(true).await);
    let expected = TestServer::start(Protocol::Http, &alone, own(), limits()).await;
    let found = TestServer::start(Protocol::Http, &shared, own(), limits()).await;
    let (expected_page, found_page) = (page(&expected).await.body, page(&found).await.body);
    assert_eq!(undated(&found_page), undated(&expected_page));
    assert!(found_page.contains("<dt>own</dt>"), "{found_page}");
    assert!(!found_page.contains("foreign"), "{found_page}");
    // Tables that aren't divided by namespace.
    for hidden in [
        "Refused input",
        "Findings of scans",
        "Sources",
        "Erasures",
        "Segments",
    ] {
        assert!(
            !found_page.contains(&format!("<h2>{hidden}")),
            "{hidden}: {found_page}"
        );
    }
    assert!(found_page.contains("left out here: "), "{found_page}");
    expected.end().await;
    found.end().await;
}

/// Browsers have a form for a password, and none for a header.
#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_the_password_of_the_page_and_of_nothing_else() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    let anonymous = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let anonymous = server.raw(anonymous.to_owned()).await;
    assert_eq!((anonymous.status, &*code(&anonymous)), (401, "TOKEN"));
    let head = anonymous.head.to_ascii_lowercase();
    assert!(head.contains("www-authenticate: basic realm="), "{head}");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (place, token) = (format!("http://{}", server.address), server.token.clone());
    let page = client.get(format!("{place}/"));
    let page = page.basic_auth("me", token.clone()).send().await.unwrap();
    assert_eq!(page.status().as_u16(), 200);
    assert!(page.text().await.unwrap().contains("<dt>own</dt>"));
    let query = client.post(format!("{place}/sql")).body("{}");
    let query = query.header("Content-Type", "application/json");
    let query = query.basic_auth("me", token).send().await.unwrap();
    assert_eq!(query.status().as_u16(), 401);
    assert_eq!(query.headers()["www-authenticate"], "Bearer");
    drop(client);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_many_rows_are_audited() {
    let grains: Vec<String> = (0..30)
        .map(|day: u64| {
            format!(
                r#"{{"type":"belief","subject":"s","relation":"mg:prefers","object":"tea",
                    "confidence":0.9,"namespace":"n-{day}","created_at":{}}}"#,
                1_767_225_600_000 + day * 86_400_000
            )
        })
        .collect();
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    let mut lake = TestLake::of(&grains).await;
    let entries = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    let whole = Some(Confinement::default());
    let server = TestServer::start(Protocol::Http, &lake, whole, limits()).await;
    // The first 25 namespaces and days, and more; the server records more than 50 rows.
    page(&server).await;
    server.end().await;
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value(entries).await, "1");
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    page(&server).await;
    server.end().await;
    let mut lake = lake;
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value(entries).await, "0");
}
