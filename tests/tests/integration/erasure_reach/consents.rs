//! Consents: who may withdraw them, what a withdrawal covers, and when one is in force.

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::erase::SubjectRequest;
use gristmill_tests::grains::grain;

use super::{belief, found, lake_of};

fn consent(grantee: &str, more: &str) -> String {
    format!(
        r#"{{"type": "consent", "subject_did": "did:web:al.example", "grantee_did": "{grantee}", "scope": ["store"], "is_withdrawal": false, "created_at": 1767225600000{more}}}"#
    )
}

fn withdrawal(of: &str, more: &str) -> String {
    let plain = consent(
        "did:web:corp.example",
        &format!(r#", "prior_consent": "{of}"{more}"#),
    );
    plain.replace(r#""is_withdrawal": false"#, r#""is_withdrawal": true"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_subject_of_a_consent_can_withdraw_it_in_any_spelling() {
    let consents: Vec<String> = (0..5)
        .map(|number| consent(&format!("did:web:corp{number}.example"), ""))
        .collect();
    let names: Vec<String> = consents
        .iter()
        .map(|text| grain(text).address.to_string())
        .collect();
    let cascade = r#""invalidation_policy": {"mode": "consent_cascade"}"#;
    let timed = r#""invalidation_policy": {"mode": "timed", "locked_until": 5, "fallback_mode": "consent_cascade"}"#;
    let on = |number: usize, policy: &str| {
        belief(&format!(
            r#""object": "{number}", "processing_basis": "{}", {policy}"#,
            names[number]
        ))
    };
    let based = [
        on(0, cascade),
        on(1, cascade),
        on(2, timed),
        on(3, cascade),
        on(4, cascade),
    ];
    let withdrawals = [
        withdrawal(&names[0], "").replace("did:web:al.example", "did:web:mallory.example"),
        withdrawal(&names[1], "").replace(r#"["store"]"#, "[]"),
        withdrawal(&names[2], "").replace(r#"["store"]"#, r#"["share"]"#),
        withdrawal(&format!("sha256:{}", names[3]), "").replace("1767225600000", "1767225500000"),
    ];
    let (mut lake, addresses) =
        lake_of(&[&consents[..], &based[..], &withdrawals[..]].concat()).await;
    let request = SubjectRequest {
        withdrawn: true,
        ..SubjectRequest::default()
    };
    let told = found(&mut lake, &request, &addresses[5..10]).await;
    assert_eq!(
        told,
        ["", "consent: goes", "consent: goes", "consent: goes", ""]
    );
    let in_force = "SELECT grantee_did FROM consent_state WHERE in_force ORDER BY 1";
    assert_eq!(
        lake.rows(in_force).await.concat(),
        ["did:web:corp0.example", "did:web:corp4.example"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_or_withdrawn_consent_is_not_in_force() {
    let wide = consent("did:web:corp.example", "").replace(r#"["store"]"#, r#"["store", "share"]"#);
    let (mut lake, addresses) = lake_of(&[wide]).await;
    let narrow = consent(
        "did:web:corp.example",
        r#", "supersession_justification": "narrowed""#,
    );
    let in_force = "SELECT scope FROM consent_state WHERE in_force ORDER BY 1";
    assert_eq!(lake.rows(in_force).await.concat(), ["share", "store"]);
    let mut operate = async |lines: String| {
        let mut answers = Vec::new();
        let mut note = |answer: &gristmill_engine::apply::OperationOutcome| {
            answers.push((
                answer.ok,
                answer.content_address.clone().unwrap_or_default(),
            ));
            Ok(())
        };
        apply(
            &mut lake.lake,
            &mut lines.as_bytes(),
            &ApplyOptions::default(),
            &mut note,
        )
        .await
        .unwrap();
        lake.lake.refresh().await.unwrap();
        (answers, lake.rows(in_force).await.concat())
    };
    let line = format!(
        r#"{{"op": "supersede", "address": "{}", "grain": {narrow}}}"#,
        addresses[0]
    );
    let (answers, left) = operate(line).await;
    assert!(answers[0].0);
    assert_eq!(left, ["store"]);
    let line = format!(
        r#"{{"op": "retract", "address": "{}", "reason": "revoked"}}"#,
        answers[0].1
    );
    let (answers, left) = operate(line).await;
    assert!(answers[0].0);
    assert_eq!(left, [""; 0]);
}
