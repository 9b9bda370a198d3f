//! AWS event stream (`application/vnd.amazon.eventstream`): frames with headers, a payload and two
//! checksums.
//!
//! ```text
//! u32 total length | u32 length of headers | u32 CRC of those | headers | payload | u32 CRC of all before
//! header: u8 length of name, name, u8 type, value
//! ```
//! All numbers are big-endian; the CRC is CRC-32 as in gzip.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::Json;

use super::{StreamFrame, StreamFrames};

/// The header with the name of an event.
pub const EVENT_TYPE: &str = ":event-type";
/// The header with the name of an exception.
pub const EXCEPTION_TYPE: &str = ":exception-type";

/// The longest frame that AWS sends, in bytes.
pub const FRAME_LIMIT_BYTES: usize = 16 << 20;
const PRELUDE_BYTES: usize = 12;
const CRC_BYTES: usize = 4;

/// A malformed frame and its offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event stream frame at byte {offset}: {kind}")]
pub struct FrameError {
    /// The offset of the frame in bytes.
    pub offset: usize,
    /// The defect.
    pub kind: FrameErrorKind,
}

/// The defect of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameErrorKind {
    /// The stream ends within the frame.
    #[error("truncated")]
    Truncated,
    /// The lengths contradict each other or exceed the limit.
    #[error("invalid length")]
    Length,
    /// The checksum of the prelude is wrong.
    #[error("wrong checksum of the prelude")]
    PreludeChecksum,
    /// The checksum of the frame is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// A header is malformed.
    #[error("malformed header")]
    Header,
    /// The payload isn't JSON.
    #[error("payload is not JSON")]
    Payload,
}

/// Parses the frames of `bytes`; returns the frames before the first malformed one, and its error.
pub fn frames(bytes: &[u8]) -> (StreamFrames<'static>, Option<FrameError>) {
    let mut frames = StreamFrames::default();
    let mut offset = 0;
    while offset < bytes.len() {
        match parse_frame(&bytes[offset..]) {
            Ok((frame, length)) => {
                frames.frames.push(frame);
                offset += length;
            }
            Err(kind) => return (frames, Some(FrameError { offset, kind })),
        }
    }
    (frames, None)
}

/// Returns true if `bytes` begin with a frame, which may be cut after its lengths.
pub fn begins_with_frame(bytes: &[u8]) -> bool {
    parse_prelude(bytes).is_ok()
}

/// Parses the first frame of `bytes`; returns it and its length.
fn parse_frame(bytes: &[u8]) -> Result<(StreamFrame<'static>, usize), FrameErrorKind> {
    let (total, headers_length) = parse_prelude(bytes)?;
    let whole = bytes.get(..total).ok_or(FrameErrorKind::Truncated)?;
    let (body, checksum) = whole.split_at(total - CRC_BYTES);
    if crc32fast::hash(body) != number(checksum, 0) {
        return Err(FrameErrorKind::Checksum);
    }
    let (headers, payload) = body[PRELUDE_BYTES..].split_at(headers_length);
    let event = event_name(headers)?;
    let payload = match payload {
        [] => Json::Null,
        payload => Json::parse(payload)
            .map_err(|_| FrameErrorKind::Payload)?
            .into_owned(),
    };
    let frame = StreamFrame {
        event: event.map(Cow::Owned),
        data: unwrapped(payload),
    };
    Ok((frame, total))
}

/// Returns the checked lengths of the frame and of its headers.
fn parse_prelude(bytes: &[u8]) -> Result<(usize, usize), FrameErrorKind> {
    let prelude = bytes
        .get(..PRELUDE_BYTES)
        .ok_or(FrameErrorKind::Truncated)?;
    let (total, headers) = (number(prelude, 0) as usize, number(prelude, 4) as usize);
    if crc32fast::hash(&prelude[..8]) != number(prelude, 8) {
        return Err(FrameErrorKind::PreludeChecksum);
    }
    let room = total.checked_sub(PRELUDE_BYTES + CRC_BYTES);
    if total > FRAME_LIMIT_BYTES || room.is_none_or(|room| headers > room) {
        return Err(FrameErrorKind::Length);
    }
    Ok((total, headers))
}

/// Returns the name of the event or exception from the headers.
fn event_name(mut headers: &[u8]) -> Result<Option<String>, FrameErrorKind> {
    let mut name = None;
    while let Some((&length, rest)) = headers.split_first() {
        let (key, rest) = rest
            .split_at_checked(length.into())
            .ok_or(FrameErrorKind::Header)?;
        let (&kind, rest) = rest.split_first().ok_or(FrameErrorKind::Header)?;
        let (value, rest) = header_value(kind, rest).ok_or(FrameErrorKind::Header)?;
        if key == EVENT_TYPE.as_bytes() || key == EXCEPTION_TYPE.as_bytes() {
            name = Some(String::from_utf8(value.to_vec()).map_err(|_| FrameErrorKind::Header)?);
        }
        headers = rest;
    }
    Ok(name)
}

/// Splits `rest` into the value of a header of the type `kind` and what follows it.
fn header_value(kind: u8, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let fixed = match kind {
        // true, false
        0 | 1 => 0,
        // byte, short, integer, long, timestamp, uuid
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        // bytes, string
        6 | 7 => {
            let (length, rest) = rest.split_at_checked(2)?;
            return rest.split_at_checked(u16::from_be_bytes([length[0], length[1]]).into());
        }
        _ => return None,
    };
    rest.split_at_checked(fixed)
}

