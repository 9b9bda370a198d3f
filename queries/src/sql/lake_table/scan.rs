//! Planning of scans: pruning with sidecars, index-only scans, and scans of plain and sealed files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, project_schema};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_engine::lake::{DataFile, Segment, is_sealed_file};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;
use parquet::arrow::arrow_reader::RowSelection;

use super::super::address_lookup::AddressLookup;
use super::super::index_only_scan::read_from_indexes;
use super::super::index_predicate::IndexPredicate;
use super::super::index_pruning::{CandidateRows, PruningStats, candidate_rows, ranges_without};
use super::super::indexed_file_source::IndexedFileSource;
use super::super::leaf_scan::LeafScanExec;
use super::super::unseal::{UnsealExec, Unsealer};
use super::hidden::HiddenStats;
use super::{LakeTable, row_statistics, segments, selection_of};

/// Segments that are confirmed at the same time.
const CONFIRMED: usize = 8;

/// The columns of which the log states in how many rows of a segment they have a value.
const SUPERSEDES: &str = SystemColumn::Supersedes.name();
const DISCLOSURE_OF: &str = Field::DisclosureOf.name();

/// Result of pruning a scan with the sidecars.
struct PrunedSegments {
    conditions: IndexPredicate,
    segments: Vec<Segment>,
    /// Candidate rows of each segment.
    chosen: Vec<CandidateRows>,
}

impl PrunedSegments {
    fn stats(&self) -> PruningStats {
        PruningStats::of(&self.conditions, &self.segments, &self.chosen)
    }
}

/// Rows that a scan leaves out because of their lifecycle.
struct HiddenFromScan {
    /// The rows to read, if no other condition selects rows.
    visible: Vec<CandidateRows>,
    stats: HiddenStats,
}

/// Files and rows that a scan reads.
struct ScanFiles {
    files: FileGroup,
    /// Upper bound of the rows that are read.
    rows: Precision<usize>,
    /// What EXPLAIN shows; empty for a scan of all rows.
    note: String,
    /// Where the keys of joins are looked up; `None` if they aren't.
    lookup: Option<Arc<AddressLookup>>,
}

impl ScanFiles {
    /// Limits the expected rows to `most`, because the scan's conditions can't match more.
    fn limit_rows(&mut self, most: u64) {
        let most = most as usize;
        if self.rows.get_value().is_some_and(|rows| *rows > most) {
            self.rows = Precision::Inexact(most);
        }
    }
}

/// Returns the number of rows of `file` that can match `filters` at most, as far as the log states
/// it: the grains that supersede others and the disclosed copies are counted there.
fn most_matches(file: &DataFile, filters: &[Expr]) -> u64 {
    let stated = |filter: &Expr| match filter {
        Expr::IsNotNull(of) => match &**of {
            Expr::Column(column) if column.name == SUPERSEDES => file.superseding,
            Expr::Column(column) if column.name == DISCLOSURE_OF => file.disclosed,
            _ => None,
        },
        _ => None,
    };
    let stated = filters
        .iter()
        .flat_map(split_conjunction)
        .filter_map(stated);
    stated.fold(file.rows, u64::min)
}

/// Returns the candidate rows of each file; `None` if all rows are read.
fn chosen_rows<'c>(
    pruned: Option<&'c PrunedSegments>,
    hidden: Option<&'c HiddenFromScan>,
) -> Option<&'c [CandidateRows]> {
    let visible = hidden.map(|hidden| hidden.visible.as_slice());
    pruned.map(|pruned| pruned.chosen.as_slice()).or(visible)
}

/// Returns what EXPLAIN shows of the selection of rows.
fn note_of(pruned: Option<&PrunedSegments>, hidden: Option<&HiddenFromScan>) -> String {
    let pruned = pruned.map(|pruned| pruned.stats().to_string());
    let hidden = hidden.map(|hidden| hidden.stats.to_string());
    pruned
        .into_iter()
        .chain(hidden)
        .collect::<Vec<_>>()
        .join(", ")
}

impl LakeTable {
    /// Plans the scan of the sealed files, or of the plain ones; `None` if the table has no sealed
    /// files.
    pub(super) async fn plan_scan(
        &self,
        sealed: bool,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let own: Vec<&DataFile> = self
            .files
            .iter()
            .filter(|file| is_sealed_file(&file.name) == sealed)
            .filter(|file| most_matches(file, filters) > 0)
            .collect();
        let mut pruned = self.prune(&own, filters).await;
        let hidden = self.hide(&own, pruned.as_mut()).await?;
        if let Some(pruned) = &pruned {
            let schema = project_schema(&self.schema, projection)?;
            if let Some(rows) = self.index_only(pruned, schema).await {
                let note = note_of(Some(pruned), hidden.as_ref());
                let note = format!("{note}; no segment is read");
                return Ok(Some(Arc::new(LeafScanExec::index_only(rows, note)?)));
            }
        }
        let chosen = chosen_rows(pruned.as_ref(), hidden.as_ref());
        self.confirm_selected(&own, chosen).await?;
        let mut selected = self.scan_files(&own, pruned.as_ref(), hidden.as_ref());
        selected.limit_rows(own.iter().map(|file| most_matches(file, filters)).sum());
        match sealed {
            true => self.plan_sealed(state, selected, projection, filters),
            false => self
                .plan_plain(state, selected, projection, filters, limit)
                .map(Some),
        }
    }

