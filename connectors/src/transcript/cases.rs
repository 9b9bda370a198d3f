//! Exchanges with what they say, as data in `tests/cases/wire`: each is read, comes back equal, and
//! becomes the grains that it should.

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::{ContentBlock, MessageMetadata, Timestamp};

use super::grains::{GrainCounts, GrainOutput, read_grains};
use super::read::{ReadOptions, Subject, read_exchanges};
use super::traffic::{Reading, Sight, reading};
use crate::wire::exchange::Exchange;
use crate::wire::round_trip::{RoundTripOutcome, check};

/// What is checked of one message.
struct Told {
    sight: Sight,
    role: &'static str,
    blocks: Vec<String>,
    metadata: MessageMetadata<'static>,
    usage: Option<TokenUsage>,
}

fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => format!("text: {text}"),
        ContentBlock::Thinking {
            text,
            signature: Some(signature),
        } => format!("thinking: {text} ({signature})"),
        ContentBlock::Thinking { text, .. } => format!("thinking: {text}"),
        ContentBlock::RedactedThinking { data } => format!("redacted: {data}"),
        ContentBlock::ToolUse(call) => {
            format!("call {} {}", call.name, Json::Object(call.input.reborrow()))
        }
        ContentBlock::Unknown(unknown) => format!("unknown {}", unknown.json),
        other => other.tag().to_owned(),
    }
}

fn messages(line: &str) -> Vec<Told> {
    let mut told = Vec::new();
    let make = |subject: Subject<'_>| match subject {
        Subject::Opaque(opaque) => Err(opaque.reason.to_owned()),
        Subject::Message(node, _) => Ok(Told {
            sight: node.sight,
            role: node.message.role.as_str(),
            blocks: node.message.content.iter().map(shown).collect(),
            metadata: node.message.metadata.into_owned(),
            usage: node.usage,
        }),
    };
    read_exchanges(
        line.as_bytes(),
        ReadOptions::default(),
        &make,
        &mut |_, found| match found {
            super::read::Found::Made(made) => told.extend(made),
            super::read::Found::Fault(fault) => panic!("{fault}"),
        },
    );
    told.into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|reason| panic!("opaque, {reason}: {line}"))
}

/// The Actions of a line's calls, and what was counted.
fn calls(line: &str) -> (Vec<Json<'static>>, GrainCounts) {
    let mut calls = Vec::new();
    let counts = read_grains(
        line.as_bytes(),
        ReadOptions::default(),
        &mut |output| match output {
            GrainOutput::Grain(_, grain) => {
                let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
                let grain = Grain::decode(&payload, Mode::Strict).unwrap().to_json();
                if grain.get("action_phase").and_then(Json::as_str) == Some("call") {
                    calls.push(grain);
                }
            }
            other => panic!("{other:?}"),
        },
    );
    (calls, counts)
}

fn texts(json: &Json) -> Vec<String> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

