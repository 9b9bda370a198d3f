//! Prunes segments with their sidecar indexes: which rows of each segment can match a filter,
//! determined before the segment is read.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt, stream};
use gristmill_engine::index::SidecarCache;
use gristmill_engine::index::domain_fields::DomainFieldIndex;
use gristmill_engine::index::hexastore::{Hexastore, TriplePattern};
use gristmill_engine::lake::{LakeLocation, Segment};
use gristmill_engine::segment::AddressIndex;
use gristmill_engine::text::Terms;
use gristmill_schemas::address::ContentAddress;
use roaring::RoaringBitmap;

use super::index_predicate::{IndexPredicate, IndexedColumn};

/// Rows of a segment that can match a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CandidateRows {
    /// All rows: no sidecar was usable, or too many rows match.
    All,
    /// These rows, ascending.
    Listed(Vec<u32>),
    /// All rows but these.
    Except(Arc<RoaringBitmap>),
}

impl CandidateRows {
    /// Returns the rows if they are listed.
    pub(super) fn listed(&self) -> Option<&[u32]> {
        match self {
            CandidateRows::All | CandidateRows::Except(_) => None,
            CandidateRows::Listed(rows) => Some(rows),
        }
    }

    /// Returns the candidates that aren't among `hidden`.
    pub(super) fn without(self, hidden: &Arc<RoaringBitmap>) -> CandidateRows {
        match self {
            _ if hidden.is_empty() => self,
            CandidateRows::All => CandidateRows::Except(Arc::clone(hidden)),
            CandidateRows::Listed(mut rows) => {
                rows.retain(|row| !hidden.contains(*row));
                CandidateRows::Listed(rows)
            }
            CandidateRows::Except(known) => CandidateRows::Except(Arc::new(&*known | &**hidden)),
        }
    }

    /// Returns the number of candidates in a segment of `rows` rows.
    pub(super) fn count(&self, rows: u64) -> u64 {
        match self {
            CandidateRows::All => rows,
            CandidateRows::Listed(listed) => listed.len() as u64,
            CandidateRows::Except(hidden) => rows.saturating_sub(hidden.len()),
        }
    }

    /// Returns false if the segment has no candidate row.
    pub(super) fn may_match(&self) -> bool {
        *self != CandidateRows::Listed(Vec::new())
    }

    /// Keeps the candidates that are among `rows` (ascending).
    pub(super) fn intersect(self, rows: Vec<u32>) -> CandidateRows {
        CandidateRows::Listed(match self {
            CandidateRows::All => rows,
            CandidateRows::Listed(known) => known
                .into_iter()
                .filter(|row| rows.binary_search(row).is_ok())
                .collect(),
            CandidateRows::Except(hidden) => rows
                .into_iter()
                .filter(|row| !hidden.contains(*row))
                .collect(),
        })
    }
}

/// Largest number of value combinations that are looked up in an index; beyond it the scan filters.
const MAX_LOOKUPS: usize = 10_000;

/// A segment is read whole if it has more than one run of matching rows for every so many rows:
/// skipping would cost more than it saves.
const MIN_ROWS_PER_RUN: u64 = 8;

/// Segments whose sidecars are queried concurrently.
pub(super) const CONCURRENT_SEGMENTS: usize = 8;

/// Returns the candidate rows of each of `segments` under `conditions`.
pub(super) async fn candidate_rows(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segments: &[Segment],
    conditions: &IndexPredicate,
) -> Vec<CandidateRows> {
    let lookups = IndexLookups::of(conditions);
    let by_words = candidate_rows_by_words(sidecars, location, segments, conditions).await;
    let subjects = lookups.subjects();
    let filters = match subjects.is_empty() {
        true => None,
        false => sidecars.subjects(location).await,
    };
    let pruned: Vec<_> = segments
        .iter()
        .zip(by_words)
        .map(|(segment, rows)| {
            let filters = filters.as_ref();
            let rows = match filters.is_some_and(|it| it.excludes(segment, &subjects)) {
                true => CandidateRows::Listed(Vec::new()),
                false => rows,
            };
            candidate_rows_of_segment(sidecars, location, segment, &lookups, rows)
        })
        .collect();
    stream::iter(pruned)
        .buffered(CONCURRENT_SEGMENTS)
        .collect()
        .await
}

