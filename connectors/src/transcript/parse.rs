//! Dispatch of a transcript that isn't provider traffic to the reader of its kind.

use super::agent_logs::{claude_code, codex, mcp};
use super::entries::document_lines;
use super::grains::{grain_lines, message_lines};
use super::kind::TranscriptKind;
use super::options::ReadOptions;
use super::parsed::ParsedPart;
use super::{memory, sqlite};

/// Parses a transcript that isn't provider traffic and passes its parts to `emit`.
///
/// Messages without a time get that of their line in the `options`. Kinds of provider traffic
/// produce nothing; [`super::exchange`] reads them.
pub fn parse(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) {
    use TranscriptKind::{ClaudeCode, Cmf, Codex, GrainLines, Messages};
    let by_line = matches!(kind, Messages | Cmf | GrainLines | ClaudeCode | Codex);
    match by_line.then(|| document_lines(bytes)).flatten() {
        Some(lines) => {
            let options = options.without_ranges();
            parse_entries(lines.as_bytes(), kind, options, &mut |part| {
                emit(part.without_ranges())
            });
        }
        None => parse_entries(bytes, kind, options, emit),
    }
}

/// Like [`parse`], for bytes with one entry per line where the kind has lines.
fn parse_entries(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) {
    use TranscriptKind::{ClaudeCode, Cmf, Codex, GrainLines, Messages};
    match kind {
        Messages => emit(message_lines::canonical_lines(bytes)),
        Cmf => emit(message_lines::cmf_lines(bytes, options)),
        GrainLines => emit(message_lines::event_lines(bytes)),
        ClaudeCode => emit(claude_code::parse_session(bytes, options)),
        Codex => emit(codex::parse_session(bytes, options)),
        TranscriptKind::Mcp => emit(mcp::parse_capture(bytes, options)),
        TranscriptKind::Mem0
        | TranscriptKind::Letta
        | TranscriptKind::Zep
        | TranscriptKind::LangGraph => emit(memory::parse_export(bytes, kind, options)),
        TranscriptKind::Sqlite => sqlite::parse_database(bytes, options, emit),
        TranscriptKind::Exchanges
        | TranscriptKind::Batch
        | TranscriptKind::Bodies
        | TranscriptKind::Har
        | TranscriptKind::Cassette => {}
    }
}

/// Like [`parse`], but for a consumer of grains: lines that are grains already are not converted to
/// messages and back.
pub(crate) fn parse_for_grains(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) {
    if kind != TranscriptKind::GrainLines {
        return parse(bytes, kind, options, emit);
    }
    match document_lines(bytes) {
        Some(lines) => grain_lines::parse_grains(lines.as_bytes(), options, &mut |part| {
            emit(part.without_ranges())
        }),
        None => grain_lines::parse_grains(bytes, options, emit),
    }
}
