//! Preparing operations: parsing their lines, and opening and proving their new grains.
//!
//! Preparation doesn't depend on the lake, so all operations of a batch are prepared in parallel.

use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field};
use gristmill_schemas::sign::KeyResolver;

use super::new_grain::NewGrain;
use super::operation::OperationRequest;
use crate::ingest::prove::{GrainDecoder, ProofOptions, open};
use crate::policy::{DelegatedAct, GrainFacts, Proposal};

/// The operation of a line, or why it can't be read; `None` for an empty line.
pub(super) type PreparedLine = Option<Result<PreparedOperation, GrainError>>;

/// An operation that could be read.
pub(super) struct PreparedOperation {
    pub(super) request: OperationRequest,
    /// The new grain of a put or a supersession.
    pub(super) grain: Option<PreparedGrain>,
}

/// The new grain of an operation.
pub(super) struct PreparedGrain {
    pub(super) grain: NewGrain,
    /// The facts about it that the gate depends on.
    pub(super) facts: GrainFacts,
    /// The proposal of a supersession.
    pub(super) proposal: Option<Proposal>,
    /// What it does under the delegations from which it may be derived.
    pub(super) act: Option<Box<DelegatedAct>>,
    /// A field of it that only superseding grains have.
    pub(super) superseding_field: Option<Field>,
}

/// Fields of grains that supersede another (§6.1, §23.2).
const SUPERSEDING_FIELDS: [Field; 5] = [
    Field::SupersessionJustification,
    Field::SupersessionAuth,
    Field::InvalidationType,
    Field::InvalidationReason,
    Field::InvalidationInitiator,
];

/// Parses and prepares a line. Returns `None` for an empty line.
pub(super) fn prepare_line(line: &[u8], resolver: &dyn KeyResolver) -> PreparedLine {
    let is_blank = line.trim_ascii().is_empty();
    (!is_blank).then(|| prepare(OperationRequest::parse(line)?, resolver))
}

/// Opens and proves the grain of `request`, if it has one, by the strict rules.
///
/// # Errors
/// As [`open`], or the strict decoder.
pub(super) fn prepare(
    request: OperationRequest,
    resolver: &dyn KeyResolver,
) -> Result<PreparedOperation, GrainError> {
    let grain = match request.operation.delivered() {
        Some(delivered) => Some(prepare_grain(&request, delivered, resolver)?),
        None => None,
    };
    Ok(PreparedOperation { request, grain })
}

fn prepare_grain(
    request: &OperationRequest,
    delivered: &[u8],
    resolver: &dyn KeyResolver,
) -> Result<PreparedGrain, GrainError> {
    let options = ProofOptions {
        mode: DecodeMode::StrictAliased,
        payload_limit: DEFAULT_PAYLOAD_LIMIT,
        resolver,
        now: 0,
        keys: None,
        profile: None,
    };
    let opened = open(delivered, options)?;
    let mut decoder = GrainDecoder::new(options.mode);
    let grain = decoder
        .decode(&opened.payload)
        .map_err(|error| error.shifted(opened.delivery.blob_start()))?;
    let target = request.operation.target();
    let proposal = match target {
        Some(target) => Some(Proposal::of(&opened.delivery, grain, target, resolver)?),
        None => None,
    };
    let has = |field: &Field| grain.get(*field).is_some() || grain.is_elided(*field);
    let facts = GrainFacts::of(grain, target.copied().into_iter().collect());
    let act = DelegatedAct::of(grain, &facts.parents);
    Ok(PreparedGrain {
        grain: NewGrain::new(delivered, &opened),
        facts,
        act: act.map(Box::new),
        proposal,
        superseding_field: SUPERSEDING_FIELDS.into_iter().find(has),
    })
}
