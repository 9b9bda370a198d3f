//! Schema rules: which type needs which field, and what values fields may hold (§8, §13.4, §19.3,
//! §27.1).
//!
//! One set of rules for readers and writers. A writer is held to all of them; a reader refuses only
//! what makes a grain unusable or dangerous, and marks the rest. Types of later versions and of
//! domain profiles have no schema here: their fields may hold anything (§19.4).

use super::decode::Grain;
use super::fields::{Access, Field, Kind};
use super::header::Sensitivity;
use super::marks::Mark;
use super::raw::RawValue;
use super::types::{GrainType, TypeByte};
use crate::error::{ErrorCode, GrainError};

/// Whose grain is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rigor {
    /// Somebody's, which is read by a lenient reader: an incomplete grain is marked.
    Lenient,
    /// Somebody's, which is read.
    Read,
    /// Ours, which is about to be written.
    Write,
}

/// Checks `grain` and marks what is odd about it.
pub(super) fn check(grain: &mut Grain<'_>, rigor: Rigor) -> Result<(), GrainError> {
    check_type(grain)?;
    check_kinds(grain, rigor)?;
    if let Some(kind) = grain.grain_type() {
        match check_required(grain, Field::CreatedAt).and_then(|()| check_schema(grain, kind)) {
            Err(fault)
                if rigor == Rigor::Lenient
                    && matches!(fault.code, ErrorCode::Schema | ErrorCode::Empty) =>
            {
                grain.marks_mut().insert(Mark::Incomplete);
            }
            checked => checked?,
        }
        check_vocabulary(grain, rigor)?;
    }
    check_sensitivity(grain)?;
    check_header(grain);
    Ok(())
}

fn error(
    code: ErrorCode,
    field: Field,
    message: impl Into<std::borrow::Cow<'static, str>>,
) -> GrainError {
    GrainError::new(code, message).field(field.name())
}

/// The payload's type string must be a name of the header's type byte.
fn check_type(grain: &Grain<'_>) -> Result<(), GrainError> {
    let value = grain
        .get(Field::Type)
        .ok_or_else(|| GrainError::new(ErrorCode::NoType, "missing required field: type"))?;
    let Some(name) = value.as_text() else {
        return Err(error(
            ErrorCode::Schema,
            Field::Type,
            format!("must be a string, is {}", value.kind_name()),
        ));
    };
    match TypeByte::from_name(name) {
        Some(named) if named == grain.header().type_byte => Ok(()),
        // What 1.3 doesn't name may be called what it likes, but not by the name of a type whose
        // schema is known.
        Some(named) if named.standard().is_none() && grain.grain_type().is_none() => Ok(()),
        Some(_) => {
            let message = format!(
                "the header's type byte is 0x{:02x}, the payload says `{name}`",
                grain.header().type_byte.byte()
            );
            Err(error(ErrorCode::Corrupt, Field::Type, message))
        }
        None if grain.grain_type().is_some() => Err(error(
            ErrorCode::UnknownType,
            Field::Type,
            format!("unknown memory type: {name}"),
        )),
        None => Ok(()),
    }
}

/// Every field holds its kind of value, within its range; for a reader it need not hold where
/// nothing rests on it.
fn check_kinds(grain: &mut Grain<'_>, rigor: Rigor) -> Result<(), GrainError> {
    let mut odd = false;
    for (field, value) in grain.known() {
        if let Err(fault) = check_kind(*field, value, grain.grain_type(), rigor) {
            if rigor == Rigor::Write || !is_bearable(grain, *field, value, &fault) {
                return Err(fault);
            }
            odd = true;
        }
    }
    grain.marks_mut().note(Mark::FieldKind, odd);
    Ok(())
}

/// True if a reader takes `grain` though `value` isn't what `field` holds: because its type has no
/// schema, because the value can be read all the same, or because nothing rests on the field.
fn is_bearable(grain: &Grain<'_>, field: Field, value: &RawValue<'_>, fault: &GrainError) -> bool {
    match grain.grain_type() {
        None => true,
        Some(kind) => {
            fault.code == ErrorCode::Schema
                && (is_close(field, value) || !is_vital(grain, kind, field))
        }
    }
}

/// Values of another kind that some writers keep and that can be read in one way only: an integer
/// as a double, a threshold as a fraction, a list of one text as the text.
fn is_close(field: Field, value: &RawValue<'_>) -> bool {
    match field.kind() {
        Kind::UnitFloat | Kind::Float => value.as_number().is_some(),
        Kind::Count => matches!(value, RawValue::Float(_)),
        Kind::TextList | Kind::CitationList => value.as_text().is_some(),
        _ => false,
    }
}