    fn plan_plain(
        &self,
        state: &dyn Session,
        mut selected: ScanFiles,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        selected.lookup = self.address_lookup();
        // With a filter above the scan, the scan must read beyond the limit.
        let limit = limit.filter(|_| filters.is_empty());
        let source = Arc::new(self.parquet_source(state)?);
        self.parquet_scan(state, source, selected, projection.cloned(), limit)
    }

    fn plan_sealed(
        &self,
        state: &dyn Session,
        mut selected: ScanFiles,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let unsealer = self.unsealer(true, projection.map(Vec::as_slice))?;
        let Some(unsealer) = unsealer.filter(|_| !selected.files.is_empty()) else {
            return Ok(None);
        };
        // Some of the sealed rows may be erased: their count is an upper bound, and the scan must
        // read beyond the limit.
        selected.rows = selected.rows.to_inexact();
        let source = self.sealed_source(state, &unsealer, filters)?;
        let columns = unsealer.stored(&self.schema)?;
        let scan = self.parquet_scan(state, Arc::new(source), selected, Some(columns), None)?;
        Ok(Some(Arc::new(UnsealExec::new(scan, unsealer))))
    }

    /// Returns the source of sealed files, with the part of `filters` that applies to stored rows.
    fn sealed_source(
        &self,
        state: &dyn Session,
        unsealer: &Unsealer,
        filters: &[Expr],
    ) -> Result<ParquetSource> {
        let source = self.parquet_source(state)?;
        Ok(match unsealer.predicate(state, filters)? {
            Some(predicate) => source.with_predicate(predicate),
            None => source,
        })
    }

