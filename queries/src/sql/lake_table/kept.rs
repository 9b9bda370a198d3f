//! Tables restricted to rows that a search or an index has chosen.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use futures::{StreamExt, stream};
use gristmill_engine::index::fulltext::TextHit;
use gristmill_engine::lake::{DataFile, Segment};
use gristmill_engine::text::{Scorer, Terms};

use super::super::index_pruning::{CONCURRENT_SEGMENTS, CandidateRows};
use super::{LakeTable, segments};

/// Maximum number of matching rows that are held in memory, at 24 bytes each.
const MAX_MATCHES: usize = 1_000_000;

/// Rows by file name, ascending. Other files have none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RowsByFile(HashMap<String, Vec<u32>>);

/// The rows that contain all words of a search.
#[derive(Debug)]
pub(crate) struct TextMatches {
    /// By descending upper bound of their score.
    hits: Vec<TextHit>,
    /// The names of the files that hits refer to.
    files: Vec<String>,
}

impl TextMatches {
    fn new(mut hits: Vec<TextHit>, files: Vec<String>) -> TextMatches {
        hits.sort_unstable_by(|left, right| right.score.total_cmp(&left.score));
        TextMatches { hits, files }
    }

    /// Returns all rows.
    pub(crate) fn all(&self) -> RowsByFile {
        self.kept(&self.hits)
    }

    /// Returns about `count` rows with the greatest bounds, and a score that no other row exceeds;
    /// `None` if these are most of the rows. Rows of equal bounds aren't separated.
    pub(crate) fn best(&self, count: usize) -> Option<(RowsByFile, f64)> {
        let last = self.hits.get(count.checked_sub(1)?)?.score;
        let end = self.hits.partition_point(|hit| hit.score >= last);
        let beyond = self.hits.get(end)?.score;
        let best = self.hits.get(..end)?;
        (end <= self.hits.len() / 2).then(|| (self.kept(best), beyond))
    }

    fn kept(&self, hits: &[TextHit]) -> RowsByFile {
        let mut rows: HashMap<String, Vec<u32>> = HashMap::new();
        for hit in hits {
            if let Some(file) = self.files.get(hit.segment) {
                match rows.get_mut(file) {
                    Some(known) => known.push(hit.row),
                    None => drop(rows.insert(file.clone(), vec![hit.row])),
                }
            }
        }
        rows.values_mut().for_each(|rows| rows.sort_unstable());
        RowsByFile(rows)
    }
}

impl RowsByFile {
    /// Removes other rows from the candidates of `files`.
    pub(super) fn restrict(
        &self,
        files: &[&DataFile],
        chosen: Vec<CandidateRows>,
    ) -> Vec<CandidateRows> {
        let kept = |file: &DataFile| self.0.get(&file.name).cloned().unwrap_or_default();
        let chosen = files.iter().zip(chosen);
        chosen
            .map(|(file, rows)| rows.intersect(kept(file)))
            .collect()
    }
}

/// Returns `plan` with its scan of `grains` restricted to `rows`. `None` if it doesn't have exactly
/// one scan of the grains of a lake.
///
/// # Errors
/// If the plan can't be rewritten.
pub(crate) fn keep_rows(plan: LogicalPlan, rows: RowsByFile) -> Result<Option<LogicalPlan>> {
    let rows = Arc::new(rows);
    let mut scans = 0;
    let rewritten = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            return Ok(Transformed::no(node));
        };
        let scan = keep_rows_of(scan, &rows)?;
        scans += usize::from(scan.transformed);
        Ok(scan)
    })?;
    Ok((scans == 1).then_some(rewritten.data))
}

/// Restricts `scan` to `rows` if it is one of the grains of a lake.
fn keep_rows_of(scan: TableScan, rows: &Arc<RowsByFile>) -> Result<Transformed<LogicalPlan>> {
    let provider = source_as_provider(&scan.source)?;
    let table = provider.downcast_ref::<LakeTable>();
    Ok(match table.filter(|table| table.lake.is_some()) {
        Some(table) => {
            let table = table.keeping(Arc::clone(rows));
            Transformed::yes(LogicalPlan::TableScan(TableScan {
                source: provider_as_source(Arc::new(table)),
                ..scan
            }))
        }
        None => Transformed::no(LogicalPlan::TableScan(scan)),
    })
}

impl LakeTable {
    fn keeping(&self, rows: Arc<RowsByFile>) -> LakeTable {
        let mut table = self.clone();
        table.kept = Some(rows);
        table
    }

