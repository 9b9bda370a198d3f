//! Signatures of DIDs that don't contain their key, with the trust store of the command line;
//! disclosed copies of grains.

use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

const DID: &str = "did:web:example.org";

/// Runs `grain` with `arguments` over one line, and returns the answer.
fn grain(sandbox: &Sandbox, code: i32, arguments: &[&str], line: &Value) -> Value {
    std::fs::write(sandbox.path("line.jsonl"), line.to_string()).unwrap();
    let arguments = [&["grain"], arguments, &["line.jsonl"]].concat();
    let output = sandbox.output("lake", &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn belief(object: &str, more: Value) -> Value {
    let mut belief = json!({"type": "belief", "subject": "acme", "relation": "keeps",
        "object": object, "confidence": 1.0, "created_at": 1767225600000_i64});
    let more = more.as_object().unwrap().clone();
    belief.as_object_mut().unwrap().extend(more);
    json!({ "grain": belief })
}

fn text(answer: &Value, member: &str) -> String {
    answer[member].as_str().unwrap().to_owned()
}

/// Writes the key `name` of the keyring to the file `NAME.key`.
fn publish(sandbox: &Sandbox, name: &str) {
    let key = sandbox.run("lake", 0, &["keys", "generate", name]);
    let did = key["did"].as_str().or(key[0]["did"].as_str()).unwrap();
    std::fs::write(sandbox.path(&format!("{name}.key")), did).unwrap();
}

fn ingest_hex(sandbox: &Sandbox, answer: &Value) {
    let bytes = hex::decode(text(answer, "blob_hex")).unwrap();
    std::fs::write(sandbox.path("grain.mgs"), bytes).unwrap();
    sandbox.run("lake", 0, &["ingest", "grain.mgs"]);
}

fn signature_findings(sandbox: &Sandbox, code: i32) -> usize {
    let arguments = ["scan", "--pack", "integrity", "--format", "jsonl"];
    let output = sandbox.output("lake", &arguments);
    assert_eq!(output.status.code(), Some(code));
    let findings = String::from_utf8(output.stdout).unwrap();
    findings.matches("unverifiable-signature").count()
}

#[test]
fn a_signature_is_verified_as_soon_as_its_did_is_trusted() {
    let sandbox = Sandbox::new();
    publish(&sandbox, "acme");
    publish(&sandbox, "other");
    let sign = ["encode", "--key", "acme", "--signer", DID];
    let signed = grain(&sandbox, 0, &sign, &belief("ledgers", json!({})));
    ingest_hex(&sandbox, &signed);
    let verdict = || sandbox.sql("lake", "SELECT signature FROM grains")[0]["signature"].clone();
    assert_eq!(verdict(), "unverifiable");
    assert_eq!(signature_findings(&sandbox, 2), 1);

    let trust = |name: &str| sandbox.run("lake", 0, &["keys", "trust", DID, name]);
    trust("acme.key");
    sandbox.run("lake", 0, &["verify"]);
    assert_eq!(verdict(), "unverifiable");
    sandbox.run("lake", 0, &["repair"]);
    assert_eq!(verdict(), "valid");
    assert_eq!(signature_findings(&sandbox, 0), 0);
    let trusted = sandbox.run("lake", 0, &["keys", "trusted"]);
    assert_eq!(trusted[0]["did"], DID);

    // Without the key the verdict stays; with a key that is another one's, it is wrong.
    sandbox.run("lake", 0, &["keys", "untrust", DID]);
    sandbox.run("lake", 0, &["verify"]);
    sandbox.run("lake", 0, &["repair"]);
    assert_eq!(verdict(), "valid");
    trust("other.key");
    sandbox.run("lake", 2, &["verify"]);
    sandbox.run("lake", 1, &["keys", "untrust", "did:web:nobody.example"]);
}

#[test]
fn a_delegate_with_a_trusted_did_may_supersede() {
    let sandbox = Sandbox::new();
    publish(&sandbox, "acme");
    let policy = json!({"invalidation_policy": {"mode": "delegated", "authorized": [DID]}});
    let old = grain(&sandbox, 0, &["encode"], &belief("ledgers", policy));
    ingest_hex(&sandbox, &old);
    let address = text(&old, "content_address");
    let sign = ["encode", "--key", "acme", "--signer", DID];
    let new = belief("nothing", json!({"derived_from": [address]}));
    let new = grain(&sandbox, 0, &sign, &new);
    let operation = json!({"op": "supersede", "address": address,
        "blob_hex": text(&new, "blob_hex")});
    sandbox.apply(3, std::slice::from_ref(&operation));
    sandbox.run("lake", 0, &["keys", "trust", DID, "acme.key"]);
    sandbox.apply(0, &[operation]);
}

#[test]
fn the_bytes_that_authorize_are_those_of_the_documentation() {
    let sandbox = Sandbox::new();
    publish(&sandbox, "acme");
    let docs = std::fs::read_to_string("../docs/formats.md").unwrap();
    let example = |start: &str| {
        let line = docs.lines().find(|line| line.starts_with(start)).unwrap();
        serde_json::from_str::<Value>(line).unwrap()
    };
    for start in [r#"{"op": "supersede""#, r#"{"op": "retract""#] {
        let line = example(start);
        let answer = grain(&sandbox, 0, &["authorize", "--key", "acme"], &line);
        assert!(docs.contains(&text(&answer, "message_hex")), "{answer}");
        assert!(text(&answer, "authorization_hex").starts_with("84"));
    }
}

#[test]
fn a_disclosed_copy_hides_values_that_can_be_verified() {
    let sandbox = Sandbox::new();
    let original = belief("ledgers", json!({"structural_tags": ["phi:diagnosis"]}));
    let original = grain(&sandbox, 0, &["encode"], &original);
    let elide = ["elide", "--fields", "object,structural_tags"];
    let disclosed = grain(&sandbox, 0, &elide, &original);
    assert_eq!(disclosed["disclosure_of"], original["content_address"]);
    let decoded = grain(&sandbox, 0, &["decode"], &disclosed);
    assert_eq!(decoded["grain"]["object"], Value::Null);
    assert_eq!(decoded["header"]["sensitivity"], "phi");
    let blob = disclosed["blob_hex"].clone();
    for (value, code) in [("ledgers", 0), ("receipts", 2)] {
        let line = json!({"blob_hex": blob, "revealed": {"object": value}});
        let answer = grain(&sandbox, code, &["verify-elision"], &line);
        assert_eq!(answer["ok"] == true, code == 0, "{answer}");
    }
    grain(&sandbox, 2, &["elide", "--fields", "relation"], &original);
}
