use gristmill_schemas::json::DEFAULT_VALUE_LIMIT;
use gristmill_schemas::message::Timestamp;

use super::http::{Decompressor, HttpBody, is_aws_stream};
use super::*;
use crate::wire::exchange::Exchange;

/// Returns the endpoint and the bodies of each exchange line.
fn summaries(text: &str, kind: TranscriptKind) -> Vec<String> {
    let normalized = normalize(text.as_bytes(), kind).unwrap();
    assert!(normalized.faults.is_empty(), "{:?}", normalized.faults);
    let line = |line: &str| {
        let json = Json::parse(line.as_bytes()).unwrap();
        let text = |key| {
            json.get(key)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let has = |key: &str| json.get(key).is_some_and(|value| !value.is_null());
        let parts: Vec<_> = ["request", "response", "response_sse", "response_text"]
            .into_iter()
            .filter(|key| has(key))
            .collect();
        format!(
            "{}/{} {}",
            text("provider"),
            text("endpoint"),
            parts.join("+")
        )
    };
    normalized.lines.lines().map(line).collect()
}

#[test]
fn batch_lines_are_requests_or_responses() {
    let lines = [
        r#"{"custom_id":"0","method":"POST","url":"/v1/responses","body":{"input":"x"}}"#,
        r#"{"custom_id":"0","response":{"status_code":200,"body":{"object":"response","output":[]}},"error":null}"#,
        r#"{"custom_id":"0","result":{"type":"succeeded","message":{"type":"message","content":[]}}}"#,
        r#"{"custom_id":"0","params":{"max_tokens":1,"messages":[]}}"#,
        r#"{"custom_id":"0","body":{"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}}"#,
    ];
    let expected = [
        "openai/responses request",
        "openai/responses response",
        "anthropic/messages response",
        "anthropic/messages request",
        "openai/chat request",
    ];
    assert_eq!(
        summaries(&lines.join("\n"), TranscriptKind::Batch),
        expected
    );
}

#[test]
fn a_record_of_bedrock_has_both_bodies_and_a_line_of_gemini_one() {
    let lines = [
        r#"{"recordId":"0","modelInput":{"anthropic_version":"bedrock-2023-05-31","max_tokens":1,"messages":[]},"modelOutput":{"type":"message","role":"assistant","content":[]}}"#,
        r#"{"recordId":"1","modelInput":{"messages":[{"role":"user","content":[{"text":"hi"}]}]},"modelOutput":{"output":{"message":{"role":"assistant","content":[]}}}}"#,
        r#"{"recordId":"2","modelInput":{"prompt":"hi"},"modelOutput":{"generation":"yo"}}"#,
        r#"{"recordId":"3","modelInput":{"prompt":"hi"},"error":{"errorCode":400,"errorMessage":"no"}}"#,
        r#"{"key":"4","request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}"#,
        r#"{"key":"5","response":{"candidates":[]}}"#,
        r#"{"key":"6","error":{"code":3,"message":"no"}}"#,
    ];
    let expected = [
        "bedrock/invoke request+response",
        "bedrock/converse request+response",
        "bedrock/invoke request+response",
        "bedrock/invoke request+response",
        "gemini/generatecontent request",
        "gemini/generatecontent response",
        "gemini/generatecontent response",
    ];
    assert_eq!(
        summaries(&lines.join("\n"), TranscriptKind::Batch),
        expected
    );
    for line in lines {
        let kind = TranscriptKind::detect(line.as_bytes(), "a.jsonl");
        assert_eq!(kind, Some(TranscriptKind::Batch), "{line}");
    }
}

#[test]
fn a_chunk_of_a_stream_is_neither_a_request_nor_a_response() {
    let chunk = |choice: &str| {
        format!(r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{{choice}}}]}}"#)
    };
    let lines = [
        r#"{"messages":[{"role":"user","content":"hi"}]}"#.to_owned(),
        chunk(r#""index":0,"delta":{"content":"lost"},"finish_reason":null"#),
        chunk(r#""index":0,"delta":{},"finish_reason":"stop""#),
        chunk(r#""index":0,"finish_reason":"content_filter""#),
    ];
    let normalized = normalize(lines.join("\n").as_bytes(), TranscriptKind::Bodies).unwrap();
    let faults: Vec<_> = normalized.faults.iter().map(|fault| fault.number).collect();
    assert_eq!(faults, [2, 3]);
    assert_eq!(normalized.lines.split_terminator('\n').count(), 4);
}

#[test]
fn a_body_with_more_values_than_are_read_stays_a_text() {
    let archive = |values: usize| {
        let body = format!("[{}0]", "0,".repeat(values - 2));
        let request = r#"{"url":"https://api.openai.com/v1/chat/completions"}"#;
        let response = format!(r#"{{"status":200,"content":{{"text":"{body}"}}}}"#);
        let entry = format!(r#"{{"request":{request},"response":{response}}}"#);
        format!(r#"{{"log":{{"entries":[{entry}]}}}}"#)
    };
    for (values, expected) in [
        (100, "openai/chat response"),
        (DEFAULT_VALUE_LIMIT + 1, "openai/chat response_text"),
    ] {
        assert_eq!(summaries(&archive(values), TranscriptKind::Har), [expected]);
    }
}

#[test]
fn archives_and_cassettes_become_exchanges() {
    let har = r#"{"log":{"entries":[{"startedDateTime":"2026-05-08T12:00:00Z","request":{"url":"https://api.groq.com/openai/v1/chat/completions",
        "postData":{"text":"{\"messages\":[]}"}},"response":{"status":200,"content":{"mimeType":"text/event-stream","text":"data: {}\n\n"}}}]}}"#;
    assert_eq!(
        summaries(har, TranscriptKind::Har),
        ["groq/chat request+response_sse"]
    );
    let yaml = "interactions:\n- request:\n    uri: https://x.example/v1/messages\n    body: \
                '{\"a\":1}'\n  response:\n    status: {code: 200}\n    headers: {Content-Type: \
                [application/json]}\n    body: {string: '[1]'}\n- request:\n    uri: \
                http://localhost:11434/api/chat\n    parsed_body: {a: 1.5}\n  response:\n    \
                body: {string: oops}\n";
    assert_eq!(
        summaries(yaml, TranscriptKind::Cassette),
        [
            "anthropic/messages request+response",
            "ollama/chat request+response_text"
        ]
    );
}

