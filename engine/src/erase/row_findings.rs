//! Scans single rows of `grains`: which people a grain relates to, whether it may be erased, and
//! what it implies for other grains.
//!
//! A survey scans the rows that it reads; an erasure scans the rows that it rewrites, while they
//! are in memory. [`super::survey`] combines the findings of different rows.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{SystemColumn, is_sealed};
use gristmill_schemas::grain::{Field, Grain};
use gristmill_schemas::lifecycle::HoldIndex;
use serde::{Deserialize, Serialize};

use super::matcher::{Hits, IdentifierMatcher, NO_PERSON, PersonNumber};
use super::payload_prefilter::{PayloadPrefilter, PrefilterScratch};
use super::reason::{Exemption, ExemptionRules, Reason};
use super::request::{RetentionSelection, SubjectRequest};
use super::survey::FoundGrain;
use crate::index::Watchlist;
use crate::lake::{address_at, text_at, texts};
use crate::policy::{Policy, PolicyMode};
use crate::text::with_grain_if_any;

/// Identity of a session or a run. Ids are scoped by field and namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct SessionKey {
    pub(super) id: String,
    pub(super) namespace: String,
    pub(super) is_run: bool,
}

/// A held grain whose protection reaches other grains (§23.2).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Protection {
    #[serde(with = "crate::erase::address_text")]
    pub(super) address: ContentAddress,
    pub(super) reaches_derived: bool,
    pub(super) reaches_lineage: bool,
}

/// Findings in some rows.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RowFindings {
    pub(super) found: Vec<FoundGrain>,
    pub(super) spellings: Vec<String>,
    /// Sessions and runs in which a person is the data subject.
    pub(super) sessions: Vec<(SessionKey, PersonNumber)>,
    pub(super) protecting: Vec<Protection>,
    pub(super) grains: u64,
    pub(super) unsearchable: u64,
    /// Reused by every row.
    #[serde(skip)]
    hits: Hits,
}

impl RowFindings {
    /// Returns the number of findings.
    pub(super) fn count(&self) -> usize {
        let about_rows = self.found.len() + self.spellings.len();
        about_rows + self.sessions.len() + self.protecting.len()
    }
}

/// Scans rows for a request.
#[derive(Debug, Clone)]
pub(super) struct RowScanner {
    matcher: Arc<IdentifierMatcher>,
    approvals: Vec<String>,
    /// Rules grains out without decoding them.
    prefilter: Option<Arc<PayloadPrefilter>>,
    /// Milliseconds since 1970, for retention terms and policies.
    now: i64,
    /// The holds that were placed or lifted.
    holds: Arc<HoldIndex>,
    retention: Option<Arc<RetentionSelection>>,
}

/// How a row is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanMode {
    /// All but the payload, which has no word of the watchlist.
    SkipPayload,
    /// The whole row.
    Full,
    /// The whole row, which is reported even if it matches nothing.
    Always,
}

/// The columns of a batch that a [`RowScanner`] reads.
pub(super) struct ScannedColumns<'b> {
    addresses: Option<&'b StringArray>,
    blobs: Option<&'b BinaryArray>,
    signers: Option<&'b StringArray>,
    envelopes: Option<&'b BinaryArray>,
}

impl<'b> ScannedColumns<'b> {
    /// Names of the columns.
    pub(super) const COLUMNS: [&'static str; 4] = [
        SystemColumn::ContentAddress.name(),
        SystemColumn::Blob.name(),
        SystemColumn::SignerDid.name(),
        SystemColumn::Envelope.name(),
    ];

    /// Returns the columns of `batch`.
    pub(super) fn of(batch: &'b RecordBatch) -> ScannedColumns<'b> {
        let [addresses, _, signers, _] = ScannedColumns::COLUMNS.map(|name| texts(batch, name));
        let [_, blobs, _, envelopes] = ScannedColumns::COLUMNS.map(|name| {
            batch
                .column_by_name(name)
                .and_then(|column| column.as_binary_opt::<i32>())
        });
        ScannedColumns {
            addresses,
            blobs,
            signers,
            envelopes,
        }
    }

    fn blob(&self, at: usize) -> &'b [u8] {
        self.blobs.map(|blobs| blobs.value(at)).unwrap_or_default()
    }

