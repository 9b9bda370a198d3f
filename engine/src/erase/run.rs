//! An erasure from the plan to the certificate.
//!
//! ```text
//! survey ─▶ journal ─▶ refuse from now on ─▶ rejects ─▶ state ─▶ grains ─▶ survey again ─▶ remove files ─▶ prove ─▶ certify
//! ```
//!
//! Rows that are written again are surveyed again while they are at hand; all others are read once
//! more.
//!
//! Each table changes in one commit, `grains` last. A process that is killed leaves either nothing
//! erased, or a journal by which the next run of the same request goes on: whatever was done is
//! found done, and the certificate covers all of it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_schemas::address::ContentAddress;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use serde::Serialize;
use tokio::task::JoinHandle;

use super::byte_search::{self, RetainedRows};
use super::certificate::{
    Certificate, ErasureScope, FORMAT, KEY_REMINDER, PSEUDONYMS, Proofs, Pseudonyms, REMINDER,
    Remaining, RequestOrigin, TableVersions, leaves, tree,
};
use super::crypto_shred::{self, ShredPlan};
use super::identifier_search::IdentifierSearch;
use super::journal::{Journal, JournalEntry, keyed_hash};
use super::matcher::{Hits, IdentifierMatcher, NO_PERSON};
use super::pattern_search::PatternSearch;
use super::plan::ErasurePlan;
use super::reason::Reason;
use super::request::{Person, SubjectRequest};
use super::rewrite::{RewrittenSegment, without};
use super::row_findings::{RowFindings, RowScanner};
use super::survey::{ScannedSegments, Survey, type_name};
use super::{sources, state, tombstones_path, tombstones_to_bytes};
use crate::error::{Context, EngineError, Result};
use crate::file_digest::FileDigest;
use crate::index::SidecarCache;
use crate::keys::{Keyring, Secret};
use crate::lake::{
    Change, DataFile, ERASURES, KnownAddresses, Lake, LakeFile, Purged, Segment, drop_rows,
    edit_file,
};

/// How an erasure is to be done.
#[derive(Debug)]
pub struct ErasureOptions {
    /// Who asked, and on which ground.
    pub ground: RequestOrigin,
    /// Where keys are.
    pub keyring: Keyring,
    /// The key that signs the certificate.
    pub signing_key: String,
    /// True if nobody else writes to the lake: files that no commit names are removed at once.
    pub exclusive: bool,
    /// True if the keys of the people are to be destroyed: what is sealed with them needn't be
    /// written again.
    pub destroy_keys: bool,
    /// Threads to work on; 0 for one per core.
    pub threads: usize,
}

/// What an erasure did.
#[derive(Debug, Clone, Serialize)]
pub struct ErasureReport {
    /// Its name.
    pub id: String,
    /// The plan that was followed.
    pub plan: ErasurePlan,
    /// What was erased, as the certificate says.
    pub scope: ErasureScope,
    /// The proofs of absence.
    pub proofs: Proofs,
    /// True if all proofs hold.
    pub proven: bool,
    /// Where the signed certificate is, from the lake's root.
    pub certificate: String,
    /// The DID of its signer.
    pub signer: String,
    /// True if a killed run was finished.
    pub resumed: bool,
    /// Files that were physically removed.
    pub removed: Purged,
    /// Wall-clock time.
    pub seconds: f64,
}

/// How often the lake is surveyed again because other writers brought in more.
const ROUNDS: usize = 5;

/// People whose pseudonyms a certificate lists one by one.
const PSEUDONYMS_LISTED: usize = 10_000;

/// Surveys `lake` for an erasure by `request`; changes nothing. Finds what was erased before and
/// can be read again, because an erasure was interrupted or an old copy of the keyring was
/// restored.
///
/// # Errors
/// As [`plan_disclosure`].
pub async fn plan(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
) -> Result<(ErasurePlan, Survey)> {
    lake.reveal_erased(true);
    let planned = plan_disclosure(lake, request, threads).await;
    lake.reveal_erased(false);
    planned
}

