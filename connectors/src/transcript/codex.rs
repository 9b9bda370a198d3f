//! Sessions of Codex: rollout files, and the events of `codex exec --json`.
//!
//! A rollout's `response_item` lines are items of the Responses dialect; of `event_msg` lines only
//! the counts of tokens say what isn't said there already. Older rollouts have the items themselves
//! as lines. The events of an execution are items of their own kind, made into those of the
//! dialect.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::{MessageStatus, Role, Timestamp};

use super::line::{FaultCode, Line, lines};
use super::said::{Messages, Said};
use crate::wire::body_codec::read_request;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::json_access::{count, items, object, present, text};
use crate::wire::{adapter::Adapter, registry};

/// The model of a session is told apart from its items, turn by turn.
#[derive(Default)]
struct Session {
    id: Option<String>,
    model: Option<String>,
    items: Vec<Item>,
    /// What a turn took, after so many items.
    usage: Vec<(usize, TokenUsage)>,
    /// What all turns took, as it was told last.
    total: Option<Json<'static>>,
}

/// An item of the Responses dialect.
struct Item {
    json: Json<'static>,
    line: Line,
    time: Option<Timestamp>,
    /// The model of its turn.
    model: Option<String>,
}

/// The item that stands for the failure of a turn.
const FAILED: &str = "turn.failed";

/// Types of lines of rollouts before these had envelopes.
pub(super) const OLD_ITEMS: [&str; 7] = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
];

/// The messages of a session file. Lines without a time were made at `time`.
pub fn session(bytes: &[u8], time: Timestamp) -> Messages {
    let mut session = Session::default();
    let mut faults = Vec::new();
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) if json.as_object().is_some() => session.take(&json, line),
            Ok(_) => faults.push(line.fault(FaultCode::Shape, "not an object")),
            Err(fault) => faults.push(fault),
        }
    }
    (session.messages(time), faults)
}

impl Session {
    fn take(&mut self, json: &Json, line: Line) {
        let time = text(json, "timestamp").and_then(|time| Timestamp::parse(&time));
        let payload = json.get("payload").unwrap_or(&Json::Null);
        match json.get("type").and_then(Json::as_str).unwrap_or_default() {
            "session_meta" => self.id = text(payload, "id").map(|id| id.into_owned()),
            "thread.started" => self.id = text(json, "thread_id").map(|id| id.into_owned()),
            "turn_context" => self.model = text(payload, "model").map(|model| model.into_owned()),
            "response_item" => self.push(payload, line, time),
            "event_msg" if text(payload, "type").as_deref() == Some("token_count") => {
                self.count(payload)
            }
            "item.completed" => {
                let made = json.get("item").map(executed).unwrap_or_default();
                made.iter()
                    .for_each(|item| self.push(item, line.clone(), time));
            }
            FAILED => self.push(json, line, time),
            "turn.completed" => {
                if let Some(usage) = json.get("usage") {
                    self.usage.push((self.items.len(), token_usage(usage)));
                }
            }
            // What rollouts looked like before they had envelopes.
            kind if OLD_ITEMS.contains(&kind) => self.push(json, line, time),
            "" if json.get("instructions").is_some() => {
                self.id = text(json, "id").map(|id| id.into_owned())
            }
            _ => {}
        }
    }

    fn push(&mut self, item: &Json, line: Line, time: Option<Timestamp>) {
        self.items.push(Item {
            json: item.clone().into_owned(),
            line,
            time,
            model: self.model.clone(),
        });
    }

    /// The counts of the last answer. They are told again whenever something else about limits is
    /// news.
    fn count(&mut self, payload: &Json) {
        let info = payload.get("info").unwrap_or(&Json::Null);
        let total = info.get("total_token_usage").cloned().map(Json::into_owned);
        let again = total.is_some() && total == self.total;
        if let Some(last) = info.get("last_token_usage").filter(|_| !again) {
            self.usage.push((self.items.len(), token_usage(last)));
        }
        self.total = total.or(self.total.take());
    }

    fn messages(self, time: Timestamp) -> Vec<Said> {
        let adapter: &'static dyn Adapter = &registry::OPENAI_RESPONSES;
        let mut conversation = Conversation::new(self.id.as_deref().unwrap_or_default());
        let (mut said, mut parent): (Vec<Said>, _) = (Vec::new(), None);
        let mut starts = Vec::new();
        for (start, end) in runs(&self.items) {
            let run = &self.items[start..end];
            let Some(first) = run.first() else { continue };
            let model = first.model.as_ref().or(self.model.as_ref());
            let failed = run
                .iter()
                .any(|item| text(&item.json, "type").as_deref() == Some(FAILED));
            let context = ReadContext {
                session: self.id.as_deref(),
                ..ReadContext::at(first.time.unwrap_or(time))
            };
            let body = object(
                "input",
                run.iter()
                    .map(|item| item.json.reborrow())
                    .collect::<Vec<_>>(),
            );
            let body = Json::Object(body);
            let Ok(read) = read_request(adapter, &body, &mut conversation, &context) else {
                continue;
            };
            for (message, position) in read.request.messages.into_iter().zip(read.positions) {
                let mut message = message.into_owned();
                if message.role == Role::Assistant {
                    message.metadata.provider = Some("openai".into());
                    message.metadata.model = model.map(|model| format!("openai:{model}").into());
                }
                if failed {
                    message.metadata.status = MessageStatus::Error;
                }
                let stop_reason = failed.then_some(StopReason::Error);
                said.push(Said {
                    position,
                    parent,
                    message,
                    stop_reason,
                    usage: None,
                    line: first.line.clone(),
                });
                starts.push(start);
                parent = Some(position);
            }
        }
        for (after, usage) in self.usage {
            let told = said
                .iter_mut()
                .zip(&starts)
                .rev()
                .find(|(said, start)| **start < after && said.message.role == Role::Assistant);
            if let Some((said, _)) = told {
                said.usage = Some(said.usage.map_or(usage, |known| sum(known, usage)));
            }
        }
        said
    }
}

