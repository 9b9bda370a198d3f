//! Speculative results of the first pass, and their validation in the second.
//!
//! The ids of a message depend on its own time, on the time of the first message of its
//! conversation (which names the session), and on the times of the messages whose tool calls it may
//! answer. The time of a message is the earliest at which it was sighted anywhere in the input,
//! which is known only after the first pass. Recordings are mostly in chronological order, so the
//! first pass maps messages with the earliest times so far. The second pass keeps a line whose
//! times were right and reads the others again. If only the session is wrong, the mapped items are
//! moved to the right one ([`ItemMapper::with_session`]). The output is the same as without
//! speculation.

use gristmill_schemas::message::ids::{MessagePosition, session_id};
use gristmill_schemas::message::{ContentBlock, Message, Timestamp};

use super::extract::ExchangeMessage;
use super::item::ItemMapper;
use crate::transcript::sighting_index::{LineLocation, Sighting, SightingIndex, SightingKind};

/// A message as the first pass read it.
#[derive(Debug)]
struct SpeculativeMessage {
    sighting: Sighting,
    /// The assumed time; no earlier than that of any preceding message.
    time: Timestamp,
    /// Results may refer to its tool calls, whose ids are derived from its time.
    has_calls: bool,
}

impl SpeculativeMessage {
    /// Returns true if the assumed time is the earliest time in the complete index.
    ///
    /// The earliest time can only fall as the index grows, so the times of the preceding messages
    /// don't have to be checked.
    fn has_final_time(&self, index: &SightingIndex) -> bool {
        let first = index.first_seen(&self.sighting.position);
        first.is_some_and(|first| first == self.time && first.source() == self.time.source())
    }
}

/// The speculative result of one line.
#[derive(Debug)]
pub(super) struct SpeculativeLine<T> {
    messages: Vec<SpeculativeMessage>,
    /// The mapped messages, each with its index in `messages`.
    mapped: Vec<(usize, T)>,
    /// The line names its session, so the session id isn't derived from the first message.
    has_session: bool,
}

impl<T> SpeculativeLine<T> {
    /// Returns an empty result.
    pub(super) fn new(has_session: bool) -> Self {
        SpeculativeLine {
            messages: Vec::new(),
            mapped: Vec::new(),
            has_session,
        }
    }

    /// Returns the result of a line that doesn't depend on other lines.
    pub(super) fn certain(mapped: T) -> Self {
        SpeculativeLine {
            mapped: vec![(0, mapped)],
            ..SpeculativeLine::new(false)
        }
    }

