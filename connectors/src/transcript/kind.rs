//! What kind of transcript some bytes are.

use gristmill_schemas::json::{Json, JsonError};

use super::foreign::{ForeignFormat, foreign_bytes, foreign_format};
use super::line::{LINE_LIMIT_BYTES, lines};
use super::memory::{self, letta};
use super::{codex, mcp, sqlite};
use crate::wire::json_access::items;
use crate::wire::standalone_body::detect_standalone_body;

/// Declares the kinds, each with its code, its name and what it is: all that a lake's log and the
/// command line say of them.
macro_rules! kinds {
    ($($variant:ident $code:literal $name:literal $about:literal;)*) => {
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

            /// What stands for it in a lake's log. It never changes, and is never given to another
            /// kind.
            pub const fn code(self) -> u8 {
                match self { $(TranscriptKind::$variant => $code,)* }
            }

            /// What it is, for people.
            pub const fn about(self) -> &'static str {
                match self { $(TranscriptKind::$variant => $about,)* }
            }
        }
    };
}

kinds! {
    Exchanges 16 "exchanges" "Recorded requests and responses of providers, a pair a line";
    Batch 17 "batch" "Files of providers' batch endpoints";
    Bodies 18 "bodies" "Requests or responses of providers alone, one a line or one a file";
    Har 19 "har" "HTTP archives of browsers and proxies";
    Cassette 20 "cassette" "What HTTP recorders of test suites write, as JSON or YAML";
    ClaudeCode 21 "claude-code" "Sessions of Claude Code";
    Codex 22 "codex" "Sessions of Codex";
    Mcp 23 "mcp" "Captures of the Model Context Protocol: JSON-RPC messages, bare, wrapped or as \
                  exchanges";
    Messages 24 "messages" "Canonical messages, one a line";
    Cmf 25 "cmf" "CMF messages with their extensions, one a line";
    GrainLines 26 "grains" "Grains as JSON, one a line";
    Sqlite 27 "sqlite" "SQLite databases: canonical sessions, the history of mem0, the store and \
                        checkpoints of LangGraph";
    Mem0 28 "mem0" "Memories and their history as mem0 gives them";
    Letta 29 "letta" "Agent files of Letta: memory blocks and messages";
    Zep 30 "zep" "Facts of a Graphiti graph, and threads of Zep";
    LangGraph 31 "langgraph" "Items of a LangGraph store, and snapshots of its threads";
}

/// Lines, or items of a list, that are looked at before a file is taken to be of no kind.
const LOOK_LINES: usize = 32;

/// Bytes of lines that are looked at; at least one line is.
const LOOK_BYTES: usize = 1 << 20;

/// Types of lines that Codex writes, and the member that each has.
const CODEX_TYPES: [(&str, &str); 6] = [
    ("session_meta", "payload"),
    ("response_item", "payload"),
    ("event_msg", "payload"),
    ("turn_context", "payload"),
    ("thread.started", "thread_id"),
    ("item.completed", "item"),
];

/// Types of lines that Claude Code writes without an id of the line, and a member that each has.
const CLAUDE_NOTES: [(&str, &str); 6] = [
    ("summary", "leafUuid"),
    ("file-history-snapshot", "snapshot"),
    ("queue-operation", "sessionId"),
    ("last-prompt", "sessionId"),
    ("permission-mode", "sessionId"),
    ("custom-title", "sessionId"),
];

/// What a look at bytes found.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// A kind that is read.
    Kind(TranscriptKind),
    /// A format that is recognised and not read.
    Foreign(&'static ForeignFormat),
    /// Nothing that is known.
    Unknown,
}

impl TranscriptKind {
    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// True for traffic of providers, whose requests resend what was said before.
    pub const fn is_traffic(self) -> bool {
        use TranscriptKind::{Bodies, Cassette, Exchanges, Har};
        matches!(
            self,
            Exchanges | TranscriptKind::Batch | Bodies | Har | Cassette
        )
    }

    /// The kind that the bytes show: by their first lines that are JSON, else by the file as a
    /// whole. `None` if they are no transcript that is read.
    pub fn detect(bytes: &[u8], uri: &str) -> Option<Self> {
        match look(bytes, uri) {
            Look::Kind(kind) => Some(kind),
            Look::Foreign(_) | Look::Unknown => None,
        }
    }

    /// True if the bytes are of a format that is recognised and not read.
    pub fn is_foreign(bytes: &[u8], uri: &str) -> bool {
        matches!(look(bytes, uri), Look::Foreign(_))
    }

    /// Why [`TranscriptKind::detect`] finds no kind in `bytes`, for people.
    pub fn why_not(bytes: &[u8], uri: &str) -> String {
        if bytes.is_empty() {
            return "it is empty".to_owned();
        }
        if let Look::Foreign(format) = look(bytes, uri) {
            return format!("looks like {}; not supported yet", format.name);
        }
        let hint = foreign_bytes(bytes).or_else(|| hint(bytes));
        hint.unwrap_or("neither a container, frames, a grain nor a transcript of a known kind")
            .to_owned()
    }

