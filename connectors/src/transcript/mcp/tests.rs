use gristmill_schemas::cmf::canonical::from_canonical;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{ContentBlock, Role};

use super::*;
use crate::transcript::grains::{GrainCounts, GrainOutput, grains_of_told};

const LIST: [&str; 4] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"Wiki"}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"ask","description":"Asks.","inputSchema":{"type":"object"}}]}}"#,
];

fn told(lines: &[&str]) -> Told {
    capture(lines.join("\n").as_bytes(), ReadOptions::default())
}

fn json(made: &Made) -> Json<'static> {
    let payload = Payload::open(&made.grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    Grain::decode(&payload, Mode::Strict).unwrap().to_json()
}

#[test]
fn calls_and_results_are_messages_and_listed_tools_are_definitions() {
    let call = [
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"q":1.50},"_meta":{"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"yes"}],"isError":false}}"#,
    ];
    let told = told(&[&LIST[..], &call].concat());
    assert!(told.faults.is_empty());
    let roles: Vec<_> = told.said.iter().map(|said| said.message.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool]);
    let [ContentBlock::ToolUse(call)] = &told.said[0].message.content[..] else {
        panic!("no call")
    };
    let [ContentBlock::ToolResult(result)] = &told.said[1].message.content[..] else {
        panic!("no result")
    };
    assert_eq!(
        (&call.id, call.input.get("q").unwrap().to_string()),
        (&result.tool_use_id, "1.50".to_owned())
    );
    assert_eq!(told.said[1].parent, Some(told.said[0].position));
    let cmf = from_canonical(&told.said[0].message, |_| None).envelope;
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
    let rest = told.said[0]
        .message
        .metadata
        .unknown_fields
        .get("mcp")
        .unwrap()
        .to_string();
    assert_eq!(rest, r#"{"id":7,"_meta":{"progressToken":2}}"#);
    let made: Vec<_> = told.made.iter().map(json).collect();
    let phases: Vec<_> = made
        .iter()
        .map(|grain| grain.get("action_phase").and_then(Json::as_str))
        .collect();
    // initialize, its answer, the request for the list, the definition, the progress.
    assert_eq!(phases, [None, None, None, Some("definition"), None]);
    let mut orphans = 0;
    let counts = grains_of_told(told, None, &mut |output| {
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
fn every_form_of_a_capture_gives_the_same_conversation() {
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
        let told = capture(lines.join("\n").as_bytes(), ReadOptions::default());
        assert!(told.faults.is_empty(), "{lines:?}");
        told.said
            .into_iter()
            .map(|said| said.message.id.into_owned())
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
    let told = told(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"file:///a","text":"x","mimeType":"text/plain"}]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"messages":[{"role":"user","content":{"type":"text","text":"go"}}]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"systemPrompt":"be brief","messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn"}}"#,
    ]);
    let kinds: Vec<_> = told
        .said
        .iter()
        .map(|said| said.message.content[0].tag().to_owned())
        .collect();
    let parts = [
        "cmf:resource_ref",
        "cmf:resource",
        "cmf:prompt_request",
        "cmf:prompt_result",
    ];
    assert_eq!(kinds, [&parts[..], &["text", "text", "text"]].concat());
    assert_eq!(told.said[6].message.metadata.model.as_deref(), Some("m"));
    let envelope = from_canonical(&told.said[3].message, |_| None)
        .envelope
        .to_json()
        .to_string();
    assert!(envelope.contains(r#""text":"go""#), "{envelope}");
}

#[test]
fn errors_orphans_and_strangers_are_kept_and_broken_lines_are_told() {
    let told = told(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"late"}]}}"#,
        r#"{"jsonrpc":"2.0","id":10,"result":{"x":1}}"#,
        r#"{"level":"info","text":"proxy started"}"#,
        "oops",
        "[1]",
    ]);
    let results: Vec<_> = told
        .said
        .iter()
        .filter(|said| said.message.role == Role::Tool)
        .collect();
    let ContentBlock::ToolResult(failed) = &results[0].message.content[0] else {
        panic!("no result")
    };
    assert!(failed.is_error && failed.content[0].as_text() == Some("no such tool"));
    let faults: Vec<_> = told
        .faults
        .iter()
        .map(|fault| (fault.number, fault.code.name()))
        .collect();
    assert_eq!(faults, [(6, "ERR_JSON"), (7, "ERR_SHAPE")]);
    assert_eq!(told.made.len(), 2);
    let counts = grains_of_told(told, None, &mut |_| {});
    assert_eq!((counts.messages, counts.orphan_results), (3, 1));
}

#[test]
fn a_new_connection_is_a_new_conversation() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    let other = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"u"}}"#;
    let told = told(&[LIST[0], call, LIST[0], other]);
    assert_eq!((told.said[0].parent, told.said[1].parent), (None, None));
    assert_ne!(
        told.said[0].message.session_id,
        told.said[1].message.session_id
    );
}
