//! Exchange lines in two passes, on several threads.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;

use gristmill_schemas::json::{Json, JsonParser};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::ids::Position;

use super::first_pass::{Portion, first_pass};
use super::line::{FaultCode, Line, LineFault, lines};
use super::traffic::{Node, Reading, UNREADABLE_BODY, reading, scan, visit};
use super::tree::{Spot, Tree};
use crate::threads;
use crate::wire::adapter::Adapter;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::Exchange;

/// Bytes of lines that one thread reads before what it found is put together.
const PORTION_BYTES: usize = 4 << 20;

/// What is wrong with a line that is JSON, but no exchange.
pub(super) const NO_EXCHANGE: &str =
    "not an exchange: an object with `provider`, `endpoint`, `request` and `response`";

/// What is known about a file of exchanges beside its bytes.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions<'o> {
    /// The time of exchanges that tell none: when the file was last changed.
    pub fallback: Timestamp,
    /// The provider of lines that name none.
    pub provider: Option<&'o str>,
    /// The namespace of the grains.
    pub namespace: Option<&'o str>,
    /// Threads to read on; 0 for one per core.
    pub threads: usize,
    /// True if the grains may not lie open in a temporary file.
    pub sealed: bool,
    /// What is known of the files that are read together with this one; nothing if it stands alone.
    pub together: Option<Together<'o>>,
}

/// A file among those that are read together: a conversation that is spread over them is one.
#[derive(Debug, Clone, Copy)]
pub struct Together<'t> {
    /// What the first pass saw in all of them.
    pub tree: &'t Tree,
    /// Which of them this is.
    pub file: u32,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            fallback: Timestamp::from_micros(0),
            provider: None,
            namespace: None,
            threads: 0,
            sealed: false,
            together: None,
        }
    }
}

/// What a line comes to.
#[derive(Debug)]
pub enum Found<T> {
    /// What was made of its messages, or of all of it.
    Made(Vec<T>),
    /// A line that can't be read.
    Fault(LineFault),
}

/// What something is made of.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is handed on once and never kept"
)]
pub enum Subject<'s> {
    /// A message, and the conversation that it stands in.
    Message(Node<'s>, &'s Conversation),
    /// A whole line.
    Opaque(Opaque<'s>),
}

/// Traffic that no adapter reads.
#[derive(Debug, Clone, Copy)]
pub struct Opaque<'o> {
    /// When it was recorded.
    pub time: Timestamp,
    /// The provider as the line names it.
    pub provider: &'o str,
    /// The endpoint.
    pub endpoint: &'o str,
    /// Why no adapter reads it.
    pub reason: &'o str,
    /// All of it.
    pub json: &'o Json<'o>,
}

impl Opaque<'_> {
    pub(super) fn of<'o>(
        exchange: &'o Exchange,
        json: &'o Json<'o>,
        reason: &'o str,
        fallback: Timestamp,
    ) -> Opaque<'o> {
        let time = exchange.time(None, fallback);
        Opaque {
            time,
            provider: &exchange.provider,
            endpoint: &exchange.endpoint,
            reason,
            json,
        }
    }

    /// Whose it is: `provider/endpoint`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider, self.endpoint)
    }
}

