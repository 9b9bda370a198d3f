//! `verify --content`: files to which grains refer, compared with the checksums of the references.

use std::fs;

use gristmill_tests::grains::{frames, grain};
use gristmill_tests::sandbox::Sandbox;
use serde_json::json;
use sha2::{Digest, Sha256};

#[test]
fn content_below_a_root_is_compared_with_the_references() {
    let sandbox = Sandbox::new();
    let digest = |bytes: &[u8]| format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
    let files = sandbox.path("media");
    fs::create_dir_all(files.join("deep")).unwrap();
    fs::write(files.join("deep/good.png"), b"image").unwrap();
    fs::write(files.join("changed.png"), b"other").unwrap();
    fs::write(files.join("long.png"), b"longer").unwrap();
    fs::write(sandbox.path("outside.png"), b"image").unwrap();
    let address = digest(b"content-addressed");
    let name = address.strip_prefix("sha256:").unwrap();
    fs::write(files.join(name), b"content-addressed").unwrap();
    let right = digest(b"image");
    let reference = |uri: &str, checksum: &str, size: usize| {
        format!(
            r#"{{"uri":"{uri}","modality":"image","checksum":"{checksum}","size_bytes":{size}}}"#
        )
    };
    let outside = sandbox.path("outside.png").display().to_string();
    let own = format!(
        "file://{}/deep/good.png",
        files.canonicalize().unwrap().display()
    );
    let fact = |references: &[String]| {
        grain(&format!(
            r#"{{"type":"belief","subject":"s","relation":"r","object":"o","confidence":1.0,
                "created_at":1767225600000,"content_refs":[{}]}}"#,
            references.join(",")
        ))
        .blob
    };
    let good = [
        reference("deep/good.png", &right, 5),
        reference(&own, &right, 5),
        reference(&format!("cas://{address}"), &address, 17),
    ];
    let bad = [
        reference("changed.png", &right, 5),
        reference("long.png", &right, 5),
        reference("gone.png", &right, 5),
        reference(&outside, &right, 5),
        reference("../outside.png", &right, 5),
        reference("https://example.org/x.png", &right, 5),
        r#"{"uri":"deep/good.png","modality":"image"}"#.to_owned(),
    ];
    fs::write(sandbox.path("good.mgs"), frames(&[fact(&good)])).unwrap();
    sandbox.run("lake", 0, &["ingest", "good.mgs"]);
    let verified = sandbox.run("lake", 0, &["verify", "--content", "media"]);
    assert_eq!(verified["content"]["equal"], 3, "{verified:#}");
    fs::write(sandbox.path("bad.mgs"), frames(&[fact(&bad)])).unwrap();
    sandbox.run("lake", 0, &["ingest", "bad.mgs"]);
    let verified = sandbox.run("lake", 2, &["verify", "--content", "media"]);
    assert_eq!(verified["bad"], 0, "the lake itself is sound");
    let content = &verified["content"];
    let counts = [
        "references",
        "equal",
        "different",
        "missing",
        "elsewhere",
        "without_checksum",
    ];
    let counts = counts.map(|name| content[name].as_u64().unwrap());
    assert_eq!(counts, [10, 3, 2, 1, 3, 1], "{content:#}");
    assert_eq!(content["problems"].as_array().unwrap().len(), 3);
    sandbox.run("lake", 1, &["verify", "--content", "nowhere"]);
    check_description(&sandbox);
    sandbox.run("lake", 0, &["verify"]);
}

/// Checks the counts of `describe` over the references of the test above.
fn check_description(sandbox: &Sandbox) {
    let counts = |arguments: &[&str]| {
        let described = sandbox.run("lake", 0, &[&["describe"], arguments].concat());
        let described = described.get(0).unwrap_or(&described).clone();
        described["content_references"].clone()
    };
    assert!(counts(&[]).is_null(), "references are counted on request");
    let numbers = |counts: &serde_json::Value| {
        let names = [
            "references",
            "without_checksum",
            "stated_bytes",
            "targets",
            "present_targets",
            "missing_targets",
            "unknown_targets",
        ];
        names.map(|name| counts[name].as_u64().unwrap())
    };
    let counted = counts(&["--references"]);
    assert_eq!(numbers(&counted), [10, 1, 57, 9, 0, 0, 9], "{counted:#}");
    let found = counts(&["--content", "media"]);
    assert_eq!(numbers(&found), [10, 1, 57, 9, 5, 1, 3], "{found:#}");
    assert_eq!(found["first_missing"], json!(["gone.png"]));
}

/// An exchange whose request has an image, twice, and a document.
fn exchange_with_content() -> String {
    let source = |media_type: &str, data: &str| json!({"type": "base64", "media_type": media_type, "data": data});
    let image = json!({"type": "image", "source": source("image/png", "JVBORw==")});
    let document = json!({"type": "document", "source": source("application/pdf", "JVBERg==")});
    json!({
        "id": "with-content", "provider": "anthropic", "endpoint": "messages", "method": "POST",
        "url_path": "/v1/messages", "streaming": false, "status": 200, "framing": "json",
        "recorded_at": "2026-03-06T09:14:02Z",
        "request": {
            "model": "claude-sonnet-4-6", "max_tokens": 1024, "messages": [{
                "role": "user",
                "content": [{"type": "text", "text": "Compare these."}, image, image, document],
            }],
        },
        "response": {
            "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6",
            "content": [{"type": "text", "text": "They are equal."}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 3},
        },
    })
    .to_string()
}

#[test]
fn embedded_content_is_written_to_files_that_verify_finds() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("x.jsonl"), exchange_with_content()).unwrap();
    let ingest = ["ingest", "x.jsonl", "--content-dir", "media"];
    sandbox.run("lake", 0, &[&ingest[..], &["--dry-run"]].concat());
    assert!(!sandbox.path("media").exists());
    sandbox.run("lake", 0, &ingest);
    let names = || {
        let files = fs::read_dir(sandbox.path("media")).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let files = names();
    assert_eq!(files.len(), 2);
    for name in &files {
        let bytes = fs::read(sandbox.path("media").join(name)).unwrap();
        assert_eq!(hex::encode(Sha256::digest(bytes)), name.to_str().unwrap());
    }
    // `JVB`, with which the data in base64 begin.
    let embedded = "SELECT count(*) AS n FROM grains WHERE encode(blob, 'hex') LIKE '%4a5642%'";
    assert_eq!(sandbox.sql("lake", embedded)[0]["n"], 0);
    let verified = sandbox.run("lake", 0, &["verify", "--content", "media"]);
    assert_eq!(verified["content"]["equal"], 2, "{verified:#}");
    assert_eq!(verified["content"]["references"], 2, "{verified:#}");
    let types =
        "SELECT r['modality'] AS m FROM (SELECT unnest(content_refs) AS r FROM grains) ORDER BY 1";
    let types = sandbox.sql("lake", types);
    assert_eq!(
        (&types[0]["m"], &types[1]["m"]),
        (&json!("document"), &json!("image"))
    );
    // Again: the same grains and files.
    let again = sandbox.run("lake", 0, &[&ingest[..], &["--again"]].concat());
    assert_eq!(again["grains_written"], 0, "{again:#}");
    assert_eq!(names(), files);
}

#[test]
fn an_encrypted_lake_takes_no_content_folder() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("x.jsonl"), exchange_with_content()).unwrap();
    sandbox.run("lake", 0, &["ingest", "x.jsonl", "--encrypt"]);
    let ingest = ["ingest", "x.jsonl", "--again", "--content-dir", "media"];
    sandbox.run("lake", 1, &ingest);
}
