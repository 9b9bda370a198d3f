//! The survey: finds every grain and every reject that a request selects, with the reason, and
//! whether it may be erased.
//!
//! Disclosure and erasure both begin with a survey, so that they can't differ. Memory is bounded by
//! what is found, not by the size of the lake: segments are read in batches, and a segment whose
//! word filter excludes everything that is searched for isn't read. Only if a hold protects a
//! supersession chain, all supersessions of the lake are held: 64 bytes and more for each. The
//! placed holds of the lake are held as well, 100 bytes for each grain.
//!
//! 1. `scan`: decode and match every blob; collect the sessions of the people, and the protections
//!    that reach other grains.
//! 2. `sessions`: add the other grains of sessions that belong to one person alone.
//! 3. `links`: add what was derived from, or refers to, what was found.
//! 4. `protections`: apply holds that reach derived grains or the supersession chain.
//! 5. `scan`: decode and match the rejects.
//!
//! `consents` finds withdrawn consents before step 1, if the request selects by them. With workers,
//! `by_workers` has the segments of step 1 scanned by them.

mod by_workers;
mod consents;
mod links;
mod protections;
mod scan;
mod sessions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::Utc;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::TypeByte;
use gristmill_schemas::lifecycle::HoldIndex;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::matcher::{IdentifierMatcher, PersonNumber};
use super::payload_prefilter::PayloadPrefilter;
use super::reason::{Exemption, ExemptionRules, Reason, Reasons};
use super::request::{SelectionOptions, SubjectRequest};
use super::row_findings::{RowFindings, RowScanner};
use super::variations::Variations;
use crate::error::{Context, Result};
use crate::index::SidecarCache;
use crate::index::word_filter::WordFilter;
use crate::lake::{Lake, LakeFile, Segment, SegmentWorkers};

pub use by_workers::{SurveyJob, SurveyedSegments, survey_segments};

/// A grain that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FoundGrain {
    /// Its address.
    #[serde(with = "crate::erase::address_text")]
    pub address: ContentAddress,
    /// Index of its segment in [`Survey::segments`].
    pub segment: u32,
    /// Its row in the segment.
    pub row: u32,
    /// The first person that it relates to.
    pub person: PersonNumber,
    /// Why it was found.
    pub reasons: Reasons,
    /// Classes of variation that were needed to find it.
    pub variations: Variations,
    /// Why it stays; `None` if it is to be erased.
    pub exemption: Option<Exemption>,
    /// Index of the retention policy by which it expired, if it did.
    pub policy: Option<u32>,
    /// Type byte of its header.
    pub type_byte: u8,
    /// Size of its blob in bytes.
    pub size: u32,
}

/// A reject (a refused part of a source) that was found.
#[derive(Debug, Clone)]
pub struct FoundReject {
    /// Name of the data file of `rejects`.
    pub file: String,
    /// Its row in the file.
    pub row: u32,
    /// The first person that it relates to.
    pub person: PersonNumber,
    /// Why it was found.
    pub reasons: Reasons,
    /// Classes of variation that were needed to find it.
    pub variations: Variations,
    /// Why it stays; `None` if it is to be erased.
    pub exemption: Option<Exemption>,
    /// SHA-256 of its bytes: the address that it would have as a grain.
    pub address: ContentAddress,
    /// Whether the bytes relate to a person, rather than only the message or the name of the
    /// source. Only such bytes are refused from then on.
    pub is_found_in_bytes: bool,
}

/// Result of a survey.
#[derive(Debug, Default)]
pub struct Survey {
    /// The segments of the lake, in the order of their names.
    pub segments: Vec<Segment>,
    /// The grains that were found, by segment and row.
    pub grains: Vec<FoundGrain>,
    /// The rejects that were found.
    pub rejects: Vec<FoundReject>,
    /// Values that equal an identifier, as they are written, and how often each occurs.
    pub spellings: BTreeMap<String, u64>,
    /// Number of grains that were read.
    pub grains_read: u64,
    /// Bytes of the segments that were read.
    pub bytes_read: u64,
    /// Number of segments that were read.
    pub segments_read: u64,
    /// Number of segments that weren't read, because their word filters exclude a match.
    pub segments_skipped: u64,
    /// Number of encrypted or undecodable grains, which can't be attributed to a person, and of
    /// rejects with bytes that are compressed or encrypted and can't be opened.
    pub unsearchable: u64,
    /// Identifiers that are too short or common to be searched for in text, as they were given.
    pub non_distinctive: Vec<String>,
    /// The classes of variation that were searched for.
    pub variations: Variations,
}

