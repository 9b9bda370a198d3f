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

use super::matcher::{Hits, Matcher, NOBODY, PersonNumber};
use super::reason::{Judge, Reason, Reasons};
use super::request::Request;
use super::rows::{address_at, text_at, texts};
use super::sifter::{Sifter, SifterScratch};
use super::survey::Found;
use crate::index::Watchlist;
use crate::policy::{Mode, Policy};
use crate::text::with_grain_if_any;

/// A session or a run: different fields and namespaces give different ones their own names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) namespace: String,
    pub(super) is_run: bool,
}

/// What some rows gave.
#[derive(Debug, Default)]
pub(super) struct Glance {
    pub(super) found: Vec<Found>,
    pub(super) spellings: Vec<String>,
    /// Sessions and runs in which a person is the data subject.
    pub(super) sessions: Vec<(Session, PersonNumber)>,
    /// Held grains whose protection reaches others: derived, chain.
    pub(super) protecting: Vec<(ContentAddress, bool, bool)>,
    pub(super) grains: u64,
    pub(super) unsearchable: u64,
    hits: Hits,
}

/// Looks at rows for a request.
#[derive(Debug, Clone)]
pub(super) struct Examiner {
    matcher: Arc<Matcher>,
    approvals: Vec<String>,
    /// What tells of which grains nothing needs to be seen but that they are there.
    sifter: Option<Arc<Sifter>>,
    /// The instant by which terms are judged, in milliseconds since 1970.
    now: i64,
}

/// How a row is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attention {
    /// Its grain has no word that the examiner watches for.
    Passing,
    /// All of it.
    Close,
    /// All of it; it is found even if it matches nothing.
    Wanted,
}

/// The cells of a batch that are looked at.
pub(super) struct Cells<'b> {
    addresses: Option<&'b StringArray>,
    blobs: Option<&'b BinaryArray>,
    signers: Option<&'b StringArray>,
    envelopes: Option<&'b BinaryArray>,
}

impl<'b> Cells<'b> {
    /// The columns that are looked at.
    pub(super) const COLUMNS: [&'static str; 4] = [
        IdentityColumn::ContentAddress.name(),
        IdentityColumn::Blob.name(),
        IdentityColumn::SignerDid.name(),
        IdentityColumn::Envelope.name(),
    ];

    /// Those of `batch`.
    pub(super) fn of(batch: &'b RecordBatch) -> Cells<'b> {
        let [addresses, _, signers, _] = Cells::COLUMNS.map(|name| texts(batch, name));
        let [_, blobs, _, envelopes] = Cells::COLUMNS.map(|name| {
            batch
                .column_by_name(name)
                .and_then(|column| column.as_binary_opt::<i32>())
        });
        Cells {
            addresses,
            blobs,
            signers,
            envelopes,
        }
    }
}

impl Examiner {
    /// Looks with `matcher`, which was made of `request`.
    pub(super) fn new(matcher: Arc<Matcher>, request: &Request, now: i64) -> Examiner {
        Examiner {
            matcher,
            approvals: request.approvals.clone(),
            sifter: None,
            now,
        }
    }

    /// The examiner for rows all of which can be decoded and none of which protects others: where
    /// `sifter` tells that a grain holds nothing of what is looked for, it isn't decoded.
    pub(super) fn sifting(self, sifter: &Arc<Sifter>) -> Examiner {
        Examiner {
            sifter: Some(Arc::clone(sifter)),
            ..self
        }
    }

    /// Words of which a grain has one, if there is anything in it to be found.
    pub(super) fn watched(&self) -> &Arc<Watchlist> {
        self.matcher.watched()
    }

    /// Looks at grains of a batch of the segment with the number `segment`. `rows` pairs the row in
    /// the segment with that in the batch.
    pub(super) fn look_at(
        &self,
        segment: u32,
        rows: impl Iterator<Item = (u32, usize)>,
        batch: &RecordBatch,
        attention: Attention,
    ) -> Glance {
        let mut out = Glance::default();
        let cells = Cells::of(batch);
        let mut scratch = SifterScratch::default();
        for (row, at) in rows {
            let Some(blobs) = cells.blobs else { break };
            if attention == Attention::Close && self.passes_over(&cells, at, &mut scratch) {
                out.grains += 1;
                continue;
            }
            with_grain_if_any(blobs.value(at), |grain| {
                self.look((segment, row), &cells, at, grain, attention, &mut out)
            });
        }
        out
    }

