//! The survey: every grain and every refused part of a lake that a request is about, with why, and
//! whether it may go.
//!
//! Disclosure and erasure both begin here, so that they can't differ. Memory is bounded by what is
//! found, not by the lake: a segment is read a batch at a time, and one whose word filter tells
//! that it holds nothing of what is looked for isn't read. Only where a hold protects a
//! supersession chain, the lake's supersessions are held: 64 bytes and more for each. The steps:
//!
//! 1. every blob is decoded and matched; the sessions of the people and the protections that reach
//!    other grains are noted;
//! 2. sessions that belong to a person alone bring in their other grains;
//! 3. links bring in what was derived from, or refers to, what was found;
//! 4. protections that reach derived grains or the supersession chain are applied;
//! 5. refused input is decoded and matched.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::TypeByte;
use rustc_hash::FxBuildHasher;

use super::matcher::{IdentifierMatcher, NO_PERSON, PersonNumber};
use super::payload_prefilter::PayloadPrefilter;
use super::reason::{Exemption, ExemptionRules, Reason, Reasons};
use super::rejects::RejectScanner;
use super::request::{SelectionOptions, SubjectRequest};
use super::row_findings::{RowFindings, RowScanner, ScanMode, ScannedColumns, SessionKey};
use super::sessions::{MEMBER_COLUMNS, SessionMember, SubjectSessions, members};
use super::variations::Variations;
use super::withdrawn::{CONSENT_COLUMNS, consents, withdrawals};
use crate::error::{Context, Result};
use crate::index::SidecarCache;
use crate::index::word_filter::WordFilter;
use crate::lake::{Lake, LakeFile, Link, Segment, address_at, link_columns, links, text_at, texts};
use crate::policy::{HOPS, may_withdraw};

/// A grain that was found.
#[derive(Debug, Clone)]
pub struct FoundGrain {
    /// Its name.
    pub address: ContentAddress,
    /// The number of its segment in [`Survey::segments`].
    pub segment: u32,
    /// Its row there.
    pub row: u32,
    /// The first of the people that it is of.
    pub person: PersonNumber,
    /// Why it was found.
    pub reasons: Reasons,
    /// The classes of variation by which it was found.
    pub variations: Variations,
    /// Why it stays; `None` if it is to be erased.
    pub exemption: Option<Exemption>,
    /// The type byte of its header.
    pub type_byte: u8,
    /// Bytes of its blob.
    pub size: u32,
}

/// A refused part of a source that was found.
#[derive(Debug, Clone)]
pub struct FoundReject {
    /// The data file of `rejects`.
    pub file: String,
    /// Its row there.
    pub row: u32,
    /// The first of the people that it is of.
    pub person: PersonNumber,
    /// Why it was found.
    pub reasons: Reasons,
    /// The classes of variation by which it was found.
    pub variations: Variations,
    /// Why it stays.
    pub exemption: Option<Exemption>,
    /// The SHA-256 of its bytes: the address that it would have as a grain.
    pub address: ContentAddress,
}

/// What a request is about.
#[derive(Debug, Default)]
pub struct Survey {
    /// The segments that were looked at, in the order of their names.
    pub segments: Vec<Segment>,
    /// The grains that were found, by segment and row.
    pub grains: Vec<FoundGrain>,
    /// The refused parts that were found.
    pub rejects: Vec<FoundReject>,
    /// Values that equal an identifier, as they are written, and how often.
    pub spellings: BTreeMap<String, u64>,
    /// Grains that were read.
    pub grains_read: u64,
    /// Bytes of the segments that were read.
    pub bytes_read: u64,
    /// Segments that were read.
    pub segments_read: u64,
    /// Segments whose word filters tell that they hold nothing of what is looked for.
    pub segments_skipped: u64,
    /// Encrypted or undecodable grains: nobody can tell whom they are about.
    pub unsearchable: u64,
    /// Identifiers that are too short or plain to be looked for in text, as they were given.
    pub non_distinctive: Vec<String>,
    /// The classes of variation that were searched for.
    pub variations: Variations,
}

/// What whole segments showed to those who had their rows at hand, by the names of their files.
pub(super) type ScannedSegments = HashMap<String, Vec<RowFindings>>;

/// Different spellings that are kept.
const SPELLINGS: usize = 10_000;

type RowId = (u32, u32);
type Map<K, V> = HashMap<K, V, FxBuildHasher>;