/// What makes something of messages and of what is opaque.
pub trait Maker<T>: Sync {
    /// Makes something of `subject`.
    fn make(&self, subject: Subject<'_>) -> T;

    /// What would have been made if the message were in the session `session`, which has no name of
    /// its own; `None` if that can't be told without making it again. Ids of such sessions are of
    /// one length.
    fn moved(&self, _made: T, _session: &str) -> Option<T> {
        None
    }
}

impl<T, F: Fn(Subject<'_>) -> T + Sync> Maker<T> for F {
    fn make(&self, subject: Subject<'_>) -> T {
        self(subject)
    }
}

/// A maker that is used on many threads.
pub(super) type Make<'m, T> = &'m dyn Maker<T>;

/// Reads the lines of `bytes` in two passes. `make` is given whatever counts, on any thread, some
/// of it twice and some in vain; what it makes goes line by line to `take`, of each message once,
/// in the order of the lines.
pub fn read_exchanges<T: Send>(
    bytes: &[u8],
    options: ReadOptions<'_>,
    make: &dyn Maker<T>,
    take: &mut dyn FnMut(&Line, Found<T>),
) {
    let all: Vec<Line> = lines(bytes).collect();
    let portions: Vec<Portion<T>> = portions(&all).into_iter().map(Portion::of).collect();
    let own;
    let (tree, file) = match options.together {
        Some(Together { tree, file }) => (tree, file),
        None => {
            own = first_pass(bytes, &portions, options, 0, Some(make));
            (&own, 0)
        }
    };
    let reader = Reader {
        bytes,
        options,
        tree,
        file,
    };
    let read = |portion: &Portion<T>| found_in(bytes, reader, portion, make);
    in_parallel(
        &portions,
        threads(options.threads),
        &read,
        &mut |portion, found| {
            portion
                .lines
                .iter()
                .zip(found)
                .for_each(|(line, found)| take(line, found));
        },
    );
}

/// The first pass over the exchange lines of file number `file`.
pub fn survey_exchanges(bytes: &[u8], options: ReadOptions<'_>, file: u32) -> Tree {
    let all: Vec<Line> = lines(bytes).collect();
    let portions: Vec<Portion<()>> = portions(&all).into_iter().map(Portion::of).collect();
    first_pass(bytes, &portions, options, file, None)
}

/// Runs of lines of about [`PORTION_BYTES`].
pub(super) fn portions(all: &[Line]) -> Vec<&[Line]> {
    let mut portions = Vec::new();
    let (mut start, mut length) = (0, 0);
    for (at, line) in all.iter().enumerate() {
        length += line.range.len();
        if length >= PORTION_BYTES {
            portions.push(&all[start..=at]);
            (start, length) = (at + 1, 0);
        }
    }
    if start < all.len() {
        portions.push(&all[start..]);
    }
    portions
}

/// Runs `work` on the portions on `threads` threads and gives the results to `take` in order, on
/// this one, while work goes on. A thread is at most two portions ahead of what was taken of it.
pub(super) fn in_parallel<'p, P: Sync, T: Send>(
    portions: &'p [P],
    threads: usize,
    work: &(dyn Fn(&'p P) -> T + Sync),
    take: &mut dyn FnMut(&'p P, T),
) {
    let threads = threads.clamp(1, portions.len().max(1));
    if threads == 1 {
        return portions
            .iter()
            .for_each(|portion| take(portion, work(portion)));
    }
    thread::scope(|scope| {
        let start = |first: usize| {
            let (sender, results) = mpsc::sync_channel(1);
            // If nobody takes results any more, there is nothing left to do.
            let run = move || {
                portions
                    .iter()
                    .skip(first)
                    .step_by(threads)
                    .all(|portion| sender.send(work(portion)).is_ok())
            };
            (scope.spawn(run), results)
        };
        let (running, results): (Vec<_>, Vec<_>) = (0..threads).map(start).unzip();
        for (portion, results) in portions.iter().zip(results.iter().cycle()) {
            // A thread that ends early panics, which is told below.
            let Ok(result) = results.recv() else { break };
            take(portion, result);
        }
        drop(results);
        for thread in running {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// Exchanges that a request may go on from are followed for so many answers; what goes on from
/// still more begins anew.
const CHAIN_LIMIT: usize = 4096;

/// Leads `conversation`, of that `name`, through the exchanges of its file that the request of
/// `exchange` goes on from.
pub(super) fn catch_up(
    reader: Reader<'_>,
    adapter: &dyn Adapter,
    exchange: &Exchange,
    (conversation, name): (&mut Conversation, &str),
    context: &ReadContext,
) {
    let before = |adapter: &dyn Adapter, exchange: &Exchange| {
        let id = adapter.previous_response_id(exchange.request?)?;
        reader.tree.answer(reader.file, id)
    };
    let (mut chain, mut seen) = (Vec::new(), HashSet::new());
    let mut wanted = before(adapter, exchange);
    while let Some(range) = wanted.take() {
        if chain.len() == CHAIN_LIMIT || !seen.insert(range.start) {
            // Whoever stands in a circle, or behind too many, begins anew: so do those that go on
            // from it.
            return;
        }
        let Some(Ok(json)) = reader.bytes.get(range).map(Json::parse) else {
            break;
        };
        if conversation_name(&json) != name {
            break;
        }
        if let Some((adapter, exchange)) = known(&json, reader.options) {
            wanted = before(adapter, &exchange);
        }
        chain.push(json);
    }
    for json in chain.iter().rev() {
        if let Some((adapter, exchange)) = known(json, reader.options) {
            scan(adapter, &exchange, conversation, context);
        }
    }
}

/// The exchange of a line, if an adapter reads it.
pub(super) fn known<'e>(
    json: &'e Json<'e>,
    options: ReadOptions<'e>,
) -> Option<(&'static dyn Adapter, Exchange<'e>)> {
    let exchange = Exchange::from_json_or_detect(json, options.provider)?;
    match reading(&exchange) {
        Reading::Known(adapter) => Some((adapter, exchange)),
        Reading::Opaque(_) => None,
    }
}

/// Traffic that names its session is no part of another's conversation.
pub(super) fn conversation_name(json: &Json) -> String {
    json.get("session_id")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A file whose first pass is done.
#[derive(Clone, Copy)]
pub(super) struct Reader<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) options: ReadOptions<'r>,
    pub(super) tree: &'r Tree,
    pub(super) file: u32,
}

/// What the lines of a portion come to.
fn found_in<T>(
    bytes: &[u8],
    reader: Reader<'_>,
    portion: &Portion<'_, T>,
    make: Make<'_, T>,
) -> Vec<Found<T>> {
    let mut guesses = portion.take_guesses().into_iter();
    let mut parser = JsonParser::new();
    let read = |line: &Line| {
        let at = Spot {
            file: reader.file,
            line: line.number,
        };
        let guessed = guesses
            .next()
            .flatten()
            .and_then(|guess| guess.come_true(reader.tree, at, make));
        guessed.map_or_else(
            || found((bytes, &mut parser), reader, line, make),
            Found::Made,
        )
    };
    portion.lines.iter().map(read).collect()
}

/// What the line comes to, which is one of the lines of `bytes` that `reader` reads.
fn found<'b, T>(
    (bytes, parser): (&'b [u8], &mut JsonParser<'b>),
    reader: Reader<'_>,
    line: &Line,
    make: Make<'_, T>,
) -> Found<T> {
    let json = match line.json_by(parser, bytes) {
        Ok(json) => json,
        Err(fault) => return Found::Fault(fault),
    };
    let Some(exchange) = Exchange::from_json_or_detect(&json, reader.options.provider) else {
        return Found::Fault(line.fault(FaultCode::Shape, NO_EXCHANGE));
    };
    let time = exchange.time(None, reader.options.fallback);
    match reading(&exchange) {
        Reading::Known(adapter) => {
            let mut made = reader.messages(adapter, &exchange, &json, (line, time), make);
            if exchange.has_raw_text {
                // The other body is read; this one is kept beside it.
                let text = exchange.raw_text_bodies(&json);
                let opaque = Opaque::of(&exchange, &text, UNREADABLE_BODY, reader.options.fallback);
                made.push(make.make(Subject::Opaque(opaque)));
            }
            Found::Made(made)
        }
        Reading::Opaque(reason) => {
            let opaque = Opaque::of(&exchange, &json, reason, reader.options.fallback);
            Found::Made(vec![make.make(Subject::Opaque(opaque))])
        }
    }
}

impl Reader<'_> {
    /// What is made of those messages of an exchange that no other line tells better.
    fn messages<T>(
        &self,
        adapter: &'static dyn Adapter,
        exchange: &Exchange,
        json: &Json,
        (line, time): (&Line, Timestamp),
        make: Make<'_, T>,
    ) -> Vec<T> {
        let first_seen = |position: &Position| self.tree.first_seen(position);
        let session = json.get("session_id").and_then(Json::as_str);
        let context = ReadContext {
            first_seen: Some(&first_seen),
            session,
            ..ReadContext::at(time)
        };
        let name = conversation_name(json);
        let mut conversation = Conversation::new(&name);
        catch_up(
            *self,
            adapter,
            exchange,
            (&mut conversation, &name),
            &context,
        );
        let at = Spot {
            file: self.file,
            line: line.number,
        };
        let counts = |position: &Position, sight| self.tree.counts(position, sight, at);
        let mut made = Vec::new();
        visit(
            adapter,
            exchange,
            conversation,
            &context,
            &counts,
            &mut |node, conversation| {
                if counts(&node.position, node.sight) {
                    made.push(make.make(Subject::Message(node, conversation)));
                }
            },
        );
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_portions_whatever_the_number_of_threads() {
        let lines: Vec<Line> = (0..40)
            .map(|at| Line {
                number: at,
                range: 0..0,
            })
            .collect();
        let all: Vec<&[Line]> = lines.chunks(3).collect();
        for threads in [1, 2, 3, 50] {
            let mut told = Vec::new();
            let work = |portion: &&[Line]| {
                // The first ones take longest.
                thread::sleep(std::time::Duration::from_millis(2 - portion[0].number / 20));
                portion.iter().map(|line| line.number).collect::<Vec<_>>()
            };
            in_parallel(&all, threads, &work, &mut |portion, numbers| {
                assert_eq!(portion[0].number, numbers[0]);
                told.extend(numbers);
            });
            assert!(told.into_iter().eq(0..40), "{threads}");
        }
        in_parallel(&[(); 0], 4, &|_| (), &mut |_, ()| {
            panic!("there was nothing to do")
        });
    }

    #[test]
    #[should_panic(expected = "portion 3")]
    fn a_panic_in_a_thread_is_passed_on() {
        let lines: Vec<Line> = (0..9)
            .map(|at| Line {
                number: at,
                range: 0..0,
            })
            .collect();
        let all: Vec<&[Line]> = lines.chunks(1).collect();
        let work = |portion: &&[Line]| assert_ne!(portion[0].number, 3, "portion 3");
        in_parallel(&all, 2, &work, &mut |_, ()| {});
    }
}
