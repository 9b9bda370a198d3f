//! Formats that are recognised but not supported: traces, exports of applications, logs of other
//! agents, dumps of memory systems.
//!
//! Recognition serves two purposes: such a file is never mistaken for a supported kind, and its
//! rejection names the format. Each row tests for members that occur together only in that format.
//! A test compares the table with the one in `docs/transcripts.md`.
//!
//! The file is one table with one predicate per format, so it is longer than other modules.

use gristmill_schemas::json::{Json, Object};

use crate::wire::json_access::items;

/// A format that is recognised but not supported.
#[derive(Debug)]
pub struct ForeignFormat {
    /// The name in messages: "looks like …".
    pub name: &'static str,
    /// The members by which it is recognised, for the documentation.
    pub signature: &'static str,
    /// Tests an object: a line, a document, or an item of a document that is an array.
    matches: fn(&Json) -> bool,
}

/// Declares the table.
macro_rules! formats {
    ($($name:literal, $signature:literal, $matches:expr;)*) => {
        /// All formats, in the order in which they are tested.
        pub const FOREIGN_FORMATS: &[ForeignFormat] =
            &[$(ForeignFormat { name: $name, signature: $signature, matches: $matches }),*];
    };
}

formats! {
    "OpenTelemetry data (OTLP JSON)", "`resourceSpans`, `resourceLogs` or `resourceMetrics`", is_otlp;
    "spans of OpenTelemetry, OpenInference or the Vercel AI SDK",
        "`attributes` next to a span's name, id, kind or trace; `spans` with ids; `gen_ai.*`, \
         `llm.*`, `openinference.*` as members", is_span;
    "a LiteLLM log", "`call_type` next to `response_cost` or `model_parameters`; `call_type` and \
                      `spend`", is_litellm;
    "a Helicone export", "`request_body` and `response_body` next to `request_path`, \
                          `request_created_at` or `response_status`", is_helicone;
    "Langfuse traces or observations", "`traceId` or `trace_id` next to an observation's members; \
                                        `observations`", is_langfuse;
    "LangSmith or LangChain runs", "`run_type` with `inputs` or `outputs`; `post` with \
                                    `dotted_order`; `lc` and `type`", is_langsmith;
    "OpenAI Agents SDK traces", "`object` = `trace` or `trace.span`", is_agents_sdk;
    "OpenAI Assistants messages or runs", "`object` = `thread.message`, `thread.run` …", is_assistants;
    "a ChatGPT or DeepSeek export", "`mapping` of nodes, or `current_node`, next to a \
                                     conversation's members", is_chatgpt;
    "a Claude.ai export", "`chat_messages`", |json| list(json, "chat_messages");
    "a Grok export", "`conversations` of `conversation` and `responses`", is_grok_export;
    "a Gemini Takeout export", "`header`, `title` and `products`", |json| has_all(json, &["header", "title", "products"]);
    "a Google AI Studio prompt", "`chunkedPrompt`", |json| has(json, "chunkedPrompt");
    "a Le Chat export", "`chatId` and `contentChunks`", |json| has_all(json, &["chatId", "contentChunks"]);
    "a Gemini CLI log", "`sessionId` with `projectHash` or `messageId`; lines of type `gemini`", is_gemini_cli;
    "a Qwen Code log", "`sessionId` or `uuid`, and `message.parts` or `systemPayload`", is_qwen;
    "a Kimi CLI log", "`protocol_version` of a `metadata` line, `config.update`, roles \
                       `_checkpoint`, `_usage`, `_system_prompt`, wire events", is_kimi;
    "an OpenCode log", "`sessionID` with `messageID`, `role`, `part` or `time`; `info` next to \
                        `messages` of `parts`", is_opencode;
    "a Factory Droid log", "`session_start`; messages with `session_id`, `role` and `text`; \
                            `completion` with `finalText`", is_droid;
    "a Copilot CLI log", "`data` next to a dotted `type`, `id` and `parentId`", is_copilot_cli;
    "a VS Code Copilot chat", "`requests` with `requestId`; `responderUsername`; `kind` and `v`", is_copilot_chat;
    "a Cline or Roo Code log", "`ts` with `say`, `ask` or `role`", is_cline;
    "a Continue session", "`sessionId` with `workspaceDirectory` or a `history` of messages", is_continue;
    "a Goose session", "`working_dir` with `conversation` or counts; messages with `created` and \
                        `userVisible`", is_goose;
    "a Cursor log", "a `role` next to `message.content`; `tool_call` lines with `subtype`", is_cursor;
    "an Amp thread", "`id` of a thread `T-…` with `messages`", is_amp;
    "a Pi or OpenClaw session", "`session` with `version` and `cwd`; `message` with `parentId`", is_pi;
    "an OpenHands trajectory", "`source` and `timestamp` with `action`, `observation` or an \
                                event's `kind`; `history` and `instance_id`", is_openhands;
    "a SWE-agent trajectory", "`trajectory` of steps; `trajectory_format`", is_swe_agent;
    "tau-bench results", "`traj` or `simulations` with a task", is_tau_bench;
    "a cagent session", "`session_items`", |json| has(json, "session_items");
    "an ATIF or ATOF trajectory", "`schema_version` = `ATIF-…`; `atof_version`; `trajectory_id` \
                                   and `steps`", is_atif;
    "a Hermes session", "`producer` = `hermes/…`", |json| text(json, "producer").is_some_and(|producer| producer.starts_with("hermes"));
    "an AutoGen session", "`agent_states`, `message_thread`, `llm_context`; records of `mode`, \
                           `messages` and `response`; messages with `source` and `type`", is_autogen;
    "messages of the AI SDK or of Gemini without a request", "a `role` next to `parts`", |json| text(json, "role").is_some() && list(json, "parts");
    "a dump of MemOS", "`payload.memory` next to `vector`; `memory` with `metadata.memory_type`", is_memos;
    "an export of mcp-memory-service", "`export_metadata` and `memories`", |json| has_all(json, &["export_metadata", "memories"]);
    "a knowledge graph of MCP's memory server", "`entity` with `observations`, `relation` with \
                                                 `relationType`", is_memory_server;
    "a dump of Letta without memory blocks", "`agents` with `core_memory`, no `blocks`", is_letta_dump;
    "a dump of Zep with episodes", "`episodes` next to `entities` or `facts`", |json| list(json, "episodes") && (list(json, "entities") || list(json, "facts"));
}

