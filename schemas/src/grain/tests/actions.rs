//! Required fields of actions.

use super::*;

#[test]
fn required_fields_of_an_action_must_have_the_right_kind() {
    for payload in [
        r#"{"t":"action","ca":0,"tn":5,"inp":{},"cnt":"a","iserr":false}"#,
        r#"{"t":"action","ca":0,"tn":"a","inp":"x","cnt":"a","iserr":false}"#,
        r#"{"t":"action","ca":0,"tn":"a","inp":{},"cnt":"a","iserr":0}"#,
        r#"{"t":"action","ca":0,"aphase":"result","tcid":5,"cnt":"a","iserr":false,"df":["x"]}"#,
        r#"{"t":"action","ca":0,"aphase":"result","tcid":"a","cnt":"a","iserr":false,"df":7}"#,
        r#"{"t":"action","ca":0,"aphase":"definition","tn":"a","tdesc":"b","isch":"{}"}"#,
        r#"{"t":"action","ca":0,"emode":"code_exec","code":5,"iserr":false}"#,
    ] {
        assert_eq!(verdict(5, payload), SCHEMA, "{payload}");
    }
    // A description is only valid in definitions; a single parent may be a plain text.
    let call = r#"{"t":"action","ca":0,"aphase":"call","tn":"a","inp":{},"tdesc":5}"#;
    assert_eq!(verdict(5, call), Ok(vec!["field_kind", "phase_fields"]));
    let result =
        r#"{"t":"action","ca":0,"aphase":"result","tcid":"a","cnt":"","iserr":false,"df":"x"}"#;
    assert_eq!(verdict(5, result), Ok(vec!["field_kind"]));
}

#[test]
fn required_texts_of_an_action_must_not_be_empty() {
    let definition = r#"{"type":"action","created_at":0,"action_phase":"definition","tool_name":"a","tool_description":"","input_schema":{}}"#;
    assert_eq!(code_of_write(definition), Some(ErrorCode::Empty));
    let run = r#"{"type":"action","created_at":0,"execution_mode":"code_exec","code":"","is_error":false}"#;
    assert_eq!(code_of_write(run), Some(ErrorCode::Empty));
    let silent = r#"{"type":"action","created_at":0,"tool_name":"a","input":{},"content":"","is_error":false}"#;
    assert_eq!(
        code_of_write(silent),
        None,
        "a tool may have nothing to say"
    );
}

#[test]
fn an_ordinary_call_may_run_code() {
    let run = |more: &str| {
        format!(
            r#"{{"type":"action","created_at":0,"execution_mode":"code_exec","is_error":false,{more}}}"#
        )
    };
    assert_eq!(
        code_of_write(&run(
            r#""tool_name":"python","input":{"code":"1"},"content":"1""#
        )),
        None
    );
    assert_eq!(code_of_write(&run(r#""code":"1","stdout":"1""#)), None);
    assert_eq!(
        write(&run(r#""stdout":"1""#)).unwrap_err().field.as_deref(),
        Some("code")
    );
    assert_eq!(
        write(&run(r#""tool_name":"python","content":"1""#))
            .unwrap_err()
            .field
            .as_deref(),
        Some("input")
    );
}
