//! Properties of all messages and extensions: parsing inverts writing, and a consumer's output
//! changes only what the consumer may change.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::extensions::*;
use super::*;
use crate::json::{Json, Number, Object};

fn text() -> impl Strategy<Value = String> {
    "[a-cé\"\\\\/\n ]{0,5}"
}

fn any_json() -> impl Strategy<Value = Json<'static>> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::from),
        any::<f64>()
            .prop_filter_map("finite", Number::from_f64)
            .prop_map(Json::Number),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Json::Array),
            btree_map(text(), inner, 0..3)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Object<'static>> {
    btree_map(text(), any_json(), 0..3).prop_map(|members| members.into_iter().collect())
}

fn media() -> impl Strategy<Value = ContentPart> {
    let source_type = select(SourceType::ALL);
    (
        source_type,
        text(),
        option::of(text()),
        option::of(any::<i64>()),
        0..4usize,
    )
        .prop_map(
            |(source_type, data, media_type, duration_ms, kind)| match kind {
                0 => ContentPart::Image(CmfImageSource {
                    source_type,
                    data,
                    media_type,
                }),
                1 => ContentPart::Video(VideoSource {
                    source_type,
                    data,
                    media_type,
                    duration_ms,
                }),
                2 => ContentPart::Audio(AudioSource {
                    source_type,
                    data,
                    media_type,
                    duration_ms,
                }),
                _ => ContentPart::Document(DocumentSource {
                    source_type,
                    data,
                    title: media_type.clone(),
                    media_type,
                }),
            },
        )
}

prop_compose! {
    fn resource()(
        ids in (text(), text()), resource_type in select(ResourceType::ALL),
        texts in (option::of(text()), option::of(text()), option::of(text()), option::of(text())),
        content in option::of(text()), blob in option::of(vec(any::<u8>(), 0..5)),
        size_bytes in option::of(any::<i64>()), annotations in object(),
    ) -> ContentPart {
        let blob = blob.filter(|_| content.is_none()).map(Blob);
        let (name, description, mime_type, version) = texts;
        let (resource_request_id, uri) = ids;
        ContentPart::Resource(Box::new(Resource {
            resource_request_id, uri, name, description, resource_type, content, blob, mime_type, size_bytes, annotations,
            version,
        }))
    }
}

