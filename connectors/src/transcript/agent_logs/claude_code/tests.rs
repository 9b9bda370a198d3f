use gristmill_schemas::message::request::StopReason;
use gristmill_schemas::message::{MessageStatus, Role};

use super::*;

fn line(uuid: &str, parent: &str, kind: &str, message: &str) -> String {
    let parent = if parent.is_empty() {
        "null".to_owned()
    } else {
        format!("\"{parent}\"")
    };
    format!(
        r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","timestamp":"2026-05-08T12:00:00Z","message":{message}}}"#
    )
}

fn answer(block: &str) -> String {
    format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{block}],"usage":{{"input_tokens":4,"output_tokens":9}}}}"#
    )
}

fn user(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#)
}

#[test]
fn the_lines_of_an_answer_are_one_message_and_its_usage_counts_once() {
    let text = [
        line("a", "", "user", &user("hi")),
        r#"{"type":"progress","uuid":"p","parentUuid":"a","data":{}}"#.to_owned(),
        line(
            "b",
            "p",
            "assistant",
            &answer(r#"{"type":"text","text":"let me"}"#),
        ),
        line(
            "c",
            "b",
            "assistant",
            &answer(r#"{"type":"tool_use","id":"toolu_1","name":"t","input":{}}"#),
        ),
        line(
            "d",
            "c",
            "user",
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}"#,
        ),
    ];
    let ParsedPart {
        messages, faults, ..
    } = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert!(faults.is_empty());
    let roles: Vec<_> = messages
        .iter()
        .map(|placed| (placed.message.role, placed.message.content.len()))
        .collect();
    assert_eq!(
        roles,
        [(Role::User, 1), (Role::Assistant, 2), (Role::Tool, 1)]
    );
    assert_eq!(
        messages
            .iter()
            .filter_map(|placed| placed.usage)
            .map(|usage| usage.output_tokens)
            .sum::<u64>(),
        9
    );
    assert_eq!(messages[1].parent, Some(messages[0].position));
    assert_eq!(messages[2].parent, Some(messages[1].position));
    assert_eq!(
        messages[1].message.metadata.model.as_deref(),
        Some("anthropic:claude-x")
    );
    assert!(
        messages
            .iter()
            .all(|placed| placed.message.session_id == "s")
    );
}

#[test]
fn results_between_the_lines_of_an_answer_follow_it() {
    let call = |id: &str| {
        answer(&format!(
            r#"{{"type":"tool_use","id":"{id}","name":"t","input":{{"of":"{id}"}}}}"#
        ))
    };
    let result = |id: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"of {id}"}}]}}"#
        )
    };
    let text = [
        line("a", "", "user", &user("hi")),
        line("b", "a", "assistant", &call("toolu_1")),
        line("r1", "b", "user", &result("toolu_1")),
        line("c", "b", "assistant", &call("toolu_2")),
        line("r2", "c", "user", &result("toolu_2")),
        r#"{"type":"attachment","uuid":"x","parentUuid":"r2"}"#.to_owned(),
        line("d", "x", "assistant", &call("toolu_3")),
        line("r3", "d", "user", &result("toolu_3")),
        line("e", "r3", "user", &user("go on")),
        line("f", "c", "user", &user("or rather")),
    ];
    let ParsedPart {
        messages, faults, ..
    } = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert!(faults.is_empty());
    let roles: Vec<_> = messages
        .iter()
        .map(|placed| (placed.message.role, placed.message.content.len()))
        .collect();
    let results = [(Role::Tool, 1); 3];
    assert_eq!(roles[..2], [(Role::User, 1), (Role::Assistant, 3)]);
    assert_eq!(
        (&roles[2..5], &roles[5..]),
        (&results[..], &[(Role::User, 1); 2][..])
    );
    assert_eq!(
        messages
            .iter()
            .filter_map(|placed| placed.usage)
            .map(|usage| usage.output_tokens)
            .sum::<u64>(),
        9
    );
    assert!(
        messages[..6]
            .windows(2)
            .all(|pair| pair[1].parent == Some(pair[0].position))
    );
    assert_eq!(messages[6].parent, Some(messages[1].position));
}

