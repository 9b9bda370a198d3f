//! Verifying the lake itself, row group by row group.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::TryStreamExt;
use gristmill_schemas::columns::GRAINS;

use super::compare::StoredVerdicts;
use super::job_set::JobSet;
use super::replaced::{REPLACED, is_replaced};
use super::report::{Coverage, FindingTally, Findings, Problem, VerifyReport};
use super::row_counts::{differing, row_counts};
use super::row_group::{OpenSegment, open_segment};
use super::scope::{SegmentRange, VerifyCursor, VerifyScope, round};
use super::segment_check::{SegmentCheck, SegmentSettings};
use super::stated::StatedRows;
use super::tables::{TablesCheck, check_segment_file, problem};
use super::{VerifyOptions, complete_sources, erasures, sizes, subjects, unique_addresses};
use crate::error::{EngineError, Result};
use crate::index::{
    LIFECYCLE_FILE, SidecarCondition, SubjectFilters, differing_masks, differing_sidecars,
    states_of, vector_files,
};
use crate::keys::TrustedKey;
use crate::lake::{
    DataFile, Lake, LakeFile, REMEDY_OF_FILES, Segment, SegmentWorkers, disclosed_rows,
};
use crate::progress::WorkProgress;
use crate::segment::{SegmentId, SegmentReader};

