//! Lines that hold messages: canonical messages, CMF messages, and events among grains.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::cmf::Envelope;
use gristmill_schemas::cmf::canonical::{CanonicalIds, to_canonical};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode as GrainMode, Grain, GrainType, Payload,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::decode::{MessageDecodeMode, decode_message};
use gristmill_schemas::message::grains::message_of_event;
use gristmill_schemas::message::ids::{PositionTracker, session_id};
use gristmill_schemas::message::request::StopReason;
use gristmill_schemas::message::token_counts::read_token_usage;
use gristmill_schemas::message::{Message, Timestamp};
use gristmill_schemas::sign::DeliveredGrain;

use crate::transcript::line::{FaultCode, Line, lines};
use crate::transcript::message_placer::MessagePlacer;
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::{ParsedPart, PlacedMessage};

/// Parses canonical messages, one per line.
pub(crate) fn canonical_lines(bytes: &[u8]) -> ParsedPart {
    let mut placer = MessagePlacer::default();
    parse_lines(bytes, |json, line| {
        let (message, _) =
            decode_message(json, MessageDecodeMode::Tolerant).map_err(|error| error.to_string())?;
        Ok(Some(
            placer.place_in_session(message.into_owned(), line.clone()),
        ))
    })
}

/// Parses CMF messages, one per line, with their extensions inside the message or next to it.
///
/// A message whose extensions name no session is in a session that is derived from the first such
/// message; one without a time gets that of its line in the `options`.
pub(crate) fn cmf_lines(bytes: &[u8], options: ReadOptions<'_>) -> ParsedPart {
    let mut placer = MessagePlacer::default();
    let mut file = PositionTracker::new("cmf");
    let mut file_session = None;
    parse_lines(bytes, |json, line| {
        let time = options.time_of(line);
        let message = cmf_message(json, &mut file, &mut file_session, time)?;
        Ok(Some(placer.place_in_session(message, line.clone())))
    })
}

/// Converts a CMF message. `file` is the thread of all messages of the file, `file_session` the id
/// of the session of messages that name none.
fn cmf_message(
    json: &Json,
    file: &mut PositionTracker,
    file_session: &mut Option<String>,
    time: Timestamp,
) -> Result<Message<'static>, String> {
    let envelope = Envelope::parse(json).map_err(|error| error.to_string())?;
    let extension = |slot, key| extension(json, slot, key).map(str::to_owned);
    let created_at = self::extension(json, "request", "timestamp")
        .and_then(Timestamp::parse)
        .unwrap_or(time);
    let identity = |id: String, session_id: String| CanonicalIds {
        id,
        session_id,
        created_at,
    };
    let message = to_canonical(&envelope, identity(String::new(), String::new()));
    let position = file.advance(message.role, &message.content);
    let named = extension("agent", "session_id").or_else(|| extension("agent", "conversation_id"));
    let default_session = file_session
        .get_or_insert_with(|| session_id(&position, created_at))
        .clone();
    let id = extension("provenance", "message_id")
        .unwrap_or_else(|| position.ulid(created_at).to_string());
    let identity = identity(id, named.unwrap_or(default_session));
    Ok(to_canonical(&envelope, identity))
}

/// Returns a text in the extensions next to a CMF message.
fn extension<'j>(json: &'j Json, slot: &str, key: &str) -> Option<&'j str> {
    json.get("extensions")?.get(slot)?.get(key)?.as_str()
}

/// Parses the messages among grains, one grain per line: `{"grain": …}`, `{"blob_hex": …}` or a
/// grain by itself. Only events with a role are messages; other grains are skipped. A parent is
/// named by its content address.
pub(crate) fn event_lines(bytes: &[u8]) -> ParsedPart {
    let mut placer = MessagePlacer::default();
    parse_lines(bytes, |json, line| {
        let Some((address, event)) = event_of_line(json)? else {
            return Ok(None);
        };
        let message = message_of_event(&event).map_err(|error| error.to_string())?;
        let parent = event.get("parent_message_id").and_then(Json::as_str);
        let mut placed = placer.place_by_key(message, (address, parent), line.clone());
        placed.stop_reason = event
            .get("stop_reason")
            .and_then(Json::as_str)
            .and_then(StopReason::from_text);
        placed.usage = event
            .get("token_usage")
            .map(read_token_usage)
            .or(placed.usage);
        Ok(Some(placed))
    })
}

/// Applies `parse` to every line. It returns `None` for lines that hold no message.
fn parse_lines(
    bytes: &[u8],
    mut parse: impl FnMut(&Json, &Line) -> Result<Option<PlacedMessage>, String>,
) -> ParsedPart {
    let mut part = ParsedPart::default();
    for line in lines(bytes) {
        let message = line.json(bytes).and_then(|json| {
            parse(&json, &line).map_err(|reason| line.fault(FaultCode::Shape, reason))
        });
        match message {
            Ok(message) => part.messages.extend(message),
            Err(fault) => part.faults.push(fault),
        }
    }
    part
}

