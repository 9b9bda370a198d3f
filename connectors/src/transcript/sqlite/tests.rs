use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use rusqlite::Connection;

use super::write::{Entry, MessageDatabase};
use crate::transcript::kind::TranscriptKind;
use crate::transcript::read::ReadOptions;
use crate::transcript::said::{Said, canonical_lines};
use crate::transcript::told::{Told, told};

fn said() -> Vec<Said> {
    let lines = [
        r#"{"id":"01HZ0000000000000000000001","session_id":"s","role":"user","content":[{"type":"text","text":"weather?"}],"created_at":"2026-05-08T12:00:00.000001Z"}"#,
        r#"{"id":"01HZ0000000000000000000002","session_id":"s","role":"assistant","content":[{"type":"tool_use","id":"tu_1","name":"w","input":{"c":1.50}}],"created_at":"2026-05-08T12:00:01Z","metadata":{"model":"anthropic:claude-sonnet-4-6","provider":"anthropic","provider_raw":{"anthropic/messages":{"ids":["toolu_1"]}}}}"#,
        r#"{"id":"01HZ0000000000000000000003","session_id":"s","role":"tool","content":[{"type":"tool_result","tool_use_id":"tu_1","content":[{"type":"text","text":"sunny"}],"is_error":true}],"created_at":"2026-05-08T12:00:02Z","metadata":{"parent_tool_use_id":"tu_1"}}"#,
        r#"{"id":"01HZ0000000000000000000004","session_id":"t","role":"user","content":[{"type":"text","text":"hi"}],"created_at":"2026-05-08T12:00:00Z"}"#,
    ];
    canonical_lines(lines.join("\n").as_bytes()).0
}

/// A database of `said`, whose messages follow each other within a session, but for those that
/// follow what `parents` says.
fn database(said: &[Said], parents: &[Option<usize>]) -> (MessageDatabase, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut database =
        MessageDatabase::create(&folder.path().join("m.db"), PriceTable::builtin()).unwrap();
    for (number, said) in said.iter().enumerate() {
        let usage = said.message.metadata.model.is_some().then_some(TokenUsage {
            input_tokens: 8,
            output_tokens: 42,
            ..TokenUsage::default()
        });
        let entry = Entry {
            message: said.message.clone(),
            stop_reason: usage.map(|_| StopReason::ToolUse),
            usage,
            address: format!("a{number}"),
            parent: parents[number].map(|parent| format!("a{parent}")),
        };
        database.add(entry).unwrap();
    }
    (database, folder)
}

fn read(folder: &tempfile::TempDir) -> Vec<Told> {
    let bytes = std::fs::read(folder.path().join("m.db")).unwrap();
    assert_eq!(
        TranscriptKind::detect(&bytes, "m.db"),
        Some(TranscriptKind::Sqlite)
    );
    let mut parts = Vec::new();
    told(
        &bytes,
        TranscriptKind::Sqlite,
        ReadOptions::default(),
        &mut |part| parts.push(part),
    );
    parts
}

#[test]
fn messages_come_back_from_a_database_as_they_went_in() {
    let said = said();
    let (database, folder) = database(&said, &[None, Some(0), Some(1), None]);
    database.finish().unwrap();
    let parts = read(&folder);
    let back: Vec<&Said> = parts.iter().flat_map(|part| &part.said).collect();
    assert!(parts.iter().all(|part| part.faults.is_empty()));
    assert_eq!(back.len(), 4);
    for (back, said) in back.iter().zip(&said) {
        assert_eq!((back.position, back.parent), (said.position, said.parent));
        assert_eq!(
            (&back.message.content, &back.message.id),
            (&said.message.content, &said.message.id)
        );
        assert_eq!(back.message.created_at, said.message.created_at);
        assert_eq!(
            back.message.metadata.provider_raw,
            said.message.metadata.provider_raw
        );
    }
    assert_eq!(back[1].stop_reason, Some(StopReason::ToolUse));
    assert_eq!(
        back[1]
            .message
            .metadata
            .usage
            .as_ref()
            .unwrap()
            .cost_usd
            .to_string(),
        "0.000654"
    );
    assert_eq!(back[1].usage.map(|usage| usage.output_tokens), Some(42));
}