/// Findings in whole segments that were scanned when they were written, by file name.
pub(super) type ScannedSegments = HashMap<String, Vec<RowFindings>>;

/// A row of the lake: index of the segment, and row in the segment.
type RowId = (u32, u32);

impl Survey {
    /// Surveys `lake` at the versions of its handle. `now` is in milliseconds since 1970. Also
    /// reports every grain that mentions one of `references` anywhere.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if a segment can't be read.
    pub(super) async fn with_references(
        lake: &Lake,
        request: &SubjectRequest,
        references: &[ContentAddress],
        scan: SurveyScan<'_>,
        now: i64,
    ) -> Result<Survey> {
        let mut run = SurveyRun {
            lake,
            request,
            references,
            withdrawn: Vec::new(),
            matcher: Arc::new(matcher_of(request, &[], references, now)),
            prefilter: None,
            now,
            pool: scan.pool,
            scanned: scan.scanned,
            workers: scan.workers,
            holds: Arc::new(lake.holds().await?),
            filters: Vec::new(),
            found: FxHashMap::default(),
            survey: Survey {
                segments: lake.segments()?,
                ..Survey::default()
            },
        };
        run.run().await?;
        Ok(run.survey)
    }

    /// Exempts what was placed under hold while the survey ran, which may take hours; `lake` is the
    /// lake that was surveyed. Returns whether there are new events that were read.
    ///
    /// # Errors
    /// Errors of reading `state`.
    pub(super) async fn apply_new_holds(&mut self, lake: &mut Lake) -> Result<bool> {
        let surveyed = lake.state.version();
        lake.state.refresh().await?;
        if lake.state.version() == surveyed {
            return Ok(false);
        }
        let holds = lake.holds().await?;
        self.exempt_held(&ExemptionRules {
            now: Utc::now().timestamp_millis(),
            approvals: &[],
            holds: &holds,
        });
        Ok(true)
    }

    /// Exempts the grains and rejects that are under a hold of `rules`.
    fn exempt_held(&mut self, rules: &ExemptionRules<'_>) {
        let grains = self.grains.iter_mut();
        let grains = grains.map(|found| (found.address, &mut found.exemption));
        let rejects = self.rejects.iter_mut();
        let rejects = rejects.map(|found| (found.address, &mut found.exemption));
        for (address, exemption) in grains.chain(rejects) {
            if let Some(hold) = rules.placed_hold(&address) {
                *exemption = Some(hold);
            }
        }
    }

    /// Returns the grains that are to be erased.
    pub fn selected(&self) -> impl Iterator<Item = &FoundGrain> {
        self.grains.iter().filter(|found| found.exemption.is_none())
    }

    /// Returns the rejects that are to be erased.
    pub(crate) fn selected_rejects(&self) -> impl Iterator<Item = &FoundReject> {
        self.rejects
            .iter()
            .filter(|found| found.exemption.is_none())
    }

    /// Returns whether nothing is to be erased.
    pub fn selects_nothing(&self) -> bool {
        self.selected().next().is_none() && self.selected_rejects().next().is_none()
    }

    /// Returns the rows to be erased of each segment that has any, ascending.
    pub(crate) fn rows_by_segment(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        self.selected()
            .for_each(|found| rows.entry(found.segment).or_default().push(found.row));
        rows.values_mut().for_each(|rows| rows.sort_unstable());
        rows
    }
}

/// How the segments of a survey are scanned.
pub(super) struct SurveyScan<'a> {
    /// The threads of this process.
    pub(super) pool: Arc<rayon::ThreadPool>,
    /// Findings in segments that needn't be read any more.
    pub(super) scanned: ScannedSegments,
    /// Processes that scan the others; `None` if this one does.
    pub(super) workers: Option<&'a dyn SegmentWorkers<SurveyJob>>,
}

/// Returns the matcher of a survey of `request` at `now`, in milliseconds since 1970. `withdrawn`
/// are the addresses of withdrawn consents; mentions of `references` are reported.
fn matcher_of(
    request: &SubjectRequest,
    withdrawn: &[String],
    references: &[ContentAddress],
    now: i64,
) -> IdentifierMatcher {
    let mut matcher = IdentifierMatcher::new(request);
    if request.withdrawn {
        matcher.add_withdrawn(withdrawn.iter().cloned(), (now / 1000).max(0) as u64);
    }
    matcher.add_references(references.iter().copied());
    matcher
}

