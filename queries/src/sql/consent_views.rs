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
//! consents that a withdrawal names, and has no window.

use super::lazy_views::View;
use super::listed_rows::listed_rows;

/// The column of the subject of a consent.
const SUBJECT: &str = "subject_did";

/// Returns the views and their queries.
pub(super) fn views() -> [View; 3] {
    [
        ("consent_withdrawals", consent_withdrawals()),
        ("consent_state", consent_state(None)),
        ("withdrawn_consents", withdrawn_consents(None)),
    ]
}

/// Returns the query of the rows of `consent_state` about the subjects that `subjects` lists, as
/// for [`withdrawn_consents_of`].
pub(crate) fn consent_state_of(subjects: &str) -> String {
    consent_state(Some(subjects))
}

/// Returns the query of the rows of `withdrawn_consents` about consents of the subjects that
/// `subjects` lists, a query of one column `listed`. What is stated about a consent depends on
/// nothing but the consents of its subject, so those of others aren't grouped or joined.
pub(crate) fn withdrawn_consents_of(subjects: &str) -> String {
    withdrawn_consents(Some(subjects))
}

/// Query of all withdrawals; `prior` is the consent that one names, NULL without effect on any.
/// Only the subject of a consent can withdraw it, however its address is spelled. A withdrawal
/// applies to the scopes that it shares with the consent, or to all of them if it shares none.
fn withdrawals(subjects: Option<&str>) -> String {
    let consents = listed_rows("consents", SUBJECT, subjects);
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
fn consent_withdrawals() -> String {
    format!(
        "SELECT prior AS consent, content_address AS withdrawal, subject_did, grantee_did, scopes,
                basis, jurisdiction, namespace, created_at AS withdrawn_at, valid_from, valid_to
         FROM ({withdrawals}) AS withdrawals WHERE prior IS NOT NULL",
        withdrawals = withdrawals(None)
    )
}

/// Common table expressions of what is stated about a (subject, grantee, scope). Only current
/// consents count. A withdrawal by the subject of the consent that it names (`prior_consent`)
/// counts whatever its time and its spelling of the grantee: that consent states nothing on the
/// withdrawn scopes. Of the statements the newest counts, and of two at the same instant the
/// withdrawal.
fn statements(subjects: Option<&str>) -> String {
    format!(
        "withdrawals AS ({withdrawals}),
         withdrawn AS
             (SELECT prior, unnest(scopes) AS scope FROM withdrawals WHERE prior IS NOT NULL),
         given AS
             (SELECT subject_did, grantee_did, unnest(scope) AS scope, content_address, basis,
                     jurisdiction, namespace, created_at, valid_from, valid_to,
                     false AS is_withdrawal
              FROM {current} AS current
              WHERE type = 'consent' AND NOT coalesce(is_withdrawal, false)),
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
              FROM withdrawals)",
        withdrawals = withdrawals(subjects),
        current = listed_rows("current", SUBJECT, subjects),
    )
}

/// The first statement of each subject, grantee and scope.
fn consent_state(subjects: Option<&str>) -> String {
    format!(
        "WITH {}
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
        statements(subjects)
    )
}

/// A text by which statements of one subject, grantee and scope have the order of
/// [`consent_state`]: the least is the first.
const PLACE: &str = "
    concat(CASE WHEN created_at IS NULL THEN ' '
                ELSE lpad(CAST(4000000000000000000 - CAST(created_at AS BIGINT) AS VARCHAR),
                          20, '0') END,
           CASE WHEN is_withdrawal THEN '0' ELSE '1' END, content_address)";

