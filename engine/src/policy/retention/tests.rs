//! Rules on single grains, and the boundary of creation seconds.

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Payload, encode_json,
};
use gristmill_schemas::json::Json;
use proptest::prelude::*;

use super::*;

/// 2024-01-01.
const MADE: i64 = 1_704_067_200_000;
const DAY: i64 = 86_400_000;

/// A rule that covers every grain.
fn rule(name: &str, period: &str) -> RetentionRule {
    RetentionRule {
        name: name.to_owned(),
        period: period.parse().unwrap(),
        regulation: None,
        types: Vec::new(),
        namespaces: Vec::new(),
        sensitivity: Vec::new(),
        tags: Vec::new(),
    }
}

/// Returns the policy and the floor of an event of the namespace `shop` so many days after its
/// creation.
fn judge(rules: &RetentionRules, days: i64) -> Option<(usize, Option<&str>)> {
    let json = format!(
        r#"{{"type": "event", "content": "hello", "namespace": "shop", "structural_tags": ["pii:email"], "created_at": {MADE}}}"#
    );
    let json = Json::parse(json.as_bytes()).unwrap();
    let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
    let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    let grain = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
    let expired = rules.expired(&grain, MADE + days * DAY)?;
    Some((
        expired.policy,
        expired.floor.map(|(floor, _)| floor.name.as_str()),
    ))
}

#[test]
fn an_empty_list_covers_not_every_grain_but_is_refused() {
    for list in ["types", "namespaces", "sensitivity", "tags"] {
        let rule = format!(r#"{{"name": "a", "period": "1 day", "{list}": []}}"#);
        let error = serde_json::from_str::<RetentionRule>(&rule).unwrap_err();
        assert!(error.to_string().contains("the list is empty"), "{error}");
    }
    let written = serde_json::to_string(&rule("a", "1 day")).unwrap();
    assert_eq!(
        serde_json::from_str::<RetentionRule>(&written).unwrap(),
        rule("a", "1 day")
    );
}

#[test]
fn the_first_policy_that_covers_a_grain_decides() {
    let scope = |types: &[&str], namespaces: &[&str], classes: &[&str], tags: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let patterns = |names: &[&str]| names.iter().map(|it| NamePattern::new(*it)).collect();
        RetentionRule {
            types: owned(types),
            namespaces: patterns(namespaces),
            sensitivity: owned(classes),
            tags: patterns(tags),
            ..rule("first", "10 days")
        }
    };
    for (scope, covers) in [
        (scope(&["episode"], &[], &[], &[]), true),
        (scope(&["belief"], &[], &[], &[]), false),
        (scope(&[], &["sh*"], &[], &[]), true),
        (scope(&[], &["legal"], &[], &[]), false),
        (scope(&[], &[], &["pii"], &[]), true),
        (scope(&[], &[], &["public"], &[]), false),
        (scope(&[], &[], &[], &["pii:*"]), true),
        (scope(&[], &[], &[], &["phi:*"]), false),
        (scope(&["event"], &["legal"], &["pii"], &["pii:*"]), false),
    ] {
        let rules = RetentionRules {
            policies: vec![scope.clone(), rule("rest", "20 days")],
            floors: Vec::new(),
        };
        let expected = covers.then_some((0, None));
        assert_eq!(judge(&rules, 10), expected, "{scope:?}");
        assert_eq!(judge(&rules, 9), None);
        assert_eq!(judge(&rules, 20), Some((usize::from(!covers), None)));
    }
}

#[test]
fn the_longest_floor_keeps_an_expired_grain_until_it_ends() {
    let rules = RetentionRules {
        policies: vec![rule("all", "10 days")],
        floors: vec![rule("short", "20 days"), rule("long", "30 days")],
    };
    for (days, expected) in [
        (9, None),
        (10, Some((0, Some("long")))),
        (29, Some((0, Some("long")))),
        (30, Some((0, None))),
    ] {
        assert_eq!(judge(&rules, days), expected, "{days}");
    }
    let endless = RetentionRules {
        floors: vec![rule("long", "30 days"), rule("endless", "300000000 years")],
        ..rules
    };
    assert_eq!(judge(&endless, 40_000), Some((0, Some("endless"))));
}

#[test]
fn rules_without_sense_are_refused() {
    let all = || rule("all", "10 days");
    let of_type = RetentionRule {
        types: vec!["letter".to_owned()],
        ..all()
    };
    let of_class = RetentionRule {
        sensitivity: vec!["secret".to_owned()],
        ..all()
    };
    for (policies, expected) in [
        (vec![], "no policy"),
        (vec![all(), all()], "used twice"),
        (vec![rule(" ", "1 day")], "empty"),
        (vec![of_type], "no type"),
        (vec![of_class], "no sensitivity"),
    ] {
        let floors = Vec::new();
        let error = RetentionRules { policies, floors }.check().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

proptest! {
    /// No grain after the boundary has expired, and one at the boundary has.
    #[test]
    fn the_last_expired_second_is_exact(
        days in 0..40_000_u32,
        in_months in any::<bool>(),
        now in 0..5_000_000_000_000_i64,
    ) {
        let period = if in_months { format!("{} months", days / 30) } else { format!("{days} days") };
        let period: Period = period.parse().unwrap();
        let policies = vec![RetentionRule { period, ..rule("all", "1 day") }];
        let rules = RetentionRules { policies, floors: Vec::new() };
        let is_expired = |second: u32| period.after(i64::from(second) * 1_000).unwrap() <= now;
        match rules.last_expired_second(now) {
            None => prop_assert!(!is_expired(0)),
            Some(second) => {
                prop_assert!(is_expired(second));
                prop_assert!(second == u32::MAX || !is_expired(second + 1));
            }
        }
    }
}