/// Returns the big-endian number at `at`. The caller checks that `bytes` is long enough.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// Returns true for a frame that was recorded as `{"headers": …, "payload": …}`.
pub fn is_recorded_frame(json: &Json) -> bool {
    let headers = json.get("headers").and_then(Json::as_object);
    headers.is_some() && json.get("payload").is_some()
}

/// Returns the frame that was recorded as JSON: with its headers, or as clients of AWS return the
/// event of an InvokeModel stream, `{"chunk": {"bytes": …}}`. Any other frame is unchanged.
pub fn recorded_frame(mut frame: StreamFrame<'_>) -> StreamFrame<'_> {
    let Some(object) = frame.data.as_object_mut() else {
        return frame;
    };
    if object.len() == 1
        && let Some(event) = object.get("chunk").and_then(wrapped_event)
    {
        return StreamFrame {
            event: Some(Cow::Borrowed("chunk")),
            data: event,
        };
    }
    let (Some(headers), true) = (object.get("headers"), object.contains_key("payload")) else {
        return frame;
    };
    let name = [EVENT_TYPE, EXCEPTION_TYPE]
        .iter()
        .find_map(|header| headers.get(header));
    let event = name
        .and_then(Json::as_str)
        .map(|name| Cow::Owned(name.to_owned()));
    let payload = object.remove("payload").unwrap_or_default();
    StreamFrame {
        event,
        data: unwrapped(payload),
    }
}

/// Unwraps an event of Bedrock's InvokeModel; returns any other payload unchanged.
fn unwrapped(payload: Json<'_>) -> Json<'_> {
    wrapped_event(&payload).unwrap_or(payload)
}

/// Returns the model's event that InvokeModel wraps: in base64, or as programs write its bytes, as
/// text.
fn wrapped_event(payload: &Json) -> Option<Json<'static>> {
    let text = payload.get("bytes")?.as_str()?;
    let decoded = STANDARD.decode(text);
    let bytes = decoded.as_deref().unwrap_or(text.as_bytes());
    Json::parse(bytes).ok().map(Json::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a frame as AWS does.
    fn encode(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::new();
        for (name, value) in headers {
            encoded.push(name.len() as u8);
            encoded.extend(name.as_bytes());
            encoded.push(7);
            encoded.extend((value.len() as u16).to_be_bytes());
            encoded.extend(value.as_bytes());
        }
        let total = PRELUDE_BYTES + encoded.len() + payload.len() + CRC_BYTES;
        let mut frame = (total as u32).to_be_bytes().to_vec();
        frame.extend((encoded.len() as u32).to_be_bytes());
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame.extend(encoded);
        frame.extend(payload);
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame
    }

    #[test]
    fn frames_are_parsed_with_their_names() {
        let mut bytes = encode(
            &[(":message-type", "event"), (EVENT_TYPE, "messageStart")],
            br#"{"role":"assistant"}"#,
        );
        bytes.extend(encode(&[(EXCEPTION_TYPE, "throttled")], b""));
        bytes.extend(encode(
            &[(EVENT_TYPE, "chunk")],
            br#"{"bytes":"eyJ0eXBlIjoicGluZyJ9"}"#,
        ));
        let (frames, kind) = frames(&bytes);
        assert_eq!(kind, None);
        let shown: Vec<_> = frames
            .frames
            .iter()
            .map(|frame| format!("{}:{}", frame.event.as_deref().unwrap(), frame.data))
            .collect();
        assert_eq!(
            shown,
            [
                r#"messageStart:{"role":"assistant"}"#,
                "throttled:null",
                r#"chunk:{"type":"ping"}"#
            ]
        );
    }

    #[test]
    fn damage_is_identified_and_frames_before_it_are_kept() {
        let good = encode(&[(EVENT_TYPE, "a")], b"{}");
        for (at, kind) in [
            (3, FrameErrorKind::PreludeChecksum),
            (good.len() - 1, FrameErrorKind::Checksum),
            (good.len() - 6, FrameErrorKind::Checksum),
        ] {
            let mut bytes = good.clone();
            bytes.extend(&good);
            bytes[good.len() + at] ^= 1;
            let (read, error) = frames(&bytes);
            assert_eq!(
                (read.frames.len(), error),
                (
                    1,
                    Some(FrameError {
                        offset: good.len(),
                        kind
                    })
                )
            );
        }
        assert!(begins_with_frame(&good[..PRELUDE_BYTES]));
        assert!(!begins_with_frame(&good[1..]));
        let (_, cut) = frames(&good[..good.len() - 1]);
        assert_eq!(cut.map(|error| error.kind), Some(FrameErrorKind::Truncated));
        assert_eq!(
            frames(&good[..5]).1.map(|error| error.kind),
            Some(FrameErrorKind::Truncated)
        );
    }

    #[test]
    fn lengths_are_checked_before_they_are_used() {
        for (total, headers) in [
            (u32::MAX, 0),
            (15, 0),
            (16, 1),
            (FRAME_LIMIT_BYTES as u32 + 1, 0),
        ] {
            let mut bytes = total.to_be_bytes().to_vec();
            bytes.extend(u32::to_be_bytes(headers));
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            assert_eq!(
                frames(&bytes).1.map(|error| error.kind),
                Some(FrameErrorKind::Length)
            );
        }
    }
}
