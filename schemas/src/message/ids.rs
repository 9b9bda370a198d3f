//! Deterministic ids: the same transcript gets the same ids on every run (§6.1, §6.2).
//!
//! The ULID of a message is derived from its time and its [`MessagePosition`] in the conversation,
//! not from a clock and a random source:
//!
//! ```text
//! 48 bits  milliseconds of the message's time
//! 16 bits  depth: the number of messages before it, so that ids ascend within one millisecond
//! 64 bits  BLAKE3 of the position
//! ```
//!
//! The ids of a message's calls count up from its ULID. A position is a hash chain over the roles
//! and contents of all messages up to this one. Requests resend the whole conversation: the same
//! prefix gives the same positions, and an edited or regenerated turn starts a branch.

use std::sync::LazyLock;

use blake3::Hasher;
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use ulid::Ulid;

use super::call_digests::CallDigests;
use super::{ContentBlock, Role, Timestamp};
use crate::json::{Json, Object, hash_text};

/// The prefix of session ids.
pub const SESSION_PREFIX: &str = "sess_";
/// The prefix of tool call ids.
pub const TOOL_USE_PREFIX: &str = "tu_";

/// The position of a message in a conversation: a digest of its role, its content and all messages
/// before it.
///
/// The digest excludes whatever clients and providers change when they resend a conversation:
/// thinking, which clients omit; the ids of calls, which change with the provider (a result is
/// hashed with the call that it answers); cache markers, which move with every request; and empty
/// texts, which are added to answers without content because requests can't contain empty messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessagePosition {
    digest: [u8; 32],
    depth: u32,
}

impl MessagePosition {
    /// Returns the start of the conversation `name`, before its first message. Conversations with
    /// the same name share their prefixes.
    pub fn start(name: &str) -> Self {
        static KEY: LazyLock<ContextKey> =
            LazyLock::new(|| hash_derive_key_context("gristmill conversation v1"));
        let mut hasher = Hasher::new_from_context_key(&KEY);
        hash_text(name, &mut hasher);
        MessagePosition {
            digest: *hasher.finalize().as_bytes(),
            depth: 0,
        }
    }

    /// Returns the digest, the key of the message among all messages.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns the number of messages up to and including this one.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the position of a message that is another one than the message here: an answer with
    /// the same content, of which `answer` is a digest.
    pub fn of_answer(&self, answer: u64) -> MessagePosition {
        let mut hasher = Hasher::new();
        hasher.update(&self.digest).update(&answer.to_le_bytes());
        MessagePosition {
            digest: *hasher.finalize().as_bytes(),
            depth: self.depth,
        }
    }

    /// Returns the ULID of the message at this position with the given time.
    pub fn ulid(&self, time: Timestamp) -> Ulid {
        let mut tail = [0; 8];
        tail.copy_from_slice(&self.digest[..8]);
        let depth = u128::from(self.depth.min(u32::from(u16::MAX)));
        Ulid::from_parts(
            time.ulid_millis(),
            depth << 64 | u128::from(u64::from_be_bytes(tail)),
        )
    }
}

/// Returns the id of the call number `ordinal` (from 0) of the message `message`.
pub fn tool_use_id(message: Ulid, ordinal: usize) -> String {
    let value = u128::from(message);
    // Only the bits of the digest are incremented, so the id keeps the message's time and depth.
    let tail = (value as u64).wrapping_add(1).wrapping_add(ordinal as u64);
    let value = (value >> 64) << 64 | u128::from(tail);
    format!("{TOOL_USE_PREFIX}{}", Ulid::from(value))
}

/// Returns the id of the session whose first message is at `first` with the given time.
pub fn session_id(first: &MessagePosition, time: Timestamp) -> String {
    format!("{SESSION_PREFIX}{}", first.ulid(time))
}

/// Returns true for `tu_` followed by a ULID.
pub fn is_tool_use_id(id: &str) -> bool {
    id.strip_prefix(TOOL_USE_PREFIX)
        .is_some_and(|ulid| Ulid::from_string(ulid).is_ok())
}

/// Computes the positions of the messages of a conversation in order. A copy, from which another
/// branch goes on, takes constant time.
#[derive(Debug, Clone)]
pub struct PositionTracker {
    position: MessagePosition,
    calls: CallDigests,
}

