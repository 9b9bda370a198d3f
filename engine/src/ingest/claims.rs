//! Claims of a container's manifest about the lifecycle of grains, judged by the gate (§23): an
//! import can't bypass it. What lines of grains state next to a grain are such claims, too.
//!
//! A claim that takes a grain out of what is current or trusted is judged as the act that it
//! claims. A supersession is proposed by the superseding grain itself, with its signature,
//! justification and authorizations. If that grain isn't known, and for an expiry or a retraction,
//! the claim has no author, so it only applies to unprotected grains. A denied claim goes to
//! `rejects` with the reason, and changes nothing.
//!
//! A dry run can't read what it would have written: of earlier batches it has only the addresses.
//! Claims that depend on such grains aren't judged and count as permitted.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{AsArray, RecordBatch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    LifecycleEvent, RejectRow, StateRow, SystemColumn, delivered_bytes,
};
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::sign::{DeliveredGrain, KeyResolver};

use super::batch_grains::BatchGrains;
use crate::error::Result;
use crate::lake::{
    AddressCatalog, KnownAddresses, Lake, LakeFile, MANIFEST, RejectBytes, RejectContext,
    RejectPosition, RejectReason, WHOLE_SOURCE, address_at, texts,
};
use crate::policy::{Act, FactCache, FactSource, Gate, GrainFacts, HOPS, Proposal, Requester};

/// Claims that were judged.
#[derive(Debug, Default)]
pub(super) struct JudgedClaims {
    /// Claims that the gate permits.
    pub(super) permitted: Vec<StateRow>,
    /// Denied claims with the reason.
    pub(super) denied: Vec<(StateRow, GrainError)>,
}

/// Judges `claims`, which came with the grains of `batch`, at `now` (microseconds since 1970).
///
/// # Errors
/// Errors of reading the lake.
pub(super) async fn judge(
    lake: &Lake,
    catalog: &AddressCatalog,
    mut claims: Vec<StateRow>,
    batch: &dyn BatchGrains,
    resolver: &dyn KeyResolver,
    now: i64,
) -> Result<JudgedClaims> {
    let harmless = claims.extract_if(.., |claim| !invalidates(claim)).collect();
    let mut judged = JudgedClaims {
        permitted: harmless,
        denied: Vec::new(),
    };
    if claims.is_empty() {
        return Ok(judged);
    }
    judged.permitted.reserve(claims.len());
    // Claims name grains without their creation seconds.
    let known = &catalog.all().await?;
    let acts = parse_acts(lake, known, &claims, batch, resolver).await?;
    let facts = look_up_facts(lake, known, batch, &acts).await?;
    let gate = Gate {
        now: (now / 1_000_000).max(0) as u64,
        known: &facts,
    };
    let is_unreadable =
        |address: &ContentAddress| known.is_dry_run(address) && !batch.contains(address);
    let judge = |claimed: ClaimedAct| match claimed.depends_on().any(is_unreadable) {
        true => Ok(()),
        false => gate
            .judge(&claimed.target, &claimed.act, &claimed.requester)
            .map(drop),
    };
    for (claim, act) in claims.into_iter().zip(acts) {
        match act.and_then(judge) {
            Ok(()) => judged.permitted.push(claim),
            Err(error) => judged.denied.push((claim, error)),
        }
    }
    Ok(judged)
}

/// Parses `claims` as acts. Superseding grains are read from the batch or the lake.
async fn parse_acts(
    lake: &Lake,
    known: &KnownAddresses,
    claims: &[StateRow],
    batch: &dyn BatchGrains,
    resolver: &dyn KeyResolver,
) -> Result<Vec<Result<ClaimedAct, GrainError>>> {
    let successors: HashSet<ContentAddress> = claims.iter().filter_map(successor_of).collect();
    let outside = successors.iter().filter(|address| !batch.contains(address));
    let delivered = read_delivered(lake, known, outside).await?;
    let bytes_of = |address: &ContentAddress| {
        let bytes = batch.bytes_of(address);
        bytes.or_else(|| delivered.get(address).map(Vec::as_slice))
    };
    Ok(claims
        .iter()
        .map(|claim| ClaimedAct::read(claim, bytes_of, resolver))
        .collect())
}