prop_compose! {
    fn reference()(
        ids in (text(), text()), resource_type in select(ResourceType::ALL),
        texts in (option::of(text()), option::of(text())), range in (option::of(any::<i64>()), option::of(any::<i64>())),
    ) -> ContentPart {
        let (resource_request_id, uri) = ids;
        let (name, selector) = texts;
        let (range_start, range_end) = match range {
            (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
            open => open,
        };
        ContentPart::ResourceRef(ResourceReference { resource_request_id, uri, name, resource_type, range_start, range_end, selector })
    }
}

fn flat_part() -> impl Strategy<Value = ContentPart> {
    prop_oneof![
        text().prop_map(ContentPart::Text),
        text().prop_map(ContentPart::Thinking),
        (text(), text(), object(), option::of(text())).prop_map(
            |(tool_call_id, name, arguments, namespace)| {
                ContentPart::ToolCall(ToolCall {
                    tool_call_id,
                    name,
                    arguments,
                    namespace,
                })
            }
        ),
        (text(), text(), any_json(), any::<bool>()).prop_map(
            |(tool_call_id, tool_name, content, is_error)| {
                let content = Some(content).filter(|content| !content.is_null());
                ContentPart::ToolResult(ToolResult {
                    tool_call_id,
                    tool_name,
                    content,
                    is_error,
                })
            }
        ),
        resource(),
        reference(),
        (text(), text(), object(), option::of(text())).prop_map(
            |(prompt_request_id, name, arguments, server_id)| {
                ContentPart::PromptRequest(PromptRequest {
                    prompt_request_id,
                    name,
                    arguments,
                    server_id,
                })
            }
        ),
        media(),
    ]
}

fn message_of(part: impl Strategy<Value = ContentPart>) -> impl Strategy<Value = CmfMessage> {
    (
        text(),
        select(CmfRole::ALL),
        vec(part, 0..3),
        option::of(select(Channel::ALL)),
    )
        .prop_map(|(schema_version, role, content, channel)| CmfMessage {
            schema_version,
            role,
            content,
            channel,
        })
}

fn part() -> impl Strategy<Value = ContentPart> {
    flat_part().boxed().prop_recursive(2, 8, 2, |inner| {
        (
            text(),
            text(),
            vec(message_of(inner), 0..3),
            option::of(text()),
            any::<bool>(),
            option::of(text()),
        )
            .prop_map(
                |(prompt_request_id, prompt_name, messages, content, is_error, error_message)| {
                    ContentPart::PromptResult(PromptResult {
                        prompt_request_id,
                        prompt_name,
                        messages,
                        content,
                        is_error,
                        error_message,
                    })
                },
            )
    })
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    btree_set("[a-d]", 0..3)
}

prop_compose! {
    fn subject()(
        id in "[ab]", subject_type in select(SubjectType::ALL), roles in names(), permissions in names(), teams in names(),
        claims in btree_map("[ab]", text(), 0..2),
    ) -> Subject {
        Subject { id, subject_type, roles, permissions, teams, claims }
    }
}

prop_compose! {
    fn security()(
        labels in names(), classification in option::of("[ab]"), subject in option::of(subject()),
        objects in btree_map("[ab]", any::<bool>(), 0..2), data in btree_map("[ab]", option::of(names()), 0..2),
    ) -> SecurityExtension {
        let profile = |(entity, external)| {
            let trust_domain = Some("external".to_owned()).filter(|_| external);
            (entity, ObjectSecurityProfile { trust_domain, ..Default::default() })
        };
        let policy = |(entity, allowed): (String, Option<BTreeSet<String>>)| {
            let retention = allowed.as_ref().map(|_| RetentionPolicy::default());
            let allowed_actions = allowed.map(|names| names.into_iter().collect());
            (entity, DataPolicy { allowed_actions, retention, ..Default::default() })
        };
        SecurityExtension {
            labels: labels.into_iter().collect(),
            classification,
            subject,
            objects: objects.into_iter().map(profile).collect(),
            data: data.into_iter().map(policy).collect::<BTreeMap<_, _>>(),
        }
    }
}

fn delegation() -> impl Strategy<Value = DelegationExtension> {
    let hop = ("[ab]", 0..3i64).prop_map(|(subject_id, second)| DelegationHop {
        subject_id,
        subject_type: "user".to_owned(),
        audience: None,
        scopes_granted: vec![],
        timestamp: DateTime::from_timestamp(second, 0).map(|time| time.fixed_offset()),
        ttl_seconds: None,
        strategy: None,
        from_cache: false,
    });
    vec(hop, 0..3).prop_map(|hops| DelegationExtension::default().with_hops(&hops))
}

fn mcp() -> impl Strategy<Value = McpExtension> {
    let tool = |name: String| {
        McpEntity::Tool(ToolMetadata {
            name,
            title: None,
            description: None,
            input_schema: Some(Object::new()),
            output_schema: None,
            server_id: None,
            namespace: None,
            annotations: Object::new(),
        })
    };
    let prompt = |name: String| {
        McpEntity::Prompt(PromptMetadata {
            name,
            description: None,
            arguments: Some(vec![Object::new()]),
            server_id: None,
            annotations: Object::new(),
        })
    };
    let resource = |uri: String| {
        McpEntity::Resource(ResourceMetadata {
            uri,
            name: None,
            description: None,
            mime_type: None,
            server_id: None,
            annotations: Object::new(),
        })
    };
    let entity = prop_oneof![
        "[ab]".prop_map(tool),
        "[ab]".prop_map(prompt),
        "[ab]".prop_map(resource)
    ];
    option::of(entity).prop_map(|entity| McpExtension { entity })
}

prop_compose! {
    /// Few values per slot, so that two draws often agree.
    fn extensions()(
        environment in option::of("[ab]"), agent in option::of(("[ab]", option::of(message_of(flat_part())))),
        headers in option::of(btree_map("[ab]", "[ab]", 0..2)), security in option::of(security()),
        delegation in option::of(delegation()), mcp in option::of(mcp()), stop in option::of(select(CmfStopReason::ALL)),
        source in option::of("[ab]"), custom in option::of(object()), unknown in any::<bool>(), tags in option::of(names()),
    ) -> Extensions {
        let conversation = |message| ConversationContext { history: vec![message], ..Default::default() };
        Extensions {
            request: environment.map(|name| RequestExtension { environment: Some(name), ..Default::default() }),
            agent: agent.map(|(id, message)| AgentExtension {
                agent_id: Some(id), turn: Some(0), conversation: message.map(conversation), ..Default::default()
            }),
            http: headers.map(|headers| HttpExtension { headers: headers.into_iter().collect() }),
            security,
            delegation,
            mcp,
            completion: stop.map(|stop| CompletionExtension {
                stop_reason: Some(stop),
                tokens: Some(CmfTokenUsage { input_tokens: 1, output_tokens: 2, total_tokens: 3 }),
                ..Default::default()
            }),
            provenance: source.clone().map(|source| ProvenanceExtension { source: Some(source), ..Default::default() }),
            llm: source.clone().map(|model| LlmExtension { model_id: Some(model), ..Default::default() }),
            framework: source.map(|name| FrameworkExtension { framework: Some(name), ..Default::default() }),
            meta: tags.map(|tags| MetaExtension { tags, ..Default::default() }),
            custom,
            unknown: unknown.then_some(("raw_credentials", Json::Bool(true))).into_iter().collect(),
        }
    }
}

fn capabilities() -> impl Strategy<Value = CapabilitySet> {
    btree_set(select(Capability::ALL), 0..6).prop_map(|names| names.into_iter().collect())
}

/// Returns the result of `merge`, or the original if it rejects the output.
fn merged(original: &Extensions, output: &Extensions, capabilities: CapabilitySet) -> Extensions {
    match merge(Some(original), Some(output), capabilities) {
        Ok(merged) => merged.extensions.unwrap().into_owned(),
        Err(_) => original.clone(),
    }
}

proptest! {
    #[test]
    fn reading_gives_back_the_message_that_was_written(message in message_of(part())) {
        let text = message.to_json().to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(CmfMessage::parse(&json), Ok(message));
    }

    #[test]
    fn reading_gives_back_the_extensions_that_were_written(extensions in extensions()) {
        let text = extensions.to_json().to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(Extensions::parse(&json), Ok(extensions));
    }

    #[test]
    fn any_json_is_read_or_refused(json in any_json()) {
        let _ = (CmfMessage::parse(&json), Extensions::parse(&json), ContentPart::parse(&json), Envelope::parse(&json));
    }

    #[test]
    fn what_may_not_change_does_not(original in extensions(), output in extensions(), capabilities in capabilities()) {
        let after = merged(&original, &output, capabilities);
        for slot in Slot::ALL {
            let needed = slot.write_capability();
            if slot.tier() == MutabilityTier::Immutable || needed.is_some_and(|needed| !capabilities.contains(needed)) {
                prop_assert!(!slot.differs(Some(&original), Some(&after)), "{}", slot);
            }
        }
        prop_assert_eq!(validate(Some(&original), Some(&after), capabilities), Ok(()));
    }

    #[test]
    fn labels_and_the_chain_only_grow(original in extensions(), output in extensions(), capabilities in capabilities()) {
        let after = merged(&original, &output, capabilities);
        let labels = |extensions: &Extensions| extensions.security.as_ref().map(|security| security.labels.clone());
        prop_assert!(labels(&original).unwrap_or_default().is_subset(&labels(&after).unwrap_or_default()));
        let chain = |extensions: &Extensions| extensions.delegation.clone().unwrap_or_default();
        prop_assert!(chain(&original).added_by(&chain(&after)).is_ok());
    }

    #[test]
    fn merging_twice_is_merging_once(original in extensions(), output in extensions(), capabilities in capabilities()) {
        let once = merged(&original, &output, capabilities);
        let twice = merge(Some(&once), Some(&output), capabilities);
        if merge(Some(&original), Some(&output), capabilities).is_ok() {
            let twice = twice.unwrap();
            prop_assert!(twice.is_unchanged(), "{:?}", twice.accepted);
        }
    }

    #[test]
    fn merging_an_unchanged_view_changes_nothing(original in extensions(), capabilities in capabilities()) {
        let shown = filter(Some(&original), capabilities);
        let merged = merge(Some(&original), shown.as_ref(), capabilities).unwrap();
        prop_assert!(merged.is_unchanged() && merged.ignored.is_empty(), "{:?} {:?}", merged.accepted, merged.ignored);
        prop_assert!(matches!(merged.extensions, Some(std::borrow::Cow::Borrowed(kept)) if std::ptr::eq(kept, &original)));
    }

    #[test]
    fn a_change_that_is_not_merged_is_reported(original in extensions(), output in extensions(), capabilities in capabilities()) {
        if let Ok(merged) = merge(Some(&original), Some(&output), capabilities) {
            let shown = filter(Some(&original), capabilities).unwrap();
            let changed = output.request.is_some() && output.request != shown.request;
            prop_assert_eq!(merged.ignored.contains(&Slot::Request), changed);
        }
    }

    #[test]
    fn filtering_twice_is_filtering_once(extensions in extensions(), capabilities in capabilities()) {
        let once = filter(Some(&extensions), capabilities);
        prop_assert_eq!(&filter(once.as_ref(), capabilities), &once);
    }

    #[test]
    fn more_capabilities_never_show_less(extensions in extensions(), some in capabilities(), more in capabilities()) {
        let both = Capability::ALL.iter().copied().filter(|one| some.contains(*one) || more.contains(*one)).collect();
        let (few, many) = (ExtensionAccess::new(Some(&extensions), some), ExtensionAccess::new(Some(&extensions), both));
        prop_assert!(few.labels().is_subset(many.labels()));
        prop_assert!(few.http().is_none() || few.http() == many.http());
        prop_assert!(few.agent().is_none() || few.agent() == many.agent());
        prop_assert!(few.subject().is_none_or(|few| many.subject().is_some_and(|many| few.roles.is_subset(many.roles))));
        prop_assert!(few.objects().is_empty() || few.objects() == many.objects());
    }

    #[test]
    fn one_view_for_each_part_and_each_way_once(message in message_of(part())) {
        let flat: Vec<_> = views(&message, ExtensionAccess::NONE).collect();
        prop_assert_eq!(flat.len(), message.content.len());
        prop_assert!(flat.iter().all(|view| view.is_pre() != view.is_post()));
        prop_assert!(flat.iter().zip(&message.content).all(|(view, part)| std::ptr::eq(view.part(), part)));
    }
}