#[test]
fn sessions_and_tool_calls_are_put_together_from_messages_in_any_order() {
    let mut said = said();
    said.reverse();
    let (database, folder) = database(&said, &[None, Some(2), Some(3), None]);
    database.finish().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    let one = |query: &str| -> String {
        connection
            .query_row(query, [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    let call = one(
        "SELECT id || ' ' || name || ' ' || status || ' ' || provider || ' ' || provider_id || ' ' \
         || message_id || ' ' || result_message_id FROM tool_calls",
    );
    assert_eq!(
        call,
        "tu_1 w failed anthropic toolu_1 01HZ0000000000000000000002 01HZ0000000000000000000003"
    );
    assert_eq!(
        one(
            "SELECT group_concat(id || ' ' || coalesce(active_model, '-')) FROM (SELECT * FROM \
             sessions ORDER BY id)"
        ),
        "s anthropic:claude-sonnet-4-6,t -"
    );
    assert_eq!(one("PRAGMA journal_mode"), "wal");
    assert_eq!(
        one("SELECT cast(created_at AS TEXT) FROM messages WHERE id LIKE '%1'"),
        "1778241600000001"
    );
    let broken: i64 = connection
        .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(broken, 0);
}

#[test]
fn every_branch_of_a_session_is_a_conversation() {
    let mut said = said();
    said[3].message.session_id = "s".into();
    let (database, _folder) = database(&said, &[None, Some(0), Some(1), Some(0)]);
    let mut branches = Vec::new();
    database
        .branches(&mut |branch| {
            branches.push(
                branch
                    .iter()
                    .map(|said| said.message.role.as_str())
                    .collect::<Vec<_>>(),
            )
        })
        .unwrap();
    branches.sort();
    assert_eq!(
        branches,
        [vec!["user", "assistant", "tool"], vec!["user", "user"]]
    );
}

#[test]
fn rows_that_are_no_messages_are_told_and_the_rest_goes_in() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    connection
        .execute_batch(
            r#"CREATE TABLE sessions (id TEXT, workspace_path TEXT, created_at INTEGER);
            INSERT INTO sessions VALUES ('s', '/w', 5);
            CREATE TABLE messages (id TEXT, session_id TEXT, role TEXT, content_json TEXT, metadata_json TEXT, created_at, schema_version);
            INSERT INTO messages VALUES ('1', 's', 'user', '[{"type":"text","text":"a"}]', '{}', 1, 1), ('2', 's', 'user', 'oops', '{}', 2, 1),
                ('3', 's', 'ghost', '[]', '{}', 3, 1), ('4', 's', 'user', x'ff', '{}', 4, 1), ('5', 's', 'user', '[]', NULL, 'noon', 1);"#,
        )
        .unwrap();
    drop(connection);
    let parts = read(&folder);
    let faults: Vec<_> = parts
        .iter()
        .flat_map(|part| &part.faults)
        .map(|fault| (fault.number, fault.code.name()))
        .collect();
    assert_eq!(
        faults,
        [
            (2, "ERR_SHAPE"),
            (3, "ERR_SHAPE"),
            (4, "ERR_SHAPE"),
            (5, "ERR_SHAPE")
        ]
    );
    assert_eq!(parts.iter().map(|part| part.said.len()).sum::<usize>(), 1);
    // What only a session's row knows is kept.
    assert_eq!(parts.iter().map(|part| part.made.len()).sum::<usize>(), 1);
}

#[test]
fn the_databases_of_memory_systems_are_their_facts() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    connection
        .execute_batch(
            r#"CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME,
                updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
            INSERT INTO history VALUES ('x', 'm', NULL, 'tea', 'ADD', '2025-01-01T00:00:00', NULL, 0, NULL, NULL),
                ('y', 'm', 'tea', 'coffee', 'UPDATE', '2025-01-01T00:00:00', '2025-01-02T00:00:00', 0, NULL, NULL);
            CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP);
            INSERT INTO store VALUES ('memories.bob', 'k', '{"text":"x"}', '2025-01-01 00:00:00', '2025-01-01 00:00:00');"#,
        )
        .unwrap();
    drop(connection);
    let parts = read(&folder);
    let made: Vec<_> = parts.iter().flat_map(|part| &part.made).collect();
    assert_eq!(
        (made.len(), made[1].supersedes[0]),
        (3, made[0].grain.address)
    );
}

#[test]
fn strange_and_hostile_databases_are_one_fault() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    // A view that never ends, and a column that is computed.
    connection
        .execute_batch(
            "CREATE TABLE history (memory_id TEXT, event TEXT, big TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000))));
            INSERT INTO history VALUES ('a', 'b');
            CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                SELECT i AS id, i AS session_id, i AS role, i AS content_json, i AS created_at FROM n;",
        )
        .unwrap();
    drop(connection);
    let faults = |bytes: &[u8]| {
        let mut faults = Vec::new();
        told(
            bytes,
            TranscriptKind::Sqlite,
            ReadOptions::default(),
            &mut |part| faults.extend(part.faults),
        );
        faults
            .into_iter()
            .map(|fault| fault.code.name())
            .collect::<Vec<_>>()
    };
    let bytes = std::fs::read(folder.path().join("m.db")).unwrap();
    assert_eq!(
        faults(&bytes),
        ["ERR_NOT_UNDERSTOOD"],
        "a database in which no table is known"
    );
    let mut noise = bytes.clone();
    noise.iter_mut().skip(100).for_each(|byte| *byte ^= 0x5a);
    assert_eq!(faults(&noise), ["ERR_SHAPE"]);
    assert_eq!(faults(&bytes[..bytes.len() / 2]), ["ERR_SHAPE"]);
    assert_eq!(faults(b"SQLite format 3\0"), ["ERR_SHAPE"]);
}