    /// True for kinds whose lines are known by little, so that most lines that are looked at must
    /// be of them: logs of other agents have single lines that look the same.
    const fn needs_company(self) -> bool {
        use TranscriptKind::{Bodies, ClaudeCode, Codex, Messages, Zep};
        matches!(self, Bodies | ClaudeCode | Codex | Messages | Zep)
    }
}

fn look(bytes: &[u8], uri: &str) -> Look {
    if bytes.starts_with(sqlite::MAGIC) {
        return Look::Kind(TranscriptKind::Sqlite);
    }
    let known = |is: bool, kind| if is { Look::Kind(kind) } else { Look::Unknown };
    match bytes.trim_ascii_start().first() {
        None => Look::Unknown,
        Some(b'"') => known(letta::unwrapped(bytes).is_some(), TranscriptKind::Letta),
        Some(b'{' | b'[' | 0xef) => match by_lines(bytes) {
            Look::Unknown => of_whole(bytes),
            found => found,
        },
        Some(_) => known(is_yaml_cassette(bytes, uri), TranscriptKind::Cassette),
    }
}

/// What the first lines show.
fn by_lines(bytes: &[u8]) -> Look {
    let mut evidence = Evidence::default();
    let mut looked = 0;
    for line in lines(bytes).take(LOOK_LINES) {
        if let Ok(json) = line.json(bytes)
            && let Some(found) = evidence.add(&json)
        {
            return found;
        }
        looked += line.range.len();
        if looked > LOOK_BYTES {
            break;
        }
    }
    evidence.end()
}

/// What the objects of a file speak for, one after the other.
#[derive(Default)]
struct Evidence {
    candidate: Option<TranscriptKind>,
    /// Objects of the candidate's kind.
    fitting: usize,
    /// Objects of a conversation that are of another kind, or of none.
    others: usize,
}

impl Evidence {
    /// Takes an object; answers as soon as the look is decided.
    fn add(&mut self, json: &Json) -> Option<Look> {
        let found = of_line(json);
        match found {
            Look::Foreign(_) => return Some(found),
            Look::Kind(kind) if self.candidate.is_none_or(|candidate| candidate == kind) => {
                if !kind.needs_company() {
                    return Some(found);
                }
                self.candidate = Some(kind);
                self.fitting += 1;
            }
            _ => self.others += usize::from(carries_conversation(json)),
        }
        None
    }

    fn end(self) -> Look {
        match self.candidate {
            Some(kind) if self.fitting > self.others => Look::Kind(kind),
            _ => Look::Unknown,
        }
    }
}

/// True for an object that looks like a part of somebody's conversation.
fn carries_conversation(json: &Json) -> bool {
    [
        "role",
        "content",
        "message",
        "messages",
        "parts",
        "text",
        "tool_calls",
    ]
    .iter()
    .any(|key| json.get(key).is_some())
}

/// What one object shows: a line, a document, or an item of a document that is a list.
fn of_line(json: &Json) -> Look {
    if json.as_object().is_none() {
        return Look::Unknown;
    }
    let has = |key: &str| json.get(key).is_some();
    let own = if mcp::is_capture(json) {
        Some(TranscriptKind::Mcp)
    } else if has("provider") && (has("request") || has("response") || has("endpoint")) {
        Some(TranscriptKind::Exchanges)
    } else if has("custom_id")
        && ["body", "params", "result", "response", "error"]
            .into_iter()
            .any(has)
    {
        Some(TranscriptKind::Batch)
    } else {
        of_document(json)
    };
    if let Some(kind) = own {
        return Look::Kind(kind);
    }
    match foreign_format(json) {
        Some(format) => Look::Foreign(format),
        None => of_log(json).map_or(Look::Unknown, Look::Kind),
    }
}

/// The kind of a line that is no recorded traffic, or is only part of it.
fn of_log(json: &Json) -> Option<TranscriptKind> {
    let has = |key: &str| json.get(key).is_some();
    let is_text = |key: &str| json.get(key).and_then(Json::as_str).is_some();
    Some(if is_codex(json) || is_old_codex(json) {
        TranscriptKind::Codex
    } else if is_claude_stream(json) || is_claude_line(json) {
        TranscriptKind::ClaudeCode
    } else if is_text("blob_hex")
        || json
            .get("grain")
            .is_some_and(|grain| grain.as_object().is_some())
        || is_text("content_address") && has("type")
    {
        TranscriptKind::GrainLines
    } else if has("session_id") && is_text("role") && has("content") {
        TranscriptKind::Messages
    } else if is_cmf(json) {
        TranscriptKind::Cmf
    } else if let Some(kind) = memory::kind_of(json) {
        kind
    } else if detect_standalone_body(json).is_some() {
        TranscriptKind::Bodies
    } else if has("request") && (has("response") || has("response_sse")) {
        TranscriptKind::Exchanges
    } else {
        return None;
    })
}

