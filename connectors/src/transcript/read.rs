//! Exchange lines in two passes, on several threads.

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::ids::Position;

use super::line::{FaultCode, Line, LineFault, lines};
use super::traffic::{Node, Reading, Scanned, reading, scan, visit};
use super::tree::{Spot, Tree};
use crate::wire::adapter::Adapter;
use crate::wire::exchange::Exchange;
use crate::wire::read::{Conversation, ReadContext};

/// Bytes of lines that one thread reads before what it found is put together.
const PORTION_BYTES: usize = 4 << 20;

/// What is wrong with a line that is JSON, but no exchange.
pub(super) const NO_EXCHANGE: &str = "not an exchange: an object with `provider`, `endpoint`, `request` and `response`";

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
        ReadOptions { fallback: Timestamp::from_micros(0), provider: None, namespace: None, threads: 0, together: None }
    }
}

/// What a line comes to.
#[derive(Debug)]
pub enum Found<'b, T> {
    /// Messages, or what was made of them.
    Messages(Vec<T>),
    /// Traffic that no adapter reads, with whose it is and why it isn't read.
    Opaque {
        /// When it was recorded.
        time: Timestamp,
        /// `provider/endpoint`.
        label: String,
        /// Why.
        reason: String,
        /// All of it.
        json: Json<'b>,
    },
    /// A line that can't be read.
    Fault(LineFault),
}