/// Surveys `lake` for what can be handed out by `request`; changes nothing. What was erased stays
/// hidden.
///
/// # Errors
/// [`EngineError::Request`] if it names nobody; what the lake says.
pub async fn plan_disclosure(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
) -> Result<(ErasurePlan, Survey)> {
    if request.is_empty() {
        return Err(EngineError::Request(
            "the request names nobody: give --user, --subject, --did, --session, --subjects, \
             --consent, --withdrawn-consents or --addresses"
                .to_owned(),
        ));
    }
    lake.refresh().await?;
    let survey = Survey::of(lake, request, Utc::now().timestamp_millis(), pool(threads)?).await?;
    Ok((ErasurePlan::of(&survey, request.people.len()), survey))
}

/// Erases what `request` is about.
///
/// # Errors
/// [`EngineError::Policy`] if something was found and nothing of it may go; [`EngineError::Key`]
/// without a key to sign with; [`EngineError::Conflict`]; what the lake says. An erasure that was
/// begun goes on with the next run.
pub async fn erase(
    lake: &mut Lake,
    request: &SubjectRequest,
    order: &ErasureOptions,
) -> Result<ErasureReport> {
    lake.reveal_erased(true);
    let erased = erase_revealed(lake, request, order).await;
    lake.reveal_erased(false);
    erased
}

async fn erase_revealed(
    lake: &mut Lake,
    request: &SubjectRequest,
    order: &ErasureOptions,
) -> Result<ErasureReport> {
    let started = Instant::now();
    // Asked for first: nothing is erased that can't be certified.
    order.keyring.signing_key(&order.signing_key)?;
    let key = order.keyring.derive(PSEUDONYMS)?;
    check_origin_is_anonymous(&order.ground, request)?;
    let digest = keyed_hash(&key, request.canonical()?.as_bytes());
    let (plan, survey) = plan_disclosure(lake, request, order.threads).await?;
    let left = Journal::load(lake, &digest, &key).await?;
    if left.is_none() && !plan.has_work() {
        let kept: u64 = plan
            .excluded
            .iter()
            .filter(|(reason, _)| *reason != "not_selected")
            .map(|(_, n)| n)
            .sum();
        if kept > 0 {
            return Err(EngineError::Policy(format!(
                "all {kept} grains that were selected must stay ({})",
                exclusion_counts(&plan)
            )));
        }
    }
    let resumed = left.is_some();
    let journal = match left {
        Some(journal) => journal,
        None => begin(lake)?,
    };
    if order.destroy_keys && lake.keys().is_none() {
        return Err(EngineError::Key(
            "there are no keys to destroy: the lake isn't encrypted, or is locked".to_owned(),
        ));
    }
    let mut run = Run {
        lake,
        request,
        order,
        key,
        digest,
        journal,
        pool: pool(order.threads)?,
        seen: ScannedSegments::default(),
    };
    run.spellings(&plan);
    run.remove(survey).await?;
    let SettledLake {
        after,
        patterns,
        removed,
    } = run.settle().await?;
    let proofs = run.prove(&after, patterns).await?;
    let (scope, path, signer) = run.certify(&after, removed, &proofs).await?;
    let proven = holds(&proofs);
    let id = run.journal.id.clone();
    run.finish(&scope, &proofs, &path).await?;
    let seconds = started.elapsed().as_secs_f64();
    let certificate = path.to_string();
    Ok(ErasureReport {
        id,
        plan,
        scope,
        proofs,
        proven,
        certificate,
        signer,
        resumed,
        removed,
        seconds,
    })
}

/// What goes into the certificate in clear must not name whom the erasure is about.
fn check_origin_is_anonymous(ground: &RequestOrigin, request: &SubjectRequest) -> Result<()> {
    let (matcher, mut hits) = (IdentifierMatcher::new(request), Hits::default());
    for (what, text) in [
        ("reference", &ground.reference),
        ("legal ground", &ground.legal_ground),
        ("operator", &ground.operator),
    ] {
        if text
            .as_ref()
            .is_some_and(|text| matcher.names_somebody(text, &mut hits))
        {
            return Err(EngineError::Request(format!(
                "the {what} names somebody whom the request is about; the certificate holds no \
                 personal data"
            )));
        }
    }
    Ok(())
}

