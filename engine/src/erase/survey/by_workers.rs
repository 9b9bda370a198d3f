//! Step 1 of a survey by workers: each scans some segments, as this process would.
//!
//! Workers read the holds of the lake themselves, at this process's version of `state` or a later
//! one. They commit nothing and write no file of the lake, so a job may be done twice.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures::TryStreamExt;
use gristmill_schemas::address::ContentAddress;
use serde::{Deserialize, Serialize};

use super::scan::scan_file;
use super::{SurveyRun, matcher_of, prefilter_of};
use crate::erase::request::SubjectRequest;
use crate::erase::row_findings::{RowFindings, RowScanner};
use crate::erase::run::thread_pool;
use crate::erase::worker_jobs::{in_jobs, is_sent};
use crate::error::{Context, EngineError, Result};
use crate::lake::{Lake, LakeFile, SegmentJob};

/// The job of a worker that finds the rows of some segments which a request selects.
#[derive(Clone, Serialize, Deserialize)]
pub struct SurveyJob {
    terms: SurveyTerms,
    segments: Vec<SegmentToScan>,
}

/// What all jobs of a survey have in common.
#[derive(Clone, Serialize, Deserialize)]
struct SurveyTerms {
    request: SubjectRequest,
    #[serde(with = "crate::erase::address_text::list")]
    references: Vec<ContentAddress>,
    /// Addresses of withdrawn consents.
    withdrawn: Vec<String>,
    /// Milliseconds since 1970.
    now: i64,
    /// The version of `state`, whose holds apply.
    state: u64,
}

/// A segment that a worker scans.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SegmentToScan {
    /// Its index in the survey.
    number: u32,
    /// Name of its data file.
    file: String,
    /// Size of the file in bytes.
    size: u64,
    /// Whether all rows can be decoded and none protects other grains.
    is_plain: bool,
}

/// What a worker has found in the segments of a job, by their index. Segments with too many
/// findings for a message are missing.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SurveyedSegments(Vec<(u32, Vec<RowFindings>)>);

impl SegmentJob for SurveyJob {
    type Outcome = SurveyedSegments;

    /// A job has several segments.
    const IS_UNBATCHED: bool = true;
}

impl fmt::Debug for SurveyJob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the request, which names people.
        out.debug_struct("SurveyJob")
            .field("segments", &self.segments)
            .finish_non_exhaustive()
    }
}

/// Maximal number of findings that a worker returns of one job: some 300 bytes each.
const MAX_FINDINGS: usize = 200_000;

impl SurveyRun<'_> {
    /// Has the segments that must be read scanned by workers, if there are any. Returns their
    /// findings by the index of the segment; segments that workers leave out are missing.
    pub(super) async fn scan_by_workers(&self) -> Result<HashMap<u32, Vec<RowFindings>>> {
        let mut found = HashMap::new();
        let Some(workers) = self.workers else {
            return Ok(found);
        };
        let terms = self.terms();
        if !is_sent(&terms)? {
            return Ok(found);
        }
        let jobs = in_jobs(self.segments_to_scan());
        let jobs = jobs.into_iter().map(|segments| SurveyJob {
            terms: terms.clone(),
            segments,
        });
        let mut outcomes = workers.run(jobs.collect()).await?;
        while let Some((_, SurveyedSegments(segments))) = outcomes.try_next().await? {
            found.extend(segments);
        }
        Ok(found)
    }

    fn terms(&self) -> SurveyTerms {
        SurveyTerms {
            request: self.request.clone(),
            references: self.references.to_vec(),
            withdrawn: self.withdrawn.clone(),
            now: self.now,
            state: self.lake.state.version(),
        }
    }

    /// Returns the segments that must be read, each with its size.
    fn segments_to_scan(&self) -> Vec<(u64, SegmentToScan)> {
        let segments = self.survey.segments.iter().enumerate();
        let unread = segments.filter(|(number, segment)| {
            !self.scanned.contains_key(&segment.file.name) && !self.is_excluded(*number)
        });
        let sent = unread.map(|(number, segment)| {
            let sent = SegmentToScan {
                number: number as u32,
                file: segment.file.name.clone(),
                size: segment.file.size,
                is_plain: self.is_plain(number),
            };
            (segment.file.size, sent)
        });
        sent.collect()
    }
}

/// Does the job of a worker, on one thread.
///
/// # Errors
/// [`EngineError::Request`] if this process has another lake; [`EngineError::File`] if a segment
/// can't be read.
pub async fn survey_segments(lake: &Lake, job: &SurveyJob) -> Result<SurveyedSegments> {
    let terms = &job.terms;
    if lake.state.version() < terms.state {
        return Err(EngineError::Request(format!(
            "version {} of `state` isn't here, but {}: is it the same lake?",
            terms.state,
            lake.state.version()
        )));
    }
    let matcher = matcher_of(
        &terms.request,
        &terms.withdrawn,
        &terms.references,
        terms.now,
    );
    let prefilter = prefilter_of(&terms.request, &matcher);
    let holds = Arc::new(lake.holds().await?);
    let scanner = RowScanner::new(Arc::new(matcher), &terms.request, terms.now, holds);
    // One thread: an executor does a job for each of its cores.
    let pool = thread_pool(1)?;
    let mut surveyed = SurveyedSegments::default();
    let mut count = 0;
    for segment in &job.segments {
        let file = open(lake, segment).await?;
        let scanner = match prefilter.as_ref().filter(|_| segment.is_plain) {
            Some(prefilter) => scanner.clone().with_prefilter(prefilter),
            None => scanner.clone(),
        };
        let (pool, number) = (Arc::clone(&pool), segment.number);
        let scan = move || pool.install(|| scan_file(&scanner, &file, number));
        let findings = tokio::task::spawn_blocking(scan).await.task("a survey")??;
        count += findings.iter().map(RowFindings::count).sum::<usize>();
        if count > MAX_FINDINGS {
            break;
        }
        surveyed.0.push((number, findings));
    }
    Ok(surveyed)
}

/// Opens a segment, which may have been retired meanwhile.
///
/// # Errors
/// [`EngineError::Request`] if the file has another size than the client's.
async fn open(lake: &Lake, segment: &SegmentToScan) -> Result<LakeFile> {
    let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file)).await?;
    match file.size() == segment.size {
        true => Ok(file),
        false => Err(EngineError::Request(format!(
            "`{}` has {} bytes, not {}: is it the same lake?",
            segment.file,
            file.size(),
            segment.size
        ))),
    }
}
