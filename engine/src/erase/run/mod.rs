//! Executes an erasure, from the plan to the signed certificate.
//!
//! ```text
//! survey ─▶ journal ─▶ tombstones ─▶ rejects ─▶ state ─▶ grains ─▶ survey again ─▶ purge files ─▶ prove ─▶ certify
//! ```
//!
//! | module | contents |
//! |---|---|
//! | this one | the public functions and the sequence of steps |
//! | `planning` | the survey before anything changes |
//! | `remove` | removing the selected rows, one commit per table |
//! | `prove` | the proofs that nothing is left |
//! | `certify` | the certificate, its files and the audit entry |
//! | `finished` | erasures of which only the journal is left |
//!
//! Each table changes in one commit, `grains` last. A process that is killed leaves either an
//! unchanged lake or a journal. The next run of the same request resumes from the journal: it
//! skips what was done before, and its certificate covers both runs. In a folder, one process at a
//! time erases and others wait; in an object store, the last of several runs of one request takes
//! over from the others (see `journal`).
//!
//! Holds that are placed during a survey are read after it. Once the tombstones are written, no
//! hold can be placed on what is erased.
//!
//! Surveys and the byte search only read, and can be done by workers (`worker_jobs`). What writes
//! is done by this process alone: a worker that counts as lost may still run, and would publish a
//! rewritten segment after the byte search has listed the files.
//!
//! The second survey doesn't read the segments that the erasure rewrote: their rows were scanned
//! while they were in memory. It reads all other segments once more.

mod certify;
mod finished;
mod planning;
mod prove;
mod remove;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;
use gristmill_connectors::storage::RemovedVersions;
use gristmill_schemas::sign::did_from_key;
use serde::Serialize;

use self::certify::certificate_path;
use self::finished::FinishedErasure;
use self::planning::{SEARCHED, surveyed_to_erase};
pub use self::planning::{plan, plan_by, plan_disclosure};
use super::byte_search;
use super::certificate::{ErasureScope, PSEUDONYMS, Proofs, RequestOrigin};
use super::journal::{Journal, JournalFile, keyed_hash, new_id};
use super::matcher::{Hits, IdentifierMatcher};
use super::pattern_search::PatternSearch;
use super::plan::ErasurePlan;
use super::reason::{Exemption, NOT_SELECTED};
use super::request::SubjectRequest;
use super::survey::{ScannedSegments, Survey, SurveyScan};
use super::worker_jobs::ErasureWorkers;
use crate::error::{Context, EngineError, Result};
use crate::index::{refresh_masks, refresh_subjects};
use crate::keys::{Keyring, Secret};
use crate::lake::{DataFile, Lake, NO_VERSIONS, Purged};

/// Options of an erasure.
#[derive(Debug)]
pub struct ErasureOptions {
    /// Who requested the erasure, and on which legal ground.
    pub origin: RequestOrigin,
    /// The unlocked keyring.
    pub keyring: Keyring,
    /// Name of the keyring's key that signs the certificate.
    pub signing_key: String,
    /// Whether no other process writes to the lake. Unreferenced files are then removed at once,
    /// whatever their age.
    pub exclusive: bool,
    /// Whether to destroy the keys of the people (crypto-shredding). Rows that are sealed with
    /// these keys aren't rewritten.
    pub destroy_keys: bool,
    /// Whether to remove earlier versions of all objects of the lake, in a bucket of S3 with
    /// versioning.
    pub purge_versions: bool,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
}

