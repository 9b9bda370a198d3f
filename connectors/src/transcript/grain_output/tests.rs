use std::collections::BTreeSet;

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::json::Json;

use super::*;

/// Returns the exchanges of a conversation of `turns` turns, whose requests resend the whole
/// history.
fn recorded(turns: usize) -> Vec<String> {
    let mut history = Vec::new();
    let mut recorded = Vec::new();
    for turn in 0..turns {
        history.push(format!(r#"{{"role":"user","content":"question {turn}"}}"#));
        let call = format!(
            r#"{{"id":"call_{turn}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}"#
        );
        let answer =
            format!(r#"{{"role":"assistant","content":"answer {turn}","tool_calls":[{call}]}}"#);
        recorded.push(format!(
            r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:{turn:02}:00Z","request":{{"model":"m","messages":[{}]}},
            "response":{{"id":"r{turn}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"tool_calls"}}],
            "usage":{{"prompt_tokens":5,"completion_tokens":7}}}}}}"#,
            history.join(",")
        ).replace('\n', ""));
        history.push(answer);
        history.push(format!(
            r#"{{"role":"tool","tool_call_id":"call_{turn}","content":"found {turn}"}}"#
        ));
    }
    recorded
}

fn grains(lines: &[String], threads: usize) -> (Vec<Json<'static>>, Vec<String>, GrainCounts) {
    let text = lines.join("\n");
    let options = ReadOptions {
        threads,
        ..ReadOptions::default()
    };
    let (mut grains, mut addresses) = (Vec::new(), Vec::new());
    let counts = grains_of_exchanges(text.as_bytes(), options, &mut |output| match output {
        GrainOutput::Message(_, grain) => {
            let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            grains.push(
                Grain::decode(&payload, DecodeMode::Strict)
                    .unwrap()
                    .to_json(),
            );
            addresses.push(grain.address.to_string());
        }
        other => panic!("{other:?}"),
    });
    (grains, addresses, counts)
}

#[test]
fn a_conversation_that_every_request_resends_is_stored_once() {
    let (grains, addresses, counts) = grains(&recorded(20), 1);
    // A question, an answer and a result per turn, except that the last result was never sent.
    assert_eq!(
        counts,
        GrainCounts {
            messages: 59,
            ..GrainCounts::default()
        }
    );
    assert_eq!(grains.len(), 59 + 20 + 19);
    assert_eq!(
        addresses.iter().collect::<BTreeSet<_>>().len(),
        addresses.len()
    );
    // Answers have the metadata of their responses, and every grain refers only to earlier ones.
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for (grain, address) in grains.iter().zip(&addresses) {
        let text = |key| grain.get(key).and_then(Json::as_str);
        assert_eq!(
            text("role") == Some("assistant"),
            grain.get("token_usage").is_some()
        );
        assert!(text("parent_message_id").is_none_or(|parent| known.contains(parent)));
        let from = grain
            .get("derived_from")
            .and_then(Json::as_array)
            .unwrap_or_default();
        assert!(
            from.iter()
                .all(|from| known.contains(from.as_str().unwrap()))
        );
        known.insert(address);
    }
}

#[test]
fn addresses_are_independent_of_the_order_of_lines_and_the_number_of_threads() {
    let lines = recorded(12);
    let expected: BTreeSet<String> = grains(&lines, 1).1.into_iter().collect();
    for (turn, threads) in [(1, 2), (5, 1), (7, 3)] {
        let mut other = lines.clone();
        other.rotate_left(turn);
        other[2..6].reverse();
        // A line that is recorded twice counts once.
        other.push(lines[3].clone());
        assert_eq!(
            grains(&other, threads)
                .1
                .into_iter()
                .collect::<BTreeSet<_>>(),
            expected
        );
    }
}

#[test]
fn a_session_is_named_after_the_earliest_sighting_of_its_first_message() {
    let line = |minute: usize, messages: &str, answer: &str| {
        format!(
            r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:{minute:02}:00Z","request":{{"model":"m","messages":[{messages}]}},"response":{{"id":"r{minute}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"stop"}}]}}}}"#
        )
    };
    let question = r#"{"role":"user","content":"question"}"#;
    let call = r#"{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"c","content":"found"}"#;
    let answered = |text: &str| format!(r#"{{"role":"assistant","content":"{text}"}}"#);
    let asked_first = line(0, question, &answered("at once"));
    let called = line(5, question, call);
    let went_on = line(
        6,
        &[question, call, result].join(","),
        &answered("in the end"),
    );
    let (all, expected, _) = grains(&[asked_first.clone(), called.clone(), went_on.clone()], 1);
    let sessions: BTreeSet<_> = all
        .iter()
        .map(|grain| grain.get("session_id").map(Json::to_string))
        .collect();
    assert_eq!((all.len(), sessions.len()), (8, 1), "{all:?}");
    let (_, late, _) = grains(&[called, went_on, asked_first], 1);
    assert_eq!(
        late.into_iter().collect::<BTreeSet<_>>(),
        expected.into_iter().collect()
    );
}

