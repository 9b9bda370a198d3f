//! Tables without the rows that the lifecycle takes out: `current`, `as_of`, and the grains that
//! CAL searches. Lifecycle masks contain the rows of each segment, which become a row selection of
//! its scan.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use gristmill_engine::index::lifecycle_mask::{HiddenRows, LifecycleSnapshot};
use gristmill_engine::lake::DataFile;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::LifecycleState;
use roaring::RoaringBitmap;

use super::super::external;
use super::super::index_pruning::CandidateRows;
use super::{LakeTable, segments};

/// Counts of the rows that a scan leaves out, shown by EXPLAIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HiddenStats {
    rows: u64,
    rows_in_all: u64,
    segments: usize,
    without_mask: usize,
    tail_files: usize,
}

impl fmt::Display for HiddenStats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "lifecycle=mask: {} of {} rows in {} segments left out",
            self.rows, self.rows_in_all, self.segments
        )?;
        if self.tail_files > 0 {
            write!(out, ", {} newer files with events read", self.tail_files)?;
        }
        if self.without_mask > 0 {
            write!(
                out,
                ", {} segments without a usable mask",
                self.without_mask
            )?;
        }
        Ok(())
    }
}

/// Returns `plan` with `hidden` rows left out of each scan of `grains`. `None` if it scans no
/// table of a lake.
///
/// # Errors
/// If the plan can't be rewritten.
pub(crate) fn hide_rows(plan: LogicalPlan, hidden: HiddenRows) -> Result<Option<LogicalPlan>> {
    let rewritten = plan.transform_down(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source)?;
        let table = provider.downcast_ref::<LakeTable>();
        Ok(match table.and_then(|table| table.hiding(hidden)) {
            Some(table) => Transformed::yes(LogicalPlan::TableScan(TableScan {
                source: provider_as_source(Arc::new(table)),
                ..scan
            })),
            None => Transformed::no(LogicalPlan::TableScan(scan)),
        })
    })?;
    Ok(rewritten.transformed.then_some(rewritten.data))
}

impl LakeTable {
    /// Returns the table without `hidden` rows; `None` if it isn't `grains` with its sidecars.
    pub(crate) fn hiding(&self, hidden: HiddenRows) -> Option<LakeTable> {
        self.lake.as_ref()?;
        let mut table = self.clone();
        table.hidden = Some(hidden);
        Some(table)
    }

    /// Opens the lifecycle masks, unless this has been done. Those of a lake in an object store are
    /// opened when a query selects rows of their segments.
    ///
    /// # Errors
    /// [`DataFusionError::External`](datafusion::error::DataFusionError::External) if newer events
    /// can't be read.
    pub(crate) async fn open_masks(&self) -> Result<()> {
        if let Some(lake) = self
            .lake
            .as_ref()
            .filter(|lake| !lake.location().is_remote())
        {
            LifecycleSnapshot::of(lake).await.map_err(external)?;
        }
        Ok(())
    }

    /// Returns the lifecycles of those of `addresses` that have any event; `None` if the table
    /// isn't `grains` with its sidecars.
    ///
    /// # Errors
    /// [`DataFusionError::External`](datafusion::error::DataFusionError::External) if events can't
    /// be read.
    pub(crate) async fn lifecycles(
        &self,
        addresses: &[ContentAddress],
    ) -> Result<Option<BTreeMap<ContentAddress, LifecycleState>>> {
        let Some(lake) = &self.lake else {
            return Ok(None);
        };
        let snapshot = LifecycleSnapshot::of_addresses(lake, addresses).await;
        let found = snapshot
            .map_err(external)?
            .lifecycles(lake, addresses)
            .await;
        found.map(Some).map_err(external)
    }

    /// Removes the hidden rows from the candidate rows `chosen` of `files`, which are all rows if
    /// there are none. Returns the candidates, and what was left out of them; `None` if no rows
    /// are hidden.
    pub(super) async fn without_hidden(
        &self,
        files: &[&DataFile],
        chosen: Option<Vec<CandidateRows>>,
    ) -> Result<Option<(Vec<CandidateRows>, HiddenStats)>> {
        let Some((lake, hidden)) = self.lake.as_ref().zip(self.hidden) else {
            return Ok(None);
        };
        let chosen = chosen.unwrap_or_else(|| vec![CandidateRows::All; files.len()]);
        let read = |(_, rows): &(&&DataFile, &CandidateRows)| rows.may_match();
        let read: Vec<&DataFile> = files
            .iter()
            .zip(&chosen)
            .filter(read)
            .map(|(file, _)| *file)
            .collect();
        let read = segments(&read)
            .ok_or_else(|| internal_datafusion_err!("a file of `grains` isn't a segment"))?;
        let snapshot = LifecycleSnapshot::of_segments(lake, &read)
            .await
            .map_err(external)?;
        let found = snapshot
            .hidden_rows(lake, &read, hidden)
            .await
            .map_err(external)?;
        let mut stats = HiddenStats {
            rows: 0,
            rows_in_all: read.iter().map(|segment| segment.file.rows).sum(),
            segments: read.len(),
            without_mask: found.without_mask,
            tail_files: found.tail_files,
        };
        let mut hidden = found.rows.into_iter();
        let visible = chosen.into_iter().map(|rows| match rows.may_match() {
            true => {
                let hidden: Arc<RoaringBitmap> = hidden.next().unwrap_or_default();
                stats.rows += hidden.len();
                rows.without(&hidden)
            }
            false => rows,
        });
        let visible = visible.collect();
        Ok(Some((visible, stats)))
    }
}
