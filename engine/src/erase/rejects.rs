//! Refused input: whom its bytes are about.
//!
//! Bytes that decode are matched like a grain. Bytes that don't may hold anything, so an identifier
//! anywhere in them, in the message or in the name of the source is enough; a payload that can be
//! read as values is, whatever its header says. A manifest's claim about a grain that is erased
//! goes with the grain.

use std::collections::HashSet;

use arrow::array::{Array, AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, Encoding, Grain, HEADER_LENGTH, Mode, Payload, RawValue,
};

use super::matcher::{Hits, IdentifierMatcher, NO_PERSON};
use super::reason::{Exemption, ExemptionRules, Reason, Reasons};
use super::request::SelectionOptions;
use super::survey::{FoundReject, selects};
use crate::lake::{MANIFEST, blob_of, text_at, texts};

/// The columns that [`RejectScanner::at`] needs.
pub(super) const COLUMNS: [&str; 4] = ["bytes", "message", "source", "field"];

/// What is looked for in refused input.
pub(super) struct RejectScanner<'a> {
    /// Whom.
    pub(super) matcher: &'a IdentifierMatcher,
    /// What exemptions an erasure.
    pub(super) rules: &'a ExemptionRules<'a>,
    /// Grains that are erased.
    pub(super) gone: &'a HashSet<ContentAddress>,
    /// What else is selected.
    pub(super) extent: SelectionOptions,
}

impl RejectScanner<'_> {
    /// Matches the rows of a batch of `rejects` that begins at row `first` of `file`.
    pub(super) fn at(&self, file: &str, first: u32, batch: &RecordBatch) -> Vec<FoundReject> {
        let Some(bytes) = batch
            .column_by_name("bytes")
            .and_then(|column| column.as_binary_opt::<i32>())
        else {
            return Vec::new();
        };
        let mut hits = Hits::default();
        let mut out = Vec::new();
        for row in 0..batch.num_rows() {
            hits.clear();
            let refused = if bytes.is_valid(row) {
                bytes.value(row)
            } else {
                &[]
            };
            let mut exemption = self.match_bytes(refused, &mut hits);
            for told in ["message", "source"] {
                let told = text_at(texts(batch, told), row).unwrap_or_default();
                self.matcher
                    .match_bytes(told.as_bytes(), Reason::Undecodable, &mut hits);
            }
            if text_at(texts(batch, "field"), row) == Some(MANIFEST) {
                self.match_claim(refused, &mut hits);
            }
            let Some((person, _)) = hits.people.first() else {
                continue;
            };
            let person = *person;
            let mut reasons = Reasons::default();
            hits.people
                .iter()
                .for_each(|(_, found)| reasons.merge(*found));
            if exemption.is_none() && !selects(reasons, self.extent) {
                exemption = Some(Exemption::NotSelected);
            }
            let address = ContentAddress::of(blob_of(refused));
            let (file, row, variations) = (file.to_owned(), first + row as u32, hits.variations);
            out.push(FoundReject {
                file,
                row,
                person,
                reasons,
                variations,
                exemption,
                address,
            });
        }
        out
    }

    fn match_bytes(&self, bytes: &[u8], hits: &mut Hits) -> Option<Exemption> {
        let blob = blob_of(bytes);
        self.matcher.match_address(&ContentAddress::of(blob), hits);
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT);
        let grain = payload
            .as_ref()
            .ok()
            .and_then(|payload| Grain::decode(payload, Mode::Lenient).ok());
        match grain {
            Some(grain) => {
                self.matcher.match_grain(&grain, hits);
                if blob.len() < bytes.len() {
                    self.matcher.match_bytes(bytes, Reason::Mention, hits);
                }
                self.rules.exemption_of(&grain)
            }
            None => {
                // A compressed payload hides its words; where it can be decompressed they are
                // looked for too.
                let clear = payload.as_ref().ok().and_then(|payload| payload.clear());
                if let Some((clear, _)) = clear {
                    self.matcher.match_undecodable(clear, hits);
                }
                self.matcher.match_undecodable(bytes, hits);
                let values = clear.map_or(
                    blob.get(HEADER_LENGTH..).unwrap_or_default(),
                    |(clear, _)| clear,
                );
                for encoding in [Encoding::MessagePack, Encoding::Cbor] {
                    if let Ok(value @ RawValue::Map(_)) = RawValue::read(values, encoding) {
                        self.matcher.match_loose_value(&value, hits);
                    }
                }
                None
            }
        }
    }

    /// A claim that was denied names grains by their addresses.
    fn match_claim(&self, told: &[u8], hits: &mut Hits) {
        let Ok(claim) = serde_json::from_slice::<serde_json::Value>(told) else {
            return;
        };
        let named = ["content_address", "value"]
            .into_iter()
            .filter_map(|member| claim.get(member)?.as_str()?.parse().ok());
        for address in named {
            self.matcher.match_address(&address, hits);
            if self.gone.contains(&address) {
                hits.add(NO_PERSON, Reason::Address);
            }
        }
    }
}