impl PositionTracker {
    /// Starts the conversation `name`.
    pub fn new(name: &str) -> Self {
        PositionTracker {
            position: MessagePosition::start(name),
            calls: CallDigests::default(),
        }
    }

    /// Returns the position of the last message.
    pub fn position(&self) -> MessagePosition {
        self.position
    }

    /// Adds the next message and returns its position. The call ids in `content` need only be
    /// unique so far.
    pub fn advance(&mut self, role: Role, content: &[ContentBlock]) -> MessagePosition {
        static KEY: LazyLock<ContextKey> =
            LazyLock::new(|| hash_derive_key_context("gristmill message position v1"));
        let mut hasher = Hasher::new_from_context_key(&KEY);
        hasher.update(&self.position.digest);
        hash_text(role.as_str(), &mut hasher);
        for block in content {
            self.hash_block(block, &mut hasher);
        }
        self.position = MessagePosition {
            digest: *hasher.finalize().as_bytes(),
            depth: self.position.depth.saturating_add(1),
        };
        self.position
    }

    fn hash_block(&mut self, block: &ContentBlock, hasher: &mut Hasher) {
        match block {
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => return,
            _ if is_insignificant(block) => return,
            _ => hash_text(block.tag(), hasher),
        }
        match block {
            ContentBlock::Text(text) => hash_text(text, hasher),
            ContentBlock::Image(image) => {
                hash_text(image.source.kind(), hasher);
                hash_text(image.source.data(), hasher);
            }
            ContentBlock::ToolUse(call) => {
                let digest = call_digest(&call.name, &call.input);
                self.calls.insert(&call.id, digest);
                hasher.update(&digest);
            }
            ContentBlock::ToolResult(result) => {
                hasher.update(self.calls.get(&result.tool_use_id).unwrap_or(&[0; 32]));
                hasher.update(&[u8::from(result.is_error)]);
                let blocks = result
                    .content
                    .iter()
                    .filter(|block| !is_insignificant(block))
                    .count();
                hasher.update(&(blocks as u64).to_le_bytes());
                result
                    .content
                    .iter()
                    .for_each(|block| self.hash_block(block, hasher));
            }
            ContentBlock::Unknown(block) => block.json.hash_into_without(&CACHE_MARKERS, hasher),
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {}
        }
    }
}

/// Cache markers of providers: members of a block, or a block of their own.
const CACHE_MARKERS: [&str; 2] = ["cache_control", "cachePoint"];

/// Returns true for a block without content: an empty text, which some wire formats require, or a
/// cache marker.
fn is_insignificant(block: &ContentBlock) -> bool {
    block.as_text() == Some("") || is_cache_marker(block)
}

fn is_cache_marker(block: &ContentBlock) -> bool {
    let members =
        |block: &Object| block.len() == 1 && block.keys().all(|key| CACHE_MARKERS.contains(&key));
    matches!(block, ContentBlock::Unknown(unknown) if unknown.json.as_object().is_some_and(members))
}

