//! One test per decision where the specification is silent or its implementations disagree.

use super::review_tests::{good_body, json, with_part};
use super::view::{DictOptions, DictSink, HeaderStripping};
use super::*;
use crate::json::Json;

/// Policy engines implement a sink to build their own values.
#[test]
fn a_view_can_be_reported_to_a_sink_of_the_caller() {
    #[derive(Default)]
    struct KeyRecorder(Vec<String>);
    impl DictSink for KeyRecorder {
        fn open_object(&mut self) {}
        fn key(&mut self, key: &str) {
            self.0.push(key.to_owned());
        }
        fn close_object(&mut self) {}
        fn open_array(&mut self) {}
        fn close_array(&mut self) {}
        fn text(&mut self, _: &str) {}
        fn flag(&mut self, _: bool) {}
        fn integer(&mut self, _: i64) {}
        fn null(&mut self) {}
        fn json(&mut self, _: &Json) {}
    }
    let call = with_part("assistant", "tool_call", good_body(ContentType::ToolCall)).unwrap();
    let mut keys = KeyRecorder::default();
    views(&call, ExtensionAccess::NONE)
        .at_hook(Some("h"))
        .next()
        .unwrap()
        .write_dict(DictOptions::default(), &mut keys);
    assert_eq!(
        keys.0,
        [
            "kind",
            "role",
            "is_pre",
            "is_post",
            "action",
            "hook",
            "uri",
            "name",
            "content",
            "size_bytes",
            "arguments",
            "q",
            "properties",
            "namespace",
            "tool_id"
        ]
    );
}

#[test]
fn nested_prompt_messages_are_seen_where_views_are_recursive() {
    let nested = r#"{"prompt_request_id":"1","prompt_name":"outer","messages":[
        {"role":"user","content":[{"content_type":"text","text":"a"},
            {"content_type":"prompt_result","content":{"prompt_request_id":"2","prompt_name":"inner","messages":[
                {"role":"assistant","content":[{"content_type":"text","text":"b"}]}]}},
            {"content_type":"text","text":"c"}]},
        {"role":"tool","content":[]},
        {"role":"tool","content":[{"content_type":"text","text":"d"}]}]}"#;
    let mut message = with_part("tool", "prompt_result", nested).unwrap();
    message.content.push(ContentPart::text("e"));
    assert_eq!(views(&message, ExtensionAccess::NONE).count(), 2);
    let seen: Vec<String> = views(&message, ExtensionAccess::NONE)
        .recursive()
        .map(|view| {
            format!(
                "{}{}{}",
                view.depth(),
                view.role(),
                view.content().or(view.name()).unwrap()
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            "0toolouter",
            "1usera",
            "1userinner",
            "2assistantb",
            "1userc",
            "1toold",
            "0toole"
        ]
    );
}

#[test]
fn messages_nested_beyond_the_limit_are_refused() {
    let mut text = r#"{"role":"user","content":[]}"#.to_owned();
    for _ in 0..40 {
        text = format!(
            r#"{{"role":"user","content":[{{"content_type":"prompt_result","content":{{"prompt_request_id":"1","prompt_name":"p","messages":[{text}]}}}}]}}"#
        );
    }
    let json = Json::parse_with_depth(text.as_bytes(), 1000).unwrap();
    assert!(matches!(
        CmfMessage::parse(&json).unwrap_err(),
        CmfError::TooDeep { .. }
    ));
}