/// True if `json` has a type of `types` and the member that goes with it.
fn has_type(json: &Json, types: &[(&str, &str)]) -> bool {
    let kind = json.get("type").and_then(Json::as_str);
    types
        .iter()
        .any(|(name, member)| kind == Some(*name) && json.get(member).is_some())
}

/// A line of a rollout of Codex, or of what `codex exec --json` writes.
fn is_codex(json: &Json) -> bool {
    has_type(json, &CODEX_TYPES)
}

/// A line of a session of Claude Code: it names its session, itself and the line before it; a
/// message in it is of Anthropic's form.
fn is_claude_line(json: &Json) -> bool {
    let is_text = |key: &str| json.get(key).and_then(Json::as_str).is_some();
    let placed = is_text("sessionId")
        && is_text("uuid")
        && json.get("parentUuid").is_some()
        && is_text("type");
    let speaks = |message: &Json| message.get("role").is_some() && message.get("content").is_some();
    placed && json.get("message").is_none_or(speaks) || has_type(json, &CLAUDE_NOTES)
}

/// A line of a rollout of Codex before these had envelopes: its head, its state, or an item of the
/// Responses dialect.
fn is_old_codex(json: &Json) -> bool {
    let head = ["id", "timestamp", "instructions"]
        .iter()
        .all(|key| json.get(key).is_some());
    let kind = json.get("type").and_then(Json::as_str);
    let part = |part: &Json| {
        matches!(
            part.get("type").and_then(Json::as_str),
            Some("input_text" | "output_text")
        )
    };
    match kind {
        None => head || json.get("record_type").is_some(),
        Some("message") => items(json, "content").first().is_some_and(part),
        Some("reasoning") => json
            .get("summary")
            .is_some_and(|summary| summary.as_array().is_some()),
        Some("local_shell_call") => json.get("action").is_some(),
        Some(kind) => codex::OLD_ITEMS.contains(&kind) && json.get("call_id").is_some(),
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
            parts.first().map_or(
                message.get("schema_version").is_some() || json.get("extensions").is_some(),
                typed,
            )
        })
}

/// What a file shows that is one JSON value.
fn of_whole(bytes: &[u8]) -> Look {
    let Some(Ok(json)) = whole(bytes) else {
        return Look::Unknown;
    };
    let mut evidence = Evidence::default();
    let objects = json.as_array().unwrap_or(std::slice::from_ref(&json));
    let found = objects
        .iter()
        .take(LOOK_LINES)
        .find_map(|object| evidence.add(object));
    found.unwrap_or_else(|| evidence.end())
}

/// What the first object of a file of no known kind looks like.
fn hint(bytes: &[u8]) -> Option<&'static str> {
    let by_line = || {
        lines(bytes)
            .take(LOOK_LINES)
            .find_map(|line| line.json(bytes).ok())
    };
    let json = whole(bytes).and_then(Result::ok).or_else(by_line)?;
    let first = json.as_array().map_or(Some(&json), <[Json]>::first)?;
    let has = |keys: &[&str]| keys.iter().any(|key| first.get(key).is_some());
    if first.get("role").is_some() && has(&["content", "tool_calls"]) {
        Some(
            "looks like a list of messages without the request around it; as `{\"messages\": […]}` \
             it is a request",
        )
    } else if has(&["input", "inputs", "prompt", "messages"])
        && has(&["output", "outputs", "response", "completion"])
    {
        Some(
            "looks like the record of a trace, with a question and its answer; no known kind has \
             these members",
        )
    } else {
        Some("JSON of no known kind")
    }
}

/// The file as one JSON value, if it isn't too long for one.
pub(super) fn whole(bytes: &[u8]) -> Option<Result<Json<'_>, JsonError>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    (bytes.len() <= LINE_LIMIT_BYTES).then(|| Json::parse(bytes))
}

fn of_document(json: &Json) -> Option<TranscriptKind> {
    if json.get("log").and_then(|log| log.get("entries")).is_some() {
        return Some(TranscriptKind::Har);
    }
    let recorded = |key: &str| {
        let list = json.get(key).and_then(Json::as_array)?;
        Some(
            list.first()
                .is_none_or(|one| one.get("request").is_some() && one.get("response").is_some()),
        )
    };
    let is_cassette =
        recorded("interactions").or_else(|| recorded("http_interactions")) == Some(true);
    is_cassette.then_some(TranscriptKind::Cassette)
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
        for kind in TranscriptKind::ALL {
            assert_eq!(TranscriptKind::from_name(kind.name()), Some(*kind));
        }
    }
}