    /// Adds the next message of the line, and maps it if `is_preferred`.
    pub(super) fn record(
        &mut self,
        message: ExchangeMessage<'_>,
        is_preferred: bool,
        map: &dyn Fn(ExchangeMessage<'_>) -> T,
    ) {
        let index = self.messages.len();
        self.messages.push(SpeculativeMessage {
            sighting: Sighting {
                position: message.position,
                kind: message.sighting,
                answer: message.answer,
            },
            time: message.message.created_at,
            has_calls: has_calls(&message.message),
        });
        if is_preferred {
            self.mapped.push((index, map(message)));
        }
    }

    /// Returns the sightings of all messages of the line.
    pub(super) fn sightings(&self) -> Vec<Sighting> {
        self.messages
            .iter()
            .map(|message| message.sighting)
            .collect()
    }

    /// Returns for each message whether its preferred sighting is at `location`.
    fn preferred(&self, index: &SightingIndex, location: LineLocation) -> Vec<bool> {
        self.messages
            .iter()
            .map(|SpeculativeMessage { sighting, .. }| {
                index.is_preferred(&sighting.position, sighting.kind, location)
            })
            .collect()
    }

    /// Returns the mapped messages whose preferred sighting is at `location`, or `None` if the line
    /// has to be read again because an assumption doesn't hold in the complete `index`.
    pub(super) fn validate(
        self,
        index: &SightingIndex,
        location: LineLocation,
        mapper: &dyn ItemMapper<T>,
    ) -> Option<Vec<T>> {
        if self.messages.is_empty() {
            return Some(self.mapped.into_iter().map(|(_, item)| item).collect());
        }
        // These have other positions than were assumed.
        let mut messages = self.messages.iter();
        let is_separate = |SpeculativeMessage { sighting, .. }: &SpeculativeMessage| {
            sighting.answer.is_some() && index.separate(&sighting.position, location).is_some()
        };
        if messages.any(is_separate) {
            return None;
        }
        let preferred = self.preferred(index, location);
        if !preferred.contains(&true) {
            return Some(Vec::new());
        }
        let mut callers = self.messages.iter().filter(|message| message.has_calls);
        if !callers.all(|message| message.has_final_time(index)) {
            return None;
        }
        let session = self.changed_session(index)?;
        self.take_preferred(&preferred, index, session.as_deref(), mapper)
    }

    /// Returns the items of the messages that are `preferred`, moved to `session` if it is given;
    /// `None` if one of them wasn't mapped or has a time that isn't final.
    fn take_preferred(
        self,
        preferred: &[bool],
        index: &SightingIndex,
        session: Option<&str>,
        mapper: &dyn ItemMapper<T>,
    ) -> Option<Vec<T>> {
        let mut mapped = self.mapped.into_iter().peekable();
        let mut items = Vec::new();
        for (number, (message, is_preferred)) in self.messages.iter().zip(preferred).enumerate() {
            let own = mapped.next_if(|(of, _)| *of == number);
            if *is_preferred {
                let (_, item) = own.filter(|_| message.has_final_time(index))?;
                items.push(match session {
                    Some(session) => mapper.with_session(item, session)?,
                    None => item,
                });
            }
        }
        Some(items)
    }

    /// Returns the session id to move to if the first message was sighted earlier than assumed;
    /// `Some(None)` if the session stays.
    fn changed_session(&self, index: &SightingIndex) -> Option<Option<String>> {
        match self.messages.first() {
            Some(first) if !self.has_session && !first.has_final_time(index) => {
                let position = &first.sighting.position;
                let time = index.first_seen(position)?;
                Some(Some(session_id(position, time)))
            }
            _ => Some(None),
        }
    }
}

fn has_calls(message: &Message) -> bool {
    message
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::ToolUse(_)))
}

/// The sightings that are known while the first pass runs, from the point of view of one line.
pub(super) struct PartialIndex<'s> {
    /// The sightings of the chunk that is being read.
    pub(super) chunk: &'s SightingIndex,
    /// The merged sightings of other chunks.
    pub(super) merged: &'s SightingIndex,
    /// The time of the line.
    pub(super) time: Timestamp,
    /// The digest of the line.
    pub(super) digest: u64,
    /// The location of the line.
    pub(super) location: LineLocation,
}

