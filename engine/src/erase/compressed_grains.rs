//! Grains with compressed payloads, decompressed for the byte search.
//!
//! Only the values of a page are decompressed, each once, as by the survey. Bytes within a value
//! that look like a compressed grain are none: a value may have very many of them, one within
//! another, and each may state megabytes of content.

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, GrainHeader, HEADER_LENGTH, Payload, VERSION,
};
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

use super::page_values::PageValues;

/// Calls `found` with each compressed grain in `page`, decompressed. The page is one of `column`,
/// whose values are byte strings.
///
/// # Errors
/// If the values of the page can't be told apart: then grains may have been missed.
pub(super) fn each_decompressed(
    page: &Page,
    column: &ColumnDescriptor,
    mut found: impl FnMut(&[u8]),
) -> Result<(), ParquetError> {
    let read = PageValues::of(page, column).and_then(|values| {
        values.each(|value| decompressed(value).iter().for_each(|grain| found(grain)))
    });
    read.ok_or_else(|| {
        ParquetError::General("the values of a page of grains can't be told apart".to_owned())
    })
}

/// Returns the grain `blob` as one that isn't compressed. Returns `None` if it isn't, or can't be
/// opened.
pub(super) fn decompressed(blob: &[u8]) -> Option<Vec<u8>> {
    if !GrainHeader::read(blob).ok()?.flags.compressed() {
        return None;
    }
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
    let (plain, _) = payload.plaintext()?;
    let header = blob.get(2..HEADER_LENGTH)?;
    Some([&[VERSION, 0][..], header, plain].concat())
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::Json;

    use super::*;

    /// Returns `value` after its length, as in a page.
    fn stored(value: &[u8]) -> Vec<u8> {
        [&(value.len() as u32).to_le_bytes()[..], value].concat()
    }

    /// Returns the number of compressed grains among `values`, if these can be told apart.
    fn grains_in(values: &[u8]) -> Option<u32> {
        let mut count = 0;
        PageValues::stored_as(values)
            .each(|value| count += u32::from(decompressed(value).is_some()))?;
        Some(count)
    }

    /// Returns a compressed grain.
    fn grain() -> Vec<u8> {
        let note = "the quick brown fox jumps over the lazy dog ".repeat(9);
        let json = format!(
            r#"{{"type":"event","created_at":1767225600000,"role":"user","content":"{note}end"}}"#
        );
        let options = EncodeOptions {
            compressed: true,
            ..EncodeOptions::default()
        };
        let json = Json::parse(json.as_bytes()).unwrap();
        encode_json(&json, options).unwrap().blob
    }

    #[test]
    fn only_values_are_decompressed_and_not_what_is_within_them() {
        let (own, within) = (stored(&grain()), stored(&stored(&grain())));
        assert_eq!(grains_in(&own), Some(1));
        assert_eq!(grains_in(&within), Some(0));
        let all = [own.clone(), within.clone(), stored(b""), own, within];
        assert_eq!(grains_in(&all.concat()), Some(2));
    }

    #[test]
    fn what_only_looks_like_a_compressed_grain_is_none() {
        let frame = [VERSION, 4, 1, 0, 0, 0, 0, 0, 0, 0x28, 0xb5, 0x2f, 0xfd];
        assert_eq!(grains_in(&stored(&frame)), Some(0));
    }

    #[test]
    fn values_that_can_not_be_told_apart_are_not_passed_over() {
        let own = stored(&grain());
        for values in [
            &own[1..],
            &own[..own.len() - 1],
            &own[..3],
            &[&own[..], &[0]].concat(),
            &[&u32::MAX.to_le_bytes()[..], &grain()].concat(),
        ] {
            assert_eq!(grains_in(values), None, "{values:?}");
        }
    }
}
