//! Sessions of Codex: rollout files, and the events of `codex exec --json`.
//!
//! A rollout's `response_item` lines are items of the Responses dialect; what `event_msg` lines say is said there already. The
//! events of an execution are items of their own kind, made into those of the dialect.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::{Role, Timestamp};

use super::line::{FaultCode, Line, lines};
use super::said::{Messages, Said};
use crate::wire::members::{count, items, object, text};
use crate::wire::read::{Conversation, ReadContext};
use crate::wire::transfer::read_request;
use crate::wire::{adapter::Adapter, dialect};

/// The model of a session is told apart from its items.
#[derive(Default)]
struct Session {
    id: Option<String>,
    model: Option<String>,
    items: Vec<(Json<'static>, Line, Option<Timestamp>)>,
    /// What a turn took, after so many items.
    usage: Vec<(usize, TokenUsage)>,
}

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
            "response_item" => self.items.push((payload.clone().into_owned(), line, time)),
            "item.completed" => {
                let made = json.get("item").map(executed).unwrap_or_default();
                self.items.extend(made.into_iter().map(|item| (item, line.clone(), time)));
            }
            "turn.completed" => {
                if let Some(usage) = json.get("usage") {
                    self.usage.push((self.items.len(), token_usage(usage)));
                }
            }
            // What rollouts looked like before they had envelopes.
            "message" | "function_call" | "function_call_output" | "reasoning" => {
                self.items.push((json.clone().into_owned(), line, time));
            }
            _ => {}
        }
    }

    fn messages(self, time: Timestamp) -> Vec<Said> {
        let adapter: &'static dyn Adapter = &dialect::OPENAI_RESPONSES;
        let mut conversation = Conversation::new(self.id.as_deref().unwrap_or_default());
        let (mut said, mut parent): (Vec<Said>, _) = (Vec::new(), None);
        let mut ends = Vec::new();
        for (start, end) in runs(&self.items) {
            let run = &self.items[start..end];
            let Some((_, line, own)) = run.first() else { continue };
            let context = ReadContext { time: own.unwrap_or(time), first_seen: None, session: self.id.as_deref() };
            let body = object("input", run.iter().map(|(item, ..)| item.reborrow()).collect::<Vec<_>>());
            let body = Json::Object(body);
            let Ok(read) = read_request(adapter, &body, &mut conversation, &context) else { continue };
            for (message, position) in read.request.messages.into_iter().zip(read.positions) {
                let mut message = message.into_owned();
                if message.role == Role::Assistant {
                    message.metadata.provider = Some("openai".into());
                    message.metadata.model = self.model.as_ref().map(|model| format!("openai:{model}").into());
                }
                said.push(Said { position, parent, message, stop_reason: None, usage: None, line: line.clone() });
                ends.push(end);
                parent = Some(position);
            }
        }
        for (after, usage) in self.usage {
            let last = (0..said.len()).rev().find(|at| ends[*at] <= after && said[*at].message.role == Role::Assistant);
            if let Some(last) = last.and_then(|at| said.get_mut(at)) {
                last.usage = Some(usage);
            }
        }
        said
    }
}

/// Runs of items that are read together: what the model made in a row, everything else alone.
fn runs(items: &[(Json, Line, Option<Timestamp>)]) -> Vec<(usize, usize)> {
    let made = |item: &Json| {
        let role = item.get("role").and_then(Json::as_str);
        let kind = item.get("type").and_then(Json::as_str).unwrap_or("message");
        !kind.ends_with("_output") && (kind != "message" || role == Some("assistant"))
    };
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, (item, ..)) in items.iter().enumerate() {
        let goes_on = at > 0 && made(item) && items.get(at - 1).is_some_and(|(before, ..)| made(before));
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
            let command = object("command", item.get("command").cloned().unwrap_or_default().into_owned());
            let output = text(item, "aggregated_output").unwrap_or_default().into_owned();
            call(&id, "shell", command, Json::from(output))
        }
        "mcp_tool_call" => {
            let name = text(item, "tool").unwrap_or_default().into_owned();
            let arguments = item.get("arguments").and_then(Json::as_object).cloned().unwrap_or_default();
            let result = item.get("result").unwrap_or(&Json::Null);
            let texts: Vec<_> = items(result, "content").iter().filter_map(|part| text(part, "text")).collect();
            call(&id, &name, arguments.into_owned(), Json::from(texts.join("\n")))
        }
        _ => vec![item.clone().into_owned()],
    }
}

fn call(id: &str, name: &str, arguments: Object<'static>, output: Json<'static>) -> Vec<Json<'static>> {
    let mut call = object("type", "function_call");
    call.insert("call_id", id.to_owned());
    call.insert("name", name.to_owned());
    call.insert("arguments", Json::Object(arguments).to_string());
    let mut result = object("type", "function_call_output");
    result.insert("call_id", id.to_owned());
    result.insert("output", output);
    vec![Json::Object(call), Json::Object(result)]
}

fn token_usage(json: &Json) -> TokenUsage {
    let cached = count(json, "cached_input_tokens");
    TokenUsage {
        input_tokens: count(json, "input_tokens").saturating_sub(cached),
        output_tokens: count(json, "output_tokens"),
        cached_input_tokens: cached,
        cache_creation_input_tokens: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(text: &str) -> Vec<(Role, usize)> {
        let (said, faults) = session(text.as_bytes(), Timestamp::from_seconds(0));
        assert!(faults.is_empty());
        assert!(said.windows(2).all(|pair| pair[1].parent == Some(pair[0].position)));
        said.iter().map(|said| (said.message.role, said.message.content.len())).collect()
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
        assert_eq!(roles(text), [(Role::User, 1), (Role::Assistant, 2), (Role::Tool, 1)]);
    }

    #[test]
    fn the_events_of_an_execution_are_messages_with_what_the_turn_took() {
        let text = r#"{"type":"thread.started","thread_id":"t"}
            {"type":"item.completed","item":{"id":"i0","type":"reasoning","text":"hm"}}
            {"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","aggregated_output":"a"}}
            {"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"4"}}
            {"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}"#;
        assert_eq!(roles(text), [(Role::Assistant, 2), (Role::Tool, 1), (Role::Assistant, 1)]);
        let (said, _) = session(text.as_bytes(), Timestamp::from_seconds(0));
        assert_eq!(said[2].usage.map(|usage| (usage.input_tokens, usage.cached_input_tokens)), Some((6, 4)));
    }
}
