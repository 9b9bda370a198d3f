use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Message;
use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use rusqlite::Connection;

use super::write::{MessageDatabase, MessageRow};
use crate::transcript::grains::message_lines::canonical_lines;
use crate::transcript::kind::TranscriptKind;
use crate::transcript::options::ReadOptions;
use crate::transcript::parse::parse;
use crate::transcript::parsed::ParsedPart;
use crate::transcript::parsed::PlacedMessage;

fn placed_messages() -> Vec<PlacedMessage> {
    let lines = [
        r#"{"id":"01HZ0000000000000000000001","session_id":"s","role":"user","content":[{"type":"text","text":"weather?"}],"created_at":"2026-05-08T12:00:00.000001Z"}"#,
        r#"{"id":"01HZ0000000000000000000002","session_id":"s","role":"assistant","content":[{"type":"tool_use","id":"tu_1","name":"w","input":{"c":1.50}}],"created_at":"2026-05-08T12:00:01Z","metadata":{"model":"anthropic:claude-sonnet-4-6","provider":"anthropic","provider_raw":{"anthropic/messages":{"ids":["toolu_1"]}}}}"#,
        r#"{"id":"01HZ0000000000000000000003","session_id":"s","role":"tool","content":[{"type":"tool_result","tool_use_id":"tu_1","content":[{"type":"text","text":"sunny"}],"is_error":true}],"created_at":"2026-05-08T12:00:02Z","metadata":{"parent_tool_use_id":"tu_1"}}"#,
        r#"{"id":"01HZ0000000000000000000004","session_id":"t","role":"user","content":[{"type":"text","text":"hi"}],"created_at":"2026-05-08T12:00:00Z"}"#,
    ];
    canonical_lines(lines.join("\n").as_bytes()).messages
}

/// Creates a database of `messages`, each after the one whose index `parents` gives.
fn database(
    messages: &[PlacedMessage],
    parents: &[Option<usize>],
) -> (MessageDatabase, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut database =
        MessageDatabase::create(&folder.path().join("m.db"), PriceTable::builtin()).unwrap();
    for (number, placed) in messages.iter().enumerate() {
        let usage = placed
            .message
            .metadata
            .model
            .is_some()
            .then_some(TokenUsage {
                input_tokens: 8,
                output_tokens: 42,
                ..TokenUsage::default()
            });
        let row = MessageRow {
            message: placed.message.clone(),
            stop_reason: usage.map(|_| StopReason::ToolUse),
            usage,
            address: format!("a{number}"),
            parent: parents[number].map(|parent| format!("a{parent}")),
        };
        database.add(row).unwrap();
    }
    (database, folder)
}

fn read(folder: &tempfile::TempDir) -> Vec<ParsedPart> {
    let bytes = std::fs::read(folder.path().join("m.db")).unwrap();
    assert_eq!(
        TranscriptKind::detect(&bytes, "m.db"),
        Some(TranscriptKind::Sqlite)
    );
    let mut parts = Vec::new();
    parse(
        &bytes,
        TranscriptKind::Sqlite,
        ReadOptions::default(),
        &mut |part| parts.push(part),
    );
    parts
}

