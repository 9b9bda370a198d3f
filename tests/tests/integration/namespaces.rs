//! Namespace isolation: a session confined to one namespace gets, for every statement, the answer
//! that a lake without the other namespaces would give.

use std::time::Duration;

use arrow::util::pretty::pretty_format_batches;
use chrono::{SecondsFormat, Utc};
use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{Executor, Session};
use gristmill_queries::sql::{
    SessionContext, SqlOptions, confined_context, lake_context, user_message,
};
use gristmill_schemas::grain::{EncodeOptions, Field, elide};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::{TestLake, patient_session};
use gristmill_tests::test_server::own;

const NOW: i64 = 1_800_000_000_000;

/// A belief of a namespace. Both namespaces have the same subjects and words, one much more often.
fn belief(namespace: &str, number: usize) -> String {
    let (subject, object) = (
        ["alice", "bob", "carol"][number % 3],
        ["tea", "green tea", "coffee and tea"][number % 3],
    );
    format!(
        r#"{{"type":"belief","subject":"{subject}","relation":"mg:prefers","object":"{object} {namespace} {number}","confidence":0.{},"namespace":"{namespace}","user_id":"u-{}","structural_tags":["t-{}"],"created_at":{}}}"#,
        1 + number % 9,
        number % 4,
        number % 2,
        1_767_225_600_000_u64 + number as u64 * 1000
    )
}

fn event(namespace: &str, number: usize) -> String {
    let words = "tea ".repeat(1 + number % 5);
    format!(
        r#"{{"type":"event","role":"user","content":"{words} talk {number}","session_id":"s-{}","namespace":"{namespace}","created_at":{}}}"#,
        number % 3,
        1_767_225_600_000_u64 + number as u64 * 500
    )
}

pub(crate) fn grains_of(namespace: &str, count: usize) -> Vec<String> {
    let beliefs = (0..count).map(|number| belief(namespace, number));
    beliefs
        .chain((0..count).map(|number| event(namespace, number)))
        .collect()
}

pub(crate) fn address(text: &str) -> String {
    grain(text).address.to_string()
}

/// A lake with the namespace `own`, and optionally `foreign`; the fourth belief of each supersedes
/// its first.
pub(crate) async fn lake(with_foreign: bool) -> TestLake {
    let mut lake = TestLake::new().await;
    let (own, foreign) = (grains_of("own", 12), grains_of("foreign", 60));
    let mut links = vec![(grain(&own[0]).address, grain(&own[3]).address)];
    let blobs = |grains: &[String]| {
        grains
            .iter()
            .map(|text| grain(text).blob)
            .collect::<Vec<_>>()
    };
    let own = blobs(&own);
    if with_foreign {
        links.push((grain(&foreign[0]).address, grain(&foreign[3]).address));
        let foreign = blobs(&foreign);
        lake.ingest(&[
            ("a.frames", &frames(&own[..12])),
            ("b.frames", &frames(&foreign[..60])),
        ])
        .await;
        lake.ingest(&[
            ("c.frames", &frames(&foreign[60..])),
            ("d.frames", &frames(&own[12..])),
        ])
        .await;
    } else {
        lake.ingest(&[("a.frames", &frames(&own[..12]))]).await;
        lake.ingest(&[("d.frames", &frames(&own[12..]))]).await;
    }
    lake.supersede(&links).await;
    lake
}

/// An executor for the user `u-1`, confined to `namespace` if there is one.
async fn executor(lake: &TestLake, namespace: Option<&str>) -> Executor {
    let session = Session {
        namespace: namespace.map(str::to_owned),
        user: Some("u-1".to_owned()),
        ..patient_session(NOW)
    };
    lake.executor(session).await
}

/// Returns the answer to `statement` without its duration.
async fn answer(executor: &Executor, statement: &str) -> String {
    let response = match executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await
    {
        Ok(mut response) => {
            response.duration_ms = 0;
            response.to_json()
        }
        Err(error) => error.to_json(),
    };
    response.to_string()
}