/// `{"a":1}`, compressed with gzip, in base64.
const COMPRESSED: &str = "H4sIAAAAAAACA6tWSlSyMqwFAK+sG1YHAAAA";

#[test]
fn base64_bodies_are_decoded_and_decompressed_and_their_date_is_kept() {
    let yaml = format!(
        "interactions:\n- request:\n    uri: https://x.example/v1/messages\n    method: 'a \
         !!binary0 b'\n    body: !!binary |\n      {COMPRESSED}\n  response:\n    headers: {{Date: \
         ['Fri, 08 May 2026 12:00:00 GMT']}}\n    body:\n      string: !binary |-\n        \
         eyJh\n        IjoyfQ==\n  recorded_at: Fri, 08 May 2026 12:00:01 GMT\n"
    );
    let normalized = normalize(yaml.as_bytes(), TranscriptKind::Cassette).unwrap();
    let json = Json::parse(normalized.lines.as_bytes()).unwrap();
    assert_eq!(
        json.get("request").map(Json::to_string).as_deref(),
        Some(r#"{"a":1}"#)
    );
    assert_eq!(
        json.get("response").map(Json::to_string).as_deref(),
        Some(r#"{"a":2}"#)
    );
    let exchange = Exchange::from_json(&json).unwrap();
    assert_eq!(exchange.date, Timestamp::parse("2026-05-08T12:00:00Z"));
    assert_eq!(
        exchange.recorded_at,
        Timestamp::parse("2026-05-08T12:00:01Z")
    );
}

#[test]
fn binary_bodies_and_damaged_streams_stay_base64() {
    for (encoded, expected) in [("H4sIAAAA", "H4sIAAAA"), ("/w==", "/w=="), ("%", "%")] {
        assert!(
            matches!(
                HttpBody::decode(encoded, &mut Decompressor::new()),
                HttpBody::Base64(kept) if kept == expected
            ),
            "{encoded}"
        );
    }
}

#[test]
fn a_cassette_whose_aliases_repeat_a_large_text_is_one_fault() {
    // 1 MiB, which denotes 100 GiB.
    let text = "x".repeat(1 << 20);
    let aliases = "- *a\n".repeat(100_000);
    let yaml = format!("interactions:\n- &a {text}\n{aliases}");
    let normalized = normalize(yaml.as_bytes(), TranscriptKind::Cassette).unwrap();
    let message = &normalized.faults[0].message;
    assert_eq!((normalized.faults.len(), normalized.lines.len()), (1, 0));
    assert!(message.contains("too large"), "{message}");
}

#[test]
fn base64_that_is_broken_into_lines_is_decoded() {
    // Ruby's encoder ends each line with a line feed, that of MIME with CRLF.
    for line_break in ["\n", "\r\n"] {
        let encoded = format!("eyJh{line_break}Ijoy{line_break}fQ=={line_break}");
        let body = Json::from(encoded).to_string();
        let cassette = format!(
            r#"{{"http_interactions":[{{"request":{{"uri":"https://x.example/v1/messages","body":{{}}}},"response":{{"body":{{"base64_string":{body}}}}}}}]}}"#
        );
        let archive = format!(
            r#"{{"log":{{"entries":[{{"request":{{"url":"https://x.example/v1/messages"}},"response":{{"content":{{"text":{body},"encoding":"base64"}}}}}}]}}}}"#
        );
        for (text, kind) in [
            (cassette, TranscriptKind::Cassette),
            (archive, TranscriptKind::Har),
        ] {
            let normalized = normalize(text.as_bytes(), kind).unwrap();
            let json = Json::parse(normalized.lines.as_bytes()).unwrap();
            let response = json.get("response").map(Json::to_string);
            assert_eq!(response.as_deref(), Some(r#"{"a":2}"#), "{text}");
        }
    }
}

#[test]
fn the_bodies_of_a_file_decompress_to_a_limited_number_of_bytes() {
    // Two bodies of 7 bytes, and the limits at which each of them stays compressed.
    for (limit, expected) in [(14, [true, true]), (13, [true, false]), (6, [false, false])] {
        let mut decompressor = Decompressor::with_limit(limit);
        let is_text = [(); 2].map(|()| {
            let body = HttpBody::decode(COMPRESSED, &mut decompressor);
            matches!(body, HttpBody::Text(text) if text == r#"{"a":1}"#)
        });
        assert_eq!(is_text, expected, "{limit}");
    }
}

/// Returns a cassette of one interaction with the response `body` and without headers.
fn without_headers(body: &str) -> String {
    let mut string = String::new();
    Json::from(body).write(&mut string);
    format!(
        r#"{{"interactions":[{{"request":{{"uri":"https://x.example/v1/chat/completions","body":""}},"response":{{"status":{{"code":200}},"body":{{"string":{string}}}}}}}]}}"#
    )
}

#[test]
fn a_stream_without_headers_is_detected_by_its_body() {
    for (body, expected) in [
        ("data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "response_sse"),
        (
            ": keep-alive\r\n\r\nevent: a\r\ndata: {}\r\n\r\n",
            "response_sse",
        ),
        ("id: 1\nevent: ping\ndata:{}\n", "response_sse"),
        (
            "{\"message\":{},\"done\":false}\n{\"message\":{},\"done\":true}\n",
            "response_sse",
        ),
        ("{\n  \"choices\": []\n}", "response"),
        ("{\"choices\":[]}", "response"),
        ("{\"choices\":[]}\n", "response"),
        ("Note: data: isn't here", "response_text"),
        ("data without a colon", "response_text"),
        ("upstream: down", "response_text"),
    ] {
        let found = summaries(&without_headers(body), TranscriptKind::Cassette);
        assert_eq!(found, [format!("unknown-compat/chat {expected}")], "{body}");
    }
}

#[test]
fn aws_frames_are_detected_by_their_checksum() {
    // A frame without headers whose payload is `{}`.
    let mut frame = vec![0, 0, 0, 18, 0, 0, 0, 0];
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame.extend(*b"{}");
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    // Not text: 0xff never occurs in UTF-8.
    let encode =
        |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    assert!(is_aws_stream(&encode(&frame)));
    frame[8] ^= 1;
    assert!(!is_aws_stream(&encode(&frame)) && !is_aws_stream("%") && !is_aws_stream(""));
}

#[test]
fn bodies_of_archives_may_be_arrays_of_chunks() {
    let encode =
        |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let compressed =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, COMPRESSED).unwrap();
    let (one, two) = compressed.split_at(9);
    let chunks = format!(r#"["{}","{}"]"#, encode(one), encode(two));
    let plain = format!(r#"["{}","{}"]"#, encode(br#"{"a""#), encode(b":1}"));
    let quoted = |list: &str| Json::from(list).to_string();
    for (text, encoding, expected) in [
        (quoted(&chunks), r#","encoding":"base64""#, r#"{"a":1}"#),
        (quoted(&chunks), "", r#"{"a":1}"#),
        (chunks.clone(), "", r#"{"a":1}"#),
        (quoted(&plain), r#","encoding":"base64""#, r#"{"a":1}"#),
        // An array of texts without an encoding is a response in JSON.
        (quoted(r#"["abcd"]"#), "", r#"["abcd"]"#),
    ] {
        let har = format!(
            r#"{{"log":{{"entries":[{{"request":{{"url":"https://x.example/v1/messages"}},"response":{{"content":{{"mimeType":"application/json","text":{text}{encoding}}}}}}}]}}}}"#
        );
        let normalized = normalize(har.as_bytes(), TranscriptKind::Har).unwrap();
        let json = Json::parse(normalized.lines.as_bytes()).unwrap();
        assert_eq!(
            json.get("response").map(Json::to_string).as_deref(),
            Some(expected),
            "{text} {encoding}"
        );
    }
}

#[test]
fn bare_bodies_are_detected_by_their_form_and_others_are_faults() {
    let bodies = r#"[{"model":"m","messages":[{"role":"user","content":"x"}]},{"choices":[{"message":{}}]}]"#;
    assert_eq!(
        summaries(bodies, TranscriptKind::Bodies),
        ["openai/chat request", "openai/chat response"]
    );
    let normalized = normalize(b"{\"x\":1}\n\noops", TranscriptKind::Bodies).unwrap();
    let faults: Vec<_> = normalized
        .faults
        .iter()
        .map(|fault| (fault.number, fault.code.name()))
        .collect();
    assert_eq!(faults, [(1, "ERR_SHAPE"), (3, "ERR_JSON")]);
    assert_eq!(normalized.lines, "\n\n\n");
}
