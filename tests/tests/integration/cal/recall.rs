//! `RECALL`: which grains and fields it finds, and its warnings.

use gristmill_schemas::json::Json;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;

use super::{answered, belief, members, objects, warnings};

#[tokio::test(flavor = "multi_thread")]
async fn diversity_leaves_near_duplicates_out_of_an_operand() {
    let objects_of_both = ["green tea in the morning", "green tea in the evening"];
    let grains = objects_of_both.map(|object| belief(object, ""));
    let lake = TestLake::of(&[&grains[0], &grains[1]]).await;
    let both = "(RECALL beliefs) UNION (RECALL goals)";
    let one = "(RECALL beliefs WITH diversity(threshold, 0.5)) UNION (RECALL goals)";
    for (statement, expected) in [(both, 2), (one, 1)] {
        let response = answered(&lake, None, statement).await.unwrap();
        assert_eq!(objects(&response).len(), expected, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_without_effect_and_failed_sources_have_their_own_warnings() {
    let lake = TestLake::of(&[&belief("tea", "")]).await;
    let run = async |statement: &str| answered(&lake, None, statement).await.unwrap();
    assert_eq!(warnings(&run("RECALL WITH x_boost").await), ["CAL-W004"]);
    assert_eq!(
        warnings(&run("RECALL WITH locale(\"de\")").await),
        ["CAL-W101"]
    );
    for part in [
        "(RECALL WITH cache(ttl = 1)) UNION (RECALL)",
        "(RECALL) EXCEPT (RECALL WITH diversity(mmr))",
        "LET $x = RECALL beliefs WITH diversity(mmr) | OBJECTS; RECALL WHERE object IN ($x)",
        "RECALL WHERE object IN (RECALL beliefs WITH summarize | OBJECTS)",
        "RECALL WITH diversity(mmr) | COUNT",
    ] {
        assert_eq!(warnings(&run(part).await), ["CAL-W101"], "{part}");
    }
    assert_eq!(
        warnings(&run("ASSEMBLE c FROM a: (RECALL | COUNT), b: (RECALL)").await),
        ["CAL-W102"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_select_narrows_the_fields_of_the_previous_one() {
    let lake = TestLake::of(&[&belief("tea", "")]).await;
    for (stages, row) in [
        (
            "SELECT subject, object",
            r#"{"subject":"s","object":"tea"}"#,
        ),
        (
            "SELECT subject, object | SELECT object, relation",
            r#"{"object":"tea"}"#,
        ),
        (
            "SELECT subject, relation, object | SELECT object, subject",
            r#"{"object":"tea","subject":"s"}"#,
        ),
        ("SELECT subject | SELECT object", "{}"),
    ] {
        let response = answered(&lake, None, &format!("RECALL beliefs | {stages}"))
            .await
            .unwrap();
        let rows = response.get("rows").unwrap().to_string();
        assert_eq!(rows, format!("[{row}]"), "{stages}");
        assert_eq!(
            members(&response, "grain")[0].unwrap().to_string(),
            row,
            "{stages}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_followed_however_references_to_messages_are_spelled() {
    let said = |content: &str, parent: &str| {
        format!(
            r#"{{"type": "event", "role": "user", "content": "{content}", "created_at": 1767225600000{parent}}}"#
        )
    };
    let after = |message: &str, prefix: &str| {
        let address = grain(message).address;
        format!(r#", "parent_message_id": "{prefix}{address}""#)
    };
    let first = said("first", "");
    let second = said("second", &after(&first, "sha256:"));
    let third = said("third", &after(&second, ""));
    let lake = TestLake::of(&[&first, &second, &third]).await;
    for start in [&first, &third] {
        let statement = format!("RECALL events THREAD FROM sha256:{}", grain(start).address);
        let response = answered(&lake, None, &statement).await.unwrap();
        let total = response.get("total").and_then(Json::as_u64);
        assert_eq!(total, Some(3), "{start}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_without_a_recall_priority_is_warm() {
    let belief = |object: &str, more: &str| {
        format!(
            r#"{{"type": "belief", "subject": "ada", "relation": "likes", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000{more}}}"#
        )
    };
    let priority = |name: &str| format!(r#", "recall_priority": "{name}""#);
    let grains = [
        belief("tea", ""),
        belief("rye", &priority("warm")),
        belief("chess", &priority("cold")),
    ];
    let lake = TestLake::of(&grains.each_ref().map(String::as_str)).await;
    for (name, expected) in [
        ("warm", &["rye", "tea"][..]),
        ("cold", &["chess"]),
        ("hot", &[]),
    ] {
        let statement = format!("RECALL beliefs WHERE recall_priority = \"{name}\"");
        let response = answered(&lake, None, &statement).await.unwrap();
        let mut found = objects(&response);
        found.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
}
