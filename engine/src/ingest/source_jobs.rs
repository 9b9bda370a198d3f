//! The division of an ingest by workers: which sources they read, and in which jobs.

use std::collections::HashMap;

use gristmill_connectors::source::{Source, SourceReference};

use super::linked_sources::ReadSlot;
use super::prepared::{JobSettings, SourceJob};

/// Bytes of sources with which a job is closed. A larger source is a job of its own.
const JOB_BYTES: u64 = 256 << 20;

/// Maximum number of sources of a job.
const JOB_SOURCES: usize = 256;

/// The number of jobs, roughly, if all sources together are small.
const FEW_JOBS: u64 = 16;

/// The sources of a run, by who reads them.
#[derive(Default)]
pub(super) struct SplitSources {
    /// Sources that workers read, by their URIs.
    by_uri: HashMap<String, Source>,
    /// Their references, in the order of the input.
    pub(super) for_workers: Vec<SourceReference>,
    /// The other ones, which the process that commits reads itself.
    for_client: Vec<(Source, Option<ReadSlot>)>,
}

impl SplitSources {
    /// Splits sources: linked ones depend on one another, and streams can be read only here.
    pub(super) fn of(arranged: Vec<(Source, Option<ReadSlot>)>) -> SplitSources {
        let mut split = SplitSources::default();
        for (source, slot) in arranged {
            let reference = match slot {
                Some(_) => None,
                None => SourceReference::of(&source),
            };
            match reference {
                Some(reference) => {
                    split.by_uri.insert(source.uri.clone(), source);
                    split.for_workers.push(reference);
                }
                None => split.for_client.push((source, slot)),
            }
        }
        split
    }

    /// Takes the sources that the process which commits reads itself, with those at the URIs `left`
    /// by workers.
    pub(super) fn take_for_client(&mut self, left: &[String]) -> Vec<(Source, Option<ReadSlot>)> {
        let mut sources = std::mem::take(&mut self.for_client);
        if !left.is_empty() {
            tracing::warn!(
                sources = left.len(),
                "executors left sources to this process"
            );
        }
        let left = left.iter().filter_map(|uri| self.by_uri.remove(uri));
        sources.extend(left.map(|source| (source, None)));
        sources
    }
}

/// Returns the jobs that read `sources`, in their order.
pub(super) fn jobs_of(sources: &[SourceReference], settings: &JobSettings) -> Vec<SourceJob> {
    let total: u64 = sources.iter().filter_map(|source| source.length).sum();
    let full = JOB_BYTES.min(total / FEW_JOBS);
    let mut jobs: Vec<SourceJob> = Vec::new();
    let mut bytes = 0;
    for source in sources {
        match jobs.last_mut() {
            Some(job) if bytes < full && job.sources.len() < JOB_SOURCES => {
                job.sources.push(source.clone());
            }
            _ => {
                bytes = 0;
                jobs.push(SourceJob {
                    sources: vec![source.clone()],
                    settings: settings.clone(),
                    earlier_segments: Vec::new(),
                });
            }
        }
        bytes += source.length.unwrap_or_default();
    }
    jobs
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gristmill_connectors::source::SourceLocation;

    use super::super::options::IngestOptions;
    use super::super::run::IngestRun;
    use super::*;
    use crate::lake::Lake;

    fn references(lengths: &[u64]) -> Vec<SourceReference> {
        let reference = |(number, length): (usize, &u64)| {
            SourceReference::of(&Source {
                location: SourceLocation::File(format!("/in/{number}.mg").into()),
                uri: format!("{number}.mg"),
                length: Some(*length),
                time: None,
            })
        };
        lengths.iter().enumerate().filter_map(reference).collect()
    }

    #[tokio::test]
    async fn jobs_have_all_sources_in_order_and_a_bounded_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = Lake::open_or_create(&folder.path().display().to_string())
            .await
            .unwrap();
        let options = IngestOptions::default();
        let run = IngestRun::begin(&mut lake, &options, Arc::default())
            .await
            .unwrap();
        let settings = JobSettings::of(&run, Vec::new());
        let sizes = |lengths: &[u64]| {
            let sources = references(lengths);
            let jobs = jobs_of(&sources, &settings);
            let all = jobs.iter().flat_map(|job| job.sources.clone());
            assert_eq!(all.collect::<Vec<_>>(), sources);
            let sizes = jobs.iter().map(|job| job.sources.len());
            sizes.collect::<Vec<usize>>()
        };
        assert_eq!(sizes(&[]), [0_usize; 0]);
        assert_eq!(sizes(&[5, 5, 5]), [1, 1, 1]);
        assert_eq!(sizes(&[1; 32]), [2; 16]);
        assert_eq!(sizes(&[JOB_BYTES - 1; 40]), [2; 20]);
        assert_eq!(sizes(&[4 * JOB_BYTES; 40]), [1; 40]);
        let small = [&[1_u64; 600][..], &[1 << 40]].concat();
        assert_eq!(sizes(&small), [256, 256, 89]);
    }
}