#[test]
fn a_database_has_the_messages_that_were_added() {
    let messages = placed_messages();
    let (database, folder) = database(&messages, &[None, Some(0), Some(1), None]);
    database.finish().unwrap();
    let parts = read(&folder);
    let back: Vec<&PlacedMessage> = parts.iter().flat_map(|part| &part.messages).collect();
    assert!(parts.iter().all(|part| part.faults.is_empty()));
    assert_eq!(back.len(), 4);
    for (back, placed) in back.iter().zip(&messages) {
        assert_eq!(
            (back.position, back.parent),
            (placed.position, placed.parent)
        );
        assert_eq!(
            (&back.message.content, &back.message.id),
            (&placed.message.content, &placed.message.id)
        );
        assert_eq!(back.message.created_at, placed.message.created_at);
        assert_eq!(
            back.message.metadata.provider_raw,
            placed.message.metadata.provider_raw
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
fn sessions_and_tool_calls_are_computed_from_messages_in_any_order() {
    let mut messages = placed_messages();
    messages.reverse();
    let (database, folder) = database(&messages, &[None, Some(2), Some(3), None]);
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
    let mut messages = placed_messages();
    messages[3].message.session_id = "s".into();
    let (database, _folder) = database(&messages, &[None, Some(0), Some(1), Some(0)]);
    let mut branches = Vec::new();
    database
        .branches(&mut |branch| {
            branches.push(
                branch
                    .iter()
                    .map(|placed| placed.message.role.as_str())
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
fn rows_that_are_no_messages_are_faults_and_the_others_are_read() {
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
    assert_eq!(
        parts.iter().map(|part| part.messages.len()).sum::<usize>(),
        1
    );
    // The row of the session is kept as an event.
    assert_eq!(parts.iter().map(|part| part.grains.len()).sum::<usize>(), 1);
}

#[test]
fn databases_of_memory_systems_are_read_as_facts() {
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
    let grains: Vec<_> = parts.iter().flat_map(|part| &part.grains).collect();
    assert_eq!(
        (grains.len(), grains[1].supersedes[0]),
        (3, grains[0].grain.address)
    );
}

/// Returns `json` in MessagePack as LangGraph writes it: messages are Python objects.
fn packed(json: &Json) -> Vec<u8> {
    match json {
        Json::String(text) => [&[0xd9, text.len() as u8][..], text.as_bytes()].concat(),
        Json::Number(number) => vec![number.as_i64().unwrap() as u8],
        Json::Array(items) => std::iter::once(0x90 | items.len() as u8)
            .chain(items.iter().flat_map(packed))
            .collect(),
        Json::Object(object) => {
            let mut map = vec![0x80 | object.len() as u8];
            for (key, value) in object.iter() {
                map.extend(packed(&Json::from(key)));
                map.extend(packed(value));
            }
            if !object.contains_key("content") {
                return map;
            }
            // Module, class, arguments of the constructor.
            let message = [&b"\x93\xa1m\xa1C"[..], &map].concat();
            let length = (message.len() as u16).to_be_bytes();
            [&[0xc8][..], &length, &[5], &message].concat()
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the messages and the addresses of the facts in `parts`.
fn content(parts: Vec<ParsedPart>) -> (Vec<Message<'static>>, Vec<ContentAddress>) {
    let (mut messages, mut facts) = (Vec::new(), Vec::new());
    for part in parts {
        messages.extend(part.messages.into_iter().map(|placed| placed.message));
        facts.extend(part.grains.iter().map(|fact| fact.grain.address));
    }
    (messages, facts)
}

#[test]
fn checkpoints_have_the_messages_and_facts_of_the_same_snapshots_as_lines() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,
                parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB);
            INSERT INTO checkpoints VALUES ('t', '', 'c2', NULL, 'msgpack', x'c1', '{}');",
        )
        .unwrap();
    let mut lines = Vec::new();
    for (step, values) in [
        r#"{"messages":[{"type":"human","content":"weather?"}],"count":1}"#,
        r#"{"messages":[{"type":"human","content":"weather?"},{"type":"ai","content":"sunny","response_metadata":{"model_name":"m"}}],"count":2}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let (id, time) = (format!("c{step}"), format!("2025-01-01T00:00:0{step}Z"));
        let metadata = format!(r#"{{"step":{step}}}"#);
        let config = format!(r#"{{"thread_id":"t","checkpoint_ns":"","checkpoint_id":"{id}"}}"#);
        lines.push(format!(
            r#"{{"values":{values},"config":{{"configurable":{config}}},"metadata":{metadata},"created_at":"{time}"}}"#
        ));
        // A channel for LangGraph's control flow isn't content.
        let channels = values.replacen('{', r#"{"__start__":1,"#, 1);
        let checkpoint = format!(r#"{{"ts":"{time}","channel_values":{channels}}}"#);
        let (encoding, bytes) = match step {
            0 => ("json", checkpoint.into_bytes()),
            _ => ("msgpack", packed(&Json::parse(checkpoint.as_bytes()).unwrap())),
        };
        let insert = "INSERT INTO checkpoints VALUES ('t', '', ?1, NULL, ?2, ?3, ?4)";
        connection
            .execute(insert, (&id, encoding, &bytes, &metadata))
            .unwrap();
    }
    drop(connection);
    let mut expected = Vec::new();
    parse(
        lines.join("\n").as_bytes(),
        TranscriptKind::LangGraph,
        ReadOptions::default(),
        &mut |part| expected.push(part),
    );
    let parts = read(&folder);
    let faults = parts.iter().flat_map(|part| &part.faults);
    let faults: Vec<_> = faults.map(|fault| fault.code.name()).collect();
    assert_eq!(faults, ["ERR_SHAPE"], "the row that is no MessagePack");
    let (messages, facts) = content(parts);
    assert_eq!((messages.len(), facts.len()), (2, 2));
    assert_eq!((messages, facts), content(expected));
}

#[test]
fn hostile_databases_are_one_fault() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    // A view without an end, and a generated column.
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
        parse(
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

#[test]
fn a_virtual_table_is_not_read_however_its_definition_is_spelled() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("m.db")).unwrap();
    connection
        .execute_batch(
            "CREATE VIRTUAL TABLE store USING rtree(prefix, key, value);
            INSERT INTO store VALUES (1, 2.0, 3.0);
            PRAGMA writable_schema = ON;
            UPDATE sqlite_master SET sql = replace(sql, 'CREATE VIRTUAL', 'CREATE  VIRTUAL');",
        )
        .unwrap();
    drop(connection);
    let parts = read(&folder);
    let faults = parts.iter().flat_map(|part| &part.faults);
    let faults: Vec<_> = faults.map(|fault| fault.code.name()).collect();
    assert_eq!(faults, ["ERR_NOT_UNDERSTOOD"]);
}
