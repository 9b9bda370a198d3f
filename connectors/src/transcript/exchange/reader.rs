//! Reading of exchange lines in two passes, on several threads.

use gristmill_schemas::json::{Json, JsonParser};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::ids::MessagePosition;

use super::extract::{AdapterMatch, UNREADABLE_BODY, match_adapter, visit_messages};
use super::first_pass::{LineChunk, run_first_pass};
use super::history::{IndexedFile, ReplayedConversations, conversation_name};
use super::item::{ExchangeItem, ItemMapper, LineOutcome, NOT_AN_EXCHANGE, OpaqueExchange};
use crate::threads;
use crate::transcript::line::{FaultCode, Line, line_parser, lines};
use crate::transcript::options::{LinkedFile, ReadOptions};
use crate::transcript::parallel::{chunk_lines, map_ordered, wait_if_many_values};
use crate::transcript::sighting_index::{LineLocation, SightingIndex, SightingKind};
use crate::wire::adapter::Adapter;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::{Exchange, with_parsed_request};

/// Reads the exchange lines of `bytes` and passes the outcome of each line to `take`, in the order
/// of the lines. Each message is among the items of exactly one line: that of its preferred
/// sighting.
///
/// If the options name linked files, their index replaces the first pass.
pub fn read_exchanges<T: Send>(
    bytes: &[u8],
    options: ReadOptions<'_>,
    mapper: &dyn ItemMapper<T>,
    take: &mut dyn FnMut(&Line, LineOutcome<T>),
) {
    let all: Vec<Line> = lines(bytes).collect();
    let chunks: Vec<LineChunk<T>> = chunk_lines(&all).into_iter().map(LineChunk::new).collect();
    let own_index;
    let (index, file) = match options.linked {
        Some(LinkedFile { index, file }) => (index, file),
        None => {
            own_index = run_first_pass(bytes, &chunks, options, 0, Some(mapper));
            (&own_index, 0)
        }
    };
    let replayed = ReplayedConversations::default();
    let indexed = IndexedFile {
        bytes,
        options,
        index,
        file,
        replayed: &replayed,
    };
    let read = |chunk: &LineChunk<T>| {
        let _alone = wait_if_many_values(bytes, chunk.lines);
        read_chunk(bytes, indexed, chunk, mapper)
    };
    map_ordered(
        &chunks,
        threads(options.threads),
        &read,
        &mut |chunk, outcomes| {
            chunk
                .lines
                .iter()
                .zip(outcomes)
                .for_each(|(line, outcome)| take(line, outcome));
        },
    );
}

/// Runs only the first pass over exchange lines and returns the sightings, recorded for file number
/// `file`.
pub(crate) fn index_exchanges(bytes: &[u8], options: ReadOptions<'_>, file: u32) -> SightingIndex {
    let all: Vec<Line> = lines(bytes).collect();
    let chunks: Vec<LineChunk<()>> = chunk_lines(&all).into_iter().map(LineChunk::new).collect();
    run_first_pass(bytes, &chunks, options, file, None)
}

/// Second pass over a chunk: keeps the valid speculative lines and reads the others.
fn read_chunk<T>(
    bytes: &[u8],
    file: IndexedFile<'_>,
    chunk: &LineChunk<'_, T>,
    mapper: &dyn ItemMapper<T>,
) -> Vec<LineOutcome<T>> {
    let mut speculative = chunk.take_speculative().into_iter();
    let mut parser = line_parser();
    let read = |line: &Line| {
        let location = LineLocation {
            file: file.file,
            line: line.number,
        };
        let valid = speculative
            .next()
            .flatten()
            .and_then(|speculative| speculative.validate(file.index, location, mapper));
        valid.map_or_else(
            || read_line((bytes, &mut parser), file, line, mapper),
            LineOutcome::Items,
        )
    };
    chunk.lines.iter().map(read).collect()
}

/// Second pass over one line.
fn read_line<'b, T>(
    (bytes, parser): (&'b [u8], &mut JsonParser<'b>),
    file: IndexedFile<'_>,
    line: &Line,
    mapper: &dyn ItemMapper<T>,
) -> LineOutcome<T> {
    let json = match line.json_with(parser, bytes) {
        Ok(json) => json,
        Err(fault) => return LineOutcome::Fault(fault),
    };
    let parsed = with_parsed_request(&json);
    let readable = parsed.as_ref().unwrap_or(&json);
    let Some(exchange) = Exchange::from_json_or_detect(readable, file.options.provider) else {
        return LineOutcome::Fault(line.fault(FaultCode::Shape, NOT_AN_EXCHANGE));
    };
    let fallback = file.options.time_of(line);
    let map_opaque = |json: &Json, reason: &str| {
        let opaque = OpaqueExchange::new(&exchange, json, reason, fallback);
        mapper.map(ExchangeItem::Opaque(opaque))
    };
    let adapter = match match_adapter(&exchange) {
        AdapterMatch::Matched(adapter) => adapter,
        AdapterMatch::Opaque(reason) => return LineOutcome::Items(vec![map_opaque(&json, reason)]),
    };
    let time = exchange.time(None, fallback);
    let mut items = preferred_messages(file, (adapter, &exchange), &json, (line, time), mapper);
    if exchange.has_raw_text {
        // One body is readable; the other is kept as an opaque item.
        items.push(map_opaque(
            &exchange.raw_text_bodies(&json),
            UNREADABLE_BODY,
        ));
    }
    LineOutcome::Items(items)
}

/// Maps the messages of an exchange whose preferred sighting is on this line, and answers that are
/// messages of their own.
fn preferred_messages<T>(
    file: IndexedFile<'_>,
    (adapter, exchange): (&'static dyn Adapter, &Exchange),
    json: &Json,
    (line, time): (&Line, Timestamp),
    mapper: &dyn ItemMapper<T>,
) -> Vec<T> {
    let first_seen = |position: &MessagePosition| file.index.first_seen(position);
    let context = ReadContext {
        first_seen: Some(&first_seen),
        session: json.get("session_id").and_then(Json::as_str),
        ..ReadContext::at(time)
    };
    let name = conversation_name(json);
    let mut conversation = Conversation::new(&name);
    file.replay_history(adapter, exchange, (&mut conversation, &name), &context);
    let location = LineLocation {
        file: file.file,
        line: line.number,
    };
    let is_preferred =
        |position: &MessagePosition, kind| file.index.is_preferred(position, kind, location);
    let separate = |position: &MessagePosition, kind| match kind {
        SightingKind::Answer => file.index.separate(position, location),
        SightingKind::Resent => None,
    };
    let is_wanted = |position: &MessagePosition, kind| {
        is_preferred(position, kind) || separate(position, kind).is_some()
    };
    let mut items = Vec::new();
    visit_messages(
        adapter,
        exchange,
        conversation,
        &context,
        &is_wanted,
        &mut |mut message, conversation| {
            if !is_preferred(&message.position, message.sighting) {
                match separate(&message.position, message.sighting) {
                    Some(time) => message.separate(time),
                    None => return,
                }
            }
            items.push(mapper.map(ExchangeItem::Message(message, conversation)));
        },
    );
    items
}
