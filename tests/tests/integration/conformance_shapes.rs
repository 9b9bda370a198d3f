//! Forms of cases that the published files lack, and that files from elsewhere may have.

use std::fs;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gristmill_schemas::container::FOOTER_LENGTH;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::grains::{belief, plain};
use gristmill_tests::paths::workspace;
use sha2::{Digest, Sha256};

/// Writes `json` as a case file into `folder` and returns the report of its run.
fn report_in(folder: &Path, json: &str) -> String {
    let file = folder.join("cases.json");
    fs::write(&file, json).unwrap();
    let mut report = Report::default();
    run_file(&file, &mut report).unwrap();
    report.render()
}

/// Returns the report of a file with these cases, or vectors.
fn report(list: &str, cases: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let json = format!(r#"{{"{list}":[{}]}}"#, cases.join(","));
    report_in(folder.path(), &json)
}

#[test]
#[cfg(unix)]
fn a_file_name_that_is_not_unicode_is_read_like_any_other() {
    let name = std::ffi::OsStr::from_bytes(b"missing-\xff.json");
    let mut runner = std::process::Command::new(env!("CARGO_BIN_EXE_conformance"));
    let output = runner.arg(name).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_byte_order_mark_before_the_cases_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let case = r#"{"id":"a","op":"wire_model","input":{"model":"a:b"},"expect":{"wire":"b"}}"#;
    let json = format!("\u{feff}{{\"cases\":[{case}]}}");
    assert_eq!(report_in(folder.path(), &json), "1 passed, 0 failed\n");
}

#[test]
fn a_missing_field_is_named_in_the_object_that_lacks_it() {
    let case = |id: &str, msg: &str| {
        format!(
            r#"{{"id":"{id}","op":"decode_blocks_strict","input":{{"blocks":[{{"type":"image","media_type":"i","source":{{"kind":"url"}}}}]}},
               "expect":{{"ok":false,"msg":"{msg}"}}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case(
                "object",
                "Object missing required field `data` - at `$[0].source`",
            ),
            &case("alone", "Object missing required field `data`"),
            &case(
                "elsewhere",
                "Object missing required field `data` - at `$[0]`",
            ),
            &case("another", "Object missing required field `kind`"),
        ],
    );
    assert!(text.ends_with("2 passed, 2 failed\n"), "{text}");
    assert!(text.contains("FAILED elsewhere") && text.contains("FAILED another"));
}

#[test]
fn costs_without_a_table_are_those_of_the_specification() {
    let case = |id: &str, model: &str, expect: &str| {
        format!(
            r#"{{"id":"{id}","op":"cost","input":{{"model":"{model}","usage":{{"input_tokens":1000000}}}},"expect":{expect}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case("listed", "openai:gpt-5", r#"{"cost_usd":"2.5"}"#),
            &case(
                "catalogued",
                "openai:gpt-4o",
                r#"{"error":"unknown_model"}"#,
            ),
        ],
    );
    assert_eq!(text, "2 passed, 0 failed\n");
}

#[test]
fn a_grain_without_kind_is_a_delivery_or_frames() {
    let json = Json::parse(br#"{"type":"reasoning","created_at":0}"#).unwrap();
    let options = EncodeOptions {
        signed: true,
        ..EncodeOptions::default()
    };
    let signed = hex::encode(encode_json(&json, options).unwrap().blob);
    let plain = hex::encode(belief(1));
    let case = |id: &str, rest: &str| format!(r#"{{"id":"{id}",{rest}}}"#);
    let refused = r#""expect":"ERR_SIGNED_MISMATCH""#;
    let text = report(
        "vectors",
        &[
            &case("signed", &format!(r#""hex":"{signed}",{refused}"#)),
            &case(
                "signed-blob",
                &format!(r#""kind":"blob","hex":"{signed}",{refused}"#),
            ),
            &case("plain", &format!(r#""hex":"{plain}","expect":"OK""#)),
            &case("stream", r#""hex":"00000000","expect":"OK""#),
            &case("no-end", r#""hex":"00000001","expect":"ERR_CORRUPT""#),
        ],
    );
    assert_eq!(text, "5 passed, 0 failed\n");
}

#[test]
fn parts_with_too_many_bytes_fail_their_case_only() {
    let case = |id: &str, times: u64| {
        format!(
            r#"{{"id":"{id}","kind":"blob","hex_parts":[{{"hex":"00","times":{times}}}],"expect":"ERR_TOO_SHORT"}}"#
        )
    };
    let text = report("vectors", &[&case("endless", u64::MAX), &case("short", 9)]);
    assert!(text.contains("FAILED endless"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed\n"), "{text}");
}

#[test]
fn input_may_be_nested_deeper_than_what_is_accepted() {
    let deep = "[".repeat(150) + &"]".repeat(150);
    let case = format!(
        r#"{{"id":"deep","kind":"encode","input":{{"type":"reasoning","created_at":0,"x":{deep}}},"expect":"ERR_CORRUPT"}}"#
    );
    assert_eq!(report("vectors", &[&case]), "1 passed, 0 failed\n");
}

#[test]
fn a_published_grain_keeps_its_custom_keys() {
    let custom = r#"{"type":"action","tool_name":"t","input":{},"content":"c","is_error":false,"created_at":1,"xcode":3}"#;
    let json = Json::parse(custom.as_bytes()).unwrap();
    let grain = encode_json(&json, EncodeOptions::default()).unwrap();
    let case = format!(
        r#"{{"id":"own","kind":"decode","hex":"{}","content_address":"{}","decoded":{custom}}}"#,
        hex::encode(&grain.blob),
        grain.address
    );
    assert_eq!(report("vectors", &[&case]), "1 passed, 0 failed\n");
}

#[test]
fn a_container_in_another_than_the_canonical_form_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = plain(&[belief(1)]);
    // The offset of the only grain, counted from the start of the region.
    bytes[16..20].fill(0);
    let body = bytes.len() - FOOTER_LENGTH;
    let footer = Sha256::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&footer);
    fs::write(folder.path().join("relative.mg"), &bytes).unwrap();
    let text = report_in(
        folder.path(),
        r#"{"layout":"","files":[{"file":"relative.mg","expect":"ERR_CORRUPT"}]}"#,
    );
    assert_eq!(text, "1 passed, 0 failed\n");
}

#[test]
fn times_before_1970_and_keys_of_both_curves_are_compared() {
    let text = report(
        "vectors",
        &[
            r#"{"id":"before","kind":"datetime","input":"1969-12-31T23:59:59Z","epoch_ms":-1000}"#,
            r#"{"id":"beyond","kind":"datetime","input":"2200-01-01T00:00:00Z","epoch_ms":7258118400000}"#,
            r#"{"id":"p256","kind":"did_key","did":"did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169",
                "p256_public_key_hex":"037f235830dd3defa722ef1aa249d6a0ddbba4f990b0817538933f573640653542"}"#,
        ],
    );
    assert_eq!(text, "3 passed, 0 failed\n");
}

#[test]
fn statements_with_an_outcome_as_text_are_parsed() {
    let text = report(
        "cases",
        &[
            r#"{"id":"text","query":"RECALL beliefs","expect":"ok"}"#,
            r#"{"id":"peer","query":"RECALL facts","v1_0_query":"RECALL beliefs","v1_0_verdict":"ok"}"#,
            r#"{"id":"code","statement":"RECALL facts","verdict":"CAL-E003"}"#,
        ],
    );
    assert_eq!(text, "3 passed, 0 failed\n");
}

#[test]
fn labels_of_a_batch_and_types_of_events_are_compared_with_data_from_a_folder_beside() {
    let folder = tempfile::tempdir().unwrap();
    let (cases, data) = (folder.path().join("cases"), folder.path().join("data"));
    fs::create_dir_all(&cases).unwrap();
    fs::create_dir_all(&data).unwrap();
    let grains = workspace().join("tests/cases/cal/cal-data.json");
    fs::copy(grains, data.join("grains.json")).unwrap();
    let no_grain = "0".repeat(64);
    let batch = |id: &str, goals: &str, code: &str| {
        format!(
            r#"{{"id":"{id}","query":"BATCH {{ a: RECALL goals WHERE subject = \"bob\", b: HISTORY sha256:{no_grain} }}",
                "expect":{{"entries":{{"a":{{"grains":{goals},"total":1}},"b":{{"error":"{code}"}}}}}}}}"#
        )
    };
    let stream = |id: &str, last: &str| {
        format!(
            r#"{{"id":"{id}","query":"ASSEMBLE c FROM s: (RECALL goals) BUDGET 10 grains STREAM {{ progress }}",
                "expect":{{"events":["assembly_started",{{"type":"source_started","source":"s"}},"source_completed","{last}"]}}}}"#
        )
    };
    let list = [
        batch("batch", r#"["g_3"]"#, "CAL-E046"),
        batch("other-grain", r#"["nobody"]"#, "CAL-E046"),
        batch("other-error", r#"["g_3"]"#, "CAL-E045"),
        stream("stream", "assembly_completed"),
        stream("other-event", "chunk"),
    ];
    let json = format!(
        r#"{{"conventions":{{"data":"grains.json","expect.grains":""}},"cases":[{}]}}"#,
        list.join(",")
    );
    let text = report_in(&cases, &json);
    assert!(text.ends_with("2 passed, 3 failed\n"), "{text}");
    for other in ["other-grain", "other-error", "other-event"] {
        assert!(text.contains(&format!("FAILED {other}:")), "{text}");
    }
}

#[test]
fn a_cache_larger_than_its_prompt_differs_by_a_named_row() {
    let case = |id: &str, input: u64| {
        format!(
            r#"{{"id":"{id}","op":"usage_openai","input":{{"usage":{{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{{"cached_tokens":11}}}}}},
                "expect":{{"usage":{{"input_tokens":{input},"output_tokens":1,"cached_input_tokens":11,"cache_creation_input_tokens":0}},"warnings":["x"]}}}}"#
        )
    };
    let text = report(
        "cases",
        &[&case("clamped", 0), &case("added", 10), &case("wrong", 9)],
    );
    assert!(text.contains("passed with a deliberate difference clamped: added cache"));
    assert!(text.contains("FAILED wrong"), "{text}");
    assert!(text.ends_with("2 passed, 1 failed\n"), "{text}");
}

#[test]
fn a_recommendation_in_prose_is_no_answer() {
    let case = |id: &str, rest: &str| {
        format!(
            r#"{{"id":"{id}","op":"wire_model","input":{{"model":"a:b"}},"recommended":"as above",{rest}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case("expected", r#""expect":{"wire":"b"}"#),
            &case("quirk", r#""expect":{"wire":"c"},"quirk":true"#),
        ],
    );
    assert!(text.starts_with("out of scope quirk:"), "{text}");
    assert!(text.ends_with("1 passed, 0 failed\n"), "{text}");
}

#[test]
fn a_signature_that_is_null_is_none() {
    let text = report(
        "cases",
        &[
            r#"{"id":"stream","op":"anthropic_stream","input":{"request":{"model":"anthropic:m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]},"events":[
                {"type":"message_start","message":{"usage":{"input_tokens":10}}},
                {"type":"content_block_start","content_block":{"type":"thinking","thinking":""}},
                {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"t"}},
                {"type":"content_block_delta","delta":{"type":"signature_delta","signature":"S"}},
                {"type":"content_block_stop"},
                {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}},
                {"type":"message_stop"}]},
              "expect":{"events":[
                {"event":"message.start","model":"anthropic:m"},
                {"event":"thinking.delta","content_block_index":0,"text":"t","signature":null},
                {"event":"thinking.delta","content_block_index":0,"text":"","signature":"S"},
                {"event":"message.complete","stop_reason":"end_turn",
                 "final_content":[{"type":"thinking","text":"t","signature":"S"}],
                 "usage":{"input_tokens":10,"output_tokens":5,"cached_input_tokens":0,"cache_creation_input_tokens":0}}]}}"#,
        ],
    );
    assert_eq!(text, "1 passed, 0 failed\n");
}

#[test]
fn members_of_extension_cases_have_defaults() {
    let text = report(
        "cases",
        &[
            r#"{"id":"validate","op":"validate","input":{"before":null,"after":null},"expect":{"ok":true}}"#,
            r#"{"id":"filter","op":"filter","input":{"extensions":null},"expect":{"extensions":null}}"#,
            r#"{"id":"merge","op":"merge","input":{"original":null,"output":null},"expect":{"ok":true}}"#,
            r#"{"id":"glob","op":"glob","input":{"pattern":"*"},"expect":{"match":false}}"#,
        ],
    );
    assert_eq!(text, "4 passed, 0 failed\n");
}

#[test]
fn a_case_that_expects_nothing_of_what_is_compared_fails() {
    let cases = [
        r#"{"id":"match","op":"glob","input":{"pattern":"*"},"expect":{"matches":true}}"#,
        r#"{"id":"nothing","op":"glob","input":{"pattern":"*"}}"#,
        r#"{"id":"wire","op":"wire_model","input":{"model":"a:b"},"expect":{}}"#,
        r#"{"id":"price","op":"cost","input":{"model":"openai:gpt-5","usage":{}},"expect":{"usd":"1"}}"#,
        r#"{"id":"call","op":"openai_call","input":{"request":{"model":"openai:m","messages":[]}},"expect":{"body":{}}}"#,
    ];
    for case in cases {
        let text = report("cases", &[case]);
        assert!(text.starts_with("FAILED "), "{text}");
        assert!(text.ends_with("0 passed, 1 failed\n"), "{text}");
    }
}

#[test]
fn no_sources_have_no_labels() {
    let case = |id: &str, input: &str| {
        format!(r#"{{"id":"{id}","op":"labels","input":{input},"expect":{{"labels":[]}}}}"#)
    };
    let text = report(
        "cases",
        &[
            &case("none", r#"{"sources":[]}"#),
            &case("unknown", r#"{"origins":[]}"#),
        ],
    );
    assert!(text.contains("FAILED unknown"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed\n"), "{text}");
}

#[test]
fn a_stream_without_an_end_differs_by_a_named_row() {
    let case = |id: &str, reason: &str| {
        format!(
            r#"{{"id":"{id}","op":"openai_stream","input":{{"request":{{"model":"openai:m","messages":[]}},"events":[
                {{"choices":[{{"delta":{{"content":"On it."}},"finish_reason":null}}]}},
                {{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"call_a","type":"function","function":{{"name":"tide","arguments":"{{\"at\":"}}}}]}},"finish_reason":null}}]}}]}},
              "expect":{{"events":[
                {{"event":"message.start","model":"openai:m"}},
                {{"event":"text.delta","content_block_index":0,"text":"On it."}},
                {{"event":"tool.use_start","content_block_index":1,"tool_use_id":"tu_$ULID1","tool_name":"tide"}},
                {{"event":"tool.use_input_delta","content_block_index":1,"tool_use_id":"tu_$ULID1","partial_json":"{{\"at\":"}},
                {{"event":"message.complete","stop_reason":"{reason}",
                  "final_content":[{{"type":"text","text":"On it."}},{{"type":"tool_use","id":"tu_$ULID1","name":"tide","input":{{}}}}],
                  "usage":{{"input_tokens":0,"output_tokens":0,"cached_input_tokens":0,"cache_creation_input_tokens":0}}}}]}}}}"#
        )
    };
    let text = report(
        "cases",
        &[&case("cut", "end_turn"), &case("other", "max_tokens")],
    );
    assert!(
        text.contains("passed with a deliberate difference cut: row 14"),
        "{text}"
    );
    assert!(text.contains("FAILED other"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed\n"), "{text}");
}

#[test]
fn blocks_that_only_the_reference_sends_differ_by_a_named_row() {
    let call = |id: &str, op: &str, limit: &str, asked: &str, sent: &str| {
        format!(
            r#"{{"id":"{id}","op":"{op}","input":{{"request":{{"model":"p:m","messages":[{asked}]}}}},
                "expect":{{"request_body":{{"model":"m","{limit}":128,"messages":[{sent}]}},"warnings":[]}}}}"#
        )
    };
    let thought = |text: &str| {
        call(
            text,
            "anthropic_call",
            "max_tokens",
            r#"{"role":"assistant","content":[{"type":"thinking","text":"hm"},{"type":"text","text":"unsigned"}]},
               {"role":"user","content":[{"type":"text","text":"go on"}]}"#,
            &format!(
                r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm"}},{{"type":"text","text":"{text}"}}]}},
                   {{"role":"user","content":[{{"type":"text","text":"go on","cache_control":{{"type":"ephemeral"}}}}]}}"#
            ),
        )
    };
    let image = r#"{"type":"image","source":{"kind":"file_ref","data":"pier.png"},"media_type":"image/png"}"#;
    let url = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,pier.png"}}"#;
    let message = |part: &str| format!(r#"{{"role":"user","content":[{part}]}}"#);
    let text_part = r#"{"type":"text","text":"look"}"#;
    let both = |part: &str| message(&format!("{text_part},{part}"));
    let path = |id: &str, asked: &str, sent: &str| {
        call(id, "openai_call", "max_completion_tokens", asked, sent)
    };
    let text = report(
        "cases",
        &[
            &thought("unsigned"),
            &thought("other"),
            &path("path", &both(image), &both(url)),
            &path("only-path", &message(image), &message(url)),
        ],
    );
    for (id, row) in [("unsigned", 17), ("path", 15), ("only-path", 15)] {
        let line = format!("passed with a deliberate difference {id}: row {row} ");
        assert!(text.contains(&line), "{text}");
    }
    assert!(text.contains("FAILED other"), "{text}");
    assert!(text.ends_with("3 passed, 1 failed\n"), "{text}");
}

