//! The views of consents and their withdrawals (§8.10).
//!
//! | view | one row is |
//! |---|---|
//! | `consent_withdrawals` | a withdrawal by the subject of the consent that it names, and that consent |
//! | `consent_state` | the newest grant or withdrawal for a (subject, grantee, scope), and whether it is in force now |
//! | `withdrawn_consents` | a spelling of the address of a consent that was withdrawn and doesn't stand any more |
//!
//! A consent stands if one of its scopes has a row of `consent_state` that isn't a withdrawal. A
//! window over all consents costs more than reading them, so `withdrawn_consents` asks only about
//! consents that a withdrawal leaves something of, and has no window.

use super::lazy_views::View;
use super::listed_rows::listed_rows;

/// The column of the subject of a consent.
pub(crate) const SUBJECT: &str = "subject_did";

/// The relations that the views read. What is stated about a consent depends on nothing but the
/// consents of its subject, so with the consents of some subjects the views have their rows.
pub(crate) struct ConsentSources<'q> {
    /// Consents.
    pub(crate) consents: &'q str,
    /// Those of them that are current.
    pub(crate) current: &'q str,
    /// The rows of [`withdrawals`] among them.
    pub(crate) withdrawals: &'q str,
}

/// All consents.
const CONSENTS: &str = "consents";

/// All current consents.
const CURRENT_CONSENTS: &str = "(SELECT * FROM current WHERE type = 'consent')";

/// Returns the views and their queries.
pub(super) fn views() -> [View; 3] {
    let withdrawals = format!("({})", withdrawals(CONSENTS));
    let sources = ConsentSources {
        consents: CONSENTS,
        current: CURRENT_CONSENTS,
        withdrawals: &withdrawals,
    };
    [
        (
            "consent_withdrawals",
            consent_withdrawals(sources.withdrawals),
        ),
        (CONSENT_STATE, consent_state(&sources)),
        (WITHDRAWN_CONSENTS, withdrawn_consents(&sources)),
    ]
}

/// Name of the view of what is stated last.
pub(crate) const CONSENT_STATE: &str = "consent_state";

/// Name of the view of consents that don't stand any more.
pub(crate) const WITHDRAWN_CONSENTS: &str = "withdrawn_consents";

/// Returns the query of the withdrawals among `consents` (a relation); `prior` is the consent that
/// one names, NULL without effect on any. Only the subject of a consent can withdraw it, however
/// its address is spelled. A withdrawal applies to the scopes that it shares with the consent, or
/// to all of them if it shares none.
pub(crate) fn withdrawals(consents: &str) -> String {
    format!(
        "SELECT w.subject_did,
                CASE WHEN p.content_address IS NULL THEN w.grantee_did ELSE p.grantee_did END
                    AS grantee_did,
                CASE WHEN p.scope IS NULL OR array_has_any(w.scope, p.scope)
                     THEN w.scope ELSE p.scope END AS scopes,
                w.content_address, p.content_address AS prior,
                coalesce(w.basis, p.basis) AS basis,
                coalesce(w.jurisdiction, p.jurisdiction) AS jurisdiction, w.namespace,
                w.created_at, w.valid_from, w.valid_to
         FROM (SELECT *, grain_reference(prior_consent) AS named
               FROM {consents} AS consents WHERE is_withdrawal) w
         LEFT JOIN {consents} AS p
             ON w.named = p.content_address AND w.subject_did = p.subject_did"
    )
}

/// Effective withdrawals.
fn consent_withdrawals(withdrawals: &str) -> String {
    format!(
        "SELECT prior AS consent, content_address AS withdrawal, subject_did, grantee_did, scopes,
                basis, jurisdiction, namespace, created_at AS withdrawn_at, valid_from, valid_to
         FROM {withdrawals} AS withdrawals WHERE prior IS NOT NULL"
    )
}

