//! The report of a verification.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use gristmill_schemas::columns::GRAINS;
use gristmill_schemas::error::{ErrorCode, GrainError};
use serde::{Deserialize, Serialize};

use super::unreferenced::UnreferencedFiles;
use crate::index::{CheckedSidecar, SidecarCondition};
use crate::lake::remedy_of_lost_file;
use crate::segment::SegmentId;

/// The result of a verification. `checked` is always `ok` + `bad`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Grains that were checked, and damaged parts between grains.
    pub checked: u64,
    /// Valid grains.
    pub ok: u64,
    /// Damaged grains and parts.
    pub bad: u64,
    /// The number of damaged ones by their codes.
    pub bad_by_code: BTreeMap<String, u64>,
    /// Valid grains with deviations, by mark; and those beyond the limits of a device profile.
    pub marks: BTreeMap<String, u64>,
    /// Files that were read: sources, or segments of the lake.
    pub files: u64,
    /// Sources that were skipped because their kind is unknown.
    pub skipped_files: u64,
    /// Sources that can't be read or decompressed.
    #[serde(default)]
    pub unreadable_files: u64,
    /// The size of the sources, or of the blobs in the lake, in bytes.
    pub bytes: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// 10⁹ bytes per second.
    pub gigabytes_per_second: f64,
    /// How much of the lake was checked; absent for files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// Why it couldn't be stored where this check ended, so that the next one can't continue there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved_position: Option<String>,
    /// Data files that no version of the lake has; absent if there are none, and for files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreferenced: Option<UnreferencedFiles>,
    /// The first problems, in the order of the input.
    pub problems: Vec<Problem>,
}

/// How much of a table, besides its rows, was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCoverage {
    /// Its name.
    pub table: Cow<'static, str>,
    /// Entries of its log that were read.
    pub log_entries: u64,
    /// Data files whose digests were compared. Those of `grains` are counted with its row groups.
    pub files: u64,
    /// Data files without a digest: of a lake of format 1 or of another engine. Their sizes were
    /// compared.
    pub without_digest: u64,
    /// True if nothing of it was skipped because time ran out.
    pub complete: bool,
}

/// How much of the lake was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The logs and files of the tables.
    pub tables: Vec<TableCoverage>,
    /// Certificates of erasures that were checked with their files.
    pub certificates: u64,
    /// Row groups that were checked.
    pub row_groups: u64,
    /// True if these were all of the requested part, false if time ran out.
    pub complete: bool,
    /// Their size in the files, in bytes.
    pub file_bytes: u64,
    /// The size of all segments in bytes.
    pub lake_bytes: u64,
    /// Of the 256 parts into which addresses are divided by their first byte, those in which no
    /// address may be that of several rows. 0 if that wasn't checked.
    #[serde(default)]
    pub address_parts: u64,
}

/// A problem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The table of the lake; absent for files that aren't part of a lake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Cow<'static, str>>,
    /// The file.
    pub source: String,
    /// The number of the grain in the file, counted from 0, or the first of `rows`; -1 for the file
    /// as a whole.
    pub ordinal: i64,
    /// The number of affected rows, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Where it begins, in bytes: from the start of a source, or of a blob in the lake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The row's address, in the lake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// The specification's code.
    pub code: Cow<'static, str>,
    /// The field or the columns that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What was found and what was expected.
    pub message: String,
    /// The command that repairs it, or reports what can't be repaired; or where its bytes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Cow<'static, str>>,
}

/// The command that repairs what is derived, and lists what isn't.
pub(super) const REPAIR: &str = "gristmill repair";

/// Maximum number of columns that a problem names.
const NAMED_COLUMNS: usize = 12;

impl Problem {
    /// Returns a problem of part `ordinal` of `source`, with the error's offset.
    pub(super) fn new(source: &str, ordinal: i64, error: &GrainError) -> Problem {
        Problem {
            source: source.to_owned(),
            ordinal,
            offset: error.offset,
            code: error.code.name().into(),
            field: error.field.as_deref().map(str::to_owned),
            message: error.message.to_string(),
            ..Problem::default()
        }
    }

