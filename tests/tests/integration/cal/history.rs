//! `HISTORY` and `REVERT`: the versions of a grain, and which of them they follow.

use gristmill_schemas::json::Json;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;

use super::{answered, belief, objects, supersede_grains, verdict};

#[tokio::test(flavor = "multi_thread")]
async fn history_shows_the_newest_versions_of_a_chain_of_any_length_with_all_branches() {
    let version = |at: usize| {
        belief(&format!("v{at:03}"), "").replace("1767225600000", &format!("17672256{at:05}"))
    };
    let versions: Vec<String> = (0..130).map(version).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let mut lake = TestLake::of(&versions).await;
    // The last version comes after the first too: a branch.
    let mut links: Vec<(&str, &str)> = versions[..129]
        .iter()
        .copied()
        .zip(versions[1..129].iter().copied())
        .collect();
    links.push((versions[0], versions[129]));
    supersede_grains(&mut lake, &links).await;
    let newest: Vec<String> = (30..130).rev().map(|at| format!("v{at:03}")).collect();
    for start in [0, 64, 128, 129] {
        let statement = format!("HISTORY sha256:{}", grain(versions[start]).address);
        let response = answered(&lake, None, &statement).await.unwrap();
        assert_eq!(objects(&response), newest, "from version {start}");
        assert_eq!(
            response.get("total").and_then(Json::as_u64),
            Some(130),
            "from version {start}"
        );
    }
    // Along the branch of version 1, which ends at version 128.
    let statement = format!("REVERT sha256:{} REASON \"r\"", grain(versions[1]).address);
    let reverted = answered(&lake, None, &statement).await.unwrap();
    assert_eq!(objects(&reverted), ["v000"]);
    let superseded = reverted
        .get("written")
        .and_then(|written| written.get("supersedes"))
        .and_then(Json::as_str);
    assert_eq!(
        superseded,
        Some(grain(versions[128]).address.to_string().as_str())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn history_follows_supersession_where_times_give_no_order_or_another() {
    let written = |object: &str| belief(object, "");
    let late = written("v1").replace("1767225600000", "1767225700000");
    let versions = [written("v0"), late, written("v2"), written("v3")];
    let more = ["v4", "v5", "v6", "v7"].map(written);
    let versions: Vec<&str> = versions.iter().chain(&more).map(String::as_str).collect();
    let mut lake = TestLake::of(&versions).await;
    let later = versions[1..].iter().copied();
    let links: Vec<(&str, &str)> = versions.iter().copied().zip(later).collect();
    supersede_grains(&mut lake, &links).await;
    let newest = ["v7", "v6", "v5", "v4", "v3", "v2", "v1", "v0"];
    for statement in [
        format!("HISTORY sha256:{}", grain(versions[2]).address),
        r#"HISTORY WHERE subject = "s" AND relation = "r""#.to_owned(),
    ] {
        let response = answered(&lake, None, &statement).await.unwrap();
        assert_eq!(objects(&response), newest, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_can_be_compared_with_itself() {
    let one = belief("one", "");
    let address = grain(&one).address;
    let statement = format!("HISTORY sha256:{address} DIFF sha256:{address}");
    assert_eq!(verdict(&[&one], &statement).await, "ok");
}