/// A consent with two rows, so that a join compares a column of references as it is stored: such a
/// comparison reaches the scan, which then reads little of the other columns. They are made before
/// rows are grouped: DataFusion takes what was grouped by for unique after `unnest` too, so that
/// `DISTINCT` kept both rows. Of several withdrawals the first counts. `standing` has what
/// withdrawals leave of the consents that they name, unless another statement comes first. To find
/// that by a join of both would compare all statements of a subject with each other. Withdrawals
/// leave little, so only statements about the same subject, grantee and scope are grouped, and
/// absent ones are compared as empty texts, which may select too many of them but no other rows.
/// The keys of that join are columns: DataFusion plans those that aren't in a random order.
fn withdrawn_consents(subjects: Option<&str>) -> String {
    format!(
        "WITH {},
         first AS
             (SELECT reference, prior AS consent, min(created_at) AS withdrawn_at,
                     first_value(content_address ORDER BY created_at, content_address)
                         AS withdrawal
              FROM (SELECT *, unnest([prior, concat('sha256:', prior)]) AS reference
                    FROM withdrawals WHERE prior IS NOT NULL)
              GROUP BY reference, prior),
         remaining AS
             (SELECT named.* FROM
                  (SELECT given.* FROM given
                   LEFT SEMI JOIN (SELECT grain_reference(prior_consent) AS named
                                   FROM {consents} AS consents WHERE is_withdrawal) AS w
                       ON content_address = w.named) AS named
              LEFT ANTI JOIN withdrawn
                  ON named.content_address = withdrawn.prior AND named.scope = withdrawn.scope),
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
        statements(subjects),
        consents = listed_rows("consents", SUBJECT, subjects),
    )
}

#[cfg(test)]
mod tests {
    use arrow::util::pretty::pretty_format_batches;

    use super::*;
    use crate::sql::{SessionContext, SqlOptions, bare_context, register_view};

    /// Random consents, where `SEED` is the seed. Each eight are of one subject, and may name each
    /// other in withdrawals. Values are missing also where a grain can't lack them.
    const MADE: &str = "
        WITH numbered AS
            (SELECT value, md5(concat('SEED ', value)) AS h,
                    concat(md5(concat('SEED ', value)), md5(concat('SEED ', value))) AS address,
                    value - value % 8
                        + strpos('1234567', substr(md5(concat('SEED ', value)), 32, 1)) AS other
             FROM generate_series(0, 2399)),
        digits AS
            (SELECT *, strpos('123456789abcdef', substr(h, 1, 1)) AS d1,
                    strpos('123456789abcdef', substr(h, 2, 1)) AS d2,
                    strpos('123456789abcdef', substr(h, 3, 1)) AS d3,
                    strpos('123456789abcdef', substr(h, 4, 1)) AS d4,
                    strpos('123456789abcdef', substr(h, 5, 1)) AS d5,
                    strpos('123456789abcdef', substr(h, 6, 1)) AS d6,
                    strpos('123456789abcdef', substr(h, 7, 1)) AS d7,
                    strpos('123456789abcdef', substr(h, 8, 1)) AS d8
             FROM numbered)
        SELECT address AS content_address, 'consent' AS type,
               CASE WHEN d1 > 0 THEN concat('person ', value / 8) END AS subject_did,
               CASE WHEN d2 > 1 THEN concat('agent ', d2 % 2) END AS grantee_did,
               array_remove_all(string_to_array(split_part(
                   'a|a,b|b,a|a,b,c|a,a|a,|-|b|a,b|b,c|a,b,c|a|c|a,b|b', '|', d3 + 1),
                   ',', ''), '-') AS scope,
               CASE WHEN d4 > 1 THEN d4 > 9 END AS is_withdrawal,
               CASE WHEN d5 > 7 THEN concat('basis ', d5) END AS basis,
               CASE WHEN d5 % 2 = 0 THEN concat('law ', d5) END AS jurisdiction,
               concat('space ', d6 % 2) AS namespace,
               to_timestamp_seconds(CASE WHEN d6 > 0 THEN d6 % 4 END) AS created_at,
               to_timestamp_seconds(CASE WHEN d7 > 12 THEN 1 END) AS valid_from,
               to_timestamp_seconds(CASE WHEN d7 < 4 THEN 1 WHEN d7 < 8 THEN 4102444800 END)
                   AS valid_to,
               CASE WHEN d8 < 2 THEN 'nothing'
                    ELSE concat(CASE WHEN d8 < 6 THEN 'sha256:' ELSE '' END,
                                md5(concat('SEED ', other)), md5(concat('SEED ', other))) END
                   AS prior_consent,
               d7 <> 9 AS is_current
        FROM digits";

