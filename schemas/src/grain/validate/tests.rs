//! What is marked and not refused: values outside of registries, DIDs, references, profiles.

use crate::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Grain, Payload, encode_json};
use crate::json::Json;

/// Returns the marks of a grain with the JSON members `members`, which a writer accepts.
fn marks(members: &str) -> Vec<&'static str> {
    let json = format!(r#"{{"created_at": 1000, {members}}}"#);
    let json = Json::parse(json.as_bytes()).unwrap();
    let encoded = encode_json(&json, EncodeOptions::default());
    let encoded = encoded.unwrap_or_else(|error| panic!("{members}: {error}"));
    let payload = Payload::open(&encoded.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
    grain.marks().iter().map(|mark| mark.name()).collect()
}

fn event(more: &str) -> Vec<&'static str> {
    marks(&format!(r#""type": "event", "content": "c", {more}"#))
}

const FINE: [&str; 0] = [];

#[test]
fn values_outside_of_closed_vocabularies_are_marked() {
    for (field, value) in [
        ("temporal_type", "state"),
        ("identity_state", "pseudonymous"),
        ("invalidation_type", "erratum"),
        ("recall_priority", "cold"),
    ] {
        assert_eq!(event(&format!(r#""{field}": "{value}""#)), FINE, "{field}");
        let other = event(&format!(r#""{field}": "{value}er""#));
        assert_eq!(other, ["vocabulary"], "{field}");
    }
    let call = r#""type": "action", "action_phase": "call", "tool_name": "a", "input": {}"#;
    for (field, value) in [("tool_type", "builtin"), ("execution_mode", "computer_use")] {
        assert_eq!(marks(&format!(r#"{call}, "{field}": "{value}""#)), FINE);
        let other = marks(&format!(r#"{call}, "{field}": "other""#));
        assert_eq!(other, ["vocabulary"], "{field}");
    }
    let reasoning = |method: &str| {
        marks(&format!(
            r#""type": "reasoning", "inference_method": "{method}""#
        ))
    };
    assert_eq!(reasoning("abductive"), FINE);
    assert_eq!(reasoning("guessing"), ["vocabulary"]);
    assert_eq!(
        event(r#""epistemic_status": "vague""#),
        FINE,
        "an open enum"
    );
    assert_eq!(event(r#""source_type": "dream""#), FINE, "an open enum");
}

#[test]
fn modes_and_scopes_of_observations_are_those_of_their_registries() {
    let observation = |observer: &str, mode: &str, scope: &str| {
        marks(&format!(
            r#""type": "observation", "observer_id": "o", "observer_type": "{observer}",
               "observation_mode": "{mode}", "observation_scope": "{scope}""#
        ))
    };
    for mode in ["passive", "active", "reflective", "real_time"] {
        assert_eq!(observation("acme:eye", mode, "interval"), FINE);
    }
    assert_eq!(observation("llm", "glancing", "point"), ["vocabulary"]);
    assert_eq!(observation("llm", "passive", "week"), ["vocabulary"]);
    assert_eq!(observation("llm", "periodic", "point"), ["vocabulary"]);
    let watched = "repos/{owner}/{repo}/issues";
    for mode in ["periodic", "continuous", "scheduled", "active"] {
        assert_eq!(observation("trigger:polling", mode, watched), FINE);
    }
    let other = observation("trigger:polling", "sometimes", watched);
    assert_eq!(other, ["vocabulary"]);
}

#[test]
fn texts_in_place_of_dids_are_marked() {
    for field in ["author_did", "subject_did", "invalidation_initiator"] {
        assert_eq!(event(&format!(r#""{field}": "did:web:a.example""#)), FINE);
        let other = event(&format!(r#""{field}": "agent-7""#));
        assert_eq!(other, ["identifier"], "{field}");
    }
    let consensus = |observers: &str| {
        marks(&format!(
            r#""type": "consensus", "participating_observers": {observers}, "threshold": 1,
               "agreement_count": 1, "dissent_count": 0"#
        ))
    };
    assert_eq!(consensus(r#"["did:key:z6Mk", "did:web:b.example"]"#), FINE);
    assert_eq!(consensus(r#"["did:key:z6Mk", "bob"]"#), ["identifier"]);
    assert_eq!(event(r#""user_id": "ada-1""#), FINE, "not a DID");
}

#[test]
fn citations_have_kinds_and_roles_of_the_registry() {
    let hash = format!("sha256:{}", "0a".repeat(32));
    let cited = |more: &str| {
        let citation = format!(r#"{{"identifier": "urn:a/10.1", {more}}}"#);
        let parent = format!(r#""derived_from": [{citation}]"#);
        let found = event(&parent);
        let reference = event(&format!(r#""content_refs": [{citation}]"#));
        assert_eq!(found, reference, "{more}");
        found
    };
    let complete = format!(
        r#""citation_type": "url", "citation_role": "uses_data", "retrieved_at": 5,
           "content_hash": "{hash}""#
    );
    assert_eq!(cited(&complete), FINE);
    assert_eq!(cited(r#""citation_type": "blog""#), ["vocabulary"]);
    assert_eq!(cited(r#""citation_type": "doi""#), ["field_kind"], "no DOI");
    let role = r#""citation_type": "url", "citation_role": "praises""#;
    assert_eq!(cited(role), ["vocabulary"]);
    for malformed in [r#""content_hash": "md5:1""#, r#""retrieved_at": "today""#] {
        let more = format!(r#""citation_type": "url", {malformed}"#);
        assert_eq!(cited(&more), ["field_kind"], "{malformed}");
    }
}

#[test]
fn metadata_of_references_has_the_kinds_that_its_modality_defines() {
    let reference = |more: &str| {
        event(&format!(
            r#""content_refs": [{{"uri": "x", "modality": "video", {more}}}]"#
        ))
    };
    let fine = r#""mime_type": "video/mp4", "size_bytes": 9,
        "metadata": {"width": 3840, "fps": 29.97, "codec": "h264", "own": [1]}"#;
    assert_eq!(reference(fine), FINE);
    for other in [
        r#""metadata": {"width": "wide"}"#,
        r#""metadata": {"height": -1}"#,
        r#""metadata": {"fps": 0}"#,
        r#""metadata": {"has_color": "yes"}"#,
        r#""size_bytes": -5"#,
        r#""mime_type": "video""#,
    ] {
        assert_eq!(reference(other), ["field_kind"], "{other}");
    }
    let metric = |metric: &str| {
        event(&format!(
            r#""embedding_refs": [{{"vector_id": "v", "model": "m", "dimensions": 3,
               "distance_metric": "{metric}"}}]"#
        ))
    };
    assert_eq!(metric("l2"), FINE);
    assert_eq!(metric("manhattan"), ["vocabulary"]);
}

#[test]
fn fields_of_a_declared_profile_have_its_values_kinds_and_ranges() {
    for (profile, fine, other) in [
        (
            "healthcare",
            r#""hc:deidentification": "safe_harbor""#,
            r#""hc:deidentification": "trust_me""#,
        ),
        (
            "healthcare",
            r#""hc:icd10": ["J45"]"#,
            r#""hc:icd10": [45]"#,
        ),
        (
            "legal",
            r#""legal:privilege": "none""#,
            r#""legal:privilege": "total""#,
        ),
        (
            "legal",
            r#""legal:effective_date": 1737000000000"#,
            r#""legal:effective_date": "soon""#,
        ),
        (
            "finance",
            r#""fin:risk_score": "0.5""#,
            r#""fin:risk_score": 1.5"#,
        ),
        (
            "robotics",
            r#""rob:pose": {"x": 1.5}"#,
            r#""rob:pose": 1.5"#,
        ),
        (
            "science",
            r#""sci:p_value": 0.05"#,
            r#""sci:p_value": -0.05"#,
        ),
        (
            "science",
            r#""sci:preregistered": true"#,
            r#""sci:preregistered": "perhaps""#,
        ),
        (
            "consumer",
            r#""con:device_type": "tv""#,
            r#""con:device_type": "toaster""#,
        ),
        (
            "integration",
            r#""int:http_method": "PATCH""#,
            r#""ihm": "FETCH""#,
        ),
        (
            "integration",
            r#""int:auth_type": "aws_sigv4""#,
            r#""int:auth_type": ["basic"]"#,
        ),
    ] {
        let grain = |field: &str, tags: &str| {
            event(&format!(
                r#""context": {{{field}}}, "structural_tags": [{tags}]"#
            ))
        };
        let declared = format!(r#""profile:{profile}""#);
        assert_eq!(grain(fine, &declared), FINE, "{fine}");
        assert_eq!(grain(other, &declared), ["profile_fields"], "{other}");
        assert_eq!(grain(other, ""), FINE, "the profile isn't declared");
        let own = event(&format!(r#"{other}, "structural_tags": [{declared}]"#));
        assert_eq!(own, ["profile_fields"], "{other} outside of the context");
    }
}
