//! Matches rejects: input that was refused, with its bytes.
//!
//! Bytes that decode are matched like a grain. In bytes that don't decode, an identifier anywhere
//! in them, in the message or in the name of the source selects the reject; so does a payload that
//! can be read as values, whatever its header states. A session of the request selects as the value
//! of a session or run id in such values, or in JSON. Bytes that a line has in hex are matched as
//! if they had been delivered. The claim of a manifest about an erased grain is erased with the
//! grain. Bytes that are compressed or encrypted and can't be opened are counted: an identifier in
//! them isn't found.

use std::collections::HashSet;

use arrow::array::{Array, AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, Encoding, Grain, GrainHeader, HEADER_LENGTH, Payload,
    RawValue,
};
use memchr::memmem;

use super::matcher::{Hits, IdentifierMatcher, NO_PERSON};
use super::reason::{Exemption, ExemptionRules, Reason};
use super::request::SelectionOptions;
use super::survey::{FoundReject, selects};
use crate::lake::{MANIFEST, blob_of, text_at, texts};

/// The columns that [`RejectScanner::scan_batch`] reads.
pub(super) const COLUMNS: [&str; 4] = ["bytes", "message", "source", "field"];

/// The magic numbers of frames of zstd and lz4.
const COMPRESSED_FRAMES: [[u8; 4]; 2] = [[0x28, 0xb5, 0x2f, 0xfd], [0x04, 0x22, 0x4d, 0x18]];

/// Findings in some rejects.
#[derive(Default)]
pub(super) struct RejectFindings {
    pub(super) found: Vec<FoundReject>,
    /// Number of rejects with bytes that are compressed or encrypted and can't be opened.
    pub(super) unsearchable: u64,
}

/// Scans rejects for a request.
pub(super) struct RejectScanner<'a> {
    pub(super) matcher: &'a IdentifierMatcher,
    pub(super) rules: &'a ExemptionRules<'a>,
    /// Addresses of grains that are erased.
    pub(super) erased: &'a HashSet<ContentAddress>,
    /// What the request selects besides direct matches.
    pub(super) options: SelectionOptions,
}

