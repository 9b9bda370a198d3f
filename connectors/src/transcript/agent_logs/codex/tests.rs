use gristmill_schemas::message::ContentBlock;

use super::*;

fn roles(text: &str) -> Vec<(Role, usize)> {
    let ParsedPart {
        messages, faults, ..
    } = parse_session(text.as_bytes(), ReadOptions::default());
    assert!(faults.is_empty());
    assert!(
        messages
            .windows(2)
            .all(|pair| pair[1].parent == Some(pair[0].position))
    );
    messages
        .iter()
        .map(|placed| (placed.message.role, placed.message.content.len()))
        .collect()
}

#[test]
fn events_that_repeat_items_are_ignored() {
    let text = r#"{"timestamp":"2026-05-08T12:00:00Z","type":"session_meta","payload":{"id":"s"}}
        {"type":"turn_context","payload":{"model":"gpt-5"}}
        {"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}
        {"type":"event_msg","payload":{"type":"user_message","message":"hi"}}
        {"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}}
        {"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"}}
        {"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"{\"output\":\"ok\"}"}}"#;
    assert_eq!(
        roles(text),
        [(Role::User, 1), (Role::Assistant, 2), (Role::Tool, 1)]
    );
}

#[test]
fn the_items_of_an_execution_are_messages_with_the_usage_of_the_turn() {
    let text = r#"{"type":"thread.started","thread_id":"t"}
        {"type":"item.completed","item":{"id":"i0","type":"reasoning","text":"hm"}}
        {"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","aggregated_output":"a"}}
        {"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"4"}}
        {"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}"#;
    assert_eq!(
        roles(text),
        [(Role::Assistant, 2), (Role::Tool, 1), (Role::Assistant, 1)]
    );
    let ParsedPart { messages, .. } = parse_session(text.as_bytes(), ReadOptions::default());
    assert_eq!(
        messages[2]
            .usage
            .map(|usage| (usage.input_tokens, usage.cached_input_tokens)),
        Some((6, 4))
    );
}

#[test]
fn every_turn_has_its_own_model_and_usage() {
    let spoken = |role: &str| {
        format!(r#"{{"type":"response_item","payload":{{"role":"{role}","content":"x"}}}}"#)
    };
    let model = |name: &str| format!(r#"{{"type":"turn_context","payload":{{"model":"{name}"}}}}"#);
    let count = |last: u64, total: u64| {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"last_token_usage":{{"output_tokens":{last}}},"total_token_usage":{{"output_tokens":{total}}}}}}}}}"#
        )
    };
    let lines = [
        model("a"),
        spoken("user"),
        spoken("assistant"),
        count(3, 3),
        count(3, 3),
        model("b"),
        spoken("assistant"),
        count(4, 7),
        spoken("assistant"),
        count(4, 11),
    ];
    let ParsedPart { messages, .. } =
        parse_session(lines.join("\n").as_bytes(), ReadOptions::default());
    let found: Vec<_> = messages
        .iter()
        .map(|placed| {
            (
                placed.message.metadata.model.as_deref(),
                placed.usage.map(|usage| usage.output_tokens),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (None, None),
            (Some("openai:a"), Some(3)),
            (Some("openai:b"), Some(8))
        ]
    );
}

#[test]
fn the_exit_code_of_a_command_in_a_rollout_tells_whether_it_failed() {
    let item = |payload: &str| format!(r#"{{"type":"response_item","payload":{payload}}}"#);
    let result = |id: &str, output: &str| {
        let output = Json::from(output.to_owned()).to_string();
        item(&format!(
            r#"{{"type":"function_call_output","call_id":"{id}","output":{output}}}"#
        ))
    };
    let call = |id: &str| {
        item(&format!(
            r#"{{"type":"function_call","name":"shell","arguments":"{{}}","call_id":"{id}"}}"#
        ))
    };
    let lines = [
        call("a"),
        result("a", r#"{"output":"boom","metadata":{"exit_code":2}}"#),
        call("b"),
        result("b", r#"{"output":"fine","metadata":{"exit_code":0}}"#),
        call("c"),
        result("c", "exit_code: 2"),
        call("d"),
        result("d", "Exit code: 1\nWall time: 0.2 seconds\nOutput:\nboom"),
        call("e"),
        result(
            "e",
            "Exit code: 0\nWall time: 0.2 seconds\nOutput:\nExit code: 1",
        ),
        call("f"),
        result("f", "Exit code: 1\nis what the log has"),
        call("g"),
        result(
            "g",
            "Chunk ID: 1\nWall time: 1 s\nProcess exited with code 2\nOutput:\n",
        ),
        call("h"),
        result("h", "Wall time: 1 s\nProcess exited with code 0\nOutput:\n"),
    ];
    let ParsedPart { messages, .. } =
        parse_session(lines.join("\n").as_bytes(), ReadOptions::default());
    let blocks = messages.iter().flat_map(|placed| &placed.message.content);
    let failed: Vec<bool> = blocks
        .filter_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result.is_error),
            _ => None,
        })
        .collect();
    assert_eq!(
        failed,
        [true, false, false, true, false, false, true, false]
    );
}