/// Reads the lines of `bytes` in two passes. `make` is given each message once, on any thread; what it makes goes line by line to
/// `take`, in the order of the lines.
pub fn read_exchanges<'b, T: Send>(
    bytes: &'b [u8],
    options: ReadOptions<'_>,
    make: &(dyn Fn(Node<'_>) -> T + Sync),
    take: &mut dyn FnMut(&Line, Found<'b, T>),
) {
    let all: Vec<Line> = lines(bytes).collect();
    let portions = portions(&all);
    let threads = threads(options.threads);
    let own;
    let (tree, file) = match options.together {
        Some(Together { tree, file }) => (tree, file),
        None => {
            own = first_pass(bytes, &portions, options, 0);
            (&own, 0)
        }
    };
    let reader = Reader { bytes, options, tree, file };
    let read = |portion: &[Line]| -> Vec<Found<'b, T>> {
        portion.iter().map(|line| found(bytes, reader, line, make)).collect()
    };
    in_parallel(&portions, threads, &read, &mut |portion, found| {
        portion.iter().zip(found).for_each(|(line, found)| take(line, found));
    });
}

/// The first pass over the exchange lines of file number `file`.
pub fn survey_exchanges(bytes: &[u8], options: ReadOptions<'_>, file: u32) -> Tree {
    let all: Vec<Line> = lines(bytes).collect();
    first_pass(bytes, &portions(&all), options, file)
}

fn first_pass(bytes: &[u8], portions: &[&[Line]], options: ReadOptions<'_>, file: u32) -> Tree {
    let (mut tree, mut late) = (Tree::default(), Vec::new());
    let threads = threads(options.threads);
    let scan = |portion: &[Line]| scanned(bytes, portion, options, file, None);
    in_parallel(portions, threads, &scan, &mut |_, (part, later)| {
        tree.merge(part);
        late.extend(later);
    });
    // What goes on from an answer stands behind it, so all answers have to be known.
    let mut parts = Vec::new();
    let scan = |portion: &[Line]| scanned(bytes, portion, options, file, Some(&tree)).0;
    in_parallel(&self::portions(&late), threads, &scan, &mut |_, part| parts.push(part));
    parts.into_iter().for_each(|part| tree.merge(part));
    tree
}

pub(super) fn threads(wanted: usize) -> usize {
    match wanted {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        wanted => wanted,
    }
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

/// Runs `work` on the portions on `threads` threads and gives the results to `take` in order, on this one, while work goes on. A thread
/// is at most two portions ahead of what was taken of it.
pub(super) fn in_parallel<'p, T: Send>(
    portions: &[&'p [Line]],
    threads: usize,
    work: &(dyn Fn(&'p [Line]) -> T + Sync),
    take: &mut dyn FnMut(&'p [Line], T),
) {
    let threads = threads.clamp(1, portions.len().max(1));
    if threads == 1 {
        return portions.iter().for_each(|portion| take(portion, work(portion)));
    }
    thread::scope(|scope| {
        let start = |first: usize| {
            let (sender, results) = mpsc::sync_channel(1);
            // If nobody takes results any more, there is nothing left to do.
            let run =
                move || portions.iter().skip(first).step_by(threads).all(|portion| sender.send(work(portion)).is_ok());
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

/// What the first pass sees in a portion, and the lines whose requests go on from an answer: they are put off until `answers` are
/// known. Lines that can't be read are told by the second pass.
fn scanned(
    bytes: &[u8],
    portion: &[Line],
    options: ReadOptions,
    file: u32,
    answers: Option<&Tree>,
) -> (Tree, Vec<Line>) {
    let (mut tree, mut late) = (Tree::default(), Vec::new());
    let context = ReadContext::at(Timestamp::from_micros(0));
    for line in portion {
        let Ok(json) = line.json(bytes) else { continue };
        let Some((adapter, exchange)) = known(&json, options) else { continue };
        let goes_on = exchange.request.is_some_and(|request| adapter.goes_on_from(request).is_some());
        let name = conversation_name(&json);
        let mut conversation = Conversation::new(&name);
        let digest = digest(bytes, line);
        match answers {
            Some(tree) => {
                let reader = Reader { bytes, options, tree, file };
                catch_up(reader, adapter, &exchange, (&mut conversation, &name), &context);
            }
            // Its place isn't known yet, but its answer may be what others go on from.
            None if goes_on => late.push(line.clone()),
            None => {}
        }
        let Scanned { marks, created_at, answer } = scan(adapter, &exchange, &mut conversation, &context);
        if let Some(id) = answer.filter(|_| answers.is_none()) {
            tree.note_answer(file, id, digest, line.range.clone());
        }
        if answers.is_some() || !goes_on {
            let time = exchange.time(created_at, options.fallback);
            tree.note(&marks, time, digest, Spot { file, line: line.number });
        }
    }
    (tree, late)
}

/// Exchanges that a request may go on from are followed for so many answers; what goes on from still more begins anew.
const CHAIN_LIMIT: usize = 4096;

/// Leads `conversation`, of that `name`, through the exchanges of its file that the request of `exchange` goes on from.
fn catch_up(
    reader: Reader<'_>,
    adapter: &dyn Adapter,
    exchange: &Exchange,
    (conversation, name): (&mut Conversation, &str),
    context: &ReadContext,
) {
    let before = |adapter: &dyn Adapter, exchange: &Exchange| {
        let id = adapter.goes_on_from(exchange.request?)?;
        reader.tree.answer(reader.file, id)
    };
    let (mut chain, mut seen) = (Vec::new(), HashSet::new());
    let mut wanted = before(adapter, exchange);
    while let Some(range) = wanted.take() {
        if chain.len() == CHAIN_LIMIT || !seen.insert(range.start) {
            // Whoever stands in a circle, or behind too many, begins anew: so do those that go on from it.
            return;
        }
        let Some(Ok(json)) = reader.bytes.get(range).map(Json::parse) else { break };
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
fn known<'e>(json: &'e Json<'e>, options: ReadOptions<'e>) -> Option<(&'static dyn Adapter, Exchange<'e>)> {
    let exchange = Exchange::of(json, options.provider)?;
    match reading(&exchange) {
        Reading::Known(adapter) => Some((adapter, exchange)),
        Reading::Opaque(_) => None,
    }
}

/// Eight bytes of the digest of a line.
fn digest(bytes: &[u8], line: &Line) -> u64 {
    let digest = blake3::hash(bytes.get(line.range.clone()).unwrap_or_default());
    digest.as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Traffic that names its session is no part of another's conversation.
fn conversation_name(json: &Json) -> String {
    json.get("session_id").and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// A file whose first pass is done.
#[derive(Clone, Copy)]
struct Reader<'r> {
    bytes: &'r [u8],
    options: ReadOptions<'r>,
    tree: &'r Tree,
    file: u32,
}

/// What the line comes to, which is one of the lines of `bytes` that `reader` reads.
fn found<'b, T>(
    bytes: &'b [u8],
    reader: Reader<'_>,
    line: &Line,
    make: &(dyn Fn(Node<'_>) -> T + Sync),
) -> Found<'b, T> {
    let json = match line.json(bytes) {
        Ok(json) => json,
        Err(fault) => return Found::Fault(fault),
    };
    let Some(exchange) = Exchange::of(&json, reader.options.provider) else {
        return Found::Fault(line.fault(FaultCode::Shape, NO_EXCHANGE));
    };
    let time = exchange.time(None, reader.options.fallback);
    match reading(&exchange) {
        Reading::Known(adapter) => Found::Messages(reader.messages(adapter, &exchange, &json, (line, time), make)),
        Reading::Opaque(reason) => {
            let (label, reason) = (format!("{}/{}", exchange.provider, exchange.endpoint), reason.to_owned());
            drop(exchange);
            Found::Opaque { time, label, reason, json }
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
        make: &(dyn Fn(Node<'_>) -> T + Sync),
    ) -> Vec<T> {
        let first_seen = |position: &Position| self.tree.first_seen(position);
        let session = json.get("session_id").and_then(Json::as_str);
        let context = ReadContext { time, first_seen: Some(&first_seen), session };
        let name = conversation_name(json);
        let mut conversation = Conversation::new(&name);
        catch_up(*self, adapter, exchange, (&mut conversation, &name), &context);
        let at = Spot { file: self.file, line: line.number };
        let counts = |position: &Position, sight| self.tree.counts(position, sight, at);
        let mut made = Vec::new();
        visit(adapter, exchange, conversation, &context, &counts, &mut |node| made.push(make(node)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_portions_whatever_the_number_of_threads() {
        let lines: Vec<Line> = (0..40).map(|at| Line { number: at, range: 0..0 }).collect();
        let all: Vec<&[Line]> = lines.chunks(3).collect();
        for threads in [1, 2, 3, 50] {
            let mut told = Vec::new();
            let work = |portion: &[Line]| {
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
        in_parallel(&[], 4, &|_| (), &mut |_, ()| panic!("there was nothing to do"));
    }

    #[test]
    #[should_panic(expected = "portion 3")]
    fn a_panic_in_a_thread_is_passed_on() {
        let lines: Vec<Line> = (0..9).map(|at| Line { number: at, range: 0..0 }).collect();
        let all: Vec<&[Line]> = lines.chunks(1).collect();
        let work = |portion: &[Line]| assert_ne!(portion[0].number, 3, "portion 3");
        in_parallel(&all, 2, &work, &mut |_, ()| {});
    }
}
