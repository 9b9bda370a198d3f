//! Messages that come as messages: canonical JSONL, CMF JSONL, grains as JSON lines.
//!
//! A message follows the one before it of the same session. Its place in the conversation is found
//! by walking there, so the same conversation gives the same grains whether it came as traffic of a
//! provider or as messages. Sessions that have ids of their own share no places, however alike they
//! begin.

use std::collections::HashMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::cmf::Envelope;
use gristmill_schemas::cmf::canonical::{Identity, to_canonical};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, Grain, GrainType, Mode as GrainMode, Payload,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::decode::{Mode, decode_message};
use gristmill_schemas::message::grains::message_of_event;
use gristmill_schemas::message::ids::{Position, Thread, session_id};
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::token_usage_of;
use gristmill_schemas::message::{ContentBlock, Message, Timestamp};
use gristmill_schemas::sign::Delivery;

use super::line::{FaultCode, Line, LineFault, lines};

/// The member of metadata that tells why an answer ended.
pub const STOP_REASON: &str = "stop_reason";
/// The member of metadata that tells what an answer took, where it couldn't be priced.
pub const TOKEN_USAGE: &str = "token_usage";

/// A message, with what is known about it and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Its place.
    pub position: Position,
    /// The place of the message before it.
    pub parent: Option<Position>,
    /// The message.
    pub message: Message<'static>,
    /// Why the answer ended.
    pub stop_reason: Option<StopReason>,
    /// What it took.
    pub usage: Option<TokenUsage>,
    /// The line that it comes from.
    pub line: Line,
}

/// The messages of a file, in its order, and the lines that hold none.
pub type Messages = (Vec<Said>, Vec<LineFault>);

