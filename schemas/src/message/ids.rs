//! Identifiers that the same transcript gets on every run (§6.1, §6.2).
//!
//! A message's ULID is made of its own time and its [`Position`] in the conversation, not of a
//! clock and a random source:
//!
//! ```text
//! 48 bits  milliseconds of the message's time
//! 16 bits  depth: how many messages stand before it, so that ids rise along a conversation within one millisecond
//! 64 bits  BLAKE3 of the position
//! ```
//!
//! The calls of a message are numbered on from its own ULID. A position is what rule 4 of the
//! design names a message by: what stands before it, its role and its content. Requests resend the
//! whole conversation; the same prefix gives the same positions, an edited or regenerated turn
//! branches off.

use std::collections::HashMap;
use std::sync::LazyLock;

use blake3::Hasher;
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use ulid::Ulid;

use super::{ContentBlock, Role, Timestamp};
use crate::json::{Json, Object, feed_text};

/// Before a session's ULID.
pub const SESSION_PREFIX: &str = "sess_";
/// Before a tool call's ULID.
pub const TOOL_USE_PREFIX: &str = "tu_";

/// Where a message stands: everything before it, its role and its content, as one digest.
///
/// Thinking doesn't count, because clients leave it out when they resend an answer, and neither do
/// the ids of calls, because they change when a session moves to another provider; a result counts
/// with the call that it answers. Marks of what a provider is to cache move on with every request,
/// so they don't count either, and neither do empty texts: an answer without a word is resent as
/// one, because requests can't hold an empty message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    digest: [u8; 32],
    depth: u32,
}

impl Position {
    /// Where the conversation `name` starts, before its first message. Conversations of one name
    /// share their prefixes.
    pub fn start(name: &str) -> Self {
        static KEY: LazyLock<ContextKey> =
            LazyLock::new(|| hash_derive_key_context("gristmill conversation v1"));
        let mut hasher = Hasher::new_from_context_key(&KEY);
        feed_text(name, &mut hasher);
        Position {
            digest: *hasher.finalize().as_bytes(),
            depth: 0,
        }
    }

    /// The digest: the key of the message among all messages.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// How many messages lead here, this one included.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The ULID of the message that stands here and was made at `time`.
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

/// The id of the call that is number `ordinal` (from 0) in the message with id `message`.
pub fn tool_use_id(message: Ulid, ordinal: usize) -> String {
    let value = u128::from(message);
    // Only the digest's bits count on, so the id keeps the message's time and depth.
    let tail = (value as u64).wrapping_add(1).wrapping_add(ordinal as u64);
    let value = (value >> 64) << 64 | u128::from(tail);
    format!("{TOOL_USE_PREFIX}{}", Ulid::from(value))
}

/// The id of the session whose first message stands at `first` and was made at `time`.
pub fn session_id(first: &Position, time: Timestamp) -> String {
    format!("{SESSION_PREFIX}{}", first.ulid(time))
}

/// True for `tu_` and a ULID.
pub fn is_tool_use_id(id: &str) -> bool {
    id.strip_prefix(TOOL_USE_PREFIX)
        .is_some_and(|ulid| Ulid::from_string(ulid).is_ok())
}

/// A conversation being walked from its start: gives each message its position.
#[derive(Debug, Clone)]
pub struct Thread {
    position: Position,
    calls: HashMap<String, [u8; 32]>,
}

impl Thread {
    /// At the start of the conversation `name`.
    pub fn new(name: &str) -> Self {
        Thread {
            position: Position::start(name),
            calls: HashMap::new(),
        }
    }

    /// Where the walk is.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Steps to the next message and answers where it stands. The ids in `content` need only be
    /// unique so far.
    pub fn advance(&mut self, role: Role, content: &[ContentBlock]) -> Position {
        static KEY: LazyLock<ContextKey> =
            LazyLock::new(|| hash_derive_key_context("gristmill message position v1"));
        let mut hasher = Hasher::new_from_context_key(&KEY);
        hasher.update(&self.position.digest);
        feed_text(role.as_str(), &mut hasher);
        for block in content {
            self.feed_block(block, &mut hasher);
        }
        self.position = Position {
            digest: *hasher.finalize().as_bytes(),
            depth: self.position.depth.saturating_add(1),
        };
        self.position
    }

