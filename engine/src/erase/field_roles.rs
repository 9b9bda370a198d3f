//! The role of each field in matching: the table of [`super::matcher`], field by field.

use gristmill_schemas::grain::Field;

use super::reason::Reason;

/// The role of a field, which determines the meaning of a match in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldRole {
    /// A field that identifies a person whom the grain relates to.
    Identity(Reason),
    /// Colon-separated names.
    Segments,
    /// Any other value.
    Value(Reason),
    /// A word of a closed vocabulary.
    Vocabulary,
    /// A session or run id.
    Session,
    /// The consent on which the processing is based.
    Basis,
}

/// Returns the role of `field`.
pub(super) fn role_of(field: Field) -> FieldRole {
    match field {
        Field::UserId => FieldRole::Identity(Reason::UserId),
        Field::Subject => FieldRole::Identity(Reason::Subject),
        Field::SubjectDid => FieldRole::Identity(Reason::SubjectDid),
        Field::EntityId => FieldRole::Identity(Reason::Entity),
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
        | Field::Owner => FieldRole::Identity(Reason::Party),
        Field::Namespace
        | Field::OriginNamespace
        | Field::AuthorizedNamespaces
        | Field::StructuralTags => FieldRole::Segments,
        Field::Object => FieldRole::Value(Reason::Object),
        Field::SessionId | Field::RunId => FieldRole::Session,
        Field::ProcessingBasis => FieldRole::Basis,
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
        | Field::RecallPriority => FieldRole::Vocabulary,
        _ => FieldRole::Value(Reason::Value),
    }
}
