//! Conditions on the results of a search.

use gristmill_schemas::grain::{Field, GrainType};

/// Conditions on the grains that a search returns. All that are set must hold; by default none is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchFilter {
    /// Types, one of which a grain must have.
    pub types: Vec<GrainType>,
    /// The user to whom it belongs.
    pub user: Option<String>,
    /// The session in which it arose.
    pub session: Option<String>,
    /// Earliest creation in milliseconds since 1970.
    pub since_ms: Option<i64>,
}

impl SearchFilter {
    /// Returns the condition in SQL; `None` if nothing is set.
    pub(super) fn condition(&self) -> Option<String> {
        let mut parts = Vec::new();
        if !self.types.is_empty() {
            let names = self.types.iter().map(|kind| quoted(kind.name()));
            let names: Vec<String> = names.collect();
            parts.push(format!("type IN ({})", names.join(", ")));
        }
        for (field, value) in [
            (Field::UserId, &self.user),
            (Field::SessionId, &self.session),
        ] {
            if let Some(value) = value {
                parts.push(format!("{} = {}", field.name(), quoted(value)));
            }
        }
        if let Some(since) = self.since_ms {
            parts.push(format!("created_at >= to_timestamp_millis({since})"));
        }
        (!parts.is_empty()).then(|| parts.join(" AND "))
    }
}

/// Returns `text` as a literal of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_that_is_set_is_part_of_the_filter() {
        assert_eq!(SearchFilter::default().condition(), None);
        let filter = SearchFilter {
            types: vec![GrainType::Belief, GrainType::Event],
            user: Some("o'hara".to_owned()),
            session: Some("s-1".to_owned()),
            since_ms: Some(-5),
        };
        assert_eq!(
            filter.condition().unwrap(),
            "type IN ('belief', 'event') AND user_id = 'o''hara' AND session_id = 's-1' AND \
             created_at >= to_timestamp_millis(-5)"
        );
    }
}
