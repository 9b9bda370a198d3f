//! Since which version of a table its rows are in it, per data file: what an incremental export
//! needs to leave out rows that an earlier one has.
//!
//! A commit's version is lost when files are merged or rewritten, and the log that recorded it is
//! removed by an erasure. So each `add` action states it in a tag, and a file that replaces others
//! takes over what they stated: merging or rewriting rows isn't a change of them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Maximum number of entries. Beyond, the oldest are joined, which makes rows look newer than they
/// are: they are exported once more, never left out.
const MAX_ENTRIES: usize = 64;

/// Upper bounds of the versions at which the rows of a file were added, by the instant when their
/// run began (`ingested_at`). Its text form is `first/last:version`, comma,
/// `first/last:version` …, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowVersions {
    /// Ascending by the instants, without overlaps.
    entries: Vec<DatedRows>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct DatedRows {
    /// Microseconds since 1970.
    instants: RangeInclusive<i64>,
    version: u64,
}

/// A text that isn't in the form of [`RowVersions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a list of ascending ranges of instants with versions")]
pub struct InvalidVersions;

impl RowVersions {
    /// Returns the versions of a file whose rows were added at `version` by a run that began at
    /// `instant` (microseconds since 1970), or by unknown runs.
    pub fn added(instant: Option<i64>, version: u64) -> RowVersions {
        let instants = instant.map_or(i64::MIN..=i64::MAX, |instant| instant..=instant);
        RowVersions {
            entries: vec![DatedRows { instants, version }],
        }
    }

    /// Returns the versions of a file with the rows of files of `parts`. O(n log n).
    pub fn union(parts: impl IntoIterator<Item = RowVersions>) -> RowVersions {
        let mut entries =
            without_overlaps(parts.into_iter().flat_map(|part| part.entries).collect());
        let newer = entries.split_off(entries.len().saturating_sub(MAX_ENTRIES - 1));
        let oldest = entries.into_iter().reduce(|mut joined, entry| {
            joined.join(&entry);
            joined
        });
        RowVersions {
            entries: oldest.into_iter().chain(newer).collect(),
        }
    }

    /// Returns true if rows of the run that began at `instant` may have been added after `version`.
    /// O(log n).
    pub(crate) fn is_after(&self, instant: i64, version: u64) -> bool {
        let at = self
            .entries
            .partition_point(|entry| *entry.instants.end() < instant);
        let entry = self
            .entries
            .get(at)
            .filter(|entry| entry.instants.contains(&instant));
        // A run that isn't recorded can't be left out.
        entry.is_none_or(|entry| entry.version > version)
    }

    /// Returns the version at which the newest rows were added, at most.
    pub fn newest(&self) -> u64 {
        let versions = self.entries.iter().map(|entry| entry.version);
        versions.max().unwrap_or_default()
    }

    /// Returns true if any row may have been added after `version`.
    pub(crate) fn any_after(&self, version: u64) -> bool {
        self.entries.iter().any(|entry| entry.version > version)
    }
}

/// Returns `entries` in ascending order. Those that overlap are joined.
fn without_overlaps(mut entries: Vec<DatedRows>) -> Vec<DatedRows> {
    entries.sort_unstable_by_key(|entry| (*entry.instants.start(), *entry.instants.end()));
    let mut joined: Vec<DatedRows> = Vec::with_capacity(entries.len());
    for entry in entries {
        match joined.last_mut() {
            Some(last) if entry.instants.start() <= last.instants.end() => last.join(&entry),
            _ => joined.push(entry),
        }
    }
    joined
}

impl DatedRows {
    /// Extends this entry to cover `other`.
    fn join(&mut self, other: &DatedRows) {
        let last = *self.instants.end().max(other.instants.end());
        self.instants = *self.instants.start()..=last;
        self.version = self.version.max(other.version);
    }
}

impl fmt::Display for RowVersions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, DatedRows { instants, version }) in self.entries.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(
                out,
                "{comma}{}/{}:{version}",
                instants.start(),
                instants.end()
            )?;
        }
        Ok(())
    }
}

impl FromStr for RowVersions {
    type Err = InvalidVersions;

    fn from_str(text: &str) -> Result<RowVersions, InvalidVersions> {
        let entry = |text: &str| {
            let (instants, version) = text.split_once(':')?;
            let (first, last) = instants.split_once('/')?;
            Some(DatedRows {
                instants: first.parse().ok()?..=last.parse().ok()?,
                version: version.parse().ok()?,
            })
        };
        let entries: Option<Vec<DatedRows>> = text.split(',').map(entry).collect();
        let entries = entries.ok_or(InvalidVersions)?;
        let is_sound = entries.iter().all(|entry| !entry.instants.is_empty())
            && entries.is_sorted_by(|left, right| left.instants.end() < right.instants.start());
        is_sound
            .then_some(RowVersions { entries })
            .ok_or(InvalidVersions)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The files of `commits`: the instant of a run, and the version at which it added rows.
    fn files(commits: &[(i64, u64)]) -> Vec<RowVersions> {
        commits
            .iter()
            .map(|(instant, version)| RowVersions::added(Some(*instant), *version))
            .collect()
    }

    proptest! {
        #[test]
        fn no_row_looks_older_than_it_is_however_files_are_merged(
            commits in proptest::collection::vec((0..200_i64, 1..400_u64), 1..300),
            cut in 0..300_usize,
        ) {
            let (left, right) = commits.split_at(cut.min(commits.len()));
            let parts = [left, right].map(|part| RowVersions::union(files(part)));
            let merged = RowVersions::union(parts);
            for (instant, version) in &commits {
                prop_assert!(merged.is_after(*instant, version - 1));
            }
            prop_assert!(merged.entries.len() <= MAX_ENTRIES);
            prop_assert_eq!(merged.to_string().parse(), Ok(merged.clone()));
            let newest = commits.iter().map(|(_, version)| *version).max().unwrap_or_default();
            prop_assert!(merged.any_after(newest - 1) && !merged.any_after(newest));
        }

        #[test]
        fn the_rows_of_few_runs_keep_their_exact_versions(
            commits in proptest::collection::vec((0..60_i64, 1..400_u64), 1..200),
        ) {
            let merged = RowVersions::union(files(&commits));
            for (instant, _) in &commits {
                let own = commits.iter().filter(|(other, _)| other == instant);
                let last = own.map(|(_, version)| *version).max().unwrap_or_default();
                prop_assert!(merged.is_after(*instant, last - 1));
                prop_assert!(!merged.is_after(*instant, last));
            }
        }
    }

    #[test]
    fn rows_of_unknown_runs_make_all_rows_as_new_as_themselves() {
        let merged =
            RowVersions::union([RowVersions::added(Some(10), 3), RowVersions::added(None, 7)]);
        assert!(merged.is_after(10, 6) && !merged.is_after(10, 7));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "1:2",
            "1/2",
            "2/1:5",
            "1/5:2,5/9:3",
            "3/4:1,1/2:1",
            "a/b:c",
        ] {
            assert_eq!(text.parse::<RowVersions>(), Err(InvalidVersions), "{text}");
        }
    }
}
