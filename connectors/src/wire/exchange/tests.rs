//! Recorded exchanges: models in URLs, folded streams, times and status.

use super::*;

#[test]
fn the_model_is_read_from_urls_that_contain_it() {
    for (path, expected) in [
        (
            "/model/us.amazon.nova-lite-v1%3A0/converse",
            Some("us.amazon.nova-lite-v1:0"),
        ),
        (
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            Some("gemini-2.5-pro"),
        ),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:rawPredict",
            Some("claude-x"),
        ),
        ("/v1/models", None),
        ("/model/", None),
        ("/model/100%/converse", Some("100%")),
    ] {
        let json = Json::Object([("url_path", path)].into_iter().collect());
        let exchange = Exchange::with_provider(&json, "p", "e");
        assert_eq!(exchange.model_from_path().as_deref(), expected, "{path}");
    }
}

#[test]
fn an_endpoint_may_be_a_path_or_a_url() {
    let input = r#""request":{"model":"m","input":"hi"}"#;
    let error = r#""status":429,"response":{"error":{"message":"slow down"}}"#;
    let text = r#"[{"role":"user","content":"hi"}]"#;
    let messages = format!(r#""request":{{"model":"m","max_tokens":5,"messages":{text}}}"#);
    let blocks = r#""request":{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    for (line, key) in [
        (
            format!(r#""provider":"openai","endpoint":"/v1/responses",{input},{error}"#),
            "openai/responses",
        ),
        (
            format!(r#""provider":"openai","url_path":"/v1/responses/",{input},{error}"#),
            "openai/responses",
        ),
        (
            format!(r#""provider":"anthropic","endpoint":"v1/messages",{messages}"#),
            "anthropic/messages",
        ),
        (
            format!(
                r#""provider":"groq","endpoint":"https://api.groq.com/openai/v1/chat/completions?a=1",{messages}"#
            ),
            "groq/chat",
        ),
        (
            format!(r#""provider":"bedrock","endpoint":"/model/nova-v1%3A0/converse",{blocks}"#),
            "bedrock/converse",
        ),
    ] {
        let json = format!("{{{line}}}");
        let json = Json::parse(json.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let adapter = registry::for_exchange(&exchange).map(|adapter| adapter.key());
        assert_eq!(adapter, Some(key), "{line}");
        let model = (key == "bedrock/converse").then_some("nova-v1:0");
        assert_eq!(exchange.model_from_path().as_deref(), model, "{line}");
    }
    let json = r#"{"provider":"x","endpoint":"/v9/other/","request":{}}"#;
    let json = Json::parse(json.as_bytes()).unwrap();
    assert_eq!(Exchange::from_json(&json).unwrap().endpoint, "/v9/other/");
}

#[test]
fn a_stream_is_folded_once_by_each_adapter() {
    use super::super::{anthropic, registry};
    let line = r#"{"provider":"p","endpoint":"e","response_sse":"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\u00e9\"}}],\"n\":1.50}\n\ndata: {\"error\":{\"code\":5}}\n\n"}"#;
    let json = Json::parse(line.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    let chat = exchange.folded(&registry::OPENAI_CHAT).unwrap();
    assert!(Rc::ptr_eq(
        &chat,
        &exchange.folded(&registry::OPENAI_CHAT).unwrap()
    ));
    assert_ne!(
        chat.folded.body,
        exchange.folded(&anthropic::MESSAGES).unwrap().folded.body
    );
    assert!(chat.folded.error.is_some() && !chat.is_empty && !chat.folded.complete);
}

#[test]
fn skipping_delta_frames_gives_the_same_fold() {
    use super::super::registry::OPENAI_RESPONSES as RESPONSES;
    let piece = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","role":"assistant","content":[]}}"#;
    let last =
        r#"{"type":"response.completed","response":{"output":[{"type":"message","id":"m"}]}}"#;
    let empty = r#"{"type":"response.completed","response":{"output":[]}}"#;
    for frames in [
        vec![piece, last],
        vec![piece],
        vec![piece, empty],
        vec![last],
    ] {
        let json = Json::Object([("response_sse", frames.join("\n"))].into_iter().collect());
        let exchange = Exchange::with_provider(&json, "openai", "responses");
        let ResponseBody::Stream(stream) = &exchange.response else {
            panic!("no stream")
        };
        let fold = exchange.folded(&RESPONSES).unwrap();
        assert_eq!(
            fold.folded,
            RESPONSES.fold(stream.frames().frames),
            "{frames:?}"
        );
        assert!(!fold.is_empty);
        let skimmed = stream.frames_skipping(&|frame| RESPONSES.is_delta_frame(frame));
        assert_eq!(skimmed.frames.len(), frames.len() - skimmed.skipped);
    }
}

#[test]
fn status_times_and_framing_of_a_line_are_read() {
    let line = r#"{"provider":"p","endpoint":"e","status":"200 OK","recorded_at":null,"response_headers":{"date":"Fri, 08 May 2026 12:00:00 GMT"},"framing":"sse","request":"text","response":null,"response_sse":"data: 1\n\n"}"#;
    let json = Json::parse(line.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    assert_eq!(
        (exchange.status, exchange.request.is_none()),
        (Some(200), true)
    );
    let ResponseBody::Stream(stream) = &exchange.response else {
        panic!("no stream")
    };
    assert_eq!(stream.frames().frames.len(), 1);
    let (zero, later) = (Timestamp::from_micros(0), Timestamp::from_seconds(5));
    assert_eq!(
        exchange.time(None, zero),
        Timestamp::parse("2026-05-08T12:00:00Z").unwrap()
    );
    assert_eq!(exchange.time(Some(later), zero), later);
    let year_one = Timestamp::parse("0001-01-01T00:00:00Z");
    assert!(year_one.is_some_and(|time| !time.fits_grain()));
    assert_eq!(exchange.time(year_one, zero), exchange.time(None, zero));
    for (recorded_at, expected) in [
        ("\"0001-01-01T00:00:00Z\"", None),
        ("5", Some(later)),
        ("-5", None),
    ] {
        let line = format!(r#"{{"provider":"p","recorded_at":{recorded_at}}}"#);
        let json = Json::parse(line.as_bytes()).unwrap();
        assert_eq!(
            Exchange::from_json(&json).unwrap().recorded_at,
            expected,
            "{recorded_at}"
        );
    }
}

/// Returns the bytes of an AWS event stream whose lengths are valid; the rest isn't.
fn frame_of(length: u32) -> Vec<u8> {
    let mut frame = [length.to_be_bytes(), [0; 4]].concat();
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame.resize(length as usize, 7);
    frame
}

#[test]
fn what_is_recorded_as_a_stream_and_is_none_is_a_raw_body() {
    let [bytes, page] = [frame_of(30), b"<html>502</html>".to_vec()];
    let [bytes, page] = [bytes, page].map(|bytes| STANDARD.encode(bytes));
    for (members, expected) in [
        (vec![("response_sse", "data: 1\n\n")], vec![]),
        (vec![("response_sse", ": keep-alive\n\n")], vec![]),
        (vec![("response_sse", " \n")], vec![]),
        (vec![("response_sse", "{}\n")], vec![]),
        (vec![("response_sse", "{\n\"error\":1\n}")], vec![]),
        (vec![("response_sse", "{\"cut")], vec!["response_sse"]),
        (vec![("response_sse", "<html>")], vec!["response_sse"]),
        (vec![("response_b64", &*bytes)], vec![]),
        (vec![("response_b64", &*page)], vec!["response_b64"]),
        (
            vec![("response_b64", ""), ("response_sse", "data: 1")],
            vec![],
        ),
        (
            vec![("request", "hi"), ("response_sse", "data: 1")],
            vec!["request"],
        ),
    ] {
        let json = Json::Object(members.iter().copied().collect());
        let exchange = Exchange::with_provider(&json, "bedrock", "converse");
        assert_eq!(exchange.has_raw_text, !expected.is_empty(), "{members:?}");
        let kept = exchange.raw_text_bodies(&json);
        let kept: Vec<&str> = kept.as_object().unwrap().keys().collect();
        assert_eq!(kept, expected, "{members:?}");
    }
}

#[test]
fn base64_that_cannot_be_decoded_is_a_raw_body_and_line_breaks_do_not_matter() {
    let frame = frame_of(30);
    let whole = STANDARD.encode(&frame);
    let (start, rest) = whole.split_at(20);
    let broken = format!("{start}\n  {rest}\r\n");
    for (encoded, is_damaged) in [
        (whole.as_str(), false),
        (broken.as_str(), false),
        ("AAAA*", true),
        ("", false),
    ] {
        let json = Json::Object([("response_b64", encoded)].into_iter().collect());
        let exchange = Exchange::with_provider(&json, "bedrock", "converse");
        assert_eq!(exchange.has_raw_text, is_damaged, "{encoded}");
        let kept = exchange.raw_text_bodies(&json);
        assert_eq!(kept.get("response_b64").is_some(), is_damaged, "{encoded}");
        if !is_damaged && !encoded.is_empty() {
            let ResponseBody::Stream(RecordedStream::AwsBytes(bytes)) = &exchange.response else {
                panic!("no stream")
            };
            assert_eq!(bytes, &frame);
        }
    }
}

#[test]
fn a_response_is_read_from_a_text_or_list_in_any_member() {
    let answer = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}]}"#;
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
    let text = |text: &str| Json::from(text.to_owned());
    let texts =
        |pieces: &[String]| Json::Array(pieces.iter().map(|piece| text(piece)).collect::<Vec<_>>());
    let (head, tail) = chunk.split_at(9);
    for (member, body, frames) in [
        ("response", text(answer), 1),
        (
            "response",
            text(&format!("data: {chunk}\n\ndata: [DONE]\n\n")),
            1,
        ),
        (
            "response",
            text(&format!("data: {chunk}\n\ndata: {head}")),
            1,
        ),
        ("response", text(&format!("{chunk}\n{chunk}\n{head}")), 2),
        ("response", text(&format!("[{chunk},\n{chunk},\n{head}")), 2),
        ("response_sse", text(&format!("[{chunk},\r\n{chunk}]")), 2),
        ("response_sse", text(&format!("[{chunk},\r\n{head}")), 1),
        (
            "response_sse",
            Json::parse(format!("[{chunk},{chunk}]").as_bytes()).unwrap(),
            2,
        ),
        (
            "response_sse",
            texts(&[
                format!("data: {chunk}"),
                String::new(),
                "data: [DONE]".to_owned(),
            ]),
            1,
        ),
        (
            "response_sse",
            texts(&[
                format!("data: {head}"),
                format!("{tail}\n\ndata: {chunk}\n\n"),
            ]),
            2,
        ),
        (
            "response_sse",
            texts(&[chunk.to_owned(), chunk.to_owned()]),
            2,
        ),
    ] {
        let json = Json::Object([(member, body)].into_iter().collect());
        let exchange = Exchange::with_provider(&json, "openai", "chat");
        assert!(!exchange.has_raw_text, "{json}");
        let ResponseBody::Stream(stream) = &exchange.response else {
            panic!("no stream: {json}")
        };
        assert_eq!(stream.frames().frames.len(), frames, "{json}");
    }
}

#[test]
fn a_body_that_nothing_reads_is_a_raw_one() {
    for (member, body) in [
        ("response", r#""<html>502 Bad Gateway</html>""#),
        // The words of an answer.
        (
            "response",
            r#""The appointment is:\nid: 42\ndata: 5\nname: Ann""#,
        ),
        ("response", r#""id: 42\nevent: lunch""#),
        ("response", r#""{\"weather\":\"sunny\"}""#),
        ("response", r#""{\"choices\":[]} are all\n""#),
        ("response", r#""[{\"name\":\"Ann\"}]""#),
        ("response", r#""[{\"choices\":[]}] are all\n""#),
        ("response_sse", r#"{"events":["a"]}"#),
        ("response_sse", r#"["<html>"]"#),
        ("response_sse", r#"["data: 1", 2]"#),
        ("response_sse", "5"),
        ("response_text", r#"{"a":1}"#),
    ] {
        let text = format!("{{\"request\":{{}},\"{member}\":{body}}}");
        let json = Json::parse(text.as_bytes()).unwrap();
        let exchange = Exchange::with_provider(&json, "openai", "chat");
        assert!(exchange.has_raw_text, "{text}");
        let kept = exchange.raw_text_bodies(&json);
        let kept: Vec<&str> = kept.as_object().unwrap().keys().collect();
        assert_eq!(kept, [member], "{text}");
    }
}

#[test]
fn a_request_that_is_the_text_of_an_object_is_read_also_with_half_a_surrogate_pair() {
    let request = |text: &str| {
        let json = Json::Object([("request", text)].into_iter().collect());
        let parsed = with_parsed_request(&json)?;
        Some(parsed.get("request")?.get("input")?.as_str()?.to_owned())
    };
    for (text, expected) in [
        (r#"{"input":"hi"}"#, Some("hi")),
        (r#"{"input":"a\ud83d"}"#, Some("a\u{fffd}")),
        (
            r#"{"input":"\ude00 \ud83d\ude00"}"#,
            Some("\u{fffd} \u{1f600}"),
        ),
        (r#"{"input":"#, None),
        (r#"["\ud83d"]"#, None),
    ] {
        assert_eq!(request(text).as_deref(), expected, "{text}");
    }
}