/// Canonical messages, one a line.
pub fn canonical_lines(bytes: &[u8]) -> Messages {
    each_line(bytes, |json, _| {
        match decode_message(json, Mode::Tolerant) {
            Ok((message, _)) => Ok(Some(message.into_owned())),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// CMF messages, one a line, with their extensions beside them or in them. A message whose
/// extensions tell no session belongs to that of the file, one without a time was made at `time`.
pub fn cmf_lines(bytes: &[u8], time: Timestamp) -> Messages {
    let mut file = Thread::new("cmf");
    let mut session = None;
    each_line(bytes, |json, _| {
        let envelope = Envelope::parse(json).map_err(|error| error.to_string())?;
        let text = |slot: &str, key: &str| {
            let extensions = json.get("extensions")?;
            extensions.get(slot)?.get(key)?.as_str().map(str::to_owned)
        };
        let time = text("request", "timestamp")
            .as_deref()
            .and_then(Timestamp::parse)
            .unwrap_or(time);
        let identity = |id: String, session_id: String| Identity {
            id,
            session_id,
            created_at: time,
        };
        let message = to_canonical(&envelope, identity(String::new(), String::new()));
        let position = file.advance(message.role, &message.content);
        let named = text("agent", "session_id").or_else(|| text("agent", "conversation_id"));
        let fresh = session
            .get_or_insert_with(|| session_id(&position, time))
            .clone();
        let id =
            text("provenance", "message_id").unwrap_or_else(|| position.ulid(time).to_string());
        Ok(Some(to_canonical(
            &envelope,
            identity(id, named.unwrap_or(fresh)),
        )))
    })
}

/// The messages among grains, one a line: `{"grain": …}` or `{"blob_hex": …}`. Only events with a
/// role are messages; their parents are named by their addresses. All grains, as they are, are told
/// by `carried`.
pub fn grain_lines(bytes: &[u8]) -> Messages {
    let (mut said, mut faults) = (Vec::new(), Vec::new());
    let mut walk = Walk::default();
    for line in lines(bytes) {
        match line
            .json(bytes)
            .and_then(|json| event_of(&json).map_err(|why| line.fault(FaultCode::Shape, why)))
        {
            Ok(None) => {}
            Ok(Some((address, event))) => match message_of_event(&event) {
                Ok(message) => said.push(walk.event(address, &event, message, line)),
                Err(error) => faults.push(line.fault(FaultCode::Shape, error.to_string())),
            },
            Err(fault) => faults.push(fault),
        }
    }
    (said, faults)
}

/// The event of a line and its address, if the line's grain is a message.
fn event_of(json: &Json) -> Result<Option<(Option<String>, Json<'static>)>, String> {
    let is_message = |grain: &Json| {
        let kind = grain
            .get("type")
            .and_then(Json::as_str)
            .and_then(GrainType::from_name);
        kind == Some(GrainType::Event) && grain.get("role").is_some()
    };
    let named = json
        .get("content_address")
        .and_then(Json::as_str)
        .map(str::to_owned);
    if let Some(grain) = json
        .get("grain")
        .filter(|grain| grain.as_object().is_some())
    {
        return Ok(is_message(grain).then(|| (named, grain.clone().into_owned())));
    }
    let Some(digits) = json.get("blob_hex").and_then(Json::as_str) else {
        return match json.get("type") {
            Some(_) => Ok(is_message(json).then(|| (named, json.clone().into_owned()))),
            None => Err("not a grain: an object with `grain` or `blob_hex`".to_owned()),
        };
    };
    let blob = hex::decode(digits).map_err(|error| format!("`blob_hex`: {error}"))?;
    let delivery = Delivery::open(&blob).map_err(|error| error.to_string())?;
    let payload =
        Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).map_err(|error| error.to_string())?;
    let grain = Grain::decode(&payload, GrainMode::Lenient).map_err(|error| error.to_string())?;
    let address = ContentAddress::of(delivery.blob()).to_string();
    let grain = grain.to_json();
    Ok(is_message(&grain).then_some((Some(address), grain)))
}

fn each_line(
    bytes: &[u8],
    mut read: impl FnMut(&Json, &Line) -> Result<Option<Message<'static>>, String>,
) -> Messages {
    let mut walk = Walk::default();
    let (mut said, mut faults) = (Vec::new(), Vec::new());
    for line in lines(bytes) {
        let message = line
            .json(bytes)
            .and_then(|json| read(&json, &line).map_err(|why| line.fault(FaultCode::Shape, why)));
        match message {
            Ok(Some(message)) => said.push(walk.follow(message, line)),
            Ok(None) => {}
            Err(fault) => faults.push(fault),
        }
    }
    (said, faults)
}

/// Walks along conversations.
#[derive(Default)]
pub(in crate::transcript) struct Walk {
    /// The last place of each session.
    sessions: HashMap<String, (Option<Thread>, Position)>,
    by_address: HashMap<String, (Option<Thread>, Position)>,
    last: Option<Thread>,
}

impl Walk {
    /// Steps to the message of `event`, whose parent is named by its address.
    fn event(
        &mut self,
        address: Option<String>,
        event: &Json,
        message: Message<'static>,
        line: Line,
    ) -> Said {
        let parent = event.get("parent_message_id").and_then(Json::as_str);
        let before = parent.and_then(|parent| self.by_address.get(parent).cloned());
        let mut said = self.step(message, before, line);
        if let Some(address) = address {
            self.by_address
                .insert(address, (self.last.clone(), said.position));
        }
        said.stop_reason = event
            .get("stop_reason")
            .and_then(Json::as_str)
            .and_then(StopReason::from_text);
        said.usage = event.get("token_usage").map(token_usage_of).or(said.usage);
        said
    }

    /// Steps to the next message of its session.
    pub(in crate::transcript) fn follow(&mut self, message: Message<'static>, line: Line) -> Said {
        let before = self.sessions.get(&*message.session_id).cloned();
        self.step(message, before, line)
    }

    /// Steps to `message`, which follows the message that was marked `parent`, and marks it `mark`.
    pub(in crate::transcript) fn follow_marked(
        &mut self,
        message: Message<'static>,
        (mark, parent): (String, Option<&str>),
        line: Line,
    ) -> Said {
        let before = parent.and_then(|parent| self.by_address.get(parent).cloned());
        let said = self.step(message, before, line);
        self.by_address
            .insert(mark, (self.last.clone(), said.position));
        said
    }

    /// Steps from `before` (the start of a conversation, if there is none) to `message`.
    fn step(
        &mut self,
        mut message: Message<'static>,
        before: Option<(Option<Thread>, Position)>,
        line: Line,
    ) -> Said {
        let (thread, parent) = match before {
            Some((thread, position)) => (thread, Some(position)),
            None => (None, None),
        };
        let mut thread = thread.unwrap_or_else(|| conversation_of(&message));
        let position = thread.advance(message.role, &message.content);
        if message.id.is_empty() {
            message.id = position.ulid(message.created_at).to_string().into();
        }
        let extra = &mut message.metadata.unknown_fields;
        let reason = extra.remove(STOP_REASON);
        let stop_reason = reason
            .as_ref()
            .and_then(Json::as_str)
            .and_then(StopReason::from_text);
        let usage = extra.remove(TOKEN_USAGE).as_ref().map(token_usage_of);
        let usage = usage.or_else(|| message.metadata.usage.as_ref().map(TokenUsage::of));
        self.sessions.insert(
            message.session_id.to_string(),
            (Some(thread.clone()), position),
        );
        self.last = Some(thread);
        Said {
            position,
            parent,
            message,
            stop_reason,
            usage,
            line,
        }
    }
}

/// The conversation that `message` begins. It bears the session's name, except where that was made
/// of the message's own place in a conversation without one: there it is that conversation.
fn conversation_of(message: &Message) -> Thread {
    let nameless = Thread::new("");
    let first = nameless.clone().advance(message.role, &message.content);
    if *message.session_id == session_id(&first, message.created_at) {
        nameless
    } else {
        Thread::new(&message.session_id)
    }
}

/// The names of tools by the ids of their calls.
pub fn call_names(messages: &[Said]) -> HashMap<String, String> {
    let blocks = messages.iter().flat_map(|said| &said.message.content);
    let calls = blocks.filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some((call.id.to_string(), call.name.to_string())),
        _ => None,
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::Role;

    use super::*;

    #[test]
    fn messages_of_one_session_follow_each_other() {
        let line = |session: &str, text: &str| {
            format!(
                r#"{{"id":"","session_id":"{session}","role":"user","content":[{{"type":"text","text":"{text}"}}],"created_at":"2026-05-08T12:00:00Z",
                "metadata":{{"stop_reason":"end_turn","token_usage":{{"input_tokens":3}}}}}}"#
            )
            .replace('\n', "")
        };
        let text = [
            line("a", "1"),
            line("b", "1"),
            line("a", "2"),
            "{}".to_owned(),
        ]
        .join("\n");
        let (said, faults) = canonical_lines(text.as_bytes());
        assert_eq!(said[2].parent, Some(said[0].position));
        assert_eq!(said[1].parent, None);
        assert_ne!(
            said[1].position, said[0].position,
            "what another session says is another message"
        );
        assert_eq!(
            (
                said[0].stop_reason,
                said[0].usage.map(|usage| usage.input_tokens)
            ),
            (Some(StopReason::EndTurn), Some(3))
        );
        assert_eq!((faults.len(), faults[0].number), (1, 4));
        assert!(said.iter().all(|said| said.message.id.len() == 26));
    }

    #[test]
    fn a_session_that_is_named_after_its_first_message_is_the_nameless_conversation() {
        let mut nameless = Thread::new("");
        let time = Timestamp::from_seconds(5);
        let [first, second] =
            ["1", "2"].map(|text| nameless.advance(Role::User, &[ContentBlock::text(text)]));
        let line = |text: &str, second: i64| {
            let (session, time) = (session_id(&first, time), Timestamp::from_seconds(second));
            format!(
                r#"{{"id":"","session_id":"{session}","role":"user","content":[{{"type":"text","text":"{text}"}}],"created_at":"{time}"}}"#
            )
        };
        let (said, _) = canonical_lines([line("1", 5), line("2", 9)].join("\n").as_bytes());
        assert_eq!(
            said.iter().map(|said| said.position).collect::<Vec<_>>(),
            [first, second]
        );
    }

    #[test]
    fn cmf_messages_get_ids_and_one_session() {
        let text = r#"{"role":"user","content":[{"content_type":"text","text":"hi"}]}
            {"message":{"role":"assistant","content":[]},"extensions":{"agent":{"session_id":"s"}}}"#;
        let (said, faults) = cmf_lines(text.as_bytes(), Timestamp::from_seconds(5));
        assert!(faults.is_empty(), "{faults:?}");
        assert!(said[0].message.session_id.starts_with("sess_"));
        assert_eq!(
            (&*said[1].message.session_id, said[0].message.created_at),
            ("s", Timestamp::from_seconds(5))
        );
    }
}
