//! Verifying the lake itself, row group by row group.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::error::ArrowError;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GRAINS, IdentityColumn, delivered_bytes};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{Mark, Mode};

use super::VerifyOptions;
use super::part::{Cursor, Part, Visit, round};
use super::report::{Coverage, Findings, Problem, Tally, VerifyReport};
use crate::crew::Crew;
use crate::error::{EngineError, Result};
use crate::hash::{Digest, sha256_each};
use crate::ingest::prove::{Checker, Judgement, OPENED_BYTES, Opened, open};
use crate::keys::{Erased, LakeKeys};
use crate::lake::Lake;
use crate::progress::WorkProgress;
use crate::segment::SegmentReader;

/// The columns that are read.
const COLUMNS: [&str; 4] = [
    IdentityColumn::ContentAddress.name(),
    IdentityColumn::Blob.name(),
    IdentityColumn::Envelope.name(),
    IdentityColumn::Marks.name(),
];

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8_192;

/// Checks the grains of `part` of `lake`. A segment that can't be read is a finding, with its name.
///
/// # Errors
/// [`EngineError::Interrupted`], and whatever the system says of the lake's log.
pub async fn verify_lake(
    lake: &Lake,
    part: Part,
    options: &VerifyOptions,
    progress: Arc<WorkProgress>,
) -> Result<VerifyReport> {
    let started = Instant::now();
    let segments = lake.segments()?;
    let lake_bytes = segments.iter().map(|segment| segment.file.size).sum();
    progress.total_bytes.store(part.budget(lake_bytes).min(lake_bytes), Ordering::Relaxed);
    let cursor = if part.rolls() { Cursor::load(lake).await } else { None };
    let mut patrol = Patrol {
        lake,
        part,
        options: Arc::new(options.clone()),
        progress,
        crew: Crew::new(options.threads),
        tally: Tally::new(options.problems),
        started,
        budget: part.budget(lake_bytes),
        coverage: Coverage { row_groups: 0, complete: false, file_bytes: 0, lake_bytes },
        jobs: 0,
    };
    let next = patrol.go(round(segments, cursor.as_ref())).await?;
    if part.rolls() {
        // After a whole round the next one begins where this one did.
        let start = cursor.unwrap_or(Cursor { segment: String::new(), row_group: 0 });
        next.unwrap_or(start).save(lake).await?;
    }
    if patrol.progress.is_stopped() {
        return Err(EngineError::Interrupted);
    }
    patrol.tally.report().coverage = Some(patrol.coverage);
    Ok(patrol.tally.finish(started.elapsed()))
}

/// A check under way.
struct Patrol<'l> {
    lake: &'l Lake,
    part: Part,
    options: Arc<VerifyOptions>,
    progress: Arc<WorkProgress>,
    crew: Crew<(u64, Findings)>,
    tally: Tally,
    started: Instant,
    /// Bytes of row groups that may still be begun.
    budget: u64,
    coverage: Coverage,
    jobs: u64,
}

