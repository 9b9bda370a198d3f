//! Construction of one grain.

use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, Field, GrainType, Key, Value, encode};

use super::people::Person;

/// A grain under construction.
#[derive(Debug, Clone)]
pub(super) struct GrainDraft {
    fields: Vec<(Key<'static>, Value<'static>)>,
}

impl GrainDraft {
    /// Begins a grain of `kind` that the agent of `person` creates at `created_at_ms`, in
    /// milliseconds since 1970.
    pub(super) fn new(kind: GrainType, person: &Person, created_at_ms: i64) -> Self {
        let draft = GrainDraft {
            fields: Vec::with_capacity(16),
        };
        draft
            .with(Field::Type, kind.name())
            .with(Field::CreatedAt, created_at_ms)
            .with(Field::Namespace, person.namespace.clone())
            .with(Field::AuthorDid, person.agent.clone())
    }

    /// Sets the user to `person`.
    pub(super) fn about(self, person: &Person) -> Self {
        self.with(Field::UserId, person.user_id.clone())
    }

    /// Sets a field.
    pub(super) fn with(mut self, field: Field, value: impl Into<Value<'static>>) -> Self {
        self.fields.push((field.into(), value.into()));
        self
    }

    /// Encodes the grain.
    pub(super) fn encode(self) -> Result<EncodedGrain, GrainError> {
        encode(self.fields, EncodeOptions::default())
    }
}

/// Returns a map value.
pub(super) fn map(
    entries: impl IntoIterator<Item = (&'static str, Value<'static>)>,
) -> Value<'static> {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    )
}
