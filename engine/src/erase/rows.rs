//! Reading segments: all rows, single rows, or the links of all rows, on all cores, a row group at
//! a time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GRAINS, IdentityColumn};
use gristmill_schemas::grain::Field;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use rayon::prelude::*;

use crate::error::{Context, Result};
use crate::keys::{ErasedRows, LakeKeys};
use crate::lake::Lake;
use crate::policy::address_of;
use crate::segment::{CopySource, MappedFile, footer_of, mask_of};

/// A Parquet file of the lake that can be read by many threads.
#[derive(Clone)]
pub(crate) struct OpenFile {
    bytes: MappedFile,
    metadata: ArrowReaderMetadata,
    name: String,
    /// What opens its rows, if they are sealed.
    keys: Option<Arc<LakeKeys>>,
}

/// Rows that are read at a time, if nothing is known of their size.
const BATCH_ROWS: usize = 1_024;

/// Rows of a batch at most, and about how many bytes they may have: a batch costs something for
/// each of many columns, however few its rows are.
const MOST_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 4 << 20;

impl OpenFile {
    /// Opens the lake's file `path`.
    pub(crate) async fn open(lake: &Lake, path: &object_store::path::Path) -> Result<OpenFile> {
        let bytes = MappedFile(Arc::new(lake.location().read(path).await?));
        let metadata = footer_of(&bytes).file("can't read", path)?;
        let keys = lake.keys_to_read(path.as_ref())?;
        Ok(OpenFile {
            bytes,
            metadata,
            name: path.to_string(),
            keys,
        })
    }

    /// The file as one whose row groups can be copied.
    pub(crate) fn copy_source(&self) -> Result<CopySource> {
        CopySource::open(self.bytes.clone()).file("can't read", &self.name)
    }

    /// True if its rows are sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.keys.is_some()
    }

    /// The keys to its rows, if they are sealed.
    pub(crate) fn keys(&self) -> Option<&Arc<LakeKeys>> {
        self.keys.as_ref()
    }

    /// Rows of the file as they can be read, with `columns`. Those whose keys were destroyed stay
    /// at their places.
    pub(crate) fn opened(
        &self,
        batch: &RecordBatch,
        columns: Option<&[&str]>,
    ) -> Result<RecordBatch> {
        match &self.keys {
            None => Ok(batch.clone()),
            Some(keys) if self.name.starts_with(GRAINS) => {
                keys.open_rows(batch, columns, ErasedRows::Kept)
            }
            Some(keys) => keys.open_cells(batch),
        }
    }

    /// The columns to read so that `columns` can be made of them.
    fn stored<'c>(&self, columns: Option<&[&'c str]>) -> Option<Vec<&'c str>> {
        match self.is_sealed() && self.name.starts_with(GRAINS) {
            true => Some(LakeKeys::sealed_columns(columns)),
            false => columns.map(<[_]>::to_vec),
        }
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.as_ref().len() as u64
    }

    /// Bytes of each row group in memory, roughly.
    pub(crate) fn row_group_bytes(&self) -> Vec<u64> {
        self.metadata
            .metadata()
            .row_groups()
            .iter()
            .map(|group| group.total_byte_size().max(0) as u64)
            .collect()
    }

    /// Bytes of each row group in the file.
    pub(crate) fn stored_bytes(&self) -> Vec<u64> {
        self.metadata
            .metadata()
            .row_groups()
            .iter()
            .map(|group| group.compressed_size().max(0) as u64)
            .collect()
    }

    /// Rows of each row group.
    pub(crate) fn row_groups(&self) -> Vec<usize> {
        self.metadata
            .metadata()
            .row_groups()
            .iter()
            .map(|group| group.num_rows().max(0) as usize)
            .collect()
    }

    /// Calls `job` for every batch of every row group, row groups side by side; answers what it
    /// gave, in order. `job` gets the number of the batch's first row in the file.
    pub(crate) fn each<T: Send>(
        &self,
        columns: Option<&[&str]>,
        job: impl Fn(u32, &RecordBatch) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let stored = self.stored(columns);
        let mut first = 0;
        let starts: Vec<usize> = self
            .row_groups()
            .iter()
            .map(|rows| {
                first += rows;
                first - rows
            })
            .collect();
        let groups: Vec<Vec<T>> = starts
            .into_par_iter()
            .enumerate()
            .map(|(group, start)| {
                let mut at = start as u32;
                let mut out = Vec::new();
                for batch in self.reader(stored.as_deref(), Some(group), None)? {
                    let batch = self.opened(&batch.file("can't read", &self.name)?, columns)?;
                    out.push(job(at, &batch)?);
                    at += batch.num_rows() as u32;
                }
                Ok(out)
            })
            .collect::<Result<_>>()?;
        Ok(groups.into_iter().flatten().collect())
    }

    /// The file, from the lake's root.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The batches of one row group of `grains` with `columns`, or of a small table with all, as
    /// they can be read.
    pub(crate) fn group(
        &self,
        number: usize,
        columns: &[&'static str],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<'_>> {
        let columns = self.name.starts_with(GRAINS).then(|| columns.to_vec());
        let stored = self.stored(columns.as_deref());
        let reader = self.reader(stored.as_deref(), Some(number), None)?;
        Ok(reader.map(move |batch| {
            self.opened(&batch.file("can't read", &self.name)?, columns.as_deref())
        }))
    }

    /// The batches of one row group, or of the rows `selection`, or of all, as they are stored.
    pub(crate) fn reader(
        &self,
        columns: Option<&[&str]>,
        group: Option<usize>,
        selection: Option<RowSelection>,
    ) -> Result<parquet::arrow::arrow_reader::ParquetRecordBatchReader> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.bytes.clone(),
            self.metadata.clone(),
        );
        let mut builder =
            builder.with_batch_size(group.map_or(BATCH_ROWS, |group| self.batch_rows(group)));
        if let Some(columns) = columns {
            builder = builder
                .with_projection(mask_of(&self.metadata, columns).file("can't read", &self.name)?);
        }
        if let Some(group) = group {
            builder = builder.with_row_groups(vec![group]);
        }
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        builder.build().file("can't read", &self.name)
    }

    /// Rows of row group `group` that are read at a time.
    fn batch_rows(&self, group: usize) -> usize {
        let group = self.metadata.metadata().row_groups().get(group);
        let (rows, bytes) = group.map_or((0, 0), |group| {
            (group.num_rows().max(0), group.total_byte_size().max(1))
        });
        (rows as usize)
            .saturating_mul(BATCH_BYTES)
            .checked_div(bytes as usize)
            .map_or(BATCH_ROWS, |rows| rows.clamp(1, MOST_ROWS))
    }

    /// The rows `wanted` (ascending), with `columns`.
    pub(crate) fn pick(&self, columns: &[&str], wanted: &[u32]) -> Result<Vec<RecordBatch>> {
        let mut selectors = Vec::new();
        let mut at = 0;
        for row in wanted.iter().map(|row| *row as usize) {
            if row > at {
                selectors.push(RowSelector::skip(row - at));
            }
            selectors.push(RowSelector::select(1));
            at = row + 1;
        }
        let stored = self.stored(Some(columns));
        let reader = self.reader(stored.as_deref(), None, Some(selectors.into()))?;
        reader
            .map(|batch| self.opened(&batch.file("can't read", &self.name)?, Some(columns)))
            .collect()
    }

    /// The Arrow schema of the file.
    pub(crate) fn schema(&self) -> arrow::datatypes::SchemaRef {
        Arc::clone(self.metadata.schema())
    }
}