/// Fields whose wrong kind makes a grain of type `kind` unreadable rather than odd: what the type
/// needs, and what identity, time, trust and protection rest on.
fn is_vital(grain: &Grain<'_>, kind: GrainType, field: Field) -> bool {
    let common = matches!(
        field,
        Field::CreatedAt
            | Field::Confidence
            | Field::Importance
            | Field::Namespace
            | Field::UserId
            | Field::StructuralTags
            | Field::InvalidationPolicy
            | Field::Elided
    );
    let own = match kind {
        GrainType::Event => EVENT_FIELDS.contains(&field),
        GrainType::Action => {
            matches!(field, Field::ActionPhase | Field::ExecutionMode)
                || phase_of(grain).is_ok_and(|phase| phase.required.contains(&field))
        }
        GrainType::Consent => field == Field::PriorConsent,
        _ => false,
    };
    common || own || required_fields(kind).contains(&field)
}

/// The fields that tell what happened in an event: its text, its blocks or its triple.
const EVENT_FIELDS: [Field; 5] = [
    Field::Content,
    Field::ContentBlocks,
    Field::Subject,
    Field::Relation,
    Field::Object,
];

fn check_kind(
    field: Field,
    value: &RawValue<'_>,
    of: Option<GrainType>,
    rigor: Rigor,
) -> Result<(), GrainError> {
    if rigor == Rigor::Write && field.access() == Access::Index {
        return Err(error(
            ErrorCode::Schema,
            field,
            "belongs to the index layer, a writer must not set it",
        ));
    }
    let fits = match field.kind() {
        Kind::Text => value.as_text().is_some(),
        // Only actions may hold structured content; elsewhere it is the text that readers without
        // blocks see.
        Kind::Any if field == Field::Content && of == Some(GrainType::Event) => {
            value.as_text().is_some()
        }
        Kind::Any => true,
        Kind::UnitFloat => return check_unit_float(field, value),
        Kind::Float => matches!(value, RawValue::Float(_)),
        Kind::Int => matches!(value, RawValue::Int(_) | RawValue::BigInt(_)),
        Kind::Count => return check_count(field, value),
        Kind::Byte => return check_byte(field, value),
        Kind::Bool => value.as_bool().is_some(),
        Kind::Instant => return check_instant(field, value),
        // Hashes by the names of what was hidden (§10.3).
        Kind::Map if field == Field::Elided => value
            .as_map()
            .is_some_and(|mut entries| entries.all(|(_, hash)| hash.as_text().is_some())),
        Kind::Map | Kind::InvalidationPolicy | Kind::RetentionPolicy => {
            matches!(value, RawValue::Map(_))
        }
        Kind::TextOrMap => matches!(value, RawValue::Text(_) | RawValue::Map(_)),
        Kind::TextList => is_list(value, |item| item.as_text().is_some()),
        Kind::CitationList => is_list(value, |item| {
            matches!(item, RawValue::Text(_) | RawValue::Map(_))
        }),
        Kind::ByteList => return check_bytes(field, value),
        Kind::AnyList => matches!(value, RawValue::Array(_)),
        Kind::MapList
        | Kind::ContentRefs
        | Kind::EmbeddingRefs
        | Kind::RelatedTo
        | Kind::ProvenanceChain => is_list(value, |item| matches!(item, RawValue::Map(_))),
    };
    match fits {
        true if rigor == Rigor::Write => super::parts::check(field, value),
        true => Ok(()),
        false => Err(wrong_kind(field, value)),
    }
}

fn is_list(value: &RawValue<'_>, fits: impl FnMut(RawValue<'_>) -> bool) -> bool {
    value.as_array().is_some_and(|mut items| items.all(fits))
}

fn wrong_kind(field: Field, value: &RawValue<'_>) -> GrainError {
    let expected = match field.kind() {
        Kind::Text => "a string",
        Kind::UnitFloat | Kind::Float => "a float",
        Kind::Int | Kind::Count | Kind::Byte => "an integer",
        Kind::Instant => "an integer (milliseconds since 1970)",
        Kind::Bool => "a boolean",
        Kind::Map if field == Field::Elided => "a map of strings",
        Kind::Map | Kind::InvalidationPolicy | Kind::RetentionPolicy => "a map",
        Kind::TextOrMap => "a string or a map",
        Kind::TextList => "an array of strings",
        Kind::CitationList => "an array of content addresses or citations",
        Kind::ByteList => "an array of bytes",
        Kind::AnyList => "an array",
        Kind::MapList
        | Kind::ContentRefs
        | Kind::EmbeddingRefs
        | Kind::RelatedTo
        | Kind::ProvenanceChain => "an array of maps",
        Kind::Any => "a string",
    };
    error(
        ErrorCode::Schema,
        field,
        format!("must be {expected}, is {}", value.kind_name()),
    )
}

