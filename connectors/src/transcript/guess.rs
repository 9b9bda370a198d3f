//! What the first pass makes ahead of knowing everything, and whether that came true.
//!
//! A message takes its ids from its time and from the times of others: the first of its
//! conversation, whose session it is in, and those whose calls it may answer. Its own time is that
//! at which it was first seen, and a recording tells it most often in the order in which it
//! happened. So the first pass makes what it believes to count with the times that it has seen so
//! far. Only when all is seen it shows whether a guess holds; a line whose guess doesn't is read
//! again, unless it is wrong in nothing but when the conversation began: then what was made is
//! moved to the session that is called after that. So what comes out never depends on what was
//! guessed.

use gristmill_schemas::message::ids::{Position, session_id};
use gristmill_schemas::message::{ContentBlock, Message, Timestamp};

use super::read::Make;
use super::traffic::{Mark, Node, Sight};
use super::tree::{Spot, Tree};

/// A message as the first pass saw it.
#[derive(Debug)]
struct Sighting {
    mark: Mark,
    /// The time that was given to it: no earlier than that of any message before it.
    time: Timestamp,
    /// Other messages may name it by the ids of its calls, which are made of its time.
    has_calls: bool,
}

impl Sighting {
    /// True if the time is that at which `tree` has the message first seen. What is first seen can
    /// only become earlier while the tree grows, so then the times of the messages before don't
    /// matter.
    fn holds(&self, tree: &Tree) -> bool {
        let first = tree.first_seen(&self.mark.position);
        first.is_some_and(|first| first == self.time && first.source() == self.time.source())
    }
}

/// What was made of one line.
#[derive(Debug)]
pub(super) struct Guess<T> {
    sightings: Vec<Sighting>,
    /// What was made of some of them, each with its place among them.
    made: Vec<(usize, T)>,
    /// The line names its session, which therefore isn't called after its first message.
    has_session: bool,
}

impl<T> Guess<T> {
    /// Nothing yet, of a line that names its session if it `has_session`.
    pub(super) fn of_session(has_session: bool) -> Self {
        Guess {
            sightings: Vec::new(),
            made: Vec::new(),
            has_session,
        }
    }

    /// What was made of a line that owes nothing to others.
    pub(super) fn sure(made: T) -> Self {
        Guess {
            made: vec![(0, made)],
            ..Guess::of_session(false)
        }
    }

    /// Takes down the next message of the line, and makes it if it `counts`.
    pub(super) fn see(&mut self, node: Node<'_>, counts: bool, make: &dyn Fn(Node<'_>) -> T) {
        let place = self.sightings.len();
        let mark = Mark {
            position: node.position,
            sight: node.sight,
        };
        let has_calls = has_calls(&node.message);
        self.sightings.push(Sighting {
            mark,
            time: node.message.created_at,
            has_calls,
        });
        if counts {
            self.made.push((place, make(node)));
        }
    }

    /// Where the messages stand.
    pub(super) fn marks(&self) -> Vec<Mark> {
        self.sightings
            .iter()
            .map(|sighting| sighting.mark)
            .collect()
    }

    /// What `make` made of those messages that count, if `tree`, which has seen everything, says of
    /// all that matters what was believed. If only the first message was seen earlier than was
    /// believed, what was made is moved to the session that is called after that.
    pub(super) fn come_true(self, tree: &Tree, at: Spot, make: Make<'_, T>) -> Option<Vec<T>> {
        if self.sightings.is_empty() {
            return Some(self.made.into_iter().map(|(_, made)| made).collect());
        }
        let counts =
            |sighting: &Sighting| tree.counts(&sighting.mark.position, sighting.mark.sight, at);
        let counting: Vec<bool> = self.sightings.iter().map(counts).collect();
        if !counting.contains(&true) {
            return Some(Vec::new());
        }
        if !self
            .sightings
            .iter()
            .filter(|sighting| sighting.has_calls)
            .all(|sighting| sighting.holds(tree))
        {
            return None;
        }
        let session = match self.sightings.first() {
            Some(first) if !self.has_session && !first.holds(tree) => {
                let position = &first.mark.position;
                Some(session_id(position, tree.first_seen(position)?))
            }
            _ => None,
        };
        let moved = |made: T| match &session {
            Some(session) => make.moved(made, session),
            None => Some(made),
        };
        let mut made = self.made.into_iter().peekable();
        let mut true_ones = Vec::new();
        for (place, (sighting, counts)) in self.sightings.iter().zip(counting).enumerate() {
            let own = made.next_if(|(of, _)| *of == place);
            if counts {
                true_ones.push(moved(own.filter(|_| sighting.holds(tree))?.1)?);
            }
        }
        Some(true_ones)
    }
}

fn has_calls(message: &Message) -> bool {
    message
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::ToolUse(_)))
}