impl Survey {
    /// Surveys `lake`, at the versions that its tables see.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if a segment can't be read.
    pub async fn of(
        lake: &Lake,
        request: &SubjectRequest,
        now: i64,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Survey> {
        Survey::with_references(lake, request, &[], ScannedSegments::default(), now, pool).await
    }

    /// [`Survey::of`], which also reports every grain that mentions one of `references` anywhere.
    /// Segments in `seen` aren't read for what they show by themselves.
    pub(super) async fn with_references(
        lake: &Lake,
        request: &SubjectRequest,
        references: &[ContentAddress],
        seen: ScannedSegments,
        now: i64,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Survey> {
        let mut matcher = IdentifierMatcher::new(request);
        matcher.add_references(references.iter().copied());
        let mut surveyor = SurveyRun {
            lake,
            request,
            references,
            matcher: Arc::new(matcher),
            prefilter: None,
            now,
            pool,
            seen,
            filters: Vec::new(),
            found: Map::default(),
            survey: Survey {
                segments: lake.segments()?,
                ..Survey::default()
            },
        };
        surveyor.run().await?;
        Ok(surveyor.survey)
    }

    /// The grains that are to be erased.
    pub fn selected(&self) -> impl Iterator<Item = &FoundGrain> {
        self.grains.iter().filter(|found| found.exemption.is_none())
    }

    /// The refused parts that are to be erased.
    pub fn selected_rejects(&self) -> impl Iterator<Item = &FoundReject> {
        self.rejects
            .iter()
            .filter(|found| found.exemption.is_none())
    }

    /// The rows to be erased of each segment that has any, ascending.
    pub fn rows_by_segment(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        self.selected()
            .for_each(|found| rows.entry(found.segment).or_default().push(found.row));
        rows.values_mut().for_each(|rows| rows.sort_unstable());
        rows
    }
}

struct SurveyRun<'a> {
    lake: &'a Lake,
    request: &'a SubjectRequest,
    references: &'a [ContentAddress],
    matcher: Arc<IdentifierMatcher>,
    prefilter: Option<Arc<PayloadPrefilter>>,
    now: i64,
    pool: Arc<rayon::ThreadPool>,
    seen: ScannedSegments,
    /// The word filters of the segments, where there are any.
    filters: Vec<Option<Arc<WordFilter>>>,
    found: Map<RowId, FoundGrain>,
    survey: Survey,
}

impl SurveyRun<'_> {
    async fn run(&mut self) -> Result<()> {
        for segment in &self.survey.segments {
            self.filters.push(
                SidecarCache::of(self.lake)
                    .words(self.lake.location(), segment)
                    .await,
            );
        }
        if self.request.withdrawn {
            let withdrawn = self.withdrawn_consents().await?;
            let mut matcher = IdentifierMatcher::new(self.request);
            matcher.add_withdrawn(withdrawn, (self.now / 1000).max(0) as u64);
            matcher.add_references(self.references.iter().copied());
            self.matcher = Arc::new(matcher);
        }
        self.prefilter = self.matcher.prefilter().map(Arc::new);
        self.survey.variations = self.request.searched();
        self.survey.non_distinctive = self
            .matcher
            .non_distinctive()
            .map(|(text, _)| text.to_owned())
            .collect();
        let mut sessions = SubjectSessions::default();
        let mut protecting = Vec::new();
        for number in 0..self.survey.segments.len() {
            for findings in self.findings(number).await? {
                self.survey.grains_read += findings.grains;
                self.survey.unsearchable += findings.unsearchable;
                for spelling in findings.spellings {
                    if self.survey.spellings.len() < SPELLINGS
                        || self.survey.spellings.contains_key(&spelling)
                    {
                        *self.survey.spellings.entry(spelling).or_default() += 1;
                    }
                }
                self.found.extend(
                    findings
                        .found
                        .into_iter()
                        .map(|found| ((found.segment, found.row), found)),
                );
                for (session, person) in findings.sessions {
                    let known = sessions.entry(session.id.clone()).or_default();
                    if known.iter().all(|(known, _)| *known != session) {
                        known.push((session, person));
                    }
                }
                protecting.extend(findings.protecting);
            }
        }
        self.follow_sessions(&sessions).await?;
        self.decide();
        self.follow_links().await?;
        self.apply_protections(protecting).await?;
        self.survey.grains = std::mem::take(&mut self.found).into_values().collect();
        self.survey
            .grains
            .sort_unstable_by_key(|found| (found.segment, found.row));
        self.survey.rejects = self.look_at_rejects().await?;
        Ok(())
    }