fn check_unit_float(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value.as_number() {
        Some(number) if !(0.0..=1.0).contains(&number) => Err(error(
            ErrorCode::Range,
            field,
            format!("must be in [0.0, 1.0], is {number}"),
        )),
        _ if matches!(value, RawValue::Float(_)) => Ok(()),
        _ => Err(wrong_kind(field, value)),
    }
}

fn check_count(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value {
        RawValue::Int(0..) | RawValue::BigInt(_) => Ok(()),
        _ => match value.as_number() {
            Some(number) if number < 0.0 => Err(error(
                ErrorCode::Range,
                field,
                format!("must not be negative, is {number}"),
            )),
            _ => Err(wrong_kind(field, value)),
        },
    }
}

fn check_byte(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value {
        RawValue::Int(0..=255) => Ok(()),
        RawValue::Int(_) | RawValue::BigInt(_) => {
            Err(error(ErrorCode::Range, field, "must be in 0..=255"))
        }
        _ => Err(wrong_kind(field, value)),
    }
}

fn check_bytes(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    let mut items = value.as_array().ok_or_else(|| wrong_kind(field, value))?;
    items.try_for_each(|item| match check_byte(field, &item) {
        Err(fault) if fault.code == ErrorCode::Schema => Err(wrong_kind(field, value)),
        checked => checked,
    })
}

/// Instants fit a signed 64-bit integer; `created_at` must fit the header's unsigned 32-bit seconds
/// too (§3.1.1).
fn check_instant(field: Field, value: &RawValue<'_>) -> Result<(), GrainError> {
    match value {
        RawValue::Int(milliseconds)
            if field == Field::CreatedAt && header_seconds(*milliseconds).is_none() =>
        {
            let message =
                format!("must be between 1970 and 2106 to fit the header, is {milliseconds} ms");
            Err(error(ErrorCode::Range, field, message))
        }
        RawValue::Int(_) => Ok(()),
        RawValue::BigInt(_) => Err(error(
            ErrorCode::Range,
            field,
            "is beyond the range of a signed 64-bit integer",
        )),
        _ => Err(wrong_kind(field, value)),
    }
}

/// `created_at` in the header's whole seconds, if it fits.
pub(crate) fn header_seconds(milliseconds: i64) -> Option<u32> {
    u32::try_from(milliseconds.div_euclid(1000)).ok()
}

/// The fields that a type needs whatever else it holds; those of actions depend on their phase.
const fn required_fields(kind: GrainType) -> &'static [Field] {
    match kind {
        GrainType::Belief => &[
            Field::Subject,
            Field::Relation,
            Field::Object,
            Field::Confidence,
        ],
        GrainType::Event | GrainType::Action | GrainType::Reasoning => &[],
        GrainType::State => &[Field::Context],
        GrainType::Workflow => &[Field::Steps, Field::Trigger],
        GrainType::Observation => &[Field::ObserverId, Field::ObserverType],
        GrainType::Goal => &[Field::Description, Field::GoalState],
        GrainType::Consensus => &[
            Field::ParticipatingObservers,
            Field::Threshold,
            Field::AgreementCount,
            Field::DissentCount,
        ],
        GrainType::Consent => &[
            Field::SubjectDid,
            Field::GranteeDid,
            Field::Scope,
            Field::IsWithdrawal,
        ],
    }
}

fn check_schema(grain: &mut Grain<'_>, kind: GrainType) -> Result<(), GrainError> {
    for field in required_fields(kind) {
        check_required(grain, *field)?;
        // The object of a belief may be the empty string; every other required text must say
        // something.
        if *field != Field::Object {
            check_not_empty(grain, *field)?;
        }
    }
    match kind {
        GrainType::Event => check_event(grain),
        GrainType::Action => check_action(grain),
        GrainType::Consent => check_consent(grain),
        GrainType::Workflow
            if grain
                .get(Field::Steps)
                .is_some_and(|steps| steps.count() == 0 && steps.as_text().is_none()) =>
        {
            Err(error(
                ErrorCode::Empty,
                Field::Steps,
                "must have at least one step",
            ))
        }
        _ => Ok(()),
    }
}

