//! What transcripts tell that aren't traffic: messages, and grains that are no part of a message.
//!
//! A transcript is told in parts, each of which needs nothing of the others: whole sessions, whole
//! chains of facts. What is small enough to be one document is one part; a database is told session
//! by session, so that memory stays bounded.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::EncodedGrain;

use super::entry::document_lines;
use super::kind::TranscriptKind;
use super::line::{Line, LineFault};
use super::read::ReadOptions;
use super::said::{self, Messages, Said};
use super::{carried, claude_code, codex, mcp, memory, sqlite};

/// A grain that is no part of a message: a fact, the definition of a tool, traffic that is kept
/// whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The line, row or entry that it comes from.
    pub line: Line,
    /// The grain.
    pub grain: EncodedGrain,
    /// The grains whose place it takes.
    pub supersedes: Vec<ContentAddress>,
    /// When it stopped being current although nothing took its place, in milliseconds since 1970.
    pub ended: Option<i64>,
}

impl Made {
    /// A grain that takes no other's place.
    pub fn new(line: Line, grain: EncodedGrain) -> Self {
        Made {
            line,
            grain,
            supersedes: Vec::new(),
            ended: None,
        }
    }
}

/// A part of a transcript.
#[derive(Debug, Default)]
pub struct Told {
    /// Its messages, in their order.
    pub said: Vec<Said>,
    /// Its other grains, each after those that it refers to.
    pub made: Vec<Made>,
    /// What of it can't be read.
    pub faults: Vec<LineFault>,
}

impl From<Messages> for Told {
    fn from((said, faults): Messages) -> Self {
        Told {
            said,
            made: Vec::new(),
            faults,
        }
    }
}

/// [`told`] for who wants grains: what is grains already isn't taken for messages, but stays as it
/// is.
pub fn told_for_grains(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    tell: &mut dyn FnMut(Told),
) {
    match kind {
        TranscriptKind::GrainLines => {
            let document = document_lines(bytes);
            carried::grains(
                document.as_deref().map_or(bytes, str::as_bytes),
                options,
                tell,
            );
        }
        kind => told(bytes, kind, options, tell),
    }
}

/// Tells a transcript that isn't traffic, part by part; of traffic there is nothing to tell until
/// it is read as such. What tells no time was said when the options say.
pub fn told(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    tell: &mut dyn FnMut(Told),
) {
    let time = options.fallback;
    use TranscriptKind::{ClaudeCode, Cmf, Codex, GrainLines, Messages};
    let by_line = matches!(kind, Messages | Cmf | GrainLines | ClaudeCode | Codex);
    let document = by_line.then(|| document_lines(bytes)).flatten();
    let bytes = document.as_deref().map_or(bytes, str::as_bytes);
    match kind {
        TranscriptKind::Messages => tell(said::canonical_lines(bytes).into()),
        TranscriptKind::Cmf => tell(said::cmf_lines(bytes, time).into()),
        TranscriptKind::GrainLines => tell(said::grain_lines(bytes).into()),
        TranscriptKind::ClaudeCode => tell(claude_code::session(bytes, time).into()),
        TranscriptKind::Codex => tell(codex::session(bytes, time).into()),
        TranscriptKind::Mcp => tell(mcp::capture(bytes, options)),
        TranscriptKind::Mem0
        | TranscriptKind::Letta
        | TranscriptKind::Zep
        | TranscriptKind::LangGraph => {
            tell(memory::export(bytes, kind, options));
        }
        TranscriptKind::Sqlite => sqlite::read::database(bytes, options, tell),
        TranscriptKind::Exchanges
        | TranscriptKind::Batch
        | TranscriptKind::Bodies
        | TranscriptKind::Har
        | TranscriptKind::Cassette => {}
    }
}
