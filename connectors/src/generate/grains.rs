//! Putting one grain together.

use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, Field, GrainType, Key, Value, encode};

use super::people::Person;

/// A grain that is being put together.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    fields: Vec<(Key<'static>, Value<'static>)>,
}

impl Draft {
    /// A grain of `kind` that the agent of `person` creates at `at`, in milliseconds since 1970.
    pub(super) fn new(kind: GrainType, person: &Person, at: i64) -> Self {
        let draft = Draft {
            fields: Vec::with_capacity(16),
        };
        draft
            .with(Field::Type, kind.name())
            .with(Field::CreatedAt, at)
            .with(Field::Namespace, person.namespace.clone())
            .with(Field::AuthorDid, person.agent.clone())
    }

    /// Marks the grain as one about `person`.
    pub(super) fn about(self, person: &Person) -> Self {
        self.with(Field::UserId, person.user_id.clone())
    }

    /// Sets a field.
    pub(super) fn with(mut self, field: Field, value: impl Into<Value<'static>>) -> Self {
        self.fields.push((field.into(), value.into()));
        self
    }

    /// Encodes it.
    pub(super) fn encode(self) -> Result<EncodedGrain, GrainError> {
        encode(self.fields, EncodeOptions::default())
    }
}

/// A map from names to values.
pub(super) fn map<const N: usize>(entries: [(&'static str, Value<'static>); N]) -> Value<'static> {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    )
}
