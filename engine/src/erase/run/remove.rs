//! Removes the selected rows from every table, and refuses their addresses from now on.
//!
//! The order of the writes makes an interrupted erasure resumable: journal, tombstones, `rejects`,
//! `sources`, `state`, keys, and `grains` last. A commit that conflicts with another writer's is
//! not an error: the next survey finds the rows that are left.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::Utc;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_schemas::address::ContentAddress;
use tokio::sync::Semaphore;

use super::Run;
use crate::erase::crypto_shred::{self, ShredPlan};
use crate::erase::journal::{EventNotes, JournalEntry};
use crate::erase::matcher::{IdentifierMatcher, NO_PERSON};
use crate::erase::reason::Exemption;
use crate::erase::rewrite::{RewrittenSegment, rewrite_without};
use crate::erase::row_findings::{RowFindings, RowScanner};
use crate::erase::survey::{FoundGrain, Survey};
use crate::erase::{sources, state};
use crate::error::{Context, EngineError, Result};
use crate::index::SidecarCache;
use crate::index::vectors::{MovedRow, ReplacedVectors, files_of, vectors_without};
use crate::lake::{Change, DataFile, LakeFile, Segment, drop_rows, edit_file};
use crate::segment::SegmentId;

/// Maximal number of segments that are finished and published while the next one is rewritten.
/// Pool threads finish a segment when they would otherwise idle, which one thread may not do for as
/// long as the other writes the last row group; so the next segment begins before all are finished.
const MAX_FINISHING: usize = 3;

/// A segment whose rows were rewritten, with the vectors of the rows that stay.
struct RewrittenFile {
    removed: DataFile,
    rewritten: Option<RewrittenSegment>,
    vectors: Option<(ReplacedVectors, Vec<MovedRow>)>,
}

/// A segment that was rewritten.
struct ReplacedSegment {
    removed: DataFile,
    /// The file with the remaining rows, if there are any.
    added: Vec<DataFile>,
    /// Name of the new file, and the findings in its rows.
    findings: Option<(String, Vec<RowFindings>)>,
    /// Bytes of row groups that were copied unchanged.
    copied: u64,
}

impl ReplacedSegment {
    /// Returns the replacement of a segment of which no row remains.
    fn without_rest(removed: DataFile) -> ReplacedSegment {
        ReplacedSegment {
            removed,
            added: Vec::new(),
            findings: None,
            copied: 0,
        }
    }
}

/// Adds those of `people` to `known` that aren't in it.
fn add_people(known: &mut Vec<u32>, people: impl Iterator<Item = u32>) {
    let before: HashSet<u32> = known.iter().copied().collect();
    let is_new = |person: &u32| *person != NO_PERSON && !before.contains(person);
    let added: HashSet<u32> = people.filter(is_new).collect();
    known.extend(added);
}

