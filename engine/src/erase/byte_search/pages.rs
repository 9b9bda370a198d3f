//! Searches the pages of Parquet files, decompressed.

use std::collections::HashSet;

use gristmill_schemas::columns::SystemColumn;
use parquet::basic::Type;
use parquet::column::page::Page;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;
use rayon::prelude::*;

use super::{Attribution, ByteSearchResult, FileSearch};
use crate::erase::compressed_grains::each_decompressed;
use crate::erase::page_values::PageValues;
use crate::error::{Context, Result};
use crate::segment::{MappedFile, page_bodies};

impl FileSearch<'_> {
    /// Searches a Parquet file.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if it is damaged.
    pub(super) fn parquet(
        &self,
        path: &str,
        bytes: MappedFile,
        attribution: Attribution,
    ) -> Result<ByteSearchResult> {
        let groups = self.retained.groups.get(path);
        let bodies = page_bodies(&bytes).file("can't search", path)?;
        let mut found = self.raw_bytes(bytes.as_ref(), &bodies, attribution);
        self.pages(path, bytes, groups, &mut found)?;
        Ok(found)
    }

    fn pages(
        &self,
        path: &str,
        bytes: MappedFile,
        groups: Option<&HashSet<usize>>,
        found: &mut ByteSearchResult,
    ) -> Result<()> {
        let reader = SerializedFileReader::new(bytes).file("can't search", path)?;
        let parts: Vec<ByteSearchResult> = (0..reader.num_row_groups())
            .into_par_iter()
            .map(|number| {
                let group = reader.get_row_group(number).file("can't search", path)?;
                let explained = groups.is_some_and(|groups| groups.contains(&number));
                self.row_group(path, &*group, explained)
            })
            .collect::<Result<_>>()?;
        parts.into_iter().for_each(|part| found.add(part));
        Ok(())
    }

    fn row_group(
        &self,
        path: &str,
        group: &dyn RowGroupReader,
        explained: bool,
    ) -> Result<ByteSearchResult> {
        let mut found = ByteSearchResult::default();
        let mut scratch = Vec::new();
        for column in 0..group.num_columns() {
            let metadata = group.metadata().column(column);
            let has_grains = has_grains(metadata);
            let mut pages = group
                .get_column_page_reader(column)
                .file("can't search", path)?;
            while let Some(page) = pages.get_next_page().file("can't search", path)? {
                found.pages += 1;
                let column = metadata.column_descr();
                let mut search = |bytes: &[u8], page: Option<&Page>| {
                    found.bytes += bytes.len() as u64;
                    let (addresses, mut identifiers) = match page {
                        Some(_) => self.patterns.count(bytes, &mut scratch),
                        None => self.patterns.count_in_value(bytes, &mut scratch),
                    };
                    if let Some(page) = page.filter(|_| identifiers > 0 && !explained) {
                        identifiers = self.in_values(page, column).unwrap_or(identifiers);
                    }
                    found.note((addresses, identifiers), explained.into());
                };
                search(page.buffer(), Some(&page));
                if has_grains {
                    each_decompressed(&page, column, |grain| search(grain, None))
                        .file("can't search", path)?;
                }
            }
        }
        Ok(found)
    }

    /// Returns the number of identifiers in the values of `page`, which is one of `column`: what is
    /// next to a value may look like a part of a word in it. Returns `None` if the values can't be
    /// told apart.
    fn in_values(&self, page: &Page, column: &ColumnDescriptor) -> Option<u64> {
        let is_text = column.physical_type() == Type::BYTE_ARRAY;
        let values = PageValues::of(page, column).filter(|_| is_text)?;
        let mut scratch = Vec::new();
        let (_, mut found) = self.patterns.count(values.levels(), &mut scratch);
        values.each(|value| found += self.patterns.count_in_value(value, &mut scratch).1)?;
        Some(found)
    }
}

/// Returns whether `column` is the one that has grains.
fn has_grains(column: &ColumnChunkMetaData) -> bool {
    column.column_path().string() == SystemColumn::Blob.name()
        && column.column_type() == Type::BYTE_ARRAY
}
