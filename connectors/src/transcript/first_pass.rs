//! The first pass over exchange lines: where each message stands, and what can be made of it
//! already.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use gristmill_schemas::json::{Json, JsonParser};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::ids::Position;

use super::guess::{Guess, SoFar};
use super::line::Line;
use super::read::{
    self, Make, Opaque, ReadOptions, Reader, Subject, catch_up, conversation_name, in_parallel,
    known,
};
use super::traffic::{Reading, Scanned, created_at, reading, scan, visit};
use super::tree::{Spot, Tree};
use crate::threads;
use crate::wire::adapter::Adapter;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::Exchange;

/// Bytes of lines of which the first pass keeps what it makes. Of each byte it keeps about one.
const GUESSED_BYTES: usize = 512 << 20;

/// What one thread reads at a time.
pub(super) struct Portion<'l, T> {
    pub(super) lines: &'l [Line],
    /// What the first pass made of the lines; none if it guessed nothing.
    guesses: Mutex<Vec<Option<Guess<T>>>>,
}

impl<'l, T> Portion<'l, T> {
    pub(super) fn of(lines: &'l [Line]) -> Self {
        Portion {
            lines,
            guesses: Mutex::new(Vec::new()),
        }
    }

    /// What was guessed of each line; nothing if nothing was.
    pub(super) fn take_guesses(&self) -> Vec<Option<Guess<T>>> {
        std::mem::take(&mut *self.guesses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The first pass; with `make` it makes ahead what it can guess.
pub(super) fn first_pass<T: Send>(
    bytes: &[u8],
    portions: &[Portion<T>],
    options: ReadOptions,
    file: u32,
    make: Option<Make<'_, T>>,
) -> Tree {
    let (so_far, mut late) = (RwLock::new(Tree::default()), Vec::new());
    let left = AtomicUsize::new(GUESSED_BYTES);
    let threads = threads(options.threads);
    let scan = |portion: &Portion<T>| {
        let ahead = make
            .filter(|_| take_from(&left, portion))
            .map(|make| Ahead {
                make,
                there: &so_far,
            });
        let (tree, parser) = (Tree::default(), JsonParser::new());
        let mut scan = Scan {
            bytes,
            options,
            file,
            parser,
            tree,
            late: Vec::new(),
        };
        let guesses = portion
            .lines
            .iter()
            .map(|line| scan.line(line, ahead))
            .collect();
        if ahead.is_some() {
            *portion
                .guesses
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = guesses;
        }
        (scan.tree, scan.late)
    };
    in_parallel(portions, threads, &scan, &mut |_, (part, later)| {
        so_far
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .merge(part);
        late.extend(later);
    });
    let mut tree = so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
    // What goes on from an answer stands behind it, so all answers have to be known.
    let mut parts = Vec::new();
    let scan = |portion: &&[Line]| {
        let mut part = Tree::default();
        let reader = Reader {
            bytes,
            options,
            tree: &tree,
            file,
        };
        portion
            .iter()
            .for_each(|line| late_line(reader, line, &mut part));
        part
    };
    in_parallel(&read::portions(&late), threads, &scan, &mut |_, part| {
        parts.push(part)
    });
    parts.into_iter().for_each(|part| tree.merge(part));
    tree
}

/// Takes the bytes of `portion` from those that are `left`; false if there aren't as many.
fn take_from<T>(left: &AtomicUsize, portion: &Portion<T>) -> bool {
    let bytes = portion.lines.iter().map(|line| line.range.len()).sum();
    left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(bytes)
    })
    .is_ok()
}

/// What the first pass sees in a portion.
struct Scan<'s> {
    bytes: &'s [u8],
    options: ReadOptions<'s>,
    file: u32,
    parser: JsonParser<'s>,
    tree: Tree,
    /// Lines whose requests go on from an answer: they are put off until all answers are known.
    late: Vec<Line>,
}

/// What the first pass needs to guess.
struct Ahead<'a, T> {
    make: Make<'a, T>,
    /// What was put together of the portions before.
    there: &'a RwLock<Tree>,
}

impl<T> Clone for Ahead<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ahead<'_, T> {}

