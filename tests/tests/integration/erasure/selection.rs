//! What the plan of an erasure and a disclosure select, and why.

use std::collections::BTreeMap;
use std::path::Path;

use gristmill_engine::erase::{
    Disclosed, Exemption, Recording, SelectionOptions, SubjectRequest, Survey, disclose, plan,
};
use gristmill_engine::lake::Lake;
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::fixture::Fixture;

use super::{lab, person, refused, take_in};

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
    let (planned, filtered) = plan(&mut fixture.lake, &person(), 2).await.unwrap();
    assert_eq!(
        (
            planned.segments,
            planned.segments_read,
            planned.segments_skipped
        ),
        (4, 1, 3)
    );
    let folder = fixture.folder().join("lake/index");
    for segment in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(segment.unwrap().path().join("words.bin")).unwrap();
    }
    let mut lake = Lake::open(&fixture.folder().join("lake").display().to_string())
        .await
        .unwrap();
    let (planned, whole) = plan(&mut lake, &person(), 2).await.unwrap();
    assert_eq!((planned.segments_read, planned.segments_skipped), (4, 0));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_disclosure_contains_the_erasure_plan() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    let request = person();
    let (plan, survey) = plan(&mut lake, &request, 2).await.unwrap();
    let mut held: Vec<Disclosed> = Vec::new();
    let mut note = |one: &Disclosed| {
        held.push(one.clone());
        Ok(())
    };
    let recording = Recording::AfterItems;
    let count = disclose(&mut lake, &request, &survey, None, recording, &mut note)
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