#[test]
fn errors_of_a_schema_are_compared_by_whole_names() {
    let case = |id: &str, names: [&str; 2], place: &str| {
        let [one, other] = names.map(|name| format!(r#""{name}":{{"oneOf":[]}}"#));
        format!(
            r#"{{"id":"{id}","op":"tool_schema","input":{{"schema":{{"properties":{{{one},{other}}}}}}},
               "expect":{{"ok":false,"errors":["$.properties.x: oneOf","$.properties.{place}: oneOf"]}}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case("same", ["x", "xé"], "xé"),
            &case("keyword", ["x", "y"], "y.oneOf"),
            &case("longer", ["x", "y"], "yz"),
        ],
    );
    assert!(text.contains("FAILED longer"), "{text}");
    assert!(text.ends_with("2 passed, 1 failed\n"), "{text}");
}

#[test]
fn mutability_tiers_may_lack_the_guarded_one() {
    let case = |name: &str, values: &str| {
        format!(
            r#"{{"id":"{name}","op":"enum","input":{{"enum":"{name}"}},"expect":{{"values":{values},"count":3}}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case("MutabilityTier", r#"["immutable","monotonic","mutable"]"#),
            &case("SubjectType", r#"["user","agent","service"]"#),
        ],
    );
    assert!(text.contains("FAILED SubjectType"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed\n"), "{text}");
}

#[test]
fn violations_that_depend_on_the_status_or_the_parent_differ_by_a_named_row() {
    let case = |id: &str, message: &str, errors: &str| {
        format!(
            r#"{{"id":"{id}","op":"validate","input":{{"message":{message}}},"expect":{{"errors":{errors}}}}}"#
        )
    };
    let failed = r#"{"role":"assistant","content":[],"metadata":{"status":"error"}}"#;
    let result = r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"tu_a","content":[]}],
        "metadata":{"parent_tool_use_id":"tu_b"}}"#;
    let text = report(
        "cases",
        &[
            &case(
                "status",
                failed,
                r#"["assistant: content must be non-empty"]"#,
            ),
            &case("other", failed, r#"["assistant.content[0]: not allowed"]"#),
            &case("parent", result, "[]"),
        ],
    );
    for (id, row) in [("status", 5), ("parent", 7)] {
        let line = format!("passed with a deliberate difference {id}: row {row} ");
        assert!(text.contains(&line), "{text}");
    }
    assert!(text.contains("FAILED other"), "{text}");
    assert!(text.ends_with("2 passed, 1 failed\n"), "{text}");
}
