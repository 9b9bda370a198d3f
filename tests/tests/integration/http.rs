//! `gristmill serve`: answers, limits, tokens, and the isolation of namespaces and users.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use gristmill_queries::sql::Confinement;
use gristmill_server::http::{QueryLimits, Scope};
use gristmill_server::tls::Tls;
use gristmill_tests::certificate::make_certificate;
use gristmill_tests::test_server::{Protocol, TestServer, limits, own};
use serde_json::{Value, json};

use crate::namespaces;

/// Status and body of an answer, and whether the body is complete.
struct Answer {
    status: u16,
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

fn of_user(user: &str) -> Option<Confinement> {
    own().map(|own| Confinement {
        user: Some(user.to_owned()),
        ..own
    })
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
    assert!(health.body.contains("\"ok\""), "{}", health.body);
    let page = server.request("GET", "/", "", "").await;
    assert!(page.body.contains("<td>belief</td>"), "{}", page.body);
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
    let form = server
        .request("POST", "/sql", "", "{\"query\":\"SELECT 1\"}")
        .await;
    assert_eq!(
        form.status, 415,
        "a page in a browser can send this without asking"
    );
    let rebound = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(server.raw(rebound.to_owned()).await.status, 403);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_beyond_its_limits_fails_with_its_own_error() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(2),
        rows: 20_000,
        memory: 1 << 20,
        ..limits()
    };
    let server = TestServer::start(Protocol::Http, &lake, None, tight).await;
    let endless = "SELECT count(*) FROM range(1, 100000000000) a WHERE a.value % 7 = 8";
    let (slow, quick) = tokio::join!(server.sql(endless), server.sql("SELECT 1 AS a"));
    assert_eq!((slow.status, &*code(&slow)), (504, "TIME_LIMIT"));
    assert_eq!(quick.body, "{\"a\":1}\n", "others continue");
    let many = server.sql("SELECT value FROM range(0, 1000000)").await;
    assert!(
        !many.complete,
        "an answer that was cut must not look complete"
    );
    assert_eq!(code(&many), "ROW_LIMIT");
    let large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 50) FROM \
                 range(0, 20000000))";
    let large = server.sql(large).await;
    assert!(
        ["MEMORY_LIMIT", "TIME_LIMIT"].contains(&&*code(&large)),
        "{}",
        large.body
    );
    assert_eq!(server.sql("SELECT 1 AS a").await.body, "{\"a\":1}\n");
    server.end().await;
}

/// The time limit and other requests don't depend on the pauses of a query.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_query_that_never_pauses_is_refused_in_time_and_delays_no_other() {
    let lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(2),
        ..limits()
    };
    let server = TestServer::start(Protocol::Http, &lake, None, tight).await;
    // One call of a function that takes much longer than the limit.
    let busy = "SELECT levenshtein(repeat('a', 60000), repeat('b', 60000))";
    let started = Instant::now();
    let health = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let sent = Instant::now();
        let answer = server.request("GET", "/healthz", "", "").await;
        (answer.status, sent.elapsed())
    };
    let (slow, (status, waited)) = tokio::join!(server.sql(busy), health);
    assert_eq!((slow.status, &*code(&slow)), (504, "TIME_LIMIT"));
    assert_eq!(status, 200);
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert!(started.elapsed() < Duration::from_secs(8));
    assert_eq!(server.sql("SELECT 1 AS a").await.body, "{\"a\":1}\n");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_too_deep_are_refused_and_the_server_goes_on() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, own(), limits()).await;
    for (begin, part) in [
        ("SELECT 1", "+1"),
        ("SELECT 1", " UNION ALL SELECT 1"),
        ("SELECT true", " AND true"),
        ("SELECT 'a'", "||'a'"),
        ("SELECT 1", "::int"),
        ("", "EXPLAIN "),
        ("SELECT '{}'", "->'a'"),
        ("SELECT ", "INTERVAL "),
        ("SELECT cast(null AS ", "array<"),
        (
            "SELECT count(*) FROM grains WHERE subject = 'x'",
            " OR subject = 'i'",
        ),
    ] {
        let answer = server.sql(&(begin.to_owned() + &part.repeat(20_000))).await;
        assert_eq!(answer.status, 400, "{part}: {}", answer.body);
    }
    // As deep as is permitted, on the threads of a server.
    for (begin, part) in [("SELECT 1", "+1"), ("SELECT 1", " UNION ALL SELECT 1")] {
        let answer = server.sql(&(begin.to_owned() + &part.repeat(400))).await;
        assert_eq!(answer.status, 200, "{part}: {}", answer.body);
    }
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
        let told = addresses.iter().any(|address| found.body.contains(address));
        assert!(!named && !told, "{query}: {}", found.body);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_running_answer_is_finished_when_the_server_stops() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let query = "SELECT value FROM range(0, 90000)";
    let address = server.address;
    let asked = tokio::task::spawn_blocking(move || {
        let body = json!({ "query": query }).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut bytes = vec![0; 64];
        stream.read_exact(&mut bytes).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        stream.read_to_end(&mut bytes).unwrap();
        parsed(&bytes)
    });
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.end().await;
    let answer = asked.await.unwrap();
    assert!(answer.complete);
    assert_eq!(answer.body.lines().count(), 90_000);
}

/// Sends a query for many rows and returns the connection, whose answer isn't read.
fn ask_without_reading(address: SocketAddr) -> TcpStream {
    let query = "SELECT value, repeat('x', 1000) AS text FROM range(0, 90000)";
    let body = json!({ "query": query }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_hold_no_slot_and_are_audited() {
    let mut lake = namespaces::lake(false).await;
    let tight = QueryLimits {
        time: Duration::from_secs(2),
        concurrent: 2,
        queued: 0,
        ..limits()
    };
    let server = TestServer::start(Protocol::Http, &lake, None, tight).await;
    let mut silent = [(); 2].map(|()| ask_without_reading(server.address));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(code(&server.sql("SELECT 1 AS a").await), "BUSY");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.sql("SELECT 1 AS a").await.body, "{\"a\":1}\n");
    let mut bytes = Vec::new();
    silent[0]
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let _ = silent[0].read_to_end(&mut bytes);
    assert!(
        !parsed(&bytes).complete,
        "what was cut doesn't look complete"
    );
    drop(silent);
    server.end().await;
    lake.lake.refresh().await.unwrap();
    let query = "SELECT count(*) FROM audit WHERE action = 'bulk_read'";
    assert_eq!(lake.value(query).await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_arrive_is_refused() {
    let lake = namespaces::lake(false).await;
    let server = TestServer::start(Protocol::Http, &lake, None, limits()).await;
    let head = "POST /sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
                application/json\r\nContent-Length: 100\r\n\r\n{";
    let answer = server.raw(head.to_owned()).await;
    assert_eq!((answer.status, &*code(&answer)), (408, "BODY_TIME"));
    server.end().await;
}

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
