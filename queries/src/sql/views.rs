//! The views that are pure SQL over the stored tables.
//!
//! | view | one row is |
//! |---|---|
//! | `beliefs` … `consents` | a grain of that type, with only the columns that the type can have |
//! | `triples` | subject, relation and object of a grain that has all three |
//! | `holds` | a litigation hold that was placed on a grain and is in force now |
//!
//! The views of consents and their withdrawals are in `consent_views`, those of lifecycle state in
//! `lifecycle`.

use gristmill_schemas::columns::{GRAINS, SystemColumn, column_type};
use gristmill_schemas::grain::{Field, GrainType};

use super::consent_views;
use super::lazy_views::View;
use super::lifecycle::{self, Copies};
use crate::cal::TypeName;

/// Returns the views of a session with or without disclosed copies, and their queries.
pub(super) fn views(copies: Copies) -> impl Iterator<Item = View> {
    let of_types = GrainType::ALL
        .into_iter()
        .map(|grain_type| (grain_type.plural(), of_type(grain_type)));
    let others = [("triples", TRIPLES.to_owned()), ("holds", HOLDS.to_owned())];
    of_types
        .chain(lifecycle::views(copies))
        .chain(others)
        .chain(consent_views::views())
}

fn of_type(grain_type: GrainType) -> String {
    let identity = SystemColumn::ALL.iter().map(|column| column.name());
    let fields = Field::for_type(grain_type)
        .filter(|field| column_type(*field).is_some())
        .map(Field::name);
    let columns: Vec<String> = identity
        .chain(fields)
        .map(|name| format!("\"{name}\""))
        .collect();
    format!(
        "SELECT {} FROM {GRAINS} WHERE type_byte = {}",
        columns.join(", "),
        grain_type as u8
    )
}

/// Query of `triples`.
pub(super) const TRIPLES: &str = "
    SELECT subject, relation, object, content_address AS address, type, namespace, created_at FROM grains
    WHERE subject IS NOT NULL AND relation IS NOT NULL AND object IS NOT NULL";

/// Query of `holds`: of the events of each hold on each grain the last, as in
/// [`HoldIndex`](gristmill_schemas::lifecycle::HoldIndex). An end that can't be read is none.
const HOLDS: &str = "
    SELECT content_address, hold, until, at AS placed_at, authority, reason
    FROM (SELECT *, row_number() OVER (PARTITION BY content_address, hold
                                       ORDER BY at DESC, event, until DESC NULLS FIRST) AS number
          FROM (SELECT content_address, event, at, actor AS authority, reason,
                       coalesce(split_part(value, ' ', 1), 'unknown') AS hold,
                       arrow_cast(try_cast(nullif(split_part(value, ' ', 2), '') AS TIMESTAMP),
                                  'Timestamp(Microsecond, Some(\"UTC\"))') AS until
                FROM state
                WHERE event = 'held' OR event = 'released' AND value IS NOT NULL))
    WHERE number = 1 AND event = 'held' AND (until IS NULL OR until > now())";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_belief_has_the_core_fields_and_no_others() {
        let query = of_type(GrainType::Belief);
        assert!(query.contains("\"subject\"") && query.contains("\"content_address\""));
        assert!(!query.contains("\"tool_name\"") && !query.contains("\"content\""));
    }

    #[test]
    fn content_is_a_column_of_events_and_of_actions() {
        assert!(of_type(GrainType::Event).contains("\"content\""));
        assert!(of_type(GrainType::Action).contains("\"content\""));
    }
}