/// A text column of a batch; empty where the file doesn't have it so.
pub(crate) fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

/// The text of `row`, if it has one.
pub(crate) fn text_at(column: Option<&StringArray>, row: usize) -> Option<&str> {
    column
        .filter(|column| column.is_valid(row))
        .map(|column| column.value(row))
}

/// The address of `row` in a column of addresses.
pub(crate) fn address_at(column: Option<&StringArray>, row: usize) -> Option<ContentAddress> {
    text_at(column, row).and_then(|text| text.parse().ok())
}

/// The address of `row` in a column by which grains refer to others; it may say `sha256:` before
/// it.
pub(crate) fn reference_at(column: Option<&StringArray>, row: usize) -> Option<ContentAddress> {
    text_at(column, row).and_then(address_of)
}

/// How one grain refers to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// `derived_from`.
    DerivedFrom,
    /// Its content comes from the other: provenance, premises, a disclosed copy.
    Source,
    /// Any other reference.
    Reference,
}

/// The columns that hold addresses of other grains.
const LINKS: [(&str, Link); 15] = [
    (Field::DerivedFrom.name(), Link::DerivedFrom),
    (Field::ProvenanceChain.name(), Link::Source),
    (Field::Premises.name(), Link::Source),
    (Field::DisclosureOf.name(), Link::Source),
    (Field::RelatedTo.name(), Link::Reference),
    (Field::ParentMessageId.name(), Link::Reference),
    (Field::ParentGoals.name(), Link::Reference),
    (Field::SatisfactionEvidence.name(), Link::Reference),
    (Field::DependsOn.name(), Link::Reference),
    (Field::OutputGrain.name(), Link::Reference),
    (Field::PriorConsent.name(), Link::Reference),
    (Field::DissentGrains.name(), Link::Reference),
    (Field::ContextGrains.name(), Link::Reference),
    (Field::RollbackOnFailure.name(), Link::Reference),
    (IdentityColumn::Supersedes.name(), Link::Reference),
];

/// The names of the link columns.
pub(crate) fn link_columns() -> Vec<&'static str> {
    LINKS.iter().map(|(name, _)| *name).collect()
}

/// Calls `found` with the row, kind and target of every link in `batch`.
pub(crate) fn links(batch: &RecordBatch, mut found: impl FnMut(usize, Link, ContentAddress)) {
    for (name, link) in LINKS {
        let Some(column) = batch
            .column_by_name(name)
            .filter(|column| column.null_count() < column.len())
        else {
            continue;
        };
        each_text(column, |row, text| {
            if let Some(target) = address_of(text) {
                found(row, link, target);
            }
        });
    }
}

/// Every text in a column of texts, of lists of texts, or of lists of structs whose texts are
/// addresses.
fn each_text(column: &ArrayRef, mut found: impl FnMut(usize, &str)) {
    if let Some(texts) = column.as_string_opt::<i32>() {
        (0..texts.len())
            .filter(|row| texts.is_valid(*row))
            .for_each(|row| found(row, texts.value(row)));
        return;
    }
    let Some(lists) = column.as_list_opt::<i32>() else {
        return;
    };
    let members: Vec<&StringArray> = match lists.values().as_struct_opt() {
        Some(items) => items
            .columns()
            .iter()
            .filter_map(|member| member.as_string_opt::<i32>())
            .collect(),
        None => lists.values().as_string_opt::<i32>().into_iter().collect(),
    };
    for (row, bounds) in lists.value_offsets().windows(2).enumerate() {
        let &[start, end] = bounds else { continue };
        for member in &members {
            for item in (start as usize..end as usize).filter(|item| member.is_valid(*item)) {
                found(row, member.value(item));
            }
        }
    }
}
