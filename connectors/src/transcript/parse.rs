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
/// Messages without a time get [`ReadOptions::fallback`]. Kinds of provider traffic produce
/// nothing; [`super::exchange`] reads them.
pub fn parse(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) {
    use TranscriptKind::{ClaudeCode, Cmf, Codex, GrainLines, Messages};
    let time = options.fallback;
    let by_line = matches!(kind, Messages | Cmf | GrainLines | ClaudeCode | Codex);
    let document = by_line.then(|| document_lines(bytes)).flatten();
    let bytes = document.as_deref().map_or(bytes, str::as_bytes);
    match kind {
        Messages => emit(message_lines::canonical_lines(bytes)),
        Cmf => emit(message_lines::cmf_lines(bytes, time)),
        GrainLines => emit(message_lines::event_lines(bytes)),
        ClaudeCode => emit(claude_code::parse_session(bytes, time)),
        Codex => emit(codex::parse_session(bytes, time)),
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
    let document = document_lines(bytes);
    let lines = document.as_deref().map_or(bytes, str::as_bytes);
    grain_lines::parse_grains(lines, options, emit);
}
