//! How the reading of an erasure is divided into jobs of workers: its surveys by segment, and its
//! byte search by file. Everything else is done by the process that erases.

use serde::Serialize;

use super::search_files::SearchJob;
use super::survey::SurveyJob;
use crate::error::{Context, Result};
use crate::lake::SegmentWorkers;

/// Processes that read a lake for an erasure. They commit nothing and write no file of the lake.
///
/// Their jobs contain the request, which names people, and what is found contains texts of theirs:
/// both must stay as confidential as the lake.
#[derive(Clone, Copy)]
pub struct ErasureWorkers<'w> {
    /// Find the rows that a request selects, by segment.
    pub survey: &'w dyn SegmentWorkers<SurveyJob>,
    /// Search files for what must not be left.
    pub search: &'w dyn SegmentWorkers<SearchJob>,
}

/// The number of jobs into which a lake is divided, unless these are smaller or larger than jobs
/// may be.
const JOBS: u64 = 64;

/// Bounds of the size of a job, in bytes of files. A larger file is a job of its own.
const MIN_JOB_BYTES: u64 = 1 << 20;
const MAX_JOB_BYTES: u64 = 1 << 30;

/// What a file costs in addition to its bytes, in bytes.
const FILE_COST: u64 = 32 << 10;

/// Maximal size of what all jobs have in common, in bytes: each job repeats it. Larger requests,
/// and erasures of more addresses, are searched for by the process that erases.
const MAX_COMMON_BYTES: usize = 1 << 20;

/// Divides `files`, each with its size in bytes, into jobs in their order.
pub(super) fn in_jobs<T>(files: Vec<(u64, T)>) -> Vec<Vec<T>> {
    let costs = files.iter().map(|(bytes, _)| bytes + FILE_COST);
    let most = (costs.sum::<u64>() / JOBS).clamp(MIN_JOB_BYTES, MAX_JOB_BYTES);
    let mut jobs: Vec<Vec<T>> = Vec::new();
    let mut filled = 0;
    for (bytes, file) in files {
        let cost = bytes + FILE_COST;
        match jobs.last_mut().filter(|_| filled + cost <= most) {
            Some(job) => job.push(file),
            None => {
                jobs.push(vec![file]);
                filled = 0;
            }
        }
        filled += cost;
    }
    jobs
}

/// Returns whether `common`, which all jobs have in common, is small enough to be sent with each.
///
/// # Errors
/// None that a request can cause.
pub(super) fn is_sent(common: &impl Serialize) -> Result<bool> {
    let message = serde_json::to_vec(common).file("can't write", "the request")?;
    Ok(message.len() <= MAX_COMMON_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_divided_into_jobs_of_similar_size_in_their_order() {
        let sizes = |files: Vec<u64>| {
            let files = files.into_iter().map(|bytes| (bytes, bytes)).collect();
            in_jobs(files)
        };
        assert!(sizes(Vec::new()).is_empty());
        // Small files share a job.
        assert_eq!(sizes(vec![1, 2, 3]), [[1, 2, 3]]);
        let half = MIN_JOB_BYTES / 2;
        assert_eq!(sizes(vec![half, half, 7]), [vec![half], vec![half, 7]]);
        // A large file has a job of its own.
        let large = 3 * MAX_JOB_BYTES;
        assert_eq!(sizes(vec![1, large, 2]), [[1], [large], [2]]);
        let many = sizes(vec![8 << 20; 640]);
        assert!((64..=72).contains(&many.len()), "{}", many.len());
    }

    #[test]
    fn a_request_that_is_too_large_for_each_job_is_not_sent() {
        assert!(is_sent(&"Anna").unwrap());
        assert!(!is_sent(&"x".repeat(MAX_COMMON_BYTES)).unwrap());
    }
}