impl RejectScanner<'_> {
    /// Returns the matching rows of a batch of `rejects` that begins at row `first` of `file`, and
    /// counts those that can't be searched.
    pub(super) fn scan_batch(&self, file: &str, first: u32, batch: &RecordBatch) -> RejectFindings {
        let mut out = RejectFindings::default();
        let Some(bytes) = batch
            .column_by_name("bytes")
            .and_then(|column| column.as_binary_opt::<i32>())
        else {
            return out;
        };
        let mut hits = Hits::default();
        for row in 0..batch.num_rows() {
            hits.clear();
            let refused = if bytes.is_valid(row) {
                bytes.value(row)
            } else {
                &[]
            };
            let (exemption, is_opaque) = self.match_content(batch, row, refused, &mut hits);
            let is_found_in_bytes = !hits.people.is_empty();
            self.match_names(batch, row, &mut hits);
            out.unsearchable += u64::from(is_opaque);
            // `NO_PERSON` is the greatest number.
            let Some(person) = hits.people.iter().map(|(person, _)| *person).min() else {
                continue;
            };
            let reasons = hits.reasons();
            out.found.push(FoundReject {
                file: file.to_owned(),
                row: first + row as u32,
                person,
                reasons,
                variations: hits.variations,
                exemption: exemption.or_else(|| {
                    (!selects(reasons, self.options)).then_some(Exemption::NotSelected)
                }),
                address: ContentAddress::of(blob_of(refused)),
                is_found_in_bytes,
            });
        }
        out
    }

    /// Matches the bytes `refused` of one row. Returns the exemption of the grain in them, and true
    /// if they can't be searched.
    fn match_content(
        &self,
        batch: &RecordBatch,
        row: usize,
        refused: &[u8],
        hits: &mut Hits,
    ) -> (Option<Exemption>, bool) {
        let verdict = self.match_bytes(refused, hits);
        if text_at(texts(batch, "field"), row) == Some(MANIFEST) {
            self.match_claim(refused, hits);
        }
        verdict
    }

    /// Matches the message of one row and the name of its source.
    fn match_names(&self, batch: &RecordBatch, row: usize, hits: &mut Hits) {
        for column in ["message", "source"] {
            let text = text_at(texts(batch, column), row).unwrap_or_default();
            self.matcher
                .match_bytes(text.as_bytes(), Reason::Undecodable, hits);
        }
    }

    /// Matches the delivered bytes of a reject. Returns the exemption of the grain, if it decodes,
    /// and true if the bytes can't be searched.
    fn match_bytes(&self, bytes: &[u8], hits: &mut Hits) -> (Option<Exemption>, bool) {
        let blob = blob_of(bytes);
        let address = ContentAddress::of(blob);
        self.matcher.match_address(&address, hits);
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok();
        let grain = payload
            .as_ref()
            .and_then(|payload| Grain::decode(payload, DecodeMode::Lenient).ok());
        let Some(grain) = grain else {
            self.match_undecodable(bytes, payload.as_ref(), hits);
            let (exemption, is_opaque_in_hex) = self.match_in_hex(bytes, hits);
            let is_opaque = is_opaque(bytes, payload.as_ref()) || is_opaque_in_hex;
            return (exemption, is_opaque);
        };
        self.matcher.match_grain(&grain, hits);
        if blob.len() < bytes.len() {
            self.matcher.match_bytes(bytes, Reason::Mention, hits);
        }
        (self.rules.exemption_of(&grain, &address), false)
    }

    /// Matches the grains that a refused line of JSON has in hex. Returns what
    /// [`RejectScanner::match_bytes`] does.
    fn match_in_hex(&self, line: &[u8], hits: &mut Hits) -> (Option<Exemption>, bool) {
        let (mut exemption, mut is_opaque) = (None, false);
        for blob in in_hex(line) {
            let (own, is_own_opaque) = self.match_bytes(&blob, hits);
            exemption = exemption.or(own);
            is_opaque |= is_own_opaque;
        }
        (exemption, is_opaque)
    }

    /// Matches delivered bytes that aren't a grain. A compressed `payload` is matched as it is
    /// stored and decompressed.
    fn match_undecodable(&self, bytes: &[u8], payload: Option<&Payload<'_>>, hits: &mut Hits) {
        let clear = payload.and_then(|payload| payload.plaintext());
        if let Some((clear, _)) = clear {
            self.matcher.match_undecodable(clear, hits);
        }
        self.matcher.match_undecodable(bytes, hits);
        if self.matcher.has_sessions()
            && let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes)
        {
            self.matcher.match_sessions_of_json(&json, hits);
        }
        let values = match clear {
            Some((clear, _)) => clear,
            None => blob_of(bytes).get(HEADER_LENGTH..).unwrap_or_default(),
        };
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            if let Ok(value @ RawValue::Map(_)) = RawValue::read(values, encoding) {
                self.matcher.match_loose_value(&value, hits);
            }
        }
    }

    /// Matches the addresses in a denied claim of a manifest.
    fn match_claim(&self, claim: &[u8], hits: &mut Hits) {
        let Ok(claim) = serde_json::from_slice::<serde_json::Value>(claim) else {
            return;
        };
        let named = ["content_address", "value"]
            .into_iter()
            .filter_map(|member| claim.get(member)?.as_str()?.parse().ok());
        for address in named {
            self.matcher.match_address(&address, hits);
            if self.erased.contains(&address) {
                hits.add(NO_PERSON, Reason::Address);
            }
        }
    }
}

/// Iterates over the bytes that members of a line of JSON have in hex (`blob_hex`). The line may be
/// damaged or cut.
fn in_hex(line: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const MARK: &[u8] = b"_hex";
    memmem::find_iter(line, MARK).filter_map(move |at| {
        let value = line.get(at + MARK.len()..)?;
        let joints = value.iter().take_while(|byte| b"\": \t\\".contains(*byte));
        let digits = value.get(joints.count()..)?;
        let count = digits.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let bytes = hex::decode(digits.get(..count.count() & !1)?).ok()?;
        (!bytes.is_empty()).then_some(bytes)
    })
}

/// Returns true if delivered bytes, of which `payload` could be opened, are encrypted or contain
/// what is compressed and can't be opened, whatever a damaged header states.
fn is_opaque(bytes: &[u8], payload: Option<&Payload<'_>>) -> bool {
    if let Some(payload) = payload {
        return payload.plaintext().is_none();
    }
    let flags = GrainHeader::read(blob_of(bytes)).map(|header| header.flags);
    let is_stated = flags.is_ok_and(|flags| flags.compressed());
    let contains = |magic: &[u8; 4]| memmem::find(bytes, magic).is_some();
    is_stated || COMPRESSED_FRAMES.iter().any(contains)
}
