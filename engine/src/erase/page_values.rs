//! The values of a page of byte strings, each on its own.

use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

/// The content of a page whose values are stored one after another, each after its length in four
/// bytes.
pub(super) struct PageValues<'p> {
    /// What states which rows are null.
    levels: &'p [u8],
    /// Nothing if the page refers to values of a dictionary.
    values: &'p [u8],
}

impl<'p> PageValues<'p> {
    /// Returns those of `page`, which is one of `column`. Returns `None` if its values are stored
    /// in another way.
    pub(super) fn of(page: &'p Page, column: &ColumnDescriptor) -> Option<PageValues<'p>> {
        let content: &[u8] = page.buffer();
        let has_dictionary = matches!(
            page.encoding(),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        );
        if has_dictionary && page.is_data_page() {
            let (levels, values) = (content, &[][..]);
            return Some(PageValues { levels, values });
        }
        if column.max_rep_level() > 0 || !has_dictionary && page.encoding() != Encoding::PLAIN {
            return None;
        }
        let length = match page {
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
        let (levels, values) = content.split_at_checked(length as usize)?;
        Some(PageValues { levels, values })
    }

    /// Returns the bytes of the page that aren't values.
    pub(super) fn levels(&self) -> &'p [u8] {
        self.levels
    }

    /// Calls `found` with each value. Returns `None` if the page doesn't end where one of them
    /// does.
    pub(super) fn each(&self, mut found: impl FnMut(&'p [u8])) -> Option<()> {
        let mut values = self.values;
        while !values.is_empty() {
            let (length, rest) = values.split_first_chunk()?;
            let length = u32::from_le_bytes(*length);
            let (value, rest) = rest.split_at_checked(length as usize)?;
            found(value);
            values = rest;
        }
        Some(())
    }

    /// Returns the values of a page that is stored as `values`.
    #[cfg(test)]
    pub(super) fn stored_as(values: &'p [u8]) -> PageValues<'p> {
        let levels = &[][..];
        PageValues { levels, values }
    }
}