    /// Builds the scan of the selected files with the columns at `columns`.
    fn parquet_scan(
        &self,
        state: &dyn Session,
        source: Arc<dyn FileSource>,
        selected: ScanFiles,
        columns: Option<Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ScanFiles {
            files,
            rows,
            note,
            lookup,
        } = selected;
        let source = IndexedFileSource::new(source, note).with_lookup(lookup);
        let source = Arc::new(source);
        let bytes = files.iter().map(|file| file.object_meta.size).sum();
        let statistics = row_statistics(&self.schema, rows, bytes);
        let mut groups = files.split_files(state.config_options().execution.target_partitions);
        if groups.is_empty() {
            groups.push(FileGroup::default());
        }
        let scan = FileScanConfigBuilder::new(self.store.clone(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(columns)?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }

    /// Prunes the segments `own` with the sidecars and to the rows that a search has chosen; `None`
    /// if it has chosen none and `filters` restrict no indexed column.
    async fn prune(&self, own: &[&DataFile], filters: &[Expr]) -> Option<PrunedSegments> {
        let mut conditions = IndexPredicate::of(filters);
        let is_restricted = self.kept.is_some() || !conditions.is_empty();
        let sidecars = self.sidecars.as_ref().filter(|_| is_restricted)?;
        let segments = segments(own)?;
        if self.kept.is_some() {
            // The rows have been chosen by their words.
            conditions = conditions.without_words();
        }
        let mut chosen =
            candidate_rows(sidecars, self.table.location(), &segments, &conditions).await;
        if let Some(kept) = &self.kept {
            chosen = kept.restrict(own, chosen);
        }
        Some(PrunedSegments {
            conditions,
            segments,
            chosen,
        })
    }

    /// Reads the columns of `schema` for the candidate rows from the sidecars alone; `None` if they
    /// don't contain all of it. Sealed tables always return `None`: sidecars have no values of
    /// sealed rows, and some of these rows may be erased.
    async fn index_only(&self, pruned: &PrunedSegments, schema: SchemaRef) -> Option<RecordBatch> {
        let PrunedSegments {
            conditions,
            segments,
            chosen,
        } = pruned;
        let sidecars = self.sidecars.as_ref().filter(|_| self.keys.is_none())?;
        read_from_indexes(
            sidecars,
            self.table.location(),
            segments,
            conditions,
            chosen,
            &schema,
        )
        .await
    }

    /// Removes the rows that the table hides from the candidate rows of the segments `own`.
    async fn hide(
        &self,
        own: &[&DataFile],
        pruned: Option<&mut PrunedSegments>,
    ) -> Result<Option<HiddenFromScan>> {
        let chosen = pruned.as_ref().map(|pruned| pruned.chosen.clone());
        let Some((mut visible, stats)) = self.without_hidden(own, chosen).await? else {
            return Ok(None);
        };
        if let Some(pruned) = pruned {
            pruned.chosen = std::mem::take(&mut visible);
        }
        Ok(Some(HiddenFromScan { visible, stats }))
    }

    /// Confirms the segments of `own` of which sidecars have chosen some rows but not all.
    ///
    /// # Errors
    /// As [`LakeTable::confirm`].
    async fn confirm_selected(
        &self,
        own: &[&DataFile],
        chosen: Option<&[CandidateRows]>,
    ) -> Result<()> {
        let rows = chosen.unwrap_or_default();
        let is_selected =
            |rows: &CandidateRows| rows.may_match() && !matches!(rows, CandidateRows::All);
        let selected = own.iter().zip(rows).filter(|(_, rows)| is_selected(rows));
        let confirmed: Vec<_> = selected.map(|(file, _)| self.confirm(file)).collect();
        stream::iter(confirmed)
            .buffer_unordered(CONFIRMED)
            .try_collect()
            .await
    }

    /// Returns the files of `own` that have candidate rows, with these rows selected.
    fn scan_files(
        &self,
        own: &[&DataFile],
        pruned: Option<&PrunedSegments>,
        hidden: Option<&HiddenFromScan>,
    ) -> ScanFiles {
        let chosen = chosen_rows(pruned, hidden);
        let mut files = FileGroup::default();
        let mut count = 0;
        for (number, file) in own.iter().enumerate() {
            let rows = chosen.and_then(|chosen| chosen.get(number));
            let rows = rows.unwrap_or(&CandidateRows::All);
            count += rows.count(file.rows) as usize;
            if let Some(chosen) = self.chosen(file, rows, pruned.is_none()) {
                files.push(chosen);
            }
        }
        ScanFiles {
            files,
            // Indexes err towards reading.
            rows: match pruned {
                None => Precision::Exact(count),
                Some(_) => Precision::Inexact(count),
            },
            note: note_of(pruned, hidden),
            lookup: None,
        }
    }

    /// Returns the look-up of addresses in the segments; `None` for tables without sidecars.
    fn address_lookup(&self) -> Option<Arc<AddressLookup>> {
        let sidecars = self.sidecars.as_ref()?;
        let segments = segments(&self.files.iter().collect::<Vec<_>>())?;
        let path = |segment: &Segment| self.table.path_of(&segment.file.name).to_string();
        let segments = segments
            .into_iter()
            .map(|segment| (path(&segment), segment));
        let location = self.table.location().clone();
        let lookup = AddressLookup::new(Arc::clone(sidecars), location, segments.collect());
        Some(Arc::new(lookup))
    }

    /// Returns the file with a selection of `rows`, whose number is exact or an upper bound; `None`
    /// if there are none.
    fn chosen(
        &self,
        file: &DataFile,
        rows: &CandidateRows,
        is_exact: bool,
    ) -> Option<PartitionedFile> {
        let count = rows.count(file.rows) as usize;
        let selection = match rows {
            CandidateRows::All => {
                return Some(self.partitioned(file, Precision::Exact(count)));
            }
            _ if count == 0 => return None,
            CandidateRows::Listed(rows) => selection_of(rows, file),
            CandidateRows::Except(hidden) => {
                let end = file.rows as usize;
                let runs = ranges_without(hidden, end).into_iter();
                RowSelection::from_consecutive_ranges(runs, end)
            }
        };
        let count = match is_exact {
            true => Precision::Exact(count),
            false => Precision::Inexact(count),
        };
        let selection = ParquetRowSelection::new(selection);
        Some(self.partitioned(file, count).with_extension(selection))
    }

    /// Returns the Parquet source: late materialisation is on, and the session caches footers and
    /// page indexes.
    fn parquet_source(&self, state: &dyn Session) -> Result<ParquetSource> {
        let options = TableParquetOptions {
            global: state.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        Ok(ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(self.readers(state)?)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::col;

    use super::*;

    fn file(superseding: Option<u64>, disclosed: Option<u64>) -> DataFile {
        DataFile {
            superseding,
            disclosed,
            ..DataFile::untagged("part-1.parquet", 1, 9)
        }
    }

    #[test]
    fn counts_in_the_log_limit_what_a_condition_matches() {
        let has = |column| col(column).is_not_null();
        let superseding = has(SUPERSEDES).and(col("type").eq(col("namespace")));
        for (file, filter, expected) in [
            (file(Some(2), Some(0)), superseding.clone(), 2),
            (file(Some(0), None), superseding.clone(), 0),
            (file(None, Some(0)), superseding, 9),
            (file(Some(2), Some(0)), has(DISCLOSURE_OF), 0),
            (file(Some(0), Some(0)), has("subject"), 9),
            (file(Some(0), Some(0)), col(SUPERSEDES).is_null(), 9),
        ] {
            assert_eq!(most_matches(&file, &[filter]), expected);
        }
    }
}
