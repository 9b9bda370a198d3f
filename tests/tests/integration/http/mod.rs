//! `gristmill serve`: answers, limits, tokens, and the isolation of namespaces and users.

mod failures;
mod isolation;
mod killed;
mod processes;
mod report_page;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use gristmill_queries::sql::Confinement;
use gristmill_server::http::Scope;
use gristmill_server::tls::Tls;
use gristmill_tests::certificate::make_certificate;
use gristmill_tests::test_server::{Protocol, TOKEN_NAME, TestServer, limits, own};
use serde_json::{Value, json};

use crate::namespaces;

/// An answer, and whether its body is complete.
struct Answer {
    status: u16,
    /// Status line and headers.
    head: String,
    body: String,
    complete: bool,
}

/// Requests to a server with its token.
trait Requests {
    async fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer;
    async fn raw(&self, request: String) -> Answer;
    async fn post(&self, path: &str, body: &Value) -> Answer;
    async fn sql(&self, query: &str) -> Answer;
    async fn cal(&self, statement: &str) -> Answer;
    /// Returns the rows of a query that must succeed.
    async fn rows(&self, query: &str) -> Vec<Value>;
}

impl Requests for TestServer {
    async fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let token = self.token.as_ref();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}{headers}\
             Content-Length: {}\r\n\r\n",
            token.unwrap_or_default(),
            body.len(),
        );
        self.raw(head + body).await
    }

    async fn raw(&self, request: String) -> Answer {
        let address = self.address;
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut bytes = Vec::new();
            // A connection that is reset ends an incomplete answer.
            let _ = stream.read_to_end(&mut bytes);
            parsed(&bytes)
        })
        .await
        .unwrap()
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = "Content-Type: application/json\r\n";
        self.request("POST", path, headers, &body.to_string()).await
    }

    async fn sql(&self, query: &str) -> Answer {
        self.post("/sql", &json!({ "query": query })).await
    }

    async fn cal(&self, statement: &str) -> Answer {
        self.post("/cal", &json!({ "statement": statement })).await
    }

    /// Returns the rows of a query that must succeed.
    async fn rows(&self, query: &str) -> Vec<Value> {
        let answer = self.sql(query).await;
        assert_eq!(
            (answer.status, answer.complete),
            (200, true),
            "{query}: {}",
            answer.body
        );
        let lines = answer.body.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Parses an answer whose body has a length or chunks.
fn parsed(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, mut rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.get(9..12).unwrap_or("0").parse().unwrap_or(0);
    if !head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return Answer {
            status,
            head: head.to_owned(),
            body: rest.to_owned(),
            complete: true,
        };
    }
    let (mut body, mut complete) = (String::new(), false);
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 {
            complete = true;
            break;
        }
        body += after.get(..size).unwrap_or(after);
        rest = after.get(size + 2..).unwrap_or("");
    }
    Answer {
        status,
        head: head.to_owned(),
        body,
        complete,
    }
}