fn has(grain: &Grain<'_>, field: Field) -> bool {
    grain.get(field).is_some() || grain.is_elided(field)
}

fn check_required(grain: &Grain<'_>, field: Field) -> Result<(), GrainError> {
    if has(grain, field) {
        return Ok(());
    }
    Err(error(
        ErrorCode::Schema,
        field,
        format!("missing required field: {}", field.name()),
    ))
}

fn check_not_empty(grain: &Grain<'_>, field: Field) -> Result<(), GrainError> {
    if grain.text(field) == Some("") {
        return Err(error(ErrorCode::Empty, field, "must not be empty"));
    }
    Ok(())
}

/// An event has text, unless blocks or a triple say it all (§6.2, §8.2).
fn check_event(grain: &Grain<'_>) -> Result<(), GrainError> {
    check_not_empty(grain, Field::Content)?;
    let triple = [Field::Subject, Field::Relation, Field::Object];
    if has(grain, Field::ContentBlocks) || triple.into_iter().all(|field| has(grain, field)) {
        return Ok(());
    }
    check_required(grain, Field::Content)
}

/// A withdrawal names the consent that it ends (§8.10).
fn check_consent(grain: &Grain<'_>) -> Result<(), GrainError> {
    let withdraws = grain
        .get(Field::IsWithdrawal)
        .and_then(|value| value.as_bool())
        == Some(true);
    if withdraws {
        check_required(grain, Field::PriorConsent)?;
        check_not_empty(grain, Field::PriorConsent)?;
    }
    Ok(())
}

/// What the phase of an action demands, forbids and leaves out (§27.1).
struct Phase {
    required: &'static [Field],
    forbidden: &'static [Field],
    omitted: &'static [Field],
}

const RESULT_FIELDS: &[Field] = &[
    Field::Input,
    Field::Content,
    Field::IsError,
    Field::Stdout,
    Field::Stderr,
    Field::ExitCode,
    Field::DurationMs,
];

const DEFINITION_ONLY: [Field; 4] = [
    Field::ToolDescription,
    Field::InputSchema,
    Field::OutputSchema,
    Field::Strict,
];

const DEFINITION: Phase = Phase {
    required: &[Field::ToolName, Field::ToolDescription, Field::InputSchema],
    forbidden: RESULT_FIELDS,
    omitted: &[Field::ToolCallId, Field::CallBatchId, Field::DerivedFrom],
};

const CALL: Phase = Phase {
    required: &[Field::ToolName, Field::Input],
    forbidden: RESULT_FIELDS.split_at(1).1,
    omitted: &[
        DEFINITION_ONLY[0],
        DEFINITION_ONLY[1],
        DEFINITION_ONLY[2],
        DEFINITION_ONLY[3],
        Field::DerivedFrom,
    ],
};

const RESULT: Phase = Phase {
    required: &[
        Field::ToolCallId,
        Field::Content,
        Field::IsError,
        Field::DerivedFrom,
    ],
    forbidden: &[],
    omitted: &[
        DEFINITION_ONLY[0],
        DEFINITION_ONLY[1],
        DEFINITION_ONLY[2],
        DEFINITION_ONLY[3],
        Field::ToolName,
        Field::ToolType,
        Field::ToolVersion,
        Field::Input,
    ],
};

const COMPLETE: Phase = Phase {
    required: &[
        Field::ToolName,
        Field::Input,
        Field::Content,
        Field::IsError,
    ],
    forbidden: &[],
    omitted: &DEFINITION_ONLY,
};

/// Code execution records its code and its output streams instead of input and content (§27.1,
/// example 2).
const CODE_EXECUTION: Phase = Phase {
    required: &[Field::Code, Field::IsError],
    forbidden: &[],
    omitted: &DEFINITION_ONLY,
};

fn phase_of(grain: &Grain<'_>) -> Result<Phase, GrainError> {
    match grain.text(Field::ActionPhase) {
        Some("definition") => Ok(DEFINITION),
        Some("call") => Ok(CALL),
        Some("result") => Ok(RESULT),
        Some(other) => {
            let message = format!("must be `definition`, `call` or `result`, is `{other}`");
            Err(error(ErrorCode::Schema, Field::ActionPhase, message))
        }
        // Code may also be run by an ordinary call of a tool, whose input it is.
        None if grain.text(Field::ExecutionMode) == Some("code_exec")
            && (has(grain, Field::Code) || !has(grain, Field::ToolName)) =>
        {
            Ok(CODE_EXECUTION)
        }
        None => Ok(COMPLETE),
    }
}