/// An event with its content address, where that is known.
type Event = (Option<String>, Json<'static>);

/// Returns the event of a line, or `None` if its grain isn't a message.
fn event_of_line(json: &Json) -> Result<Option<Event>, String> {
    let (address, grain) = grain_of_line(json)?;
    Ok(is_message(&grain).then_some((address, grain)))
}

/// Returns the grain of a line, even if it isn't an event.
fn grain_of_line(json: &Json) -> Result<Event, String> {
    let address = json
        .get("content_address")
        .and_then(Json::as_str)
        .map(str::to_owned);
    let grain = json
        .get("grain")
        .filter(|grain| grain.as_object().is_some());
    match (grain, json.get("blob_hex").and_then(Json::as_str)) {
        (Some(grain), _) => Ok((address, grain.clone().into_owned())),
        (None, Some(digits)) => decode_blob(digits).map(|(address, grain)| (Some(address), grain)),
        (None, None) if json.get("type").is_some() => Ok((address, json.clone().into_owned())),
        (None, None) => Err("not a grain: an object with `grain` or `blob_hex`".to_owned()),
    }
}

/// Returns true for an event with a role.
fn is_message(grain: &Json) -> bool {
    let kind = grain
        .get("type")
        .and_then(Json::as_str)
        .and_then(GrainType::from_name);
    kind == Some(GrainType::Event) && grain.get("role").is_some()
}

/// Decodes a blob in hexadecimal digits, possibly in a signature envelope; returns its content
/// address and its grain.
fn decode_blob(digits: &str) -> Result<(String, Json<'static>), String> {
    let blob = hex::decode(digits).map_err(|error| format!("`blob_hex`: {error}"))?;
    let delivery = DeliveredGrain::open(&blob).map_err(|error| error.to_string())?;
    let payload =
        Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).map_err(|error| error.to_string())?;
    let grain = Grain::decode(&payload, GrainMode::Lenient).map_err(|error| error.to_string())?;
    let address = ContentAddress::of(delivery.blob()).to_string();
    Ok((address, grain.to_json()))
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::{ContentBlock, Role};

    use super::*;

    #[test]
    fn a_message_follows_the_previous_one_of_its_session() {
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
        let ParsedPart {
            messages, faults, ..
        } = canonical_lines(text.as_bytes());
        assert_eq!(messages[2].parent, Some(messages[0].position));
        assert_eq!(messages[1].parent, None);
        assert_ne!(
            messages[1].position, messages[0].position,
            "the same content in another session is another message"
        );
        assert_eq!(
            (
                messages[0].stop_reason,
                messages[0].usage.map(|usage| usage.input_tokens)
            ),
            (Some(StopReason::EndTurn), Some(3))
        );
        assert_eq!((faults.len(), faults[0].number), (1, 4));
        assert!(messages.iter().all(|placed| placed.message.id.len() == 26));
    }

    #[test]
    fn a_session_id_that_is_derived_from_the_first_message_names_no_thread() {
        let mut unnamed = PositionTracker::new("");
        let time = Timestamp::from_seconds(5);
        let [first, second] =
            ["1", "2"].map(|text| unnamed.advance(Role::User, &[ContentBlock::text(text)]));
        let line = |text: &str, second: i64| {
            let (session, time) = (session_id(&first, time), Timestamp::from_seconds(second));
            format!(
                r#"{{"id":"","session_id":"{session}","role":"user","content":[{{"type":"text","text":"{text}"}}],"created_at":"{time}"}}"#
            )
        };
        let ParsedPart { messages, .. } =
            canonical_lines([line("1", 5), line("2", 9)].join("\n").as_bytes());
        assert_eq!(
            messages
                .iter()
                .map(|placed| placed.position)
                .collect::<Vec<_>>(),
            [first, second]
        );
    }

    #[test]
    fn cmf_messages_without_identity_get_ids_and_a_common_session() {
        let text = r#"{"role":"user","content":[{"content_type":"text","text":"hi"}]}
            {"message":{"role":"assistant","content":[]},"extensions":{"agent":{"session_id":"s"}}}"#;
        let options = ReadOptions {
            fallback: Timestamp::from_seconds(5),
            ..ReadOptions::default()
        };
        let ParsedPart {
            messages, faults, ..
        } = cmf_lines(text.as_bytes(), options);
        assert!(faults.is_empty(), "{faults:?}");
        assert!(messages[0].message.session_id.starts_with("sess_"));
        assert_eq!(
            (
                &*messages[1].message.session_id,
                messages[0].message.created_at
            ),
            ("s", Timestamp::from_seconds(5))
        );
    }
}
