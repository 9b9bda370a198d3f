//! The views that are pure SQL over the stored tables.
//!
//! | view | one row is |
//! |---|---|
//! | `beliefs` … `consents` | a grain of that type, with just the columns that it can fill |
//! | `supersessions` | one grain taking another's place, from `state` and from the grains that say so themselves |
//! | `lifecycle` | the fold of a grain's lifecycle events |
//! | `current` | a grain that is neither superseded, expired, contradicted nor retracted |
//! | `triples` | subject, relation and object of a grain that states all three |
//! | `consent_state` | the newest word on a (subject, grantee, scope), and whether it is in force now |
//!
//! What a blob says of its own lifecycle isn't trusted: only events are folded.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use gristmill_schemas::columns::{GRAINS, IdentityColumn, column_of};
use gristmill_schemas::grain::{Field, GrainType};

use crate::cal::TypeName;

/// Registers all views.
pub(super) async fn register(context: &SessionContext) -> Result<()> {
    for grain_type in GrainType::ALL {
        create(context, grain_type.plural(), &of_type(grain_type)).await?;
    }
    create(context, "supersessions", SUPERSESSIONS).await?;
    create(context, "lifecycle", &folded(None)).await?;
    create(context, "current", &current("lifecycle", None)).await?;
    create(context, "triples", TRIPLES).await?;
    create(context, "consent_state", CONSENT_STATE).await
}

/// Registers one view.
pub(super) async fn create(context: &SessionContext, name: &str, query: &str) -> Result<()> {
    context.sql(&format!("CREATE VIEW {name} AS {query}")).await.map(drop)
}

fn of_type(grain_type: GrainType) -> String {
    let identity = IdentityColumn::ALL.iter().map(|column| column.name());
    let fields = Field::of_type(grain_type).filter(|field| column_of(*field).is_some()).map(Field::name);
    let columns: Vec<String> = identity.chain(fields).map(|name| format!("\"{name}\"")).collect();
    format!("SELECT {} FROM {GRAINS} WHERE type_byte = {}", columns.join(", "), grain_type as u8)
}

const SUPERSESSIONS: &str = "
    SELECT content_address, value AS superseded_by, at FROM state WHERE event = 'superseded' AND value IS NOT NULL
    UNION ALL
    SELECT old AS content_address, new AS superseded_by, made AS at
    FROM (SELECT unnest(supersedes) AS old, content_address AS new, created_at AS made FROM grains
          WHERE supersedes IS NOT NULL)";

/// The fold of all events, or of those up to `until` (an SQL expression).
pub(super) fn folded(until: Option<&str>) -> String {
    let seen = until.map(|until| format!("WHERE at <= {until}")).unwrap_or_default();
    format!(
        "SELECT content_address,
                first_value(value ORDER BY at) FILTER (WHERE event = 'superseded') AS superseded_by,
                min(at) FILTER (WHERE event IN ('superseded', 'expired')) AS system_valid_to,
                coalesce(last_value(value ORDER BY at) FILTER (WHERE event = 'contradicted') = 'true', false) AS contradicted,
                last_value(value ORDER BY at) FILTER (WHERE event = 'verification') AS verification_status,
                max(arrow_cast(value, 'Int64')) FILTER (WHERE event = 'accessed') AS access_count,
                max(at) FILTER (WHERE event = 'accessed') AS last_accessed_at
         FROM (SELECT content_address, event, value, at FROM state
               UNION ALL
               SELECT old AS content_address, 'superseded' AS event, new AS value, made AS at
               FROM (SELECT unnest(supersedes) AS old, content_address AS new, created_at AS made FROM grains
                     WHERE supersedes IS NOT NULL))
         {seen}
         GROUP BY content_address"
    )
}

/// The grains that `lifecycle` (a relation) doesn't close, or those of them that were made up to `until`.
pub(super) fn current(lifecycle: &str, until: Option<&str>) -> String {
    let made = until.map(|until| format!("WHERE g.created_at <= {until}")).unwrap_or_default();
    format!(
        "SELECT g.* FROM grains g LEFT ANTI JOIN
             (SELECT content_address FROM {lifecycle}
              WHERE system_valid_to IS NOT NULL OR contradicted OR verification_status = 'retracted') AS closed
         ON g.content_address = closed.content_address {made}"
    )
}

const TRIPLES: &str = "
    SELECT subject, relation, object, content_address AS address, type, namespace, created_at FROM grains
    WHERE subject IS NOT NULL AND relation IS NOT NULL AND object IS NOT NULL";

/// A withdrawal that names no scope withdraws those of the consent that it refers to. Of two words at the same instant the
/// withdrawal is believed.
const CONSENT_STATE: &str = "
    SELECT subject_did, grantee_did, scope, content_address, basis, jurisdiction, namespace, created_at, valid_from, valid_to,
           is_withdrawal AS withdrawn,
           CASE WHEN is_withdrawal THEN created_at END AS withdrawn_at,
           NOT is_withdrawal AND (valid_from IS NULL OR valid_from <= now()) AND (valid_to IS NULL OR valid_to > now())
               AS in_force
    FROM (SELECT *, row_number() OVER (PARTITION BY subject_did, grantee_did, scope
                                       ORDER BY created_at DESC, is_withdrawal DESC, content_address) AS place
          FROM (SELECT subject_did, grantee_did, unnest(scopes) AS scope, content_address, stated_basis AS basis,
                       stated_jurisdiction AS jurisdiction, namespace, created_at, valid_from, valid_to, is_withdrawal
                FROM (SELECT c.subject_did, c.grantee_did, coalesce(c.scope, p.scope) AS scopes, c.content_address,
                             coalesce(c.basis, p.basis) AS stated_basis,
                             coalesce(c.jurisdiction, p.jurisdiction) AS stated_jurisdiction,
                             c.namespace, c.created_at, c.valid_from, c.valid_to,
                             coalesce(c.is_withdrawal, false) AS is_withdrawal
                      FROM consents c LEFT JOIN consents p ON c.prior_consent = p.content_address)))
    WHERE place = 1";

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
