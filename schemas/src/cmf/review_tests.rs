//! One test for each of the fourteen findings of the review that precedes the specification.

use super::view::{DictOptions, JsonText};
use super::*;
use crate::json::{Json, Object};

pub(super) fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

fn message(text: &str) -> Result<CmfMessage, CmfError> {
    CmfMessage::parse(&json(text))
}

/// Parses a message with one part of the given kind and body.
pub(super) fn with_part(role: &str, kind: &str, body: &str) -> Result<CmfMessage, CmfError> {
    let key = if matches!(kind, "text" | "thinking") {
        "text"
    } else {
        "content"
    };
    message(&format!(
        r#"{{"role":"{role}","content":[{{"content_type":"{kind}","{key}":{body}}}]}}"#
    ))
}

/// Returns a valid body for each kind.
pub(super) fn good_body(kind: ContentType) -> &'static str {
    match kind {
        ContentType::Text | ContentType::Thinking => r#""hello""#,
        ContentType::ToolCall => r#"{"tool_call_id":"1","name":"t","arguments":{"q":[1,"é"]}}"#,
        ContentType::ToolResult => r#"{"tool_call_id":"1","tool_name":"t","content":{"a":1}}"#,
        ContentType::Resource => {
            r#"{"resource_request_id":"1","uri":"file:///a","resource_type":"file","content":"x"}"#
        }
        ContentType::ResourceRef => {
            r#"{"resource_request_id":"1","uri":"file:///a","resource_type":"file"}"#
        }
        ContentType::PromptRequest => r#"{"prompt_request_id":"1","name":"p","arguments":{}}"#,
        ContentType::PromptResult => r#"{"prompt_request_id":"1","prompt_name":"p","content":"c"}"#,
        _ => r#"{"type":"url","data":"http://x","media_type":"a/b"}"#,
    }
}

fn all_kinds(role: CmfRole) -> CmfMessage {
    let part = |kind: &ContentType| {
        with_part(role.as_str(), kind.as_str(), good_body(*kind))
            .unwrap()
            .content
            .remove(0)
    };
    CmfMessage::new(role, ContentType::ALL.iter().map(part).collect())
}