/// Returns the candidate rows of each of `segments` under the words of `conditions` alone.
async fn candidate_rows_by_words(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segments: &[Segment],
    conditions: &IndexPredicate,
) -> Vec<CandidateRows> {
    let mut texts = match conditions.words() {
        Some(words) => rows_with_terms(sidecars, location, segments, words)
            .await
            .into_iter(),
        None => Vec::new().into_iter(),
    };
    segments
        .iter()
        .map(|_| {
            texts
                .next()
                .flatten()
                .map_or(CandidateRows::All, CandidateRows::Listed)
        })
        .collect()
}

/// Returns the rows of each segment that contain all `words`; `None` for segments without a usable
/// full-text sidecar.
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

/// Look-ups that are the same for every segment.
struct IndexLookups<'c> {
    /// Sets of domain fields, of each of which a row must have one.
    fields: &'c [BTreeSet<String>],
    /// Triple patterns (subject, relation, object); `None` if the triple index isn't used.
    triples: Option<Vec<[Option<String>; 3]>>,
    addresses: Option<Vec<ContentAddress>>,
}

impl IndexLookups<'_> {
    fn of(conditions: &IndexPredicate) -> IndexLookups<'_> {
        let triples = (!conditions.leaves_triple_open())
            .then(|| triple_patterns(conditions))
            .flatten();
        // A text that isn't an address matches no grain.
        let addresses = conditions.values(IndexedColumn::Address).map(|values| {
            values
                .iter()
                .filter_map(|value| value.parse().ok())
                .collect()
        });
        IndexLookups {
            fields: conditions.fields(),
            triples,
            addresses,
        }
    }

    /// Returns the subjects that rows may have; none if they may have any.
    fn subjects(&self) -> Vec<&str> {
        let triples = self.triples.iter().flatten();
        let subjects = triples.map(|[subject, _, _]| subject.as_deref());
        subjects.collect::<Option<Vec<&str>>>().unwrap_or_default()
    }
}

/// Returns the triple patterns (subject, relation, object) that rows may have; `None` if there are
/// more than [`MAX_LOOKUPS`].
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

/// Intersects `selected` with the results of all look-ups in one segment.
async fn candidate_rows_of_segment(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segment: &Segment,
    lookups: &IndexLookups<'_>,
    mut selected: CandidateRows,
) -> CandidateRows {
    if let Some(addresses) = &lookups.addresses
        && selected.may_match()
        && let Some(index) = sidecars.addresses(location, segment).await
    {
        selected = selected.intersect(rows_of(&index, addresses));
    }
    if let Some(triples) = &lookups.triples
        && selected.may_match()
        && let Some(store) = sidecars.hexastore(location, segment).await
        && let Some(rows) = rows_with(&store, triples)
    {
        selected = selected.intersect(rows);
    }
    if !lookups.fields.is_empty()
        && selected.may_match()
        && let Some(index) = sidecars.fields(location, segment).await
        && let Some(rows) = rows_with_fields(&index, lookups.fields, segment.file.rows)
    {
        selected = selected.intersect(rows);
    }
    selected
}

/// Returns the rows that may have one of each set of domain fields; `None` if there are so many
/// that reading the whole segment is cheaper.
fn rows_with_fields(
    index: &DomainFieldIndex,
    fields: &[BTreeSet<String>],
    all: u64,
) -> Option<Vec<u32>> {
    let with = |names: &BTreeSet<String>| index.rows_with(names.iter().map(String::as_str));
    let (first, others) = fields.split_first()?;
    let mut rows = with(first)?;
    for names in others {
        rows &= with(names)?;
    }
    let rows: Vec<u32> = rows.iter().collect();
    is_worth_selecting(&rows, all).then_some(rows)
}

/// Returns the rows of `addresses`, which are distinct, in a segment, ascending.
pub(super) fn rows_of(index: &AddressIndex, addresses: &[ContentAddress]) -> Vec<u32> {
    let mut rows: Vec<u32> = addresses
        .iter()
        .filter_map(|address| index.row_of(address))
        .collect();
    rows.sort_unstable();
    rows
}

/// Returns the rows that match one of `triples`; `None` if there are so many that reading the
/// whole segment is cheaper.
fn rows_with(store: &Hexastore, triples: &[[Option<String>; 3]]) -> Option<Vec<u32>> {
    let patterns = triples
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
    is_worth_selecting(&rows, store.rows()).then_some(rows)
}

/// Returns false if `rows` (ascending) of a segment of `all` rows have so many gaps that reading
/// the whole segment is cheaper.
fn is_worth_selecting(rows: &[u32], all: u64) -> bool {
    ranges(rows).count() as u64 * MIN_ROWS_PER_RUN <= all.max(MIN_ROWS_PER_RUN)
}