    /// Returns the problem of a segment, or a part of one, that can't be read.
    pub(super) fn unreadable(file: &str, row: i64, cause: &dyn std::fmt::Display) -> Problem {
        let message = format!("the segment can't be read: {cause}");
        Problem::new(file, row, &GrainError::new(ErrorCode::Corrupt, message)).of_grains()
    }

    /// Returns the problem of a segment of which no row can be read, so that `repair` can't help.
    pub(super) fn of_lost_file(file: &str, cause: &dyn std::fmt::Display) -> Problem {
        Problem {
            repair: Some(remedy_of_lost_file(GRAINS).into()),
            ..Problem::unreadable(file, -1, cause)
        }
    }

    /// Returns the problem of cells of `columns` that differ from the projection of the blob.
    pub(super) fn differs(file: &str, row: i64, columns: &[String]) -> Problem {
        let message = "the cells differ from the row's blob, which has the right hash";
        Problem::new(file, row, &GrainError::new(ErrorCode::Integrity, message))
            .of_columns(columns)
            .of_grains()
    }

    /// Returns the problem with the table `grains`.
    pub(super) fn of_grains(self) -> Problem {
        Problem {
            table: Some(GRAINS.into()),
            repair: Some(REPAIR.into()),
            ..self
        }
    }

    /// Returns the problem with so many rows.
    pub(super) fn spanning(self, rows: u64) -> Problem {
        Problem {
            rows: (rows > 1).then_some(rows),
            ..self
        }
    }

    /// Returns the problem with `columns`.
    pub(super) fn of_columns<C: AsRef<str>>(self, columns: &[C]) -> Problem {
        let mut named: Vec<&str> = columns
            .iter()
            .take(NAMED_COLUMNS)
            .map(AsRef::as_ref)
            .collect();
        let more = columns.len().saturating_sub(NAMED_COLUMNS);
        let rest = format!("and {more} more");
        named.extend((more > 0).then_some(rest.as_str()));
        Problem {
            field: Some(named.join(", ")),
            ..self
        }
    }
}

/// The findings of one job.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) ok: u64,
    pub(super) bytes: u64,
    bad: BTreeMap<Cow<'static, str>, u64>,
    marks: BTreeMap<Cow<'static, str>, u64>,
    problems: Vec<Problem>,
}

impl Findings {
    /// Counts a mark.
    pub(super) fn mark(&mut self, name: &'static str, count: u64) {
        *self.marks.entry(name.into()).or_default() += count;
    }

    /// Returns the number of problems.
    pub(super) fn bad_count(&self) -> u64 {
        self.bad.values().sum()
    }

    /// Adds the findings of another job. At most `limit` problems are kept.
    pub(super) fn merge(&mut self, other: Findings, limit: usize) {
        self.ok += other.ok;
        self.bytes += other.bytes;
        other
            .bad
            .into_iter()
            .for_each(|(code, count)| *self.bad.entry(code).or_default() += count);
        other
            .marks
            .into_iter()
            .for_each(|(name, count)| *self.marks.entry(name).or_default() += count);
        let room = limit.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.into_iter().take(room));
    }

    /// Counts a problem, and keeps it if it is among the first `limit`.
    pub(super) fn bad(&mut self, problem: Problem, limit: usize) {
        self.bad_rows(problem, 1, limit);
    }

    /// Counts a problem of so many rows, as [`Findings::bad`] counts one.
    pub(super) fn bad_rows(&mut self, problem: Problem, rows: u64, limit: usize) {
        *self.bad.entry(problem.code.clone()).or_default() += rows;
        if self.problems.len() < limit {
            self.problems.push(problem);
        }
    }
}

/// The count of missing sidecars.
const MISSING: &str = "sidecar_missing";

/// The count of sound sidecars that are ignored because other rules or an earlier version built
/// them.
const OUTDATED: &str = "sidecar_outdated";

