//! The byte search by workers: each searches some files, as this process would.
//!
//! Workers prove with the journal of the erasure that they see the same lake: its bytes are new
//! with every write of it. They write no file, so a job may be done twice.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use futures::TryStreamExt;
use gristmill_schemas::address::ContentAddress;
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use super::byte_search::{ByteSearchResult, LakeSearch, RetainedRows};
use super::identifier_search::IdentifierSearch;
use super::pattern_search::PatternSearch;
use super::request::SubjectRequest;
use super::run::thread_pool;
use super::worker_jobs::{in_jobs, is_sent};
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;
use crate::lake::{Lake, SegmentJob, SegmentWorkers, is_sealed_file};

/// What a byte search looks for.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ByteSearchTerms {
    pub(super) request: SubjectRequest,
    /// Folded identifiers of the request that aren't searched for.
    pub(super) too_short: HashSet<String>,
    /// Identifiers as the lake had them.
    pub(super) spellings: Vec<String>,
    /// The addresses whose rows were removed.
    #[serde(with = "crate::erase::address_text::list")]
    pub(super) erased: Vec<ContentAddress>,
}

impl ByteSearchTerms {
    /// Compiles the search.
    ///
    /// # Errors
    /// [`EngineError::File`] if there are more identifiers than an automaton can hold.
    pub(super) fn compile(&self) -> Result<PatternSearch> {
        let folding = self.request.folding;
        let is_excluded = |identifier: &str| self.too_short.contains(&folding.folded(identifier));
        let spellings = self.spellings.iter().map(String::as_str);
        let search = IdentifierSearch::new(&self.request, is_excluded, spellings)?;
        Ok(PatternSearch::new(&self.erased, search))
    }
}

/// The journal of an erasure as it was read. A process that reads the same has the same lake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalMark {
    path: String,
    digest: FileDigest,
}

impl JournalMark {
    /// Reads the journal at `path`.
    ///
    /// # Errors
    /// [`EngineError::Request`] if it is missing; errors of the store.
    pub(super) async fn of(lake: &Lake, path: &Path) -> Result<JournalMark> {
        let Some(bytes) = lake.location().read_small(path).await? else {
            return Err(EngineError::Request(format!(
                "`{path}` isn't here: is it the same lake?"
            )));
        };
        Ok(JournalMark {
            path: path.to_string(),
            digest: FileDigest::of(&bytes),
        })
    }

    /// Checks that `lake` has this journal.
    ///
    /// # Errors
    /// [`EngineError::Request`] if it has another one, or none.
    async fn check(&self, lake: &Lake) -> Result<()> {
        let found = JournalMark::of(lake, &path_of(&self.path)?).await?;
        match found == *self {
            true => Ok(()),
            false => Err(EngineError::Request(format!(
                "`{}` differs here: is it the same lake?",
                self.path
            ))),
        }
    }
}

/// The job of a worker that searches some files for what an erasure must not have left.
#[derive(Clone, Serialize, Deserialize)]
pub struct SearchJob {
    terms: ByteSearchTerms,
    journal: JournalMark,
    files: Vec<FileToSearch>,
}

/// A file that a worker searches.
#[derive(Clone, Serialize, Deserialize)]
struct FileToSearch {
    path: String,
    /// The rows that account for matches in it.
    retained: RetainedRows,
}

/// What a worker has found in the files of a job, by their paths.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SearchedFiles(Vec<(String, ByteSearchResult)>);

impl SegmentJob for SearchJob {
    type Outcome = SearchedFiles;

    /// A job has several files.
    const IS_UNBATCHED: bool = true;
}

impl fmt::Debug for SearchJob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the terms, which name people.
        out.debug_struct("SearchJob")
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// Workers that search the files of a lake, and what they look for.
pub(super) struct SearchWorkers<'w> {
    pub(super) workers: &'w dyn SegmentWorkers<SearchJob>,
    pub(super) terms: ByteSearchTerms,
    pub(super) journal: JournalMark,
}

impl SearchWorkers<'_> {
    /// Has those of `files` searched that aren't sealed. `retained` are the rows that account for
    /// matches. Returns what was found by path; files that workers leave out are missing.
    ///
    /// # Errors
    /// [`EngineError::Task`] if a worker fails.
    pub(super) async fn search(
        &self,
        files: &[ObjectMeta],
        retained: &RetainedRows,
    ) -> Result<HashMap<String, ByteSearchResult>> {
        let mut found = HashMap::new();
        if !is_sent(&self.terms)? {
            return Ok(found);
        }
        let plain = files
            .iter()
            .filter(|file| !is_sealed_file(file.location.as_ref()));
        let plain = plain.map(|file| {
            let path = file.location.to_string();
            let retained = retained.of_file(&path);
            (file.size, FileToSearch { path, retained })
        });
        let jobs = in_jobs(plain.collect()).into_iter().map(|files| SearchJob {
            terms: self.terms.clone(),
            journal: self.journal.clone(),
            files,
        });
        let mut outcomes = self.workers.run(jobs.collect()).await?;
        while let Some((_, SearchedFiles(files))) = outcomes.try_next().await? {
            found.extend(files);
        }
        Ok(found)
    }
}

/// Does the job of a worker, on one thread.
///
/// # Errors
/// [`EngineError::Request`] if this process has another lake; [`EngineError::File`] if a file can't
/// be read.
pub async fn search_files(lake: &Lake, job: &SearchJob) -> Result<SearchedFiles> {
    job.journal.check(lake).await?;
    let terms = job.terms.clone();
    let patterns = tokio::task::spawn_blocking(move || terms.compile()).await;
    let mut search = LakeSearch {
        lake,
        patterns: Arc::new(patterns.task("a search")??),
        retained: Arc::default(),
        // An executor does a job for each of its cores.
        pool: thread_pool(1)?,
    };
    let mut searched = SearchedFiles::default();
    for file in &job.files {
        search.retained = Arc::new(file.retained.clone());
        let found = search.file(&path_of(&file.path)?).await?;
        searched.0.push((file.path.clone(), found));
    }
    Ok(searched)
}

/// Returns the path of a file from the lake's root.
fn path_of(text: &str) -> Result<Path> {
    Path::parse(text).file("can't read", text)
}