fn call_digest(name: &str, input: &Object) -> [u8; 32] {
    let mut hasher = Hasher::new();
    Json::from(name).hash_into(&mut hasher);
    input.hash_into(&mut hasher);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::block::{Origin, ToolResultBlock, ToolUseBlock, UnknownBlock};
    use super::*;

    fn call(id: &'static str, name: &'static str) -> ContentBlock<'static> {
        ContentBlock::ToolUse(ToolUseBlock {
            id: id.into(),
            name: name.into(),
            input: Object::new(),
        })
    }

    fn answer(id: &'static str) -> ContentBlock<'static> {
        let content = vec![ContentBlock::text("r")];
        ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: id.into(),
            content,
            is_error: false,
        })
    }

    #[test]
    fn ids_ascend_along_a_conversation_within_one_millisecond() {
        let time = Timestamp::from_millis(1_700_000_000_000);
        let mut thread = PositionTracker::new("s");
        let mut last = String::new();
        for turn in 0..50 {
            let position = thread.advance(Role::User, &[ContentBlock::text(turn.to_string())]);
            let id = position.ulid(time).to_string();
            assert!(id > last && id.len() == 26);
            last = id;
        }
    }

    #[test]
    fn positions_depend_on_content_role_and_prefix() {
        let mut one = PositionTracker::new("s");
        let mut two = PositionTracker::new("s");
        let hello = [ContentBlock::text("hello")];
        let first = one.advance(Role::User, &hello);
        assert_eq!(first, two.advance(Role::User, &hello));
        assert_ne!(
            first,
            one.advance(Role::User, &hello),
            "a repetition is a new message"
        );
        assert_ne!(first, PositionTracker::new("t").advance(Role::User, &hello));
        assert_ne!(
            first,
            PositionTracker::new("s").advance(Role::System, &hello)
        );
    }

    #[test]
    fn thinking_and_call_ids_do_not_change_positions() {
        let thought = ContentBlock::Thinking {
            text: "hm".into(),
            signature: None,
        };
        let mut one = PositionTracker::new("s");
        let mut two = PositionTracker::new("s");
        let first = one.advance(
            Role::Assistant,
            &[thought, call("toolu_1", "a"), call("toolu_2", "b")],
        );
        assert_eq!(
            first,
            two.advance(Role::Assistant, &[call("call_x", "a"), call("call_y", "b")])
        );
        assert_eq!(
            one.advance(Role::Tool, &[answer("toolu_2")]),
            two.clone().advance(Role::Tool, &[answer("call_y")])
        );
        assert_ne!(
            one.position(),
            two.advance(Role::Tool, &[answer("call_x")]),
            "it answers another call"
        );
    }

    #[test]
    fn cache_markers_do_not_change_positions() {
        let unknown = |text: &'static str| {
            let json = Json::parse(text.as_bytes()).unwrap();
            ContentBlock::Unknown(UnknownBlock {
                origin: Origin::Wire("p/e".into()),
                json,
            })
        };
        let place = |blocks: &[ContentBlock]| PositionTracker::new("s").advance(Role::User, blocks);
        let plain = place(&[unknown(r#"{"type":"document","source":{"data":"A"}}"#)]);
        let marked = unknown(
            r#"{"type":"document","source":{"data":"A","cache_control":{}},"cache_control":{"type":"e"}}"#,
        );
        assert_eq!(place(std::slice::from_ref(&marked)), plain);
        assert_eq!(
            place(&[marked, unknown(r#"{"cachePoint":{"type":"default"}}"#)]),
            plain
        );
        assert_ne!(
            place(&[unknown(r#"{"type":"document","source":{"data":"B"}}"#)]),
            plain
        );
    }

    #[test]
    fn empty_texts_do_not_change_positions() {
        let place =
            |blocks: &[ContentBlock]| PositionTracker::new("s").advance(Role::Assistant, blocks);
        let text = ContentBlock::text;
        assert_eq!(place(&[]), place(&[text("")]));
        assert_eq!(
            place(&[text("a"), text("b")]),
            place(&[text(""), text("a"), text(""), text("b")])
        );
        assert_ne!(place(&[]), place(&[text(" ")]));
        assert_ne!(place(&[text("a"), text("b")]), place(&[text("ab")]));
        assert_ne!(
            place(&[]),
            PositionTracker::new("s").advance(Role::User, &[])
        );
        let result = |content| {
            ContentBlock::ToolResult(ToolResultBlock {
                tool_use_id: "c".into(),
                content,
                is_error: false,
            })
        };
        assert_eq!(place(&[result(vec![])]), place(&[result(vec![text("")])]));
        assert_ne!(
            place(&[result(vec![]), text("a")]),
            place(&[result(vec![text("a")])])
        );
        assert_ne!(place(&[]), place(&[result(vec![])]));
    }

    #[test]
    fn ids_of_calls_count_up_from_their_message() {
        let message = PositionTracker::new("s")
            .advance(Role::Assistant, &[])
            .ulid(Timestamp::from_millis(5));
        let ids: Vec<_> = (0..3)
            .map(|ordinal| tool_use_id(message, ordinal))
            .collect();
        assert!(ids.is_sorted() && ids.iter().all(|id| is_tool_use_id(id) && id.len() == 29));
        assert_eq!(ids[0][3..13], message.to_string()[..10]);
        assert!(!is_tool_use_id("tu_x") && !is_tool_use_id("toolu_01ABC"));
    }
}