/// Checks the grains of `scope` of `lake`. A segment that can't be read is a finding.
///
/// # Errors
/// [`EngineError::Interrupted`], and errors of reading the lake's log.
pub async fn verify_lake(
    lake: &Lake,
    scope: VerifyScope,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport> {
    let mut check = LakeCheck::begin(lake, scope, options, progress).await?;
    let cursor = match scope.rolls() {
        true => VerifyCursor::load(lake).await,
        false => None,
    };
    let address_part = check.check_addresses(cursor.as_ref()).await?;
    let next = check.run(round(lake.segments()?, cursor.as_ref())).await?;
    if scope.rolls() {
        let begun = cursor.unwrap_or_default();
        // After a whole round, the next one begins where this one began.
        let next = next.unwrap_or_else(|| begun.clone());
        let next = next.with_address_part(address_part);
        if next != begun
            && let Err(error) = next.save(lake).await
        {
            check.tally.report().unsaved_position = Some(error.to_string());
        }
    }
    check.finish()
}

/// Does the same, but has the segments checked by `workers`: processes that read the lake's files
/// themselves, and trust `trusted_keys` besides every `did:key`.
///
/// # Errors
/// As [`verify_lake`]; [`EngineError::Request`] for a scope or options that segments alone can't
/// answer, or if the lake was changed meanwhile; [`EngineError::Key`] if it is encrypted.
pub async fn verify_lake_by(
    workers: &dyn SegmentWorkers<SegmentCheck>,
    trusted_keys: Vec<TrustedKey>,
    lake: &Lake,
    scope: VerifyScope,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport> {
    let settings = SegmentSettings::of(options, scope, trusted_keys)?;
    let segments = lake.segments_for_workers("checked")?;
    let mut check = LakeCheck::begin(lake, scope, options, progress).await?;
    check.check_addresses(None).await?;
    check.progress.begin_tasks(segments.len());
    let checks = segments.into_iter().map(|segment| SegmentCheck {
        file: segment.file.name,
        settings: settings.clone(),
    });
    let mut reports = workers.run(checks.collect()).await?;
    while let Some((number, report)) = reports.try_next().await? {
        check.add(number, report);
    }
    check.coverage.complete = true;
    check.finish()
}

/// Checks one segment of `lake`, without the tables.
///
/// # Errors
/// As [`verify_lake`].
pub(super) async fn verify_segment(
    lake: &Lake,
    segment: Segment,
    scope: VerifyScope,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport> {
    let mut check = LakeCheck::new(lake, scope, options, progress).await?;
    check.run(round(vec![segment], None)).await?;
    check.finish()
}

/// A running check.
struct LakeCheck<'l> {
    lake: &'l Lake,
    scope: VerifyScope,
    options: Arc<VerifyOptions>,
    progress: Arc<WorkProgress>,
    running: JobSet<(u64, Findings)>,
    tally: FindingTally,
    started: Instant,
    /// The size of the row groups that may still be started, in bytes.
    budget: u64,
    coverage: Coverage,
    jobs: u64,
    /// The names of the vector files that segments have.
    vectors: Vec<String>,
    /// The segments whose lifecycle mask differs from the fold, once all masks were compared.
    differing_masks: Option<Vec<SegmentId>>,
    /// The subject filters that are compared with the segments.
    subjects: SubjectFilters,
    /// What the lake states about rows outside of their segments.
    stated: StatedRows,
}

impl<'l> LakeCheck<'l> {
    /// Checks the tables of `lake` and its certificates, and returns the check of its segments.
    async fn begin(
        lake: &'l Lake,
        scope: VerifyScope,
        options: &VerifyOptions,
        progress: Arc<WorkProgress>,
    ) -> Result<LakeCheck<'l>> {
        let started = Instant::now();
        let deadline = scope.max_duration.map(|limit| started + limit);
        let mut tables =
            TablesCheck::begin(lake.location(), deadline, options.problems, options.threads)
                .await?;
        tables.run().await?;
        let certificates = erasures::check(lake, &mut tables).await?;
        subjects::check(lake, &mut tables).await?;
        complete_sources::check(lake, &mut tables).await?;
        let mut check = LakeCheck::new(lake, scope, options, progress).await?;
        check.started = started;
        check.coverage.tables = tables.coverage;
        check.coverage.certificates = certificates;
        check.tally.report().unreferenced = tables.unreferenced.found();
        check.tally.add(0, tables.findings);
        Ok(check)
    }

    /// Returns the check of the segments of `lake`, of which nothing is checked yet.
    async fn new(
        lake: &'l Lake,
        scope: VerifyScope,
        options: &VerifyOptions,
        progress: Arc<WorkProgress>,
    ) -> Result<LakeCheck<'l>> {
        let segments = lake.segments()?;
        let lake_bytes = segments.iter().map(|segment| segment.file.size).sum();
        let budget = scope.budget(lake_bytes);
        let expected = budget.min(lake_bytes);
        progress.total_bytes.store(expected, Ordering::Relaxed);
        Ok(LakeCheck {
            lake,
            scope,
            options: Arc::new(options.clone()),
            progress,
            running: JobSet::new(options.threads),
            tally: FindingTally::new(options.problems),
            started: Instant::now(),
            budget,
            coverage: Coverage {
                lake_bytes,
                ..Coverage::default()
            },
            jobs: 0,
            vectors: vector_files(lake).await?,
            differing_masks: None,
            subjects: subjects::to_compare(lake, options).await?,
            stated: StatedRows::load(lake).await?,
        })
    }

    /// Returns the report.
    fn finish(mut self) -> Result<VerifyReport> {
        if self.progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        if self.coverage.complete {
            self.progress.end_input();
        }
        self.tally.report().coverage = Some(self.coverage);
        Ok(self.tally.finish(self.started.elapsed()))
    }

    /// Checks that no address is that of several rows, in those parts of all addresses that belong
    /// to the scope. Returns the part with which the next check begins that continues this one.
    async fn check_addresses(&mut self, cursor: Option<&VerifyCursor>) -> Result<u8> {
        let first = cursor.map_or(0, |cursor| cursor.address_part);
        let parts = self.scope.address_parts(first, self.coverage.lake_bytes);
        let spent = self.started.elapsed();
        let left = self.scope.max_duration.map(|it| it.saturating_sub(spent));
        let checked =
            unique_addresses::check(self.lake, &parts, left, &self.options, &self.progress).await?;
        self.jobs += 1;
        self.tally.add(self.jobs, checked.findings);
        self.coverage.address_parts = checked.parts as u64;
        Ok(first.wrapping_add(checked.parts as u8))
    }

    /// Adds the report of a segment that a worker has checked; `number` is its place.
    fn add(&mut self, number: usize, report: VerifyReport) {
        self.tally.report().files += report.files;
        let mut bytes = 0;
        if let Some(checked) = &report.coverage {
            self.coverage.row_groups += checked.row_groups;
            self.coverage.file_bytes += checked.file_bytes;
            bytes = checked.file_bytes;
        }
        self.progress.end_task(bytes, report.ok);
        WorkProgress::add(&self.progress.rejected, report.bad);
        self.tally.add(self.jobs + number as u64 + 1, report.into());
    }

    /// Checks the segments of `ranges` until the budget or the time is used up, and the sizes of
    /// the others. Returns where the next check begins, or `None` after a whole round.
    async fn run(&mut self, ranges: Vec<SegmentRange>) -> Result<Option<VerifyCursor>> {
        let (mut stopped_at, mut opened) = (None, 0);
        for range in &ranges {
            if self.is_over() {
                stopped_at = Some(range.cursor(range.from));
                break;
            }
            opened += 1;
            stopped_at = self.check_range(range).await?;
            if stopped_at.is_some() {
                break;
            }
        }
        let unopened = ranges.get(opened..).unwrap_or_default();
        let sizes = sizes::check(self.lake, unopened, self.options.problems).await?;
        self.jobs += 1;
        self.tally.add(self.jobs, sizes);
        while let Some((number, findings)) = self.running.join_next().await? {
            self.tally.add(number, findings);
        }
        self.coverage.complete = stopped_at.is_none() || self.budget == 0;
        Ok(stopped_at)
    }

    /// Checks the row groups of one segment. Returns where it stopped, if it did.
    async fn check_range(&mut self, range: &SegmentRange) -> Result<Option<VerifyCursor>> {
        let segment = &range.segment;
        self.tally.report().files += u64::from(range.until == usize::MAX);
        let reader = match self.open(range).await? {
            Ok(reader) => reader,
            Err(problem) => {
                match is_replaced(self.lake, segment).await? {
                    true => self.add_replaced(segment.file.size),
                    false => self.add_unreadable(problem, segment.file.size),
                }
                return Ok(None);
            }
        };
        if range.from == 0 && self.scope.has(&segment.id, 0) {
            self.start_digest(&segment.file, reader.clone()).await?;
            self.check_footer(segment).await?;
            self.start_counts(segment, reader.clone()).await?;
            self.check_sidecars(segment).await?;
        }
        let opened = OpenSegment {
            reader,
            keys: self.lake.keys_to_check(&segment.file.name)?,
            name: format!("{GRAINS}/{}", segment.file.name).into(),
            verdicts: StoredVerdicts::Kept,
            stated: self.stated.of(segment),
        };
        for row_group in range.from..range.until.min(opened.reader.row_groups()) {
            if self.is_over() {
                return Ok(Some(range.cursor(row_group)));
            }
            if self.scope.has(&segment.id, row_group) {
                self.start_row_group(opened.clone(), row_group).await?;
            }
        }
        Ok(None)
    }

    /// Counts a segment of `size` bytes that another process has replaced and removed.
    fn add_replaced(&mut self, size: u64) {
        self.jobs += 1;
        let mut findings = Findings::default();
        findings.mark(REPLACED, 1);
        self.tally.add(self.jobs, findings);
        self.budget = self.budget.saturating_sub(size);
    }

    /// Adds the problem of a segment of which `size` bytes aren't checked because of it.
    fn add_unreadable(&mut self, problem: Problem, size: u64) {
        self.jobs += 1;
        let mut findings = Findings::default();
        findings.bad(problem, 1);
        self.tally.add(self.jobs, findings);
        self.budget = self.budget.saturating_sub(size);
    }

    fn is_over(&self) -> bool {
        let late = self
            .scope
            .max_duration
            .is_some_and(|limit| self.started.elapsed() >= limit);
        late || self.budget == 0 || self.progress.is_stopped()
    }

    /// Opens a segment. Damage is returned as a problem, and reasons why it can't be read as an
    /// error.
    async fn open(
        &self,
        range: &SegmentRange,
    ) -> Result<std::result::Result<SegmentReader, Problem>> {
        let path = self.lake.grains.path_of(&range.segment.file.name);
        let bytes = match self.lake.location().read(&path).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => {
                return Ok(Err(Problem::of_lost_file(path.as_ref(), &error)));
            }
            Err(error) => return Err(error),
        };
        let opened = open_segment(bytes, &range.segment);
        Ok(opened.map_err(|cause| Problem::of_lost_file(path.as_ref(), &cause)))
    }

    /// Starts the comparison of a data file with its digest, together with its first row group: a
    /// file is digested as a whole.
    async fn start_digest(&mut self, file: &DataFile, reader: SegmentReader) -> Result<()> {
        let (location, file) = (self.lake.location().clone(), file.clone());
        let limit = self.options.problems;
        self.start(move || {
            let mut findings = Findings::default();
            // Reasons why a file can't be read are reported when its rows are read.
            if let Ok(Some(problem)) = check_segment_file(&location, &file, &reader) {
                findings.bad(problem, limit);
            }
            findings
        })
        .await
    }

    /// Compares the footer of `segment` with its digest in the log, by which sidecars are bound to
    /// the data file without reading it.
    async fn check_footer(&mut self, segment: &Segment) -> Result<()> {
        let path = segment.path();
        match segment.binding(self.lake.location()).await {
            Err(EngineError::Damaged { cause, remedy, .. }) => {
                let found = problem(GRAINS, path.as_ref(), &cause, remedy);
                self.add_unreadable(found, 0);
                Ok(())
            }
            // Other damage is found with the rows.
            Err(error) if error.is_environment() => Err(error),
            _ => Ok(()),
        }
    }

    /// Starts the comparison of the numbers of rows of `segment` that supersede others, and that
    /// are disclosed copies, with the log, by which the segments without such rows aren't read.
    /// Sealed copies must be decrypted, which is done together with the comparison of sidecars.
    async fn start_counts(&mut self, segment: &Segment, reader: SegmentReader) -> Result<()> {
        let logged = [segment.file.superseding, segment.file.disclosed];
        let is_sealed = segment.id.is_sealed();
        let unreadable = is_sealed && (self.lake.keys().is_none() || !self.options.sidecars);
        if logged == [None, None] || unreadable {
            return Ok(());
        }
        let (path, limit) = (segment.path(), self.options.problems);
        let sealed = match is_sealed {
            true => match LakeFile::open(self.lake, &path).await {
                Err(error) if error.is_environment() => return Err(error),
                Err(_) => return Ok(()),
                Ok(file) => Some(file),
            },
            false => None,
        };
        self.start(move || {
            let counted = match &sealed {
                Some(file) => disclosed_rows(file).map(|copies| [0, copies]).ok(),
                None => row_counts(&reader).ok(),
            };
            let mut findings = Findings::default();
            // Rows that can't be read are found when they are checked.
            for cause in counted
                .iter()
                .flat_map(|counted| differing(*counted, logged))
            {
                let found = problem(GRAINS, path.as_ref(), &cause, REMEDY_OF_FILES);
                findings.bad(found, limit);
            }
            findings
        })
        .await
    }

    /// Checks the checksums of the sidecars of `segment`, and their bindings.
    async fn check_sidecars(&mut self, segment: &Segment) -> Result<()> {
        let mut findings = Findings::default();
        let mut fresh = Vec::new();
        for found in states_of(self.lake, segment, &self.vectors).await? {
            findings.sidecar(&segment.id, &found, self.options.problems);
            fresh.extend((found.state.condition == SidecarCondition::Fresh).then_some(found.file));
        }
        if self.options.sidecars {
            self.compare_mask(segment, &fresh, &mut findings).await?;
            subjects::compare(&self.subjects, self.lake, segment, &mut findings).await;
            match differing_sidecars(self.lake, segment, &fresh).await {
                Ok(files) => files.iter().for_each(|file| {
                    findings.differing_sidecar(&segment.id, file, self.options.problems);
                }),
                // Damage of the segment itself is found with its rows.
                Err(error) if error.is_environment() => return Err(error),
                Err(error) => {
                    tracing::warn!(segment = segment.id.as_str(), %error, "its sidecars can't be \
                        rebuilt")
                }
            }
        }
        self.jobs += 1;
        self.tally.add(self.jobs, findings);
        Ok(())
    }

    /// Compares the lifecycle mask of `segment`, if it is among the `fresh` sidecars, with the fold
    /// of all events. The masks of all segments are compared at once.
    async fn compare_mask(
        &mut self,
        segment: &Segment,
        fresh: &[String],
        findings: &mut Findings,
    ) -> Result<()> {
        if !fresh.iter().any(|file| file == LIFECYCLE_FILE) {
            return Ok(());
        }
        let differing = match self.differing_masks.take() {
            Some(differing) => differing,
            None => match differing_masks(self.lake).await {
                Err(error) if error.is_environment() => return Err(error),
                Err(error) => {
                    // Damage of the files themselves is found with their rows.
                    tracing::warn!(%error, "the lifecycle masks can't be compared");
                    Vec::new()
                }
                Ok(differing) => differing,
            },
        };
        if differing.contains(&segment.id) {
            findings.differing_sidecar(&segment.id, LIFECYCLE_FILE, self.options.problems);
        }
        self.differing_masks = Some(differing);
        Ok(())
    }

    /// Starts the check of a row group.
    async fn start_row_group(&mut self, segment: OpenSegment, row_group: usize) -> Result<()> {
        let bytes = segment.reader.row_group_bytes(row_group);
        self.budget = self.budget.saturating_sub(bytes);
        self.coverage.row_groups += 1;
        self.coverage.file_bytes += bytes;
        let (options, progress) = (Arc::clone(&self.options), Arc::clone(&self.progress));
        self.start(move || {
            let findings = segment
                .check(row_group, options.proof_options())
                .into_findings(&segment, options.problems);
            WorkProgress::add(&progress.bytes, bytes);
            WorkProgress::add(&progress.grains, findings.ok);
            WorkProgress::add(&progress.rejected, findings.bad_count());
            findings
        })
        .await
    }

    /// Starts `job`, and adds the findings of a job that has ended, if there is one.
    async fn start(&mut self, job: impl FnOnce() -> Findings + Send + 'static) -> Result<()> {
        self.jobs += 1;
        let number = self.jobs;
        if let Some((number, findings)) = self.running.spawn(move || (number, job())).await? {
            self.tally.add(number, findings);
        }
        Ok(())
    }
}