    fn address(&self, at: usize) -> Option<ContentAddress> {
        address_at(self.addresses, at)
    }

    fn envelope(&self, at: usize) -> Option<&'b [u8]> {
        let envelopes = self.envelopes.filter(|envelopes| envelopes.is_valid(at));
        envelopes.map(|envelopes| envelopes.value(at))
    }
}

impl RowScanner {
    /// Returns a scanner with `matcher`, which was compiled from `request`.
    pub(super) fn new(
        matcher: Arc<IdentifierMatcher>,
        request: &SubjectRequest,
        now: i64,
        holds: Arc<HoldIndex>,
    ) -> RowScanner {
        RowScanner {
            matcher,
            approvals: request.approvals.clone(),
            prefilter: None,
            now,
            holds,
            retention: request.retention.clone().map(Arc::new),
        }
    }

    /// Returns a scanner that doesn't decode the grains which `prefilter` rules out. All rows that
    /// it scans must be decodable, and none may protect other grains.
    pub(super) fn with_prefilter(self, prefilter: &Arc<PayloadPrefilter>) -> RowScanner {
        RowScanner {
            prefilter: Some(Arc::clone(prefilter)),
            ..self
        }
    }

    /// Returns the words of which every payload that matches has at least one.
    pub(super) fn watchlist(&self) -> &Arc<Watchlist> {
        self.matcher.watchlist()
    }

    /// Scans rows of a batch of the segment with the index `segment`. `rows` pairs the row in the
    /// segment with the row in the batch.
    pub(super) fn scan_batch(
        &self,
        segment: u32,
        rows: impl Iterator<Item = (u32, usize)>,
        batch: &RecordBatch,
        mode: ScanMode,
    ) -> RowFindings {
        let mut out = RowFindings::default();
        let columns = ScannedColumns::of(batch);
        let mut scratch = PrefilterScratch::default();
        for (row, at) in rows {
            let Some(blobs) = columns.blobs else { break };
            if mode == ScanMode::Full && self.can_skip(&columns, at, &mut scratch) {
                out.grains += 1;
                continue;
            }
            with_grain_if_any(blobs.value(at), |grain| {
                self.scan_row((segment, row), &columns, at, grain, mode, &mut out)
            });
        }
        out
    }

    /// Returns whether the row `at` can't match, according to the prefilter.
    fn can_skip(
        &self,
        columns: &ScannedColumns<'_>,
        at: usize,
        scratch: &mut PrefilterScratch,
    ) -> bool {
        let blob = columns.blob(at);
        let has_more = columns.envelopes.is_some_and(|it| it.is_valid(at))
            || columns.signers.is_some_and(|it| it.is_valid(at));
        let prefilter = self
            .prefilter
            .as_ref()
            .filter(|_| !has_more && !is_sealed(blob));
        prefilter.is_some_and(|prefilter| prefilter.rules_out(blob, scratch))
    }

    /// Scans the row `at` of `columns` and adds its findings to `out`. `grain` is the decoded blob,
    /// if it can be decoded.
    pub(super) fn scan_row(
        &self,
        (segment, row): (u32, u32),
        columns: &ScannedColumns<'_>,
        at: usize,
        grain: Option<&Grain<'_>>,
        mode: ScanMode,
        out: &mut RowFindings,
    ) {
        let blob = columns.blob(at);
        // Sealed rows are opened before the scan: the key of this one was destroyed.
        if is_sealed(blob) {
            return;
        }
        out.grains += 1;
        let mut hits = std::mem::take(&mut out.hits);
        hits.clear();
        self.match_identity(columns, at, &mut hits);
        let exemption = self.match_payload(columns, at, grain, mode, &mut hits, out);
        let reasons = hits.reasons();
        if !reasons.is_empty() || mode == ScanMode::Always {
            let person = hits.people.first().map_or(NO_PERSON, |(person, _)| *person);
            let found = columns.address(at).map(|address| FoundGrain {
                address,
                segment,
                row,
                person,
                reasons,
                variations: hits.variations,
                exemption,
                policy: hits.policy,
                type_byte: blob.get(2).copied().unwrap_or_default(),
                size: blob.len() as u32,
            });
            out.found.extend(found);
        }
        out.spellings.append(&mut hits.spellings);
        out.hits = hits;
    }

