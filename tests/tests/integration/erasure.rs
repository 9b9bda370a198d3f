//! Erasure and disclosure over a lake in which one person occurs in every possible field.
//!
//! Above 500 lines: all tests share this lake.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use gristmill_connectors::source::discover;
use gristmill_engine::apply::{ApplyOptions, OperationOutcome, apply};
use gristmill_engine::erase::{
    Certificate, Disclosed, ErasureOptions, ErasureReport, Exemption, InclusionProof, Person,
    RequestOrigin, SelectionOptions, SubjectRequest, Survey, disclose, erase, plan, verify,
};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, IngestReport, ingest};
use gristmill_engine::keys::Keyring;
use gristmill_engine::lake::{Lake, Table};
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::fixture::Fixture;
use gristmill_tests::paths::workspace;

const PASSPHRASE: &str = "a passphrase for tests";

async fn lab() -> Fixture {
    Fixture::load(&workspace().join("tests/erasure/hiding.json")).await
}

fn person() -> SubjectRequest {
    // The request's last name is decomposed Unicode; the lake's is composed.
    let identifiers = [
        "moy-4711",
        "Marguerite Oyelaran",
        "did:web:moy.example",
        "Zoe\u{308} Oyelaran",
    ];
    let person = Person {
        identifiers: identifiers.map(str::to_owned).into(),
        ..Person::default()
    };
    SubjectRequest {
        people: vec![person],
        ..SubjectRequest::default()
    }
}

fn order(folder: &Path) -> ErasureOptions {
    let path = folder.join("keyring.json");
    let mut keyring = Keyring::open_or_create(&path, PASSPHRASE).unwrap();
    // A second call finds an existing key.
    let _ = keyring.generate("erasure");
    let origin = RequestOrigin {
        reference: Some("R-1".to_owned()),
        ..RequestOrigin::default()
    };
    ErasureOptions {
        origin,
        keyring,
        signing_key: "erasure".to_owned(),
        exclusive: true,
        destroy_keys: false,
        purge_versions: false,
        threads: 2,
    }
}

/// Returns the findings by grain name: the reasons, and the bar if there is one.
fn by_key(
    fixture: &Fixture,
    survey: &Survey,
) -> BTreeMap<String, (Vec<&'static str>, Option<&'static str>)> {
    let found = |key: &String| {
        let found = survey
            .grains
            .iter()
            .find(|found| found.address == fixture.addresses[key])?;
        Some((
            found.reasons.iter().map(|reason| reason.name()).collect(),
            found.exemption.as_ref().map(Exemption::name),
        ))
    };
    fixture
        .addresses
        .keys()
        .filter_map(|key| Some((key.clone(), found(key)?)))
        .collect()
}

async fn take_in(lake: &mut Lake, path: &Path) -> IngestReport {
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    ingest(
        lake,
        sources,
        &IngestOptions::default(),
        Arc::new(IngestProgress::default()),
    )
    .await
    .unwrap()
}