/// Common table expressions of withdrawals, and of the scopes that they withdraw.
fn withdrawn_scopes(sources: &ConsentSources<'_>) -> String {
    format!(
        "withdrawals AS (SELECT * FROM {withdrawals} AS withdrawals),
         withdrawn AS
             (SELECT prior, unnest(scopes) AS scope FROM withdrawals WHERE prior IS NOT NULL)",
        withdrawals = sources.withdrawals
    )
}

/// Common table expressions of what is stated about a (subject, grantee, scope), with
/// `subjects` (a query of one column `listed`) of these subjects only. Only current consents
/// count. A withdrawal by the subject of the consent that it names (`prior_consent`) counts
/// whatever its time and its spelling of the grantee: that consent states nothing on the withdrawn
/// scopes. Of the statements the newest counts, and of two at the same instant the withdrawal.
fn statements(sources: &ConsentSources<'_>, subjects: Option<&str>) -> String {
    format!(
        "given AS
             (SELECT subject_did, grantee_did, unnest(scope) AS scope, content_address, basis,
                     jurisdiction, namespace, created_at, valid_from, valid_to,
                     false AS is_withdrawal
              FROM {current} AS current WHERE NOT coalesce(is_withdrawal, false)),
         kept AS
             (SELECT given.* FROM given
              LEFT ANTI JOIN withdrawn
                  ON given.content_address = withdrawn.prior AND given.scope = withdrawn.scope),
         statements AS
             (SELECT * FROM kept
              UNION ALL
              SELECT subject_did, grantee_did, unnest(scopes) AS scope, content_address, basis,
                     jurisdiction, namespace, created_at, valid_from, valid_to,
                     true AS is_withdrawal
              FROM {withdrawals} AS withdrawals)",
        current = listed_rows(sources.current, SUBJECT, subjects),
        withdrawals = listed_rows("withdrawals", SUBJECT, subjects),
    )
}

/// Returns the query of the first statement of each subject, grantee and scope.
pub(crate) fn consent_state(sources: &ConsentSources<'_>) -> String {
    format!(
        "WITH {}, {}
         SELECT subject_did, grantee_did, scope, content_address, basis, jurisdiction, namespace,
                created_at, valid_from, valid_to, is_withdrawal AS withdrawn,
                CASE WHEN is_withdrawal THEN created_at END AS withdrawn_at,
                NOT is_withdrawal AND (valid_from IS NULL OR valid_from <= now())
                    AND (valid_to IS NULL OR valid_to > now()) AS in_force
         FROM (SELECT *, row_number() OVER
                             (PARTITION BY subject_did, grantee_did, scope
                              ORDER BY created_at DESC, is_withdrawal DESC, content_address)
                             AS place
               FROM statements)
         WHERE place = 1",
        withdrawn_scopes(sources),
        statements(sources, None)
    )
}

/// A text by which statements of one subject, grantee and scope have the order of
/// [`consent_state`]: the least is the first.
const PLACE: &str = "
    concat(CASE WHEN created_at IS NULL THEN ' '
                ELSE lpad(CAST(4000000000000000000 - CAST(created_at AS BIGINT) AS VARCHAR),
                          20, '0') END,
           CASE WHEN is_withdrawal THEN '0' ELSE '1' END, content_address)";