    /// True if there is nothing to see at the row `at` of `cells`.
    fn passes_over(&self, cells: &Cells<'_>, at: usize, scratch: &mut SifterScratch) -> bool {
        let blob = cells.blobs.map(|blobs| blobs.value(at)).unwrap_or_default();
        let has_more = cells.envelopes.is_some_and(|it| it.is_valid(at))
            || cells.signers.is_some_and(|it| it.is_valid(at));
        let sifter = self
            .sifter
            .as_ref()
            .filter(|_| !has_more && !is_sealed(blob));
        sifter.is_some_and(|sifter| sifter.passes(blob, scratch))
    }

    /// Looks at the row `at` of `cells`, whose blob is `grain` if it can be read, and adds to `out`
    /// what it gives.
    pub(super) fn look(
        &self,
        (segment, row): (u32, u32),
        cells: &Cells<'_>,
        at: usize,
        grain: Option<&Grain<'_>>,
        attention: Attention,
        out: &mut Glance,
    ) {
        let blob = cells.blobs.map(|blobs| blobs.value(at)).unwrap_or_default();
        // Its key was destroyed: it is erased already.
        if is_sealed(blob) {
            return;
        }
        out.grains += 1;
        let address = || address_at(cells.addresses, at);
        let judge = Judge {
            now: self.now,
            approvals: &self.approvals,
        };
        let mut hits = std::mem::take(&mut out.hits);
        hits.clear();
        if self.matcher.has_addresses()
            && let Some(address) = address()
        {
            self.matcher.address(&address, &mut hits);
        }
        if let Some(envelope) = cells.envelopes.filter(|envelopes| envelopes.is_valid(at)) {
            self.matcher
                .bytes(envelope.value(at), Reason::Mention, &mut hits);
        }
        if let Some(signer) = text_at(cells.signers, at) {
            self.matcher.signer(signer, &mut hits);
        }
        let mut bar = None;
        let is_wanted = attention == Attention::Wanted;
        match grain {
            Some(grain) => {
                if attention != Attention::Passing {
                    self.matcher.find(grain, &mut hits);
                }
                note_protection(address, grain, &judge, out);
                if !hits.people.is_empty() || is_wanted {
                    bar = judge.bar_of(grain);
                    note_sessions(grain, &hits, out);
                }
            }
            None => {
                out.unsearchable += 1;
                if attention != Attention::Passing {
                    self.matcher.bytes(blob, Reason::Undecodable, &mut hits);
                }
            }
        }
        let person = hits.people.first().map_or(NOBODY, |(person, _)| *person);
        let mut reasons = Reasons::default();
        hits.people
            .iter()
            .for_each(|(_, found)| reasons.merge(*found));
        let variations = hits.variations;
        out.spellings.append(&mut hits.spellings);
        out.hits = hits;
        if !reasons.is_empty() || is_wanted {
            let type_byte = blob.get(2).copied().unwrap_or_default();
            let found = address().map(|address| Found {
                address,
                segment,
                row,
                person,
                reasons,
                variations,
                bar,
                type_byte,
                size: blob.len() as u32,
            });
            out.found.extend(found);
        }
    }
}

/// Notes sessions in which somebody is the data subject.
fn note_sessions(grain: &Grain<'_>, hits: &Hits, out: &mut Glance) {
    let subject = hits
        .people
        .iter()
        .find(|(_, reasons)| reasons.contains(Reason::UserId));
    if let Some((person, _)) = subject {
        let namespace = grain.text(Field::Namespace).unwrap_or_default();
        for (field, is_run) in [(Field::SessionId, false), (Field::RunId, true)] {
            let session = |id: &str| Session {
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
    judge: &Judge<'_>,
    out: &mut Glance,
) {
    if grain.get(Field::InvalidationPolicy).is_some() {
        let policy = Policy::of(grain);
        let reach = (
            policy.scope.reaches_derived(),
            policy.scope.reaches_lineage(),
        );
        if policy.effective((judge.now / 1000).max(0) as u64) == Mode::Hold
            && reach != (false, false)
        {
            out.protecting
                .extend(address().map(|address| (address, reach.0, reach.1)));
        }
    }
}
