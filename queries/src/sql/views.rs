//! The views that are pure SQL over the stored tables.
//!
//! | view | one row is |
//! |---|---|
//! | `beliefs` … `consents` | a grain of that type, with only the columns that the type can have |
//! | `triples` | subject, relation and object of a grain that has all three |
//! | `consent_withdrawals` | a withdrawal by the subject of the consent that it names, and that consent |
//! | `withdrawn_consents` | a spelling of the address of a consent that was withdrawn and doesn't stand any more |
//! | `holds` | a litigation hold that was placed on a grain and is in force now |
//! | `consent_state` | the newest grant or withdrawal for a (subject, grantee, scope), and whether it is in force now |
//!
//! The views of lifecycle state are in `lifecycle`.

use gristmill_schemas::columns::{GRAINS, SystemColumn, column_type};
use gristmill_schemas::grain::{Field, GrainType};

use super::lazy_views::View;
use super::lifecycle::{self, Copies};
use crate::cal::TypeName;

/// Returns the views of a session with or without disclosed copies, and their queries.
pub(super) fn views(copies: Copies) -> impl Iterator<Item = View> {
    let of_types = GrainType::ALL
        .into_iter()
        .map(|grain_type| (grain_type.plural(), of_type(grain_type)));
    let others = [
        ("triples", TRIPLES.to_owned()),
        ("consent_withdrawals", CONSENT_WITHDRAWALS.to_owned()),
        ("consent_state", CONSENT_STATE.to_owned()),
        ("withdrawn_consents", WITHDRAWN_CONSENTS.to_owned()),
        ("holds", HOLDS.to_owned()),
    ];
    of_types.chain(lifecycle::views(copies)).chain(others)
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

/// Effective withdrawals. Only the subject of a consent can withdraw it, however its address is
/// spelled. A withdrawal applies to the scopes that it shares with the consent, or to all of them
/// if it shares none.
const CONSENT_WITHDRAWALS: &str = "
    SELECT p.content_address AS consent, w.content_address AS withdrawal, p.subject_did, p.grantee_did,
           CASE WHEN p.scope IS NULL OR array_has_any(w.scope, p.scope) THEN w.scope ELSE p.scope END AS scopes,
           coalesce(w.basis, p.basis) AS basis, coalesce(w.jurisdiction, p.jurisdiction) AS jurisdiction, w.namespace,
           w.created_at AS withdrawn_at, w.valid_from, w.valid_to
    FROM (SELECT *, grain_reference(prior_consent) AS named FROM consents WHERE is_withdrawal) w
    JOIN consents p ON w.named = p.content_address AND w.subject_did = p.subject_did";

/// Only current consents count. A withdrawal by the subject of the consent that it names
/// (`prior_consent`) counts whatever its time and its spelling of the grantee; it withdraws the
/// scopes that it shares with the consent, or all of them if it shares none. A withdrawal that
/// names no consent competes with the grants by time: the newest counts, and of two at the same
/// instant the withdrawal.
const CONSENT_STATE: &str = "
    WITH withdrawals AS
        (SELECT subject_did, grantee_did, scopes, withdrawal AS content_address, consent AS prior, basis, jurisdiction,
                namespace, withdrawn_at AS created_at, valid_from, valid_to
         FROM consent_withdrawals
         UNION ALL
         SELECT w.subject_did, w.grantee_did, w.scope, w.content_address, NULL, w.basis, w.jurisdiction, w.namespace,
                w.created_at, w.valid_from, w.valid_to
         FROM (SELECT * FROM consents WHERE is_withdrawal) w
         LEFT ANTI JOIN consent_withdrawals known ON w.content_address = known.withdrawal),
    given AS
        (SELECT subject_did, grantee_did, unnest(scope) AS scope, content_address, basis, jurisdiction, namespace, created_at,
                valid_from, valid_to
         FROM current WHERE type = 'consent' AND NOT coalesce(is_withdrawal, false)),
    withdrawn AS (SELECT prior, unnest(scopes) AS scope FROM withdrawals WHERE prior IS NOT NULL)
    SELECT subject_did, grantee_did, scope, content_address, basis, jurisdiction, namespace, created_at, valid_from, valid_to,
           is_withdrawal AS withdrawn,
           CASE WHEN is_withdrawal THEN created_at END AS withdrawn_at,
           NOT is_withdrawal AND (valid_from IS NULL OR valid_from <= now()) AND (valid_to IS NULL OR valid_to > now())
               AS in_force
    FROM (SELECT *, row_number() OVER (PARTITION BY subject_did, grantee_did, scope
                                       ORDER BY created_at DESC, is_withdrawal DESC, content_address) AS place
          FROM (SELECT given.*, false AS is_withdrawal FROM given
                LEFT ANTI JOIN withdrawn ON given.content_address = withdrawn.prior AND given.scope = withdrawn.scope
                UNION ALL
                SELECT subject_did, grantee_did, unnest(scopes) AS scope, content_address, basis, jurisdiction, namespace,
                       created_at, valid_from, valid_to, true AS is_withdrawal
                FROM withdrawals))
    WHERE place = 1";

/// A consent with two rows, so that a join compares a column of references as it is stored: such a
/// comparison reaches the scan, which then reads little of the other columns. Of several
/// withdrawals the first counts.
const WITHDRAWN_CONSENTS: &str = "
    SELECT unnest([consent, concat('sha256:', consent)]) AS reference, consent, withdrawal, withdrawn_at
    FROM (SELECT consent, first_value(withdrawal ORDER BY withdrawn_at, withdrawal) AS withdrawal,
                 min(withdrawn_at) AS withdrawn_at
          FROM consent_withdrawals GROUP BY consent) AS first
    LEFT ANTI JOIN (SELECT content_address FROM consent_state WHERE NOT withdrawn) AS standing
        ON first.consent = standing.content_address";

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