impl Run<'_> {
    /// Removes everything that `survey` selects from all tables.
    pub(super) async fn remove(&mut self, survey: Survey) -> Result<()> {
        let shred_plan = match self.options.destroy_keys {
            true => crypto_shred::plan(self.lake, &survey).await?,
            false => ShredPlan::default(),
        };
        self.drop_held(&survey);
        self.drop_usable_keys();
        self.journal.note_keys(&shred_plan);
        self.note_selected(&survey, &shred_plan);
        self.store_journal().await?;
        let addresses = self.journal.addresses();
        let now = Utc::now().timestamp_micros();
        self.lake
            .add_tombstones(&addresses, &self.journal.id, now)
            .await?;
        self.remove_rejects(&survey).await?;
        let erased: HashSet<ContentAddress> = addresses.into_iter().collect();
        let matcher = IdentifierMatcher::new(self.request);
        self.remove_events(&survey, &erased, &matcher).await?;
        crypto_shred::destroy(self.lake, &self.journal.keys)?;
        let scanner = self.rewrite_scanner(matcher, erased).await?;
        self.remove_grains(&survey, &shred_plan, scanner).await?;
        match self.journal.settle_events() {
            true => self.store_journal().await,
            false => Ok(()),
        }
    }

    /// Blanks the people in `sources`, and removes and blanks events of `state`. The events count
    /// as planned until the journal settles them.
    pub(super) async fn remove_events(
        &mut self,
        survey: &Survey,
        erased: &HashSet<ContentAddress>,
        matcher: &IdentifierMatcher,
    ) -> Result<()> {
        let mut notes = EventNotes {
            journal: &mut self.journal,
            file: &mut self.journal_file,
            key: &self.key,
        };
        sources::blank(self.lake, matcher, &mut notes).await?;
        state::erase(self.lake, survey, erased, matcher, &mut notes).await
    }

    /// Writes the journal.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] if another process has taken it over; errors of the store.
    pub(super) async fn store_journal(&mut self) -> Result<()> {
        let (lake, journal) = (&*self.lake, &self.journal);
        self.journal_file.store(lake, journal, &self.key).await
    }

    /// Drops grains from the journal that have to stay by now: a hold may have been placed on them
    /// after an interrupted run had noted them, and before it refused them from then on. People of
    /// whom nothing else is erased are dropped with them.
    fn drop_held(&mut self, survey: &Survey) {
        let is_held = |found: &&FoundGrain| matches!(found.exemption, Some(Exemption::Hold { .. }));
        let journal = &mut self.journal;
        let held = survey.grains.iter().filter(is_held);
        let dropped = held.filter_map(|found| journal.items.remove(&found.address.to_string()));
        let dropped: HashSet<u32> = dropped.filter_map(|item| item.person).collect();
        let left = journal.items.values().filter_map(|item| item.person);
        let left: HashSet<u32> = left
            .chain(journal.people_of_rejects.iter().copied())
            .collect();
        let stays = |person: &u32| left.contains(person) || !dropped.contains(person);
        journal.people.retain(stays);
    }

    /// Drops keys from the journal that an interrupted run noted and didn't destroy: grains that
    /// are sealed with them may have to stay by now. The plan of this run has those that may be
    /// destroyed.
    fn drop_usable_keys(&mut self) {
        let Some(lake_keys) = self.lake.keys() else {
            return;
        };
        let usable = lake_keys.usable().into_iter();
        let usable: HashSet<(String, u32)> = usable
            .map(|(id, generation)| (id.to_string(), generation))
            .collect();
        self.journal.keys.retain(|key| !usable.contains(key));
    }

    /// Adds the selected grains, rejects and people to the journal.
    pub(super) fn note_selected(&mut self, survey: &Survey, shred_plan: &ShredPlan) {
        for found in survey.selected() {
            let entry = JournalEntry {
                type_byte: Some(found.type_byte),
                size: found.size,
                by_key: shred_plan.rows.contains(&(found.segment, found.row)),
                person: Some(found.person).filter(|person| *person != NO_PERSON),
            };
            self.journal.items.insert(found.address.to_string(), entry);
        }
        let mut rejects: BTreeMap<String, u64> = BTreeMap::new();
        for found in survey.selected_rejects() {
            let entry = JournalEntry {
                type_byte: None,
                size: 0,
                by_key: false,
                person: None,
            };
            let address = found.address.to_string();
            *rejects.entry(address.clone()).or_default() += 1;
            if found.is_found_in_bytes {
                self.journal.items.entry(address).or_insert(entry);
            }
        }
        for (address, count) in rejects {
            // A run that resumes finds those again that weren't removed.
            let noted = self.journal.rejects.entry(address).or_default();
            *noted = count.max(*noted);
        }
        let of_rejects: Vec<u32> = survey
            .selected_rejects()
            .map(|found| found.person)
            .collect();
        let of_grains = survey.selected().map(|found| found.person);
        let journal = &mut self.journal;
        add_people(&mut journal.people_of_rejects, of_rejects.iter().copied());
        add_people(&mut journal.people, of_grains.chain(of_rejects));
    }

    /// Returns a scanner that finds in rewritten rows what the next survey would find, so that the
    /// survey needn't read them. `None` if the request selects by withdrawn consents, which only a
    /// survey of the whole lake can find, or by retention, for which whole payloads are needed.
    async fn rewrite_scanner(
        &mut self,
        mut matcher: IdentifierMatcher,
        erased: HashSet<ContentAddress>,
    ) -> Result<Option<Arc<RowScanner>>> {
        // Earlier findings don't cover references to the addresses that are erased now.
        self.scanned.clear();
        matcher.add_references(erased);
        let now = Utc::now().timestamp_millis();
        let holds = Arc::new(self.lake.holds().await?);
        let scanner = RowScanner::new(Arc::new(matcher), self.request, now, holds);
        let sees_all = !self.request.withdrawn && self.request.retention.is_none();
        Ok(sees_all.then(|| Arc::new(scanner)))
    }

    async fn remove_rejects(&mut self, survey: &Survey) -> Result<()> {
        let mut selected: BTreeMap<&str, HashSet<u32>> = BTreeMap::new();
        survey.selected_rejects().for_each(|found| {
            selected.entry(&found.file).or_default().insert(found.row);
        });
        if selected.is_empty() {
            return Ok(());
        }
        let mut change = Change::default();
        for file in self.lake.rejects.files()? {
            let Some(rows) = selected.get(&*file.name) else {
                continue;
            };
            let edit = |first, batch| drop_rows(first, &batch, |row| rows.contains(&row));
            edit_file(self.lake, &self.lake.rejects, &file, &mut change, edit).await?;
        }
        // On a conflict, another process removed these files; the next survey finds what is left.
        match self.lake.rejects.commit(change, "erase", 0).await {
            Err(EngineError::Conflict(_)) => self.lake.rejects.refresh().await,
            committed => committed.map(drop),
        }
    }

    /// Rewrites the segments that contain selected rows, except rows of `shred_plan`, and replaces
    /// them in one commit.
    async fn remove_grains(
        &mut self,
        survey: &Survey,
        shred_plan: &ShredPlan,
        scanner: Option<Arc<RowScanner>>,
    ) -> Result<()> {
        let mut rows = survey.rows_by_segment();
        rows.iter_mut().for_each(|(segment, rows)| {
            rows.retain(|row| !shred_plan.rows.contains(&(*segment, *row)))
        });
        rows.retain(|_, rows| !rows.is_empty());
        if rows.is_empty() {
            return Ok(());
        }
        let segments = rows
            .into_iter()
            .filter_map(|(number, rows)| Some((survey.segments.get(number as usize)?, rows)));
        let files = files_of(self.lake).await?;
        let files = &files;
        // The vectors of one segment at a time are in memory.
        let building = Semaphore::new(1);
        let building = &building;
        let rewritten = stream::iter(segments)
            .map(|(segment, rows)| self.rewrite(segment, rows, files, scanner.clone()));
        let replaced: Vec<ReplacedSegment> = rewritten
            .buffered(1)
            .map(|rewritten| self.publish(rewritten, building))
            .buffered(MAX_FINISHING)
            .try_collect()
            .await?;
        self.commit_segments(replaced).await
    }

    /// Adds the replacement of a segment to `change`, and its numbers to the run's.
    fn replace(&mut self, segment: ReplacedSegment, change: &mut Change) {
        change.removed.push(segment.removed);
        change.added.extend(segment.added);
        self.scanned.extend(segment.findings);
        self.journal.bytes_copied += segment.copied;
    }

    /// Commits the replacement of segments to `grains`. Their bytes are in the journal before.
    async fn commit_segments(&mut self, replaced: Vec<ReplacedSegment>) -> Result<()> {
        let mut change = Change {
            changes_rows: true,
            ..Change::default()
        };
        for segment in replaced {
            let bytes: u64 = segment.added.iter().map(|file| file.size).sum();
            self.journal.bytes_rewritten += bytes;
            self.replace(segment, &mut change);
        }
        self.store_journal().await?;
        let id = self.journal.id.clone();
        change.info.insert("erasure".to_owned(), id.into());
        // After a conflict, the next survey finds the rows that are left.
        match self.lake.grains.commit(change, "erase", 0).await {
            Err(EngineError::Conflict(_)) => self.lake.grains.refresh().await,
            committed => committed.map(drop),
        }
    }

    /// Rewrites `segment` without `rows`.
    async fn rewrite(
        &self,
        segment: &Segment,
        rows: Vec<u32>,
        vectors: &HashMap<SegmentId, Vec<String>>,
        scanner: Option<Arc<RowScanner>>,
    ) -> Result<RewrittenFile> {
        let lake = &*self.lake;
        let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
        let location = lake.location().clone();
        let pool = Arc::clone(&self.pool);
        let sidecars = SidecarCache::of(lake);
        sidecars.confirm(&location, segment).await?;
        let text = sidecars.text(&location, segment).await;
        let vectors = vectors_without(lake, segment, vectors, &rows).await?;
        let rewrite = move || {
            pool.install(|| {
                rewrite_without(&location, &file, text.as_ref(), &rows, scanner.as_deref())
            })
        };
        let rewritten = tokio::task::spawn_blocking(rewrite)
            .await
            .task("a segment")??;
        Ok(RewrittenFile {
            removed: segment.file.clone(),
            rewritten,
            vectors,
        })
    }

    /// Finishes a rewritten segment and publishes its files; no commit references them yet.
    async fn publish(
        &self,
        rewritten: Result<RewrittenFile>,
        building: &Semaphore,
    ) -> Result<ReplacedSegment> {
        let RewrittenFile {
            removed,
            rewritten,
            vectors,
        } = rewritten?;
        let Some(mut rewritten) = rewritten else {
            return Ok(ReplacedSegment::without_rest(removed));
        };
        let findings = rewritten.findings.take();
        let findings = findings.map(|findings| (rewritten.file_name(), findings));
        let copied = rewritten.copied;
        let pool = Arc::clone(&self.pool);
        let finishing = tokio::task::spawn_blocking(move || pool.install(|| rewritten.finish()));
        let mut segment = finishing.await.task("a segment")??;
        if let Some((vectors, moved)) = vectors {
            let _building = building.acquire().await.task("a segment")?;
            let (pool, rows) = (Arc::clone(&self.pool), segment.file.rows);
            let build = move || pool.install(|| vectors.files(&[moved], rows));
            let files = tokio::task::spawn_blocking(build).await;
            segment.sidecars.extend(files.task("a segment")?);
        }
        let mut change = Change {
            removed: vec![removed.clone()],
            ..Change::default()
        };
        self.lake.publish_segment(&mut change, segment).await?;
        Ok(ReplacedSegment {
            removed,
            added: change.added,
            findings,
            copied,
        })
    }
}