/// Writes frames with a rejected grain (the header's type byte isn't that of the payload) and an
/// undecodable one; both name the person. `salt` distinguishes files.
fn refused(folder: &Path, salt: &str) -> std::path::PathBuf {
    let mut frames = Vec::new();
    for (subject, damage) in [
        ("Marguerite Oyelaran", false),
        ("moy-4711", true),
        ("bob", false),
    ] {
        let json = format!(
            r#"{{"type": "belief", "subject": "{subject}", "relation": "r", "object": "o", "confidence": 0.5, "created_at": 1767225600000}}"#
        );
        let json = Json::parse(json.as_bytes()).unwrap();
        let mut blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        blob[2] = 2;
        if damage {
            blob.pop();
        }
        write_frame(&blob, &mut frames).unwrap();
    }
    let good = format!(
        r#"{{"type": "belief", "subject": "salt", "relation": "is", "object": "{salt}", "confidence": 0.5, "created_at": 1767225600000}}"#
    );
    let good = encode_json(
        &Json::parse(good.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob;
    write_frame(&good, &mut frames).unwrap();
    frames.extend([0; 4]);
    let path = folder.join(format!("refused-{salt}.mgs"));
    std::fs::write(&path, frames).unwrap();
    path
}

/// Returns all rows of `table` sorted by `key`, as one batch.
async fn rows(table: &Table, columns: &[&str]) -> Vec<(String, RecordBatch)> {
    let mut rows = Vec::new();
    for batch in table.read_columns(columns).await.unwrap() {
        let keys = batch.column(0).as_string::<i32>().clone();
        rows.extend(
            (0..batch.num_rows()).map(|row| (keys.value(row).to_owned(), batch.slice(row, 1))),
        );
    }
    rows.sort_by(|left, right| left.0.cmp(&right.0));
    rows
}

async fn all_grains(lake: &Lake) -> Vec<(String, RecordBatch)> {
    let schema = gristmill_schemas::columns::grains_schema();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    rows(&lake.grains, &names).await
}

/// Returns everything that a reader of the lake can see: raw files, and every value of every table.
async fn visible(lake: &Lake, folder: &Path) -> String {
    let mut out = String::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => out.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap())),
            }
        }
    }
    for table in [
        &lake.grains,
        &lake.state,
        &lake.rejects,
        &lake.audit,
        &lake.erased,
    ] {
        for file in table.files().unwrap() {
            let bytes = std::fs::read(folder.join(table.name()).join(&file.name)).unwrap();
            out.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    let columns = ["content_address", "blob"];
    for batch in lake.grains.read_columns(&columns).await.unwrap() {
        (0..batch.num_rows()).for_each(|row| {
            out.push_str(batch.column(0).as_string::<i32>().value(row));
            out.push_str(&String::from_utf8_lossy(
                batch.column(1).as_binary::<i32>().value(row),
            ));
        });
    }
    for (table, columns) in [
        (
            &lake.state,
            &["content_address", "value", "actor", "reason"][..],
        ),
        (&lake.rejects, &["source", "message"]),
        (&lake.audit, &["details"]),
    ] {
        for batch in table.read_columns(columns).await.unwrap() {
            for column in batch.columns() {
                column
                    .as_string::<i32>()
                    .iter()
                    .flatten()
                    .for_each(|text| out.push_str(text));
            }
        }
    }
    for batch in lake.rejects.read_columns(&["bytes"]).await.unwrap() {
        batch
            .column(0)
            .as_binary::<i32>()
            .iter()
            .flatten()
            .for_each(|bytes| out.push_str(&String::from_utf8_lossy(bytes)));
    }
    out
}

/// Writes frames with grains of other people; `number` distinguishes files.
fn of_others(folder: &Path, number: usize) -> std::path::PathBuf {
    let mut frames = Vec::new();
    for at in 0..5 {
        let json = format!(
            r#"{{"type": "belief", "subject": "bob {number}", "relation": "likes", "object": "tea {at}", "confidence": 0.5, "created_at": 1767225600000}}"#
        );
        let blob = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap()
        .blob;
        write_frame(&blob, &mut frames).unwrap();
    }
    frames.extend([0; 4]);
    let path = folder.join(format!("others-{number}.mgs"));
    std::fs::write(&path, frames).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn word_filters_skip_segments_without_missing_a_grain() {
    let mut fixture = lab().await;
    for number in 0..3 {
        let file = of_others(fixture.folder(), number);
        take_in(&mut fixture.lake, &file).await;
    }
    let (told, filtered) = plan(&mut fixture.lake, &person(), 2).await.unwrap();
    assert_eq!(
        (told.segments, told.segments_read, told.segments_skipped),
        (4, 1, 3)
    );
    let folder = fixture.folder().join("lake/index");
    for segment in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(segment.unwrap().path().join("words.bin")).unwrap();
    }
    let mut lake = Lake::open(&fixture.folder().join("lake").display().to_string())
        .await
        .unwrap();
    let (told, whole) = plan(&mut lake, &person(), 2).await.unwrap();
    assert_eq!((told.segments_read, told.segments_skipped), (4, 0));
    assert_eq!(by_key(&fixture, &filtered), by_key(&fixture, &whole));
    assert_eq!(filtered.grains.len(), whole.grains.len());
    assert_eq!(filtered.unsearchable, whole.unsearchable);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_occurrence_is_found_or_explained() {
    let mut fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let (plan, survey) = plan(&mut lake, &person(), 2).await.unwrap();
    let found = by_key(&fixture, &survey);
    let selected = [
        ("user", "user_id"),
        ("reply", "own_session"),
        ("shared_user", "user_id"),
        ("subject", "subject"),
        ("subject_case", "subject"),
        ("composed", "subject"),
        ("object", "object"),
        ("map_object", "value"),
        ("map_key", "value"),
        ("subject_did", "subject_did"),
        ("author", "party"),
        ("input", "value"),
        ("context", "value"),
        ("unknown", "value"),
        ("namespace", "namespace"),
        ("tag", "namespace"),
        ("retained_past", "subject"),
        ("new", "user_id"),
    ];
    for (key, reason) in selected {
        let (reasons, bar) = &found[key];
        assert!(reasons.contains(&reason), "{key}: {reasons:?}");
        assert_eq!(*bar, None, "{key}");
    }
    let kept = [
        ("shared_reply", "shared_session", "not_selected"),
        ("content", "text_mention", "not_selected"),
        ("block", "text_mention", "not_selected"),
        ("derived", "derived", "not_selected"),
        ("derived_twice", "derived", "not_selected"),
        ("related", "related", "not_selected"),
        ("held", "subject", "hold"),
        ("held_child", "subject", "hold"),
        ("retained", "subject", "retention"),
        ("approval", "subject", "approval"),
        ("consent", "subject_did", "consent_record"),
        ("withdrawal", "subject_did", "consent_record"),
    ];
    for (key, reason, why) in kept {
        let (reasons, bar) = &found[key];
        assert!(reasons.contains(&reason), "{key}: {reasons:?}");
        assert_eq!(*bar, Some(why), "{key}");
    }
    let strangers = [
        "near_id",
        "near_name",
        "bob",
        "old",
        "on_basis",
        "shared_other",
    ];
    strangers
        .iter()
        .for_each(|key| assert!(!found.contains_key(*key), "{key}"));
    assert_eq!(
        selected.len() + kept.len() + strangers.len(),
        fixture.addresses.len()
    );
    assert_eq!(plan.selected.grains as usize, selected.len());
    assert_eq!(plan.excluded.values().sum::<u64>() as usize, kept.len());
    assert!(
        plan.spellings
            .iter()
            .any(|spelling| spelling.text == "MARGUERITE  oyelaran")
    );
    fixture.addresses.clear();
}

#[tokio::test(flavor = "multi_thread")]
async fn optional_selections_extend_the_plan() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let extent = SelectionOptions {
        text_mentions: true,
        derived: true,
        related: true,
        initials: true,
    };
    let wide = SubjectRequest {
        extent,
        approvals: vec!["works council".to_owned()],
        ..person()
    };
    let (_, survey) = plan(&mut lake, &wide, 2).await.unwrap();
    let found = by_key(&fixture, &survey);
    for key in [
        "content",
        "block",
        "derived",
        "derived_twice",
        "related",
        "shared_reply",
        "approval",
    ] {
        assert_eq!(found[key].1, None, "{key}");
    }
    let exact = SubjectRequest {
        folding: gristmill_engine::erase::Folding::Exact,
        ..person()
    };
    let (_, survey) = plan(&mut lake, &exact, 2).await.unwrap();
    let found = by_key(&fixture, &survey);
    assert!(!found.contains_key("subject_case") && found.contains_key("composed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn consents_and_withdrawals_select_dependent_grains() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let by_consent = SubjectRequest {
        consents: vec![fixture.addresses["consent"]],
        ..SubjectRequest::default()
    };
    let by_withdrawal = SubjectRequest {
        withdrawn: true,
        ..SubjectRequest::default()
    };
    for request in [by_consent, by_withdrawal] {
        let (_, survey) = plan(&mut lake, &request, 2).await.unwrap();
        let found = by_key(&fixture, &survey);
        assert_eq!(
            found
                .iter()
                .filter(|(_, (_, bar))| bar.is_none())
                .map(|(key, _)| key)
                .collect::<Vec<_>>(),
            ["on_basis"]
        );
    }
}

async fn erased(lake: &mut Lake, request: &SubjectRequest, folder: &Path) -> ErasureReport {
    erase(lake, request, &order(folder)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_removes_exactly_its_plan_and_proves_it() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    let request = person();
    let (plan, survey) = plan(&mut lake, &request, 2).await.unwrap();
    assert_eq!(plan.selected.rejects, 2);
    let gone: BTreeSet<String> = survey
        .selected()
        .map(|found| found.address.to_string())
        .collect();
    let before = all_grains(&lake).await;
    let outcome = erased(&mut lake, &request, fixture.folder()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!(outcome.scope.grains as usize, gone.len());
    assert_eq!(outcome.scope.rejects, 2);
    lake.refresh().await.unwrap();
    let after = all_grains(&lake).await;
    let expected: Vec<_> = before
        .into_iter()
        .filter(|(address, _)| !gone.contains(address))
        .collect();
    assert_eq!(after, expected, "other rows are as they were");
    let seen = visible(&lake, &fixture.folder().join("lake")).await;
    // Remaining grains refer to this one.
    let referred = ["subject", "user", "new"].map(|key| fixture.addresses[key].to_string());
    for address in gone.iter().filter(|address| !referred.contains(address)) {
        assert!(!seen.contains(address), "{address} is still somewhere");
    }
    assert!(
        !seen.contains("window seats") && !seen.contains("please book it"),
        "content of the erased is gone"
    );
    assert!(
        seen.contains("moy-47110")
            && seen.contains("Marguerite Oyelaranson")
            && seen.contains("refund")
    );
    assert_eq!(lake.verify_audit().await.unwrap().bad, 0);
    // Nothing is left to do, which is no error.
    let (plan, _) = gristmill_engine::erase::plan(&mut lake, &request, 2)
        .await
        .unwrap();
    assert!(!plan.has_work());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_erasing_everything_no_byte_names_the_person() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    // Grains under retention can't be erased by address; here they aren't in the lake at all.
    let extent = SelectionOptions {
        text_mentions: true,
        derived: true,
        related: true,
        initials: true,
    };
    let request = SubjectRequest {
        extent,
        approvals: vec!["works council".to_owned()],
        ..person()
    };
    let outcome = erased(&mut lake, &request, fixture.folder()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    lake.refresh().await.unwrap();
    let seen = visible(&lake, &fixture.folder().join("lake")).await;
    for marker in ["moy-4711\"", "she waits", "window seats", "Zoë"] {
        assert!(!seen.contains(marker), "{marker}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disclosure_contains_the_erasure_plan() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    let request = person();
    let (plan, survey) = plan(&mut lake, &request, 2).await.unwrap();
    let mut held: Vec<Disclosed> = Vec::new();
    let count = disclose(&mut lake, &request, &survey, None, &mut |one| {
        held.push(one.clone());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(count as usize, held.len());
    let would_go = held.iter().filter(|one| one.kept.is_none()).count() as u64;
    assert_eq!(would_go, plan.selected.grains + plan.selected.rejects);
    assert_eq!(
        held.len() as u64 - would_go,
        plan.excluded.values().sum::<u64>()
    );
    let subject = held
        .iter()
        .find(|one| one.content_address == fixture.addresses["subject"].to_string())
        .unwrap();
    assert!(
        subject
            .grain
            .as_ref()
            .unwrap()
            .get()
            .contains("window seats")
    );
    assert!(held.iter().any(|one| one.table == "rejects"));
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_grains_are_refused_on_import() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    let outcome = erased(&mut lake, &person(), fixture.folder()).await;
    // The same file, and one with the same grains but other bytes.
    assert_eq!(
        take_in(&mut lake, &fixture.folder().join("fixture.mg"))
            .await
            .grains_written,
        0
    );
    let grains_before = lake
        .grains
        .files()
        .unwrap()
        .iter()
        .map(|file| file.rows)
        .sum::<u64>();
    let state_before = rows(&lake.state, &["content_address"]).await.len();
    let rejects_before = rows(&lake.rejects, &["source_id"]).await.len();
    let again = Fixture::load(&workspace().join("tests/erasure/hiding.json")).await;
    let copy = fixture.folder().join("copy.mg");
    std::fs::write(
        &copy,
        [std::fs::read(again.folder().join("fixture.mg")).unwrap()].concat(),
    )
    .unwrap();
    let frames = frames_of(&again).await;
    let path = fixture.folder().join("copy.mgs");
    std::fs::write(&path, frames).unwrap();
    let report = take_in(&mut lake, &path).await;
    assert_eq!(report.erased, outcome.scope.grains);
    assert_eq!(report.grains_written, 0);
    take_in(&mut lake, &refused(fixture.folder(), "second")).await;
    lake.refresh().await.unwrap();
    assert_eq!(
        lake.grains
            .files()
            .unwrap()
            .iter()
            .map(|file| file.rows)
            .sum::<u64>(),
        grains_before + 1
    );
    assert_eq!(
        rows(&lake.state, &["content_address"]).await.len(),
        state_before
    );
    assert_eq!(
        rows(&lake.rejects, &["source_id"]).await.len(),
        rejects_before + 1,
        "only bob's comes again"
    );
}

/// Returns all grains of a fixture as frames.
async fn frames_of(fixture: &Fixture) -> Vec<u8> {
    let mut frames = Vec::new();
    for (_, row) in rows(&fixture.lake.grains, &["content_address", "blob"]).await {
        write_frame(row.column(1).as_binary::<i32>().value(0), &mut frames).unwrap();
    }
    frames.extend([0; 4]);
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_the_newest_version_does_not_revive_its_predecessor() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    erased(&mut lake, &person(), fixture.folder()).await;
    lake.refresh().await.unwrap();
    let old = fixture.addresses["old"].to_string();
    let states = rows(&lake.state, &["content_address", "event", "value"]).await;
    let (_, row) = states
        .iter()
        .find(|(address, _)| *address == old)
        .expect("the event stays");
    assert_eq!(row.column(1).as_string::<i32>().value(0), "superseded");
    assert!(row.column(2).is_null(0), "without the name of the erased");
    assert!(
        !states
            .iter()
            .any(|(address, _)| *address == fixture.addresses["user"].to_string())
    );
    assert!(
        states
            .iter()
            .any(|(address, _)| *address == fixture.addresses["bob"].to_string())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_under_hold_are_refused() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let request = SubjectRequest {
        addresses: vec![fixture.addresses["held"]],
        ..SubjectRequest::default()
    };
    let refused = erase(&mut lake, &request, &order(fixture.folder())).await;
    assert!(
        matches!(refused, Err(EngineError::Policy(_))),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_verifies_and_a_tampered_one_doesnt() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let outcome = erased(&mut lake, &person(), fixture.folder()).await;
    let path = fixture.folder().join("lake").join(&outcome.certificate);
    let signed = std::fs::read(&path).unwrap();
    let leaves = std::fs::read(path.with_extension("leaves")).unwrap();
    let keyring = order(fixture.folder()).keyring;
    let proof = InclusionProof::of(&fixture.addresses["subject"], &leaves, &keyring)
        .unwrap()
        .expect("it is among them");
    assert!(
        InclusionProof::of(&fixture.addresses["bob"], &leaves, &keyring)
            .unwrap()
            .is_none()
    );
    let found = verify(
        &signed,
        Some(&outcome.signer),
        Some(&leaves),
        std::slice::from_ref(&proof),
    );
    assert!(found.valid, "{:?}", found.problems);
    let text = serde_json::to_string(&found.certificate.unwrap()).unwrap();
    for marker in ["moy", "Marguerite", "Oyelaran"] {
        assert!(!text.contains(marker), "no personal data: {marker}");
    }
    assert!(
        !verify(
            &signed,
            Some("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"),
            None,
            &[]
        )
        .valid
    );
    // The signature covers everything except the time in the unprotected header.
    let unprotected = signed
        .windows(3)
        .position(|window| window == b"iat")
        .unwrap();
    let covered = |at: &usize| !(unprotected..unprotected + 8).contains(at);
    for at in (0..signed.len()).step_by(signed.len() / 60).filter(covered) {
        let mut tampered = signed.clone();
        tampered[at] ^= 1;
        assert!(!verify(&tampered, None, None, &[]).valid, "byte {at}");
    }
    let mut other = leaves.clone();
    other[0] ^= 1;
    assert!(!verify(&signed, None, Some(&other), &[]).valid);
    let wrong = InclusionProof {
        index: proof.index ^ 1,
        ..proof.clone()
    };
    assert!(!verify(&signed, None, None, &[wrong]).valid);
    // A certificate without a successful proof is invalid.
    let mut unproven: Certificate = serde_json::from_str(&text).unwrap();
    unproven.proofs.byte_search.remnants = 1;
    let signed = unproven
        .sign(&keyring.signing_key("erasure").unwrap(), 0)
        .unwrap();
    assert!(!verify(&signed, None, None, &[]).valid);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_people_are_erased_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut frames = Vec::new();
    for number in 0..6_000 {
        let json = format!(
            r#"{{"type": "belief", "subject": "person {number}", "relation": "is", "object": "marker-{number}-end", "confidence": 0.5, "user_id": "user-{number}", "created_at": {}}}"#,
            1_767_225_600_000_u64 + number
        );
        let grain = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap();
        write_frame(&grain.blob, &mut frames).unwrap();
    }
    frames.extend([0; 4]);
    let path = folder.path().join("people.mgs");
    std::fs::write(&path, frames).unwrap();
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
        .await
        .unwrap();
    take_in(&mut lake, &path).await;
    let mut request = SubjectRequest::default();
    let csv: String = (0..3_000)
        .map(|number| format!("user-{},\n", number * 2))
        .collect();
    request.add_people(&format!("user,name\n{csv}")).unwrap();
    let outcome = erased(&mut lake, &request, folder.path()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!((outcome.scope.grains, outcome.scope.people), (3_000, 3_000));
    let seen = visible(&lake, &folder.path().join("lake")).await;
    assert!(!seen.contains("marker-40-end") && seen.contains("marker-41-end"));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_erasure_an_operation_is_already_done_only_if_nothing_would_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
        .await
        .unwrap();
    let belief = |object: &str, user: &str| {
        format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "user_id": "{user}", "created_at": 1767225600000}}"#
        )
    };
    let stays = belief("stays", "bob-0815");
    let address = |text: &str| {
        encode_json(
            &Json::parse(text.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap()
        .address
    };
    let contradict = |grain: &str, value: bool| {
        format!(
            r#"{{"op": "contradict", "address": "{}", "value": {value}}}"#,
            address(grain)
        )
    };
    let goes = belief("goes", "moy-4711");
    let put = |grain: &str| format!(r#"{{"op": "put", "grain": {grain}}}"#);
    let run = async |lake: &mut Lake, lines: &[String]| {
        let mut answers = Vec::new();
        let mut keep = |answer: &OperationOutcome| {
            answers.push((answer.ok, answer.already));
            Ok(())
        };
        let mut lines = std::io::Cursor::new(lines.join("\n"));
        apply(lake, &mut lines, &ApplyOptions::default(), &mut keep)
            .await
            .unwrap();
        answers
    };
    // The first file of events has both grains; the second withdraws the event of the remaining
    // grain.
    run(
        &mut lake,
        &[
            put(&stays),
            put(&goes),
            contradict(&stays, true),
            contradict(&goes, true),
        ],
    )
    .await;
    run(&mut lake, &[contradict(&stays, false)]).await;
    let person = Person {
        identifiers: ["moy-4711".to_owned()].into(),
        ..Person::default()
    };
    let request = SubjectRequest {
        people: vec![person],
        ..SubjectRequest::default()
    };
    let before = lake.state.files().unwrap();
    erase(&mut lake, &request, &order(folder.path()))
        .await
        .unwrap();
    lake.refresh().await.unwrap();
    // The first file was rewritten, and now sorts after the second.
    let after = lake.state.files().unwrap();
    assert!(
        after.len() == 2 && before[1] == after[0] && before[0] != after[1],
        "{before:?} {after:?}"
    );
    assert_eq!(
        run(&mut lake, &[contradict(&stays, false)]).await,
        [(true, true)]
    );
    assert_eq!(
        run(&mut lake, &[contradict(&stays, true)]).await,
        [(true, false)]
    );
    assert_eq!(
        run(&mut lake, &[contradict(&stays, true)]).await,
        [(true, true)]
    );
}