fn exclusion_counts(plan: &ErasurePlan) -> String {
    let reasons: Vec<String> = plan
        .excluded
        .iter()
        .map(|(reason, count)| format!("{reason}: {count}"))
        .collect();
    reasons.join(", ")
}

fn pool(threads: usize) -> Result<Arc<rayon::ThreadPool>> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let pool = builder
        .thread_name(|number| format!("erase-{number}"))
        .build();
    Ok(Arc::new(pool.threads()?))
}

fn begin(lake: &Lake) -> Result<Journal> {
    Ok(Journal {
        id: ulid::Ulid::generate().to_string().to_ascii_lowercase(),
        started: Utc::now().timestamp_micros(),
        before: versions(lake),
        rows_before: rows(lake)?,
        items: BTreeMap::new(),
        events: 0,
        bytes_rewritten: 0,
        bytes_copied: 0,
        people: Vec::new(),
        spellings: Vec::new(),
        keys: Vec::new(),
    })
}

fn versions(lake: &Lake) -> BTreeMap<String, u64> {
    [&lake.grains, &lake.state, &lake.rejects]
        .map(|table| (table.name().to_owned(), table.version()))
        .into()
}

fn rows(lake: &Lake) -> Result<BTreeMap<String, u64>> {
    let count = |files: Vec<crate::lake::DataFile>| files.iter().map(|file| file.rows).sum::<u64>();
    [&lake.grains, &lake.state, &lake.rejects]
        .into_iter()
        .map(|table| Ok((table.name().to_owned(), count(table.files()?))))
        .collect()
}

fn holds(proofs: &Proofs) -> bool {
    let opened = proofs.envelopes.map_or(0, |envelopes| envelopes.left);
    proofs.byte_search.is_proven()
        && proofs.survey.left == 0
        && proofs.lookup.left == 0
        && opened == 0
}

/// Segments, at most, that are being finished and published while one is written: the threads of
/// the pool get to that when they would be idle, which one is as long as the other writes the last
/// row group. So the next is begun before all that is done.
const FINISHED: usize = 3;

/// A segment that was written again.
struct ReplacedSegment {
    removed: DataFile,
    /// The file with the rows that stay, if there are any.
    added: Vec<DataFile>,
    /// The file's name, and what its rows showed.
    seen: Option<(String, Vec<RowFindings>)>,
    /// Bytes of row groups that were copied as they are.
    copied: u64,
}

/// A lake in which nothing is left.
struct SettledLake {
    /// The last survey.
    after: Survey,
    patterns: PatternSearch,
    removed: Purged,
}

struct Run<'a> {
    lake: &'a mut Lake,
    request: &'a SubjectRequest,
    order: &'a ErasureOptions,
    key: Secret,
    /// The keyed hash of the request.
    digest: String,
    journal: Journal,
    pool: Arc<rayon::ThreadPool>,
    /// What the segments that were written again showed.
    seen: ScannedSegments,
}

