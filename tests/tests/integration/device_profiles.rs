//! Device profiles (§18): grains beyond their limits are counted, and ingested nevertheless.

use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

/// Writes grains to `grains.jsonl`: two that fit sensors, one with a context, one of 40,000 bytes.
fn write_grains(sandbox: &Sandbox) {
    let belief = |object: &str, more: Value| {
        let mut belief = json!({"type": "belief", "subject": "room 4", "relation": "has",
            "object": object, "confidence": 0.9, "created_at": 1767225600000_i64});
        let more = more.as_object().unwrap().clone();
        belief.as_object_mut().unwrap().extend(more);
        json!({ "grain": belief })
    };
    let reading = json!({"grain": {"type": "observation", "observer_id": "t1",
        "observer_type": "temperature", "object": "21 C", "created_at": 1767225600000_i64}});
    let lines = [
        reading,
        belief("a window", json!({"namespace": "home"})),
        belief(
            "a door",
            json!({"context": {"side": "north"}, "source_type": "sensor"}),
        ),
        belief(&"x".repeat(40_000), json!({})),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(sandbox.path("grains.jsonl"), text.join("\n")).unwrap();
}

/// Checks how many grains a report counts as too large, and with fields beyond the profile.
fn check(report: &Value, size: u64, fields: u64) {
    let report = report.get(0).unwrap_or(report);
    let count = |name: &str| report["marks"][name].as_u64().unwrap_or(0);
    let found = (count("beyond_profile_size"), count("beyond_profile_fields"));
    assert_eq!(found, (size, fields), "{report}");
}

#[test]
fn grains_beyond_a_device_profile_are_counted_by_ingest_and_by_verify() {
    let sandbox = Sandbox::new();
    write_grains(&sandbox);
    for (profile, code, size, fields) in [
        ("extended", 0, 0, 0),
        ("standard", 2, 1, 0),
        ("lightweight", 2, 1, 1),
    ] {
        let flag = ["--device-profile", profile];
        let ingest = [&["ingest", "grains.jsonl"], &flag[..]].concat();
        let report = sandbox.run(profile, code, &ingest);
        check(&report, size, fields);
        let count = sandbox.sql(profile, "SELECT count(*) AS n FROM grains");
        assert_eq!(count[0]["n"], 4, "all are ingested");
        check(&sandbox.run(profile, 0, &["verify"]), 0, 0);
        let verified = sandbox.run(profile, code, &[&["verify"], &flag[..]].concat());
        check(&verified, size, fields);
        assert_eq!(verified.get(0).unwrap_or(&verified)["bad"], 0);
        let exported = sandbox.output(profile, &["export", "copy.mg"]);
        assert!(exported.status.success(), "{exported:?}");
        let file = [&["verify", "copy.mg"], &flag[..]].concat();
        check(&sandbox.run(profile, code, &file), size, fields);
        std::fs::remove_file(sandbox.path("copy.mg")).unwrap();
    }
}

#[test]
fn sql_names_the_limits_that_a_grain_exceeds() {
    let sandbox = Sandbox::new();
    write_grains(&sandbox);
    sandbox.run("lake", 0, &["ingest", "grains.jsonl"]);
    let query = "SELECT beyond_device_profile(blob, 'lightweight') AS beyond FROM grains \
                 WHERE beyond_device_profile(blob, 'lightweight') IS NOT NULL ORDER BY 1";
    let rows = sandbox.sql("lake", query);
    let beyond: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["beyond"].as_str().unwrap())
        .collect();
    assert_eq!(beyond, ["context, source_type", "size"]);
}

#[test]
fn an_encrypted_lake_is_checked_against_a_device_profile_too() {
    let sandbox = Sandbox::new();
    write_grains(&sandbox);
    sandbox.run("lake", 0, &["ingest", "grains.jsonl", "--encrypt"]);
    let verify = ["verify", "--device-profile", "lightweight"];
    check(&sandbox.run("lake", 2, &verify), 1, 1);
}