/// Returns the format of an object, or `None` if it matches no row of the table.
pub(super) fn match_foreign_format(json: &Json) -> Option<&'static ForeignFormat> {
    json.as_object()?;
    FOREIGN_FORMATS.iter().find(|format| (format.matches)(json))
}

fn has(json: &Json, key: &str) -> bool {
    json.get(key).is_some()
}

fn has_all(json: &Json, keys: &[&str]) -> bool {
    keys.iter().all(|key| has(json, key))
}

fn has_any(json: &Json, keys: &[&str]) -> bool {
    keys.iter().any(|key| has(json, key))
}

fn text<'j>(json: &'j Json<'j>, key: &str) -> Option<&'j str> {
    json.get(key).and_then(Json::as_str)
}

fn list(json: &Json, key: &str) -> bool {
    json.get(key)
        .is_some_and(|value| value.as_array().is_some())
}

fn object(json: &Json, key: &str) -> bool {
    json.get(key)
        .is_some_and(|value| value.as_object().is_some())
}

fn number(json: &Json, key: &str) -> bool {
    matches!(json.get(key), Some(Json::Number(_)))
}

/// Returns true if the first item of the array `key` satisfies `predicate`.
fn first(json: &Json, key: &str, predicate: impl Fn(&Json) -> bool) -> bool {
    items(json, key).first().is_some_and(predicate)
}