    fn feed_block(&mut self, block: &ContentBlock, hasher: &mut Hasher) {
        match block {
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => return,
            _ if is_only_form(block) => return,
            _ => feed_text(block.tag(), hasher),
        }
        match block {
            ContentBlock::Text(text) => feed_text(text, hasher),
            ContentBlock::Image(image) => {
                feed_text(image.source.kind(), hasher);
                feed_text(image.source.data(), hasher);
            }
            ContentBlock::ToolUse(call) => {
                let digest = call_digest(&call.name, &call.input);
                self.calls.insert(call.id.to_string(), digest);
                hasher.update(&digest);
            }
            ContentBlock::ToolResult(result) => {
                hasher.update(self.calls.get(&*result.tool_use_id).unwrap_or(&[0; 32]));
                hasher.update(&[u8::from(result.is_error)]);
                let blocks = result
                    .content
                    .iter()
                    .filter(|block| !is_only_form(block))
                    .count();
                hasher.update(&(blocks as u64).to_le_bytes());
                result
                    .content
                    .iter()
                    .for_each(|block| self.feed_block(block, hasher));
            }
            ContentBlock::Unknown(block) => block.json.feed_without(&CACHE_MARKS, hasher),
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {}
        }
    }
}

/// Members that say what a provider is to cache: beside a block's own, or as a block by itself.
const CACHE_MARKS: [&str; 2] = ["cache_control", "cachePoint"];

/// True for a block that says nothing: an empty text, which stands where a wire wants one, or a
/// mark.
fn is_only_form(block: &ContentBlock) -> bool {
    block.as_text() == Some("") || is_cache_mark(block)
}

fn is_cache_mark(block: &ContentBlock) -> bool {
    let members =
        |block: &Object| block.len() == 1 && block.keys().all(|key| CACHE_MARKS.contains(&key));
    matches!(block, ContentBlock::Unknown(unknown) if unknown.json.as_object().is_some_and(members))
}

fn call_digest(name: &str, input: &Object) -> [u8; 32] {
    let mut hasher = Hasher::new();
    Json::from(name).feed(&mut hasher);
    input.feed(&mut hasher);
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
    fn ids_rise_along_a_conversation_within_one_millisecond() {
        let time = Timestamp::from_millis(1_700_000_000_000);
        let mut thread = Thread::new("s");
        let mut last = String::new();
        for turn in 0..50 {
            let position = thread.advance(Role::User, &[ContentBlock::text(turn.to_string())]);
            let id = position.ulid(time).to_string();
            assert!(id > last && id.len() == 26);
            last = id;
        }
    }

    #[test]
    fn the_same_words_at_the_same_place_have_the_same_id_and_elsewhere_another() {
        let mut one = Thread::new("s");
        let mut two = Thread::new("s");
        let hello = [ContentBlock::text("hello")];
        let first = one.advance(Role::User, &hello);
        assert_eq!(first, two.advance(Role::User, &hello));
        assert_ne!(
            first,
            one.advance(Role::User, &hello),
            "a repetition is a new message"
        );
        assert_ne!(first, Thread::new("t").advance(Role::User, &hello));
        assert_ne!(first, Thread::new("s").advance(Role::System, &hello));
    }

    #[test]
    fn resending_without_thinking_or_with_other_call_ids_is_the_same_place() {
        let thought = ContentBlock::Thinking {
            text: "hm".into(),
            signature: None,
        };
        let mut one = Thread::new("s");
        let mut two = Thread::new("s");
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
    fn marks_of_what_to_cache_move_without_moving_a_message() {
        let unknown = |text: &'static str| {
            let json = Json::parse(text.as_bytes()).unwrap();
            ContentBlock::Unknown(UnknownBlock {
                origin: Origin::Wire("p/e".into()),
                json,
            })
        };
        let place = |blocks: &[ContentBlock]| Thread::new("s").advance(Role::User, blocks);
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
    fn an_empty_text_says_nothing_wherever_it_stands() {
        let place = |blocks: &[ContentBlock]| Thread::new("s").advance(Role::Assistant, blocks);
        let text = ContentBlock::text;
        assert_eq!(place(&[]), place(&[text("")]));
        assert_eq!(
            place(&[text("a"), text("b")]),
            place(&[text(""), text("a"), text(""), text("b")])
        );
        assert_ne!(place(&[]), place(&[text(" ")]));
        assert_ne!(place(&[text("a"), text("b")]), place(&[text("ab")]));
        assert_ne!(place(&[]), Thread::new("s").advance(Role::User, &[]));
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
    fn calls_are_numbered_on_from_their_message() {
        let message = Thread::new("s")
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