/// What one answer took after the other: a model may be asked twice before anyone else says
/// something.
fn sum(one: TokenUsage, two: TokenUsage) -> TokenUsage {
    TokenUsage {
        input_tokens: one.input_tokens.saturating_add(two.input_tokens),
        output_tokens: one.output_tokens.saturating_add(two.output_tokens),
        cached_input_tokens: one
            .cached_input_tokens
            .saturating_add(two.cached_input_tokens),
        cache_creation_input_tokens: one
            .cache_creation_input_tokens
            .saturating_add(two.cache_creation_input_tokens),
    }
}

/// Runs of items that are read together: what one model made in a row, everything else alone.
fn runs(items: &[Item]) -> Vec<(usize, usize)> {
    let made = |item: &Item| {
        let role = item.json.get("role").and_then(Json::as_str);
        let kind = item
            .json
            .get("type")
            .and_then(Json::as_str)
            .unwrap_or("message");
        !kind.ends_with("_output") && (kind != "message" || role == Some("assistant"))
    };
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| items.get(before));
        let goes_on =
            made(item) && before.is_some_and(|before| made(before) && before.model == item.model);
        match runs.last_mut().filter(|_| goes_on) {
            Some((_, end)) => *end = at + 1,
            None => runs.push((at, at + 1)),
        }
    }
    runs
}

/// An item of an execution as items of the dialect.
fn executed(item: &Json) -> Vec<Json<'static>> {
    let id = text(item, "id").unwrap_or_default().into_owned();
    let said = || text(item, "text").unwrap_or_default().into_owned();
    match item.get("type").and_then(Json::as_str).unwrap_or_default() {
        "agent_message" => {
            let mut part = object("type", "output_text");
            part.insert("text", said());
            let mut message = object("type", "message");
            message.insert("role", "assistant");
            message.insert("content", vec![Json::Object(part)]);
            vec![Json::Object(message)]
        }
        "reasoning" => {
            let mut part = object("type", "summary_text");
            part.insert("text", said());
            let mut thought = object("type", "reasoning");
            thought.insert("summary", vec![Json::Object(part)]);
            vec![Json::Object(thought)]
        }
        "command_execution" => {
            let command = object(
                "command",
                item.get("command")
                    .cloned()
                    .unwrap_or_default()
                    .into_owned(),
            );
            let output = text(item, "aggregated_output")
                .unwrap_or_default()
                .into_owned();
            let code = item.get("exit_code").and_then(Json::as_i64).unwrap_or(0);
            call(
                &id,
                "shell",
                Json::Object(command).to_string(),
                (output, code != 0 || has_failed(item)),
            )
        }
        "mcp_tool_call" => {
            let name = text(item, "tool").unwrap_or_default().into_owned();
            let arguments = item
                .get("arguments")
                .filter(|arguments| !arguments.is_null());
            let arguments = match arguments {
                Some(Json::String(text)) => text.clone().into_owned(),
                Some(value) => value.to_string(),
                None => "{}".to_owned(),
            };
            let result = item.get("result").unwrap_or(&Json::Null);
            let error = present(item, "error");
            let texts = items(result, "content")
                .iter()
                .chain(error)
                .filter_map(|part| {
                    let said = text(part, "text").or_else(|| text(part, "message"));
                    said.or_else(|| part.as_str().map(Into::into))
                });
            let output = texts.collect::<Vec<_>>().join("\n");
            call(
                &id,
                &name,
                arguments,
                (output, error.is_some() || has_failed(item)),
            )
        }
        _ => vec![item.clone().into_owned()],
    }
}

fn has_failed(item: &Json) -> bool {
    text(item, "status").as_deref() == Some("failed")
}

/// A call and what it brought, which says whether it failed.
fn call(
    id: &str,
    name: &str,
    arguments: String,
    (output, failed): (String, bool),
) -> Vec<Json<'static>> {
    let mut call = object("type", "function_call");
    call.insert("call_id", id.to_owned());
    call.insert("name", name.to_owned());
    call.insert("arguments", arguments);
    let mut result = object("type", "function_call_output");
    result.insert("call_id", id.to_owned());
    result.insert("output", output);
    if failed {
        result.insert("status", "failed");
    }
    vec![Json::Object(call), Json::Object(result)]
}