/// What of a position is known, here or there, while all is being seen.
pub(super) struct SoFar<'s> {
    /// What the portion saw that is being read.
    pub(super) here: &'s Tree,
    /// What was put together of other portions.
    pub(super) there: &'s Tree,
    /// When the line that is being read was.
    pub(super) time: Timestamp,
    /// The digest of the line.
    pub(super) digest: u64,
    /// Where it is.
    pub(super) at: Spot,
}

impl SoFar<'_> {
    /// When the message there was first seen, so far.
    pub(super) fn first_seen(&self, position: &Position) -> Timestamp {
        let before = [self.here, self.there]
            .into_iter()
            .filter_map(|tree| tree.first_seen(position));
        before.fold(self.time, Timestamp::earlier)
    }

    /// True if no better sight of the message there was seen, so far.
    pub(super) fn counts(&self, position: &Position, sight: Sight) -> bool {
        [self.here, self.there]
            .iter()
            .all(|tree| tree.would_count(position, sight, (self.time, self.digest), self.at))
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::Role;
    use gristmill_schemas::message::block::ToolUseBlock;
    use gristmill_schemas::message::ids::Thread;

    use super::super::read::{Maker, Subject};
    use super::*;

    const AT: Spot = Spot { file: 0, line: 7 };

    fn guess(seconds: &[i64]) -> (Guess<usize>, Vec<Mark>) {
        let (mut guess, mut thread) = (Guess::of_session(false), Thread::new(""));
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
            let message = Message::new(
                "",
                "",
                Role::User,
                content,
                Timestamp::from_seconds(*seconds),
            );
            let (stop_reason, usage, response) = (None, None, None);
            let node = Node {
                position,
                parent: None,
                sight: Sight::Resent,
                message,
                stop_reason,
                usage,
                response,
            };
            guess.see(node, true, &|_| number);
        }
        let marks = guess.marks();
        (guess, marks)
    }

    /// What comes true of a line whose four messages got the times 1, 2, 2 and 4, if one of them
    /// was seen at another time and spot.
    fn with(place: usize, seconds: i64) -> Option<Vec<usize>> {
        let (guess, marks) = guess(&[1, 2, 2, 4]);
        let mut tree = Tree::default();
        for (mark, seconds) in marks.iter().zip([1, 2, 2, 4]) {
            tree.note(&[*mark], Timestamp::from_seconds(seconds), 5, AT);
        }
        tree.note(
            &[marks[place]],
            Timestamp::from_seconds(seconds),
            5,
            Spot { file: 0, line: 1 },
        );
        guess.come_true(&tree, AT, &Places)
    }

    /// Makes nothing; whoever is moved to another session comes a hundred places later.
    struct Places;

    impl Maker<usize> for Places {
        fn make(&self, _subject: Subject<'_>) -> usize {
            0
        }

        fn moved(&self, made: usize, _session: &str) -> Option<usize> {
            Some(made + 100)
        }
    }

    #[test]
    fn a_guess_holds_if_what_counts_and_what_names_it_was_first_seen_when_it_was_thought() {
        assert_eq!(
            with(0, 9),
            Some(vec![0, 1, 2, 3]),
            "a later sight changes nothing"
        );
        assert_eq!(
            with(0, 0),
            Some(vec![101, 102, 103]),
            "the session is named after the first message"
        );
        assert_eq!(with(1, 1), None, "a result may answer the call");
        assert_eq!(
            with(2, 1),
            Some(vec![0, 1, 3]),
            "it counts elsewhere, and nothing is named after it"
        );
        assert_eq!(with(3, 3), Some(vec![0, 1, 2]));
    }

    #[test]
    fn what_was_given_a_later_time_than_it_was_seen_at_is_read_again() {
        let (guess, marks) = guess(&[5, 5]);
        let mut tree = Tree::default();
        tree.note(&marks[..1], Timestamp::from_seconds(5), 5, AT);
        tree.note(&marks[1..], Timestamp::from_seconds(4), 5, AT);
        assert_eq!(guess.come_true(&tree, AT, &Places), None);
        assert_eq!(Guess::sure(3).come_true(&tree, AT, &Places), Some(vec![3]));
    }

    #[test]
    fn a_session_with_a_name_of_its_own_keeps_it_and_not_everything_can_be_moved() {
        for (has_session, expected) in [(true, Some(vec![1, 2, 3])), (false, None)] {
            let (guess, marks) = guess(&[1, 2, 2, 4]);
            let guess = Guess {
                has_session,
                ..guess
            };
            let mut tree = Tree::default();
            for (mark, seconds) in marks.iter().zip([1, 2, 2, 4]) {
                tree.note(&[*mark], Timestamp::from_seconds(seconds), 5, AT);
            }
            tree.note(
                &marks[..1],
                Timestamp::from_seconds(0),
                5,
                Spot { file: 0, line: 1 },
            );
            assert_eq!(guess.come_true(&tree, AT, &|_: Subject<'_>| 0), expected);
        }
    }
}