    /// Matches the address, the envelope and the signer of a row.
    fn match_identity(&self, columns: &ScannedColumns<'_>, at: usize, hits: &mut Hits) {
        if self.matcher.has_addresses()
            && let Some(address) = columns.address(at)
        {
            self.matcher.match_address(&address, hits);
        }
        if let Some(envelope) = columns.envelope(at) {
            self.matcher.match_bytes(envelope, Reason::Mention, hits);
        }
        if let Some(signer) = text_at(columns.signers, at) {
            self.matcher.match_signer(signer, hits);
        }
    }

    /// Matches the payload of a row, and notes its protection and its sessions in `out`. Returns
    /// the exemption of a grain that matches.
    fn match_payload(
        &self,
        columns: &ScannedColumns<'_>,
        at: usize,
        grain: Option<&Grain<'_>>,
        mode: ScanMode,
        hits: &mut Hits,
        out: &mut RowFindings,
    ) -> Option<Exemption> {
        let Some(grain) = grain else {
            out.unsearchable += 1;
            if mode != ScanMode::SkipPayload {
                let blob = columns.blob(at);
                self.matcher.match_bytes(blob, Reason::Undecodable, hits);
            }
            return self.rules().placed_hold(&columns.address(at)?);
        };
        if mode != ScanMode::SkipPayload {
            self.matcher.match_grain(grain, hits);
        }
        self.note_protection(|| columns.address(at), grain, out);
        let expired = self.retention.as_ref().and_then(|it| it.expired(grain));
        if let Some(expired) = &expired {
            hits.add(NO_PERSON, Reason::Expired);
            hits.policy = u32::try_from(expired.policy).ok();
        }
        if hits.people.is_empty() && mode != ScanMode::Always {
            return None;
        }
        note_sessions(grain, hits, out);
        let exemption = self.rules().exemption_of(grain, &columns.address(at)?);
        exemption.or_else(|| Exemption::by_floor(&expired?))
    }

    fn rules(&self) -> ExemptionRules<'_> {
        ExemptionRules {
            now: self.now,
            approvals: &self.approvals,
            holds: &self.holds,
        }
    }

    /// Notes that `grain` is held and its protection reaches other grains.
    fn note_protection(
        &self,
        address: impl Fn() -> Option<ContentAddress>,
        grain: &Grain<'_>,
        out: &mut RowFindings,
    ) {
        if grain.get(Field::InvalidationPolicy).is_none() {
            return;
        }
        let policy = Policy::of(grain);
        let reaches_derived = policy.scope.reaches_derived();
        let reaches_lineage = policy.scope.reaches_lineage();
        let is_held = policy.effective((self.now / 1000).max(0) as u64) == PolicyMode::Hold;
        if is_held && (reaches_derived || reaches_lineage) {
            let protecting =
                address().filter(|address| !self.holds.status(address).stated_is_lifted);
            out.protecting.extend(protecting.map(|address| Protection {
                address,
                reaches_derived,
                reaches_lineage,
            }));
        }
    }
}

/// Notes the session and the run of `grain`, if a person is its data subject.
fn note_sessions(grain: &Grain<'_>, hits: &Hits, out: &mut RowFindings) {
    let subject = hits
        .people
        .iter()
        .find(|(_, reasons)| reasons.contains(Reason::UserId));
    if let Some((person, _)) = subject {
        let namespace = grain.text(Field::Namespace).unwrap_or_default();
        for (field, is_run) in [(Field::SessionId, false), (Field::RunId, true)] {
            let session = |id: &str| SessionKey {
                id: id.to_owned(),
                namespace: namespace.to_owned(),
                is_run,
            };
            out.sessions
                .extend(grain.text(field).map(|id| (session(id), *person)));
        }
    }
}