    /// Returns the rows that contain all `terms`, with bounds of the scores that `scorer` computes
    /// from their texts: of all rows, or of those of one namespace. `None` if the full-text
    /// sidecars don't answer that: a segment has no usable one, rows are sealed, or there are more
    /// than [`MAX_MATCHES`].
    pub(crate) async fn text_matches(
        &self,
        state: &SessionState,
        terms: &Terms,
        scorer: &Scorer,
        namespace: Option<&str>,
    ) -> Option<TextMatches> {
        let sidecars = self.sidecars.as_ref().filter(|_| self.keys.is_none())?;
        let segments = segments(&self.files.iter().collect::<Vec<_>>())?;
        let text = sidecars.partial_text(self.table.location(), &segments);
        let text = text.await.ok()?;
        let index = Arc::clone(text.whole()?);
        let within: Option<Arc<Vec<Vec<Range<u32>>>>> = match namespace {
            Some(namespace) => {
                let rows = self.rows_of_namespace(state, namespace, text.covered());
                Some(rows.await.ok()?)
            }
            None => None,
        };
        let (terms, scorer) = (terms.clone(), scorer.clone());
        let search = move || {
            let within = within.as_deref().map(Vec::as_slice);
            index.scored_rows(&terms, &scorer, within, MAX_MATCHES)
        };
        let hits = tokio::task::spawn_blocking(search).await.ok()?.ok()??;
        let files = self.files.iter().map(|file| file.name.clone()).collect();
        Some(TextMatches::new(hits, files))
    }

    /// Returns the rows whose addresses are less than one that begins with `prefix` and continues
    /// with zeros. `None` if a segment has no usable address index, or rows are sealed. The first
    /// call reads all address indexes, to check them: `None` in an object store, too, where few
    /// rows aren't worth fetching 36.5 bytes for each grain of the lake.
    pub(crate) async fn rows_below(&self, prefix: u64) -> Option<RowsByFile> {
        let location = self.table.location();
        let sidecars = self.sidecars.as_ref();
        let sidecars = sidecars.filter(|_| self.keys.is_none() && !location.is_remote())?;
        let segments = segments(&self.files.iter().collect::<Vec<_>>())?;
        let rows_of = async |segment: Segment| {
            let index = sidecars.addresses(location, &segment).await?;
            Some((segment.file.name.clone(), index.rows_below(prefix)))
        };
        let rows: Vec<Option<(String, Vec<u32>)>> = stream::iter(segments)
            .map(rows_of)
            .buffered(CONCURRENT_SEGMENTS)
            .collect()
            .await;
        rows.into_iter().collect::<Option<_>>().map(RowsByFile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(scores: &[(usize, u32, f64)]) -> TextMatches {
        let hit = |&(segment, row, score): &(usize, u32, f64)| TextHit {
            segment,
            row,
            score,
        };
        TextMatches::new(
            scores.iter().map(hit).collect(),
            vec!["a".to_owned(), "b".to_owned()],
        )
    }

    fn rows(of: &[(&str, &[u32])]) -> RowsByFile {
        let rows = of
            .iter()
            .map(|(file, rows)| ((*file).to_owned(), rows.to_vec()));
        RowsByFile(rows.collect())
    }

    #[test]
    fn the_best_rows_have_greater_bounds_than_all_others() {
        let of = |worse: u32| -> Vec<(usize, u32, f64)> {
            let best = [(0, 7, 0.5), (1, 2, 0.9), (0, 3, 0.5), (0, 9, 0.4)];
            let worse = (0..worse).map(|row| (1, row + 10, 0.1));
            best.into_iter().chain(worse).collect()
        };
        let found = matches(&of(4));
        assert_eq!(found.best(1), Some((rows(&[("b", &[2])]), 0.5)));
        let three = rows(&[("a", &[3, 7]), ("b", &[2])]);
        assert_eq!(found.best(2), Some((three.clone(), 0.4)));
        assert_eq!(found.best(3), Some((three, 0.4)));
        // These would be all but one of the rows, all of them, or none.
        assert_eq!(matches(&of(1)).best(4), None);
        assert_eq!(found.best(100), None);
        assert_eq!(found.best(0), None);
    }

    #[test]
    fn all_rows_are_listed_by_file_in_order() {
        let found = matches(&[(0, 7, 0.5), (1, 2, 0.9), (0, 3, 0.6)]);
        assert_eq!(found.all(), rows(&[("a", &[3, 7]), ("b", &[2])]));
    }
}
