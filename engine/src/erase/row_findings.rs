//! A look at single rows of `grains`: whom a grain is of, whether it may go, and what it tells
//! about other grains.
//!
//! A survey looks at the rows that it reads; an erasure at those that it writes again, while it has
//! them at hand. What follows from one grain for another is [`super::survey`]'s matter.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringArray};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{IdentityColumn, is_sealed};
use gristmill_schemas::grain::{Field, Grain};

use super::matcher::{Hits, IdentifierMatcher, NO_PERSON, PersonNumber};
use super::payload_prefilter::{PayloadPrefilter, PrefilterScratch};
use super::reason::{ExemptionRules, Reason, Reasons};
use super::request::SubjectRequest;
use super::survey::FoundGrain;
use crate::index::Watchlist;
use crate::lake::{address_at, text_at, texts};
use crate::policy::{Mode, Policy};
use crate::text::with_grain_if_any;

/// A session or a run: different fields and namespaces give different ones their own names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub(super) id: String,
    pub(super) namespace: String,
    pub(super) is_run: bool,
}

/// What some rows gave.
#[derive(Debug, Default)]
pub(super) struct RowFindings {
    pub(super) found: Vec<FoundGrain>,
    pub(super) spellings: Vec<String>,
    /// Sessions and runs in which a person is the data subject.
    pub(super) sessions: Vec<(SessionKey, PersonNumber)>,
    /// Held grains whose protection reaches others: derived, chain.
    pub(super) protecting: Vec<(ContentAddress, bool, bool)>,
    pub(super) grains: u64,
    pub(super) unsearchable: u64,
    hits: Hits,
}

/// Looks at rows for a request.
#[derive(Debug, Clone)]
pub(super) struct RowScanner {
    matcher: Arc<IdentifierMatcher>,
    approvals: Vec<String>,
    /// What tells of which grains nothing needs to be seen but that they are there.
    prefilter: Option<Arc<PayloadPrefilter>>,
    /// The instant by which terms are judged, in milliseconds since 1970.
    now: i64,
}

/// How a row is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanMode {
    /// Its grain has no word that the scanner watches for.
    SkipPayload,
    /// All of it.
    Full,
    /// All of it; it is found even if it matches nothing.
    Always,
}

/// The cells of a batch that are looked at.
pub(super) struct ScannedColumns<'b> {
    addresses: Option<&'b StringArray>,
    blobs: Option<&'b BinaryArray>,
    signers: Option<&'b StringArray>,
    envelopes: Option<&'b BinaryArray>,
}

impl<'b> ScannedColumns<'b> {
    /// The columns that are looked at.
    pub(super) const COLUMNS: [&'static str; 4] = [
        IdentityColumn::ContentAddress.name(),
        IdentityColumn::Blob.name(),
        IdentityColumn::SignerDid.name(),
        IdentityColumn::Envelope.name(),
    ];

    /// Those of `batch`.
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
}

impl RowScanner {
    /// Looks with `matcher`, which was made of `request`.
    pub(super) fn new(
        matcher: Arc<IdentifierMatcher>,
        request: &SubjectRequest,
        now: i64,
    ) -> RowScanner {
        RowScanner {
            matcher,
            approvals: request.approvals.clone(),
            prefilter: None,
            now,
        }
    }

    /// The scanner for rows all of which can be decoded and none of which protects others: where
    /// `payload_prefilter` tells that a grain holds nothing of what is looked for, it isn't
    /// decoded.
    pub(super) fn with_prefilter(self, prefilter: &Arc<PayloadPrefilter>) -> RowScanner {
        RowScanner {
            prefilter: Some(Arc::clone(prefilter)),
            ..self
        }
    }

    /// Words of which a grain has one, if there is anything in it to be found.
    pub(super) fn watchlist(&self) -> &Arc<Watchlist> {
        self.matcher.watchlist()
    }

    /// Looks at grains of a batch of the segment with the number `segment`. `rows` pairs the row in
    /// the segment with that in the batch.
    pub(super) fn scan_batch(
        &self,
        segment: u32,
        rows: impl Iterator<Item = (u32, usize)>,
        batch: &RecordBatch,
        attention: ScanMode,
    ) -> RowFindings {
        let mut out = RowFindings::default();
        let cells = ScannedColumns::of(batch);
        let mut scratch = PrefilterScratch::default();
        for (row, at) in rows {
            let Some(blobs) = cells.blobs else { break };
            if attention == ScanMode::Full && self.can_skip(&cells, at, &mut scratch) {
                out.grains += 1;
                continue;
            }
            with_grain_if_any(blobs.value(at), |grain| {
                self.scan_row((segment, row), &cells, at, grain, attention, &mut out)
            });
        }
        out
    }