/// Returns true if the claim takes a grain out of what is current or trusted.
fn invalidates(claim: &StateRow) -> bool {
    match claim.event {
        LifecycleEvent::Superseded | LifecycleEvent::Expired => true,
        LifecycleEvent::Contradicted => claim.value.as_deref() != Some("false"),
        LifecycleEvent::Verification => {
            claim.value.as_deref() == Some(VerificationStatus::Retracted.name())
        }
        LifecycleEvent::Accessed
        | LifecycleEvent::Noted
        | LifecycleEvent::Held
        | LifecycleEvent::Released => false,
    }
}

/// Returns the new grain of a claimed supersession, or `None` for other claims.
pub(super) fn successor_of(claim: &StateRow) -> Option<ContentAddress> {
    claim
        .value
        .as_ref()
        .filter(|_| claim.event == LifecycleEvent::Superseded)?
        .parse()
        .ok()
}

/// A claim as an act for the gate.
struct ClaimedAct {
    target: ContentAddress,
    /// The superseding grain, known or not.
    successor: Option<ContentAddress>,
    act: Act,
    requester: Requester,
}

/// Returns the proposal of a superseding grain, whose delivered bytes are `bytes`.
fn proposal_of(
    bytes: &[u8],
    target: &ContentAddress,
    resolver: &dyn KeyResolver,
) -> Result<Proposal, GrainError> {
    let delivery = DeliveredGrain::open(bytes)?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient)?;
    Proposal::of(&delivery, &grain, target, resolver)
}

impl ClaimedAct {
    /// Parses a claim. `bytes_of` returns the delivered bytes of superseding grains.
    fn read<'b>(
        claim: &StateRow,
        bytes_of: impl Fn(&ContentAddress) -> Option<&'b [u8]>,
        resolver: &dyn KeyResolver,
    ) -> Result<ClaimedAct, GrainError> {
        let target = claim.content_address.parse()?;
        let successor = successor_of(claim);
        let (act, requester) = match successor.as_ref().and_then(bytes_of) {
            Some(bytes) => {
                let Proposal {
                    successor,
                    requester,
                } = proposal_of(bytes, &target, resolver)?;
                (Act::Supersede(Box::new(successor)), requester)
            }
            None if claim.event == LifecycleEvent::Contradicted => {
                (Act::Contradict, Requester::default())
            }
            None => (Act::Retract, Requester::default()),
        };
        Ok(ClaimedAct {
            target,
            successor,
            act,
            requester,
        })
    }

    /// Returns the grains without which the act can't be judged.
    fn depends_on(&self) -> impl Iterator<Item = &ContentAddress> {
        let evidence = match &self.act {
            Act::Supersede(successor) => &*successor.evidence,
            _ => &[],
        };
        std::iter::once(&self.target)
            .chain(&self.successor)
            .chain(evidence)
    }
}

/// Looks up the facts about the targets, the grains that superseding grains name, and their
/// ancestors: from the lake, or from the batch if the lake doesn't contain a grain.
async fn look_up_facts(
    lake: &Lake,
    known: &KnownAddresses,
    batch: &dyn BatchGrains,
    acts: &[Result<ClaimedAct, GrainError>],
) -> Result<FactCache> {
    let acts = || acts.iter().flatten();
    let targets: HashSet<ContentAddress> = acts().map(|claimed| claimed.target).collect();
    let named = acts().filter_map(|claimed| match &claimed.act {
        Act::Supersede(successor) => {
            Some(successor.facts.parents.iter().chain(&successor.evidence))
        }
        _ => None,
    });
    let wanted = targets.iter().chain(named.flatten()).copied().collect();
    let mut facts = FactCache::with_capacity(targets.len());
    let outside = add_facts_of_batch(&mut facts, known, batch, wanted);
    facts.look_up(lake, known, outside, &targets).await?;
    // Claimed supersessions count for the grains that follow in the chain.
    for claimed in acts() {
        if let Some(successor) = &claimed.successor {
            facts.add_superseded(successor, claimed.target);
        }
    }
    Ok(facts)
}