/// Result of an erasure.
#[derive(Debug, Clone, Serialize)]
pub struct ErasureReport {
    /// Identifier of the erasure.
    pub id: String,
    /// The plan that was executed.
    pub plan: ErasurePlan,
    /// What was erased, as stated in the certificate.
    pub scope: ErasureScope,
    /// The proofs of absence.
    pub proofs: Proofs,
    /// Whether all proofs hold.
    pub proven: bool,
    /// Path of the signed certificate, relative to the lake's root.
    pub certificate: String,
    /// DID of the signer.
    pub signer: String,
    /// Whether this run resumed one that was killed.
    pub resumed: bool,
    /// Files that were physically removed.
    pub removed: Purged,
    /// Earlier versions of objects that were removed. `None` without
    /// [`ErasureOptions::purge_versions`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_versions: Option<RemovedVersions>,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// Maximal number of surveys after removals, in case other writers add matching rows meanwhile.
const MAX_ROUNDS: usize = 5;

/// Erases everything that `request` selects. In a folder, waits for other erasures of the lake.
///
/// # Errors
/// [`EngineError::Policy`] if everything that was found is exempt; [`EngineError::Key`] without a
/// signing key; [`EngineError::Conflict`] if other writers keep adding matching rows, or, in an
/// object store, if another process erases the same and has taken over from this one; errors of
/// the lake. After an error, the next run of the same request resumes the erasure.
pub async fn erase(
    lake: &mut Lake,
    request: &SubjectRequest,
    options: &ErasureOptions,
) -> Result<ErasureReport> {
    erase_with(lake, request, options, None).await
}

/// Does the same as [`erase`], but has segments scanned and files searched by `workers`. This
/// process writes: it rewrites segments, commits, and certifies.
///
/// # Errors
/// As [`erase`]; [`EngineError::Task`] if a worker fails, and [`EngineError::Key`] if the lake is
/// encrypted.
pub async fn erase_by(
    workers: ErasureWorkers<'_>,
    lake: &mut Lake,
    request: &SubjectRequest,
    options: &ErasureOptions,
) -> Result<ErasureReport> {
    lake.segments_for_workers(SEARCHED)?;
    erase_with(lake, request, options, Some(workers)).await
}

async fn erase_with(
    lake: &mut Lake,
    request: &SubjectRequest,
    options: &ErasureOptions,
    workers: Option<ErasureWorkers<'_>>,
) -> Result<ErasureReport> {
    let _lock = lake.location().lock_erasures().await?;
    lake.reveal_erased(true);
    let erased = erase_revealed(lake, request, options, workers).await;
    lake.reveal_erased(false);
    erased
}

/// Returns true if an erasure of `request` was interrupted, which [`erase`] would resume.
///
/// # Errors
/// [`EngineError::Key`]; errors of the store.
pub(crate) async fn is_interrupted(
    lake: &Lake,
    request: &SubjectRequest,
    keyring: &Keyring,
) -> Result<bool> {
    let key = keyring.derive(PSEUDONYMS)?;
    let digest = keyed_hash(&key, request.canonical()?.as_bytes());
    Ok(Journal::load(lake, &digest, &key).await?.is_some())
}

async fn erase_revealed(
    lake: &mut Lake,
    request: &SubjectRequest,
    options: &ErasureOptions,
    workers: Option<ErasureWorkers<'_>>,
) -> Result<ErasureReport> {
    let started = Instant::now();
    // The journal that an interrupted run left has the numbers of people.
    let in_order = request.in_order();
    let request = in_order.as_ref();
    // Checked first: an erasure that can't be certified must not begin.
    let signing_key = options.keyring.signing_key(&options.signing_key)?;
    let signer = did_from_key(&signing_key.verifying_key());
    // So must one of a locked lake, whose sealed files would be left out.
    lake.keys_to_write()?;
    if options.purge_versions && lake.location().object_versions()?.is_none() {
        return Err(EngineError::Request(NO_VERSIONS.to_owned()));
    }
    lake.check_stated_versions().await?;
    // The byte search reads everything in the lake's folder, which may have a link in a circle.
    byte_search::check_searchable(lake).await?;
    let key = options.keyring.derive(PSEUDONYMS)?;
    check_origin_is_anonymous(&options.origin, request)?;
    let digest = keyed_hash(&key, request.canonical()?.as_bytes());
    let (mut plan, mut survey) = surveyed_to_erase(lake, request, options.threads, workers).await?;
    let (journal_file, mut left) = JournalFile::open(lake, &digest, &key).await?;
    if let Some(journal) = &left
        && let Some(finished) = FinishedErasure::of(lake, journal, &signer).await?
    {
        journal_file.remove(lake, &journal.id, &key).await?;
        if finished.is_proven() && survey.selects_nothing() {
            return Ok(finished.into_report(plan, started));
        }
        // What was added since, or couldn't be removed, is an erasure of its own.
        left = None;
    }
    if let Some(widened) = left.as_ref().and_then(|journal| journal.widened(request)) {
        (plan, survey) = surveyed_to_erase(lake, &widened, options.threads, workers).await?;
    }
    // A finished erasure that is run again finds the consent records that stay as evidence.
    let is_repeated =
        keeps_only_consents(&plan) && lake.has_recorded("erase", "request", &digest).await?;
    if left.is_none() && !is_repeated {
        check_not_all_exempt(&plan)?;
    }
    let resumed = left.is_some();
    let mut journal = match left {
        Some(journal) => journal,
        None => new_journal(lake)?,
    };
    if resumed && lake.location().is_remote() {
        journal.take_over();
    }
    if options.destroy_keys && lake.keys().is_none() {
        return Err(EngineError::Key(
            "there are no keys to destroy: the lake isn't encrypted, or is locked".to_owned(),
        ));
    }
    let mut run = Run {
        lake,
        request,
        options,
        key,
        digest,
        journal,
        journal_file,
        pool: thread_pool(options.threads)?,
        scanned: ScannedSegments::default(),
        workers,
    };
    run.note_spellings(&plan);
    run.remove(survey).await?;
    let last = run.survey_until_clean().await?;
    let mut report = run.prove_and_certify(last, plan).await?;
    report.resumed = resumed;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Refuses an origin that names one of the people: the certificate contains it in clear text.
fn check_origin_is_anonymous(origin: &RequestOrigin, request: &SubjectRequest) -> Result<()> {
    let (matcher, mut hits) = (IdentifierMatcher::new(request), Hits::default());
    for (what, text) in [
        ("reference", &origin.reference),
        ("legal ground", &origin.legal_ground),
        ("operator", &origin.operator),
    ] {
        if text
            .as_ref()
            .is_some_and(|text| matcher.names_person(text, &mut hits))
        {
            return Err(EngineError::Request(format!(
                "the {what} names a person of the request, but the certificate must not contain \
                 personal data"
            )));
        }
    }
    Ok(())
}

/// Returns whether everything that was selected is a consent record, which every erasure keeps.
fn keeps_only_consents(plan: &ErasurePlan) -> bool {
    let mut exempt = plan
        .excluded
        .iter()
        .filter(|(reason, count)| **count > 0 && **reason != NOT_SELECTED);
    exempt.all(|(reason, _)| reason == Exemption::ConsentRecord.name())
}

/// Refuses an erasure of which everything that was selected is exempt.
fn check_not_all_exempt(plan: &ErasurePlan) -> Result<()> {
    let exempt = plan
        .excluded
        .iter()
        .filter(|(reason, _)| *reason != NOT_SELECTED);
    let exempt: u64 = exempt.map(|(_, count)| count).sum();
    if plan.has_work() || exempt == 0 {
        return Ok(());
    }
    let counts: Vec<String> = plan
        .excluded
        .iter()
        .map(|(reason, count)| format!("{reason}: {count}"))
        .collect();
    Err(EngineError::Policy(format!(
        "everything that was selected must stay ({})",
        counts.join(", ")
    )))
}

/// Returns `threads` threads; 0 for one per core.
pub(super) fn thread_pool(threads: usize) -> Result<Arc<rayon::ThreadPool>> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let pool = builder
        .thread_name(|number| format!("erase-{number}"))
        .build();
    Ok(Arc::new(pool.threads()?))
}

/// Returns an empty journal that records the state of `lake` before the erasure.
fn new_journal(lake: &Lake) -> Result<Journal> {
    Ok(Journal {
        id: new_id(),
        resumed: Vec::new(),
        started: Utc::now().timestamp_micros(),
        before: table_versions(lake),
        rows_before: table_rows(lake)?,
        items: BTreeMap::new(),
        rejects: BTreeMap::new(),
        events: 0,
        planned_events: BTreeMap::new(),
        bytes_rewritten: 0,
        bytes_copied: 0,
        people: Vec::new(),
        people_of_rejects: Vec::new(),
        spellings: Vec::new(),
        keys: Vec::new(),
    })
}

fn table_versions(lake: &Lake) -> BTreeMap<String, u64> {
    [&lake.grains, &lake.state, &lake.rejects]
        .map(|table| (table.name().to_owned(), table.version()))
        .into()
}

fn table_rows(lake: &Lake) -> Result<BTreeMap<String, u64>> {
    let count = |files: Vec<DataFile>| files.iter().map(|file| file.rows).sum::<u64>();
    [&lake.grains, &lake.state, &lake.rejects]
        .into_iter()
        .map(|table| Ok((table.name().to_owned(), count(table.files()?))))
        .collect()
}

/// One execution of an erasure.
struct Run<'a> {
    lake: &'a mut Lake,
    request: &'a SubjectRequest,
    options: &'a ErasureOptions,
    /// Key of pseudonyms, leaves and the journal.
    key: Secret,
    /// Keyed hash of the request: the name of its journal.
    digest: String,
    journal: Journal,
    journal_file: JournalFile,
    pool: Arc<rayon::ThreadPool>,
    /// Findings in the segments that this run rewrote, which the next survey needn't read.
    scanned: ScannedSegments,
    /// Processes that scan segments and search files; `None` if this one does.
    workers: Option<ErasureWorkers<'a>>,
}

