//! `grain encode`, `decode` and `check`: each line of input has one of output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use gristmill_schemas::grain::EncodeOptions;
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, sign};
use gristmill_tests::binary::path;
use gristmill_tests::grains::{belief, grain_with};

use super::{folder, member, run};

/// The JSON objects on the lines of `text`.
fn lines(text: &str) -> Vec<Json<'_>> {
    text.lines()
        .map(|line| Json::parse(line.as_bytes()).unwrap())
        .collect()
}

#[test]
fn output_line_n_belongs_to_input_line_n() {
    let here = folder();
    let good = |number: u32| {
        format!(r#"{{"grain":{{"type":"event","content":"line {number}","created_at":{number}}}}}"#)
    };
    let questions = [
        good(0),
        "not json".into(),
        String::new(),
        good(3),
        r#"{"grain":{"type":"event"}}"#.into(),
        good(5),
    ];
    let answer = run(
        here.path(),
        &["grain", "encode"],
        questions.join("\n") + "\n\n\n",
    );
    assert_eq!(answer.code, 2);
    let answers = lines(&answer.out);
    assert_eq!(answers.len(), questions.len());
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| answer.get("error").and_then(Json::as_str))
        .collect();
    assert_eq!(
        errors,
        [
            None,
            Some("ERR_CORRUPT"),
            Some("ERR_CORRUPT"),
            None,
            Some("ERR_SCHEMA"),
            None
        ]
    );
    // Decoding gives the input of the same line.
    let blobs: Vec<_> = answers
        .iter()
        .filter(|answer| answer.get("error").is_none())
        .collect();
    let questions: String = blobs
        .iter()
        .map(|blob| format!("{{\"blob_hex\":\"{}\"}}\n", member(blob, "blob_hex")))
        .collect();
    let decoded = run(here.path(), &["grain", "decode"], questions);
    assert_eq!(decoded.code, 0, "{}", decoded.out);
    for ((decoded, blob), number) in lines(&decoded.out).iter().zip(blobs).zip([0, 3, 5]) {
        assert_eq!(
            member(decoded.get("grain").unwrap(), "content"),
            format!("line {number}")
        );
        assert_eq!(
            member(decoded, "content_address"),
            member(blob, "content_address")
        );
    }
}

#[test]
fn a_byte_order_mark_before_the_first_line_is_skipped() {
    let here = folder();
    let line = r#"{"grain":{"type":"event","content":"x","created_at":1}}"#;
    let text = format!("\u{feff}{line}\n{line}\n");
    let answer = run(here.path(), &["grain", "encode"], text);
    assert_eq!(answer.code, 0, "{}", answer.out);
    let answers: Vec<_> = answer.out.lines().collect();
    assert_eq!((answers.len(), answers[0]), (2, answers[1]));
}

#[test]
fn check_reports_a_blob_with_another_address() {
    let here = folder();
    let blob = belief(1);
    let address = gristmill_schemas::address::ContentAddress::of(&blob).to_string();
    let digits = hex::encode(&blob);
    let questions = [
        format!(r#"{{"blob_hex":"{digits}"}}"#),
        format!(r#"{{"blob_hex":"{digits}","content_address":"{address}"}}"#),
        format!(
            r#"{{"blob_hex":"{digits}","content_address":"{}"}}"#,
            "0".repeat(64)
        ),
        format!(
            r#"{{"blob_hex":"{digits}","content_address":"{}"}}"#,
            address.to_uppercase()
        ),
        format!(
            r#"{{"blob_hex":"{digits}","content_address":"{}"}}"#,
            &address[..60]
        ),
        format!(r#"{{"blob_hex":"{}"}}"#, &digits[..30]),
        r#"{"blob_hex":"zz"}"#.to_owned(),
        "{}".to_owned(),
    ];
    let answer = run(here.path(), &["grain", "check"], questions.join("\n"));
    let answers = lines(&answer.out);
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| answer.get("error").and_then(Json::as_str))
        .collect();
    let expected = [
        None,
        None,
        Some("ERR_INTEGRITY"),
        Some("ERR_HASH_FORMAT"),
        Some("ERR_HASH_LENGTH"),
        Some("ERR_CORRUPT"),
        Some("ERR_CORRUPT"),
        Some("ERR_SCHEMA"),
    ];
    assert_eq!((answer.code, errors), (2, expected.to_vec()));
}

#[test]
fn check_reports_signatures_and_refuses_wrong_ones() {
    let here = folder();
    let text = r#"{"type":"event","content":"hello","created_at":1}"#;
    let blob = grain_with(
        text,
        EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        },
    )
    .blob;
    let key = SigningKey::from_seed(&[7; 32]);
    let by = |signer| hex::encode(sign(&blob, &key, signer, 0).unwrap());
    let questions = [
        by(None),
        by(Some("did:web:example.com")),
        by(Some("did:key:zNot")),
        hex::encode(belief(1)),
    ];
    let questions = questions.map(|digits| format!(r#"{{"blob_hex":"{digits}"}}"#));
    let answer = run(here.path(), &["grain", "check"], questions.join("\n"));
    let answers = lines(&answer.out);
    let found: Vec<_> = answers
        .iter()
        .map(|answer| answer.get("signature").or(answer.get("error")))
        .collect();
    let found: Vec<_> = found
        .into_iter()
        .map(|found| found.and_then(Json::as_str))
        .collect();
    let expected = [
        Some("valid"),
        Some("unverifiable"),
        Some("ERR_INTEGRITY"),
        None,
    ];
    assert_eq!((answer.code, found), (2, expected.to_vec()));
}

#[test]
fn not_a_number_has_its_own_error_code() {
    let here = folder();
    let questions = ["NaN", "-Infinity", "1e999", "nope"].map(|number| {
        format!(
            r#"{{"grain":{{"type":"event","content":"x","created_at":1,"importance":{number}}}}}"#
        )
    });
    let answer = run(here.path(), &["grain", "encode"], questions.join("\n"));
    let answers = lines(&answer.out);
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| member(answer, "error"))
        .collect();
    assert_eq!(
        errors,
        [
            "ERR_FLOAT_INVALID",
            "ERR_FLOAT_INVALID",
            "ERR_FLOAT_INVALID",
            "ERR_CORRUPT"
        ]
    );
}

#[test]
fn each_line_is_answered_before_the_next_is_read() {
    let mut child = Command::new(path())
        .args(["grain", "encode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        writeln!(
            questions,
            r#"{{"grain":{{"type":"event","content":"hi","created_at":{number}}}}}"#
        )
        .unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("content_address"), "{answer}");
    }
    drop(questions);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_repeated_key_of_a_grain_is_refused() {
    let here = folder();
    let line = r#"{"grain":{"type":"belief","subject":"a","subject":"b","created_at":1}}"#;
    let answer = run(here.path(), &["grain", "encode"], line);
    assert_eq!(answer.code, 2, "{}", answer.err);
    let answers = lines(&answer.out);
    assert_eq!(member(&answers[0], "error"), "ERR_CORRUPT");
    let message = member(&answers[0], "message");
    assert!(message.contains("`subject` is repeated"), "{message}");
}
