//! Transcripts as grains: each message once, each grain after those that it refers to.
//!
//! | module | question |
//! |---|---|
//! | [`linker`] | which address does the parent of a message have? |

pub mod linker;

use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::EncodedGrain;
use gristmill_schemas::message::TimeSource;
use gristmill_schemas::message::grains::{EncodedDraft, EventDetails, MessageDraft, opaque_event};
use gristmill_schemas::message::ids::MessagePosition;

use self::linker::{MessageLinker, PendingMessage};
use super::content_folder::ContentFolder;
use super::exchange::extract::ExchangeMessage;
use super::exchange::item::{ExchangeItem, ItemMapper, LineOutcome};
use super::exchange::normalize::{NormalizedExchanges, normalize};
use super::exchange::reader::{index_exchanges, read_exchanges};
use super::kind::TranscriptKind;
use super::line::{Line, LineFault};
use super::options::ReadOptions;
use super::parse::parse_for_grains;
use super::parsed::{ParsedPart, PlacedMessage, StandaloneGrain};
use super::sighting_index::SightingIndex;

/// One result of reading a transcript as grains.
#[derive(Debug)]
pub enum GrainOutput<'o> {
    /// A grain of a message or of an opaque exchange, with the line of its preferred sighting.
    Message(&'o Line, EncodedGrain),
    /// A grain that isn't part of a message.
    Standalone(StandaloneGrain),
    /// A line, or a message of it, that can't become a grain.
    Fault(LineFault),
}

/// The numbers of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct GrainCounts {
    /// Messages.
    pub messages: u64,
    /// Tool results without a tool call.
    pub orphan_results: u64,
    /// Content blocks of unknown kind and messages of unknown role. They are kept as they are.
    pub unknown_parts: u64,
    /// Tool calls whose arguments aren't a JSON object. The arguments are kept as they are.
    pub raw_arguments: u64,
    /// Exchanges that no adapter reads. They are kept as a whole.
    pub opaque_exchanges: u64,
    /// Grains that aren't part of a message.
    pub other_grains: u64,
    /// Messages whose time is from the body of the response.
    pub dated_by_response: u64,
    /// Messages whose time is from the `Date` header of the response.
    pub dated_by_header: u64,
    /// Messages whose time is that of the file.
    pub dated_by_file: u64,
}

impl GrainCounts {
    /// Returns true if all counts are 0.
    pub fn is_empty(&self) -> bool {
        *self == GrainCounts::default()
    }

    /// Adds other counts.
    pub fn add(&mut self, other: GrainCounts) {
        self.messages += other.messages;
        self.orphan_results += other.orphan_results;
        self.unknown_parts += other.unknown_parts;
        self.raw_arguments += other.raw_arguments;
        self.opaque_exchanges += other.opaque_exchanges;
        self.other_grains += other.other_grains;
        self.dated_by_response += other.dated_by_response;
        self.dated_by_header += other.dated_by_header;
        self.dated_by_file += other.dated_by_file;
    }

    /// Counts the source of the time of a message.
    pub(super) fn count_time_source(&mut self, source: TimeSource) {
        match source {
            TimeSource::Recorded => {}
            TimeSource::Response => self.dated_by_response += 1,
            TimeSource::Header => self.dated_by_header += 1,
            TimeSource::File => self.dated_by_file += 1,
        }
    }
}

/// Reads exchange lines as grains and passes them to `emit`.
pub fn grains_of_exchanges(
    bytes: &[u8],
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    let mut linker = MessageLinker::default();
    link_exchanges(bytes, options, &mut linker, emit);
    linker.take_counts()
}

/// Reads a transcript of any kind as grains and passes them to `emit`.
pub fn grains_of_transcript(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    if let Some(mut normalized) = normalize(bytes, kind) {
        std::mem::take(&mut normalized.faults)
            .into_iter()
            .for_each(|fault| emit(GrainOutput::Fault(fault)));
        let lines = normalized.lines.as_bytes();
        return grains_of_exchanges(lines, options.without_ranges(), &mut |output| {
            emit_with_range(output, &normalized, emit)
        });
    }
    if kind == TranscriptKind::Exchanges {
        return grains_of_exchanges(bytes, options, emit);
    }
    let mut counts = GrainCounts::default();
    parse_for_grains(bytes, kind, options, &mut |part| {
        counts.add(grains_of_part(part, options, emit))
    });
    counts
}

/// Emits a result of reading the lines of `normalized` with the byte range that its entry has in
/// the file. A result without a range is of a preceding file.
fn emit_with_range(
    output: GrainOutput<'_>,
    normalized: &NormalizedExchanges,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) {
    match output {
        GrainOutput::Message(line, grain) if !line.range.is_empty() => {
            let line = Line {
                number: line.number,
                range: normalized.range_of(line.number),
            };
            emit(GrainOutput::Message(&line, grain));
        }
        GrainOutput::Fault(fault) if !fault.range.is_empty() => {
            let range = normalized.range_of(fault.number);
            emit(GrainOutput::Fault(LineFault { range, ..fault }));
        }
        output => emit(output),
    }
}

/// Turns a part of a transcript that isn't traffic into grains and passes them to `emit`.
pub(crate) fn grains_of_part(
    part: ParsedPart,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    let mut linker = MessageLinker::default();
    part.faults
        .into_iter()
        .for_each(|fault| emit(GrainOutput::Fault(fault)));
    let other_grains = part.grains.len() as u64;
    part.grains
        .into_iter()
        .for_each(|grain| emit(GrainOutput::Standalone(grain)));
    for placed in part.messages {
        linker.add(pending_message(placed, options), emit);
    }
    GrainCounts {
        other_grains,
        ..linker.take_counts()
    }
}

