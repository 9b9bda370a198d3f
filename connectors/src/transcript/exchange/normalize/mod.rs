//! Normalization of recorded traffic in other forms to exchange lines.
//!
//! | module | question |
//! |---|---|
//! | `batch` | which exchange is a line of a batch file? |
//! | `bodies` | which exchange is a bare request or response body? |
//! | `http` | which exchange is a pair of an HTTP request and response? |
//! | `har` | which pairs are in an HTTP archive? |
//! | `cassette` | which pairs are in a cassette of an HTTP recorder? |
//! | `yaml_size` | how large is a YAML file whose aliases are resolved? |

pub(in crate::transcript) mod batch;
mod bodies;
mod cassette;
mod har;
mod http;
#[cfg(test)]
mod tests;
mod yaml_size;

use std::borrow::Cow;
use std::ops::Range;

use gristmill_schemas::json::{Json, Object};

use crate::transcript::entries::{document_lines, parse_document};
use crate::transcript::kind::TranscriptKind;
use crate::transcript::line::{FaultCode, Line, LineFault, lines};

/// Exchange lines; line `n` is entry `n` of the file.
#[derive(Debug, Default)]
pub struct NormalizedExchanges {
    /// The lines. That of an entry that can't be read is blank.
    pub lines: String,
    /// The entries that can't be read.
    pub faults: Vec<LineFault>,
    /// The entries that are lines of the file, by number, with their bytes. Entries of a document
    /// aren't among them.
    ranges: Vec<(u64, Range<usize>)>,
}

/// Returns the file as exchange lines; `None` for files of exchange lines, and for kinds that
/// aren't traffic.
pub fn normalize(bytes: &[u8], kind: TranscriptKind) -> Option<NormalizedExchanges> {
    Some(match kind {
        TranscriptKind::Exchanges => NormalizedExchanges {
            lines: document_lines(bytes)?,
            ..NormalizedExchanges::default()
        },
        TranscriptKind::Batch => batch::normalize(bytes),
        TranscriptKind::Bodies => bodies::normalize(bytes),
        TranscriptKind::Har => har::normalize(bytes),
        TranscriptKind::Cassette => cassette::normalize(bytes),
        _ => return None,
    })
}

/// The fault of a file that is too long.
const TOO_LONG: &str = "too long to be read as one document";

/// The fault of an entry without a readable body.
const NO_BODY: &str = "neither a request nor a response";

impl NormalizedExchanges {
    /// Converts every line of `bytes`.
    fn from_lines(
        bytes: &[u8],
        convert: impl Fn(&Json<'_>) -> Option<Object<'static>>,
    ) -> NormalizedExchanges {
        let mut normalized = NormalizedExchanges::default();
        let mut next_number = 1;
        for line in lines(bytes) {
            // Blank lines are kept, so that line numbers stay the same.
            (next_number..line.number).for_each(|_| normalized.lines.push('\n'));
            next_number = line.number + 1;
            match line.json(bytes) {
                Ok(json) => normalized.push(convert(&json), line),
                Err(fault) => normalized.push_fault(fault),
            }
        }
        normalized
    }

    /// Collects the exchanges of a document.
    fn from_entries(
        exchanges: impl Iterator<Item = Option<Object<'static>>>,
    ) -> NormalizedExchanges {
        let mut normalized = NormalizedExchanges::default();
        for (index, exchange) in exchanges.enumerate() {
            let line = Line {
                number: index as u64 + 1,
                range: 0..0,
            };
            normalized.push(exchange, line);
        }
        normalized
    }

    /// Converts a file that is one JSON document.
    fn from_document(
        bytes: &[u8],
        convert: impl Fn(&Json<'_>) -> NormalizedExchanges,
    ) -> NormalizedExchanges {
        match parse_document(bytes) {
            Some(Ok(json)) => convert(&json),
            Some(Err(error)) => NormalizedExchanges::unreadable(bytes, error.to_string()),
            None => NormalizedExchanges::unreadable(bytes, TOO_LONG),
        }
    }

    /// Returns the result for a file that can't be read at all.
    fn unreadable(bytes: &[u8], message: impl Into<Cow<'static, str>>) -> NormalizedExchanges {
        let fault = LineFault {
            number: 1,
            range: 0..bytes.len(),
            code: FaultCode::Json,
            message: message.into(),
        };
        NormalizedExchanges {
            faults: vec![fault],
            ..NormalizedExchanges::default()
        }
    }

    /// Returns the bytes of entry `number` in the file; an empty range for an entry of a document.
    pub(crate) fn range_of(&self, number: u64) -> Range<usize> {
        let found = self
            .ranges
            .binary_search_by_key(&number, |(entry, _)| *entry);
        let entry = found.ok().and_then(|index| self.ranges.get(index));
        entry.map_or(0..0, |(_, range)| range.clone())
    }

    /// Returns the exchanges without byte ranges, which are those of lines that the file doesn't
    /// have.
    fn without_ranges(mut self) -> NormalizedExchanges {
        self.ranges.clear();
        for fault in &mut self.faults {
            fault.range = 0..0;
        }
        self
    }

    fn push(&mut self, exchange: Option<Object<'static>>, line: Line) {
        let Some(exchange) = exchange else {
            return self.push_fault(line.fault(FaultCode::Shape, NO_BODY));
        };
        if !line.range.is_empty() {
            self.ranges.push((line.number, line.range));
        }
        Json::Object(exchange).write(&mut self.lines);
        self.lines.push('\n');
    }

    fn push_fault(&mut self, fault: LineFault) {
        self.lines.push('\n');
        self.faults.push(fault);
    }
}

/// Returns the entries of `document`, whose log is `log`, under any of the names that recorders
/// give them.
fn recorded_entries<'j>(log: &'j Json<'j>, document: &'j Json<'j>) -> &'j [Json<'j>] {
    log.get("entries")
        .or_else(|| document.get("interactions"))
        .or_else(|| document.get("http_interactions"))
        .and_then(Json::as_array)
        .unwrap_or_default()
}

/// Returns an exchange with its provider and endpoint.
fn new_exchange(provider: &str, endpoint: &str) -> Object<'static> {
    let mut exchange = Object::new();
    insert_endpoint(&mut exchange, provider, endpoint);
    exchange
}

fn insert_endpoint(exchange: &mut Object<'static>, provider: &str, endpoint: &str) {
    exchange.insert("provider", provider.to_owned());
    exchange.insert("endpoint", endpoint.to_owned());
}