/// Returns the code of an error.
fn code(answer: &Answer) -> String {
    let last = answer.body.lines().last().unwrap_or("");
    let error: Value = serde_json::from_str(last).unwrap_or_default();
    let error = &error["error"];
    assert!(error["suggestion"].is_string(), "{}", answer.body);
    error["code"].as_str().unwrap_or("").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_cal_searches_and_pages_are_answered() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let counted = server.rows("SELECT count(*) AS n FROM grains").await;
    assert_eq!(counted, [json!({ "n": 144 })]);
    let asked = json!({
        "query": "SELECT count(*) AS n FROM beliefs WHERE subject = $who",
        "parameters": { "who": "alice" },
    });
    assert_eq!(server.post("/sql", &asked).await.body, "{\"n\":24}\n");
    let asked = json!({
        "statement": "RECALL beliefs WHERE subject = $who | COUNT",
        "parameters": { "who": "alice" },
    });
    let counted: Value = serde_json::from_str(&server.post("/cal", &asked).await.body).unwrap();
    assert!(counted["value"].as_u64().unwrap() > 10, "{counted}");
    let asked = json!({ "query": "green tea", "limit": 3 });
    let found: Value = serde_json::from_str(&server.post("/search", &asked).await.body).unwrap();
    assert_eq!(found["results"].as_array().unwrap().len(), 3, "{found}");
    let health = server.request("GET", "/healthz", "", "").await;
    assert!(health.body.contains("\"lake_version\""), "{}", health.body);
    let page = server.request("GET", "/", "", "").await;
    assert!(page.body.contains("<dt>belief</dt>"), "{}", page.body);
    for path in ["/", "/healthz", "/metrics"] {
        let head = server.request("HEAD", path, "", "").await;
        assert_eq!((head.status, &*head.body), (200, ""), "{path}");
    }
    let kind = "Content-Type: Application/JSON; charset=utf-8\r\n";
    let body = "{\"statement\":\"RECALL beliefs | COUNT\"}";
    let counted = server.request("POST", "/cal", kind, body).await;
    assert_eq!(counted.status, 200, "{}", counted.body);
    let figures = server.request("GET", "/metrics", "", "").await;
    let line = "gristmill_requests_total{endpoint=\"/sql\",status=\"200\"} 2";
    assert!(figures.body.contains(line), "{}", figures.body);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_answered_have_status_code_and_remedy() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let sql = |query: &str| ("/sql", json!({ "query": query }));
    for ((path, body), status, expected) in [
        (sql("SELECT nothing FROM grains"), 400, "QUERY"),
        (sql("DROP TABLE grains"), 400, "QUERY"),
        (sql("COPY grains TO '/tmp/x.csv'"), 400, "QUERY"),
        (sql("SELECT * FROM mg_file('/etc/passwd')"), 400, "QUERY"),
        (("/sql", json!({ "text": "x" })), 400, "BAD_REQUEST"),
        (
            ("/cal", json!({ "statement": "RECALL belief" })),
            400,
            "CAL-E003",
        ),
        (("/nothing", json!({})), 404, "NOT_FOUND"),
        (("/healthz", json!({})), 405, "METHOD"),
    ] {
        let answer = server.post(path, &body).await;
        assert_eq!(
            (answer.status, &*code(&answer)),
            (status, expected),
            "{path} {body}"
        );
    }
    let kind = "Content-Type: application/json\r\n";
    let body = "{\"query\":\"SELECT $1 AS a\",\"parameters\":[18446744073709551616]}";
    let answer = server.request("POST", "/sql", kind, body).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("more than 64 bits"), "{}", answer.body);
    let form = server
        .request("POST", "/sql", "", "{\"query\":\"SELECT 1\"}")
        .await;
    assert_eq!(
        form.status, 415,
        "a page in a browser can send this without asking"
    );
    for (method, path, allowed) in [("GET", "/sql", "POST"), ("DELETE", "/", "GET, HEAD")] {
        let answer = server.request(method, path, "", "").await;
        let head = answer.head.to_ascii_lowercase();
        assert_eq!(answer.status, 405, "{method} {path}");
        let expected = format!("\r\nallow: {}", allowed.to_ascii_lowercase());
        assert!(head.contains(&expected), "{method} {path}: {head}");
    }
    let rebound = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(server.raw(rebound.to_owned()).await.status, 403);
    for (target, host, status) in [
        ("http://evil.example/", "localhost", 403),
        ("http://localhost/", "evil.example", 200),
        ("/", "localhost\r\nHost: evil.example", 400),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(server.raw(request).await.status, status, "{target} {host}");
    }
    let health = server.raw(rebound.replace("/ HTTP", "/healthz HTTP")).await;
    assert_eq!(
        (health.status, &*health.body),
        (200, "{\"status\":\"ok\"}\n")
    );
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_quota_of_a_token_covers_all_of_its_requests() {
    let lake = namespaces::lake(true).await;
    let scopes = [Scope::Read, Scope::Append];
    let server =
        TestServer::start_with(Protocol::Http, &lake, own(), &scopes, limits(), None).await;
    let add = |number: usize| {
        format!(
            "ADD belief SET subject = \"a\" SET relation = \"mg:knows\" SET object = \
             \"{number}\" REASON \"r\""
        )
    };
    // A busy machine may take more than a minute for 20, and may then add another.
    let mut begun = Vec::new();
    let refused = loop {
        begun.push(Instant::now());
        let answer = server.cal(&add(begun.len())).await;
        if answer.status != 200 {
            break answer;
        }
        if let Some(before) = begun.len().checked_sub(21) {
            assert!(begun[before].elapsed() >= Duration::from_secs(60));
        }
        if begun.len() == 40 {
            return server.end().await;
        }
    };
    let added = begun.len() - 1;
    assert!(added >= 20, "{added}: {}", refused.body);
    assert_eq!((refused.status, &*code(&refused)), (429, "CAL-E052"));
    let counted = server
        .cal("RECALL WHERE relation = \"mg:knows\" | COUNT")
        .await;
    let value = format!("\"value\":{added}");
    assert!(counted.body.contains(&value), "{}", counted.body);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_scopes_and_bulk_reads_are_audited() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    let add = "ADD belief SET subject = \"a\" SET relation = \"mg:knows\" SET object = \"b\" \
               REASON \"r\"";
    assert_eq!(code(&server.cal(add).await), "CAL-E044");
    assert_eq!(server.request("GET", "/metrics", "", "").await.status, 403);
    let anonymous = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let anonymous = server.raw(anonymous.to_owned()).await;
    assert_eq!((anonymous.status, &*code(&anonymous)), (401, "TOKEN"));
    server.end().await;

    let server = TestServer::start_with(
        Protocol::Http,
        &lake,
        own(),
        &[Scope::Read, Scope::Append],
        limits(),
        None,
    )
    .await;
    let added = server.cal(add).await;
    assert_eq!(added.status, 200, "{}", added.body);
    let token = server.token.as_deref().unwrap();
    for (scheme, status) in [("bearer", 403), ("BEARER", 403), ("Token", 401)] {
        let figures = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: \
             {scheme} {token}\r\n\r\n"
        );
        assert_eq!(server.raw(figures).await.status, status, "{scheme}");
    }
    let found = server
        .cal("RECALL WHERE relation = \"mg:knows\" | COUNT")
        .await;
    assert!(found.body.contains("\"value\":1"), "{}", found.body);
    server.end().await;

    let whole = Some(Confinement::default());
    let server = TestServer::start(Protocol::Http, &lake, whole, limits()).await;
    assert!(
        server
            .rows("SELECT content_address FROM grains")
            .await
            .len()
            > 100
    );
    server.end().await;
    let mut lake = lake;
    lake.lake.refresh().await.unwrap();
    let query = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    assert_eq!(lake.value(query).await, "1");
    // An erasure of the person after whom the token is named finds nothing in the log.
    let entry = lake.rows("SELECT details FROM audit WHERE action = 'bulk_read'");
    let entry = format!("{:?}", entry.await);
    assert!(
        entry.contains("token_id") && !entry.contains(TOKEN_NAME),
        "{entry}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_cal_with_many_grains_are_audited() {
    let mut lake = namespaces::lake(true).await;
    let whole = Some(Confinement::default());
    let server = TestServer::start(Protocol::Http, &lake, whole, limits()).await;
    // The server records more than 50.
    for statement in [
        "RECALL beliefs LIMIT 60",
        "RECALL beliefs LIMIT 40",
        "BATCH { a: RECALL beliefs LIMIT 40, b: RECALL events LIMIT 40 }",
        "RECALL beliefs LIMIT 60 | COUNT",
    ] {
        let answer = server.cal(statement).await;
        assert_eq!(answer.status, 200, "{statement}: {}", answer.body);
    }
    server.end().await;
    lake.lake.refresh().await.unwrap();
    let query = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    assert_eq!(lake.value(query).await, "2");
}