/// Finding 1: literal characters of a pattern went into a regular expression, so a dot matched any
/// character and a deny rule missed or hit the wrong tool.
#[test]
fn finding_01_a_dot_in_a_uri_pattern_is_a_dot() {
    let call = |namespace: &str| {
        let body = format!(r#"{{"tool_call_id":"1","name":"tool","namespace":"{namespace}"}}"#);
        with_part("assistant", "tool_call", &body).unwrap()
    };
    let pattern = UriPattern::new("tool://my.namespace/tool").unwrap();
    let matches = |message: &CmfMessage| {
        views(message, ExtensionAccess::NONE)
            .next()
            .unwrap()
            .matches_uri_pattern(&pattern)
    };
    assert!(matches(&call("my.namespace")));
    assert!(!matches(&call("myXnamespace")));
    for special in ["a+b", "f(", "[x]", "a?", "^a$", "a|b", r"a\\d", "{1}"] {
        let message = call(special);
        let view = views(&message, ExtensionAccess::NONE).next().unwrap();
        let own = UriPattern::new(view.uri().unwrap()).unwrap();
        assert!(view.matches_uri_pattern(&own), "{special}");
    }
}

/// Finding 2: parts of an unknown type were skipped, so a policy never saw them.
#[test]
fn finding_02_every_part_has_its_view_and_an_unknown_one_is_an_error() {
    for role in CmfRole::ALL {
        let message = all_kinds(*role);
        let kinds: Vec<ContentType> = views(&message, ExtensionAccess::NONE)
            .map(|view| view.kind())
            .collect();
        assert_eq!(kinds, ContentType::ALL);
    }
    let error = with_part("user", "bogus", r#"{"x":1}"#).unwrap_err();
    assert!(matches!(&error, CmfError::UnknownName { found, .. } if found == "bogus"));
    assert_eq!(error.path(), "$.content[0].content_type");
}

/// Finding 3: coverage had to stay high. Here every kind under every role goes through every
/// attribute, and through serialisation to a tree and to text, which must agree.
#[test]
fn finding_03_every_kind_under_every_role_is_read_in_full() {
    for role in CmfRole::ALL {
        let message = all_kinds(*role);
        for view in views(&message, ExtensionAccess::NONE).at_hook(Some("evaluate")) {
            assert_eq!(view.has_content(), view.content().is_some());
            assert_eq!(view.arg("q").is_some(), view.has_arg("q"));
            let groups = [
                view.is_tool(),
                view.is_prompt(),
                view.is_resource(),
                view.is_text(),
                view.is_media(),
            ];
            assert_eq!(groups.iter().filter(|group| **group).count(), 1);
            let mut text = JsonText::default();
            view.write_dict(DictOptions::default(), &mut text);
            assert_eq!(
                Json::parse(text.into_string().as_bytes()),
                Ok(view.to_dict(DictOptions::default()))
            );
        }
    }
}

/// Finding 4: extensions were of any type, so a malformed one surfaced in the policy that read it,
/// if at all.
#[test]
fn finding_04_malformed_extensions_are_refused_where_they_are_read() {
    for (text, path) in [
        (r#"{"http":[]}"#, "$.http"),
        (r#"{"http":{"headers":{"a":1}}}"#, "$.http.headers.a"),
        (r#"{"http":{"request_headers":{}}}"#, "$.http"),
        (r#"{"security":{"labels":"PII"}}"#, "$.security.labels"),
        (
            r#"{"security":{"subject":{"id":"a","type":"robot"}}}"#,
            "$.security.subject.type",
        ),
        (
            r#"{"security":{"objects":{"t":{"permissions":null}}}}"#,
            "$.security.objects.t.permissions",
        ),
        (
            r#"{"completion":{"tokens":{"input_tokens":1,"output_tokens":1}}}"#,
            "$.completion.tokens.total_tokens",
        ),
        (
            r#"{"completion":{"latency_ms":1.5}}"#,
            "$.completion.latency_ms",
        ),
        (
            r#"{"mcp":{"tool":{"name":"a"},"prompt":{"name":"b"}}}"#,
            "$.mcp",
        ),
        (
            r#"{"delegation":{"chain":[{"subject_id":"a","subject_type":"user","timestamp":"noon"}]}}"#,
            "$.delegation.chain[0].timestamp",
        ),
        (r#"{"custom":3}"#, "$.custom"),
    ] {
        assert_eq!(
            Extensions::parse(&json(text)).unwrap_err().path(),
            path,
            "{text}"
        );
    }
    // Extensions are separate from the message, whose members are a closed set.
    let error = message(r#"{"role":"user","content":[],"extensions":{}}"#).unwrap_err();
    assert!(matches!(error, CmfError::UnknownKey { .. }));
}

/// Finding 5: a part could be built whose tag named another type than its body had.
#[test]
fn finding_05_a_tag_can_not_lie_about_its_body() {
    for kind in ContentType::ALL {
        for other in ContentType::ALL {
            let parsed = with_part("user", kind.as_str(), good_body(*other));
            if let Ok(message) = parsed {
                assert_eq!(message.content[0].content_type(), *kind);
                assert_eq!(
                    message.content[0]
                        .to_json()
                        .get("content_type")
                        .and_then(Json::as_str),
                    Some(kind.as_str())
                );
            }
        }
    }
    assert!(
        message(r#"{"role":"user","content":[{"content_type":"tool_call","text":"hello"}]}"#)
            .is_err()
    );
}

/// Finding 6: the messages of a prompt result were a list of anything.
#[test]
fn finding_06_messages_of_a_prompt_result_are_messages() {
    let result = |messages: &str| {
        with_part(
            "tool",
            "prompt_result",
            &format!(r#"{{"prompt_request_id":"1","prompt_name":"p","messages":{messages}}}"#),
        )
    };
    assert!(result(r#"[{"role":"user","content":[{"content_type":"text","text":"m"}]}]"#).is_ok());
    assert!(result(r#"["m1","m2"]"#).is_err());
    assert!(result("null").is_err());
    let error =
        result(r#"[{"role":"user"},{"role":"user","content":[{"text":"m"}]}]"#).unwrap_err();
    assert_eq!(
        error.path(),
        "$.content[0].content.messages[1].content[0].content_type"
    );
}

/// Finding 7: the source of media could be of any type.
#[test]
fn finding_07_media_come_by_url_or_base64_only() {
    for kind in ["image", "video", "audio", "document"] {
        let source =
            |source: &str| with_part("user", kind, &format!(r#"{{"type":{source},"data":"d"}}"#));
        assert!(
            source(r#""url""#).is_ok() && source(r#""base64""#).is_ok(),
            "{kind}"
        );
        for wrong in [r#""ftp""#, r#""URL""#, r#""""#, "null", "1"] {
            assert_eq!(
                source(wrong).unwrap_err().path(),
                "$.content[0].content.type",
                "{kind} {wrong}"
            );
        }
    }
}

/// Finding 8: a part without a tag was taken for text, and what it held was lost.
#[test]
fn finding_08_a_part_without_a_tag_is_no_text() {
    for part in [
        r#"{"text":"hello"}"#,
        r#"{"content_type":null,"text":"x"}"#,
        r#"{"name":"t","arguments":{}}"#,
        r#""hello""#,
    ] {
        assert!(
            message(&format!(r#"{{"role":"user","content":[{part}]}}"#)).is_err(),
            "{part}"
        );
    }
}

/// Finding 9: a resource could carry text and bytes at once, so a scanner of the one missed the
/// other.
#[test]
fn finding_09_a_resource_has_text_or_bytes_not_both() {
    let resource = |members: &str| {
        with_part(
            "tool",
            "resource",
            &format!(r#"{{"resource_request_id":"1","uri":"u","resource_type":"blob"{members}}}"#),
        )
    };
    for good in [
        "",
        r#","content":"x""#,
        r#","blob":"AAEC""#,
        r#","content":null,"blob":"AA==""#,
        r#","content":"x","blob":null"#,
    ] {
        assert!(resource(good).is_ok(), "{good}");
    }
    for both in [
        r#","content":"x","blob":"AA==""#,
        r#","content":"","blob":"""#,
    ] {
        assert!(
            matches!(resource(both).unwrap_err(), CmfError::ContentAndBlob { .. }),
            "{both}"
        );
    }
    for no_base64 in [r#","blob":"A""#, r#","blob":"AAE""#, r#","blob":"é""#] {
        assert!(
            matches!(resource(no_base64).unwrap_err(), CmfError::NotBase64 { .. }),
            "{no_base64}"
        );
    }
}

/// Finding 10: a reference could end before it started.
#[test]
fn finding_10_a_range_does_not_end_before_it_starts() {
    let reference = |range: &str| {
        with_part(
            "user",
            "resource_ref",
            &format!(r#"{{"resource_request_id":"1","uri":"u","resource_type":"file"{range}}}"#),
        )
    };
    for good in [
        "",
        r#","range_start":5"#,
        r#","range_end":5"#,
        r#","range_start":5,"range_end":5"#,
        r#","range_start":-5,"range_end":-1"#,
    ] {
        assert!(reference(good).is_ok(), "{good}");
    }
    let error = reference(r#","range_start":100,"range_end":5"#).unwrap_err();
    assert!(matches!(
        error,
        CmfError::InvertedRange {
            start: 100,
            end: 5,
            ..
        }
    ));
}

/// Finding 11: text of a tool counted as input, so rules for output didn't see it.
#[test]
fn finding_11_the_output_of_a_tool_is_returned() {
    for kind in ContentType::ALL {
        for role in CmfRole::ALL {
            let message = with_part(role.as_str(), kind.as_str(), good_body(*kind)).unwrap();
            let view = views(&message, ExtensionAccess::NONE).next().unwrap();
            assert_ne!(view.is_pre(), view.is_post(), "{kind} under {role}");
            if (view.is_text() || view.is_media()) && *role == CmfRole::Tool {
                assert!(view.is_post(), "{kind}");
                assert_eq!(view.action(), ViewAction::Receive, "{kind}");
            }
        }
    }
}

/// Finding 12: the table of actions was built anew on every read. Here it is evaluated by the
/// compiler, which proves that a read allocates nothing.
#[test]
fn finding_12_the_action_is_a_constant() {
    const ACTIONS: [ViewAction; 4] = [
        ViewAction::of(ContentType::ToolCall, CmfRole::Assistant),
        ViewAction::of(ContentType::Text, CmfRole::Assistant),
        ViewAction::of(ContentType::Thinking, CmfRole::User),
        ViewAction::of(ContentType::PromptResult, CmfRole::Tool),
    ];
    assert_eq!(
        ACTIONS,
        [
            ViewAction::Execute,
            ViewAction::Generate,
            ViewAction::Send,
            ViewAction::Receive
        ]
    );
}

/// Finding 13: serialising a view formed its content twice, and the size could be that of another
/// text.
#[test]
fn finding_13_content_is_formed_once_and_the_size_is_its_own() {
    let call = with_part("assistant", "tool_call", good_body(ContentType::ToolCall)).unwrap();
    let view = views(&call, ExtensionAccess::NONE).next().unwrap();
    let formed = view.content().unwrap().as_ptr();
    assert_eq!(
        view.size_bytes(),
        Some(view.content().unwrap().len() as i64)
    );
    let dict = view.to_dict(DictOptions::default());
    assert_eq!(view.content().unwrap().as_ptr(), formed);
    assert_eq!(
        dict.get("content").and_then(Json::as_str),
        Some(r#"{"q": [1, "é"]}"#)
    );
    assert_eq!(dict.get("size_bytes").and_then(Json::as_i64), Some(16));
    // The accessor returns the declared size; the actual size is serialized with the content.
    let resource = r#"{"resource_request_id":"1","uri":"u","resource_type":"file","content":"hello","size_bytes":999}"#;
    let resource = with_part("tool", "resource", resource).unwrap();
    let view = views(&resource, ExtensionAccess::NONE).next().unwrap();
    assert_eq!(view.size_bytes(), Some(999));
    assert_eq!(
        view.to_dict(DictOptions::default())
            .get("size_bytes")
            .and_then(Json::as_i64),
        Some(5)
    );
}

/// Finding 14: a view gave out its own table of headers, so a consumer could put a secret into it,
/// or take the name away by which secrets are stripped. Here it gives out shared references only; a
/// copy is the consumer's own.
#[test]
fn finding_14_nothing_that_a_view_gives_out_changes_the_view() {
    let extensions = json(
        r#"{"http":{"headers":{"Authorization":"s3cret","COOKIE":"s3cret","x-api-KEY":"s3cret","X-Ok":"1"}}}"#,
    );
    let extensions = Extensions::parse(&extensions).unwrap();
    let call = with_part("assistant", "tool_call", good_body(ContentType::ToolCall)).unwrap();
    let view = views(
        &call,
        ExtensionAccess::new(Some(&extensions), CapabilitySet::all()),
    )
    .next()
    .unwrap();
    let before = view.to_dict(DictOptions::default());

    let mut headers = view.headers().clone();
    headers.set("Authorization", "forged");
    let mut arguments: Object<'static> = view.args().unwrap().clone();
    arguments.insert("q", Json::Null);
    let ContentPart::ToolCall(mut copy) = view.part().clone() else {
        panic!()
    };
    copy.name.clear();

    assert_eq!(view.header("authorization"), Some("s3cret"));
    assert_eq!(view.to_dict(DictOptions::default()), before);
    assert!(!before.to_string().contains("s3cret"));
    assert_eq!(
        before
            .get("extensions")
            .unwrap()
            .get("headers")
            .unwrap()
            .to_string(),
        r#"{"X-Ok":"1"}"#
    );
    // Without the capability the gated accessor shows none of them.
    let blind = views(
        &call,
        ExtensionAccess::new(Some(&extensions), CapabilitySet::NONE),
    )
    .next()
    .unwrap();
    assert_eq!(
        (blind.header("authorization"), blind.header("x-ok")),
        (None, None)
    );
}
