//! Two lakes: one with the namespaces `own` and `foreign`, one with `own` alone. Both namespaces
//! have the same people, words and conversations, `foreign` several times as many grains.
//!
//! Confidences are multiples of 1/8, so that sums don't depend on the order of rows. No grain of
//! `foreign` supersedes one of `own`: that would close it in one lake only.

use std::sync::Arc;

use gristmill_queries::sql::{Confinement, SqlOptions};
use gristmill_schemas::address::ContentAddress;
use gristmill_server::NewestLake;
use gristmill_server::http::{HttpOptions, Scope, Server, Tokens, new_token};

use crate::grains::{frames, grain};
use crate::lake::TestLake;
use crate::test_server::limits;

/// Rounds of grains of `own`; each has a grain of every kind.
pub(super) const OWN_ROUNDS: usize = 12;

/// Rounds of grains of `foreign`.
pub(super) const FOREIGN_ROUNDS: usize = 40;

/// First second of the grains, 2026-01-01.
const START: u64 = 1_767_225_600_000;

pub(super) const SUBJECTS: [&str; 4] = ["alice", "bob", "carol", "dave"];

pub(super) const RELATIONS: [&str; 4] = ["mg:prefers", "mg:knows", "lives_in", "dislikes"];

pub(super) const OBJECTS: [&str; 5] = ["tea", "green tea", "coffee and tea", "Oslo", "bob"];

/// Returns the text of an address of a grain.
fn address_of(text: &str) -> String {
    grain(text).address.to_string()
}

/// Returns the grains of the round `number`: one of each kind.
fn round(namespace: &str, number: usize) -> Vec<String> {
    let at = START + number as u64 * 7_000;
    let common = |kind: &str, second: u64| {
        let (user, created) = (number % 4, at + second * 1_000);
        format!(
            r#""type":"{kind}","namespace":"{namespace}","user_id":"u-{user}","created_at":{created}"#
        )
    };
    let subject = SUBJECTS[number % SUBJECTS.len()];
    let relation = RELATIONS[number / 2 % RELATIONS.len()];
    let object = OBJECTS[number % OBJECTS.len()];
    let (session, eighths, tag) = (number % 3, 1 + number % 7, number % 2);
    let confidence = eighths as f64 / 8.0;
    let tea = "tea ".repeat(1 + number % 4);
    let call = format!(
        r#"{{{},"action_phase":"call","tool_name":"weather-{tag}","input":{{"city":"{object}"}},"tool_call_id":"{namespace}-{number}","session_id":"s-{session}"}}"#,
        common("action", 3)
    );
    let called = address_of(&call);
    vec![
        format!(
            r#"{{{},"subject":"{subject}","relation":"{relation}","object":"{object} {namespace} {number}","confidence":{confidence},"structural_tags":["t-{tag}","ui"]}}"#,
            common("belief", 0)
        ),
        format!(
            r#"{{{},"subject":"{subject}","relation":"{relation}","object":"{object}","confidence":{confidence}}}"#,
            common("belief", 1)
        ),
        format!(
            r#"{{{},"role":"user","content":"{tea}talk {number}, {subject}?","session_id":"s-{session}"}}"#,
            common("event", 1)
        ),
        format!(
            r#"{{{},"role":"assistant","content":"{object} for {subject} in {namespace}","session_id":"s-{session}","model_id":"anthropic:claude-sonnet-4-6","stop_reason":"end_turn","token_usage":{{"input_tokens":{},"output_tokens":{number}}}}}"#,
            common("event", 2),
            100 + number
        ),
        format!(
            r#"{{{},"action_phase":"result","tool_call_id":"{namespace}-{number}","session_id":"s-{session}","content":"{object}, {number} C","is_error":{},"derived_from":["{called}"]}}"#,
            common("action", 4),
            number.is_multiple_of(5)
        ),
        call,
        format!(
            r#"{{{},"observer_id":"sensor-{tag}","observer_type":"agent","subject":"{subject}","object":"{object}","content":"rain over {object} {number}"}}"#,
            common("observation", 5)
        ),
        format!(
            r#"{{{},"subject":"{subject}","description":"drink {object} {namespace}","goal_state":"{}"}}"#,
            common("goal", 5),
            ["active", "satisfied"][tag]
        ),
        format!(
            r#"{{{},"premises":["{called}"],"conclusion":"{subject} likes {object}","inference_method":"deductive","derived_from":["{called}"]}}"#,
            common("reasoning", 6)
        ),
        format!(
            r#"{{{},"subject_did":"did:web:{subject}.example","grantee_did":"did:web:agent-{tag}.example","scope":["retrieve","share"],"is_withdrawal":false,"basis":"explicit_consent"}}"#,
            common("consent", 6)
        ),
        format!(
            r#"{{{},"steps":["boil {number}","drink"],"trigger":"daily"}}"#,
            common("workflow", 6)
        ),
    ]
}

