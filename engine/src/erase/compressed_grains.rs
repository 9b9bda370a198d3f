//! Grains with compressed payloads, decompressed for the byte search.
//!
//! Only the values of a page are decompressed, each once, as by the survey. Bytes within a value
//! that look like a compressed grain are none: a value may have very many of them, one within
//! another, and each may state megabytes of content.

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, GrainHeader, HEADER_LENGTH, Payload, VERSION,
};
use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

/// Calls `found` with each compressed grain in `page`, decompressed. The page is one of `column`,
/// whose values are byte strings.
///
/// # Errors
/// If the values of the page can't be told apart: then grains may have been missed.
pub(super) fn each_decompressed(
    page: &Page,
    column: &ColumnDescriptor,
    found: impl FnMut(&[u8]),
) -> Result<(), ParquetError> {
    let read = values_of(page, column).and_then(|values| each_grain(values, found));
    read.ok_or_else(|| {
        ParquetError::General("the values of a page of grains can't be told apart".to_owned())
    })
}

/// Returns the part of `page` with values, each after its length in four bytes: nothing if the page
/// refers to values of a dictionary. Returns `None` if values are stored in another way.
fn values_of<'p>(page: &'p Page, column: &ColumnDescriptor) -> Option<&'p [u8]> {
    let content: &[u8] = page.buffer();
    let has_dictionary = matches!(
        page.encoding(),
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
    );
    if has_dictionary && page.is_data_page() {
        return Some(&[]);
    }
    if column.max_rep_level() > 0 || !has_dictionary && page.encoding() != Encoding::PLAIN {
        return None;
    }
    // What states which rows are null is before the values.
    let start = match page {
        Page::DataPageV2 {
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => def_levels_byte_len.checked_add(*rep_levels_byte_len)?,
        Page::DataPage {
            def_level_encoding, ..
        } if column.max_def_level() > 0 => {
            let length = u32::from_le_bytes(*content.first_chunk()?);
            let has_length = *def_level_encoding == Encoding::RLE;
            has_length.then(|| length.checked_add(4)).flatten()?
        }
        _ => 0,
    };
    content.get(start as usize..)
}

/// Calls `found` with each compressed grain among `values`, decompressed. Returns `None` if they
/// don't end where one of them does.
fn each_grain(mut values: &[u8], mut found: impl FnMut(&[u8])) -> Option<()> {
    while !values.is_empty() {
        let (length, rest) = values.split_first_chunk()?;
        let length = u32::from_le_bytes(*length);
        let (value, rest) = rest.split_at_checked(length as usize)?;
        if let Some(grain) = decompressed(value) {
            found(&grain);
        }
        values = rest;
    }
    Some(())
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
        each_grain(values, |_| count += 1)?;
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
