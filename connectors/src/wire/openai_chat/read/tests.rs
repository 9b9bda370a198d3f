//! Reading of token counts, of thinking and of results.

use super::super::super::body_codec::read_request;
use super::super::super::conversation::{Conversation, ReadContext};
use super::super::super::registry::OPENAI_CHAT;
use super::*;

#[test]
fn usage_is_read_from_all_known_members() {
    for (body, expected) in [
        (
            r#"{"usage":{"prompt_tokens":8,"completion_tokens":5,"total_tokens":13,"completion_tokens_details":{"reasoning_tokens":3}}}"#,
            [8, 5, 0],
        ),
        (
            r#"{"usage":{"prompt_tokens":741,"completion_tokens":15,"total_tokens":866,"completion_tokens_details":{"reasoning_tokens":110}}}"#,
            [741, 125, 0],
        ),
        (
            r#"{"x_groq":{"usage":{"prompt_tokens":8,"completion_tokens":5}}}"#,
            [8, 5, 0],
        ),
        (
            r#"{"choices":[{"usage":{"prompt_tokens":8,"completion_tokens":5,"cached_tokens":6}}]}"#,
            [2, 5, 6],
        ),
        (
            r#"{"usage":{"prompt_tokens":8,"completion_tokens":5,"prompt_cache_hit_tokens":6}}"#,
            [2, 5, 6],
        ),
        (
            r#"{"usage":{"prompt_tokens":8,"cached_tokens":6,"prompt_tokens_details":{"cached_tokens":1}}}"#,
            [7, 0, 1],
        ),
    ] {
        let body = Json::parse(body.as_bytes()).unwrap();
        let usage = token_usage(usage_of(&body).unwrap(), &mut |_| {});
        assert_eq!(
            [
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_input_tokens
            ],
            expected,
            "{body}"
        );
    }
    assert!(usage_of(&Json::Null).is_none());
}

#[test]
fn thinking_next_to_encrypted_details_is_kept() {
    let message = r#"{"reasoning_content":"hm",
        "reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#;
    let message = Json::parse(message.as_bytes()).unwrap();
    let expected = [
        ContentBlock::Thinking {
            text: "hm".into(),
            signature: None,
        },
        ContentBlock::RedactedThinking { data: "x".into() },
    ];
    assert_eq!(thinking(ReasoningPlacement::Foreign, &message), expected);
}

#[test]
fn tokens_that_were_written_to_a_cache_are_read_from_all_known_members() {
    for usage in [
        r#"{"prompt_tokens":9,"prompt_tokens_details":{"cache_write_tokens":7}}"#,
        r#"{"prompt_tokens":9,"prompt_tokens_details":{"cache_creation_tokens":7}}"#,
        r#"{"prompt_tokens":9,"prompt_tokens_details":{"cache_creation_input_tokens":7,
            "cache_creation":{"ephemeral_5m_input_tokens":7},"cached_tokens":0}}"#,
        r#"{"prompt_tokens":9,"cache_creation_input_tokens":7}"#,
    ] {
        let json = Json::parse(usage.as_bytes()).unwrap();
        let counts = token_usage(&json, &mut |_| {});
        let counts = (counts.input_tokens, counts.cache_creation_input_tokens);
        assert_eq!(counts, (2, 7), "{usage}");
    }
}

#[test]
fn results_with_empty_ids_belong_to_the_calls_in_order() {
    let body = r#"{"messages":[{"role":"assistant","tool_calls":[
        {"id":"","function":{"name":"f","arguments":"{}"}},
        {"id":"","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"","content":"1"},
        {"role":"tool","tool_call_id":"","content":"2"}]}"#;
    let body = Json::parse(body.as_bytes()).unwrap();
    let context = ReadContext::at(Timestamp::from_seconds(5));
    let mut conversation = Conversation::new("");
    let read = read_request(&OPENAI_CHAT, &body, &mut conversation, &context).unwrap();
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    let ids = read.request.messages.iter().flat_map(|message| {
        message.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(&*call.id),
            ContentBlock::ToolResult(result) => Some(&*result.tool_use_id),
            _ => None,
        })
    });
    let ids: Vec<&str> = ids.collect();
    assert_eq!((ids.len(), &ids[..2]), (4, &ids[2..]));
}