/// Returns the grains of a namespace.
pub(super) fn grains_of(namespace: &str, rounds: usize) -> Vec<String> {
    (0..rounds)
        .flat_map(|number| round(namespace, number))
        .collect()
}

/// Returns pairs of an old grain and its successor: each third belief is closed by the next.
fn supersessions(grains: &[String]) -> Vec<(ContentAddress, ContentAddress)> {
    let beliefs: Vec<_> = grains
        .iter()
        .filter(|text| text.contains(r#""type":"belief""#))
        .map(|text| grain(text).address)
        .collect();
    beliefs
        .chunks_exact(3)
        .map(|three| (three[0], three[1]))
        .collect()
}

/// Returns a lake of `own`, and of `foreign` if `with_foreign`, in several segments.
async fn lake(with_foreign: bool) -> TestLake {
    let mut lake = TestLake::new().await;
    let own = grains_of("own", OWN_ROUNDS);
    let foreign = match with_foreign {
        true => grains_of("foreign", FOREIGN_ROUNDS),
        false => Vec::new(),
    };
    let mut links = supersessions(&own);
    links.extend(supersessions(&foreign));
    let half = |grains: &[String], second: bool| {
        let (before, after) = grains.split_at(grains.len() / 2);
        let half = if second { after } else { before };
        let blobs: Vec<_> = half.iter().map(|text| grain(text).blob).collect();
        frames(&blobs)
    };
    for second in [false, true] {
        let (own, foreign) = (half(&own, second), half(&foreign, second));
        let mut files = vec![("own.frames", own.as_slice())];
        if with_foreign {
            files.push(("foreign.frames", foreign.as_slice()));
        }
        let report = lake.ingest(&files).await;
        assert_eq!(report.rejected, 0, "{:?}", report.rejects_by_code);
    }
    lake.supersede(&links).await;
    lake
}

/// The tokens of both servers.
pub(super) struct TokenTexts {
    /// Sees `own`.
    pub(super) namespace: String,
    /// Sees the user `u-1` of `own`.
    pub(super) user: String,
    /// Sees the whole lake.
    pub(super) whole: String,
}

/// A lake and the server that answers over it, without a listener.
pub(super) struct ServedLake {
    pub(super) server: Arc<Server>,
    _lake: TestLake,
}

/// Makes the tokens; the second value is their file.
fn tokens() -> (TokenTexts, String) {
    let mut file = String::new();
    let mut made = |name: &str, namespace: Option<&str>, user: Option<&str>| {
        let confinement = Confinement {
            namespace: namespace.map(str::to_owned),
            user: user.map(str::to_owned),
        };
        let token = new_token(name, &confinement, [Scope::Read].into_iter().collect());
        let (text, table) = token.expect("a token");
        file += &table;
        file.push('\n');
        text
    };
    let texts = TokenTexts {
        namespace: made("namespace", Some("own"), None),
        user: made("user", Some("own"), Some("u-1")),
        whole: made("whole", None, None),
    };
    (texts, file)
}

async fn served(lake: TestLake, tokens: &str) -> ServedLake {
    // One partition: sums of floats don't depend on the order of rows.
    let options = SqlOptions {
        threads: 1,
        ..SqlOptions::default()
    };
    let newest = NewestLake::new(lake.lake.clone(), options).await;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut limits = limits();
    limits.concurrent = 2 * cores;
    limits.queued = 1_000;
    let options = HttpOptions {
        tokens: Some(Tokens::parse(tokens).expect("a file of tokens")),
        allow_writes: false,
        limits,
        // No statement of a run changes the lake.
        audit_rows: u64::MAX,
        audit_key: None,
    };
    let server = Server::new(newest.expect("a lake"), options).await;
    ServedLake {
        server: server.expect("a server"),
        _lake: lake,
    }
}

/// Returns the lake with `own` alone, the one with both namespaces, and their tokens.
pub(super) async fn lakes() -> (ServedLake, ServedLake, TokenTexts) {
    let (texts, file) = tokens();
    let alone = served(lake(false).await, &file).await;
    let both = served(lake(true).await, &file).await;
    (alone, both, texts)
}
