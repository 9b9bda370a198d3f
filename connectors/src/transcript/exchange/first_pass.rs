//! The first pass over exchange lines: records all sightings, and maps speculatively what it can.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use gristmill_schemas::json::{Json, JsonParser};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::ids::MessagePosition;

use super::extract::{
    AdapterMatch, ScannedExchange, VisitSummary, answered_at, match_adapter, scan_exchange,
    visit_messages,
};
use super::history::{IndexedFile, ReplayedConversations, conversation_name};
use super::item::{ExchangeItem, ItemMapper, OpaqueExchange};
use super::speculation::{PartialIndex, SpeculativeLine};
use crate::threads;
use crate::transcript::line::{Line, line_parser};
use crate::transcript::options::ReadOptions;
use crate::transcript::parallel::{chunk_lines, map_ordered, wait_if_many_values};
use crate::transcript::sighting_index::{LineLocation, SightingIndex};
use crate::wire::adapter::Adapter;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::{Exchange, with_parsed_request};

/// Input whose speculative results are kept, in bytes. The results take about as much memory.
const SPECULATION_BYTES: usize = 512 << 20;

/// The lines that one thread reads at a time.
pub(super) struct LineChunk<'l, T> {
    pub(super) lines: &'l [Line],
    /// The speculative results, one per line; empty if there are none.
    speculative: Mutex<Vec<Option<SpeculativeLine<T>>>>,
}

impl<'l, T> LineChunk<'l, T> {
    pub(super) fn new(lines: &'l [Line]) -> Self {
        LineChunk {
            lines,
            speculative: Mutex::new(Vec::new()),
        }
    }

    /// Takes the speculative results out of the chunk.
    pub(super) fn take_speculative(&self) -> Vec<Option<SpeculativeLine<T>>> {
        std::mem::take(
            &mut *self
                .speculative
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn set_speculative(&self, results: Vec<Option<SpeculativeLine<T>>>) {
        *self
            .speculative
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = results;
    }
}

/// Runs the first pass and returns the sightings of all lines. With a `mapper`, the chunks also
/// keep the speculative results.
pub(super) fn run_first_pass<T: Send>(
    bytes: &[u8],
    chunks: &[LineChunk<T>],
    options: ReadOptions,
    file: u32,
    mapper: Option<&dyn ItemMapper<T>>,
) -> SightingIndex {
    let (merged, mut deferred) = (RwLock::new(SightingIndex::default()), Vec::new());
    let budget = AtomicUsize::new(SPECULATION_BYTES);
    let scan = |chunk: &LineChunk<T>| {
        let _alone = wait_if_many_values(bytes, chunk.lines);
        let mapper = mapper.filter(|_| reserve(&budget, chunk));
        let speculation = mapper.map(|mapper| Speculation {
            mapper,
            merged: &merged,
        });
        ChunkScanner::new(bytes, options, file).scan(chunk, speculation)
    };
    map_ordered(chunks, threads(options.threads), &scan, &mut |_,
                                                               (
        index,
        lines,
    )| {
        merged
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .merge(index);
        deferred.extend(lines);
    });
    let mut index = merged.into_inner().unwrap_or_else(PoisonError::into_inner);
    index_deferred(bytes, options, file, &deferred, &mut index);
    index
}

/// Records the sightings of the deferred lines, now that all responses are known.
fn index_deferred(
    bytes: &[u8],
    options: ReadOptions,
    file: u32,
    deferred: &[Line],
    index: &mut SightingIndex,
) {
    let (mut parts, replayed) = (Vec::new(), ReplayedConversations::default());
    let scan = |chunk: &&[Line]| {
        let _alone = wait_if_many_values(bytes, chunk);
        let mut part = SightingIndex::default();
        let indexed = IndexedFile {
            bytes,
            options,
            index,
            file,
            replayed: &replayed,
        };
        chunk
            .iter()
            .for_each(|line| record_deferred_line(indexed, line, &mut part));
        part
    };
    map_ordered(
        &chunk_lines(deferred),
        threads(options.threads),
        &scan,
        &mut |_, part| parts.push(part),
    );
    parts.into_iter().for_each(|part| index.merge(part));
}

/// Takes the bytes of `chunk` from the budget; returns false if it is too small.
fn reserve<T>(budget: &AtomicUsize, chunk: &LineChunk<T>) -> bool {
    let bytes = chunk.lines.iter().map(|line| line.range.len()).sum();
    budget
        .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        })
        .is_ok()
}

