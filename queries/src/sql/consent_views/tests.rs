//! Tests of the views.

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
    SELECT address AS content_address, 'consent' AS type, 'consents' AS subject,
           'someone' AS user_id,
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
    let consents = listed_rows("consents", SUBJECT, Some(subjects));
    let current = listed_rows(CURRENT_CONSENTS, SUBJECT, Some(subjects));
    let withdrawals = format!("({})", withdrawals(&consents));
    let sources = ConsentSources {
        consents: &consents,
        current: &current,
        withdrawals: &withdrawals,
    };
    for (view, column, limited) in [
        (CONSENT_STATE, "content_address", consent_state(&sources)),
        (WITHDRAWN_CONSENTS, "consent", withdrawn_consents(&sources)),
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

/// Some consents are new, and of others a new event says that they aren't current any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_withdrawn_since_is_among_the_changed_rows() {
    let is_new = "substr(content_address, 9, 1) IN ('0', '1')";
    let is_closed = "NOT is_current AND substr(content_address, 10, 1) IN ('0', '1', '2')";
    let changed =
        format!("SELECT content_address AS listed FROM made WHERE {is_new} OR {is_closed}");
    for seed in 0..4 {
        let context = session(seed);
        let old = format!("(SELECT * FROM made WHERE NOT {is_new})");
        let old_current =
            format!("(SELECT * FROM made WHERE NOT {is_new} AND (is_current OR {is_closed}))");
        let old_withdrawals = format!("({})", withdrawals(&old));
        let before = withdrawn_consents(&ConsentSources {
            consents: &old,
            current: &old_current,
            withdrawals: &old_withdrawals,
        });
        let all = format!("({})", withdrawals(CONSENTS));
        let sources = ConsentSources {
            consents: CONSENTS,
            current: CURRENT_CONSENTS,
            withdrawals: &all,
        };
        let changed = changed_withdrawn_consents(&sources, &changed);
        let now = format!("SELECT * FROM {WITHDRAWN_CONSENTS}");
        let count = async |query: &str| lines(&context, query).await.len();
        let since = format!("{now} EXCEPT ({before})");
        assert!(count(&since).await > 50, "seed {seed}");
        let lacking = format!("{since} EXCEPT ({changed})");
        let foreign = format!("({changed}) EXCEPT {now}");
        let nothing = count(&format!("{now} WHERE false")).await;
        assert_eq!(count(&lacking).await, nothing, "seed {seed}");
        assert_eq!(count(&foreign).await, nothing, "seed {seed}");
        assert!(count(&changed).await < count(&now).await, "seed {seed}");
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