/// Returns the prefilter of a survey of `request`, if payloads can be excluded without decoding.
fn prefilter_of(
    request: &SubjectRequest,
    matcher: &IdentifierMatcher,
) -> Option<Arc<PayloadPrefilter>> {
    let can_skip_grains = request.retention.is_none();
    let prefilter = matcher.prefilter().filter(|_| can_skip_grains);
    prefilter.map(Arc::new)
}

/// One execution of a survey.
struct SurveyRun<'a> {
    lake: &'a Lake,
    request: &'a SubjectRequest,
    references: &'a [ContentAddress],
    /// Addresses of the withdrawn consents, if the request selects by them.
    withdrawn: Vec<String>,
    matcher: Arc<IdentifierMatcher>,
    prefilter: Option<Arc<PayloadPrefilter>>,
    /// Milliseconds since 1970.
    now: i64,
    pool: Arc<rayon::ThreadPool>,
    scanned: ScannedSegments,
    workers: Option<&'a dyn SegmentWorkers<SurveyJob>>,
    /// The holds that were placed or lifted.
    holds: Arc<HoldIndex>,
    /// The word filters of the segments, where they exist.
    filters: Vec<Option<Arc<WordFilter>>>,
    found: FxHashMap<RowId, FoundGrain>,
    survey: Survey,
}

impl SurveyRun<'_> {
    async fn run(&mut self) -> Result<()> {
        self.open_word_filters().await;
        if self.request.withdrawn {
            self.match_withdrawn_consents().await?;
        }
        self.prefilter = prefilter_of(self.request, &self.matcher);
        self.survey.variations = self.request.searched();
        let non_distinctive = self.matcher.non_distinctive();
        self.survey.non_distinctive = non_distinctive.map(|(text, _)| text.to_owned()).collect();
        let (sessions, protecting) = self.scan_segments().await?;
        self.follow_sessions(&sessions).await?;
        self.apply_selection();
        self.follow_links().await?;
        self.apply_protections(protecting).await?;
        self.survey.grains = std::mem::take(&mut self.found).into_values().collect();
        self.survey
            .grains
            .sort_unstable_by_key(|found| (found.segment, found.row));
        self.survey.rejects = self.scan_rejects().await?;
        Ok(())
    }

    async fn open_word_filters(&mut self) {
        let sidecars = SidecarCache::of(self.lake);
        for segment in &self.survey.segments {
            let filter = sidecars.words(self.lake.location(), segment).await;
            self.filters.push(filter);
        }
    }

    /// Opens the segment `number`. Returns `None` if there is no such segment.
    async fn open(&self, number: usize) -> Result<Option<LakeFile>> {
        let Some(segment) = self.survey.segments.get(number) else {
            return Ok(None);
        };
        LakeFile::open(self.lake, &self.lake.grains.path_of(&segment.file.name))
            .await
            .map(Some)
    }

    fn filter(&self, number: usize) -> Option<&WordFilter> {
        self.filters.get(number).and_then(Option::as_deref)
    }

    /// Returns whether segment `number` has a word filter for which `may_hold` is false.
    fn rules_out(&self, number: usize, may_hold: impl Fn(&WordFilter) -> bool) -> bool {
        self.filter(number).is_some_and(|filter| !may_hold(filter))
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

    fn scanner(&self) -> RowScanner {
        let (matcher, holds) = (Arc::clone(&self.matcher), Arc::clone(&self.holds));
        RowScanner::new(matcher, self.request, self.now, holds)
    }

    /// Exempts what was found only for reasons that the request doesn't select by.
    fn apply_selection(&mut self) {
        let options = self.request.extent;
        for found in self.found.values_mut() {
            let selected = selects(found.reasons, options);
            match &found.exemption {
                None if !selected => found.exemption = Some(Exemption::NotSelected),
                Some(Exemption::NotSelected) if selected => found.exemption = None,
                _ => {}
            }
        }
    }
}

/// Returns whether one of `reasons` selects a grain under `options`.
pub(super) fn selects(reasons: Reasons, options: SelectionOptions) -> bool {
    reasons.iter().any(|reason| match reason {
        Reason::Mention | Reason::Ambiguous => options.text_mentions,
        Reason::Initials => options.initials,
        Reason::Derived => options.derived,
        Reason::Related | Reason::SharedSession => options.related,
        _ => true,
    })
}

/// Returns the name of a type byte in plans.
pub(super) fn type_name(byte: u8) -> String {
    // Grains of the lake have known type bytes: the default is never used.
    TypeByte::from_byte(byte)
        .map(|kind| kind.to_string())
        .unwrap_or_default()
}
