//! The messages of LangGraph's threads: a conversation that later snapshots of its thread repeat,
//! trim and edit.
//!
//! Each message is emitted once, with the time of the first snapshot that has it. It is known by
//! its position, or by its id and content where a snapshot has lost messages before it: a node that
//! summarises a history removes what the summary replaces. A message with the position of one with
//! another id is known by its own id: the messages that a trimmed history retains may begin like
//! the thread. After a message whose content was edited the rest is a branch, whose messages are
//! known by their positions only.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::message::ids::{MessagePosition, PositionTracker};
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use crate::transcript::conversation_builder::{BuiltMessage, ConversationBuilder, ConversationEnd};

/// The messages of earlier snapshots.
#[derive(Debug, Default)]
pub(super) struct KnownMessages {
    by_position: HashMap<MessagePosition, EmittedMessage>,
    /// By thread, and by the id of the message.
    by_id: HashMap<String, HashMap<String, KnownMessage>>,
}

/// A message that was emitted.
#[derive(Debug)]
struct EmittedMessage {
    time: Timestamp,
    /// Its id in its snapshot, if that has it once.
    id: Option<String>,
}

impl EmittedMessage {
    /// Returns true if a message with `id` may be this one.
    fn may_be(&self, id: Option<&str>) -> bool {
        let own = self.id.as_deref();
        own.is_none() || id.is_none() || own == id
    }
}

/// A message with an id.
#[derive(Debug)]
struct KnownMessage {
    /// The position that it has without messages before it.
    content: MessagePosition,
    end: ConversationEnd,
}

/// The messages of a snapshot, in order.
pub(super) struct SnapshotMessages<'k> {
    by_position: &'k mut HashMap<MessagePosition, EmittedMessage>,
    by_id: &'k mut HashMap<String, KnownMessage>,
    conversation: ConversationBuilder,
    /// The time of the snapshot.
    time: Timestamp,
    /// The ids of its messages so far.
    seen: HashSet<String>,
    /// True after a message with another content than that which its id had.
    is_edited: bool,
}

impl<'k> SnapshotMessages<'k> {
    /// Returns the messages of a snapshot of `thread` before the first one.
    pub(super) fn new(known: &'k mut KnownMessages, thread: &str, time: Timestamp) -> Self {
        SnapshotMessages {
            by_position: &mut known.by_position,
            by_id: known.by_id.entry(thread.to_owned()).or_default(),
            conversation: ConversationBuilder::new(thread),
            time,
            seen: HashSet::new(),
            is_edited: false,
        }
    }

    /// Adds a message and returns it, unless an earlier snapshot has it.
    pub(super) fn next_message(
        &mut self,
        role: Role,
        content: Vec<ContentBlock<'static>>,
        id: Option<&str>,
    ) -> Option<BuiltMessage> {
        // An id that a snapshot has twice identifies nothing.
        let id = id.filter(|id| self.seen.insert((*id).to_owned()));
        let alone = PositionTracker::new("").advance(role, &content);
        let position = self.conversation.next_position(role, &content);
        let at_position = self.by_position.get(&position);
        let with_id = id.and_then(|id| self.by_id.get(id));
        let is_other = at_position.is_none_or(|emitted| !emitted.may_be(id));
        if let Some(known) = with_id.filter(|_| is_other) {
            self.is_edited |= at_position.is_none() && known.content != alone;
            if !self.is_edited && known.content == alone {
                self.conversation.continue_after(&known.end, content);
                return None;
            }
        }
        // The ids depend on the times, so a repeated message must get the time that it had.
        if let Some(emitted) = at_position {
            self.conversation.push(role, content, emitted.time);
            return None;
        }
        let built = self.conversation.push(role, content, self.time);
        self.note(&built, id, alone);
        Some(built)
    }

