//! Asking the sidecars which rows of a segment a filter can let pass, before the segment is read.

use std::fmt;
use std::ops::Range;

use futures::{StreamExt, stream};
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::hexastore::{Hexastore, TriplePattern};
use gristmill_engine::lake::{LakeLocation, Segment};
use gristmill_engine::segment::AddressIndex;
use gristmill_engine::text::Terms;
use gristmill_schemas::address::ContentAddress;

use super::index_predicate::{IndexPredicate, IndexedColumn};

/// The rows of a segment that have to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CandidateRows {
    /// All of them: no sidecar could tell.
    All,
    /// Just these, ascending.
    Listed(Vec<u32>),
}

impl CandidateRows {
    /// The rows, if they are known.
    pub(super) fn listed(&self) -> Option<&[u32]> {
        match self {
            CandidateRows::All => None,
            CandidateRows::Listed(rows) => Some(rows),
        }
    }

    /// True if there may be any.
    fn may_match(&self) -> bool {
        *self != CandidateRows::Listed(Vec::new())
    }

    /// Those of them that are among `rows`, which ascend.
    fn intersect(self, rows: Vec<u32>) -> CandidateRows {
        CandidateRows::Listed(match self {
            CandidateRows::All => rows,
            CandidateRows::Listed(known) => known
                .into_iter()
                .filter(|row| rows.binary_search(row).is_ok())
                .collect(),
        })
    }
}

/// Combinations of values that are looked up one by one; more of them are left to the scan.
const MAX_LOOKUPS: usize = 10_000;

/// A segment is read whole if more than one of so many rows match: skipping would cost more than it
/// saves.
const MIN_ROWS_PER_RUN: u64 = 8;

/// Sidecars that are opened at the same time.
const CONCURRENT_SEGMENTS: usize = 8;

/// The rows of each of `segments` that `conditions` can let pass.
pub(super) async fn candidate_rows(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segments: &[Segment],
    conditions: &IndexPredicate,
) -> Vec<CandidateRows> {
    let wanted = IndexLookups::of(conditions);
    let mut texts = match conditions.words() {
        Some(words) => rows_with_terms(sidecars, location, segments, words)
            .await
            .into_iter(),
        None => Vec::new().into_iter(),
    };
    let by_words: Vec<CandidateRows> = segments
        .iter()
        .map(|_| {
            texts
                .next()
                .flatten()
                .map_or(CandidateRows::All, CandidateRows::Listed)
        })
        .collect();
    let asked = segments.iter().zip(by_words);
    let asked: Vec<_> = asked
        .map(|(segment, rows)| {
            candidate_rows_of_segment(sidecars, location, segment, &wanted, rows)
        })
        .collect();
    stream::iter(asked)
        .buffered(CONCURRENT_SEGMENTS)
        .collect()
        .await
}