/// Tables of a confined session that have the column `content_address`.
pub(crate) const TABLES: [&str; 15] = [
    "grains",
    "current",
    "beliefs",
    "events",
    "goals",
    "consents",
    "state",
    "supersessions",
    "lifecycle",
    "observations",
    "as_of(TIMESTAMP '2027-01-01T00:00:00Z')",
    "actions",
    "reasonings",
    "workflows",
    "states",
];

/// Queries over the features of SQL, each over one table.
pub(crate) const QUERIES: [&str; 22] = [
    "SELECT content_address AS a FROM TABLE ORDER BY a",
    "SELECT count(*) AS n FROM TABLE",
    "SELECT count(DISTINCT content_address) AS n FROM TABLE",
    "SELECT min(content_address) AS a, max(content_address) AS b FROM TABLE",
    "SELECT content_address AS a FROM TABLE WHERE content_address > '8' ORDER BY a",
    "SELECT content_address AS a FROM TABLE WHERE content_address IN (SELECT content_address FROM \
     grains) ORDER BY a",
    "SELECT content_address AS a FROM TABLE t WHERE EXISTS (SELECT 1 FROM grains g WHERE \
     g.content_address = t.content_address) ORDER BY a",
    "SELECT content_address AS a FROM TABLE t WHERE NOT EXISTS (SELECT 1 FROM current g WHERE \
     g.content_address = t.content_address) ORDER BY a",
    "WITH x AS (SELECT content_address AS a FROM TABLE) SELECT a FROM x UNION SELECT a FROM x \
     ORDER BY a",
    "SELECT content_address AS a FROM TABLE INTERSECT SELECT content_address FROM grains ORDER BY \
     a",
    "SELECT content_address AS a FROM grains EXCEPT SELECT content_address FROM TABLE ORDER BY a",
    "SELECT content_address AS a, row_number() OVER (ORDER BY content_address) AS n, count(*) OVER \
     () AS c FROM TABLE ORDER BY n",
    "SELECT g.content_address AS a FROM grains g LEFT JOIN TABLE t ON g.content_address = \
     t.content_address WHERE t.content_address IS NULL ORDER BY a",
    "SELECT (SELECT count(*) FROM TABLE) AS n, count(*) AS m FROM grains",
    "SELECT substr(content_address, 1, 1) AS a, count(*) AS n FROM TABLE GROUP BY ROLLUP(a) ORDER \
     BY a NULLS LAST",
    "SELECT string_agg(content_address, ',' ORDER BY content_address) AS a FROM TABLE",
    "SELECT approx_distinct(content_address) AS n FROM TABLE",
    "SELECT CAST(content_address AS INT) AS n FROM TABLE ORDER BY content_address LIMIT 1",
    "SELECT count(*) AS n FROM TABLE WHERE CAST(content_address AS INT) = 1 AND false",
    "SELECT content_address AS a FROM TABLE ORDER BY a LIMIT 3 OFFSET 2",
    "SELECT content_address AS a FROM TABLE WHERE content_address LIKE 'a%' ORDER BY a",
    "SELECT count(*) AS n FROM TABLE a CROSS JOIN (SELECT 1 FROM TABLE LIMIT 2) b",
];

