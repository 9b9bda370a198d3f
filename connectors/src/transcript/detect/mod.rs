//! Detection of the kind of a transcript from its bytes.
//!
//! | module | question |
//! |---|---|
//! | `shapes` | which kind does one JSON object indicate? |
//! | `hints` | what is wrong with a JSON file of no known kind? |
//! | `prefixes` | what is a file that isn't JSON? |
//! | [`foreign_formats`] | which formats are recognised but not supported? |

pub mod foreign_formats;
mod hints;
mod prefixes;
mod shapes;

use gristmill_schemas::json::Json;

use self::hints::{UNKNOWN_JSON, hint_from_json, json_defect};
use self::prefixes::hint_from_prefix;
use self::shapes::{Detection, classify, is_conversational, is_error_event};
use super::changes::BUNDLE_PREFIX;
use super::entries::{document_lines, parse_document};
use super::kind::TranscriptKind;
use super::line::lines;
use super::memory::letta;
use super::sqlite;
use crate::source::decompress::content_name;

/// Number of lines, or items of a top-level array, that are examined.
const SAMPLE_LINES: usize = 32;

/// Number of lines that must follow a first one that isn't JSON.
const LINES_AFTER_CUT_ONE: usize = 2;

/// Bytes of lines that are examined. The first line is examined whatever its length.
const SAMPLE_BYTES: usize = 1 << 20;

/// What is wrong with a line in a log of another kind.
pub(super) const LINE_OF_OTHERS: &str = "a line of another kind of transcript";

/// Returns true if `line`, in a log of the kind `log`, is one of another kind of transcript.
pub(super) fn is_line_of_others(line: &Json, log: TranscriptKind) -> bool {
    matches!(classify(line), Detection::Kind(kind) if kind != log)
}

impl TranscriptKind {
    /// Detects the kind of `bytes`: by the first lines that are JSON, else by the whole file.
    /// Returns `None` if they are no supported transcript.
    ///
    /// `uri` is used only for its extension.
    pub fn detect(bytes: &[u8], uri: &str) -> Option<Self> {
        match detect(bytes, uri) {
            Detection::Kind(kind) => Some(kind),
            Detection::Foreign(_) | Detection::Unknown => None,
        }
    }

    /// Returns true if the bytes are of a format that is recognised but not supported.
    pub fn is_foreign(bytes: &[u8], uri: &str) -> bool {
        matches!(detect(bytes, uri), Detection::Foreign(_))
    }

    /// Explains to the user why [`TranscriptKind::detect`] returns `None` for `bytes`.
    pub fn why_not(bytes: &[u8], uri: &str) -> String {
        if bytes.trim_ascii().is_empty() {
            return match bytes.is_empty() {
                true => "it is empty",
                false => "it has nothing but blanks",
            }
            .to_owned();
        }
        if let Detection::Foreign(format) = detect(bytes, uri) {
            return format!("looks like {}; not supported yet", format.name);
        }
        let hint = hint_from_prefix(bytes).or_else(|| hint_from_json(bytes));
        let defect = match hint {
            None | Some(UNKNOWN_JSON) => json_defect(bytes, hint.is_some()),
            Some(_) => None,
        };
        let other = "neither a container, frames, a grain nor a transcript of a known kind";
        defect.unwrap_or_else(|| hint.unwrap_or(other).to_owned())
    }

    /// Returns true for kinds whose lines have few distinguishing members. Logs of other agents
    /// contain single lines of the same shape, so most of the sample must be of such a kind.
    const fn needs_majority(self) -> bool {
        use TranscriptKind::{Bodies, ClaudeCode, Codex, Messages, Zep};
        matches!(self, Bodies | ClaudeCode | Codex | Messages | Zep)
    }
}