impl PartialIndex<'_> {
    /// Returns the earliest time so far, which is at most that of the line.
    pub(super) fn first_seen(&self, position: &MessagePosition) -> Timestamp {
        [self.chunk, self.merged]
            .into_iter()
            .filter_map(|index| index.first_seen(position))
            .fold(self.time, Timestamp::earlier)
    }

    /// Returns true if the line has the preferred sighting so far.
    pub(super) fn is_preferred(&self, position: &MessagePosition, kind: SightingKind) -> bool {
        [self.chunk, self.merged].iter().all(|index| {
            let line = (self.time, self.digest);
            index.may_be_preferred(position, kind, line, self.location)
        })
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::Role;
    use gristmill_schemas::message::block::ToolUseBlock;
    use gristmill_schemas::message::ids::PositionTracker;

    use super::super::item::ExchangeItem;
    use super::*;

    const LOCATION: LineLocation = LineLocation { file: 0, line: 7 };
    const OTHER: LineLocation = LineLocation { file: 0, line: 1 };

    /// A line whose messages have these times; the second one has a tool call.
    fn speculative_line(seconds: &[i64]) -> (SpeculativeLine<usize>, Vec<Sighting>) {
        let (mut line, mut thread) = (SpeculativeLine::new(false), PositionTracker::new(""));
        for (number, seconds) in seconds.iter().enumerate() {
            let call = ToolUseBlock {
                id: "1".into(),
                name: "f".into(),
                input: Default::default(),
            };
            let content = vec![if number == 1 {
                ContentBlock::ToolUse(call)
            } else {
                ContentBlock::text("x")
            }];
            let position = thread.advance(Role::User, &content);
            let time = Timestamp::from_seconds(*seconds);
            let message = ExchangeMessage {
                position,
                parent: None,
                answer: None,
                sighting: SightingKind::Resent,
                message: Message::new("", "", Role::User, content, time),
                stop_reason: None,
                usage: None,
                response: None,
            };
            line.record(message, true, &|_| number);
        }
        let sightings = line.sightings();
        (line, sightings)
    }

    /// The index of the sightings at these times.
    fn index_of(sightings: &[Sighting], seconds: &[i64]) -> SightingIndex {
        let mut index = SightingIndex::default();
        for (sighting, seconds) in sightings.iter().zip(seconds) {
            let time = Timestamp::from_seconds(*seconds);
            index.record(&[*sighting], time, 5, LOCATION);
        }
        index
    }

    /// Validates a line whose four messages have the times 1, 2, 2 and 4, if one of them was also
    /// sighted elsewhere at another time.
    fn validate_with(number: usize, seconds: i64) -> Option<Vec<usize>> {
        let times = [1, 2, 2, 4];
        let (line, sightings) = speculative_line(&times);
        let mut index = index_of(&sightings, &times);
        let time = Timestamp::from_seconds(seconds);
        index.record(&[sightings[number]], time, 5, OTHER);
        line.validate(&index, LOCATION, &AddHundred)
    }

    /// Adds 100 to an item that is moved to another session.
    struct AddHundred;

    impl ItemMapper<usize> for AddHundred {
        fn map(&self, _item: ExchangeItem<'_>) -> usize {
            0
        }

        fn with_session(&self, mapped: usize, _session: &str) -> Option<usize> {
            Some(mapped + 100)
        }
    }

    #[test]
    fn a_line_is_valid_if_the_times_that_its_ids_depend_on_are_final() {
        assert_eq!(
            validate_with(0, 9),
            Some(vec![0, 1, 2, 3]),
            "a later sighting changes nothing"
        );
        assert_eq!(
            validate_with(0, 0),
            Some(vec![101, 102, 103]),
            "the session is named after the first message"
        );
        assert_eq!(
            validate_with(1, 1),
            None,
            "a result may refer to the tool call"
        );
        assert_eq!(
            validate_with(2, 1),
            Some(vec![0, 1, 3]),
            "it is preferred elsewhere, and no id depends on it"
        );
        assert_eq!(validate_with(3, 3), Some(vec![0, 1, 2]));
    }

    #[test]
    fn a_message_with_a_later_time_than_its_sighting_is_read_again() {
        let (line, sightings) = speculative_line(&[5, 5]);
        let index = index_of(&sightings, &[5, 4]);
        assert_eq!(line.validate(&index, LOCATION, &AddHundred), None);
        assert_eq!(
            SpeculativeLine::certain(3).validate(&index, LOCATION, &AddHundred),
            Some(vec![3])
        );
    }

    #[test]
    fn a_named_session_stays_and_a_mapper_may_be_unable_to_move_items() {
        let times = [1, 2, 2, 4];
        for (has_session, expected) in [(true, Some(vec![1, 2, 3])), (false, None)] {
            let (line, sightings) = speculative_line(&times);
            let line = SpeculativeLine {
                has_session,
                ..line
            };
            let mut index = index_of(&sightings, &times);
            index.record(&sightings[..1], Timestamp::from_seconds(0), 5, OTHER);
            assert_eq!(
                line.validate(&index, LOCATION, &|_: ExchangeItem<'_>| 0),
                expected
            );
        }
    }
}