/// Adds the facts about those of `wanted`, and of their ancestors, that only the batch contains.
/// Returns the others.
fn add_facts_of_batch(
    facts: &mut FactCache,
    known: &KnownAddresses,
    batch: &dyn BatchGrains,
    mut wanted: Vec<ContentAddress>,
) -> HashSet<ContentAddress> {
    let mut outside = HashSet::new();
    for _ in 0..=HOPS {
        for address in std::mem::take(&mut wanted) {
            if facts.facts(&address).is_some() || outside.contains(&address) {
                continue;
            }
            // The lake has more facts about a grain than the grain itself.
            let fresh = match known.find(&address) {
                Some(_) => None,
                None => batch.bytes_of(&address),
            };
            match fresh.and_then(facts_of) {
                Some(new) => {
                    wanted.extend(&new.parents);
                    facts.add(address, new);
                }
                None => _ = outside.insert(address),
            }
        }
    }
    outside
}

fn facts_of(delivered: &[u8]) -> Option<GrainFacts> {
    let delivery = DeliveredGrain::open(delivered).ok()?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).ok()?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).ok()?;
    Some(GrainFacts::of(&grain, Vec::new()))
}

/// Returns the rows of those of `wanted` that the lake contains, by their segment, ascending.
fn rows_by_segment<'k, 'w>(
    known: &'k KnownAddresses,
    wanted: impl Iterator<Item = &'w ContentAddress>,
) -> BTreeMap<&'k str, Vec<u32>> {
    let mut rows: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (segment, row) in wanted.filter_map(|address| known.find(address)) {
        rows.entry(segment.as_str()).or_default().push(row);
    }
    rows.values_mut().for_each(|rows| rows.sort_unstable());
    rows
}

/// Returns the delivered bytes of those of `wanted` that the lake contains.
async fn read_delivered(
    lake: &Lake,
    known: &KnownAddresses,
    wanted: impl Iterator<Item = &ContentAddress>,
) -> Result<HashMap<ContentAddress, Vec<u8>>> {
    let rows = rows_by_segment(known, wanted);
    let mut out = HashMap::new();
    for segment in lake.segments()? {
        let Some(rows) = rows.get(segment.id.as_str()) else {
            continue;
        };
        let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
        for batch in file.read_rows(&DELIVERED, rows)? {
            add_delivered(&batch, DELIVERED, &mut out);
        }
    }
    Ok(out)
}

/// The columns of the delivered bytes of a grain.
pub(super) const DELIVERED: [&str; 3] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Blob.name(),
    SystemColumn::Envelope.name(),
];

/// Adds the delivered bytes of the grains in `batch`, by their addresses.
pub(super) fn add_delivered(
    batch: &RecordBatch,
    [address, blob, envelope]: [&str; 3],
    out: &mut HashMap<ContentAddress, Vec<u8>>,
) {
    let cells = |name| {
        batch
            .column_by_name(name)
            .and_then(|column| column.as_binary_opt::<i32>())
    };
    let Some((blobs, envelopes)) = cells(blob).zip(cells(envelope)) else {
        return;
    };
    for (row, (blob, envelope)) in blobs.iter().zip(envelopes).enumerate() {
        let address = address_at(texts(batch, address), row);
        let bytes = delivered_bytes(blob.unwrap_or_default(), envelope);
        if let Some((address, bytes)) = address.zip(bytes.ok()) {
            out.insert(address, bytes.into_owned());
        }
    }
}

/// Returns the row of `rejects` for a claim of the source at `uri` that was denied at `now`.
pub(super) fn reject_row(claim: &StateRow, error: &GrainError, uri: &str, now: i64) -> RejectRow {
    let json = serde_json::json!({
        "content_address": claim.content_address,
        "event": claim.event.name(),
        "value": claim.value,
    });
    let context = RejectContext {
        source_id: claim.source_id.as_deref().unwrap_or_default(),
        source: uri,
        rejected_at: now,
    };
    let position = RejectPosition {
        ordinal: WHOLE_SOURCE,
        offset: None,
    };
    let reason = RejectReason {
        code: error.code.name(),
        field: Some(MANIFEST),
        message: format!(
            "the source's claim that {} is {}: {error}",
            claim.content_address,
            claim.event.name()
        ),
    };
    context.row(
        position,
        reason,
        RejectBytes::whole(json.to_string().as_bytes()),
    )
}