impl Patrol<'_> {
    /// Makes the visits as far as budget and time reach; answers where the next check begins, `None` after a whole round.
    async fn go(&mut self, visits: Vec<Visit>) -> Result<Option<Cursor>> {
        let mut stopped_at = None;
        for visit in visits {
            stopped_at = self.visit(&visit).await?;
            if stopped_at.is_some() {
                break;
            }
        }
        while let Some((number, findings)) = self.crew.next().await? {
            self.tally.add(number, findings);
        }
        self.coverage.complete = stopped_at.is_none() || self.budget == 0;
        Ok(stopped_at)
    }

    /// Checks the row groups of one segment; answers where it stopped, if it had to.
    async fn visit(&mut self, visit: &Visit) -> Result<Option<Cursor>> {
        let segment = &visit.segment;
        let at = |row_group| Some(Cursor { segment: segment.id.as_str().to_owned(), row_group });
        if self.is_over() {
            return Ok(at(visit.from));
        }
        let name: Arc<str> = format!("{GRAINS}/{}", segment.file.name).into();
        self.tally.report().files += u64::from(visit.until == usize::MAX);
        let reader = match self.open(visit).await {
            Ok(reader) => reader,
            Err(problem) => {
                self.jobs += 1;
                let mut findings = Findings::default();
                findings.bad(problem, 1);
                self.tally.add(self.jobs, findings);
                self.budget = self.budget.saturating_sub(segment.file.size);
                return Ok(None);
            }
        };
        let keys = self.lake.keys_to_read(&segment.file.name)?;
        for row_group in visit.from..visit.until.min(reader.row_groups()) {
            if self.is_over() {
                return Ok(at(row_group));
            }
            if self.part.has(&segment.id, row_group) {
                self.begin(Sealed { reader: reader.clone(), keys: keys.clone() }, row_group, Arc::clone(&name)).await?;
            }
        }
        Ok(None)
    }

    fn is_over(&self) -> bool {
        let late = self.part.max_duration.is_some_and(|limit| self.started.elapsed() >= limit);
        late || self.budget == 0 || self.progress.is_stopped()
    }

    async fn open(&self, visit: &Visit) -> Result<SegmentReader, Problem> {
        let file = &visit.segment.file;
        let path = self.lake.grains.path_of(&file.name);
        let unreadable = |cause: &dyn std::fmt::Display| Problem::unreadable(path.as_ref(), -1, cause);
        let bytes = self.lake.location().read(&path).await.map_err(|error| unreadable(&error))?;
        if bytes.len() as u64 != file.size {
            return Err(unreadable(&format!("it has {} bytes, its log says {}", bytes.len(), file.size)));
        }
        let reader = SegmentReader::open(bytes).map_err(|error| unreadable(&error))?;
        match reader.rows() == file.rows {
            true => Ok(reader),
            false => Err(unreadable(&format!("it has {} rows, its log says {}", reader.rows(), file.rows))),
        }
    }

    async fn begin(&mut self, segment: Sealed, row_group: usize, name: Arc<str>) -> Result<()> {
        let bytes = segment.reader.row_group_bytes(row_group);
        self.budget = self.budget.saturating_sub(bytes);
        self.coverage.row_groups += 1;
        self.coverage.file_bytes += bytes;
        self.jobs += 1;
        let number = self.jobs;
        let (options, progress) = (Arc::clone(&self.options), Arc::clone(&self.progress));
        let job = move || {
            let findings = check_row_group(&segment, row_group, &name, &options);
            WorkProgress::add(&progress.bytes, bytes);
            WorkProgress::add(&progress.grains, findings.ok);
            WorkProgress::add(&progress.rejected, findings.bad_count());
            (number, findings)
        };
        if let Some((number, findings)) = self.crew.start(job).await? {
            self.tally.add(number, findings);
        }
        Ok(())
    }
}

/// A segment, and what opens its rows if they are sealed.
struct Sealed {
    reader: SegmentReader,
    keys: Option<Arc<LakeKeys>>,
}

/// Checks all rows of a row group. What can't be read is a problem of its first row that can't.
fn check_row_group(segment: &Sealed, row_group: usize, name: &str, options: &VerifyOptions) -> Findings {
    let Sealed { reader, keys } = segment;
    let stored = keys.as_ref().map(|_| LakeKeys::sealed_columns(Some(&COLUMNS)));
    let stored = stored.as_deref().unwrap_or(&COLUMNS);
    let mut findings = Findings::default();
    let mut row = reader.rows_before(row_group);
    // A damaged file must not end the check of the others, whatever it does to the reader.
    let read = catch_unwind(AssertUnwindSafe(|| -> Result<(), ArrowError> {
        for batch in reader.read(row_group..row_group + 1, Some(stored), BATCH_ROWS)? {
            let batch = batch?;
            let rows = batch.num_rows() as u64;
            let opened = match keys {
                Some(keys) => keys.open_rows(&batch, Some(&COLUMNS), Erased::Dropped),
                None => Ok(batch),
            };
            let opened = opened.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            check_batch(&opened, row, name, options, &mut findings)?;
            row += rows;
        }
        Ok(())
    }));
    let problem = match read {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Problem::unreadable(name, row as i64, &error)),
        Err(_) => Some(Problem::unreadable(name, row as i64, &"its bytes can't be decoded")),
    };
    if let Some(problem) = problem {
        findings.bad(problem, options.problems);
    }
    reader.release(row_group);
    findings
}

