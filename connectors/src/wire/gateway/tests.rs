//! Tests of the gateway: accepted, normalised and rejected requests, and rendered responses, by
//! format.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::encode::{UnknownFields, encode_blocks};
use gristmill_schemas::message::request::{Choice, RequestTool, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::super::conversation::Conversation;
use super::{
    InboundRequest, InvalidField, inbound_anthropic, inbound_openai, render_anthropic,
    render_openai,
};

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

/// Returns a body in the OpenAI format with these `messages` and further `members`.
fn openai_body(messages: &str, members: &str) -> Json<'static> {
    json(&format!(
        r#"{{"model":"m","messages":{messages}{members}}}"#
    ))
    .into_owned()
}

fn anthropic_body(messages: &str, members: &str) -> Json<'static> {
    json(&format!(
        r#"{{"max_tokens":8,"model":"m","messages":{messages}{members}}}"#
    ))
    .into_owned()
}

fn openai<'j>(body: &'j Json<'j>) -> Result<InboundRequest<'j>, InvalidField> {
    inbound_openai(
        body,
        &mut Conversation::new("test"),
        Timestamp::from_micros(0),
    )
}

fn anthropic<'j>(body: &'j Json<'j>) -> Result<InboundRequest<'j>, InvalidField> {
    inbound_anthropic(
        body,
        &mut Conversation::new("test"),
        Timestamp::from_micros(0),
    )
}

/// Returns the messages as `role: blocks`, without ids of calls.
fn shown(inbound: &InboundRequest) -> Vec<String> {
    let messages = inbound.request.messages.iter().map(|message| {
        let mut content = message.content.clone();
        for block in &mut content {
            match block {
                ContentBlock::ToolUse(call) => call.id = "".into(),
                ContentBlock::ToolResult(result) => result.tool_use_id = "".into(),
                _ => {}
            }
        }
        format!(
            "{}: {}",
            message.role.as_str(),
            encode_blocks(&content, UnknownFields::Keep)
        )
    });
    messages.collect()
}

fn schemas(inbound: &InboundRequest) -> Vec<String> {
    let tools = inbound.request.tools.iter().map(|tool| match tool {
        RequestTool::Defined(tool) => format!(
            "{} {}",
            tool.name,
            Json::Object(tool.input_schema.reborrow())
        ),
        RequestTool::Wire { json, .. } => json.to_string(),
    });
    tools.collect()
}

/// One user message, for tests of other members of the body.
const ASKED: &str = r#"[{"role":"user","content":"why"}]"#;
const ANY_OBJECT: &str = r#"{"type":"object","properties":{}}"#;

#[test]
fn parts_of_an_instruction_are_joined_by_lines_and_instructions_by_paragraphs() {
    let messages = r#"[{"role":"system","content":[{"type":"text","text":"be brief"},{"type":"image_url","image_url":{"url":"u"}},
        {"type":"text","text":"be kind"}]},{"role":"system","content":""},{"role":"user","content":"why"},{"role":"system","content":"be true"}]"#;
    let body = openai_body(messages, "");
    let inbound = openai(&body).unwrap();
    assert_eq!(
        inbound.request.system_prompt.as_deref(),
        Some("be brief\nbe kind\n\nbe true")
    );
    assert_eq!(shown(&inbound), [r#"user: [{"type":"text","text":"why"}]"#]);
    let warnings: Vec<String> = inbound.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["message 0: block of type `image_url` isn't supported here and is left out"]
    );
}

#[test]
fn empty_content_is_removed_but_messages_of_the_openai_shape_are_kept() {
    for (message, expected) in [
        (
            r#"{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"a"}]}"#,
            r#"user: [{"type":"text","text":"a"}]"#,
        ),
        (
            r#"{"role":"user","content":[]}"#,
            r#"user: [{"type":"text","text":""}]"#,
        ),
        (
            r#"{"role":"assistant"}"#,
            r#"assistant: [{"type":"text","text":""}]"#,
        ),
        (
            r#"{"role":"tool","tool_call_id":"c"}"#,
            r#"tool: [{"type":"tool_result","tool_use_id":"","content":[{"type":"text","text":""}],"is_error":false}]"#,
        ),
        (
            r#"{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"r"}]}"#,
            r#"tool: [{"type":"tool_result","tool_use_id":"","content":[{"type":"text","text":"r"}],"is_error":false}]"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,QUFB"}}]}"#,
            r#"user: [{"type":"image","source":{"kind":"base64","data":"QUFB"},"media_type":"image/png"}]"#,
        ),
    ] {
        let body = openai_body(&format!("[{message}]"), "");
        assert_eq!(shown(&openai(&body).unwrap()), [expected], "{message}");
    }
}

