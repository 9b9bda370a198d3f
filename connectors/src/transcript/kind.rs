//! What kind of transcript some bytes are.

use gristmill_schemas::json::{Json, JsonError};

use super::line::{LINE_LIMIT_BYTES, lines};
use super::memory::{self, letta};
use super::{codex, mcp, sqlite};
use crate::wire::dialect;
use crate::wire::members::items;

/// Declares the kinds, each with its name and what it is: all that the command line says of them.
macro_rules! kinds {
    ($($variant:ident $name:literal $about:literal;)*) => {
        /// A kind of transcript.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum TranscriptKind {
            $(#[doc = concat!($about, ".")] $variant,)*
        }

        impl TranscriptKind {
            /// Every kind.
            pub const ALL: &[TranscriptKind] = &[$(TranscriptKind::$variant),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(TranscriptKind::$variant => $name,)* }
            }

            /// What it is, for people.
            pub const fn about(self) -> &'static str {
                match self { $(TranscriptKind::$variant => $about,)* }
            }
        }
    };
}

kinds! {
    Exchanges "exchanges" "Recorded requests and responses of providers, a pair a line";
    Batch "batch" "Files of providers' batch endpoints";
    Bodies "bodies" "Requests or responses of providers alone, one a line or one a file";
    Har "har" "HTTP archives of browsers and proxies";
    Cassette "cassette" "What HTTP recorders of test suites write, as JSON or YAML";
    ClaudeCode "claude-code" "Sessions of Claude Code";
    Codex "codex" "Sessions of Codex";
    Mcp "mcp" "Captures of the Model Context Protocol: JSON-RPC messages, bare, wrapped or as exchanges";
    Messages "messages" "Canonical messages, one a line";
    Cmf "cmf" "CMF messages with their extensions, one a line";
    GrainLines "grains" "Grains as JSON, one a line";
    Sqlite "sqlite" "SQLite databases: canonical sessions, the history of mem0, the store and checkpoints of LangGraph";
    Mem0 "mem0" "Memories and their history as mem0 gives them";
    Letta "letta" "Agent files of Letta: memory blocks and messages";
    Zep "zep" "Facts of a Graphiti graph, and threads of Zep";
    LangGraph "langgraph" "Items of a LangGraph store, and snapshots of its threads";
}

/// Lines that are looked at before a file is taken to be of no kind.
const LOOK_LINES: usize = 8;

/// Types of lines that only Codex writes.
const CODEX_TYPES: [&str; 6] =
    ["session_meta", "response_item", "event_msg", "turn_context", "thread.started", "item.completed"];

/// Types of lines that Claude Code writes without an id.
const CLAUDE_TYPES: [&str; 3] = ["summary", "file-history-snapshot", "queue-operation"];

impl TranscriptKind {
    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// True for traffic of providers, whose requests resend what was said before.
    pub const fn is_traffic(self) -> bool {
        use TranscriptKind::{Bodies, Cassette, Exchanges, Har};
        matches!(self, Exchanges | TranscriptKind::Batch | Bodies | Har | Cassette)
    }

    /// The kind that the bytes show: by their first lines that are JSON, else by the file as a whole. `None` if they are no
    /// transcript.
    pub fn detect(bytes: &[u8], uri: &str) -> Option<Self> {
        if bytes.starts_with(sqlite::MAGIC) {
            return Some(TranscriptKind::Sqlite);
        }
        let first = bytes.trim_ascii_start().first()?;
        if *first == b'"' {
            return letta::unwrapped(bytes).is_some().then_some(TranscriptKind::Letta);
        }
        if !matches!(first, b'{' | b'[' | 0xef) {
            return is_yaml_cassette(bytes, uri).then_some(TranscriptKind::Cassette);
        }
        let found = lines(bytes).take(LOOK_LINES).find_map(|line| of_line(&line.json(bytes).ok()?));
        found.or_else(|| of_whole(bytes))
    }
}