impl Findings {
    /// Counts a sidecar of `segment`. A missing or outdated sidecar makes queries slower and isn't
    /// damage.
    pub(super) fn sidecar(&mut self, segment: &SegmentId, found: &CheckedSidecar, limit: usize) {
        let (code, message) = match (found.state.condition, found.is_foreign) {
            (SidecarCondition::Fresh, _) => return,
            (SidecarCondition::Missing, _) => return self.mark(MISSING, 1),
            (SidecarCondition::Stale, false) => return self.mark(OUTDATED, 1),
            (SidecarCondition::Stale, true) => (
                ErrorCode::Integrity,
                "the sidecar belongs to another segment and isn't used",
            ),
            (SidecarCondition::Damaged, _) => {
                (ErrorCode::Corrupt, "the sidecar is damaged and isn't used")
            }
        };
        let file = segment.sidecar(&found.file);
        self.bad(
            Problem::new(file.as_ref(), -1, &GrainError::new(code, message)).of_grains(),
            limit,
        );
    }
}

impl Findings {
    /// Counts a sound sidecar of `segment` that doesn't match the rows.
    pub(super) fn differing_sidecar(&mut self, segment: &SegmentId, file: &str, limit: usize) {
        let message = "the sidecar doesn't match the rows of its segment";
        let error = GrainError::new(ErrorCode::Integrity, message);
        let problem = Problem::new(segment.sidecar(file).as_ref(), -1, &error).of_grains();
        self.bad(
            Problem {
                repair: Some(REINDEX.into()),
                ..problem
            },
            limit,
        );
    }
}

/// The command that rebuilds sound sidecars, too.
pub(super) const REINDEX: &str = "gristmill reindex --all";

impl From<VerifyReport> for Findings {
    /// Returns what another check found.
    fn from(report: VerifyReport) -> Findings {
        let owned = |counts: BTreeMap<String, u64>| {
            let counts = counts.into_iter();
            counts
                .map(|(name, count)| (Cow::Owned(name), count))
                .collect()
        };
        Findings {
            ok: report.ok,
            bytes: report.bytes,
            bad: owned(report.bad_by_code),
            marks: owned(report.marks),
            problems: report.problems,
        }
    }
}

/// The findings of jobs that end in any order, combined in the order of the jobs.
#[derive(Debug, Default)]
pub(super) struct FindingTally {
    report: VerifyReport,
    problems: BTreeMap<(u64, usize), Problem>,
    limit: usize,
}

impl FindingTally {
    /// Returns an empty tally that will list at most `limit` problems.
    pub(super) fn new(limit: usize) -> Self {
        FindingTally {
            limit,
            ..FindingTally::default()
        }
    }

    /// Returns the counts.
    pub(super) fn report(&mut self) -> &mut VerifyReport {
        &mut self.report
    }

    /// Adds the findings of job `number`. Of too many problems, those of the first jobs are kept,
    /// so the list doesn't depend on which job ended first.
    pub(super) fn add(&mut self, number: u64, findings: Findings) {
        let report = &mut self.report;
        report.ok += findings.ok;
        report.bytes += findings.bytes;
        for (code, count) in findings.bad {
            report.bad += count;
            *report.bad_by_code.entry(code.into_owned()).or_default() += count;
        }
        for (mark, count) in findings.marks {
            *report.marks.entry(mark.into_owned()).or_default() += count;
        }
        let places = findings
            .problems
            .into_iter()
            .enumerate()
            .map(|(at, problem)| ((number, at), problem));
        self.problems.extend(places);
        while self.problems.len() > self.limit {
            self.problems.pop_last();
        }
    }

    /// Returns the report of work that took `elapsed`.
    pub(super) fn finish(self, elapsed: Duration) -> VerifyReport {
        let mut report = self.report;
        report.checked = report.ok + report.bad;
        report.seconds = elapsed.as_secs_f64();
        report.gigabytes_per_second = if report.seconds > 0.0 {
            report.bytes as f64 / 1e9 / report.seconds
        } else {
            0.0
        };
        report.problems = self.problems.into_values().collect();
        report
    }
}