    /// Notes a message that is emitted. `content` is its position without messages before it.
    fn note(&mut self, built: &BuiltMessage, id: Option<&str>, content: MessagePosition) {
        let emitted = EmittedMessage {
            time: built.message.created_at,
            id: id.map(str::to_owned),
        };
        self.by_position.insert(built.position, emitted);
        if let (Some(id), Some(end)) = (id, self.conversation.end()) {
            let known = KnownMessage { content, end };
            self.by_id.insert(id.to_owned(), known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use crate::transcript::kind::TranscriptKind;
    use crate::transcript::parsed::PlacedMessage;

    /// Returns the messages of a thread whose snapshots have these messages, each of the form
    /// `id content`.
    fn thread(snapshots: &[&[&str]]) -> Vec<PlacedMessage> {
        let snapshot = |(step, messages): (usize, &&[&str])| {
            let messages = messages.iter().map(|message| {
                let (id, content) = message.split_once(' ').unwrap();
                let kind = if id.starts_with('a') { "ai" } else { "human" };
                format!(
                    r#"{{"type":"{kind}","id":"{id}","content":"{content}","usage_metadata":{{"input_tokens":1}}}}"#
                )
            });
            let messages = messages.collect::<Vec<_>>().join(",");
            format!(
                r#"{{"values":{{"messages":[{messages}]}},"config":{{"configurable":{{"thread_id":"t"}}}},"created_at":"2025-11-24T16:00:0{step}Z"}}"#
            )
        };
        let lines: Vec<String> = snapshots.iter().enumerate().map(snapshot).collect();
        parsed(&lines.join("\n"), TranscriptKind::LangGraph).messages
    }

    /// Returns the texts of messages, each with that of its parent.
    fn texts(messages: &[PlacedMessage]) -> Vec<(String, Option<String>)> {
        let text = |placed: &PlacedMessage| placed.message.content[0].as_text().unwrap().to_owned();
        let parent = |placed: &PlacedMessage| {
            let parent = placed.parent?;
            messages
                .iter()
                .find(|other| other.position == parent)
                .map(text)
        };
        let texts = messages.iter().map(|placed| (text(placed), parent(placed)));
        texts.collect()
    }

    fn follows(text: &str, parent: &str) -> (String, Option<String>) {
        let parent = (!parent.is_empty()).then(|| parent.to_owned());
        (text.to_owned(), parent)
    }

    #[test]
    fn the_messages_that_a_trimmed_history_retains_are_emitted_once() {
        let first: &[&str] = &["h1 q", "a1 x", "h2 r", "a2 y"];
        let messages = thread(&[first, &["h2 r", "a2 y", "h3 s"]]);
        let expected = [
            follows("q", ""),
            follows("x", "q"),
            follows("r", "x"),
            follows("y", "r"),
            follows("s", "y"),
        ];
        assert_eq!(texts(&messages), expected);
        let summarised: &[&str] = &["s1 summary", "a2 y", "h3 s"];
        let messages = thread(&[first, summarised, &["s1 summary", "a2 y", "h3 s", "a3 z"]]);
        let mut expected = expected.to_vec();
        expected.insert(4, follows("summary", ""));
        expected.push(follows("z", "s"));
        assert_eq!(texts(&messages), expected);
    }

    #[test]
    fn a_trimmed_history_that_begins_like_its_thread_goes_on_from_its_end() {
        let first: &[&str] = &["h1 hi", "a1 hello", "h2 hi", "a2 hello"];
        let messages = thread(&[first, &["h2 hi", "a2 hello", "h3 bye"]]);
        let expected = [
            follows("hi", ""),
            follows("hello", "hi"),
            follows("hi", "hello"),
            follows("hello", "hi"),
            follows("bye", "hello"),
        ];
        assert_eq!(texts(&messages), expected);
        let parents: Vec<_> = messages.iter().map(|placed| placed.parent).collect();
        let positions = messages.iter().map(|placed| Some(placed.position));
        assert!(parents[1..].iter().copied().eq(positions.take(4)));
    }

    #[test]
    fn a_thread_that_returns_to_a_branch_goes_on_there() {
        let messages = thread(&[
            &["h1 q", "a1 x", "h2 r"],
            &["h1 q", "a1 edited", "h2 r"],
            &["h1 q", "a1 x", "h2 r", "a2 y"],
        ]);
        assert_eq!(messages.len(), 6);
        assert_eq!(messages[5].parent, Some(messages[2].position));
    }

    #[test]
    fn what_follows_an_edited_message_is_a_branch_and_repeated_ids_identify_nothing() {
        let messages = thread(&[&["h1 q", "a1 x", "h2 r"], &["h1 q", "a1 edited", "h2 r"]]);
        let expected = [
            follows("q", ""),
            follows("x", "q"),
            follows("r", "x"),
            follows("edited", "q"),
            follows("r", "edited"),
        ];
        assert_eq!(texts(&messages), expected);
        let messages = thread(&[&["h q", "a x", "h q"]]);
        let expected = [follows("q", ""), follows("x", "q"), follows("q", "x")];
        assert_eq!(texts(&messages), expected);
    }
}