    /// The views in other words: each asks the one before it, and all have the window.
    const TWINS: [(&str, &str); 3] = [
        (
            "consent_withdrawals",
            "
            SELECT p.content_address AS consent, w.content_address AS withdrawal, p.subject_did,
                   p.grantee_did,
                   CASE WHEN p.scope IS NULL OR array_has_any(w.scope, p.scope)
                        THEN w.scope ELSE p.scope END AS scopes,
                   coalesce(w.basis, p.basis) AS basis,
                   coalesce(w.jurisdiction, p.jurisdiction) AS jurisdiction, w.namespace,
                   w.created_at AS withdrawn_at, w.valid_from, w.valid_to
            FROM (SELECT *, grain_reference(prior_consent) AS named
                  FROM consents WHERE is_withdrawal) w
            JOIN consents p ON w.named = p.content_address AND w.subject_did = p.subject_did",
        ),
        (
            "consent_state",
            "
            WITH withdrawals AS
                (SELECT subject_did, grantee_did, scopes, withdrawal AS content_address,
                        consent AS prior, basis, jurisdiction, namespace,
                        withdrawn_at AS created_at, valid_from, valid_to
                 FROM consent_withdrawals
                 UNION ALL
                 SELECT w.subject_did, w.grantee_did, w.scope, w.content_address, NULL, w.basis,
                        w.jurisdiction, w.namespace, w.created_at, w.valid_from, w.valid_to
                 FROM (SELECT * FROM consents WHERE is_withdrawal) w
                 LEFT ANTI JOIN consent_withdrawals known
                     ON w.content_address = known.withdrawal),
            given AS
                (SELECT subject_did, grantee_did, unnest(scope) AS scope, content_address, basis,
                        jurisdiction, namespace, created_at, valid_from, valid_to
                 FROM current WHERE type = 'consent' AND NOT coalesce(is_withdrawal, false)),
            withdrawn AS (SELECT prior, unnest(scopes) AS scope
                          FROM withdrawals WHERE prior IS NOT NULL)
            SELECT subject_did, grantee_did, scope, content_address, basis, jurisdiction,
                   namespace, created_at, valid_from, valid_to, is_withdrawal AS withdrawn,
                   CASE WHEN is_withdrawal THEN created_at END AS withdrawn_at,
                   NOT is_withdrawal AND (valid_from IS NULL OR valid_from <= now())
                       AND (valid_to IS NULL OR valid_to > now()) AS in_force
            FROM (SELECT *, row_number() OVER
                                (PARTITION BY subject_did, grantee_did, scope
                                 ORDER BY created_at DESC, is_withdrawal DESC, content_address)
                                AS place
                  FROM (SELECT given.*, false AS is_withdrawal FROM given
                        LEFT ANTI JOIN withdrawn
                            ON given.content_address = withdrawn.prior
                                AND given.scope = withdrawn.scope
                        UNION ALL
                        SELECT subject_did, grantee_did, unnest(scopes) AS scope,
                               content_address, basis, jurisdiction, namespace, created_at,
                               valid_from, valid_to, true AS is_withdrawal
                        FROM withdrawals))
            WHERE place = 1",
        ),
        (
            "withdrawn_consents",
            "
            SELECT unnest([consent, concat('sha256:', consent)]) AS reference, consent,
                   withdrawal, withdrawn_at
            FROM (SELECT consent, min(withdrawn_at) AS withdrawn_at,
                         first_value(withdrawal ORDER BY withdrawn_at, withdrawal) AS withdrawal
                  FROM consent_withdrawals GROUP BY consent) AS first
            LEFT ANTI JOIN (SELECT content_address
                            FROM consent_state WHERE NOT withdrawn) AS standing
                ON first.consent = standing.content_address",
        ),
    ];