/// The kind that one line shows, if it shows one.
fn of_line(json: &Json) -> Option<TranscriptKind> {
    json.as_object()?;
    let has = |key: &str| json.get(key).is_some();
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    Some(if mcp::is_capture(json) {
        TranscriptKind::Mcp
    } else if has("provider") && (has("request") || has("response") || has("endpoint")) {
        TranscriptKind::Exchanges
    } else if has("custom_id") {
        TranscriptKind::Batch
    } else if has("log") || has("interactions") || has("http_interactions") {
        return of_document(json);
    } else if text("type").is_some_and(|kind| CODEX_TYPES.contains(&kind)) || is_old_codex(json) {
        TranscriptKind::Codex
    } else if is_claude_stream(json)
        || has("sessionId")
        || has("parentUuid")
        || text("type").is_some_and(|kind| CLAUDE_TYPES.contains(&kind))
    {
        TranscriptKind::ClaudeCode
    } else if has("blob_hex") || has("content_address") || has("grain") {
        TranscriptKind::GrainLines
    } else if has("session_id") && has("role") && has("content") {
        TranscriptKind::Messages
    } else if is_cmf(json) {
        TranscriptKind::Cmf
    } else if let Some(kind) = memory::kind_of(json) {
        kind
    } else if dialect::detect_response(json).is_some() || dialect::detect_request(json).is_some() {
        TranscriptKind::Bodies
    } else if has("request") && (has("response") || has("response_sse")) {
        TranscriptKind::Exchanges
    } else {
        return None;
    })
}

/// A line of a rollout of Codex before these had envelopes: its head, its state, or an item of the Responses dialect.
fn is_old_codex(json: &Json) -> bool {
    let head = ["id", "timestamp", "instructions"].iter().all(|key| json.get(key).is_some());
    let kind = json.get("type").and_then(Json::as_str);
    let part = |part: &Json| matches!(part.get("type").and_then(Json::as_str), Some("input_text" | "output_text"));
    match kind {
        None => head || json.get("record_type").is_some(),
        Some("message") => items(json, "content").first().is_some_and(part),
        Some(kind) => codex::OLD_ITEMS.contains(&kind),
    }
}

/// A line of what Claude Code writes for other programs.
fn is_claude_stream(json: &Json) -> bool {
    let told = match json.get("type").and_then(Json::as_str) {
        Some("assistant" | "user") => json.get("message").is_some(),
        Some("system" | "result") => json.get("subtype").is_some(),
        _ => false,
    };
    told && json.get("session_id").is_some()
}

fn is_cmf(json: &Json) -> bool {
    let message = json.get("message").unwrap_or(json);
    let parts = message.get("content").and_then(Json::as_array);
    let typed = |part: &Json| part.get("content_type").is_some();
    message.get("role").is_some()
        && parts.is_some_and(|parts| {
            parts.first().map_or(message.get("schema_version").is_some() || json.get("extensions").is_some(), typed)
        })
}

/// The kind of a file that is one JSON value.
fn of_whole(bytes: &[u8]) -> Option<TranscriptKind> {
    let json = whole(bytes)?.ok()?;
    of_document(&json).or_else(|| of_line(&json)).or_else(|| json.as_array().and_then(|items| of_line(items.first()?)))
}

/// The file as one JSON value, if it isn't too long for one.
pub(super) fn whole(bytes: &[u8]) -> Option<Result<Json<'_>, JsonError>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    (bytes.len() <= LINE_LIMIT_BYTES).then(|| Json::parse(bytes))
}

fn of_document(json: &Json) -> Option<TranscriptKind> {
    let entries = |key: &str| json.get(key).and_then(Json::as_array).is_some();
    if json.get("log").and_then(|log| log.get("entries")).is_some() {
        return Some(TranscriptKind::Har);
    }
    (entries("interactions") || entries("http_interactions")).then_some(TranscriptKind::Cassette)
}