/// Statements that use every access path of the language; `targets` are addresses, whole and
/// truncated.
pub(crate) fn statements(targets: &[String]) -> Vec<String> {
    let recalls = [
        "RECALL",
        "RECALL beliefs",
        "RECALL events",
        "RECALL goals",
        "RECALL MY beliefs",
        "RECALL beliefs ABOUT \"alice\"",
        "RECALL beliefs ABOUT \"nobody tea\"",
        "RECALL LIKE \"tea\"",
        "RECALL beliefs LIKE \"green tea\"",
        "RECALL LIKE \"foreign\"",
        "RECALL events LIKE \"tea talk\"",
        "RECALL WHERE query = \"coffee\"",
        "RECALL IN \"foreign\"",
        "RECALL IN SCOPE \"foreign\"",
        "RECALL IN SCOPE \"own\"",
        "RECALL WHERE namespace = \"foreign\"",
        "RECALL beliefs WHERE subject = \"alice\" AND relation = \"mg:prefers\"",
        "RECALL beliefs WHERE confidence >= 0.5",
        "RECALL beliefs WHERE relation IS PREFERENCE",
        "RECALL WHERE tags INCLUDE [\"t-1\"]",
        "RECALL events THREAD \"s-1\"",
        "RECALL SINCE \"2026-01-01\"",
        "RECALL LIKE \"tea\" WITH superseded, score_breakdown, explanation, provenance",
        "RECALL beliefs WITH superseded",
        "RECALL CONTRADICTIONS",
        "RECALL LIKE \"tea\" WITH diversity(mmr)",
        "RECALL beliefs WHERE subject IN (RECALL beliefs LIKE \"tea\" | SUBJECTS)",
        "RECALL LIKE \"tea\" WHERE score > 0.3",
    ];
    let stages = [
        "",
        " | COUNT",
        " | LIMIT 3",
        " | ORDER BY time DESC | LIMIT 2 | OFFSET 1",
        " | FIRST",
    ];
    let mut all: Vec<String> = Vec::new();
    for recall in recalls {
        for stage in stages {
            all.push(format!("{recall}{stage}"));
            all.push(format!("EXPLAIN {recall}{stage}"));
        }
        all.push(format!(
            "ASSEMBLE c FROM a: ({recall}) BUDGET 200 tokens FORMAT text"
        ));
        all.push(format!("COALESCE({recall}, RECALL beliefs LIMIT 1)"));
        all.push(format!("({recall}) UNION (RECALL beliefs LIKE \"tea\")"));
    }
    all.extend(
        [
            "RECALL beliefs | SUBJECTS",
            "RECALL beliefs | OBJECTS",
            "RECALL | HASHES",
            "RECALL beliefs | GROUP BY subject",
            "RECALL LIKE \"tea\" AS markdown",
            "DESCRIBE grain_types",
            "DESCRIBE fields belief",
            "DESCRIBE capabilities",
            "HISTORY WHERE subject = \"alice\" AND relation = \"mg:prefers\"",
            "BATCH { a: RECALL LIKE \"tea\", b: HISTORY WHERE subject = \"bob\" AND relation = \
             \"mg:prefers\" }",
            "EXPLAIN ASSEMBLE c FROM a: (RECALL LIKE \"tea\"), b: (RECALL beliefs)",
            "LET $s = RECALL beliefs LIKE \"tea\" | SUBJECTS; RECALL beliefs WHERE subject IN ($s)",
        ]
        .map(str::to_owned),
    );
    for target in targets {
        for statement in [
            "EXISTS TARGET",
            "HISTORY TARGET",
            "HISTORY TARGET DIFF TARGET",
            "RECALL WHERE hash = TARGET",
            "RECALL events THREAD FROM TARGET",
            "EXPLAIN RECALL WHERE hash = TARGET",
            "SUPERSEDE TARGET SET confidence = 2 REASON \"r\"",
            "EXPLAIN SUPERSEDE TARGET SET object = \"o\" REASON \"r\"",
            "EXPLAIN REVERT TARGET REASON \"r\"",
        ] {
            all.push(statement.replace("TARGET", &format!("sha256:{target}")));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_answers_as_in_a_lake_without_the_other_namespace() {
    let (alone, shared) = (lake(false).await, lake(true).await);
    let (own, foreign) = (grains_of("own", 12), grains_of("foreign", 60));
    let mut targets: Vec<String> = [
        &own[0],
        &own[3],
        &own[13],
        &foreign[0],
        &foreign[3],
        &foreign[65],
    ]
    .map(|text| address(text))
    .to_vec();
    targets.extend(
        [&own[0], &own[3], &foreign[0], &foreign[9]].map(|text| address(text)[..10].to_owned()),
    );
    targets.push("0".repeat(64));
    let statements = statements(&targets);
    assert!(statements.len() > 300, "{}", statements.len());
    let (alone_session, shared_session) = (
        executor(&alone, Some("own")).await,
        executor(&shared, Some("own")).await,
    );
    let whole = executor(&shared, None).await;
    let mut differs_from_whole = 0;
    for statement in &statements {
        let (expected, found) = (
            answer(&alone_session, statement).await,
            answer(&shared_session, statement).await,
        );
        assert_eq!(found, expected, "{statement}");
        differs_from_whole += usize::from(answer(&whole, statement).await != found);
    }
    // The other namespace exists, and changes the answers of an unconfined session.
    assert!(differs_from_whole > 150, "{differs_from_whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_of_other_namespaces_are_never_named_copied_or_superseded() {
    let mut lake = lake(true).await;
    let (own, foreign) = (grains_of("own", 12), grains_of("foreign", 60));
    let of = |text: &String| address(text);
    // Chains across both namespaces, in both directions.
    let (closed, opened, bridge) = (of(&own[1]), of(&own[4]), of(&own[5]));
    let (hidden, older, between) = (of(&foreign[1]), of(&foreign[4]), of(&foreign[5]));
    let links = [(&closed, &hidden), (&older, &opened), (&bridge, &between)];
    let links: Vec<_> = links
        .iter()
        .map(|(old, new)| (old.parse().unwrap(), new.parse().unwrap()))
        .collect();
    lake.supersede(&links).await;
    let session = executor(&lake, Some("own")).await;
    for (statement, code) in [
        (
            format!("SUPERSEDE sha256:{closed} SET object = \"x\" REASON \"r\""),
            "CAL-E040",
        ),
        (format!("REVERT sha256:{opened} REASON \"r\""), "CAL-E041"),
        (
            format!("SUPERSEDE sha256:{hidden} SET object = \"x\" REASON \"r\""),
            "CAL-E046",
        ),
        (format!("REVERT sha256:{hidden} REASON \"r\""), "CAL-E046"),
        (
            format!(
                "SUPERSEDE sha256:{} SET object = \"x\" REASON \"r\"",
                "0".repeat(64)
            ),
            "CAL-E046",
        ),
        (
            format!("RECALL WHERE hash = sha256:{closed} WITH superseded"),
            "",
        ),
        (format!("HISTORY sha256:{closed}"), ""),
        (format!("HISTORY sha256:{opened}"), ""),
        (format!("HISTORY sha256:{bridge}"), ""),
        ("RECALL beliefs WITH superseded | LIMIT 50".to_owned(), ""),
    ] {
        let response = answer(&session, &statement).await;
        let json = Json::parse(response.as_bytes()).unwrap();
        assert_eq!(
            json.get("code").and_then(Json::as_str).unwrap_or_default(),
            code,
            "{statement}: {response}"
        );
        let asked = |address: &String| statement.contains(address.as_str());
        let named: Vec<_> = [&hidden, &older, &between]
            .into_iter()
            .filter(|one| !asked(one) && response.contains(one.as_str()))
            .collect();
        assert!(
            named.is_empty() && !response.contains("foreign"),
            "{statement}: {response}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_discloses_neither_goals_nor_terms_of_other_namespaces() {
    let mut lake = lake(true).await;
    let goal = |namespace: &str, state: &str| {
        format!(
            r#"{{"type":"goal","description":"dig","goal_state":"{state}","namespace":"{namespace}","created_at":1767225600000}}"#
        )
    };
    let (satisfied, failed) = (goal("foreign", "satisfied"), goal("foreign", "failed"));
    let own = goal("own", "satisfied");
    let locked = r#"{"type":"belief","subject":"alice","relation":"mg:prefers","object":"milk","confidence":0.5,"namespace":"foreign","author_did":"did:web:a","invalidation_policy":{"mode":"locked","scope":"subtree"},"created_at":1767225600000}"#;
    let derived = format!(
        r#"{{"type":"belief","subject":"alice","relation":"mg:prefers","object":"cream","confidence":0.5,"namespace":"own","derived_from":["{}"],"created_at":1767225600000}}"#,
        address(locked)
    );
    let blobs: Vec<_> = [locked, &derived, &satisfied, &failed, &own]
        .map(|text| grain(text).blob)
        .to_vec();
    lake.ingest(&[("e.frames", &frames(&blobs))]).await;
    let session = executor(&lake, Some("own")).await;
    let mut answers = Vec::new();
    for dependency in [
        address(&satisfied),
        address(&failed),
        "0".repeat(64),
        address(&own),
    ] {
        let add = format!(
            r#"ADD goal SET subject = "s" SET relation = "r" SET object = "paint" SET depends_on = "{dependency}" REASON "r""#
        );
        answers.push(answer(&session, &add).await.replace(&dependency, "it"));
    }
    assert!(answers[0].contains("ERR_SCHEMA"), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    assert!(!answers[3].contains("ERR_SCHEMA"), "{}", answers[3]);
    let supersede = format!(
        "SUPERSEDE sha256:{} SET object = \"x\" REASON \"r\"",
        address(&derived)
    );
    let refused = answer(&session, &supersede).await;
    assert!(refused.contains("ERR_INVALIDATION_DENIED"), "{refused}");
    let names = |text: &str| refused.contains(text);
    assert!(!names(&address(locked)) && !names("locked"), "{refused}");
}

/// Returns a session of SQL that sees the namespace `own`.
async fn sql_session(lake: &TestLake) -> SessionContext {
    let options = SqlOptions::default();
    let whole = lake_context(&lake.lake, &options).await.unwrap();
    let confinement = own().unwrap();
    let session = confined_context(&whole, &options, &confinement);
    session.await.unwrap()
}

async fn rows(session: &SessionContext, query: &str) -> String {
    let rows = session.sql(query).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

/// Has a grain of `foreign` that was created on 2020-05-05 supersede the grain `old`, and returns
/// its address.
async fn supersede_by_foreign(lake: &mut TestLake, old: &str) -> String {
    let successor = format!(
        r#"{{"type":"belief","subject":"alice","relation":"mg:prefers","object":"milk","confidence":0.5,"namespace":"foreign","created_at":1588636800000,"derived_from":["{old}"]}}"#
    );
    let line = format!(
        r#"{{"op":"supersede","address":"{old}","actor":"did:web:someone.example","grain":{successor}}}"#
    );
    let mut lines = line.as_bytes();
    let mut answers = |_: &_| Ok(());
    let options = ApplyOptions::default();
    let report = apply(&mut lake.lake, &mut lines, &options, &mut answers).await;
    assert_eq!(report.unwrap().done, 1);
    address(&successor)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_successor_closes_a_grain_from_the_time_at_which_the_lake_took_it_in() {
    let own_grains = grains_of("own", 1);
    let mut lake = TestLake::of(&[own_grains[0].as_str()]).await;
    let old = address(&own_grains[0]);
    std::thread::sleep(Duration::from_millis(5));
    let before = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
    std::thread::sleep(Duration::from_millis(5));
    let successor = supersede_by_foreign(&mut lake, &old).await;
    let session = sql_session(&lake).await;
    for (count, expected) in [
        ("current".to_owned(), 0),
        (format!("as_of('{before}')"), 1),
        ("as_of('2126-01-01T00:00:00Z')".to_owned(), 0),
        (
            format!("lifecycle WHERE superseded_by IS NULL AND system_valid_to > '{before}'"),
            1,
        ),
        (
            "state WHERE event = 'noted' AND value IS NULL".to_owned(),
            1,
        ),
        (
            "state WHERE event = 'superseded' AND value IS NULL".to_owned(),
            1,
        ),
    ] {
        let query = format!("SELECT count(*) AS n FROM {count}");
        let found = rows(&session, &query).await;
        assert!(
            found.contains(&format!("| {expected} ")),
            "{query}: {found}"
        );
    }
    for table in ["state", "lifecycle", "supersessions"] {
        let found = rows(&session, &format!("SELECT * FROM {table}")).await;
        assert!(
            !found.contains("2020-05-05") && !found.contains(&successor),
            "{table}: {found}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_the_times_of_sources_is_refused_with_the_remedy() {
    let own_grains = grains_of("own", 1);
    let lake = TestLake::of(&[own_grains[0].as_str()]).await;
    let session = sql_session(&lake).await;
    let now = "2126-01-01T00:00:00Z";
    for from in [
        format!("known_at('{now}')"),
        format!("valid_at('{now}', '{now}')"),
    ] {
        let refused = session.sql(&format!("SELECT * FROM {from}")).await;
        let message = user_message(&refused.unwrap_err());
        assert!(message.contains("use as_of(instant)"), "{from}: {message}");
    }
    for from in [format!("as_of('{now}')"), format!("valid_at('{now}')")] {
        let found = rows(&session, &format!("SELECT count(*) AS n FROM {from}")).await;
        assert!(found.contains("| 1 "), "{from}: {found}");
    }
}

/// Returns what SQL and CAL show of plans in which disclosed copies would have a part.
async fn shown_plans(lake: &TestLake) -> Vec<String> {
    let (session, recalls) = (sql_session(lake).await, executor(lake, Some("own")).await);
    let mut plans = Vec::new();
    for table in ["lifecycle", "supersessions", "current"] {
        plans.push(rows(&session, &format!("EXPLAIN SELECT * FROM {table}")).await);
    }
    for statement in [
        "EXPLAIN RECALL beliefs",
        "EXPLAIN RECALL CONTRADICTIONS",
        "EXPLAIN RECALL beliefs WHERE contradicted = true",
        "EXPLAIN RECALL beliefs WHERE verification_status = \"verified\"",
    ] {
        plans.push(answer(&recalls, statement).await);
    }
    plans
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_nothing_of_disclosed_copies_in_other_namespaces() {
    let own_grains = grains_of("own", 1);
    let alone = TestLake::of(&[own_grains[0].as_str()]).await;
    let mut shared = TestLake::of(&[own_grains[0].as_str()]).await;
    let text = belief("foreign", 1);
    let original = grain(&text);
    let json = Json::parse(text.as_bytes()).unwrap();
    let options = EncodeOptions::default();
    let copy = elide(&json, &original.address, &[Field::UserId], options).unwrap();
    let blobs = [original.blob, copy.blob];
    let report = shared.ingest(&[("copies.frames", &frames(&blobs))]).await;
    assert_eq!(report.grains_written, 2);
    let copies = "SELECT count(*) FROM grains WHERE _disclosure_of IS NOT NULL";
    assert_eq!(shared.value(copies).await, "1");
    assert_eq!(shown_plans(&shared).await, shown_plans(&alone).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_digest_of_a_source_with_hidden_grains_is_hidden() {
    let (own_grains, foreign) = (grains_of("own", 1), grains_of("foreign", 1));
    let lake = TestLake::of(&[own_grains[0].as_str(), foreign[0].as_str()]).await;
    let sources = "SELECT count(DISTINCT source_id) FROM grains";
    assert_eq!(lake.value(sources).await, "1");
    let session = sql_session(&lake).await;
    for query in [
        "SELECT count(source_id) AS n FROM grains",
        "SELECT count(*) AS n FROM grains WHERE source_id > ''",
        "SELECT count(*) AS n FROM beliefs WHERE source_id IS NOT NULL",
        "SELECT count(source_id) AS n FROM current",
        "SELECT count(source_id) AS n FROM state",
    ] {
        let found = rows(&session, query).await;
        assert!(found.contains("| 0 "), "{query}: {found}");
    }
    let hidden = "SELECT count(*) AS n FROM grains WHERE source_id IS NULL";
    let found = rows(&session, hidden).await;
    assert!(found.contains("| 1 "), "{found}");
}