/// Scans the lines of one chunk.
struct ChunkScanner<'s> {
    bytes: &'s [u8],
    options: ReadOptions<'s>,
    file: u32,
    parser: JsonParser<'s>,
    index: SightingIndex,
    /// Lines whose requests continue a response by its id. Their positions are known only when all
    /// responses are.
    deferred: Vec<Line>,
}

/// What is needed to map speculatively.
struct Speculation<'a, T> {
    mapper: &'a dyn ItemMapper<T>,
    /// The merged sightings of the chunks that are done.
    merged: &'a RwLock<SightingIndex>,
}

impl<T> Clone for Speculation<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Speculation<'_, T> {}

/// A line with the digest of its bytes.
#[derive(Clone, Copy)]
struct DigestedLine<'l> {
    line: &'l Line,
    digest: u64,
    location: LineLocation,
}

impl<'l> DigestedLine<'l> {
    /// The digest orders lines of the same content and time. It needn't resist collisions, so it is
    /// a fast one; it must be the same on every machine.
    fn new(bytes: &[u8], line: &'l Line, file: u32) -> Self {
        let text = bytes.get(line.range.clone()).unwrap_or_default();
        DigestedLine {
            line,
            digest: twox_hash::XxHash64::oneshot(0, text),
            location: LineLocation {
                file,
                line: line.number,
            },
        }
    }
}

impl<'s> ChunkScanner<'s> {
    fn new(bytes: &'s [u8], options: ReadOptions<'s>, file: u32) -> Self {
        ChunkScanner {
            bytes,
            options,
            file,
            parser: line_parser(),
            index: SightingIndex::default(),
            deferred: Vec::new(),
        }
    }

    /// Scans all lines of `chunk`; returns the sightings and the deferred lines.
    fn scan<T>(
        mut self,
        chunk: &LineChunk<T>,
        speculation: Option<Speculation<'_, T>>,
    ) -> (SightingIndex, Vec<Line>) {
        let results: Vec<_> = chunk
            .lines
            .iter()
            .map(|line| self.scan_line(line, speculation))
            .collect();
        // Without any, the second pass reads all lines of the chunk.
        if results.iter().any(Option::is_some) {
            chunk.set_speculative(results);
        }
        (self.index, self.deferred)
    }

    /// Records the sightings of `line`. The second pass reports lines that can't be read.
    fn scan_line<T>(
        &mut self,
        line: &Line,
        speculation: Option<Speculation<'_, T>>,
    ) -> Option<SpeculativeLine<T>> {
        let json = line.json_with(&mut self.parser, self.bytes).ok()?;
        let parsed = with_parsed_request(&json);
        let readable = parsed.as_ref().unwrap_or(&json);
        let exchange = Exchange::from_json_or_detect(readable, self.options.provider)?;
        let adapter = match match_adapter(&exchange) {
            AdapterMatch::Matched(adapter) => adapter,
            AdapterMatch::Opaque(reason) => {
                let time = self.options.time_of(line);
                let opaque = OpaqueExchange::new(&exchange, &json, reason, time);
                return speculation.map(|speculation| {
                    SpeculativeLine::certain(speculation.mapper.map(ExchangeItem::Opaque(opaque)))
                });
            }
        };
        let line = DigestedLine::new(self.bytes, line, self.file);
        let continues_answer = exchange
            .request
            .is_some_and(|request| adapter.previous_response_id(request).is_some());
        if let Some(speculation) =
            speculation.filter(|_| !continues_answer && !exchange.has_raw_text)
        {
            return self.speculate((adapter, &exchange, &json), line, speculation);
        }
        self.record_positions((adapter, &exchange, &json), line, continues_answer);
        None
    }