#[test]
fn a_request_that_names_an_earlier_response_continues_its_conversation() {
    let line = |turn: usize| {
        let previous = match turn {
            0 => String::new(),
            turn => format!(r#""previous_response_id":"r{}","#, turn - 1),
        };
        format!(
            r#"{{"provider":"openai","endpoint":"responses","recorded_at":"2026-05-08T12:{turn:02}:00Z","request":{{"model":"m",{previous}"input":"question"}},"response":{{"id":"r{turn}","object":"response","status":"completed","model":"m","output":[{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"answer"}}]}}]}}}}"#
        )
    };
    let mut lines: Vec<String> = (0..5).map(line).collect();
    let (grains, expected, counts) = self::grains(&lines, 1);
    assert_eq!(counts.messages, 10);
    let sessions: BTreeSet<_> = grains
        .iter()
        .map(|grain| grain.get("session_id").map(Json::to_string))
        .collect();
    let roots = grains
        .iter()
        .filter(|grain| grain.get("parent_message_id").is_none())
        .count();
    assert_eq!((sessions.len(), roots), (1, 1));
    lines.reverse();
    // A response that continues itself is followed once.
    lines.push(r#"{"provider":"openai","endpoint":"responses","request":{"previous_response_id":"x","input":"q"},"response":{"id":"x","output":[]}}"#.to_owned());
    let again: BTreeSet<String> = self::grains(&lines, 2).1.into_iter().collect();
    assert!(expected.iter().all(|address| again.contains(address)));
}

#[test]
fn a_long_chain_of_responses_is_read_in_linear_time() {
    // If the history of each request is read again, this takes minutes.
    const TURNS: usize = 3_000;
    let line = |turn: usize| {
        let previous = match turn {
            0 => String::new(),
            turn => format!(r#""previous_response_id":"r{}","#, turn - 1),
        };
        let time = 1_760_000_000 + turn;
        let answer = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"answer"}]}"#;
        format!(
            r#"{{"provider":"openai","endpoint":"responses","recorded_at":{time},"request":{{"model":"m",{previous}"input":"question {turn}"}},"response":{{"id":"r{turn}","object":"response","status":"completed","model":"m","output":[{answer}]}}}}"#
        )
    };
    let mut lines: Vec<String> = (0..TURNS).map(line).collect();
    let (grains, expected, counts) = self::grains(&lines, 1);
    assert_eq!(counts.messages, 2 * TURNS as u64);
    let sessions: BTreeSet<_> = grains
        .iter()
        .map(|grain| grain.get("session_id").map(Json::to_string))
        .collect();
    assert_eq!(sessions.len(), 1);
    // Exports list the newest first.
    lines.reverse();
    let again: BTreeSet<String> = self::grains(&lines, 1).1.into_iter().collect();
    assert_eq!(again, expected.into_iter().collect());
    // What is longer than the limit begins anew, and isn't looked up for each line either.
    let lines: Vec<String> = (0..3 * TURNS).map(line).collect();
    let reversed: Vec<String> = lines.iter().rev().cloned().collect();
    for lines in [lines, reversed] {
        let (_, _, counts) = self::grains(&lines, 1);
        assert_eq!(counts.messages, 6 * TURNS as u64);
    }
}

#[test]
fn an_edited_turn_is_a_branch() {
    let mut lines = recorded(2);
    lines.push(lines[1].replace("question 1", "question one"));
    let (grains, _, counts) = grains(&lines, 1);
    assert_eq!(counts.messages, 5 + 2);
    let parents: Vec<_> = grains
        .iter()
        .filter(|grain| {
            grain
                .get("content")
                .and_then(Json::as_str)
                .is_some_and(|text| text.starts_with("question"))
        })
        .map(|grain| grain.get("parent_message_id").and_then(Json::as_str))
        .collect();
    assert_eq!(
        (parents.len(), parents[1] == parents[2], parents[0]),
        (3, true, None)
    );
}

#[test]
fn errors_and_opaque_traffic_are_kept_and_unreadable_lines_are_faults() {
    let lines = [
        r#"{"provider":"openai","endpoint":"chat","status":429,"request":{"messages":[{"role":"user","content":"hi"}]},"response":{"error":{"message":"slow down"}}}"#,
        r#"{"provider":"x","endpoint":"embed","request":{"texts":["e"]},"response":{"n":1.50}}"#,
        r#"{"provider":"#,
        r#"[1]"#,
    ];
    let text = lines.join("\n");
    let (mut grains, mut faults) = (0, Vec::new());
    let counts =
        grains_of_exchanges(
            text.as_bytes(),
            ReadOptions::default(),
            &mut |output| match output {
                GrainOutput::Message(..) | GrainOutput::Standalone(_) => grains += 1,
                GrainOutput::Fault(fault) => faults.push((fault.number, fault.code.name())),
            },
        );
    assert_eq!(
        (counts.messages, counts.opaque_exchanges, grains),
        (2, 1, 3)
    );
    assert_eq!(faults, [(3, "ERR_JSON"), (4, "ERR_SHAPE")]);
}

/// Returns the faults of a file, each with the bytes of the file that it names.
fn faults(text: &str, kind: TranscriptKind) -> Vec<(u64, &str)> {
    let mut faults = Vec::new();
    grains_of_transcript(
        text.as_bytes(),
        kind,
        ReadOptions::default(),
        &mut |output| {
            if let GrainOutput::Fault(fault) = output {
                faults.push((fault.number, &text[fault.range]));
            }
        },
    );
    faults
}

#[test]
fn a_fault_has_the_bytes_of_its_line_and_in_a_document_none() {
    // The items of the document are longer in the file than without spaces.
    let (lines, document) = (
        "{\"x\":    1}\n{\"y\":    2}\n",
        "[\n{\"x\":    1},\n{\"y\":    2}\n]",
    );
    for kind in [
        TranscriptKind::Exchanges,
        TranscriptKind::Batch,
        TranscriptKind::Messages,
        TranscriptKind::GrainLines,
    ] {
        let expected = [(1, "{\"x\":    1}"), (2, "{\"y\":    2}")];
        assert_eq!(faults(lines, kind), expected, "{kind:?}");
        assert_eq!(faults(document, kind), [(1, ""), (2, "")], "{kind:?}");
    }
}