fn check_case(case: &Json) {
    let name = case.get("name").and_then(Json::as_str).unwrap();
    let (json, expect) = (case.get("line").unwrap(), case.get("expect").unwrap());
    let line = json.to_string();
    let exchange = Exchange::from_json_or_detect(json, None).unwrap();
    let Reading::Known(adapter) = reading(&exchange) else {
        panic!("{name}: opaque")
    };
    assert_eq!(
        check(adapter, &exchange).outcome(),
        RoundTripOutcome::Equal,
        "{name}: by {}",
        adapter.key()
    );
    let told = messages(&line);
    let last = told.last().unwrap_or_else(|| panic!("{name}: no message"));
    if let Some(blocks) = expect.get("blocks") {
        assert_eq!(last.blocks, texts(blocks), "{name}");
    }
    if let Some(history) = expect.get("history") {
        let sent = told.iter().filter(|told| told.sight == Sight::Resent);
        let sent: Vec<_> = sent
            .map(|told| format!("{}: {}", told.role, told.blocks.join(" | ")))
            .collect();
        assert_eq!(sent, texts(history), "{name}");
    }
    if let Some(provider) = expect.get("provider") {
        assert_eq!(
            last.metadata.provider.as_deref(),
            provider.as_str(),
            "{name}"
        );
        assert_eq!(
            last.metadata.model.as_deref(),
            expect.get("model").and_then(Json::as_str),
            "{name}"
        );
    }
    if let Some(status) = expect.get("status") {
        assert_eq!(
            Some(last.metadata.status.as_str()),
            status.as_str(),
            "{name}"
        );
    }
    if let Some(usage) = expect.get("usage") {
        let expected: Vec<_> = usage
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_u64().unwrap())
            .collect();
        let usage = last.usage.unwrap_or_else(|| panic!("{name}: no usage"));
        let TokenUsage {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            cache_creation_input_tokens,
        } = usage;
        assert_eq!(
            [
                input_tokens,
                output_tokens,
                cached_input_tokens,
                cache_creation_input_tokens
            ][..],
            expected,
            "{name}"
        );
    }
    if let Some(raw) = expect.get("raw_arguments").and_then(Json::as_u64) {
        let (calls, counts) = calls(&line);
        assert_eq!(counts.raw_arguments, raw, "{name}");
        let inputs: Vec<_> = calls
            .iter()
            .map(|call| format!("call calculate {}", call.get("input").unwrap()))
            .collect();
        assert_eq!(
            inputs, last.blocks,
            "{name}: the input of the Action is that of the message"
        );
        let flag = |call: &Json| {
            call.get("context")
                .unwrap()
                .get("msg:raw_arguments")
                .is_some()
        };
        assert_eq!(
            calls.iter().filter(|call| flag(call)).count() as u64,
            raw,
            "{name}"
        );
    }
}

fn check_all(text: &str) {
    let cases = Json::parse(text.as_bytes()).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(!cases.is_empty());
    let failed: Vec<_> = cases
        .iter()
        .filter_map(|case| std::panic::catch_unwind(|| check_case(case)).err())
        .map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

#[test]
fn arguments_that_are_no_object_are_kept_in_every_dialect() {
    check_all(include_str!("../../../tests/cases/wire/arguments.json"));
}

#[test]
fn streams_come_to_whole_blocks() {
    check_all(include_str!("../../../tests/cases/wire/streams.json"));
}

#[test]
fn thoughts_are_read_from_every_form_of_openais_dialect_and_empty_calls_are_none() {
    check_all(include_str!("../../../tests/cases/wire/reasoning.json"));
}

#[test]
fn an_answer_is_of_the_provider_that_its_line_address_or_body_tells() {
    check_all(include_str!("../../../tests/cases/wire/providers.json"));
}

#[test]
fn every_token_is_counted_in_one_class_whatever_the_dialect() {
    check_all(include_str!("../../../tests/cases/wire/usage.json"));
}

/// A line with one body that no form explains, and one that is read.
#[test]
fn an_unreadable_body_is_kept_beside_the_readable_one() {
    let line = r#"{"provider":"openai","endpoint":"chat","request_text":"--boundary--","response":{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"60"},"finish_reason":"stop"}]}}"#;
    let mut told = Vec::new();
    let make = |subject: Subject<'_>| match subject {
        Subject::Opaque(opaque) => opaque.json.to_string(),
        Subject::Message(node, _) => node.message.content.iter().map(shown).collect(),
    };
    let options = ReadOptions {
        fallback: Timestamp::from_seconds(5),
        ..ReadOptions::default()
    };
    read_exchanges(
        line.as_bytes(),
        options,
        &make,
        &mut |_, found| match found {
            super::read::Found::Made(made) => told.extend(made),
            super::read::Found::Fault(fault) => panic!("{fault}"),
        },
    );
    let kept = r#"{"provider":"openai","endpoint":"chat","request_text":"--boundary--"}"#;
    assert_eq!(told, ["text: 60", kept]);
}