/// The last survey, which found nothing more to erase, and what follows from it.
struct LastSurvey {
    survey: Survey,
    /// The patterns that the byte search looks for.
    patterns: PatternSearch,
    removed: Purged,
}

impl Run<'_> {
    /// Adds the spellings that the survey found in the lake to the journal: the byte search
    /// looks for them in addition to the identifiers of the request.
    fn note_spellings(&mut self, plan: &ErasurePlan) {
        let found = plan.spellings.iter().map(|spelling| spelling.text.clone());
        let mut spellings: HashSet<String> =
            self.journal.spellings.drain(..).chain(found).collect();
        let folding = self.request.folding;
        let too_short: HashSet<String> = plan
            .too_short_for_text
            .iter()
            .map(|it| folding.folded(it))
            .collect();
        spellings.retain(|spelling| !too_short.contains(&folding.folded(spelling)));
        self.journal.spellings = spellings.into_iter().collect();
        self.journal.spellings.sort_unstable();
    }

    /// Surveys the lake again until nothing is selected any more, then purges unreferenced files.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if other writers added matching rows [`MAX_ROUNDS`] times.
    async fn survey_until_clean(&mut self) -> Result<LastSurvey> {
        let mut removed = Purged::default();
        for _ in 0..MAX_ROUNDS {
            let survey = self.survey_again().await?;
            if survey.selects_nothing() {
                // Compiled on another thread, because purging waits for the disk.
                let patterns = self.compile_patterns(&survey);
                // Masks of before may contain the addresses of erased grains.
                refresh_masks(self.lake, false).await?;
                refresh_subjects(self.lake, false).await?;
                removed += self.lake.purge(self.options.exclusive).await?;
                let patterns = patterns.await.file("can't make", "a proof")??;
                if self.has_files_of(&survey)? {
                    return Ok(LastSurvey {
                        survey,
                        patterns,
                        removed,
                    });
                }
                // Another process has merged or rewritten segments whose rows the proof explains.
                continue;
            }
            self.remove(survey).await?;
        }
        Err(EngineError::Conflict(format!(
            "other writers added or moved matching rows {MAX_ROUNDS} times; run the erasure again"
        )))
    }

    async fn survey_again(&mut self) -> Result<Survey> {
        self.lake.refresh().await?;
        let erased = self.journal.addresses();
        let now = Utc::now().timestamp_millis();
        let scan = SurveyScan {
            pool: Arc::clone(&self.pool),
            scanned: std::mem::take(&mut self.scanned),
            workers: self.workers.map(|workers| workers.survey),
        };
        let widened = self.journal.widened(self.request);
        let request = widened.as_ref().unwrap_or(self.request);
        let survey = Survey::with_references(self.lake, request, &erased, scan, now);
        let mut survey = survey.await?;
        survey.apply_new_holds(self.lake).await?;
        Ok(survey)
    }

    /// Proves the erasure, writes its certificate and the audit entry, and removes the journal.
    async fn prove_and_certify(
        &mut self,
        last: LastSurvey,
        plan: ErasurePlan,
    ) -> Result<ErasureReport> {
        let LastSurvey {
            survey,
            patterns,
            removed,
        } = last;
        let proofs = self.prove(&survey, patterns).await?;
        // Ends a run whose journal was taken over, before it writes a certificate.
        self.store_journal().await?;
        let versions = self.purge_versions().await?;
        let certified = self.certify(&survey, removed, &proofs, versions).await?;
        let (certificate, signer) = certified;
        self.finish(&certificate).await?;
        // Those of the journal and of what the last steps replaced.
        let last = self.purge_versions().await?;
        let removed_versions = versions.zip(last).map(|(first, last)| first + last);
        Ok(ErasureReport {
            plan,
            proven: proofs.hold(),
            proofs,
            certificate: certificate_path(&certificate.id).to_string(),
            id: certificate.id,
            scope: certificate.scope,
            signer,
            resumed: false,
            removed,
            removed_versions,
            seconds: 0.0,
        })
    }

    /// Removes earlier versions of the lake's objects; `None` if that wasn't requested.
    async fn purge_versions(&self) -> Result<Option<RemovedVersions>> {
        match self.options.purge_versions {
            true => Ok(Some(self.lake.location().remove_earlier_versions().await?)),
            false => Ok(None),
        }
    }
}