#[test]
fn a_limit_on_output_is_the_integer_part_of_a_number_or_none() {
    for (member, limit) in [
        ("", 1_024),
        (r#","max_tokens":0"#, 1_024),
        (r#","max_tokens":9.9"#, 9),
        (r#","max_tokens":"9""#, 1_024),
        (r#","max_completion_tokens":null,"max_tokens":7"#, 7),
        (r#","max_completion_tokens":3,"max_tokens":7"#, 3),
    ] {
        let body = openai_body(ASKED, member);
        assert_eq!(
            openai(&body).unwrap().request.max_output_tokens,
            Some(limit),
            "{member}"
        );
    }
    for (limit, taken) in [
        ("2.5", Some(2)),
        ("0", None),
        ("-3", None),
        ("\"8\"", None),
        ("null", None),
    ] {
        let body = format!(r#"{{"model":"m","messages":{ASKED},"max_tokens":{limit}}}"#);
        let body = json(&body);
        let came = anthropic(&body)
            .ok()
            .and_then(|inbound| inbound.request.max_output_tokens);
        assert_eq!(came, taken, "{limit}");
    }
}

#[test]
fn a_tool_without_a_schema_accepts_any_object() {
    let body = openai_body(
        ASKED,
        r#","tools":[{"type":"function","function":{"name":"f"}}]"#,
    );
    assert_eq!(
        schemas(&openai(&body).unwrap()),
        [format!("f {ANY_OBJECT}")]
    );
    let tools = r#","tools":[{"name":"f"},{"type":"bash_20250124","name":"bash"},{"name":"g","input_schema":{"type":"object"}}]"#;
    let body = anthropic_body(ASKED, tools);
    let expected = [
        format!("f {ANY_OBJECT}"),
        format!("bash {ANY_OBJECT}"),
        r#"g {"type":"object"}"#.to_owned(),
    ];
    assert_eq!(schemas(&anthropic(&body).unwrap()), expected);
}

#[test]
fn members_of_the_wrong_type_are_rejected_by_name() {
    for (members, path) in [
        (r#","tools":{}"#, "tools"),
        (
            r#","tools":[{"type":"custom","custom":{}}]"#,
            "tools[0].type",
        ),
        (
            r#","tools":[{"type":"function"}]"#,
            "tools[0].function.name",
        ),
        (
            r#","tools":[{"type":"function","function":{"name":"f","description":null}}]"#,
            "tools[0].function.description",
        ),
        (
            r#","tools":[{"type":"function","function":{"name":"f","parameters":[]}}]"#,
            "tools[0].function.parameters",
        ),
        (r#","stop":5"#, "stop"),
        (r#","stream_options":true"#, "stream_options"),
        (r#","response_format":"json""#, "response_format"),
        (
            r#","response_format":{"type":"json_schema","json_schema":{}}"#,
            "response_format.json_schema.schema",
        ),
    ] {
        let body = openai_body(ASKED, members);
        assert_eq!(openai(&body).unwrap_err().path, path, "{members}");
    }
    for (members, path) in [
        (r#","tools":{}"#, "tools"),
        (r#","tools":[{"input_schema":{}}]"#, "tools[0].name"),
        (
            r#","tools":[{"name":"f","input_schema":null}]"#,
            "tools[0].input_schema",
        ),
        (r#","stop_sequences":"x""#, "stop_sequences"),
        (r#","system":7"#, "system"),
        (r#","system":[{"type":"text","text":7}]"#, "system[0].text"),
    ] {
        let body = anthropic_body(ASKED, members);
        assert_eq!(anthropic(&body).unwrap_err().path, path, "{members}");
    }
}

#[test]
fn messages_of_the_openai_shape_with_missing_members_are_rejected() {
    for (message, path) in [
        (r#"{"role":"user"}"#, "content"),
        (r#"{"role":"user","content":null}"#, "content"),
        (r#"{"role":"system","content":null}"#, "content"),
        (
            r#"{"role":"tool","tool_call_id":"c","content":null}"#,
            "content",
        ),
        (
            r#"{"role":"tool","tool_call_id":"","content":"r"}"#,
            "tool_call_id",
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":"u"}]}"#,
            "content[0].image_url.url",
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]}"#,
            "content[0].image_url.url",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"u"}}]}"#,
            "content[0].type",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}"#,
            "tool_calls[0].id",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#,
            "tool_calls[0].function",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":""}}]}"#,
            "tool_calls[0].function.name",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":null}}]}"#,
            "tool_calls[0].function.arguments",
        ),
    ] {
        let body = openai_body(&format!("[{message}]"), "");
        assert_eq!(
            openai(&body).unwrap_err().path,
            format!("messages[0].{path}"),
            "{message}"
        );
    }
}

#[test]
fn messages_of_the_anthropic_shape_with_missing_members_are_rejected() {
    for (role, block, path) in [
        ("user", r#"{"type":"image"}"#, "source.type"),
        (
            "user",
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png"}}"#,
            "source.data",
        ),
        (
            "user",
            r#"{"type":"image","source":{"type":"url","url":""}}"#,
            "source.url",
        ),
        (
            "user",
            r#"{"type":"image","source":{"type":"file_ref","path":"a"}}"#,
            "source.type",
        ),
        (
            "user",
            r#"{"type":"tool_result","content":"r"}"#,
            "tool_use_id",
        ),
        (
            "user",
            r#"{"type":"tool_result","tool_use_id":"t","content":null}"#,
            "content",
        ),
        (
            "user",
            r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"document"}]}"#,
            "content[0].type",
        ),
        ("assistant", r#"{"type":"tool_use","name":"n"}"#, "id"),
        (
            "assistant",
            r#"{"type":"tool_use","id":"t","input":{}}"#,
            "name",
        ),
        (
            "assistant",
            r#"{"type":"tool_use","id":"t","name":"n","input":null}"#,
            "input",
        ),
        (
            "assistant",
            r#"{"type":"thinking","thinking":1}"#,
            "thinking",
        ),
    ] {
        let body = anthropic_body(&format!(r#"[{{"role":"{role}","content":[{block}]}}]"#), "");
        assert_eq!(
            anthropic(&body).unwrap_err().path,
            format!("messages[0].content[0].{path}"),
            "{block}"
        );
    }
    let body = anthropic_body(r#"[{"role":"user","content":7}]"#, "");
    assert_eq!(anthropic(&body).unwrap_err().path, "messages[0].content");
}

#[test]
fn an_empty_user_message_of_the_anthropic_shape_is_removed() {
    for content in [
        r#""""#,
        "[]",
        "null",
        r#"[{"type":"text","text":""}]"#,
        r#"[{"type":"document","source":{}}]"#,
    ] {
        let body = anthropic_body(
            &format!(
                r#"[{{"role":"user","content":{content}}},{{"role":"assistant","content":null}}]"#
            ),
            "",
        );
        assert_eq!(
            shown(&anthropic(&body).unwrap()),
            [r#"assistant: [{"type":"text","text":""}]"#],
            "{content}"
        );
    }
}

#[test]
fn results_and_images_of_the_anthropic_shape_get_defaults() {
    for (block, expected) in [
        (
            r#"{"type":"tool_result","tool_use_id":"t"}"#,
            r#"tool: [{"type":"tool_result","tool_use_id":"","content":[{"type":"text","text":""}],"is_error":false}]"#,
        ),
        (
            r#"{"type":"image","source":{"type":"base64","data":"QUFB"}}"#,
            r#"user: [{"type":"image","source":{"kind":"base64","data":"QUFB"},"media_type":"image/png"}]"#,
        ),
        (
            r#"{"type":"image","source":{"type":"url","url":"u","media_type":"image/gif"}}"#,
            r#"user: [{"type":"image","source":{"kind":"url","data":"u"},"media_type":"image/gif"}]"#,
        ),
    ] {
        let body = anthropic_body(&format!(r#"[{{"role":"user","content":[{block}]}}]"#), "");
        assert_eq!(shown(&anthropic(&body).unwrap()), [expected], "{block}");
    }
}

#[test]
fn a_call_of_the_session_keeps_its_id_and_a_repeated_id_is_another_call() {
    let call = r#"{"role":"assistant","tool_calls":[{"id":"call_1","function":{"name":"f"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"call_1","content":"r"}"#;
    let ids = |messages: String| {
        let body = openai_body(&messages, "");
        let mut conversation = Conversation::new("test");
        conversation.ids.remember("openai", "tu_known", "call_1");
        let inbound = inbound_openai(&body, &mut conversation, Timestamp::from_micros(0)).unwrap();
        assert!(inbound.warnings.is_empty(), "{:?}", inbound.warnings);
        let ids = inbound
            .request
            .messages
            .iter()
            .map(|message| match &message.content[0] {
                ContentBlock::ToolUse(call) => call.id.to_string(),
                ContentBlock::ToolResult(result) => result.tool_use_id.to_string(),
                _ => String::new(),
            });
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(format!("[{result}]")), ["tu_known"]);
    let again = ids(format!("[{call},{result},{call},{result}]"));
    assert_eq!(again[..2], ["tu_known", "tu_known"]);
    assert!(again[2] == again[3] && again[2] != "tu_known", "{again:?}");
}

#[test]
fn a_response_of_the_openai_shape_is_text_and_has_a_finish_reason() {
    let blocks = json(
        r#"[{"type":"image","source":{"kind":"url","data":"u"},"media_type":"image/png"},{"type":"text","text":"a"}]"#,
    );
    let (content, _) = gristmill_schemas::message::decode::decode_blocks(
        &blocks,
        gristmill_schemas::message::decode::MessageDecodeMode::Strict,
    )
    .unwrap();
    let message = Message::new(
        "m",
        "s",
        Role::Assistant,
        content,
        Timestamp::from_micros(0),
    );
    let response = Response {
        id: None,
        created_at: None,
        model: None,
        choices: vec![Choice {
            message,
            stop_reason: None,
        }],
        usage: None,
        provider_raw: None,
    };
    let mut ids = ToolIdMap::new();
    let body = render_openai(&response, &mut ids);
    let choice = &body.get("choices").and_then(Json::as_array).unwrap()[0];
    assert_eq!(
        choice.to_string(),
        r#"{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#
    );
    let body = render_anthropic(&response, &mut ids);
    assert_eq!(
        body.get("stop_reason").and_then(Json::as_str),
        Some("end_turn")
    );
    assert_eq!(
        body.get("content").and_then(Json::as_array).map(<[_]>::len),
        Some(2)
    );
}