fn pending_message(placed: PlacedMessage, options: ReadOptions<'_>) -> PendingMessage {
    let extracted = options
        .content
        .and_then(|content| content.extract(&placed.message));
    let (message, content_refs) = match &extracted {
        Some((message, references)) => (message, references.as_slice()),
        None => (&placed.message, &[][..]),
    };
    let note = EventDetails {
        stop_reason: placed.stop_reason,
        usage: placed.usage,
        response: None,
        namespace: options.namespace,
        content_refs,
    };
    PendingMessage {
        position: placed.position,
        parent: placed.parent,
        draft: MessageDraft::of(message, note).encode(placed.parent.is_some()),
        line: placed.line,
        is_ingested: false,
    }
}

/// Runs the first pass over one of several linked files, as number `file`.
pub fn index_sightings(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    file: u32,
) -> SightingIndex {
    match normalize(bytes, kind) {
        Some(normalized) => {
            let lines = normalized.lines.as_bytes();
            index_exchanges(lines, options.without_ranges(), file)
        }
        None => index_exchanges(bytes, options, file),
    }
}

/// Reads one of several linked files of traffic as grains. [`ReadOptions::linked`] has the index of
/// all of them, and `linker` has processed the preceding ones.
///
/// After the `last` file, messages whose parent is missing are emitted without it.
pub fn grains_of_linked_file(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    linker: &mut MessageLinker,
    last: bool,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) -> GrainCounts {
    match normalize(bytes, kind) {
        Some(mut normalized) => {
            let faults = std::mem::take(&mut normalized.faults)
                .into_iter()
                .filter(|_| !linker.is_ingested);
            faults.for_each(|fault| emit(GrainOutput::Fault(fault)));
            let lines = normalized.lines.as_bytes();
            link_exchanges(lines, options.without_ranges(), linker, &mut |output| {
                emit_with_range(output, &normalized, emit)
            });
        }
        None => link_exchanges(bytes, options, linker, emit),
    }
    linker.end_file();
    if last {
        linker.finish(emit);
    }
    linker.take_counts()
}

/// Reads exchange lines and adds their messages to `linker`.
fn link_exchanges(
    bytes: &[u8],
    options: ReadOptions<'_>,
    linker: &mut MessageLinker,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) {
    let encoder = GrainEncoder {
        namespace: options.namespace,
        content: options.content,
    };
    read_exchanges(
        bytes,
        options,
        &encoder,
        &mut |line, outcome| match outcome {
            LineOutcome::Fault(_) if linker.is_ingested => {}
            LineOutcome::Fault(fault) => emit(GrainOutput::Fault(fault)),
            LineOutcome::Items(items) => items
                .into_iter()
                .for_each(|item| add_item(item, line, linker, emit)),
        },
    );
}

fn add_item(
    item: EncodedItem,
    line: &Line,
    linker: &mut MessageLinker,
    emit: &mut dyn FnMut(GrainOutput<'_>),
) {
    match item {
        EncodedItem::Message {
            position,
            parent,
            draft,
        } => {
            let message = PendingMessage {
                position,
                parent,
                line: line.clone(),
                draft,
                is_ingested: linker.is_ingested,
            };
            linker.add(message, emit);
        }
        EncodedItem::Opaque(_) if linker.is_ingested => {}
        EncodedItem::Opaque(grain) => {
            linker.counts.opaque_exchanges += 1;
            match grain {
                Ok(grain) => emit(GrainOutput::Message(line, grain)),
                Err(error) => emit(GrainOutput::Fault(line.grain_fault(&error))),
            }
        }
    }
}

/// An item, encoded except for its references to other grains.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all values are of the large variant"
)]
enum EncodedItem {
    Message {
        position: MessagePosition,
        parent: Option<MessagePosition>,
        draft: Result<EncodedDraft, GrainError>,
    },
    Opaque(Result<EncodedGrain, GrainError>),
}

/// Encodes items on the reading threads.
struct GrainEncoder<'n> {
    namespace: Option<&'n str>,
    content: Option<&'n ContentFolder>,
}

impl GrainEncoder<'_> {
    fn encode_message(&self, message: ExchangeMessage<'_>) -> EncodedItem {
        let extracted = self
            .content
            .and_then(|content| content.extract(&message.message));
        let (own, content_refs) = match &extracted {
            Some((own, references)) => (own, references.as_slice()),
            None => (&message.message, &[][..]),
        };
        let note = EventDetails {
            stop_reason: message.stop_reason,
            usage: message.usage,
            response: message.response.as_ref(),
            namespace: self.namespace,
            content_refs,
        };
        EncodedItem::Message {
            position: message.position,
            parent: message.parent,
            draft: MessageDraft::of(own, note).encode(message.parent.is_some()),
        }
    }
}

impl ItemMapper<EncodedItem> for GrainEncoder<'_> {
    fn map(&self, item: ExchangeItem<'_>) -> EncodedItem {
        match item {
            ExchangeItem::Message(message, _) => self.encode_message(message),
            ExchangeItem::Opaque(opaque) => EncodedItem::Opaque(opaque_event(
                opaque.json,
                opaque.time,
                &opaque.label(),
                opaque.reason,
                self.namespace,
            )),
        }
    }

    fn with_session(&self, mapped: EncodedItem, session: &str) -> Option<EncodedItem> {
        match mapped {
            EncodedItem::Message {
                position,
                parent,
                draft,
            } => Some(EncodedItem::Message {
                position,
                parent,
                draft: Ok(draft.ok()?.with_session(session)?),
            }),
            opaque @ EncodedItem::Opaque(_) => Some(opaque),
        }
    }
}

#[cfg(test)]
mod tests;
