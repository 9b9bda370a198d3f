//! Proves that an erasure left nothing: byte search, survey, address look-up, and envelopes.

use std::collections::{BTreeMap, HashSet, btree_map, hash_map};
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::Run;
use crate::erase::byte_search::{self, RetainedRows};
use crate::erase::certificate::{Proofs, Remaining};
use crate::erase::crypto_shred;
use crate::erase::pattern_search::PatternSearch;
use crate::erase::reason::Reason;
use crate::erase::search_files::{ByteSearchTerms, JournalMark, SearchWorkers};
use crate::erase::survey::Survey;
use crate::error::Result;
use crate::lake::{DataFile, KnownAddresses, LakeFile};

impl Run<'_> {
    /// Compiles the patterns of the byte search on another thread: the addresses whose rows were
    /// removed, and the identifiers in the spellings of the request and of the lake.
    pub(super) fn compile_patterns(&self, survey: &Survey) -> JoinHandle<Result<PatternSearch>> {
        let terms = self.terms(survey);
        tokio::task::spawn_blocking(move || terms.compile())
    }

    /// Returns what the byte search looks for.
    fn terms(&self, survey: &Survey) -> ByteSearchTerms {
        let folding = self.request.folding;
        let too_short = survey.non_distinctive.iter();
        ByteSearchTerms {
            request: self.request.clone(),
            too_short: too_short.map(|it| folding.folded(it)).collect(),
            spellings: self.journal.spellings.clone(),
            erased: self.journal.rewritten(),
        }
    }

    /// Returns the workers that search files, if there are any.
    async fn search_workers(&self, survey: &Survey) -> Result<Option<SearchWorkers<'_>>> {
        let Some(workers) = self.workers else {
            return Ok(None);
        };
        Ok(Some(SearchWorkers {
            workers: workers.search,
            terms: self.terms(survey),
            journal: JournalMark::of(self.lake, self.journal_file.path()).await?,
        }))
    }

    /// Looks up the addresses whose rows were removed.
    async fn look_up(&self) -> Result<Remaining> {
        let erased = self.journal.rewritten();
        let known = KnownAddresses::load(self.lake).await?;
        let found = erased
            .iter()
            .filter(|address| known.contains(address))
            .count();
        Ok(Remaining {
            checked: erased.len() as u64,
            left: found as u64,
        })
    }

    /// Computes the proofs. `survey` is the last survey, which selects nothing.
    pub(super) async fn prove(&self, survey: &Survey, patterns: PatternSearch) -> Result<Proofs> {
        let lookup = self.look_up().await?;
        let retained = self.retained(survey).await?;
        let pool = Arc::clone(&self.pool);
        let workers = self.search_workers(survey).await?;
        let byte_search = byte_search::prove(self.lake, patterns, retained, pool, workers).await?;
        let envelopes = match self.journal.keys.is_empty() {
            true => None,
            false => Some(crypto_shred::prove(self.lake, &self.journal.keys).await?),
        };
        Ok(Proofs {
            byte_search,
            survey: Remaining {
                checked: survey.grains_read,
                left: survey.selected().count() as u64,
            },
            lookup,
            envelopes,
        })
    }

    /// Returns whether the lake still has the files of all rows that `survey` found.
    pub(super) fn has_files_of(&self, survey: &Survey) -> Result<bool> {
        let names = |files: Vec<DataFile>| files.into_iter().map(|file| file.name);
        let grains: HashSet<String> = names(self.lake.grains.files()?).collect();
        let rejects: HashSet<String> = names(self.lake.rejects.files()?).collect();
        let mut segments = survey.grains.iter().filter_map(|found| {
            let segment = survey.segments.get(found.segment as usize)?;
            Some(segment.file.name.as_str())
        });
        let mut refused = survey.rejects.iter().map(|found| &*found.file);
        Ok(
            segments.all(|name| grains.contains(name))
                && refused.all(|name| rejects.contains(name)),
        )
    }

    /// Returns the row groups that contain rows which were found and stay, and the sidecar folders
    /// of their segments.
    async fn retained(&self, survey: &Survey) -> Result<RetainedRows> {
        let mut retained = RetainedRows::default();
        let mut group_sizes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for found in &survey.grains {
            let Some(segment) = survey.segments.get(found.segment as usize) else {
                continue;
            };
            let path = self.lake.grains.path_of(&segment.file.name);
            let sizes = match group_sizes.entry(found.segment) {
                btree_map::Entry::Occupied(known) => known.into_mut(),
                btree_map::Entry::Vacant(unknown) => {
                    unknown.insert(LakeFile::open(self.lake, &path).await?.row_groups())
                }
            };
            let groups = retained.groups.entry(path.to_string()).or_default();
            groups.extend(group_of(sizes, found.row));
            let folder = segment.id.folder().to_string();
            let mentions_erased = retained.sidecars.entry(folder).or_default();
            *mentions_erased |= found.reasons.contains(Reason::Related);
        }
        self.retain_reject_files(survey, &mut retained).await?;
        Ok(retained)
    }

    /// Adds all row groups of the files of `rejects` that contain rows which were found and stay.
    async fn retain_reject_files(
        &self,
        survey: &Survey,
        retained: &mut RetainedRows,
    ) -> Result<()> {
        for found in &survey.rejects {
            let path = self.lake.rejects.path_of(&found.file);
            if let hash_map::Entry::Vacant(unknown) = retained.groups.entry(path.to_string()) {
                let groups = LakeFile::open(self.lake, &path).await?.row_groups().len();
                unknown.insert((0..groups).collect());
            }
        }
        Ok(())
    }
}

/// Returns the number of the row group that contains `row`, if any does. `sizes` are the numbers of
/// rows of the row groups.
fn group_of(sizes: &[usize], row: u32) -> Option<usize> {
    let mut end = 0;
    sizes.iter().position(|size| {
        end += size;
        (row as usize) < end
    })
}