    async fn open(&self, number: usize) -> Result<Option<LakeFile>> {
        let Some(segment) = self.survey.segments.get(number) else {
            return Ok(None);
        };
        LakeFile::open(self.lake, &self.lake.grains.path_of(&segment.file.name))
            .await
            .map(Some)
    }

    /// True if the word filter of segment `number` tells that `may` holds for none of its grains.
    fn rules_out(&self, number: usize, may: impl Fn(&WordFilter) -> bool) -> bool {
        self.filters
            .get(number)
            .and_then(Option::as_deref)
            .is_some_and(|filter| !may(filter))
    }

    /// Runs `job` on the threads of the survey.
    async fn on_cores<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let pool = Arc::clone(&self.pool);
        tokio::task::spawn_blocking(move || pool.install(job))
            .await
            .task("a survey")?
    }

    /// An scanner of all rows of segment `number`, in whose word filter stands what kinds of rows
    /// it has.
    fn scanner_of(&self, number: usize) -> RowScanner {
        let filter = self.filters.get(number).and_then(Option::as_deref);
        let is_plain =
            filter.is_some_and(|filter| filter.undecodable() == 0 && !filter.reaches_others());
        match self.prefilter.as_ref().filter(|_| is_plain) {
            Some(prefilter) => self.scanner().with_prefilter(prefilter),
            None => self.scanner(),
        }
    }

    fn scanner(&self) -> RowScanner {
        RowScanner::new(Arc::clone(&self.matcher), self.request, self.now)
    }

    async fn findings(&mut self, number: usize) -> Result<Vec<RowFindings>> {
        let segment = self.survey.segments.get(number);
        if let Some(mut seen) = segment.and_then(|segment| self.seen.remove(&segment.file.name)) {
            self.survey.segments_read += 1;
            let found = seen.iter_mut().flat_map(|findings| &mut findings.found);
            found.for_each(|found| found.segment = number as u32);
            return Ok(seen);
        }
        if self.rules_out(number, |filter| {
            filter.reaches_others() || self.matcher.may_find(filter)
        }) {
            self.survey.segments_skipped += 1;
            let filter = self.filters.get(number).and_then(Option::as_deref);
            self.survey.unsearchable += filter.map_or(0, WordFilter::undecodable);
            return Ok(Vec::new());
        }
        let Some(file) = self.open(number).await? else {
            return Ok(Vec::new());
        };
        self.survey.bytes_read += file.size();
        self.survey.segments_read += 1;
        let scanner = self.scanner_of(number);
        self.on_cores(move || {
            file.map_batches(Some(&ScannedColumns::COLUMNS), |first, batch| {
                Ok(scanner.scan_batch(
                    number as u32,
                    (first..).zip(0..batch.num_rows()),
                    batch,
                    ScanMode::Full,
                ))
            })
        })
        .await
    }

    /// Grains of sessions in which a person is the data subject and that name no data subject
    /// themselves.
    async fn follow_sessions(&mut self, sessions: &SubjectSessions) -> Result<()> {
        if sessions.is_empty() {
            return Ok(());
        }
        let sessions = Arc::new(sessions.clone());
        let mut shared: HashSet<SessionKey> = HashSet::new();
        let mut candidates: Vec<(RowId, SessionMember)> = Vec::new();
        for number in 0..self.survey.segments.len() {
            if self.rules_out(number, |filter| {
                sessions.keys().any(|session| filter.may_hold(session))
            }) {
                continue;
            }
            let Some(file) = self.open(number).await? else {
                continue;
            };
            let (sessions, matcher) = (Arc::clone(&sessions), Arc::clone(&self.matcher));
            let findings = self
                .on_cores(move || {
                    file.map_batches(Some(&MEMBER_COLUMNS), |first, batch| {
                        Ok(members(first, batch, &sessions, &matcher))
                    })
                })
                .await?;
            for (others, unnamed) in findings {
                shared.extend(others);
                candidates.extend(
                    unnamed
                        .into_iter()
                        .map(|member| ((number as u32, member.row), member)),
                );
            }
        }
        let mut wanted: Map<RowId, (PersonNumber, Reason)> = Map::default();
        for (place, member) in candidates {
            let is_shared = member.of_somebody_else || shared.contains(&member.session);
            let reason = if is_shared {
                Reason::SharedSession
            } else {
                Reason::OwnSession
            };
            // A session or a run of the person alone is enough, whatever else the grain is part of.
            let known = wanted.entry(place).or_insert((member.person, reason));
            if reason == Reason::OwnSession {
                *known = (member.person, reason);
            }
        }
        self.bring_in(wanted).await.map(|_| ())
    }

    /// Adds rows that were found by something else than their own content; answers the addresses of
    /// those that are new.
    async fn bring_in(
        &mut self,
        wanted: Map<RowId, (PersonNumber, Reason)>,
    ) -> Result<Vec<ContentAddress>> {
        let mut unread: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (place, (_, reason)) in &wanted {
            match self.found.get_mut(place) {
                Some(found) => found.reasons.insert(*reason),
                None => unread.entry(place.0).or_default().push(place.1),
            }
        }
        let mut fresh = Vec::new();
        for (number, mut rows) in unread {
            rows.sort_unstable();
            let Some(file) = self.open(number as usize).await? else {
                continue;
            };
            let scanner = self.scanner();
            let findings = self
                .on_cores(move || {
                    let mut places = rows.iter().copied();
                    let batches = file.read_rows(&ScannedColumns::COLUMNS, &rows)?;
                    let mut out = Vec::new();
                    for batch in &batches {
                        let rows: Vec<u32> = places.by_ref().take(batch.num_rows()).collect();
                        let rows = rows.into_iter().zip(0..batch.num_rows());
                        out.push(scanner.scan_batch(number, rows, batch, ScanMode::Always));
                    }
                    Ok(out)
                })
                .await?;
            for mut found in findings.into_iter().flat_map(|findings| findings.found) {
                let place = (found.segment, found.row);
                if let Some((person, reason)) = wanted.get(&place) {
                    found.person = *person;
                    found.reasons.insert(*reason);
                }
                fresh.push(found.address);
                self.found.insert(place, found);
            }
        }
        self.decide();
        Ok(fresh)
    }

    /// Bars what was found only for reasons that the request doesn't select by.
    fn decide(&mut self) {
        let extent = self.request.extent;
        for found in self.found.values_mut() {
            let selected = selects(found.reasons, extent);
            match &found.exemption {
                None if !selected => found.exemption = Some(Exemption::NotSelected),
                Some(Exemption::NotSelected) if selected => found.exemption = None,
                _ => {}
            }
        }
    }

    /// Follows links to what was found, derivations as far as they go.
    async fn follow_links(&mut self) -> Result<()> {
        let is_root = |found: &&FoundGrain| selects(found.reasons, self.request.extent);
        let mut frontier: Map<ContentAddress, PersonNumber> = self
            .found
            .values()
            .filter(is_root)
            .map(|found| (found.address, found.person))
            .collect();
        let mut seen: HashSet<ContentAddress> = frontier.keys().copied().collect();
        let mut direct = true;
        while !frontier.is_empty() {
            let targets = Arc::new(std::mem::take(&mut frontier));
            let with_references = direct || self.request.extent.related;
            direct = false;
            let mut wanted: Map<RowId, (PersonNumber, Reason)> = Map::default();
            for (place, link, target) in self.referrers(&targets).await? {
                let person = targets.get(&target).copied().unwrap_or(NO_PERSON);
                match link {
                    Link::DerivedFrom | Link::Source => {
                        wanted.insert(place, (person, Reason::Derived));
                    }
                    Link::Reference if with_references => {
                        wanted.entry(place).or_insert((person, Reason::Related));
                    }
                    Link::Reference => {}
                }
            }
            let derived: HashSet<RowId> = wanted
                .iter()
                .filter(|(_, (_, reason))| *reason == Reason::Derived)
                .map(|(place, _)| *place)
                .collect();
            self.bring_in(wanted).await?;
            for (place, found) in &self.found {
                let goes_on = derived.contains(place)
                    || self.request.extent.related && found.reasons.contains(Reason::Related);
                if goes_on && seen.insert(found.address) {
                    frontier.insert(found.address, found.person);
                }
            }
        }
        Ok(())
    }

    /// The rows that link to one of `targets`.
    async fn referrers(
        &self,
        targets: &Arc<Map<ContentAddress, PersonNumber>>,
    ) -> Result<Vec<(RowId, Link, ContentAddress)>> {
        let mut out = Vec::new();
        for number in 0..self.survey.segments.len() {
            if self.rules_out(number, |filter| {
                targets
                    .keys()
                    .any(|target| filter.may_hold(&target.to_string()))
            }) {
                continue;
            }
            let Some(file) = self.open(number).await? else {
                continue;
            };
            let targets = Arc::clone(targets);
            let batches = self
                .on_cores(move || {
                    file.map_batches(Some(&link_columns()), |first, batch| {
                        let mut hits = Vec::new();
                        links(batch, |row, link, target| {
                            if targets.contains_key(&target) {
                                hits.push((first + row as u32, link, target));
                            }
                        });
                        Ok(hits)
                    })
                })
                .await?;
            let hits = batches.into_iter().flatten();
            out.extend(hits.map(|(row, link, target)| ((number as u32, row), link, target)));
        }
        Ok(out)
    }

    /// Bars grains that a hold of another grain reaches: down its derivations, or along its
    /// supersession chain.
    async fn apply_protections(
        &mut self,
        protecting: Vec<(ContentAddress, bool, bool)>,
    ) -> Result<()> {
        if protecting.is_empty() || self.found.is_empty() {
            return Ok(());
        }
        let with =
            |pick: fn(&(ContentAddress, bool, bool)) -> bool| -> Map<ContentAddress, PersonNumber> {
                protecting
                    .iter()
                    .filter(|root| pick(root))
                    .map(|root| (root.0, NO_PERSON))
                    .collect()
            };
        let mut protected: HashSet<ContentAddress> = HashSet::new();
        let mut frontier = with(|root| root.1);
        for _ in 0..HOPS {
            if frontier.is_empty() {
                break;
            }
            let targets = Arc::new(std::mem::take(&mut frontier));
            let rows = self.referrers(&targets).await?;
            let rows = rows
                .into_iter()
                .filter(|(_, link, _)| *link == Link::DerivedFrom)
                .map(|(place, ..)| place);
            for address in self.addresses_of(rows.collect()).await? {
                if protected.insert(address) {
                    frontier.insert(address, NO_PERSON);
                }
            }
        }
        let mut chain: HashSet<ContentAddress> = with(|root| root.2).into_keys().collect();
        if !chain.is_empty() {
            let mut linked: Map<ContentAddress, Vec<ContentAddress>> = Map::default();
            for (old, new) in self.supersessions().await? {
                linked.entry(old).or_default().push(new);
                linked.entry(new).or_default().push(old);
            }
            let mut open: Vec<ContentAddress> = chain.iter().copied().collect();
            while let Some(address) = open.pop() {
                let near = linked.get(&address).into_iter().flatten();
                open.extend(near.filter(|near| chain.insert(**near)));
            }
        }
        for found in self.found.values_mut() {
            if protected.contains(&found.address) || chain.contains(&found.address) {
                found.exemption = Some(Exemption::Hold);
            }
        }
        Ok(())
    }

    async fn addresses_of(&self, places: Vec<RowId>) -> Result<Vec<ContentAddress>> {
        let mut by_segment: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        places
            .into_iter()
            .for_each(|(segment, row)| by_segment.entry(segment).or_default().push(row));
        let mut out = Vec::new();
        for (number, mut rows) in by_segment {
            rows.sort_unstable();
            rows.dedup();
            let Some(file) = self.open(number as usize).await? else {
                continue;
            };
            let name = IdentityColumn::ContentAddress.name();
            let batches = self
                .on_cores(move || file.read_rows(&[name], &rows))
                .await?;
            for batch in &batches {
                out.extend(
                    (0..batch.num_rows()).filter_map(|row| address_at(texts(batch, name), row)),
                );
            }
        }
        Ok(out)
    }

    /// Old and new of every supersession, from `state` and from grains that supersede.
    async fn supersessions(&self) -> Result<Vec<(ContentAddress, ContentAddress)>> {
        let mut pairs = Vec::new();
        for batch in self
            .lake
            .state
            .read_columns(&["content_address", "event", "value"])
            .await?
        {
            for row in 0..batch.num_rows() {
                let superseded = text_at(texts(&batch, "event"), row) == Some("superseded");
                let pair = address_at(texts(&batch, "content_address"), row)
                    .zip(address_at(texts(&batch, "value"), row));
                pairs.extend(pair.filter(|_| superseded));
            }
        }
        let columns = [
            IdentityColumn::ContentAddress.name(),
            IdentityColumn::Supersedes.name(),
        ];
        for number in 0..self.survey.segments.len() {
            let Some(file) = self.open(number).await? else {
                continue;
            };
            let batches = self
                .on_cores(move || {
                    file.map_batches(Some(&columns), |_, batch| {
                        let own = texts(batch, columns[0]);
                        let mut pairs = Vec::new();
                        links(batch, |row, _, old| {
                            pairs.extend(address_at(own, row).map(|new| (old, new)))
                        });
                        Ok(pairs)
                    })
                })
                .await?;
            pairs.extend(batches.into_iter().flatten());
        }
        Ok(pairs)
    }

    /// Consents that their subjects have withdrawn (§8.10), by address.
    async fn withdrawn_consents(&self) -> Result<Vec<String>> {
        let mut named: Map<ContentAddress, HashSet<String>> = Map::default();
        for number in 0..self.survey.segments.len() {
            if self.rules_out(number, WordFilter::has_withdrawals) {
                continue;
            }
            for (prior, by) in self.each_consent(number, withdrawals).await? {
                named.entry(prior).or_default().insert(by);
            }
        }
        let named = Arc::new(named);
        let mut withdrawn = Vec::new();
        for number in 0..self.survey.segments.len() {
            if named.is_empty()
                || self.rules_out(number, |filter| {
                    named
                        .keys()
                        .any(|consent| filter.may_hold(&consent.to_string()))
                })
            {
                continue;
            }
            let named = Arc::clone(&named);
            let those = move |batch: &arrow::array::RecordBatch| {
                let is_withdrawn = |(consent, subject): &(ContentAddress, String)| {
                    let by = named.get(consent).into_iter().flatten();
                    by.into_iter()
                        .any(|by| may_withdraw(Some(by), Some(subject)))
                };
                consents(batch, IdentityColumn::ContentAddress.name(), |_| true)
                    .filter(is_withdrawn)
                    .collect()
            };
            withdrawn.extend(
                self.each_consent(number, those)
                    .await?
                    .into_iter()
                    .map(|(consent, _)| consent.to_string()),
            );
        }
        Ok(withdrawn)
    }

    /// What `pick` answers for each batch of the segment `number`, of which it sees what
    /// [`consents`] needs.
    async fn each_consent<P>(&self, number: usize, pick: P) -> Result<Vec<(ContentAddress, String)>>
    where
        P: Fn(&arrow::array::RecordBatch) -> Vec<(ContentAddress, String)> + Send + Sync + 'static,
    {
        let Some(file) = self.open(number).await? else {
            return Ok(Vec::new());
        };
        let batches = self
            .on_cores(move || file.map_batches(Some(&CONSENT_COLUMNS), |_, batch| Ok(pick(batch))))
            .await?;
        Ok(batches.into_iter().flatten().collect())
    }

    async fn look_at_rejects(&self) -> Result<Vec<FoundReject>> {
        let mut out = Vec::new();
        let selected = self.survey.selected().map(|found| found.address);
        let gone: Arc<HashSet<_>> =
            Arc::new(selected.chain(self.references.iter().copied()).collect());
        for data in self.lake.rejects.files()? {
            let file = LakeFile::open(self.lake, &self.lake.rejects.path_of(&data.name)).await?;
            let gone = Arc::clone(&gone);
            let (matcher, now, approvals) = (
                Arc::clone(&self.matcher),
                self.now,
                self.request.approvals.clone(),
            );
            let extent = self.request.extent;
            let found = self
                .on_cores(move || {
                    let rules = ExemptionRules {
                        now,
                        approvals: &approvals,
                    };
                    let look = RejectScanner {
                        matcher: &matcher,
                        rules: &rules,
                        gone: &gone,
                        extent,
                    };
                    file.map_batches(Some(&super::rejects::COLUMNS), |first, batch| {
                        Ok(look.at(&data.name, first, batch))
                    })
                })
                .await?;
            out.extend(found.into_iter().flatten());
        }
        Ok(out)
    }
}

/// True if one of `reasons` selects a grain under `extent`.
pub(super) fn selects(reasons: Reasons, extent: SelectionOptions) -> bool {
    reasons.iter().any(|reason| match reason {
        Reason::Mention | Reason::Ambiguous => extent.text_mentions,
        Reason::Initials => extent.initials,
        Reason::Derived => extent.derived,
        Reason::Related | Reason::SharedSession => extent.related,
        _ => true,
    })
}

/// The name of a type byte in plans.
pub(super) fn type_name(byte: u8) -> String {
    // No grain of the lake has the byte that is none.
    TypeByte::from_byte(byte)
        .map(|kind| kind.to_string())
        .unwrap_or_default()
}
