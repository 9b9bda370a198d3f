//! `verify --content`: files to which grains refer, compared with the checksums of the references.

use std::fs;

use gristmill_tests::grains::{frames, grain};
use gristmill_tests::sandbox::Sandbox;
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
    sandbox.run("lake", 0, &["verify"]);
}
