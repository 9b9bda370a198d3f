//! Claims of a container's manifest about the lifecycle of grains, judged by the gate (§23): an
//! import can't bypass it.
//!
//! A claim that takes a grain out of what is current or trusted is judged as the act that it
//! claims. A supersession is proposed by the superseding grain itself, with its signature,
//! justification and authorizations. If that grain isn't known, and for an expiry or a retraction,
//! the claim has no author, so it only applies to unprotected grains. A denied claim goes to
//! `rejects` with the reason, and changes nothing.
//!
//! A dry run can't read what it would have written: of earlier batches it knows only the addresses.
//! Claims that depend on such grains aren't judged and count as permitted.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::AsArray;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    IdentityColumn, LifecycleEvent, RejectRow, StateRow, delivered_bytes,
};
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
use gristmill_schemas::sign::{Delivery, KeyResolver};

use super::proven_batch::ProvenBatch;
use crate::error::Result;
use crate::lake::{
    KnownAddresses, Lake, LakeFile, MANIFEST, RejectBytes, RejectContext, RejectPosition,
    RejectReason, WHOLE_SOURCE, address_at, texts,
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
    known: &KnownAddresses,
    mut claims: Vec<StateRow>,
    batch: &ProvenBatch,
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
    let successors: HashSet<ContentAddress> = claims.iter().filter_map(successor_of).collect();
    let delivered = delivered(
        lake,
        known,
        successors
            .iter()
            .filter(|address| batch.find(address).is_none()),
    )
    .await?;
    let bytes_of = |address: &ContentAddress| {
        let bytes = batch
            .find(address)
            .map(|(morsel, row)| morsel.morsel.item(row.item as usize));
        bytes.or_else(|| delivered.get(address).map(Vec::as_slice))
    };
    let read: Vec<_> = claims
        .iter()
        .map(|claim| ClaimedAct::read(claim, bytes_of, resolver))
        .collect();
    let ground = ground(lake, known, batch, &read).await?;
    let gate = Gate {
        now: (now / 1_000_000).max(0) as u64,
        known: &ground,
    };
    let is_out_of_sight =
        |address: &ContentAddress| known.is_dry_run(address) && !batch.contains(address);
    let judge = |claimed: ClaimedAct| match claimed.rests_on().any(is_out_of_sight) {
        true => Ok(()),
        false => gate
            .judge(&claimed.target, &claimed.act, &claimed.requester)
            .map(drop),
    };
    for (claim, read) in claims.into_iter().zip(read) {
        match read.and_then(judge) {
            Ok(()) => judged.permitted.push(claim),
            Err(error) => judged.denied.push((claim, error)),
        }
    }
    Ok(judged)
}

/// Returns true if the claim takes a grain out of what is current or trusted.
fn invalidates(claim: &StateRow) -> bool {
    match claim.event {
        LifecycleEvent::Superseded | LifecycleEvent::Expired => true,
        LifecycleEvent::Contradicted => claim.value.as_deref() != Some("false"),
        LifecycleEvent::Verification => {
            claim.value.as_deref() == Some(VerificationStatus::Retracted.name())
        }
        LifecycleEvent::Accessed | LifecycleEvent::Noted => false,
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
                let delivery = Delivery::open(bytes)?;
                let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
                let grain = Grain::decode(&payload, Mode::Lenient)?;
                let Proposal {
                    successor,
                    requester,
                } = Proposal::of(&delivery, &grain, &target, resolver)?;
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
    fn rests_on(&self) -> impl Iterator<Item = &ContentAddress> {
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
async fn ground(
    lake: &Lake,
    known: &KnownAddresses,
    batch: &ProvenBatch,
    read: &[Result<ClaimedAct, GrainError>],
) -> Result<FactCache> {
    let acts = || read.iter().flatten();
    let targets: HashSet<ContentAddress> = acts().map(|claimed| claimed.target).collect();
    let named = acts().filter_map(|claimed| match &claimed.act {
        Act::Supersede(successor) => {
            Some(successor.facts.parents.iter().chain(&successor.evidence))
        }
        _ => None,
    });
    let mut ground = FactCache::with_capacity(targets.len());
    let mut outside = HashSet::new();
    let mut wanted: Vec<ContentAddress> = targets.iter().chain(named.flatten()).copied().collect();
    for _ in 0..=HOPS {
        for address in std::mem::take(&mut wanted) {
            if ground.facts(&address).is_some() || outside.contains(&address) {
                continue;
            }
            // The lake has more facts about a grain than the grain itself.
            let fresh = if known.find(&address).is_some() {
                None
            } else {
                batch.find(&address)
            };
            match fresh.and_then(|(morsel, row)| facts(morsel.morsel.item(row.item as usize))) {
                Some(facts) => {
                    wanted.extend(&facts.parents);
                    ground.add(address, facts);
                }
                None => {
                    outside.insert(address);
                }
            }
        }
    }
    ground.look_up(lake, known, outside, &targets).await?;
    // Claimed supersessions count for the grains that follow in the chain.
    for ClaimedAct {
        target, successor, ..
    } in acts()
    {
        successor
            .iter()
            .for_each(|successor| ground.add_superseded(successor, *target));
    }
    Ok(ground)
}

fn facts(delivered: &[u8]) -> Option<GrainFacts> {
    let delivery = Delivery::open(delivered).ok()?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).ok()?;
    let grain = Grain::decode(&payload, Mode::Lenient).ok()?;
    Some(GrainFacts::of(&grain, Vec::new()))
}

/// Returns the delivered bytes of those of `wanted` that the lake contains.
async fn delivered(
    lake: &Lake,
    known: &KnownAddresses,
    wanted: impl Iterator<Item = &ContentAddress>,
) -> Result<HashMap<ContentAddress, Vec<u8>>> {
    let mut rows: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (segment, row) in wanted.filter_map(|address| known.find(address)) {
        rows.entry(segment.as_str()).or_default().push(row);
    }
    let columns = [
        IdentityColumn::ContentAddress.name(),
        IdentityColumn::Blob.name(),
        IdentityColumn::Envelope.name(),
    ];
    let mut out = HashMap::new();
    for segment in lake.segments()? {
        let Some(rows) = rows.get_mut(segment.id.as_str()) else {
            continue;
        };
        rows.sort_unstable();
        let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
        for batch in file.read_rows(&columns, rows)? {
            let cells = |name| {
                batch
                    .column_by_name(name)
                    .and_then(|column| column.as_binary_opt::<i32>())
            };
            let Some((blobs, envelopes)) = cells(columns[1]).zip(cells(columns[2])) else {
                continue;
            };
            for (row, (blob, envelope)) in blobs.iter().zip(envelopes).enumerate() {
                let address = address_at(texts(&batch, columns[0]), row);
                let bytes = delivered_bytes(blob.unwrap_or_default(), envelope);
                if let Some((address, bytes)) = address.zip(bytes.ok()) {
                    out.insert(address, bytes.into_owned());
                }
            }
        }
    }
    Ok(out)
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
            "the manifest's claim that {} is {}: {error}",
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