#[test]
fn failed_commands_and_turns_are_errors() {
    let text = r#"{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"f","aggregated_output":"boom","exit_code":1}}
        {"type":"item.completed","item":{"id":"i2","type":"mcp_tool_call","tool":"s","result":null,"error":{"message":"not found"}}}
        {"type":"turn.failed","error":{"message":"stream disconnected"}}"#;
    let ParsedPart { messages, .. } = parse_session(text.as_bytes(), ReadOptions::default());
    let results = [(1, "boom"), (3, "not found")];
    for (at, expected) in results {
        let ContentBlock::ToolResult(result) = &messages[at].message.content[0] else {
            panic!("no result")
        };
        assert_eq!(
            (result.is_error, result.content[0].as_text()),
            (true, Some(expected))
        );
    }
    let last = messages.last().unwrap();
    assert_eq!(
        (last.message.metadata.status, last.stop_reason),
        (MessageStatus::Error, Some(StopReason::Error))
    );
}

#[test]
fn rollouts_without_envelopes_are_read() {
    let text = r#"{"id":"s1","timestamp":"2025-07-10T15:20:26.000Z","instructions":null}
        {"record_type":"state"}
        {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
        {"type":"function_call","id":"f","name":"shell","arguments":"{}","call_id":"c"}
        {"type":"function_call_output","call_id":"c","output":"a"}"#;
    assert_eq!(
        roles(text),
        [(Role::User, 1), (Role::Assistant, 1), (Role::Tool, 1)]
    );
    let ParsedPart { messages, .. } = parse_session(text.as_bytes(), ReadOptions::default());
    assert!(
        messages
            .iter()
            .all(|placed| placed.message.session_id == "s1")
    );
}

#[test]
fn usage_is_assigned_in_linear_time() {
    const COUNT: usize = 100_000;
    let question = PlacedMessage {
        position: MessagePosition::start("t"),
        parent: None,
        message: Message::new("", "", Role::User, Vec::new(), Timestamp::from_seconds(0)),
        stop_reason: None,
        usage: None,
        line: Line {
            number: 1,
            range: 0..0,
        },
    };
    let mut messages: Vec<_> = (0..COUNT).map(|index| (index, question.clone())).collect();
    // Looking for an answer among all messages, once for each usage, would take minutes.
    let usage = vec![(COUNT, TokenUsage::default()); COUNT];
    assign_usage(&mut messages, usage);
    assert!(messages.iter().all(|(_, placed)| placed.usage.is_none()));
}

#[test]
fn executions_in_one_file_have_their_own_sessions_and_the_usage_of_their_turns() {
    let turn = |thread: &str, text: &str, usage: [u64; 3]| {
        let [input, cached, output] = usage;
        format!(
            r#"{{"type":"thread.started","thread_id":"{thread}"}}
            {{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}
            {{"type":"item.completed","item":{{"type":"command_execution","command":"ls"}}}}
            {{"type":"turn.completed","usage":{{"input_tokens":{input},
            "cached_input_tokens":{cached},"output_tokens":{output}}}}}"#
        )
        .replace(",\n", ",")
    };
    let text = [
        turn("a", "one", [10, 4, 2]),
        turn("b", "two", [8, 0, 1]),
        turn("a", "three", [30, 14, 5]),
        turn("a", "again", [3, 0, 1]),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    let answers = part.messages.iter();
    let answers = answers.filter(|placed| placed.message.role == Role::Assistant);
    let found: Vec<_> = answers
        .map(|placed| {
            let usage = placed.usage.unwrap_or_default();
            let counts = [
                usage.input_tokens,
                usage.cached_input_tokens,
                usage.output_tokens,
            ];
            let text = placed.message.content[0].as_text().unwrap_or_default();
            (&*placed.message.session_id, text, counts)
        })
        .collect();
    let expected = [
        ("a", "one", [6, 4, 2]),
        ("b", "two", [8, 0, 1]),
        ("a", "three", [10, 10, 3]),
        ("a", "again", [3, 0, 1]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_fork_has_its_own_id_and_no_usage_of_its_original() {
    let line = |time: &str, kind: &str, payload: &str| {
        format!(r#"{{"timestamp":"2026-05-08T{time}Z","type":"{kind}","payload":{payload}}}"#)
    };
    let said = |time: &str, text: &str| {
        let payload = format!(
            r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
        );
        line(time, "response_item", &payload)
    };
    let asked = |time: &str| {
        let payload = r#"{"type":"message","role":"user","content":"go on"}"#;
        line(time, "response_item", payload)
    };
    let counted = |time: &str, total: u64| {
        let payload = format!(
            r#"{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total}}},"last_token_usage":{{"input_tokens":7}}}}}}"#
        );
        line(time, "event_msg", &payload)
    };
    let headers = [r#""forked_from_id":"old""#, r#""source":{"subagent":{}}"#];
    for (header, copied) in headers.into_iter().zip(["12:00:00.040", "11:00:00"]) {
        let text = [
            line(
                "12:00:00",
                "session_meta",
                &format!(r#"{{"id":"new",{header}}}"#),
            ),
            line(copied, "session_meta", r#"{"id":"old"}"#),
            said(copied, "before"),
            counted(copied, 7),
            asked("12:00:05"),
            said("12:00:09", "after"),
            counted("12:00:09", 14),
        ];
        let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
        let found = part.messages.iter().map(|placed| {
            let input = placed.usage.map(|usage| usage.input_tokens);
            (&*placed.message.session_id, input)
        });
        let expected = [("new", None), ("new", None), ("new", Some(7))];
        assert_eq!(found.collect::<Vec<_>>(), expected, "{header}");
    }
}

#[test]
fn results_of_mcp_servers_are_kept_whole() {
    let outputs = [
        r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
        r#"{"content":[{"type":"text","text":"a"},
            {"type":"image","data":"QUFB","mimeType":"image/gif"},
            {"type":"resource","resource":{"uri":"u"}}]}"#,
        r#"{"content":[],"structured_content":{"n":1}}"#,
        r#"{"content":[],"structured_content":null}"#,
    ];
    let shown = outputs.map(|result| {
        let line = format!(
            r#"{{"type":"item.completed","item":{{"id":"i","type":"mcp_tool_call","tool":"t","result":{}}}}}"#,
            result.replace('\n', "")
        );
        let part = parse_session(line.as_bytes(), ReadOptions::default());
        let ContentBlock::ToolResult(result) = &part.messages[1].message.content[0] else {
            panic!("no result")
        };
        let blocks = result.content.iter().map(|block| match block {
            ContentBlock::Text(text) => text.to_string(),
            ContentBlock::Image(image) => image.media_type.to_string(),
            other => other.tag().to_owned(),
        });
        blocks.collect::<Vec<_>>().join("|")
    });
    assert_eq!(shown, ["a\nb", "a|image/gif|resource", r#"{"n":1}"#, ""]);
}

#[test]
fn the_summary_of_a_compacted_conversation_is_a_message() {
    let text = r#"{"type":"session_meta","payload":{"id":"s"}}
        {"type":"response_item","payload":{"type":"message","role":"user","content":"hi"}}
        {"type":"response_item","payload":{"type":"message","role":"assistant","content":"yes"}}
        {"type":"compacted","payload":{"message":"They said hi.","replacement_history":[]}}
        {"type":"compacted","payload":{"message":"","replacement_history":[]}}
        {"type":"response_item","payload":{"type":"message","role":"assistant","content":"so"}}"#;
    assert_eq!(
        roles(text),
        [
            (Role::User, 1),
            (Role::Assistant, 1),
            (Role::User, 1),
            (Role::Assistant, 1)
        ]
    );
    let part = parse_session(text.as_bytes(), ReadOptions::default());
    assert_eq!(part.messages[2].message.text(), "They said hi.");
}

#[test]
fn the_result_of_a_declined_command_is_an_error() {
    let line = r#"{"type":"item.completed","item":{"id":"i","type":"command_execution",
        "command":"rm a","aggregated_output":"","exit_code":null,"status":"declined"}}"#;
    let part = parse_session(line.replace('\n', "").as_bytes(), ReadOptions::default());
    let [_, result] = &part.messages[..] else {
        panic!("{:?}", part.messages)
    };
    let ContentBlock::ToolResult(result) = &result.message.content[0] else {
        panic!("no result")
    };
    assert!(result.is_error);
}

#[test]
fn a_line_of_another_kind_is_a_fault() {
    let text = [
        r#"{"type":"session_meta","payload":{"id":"s"}}"#,
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}"#,
        r#"{"type":"event_msg","payload":{"type":"agent_message","message":"hi"}}"#,
        r#"{"record_type":"state"}"#,
        r#"{"type":"of_a_later_version"}"#,
        r#"{"provider":"openai","endpoint":"chat","request":{},"response":{}}"#,
        r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}"#,
        r#"{"note":"hi"}"#,
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert_eq!(part.messages.len(), 1);
    let faults: Vec<u64> = part.faults.iter().map(|fault| fault.number).collect();
    assert_eq!(faults, [6, 7, 8]);
}

#[test]
fn the_answers_of_the_turns_of_an_execution_are_messages_of_their_own() {
    let turn = |text: &str, output: u64| {
        format!(
            r#"{{"type":"turn.started"}}
            {{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}
            {{"type":"turn.completed","usage":{{"output_tokens":{output}}}}}"#
        )
    };
    let thread = r#"{"type":"thread.started","thread_id":"t"}"#;
    let text = [thread, &turn("one", 10), thread, &turn("two", 25)].join("\n");
    let ParsedPart { messages, .. } = parse_session(text.as_bytes(), ReadOptions::default());
    let found: Vec<_> = messages
        .iter()
        .map(|placed| {
            let text = placed.message.content[0].as_text();
            (text, placed.usage.map(|usage| usage.output_tokens))
        })
        .collect();
    assert_eq!(found, [(Some("one"), Some(10)), (Some("two"), Some(15))]);
}

#[test]
fn the_provider_of_a_rollout_is_the_one_that_its_header_names() {
    let provider = |header: &str| {
        let text = format!(
            r#"{{"type":"session_meta","payload":{{"id":"s"{header}}}}}
            {{"type":"turn_context","payload":{{"model":"m"}}}}
            {{"type":"response_item","payload":{{"type":"message","role":"assistant","content":"x"}}}}"#
        );
        let mut part = parse_session(text.as_bytes(), ReadOptions::default());
        part.messages.remove(0).message.metadata.model
    };
    assert_eq!(provider("").as_deref(), Some("openai:m"));
    for (name, expected) in [
        ("openai", "openai:m"),
        ("OpenRouter", "openrouter:m"),
        ("own-proxy", "own-proxy:m"),
        ("oss", "oss:m"),
        ("ollama", "ollama:m"),
        ("http://x.example", "openai:m"),
    ] {
        let header = format!(r#","model_provider":"{name}""#);
        assert_eq!(provider(&header).as_deref(), Some(expected));
    }
}

#[test]
fn usage_before_the_first_answer_is_added_to_it() {
    let count = |last: u64, total: u64| {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"last_token_usage":{{"output_tokens":{last}}},"total_token_usage":{{"output_tokens":{total}}}}}}}}}"#
        )
    };
    let spoken = |role: &str| {
        format!(r#"{{"type":"response_item","payload":{{"role":"{role}","content":"x"}}}}"#)
    };
    let lines = [
        spoken("user"),
        count(40, 40),
        spoken("assistant"),
        count(4, 44),
    ];
    let ParsedPart { messages, .. } =
        parse_session(lines.join("\n").as_bytes(), ReadOptions::default());
    assert_eq!(messages[1].usage.map(|usage| usage.output_tokens), Some(44));
}

#[test]
fn warnings_are_parts_of_an_answer_and_errors_end_the_turn_they_are_in() {
    const TURN: &str = r#"{"type":"turn.started"}"#;
    let thread = r#"{"type":"thread.started","thread_id":"t"}"#;
    let item = |item: &str| format!(r#"{{"type":"item.completed","item":{item}}}"#);
    let answer = item(r#"{"id":"i","type":"agent_message","text":"answer"}"#);
    let warning = item(r#"{"id":"w","type":"error","message":"defaults are used"}"#);
    let error = |text: &str| format!(r#"{{"type":"error","message":"{text}"}}"#);
    let (lost, refused) = (error("Reconnecting... 1/5"), error("401"));
    let states = |lines: &[&str]| {
        let part = parse_session(lines.join("\n").as_bytes(), ReadOptions::default());
        let states = part
            .messages
            .iter()
            .map(|placed| placed.message.metadata.status);
        states.collect::<Vec<_>>()
    };
    let (complete, failed) = (MessageStatus::Complete, MessageStatus::Error);
    assert_eq!(states(&[thread, TURN, &warning, &answer]), [complete]);
    assert_eq!(states(&[thread, TURN, &lost]), []);
    assert_eq!(states(&[thread, TURN, &lost, &answer]), [complete]);
    let again = [thread, TURN, &refused, thread, TURN, &answer];
    assert_eq!(states(&again), [failed, complete]);
    // What a turn that was interrupted has is an answer of its own.
    assert_eq!(
        states(&[thread, TURN, &answer, TURN, &answer]),
        [complete; 2]
    );
}

#[test]
fn a_log_of_errors_alone_is_no_execution() {
    let error = r#"{"type":"error","message":"disk full"}"#;
    let kind = |lines: &[&str]| TranscriptKind::detect(lines.join("\n").as_bytes(), "a.jsonl");
    assert_eq!(kind(&[error; 3]), None);
    let thread = r#"{"type":"thread.started","thread_id":"t"}"#;
    let turn = [thread, r#"{"type":"turn.started"}"#, error];
    assert_eq!(kind(&turn), Some(TranscriptKind::Codex));
}
