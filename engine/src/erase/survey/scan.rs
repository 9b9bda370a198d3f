//! Steps 1 and 5 of a survey: scans the blobs of the segments, and the rejects.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use gristmill_schemas::address::ContentAddress;
use rustc_hash::FxHashMap;

use super::sessions::SubjectSessions;
use super::{FoundReject, RowId, SurveyRun};
use crate::erase::matcher::PersonNumber;
use crate::erase::reason::{ExemptionRules, Reason};
use crate::erase::rejects::{COLUMNS, RejectScanner};
use crate::erase::row_findings::{
    Protection, RowFindings, RowScanner, ScanMode, ScannedColumns, SessionKey,
};
use crate::error::Result;
use crate::index::word_filter::WordFilter;
use crate::lake::LakeFile;

/// Maximal number of different spellings that are kept.
const MAX_SPELLINGS: usize = 10_000;

/// Adds `found` to `sessions`; each session once.
fn add_sessions(sessions: &mut SubjectSessions, found: Vec<(SessionKey, PersonNumber)>) {
    for (session, person) in found {
        let known = sessions.entry(session.id.clone()).or_default();
        if known.iter().all(|(known, _)| *known != session) {
            known.push((session, person));
        }
    }
}

impl SurveyRun<'_> {
    /// Scans all segments. Returns the sessions of the people, and the grains whose protection
    /// reaches others.
    pub(super) async fn scan_segments(&mut self) -> Result<(SubjectSessions, Vec<Protection>)> {
        let mut sessions = SubjectSessions::default();
        let mut protecting = Vec::new();
        let mut by_workers = self.scan_by_workers().await?;
        for number in 0..self.survey.segments.len() {
            let by_worker = by_workers.remove(&(number as u32));
            for findings in self.scan_segment(number, by_worker).await? {
                self.survey.grains_read += findings.grains;
                self.survey.unsearchable += findings.unsearchable;
                self.count_spellings(findings.spellings);
                let found = findings.found.into_iter();
                self.found
                    .extend(found.map(|found| ((found.segment, found.row), found)));
                add_sessions(&mut sessions, findings.sessions);
                protecting.extend(findings.protecting);
            }
        }
        Ok((sessions, protecting))
    }

    fn count_spellings(&mut self, found: Vec<String>) {
        let spellings = &mut self.survey.spellings;
        for spelling in found {
            if spellings.len() < MAX_SPELLINGS || spellings.contains_key(&spelling) {
                *spellings.entry(spelling).or_default() += 1;
            }
        }
    }

    /// Returns whether the word filter of segment `number` excludes a match.
    pub(super) fn is_excluded(&self, number: usize) -> bool {
        self.rules_out(number, |filter| {
            filter.reaches_others() || self.matcher.may_find(filter) || self.may_expire(number)
        })
    }

    /// Scans the segment `number`, unless it was scanned when it was written, its word filter
    /// excludes a match, or a worker has found `by_worker` in it.
    async fn scan_segment(
        &mut self,
        number: usize,
        by_worker: Option<Vec<RowFindings>>,
    ) -> Result<Vec<RowFindings>> {
        let segment = self.survey.segments.get(number);
        let scanned = segment.and_then(|segment| self.scanned.remove(&segment.file.name));
        if let Some(mut findings) = scanned {
            self.survey.segments_read += 1;
            let found = findings.iter_mut().flat_map(|findings| &mut findings.found);
            found.for_each(|found| found.segment = number as u32);
            return Ok(findings);
        }
        if let Some(findings) = by_worker {
            let size = self.survey.segments.get(number).map(|it| it.file.size);
            self.survey.bytes_read += size.unwrap_or_default();
            self.survey.segments_read += 1;
            return Ok(findings);
        }
        if self.is_excluded(number) {
            self.survey.segments_skipped += 1;
            let undecodable = self.filter(number).map_or(0, WordFilter::undecodable);
            self.survey.unsearchable += undecodable;
            return Ok(Vec::new());
        }
        let Some(file) = self.open(number).await? else {
            return Ok(Vec::new());
        };
        self.survey.bytes_read += file.size();
        self.survey.segments_read += 1;
        let scanner = self.scanner_of(number);
        self.on_cores(move || scan_file(&scanner, &file, number as u32))
            .await
    }

    /// Returns whether the retention rules of the request may select a grain of segment `number`.
    fn may_expire(&self, number: usize) -> bool {
        let segment = self.survey.segments.get(number);
        let seconds = segment.and_then(|segment| segment.file.seconds.as_ref());
        self.request.retention.as_ref().is_some_and(|retention| {
            seconds.is_none_or(|seconds| seconds.overlaps(&retention.seconds()))
        })
    }

    /// Returns whether the word filter of segment `number` states that all rows can be decoded and
    /// none protects other grains.
    pub(super) fn is_plain(&self, number: usize) -> bool {
        self.filter(number)
            .is_some_and(|filter| filter.undecodable() == 0 && !filter.reaches_others())
    }

    /// Returns a scanner for all rows of segment `number`. It uses the prefilter if the segment is
    /// plain.
    fn scanner_of(&self, number: usize) -> RowScanner {
        let prefilter = self.prefilter.as_ref();
        match prefilter.filter(|_| self.is_plain(number)) {
            Some(prefilter) => self.scanner().with_prefilter(prefilter),
            None => self.scanner(),
        }
    }

    /// Adds the rows `wanted`, which were found by something other than their own content. Returns
    /// the addresses of those that are new.
    pub(super) async fn add_rows(
        &mut self,
        wanted: FxHashMap<RowId, (PersonNumber, Reason)>,
    ) -> Result<Vec<ContentAddress>> {
        let mut unread: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, (_, reason)) in &wanted {
            match self.found.get_mut(row) {
                Some(found) => found.reasons.insert(*reason),
                None => unread.entry(row.0).or_default().push(row.1),
            }
        }
        let mut added = Vec::new();
        for (number, mut rows) in unread {
            rows.sort_unstable();
            let Some(file) = self.open(number as usize).await? else {
                continue;
            };
            let scanner = self.scanner();
            let findings = self
                .on_cores(move || scan_rows(&scanner, &file, number, &rows))
                .await?;
            for mut found in findings.into_iter().flat_map(|findings| findings.found) {
                let row = (found.segment, found.row);
                if let Some((person, reason)) = wanted.get(&row) {
                    found.person = *person;
                    found.reasons.insert(*reason);
                }
                added.push(found.address);
                self.found.insert(row, found);
            }
        }
        self.apply_selection();
        Ok(added)
    }

    /// Scans the rejects of the lake except those that it skips, and counts those that can't be
    /// searched.
    pub(super) async fn scan_rejects(&mut self) -> Result<Vec<FoundReject>> {
        let mut out = Vec::new();
        let selected = self.survey.selected().map(|found| found.address);
        let erased: Arc<HashSet<_>> =
            Arc::new(selected.chain(self.references.iter().copied()).collect());
        let mut files = self.lake.rejects.files()?;
        files.retain(|file| !self.lake.skips(&file.name));
        for data in files {
            let file = LakeFile::open(self.lake, &self.lake.rejects.path_of(&data.name)).await?;
            let (erased, matcher) = (Arc::clone(&erased), Arc::clone(&self.matcher));
            let (now, approvals) = (self.now, self.request.approvals.clone());
            let holds = Arc::clone(&self.holds);
            let options = self.request.extent;
            let scan = move || {
                let rules = ExemptionRules {
                    now,
                    approvals: &approvals,
                    holds: &holds,
                };
                let scanner = RejectScanner {
                    matcher: &matcher,
                    rules: &rules,
                    erased: &erased,
                    options,
                };
                file.map_batches(Some(&COLUMNS), |first, batch| {
                    Ok(scanner.scan_batch(&data.name, first, batch))
                })
            };
            for findings in self.on_cores(scan).await? {
                self.survey.unsearchable += findings.unsearchable;
                out.extend(findings.found);
            }
        }
        Ok(out)
    }
}

/// Scans all rows of `file`, which is the segment `segment`, on the threads of the current pool.
pub(super) fn scan_file(
    scanner: &RowScanner,
    file: &LakeFile,
    segment: u32,
) -> Result<Vec<RowFindings>> {
    file.map_batches(Some(&ScannedColumns::COLUMNS), |first, batch| {
        let rows = (first..).zip(0..batch.num_rows());
        Ok(scanner.scan_batch(segment, rows, batch, ScanMode::Full))
    })
}

/// Scans the rows `rows` (ascending) of `file`, which is the segment `segment`.
fn scan_rows(
    scanner: &RowScanner,
    file: &LakeFile,
    segment: u32,
    rows: &[u32],
) -> Result<Vec<RowFindings>> {
    let mut rest = rows.iter().copied();
    let batches = file.read_rows(&ScannedColumns::COLUMNS, rows)?;
    let scan = |batch| {
        let rows: Vec<u32> = rest.by_ref().take(RecordBatch::num_rows(batch)).collect();
        let rows = rows.into_iter().zip(0..batch.num_rows());
        scanner.scan_batch(segment, rows, batch, ScanMode::Always)
    };
    Ok(batches.iter().map(scan).collect())
}
