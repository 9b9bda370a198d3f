//! Folds of completions: calls, parts and members of many deltas.

use super::*;

fn calls(deltas: &[&str]) -> Vec<String> {
    let chunk = |delta: &&str| {
        format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{delta}]}}}}]}}"#)
    };
    let chunks: Vec<String> = deltas.iter().map(chunk).collect();
    let frame = |chunk: &String| StreamFrame {
        event: None,
        data: Json::parse(chunk.as_bytes()).unwrap().into_owned(),
    };
    let folded = fold(chunks.iter().map(frame).collect(), false);
    let message = folded.body.get("choices").unwrap().as_array().unwrap()[0]
        .get("message")
        .unwrap();
    message
        .get("tool_calls")
        .and_then(Json::as_array)
        .unwrap()
        .iter()
        .map(Json::to_string)
        .collect()
}

#[test]
fn many_calls_parts_and_members_are_assembled_in_linear_time() {
    // In quadratic time this takes minutes.
    const COUNT: usize = 50_000;
    let delta = |n: usize| match n % 4 {
        0 => format!(
            r#""tool_calls":[{{"index":{n},"id":"c{n}","function":{{"name":"f","arguments":""}}}}]"#
        ),
        1 => format!(
            r#""tool_calls":[{{"id":"c{}","function":{{"arguments":"x"}}}}]"#,
            n - 1
        ),
        2 => format!(r#""content":[{{"type":"text","text":"y"}}],"member-{n}":{n}"#),
        _ => r#""tool_calls":[{"index":0,"function":{"arguments":"z"}}]"#.to_owned(),
    };
    let frames = (0..4 * COUNT).map(|n| {
        let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{{{}}}}}]}}"#, delta(n));
        StreamFrame {
            event: None,
            data: Json::parse(chunk.as_bytes()).unwrap().into_owned(),
        }
    });
    let folded = fold(frames.collect(), false);
    let choices = folded.body.get("choices").and_then(Json::as_array).unwrap();
    let message = choices[0].get("message").and_then(Json::as_object).unwrap();
    assert_eq!(message.len(), COUNT + 2);
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap();
    assert_eq!(calls.len(), COUNT);
    let arguments = |call: &Json| {
        let arguments = call.get("function").and_then(|it| it.get("arguments"));
        arguments.and_then(Json::as_str).map(str::len)
    };
    assert_eq!(arguments(&calls[0]), Some(1 + COUNT));
    assert!(calls[1..].iter().all(|call| arguments(call) == Some(1)));
    let parts = message.get("content").and_then(Json::as_array).unwrap();
    assert_eq!(parts.len(), 1);
}

#[test]
fn the_input_of_a_custom_tool_is_assembled_from_deltas() {
    let pieces = [
        r#"{"index":0,"id":"c","type":"custom","custom":{"name":"sh","input":"ec"}}"#,
        r#"{"index":0,"custom":{"input":"ho 1"}}"#,
    ];
    assert_eq!(
        calls(&pieces),
        [r#"{"id":"c","type":"custom","custom":{"name":"sh","input":"echo 1"}}"#]
    );
}

#[test]
fn calls_with_the_same_index_are_distinguished_by_their_ids() {
    let pieces = [
        r#"{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\""}}"#,
        r#"{"index":0,"function":{"arguments":":1}"}}"#,
        // Some endpoints generate a new id for each delta.
        r#"{"index":0,"id":"z","function":{"arguments":" "}}"#,
    ];
    let expected = [
        r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#,
        r#"{"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1} "}}"#,
    ];
    assert_eq!(calls(&pieces), expected);
}

#[test]
fn calls_with_the_same_index_and_no_ids_are_distinguished_by_their_ends() {
    let pieces = [
        r#"{"index":0,"id":"","type":"function","function":{"name":"f","arguments":""}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":"{\"x\":\"}"}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":"\"}"}}"#,
        r#"{"index":0,"id":"","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
        r#"{"index":0,"id":"","function":{"name":"g","arguments":""}}"#,
        r#"{"index":0,"id":"","function":{"arguments":"{}"}}"#,
    ];
    let expected = [
        r#"{"id":"","type":"function","function":{"name":"f","arguments":"{\"x\":\"}\"}"}}"#,
        r#"{"id":"","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
        r#"{"id":"","function":{"name":"g","arguments":"{}"}}"#,
    ];
    assert_eq!(calls(&pieces), expected);
}

#[test]
fn calls_without_an_index_are_distinguished_by_their_ids_or_names() {
    let pieces = [
        r#"{"id":"a","function":{"name":"f","arguments":""}}"#,
        r#"{"id":"b","function":{"name":"g","arguments":""}}"#,
        r#"{"id":"a","function":{"arguments":"1"}}"#,
        r#"{"function":{"arguments":"2"}}"#,
    ];
    let expected = [
        r#"{"id":"a","function":{"name":"f","arguments":"1"}}"#,
        r#"{"id":"b","function":{"name":"g","arguments":"2"}}"#,
    ];
    assert_eq!(calls(&pieces), expected);
    let unnamed = [
        r#"{"function":{"name":"f","arguments":"{}"}}"#,
        r#"{"function":{"name":"f","arguments":"[]"}}"#,
    ];
    assert_eq!(calls(&unnamed), unnamed);
}

#[test]
fn a_name_that_is_repeated_at_the_end_of_a_call_begins_no_other() {
    let pieces = [
        r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":""}}"#,
    ];
    assert_eq!(
        calls(&pieces),
        pieces[..1]
            .iter()
            .map(|call| call.replace(r#""index":0,"#, ""))
            .collect::<Vec<_>>()
    );
}