fn detect(bytes: &[u8], uri: &str) -> Detection {
    // A bundle has grains, but ingesting just these would lose what was closed and erased.
    if bytes.starts_with(BUNDLE_PREFIX) {
        return Detection::Unknown;
    }
    if bytes.starts_with(sqlite::MAGIC) {
        return Detection::Kind(TranscriptKind::Sqlite);
    }
    match bytes.trim_ascii_start().first() {
        Some(b'"') if letta::unwrap_string(bytes).is_some() => {
            Detection::Kind(TranscriptKind::Letta)
        }
        None | Some(b'"') => Detection::Unknown,
        Some(b'{' | b'[' | 0xef) => match detect_by_lines(bytes) {
            Detection::Unknown => detect_document(bytes),
            found => found,
        },
        Some(_) if is_yaml_cassette(bytes, uri) => Detection::Kind(TranscriptKind::Cassette),
        Some(_) => detect_after_cut_line(bytes),
    }
}

/// Detects the kind of lines of which the first isn't JSON: it was cut when a log was rotated, or
/// is a heading. Any other text has more such lines.
fn detect_after_cut_line(bytes: &[u8]) -> Detection {
    let mut evidence = Evidence::default();
    let (mut objects, mut examined, mut decided) = (0, 0, None);
    for line in lines(bytes).skip(1).take(SAMPLE_LINES) {
        let Ok(json) = line.json(bytes) else {
            return Detection::Unknown;
        };
        if json.as_object().is_none() {
            return Detection::Unknown;
        }
        objects += 1;
        decided = decided.or_else(|| evidence.add(&json));
        examined += line.range.len();
        if examined > SAMPLE_BYTES {
            break;
        }
    }
    match objects {
        0..LINES_AFTER_CUT_ONE => Detection::Unknown,
        _ => decided.unwrap_or_else(|| evidence.conclude()),
    }
}

/// Detects the kind by the first lines.
fn detect_by_lines(bytes: &[u8]) -> Detection {
    let mut evidence = Evidence::default();
    let mut examined = 0;
    for line in lines(bytes).take(SAMPLE_LINES) {
        if let Ok(json) = line.json(bytes)
            && let Some(found) = evidence.add(&json)
        {
            return found;
        }
        examined += line.range.len();
        if examined > SAMPLE_BYTES {
            break;
        }
    }
    evidence.conclude()
}

/// Detects the kind of a file that is one JSON value.
fn detect_document(bytes: &[u8]) -> Detection {
    let Some(Ok(json)) = parse_document(bytes) else {
        return detect_entries(bytes);
    };
    let mut evidence = Evidence::default();
    let objects = json.as_array().unwrap_or(std::slice::from_ref(&json));
    let found = objects
        .iter()
        .take(SAMPLE_LINES)
        .find_map(|object| evidence.add(object));
    found.unwrap_or_else(|| evidence.conclude())
}

/// Detects the kind of a list of which an item isn't JSON, if its reader reads the others.
fn detect_entries(bytes: &[u8]) -> Detection {
    use TranscriptKind::{Batch, ClaudeCode, Cmf, Codex, Exchanges, GrainLines, Messages};
    let found = document_lines(bytes).map(|lines| detect_by_lines(lines.as_bytes()));
    match found {
        Some(
            found @ Detection::Kind(
                Batch | ClaudeCode | Cmf | Codex | Exchanges | GrainLines | Messages,
            ),
        ) => found,
        _ => Detection::Unknown,
    }
}

/// The evidence for a kind in the objects of the sample.
#[derive(Default)]
struct Evidence {
    candidate: Option<TranscriptKind>,
    /// Objects of the candidate kind.
    matching: usize,
    /// Objects of a conversation that are of another or no kind.
    other: usize,
}

impl Evidence {
    /// Adds an object; returns the result as soon as it is decided.
    fn add(&mut self, json: &Json) -> Option<Detection> {
        let found = classify(json);
        match found {
            Detection::Foreign(_) => return Some(found),
            Detection::Kind(kind) if self.candidate.is_none_or(|candidate| candidate == kind) => {
                if !kind.needs_majority() {
                    return Some(found);
                }
                self.candidate = Some(kind);
                self.matching += 1;
            }
            // Alone they may be of any program.
            _ if self.candidate == Some(TranscriptKind::Codex) && is_error_event(json) => {}
            _ => self.other += usize::from(is_conversational(json)),
        }
        None
    }

    /// Returns the result at the end of the sample.
    fn conclude(self) -> Detection {
        match self.candidate {
            Some(kind) if self.matching > self.other => Detection::Kind(kind),
            _ => Detection::Unknown,
        }
    }
}