fn is_type(json: &Json, types: &[&str]) -> bool {
    text(json, "type").is_some_and(|kind| types.contains(&kind))
}

fn is_otlp(json: &Json) -> bool {
    [
        "resourceSpans",
        "resourceLogs",
        "resourceMetrics",
        "resource_spans",
        "scopeSpans",
    ]
    .iter()
    .any(|key| list(json, key))
}

/// Members that identify a span.
const SPAN_MEMBERS: [&str; 10] = [
    "spanName",
    "scopeName",
    "spanId",
    "span_id",
    "traceId",
    "trace_id",
    "startTimeUnixNano",
    "start_time_unix_nano",
    "parentSpanId",
    "instrumentationScope",
];

fn is_span(json: &Json) -> bool {
    let attributed = object(json, "attributes") || list(json, "attributes");
    let kind = text(json, "kind")
        .is_some_and(|kind| kind.starts_with("SPAN_KIND") || kind.starts_with("SpanKind"));
    attributed
        && (kind
            || has_any(json, &SPAN_MEMBERS)
            || json
                .get("context")
                .is_some_and(|context| has(context, "span_id")))
        || first(json, "spans", |span| has_any(span, &SPAN_MEMBERS))
        || json.as_object().is_some_and(has_span_attribute)
}

/// Returns true for an object with flattened span attributes, such as `gen_ai.system`.
fn has_span_attribute(object: &Object) -> bool {
    const PREFIXES: [&str; 6] = [
        "gen_ai.",
        "openinference.",
        "llm.",
        "ai.prompt",
        "ai.response",
        "context.span_id",
    ];
    object.iter().any(|(key, _)| {
        let key = key.strip_prefix("attributes.").unwrap_or(key);
        PREFIXES.iter().any(|prefix| key.starts_with(prefix))
    })
}

fn is_litellm(json: &Json) -> bool {
    text(json, "call_type").is_some()
        && has_any(json, &["response_cost", "model_parameters", "spend"])
}

fn is_helicone(json: &Json) -> bool {
    const RECORD: [&str; 3] = ["request_path", "request_created_at", "response_status"];
    has_all(json, &["request_body", "response_body"]) && has_any(json, &RECORD)
}

fn is_langfuse(json: &Json) -> bool {
    const OBSERVATION: [&str; 9] = [
        "observations",
        "startTime",
        "start_time",
        "providedModelName",
        "provided_model_name",
        "usageDetails",
        "usage_details",
        "parentObservationId",
        "parent_observation_id",
    ];
    let observation =
        |json: &Json| has_any(json, &["traceId", "trace_id"]) && has_any(json, &OBSERVATION);
    let observations = first(json, "observations", |one| {
        has_any(one, &["traceId", "trace_id", "startTime", "start_time"])
    });
    let run = has_any(json, &["run_type", "span_data", "dotted_order"]);
    !run && (observation(json) || observations)
        || (object(json, "trace") && list(json, "observations"))
}

fn is_langsmith(json: &Json) -> bool {
    let run =
        |json: &Json| has(json, "run_type") && has_any(json, &["inputs", "outputs", "child_runs"]);
    let posted = ["post", "patch", "runs"]
        .iter()
        .any(|key| first(json, key, |one| run(one) || has(one, "dotted_order")));
    let serialised =
        number(json, "lc") && is_type(json, &["constructor", "secret", "not_implemented"]);
    run(json) || posted || serialised || has_all(json, &["dotted_order", "trace_id"])
}

fn is_agents_sdk(json: &Json) -> bool {
    let own = |json: &Json| {
        text(json, "object").is_some_and(|object| matches!(object, "trace" | "trace.span"))
    };
    own(json) || first(json, "data", own)
}