/// Queries whose answers name values, or try to reach around the confinement.
pub(crate) const PROBES: [&str; 30] = [
    "SELECT DISTINCT namespace FROM grains",
    "SELECT DISTINCT object FROM grains ORDER BY object",
    "SELECT * FROM triples ORDER BY address",
    "SELECT namespace, count(*) AS n FROM grains GROUP BY namespace",
    "SELECT count(*) AS n FROM grains WHERE namespace = 'foreign'",
    "SELECT count(*) AS n FROM grains WHERE namespace <> 'own' OR true",
    "SELECT count(*) AS n FROM grains WHERE 10 / (CASE WHEN namespace = 'own' THEN 1 ELSE 0 END) > 0",
    "SELECT count(*) AS n FROM grains WHERE CAST(CASE WHEN namespace = 'own' THEN '1' ELSE object \
     END AS INT) = 1",
    "SELECT count(*) AS n FROM messages",
    "SELECT session_id, count(*) AS n FROM messages GROUP BY session_id ORDER BY session_id",
    "SELECT count(*) AS n FROM threads",
    "SELECT count(*) AS n FROM blocks",
    "SELECT * FROM usage",
    "SELECT * FROM tool_calls",
    "SELECT * FROM consent_state",
    "SELECT count(*) AS n FROM pattern('alice', NULL, NULL)",
    "SELECT table_name FROM information_schema.tables ORDER BY table_name",
    "SELECT table_name, column_name FROM information_schema.columns ORDER BY table_name, \
     column_name",
    "SHOW TABLES",
    "DESCRIBE grains",
    "SELECT * FROM rejects",
    "SELECT * FROM sources",
    "SELECT * FROM audit",
    "SELECT * FROM segments",
    "SELECT * FROM source_progress",
    "SELECT * FROM indexes",
    "SELECT * FROM search('tea')",
    "SELECT * FROM vector_search([1.0], 3)",
    "SELECT * FROM visible",
    "SELECT * FROM graims",
];

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_encrypted_with_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = make_certificate(folder.path()) else {
        return;
    };
    let chain = std::fs::read(&files.certificate).unwrap();
    let tls = Tls::from_pem(&chain, &std::fs::read(&files.key).unwrap()).unwrap();
    let lake = namespaces::lake(false).await;
    let server =
        TestServer::start_with(Protocol::Http, &lake, None, &[], limits(), Some(tls)).await;
    let plain = server.request("GET", "/healthz", "", "").await;
    assert_eq!(plain.status, 0, "{}", plain.body);
    let mut client = std::process::Command::new("curl");
    client
        .args(["--silent", "--show-error", "--cacert"])
        .arg(&files.certificate)
        .arg(format!("https://{}/healthz", server.address));
    match tokio::task::spawn_blocking(move || client.output())
        .await
        .unwrap()
    {
        Ok(output) => {
            let body = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(body.contains("\"status\":\"ok\""), "{body}{errors}");
        }
        Err(_) => eprintln!("skipped: there is no `curl`"),
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_of_an_answer_is_json() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let query = r#"SELECT '{"x": {"y": [1, "z"]}}' -> 'x' AS a, json_get('{"x": "y"}', 'x') AS b,
        '{}' -> 'x' AS c, arrow_cast(0, 'Decimal128(38, -2)') AS d, CAST('NaN' AS DOUBLE) AS e,
        arrow_cast(9223372036854775807, 'Timestamp(Microsecond, Some("UTC"))') AS f"#;
    let expected = json!({ "a": { "y": [1, "z"] }, "b": "y", "d": 0, "e": null, "f": null });
    assert_eq!(server.rows(query).await, [expected]);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_one_name_are_refused_where_a_reader_would_lose_one() {
    let lake = namespaces::lake(true).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let joined = "SELECT a.subject, b.subject FROM beliefs a CROSS JOIN beliefs b LIMIT 1";
    let refused = server.sql(joined).await;
    assert_eq!((refused.status, &*code(&refused)), (400, "FORMAT"));
    assert!(refused.body.contains("`subject`"), "{}", refused.body);
    let headers = "Content-Type: application/json\r\n\
                   Accept: application/vnd.apache.arrow.stream\r\n";
    let body = json!({ "query": joined }).to_string();
    let columns = server.request("POST", "/sql", headers, &body).await;
    assert_eq!(columns.status, 200, "{}", columns.body);
    server.end().await;
}