/// Returns the runs of consecutive numbers in `rows` (ascending).
pub(super) fn ranges(rows: &[u32]) -> impl Iterator<Item = Range<usize>> {
    rows.chunk_by(|before, after| before.checked_add(1) == Some(*after))
        .filter_map(|run| Some(*run.first()? as usize..*run.last()? as usize + 1))
}

/// Returns the runs of consecutive numbers below `end` that aren't in `hidden`.
pub(super) fn ranges_without(hidden: &RoaringBitmap, end: usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut first = 0;
    for row in hidden.iter().map(|row| row as usize).chain([end]) {
        if row > first {
            runs.push(first..row.min(end));
        }
        first = row + 1;
    }
    runs
}

/// Counts of what was pruned, shown by EXPLAIN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PruningStats {
    columns: Vec<IndexedColumn>,
    words: Vec<String>,
    /// Each set of domain fields, separated by `or`.
    fields: Vec<String>,
    segments: usize,
    /// Segments without a candidate row.
    dropped: usize,
    /// Segments in which every row is a candidate.
    read_whole: usize,
    /// Candidate rows of all segments, including those that are read whole.
    pub(super) rows: u64,
    rows_in_all: u64,
}

impl PruningStats {
    /// Counts the candidate rows `chosen` of `segments`.
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
            fields: conditions.fields().iter().map(alternatives).collect(),
            segments: segments.len(),
            ..PruningStats::default()
        };
        for (segment, rows) in segments.iter().zip(chosen) {
            spared.rows_in_all += segment.file.rows;
            spared.rows += rows.count(segment.file.rows);
            match rows {
                CandidateRows::All | CandidateRows::Except(_) => spared.read_whole += 1,
                CandidateRows::Listed(rows) => spared.dropped += usize::from(rows.is_empty()),
            }
        }
        spared
    }
}

fn alternatives(names: &BTreeSet<String>) -> String {
    names
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" or ")
}

impl fmt::Display for PruningStats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (addresses, triples): (Vec<IndexedColumn>, Vec<IndexedColumn>) = self
            .columns
            .iter()
            .copied()
            .partition(|column| *column == IndexedColumn::Address);
        let names = |columns: Vec<IndexedColumn>| -> Vec<&str> {
            columns.into_iter().map(IndexedColumn::name).collect()
        };
        let words = self.words.iter().map(String::as_str).collect();
        let fields = self.fields.iter().map(String::as_str).collect();
        let indexes: [(&str, Vec<&str>); 4] = [
            ("fulltext", words),
            ("hexastore", names(triples)),
            ("addresses", names(addresses)),
            ("fields", fields),
        ];
        let used: Vec<String> = indexes
            .iter()
            .filter(|(_, keys)| !keys.is_empty())
            .map(|(index, keys)| format!("{index}({})", keys.join(", ")))
            .collect();
        write!(
            out,
            "index={}: {} of {} rows in {} of {} segments",
            used.join(" and "),
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
    fn consecutive_rows_form_one_range() {
        assert_eq!(
            ranges(&[3, 4, 5, 9, 11, 12]).collect::<Vec<_>>(),
            [3..6, 9..10, 11..13]
        );
        assert_eq!(ranges(&[u32::MAX]).count(), 1);
        assert_eq!(ranges(&[]).count(), 0);
    }

    #[test]
    fn rows_between_hidden_ones_form_ranges() {
        let runs = |hidden: &[u32]| ranges_without(&hidden.iter().copied().collect(), 6);
        assert_eq!(runs(&[0, 1, 3]), [2..3, 4..6]);
        assert_eq!(runs(&[5]), vec![0..5; 1]);
        assert_eq!(runs(&[]), vec![0..6; 1]);
        assert!(runs(&[0, 1, 2, 3, 4, 5]).is_empty());
    }

    #[test]
    fn hidden_rows_are_no_candidates_whatever_else_selects_them() {
        let hidden: Arc<RoaringBitmap> = Arc::new([1, 3].into_iter().collect());
        let listed = CandidateRows::Listed(vec![0, 1, 2]);
        assert_eq!(listed.without(&hidden), CandidateRows::Listed(vec![0, 2]));
        let all = CandidateRows::All.without(&hidden);
        assert_eq!(all.count(5), 3);
        assert_eq!(
            all.intersect(vec![0, 1, 4]),
            CandidateRows::Listed(vec![0, 4])
        );
    }
}
