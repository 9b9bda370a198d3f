use std::collections::HashSet;

use gristmill_schemas::cmf::canonical::from_canonical;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::*;
use crate::transcript::grain_output::{GrainCounts, GrainOutput, grains_of_part};
use crate::transcript::options::KnownPrefix;

const LIST: [&str; 4] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"Wiki"}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"ask","description":"Asks.","inputSchema":{"type":"object"}}]}}"#,
];

fn parsed(lines: &[&str]) -> ParsedPart {
    parse_capture(lines.join("\n").as_bytes(), ReadOptions::default())
}

fn json(grain: &StandaloneGrain) -> Json<'static> {
    let payload = Payload::open(&grain.grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    Grain::decode(&payload, DecodeMode::Strict)
        .unwrap()
        .to_json()
}

#[test]
fn calls_and_results_are_messages_and_listed_tools_are_definitions() {
    let call = [
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"q":1.50},"_meta":{"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"yes"}],"isError":false}}"#,
    ];
    let part = parsed(&[&LIST[..], &call].concat());
    assert!(part.faults.is_empty());
    let roles: Vec<_> = part
        .messages
        .iter()
        .map(|placed| placed.message.role)
        .collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool]);
    let [ContentBlock::ToolUse(call)] = &part.messages[0].message.content[..] else {
        panic!("no call")
    };
    let [ContentBlock::ToolResult(result)] = &part.messages[1].message.content[..] else {
        panic!("no result")
    };
    assert_eq!(
        (&call.id, call.input.get("q").unwrap().to_string()),
        (&result.tool_use_id, "1.50".to_owned())
    );
    assert_eq!(part.messages[1].parent, Some(part.messages[0].position));
    let cmf = from_canonical(&part.messages[0].message, |_| None).envelope;
    let entity = cmf.to_json();
    let tool = entity
        .get("extensions")
        .and_then(|all| all.get("mcp")?.get("tool"))
        .unwrap();
    assert_eq!(
        tool.get("description").and_then(Json::as_str),
        Some("Asks.")
    );
    assert_eq!(cmf.hook.as_deref(), Some("tool_pre_invoke"));
    let rest = part.messages[0]
        .message
        .metadata
        .unknown_fields
        .get("mcp")
        .unwrap()
        .to_string();
    assert_eq!(rest, r#"{"id":7,"_meta":{"progressToken":2}}"#);
    let grains: Vec<_> = part.grains.iter().map(json).collect();
    let phases: Vec<_> = grains
        .iter()
        .map(|grain| grain.get("action_phase").and_then(Json::as_str))
        .collect();
    // `initialize`, its result, `tools/list`, the definition, the progress notification.
    assert_eq!(phases, [None, None, None, Some("definition"), None]);
    let mut orphans = 0;
    let counts = grains_of_part(part, ReadOptions::default(), &mut |output| {
        orphans += usize::from(matches!(output, GrainOutput::Fault(_)));
    });
    assert_eq!(
        (counts, orphans),
        (
            GrainCounts {
                messages: 2,
                other_grains: 5,
                ..GrainCounts::default()
            },
            0
        )
    );
}