    /// True if there is nothing to see at the row `at` of `cells`.
    fn can_skip(
        &self,
        cells: &ScannedColumns<'_>,
        at: usize,
        scratch: &mut PrefilterScratch,
    ) -> bool {
        let blob = cells.blobs.map(|blobs| blobs.value(at)).unwrap_or_default();
        let has_more = cells.envelopes.is_some_and(|it| it.is_valid(at))
            || cells.signers.is_some_and(|it| it.is_valid(at));
        let prefilter = self
            .prefilter
            .as_ref()
            .filter(|_| !has_more && !is_sealed(blob));
        prefilter.is_some_and(|prefilter| prefilter.rules_out(blob, scratch))
    }

    /// Looks at the row `at` of `cells`, whose blob is `grain` if it can be read, and adds to `out`
    /// what it gives.
    pub(super) fn scan_row(
        &self,
        (segment, row): (u32, u32),
        cells: &ScannedColumns<'_>,
        at: usize,
        grain: Option<&Grain<'_>>,
        attention: ScanMode,
        out: &mut RowFindings,
    ) {
        let blob = cells.blobs.map(|blobs| blobs.value(at)).unwrap_or_default();
        // Its key was destroyed: it is erased already.
        if is_sealed(blob) {
            return;
        }
        out.grains += 1;
        let address = || address_at(cells.addresses, at);
        let rules = ExemptionRules {
            now: self.now,
            approvals: &self.approvals,
        };
        let mut hits = std::mem::take(&mut out.hits);
        hits.clear();
        if self.matcher.has_addresses()
            && let Some(address) = address()
        {
            self.matcher.match_address(&address, &mut hits);
        }
        if let Some(envelope) = cells.envelopes.filter(|envelopes| envelopes.is_valid(at)) {
            self.matcher
                .match_bytes(envelope.value(at), Reason::Mention, &mut hits);
        }
        if let Some(signer) = text_at(cells.signers, at) {
            self.matcher.match_signer(signer, &mut hits);
        }
        let mut exemption = None;
        let is_wanted = attention == ScanMode::Always;
        match grain {
            Some(grain) => {
                if attention != ScanMode::SkipPayload {
                    self.matcher.match_grain(grain, &mut hits);
                }
                note_protection(address, grain, &rules, out);
                if !hits.people.is_empty() || is_wanted {
                    exemption = rules.exemption_of(grain);
                    note_sessions(grain, &hits, out);
                }
            }
            None => {
                out.unsearchable += 1;
                if attention != ScanMode::SkipPayload {
                    self.matcher
                        .match_bytes(blob, Reason::Undecodable, &mut hits);
                }
            }
        }
        let person = hits.people.first().map_or(NO_PERSON, |(person, _)| *person);
        let mut reasons = Reasons::default();
        hits.people
            .iter()
            .for_each(|(_, found)| reasons.merge(*found));
        let variations = hits.variations;
        out.spellings.append(&mut hits.spellings);
        out.hits = hits;
        if !reasons.is_empty() || is_wanted {
            let type_byte = blob.get(2).copied().unwrap_or_default();
            let found = address().map(|address| FoundGrain {
                address,
                segment,
                row,
                person,
                reasons,
                variations,
                exemption,
                type_byte,
                size: blob.len() as u32,
            });
            out.found.extend(found);
        }
    }
}

/// Notes sessions in which somebody is the data subject.
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

fn note_protection(
    address: impl Fn() -> Option<ContentAddress>,
    grain: &Grain<'_>,
    rules: &ExemptionRules<'_>,
    out: &mut RowFindings,
) {
    if grain.get(Field::InvalidationPolicy).is_some() {
        let policy = Policy::of(grain);
        let reach = (
            policy.scope.reaches_derived(),
            policy.scope.reaches_lineage(),
        );
        if policy.effective((rules.now / 1000).max(0) as u64) == Mode::Hold
            && reach != (false, false)
        {
            out.protecting
                .extend(address().map(|address| (address, reach.0, reach.1)));
        }
    }
}