impl Run<'_> {
    /// Notes the spellings of the lake that the proof must look for, beside what the request names.
    fn spellings(&mut self, plan: &ErasurePlan) {
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

    /// Removes what `survey` selects from all tables, and refuses it from now on.
    async fn remove(&mut self, survey: Survey) -> Result<()> {
        let shred_plan = match self.order.destroy_keys {
            true => crypto_shred::plan(self.lake, &survey).await?,
            false => ShredPlan::default(),
        };
        self.journal.note_keys(&shred_plan);
        for found in survey.selected() {
            let by_key = shred_plan.rows.contains(&(found.segment, found.row));
            let item = JournalEntry {
                type_byte: Some(found.type_byte),
                size: found.size,
                by_key,
            };
            self.journal.items.insert(found.address.to_string(), item);
        }
        for found in survey.selected_rejects() {
            let item = JournalEntry {
                type_byte: None,
                size: 0,
                by_key: false,
            };
            self.journal
                .items
                .entry(found.address.to_string())
                .or_insert(item);
        }
        let people = survey.selected().map(|found| found.person);
        let people: HashSet<u32> = people
            .chain(survey.selected_rejects().map(|found| found.person))
            .collect();
        let known: HashSet<u32> = self.journal.people.iter().copied().collect();
        self.journal.people.extend(
            people
                .into_iter()
                .filter(|person| *person != NO_PERSON && !known.contains(person)),
        );
        self.journal
            .store(self.lake, &self.digest, &self.key)
            .await?;
        let addresses = self.journal.addresses();
        let now = Utc::now().timestamp_micros();
        self.lake
            .refuse_from_now_on(&addresses, &self.journal.id, now)
            .await?;
        self.remove_rejects(&survey).await?;
        let erased: HashSet<ContentAddress> = addresses.into_iter().collect();
        let matcher = IdentifierMatcher::new(self.request);
        let listed = sources::blank(self.lake, &matcher).await?;
        let events = state::erase(self.lake, &survey, &erased, &matcher).await? + listed;
        crypto_shred::destroy(self.lake, &self.journal.keys)?;
        let scanner = self.scanner(matcher, erased);
        let bytes = self.remove_grains(&survey, &shred_plan, scanner).await?;
        if events + bytes > 0 {
            self.journal.events += events;
            self.journal.bytes_rewritten += bytes;
            self.journal
                .store(self.lake, &self.digest, &self.key)
                .await?;
        }
        Ok(())
    }

    /// Looks at rows that are written again as the next survey would: what they show needn't be
    /// read once more. Whose consent is withdrawn is known to surveys only.
    fn scanner(
        &mut self,
        mut matcher: IdentifierMatcher,
        erased: HashSet<ContentAddress>,
    ) -> Option<Arc<RowScanner>> {
        // What was seen before didn't know of all that is erased now.
        self.seen.clear();
        matcher.add_references(erased);
        let scanner = RowScanner::new(
            Arc::new(matcher),
            self.request,
            Utc::now().timestamp_millis(),
        );
        (!self.request.withdrawn).then(|| Arc::new(scanner))
    }

    async fn remove_rejects(&mut self, survey: &Survey) -> Result<()> {
        let mut gone: BTreeMap<&str, HashSet<u32>> = BTreeMap::new();
        survey.selected_rejects().for_each(|found| {
            gone.entry(&found.file).or_default().insert(found.row);
        });
        if gone.is_empty() {
            return Ok(());
        }
        let mut change = Change::default();
        for file in self.lake.rejects.files()? {
            let Some(gone) = gone.get(&*file.name) else {
                continue;
            };
            let edit = |first, batch| drop_rows(first, &batch, |row| gone.contains(&row));
            edit_file(self.lake, &self.lake.rejects, &file, &mut change, edit).await?;
        }
        // A conflict means that somebody else removed these files; the next survey sees what is
        // left.
        match self.lake.rejects.commit(change, "erase", 0).await {
            Err(EngineError::Conflict(_)) => self.lake.rejects.refresh().await,
            committed => committed.map(drop),
        }
    }

    /// Writes the segments that hold selected rows again, all in one commit; answers the bytes that
    /// were written.
    async fn remove_grains(
        &mut self,
        survey: &Survey,
        shred_plan: &ShredPlan,
        scanner: Option<Arc<RowScanner>>,
    ) -> Result<u64> {
        let mut rows = survey.rows_by_segment();
        rows.iter_mut().for_each(|(segment, rows)| {
            rows.retain(|row| !shred_plan.rows.contains(&(*segment, *row)))
        });
        rows.retain(|_, rows| !rows.is_empty());
        if rows.is_empty() {
            return Ok(0);
        }
        let segments = rows
            .into_iter()
            .filter_map(|(number, rows)| Some((survey.segments.get(number as usize)?, rows)));
        let rewritten = stream::iter(segments)
            .map(|(segment, rows)| self.rewrite(segment, rows, scanner.clone()));
        let published: Vec<ReplacedSegment> = rewritten
            .buffered(1)
            .map(|rewritten| self.publish(rewritten))
            .buffered(FINISHED)
            .try_collect()
            .await?;
        let mut change = Change {
            changes_rows: true,
            ..Change::default()
        };
        let mut bytes = 0;
        for ReplacedSegment {
            removed,
            added,
            seen,
            copied,
        } in published
        {
            bytes += added.iter().map(|file| file.size).sum::<u64>();
            change.removed.push(removed);
            change.added.extend(added);
            self.seen.extend(seen);
            self.journal.bytes_copied += copied;
        }
        change
            .info
            .insert("erasure".to_owned(), self.journal.id.clone().into());
        // After a conflict the next survey sees what is left.
        match self.lake.grains.commit(change, "erase", 0).await {
            Err(EngineError::Conflict(_)) => self.lake.grains.refresh().await?,
            committed => drop(committed?),
        }
        Ok(bytes)
    }

    /// Writes `segment` again without `rows`.
    async fn rewrite(
        &self,
        segment: &Segment,
        rows: Vec<u32>,
        scanner: Option<Arc<RowScanner>>,
    ) -> Result<(DataFile, Option<RewrittenSegment>)> {
        let file = LakeFile::open(self.lake, &self.lake.grains.path_of(&segment.file.name)).await?;
        let (location, pool) = (self.lake.location().clone(), Arc::clone(&self.pool));
        let text = SidecarCache::of(self.lake)
            .text(self.lake.location(), segment)
            .await;
        let rewrite = move || {
            pool.install(|| without(&location, &file, text.as_ref(), &rows, scanner.as_deref()))
        };
        let rewritten = tokio::task::spawn_blocking(rewrite)
            .await
            .task("a segment")??;
        Ok((segment.file.clone(), rewritten))
    }

    /// Finishes and publishes what was written again.
    async fn publish(
        &self,
        rewritten: Result<(DataFile, Option<RewrittenSegment>)>,
    ) -> Result<ReplacedSegment> {
        let (removed, rewritten) = rewritten?;
        let Some(mut rewritten) = rewritten else {
            return Ok(ReplacedSegment {
                removed,
                added: Vec::new(),
                seen: None,
                copied: 0,
            });
        };
        let seen = rewritten
            .seen
            .take()
            .map(|seen| (rewritten.file_name(), seen));
        let copied = rewritten.copied;
        let pool = Arc::clone(&self.pool);
        let finishing = tokio::task::spawn_blocking(move || pool.install(|| rewritten.finish()));
        let segment = finishing.await.task("a segment")??;
        let mut change = Change::default();
        self.lake.publish_segment(&mut change, segment).await?;
        Ok(ReplacedSegment {
            removed,
            added: change.added,
            seen,
            copied,
        })
    }

    /// Surveys the lake again until nothing is left, then removes files for good.
    async fn settle(&mut self) -> Result<SettledLake> {
        for _ in 0..ROUNDS {
            self.lake.refresh().await?;
            let erased = self.journal.addresses();
            let now = Utc::now().timestamp_millis();
            let (seen, pool) = (std::mem::take(&mut self.seen), Arc::clone(&self.pool));
            let survey =
                Survey::with_references(self.lake, self.request, &erased, seen, now, pool).await?;
            if survey.selected().next().is_none() && survey.selected_rejects().next().is_none() {
                // Made on another thread: removing files waits for the disk.
                let patterns = self.pattern_search(&survey);
                let removed = self.lake.purge(self.order.exclusive).await?;
                let patterns = patterns.await.file("can't make", "a proof")??;
                return Ok(SettledLake {
                    after: survey,
                    patterns,
                    removed,
                });
            }
            self.remove(survey).await?;
        }
        Err(EngineError::Conflict(format!(
            "other writers brought in more {ROUNDS} times; run the erasure again"
        )))
    }

    /// What the proof looks for: all that is erased and was written again, in the spellings of the
    /// request and of the lake.
    fn pattern_search(&self, survey: &Survey) -> JoinHandle<Result<PatternSearch>> {
        let (erased, spellings) = (self.journal.rewritten(), self.journal.spellings.clone());
        let request = self.request.clone();
        let folding = request.folding;
        let too_short: HashSet<String> = survey
            .non_distinctive
            .iter()
            .map(|it| folding.folded(it))
            .collect();
        tokio::task::spawn_blocking(move || {
            let left_out = |identifier: &str| too_short.contains(&folding.folded(identifier));
            let search =
                IdentifierSearch::new(&request, left_out, spellings.iter().map(String::as_str))?;
            Ok(PatternSearch::new(&erased, search))
        })
    }

    async fn prove(&self, after: &Survey, patterns: PatternSearch) -> Result<Proofs> {
        let erased = self.journal.rewritten();
        let known = KnownAddresses::load(self.lake).await?;
        let found = erased
            .iter()
            .filter(|address| known.contains(address))
            .count();
        let survey = Remaining {
            checked: after.grains_read,
            left: after.selected().count() as u64,
        };
        let lookup = Remaining {
            checked: erased.len() as u64,
            left: found as u64,
        };
        let byte_search = byte_search::prove(
            self.lake,
            patterns,
            self.retained(after).await?,
            Arc::clone(&self.pool),
        )
        .await?;
        let envelopes = match self.journal.keys.is_empty() {
            true => None,
            false => Some(crypto_shred::prove(self.lake, &self.journal.keys).await?),
        };
        Ok(Proofs {
            byte_search,
            survey,
            lookup,
            envelopes,
        })
    }

    /// The row groups that hold rows which were found and stay, and the sidecars of their segments.
    async fn retained(&self, after: &Survey) -> Result<RetainedRows> {
        let mut retained = RetainedRows::default();
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for found in &after.grains {
            let Some(segment) = after.segments.get(found.segment as usize) else {
                continue;
            };
            let path = self.lake.grains.path_of(&segment.file.name);
            if let std::collections::btree_map::Entry::Vacant(entry) = groups.entry(found.segment) {
                entry.insert(LakeFile::open(self.lake, &path).await?.row_groups());
            }
            let sizes = groups
                .get(&found.segment)
                .map(Vec::as_slice)
                .unwrap_or_default();
            retained
                .groups
                .entry(path.to_string())
                .or_default()
                .extend(group_of(sizes, found.row));
            let mentions = retained
                .sidecars
                .entry(segment.id.folder().to_string())
                .or_default();
            *mentions |= found.reasons.contains(Reason::Related);
        }
        for found in &after.rejects {
            let path = self.lake.rejects.path_of(&found.file);
            if let std::collections::hash_map::Entry::Vacant(entry) =
                retained.groups.entry(path.to_string())
            {
                entry.insert(
                    (0..LakeFile::open(self.lake, &path).await?.row_groups().len()).collect(),
                );
            }
        }
        Ok(retained)
    }

    async fn certify(
        &self,
        after: &Survey,
        removed: Purged,
        proofs: &Proofs,
    ) -> Result<(ErasureScope, Path, String)> {
        let now = Utc::now();
        let erased = self.journal.addresses();
        let leaves = leaves(&erased, &self.key);
        let scope = self.scope(removed)?;
        let mut exceptions: BTreeMap<String, u64> = BTreeMap::new();
        let exemptions = after
            .grains
            .iter()
            .map(|found| &found.exemption)
            .chain(after.rejects.iter().map(|found| &found.exemption));
        exemptions
            .flatten()
            .for_each(|exemption| *exceptions.entry(exemption.name().to_owned()).or_default() += 1);
        let after_versions = versions(self.lake);
        let snapshots = self.journal.before.iter().map(|(table, before)| {
            let after = after_versions.get(table).copied().unwrap_or_default();
            (
                table.clone(),
                TableVersions {
                    before: *before,
                    after,
                },
            )
        });
        let instant = |micros: i64| {
            let instant = chrono::DateTime::from_timestamp_micros(micros).unwrap_or_default();
            instant.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
        };
        let certificate = Certificate {
            format: FORMAT.to_owned(),
            id: self.journal.id.clone(),
            request: self.order.ground.clone(),
            selector: self.pseudonyms()?,
            began_at: instant(self.journal.started),
            ended_at: instant(now.timestamp_micros()),
            method: self.journal.method(),
            keys_destroyed: self
                .journal
                .keys
                .iter()
                .map(|(id, generation)| format!("{id}/{generation}"))
                .collect(),
            scope: scope.clone(),
            exceptions,
            unsearchable: after.unsearchable,
            snapshots: snapshots.collect(),
            proofs: proofs.clone(),
            merkle: tree(&leaves),
            reminder: match self.journal.keys.is_empty() {
                true => REMINDER.to_owned(),
                false => format!("{REMINDER}{KEY_REMINDER}"),
            },
        };
        let key = self.order.keyring.signing_key(&self.order.signing_key)?;
        let signed = certificate.sign(&key, now.timestamp_micros())?;
        let path = Path::from(format!("{ERASURES}/{}.cose", self.journal.id));
        let store = self.lake.location().store();
        let leaves_path = Path::from(format!("{ERASURES}/{}.leaves", self.journal.id));
        store
            .put(&leaves_path, PutPayload::from(leaves.concat()))
            .await
            .file("can't write", &leaves_path)?;
        let tombstones = self.lake.tombstones_of(&erased).await?;
        let tombstones_path = tombstones_path(&self.journal.id);
        let copy = PutPayload::from(tombstones_to_bytes(tombstones));
        store
            .put(&tombstones_path, copy)
            .await
            .file("can't write", &tombstones_path)?;
        store
            .put(&path, PutPayload::from(signed))
            .await
            .file("can't write", &path)?;
        let signer = gristmill_schemas::sign::did_of_key(&key.verifying_key());
        Ok((scope, path, signer))
    }

    fn scope(&self, removed: Purged) -> Result<ErasureScope> {
        let mut scope = ErasureScope {
            events: self.journal.events,
            people: self.journal.people.len() as u64,
            rows_before: self.journal.rows_before.clone(),
            rows_after: rows(self.lake)?,
            bytes_rewritten: self.journal.bytes_rewritten,
            bytes_copied: self.journal.bytes_copied,
            files_removed: removed.files,
            ..ErasureScope::default()
        };
        for item in self.journal.items.values() {
            match item.type_byte {
                Some(byte) => {
                    scope.grains += 1;
                    scope.bytes += u64::from(item.size);
                    *scope.grains_by_type.entry(type_name(byte)).or_default() += 1;
                }
                None => scope.rejects += 1,
            }
        }
        Ok(scope)
    }

    fn pseudonyms(&self) -> Result<Pseudonyms> {
        let people = &self.request.people;
        let pseudonym = |person: &Person| -> Result<String> {
            let whole = serde_json::to_vec(&(&person.identifiers, &person.sessions))
                .file("can't write", "a pseudonym")?;
            Ok(keyed_hash(&self.key, &whole))
        };
        let listed = if people.len() <= PSEUDONYMS_LISTED {
            people.as_slice()
        } else {
            &[]
        };
        let pseudonyms = listed.iter().map(pseudonym).collect::<Result<_>>()?;
        Ok(Pseudonyms {
            people: people.len(),
            request: self.digest.clone(),
            pseudonyms,
        })
    }

    /// Writes the audit entry, if it isn't there yet, and removes the journal.
    async fn finish(
        &mut self,
        scope: &ErasureScope,
        proofs: &Proofs,
        certificate: &Path,
    ) -> Result<()> {
        let id = &self.journal.id;
        let recorded = self.lake.has_recorded("erase", "id", id).await?;
        if !recorded {
            let digest = async |path: &Path| {
                Ok::<_, EngineError>(FileDigest::of(&self.lake.location().read(path).await?))
            };
            let leaves = Path::from(format!("{ERASURES}/{id}.leaves"));
            let details = serde_json::json!({
                "id": id,
                "request": self.digest,
                "people": self.request.people.len(),
                "grains": scope.grains,
                "rejects": scope.rejects,
                "events": scope.events,
                "proven": holds(proofs),
                "keys_destroyed": self.journal.keys.len(),
                "certificate_blake3": digest(certificate).await?,
                "leaves_blake3": digest(&leaves).await?,
                "tombstones_blake3": digest(&tombstones_path(id)).await?,
                "version": self.lake.grains.version(),
            });
            self.lake.record("erase", details).await?;
        }
        Journal::remove(self.lake, &self.digest).await
    }
}

/// The row group that holds `row`.
fn group_of(sizes: &[usize], row: u32) -> Option<usize> {
    let mut end = 0;
    sizes.iter().position(|size| {
        end += size;
        (row as usize) < end
    })
}