    /// Records the sightings of an exchange without reading its messages.
    fn record_positions(
        &mut self,
        (adapter, exchange, json): (&'static dyn Adapter, &Exchange, &Json),
        line: DigestedLine<'_>,
        continues_answer: bool,
    ) {
        let ScannedExchange {
            sightings,
            created_at,
            answer_id,
        } = scan_exchange(
            adapter,
            exchange,
            &mut Conversation::new(&conversation_name(json)),
            &ReadContext::at(Timestamp::from_micros(0)),
        );
        self.record_answer(answer_id, line);
        if continues_answer {
            // Its position isn't known yet, but others may continue its response.
            self.deferred.push(line.line.clone());
        } else {
            let time = exchange.time(created_at, self.options.time_of(line.line));
            self.index
                .record(&sightings, time, line.digest, line.location);
        }
    }

    fn record_answer(&mut self, id: Option<String>, line: DigestedLine<'_>) {
        if let Some(id) = id {
            self.index
                .record_answer(self.file, id, line.digest, line.line.range.clone());
        }
    }

    /// Records the sightings of an exchange and maps the messages that are preferred so far.
    fn speculate<T>(
        &mut self,
        (adapter, exchange, json): (&'static dyn Adapter, &Exchange, &Json),
        line: DigestedLine<'_>,
        speculation: Speculation<'_, T>,
    ) -> Option<SpeculativeLine<T>> {
        let created_at = match exchange.recorded_at {
            Some(_) => None,
            None => answered_at(adapter, exchange),
        };
        let time = exchange.time(created_at, self.options.time_of(line.line));
        let (speculative, summary) =
            self.map_preferred((adapter, exchange, json), (line, time), speculation);
        self.record_answer(summary.answer_id, line);
        self.index
            .record(&speculative.sightings(), time, line.digest, line.location);
        (!summary.is_truncated).then_some(speculative)
    }

    /// Visits the messages of an exchange and maps those that are preferred so far.
    fn map_preferred<T>(
        &self,
        (adapter, exchange, json): (&'static dyn Adapter, &Exchange, &Json),
        (line, time): (DigestedLine<'_>, Timestamp),
        speculation: Speculation<'_, T>,
    ) -> (SpeculativeLine<T>, VisitSummary) {
        let session = json.get("session_id").and_then(Json::as_str);
        let mut speculative = SpeculativeLine::new(session.is_some());
        let merged = speculation
            .merged
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let partial = PartialIndex {
            chunk: &self.index,
            merged: &merged,
            time,
            digest: line.digest,
            location: line.location,
        };
        let first_seen = |position: &MessagePosition| Some(partial.first_seen(position));
        let is_preferred = |position: &MessagePosition, kind| partial.is_preferred(position, kind);
        let context = ReadContext {
            first_seen: Some(&first_seen),
            session,
            ..ReadContext::at(time)
        };
        let summary = visit_messages(
            adapter,
            exchange,
            Conversation::new(&conversation_name(json)),
            &context,
            &is_preferred,
            &mut |message, conversation| {
                let is_preferred = is_preferred(&message.position, message.sighting);
                speculative.record(message, is_preferred, &|message| {
                    speculation
                        .mapper
                        .map(ExchangeItem::Message(message, conversation))
                });
            },
        );
        (speculative, summary)
    }
}

/// Records the sightings of a line whose request continues a response.
fn record_deferred_line(file: IndexedFile<'_>, line: &Line, into: &mut SightingIndex) {
    let Ok(json) = line.json(file.bytes) else {
        return;
    };
    let parsed = with_parsed_request(&json);
    let readable = parsed.as_ref().unwrap_or(&json);
    let Some((adapter, exchange)) = file.readable_exchange(readable) else {
        return;
    };
    let context = ReadContext::at(Timestamp::from_micros(0));
    let name = conversation_name(&json);
    let mut conversation = Conversation::new(&name);
    file.replay_history(adapter, &exchange, (&mut conversation, &name), &context);
    let scanned = scan_exchange(adapter, &exchange, &mut conversation, &context);
    let time = exchange.time(scanned.created_at, file.options.time_of(line));
    let line = DigestedLine::new(file.bytes, line, file.file);
    into.record(&scanned.sightings, time, line.digest, line.location);
}