/// Returns the query of the consents that don't stand any more.
///
/// Each has two rows, so that a join compares a column of references as it is stored: such a
/// comparison reaches the scan, which then reads little of the other columns. They are made before
/// rows are grouped: DataFusion takes what was grouped by for unique after `unnest` too, so that
/// `DISTINCT` kept both rows. Of several withdrawals the first counts.
///
/// `standing` has what withdrawals leave of the consents that they name, unless another statement
/// comes first. To find that by a join of both would compare all statements of a subject with each
/// other. Withdrawals leave little, so only statements about the same subjects are made, and of
/// these only those about the same grantee and scope are grouped, where absent ones are compared as
/// empty texts, which may select too many of them but no other rows. The keys of that join are
/// columns: DataFusion plans those that aren't in a random order.
pub(crate) fn withdrawn_consents(sources: &ConsentSources<'_>) -> String {
    format!(
        "WITH {scopes},
         first AS
             (SELECT reference, prior AS consent, min(created_at) AS withdrawn_at,
                     first_value(content_address ORDER BY created_at, content_address)
                         AS withdrawal
              FROM (SELECT *, unnest([prior, concat('sha256:', prior)]) AS reference
                    FROM withdrawals WHERE prior IS NOT NULL)
              GROUP BY reference, prior),
         remaining AS
             (SELECT named.* FROM
                  (SELECT subject_did, grantee_did, unnest(scope) AS scope, content_address,
                          created_at, false AS is_withdrawal
                   FROM {current} AS current
                   LEFT SEMI JOIN (SELECT prior FROM withdrawals WHERE prior IS NOT NULL) AS w
                       ON current.content_address = w.prior
                   WHERE NOT coalesce(is_withdrawal, false)) AS named
              LEFT ANTI JOIN withdrawn
                  ON named.content_address = withdrawn.prior AND named.scope = withdrawn.scope),
         {statements},
         firsts AS
             (SELECT subject_did, grantee_did, scope, min({PLACE}) AS place
              FROM (SELECT *, coalesce(grantee_did, '') AS grantee, coalesce(scope, '') AS about
                    FROM statements) AS statements
              LEFT SEMI JOIN (SELECT subject_did, coalesce(grantee_did, '') AS grantee,
                                     coalesce(scope, '') AS about
                              FROM remaining) AS concerned
                  ON statements.subject_did = concerned.subject_did
                      AND statements.grantee = concerned.grantee
                      AND statements.about = concerned.about
              GROUP BY subject_did, grantee_did, scope),
         standing AS
             (SELECT remaining.content_address
              FROM (SELECT *, {PLACE} AS place
                    FROM remaining) AS remaining
              LEFT SEMI JOIN firsts
                  ON remaining.subject_did = firsts.subject_did
                      AND (remaining.grantee_did IS NOT DISTINCT FROM firsts.grantee_did)
                      AND (remaining.scope IS NOT DISTINCT FROM firsts.scope)
                      AND remaining.place = firsts.place)
         SELECT reference, consent, withdrawal, withdrawn_at
         FROM first LEFT ANTI JOIN standing ON first.consent = standing.content_address",
        scopes = withdrawn_scopes(sources),
        current = sources.current,
        statements = statements(sources, Some("SELECT subject_did AS listed FROM remaining")),
    )
}

/// Returns the query of the rows of `withdrawn_consents` that may not have been among them before
/// the consents in `changed` (a query of one column `listed`) were added or had events.
///
/// A consent all of whose scopes are withdrawn never stands again. So the others are those that
/// changed, those that a changed withdrawal names, and those that withdrawals leave a scope of,
/// which depends on all that is stated about their subjects.
pub(crate) fn changed_withdrawn_consents(sources: &ConsentSources<'_>, changed: &str) -> String {
    let ConsentSources {
        consents,
        withdrawals,
        ..
    } = sources;
    format!(
        "SELECT w.* FROM {WITHDRAWN_CONSENTS} AS w LEFT SEMI JOIN
             (SELECT listed AS changed FROM ({changed}) AS changed
              UNION ALL
              SELECT prior AS changed FROM {withdrawals} AS withdrawals
              LEFT SEMI JOIN ({changed}) AS named ON content_address = listed
              WHERE prior IS NOT NULL
              UNION ALL
              SELECT p.content_address AS changed
              FROM {consents} AS p JOIN {withdrawals} AS withdrawals
                  ON p.content_address = withdrawals.prior
              LEFT SEMI JOIN
                  (SELECT c.subject_did AS changed_subject FROM {consents} AS c
                   LEFT SEMI JOIN ({changed}) AS of_subjects ON c.content_address = listed) AS own
                  ON p.subject_did = changed_subject
              WHERE NOT array_has_all(withdrawals.scopes, p.scope)) AS candidates
         ON w.consent = changed"
    )
}

#[cfg(test)]
mod tests;
