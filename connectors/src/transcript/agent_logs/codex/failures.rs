//! Failures of commands and turns, as sessions of Codex state them.

use gristmill_schemas::json::{Json, Object};

/// The type of the item that reports a failed turn of an execution.
pub(super) const FAILED_TURN: &str = "turn.failed";

/// The type of the event that reports why a turn ended, and of that of an execution which may
/// precede the report of the failed turn.
pub(super) const ERROR: &str = "error";

/// Returns true for the result of a command without a status whose output states another exit code
/// than 0.
pub(super) fn states_failure(item: &Object) -> bool {
    let is_result = item
        .get("type")
        .and_then(Json::as_str)
        .is_some_and(|kind| kind.ends_with("_output"));
    let output = item.get("output").and_then(Json::as_str);
    let output = output.filter(|_| is_result && !item.contains_key("status"));
    let exit_code = output.and_then(|output| {
        exit_code_of_json(output)
            .or_else(|| exit_code_of_heading(output))
            .or_else(|| exit_code_of_process(output))
    });
    exit_code.is_some_and(|code| code != 0)
}

/// Returns the code of `{"output": "…", "metadata": {"exit_code": 2}}`.
fn exit_code_of_json(output: &str) -> Option<i64> {
    let stated = Json::parse_lossy(output.as_bytes()).ok()?;
    stated.get("metadata")?.get("exit_code")?.as_i64()
}

/// Returns the code of an output that begins with `Exit code: 2` and a line `Wall time: …`.
fn exit_code_of_heading(output: &str) -> Option<i64> {
    let mut lines = output.lines();
    let code = lines.next()?.strip_prefix("Exit code: ")?;
    lines.next()?.strip_prefix("Wall time: ")?;
    code.trim().parse().ok()
}

/// Returns the code of an output that begins with `Chunk ID: …`, `Wall time: …` and `Process exited
/// with code 2`.
fn exit_code_of_process(output: &str) -> Option<i64> {
    let mut lines = output.lines();
    let mut first = lines.next()?;
    if first.starts_with("Chunk ID: ") {
        first = lines.next()?;
    }
    first.strip_prefix("Wall time: ")?;
    let code = lines.next()?.strip_prefix("Process exited with code ")?;
    code.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::MessageStatus;

    use super::super::parse_session;
    use crate::transcript::kind::TranscriptKind;
    use crate::transcript::options::ReadOptions;
    use crate::transcript::parsed::ParsedPart;

    #[test]
    fn an_error_is_a_message_that_nothing_follows() {
        let spoken = |role: &str, text: &str| {
            format!(
                r#"{{"type":"response_item","payload":{{"type":"message","role":"{role}","content":"{text}"}}}}"#
            )
        };
        let error =
            r#"{"type":"event_msg","payload":{"type":"error","message":"unexpected status 401"}}"#;
        let count = r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"output_tokens":3}}}}"#;
        let with = |error: &str| {
            let lines = [
                spoken("user", "q"),
                spoken("assistant", "a"),
                error.to_owned(),
                count.to_owned(),
                spoken("assistant", "b"),
            ];
            parse_session(lines.join("\n").as_bytes(), ReadOptions::default()).messages
        };
        let messages = with(error);
        assert_eq!(messages.len(), 4);
        let failed = &messages[2];
        assert_eq!(failed.message.metadata.status, MessageStatus::Error);
        assert_eq!(
            (failed.parent, failed.usage),
            (Some(messages[1].position), None)
        );
        assert_eq!(messages[1].usage.map(|usage| usage.output_tokens), Some(3));
        assert_eq!(messages[3].parent, Some(messages[1].position));
    }

    #[test]
    fn an_execution_that_fails_before_an_answer_is_detected_and_has_an_error_message() {
        let started = r#"{"type":"thread.started","thread_id":"t"}
        {"type":"turn.started"}
        {"type":"error","message":"Reconnecting... 1/5"}
        {"type":"error","message":"unexpected status 401"}"#;
        let failed = r#"{"type":"turn.failed","error":{"message":"unexpected status 401"}}"#;
        for text in [started.to_owned(), format!("{started}\n{failed}")] {
            let kind = TranscriptKind::detect(text.as_bytes(), "");
            assert_eq!(kind, Some(TranscriptKind::Codex), "{text}");
            let ParsedPart { messages, .. } =
                parse_session(text.as_bytes(), ReadOptions::default());
            assert_eq!(messages.len(), 1, "{text}");
            let message = &messages[0].message;
            assert_eq!(message.metadata.status, MessageStatus::Error);
            let block = format!("{:?}", message.content);
            assert!(block.contains("unexpected status 401"), "{block}");
        }
    }
}
