//! `ASSEMBLE`: what a context takes from its sources, and which queries can be a source.

use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Session;
use gristmill_schemas::container::{IndexState, Manifest, VerificationStatus};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::{container, grain};
use gristmill_tests::lake::{TestLake, patient_session};

use super::{answered, belief, members, objects, supersede_grains, verdict, warnings};

#[tokio::test(flavor = "multi_thread")]
async fn options_of_a_context_reach_its_sources() {
    let (old, new) = (belief("tea", ""), belief("coffee", ""));
    let mut lake = TestLake::of(&[&old, &new]).await;
    supersede_grains(&mut lake, &[(&old, &new)]).await;
    let run = async |statement: &str| answered(&lake, None, statement).await.unwrap();
    for source in [
        "ASSEMBLE c FROM a: (RECALL beliefs)",
        "LET $a = RECALL beliefs; ASSEMBLE c FROM a: $a",
    ] {
        assert_eq!(objects(&run(source).await), ["coffee"]);
        let both = run(&format!(
            "{source} WITH superseded, provenance, explanation, contradiction_detection"
        ))
        .await;
        let mut shown = objects(&both);
        shown.sort_unstable();
        assert_eq!(shown, ["coffee", "tea"], "{source}");
        for key in ["superseded_by", "provenance", "explanation", "contradicted"] {
            assert!(
                members(&both, key).iter().all(Option::is_some),
                "{key} {source}"
            );
        }
        let apart = run(&format!(
            "{source} WITH superseded, diversity(threshold, 0.9)"
        ))
        .await;
        assert_eq!(objects(&apart).len(), 1, "{source}");
    }
    let own = run(
        "ASSEMBLE c FROM a: (RECALL WITH superseded, diversity(threshold, 0.1)) WITH \
         diversity(threshold, 0.9)",
    );
    assert_eq!(
        objects(&own.await).len(),
        2,
        "what a source says itself counts"
    );
    let explained = run("EXPLAIN ASSEMBLE c FROM a: (RECALL beliefs) WITH superseded").await;
    assert!(
        explained
            .to_string()
            .contains("RECALL beliefs WITH superseded"),
        "{explained}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_source_is_rendered_by_its_own_projection() {
    let lake = TestLake::of(&[&belief("tea", "")]).await;
    for statement in [
        "ASSEMBLE c FROM a: (RECALL beliefs | PROJECT content(object), attr(relation))",
        "LET $a = RECALL beliefs | PROJECT content(object), attr(relation); ASSEMBLE c FROM a: $a",
    ] {
        let response = answered(&lake, None, statement).await.unwrap();
        let context = response.get("formatted_context").unwrap();
        assert_eq!(
            context.get("text").and_then(Json::as_str),
            Some("<context>\n\n  <belief relation=\"r\">tea</belief>\n\n</context>"),
            "{statement}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_that_a_human_must_review_is_left_out_of_contexts() {
    let reasoning = |conclusion: &str, more: &str| {
        grain(&format!(
            r#"{{"type":"reasoning","conclusion":"{conclusion}","created_at":1767225600000{more}}}"#
        ))
    };
    let review = r#","requires_human_review":true"#;
    let cleared = reasoning("cleared", review);
    let blobs = [
        reasoning("unreviewed", review).blob,
        cleared.blob,
        reasoning("ordinary", "").blob,
    ];
    let verified = IndexState {
        verification_status: Some(VerificationStatus::Verified),
        ..IndexState::default()
    };
    let manifest = Manifest {
        entries: [(cleared.address, verified)].into(),
    };
    let mut lake = TestLake::new().await;
    let file = container(&blobs, Default::default(), Some(&manifest));
    lake.ingest(&[("reasoning.mg", &file)]).await;
    let text = |response: &Json<'_>| response.to_string();
    for statement in [
        "ASSEMBLE c FROM a: (RECALL reasonings) FORMAT text",
        "LET $a = RECALL reasonings; ASSEMBLE c FROM a: $a, b: $a FORMAT text",
    ] {
        let context = answered(&lake, None, statement).await.unwrap();
        assert_eq!(warnings(&context), ["CAL-W103"], "{statement}");
        let context = text(&context);
        assert!(!context.contains("unreviewed"), "{statement}: {context}");
        assert!(
            context.contains("cleared") && context.contains("ordinary"),
            "{statement}: {context}"
        );
    }
    let recalled = answered(&lake, None, "RECALL reasonings").await.unwrap();
    assert!(text(&recalled).contains("unreviewed"));
    let session = Session {
        unreviewed: true,
        ..patient_session(1_800_000_000_000)
    };
    let statement = b"ASSEMBLE c FROM a: (RECALL reasonings) FORMAT text";
    let executor = lake.executor(session).await;
    let (none, options) = (Bindings::new(), Options::default());
    let whole = executor.run_text(statement, &none, options).await;
    let whole = whole.unwrap().to_json();
    assert!(text(&whole).contains("unreviewed") && warnings(&whole).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_grains_is_no_source_and_no_set_operand() {
    let hidden = grain(&belief("hidden", r#", "namespace": "other""#))
        .address
        .to_string();
    let pointer =
        belief("pointer", "").replace(r#""subject": "s""#, &format!(r#""subject": "{hidden}""#));
    let grains = [belief("hidden", r#", "namespace": "other""#), pointer];
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    for (statement, code) in [
        (
            "ASSEMBLE x FROM a: (RECALL | COUNT) FORMAT text",
            "CAL-E076",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | SUBJECTS) FORMAT text",
            "CAL-E076",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | SUBJECTS | FIRST) FORMAT text",
            "CAL-E076",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | GROUP BY subject) FORMAT text",
            "CAL-E076",
        ),
        (
            "LET $a = RECALL beliefs | COUNT; ASSEMBLE x FROM s: $a",
            "CAL-E020",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS | LIMIT 2; ASSEMBLE x FROM s: $a",
            "CAL-E020",
        ),
        (
            "(RECALL beliefs | SUBJECTS | FIRST) UNION (RECALL beliefs)",
            "CAL-E021",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL | COUNT), b: (RECALL beliefs) FORMAT text",
            "ok",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | FIRST) FORMAT text",
            "ok",
        ),
    ] {
        assert_eq!(verdict(&grains, statement).await, code, "{statement}");
    }
}
