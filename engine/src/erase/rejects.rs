//! Refused input: whom its bytes are about.
//!
//! Bytes that decode are matched like a grain. Bytes that don't may hold anything, so an identifier anywhere in them, in
//! the message or in the name of the source is enough.

use arrow::array::{Array, AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
use gristmill_schemas::sign::{Delivery, SignedBlob};

use super::matcher::{Hits, Matcher, NOBODY};
use super::reason::{Bar, Judge, Reason, Reasons};
use super::request::Extent;
use super::rows::{text_at, texts};
use super::survey::{FoundReject, selects};

/// Matches the rows of a batch of `rejects` that begins at row `first` of `file`.
pub(super) fn look(
    file: &str,
    first: u32,
    batch: &RecordBatch,
    matcher: &Matcher,
    judge: &Judge<'_>,
    extent: Extent,
) -> Vec<FoundReject> {
    let Some(bytes) = batch.column_by_name("bytes").and_then(|column| column.as_binary_opt::<i32>()) else {
        return Vec::new();
    };
    let mut hits = Hits::default();
    let mut out = Vec::new();
    for row in 0..batch.num_rows() {
        hits.clear();
        let refused = if bytes.is_valid(row) { bytes.value(row) } else { &[] };
        let mut bar = match_bytes(refused, matcher, judge, &mut hits);
        for told in ["message", "source"] {
            let told = text_at(texts(batch, told), row).unwrap_or_default();
            matcher.bytes(told.as_bytes(), Reason::Undecodable, &mut hits);
        }
        let Some((person, _)) = hits.people.first() else { continue };
        let person = if hits.people.len() == 1 { *person } else { hits.people.first().map_or(NOBODY, |hit| hit.0) };
        let mut reasons = Reasons::default();
        hits.people.iter().for_each(|(_, found)| reasons.merge(*found));
        if bar.is_none() && !selects(reasons, extent) {
            bar = Some(Bar::NotSelected);
        }
        let address = ContentAddress::of(blob_of(refused));
        out.push(FoundReject { file: file.to_owned(), row: first + row as u32, person, reasons, bar, address });
    }
    out
}

/// The blob inside of delivered bytes, as far as it can be told.
pub(crate) fn blob_of(bytes: &[u8]) -> &[u8] {
    match Delivery::open(bytes) {
        Ok(delivery) => delivery.blob(),
        Err(_) => SignedBlob::parse(bytes).map_or(bytes, |signed| signed.blob()),
    }
}

fn match_bytes(bytes: &[u8], matcher: &Matcher, judge: &Judge<'_>, hits: &mut Hits) -> Option<Bar> {
    let blob = blob_of(bytes);
    matcher.address(&ContentAddress::of(blob), hits);
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT);
    let grain = payload.as_ref().ok().and_then(|payload| Grain::decode(payload, Mode::Lenient).ok());
    match grain {
        Some(grain) => {
            matcher.find(&grain, None, hits);
            if blob.len() < bytes.len() {
                matcher.bytes(bytes, Reason::Mention, hits);
            }
            judge.bar_of(&grain)
        }
        None => {
            // A compressed payload hides its words; where it can be decompressed they are looked for too.
            if let Some((clear, _)) = payload.as_ref().ok().and_then(|payload| payload.clear()) {
                matcher.bytes(clear, Reason::Undecodable, hits);
            }
            matcher.bytes(bytes, Reason::Undecodable, hits);
            None
        }
    }
}
