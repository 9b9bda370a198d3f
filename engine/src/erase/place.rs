//! Where in a grain an identifier stands: the table of [`super::matcher`], field by field.

use gristmill_schemas::grain::Field;

use super::reason::Reason;

/// What a match at a place means.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// A field that says who a grain is about.
    Identity(Reason),
    /// Colon-separated names.
    Segments,
    /// Any value.
    Value(Reason),
    /// A word of a vocabulary.
    Vocabulary,
    /// Session or run.
    Session,
    /// The consent that the grain rests on.
    Basis,
}

/// What a match in `field` means.
pub(super) fn place_of(field: Field) -> Place {
    match field {
        Field::UserId => Place::Identity(Reason::UserId),
        Field::Subject => Place::Identity(Reason::Subject),
        Field::SubjectDid => Place::Identity(Reason::SubjectDid),
        Field::EntityId => Place::Identity(Reason::Entity),
        Field::AuthorDid
        | Field::OriginDid
        | Field::ObserverDid
        | Field::ObserverId
        | Field::GranteeDid
        | Field::WitnessDids
        | Field::DelegateTo
        | Field::DelegateFrom
        | Field::AssignedAgent
        | Field::ReturnTo
        | Field::ParticipatingObservers
        | Field::InvalidationInitiator
        | Field::Owner => Place::Identity(Reason::Party),
        Field::Namespace
        | Field::OriginNamespace
        | Field::AuthorizedNamespaces
        | Field::StructuralTags => Place::Segments,
        Field::Object => Place::Value(Reason::Object),
        Field::SessionId | Field::RunId => Place::Session,
        Field::ProcessingBasis => Place::Basis,
        Field::Type
        | Field::Relation
        | Field::SourceType
        | Field::TemporalType
        | Field::Role
        | Field::EpistemicStatus
        | Field::IdentityState
        | Field::InvalidationType
        | Field::ActionPhase
        | Field::ToolType
        | Field::ToolName
        | Field::ExecutionMode
        | Field::ObserverType
        | Field::ObservationMode
        | Field::ObservationScope
        | Field::GoalState
        | Field::ExpiryPolicy
        | Field::Basis
        | Field::Scope
        | Field::Jurisdiction
        | Field::InferenceMethod
        | Field::StopReason
        | Field::AllowedTransitions
        | Field::ModelId
        | Field::RecallPriority => Place::Vocabulary,
        _ => Place::Value(Reason::Value),
    }
}
