//! The certificate of an erasure, and changed ones.

use gristmill_engine::erase::{Certificate, InclusionProof, verify};
use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::sandbox::Sandbox;

use super::{erased, lab, person};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_verifies_and_a_tampered_one_doesnt() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let outcome = erased(&mut lake, &person(), fixture.folder()).await;
    let path = fixture.folder().join("lake").join(&outcome.certificate);
    let signed = std::fs::read(&path).unwrap();
    let leaves = std::fs::read(path.with_extension("leaves")).unwrap();
    let keyring = erasure_options(&fixture.folder().join("keyring.json")).keyring;
    let proof = InclusionProof::of(&fixture.addresses["subject"], &leaves, &keyring)
        .unwrap()
        .expect("it is among them");
    assert!(
        InclusionProof::of(&fixture.addresses["bob"], &leaves, &keyring)
            .unwrap()
            .is_none()
    );
    let found = verify(
        &signed,
        Some(&outcome.signer),
        Some(&leaves),
        std::slice::from_ref(&proof),
    );
    assert!(found.valid, "{:?}", found.problems);
    let certificate = found.certificate.unwrap();
    assert_eq!(certificate.lake, Some(lake.audit.id()));
    let text = serde_json::to_string(&certificate).unwrap();
    for marker in ["moy", "Marguerite", "Oyelaran"] {
        assert!(!text.contains(marker), "no personal data: {marker}");
    }
    assert!(
        !verify(
            &signed,
            Some("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"),
            None,
            &[]
        )
        .valid
    );
    // The signature covers everything except the time in the unprotected header.
    let unprotected = signed
        .windows(3)
        .position(|window| window == b"iat")
        .unwrap();
    let covered = |at: &usize| !(unprotected..unprotected + 8).contains(at);
    for at in (0..signed.len()).step_by(signed.len() / 60).filter(covered) {
        let mut tampered = signed.clone();
        tampered[at] ^= 1;
        assert!(!verify(&tampered, None, None, &[]).valid, "byte {at}");
    }
    let mut other = leaves.clone();
    other[0] ^= 1;
    assert!(!verify(&signed, None, Some(&other), &[]).valid);
    let wrong = InclusionProof {
        index: proof.index ^ 1,
        ..proof.clone()
    };
    assert!(!verify(&signed, None, None, &[wrong]).valid);
    // A certificate without a successful proof is invalid.
    let mut unproven: Certificate = serde_json::from_str(&text).unwrap();
    unproven.proofs.byte_search.remnants = 1;
    let signed = unproven
        .sign(&keyring.signing_key("erasure").unwrap(), 0)
        .unwrap();
    assert!(!verify(&signed, None, None, &[]).valid);
    let file = fixture.folder().join("unproven.cose");
    std::fs::write(&file, &signed).unwrap();
    let (code, out, err) = ended(gristmill().args(["certificate", "show"]).arg(&file));
    assert!(out.contains(&certificate.id), "{out}");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("the certificate does not hold: "), "{err}");
    let page = fixture.folder().join("unproven.html");
    let mut command = gristmill();
    let command = command.args(["certificate", "show", "--html"]).arg(&page);
    let (code, _, err) = ended(command.arg(&file));
    assert_eq!((code, page.exists()), (2, true), "{err}");
    assert!(err.contains("the certificate does not hold: "), "{err}");
}

#[test]
fn remains_that_an_erasure_reports_are_no_damage_to_verify() {
    let sandbox = Sandbox::new();
    let lines = ["gone-4711-k9", "stays-4711-k9"].map(|user| {
        format!(
            r#"{{"grain":{{"type":"event","content":"hello","user_id":"{user}","created_at":1}}}}"#
        )
    });
    std::fs::write(sandbox.path("grains.jsonl"), lines.join("\n")).unwrap();
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    sandbox.run("lake", 0, &["ingest", "grains.jsonl"]);
    // As a process that was killed before its commit would leave it.
    let folder = sandbox.path("lake/grains");
    let is_data = |path: &std::path::PathBuf| path.extension() == Some("parquet".as_ref());
    let mut entries = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let data = entries.find(is_data).unwrap();
    std::fs::copy(data, folder.join("part-00000000000000000000000000.parquet")).unwrap();
    let erase = ["erase", "--user", "gone-4711-k9", "--execute"];
    sandbox.run("lake", 2, &erase);
    sandbox.run("lake", 0, &[&erase[..], &["--exclusive"]].concat());
    sandbox.run("lake", 0, &["verify"]);
    // The files that an erasure replaces itself are removed at once without the option, too.
    sandbox.run(
        "lake",
        0,
        &["erase", "--user", "stays-4711-k9", "--execute"],
    );
}

#[test]
fn commands_about_a_certificate_take_its_name_as_it_is() {
    let sandbox = Sandbox::new();
    let grain =
        r#"{"grain":{"type":"event","content":"hello","user_id":"gone-4711-k9","created_at":1}}"#;
    std::fs::write(sandbox.path("grains.jsonl"), grain).unwrap();
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    sandbox.run("lake", 0, &["ingest", "grains.jsonl"]);
    let file = "it's $(id).cose";
    let erase = [
        "erase",
        "--user",
        "gone-4711-k9",
        "--execute",
        "--exclusive",
    ];
    let options = ["--certificate", file, "--format", "table"];
    let erased = sandbox.output("lake", &[&erase[..], &options].concat());
    assert!(erased.status.success(), "{erased:?}");
    let word = r"'it'\''s $(id).cose'";
    let notes = String::from_utf8_lossy(&erased.stderr);
    let command = format!("`gristmill certificate show {word} --html PAGE`");
    assert!(notes.contains(&command), "{notes}");
    sandbox.run(
        "lake",
        0,
        &["certificate", "show", file, "--html", "page.html"],
    );
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    let word = word.replace('\'', "&#x27;");
    for command in [
        format!("sha256sum {word}\n"),
        format!("certificate verify {word} --signer"),
        format!("check_certificate.py {word} --signer"),
    ] {
        assert!(page.contains(&command), "{command}: {page}");
    }
}