#[test]
fn a_history_is_limited_at_below_and_above() {
    let agent = |messages: usize| {
        let history = vec![r#"{"role":"user"}"#; messages].join(",");
        Extensions::parse(&json(&format!(
            r#"{{"agent":{{"conversation":{{"history":[{history}]}}}}}}"#
        )))
    };
    assert!(agent(extensions::HISTORY_LIMIT_MESSAGES).is_ok());
    let error = agent(extensions::HISTORY_LIMIT_MESSAGES + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "$.agent.conversation.history: expected at most 100 items, found 101"
    );
}

#[test]
fn a_line_may_have_the_message_next_to_or_around_its_extensions() {
    let beside = r#"{"message":{"role":"user"},"extensions":{"request":{"environment":"dev"}},"hook":"llm_input"}"#;
    let around = r#"{"role":"user","extensions":{"request":{"environment":"dev"}}}"#;
    let (beside, around) = (
        Envelope::parse(&json(beside)).unwrap(),
        Envelope::parse(&json(around)).unwrap(),
    );
    assert_eq!(
        (&beside.message, &beside.extensions),
        (&around.message, &around.extensions)
    );
    assert_eq!(
        (beside.hook.as_deref(), around.hook.as_deref()),
        (Some("llm_input"), None)
    );
    assert_eq!(Envelope::parse(&beside.to_json()), Ok(beside));
    assert!(Envelope::parse(&json(r#"{"message":{"role":"user"},"extra":1}"#)).is_err());
    assert!(Envelope::parse(&json(r#"{"role":"user","extra":1}"#)).is_err());
}

#[test]
fn resources_find_their_profile_by_name_and_then_by_uri() {
    let extensions = json(
        r#"{"security":{"objects":{"file:///a":{"managed_by":"tool"},"n":{"managed_by":"both"},"":{}}}}"#,
    );
    let extensions = Extensions::parse(&extensions).unwrap();
    let managed_by = |name: &str| {
        let body = format!(
            r#"{{"resource_request_id":"1","uri":"file:///a","resource_type":"file","name":{name}}}"#
        );
        let message = with_part("user", "resource_ref", &body).unwrap();
        let access =
            ExtensionAccess::new(Some(&extensions), CapabilitySet::NONE.with_open_profiles());
        views(&message, access)
            .next()
            .unwrap()
            .object()
            .unwrap()
            .managed_by
            .clone()
    };
    assert_eq!(
        [
            managed_by("null"),
            managed_by(r#""""#),
            managed_by(r#""n""#)
        ],
        ["tool", "tool", "both"]
    );
}

#[test]
fn arguments_stay_inside_if_that_is_requested() {
    let call = with_part("assistant", "tool_call", good_body(ContentType::ToolCall)).unwrap();
    let view = views(&call, ExtensionAccess::NONE).next().unwrap();
    let dict = |arguments| {
        view.to_dict(DictOptions {
            content: false,
            arguments,
            ..DictOptions::default()
        })
    };
    assert!(dict(true).get("arguments").is_some());
    assert!(!dict(false).to_string().contains('é'));
}

#[test]
fn profiles_and_policies_are_hidden_unless_granted_or_opened() {
    let extensions =
        json(r#"{"security":{"classification":"c","objects":{"t":{}},"data":{"t":{}}}}"#);
    let extensions = Extensions::parse(&extensions).unwrap();
    let seen = |capabilities| {
        filter(Some(&extensions), capabilities)
            .unwrap()
            .security
            .unwrap()
    };
    let closed = seen(CapabilitySet::NONE);
    assert!(closed.objects.is_empty() && closed.data.is_empty());
    assert_eq!(closed.classification.as_deref(), Some("c"));
    let objects = seen(CapabilitySet::from_names(["read_objects"]).unwrap());
    assert_eq!((objects.objects.len(), objects.data.len()), (1, 0));
    let open = seen(CapabilitySet::NONE.with_open_profiles());
    assert_eq!((open.objects.len(), open.data.len()), (1, 1));
}

#[test]
fn credential_headers_are_stripped_unless_the_specified_three_are_requested() {
    let names = [
        "authorization",
        "Cookie",
        "X-API-KEY",
        "Set-Cookie",
        "Proxy-Authorization",
        "X-Auth-Token",
        "X-Ok",
    ];
    let kept = |stripping: HeaderStripping| {
        names
            .into_iter()
            .filter(|name| !stripping.strips(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(HeaderStripping::default()), ["X-Ok"]);
    assert_eq!(
        kept(HeaderStripping::Specified),
        ["Set-Cookie", "Proxy-Authorization", "X-Auth-Token", "X-Ok"]
    );
}

#[test]
fn a_change_of_the_classification_passes_the_check_and_is_never_taken_over() {
    let security = |level: &str| {
        Extensions::parse(&json(&format!(
            r#"{{"security":{{"classification":"{level}"}}}}"#
        )))
        .unwrap()
    };
    let (before, after) = (security("secret"), security("public"));
    assert_eq!(
        validate(Some(&before), Some(&after), CapabilitySet::NONE),
        Ok(())
    );
    let merged = merge(Some(&before), Some(&after), CapabilitySet::all()).unwrap();
    assert_eq!(
        (merged.extensions.as_deref(), merged.ignored),
        (Some(&before), vec![Slot::Classification])
    );
}

#[test]
fn immutable_slots_are_reported_before_guarded_ones() {
    let first = |before: &str, after: &str, capabilities: &[&str]| {
        let [before, after] = [before, after].map(|text| Extensions::parse(&json(text)).unwrap());
        let capabilities = CapabilitySet::from_names(capabilities.iter().copied()).unwrap();
        validate(Some(&before), Some(&after), capabilities)
            .unwrap_err()
            .slot
    };
    let labelled = r#"{"security":{"labels":["a"]}}"#;
    for (before, after, slot) in [
        ("{}", labelled, Slot::Objects),
        (labelled, "{}", Slot::Objects),
        (labelled, r#"{"security":{"data":{"t":{}}}}"#, Slot::Data),
        (
            "{}",
            r#"{"security":{"subject":{"id":"a","type":"user"}}}"#,
            Slot::Subject,
        ),
        (
            "{}",
            r#"{"security":{"subject":{"id":"a","type":"user"}},"agent":{"turn":1}}"#,
            Slot::Agent,
        ),
        (
            labelled,
            r#"{"security":{},"http":{"headers":{"a":"b"}}}"#,
            Slot::Labels,
        ),
        (
            "{}",
            r#"{"http":{"headers":{}},"delegation":{}}"#,
            Slot::Http,
        ),
    ] {
        assert_eq!(first(before, after, &[]), slot, "{before} {after}");
    }
    assert_eq!(first("{}", labelled, &["append_labels"]), Slot::Objects);
}

#[test]
fn headers_are_guarded_and_a_change_of_them_is_reported() {
    assert_eq!(Slot::Http.tier(), MutabilityTier::Guarded);
    let headers = |value: &str| {
        Extensions::parse(&json(&format!(
            r#"{{"http":{{"headers":{{"a":"{value}"}}}}}}"#
        )))
        .unwrap()
    };
    let (before, after) = (headers("1"), headers("2"));
    let change = |names: &[&str]| {
        let merged = merge(
            Some(&before),
            Some(&after),
            CapabilitySet::from_names(names.iter().copied()).unwrap(),
        )
        .unwrap();
        (merged.accepted, merged.ignored)
    };
    assert_eq!(change(&["write_headers"]), (vec![Slot::Http], vec![]));
    assert_eq!(change(&["read_headers"]), (vec![], vec![Slot::Http]));
}

#[test]
fn a_legal_hop_passes_the_check_as_it_passes_the_merge() {
    let hop = r#"{"subject_id":"a","subject_type":"user"}"#;
    let chain = |hops: &str| {
        Extensions::parse(&json(&format!(r#"{{"delegation":{{"chain":[{hops}]}}}}"#))).unwrap()
    };
    let (none, one) = (chain(""), chain(hop));
    let may_append = CapabilitySet::from_names(["append_delegation"]).unwrap();
    assert_eq!(validate(Some(&none), Some(&one), may_append), Ok(()));
    assert!(validate(Some(&one), Some(&none), may_append).is_err());
    assert!(validate(Some(&none), Some(&one), CapabilitySet::NONE).is_err());
    let merged = merge(Some(&none), Some(&one), may_append)
        .unwrap()
        .extensions
        .unwrap()
        .into_owned();
    assert_eq!(merged.delegation.unwrap().depth, 1);
}

#[test]
fn a_delegation_changes_by_hops_only_and_keeps_its_origin() {
    let extensions = |hops: &[&str], origin: &str| {
        let hop = |id: &&str| format!(r#"{{"subject_id":"{id}","subject_type":"user"}}"#);
        let chain: Vec<String> = hops.iter().map(hop).collect();
        let text = format!(
            r#"{{"delegation":{{"chain":[{}],"depth":{},"origin_subject_id":"{origin}"}}}}"#,
            chain.join(","),
            hops.len()
        );
        Extensions::parse(&json(&text)).unwrap()
    };
    let may_append = CapabilitySet::from_names(["append_delegation"]).unwrap();
    let before = extensions(&["alice"], "alice");
    let refused = |after: &Extensions| {
        let checked = validate(Some(&before), Some(after), may_append);
        checked.err().map(|violation| violation.reason)
    };
    assert_eq!(refused(&extensions(&["alice", "bob"], "alice")), None);
    for after in [
        extensions(&["alice"], "mallory"),
        extensions(&["alice", "bob"], "mallory"),
    ] {
        let reason = refused(&after);
        assert_eq!(reason, Some(ViolationReason::DelegationRewritten));
    }
}

#[test]
fn unknown_slots_are_kept_and_hidden() {
    let text = r#"{"raw_credentials":{"token":"s3cret"},"custom":{}}"#;
    let extensions = Extensions::parse(&json(text)).unwrap();
    assert_eq!(extensions.to_json(), json(text));
    assert_eq!(
        filter(Some(&extensions), CapabilitySet::all())
            .unwrap()
            .to_json(),
        json(r#"{"custom":{}}"#)
    );
}

#[test]
fn integers_are_integers_by_value() {
    let size = |size: &str| {
        let body = format!(
            r#"{{"resource_request_id":"1","uri":"u","resource_type":"file","size_bytes":{size}}}"#
        );
        with_part("tool", "resource", &body).map(|message| {
            views(&message, ExtensionAccess::NONE)
                .next()
                .unwrap()
                .size_bytes()
        })
    };
    for thirteen in ["13", "13.0", "1.3e1"] {
        assert_eq!(size(thirteen), Ok(Some(13)), "{thirteen}");
    }
    for thirteen in [r#""13""#, r#"" +13 ""#, r#""13.00""#] {
        assert_eq!(size(thirteen), Ok(Some(13)), "{thirteen}");
    }
    for none in [
        "1.5",
        "1e300",
        "9223372036854775808",
        "1e16",
        r#""""#,
        r#""1.5""#,
        r#""a""#,
        r#""1e1""#,
    ] {
        assert!(
            matches!(size(none), Err(CmfError::NotAnInteger { .. })),
            "{none}"
        );
    }
}

#[test]
fn booleans_may_be_spelled_by_the_usual_words() {
    let failed = |is_error: &str| {
        let body = format!(r#"{{"tool_call_id":"1","tool_name":"n","is_error":{is_error}}}"#);
        with_part("tool", "tool_result", &body).map(|message| match &message.content[0] {
            ContentPart::ToolResult(result) => result.is_error,
            _ => panic!("no result"),
        })
    };
    for yes in [
        "true",
        "1",
        "1.0",
        r#""true""#,
        r#""Yes""#,
        r#""ON""#,
        r#""1""#,
    ] {
        assert_eq!(failed(yes), Ok(true), "{yes}");
    }
    for no in ["false", "0", r#""f""#, r#""off""#] {
        assert_eq!(failed(no), Ok(false), "{no}");
    }
    for neither in ["null", "2", r#""""#, r#""maybe""#, r#"" true""#, "[]"] {
        assert!(
            matches!(failed(neither), Err(CmfError::WrongType { .. })),
            "{neither}"
        );
    }
}

#[test]
fn errors_have_the_position_the_expected_and_the_actual_value() {
    for (text, told) in [
        (
            r#"{"content":[]}"#,
            "$.role: expected string, found nothing",
        ),
        (
            r#"{"role":"robot"}"#,
            "$.role: expected one of system, developer, user, assistant, tool, found `robot`",
        ),
        (
            r#"{"role":"user","content":"hello"}"#,
            "$.content: expected array, found string",
        ),
        (
            r#"{"role":"user","content":[{"content_type":"text","text":null}]}"#,
            "$.content[0].text: expected string, found null",
        ),
        (
            r#"{"role":"user","a b":1}"#,
            r#"$["a b"]: expected only schema_version, role, content, channel"#,
        ),
    ] {
        assert_eq!(
            CmfMessage::parse(&json(text)).unwrap_err().to_string(),
            told
        );
    }
}
