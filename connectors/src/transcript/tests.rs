//! Exchanges with their expected messages, as data in `tests/cases/wire`: each is read, is written
//! back unchanged, and becomes the expected grains.

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::{ContentBlock, MessageMetadata, Timestamp};

use super::exchange::extract::{AdapterMatch, match_adapter};
use super::exchange::item::{ExchangeItem, LineOutcome};
use super::exchange::reader::read_exchanges;
use super::grain_output::{GrainCounts, GrainOutput, grains_of_exchanges};
use super::options::ReadOptions;
use super::sighting_index::SightingKind;
use crate::wire::exchange::Exchange;
use crate::wire::round_trip::{RoundTripOutcome, check};

/// The checked properties of a message.
struct Checked {
    sighting: SightingKind,
    role: &'static str,
    blocks: Vec<String>,
    metadata: MessageMetadata<'static>,
    usage: Option<TokenUsage>,
}

/// Returns a block in the notation of the cases.
fn summary(block: &ContentBlock) -> String {
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

/// Returns the items of `line`, mapped with `map`.
fn items_of<T: Send>(
    line: &str,
    options: ReadOptions<'_>,
    map: impl Fn(ExchangeItem<'_>) -> T + Sync,
) -> Vec<T> {
    let mut found = Vec::new();
    read_exchanges(
        line.as_bytes(),
        options,
        &map,
        &mut |_, outcome| match outcome {
            LineOutcome::Items(items) => found.extend(items),
            LineOutcome::Fault(fault) => panic!("{fault}"),
        },
    );
    found
}

/// Returns the messages of `line`, none of which may be opaque.
fn messages(line: &str) -> Vec<Checked> {
    let map = |item: ExchangeItem<'_>| match item {
        ExchangeItem::Opaque(opaque) => Err(opaque.reason.to_owned()),
        ExchangeItem::Message(message, _) => Ok(Checked {
            sighting: message.sighting,
            role: message.message.role.as_str(),
            blocks: message.message.content.iter().map(summary).collect(),
            metadata: message.message.metadata.into_owned(),
            usage: message.usage,
        }),
    };
    items_of(line, ReadOptions::default(), map)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|reason| panic!("opaque, {reason}: {line}"))
}

/// Returns the actions of the tool calls of `line`, and the counts.
fn tool_calls(line: &str) -> (Vec<Json<'static>>, GrainCounts) {
    let mut calls = Vec::new();
    let counts =
        grains_of_exchanges(
            line.as_bytes(),
            ReadOptions::default(),
            &mut |output| match output {
                GrainOutput::Message(_, grain) => {
                    let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
                    let grain = Grain::decode(&payload, DecodeMode::Strict)
                        .unwrap()
                        .to_json();
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
    let (json, expected) = (case.get("line").unwrap(), case.get("expect").unwrap());
    let line = json.to_string();
    check_written_back(name, json);
    let messages = messages(&line);
    let last = messages
        .last()
        .unwrap_or_else(|| panic!("{name}: no message"));
    if let Some(blocks) = expected.get("blocks") {
        assert_eq!(last.blocks, texts(blocks), "{name}");
    }
    if let Some(history) = expected.get("history") {
        let resent = messages
            .iter()
            .filter(|message| message.sighting == SightingKind::Resent)
            .map(|message| format!("{}: {}", message.role, message.blocks.join(" | ")));
        assert_eq!(resent.collect::<Vec<_>>(), texts(history), "{name}");
    }
    check_metadata(name, last, expected);
    if let Some(usage) = expected.get("usage") {
        check_usage(name, last, usage);
    }
    if let Some(count) = expected.get("raw_arguments").and_then(Json::as_u64) {
        check_raw_arguments(name, last, &line, count);
    }
}

fn check_written_back(name: &str, json: &Json) {
    let exchange = Exchange::from_json_or_detect(json, None).unwrap();
    let AdapterMatch::Matched(adapter) = match_adapter(&exchange) else {
        panic!("{name}: opaque")
    };
    assert_eq!(
        check(adapter, &exchange).outcome(),
        RoundTripOutcome::Equal,
        "{name}: by {}",
        adapter.key()
    );
}

fn check_metadata(name: &str, message: &Checked, expected: &Json) {
    let metadata = &message.metadata;
    if let Some(provider) = expected.get("provider") {
        assert_eq!(metadata.provider.as_deref(), provider.as_str(), "{name}");
        let model = expected.get("model").and_then(Json::as_str);
        assert_eq!(metadata.model.as_deref(), model, "{name}");
    }
    if let Some(status) = expected.get("status") {
        assert_eq!(Some(metadata.status.as_str()), status.as_str(), "{name}");
    }
}

/// `expected` has the tokens of the input, the output, cache reads and cache writes.
fn check_usage(name: &str, message: &Checked, expected: &Json) {
    let expected: Vec<_> = expected
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_u64().unwrap())
        .collect();
    let usage = message.usage.unwrap_or_else(|| panic!("{name}: no usage"));
    let counts = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.cache_creation_input_tokens,
    ];
    assert_eq!(counts[..], expected, "{name}");
}

/// Checks that `count` calls have raw arguments, and that their actions have the same input as the
/// message.
fn check_raw_arguments(name: &str, message: &Checked, line: &str, count: u64) {
    let (calls, counts) = tool_calls(line);
    assert_eq!(counts.raw_arguments, count, "{name}");
    let inputs: Vec<_> = calls
        .iter()
        .map(|call| format!("call calculate {}", call.get("input").unwrap()))
        .collect();
    assert_eq!(
        inputs, message.blocks,
        "{name}: the input of the Action is that of the message"
    );
    let is_marked = |call: &&Json| {
        call.get("context")
            .unwrap()
            .get("msg:raw_arguments")
            .is_some()
    };
    assert_eq!(
        calls.iter().filter(is_marked).count() as u64,
        count,
        "{name}"
    );
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
fn raw_arguments_are_kept_in_every_dialect() {
    check_all(include_str!("../../../tests/cases/wire/arguments.json"));
}

#[test]
fn streams_are_folded_into_blocks() {
    check_all(include_str!("../../../tests/cases/wire/streams.json"));
}

#[test]
fn reasoning_is_read_from_every_form_of_openai_and_empty_calls_are_ignored() {
    check_all(include_str!("../../../tests/cases/wire/reasoning.json"));
}

#[test]
fn the_provider_of_an_answer_is_from_its_line_its_address_or_its_body() {
    check_all(include_str!("../../../tests/cases/wire/providers.json"));
}

#[test]
fn every_token_is_counted_in_one_class_in_every_dialect() {
    check_all(include_str!("../../../tests/cases/wire/usage.json"));
}

/// One body has no known form, the other is readable.
#[test]
fn an_unreadable_body_is_kept_as_an_opaque_item() {
    let line = r#"{"provider":"openai","endpoint":"chat","request_text":"--boundary--","response":{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"60"},"finish_reason":"stop"}]}}"#;
    let options = ReadOptions {
        fallback: Timestamp::from_seconds(5),
        ..ReadOptions::default()
    };
    let items = items_of(line, options, |item| match item {
        ExchangeItem::Opaque(opaque) => opaque.json.to_string(),
        ExchangeItem::Message(message, _) => message.message.content.iter().map(summary).collect(),
    });
    let kept = r#"{"provider":"openai","endpoint":"chat","request_text":"--boundary--"}"#;
    assert_eq!(items, ["text: 60", kept]);
}