fn check_action(grain: &mut Grain<'_>) -> Result<(), GrainError> {
    let phase = phase_of(grain)?;
    for field in phase.required {
        check_required(grain, *field)?;
        // A tool may well have nothing to say; every other required text must say something.
        if *field != Field::Content {
            check_not_empty(grain, *field)?;
        }
    }
    if let Some(field) = phase
        .forbidden
        .iter()
        .find(|field| grain.get(**field).is_some())
    {
        return Err(error(
            ErrorCode::Schema,
            *field,
            "must not appear in this phase of an action",
        ));
    }
    let omitted = phase
        .omitted
        .iter()
        .any(|field| grain.get(*field).is_some());
    grain.marks_mut().note(Mark::PhaseFields, omitted);
    Ok(())
}

/// The states of a goal (§8.7).
const GOAL_STATES: [&str; 4] = ["active", "satisfied", "failed", "suspended"];

/// The types of cross-links (§14.3): closed, so that no name can leak personal data.
const RELATION_TYPES: [&str; 11] = [
    "similar",
    "contradicts",
    "elaborates",
    "generalizes",
    "temporal_next",
    "temporal_prev",
    "causal",
    "supports",
    "refutes",
    "replaces",
    "depends_on",
];

fn check_vocabulary(grain: &mut Grain<'_>, rigor: Rigor) -> Result<(), GrainError> {
    let state = grain
        .text(Field::GoalState)
        .filter(|state| !GOAL_STATES.contains(state));
    if let Some(state) =
        state.filter(|_| rigor == Rigor::Write || grain.grain_type() == Some(GrainType::Goal))
    {
        let message = format!("must be one of {}, is `{state}`", GOAL_STATES.join(", "));
        return Err(error(ErrorCode::Schema, Field::GoalState, message));
    }
    let links = grain
        .get(Field::RelatedTo)
        .and_then(|links| links.as_array())
        .into_iter()
        .flatten();
    let types = links.filter_map(|link| link.get("rl").and_then(|kind| kind.as_text()));
    let foreign = types.filter(|kind| !RELATION_TYPES.contains(kind)).last();
    if let (Some(kind), Rigor::Write) = (foreign, rigor) {
        let message = format!(
            "`{kind}` isn't a relation type; they are {}",
            RELATION_TYPES.join(", ")
        );
        return Err(error(ErrorCode::Schema, Field::RelatedTo, message));
    }
    let odd = foreign.is_some() || state.is_some();
    grain.marks_mut().note(Mark::Vocabulary, odd);
    Ok(())
}

/// The least sensitivity class that the grain's tags demand.
pub(super) fn demanded_sensitivity(grain: &Grain<'_>) -> Sensitivity {
    grain
        .tags()
        .map(Sensitivity::of_tag)
        .max()
        .unwrap_or_default()
}

fn check_sensitivity(grain: &Grain<'_>) -> Result<(), GrainError> {
    let (claimed, demanded) = (
        grain.header().flags.sensitivity(),
        demanded_sensitivity(grain),
    );
    if claimed >= demanded {
        return Ok(());
    }
    let message = format!(
        "the header says {}, the tags demand {}",
        claimed.name(),
        demanded.name()
    );
    Err(error(
        ErrorCode::SensitivityMismatch,
        Field::StructuralTags,
        message,
    ))
}

/// The header's hints against the payload: only marks, because the payload is what counts.
fn check_header(grain: &mut Grain<'_>) {
    let header = *grain.header();
    let seconds = grain
        .get(Field::CreatedAt)
        .and_then(|value| value.as_int())
        .and_then(header_seconds);
    let listed = |field| grain.get(field).is_some_and(|value| value.count() > 0);
    let references = header.flags.has_content_refs() != listed(Field::ContentRefs)
        || header.flags.has_embedding_refs() != listed(Field::EmbeddingRefs);
    let namespace =
        !grain.is_elided(Field::Namespace) && header.namespace_hash != grain.namespace_hash();
    let marks = grain.marks_mut();
    marks.note(
        Mark::HeaderTime,
        seconds.is_some_and(|seconds| seconds != header.created_at_seconds),
    );
    marks.note(Mark::ReferenceFlags, references);
    marks.note(Mark::HeaderNamespace, namespace);
}