    /// Returns a session with random consents, the views under names with `new_`, and their twins.
    fn session(seed: usize) -> SessionContext {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let register = |name: &str, query: &str| {
            register_view(&context, name, query.to_owned()).unwrap();
        };
        register("made", &MADE.replace("SEED", &seed.to_string()));
        register("consents", "SELECT * FROM made");
        register("current", "SELECT * FROM made WHERE is_current");
        for (name, query) in TWINS {
            register(name, query);
        }
        for (name, query) in views() {
            register(&format!("new_{name}"), &query);
        }
        context
    }

    /// Returns the rows of `query` as lines, sorted.
    async fn lines(context: &SessionContext, query: &str) -> Vec<String> {
        let rows = context.sql(query).await.unwrap().collect().await.unwrap();
        let table = pretty_format_batches(&rows).unwrap().to_string();
        let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_views_have_the_rows_of_their_twins() {
        for seed in 0..4 {
            let context = session(seed);
            for (name, _) in TWINS {
                let expected = lines(&context, &format!("SELECT * FROM {name}")).await;
                let found = lines(&context, &format!("SELECT * FROM new_{name}")).await;
                assert!(expected.len() > 100, "{name}, seed {seed}: {expected:?}");
                assert!(found == expected, "{name}, seed {seed}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rows_about_some_subjects_are_those_of_the_views() {
        let context = session(1);
        let subjects = "SELECT subject_did AS listed FROM made WHERE content_address LIKE 'a%'";
        let theirs = format!(
            "SELECT content_address FROM made
             LEFT SEMI JOIN ({subjects}) AS subjects ON subject_did = listed"
        );
        for (view, column, limited) in [
            (
                "consent_state",
                "content_address",
                consent_state_of(subjects),
            ),
            (
                "withdrawn_consents",
                "consent",
                withdrawn_consents_of(subjects),
            ),
        ] {
            let some = lines(&context, &limited).await;
            let expected = format!(
                "SELECT v.* FROM new_{view} v LEFT SEMI JOIN ({theirs}) AS theirs
                 ON v.{column} = theirs.content_address"
            );
            assert!(lines(&context, &expected).await == some, "{view}");
            let all = lines(&context, &format!("SELECT * FROM new_{view}")).await;
            assert!(
                some.len() > 50 && some.len() < all.len(),
                "{view}: {}",
                some.len()
            );
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_withdrawn_consent_is_distinct_once() {
        let context = session(0);
        let all = lines(&context, "SELECT consent FROM new_withdrawn_consents").await;
        let mut once = all.clone();
        once.dedup();
        let distinct = "SELECT DISTINCT consent FROM new_withdrawn_consents";
        let found = lines(&context, distinct).await;
        // Without the lines of the frame, which are alike.
        let rows = |lines: &[String]| lines.iter().filter(|line| line.starts_with('|')).count();
        assert_eq!(rows(&found), rows(&once));
        assert!(rows(&once) < rows(&all));
    }

    /// Otherwise the comparison would show little.
    #[tokio::test(flavor = "multi_thread")]
    async fn some_consents_stand_and_others_lack_the_first_place_only() {
        let context = session(0);
        let remaining = "SELECT w.consent FROM consent_withdrawals w
            LEFT SEMI JOIN
                (SELECT c.content_address
                 FROM (SELECT content_address, unnest(scope) AS scope
                       FROM current WHERE NOT coalesce(is_withdrawal, false)) AS c
                 LEFT ANTI JOIN (SELECT consent, unnest(scopes) AS scope
                                 FROM consent_withdrawals) AS gone
                     ON c.content_address = gone.consent AND c.scope = gone.scope) AS l
                ON w.consent = l.content_address";
        for kind in ["SEMI", "ANTI"] {
            let query = format!(
                "SELECT r.consent FROM ({remaining}) AS r
                 LEFT {kind} JOIN new_withdrawn_consents n ON r.consent = n.consent"
            );
            let found = lines(&context, &query).await;
            assert!(found.len() > 10, "{kind}: {found:?}");
        }
    }
}