fn token_usage(json: &Json) -> TokenUsage {
    let [prompt, cached, output, total] = [
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "total_tokens",
    ]
    .map(|key| count(json, key));
    PromptCount {
        prompt,
        cached,
        written: 0,
        output,
        total,
    }
    .usage()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::ContentBlock;

    use super::*;

    fn roles(text: &str) -> Vec<(Role, usize)> {
        let (said, faults) = session(text.as_bytes(), Timestamp::from_seconds(0));
        assert!(faults.is_empty());
        assert!(
            said.windows(2)
                .all(|pair| pair[1].parent == Some(pair[0].position))
        );
        said.iter()
            .map(|said| (said.message.role, said.message.content.len()))
            .collect()
    }

    #[test]
    fn a_rollout_is_read_once_although_events_repeat_it() {
        let text = r#"{"timestamp":"2026-05-08T12:00:00Z","type":"session_meta","payload":{"id":"s"}}
            {"type":"turn_context","payload":{"model":"gpt-5"}}
            {"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}
            {"type":"event_msg","payload":{"type":"user_message","message":"hi"}}
            {"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}}
            {"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"}}
            {"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"{\"output\":\"ok\"}"}}"#;
        assert_eq!(
            roles(text),
            [(Role::User, 1), (Role::Assistant, 2), (Role::Tool, 1)]
        );
    }

    #[test]
    fn the_events_of_an_execution_are_messages_with_what_the_turn_took() {
        let text = r#"{"type":"thread.started","thread_id":"t"}
            {"type":"item.completed","item":{"id":"i0","type":"reasoning","text":"hm"}}
            {"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","aggregated_output":"a"}}
            {"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"4"}}
            {"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}"#;
        assert_eq!(
            roles(text),
            [(Role::Assistant, 2), (Role::Tool, 1), (Role::Assistant, 1)]
        );
        let (said, _) = session(text.as_bytes(), Timestamp::from_seconds(0));
        assert_eq!(
            said[2]
                .usage
                .map(|usage| (usage.input_tokens, usage.cached_input_tokens)),
            Some((6, 4))
        );
    }

    #[test]
    fn every_turn_has_its_own_model_and_counts() {
        let spoken = |role: &str| {
            format!(r#"{{"type":"response_item","payload":{{"role":"{role}","content":"x"}}}}"#)
        };
        let model =
            |name: &str| format!(r#"{{"type":"turn_context","payload":{{"model":"{name}"}}}}"#);
        let count = |last: u64, total: u64| {
            format!(
                r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"last_token_usage":{{"output_tokens":{last}}},"total_token_usage":{{"output_tokens":{total}}}}}}}}}"#
            )
        };
        let lines = [
            model("a"),
            spoken("user"),
            spoken("assistant"),
            count(3, 3),
            count(3, 3),
            model("b"),
            spoken("assistant"),
            count(4, 7),
            spoken("assistant"),
            count(4, 11),
        ];
        let (said, _) = session(lines.join("\n").as_bytes(), Timestamp::from_seconds(0));
        let told: Vec<_> = said
            .iter()
            .map(|said| {
                (
                    said.message.metadata.model.as_deref(),
                    said.usage.map(|usage| usage.output_tokens),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (None, None),
                (Some("openai:a"), Some(3)),
                (Some("openai:b"), Some(8))
            ]
        );
    }

    #[test]
    fn what_failed_in_an_execution_says_so() {
        let text = r#"{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"f","aggregated_output":"boom","exit_code":1}}
            {"type":"item.completed","item":{"id":"i2","type":"mcp_tool_call","tool":"s","result":null,"error":{"message":"not found"}}}
            {"type":"turn.failed","error":{"message":"stream disconnected"}}"#;
        let (said, _) = session(text.as_bytes(), Timestamp::from_seconds(0));
        let results = [(1, "boom"), (3, "not found")];
        for (at, expected) in results {
            let ContentBlock::ToolResult(result) = &said[at].message.content[0] else {
                panic!("no result")
            };
            assert_eq!(
                (result.is_error, result.content[0].as_text()),
                (true, Some(expected))
            );
        }
        let last = said.last().unwrap();
        assert_eq!(
            (last.message.metadata.status, last.stop_reason),
            (MessageStatus::Error, Some(StopReason::Error))
        );
    }

    #[test]
    fn rollouts_without_envelopes_are_read() {
        let text = r#"{"id":"s1","timestamp":"2025-07-10T15:20:26.000Z","instructions":null}
            {"record_type":"state"}
            {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
            {"type":"function_call","id":"f","name":"shell","arguments":"{}","call_id":"c"}
            {"type":"function_call_output","call_id":"c","output":"a"}"#;
        assert_eq!(
            roles(text),
            [(Role::User, 1), (Role::Assistant, 1), (Role::Tool, 1)]
        );
        let (said, _) = session(text.as_bytes(), Timestamp::from_seconds(0));
        assert!(said.iter().all(|said| said.message.session_id == "s1"));
    }
}