fn check_batch(
    batch: &RecordBatch,
    first_row: u64,
    name: &str,
    options: &VerifyOptions,
    findings: &mut Findings,
) -> Result<(), ArrowError> {
    let column = |column: IdentityColumn| {
        let missing = || ArrowError::SchemaError(format!("no column `{}`", column.name()));
        batch.column_by_name(column.name()).ok_or_else(missing)
    };
    let addresses = column(IdentityColumn::ContentAddress)?.as_string::<i32>();
    let blobs = column(IdentityColumn::Blob)?.as_binary::<i32>();
    let envelopes = column(IdentityColumn::Envelope)?.as_binary::<i32>();
    let marks = column(IdentityColumn::Marks)?.as_list::<i32>();
    let mut digests = vec![Digest::default(); batch.num_rows()];
    sha256_each(&mut digests, |row| blobs.value(row));
    let delivered: Vec<_> = (0..batch.num_rows())
        .map(|row| {
            prove_address(addresses.value(row), digests.get(row))?;
            delivered_bytes(blobs.value(row), envelopes.is_valid(row).then(|| envelopes.value(row)))
        })
        .collect();
    let judgement = options.judgement();
    let mut first = 0;
    while first < delivered.len() {
        let opened = open_some(delivered.get(first..).unwrap_or_default(), judgement);
        let mut checker = Checker { grain: None, mode: options.mode };
        for (row, opened) in (first..).zip(&opened) {
            // What was let in leniently is marked as such, and no news.
            checker.mode =
                if options.mode == Mode::Lenient || is_lenient(marks, row) { Mode::Lenient } else { Mode::Strict };
            let checked = opened.as_ref().map_err(Clone::clone).and_then(|opened| checker.check(&opened.payload));
            findings.bytes += blobs.value(row).len() as u64;
            match checked {
                Ok(grain) => findings.good(grain.marks()),
                Err(error) => {
                    let problem = Problem::new(name, (first_row + row as u64) as i64, &error);
                    let content_address = Some(addresses.value(row).to_owned());
                    findings.bad(Problem { content_address, ..problem }, options.problems);
                }
            }
        }
        first += opened.len();
    }
    Ok(())
}

/// Opens grains from the first on until [`OPENED_BYTES`] are open.
fn open_some<'d>(
    delivered: &'d [Result<Cow<'_, [u8]>, GrainError>],
    judgement: Judgement<'_>,
) -> Vec<Result<Opened<'d>, GrainError>> {
    let (mut opened, mut bytes) = (Vec::new(), 0);
    for next in delivered {
        let found = next.as_ref().map_err(Clone::clone).and_then(|next| open(next, judgement));
        bytes += found.as_ref().map_or(0, Opened::payload_length);
        opened.push(found);
        if bytes >= OPENED_BYTES {
            break;
        }
    }
    opened
}

fn prove_address(address: &str, digest: Option<&Digest>) -> Result<(), GrainError> {
    let claimed: ContentAddress = address.parse()?;
    let found = ContentAddress::from_digest(digest.copied().unwrap_or_default());
    match claimed == found {
        true => Ok(()),
        false => Err(GrainError::new(ErrorCode::Integrity, format!("the blob hashes to {found}, not to {claimed}"))),
    }
}

/// True if the row was taken in by a lenient reader.
fn is_lenient(marks: &arrow::array::ListArray, row: usize) -> bool {
    let lenient = [Mark::NotCanonical.name(), Mark::Incomplete.name()];
    marks.is_valid(row) && marks.value(row).as_string::<i32>().iter().flatten().any(|mark| lenient.contains(&mark))
}
