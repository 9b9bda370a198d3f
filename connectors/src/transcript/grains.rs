//! Exchange lines to messages and grains: each message once, each grain after those that it refers to.

use std::collections::HashMap;
use std::num::NonZero;
use std::thread;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::EncodedGrain;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::grains::{Draft, Note, opaque_event};
use gristmill_schemas::message::ids::Position;

use super::line::{FaultCode, Line, LineFault, lines};
use super::traffic::{Node, Reading, reading, scan, visit};
use super::tree::Tree;
use crate::wire::exchange::Exchange;
use crate::wire::read::ReadContext;

/// Bytes of lines that one thread reads before what it found is put together.
const PORTION_BYTES: usize = 4 << 20;

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
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions { fallback: Timestamp::from_micros(0), provider: None, namespace: None, threads: 0 }
    }
}

/// What a line comes to.
#[derive(Debug)]
pub enum Found<T> {
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
    },
    /// A line that can't be read.
    Fault(LineFault),
}

/// Reads the lines of `bytes` in two passes. `make` is given each message once, on any thread; what it makes goes line by line to
/// `take`, in the order of the lines.
pub fn read_exchanges<T: Send>(
    bytes: &[u8],
    options: ReadOptions<'_>,
    make: &(dyn Fn(Node<'_>) -> T + Sync),
    take: &mut dyn FnMut(&Line, Found<T>),
) {
    let all: Vec<Line> = lines(bytes).collect();
    let portions = portions(&all);
    let threads = threads(options.threads);
    let mut tree = Tree::default();
    in_parallel(&portions, threads, &|portion| scanned(bytes, portion, options), &mut |_, part| tree.merge(part));
    let reader = Reader { bytes, options, tree: &tree };
    let read = |portion: &&[Line]| -> Vec<Found<T>> { portion.iter().map(|line| reader.found(line, make)).collect() };
    in_parallel(&portions, threads, &|portion| read(&portion), &mut |portion, found| {
        portion.iter().zip(found).for_each(|(line, found)| take(line, found));
    });
}

fn threads(wanted: usize) -> usize {
    match wanted {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        wanted => wanted,
    }
}

/// Runs of lines of about [`PORTION_BYTES`].
fn portions(all: &[Line]) -> Vec<&[Line]> {
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

/// Runs `work` on the portions, `threads` at a time, and gives the results to `take` in order.
fn in_parallel<'p, T: Send>(
    portions: &[&'p [Line]],
    threads: usize,
    work: &(dyn Fn(&'p [Line]) -> T + Sync),
    take: &mut dyn FnMut(&'p [Line], T),
) {
    for group in portions.chunks(threads.max(1)) {
        let results: Vec<T> = thread::scope(|scope| {
            let running: Vec<_> = group.iter().skip(1).map(|portion| scope.spawn(|| work(portion))).collect();
            let first = group.first().map(|portion| work(portion));
            let rest = running.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            first.into_iter().chain(rest).collect()
        });
        group.iter().zip(results).for_each(|(portion, result)| take(portion, result));
    }
}

/// What the first pass sees in a portion. Lines that can't be read are told by the second.
fn scanned(bytes: &[u8], portion: &[Line], options: ReadOptions) -> Tree {
    let mut tree = Tree::default();
    for line in portion {
        let Ok(json) = line.json(bytes) else { continue };
        let Some(exchange) = Exchange::of(&json, options.provider) else { continue };
        if let Reading::Known(adapter) = reading(&exchange) {
            let (marks, time) = scan(adapter, &exchange, &conversation_name(&json), options.fallback);
            tree.note(&marks, time, digest(bytes, line), line.number);
        }
    }
    tree
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

/// The second pass.
struct Reader<'r> {
    bytes: &'r [u8],
    options: ReadOptions<'r>,
    tree: &'r Tree,
}

impl Reader<'_> {
    fn found<T>(&self, line: &Line, make: &(dyn Fn(Node<'_>) -> T + Sync)) -> Found<T> {
        let json = match line.json(self.bytes) {
            Ok(json) => json,
            Err(fault) => return Found::Fault(fault),
        };
        let Some(exchange) = Exchange::of(&json, self.options.provider) else {
            let message = "not an exchange: an object with `provider`, `endpoint`, `request` and `response`";
            return Found::Fault(line.fault(FaultCode::Shape, message));
        };
        let time = exchange.time(None, self.options.fallback);
        match reading(&exchange) {
            Reading::Opaque(reason) => {
                let label = format!("{}/{}", exchange.provider, exchange.endpoint);
                Found::Opaque { time, label, reason: reason.to_owned() }
            }
            Reading::Known(adapter) => {
                let first_seen = |position: &Position| self.tree.first_seen(position);
                let session = json.get("session_id").and_then(Json::as_str);
                let context = ReadContext { time, first_seen: Some(&first_seen), session };
                let mut made = Vec::new();
                visit(adapter, &exchange, &conversation_name(&json), &context, &mut |node| {
                    if self.tree.counts(&node.position, node.sight, line.number) {
                        made.push(make(node));
                    }
                });
                Found::Messages(made)
            }
        }
    }
}

/// A message whose grains wait for the one before it.
struct Waiting {
    position: Position,
    parent: Option<Position>,
    line: Line,
    draft: Draft,
}

/// What comes out of [`read_grains`].
#[derive(Debug)]
pub enum GrainOutput<'o> {
    /// A grain, of the line where its message was seen best.
    Grain(&'o Line, EncodedGrain),
    /// A line, or a message of it, that can't go in.
    Fault(LineFault),
}

/// How many of what [`read_grains`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrainCounts {
    /// Messages.
    pub messages: u64,
    /// Results whose call was never seen.
    pub orphans: u64,
    /// Exchanges that no adapter reads, kept whole.
    pub opaque: u64,
}

/// Reads the exchange lines of `bytes` as grains. A grain comes after those that it refers to.
pub fn read_grains(bytes: &[u8], options: ReadOptions<'_>, tell: &mut dyn FnMut(GrainOutput<'_>)) -> GrainCounts {
    let make = |node: Node<'_>| {
        let note = Note {
            stop_reason: node.stop_reason,
            usage: node.usage,
            response: node.response.as_ref(),
            namespace: options.namespace,
        };
        (node.position, node.parent, Draft::of(&node.message, note))
    };
    let mut linker = Linker::default();
    read_exchanges(bytes, options, &make, &mut |line, found| match found {
        Found::Fault(fault) => tell(GrainOutput::Fault(fault)),
        Found::Opaque { time, label, reason } => {
            linker.counts.opaque += 1;
            // It was read before, so it can be read again.
            let json = line.json(bytes).unwrap_or_default();
            match opaque_event(&json, time, &label, &reason, options.namespace) {
                Ok(grain) => tell(GrainOutput::Grain(line, grain)),
                Err(error) => tell(GrainOutput::Fault(line.fault(FaultCode::Grain(error.code), error.to_string()))),
            }
        }
        Found::Messages(messages) => {
            for (position, parent, draft) in messages {
                linker.take(Waiting { position, parent, line: line.clone(), draft }, tell);
            }
        }
    });
    linker.counts
}

/// Gives messages their addresses, parents first.
#[derive(Default)]
struct Linker {
    /// Places whose grains are made; `None` where they couldn't be.
    addresses: HashMap<[u8; 32], Option<ContentAddress>>,
    calls: HashMap<String, ContentAddress>,
    waiting: HashMap<[u8; 32], Vec<Waiting>>,
    counts: GrainCounts,
}

impl Linker {
    fn take(&mut self, message: Waiting, tell: &mut dyn FnMut(GrainOutput<'_>)) {
        let mut ready = vec![message];
        while let Some(message) = ready.pop() {
            let digest = *message.position.digest();
            if self.addresses.contains_key(&digest) {
                continue;
            }
            let parent = match message.parent {
                None => None,
                Some(parent) => match self.addresses.get(parent.digest()) {
                    Some(address) => *address,
                    None => {
                        self.waiting.entry(*parent.digest()).or_default().push(message);
                        continue;
                    }
                },
            };
            self.link(message, parent, tell);
            // Last first, so that they come out in the order in which they came.
            ready.extend(self.waiting.remove(&digest).into_iter().flatten().rev());
        }
    }

    fn link(&mut self, message: Waiting, parent: Option<ContentAddress>, tell: &mut dyn FnMut(GrainOutput<'_>)) {
        let Waiting { position, line, draft, .. } = message;
        let address = match draft.link(parent, |id| self.calls.get(id).copied()) {
            Ok(grains) => {
                self.counts.messages += 1;
                self.counts.orphans += grains.orphans as u64;
                self.calls.extend(grains.calls);
                let address = grains.event.address;
                tell(GrainOutput::Grain(&line, grains.event));
                grains.parts.into_iter().for_each(|part| tell(GrainOutput::Grain(&line, part)));
                Some(address)
            }
            Err(error) => {
                tell(GrainOutput::Fault(line.fault(FaultCode::Grain(error.code), error.to_string())));
                None
            }
        };
        self.addresses.insert(*position.digest(), address);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};

    use super::*;

    /// A conversation of `turns` turns as a client without memory records it: every request brings the whole history.
    fn recorded(turns: usize) -> Vec<String> {
        let mut history = Vec::new();
        let mut recorded = Vec::new();
        for turn in 0..turns {
            history.push(format!(r#"{{"role":"user","content":"question {turn}"}}"#));
            let call =
                format!(r#"{{"id":"call_{turn}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}"#);
            let answer = format!(r#"{{"role":"assistant","content":"answer {turn}","tool_calls":[{call}]}}"#);
            recorded.push(format!(
                r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:{turn:02}:00Z","request":{{"model":"m","messages":[{}]}},
                "response":{{"id":"r{turn}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"tool_calls"}}],
                "usage":{{"prompt_tokens":5,"completion_tokens":7}}}}}}"#,
                history.join(",")
            ).replace('\n', ""));
            history.push(answer);
            history.push(format!(r#"{{"role":"tool","tool_call_id":"call_{turn}","content":"found {turn}"}}"#));
        }
        recorded
    }

    fn grains(lines: &[String], threads: usize) -> (Vec<Json<'static>>, Vec<String>, GrainCounts) {
        let text = lines.join("\n");
        let options = ReadOptions { threads, ..ReadOptions::default() };
        let (mut grains, mut addresses) = (Vec::new(), Vec::new());
        let counts = read_grains(text.as_bytes(), options, &mut |output| match output {
            GrainOutput::Grain(_, grain) => {
                let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
                grains.push(Grain::decode(&payload, Mode::Strict).unwrap().to_json());
                addresses.push(grain.address.to_string());
            }
            GrainOutput::Fault(fault) => panic!("{fault}"),
        });
        (grains, addresses, counts)
    }

    #[test]
    fn a_conversation_that_is_resent_with_every_turn_is_stored_once() {
        let (grains, addresses, counts) = grains(&recorded(20), 1);
        // A question, an answer and a result per turn, but the last result was never sent.
        assert_eq!(counts, GrainCounts { messages: 59, orphans: 0, opaque: 0 });
        assert_eq!(grains.len(), 59 + 20 + 19);
        assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), addresses.len());
        // Answers are told as the model gave them, and everything refers to what came before.
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for (grain, address) in grains.iter().zip(&addresses) {
            let text = |key| grain.get(key).and_then(Json::as_str);
            assert_eq!(text("role") == Some("assistant"), grain.get("token_usage").is_some());
            assert!(text("parent_message_id").is_none_or(|parent| known.contains(parent)));
            let from = grain.get("derived_from").and_then(Json::as_array).unwrap_or_default();
            assert!(from.iter().all(|from| known.contains(from.as_str().unwrap())));
            known.insert(address);
        }
    }

    #[test]
    fn neither_the_order_of_lines_nor_the_number_of_threads_changes_an_address() {
        let lines = recorded(12);
        let expected: BTreeSet<String> = grains(&lines, 1).1.into_iter().collect();
        for (turn, threads) in [(1, 2), (5, 1), (7, 3)] {
            let mut other = lines.clone();
            other.rotate_left(turn);
            other[2..6].reverse();
            // Recorded twice is recorded once.
            other.push(lines[3].clone());
            assert_eq!(grains(&other, threads).1.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn an_edited_turn_is_a_branch() {
        let mut lines = recorded(2);
        lines.push(lines[1].replace("question 1", "question one"));
        let (grains, _, counts) = grains(&lines, 1);
        assert_eq!(counts.messages, 5 + 2);
        let parents: Vec<_> = grains
            .iter()
            .filter(|grain| {
                grain.get("content").and_then(Json::as_str).is_some_and(|text| text.starts_with("question"))
            })
            .map(|grain| grain.get("parent_message_id").and_then(Json::as_str))
            .collect();
        assert_eq!((parents.len(), parents[1] == parents[2], parents[0]), (3, true, None));
    }

    #[test]
    fn errors_and_traffic_that_nobody_reads_are_kept_and_broken_lines_are_told() {
        let lines = [
            r#"{"provider":"openai","endpoint":"chat","status":429,"request":{"messages":[{"role":"user","content":"hi"}]},"response":{"error":{"message":"slow down"}}}"#,
            r#"{"provider":"x","endpoint":"embed","request":{"texts":["e"]},"response":{"n":1.50}}"#,
            r#"{"provider":"#,
            r#"[1]"#,
        ];
        let text = lines.join("\n");
        let (mut grains, mut faults) = (0, Vec::new());
        let counts = read_grains(text.as_bytes(), ReadOptions::default(), &mut |output| match output {
            GrainOutput::Grain(..) => grains += 1,
            GrainOutput::Fault(fault) => faults.push((fault.number, fault.code.name())),
        });
        assert_eq!((counts.messages, counts.opaque, grains), (2, 1, 3));
        assert_eq!(faults, [(3, "ERR_JSON"), (4, "ERR_SHAPE")]);
    }
}