#[test]
fn all_forms_of_a_capture_give_the_same_conversation() {
    let (call, answer) = (
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":"a","result":{"content":[]}}"#,
    );
    let escaped = |text: &str| Json::from(text.to_owned()).to_string();
    let forms = [
        vec![call.to_owned(), answer.to_owned()],
        vec![format!("[{call},{answer}]")],
        vec![
            format!(r#"{{"timestamp":0,"direction":"out","message":{call}}}"#),
            format!(
                r#"{{"ts":"1970-01-01T00:00:00Z","data":{}}}"#,
                escaped(answer)
            ),
        ],
        vec![format!(
            r#"{{"provider":"mcp","endpoint":"x","request":{call},"response":{answer}}}"#
        )],
        vec![format!(
            r#"{{"request":{call},"response":null,"response_sse":{}}}"#,
            escaped(&format!(": ping\n\nevent: message\ndata: {answer}\n\n"))
        )],
    ];
    let ids = |lines: &Vec<String>| {
        let part = parse_capture(lines.join("\n").as_bytes(), ReadOptions::default());
        assert!(part.faults.is_empty(), "{lines:?}");
        part.messages
            .into_iter()
            .map(|placed| placed.message.id.into_owned())
            .collect::<Vec<_>>()
    };
    let expected = ids(&forms[0]);
    assert_eq!(expected.len(), 2);
    for form in &forms {
        assert_eq!(ids(form), expected, "{form:?}");
    }
}

#[test]
fn resources_prompts_and_samples_are_messages_too() {
    let part = parsed(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"file:///a","text":"x","mimeType":"text/plain"}]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"messages":[{"role":"user","content":{"type":"text","text":"go"}}]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"systemPrompt":"be brief","messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn"}}"#,
    ]);
    let kinds: Vec<_> = part
        .messages
        .iter()
        .map(|placed| placed.message.content[0].tag().to_owned())
        .collect();
    let parts = [
        "cmf:resource_ref",
        "cmf:resource",
        "cmf:prompt_request",
        "cmf:prompt_result",
    ];
    assert_eq!(kinds, [&parts[..], &["text", "text", "text"]].concat());
    assert_eq!(
        part.messages[6].message.metadata.model.as_deref(),
        Some("m")
    );
    let envelope = from_canonical(&part.messages[3].message, |_| None)
        .envelope
        .to_json()
        .to_string();
    assert!(envelope.contains(r#""text":"go""#), "{envelope}");
}

#[test]
fn errors_orphans_and_other_objects_are_kept_and_unreadable_lines_are_faults() {
    let part = parsed(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"late"}]}}"#,
        r#"{"jsonrpc":"2.0","id":10,"result":{"x":1}}"#,
        r#"{"level":"info","text":"proxy started"}"#,
        "oops",
        "[1]",
    ]);
    let results: Vec<_> = part
        .messages
        .iter()
        .filter(|placed| placed.message.role == Role::Tool)
        .collect();
    let ContentBlock::ToolResult(failed) = &results[0].message.content[0] else {
        panic!("no result")
    };
    assert!(failed.is_error && failed.content[0].as_text() == Some("no such tool"));
    let faults: Vec<_> = part
        .faults
        .iter()
        .map(|fault| (fault.number, fault.code.name()))
        .collect();
    assert_eq!(faults, [(6, "ERR_JSON"), (7, "ERR_SHAPE")]);
    assert_eq!(part.grains.len(), 2);
    let counts = grains_of_part(part, ReadOptions::default(), &mut |_| {});
    assert_eq!((counts.messages, counts.orphan_results), (3, 1));
}

#[test]
fn what_a_message_cannot_hold_is_in_its_metadata() {
    let part = parsed(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["positional"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":"bare text"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///a"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"contents":[{"text":"without a uri"}]}}"#,
    ]);
    let kept = part.messages.iter().map(|placed| {
        let metadata = &placed.message.metadata.unknown_fields;
        metadata.get("mcp").map(Json::to_string).unwrap_or_default()
    });
    let kept: Vec<String> = kept.collect();
    assert_eq!(kept.len(), 4);
    assert!(kept[0].contains("positional"), "{}", kept[0]);
    assert!(kept[1].contains("bare text"), "{}", kept[1]);
    assert!(kept[3].contains("without a uri"), "{}", kept[3]);
}

#[test]
fn a_request_for_sampling_without_a_list_of_messages_is_kept() {
    let part = parsed(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":"a question","maxTokens":5}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":["positional"]}"#,
    ]);
    let kept = part.messages.iter().map(|placed| {
        let metadata = &placed.message.metadata.unknown_fields;
        metadata.get("mcp").map(Json::to_string).unwrap_or_default()
    });
    let expected = [
        r#"{"messages":"a question","maxTokens":5}"#,
        r#"{"value":["positional"]}"#,
    ];
    assert_eq!(kept.collect::<Vec<_>>(), expected);
}

