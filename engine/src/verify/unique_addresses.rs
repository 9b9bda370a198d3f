//! Checking that each address is that of one row only.
//!
//! The address indexes of all segments are merged, which reads 36 bytes for each row. A part of the
//! lake is checked with the same share of the addresses, of all segments: that costs in proportion,
//! and several parts that together are the lake find every address that several rows have.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};

use super::VerifyOptions;
use super::job_set::JobSet;
use super::report::{Findings, Problem};
use crate::error::Result;
use crate::lake::{AddressIndexes, Lake, Segment};
use crate::progress::WorkProgress;
use crate::segment::{ADDRESS_PARTS, RowPlace, repeated_addresses};

/// The part of the time of a check with a time limit that this takes at most: the divisor.
const TIME_PART: u32 = 8;

/// Addresses that a problem names.
const NAMED_ADDRESSES: usize = 3;

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct CheckedAddresses {
    pub(super) findings: Findings,
    /// The number of parts that were checked, from the first on.
    pub(super) parts: usize,
}

/// Checks the addresses of `lake` in `parts`, with `left` the time that the whole check has left.
///
/// Nothing is checked if it would cost more than in proportion: in an object store, where an index
/// is fetched as a whole, for some of the parts or with a time limit.
///
/// # Errors
/// Errors of the environment. Segments that can't be read are left out.
pub(super) async fn check(
    lake: &Lake,
    parts: &[u8],
    left: Option<Duration>,
    options: &VerifyOptions,
    progress: &WorkProgress,
) -> Result<CheckedAddresses> {
    let is_whole = parts.len() as u64 == ADDRESS_PARTS && left.is_none();
    let has_time = left.is_none_or(|left| !left.is_zero());
    if parts.is_empty() || !has_time || (lake.location().is_remote() && !is_whole) {
        return Ok(CheckedAddresses::default());
    }
    let deadline = left.map(|left| Instant::now() + left / TIME_PART);
    let (location, segments) = (lake.location(), lake.segments()?);
    let mut indexes = AddressIndexes::open(location, segments.clone(), &HashSet::new()).await?;
    let mut pass = AddressPass::run(&indexes, parts, deadline, options, progress).await?;
    // An index was opened without its checksum, and may differ from the rows.
    let differing = indexes.differing(location, &pass.segments()).await?;
    if !differing.is_empty() {
        indexes = AddressIndexes::open(location, segments, &differing).await?;
        let checked = parts.get(..pass.parts).unwrap_or_default();
        pass = AddressPass::run(&indexes, checked, None, options, progress).await?;
    }
    Ok(CheckedAddresses {
        findings: pass.findings(&indexes.segments, options.problems),
        parts: pass.parts,
    })
}

/// The rows of a segment whose addresses rows of an earlier segment, or earlier rows of the same
/// one, have.
#[derive(Debug, Default)]
struct SurplusRows {
    rows: u64,
    /// The first of them.
    first: u32,
    /// The least of their addresses.
    addresses: Vec<ContentAddress>,
}

impl SurplusRows {
    /// Adds a number of `rows`, of which `first` is the first.
    fn add(&mut self, first: u32, rows: u64) {
        self.first = match self.rows {
            0 => first,
            _ => self.first.min(first),
        };
        self.rows += rows;
    }
}

/// The surplus rows by the number of the segment with the first row of their addresses, and the
/// number of their own.
type SurplusByPair = BTreeMap<(usize, usize), SurplusRows>;

/// What the merge of some parts has found.
#[derive(Debug, Default)]
struct AddressPass {
    surplus: SurplusByPair,
    /// The number of merged parts.
    parts: usize,
}

impl AddressPass {
    /// Merges `parts` of `indexes`, a limited number at a time. Starts none after `deadline`, or
    /// when a stop was requested.
    async fn run(
        indexes: &AddressIndexes,
        parts: &[u8],
        deadline: Option<Instant>,
        options: &VerifyOptions,
        progress: &WorkProgress,
    ) -> Result<AddressPass> {
        let mut jobs: JobSet<SurplusByPair> = JobSet::new(options.threads);
        let mut pass = AddressPass::default();
        for part in parts.iter().copied() {
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_over || progress.is_stopped() {
                break;
            }
            let indexes = indexes.indexes.clone();
            let merge = move || {
                let mut surplus = SurplusByPair::new();
                repeated_addresses(&indexes, part, |address, rows| {
                    add_rows(&mut surplus, address, rows);
                });
                indexes.iter().for_each(|index| index.release());
                surplus
            };
            let ended = jobs.spawn(merge).await?;
            ended.into_iter().for_each(|surplus| pass.add(surplus));
            pass.parts += 1;
        }
        while let Some(surplus) = jobs.join_next().await? {
            pass.add(surplus);
        }
        Ok(pass)
    }

    /// Adds what was found in another part.
    fn add(&mut self, surplus: SurplusByPair) {
        for (pair, found) in surplus {
            let known = self.surplus.entry(pair).or_default();
            known.add(found.first, found.rows);
            known.addresses.extend(found.addresses);
            known.addresses.sort_unstable();
            known.addresses.truncate(NAMED_ADDRESSES);
        }
    }

    /// Returns the numbers of the segments that have addresses of other rows.
    fn segments(&self) -> BTreeSet<usize> {
        let pairs = self.surplus.keys();
        pairs
            .flat_map(|(first, second)| [*first, *second])
            .collect()
    }

    /// Returns a problem for each pair of `segments` with the same addresses.
    fn findings(&self, segments: &[Segment], limit: usize) -> Findings {
        let mut findings = Findings::default();
        for ((first, second), surplus) in &self.surplus {
            if let (Some(first), Some(second)) = (segments.get(*first), segments.get(*second)) {
                findings.bad(problem(first, second, surplus), limit);
            }
        }
        findings
    }
}

/// Adds `rows`, which have the same `address`, to `surplus`: all but the first.
fn add_rows(surplus: &mut SurplusByPair, address: ContentAddress, rows: &[RowPlace]) {
    let Some((first, others)) = rows.split_first() else {
        return;
    };
    for other in others {
        let found = surplus.entry((first.segment, other.segment)).or_default();
        found.add(other.row, 1);
        let is_named = found.addresses.last() == Some(&address);
        if found.addresses.len() < NAMED_ADDRESSES && !is_named {
            found.addresses.push(address);
        }
    }
}

/// Returns the problem of `surplus` rows of `second`, whose addresses rows of `first` have.
fn problem(first: &Segment, second: &Segment, surplus: &SurplusRows) -> Problem {
    let others = match first.id == second.id {
        true => "other rows of it".to_owned(),
        false => format!("rows of `{}`", first.path()),
    };
    let addresses: Vec<String> = surplus.addresses.iter().map(ToString::to_string).collect();
    let named = surplus.addresses.len() as u64;
    let more = match surplus.rows > named {
        true => " and others",
        false => "",
    };
    let message = format!(
        "{} of its rows have addresses that {others} have, too, so their grains are counted more \
         than once: {}{more}",
        surplus.rows,
        addresses.join(", ")
    );
    let error = GrainError::new(ErrorCode::Integrity, message);
    Problem::new(second.path().as_ref(), i64::from(surplus.first), &error)
        .of_grains()
        .spanning(surplus.rows)
}