fn is_assistants(json: &Json) -> bool {
    let own = |json: &Json| {
        let name = text(json, "object").and_then(|object| object.strip_prefix("thread"));
        name.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    own(json) || first(json, "data", own)
}

fn is_chatgpt(json: &Json) -> bool {
    let conversation = has_any(
        json,
        &[
            "current_node",
            "conversation_id",
            "create_time",
            "title",
            "inserted_at",
        ],
    );
    object(json, "mapping") && conversation || has_all(json, &["current_node", "conversation_id"])
}

fn is_grok_export(json: &Json) -> bool {
    first(json, "conversations", |one| {
        object(one, "conversation") && list(one, "responses")
    })
}

fn is_gemini_cli(json: &Json) -> bool {
    let logged = has(json, "messageId") && text(json, "message").is_some();
    let session = has(json, "sessionId") && (has(json, "projectHash") || logged);
    let message = is_type(json, &["gemini"]) && has_any(json, &["content", "timestamp"]);
    session
        || message
        || first(json, "messages", |one| {
            has(one, "timestamp") && is_type(one, &["gemini"])
        })
}

fn is_qwen(json: &Json) -> bool {
    let parts = json
        .get("message")
        .is_some_and(|message| list(message, "parts"));
    has_any(json, &["sessionId", "uuid"]) && (parts || has(json, "systemPayload"))
}

fn is_kimi(json: &Json) -> bool {
    let event = |message: &Json| text(message, "type").is_some() && object(message, "payload");
    let role = text(json, "role")
        .is_some_and(|role| matches!(role, "_checkpoint" | "_usage" | "_system_prompt"));
    let wire = is_type(json, &["metadata"]) && has(json, "protocol_version");
    role || wire
        || is_type(json, &["config.update"])
        || has(json, "timestamp") && json.get("message").is_some_and(event)
}

fn is_opencode(json: &Json) -> bool {
    let own =
        has(json, "sessionID") && has_any(json, &["messageID", "role", "part", "time", "error"]);
    let session = has_all(json, &["projectID", "directory", "time"]);
    let export = object(json, "info")
        && first(json, "messages", |one| {
            object(one, "info") && list(one, "parts")
        });
    let message =
        json.get("info").is_some_and(|info| has(info, "sessionID")) && list(json, "parts");
    own || session || export || message
}

fn is_droid(json: &Json) -> bool {
    let message = is_type(json, &["message"]) && has_all(json, &["session_id", "role", "text"]);
    let completion = is_type(json, &["completion"]) && has(json, "finalText");
    message || completion || is_type(json, &["session_start"])
}

fn is_copilot_cli(json: &Json) -> bool {
    let dotted = text(json, "type").is_some_and(|kind| kind.contains('.'));
    dotted && object(json, "data") && has_all(json, &["id", "parentId"])
}

fn is_copilot_chat(json: &Json) -> bool {
    let session = first(json, "requests", |one| {
        has(one, "requestId") || has_all(one, &["message", "response"])
    });
    let initial = json.get("v").is_some_and(|v| list(v, "requests"));
    session || has_all(json, &["responderUsername", "requests"]) || number(json, "kind") && initial
}

fn is_cline(json: &Json) -> bool {
    let ui = is_type(json, &["say", "ask"]) && has_any(json, &["say", "ask"]);
    number(json, "ts") && (ui || has_all(json, &["role", "content"]) && !has(json, "session_id"))
}

fn is_continue(json: &Json) -> bool {
    has(json, "sessionId")
        && (has(json, "workspaceDirectory") || first(json, "history", |one| object(one, "message")))
}

fn is_goose(json: &Json) -> bool {
    let head = has(json, "working_dir")
        && has_any(
            json,
            &[
                "conversation",
                "message_count",
                "total_tokens",
                "accumulated_total_tokens",
                "schedule_id",
            ],
        );
    let visible = json
        .get("metadata")
        .is_some_and(|metadata| has_any(metadata, &["userVisible", "agentVisible"]));
    head || visible && has_all(json, &["role", "created", "content"])
}

fn is_cursor(json: &Json) -> bool {
    let message = has_all(json, &["role", "message"])
        && json
            .get("message")
            .is_some_and(|message| list(message, "content"));
    let tool_call = is_type(json, &["tool_call"]) && has_all(json, &["subtype", "tool_call"]);
    message && !has(json, "type") || tool_call
}

fn is_amp(json: &Json) -> bool {
    text(json, "id").is_some_and(|id| id.starts_with("T-"))
        && list(json, "messages")
        && has_any(json, &["v", "created"])
}

fn is_pi(json: &Json) -> bool {
    let head = is_type(json, &["session"]) && has_all(json, &["version", "cwd"]);
    let role = |message: &Json| has(message, "role");
    head || is_type(json, &["message"])
        && has(json, "parentId")
        && json.get("message").is_some_and(role)
}

fn is_openhands(json: &Json) -> bool {
    let event = |json: &Json| {
        let named = text(json, "kind").is_some_and(|kind| kind.ends_with("Event"));
        has_all(json, &["source", "timestamp"])
            && (named || has_any(json, &["action", "observation"]))
    };
    event(json)
        || list(json, "history") && has_all(json, &["instance_id", "test_result"])
        || first(json, "history", event)
}

fn is_swe_agent(json: &Json) -> bool {
    let step = |step: &Json| has_any(step, &["action", "observation", "thought"]);
    has(json, "trajectory_format") || first(json, "trajectory", step)
}

fn is_tau_bench(json: &Json) -> bool {
    list(json, "traj") && has_any(json, &["task_id", "reward"])
        || list(json, "simulations") && list(json, "tasks")
        || has(json, "messages_display")
}

fn is_atif(json: &Json) -> bool {
    let atif = text(json, "schema_version").is_some_and(|version| version.starts_with("ATIF"));
    atif || has(json, "atof_version") || has(json, "trajectory_id") && list(json, "steps")
}

fn is_autogen(json: &Json) -> bool {
    let message = |json: &Json| {
        has_all(json, &["source", "content"])
            && text(json, "type").is_some_and(|kind| kind.ends_with("Message"))
    };
    let record = has_all(json, &["mode", "messages", "response"]);
    let state = has_any(json, &["agent_states", "message_thread", "llm_context"]);
    record || state || message(json) || first(json, "messages", message)
}

fn is_memos(json: &Json) -> bool {
    let memory = |json: &Json| {
        let typed =
            |metadata: &Json| has_any(metadata, &["memory_type", "memory_time", "memory_source"]);
        // The history of mem0 has a `memory` with these members.
        let owned = has_any(json, &["user_id", "created_at", "hash", "score"]);
        has(json, "memory") && !owned && json.get("metadata").is_some_and(typed)
    };
    let stored = json
        .get("payload")
        .is_some_and(|payload| has(payload, "memory"));
    has(json, "vector") && stored || memory(json) || first(json, "nodes", memory)
}

fn is_memory_server(json: &Json) -> bool {
    let entity = |json: &Json| has_all(json, &["entityType", "observations"]);
    entity(json)
        || has(json, "relationType") && has_all(json, &["from", "to"])
        || first(json, "entities", entity)
}

fn is_letta_dump(json: &Json) -> bool {
    !has(json, "blocks") && first(json, "agents", |agent| list(agent, "core_memory"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = FOREIGN_FORMATS.iter().map(|format| format.name).collect();
        assert_eq!(names.len(), FOREIGN_FORMATS.len());
    }

    #[test]
    fn the_documentation_lists_every_format() {
        let docs = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/transcripts.md"
        ))
        .unwrap();
        let row = |format: &ForeignFormat| format!("| {} | {} |", format.name, format.signature);
        let missing: Vec<String> = FOREIGN_FORMATS
            .iter()
            .map(row)
            .filter(|row| !docs.contains(row))
            .collect();
        assert!(
            missing.is_empty(),
            "docs/transcripts.md lacks these rows:\n{}",
            missing.join("\n")
        );
    }
}