#[test]
fn a_line_of_stream_json_follows_the_previous_one_of_its_stream() {
    let line = |kind: &str, agent: &str, message: &str| {
        format!(
            r#"{{"type":"{kind}","session_id":"s","parent_tool_use_id":{agent},"message":{message}}}"#
        )
    };
    let text = [
        r#"{"type":"system","subtype":"init","session_id":"s","uuid":"u"}"#.to_owned(),
        line(
            "assistant",
            "null",
            &answer(r#"{"type":"text","text":"let me"}"#),
        ),
        line(
            "assistant",
            "null",
            &answer(r#"{"type":"tool_use","id":"toolu_1","name":"t","input":{}}"#),
        ),
        line("user", "\"toolu_1\"", &user("search")),
        line(
            "user",
            "null",
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}"#,
        ),
        r#"{"type":"result","subtype":"success","session_id":"s","usage":{"output_tokens":9}}"#
            .to_owned(),
    ];
    let ParsedPart {
        messages, faults, ..
    } = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert!(
        faults.is_empty()
            && messages
                .iter()
                .all(|placed| placed.message.session_id == "s")
    );
    let roles: Vec<_> = messages
        .iter()
        .map(|placed| (placed.message.role, placed.message.content.len()))
        .collect();
    assert_eq!(
        roles,
        [(Role::Assistant, 2), (Role::User, 1), (Role::Tool, 1)]
    );
    assert_eq!(
        (messages[1].parent, messages[2].parent),
        (None, Some(messages[0].position))
    );
}

#[test]
fn an_api_error_is_an_error_message_without_a_model() {
    let failed =
        answer(r#"{"type":"text","text":"API Error: 529"}"#).replace("claude-x", "<synthetic>");
    let failed =
        line("b", "a", "assistant", &failed).replacen('{', r#"{"isApiErrorMessage":true,"#, 1);
    let text = [
        line("a", "", "user", &user("hi")),
        failed,
        line("c", "b", "user", &user("again")),
    ];
    let ParsedPart {
        messages, faults, ..
    } = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert!(faults.is_empty());
    let outcomes: Vec<_> = messages
        .iter()
        .map(|placed| (placed.message.metadata.status, placed.stop_reason))
        .collect();
    let fine = (MessageStatus::Complete, None);
    assert_eq!(
        outcomes,
        [fine, (MessageStatus::Error, Some(StopReason::Error)), fine]
    );
    assert_eq!(
        (
            messages[1].message.text().as_ref(),
            &messages[1].message.metadata.model
        ),
        ("API Error: 529", &None)
    );
    assert_eq!(messages[2].parent, Some(messages[1].position));
}

#[test]
fn a_text_by_claude_code_has_neither_a_model_nor_usage() {
    let own = answer(r#"{"type":"text","text":"No response requested."}"#)
        .replace("claude-x", "<synthetic>");
    let text = [
        line("a", "", "user", &user("hi")),
        line("b", "a", "assistant", &own),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    let last = part.messages.last().unwrap();
    assert_eq!(last.message.text(), "No response requested.");
    let metadata = &last.message.metadata;
    assert_eq!((&metadata.model, last.usage), (&None, None));
    assert_eq!(metadata.status, MessageStatus::Complete);
}

#[test]
fn siblings_are_branches_and_cycles_end() {
    let text = [
        line("a", "", "user", &user("hi")),
        line("b", "a", "user", &user("one")),
        line("c", "a", "user", &user("two")),
        line("x", "y", "user", &user("ring")),
        line("y", "x", "user", &user("around")),
    ];
    let ParsedPart {
        messages, faults, ..
    } = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert_eq!((messages.len(), faults.len()), (5, 0));
    assert_eq!(
        (messages[1].parent, messages[2].parent),
        (Some(messages[0].position), Some(messages[0].position))
    );
    assert_eq!(
        (messages[3].parent, messages[4].parent),
        (None, Some(messages[3].position))
    );
}

#[test]
fn a_message_without_an_id_is_a_fault_and_other_lines_without_one_are_skipped() {
    let text = [
        r#"{"type":"summary","summary":"x","leafUuid":"a"}"#.to_owned(),
        format!(
            r#"{{"type":"user","sessionId":"s","message":{}}}"#,
            user("lost")
        ),
        line("a", "", "user", &user("hi")),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    let faults = part
        .faults
        .iter()
        .map(|fault| (fault.number, fault.code.name()));
    assert_eq!(faults.collect::<Vec<_>>(), [(2, "ERR_SHAPE")]);
    assert_eq!(part.messages.len(), 1);
}

#[test]
fn a_message_that_is_no_object_or_repeats_an_id_is_a_fault_unless_it_is_the_same() {
    let text = [
        line("a", "", "user", "\"broken\""),
        line("a", "", "user", &user("hi")),
        line("b", "a", "user", &user("first")),
        line("b", "a", "user", &user("first")),
        line("b", "a", "user", &user("second")),
        r#"{"type":"progress","uuid":"b","parentUuid":"a","data":{}}"#.to_owned(),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    let faults = part.faults.iter();
    let faults = faults.map(|fault| (fault.number, &*fault.message));
    assert_eq!(
        faults.collect::<Vec<_>>(),
        [
            (1, "a message that isn't an object"),
            (5, "another message with the uuid of an earlier one"),
        ]
    );
    let numbers = part.messages.iter().map(|placed| placed.line.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_line_whose_message_is_null_only_links_to_its_parent() {
    let text = [
        line("a", "", "user", &user("hi")),
        line("b", "a", "user", "null"),
        line("c", "b", "user", &user("still there?")),
        r#"{"type":"user","sessionId":"s","message":null}"#.to_owned(),
        r#"{"type":"user","session_id":"s","message":null}"#.to_owned(),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert!(part.faults.is_empty());
    let [first, second] = &part.messages[..] else {
        panic!("{:?}", part.messages)
    };
    assert_eq!(second.parent, Some(first.position));
}

#[test]
fn a_prompt_that_waited_is_a_message_of_the_user() {
    let attachment = |uuid: &str, attachment: &str| {
        format!(
            r#"{{"type":"attachment","uuid":"{uuid}","parentUuid":"r","sessionId":"s","attachment":{attachment}}}"#
        )
    };
    let call = answer(r#"{"type":"tool_use","id":"toolu_1","name":"t","input":{}}"#);
    let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}"#;
    let queued = r#"{"type":"queued_command","prompt":"use rust","commandMode":"prompt"}"#;
    let text = [
        line("a", "", "user", &user("hi")),
        line("b", "a", "assistant", &call),
        line("r", "b", "user", result),
        r#"{"type":"queue-operation","operation":"enqueue","content":"use rust"}"#.to_owned(),
        attachment("q", queued),
        attachment("x", r#"{"type":"todo_reminder","content":[]}"#),
        line("e", "q", "user", &user("go on")),
        format!(r#"{{"type":"attachment","attachment":{queued}}}"#),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    let faults = part.faults.iter().map(|fault| fault.number);
    assert_eq!(faults.collect::<Vec<_>>(), [8]);
    let [_, _, result, queued, last] = &part.messages[..] else {
        panic!("{:?}", part.messages)
    };
    assert_eq!(
        (queued.message.role, &*queued.message.text()),
        (Role::User, "use rust")
    );
    assert_eq!(queued.parent, Some(result.position));
    assert_eq!(last.parent, Some(queued.position));
}

#[test]
fn the_messages_that_a_fork_has_copied_have_no_usage() {
    let copied = |line: String| line.replacen('{', r#"{"forkedFrom":{"sessionId":"old"},"#, 1);
    let spoken = answer(r#"{"type":"text","text":"yes"}"#);
    let spoken = line("b", "a", "assistant", &spoken);
    let own = answer(r#"{"type":"text","text":"no"}"#).replace("msg_1", "msg_2");
    let text = [
        copied(line("a", "", "user", &user("hi"))),
        copied(spoken.clone()),
        // Forks of some versions have their copies twice.
        spoken,
        line("c", "b", "user", &user("really?")),
        line("d", "c", "assistant", &own),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert!(part.faults.is_empty());
    let usage = part.messages.iter().map(|placed| placed.usage.is_some());
    assert_eq!(usage.collect::<Vec<_>>(), [false, false, false, true]);
}

/// Returns a session of `turns` calls and results, after each of which a question of its own forks
/// off if `is_forked` is true.
fn session_of_calls(turns: usize, is_forked: bool) -> String {
    let mut text = vec![line("q", "", "user", &user("hi"))];
    let mut last = "q".to_owned();
    for turn in 0..turns {
        let call = format!(r#"{{"type":"tool_use","id":"toolu_{turn}","name":"t","input":{{}}}}"#);
        let call = answer(&call).replace("msg_1", &format!("msg_{turn}"));
        let result = format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{turn}","content":"ok"}}]}}"#
        );
        let (asked, answered) = (format!("c{turn}"), format!("r{turn}"));
        text.push(line(&asked, &last, "assistant", &call));
        text.push(line(&answered, &asked, "user", &result));
        if is_forked {
            let fork = format!("why {turn}?");
            text.push(line(&format!("f{turn}"), &answered, "user", &user(&fork)));
        }
        last = answered;
    }
    text.join("\n")
}

#[test]
fn forks_after_many_calls_take_no_copies_of_the_calls_before_them() {
    // With a copy for each fork this takes minutes, and tens of gigabytes.
    const TURNS: usize = 20_000;
    let text = session_of_calls(TURNS, true);
    let part = parse_session(text.as_bytes(), ReadOptions::default());
    assert_eq!((part.messages.len(), part.faults.len()), (3 * TURNS + 1, 0));
}

#[test]
fn the_messages_between_forks_are_those_of_a_session_without_forks() {
    let parsed = |is_forked| {
        let text = session_of_calls(100, is_forked);
        let part = parse_session(text.as_bytes(), ReadOptions::default());
        part.messages
            .into_iter()
            .map(|placed| (placed.position, placed.parent, placed.message))
            .collect::<Vec<_>>()
    };
    let (plain, mut forked) = (parsed(false), parsed(true));
    let forks = forked.extract_if(.., |(_, _, message)| message.text().starts_with("why"));
    let forks: Vec<_> = forks.collect();
    assert_eq!(forked, plain);
    let results = plain
        .iter()
        .filter(|(_, _, message)| message.role == Role::Tool);
    let parents = forks.iter().map(|(_, parent, _)| *parent);
    assert!(parents.eq(results.map(|(position, _, _)| Some(*position))));
}

#[test]
fn a_line_of_another_kind_or_without_its_message_is_a_fault() {
    let text = [
        line("a", "", "user", &user("hi")),
        r#"{"type":"summary","summary":"greetings","leafUuid":"a"}"#.to_owned(),
        r#"{"type":"of-a-later-version","sessionId":"s"}"#.to_owned(),
        r#"{"provider":"openai","endpoint":"chat","request":{},"response":{}}"#.to_owned(),
        r#"{"grain":{"type":"event","content":"hi"}}"#.to_owned(),
        r#"{"type":"response_item","payload":{"type":"message"}}"#.to_owned(),
        r#"{"type":"user","messge":{"role":"user","content":"hi"}}"#.to_owned(),
        r#"{"note":"hi"}"#.to_owned(),
    ];
    let part = parse_session(text.join("\n").as_bytes(), ReadOptions::default());
    assert_eq!(part.messages.len(), 1);
    let faults: Vec<u64> = part.faults.iter().map(|fault| fault.number).collect();
    assert_eq!(faults, [4, 5, 6, 7, 8]);
}