/// Returns true for a YAML file that begins like a cassette. YAML has no other kinds.
fn is_yaml_cassette(bytes: &[u8], uri: &str) -> bool {
    let name = content_name(uri);
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    is_yaml
        && lines(bytes).take(SAMPLE_LINES).any(|line| {
            let text = bytes.get(line.range).unwrap_or_default();
            text.starts_with(b"interactions:") || text.starts_with(b"http_interactions:")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_transcript_is_named_with_the_remedy() {
        let mut tar = vec![b'x'; 257];
        tar.extend(b"ustar\0");
        for (bytes, reason) in [
            (&b"\xff\xfe{\0}\0"[..], "UTF-16"),
            (b"\xff\xfe\0\0{\0\0\0", "UTF-32"),
            (b"\xfd7zXZ\0...", "an xz file"),
            (b"BZh91AY", "a bzip2 file"),
            (&tar, "a tar archive"),
            (b"{\0\"\0", "UTF-16"),
            (b"\0[\0{", "UTF-16"),
            (b"{\0\0\0\"\0\0\0", "UTF-32"),
            (b"[\n{\"a\":1},\n{\"a\"", "isn't: EOF while parsing"),
            (b"{\"a\":1}{\"a\":2}", "isn't: trailing characters"),
            (b"\xef\xbb\xbf{\"a\":NaN}", "isn't: a number is NaN"),
            (b"null\n{\"a\":1}\n", "JSON of no known kind"),
            (b"event: a\ndata: {\"x\":1}\n\n", "server-sent events"),
            (b"data: {\"x\":1}\n\n", "server-sent events"),
            (
                b"{\"object\":\"chat.completion.chunk\",\"choices\":[]}",
                "events of a stream",
            ),
            (
                b"{\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":\
                  {\"content\":\"x\"},\"index\":0,\"finish_reason\":null}]}",
                "events of a stream",
            ),
            (
                b"{\"type\":\"message_start\",\"message\":{}}",
                "events of a stream",
            ),
            (b"{\"a\":1}\r{\"a\":2}", "CR alone"),
            (b"{\"a\":\"\xff\"}", "UTF-8 at byte 6"),
            (b"{\"a\":1}", "JSON of no known kind"),
            (
                br#"{"type":"fact","subject":"a","relation":"is","object":"b"}"#,
                "`--kind grains`, or",
            ),
            (b"{\"type\":\"event\",\"created_at\":1}", "--kind grains"),
            (
                b"{\"type\":\"event\",\"name\":\"x\"}",
                "JSON of no known kind",
            ),
            (b"plain", "neither a container"),
            (b" \n", "nothing but blanks"),
        ] {
            let found = TranscriptKind::why_not(bytes, "a.jsonl");
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn every_kind_is_detected() {
        for (text, uri, kind) in [
            (
                r#"{"provider":"openai","endpoint":"chat","request":{}}"#,
                "a.jsonl",
                Some(TranscriptKind::Exchanges),
            ),
            (
                r#"{"custom_id":"0","method":"POST","url":"/v1/responses","body":{}}"#,
                "a.jsonl",
                Some(TranscriptKind::Batch),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
                "a.json",
                Some(TranscriptKind::Bodies),
            ),
            (
                "{\n\"log\": {\"entries\": []}}",
                "a.har",
                Some(TranscriptKind::Har),
            ),
            (
                "{\"interactions\": [],\n\"version\": 1}",
                "a.json",
                Some(TranscriptKind::Cassette),
            ),
            (
                "interactions:\n- request:\n",
                "a.yaml",
                Some(TranscriptKind::Cassette),
            ),
            (
                "not json\n{\"type\":\"summary\",\"leafUuid\":\"x\"}",
                "a.jsonl",
                None,
            ),
            (
                r#"{"type":"summary","leafUuid":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::ClaudeCode),
            ),
            (
                r#"{"type":"thread.started","thread_id":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::Codex),
            ),
            (
                r#"{"id":"x","timestamp":"t","instructions":null}"#,
                "a.jsonl",
                Some(TranscriptKind::Codex),
            ),
            (
                r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}"#,
                "a.jsonl",
                Some(TranscriptKind::Codex),
            ),
            (
                r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}]}"#,
                "a.json",
                Some(TranscriptKind::Bodies),
            ),
            (
                r#"{"type":"system","subtype":"init","session_id":"s","uuid":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::ClaudeCode),
            ),
            (
                r#"{"id":"x","session_id":"s","role":"user","content":[]}"#,
                "a.jsonl",
                Some(TranscriptKind::Messages),
            ),
            (
                r#"{"role":"user","content":[{"content_type":"text","text":"x"}]}"#,
                "a.jsonl",
                Some(TranscriptKind::Cmf),
            ),
            (
                r#"{"content_address":"x","blob_hex":"00"}"#,
                "a.jsonl",
                Some(TranscriptKind::GrainLines),
            ),
            (
                "oops\n{\"provider\":\"x\",\"endpoint\":\"y\"}",
                "a.jsonl",
                None,
            ),
            (
                "der\":\"x\"}\n{\"provider\":\"x\",\"endpoint\":\"y\"}\n{\"provider\":\"x\",\"endpoint\":\"y\"}",
                "a.jsonl",
                Some(TranscriptKind::Exchanges),
            ),
            (
                "# a text\nnot json\n{\"provider\":\"x\",\"endpoint\":\"y\"}",
                "a.jsonl",
                None,
            ),
            (
                r#"[{"provider":"x","endpoint":"y","n":NaN},{"provider":"x","endpoint":"y"}]"#,
                "a.json",
                Some(TranscriptKind::Exchanges),
            ),
            (
                r#"[{"model":"m","messages":[{"role":"user","content":"x"}]},{"n":NaN}]"#,
                "a.json",
                None,
            ),
            (
                "{oops\n{\"provider\":\"x\",\"endpoint\":\"y\"}",
                "a.jsonl",
                Some(TranscriptKind::Exchanges),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"ping","id":1}"#,
                "a.log",
                Some(TranscriptKind::Mcp),
            ),
            (
                r#"[{"jsonrpc":"2.0","method":"ping","id":1}]"#,
                "a.log",
                Some(TranscriptKind::Mcp),
            ),
            (
                r#"{"provider":"mcp","endpoint":"x","request":{"jsonrpc":"2.0"}}"#,
                "a.jsonl",
                Some(TranscriptKind::Mcp),
            ),
            (
                r#"{"results":[{"id":"1","memory":"x"}]}"#,
                "a.json",
                Some(TranscriptKind::Mem0),
            ),
            (
                "{\n\"results\": [{\n\"id\":\"1\",\n\"memory\":\"x\"}]}",
                "a.json",
                Some(TranscriptKind::Mem0),
            ),
            (
                r#"{"memory_id":"1","event":"ADD","new_memory":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::Mem0),
            ),
            (
                r#"{"agents":[],"blocks":[{"label":"human","value":"x"}]}"#,
                "a.af",
                Some(TranscriptKind::Letta),
            ),
            (
                r#""{\"agents\":[],\"blocks\":[]}""#,
                "a.af",
                Some(TranscriptKind::Letta),
            ),
            (
                r#"{"uuid":"1","source_node_uuid":"a","target_node_uuid":"b","fact":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::Zep),
            ),
            (
                r#"{"thread_id":"t","role":"user","content":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::Zep),
            ),
            (
                r#"{"namespace":["a"],"key":"k","value":{}}"#,
                "a.jsonl",
                Some(TranscriptKind::LangGraph),
            ),
            (
                r#"{"values":{"messages":[]},"config":{"configurable":{}}}"#,
                "a.jsonl",
                Some(TranscriptKind::LangGraph),
            ),
            ("SQLite format 3\0", "a.db", Some(TranscriptKind::Sqlite)),
            ("{}", "a.json", None),
            ("\"text\"", "a.json", None),
            ("", "a.json", None),
            ("key: value", "a.yaml", None),
        ] {
            assert_eq!(TranscriptKind::detect(text.as_bytes(), uri), kind, "{text}");
        }
    }
}