#[test]
fn a_new_connection_is_a_new_conversation() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    let other = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u"}}"#;
    let part = parsed(&[LIST[0], call, LIST[0], other]);
    assert_eq!(
        (part.messages[0].parent, part.messages[1].parent),
        (None, None)
    );
    assert_ne!(
        part.messages[0].message.session_id,
        part.messages[1].message.session_id
    );
}

#[test]
fn answers_to_requests_of_the_server_with_the_id_of_a_call_are_not_its_result() {
    let part = parsed(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"Sure?"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"sure":true}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"yes"}]}}"#,
    ]);
    assert_eq!((part.messages.len(), part.grains.len()), (2, 6));
    let [ContentBlock::ToolResult(result)] = &part.messages[1].message.content[..] else {
        panic!("no result")
    };
    assert_eq!(result.content[0].as_text(), Some("yes"));
}

#[test]
fn unnamed_connections_that_begin_alike_are_conversations_of_their_own() {
    let connection = |time: &str, answer: &str| {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}"#;
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{answer}"}}]}}}}"#
        );
        [LIST[0], call, result.as_str()]
            .map(|message| format!(r#"{{"time":"2026-05-08T{time}Z","message":{message}}}"#))
    };
    let lines = [
        connection("12:00:00", "yes"),
        connection("13:00:00", "no"),
        // Logged twice.
        connection("13:00:00", "no"),
    ]
    .concat();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let counts = grains_of_part(parsed(&lines), ReadOptions::default(), &mut |_| {});
    assert_eq!((counts.messages, counts.orphan_results), (4, 0));
}

#[test]
fn connections_without_times_that_begin_alike_are_conversations_of_their_own() {
    let connection = |text: &str| {
        [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"l","arguments":{}}}"#
                .to_owned(),
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
            ),
        ]
        .join("\n")
    };
    let text = ["one", "two", "three"].map(connection).join("\n");
    let part = parse_capture(text.as_bytes(), ReadOptions::default());
    let positions: HashSet<_> = part.messages.iter().map(|placed| placed.position).collect();
    assert_eq!((part.messages.len(), positions.len()), (6, 6));
    let alone = parse_capture(connection("one").as_bytes(), ReadOptions::default());
    assert_eq!(part.messages[..2], alone.messages[..]);
}

#[test]
fn connections_that_are_appended_to_a_log_are_conversations_of_their_own() {
    let connection = |text: &str| {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"l"}}"#;
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        format!("{}\n{call}\n{result}\n", LIST[0])
    };
    let dated = |text: &str, time: i64| {
        let lines = connection(text);
        let lines = lines.lines();
        let lines = lines.map(|line| format!("{{\"ts\":{time},\"message\":{line}}}\n"));
        lines.collect::<String>()
    };
    let (first, then) = (Timestamp::from_seconds(500), Timestamp::from_seconds(900));
    for (known, added) in [
        (
            connection("a") + &connection("b"),
            connection("c") + &connection("d"),
        ),
        (
            dated("a", 100) + &connection("b"),
            connection("c") + &connection("d"),
        ),
        (
            dated("a", 100) + &dated("b", 900),
            connection("c") + &dated("d", 200),
        ),
        (
            dated("a", 100) + &connection("b"),
            dated("c", 500) + &connection("d"),
        ),
    ] {
        let before = ReadOptions {
            fallback: first,
            ..ReadOptions::default()
        };
        let prefixes = [KnownPrefix {
            length: known.len() as u64,
            time: first,
        }];
        let after = ReadOptions {
            fallback: then,
            known_prefixes: &prefixes,
            ..ReadOptions::default()
        };
        let text = format!("{known}{added}");
        let before = parse_capture(known.as_bytes(), before).messages;
        let after = parse_capture(text.as_bytes(), after).messages;
        assert_eq!(before[..], after[..before.len()], "{text}");
        let positions: HashSet<_> = after.iter().map(|placed| placed.position).collect();
        assert_eq!((after.len(), positions.len()), (8, 8), "{text}");
    }
}