fn is_yaml_cassette(bytes: &[u8], uri: &str) -> bool {
    let named = uri.ends_with(".yaml") || uri.ends_with(".yml");
    named
        && lines(bytes).take(LOOK_LINES).any(|line| {
            let text = bytes.get(line.range).unwrap_or_default();
            text.starts_with(b"interactions:") || text.starts_with(b"http_interactions:")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_shows_itself() {
        for (text, uri, kind) in [
            (r#"{"provider":"openai","endpoint":"chat","request":{}}"#, "a.jsonl", Some(TranscriptKind::Exchanges)),
            (
                r#"{"custom_id":"0","method":"POST","url":"/v1/responses","body":{}}"#,
                "a.jsonl",
                Some(TranscriptKind::Batch),
            ),
            (r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#, "a.json", Some(TranscriptKind::Bodies)),
            ("{\n\"log\": {\"entries\": []}}", "a.har", Some(TranscriptKind::Har)),
            ("{\"interactions\": [],\n\"version\": 1}", "a.json", Some(TranscriptKind::Cassette)),
            ("interactions:\n- request:\n", "a.yaml", Some(TranscriptKind::Cassette)),
            ("not json\n{\"type\":\"summary\",\"leafUuid\":\"x\"}", "a.jsonl", None),
            (r#"{"type":"summary","leafUuid":"x"}"#, "a.jsonl", Some(TranscriptKind::ClaudeCode)),
            (r#"{"type":"thread.started","thread_id":"x"}"#, "a.jsonl", Some(TranscriptKind::Codex)),
            (r#"{"id":"x","timestamp":"t","instructions":null}"#, "a.jsonl", Some(TranscriptKind::Codex)),
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
            (r#"{"id":"x","session_id":"s","role":"user","content":[]}"#, "a.jsonl", Some(TranscriptKind::Messages)),
            (r#"{"role":"user","content":[{"content_type":"text","text":"x"}]}"#, "a.jsonl", Some(TranscriptKind::Cmf)),
            (r#"{"content_address":"x","blob_hex":"00"}"#, "a.jsonl", Some(TranscriptKind::GrainLines)),
            ("oops\n{\"provider\":\"x\",\"endpoint\":\"y\"}", "a.jsonl", None),
            ("{oops\n{\"provider\":\"x\",\"endpoint\":\"y\"}", "a.jsonl", Some(TranscriptKind::Exchanges)),
            (r#"{"jsonrpc":"2.0","method":"ping","id":1}"#, "a.log", Some(TranscriptKind::Mcp)),
            (r#"[{"jsonrpc":"2.0","method":"ping","id":1}]"#, "a.log", Some(TranscriptKind::Mcp)),
            (r#"{"provider":"mcp","endpoint":"x","request":{"jsonrpc":"2.0"}}"#, "a.jsonl", Some(TranscriptKind::Mcp)),
            (r#"{"results":[{"id":"1","memory":"x"}]}"#, "a.json", Some(TranscriptKind::Mem0)),
            ("{\n\"results\": [{\n\"id\":\"1\",\n\"memory\":\"x\"}]}", "a.json", Some(TranscriptKind::Mem0)),
            (r#"{"memory_id":"1","event":"ADD","new_memory":"x"}"#, "a.jsonl", Some(TranscriptKind::Mem0)),
            (r#"{"agents":[],"blocks":[{"label":"human","value":"x"}]}"#, "a.af", Some(TranscriptKind::Letta)),
            (r#""{\"agents\":[],\"blocks\":[]}""#, "a.af", Some(TranscriptKind::Letta)),
            (
                r#"{"uuid":"1","source_node_uuid":"a","target_node_uuid":"b","fact":"x"}"#,
                "a.jsonl",
                Some(TranscriptKind::Zep),
            ),
            (r#"{"thread_id":"t","role":"user","content":"x"}"#, "a.jsonl", Some(TranscriptKind::Zep)),
            (r#"{"namespace":["a"],"key":"k","value":{}}"#, "a.jsonl", Some(TranscriptKind::LangGraph)),
            (r#"{"values":{"messages":[]},"config":{"configurable":{}}}"#, "a.jsonl", Some(TranscriptKind::LangGraph)),
            ("SQLite format 3\0", "a.db", Some(TranscriptKind::Sqlite)),
            ("{}", "a.json", None),
            ("\"text\"", "a.json", None),
            ("", "a.json", None),
            ("key: value", "a.yaml", None),
        ] {
            assert_eq!(TranscriptKind::detect(text.as_bytes(), uri), kind, "{text}");
        }
        for kind in TranscriptKind::ALL {
            assert_eq!(TranscriptKind::from_name(kind.name()), Some(*kind));
        }
    }
}