impl Scan<'_> {
    /// Takes down what `line` tells of. Lines that can't be read are told by the second pass.
    fn line<T>(&mut self, line: &Line, ahead: Option<Ahead<'_, T>>) -> Option<Guess<T>> {
        let json = line.json_by(&mut self.parser, self.bytes).ok()?;
        let exchange = Exchange::from_json_or_detect(&json, self.options.provider)?;
        let adapter = match reading(&exchange) {
            Reading::Known(adapter) => adapter,
            Reading::Opaque(reason) => {
                let opaque = Opaque::of(&exchange, &json, reason, self.options.fallback);
                return ahead.map(|ahead| Guess::sure(ahead.make.make(Subject::Opaque(opaque))));
            }
        };
        let (digest, at) = (
            digest(self.bytes, line),
            Spot {
                file: self.file,
                line: line.number,
            },
        );
        let goes_on = exchange
            .request
            .is_some_and(|request| adapter.previous_response_id(request).is_some());
        if let Some(ahead) = ahead.filter(|_| !goes_on && !exchange.has_raw_text) {
            return self.guess((adapter, &exchange, &json), (line, digest, at), ahead);
        }
        let context = ReadContext::at(Timestamp::from_micros(0));
        let Scanned {
            marks,
            created_at,
            answer,
        } = scan(
            adapter,
            &exchange,
            &mut Conversation::new(&conversation_name(&json)),
            &context,
        );
        if let Some(id) = answer {
            self.tree
                .note_answer(self.file, id, digest, line.range.clone());
        }
        if goes_on {
            // Its place isn't known yet, but its answer may be what others go on from.
            self.late.push(line.clone());
        } else {
            self.tree.note(
                &marks,
                exchange.time(created_at, self.options.fallback),
                digest,
                at,
            );
        }
        None
    }

    /// Takes down what an exchange tells of that begins its conversation, and makes what is likely
    /// to count.
    fn guess<T>(
        &mut self,
        (adapter, exchange, json): (&'static dyn Adapter, &Exchange, &Json),
        (line, digest, at): (&Line, u64, Spot),
        ahead: Ahead<'_, T>,
    ) -> Option<Guess<T>> {
        let fallback = self.options.fallback;
        let created_at = match exchange.recorded_at {
            Some(_) => None,
            None => created_at(adapter, exchange),
        };
        let time = exchange.time(created_at, fallback);
        let session = json.get("session_id").and_then(Json::as_str);
        let mut guess = Guess::of_session(session.is_some());
        let visited = {
            let there = ahead.there.read().unwrap_or_else(PoisonError::into_inner);
            let so_far = SoFar {
                here: &self.tree,
                there: &there,
                time,
                digest,
                at,
            };
            let first_seen = |position: &Position| Some(so_far.first_seen(position));
            let counts = |position: &Position, sight| so_far.counts(position, sight);
            let context = ReadContext {
                first_seen: Some(&first_seen),
                session,
                ..ReadContext::at(time)
            };
            let conversation = Conversation::new(&conversation_name(json));
            visit(
                adapter,
                exchange,
                conversation,
                &context,
                &counts,
                &mut |node, conversation| {
                    let counts = counts(&node.position, node.sight);
                    guess.see(node, counts, &|node| {
                        ahead.make.make(Subject::Message(node, conversation))
                    });
                },
            )
        };
        if let Some(id) = visited.answer {
            self.tree
                .note_answer(self.file, id, digest, line.range.clone());
        }
        self.tree.note(&guess.marks(), time, digest, at);
        (!visited.is_cut).then_some(guess)
    }
}

/// Takes down what `line` tells of, whose request goes on from an answer.
fn late_line(reader: Reader<'_>, line: &Line, into: &mut Tree) {
    let Ok(json) = line.json(reader.bytes) else {
        return;
    };
    let Some((adapter, exchange)) = known(&json, reader.options) else {
        return;
    };
    let context = ReadContext::at(Timestamp::from_micros(0));
    let name = conversation_name(&json);
    let mut conversation = Conversation::new(&name);
    catch_up(
        reader,
        adapter,
        &exchange,
        (&mut conversation, &name),
        &context,
    );
    let Scanned {
        marks, created_at, ..
    } = scan(adapter, &exchange, &mut conversation, &context);
    let time = exchange.time(created_at, reader.options.fallback);
    into.note(
        &marks,
        time,
        digest(reader.bytes, line),
        Spot {
            file: reader.file,
            line: line.number,
        },
    );
}

/// A number that a line's bytes come to, always and everywhere, by which lines that say the same at
/// the same time are put in order. Nothing hangs on who can choose it, so it is a fast one.
fn digest(bytes: &[u8], line: &Line) -> u64 {
    twox_hash::XxHash64::oneshot(0, bytes.get(line.range.clone()).unwrap_or_default())
}