/// The rows of each segment that have all `words`; `None` for those whose full text can't be used.
async fn rows_with_terms(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segments: &[Segment],
    words: &Terms,
) -> Vec<Option<Vec<u32>>> {
    let Ok(text) = sidecars.partial_text(location, segments).await else {
        return Vec::new();
    };
    let words = words.clone();
    let found = tokio::task::spawn_blocking(move || text.rows_with(&words)).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// What is looked up in every segment.
struct IndexLookups {
    /// Combinations of subject, relation and object; `None` if the sidecar isn't asked.
    statements: Option<Vec<[Option<String>; 3]>>,
    addresses: Option<Vec<ContentAddress>>,
}

impl IndexLookups {
    fn of(conditions: &IndexPredicate) -> IndexLookups {
        let statements = (!conditions.leaves_triple_open())
            .then(|| triple_patterns(conditions))
            .flatten();
        // A text that is no address is the address of no grain.
        let addresses = conditions.values(IndexedColumn::Address).map(|values| {
            values
                .iter()
                .filter_map(|value| value.parse().ok())
                .collect()
        });
        IndexLookups {
            statements,
            addresses,
        }
    }
}

/// The triple_patterns of subject, relation and object that rows may have; `None` if there are too
/// many.
pub(super) fn triple_patterns(conditions: &IndexPredicate) -> Option<Vec<[Option<String>; 3]>> {
    let mut triple_patterns = vec![[const { None }; 3]];
    for (place, column) in [
        IndexedColumn::Subject,
        IndexedColumn::Relation,
        IndexedColumn::Object,
    ]
    .into_iter()
    .enumerate()
    {
        let Some(values) = conditions.values(column) else {
            continue;
        };
        if triple_patterns.len().saturating_mul(values.len()) > MAX_LOOKUPS {
            return None;
        }
        triple_patterns = triple_patterns
            .iter()
            .flat_map(|known| {
                values.iter().map(move |value| {
                    let mut known = known.clone();
                    known[place] = Some(value.clone());
                    known
                })
            })
            .collect();
    }
    Some(triple_patterns)
}

/// The rows among `selected` that are wanted.
async fn candidate_rows_of_segment(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segment: &Segment,
    wanted: &IndexLookups,
    mut selected: CandidateRows,
) -> CandidateRows {
    if let Some(addresses) = &wanted.addresses
        && selected.may_match()
        && let Some(index) = sidecars.addresses(location, segment).await
    {
        selected = selected.intersect(rows_of(&index, addresses));
    }
    if let Some(statements) = &wanted.statements
        && selected.may_match()
        && let Some(store) = sidecars.hexastore(location, segment).await
        && let Some(rows) = rows_with(&store, statements)
    {
        selected = selected.intersect(rows);
    }
    selected
}

fn rows_of(index: &AddressIndex, addresses: &[ContentAddress]) -> Vec<u32> {
    let mut rows: Vec<u32> = addresses
        .iter()
        .filter_map(|address| index.row_of(address))
        .collect();
    rows.sort_unstable();
    rows
}

/// The rows that match one of `statements`; `None` if there are so many that the segment is better
/// read whole.
fn rows_with(store: &Hexastore, statements: &[[Option<String>; 3]]) -> Option<Vec<u32>> {
    let patterns = statements
        .iter()
        .map(|parts| TriplePattern::from(parts.each_ref().map(Option::as_deref)));
    let count: usize = patterns
        .clone()
        .map(|pattern| store.count_with(&pattern))
        .sum();
    let mut rows = Vec::with_capacity(count);
    for pattern in patterns {
        rows.extend(store.rows_with(&pattern));
    }
    rows.sort_unstable();
    (ranges(&rows).count() as u64 * MIN_ROWS_PER_RUN <= store.rows().max(MIN_ROWS_PER_RUN))
        .then_some(rows)
}

/// The runs of neighbours in `rows`, which ascend.
pub(super) fn ranges(rows: &[u32]) -> impl Iterator<Item = Range<usize>> {
    rows.chunk_by(|before, after| before.checked_add(1) == Some(*after))
        .filter_map(|run| Some(*run.first()? as usize..*run.last()? as usize + 1))
}

/// What the sidecars spared a scan, for EXPLAIN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PruningStats {
    columns: Vec<IndexedColumn>,
    words: Vec<String>,
    segments: usize,
    /// Segments in which no row matches.
    dropped: usize,
    /// Segments whose sidecars couldn't tell.
    read_whole: usize,
    /// CandidateRows that are looked at in the others, and in those that are read whole.
    pub(super) rows: u64,
    rows_in_all: u64,
}

impl PruningStats {
    /// What `chosen` of `segments` spares.
    pub(super) fn of(
        conditions: &IndexPredicate,
        segments: &[Segment],
        chosen: &[CandidateRows],
    ) -> PruningStats {
        let mut spared = PruningStats {
            columns: conditions.columns().collect(),
            words: conditions
                .words()
                .map(|words| words.words().to_vec())
                .unwrap_or_default(),
            segments: segments.len(),
            ..PruningStats::default()
        };
        for (segment, rows) in segments.iter().zip(chosen) {
            spared.rows_in_all += segment.file.rows;
            match rows {
                CandidateRows::All => {
                    spared.read_whole += 1;
                    spared.rows += segment.file.rows;
                }
                CandidateRows::Listed(rows) if rows.is_empty() => spared.dropped += 1,
                CandidateRows::Listed(rows) => spared.rows += rows.len() as u64,
            }
        }
        spared
    }
}

impl fmt::Display for PruningStats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |indexed: &[IndexedColumn]| {
            indexed
                .iter()
                .map(|column| column.name())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (addresses, statements): (Vec<_>, Vec<_>) = self
            .columns
            .iter()
            .partition(|column| **column == IndexedColumn::Address);
        let mut asked = Vec::new();
        if !self.words.is_empty() {
            asked.push(format!("fulltext({})", self.words.join(", ")));
        }
        if !statements.is_empty() {
            asked.push(format!("hexastore({})", names(&statements)));
        }
        if !addresses.is_empty() {
            asked.push(format!("addresses({})", names(&addresses)));
        }
        write!(
            out,
            "index={}: {} of {} rows in {} of {} segments",
            asked.join(" and "),
            self.rows,
            self.rows_in_all,
            self.segments - self.dropped,
            self.segments
        )?;
        if self.read_whole > 0 {
            write!(out, ", {} read whole", self.read_whole)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(
            ranges(&[3, 4, 5, 9, 11, 12]).collect::<Vec<_>>(),
            [3..6, 9..10, 11..13]
        );
        assert_eq!(ranges(&[u32::MAX]).count(), 1);
        assert_eq!(ranges(&[]).count(), 0);
    }
}
