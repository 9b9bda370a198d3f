use std::collections::BTreeMap;

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{ContentBlock, Role};

use super::*;
use crate::transcript::grain_output::grains_of_part;
use crate::transcript::parsed::StandaloneGrain;

pub(super) fn parsed(text: &str, kind: TranscriptKind) -> ParsedPart {
    assert_eq!(
        TranscriptKind::detect(text.as_bytes(), "a.json"),
        Some(kind),
        "{text}"
    );
    parse_export(text.as_bytes(), kind, ReadOptions::default())
}

fn json(grain: &StandaloneGrain) -> Json<'static> {
    let payload = Payload::open(&grain.grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    Grain::decode(&payload, DecodeMode::Strict)
        .unwrap()
        .to_json()
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// Returns every fact as `subject relation object`, with `< superseded object` and `! end time`.
pub(super) fn facts(part: &ParsedPart) -> Vec<String> {
    let known: BTreeMap<_, _> = part
        .grains
        .iter()
        .map(|grain| (grain.grain.address, text(&json(grain), "object").to_owned()))
        .collect();
    let line = |standalone: &StandaloneGrain| {
        let grain = json(standalone);
        let mut line = format!(
            "{} {} {}",
            text(&grain, "subject"),
            text(&grain, "relation"),
            text(&grain, "object")
        );
        standalone
            .supersedes
            .iter()
            .for_each(|old| line += &format!(" < {}", known[old]));
        standalone
            .system_valid_to
            .into_iter()
            .for_each(|ended| line += &format!(" ! {ended}"));
        line
    };
    part.grains.iter().map(line).collect()
}

#[test]
fn the_history_of_a_memory_is_a_chain_that_a_deletion_ends() {
    let history = r#"{"id":"h1","memory_id":"m","old_memory":null,"new_memory":"likes tea","event":"ADD","created_at":"2025-01-01T00:00:00Z","updated_at":null}
        {"id":"h2","memory_id":"m","old_memory":"likes tea","new_memory":"likes coffee","event":"UPDATE","created_at":"2025-01-01T00:00:00Z","updated_at":"2025-02-01T00:00:00Z"}
        {"id":"h3","memory_id":"m","old_memory":"likes coffee","new_memory":null,"event":"DELETE","created_at":"2025-01-01T00:00:00Z","updated_at":"1970-01-02T00:00:00Z","is_deleted":1}
        {"id":"h4","memory_id":"n","old_memory":"was here","new_memory":"is gone","event":"UPDATE","created_at":null,"updated_at":"2025-02-01T00:00:00Z"}"#;
    let expected = [
        "mem0:m mg:knows likes tea",
        "mem0:m mg:knows likes coffee < likes tea ! 86400000",
        "mem0:n mg:knows was here",
        "mem0:n mg:knows is gone < was here",
    ];
    assert_eq!(facts(&parsed(history, TranscriptKind::Mem0)), expected);
}

#[test]
fn a_memory_replaces_the_newest_version_of_its_history() {
    let text = r#"{"results":[{"id":"m","memory":"likes coffee","user_id":"alice","metadata":{"k":1.50},"categories":["food"],
        "created_at":"2025-01-01T00:00:00-07:00","updated_at":"2025-02-01T00:00:00Z","score":0.3,
        "history":[{"memory_id":"m","new_memory":"likes tea","event":"ADD","created_at":"2025-01-01T07:00:00Z"},
                   {"memory_id":"m","old_memory":"likes tea","new_memory":"likes coffee","event":"UPDATE","updated_at":"2025-02-01T00:00:00Z"}]}]}"#;
    let part = parsed(text, TranscriptKind::Mem0);
    assert_eq!(
        facts(&part),
        [
            "alice mg:knows likes tea",
            "alice mg:knows likes coffee < likes tea"
        ]
    );
    let newest = json(&part.grains[1]);
    assert_eq!(self::text(&newest, "user_id"), "alice");
    let context = newest.get("context").unwrap();
    assert_eq!(
        (
            self::text(context, "mem0:metadata"),
            context.get("mem0:score")
        ),
        (r#"{"k":1.50}"#, None)
    );
}

/// Returns `count` versions of one memory, each with another text and another user.
fn versions_of_a_memory(count: usize) -> String {
    let version = |number: usize| {
        let time = 1_700_000_000 + number;
        format!(r#"{{"id":"m","memory":"v{number}","user_id":"u{number}","created_at":{time}}}"#)
    };
    (0..count).map(version).collect::<Vec<_>>().join("\n")
}

#[test]
fn many_versions_of_one_memory_are_linked_in_linear_time() {
    let few = facts(&parsed(&versions_of_a_memory(3), TranscriptKind::Mem0));
    let expected = [
        "u2 mg:knows v0",
        "u2 mg:knows v1 < v0",
        "u2 mg:knows v2 < v1",
    ];
    assert_eq!(few, expected);
    // Passing over all earlier versions for each one would take minutes.
    let part = parsed(&versions_of_a_memory(20_000), TranscriptKind::Mem0);
    assert_eq!(part.grains.len(), 20_000);
}

#[test]
fn responses_of_the_api_and_of_the_command_line_are_read() {
    for text in [
        r#"{"results":[{"id":"1","data":{"memory":"x"},"event":"ADD"}],"status":"SUCCEEDED"}"#,
        r#"{"status":"success","command":"add","data":[{"id":"1","memory":"x","event":"ADD"}]}"#,
        r#"{"event_details":{"id":"1","data":{"memory":"x"},"event":"ADD"}}"#,
        r#"[{"id":"1","memory":"x","hash":"h"}]"#,
    ] {
        let part = parsed(text, TranscriptKind::Mem0);
        assert_eq!(
            (facts(&part), part.faults),
            (vec!["mem0:1 mg:knows x".to_owned()], vec![]),
            "{text}"
        );
    }
}

#[test]
fn an_agent_file_has_blocks_passages_and_a_conversation() {
    let text = r#"{"agents":[{"id":"agent-0","name":"sam","block_ids":["block-0"],"llm_config":{"handle":"openai/gpt-4o"},"messages":[
          {"role":"system","content":[{"type":"text","text":"be kind"}],"created_at":"2025-01-01T00:00:00Z"},
          {"role":"user","content":"hi","created_at":"2025-01-01T00:00:01Z"},
          {"role":"assistant","content":[],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"send","arguments":"{\"m\":\"yo\"}"}}]},
          {"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"ok"}]},
          {"role":"alien","content":"?"}]}],
        "blocks":[{"id":"block-0","label":"human","value":"Chad","limit":20}],
        "block_history":[{"id":"x","block_id":"block-0","sequence_number":1,"label":"human","value":"unknown","limit":20}],
        "passages":[{"id":"p","text":"likes sailing"}],"created_at":"2025-01-02T00:00:00Z"}"#;
    let part = parsed(text, TranscriptKind::Letta);
    assert_eq!(
        facts(&part),
        [
            "sam human unknown",
            "sam human Chad < unknown",
            "agent archival_memory likes sailing"
        ]
        .map(|line| line.replace("agent archival", "sam archival"))
    );
    let roles: Vec<_> = part
        .messages
        .iter()
        .map(|placed| placed.message.role)
        .collect();
    assert_eq!(
        roles,
        [Role::System, Role::User, Role::Assistant, Role::Tool]
    );
    assert_eq!(
        part.messages[2].message.metadata.model.as_deref(),
        Some("openai:gpt-4o")
    );
    let [ContentBlock::ToolUse(call)] = &part.messages[2].message.content[..] else {
        panic!("no call")
    };
    assert_eq!(
        (
            call.input.len(),
            part.messages[3]
                .message
                .metadata
                .parent_tool_use_id
                .as_deref()
        ),
        (1, Some(&*call.id))
    );
    assert_eq!(
        (part.faults.len(), part.faults[0].code.name()),
        (1, "ERR_SHAPE")
    );
    // A file that is a JSON string, and a file of the first version.
    let wrapped = Json::from(text.to_owned()).to_string();
    assert_eq!(
        facts(&self::parsed(&wrapped, TranscriptKind::Letta)).len(),
        3
    );
    let first = r#"{"agent_type":"memgpt_agent","name":"old","core_memory":[{"label":"persona","value":"I"}],"messages":[{"role":"user","text":"x"}]}"#;
    let first = self::parsed(first, TranscriptKind::Letta);
    assert_eq!(
        (facts(&first), first.messages.len()),
        (vec!["old persona I".to_owned()], 1)
    );
}

#[test]
fn an_expired_edge_is_superseded_by_the_one_that_begins_when_it_ended() {
    let edge = |uuid: &str, target: &str, name: &str, times: &str| {
        format!(
            r#"{{"uuid":"{uuid}","source_node_uuid":"a","target_node_uuid":"{target}","name":"{name}","fact":"fact {uuid}","group_id":"g",{times}}}"#
        )
    };
    let ended = r#""created_at":"2025-01-01T00:00:00Z","valid_at":"2024-12-01T00:00:00Z","invalid_at":"2025-03-01T00:00:00Z","expired_at":"1970-01-01T00:00:01Z""#;
    let begun = r#""created_at":"2025-03-02T00:00:00Z","valid_at":"2025-03-01T00:00:00Z""#;
    let lines = [
        r#"{"uuid":"a","name":"Alice","labels":["Entity"],"summary":"a person","created_at":"2025-01-01T00:00:00Z"}"#
            .to_owned(),
        r#"{"uuid":"b","name":"Rome","summary":"","created_at":"2025-01-01T00:00:00Z"}"#.to_owned(),
        edge("2", "c", "LIVES_IN", begun),
        edge("1", "b", "LIVES_IN", ended),
        edge("3", "b", "KNOWS", begun),
        edge("4", "b", "OWNS", &ended.replace("2025-03-01", "2025-04-01")),
    ];
    let part = parsed(&lines.join("\n"), TranscriptKind::Zep);
    let expected = [
        "Alice LIVES_IN Rome",
        "Alice OWNS Rome ! 1000",
        "Alice LIVES_IN fact 2 < Rome",
        "Alice KNOWS Rome",
        "Alice summary a person",
    ];
    assert_eq!(facts(&part), expected);
    let old = json(&part.grains[0]);
    assert_eq!(
        old.get("valid_to").and_then(Json::as_i64),
        Some(1_740_787_200_000)
    );
    assert_eq!(
        self::text(old.get("context").unwrap(), "zep:fact"),
        "fact 1"
    );
}

/// Returns `count` edges of one subject that all begin and end at the same time.
fn simultaneous_edges(count: usize) -> String {
    let edge = |number: usize| {
        format!(
            r#"{{"uuid":"{number:06}","source_node_uuid":"a","target_node_uuid":"t{number}","name":"n{}","fact":"f{number}","created_at":"2025-01-01T00:00:00Z","valid_at":"2025-01-01T00:00:00Z","invalid_at":"2025-01-01T00:00:00Z"}}"#,
            number % 2
        )
    };
    (0..count).map(edge).collect::<Vec<_>>().join("\n")
}

#[test]
fn edges_that_begin_and_end_at_once_are_linked_in_nearly_linear_time() {
    let few = facts(&parsed(&simultaneous_edges(4), TranscriptKind::Zep));
    assert_eq!(
        few,
        ["a n0 f0", "a n1 f1", "a n0 f2 < f0", "a n1 f3 < f1 < f2"]
    );
    // Comparing each edge with each other one would take minutes.
    let part = parsed(&simultaneous_edges(20_000), TranscriptKind::Zep);
    let superseding = part
        .grains
        .iter()
        .filter(|grain| !grain.supersedes.is_empty());
    assert_eq!(superseding.count(), 20_000 - 2);
}

#[test]
fn threads_are_conversations() {
    let lines = r#"{"thread_id":"t","role":"user","name":"Morgan","content":"one","created_at":"2025-01-01T00:00:00Z"}
        {"thread_id":"u","role":"user","content":"other","created_at":"2025-01-01T00:00:00Z"}
        {"thread_id":"t","role":"assistant","content":"two","created_at":"2025-01-01T00:00:01Z"}
        {"thread_id":"t","role":"ghost","content":"?"}"#;
    let part = parsed(lines, TranscriptKind::Zep);
    assert_eq!(part.messages[2].parent, Some(part.messages[0].position));
    assert_eq!(part.messages[0].message.session_id, "t");
    assert_eq!(
        part.faults
            .iter()
            .map(|fault| fault.number)
            .collect::<Vec<_>>(),
        [4]
    );
}

#[test]
fn items_of_a_store_are_facts_and_each_write_is_a_version() {
    let lines = r#"{"namespace":["memories","bob"],"key":"food","value":{"text":"tea"},"created_at":"2025-01-01T00:00:00Z","updated_at":"2025-01-01T00:00:00Z"}
        {"namespace":["memories","bob"],"key":"food","value":{"text":"coffee"},"created_at":"2025-01-01T00:00:00Z","updated_at":"2025-01-02T00:00:00Z"}
        {"namespace":["x"],"key":"k","value":{"a":1,"b":[2]},"updated_at":"2025-01-02T00:00:00Z"}
        {"namespace":["x"],"key":"k","value":null,"updated_at":"1970-01-01T00:00:02Z"}"#;
    let expected = [
        "memories/bob food tea",
        "memories/bob food coffee < tea",
        r#"x k {"a":1,"b":[2]} ! 2000"#,
    ];
    assert_eq!(facts(&parsed(lines, TranscriptKind::LangGraph)), expected);
}

#[test]
fn snapshots_give_each_message_once_and_a_version_for_each_change_of_a_channel() {
    let message = |class: &str, rest: &str| {
        format!(
            r#"{{"lc":1,"type":"constructor","id":["langchain","schema","messages","{class}"],"kwargs":{{{rest}}}}}"#
        )
    };
    let human = message("HumanMessage", r#""content":"weather?","type":"human""#);
    let call = message(
        "AIMessage",
        r#""content":[{"type":"tool_use","id":"t1","name":"w","input":{"c":1}}],"type":"ai","tool_calls":[{"name":"w","args":{"c":1},"id":"t1","type":"tool_call"}],
        "response_metadata":{"model_name":"m"},"usage_metadata":{"input_tokens":10,"output_tokens":2,"input_token_details":{"cache_read":4}}"#,
    );
    let result = message(
        "ToolMessage",
        r#""content":"sunny","type":"tool","tool_call_id":"t1","status":"success""#,
    );
    let snapshot = |second: u32, step: u32, messages: &[&str], count: u32| {
        format!(
            r#"{{"values":{{"messages":[{}],"count":{count}}},"config":{{"configurable":{{"thread_id":"t","checkpoint_ns":"","checkpoint_id":"c{step}"}}}},"metadata":{{"step":{step}}},"created_at":"2025-01-01T00:00:0{second}Z"}}"#,
            messages.join(",")
        )
        .replace('\n', "")
    };
    // LangGraph returns the newest first.
    let lines = [
        snapshot(3, 2, &[&human, &call, &result], 2),
        snapshot(2, 1, &[&human, &call], 1),
        snapshot(1, 0, &[&human], 1),
    ];
    let part = parsed(&lines.join("\n"), TranscriptKind::LangGraph);
    assert!(part.faults.is_empty());
    assert_eq!(facts(&part), ["t count 1", "t count 2 < 1"]);
    let roles: Vec<_> = part
        .messages
        .iter()
        .map(|placed| placed.message.role)
        .collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    let ContentBlock::ToolUse(call) = &part.messages[1].message.content[0] else {
        panic!("no call")
    };
    assert_eq!(
        part.messages[2]
            .message
            .metadata
            .parent_tool_use_id
            .as_deref(),
        Some(&*call.id)
    );
    assert_eq!(
        part.messages[1]
            .usage
            .map(|usage| (usage.input_tokens, usage.cached_input_tokens)),
        Some((6, 4))
    );
    let counts = grains_of_part(part, ReadOptions::default(), &mut |_| {});
    assert_eq!(
        (counts.messages, counts.orphan_results, counts.other_grains),
        (3, 0, 2)
    );
}

#[test]
fn ids_that_are_numbers_keep_memories_users_and_threads_apart() {
    let memories = r#"[{"id":1,"memory":"x","user_id":7},{"id":2,"memory":"y","user_id":7}]"#;
    let part = parsed(memories, TranscriptKind::Mem0);
    assert_eq!(facts(&part), ["7 mg:knows x", "7 mg:knows y"]);
    assert_eq!(text(&json(&part.grains[0]), "user_id"), "7");
    let snapshot = |thread: u32| {
        format!(
            r#"{{"values":{{"messages":[{{"type":"human","content":"hi"}}]}},"config":{{"configurable":{{"thread_id":{thread}}}}}}}"#
        )
    };
    let thread =
        |id: u32| format!(r#"{{"session_id":{id},"messages":[{{"role":"user","content":"hi"}}]}}"#);
    for (lines, kind) in [
        ([snapshot(1), snapshot(2)], TranscriptKind::LangGraph),
        ([thread(1), thread(2)], TranscriptKind::Zep),
    ] {
        let part = parsed(&lines.join("\n"), kind);
        let sessions = part
            .messages
            .iter()
            .map(|placed| &*placed.message.session_id);
        assert_eq!(sessions.collect::<Vec<_>>(), ["1", "2"]);
    }
}

#[test]
fn items_of_lists_that_are_not_read_are_one_fault() {
    for (text, kind) in [
        (
            r#"{"results":[{"id":"1","memory":"x"},{"text":"y"},5]}"#,
            TranscriptKind::Mem0,
        ),
        (
            r#"{"edges":[{"uuid":"1","fact":"x"},{"text":"y"},5]}"#,
            TranscriptKind::Zep,
        ),
        (
            r#"{"items":[{"namespace":"a","key":"k","value":"x"},{"text":"y"},5]}"#,
            TranscriptKind::LangGraph,
        ),
        (
            r#"{"results":[{"id":"1","memory":"x"}],"relations":[{"source":"a"},{"source":"b"}]}"#,
            TranscriptKind::Mem0,
        ),
        (
            r#"{"edges":[{"uuid":"1","fact":"x"}],"nodes":[{"summary":"y"},{"uuid":"2","summary":"z"},{"uuid":"3","name":"n"}]}"#,
            TranscriptKind::Zep,
        ),
        (
            r#"{"agents":[{"name":"a","archival_memory":["y",{"text":null}]}],"blocks":[{"label":"l","value":"x"},{"value":"z"}]}"#,
            TranscriptKind::Letta,
        ),
    ] {
        let part = parsed(text, kind);
        let faults: Vec<_> = part.faults.iter().map(|fault| &*fault.message).collect();
        let expected = "2 items of its lists have a form that isn't read";
        assert_eq!((part.grains.len(), faults), (1, vec![expected]), "{text}");
    }
}

#[test]
fn statements_of_the_graph_of_mem0_are_facts_of_the_user_of_the_response() {
    let listed = r#"{"results":[{"id":"1","memory":"x","user_id":"joseph"}],"relations":[
        {"source":"joseph","source_type":"person","relationship":"city","target":"seattle","score":0.4},
        {"source":"joseph","relationship":"job","destination":"engineer"},
        {"source":"joseph","relationship":"city","target":"seattle"},
        {"source":"joseph","relationship":"","target":"y"}]}"#;
    let added = r#"{"results":[{"id":"1","memory":"x","event":"ADD","user_id":"a"},
        {"id":"2","memory":"y","event":"ADD","user_id":"b"}],"relations":{
        "added_entities":[[],[{"source":"a","relationship":"likes","target":"b"}]],
        "deleted_entities":[[],[{"source":"a","relationship":"likes","target":"c"}]]}}"#;
    let of_joseph = [
        "joseph mg:knows x",
        "joseph city seattle",
        "joseph job engineer",
    ];
    let of_both = ["a mg:knows x", "b mg:knows y", "a likes b"];
    for (text, expected, user) in [(listed, of_joseph, "joseph"), (added, of_both, "")] {
        let part = parsed(text, TranscriptKind::Mem0);
        assert_eq!(facts(&part), expected);
        let faults: Vec<_> = part.faults.iter().map(|fault| &*fault.message).collect();
        assert_eq!(faults, ["1 items of its lists have a form that isn't read"]);
        assert_eq!(self::text(&json(&part.grains[2]), "user_id"), user);
    }
    let city = json(&parsed(listed, TranscriptKind::Mem0).grains[1]);
    let context = city.get("context").unwrap();
    let kind = self::text(context, "mem0:source_type");
    assert_eq!((kind, context.get("mem0:score")), ("person", None));
}

#[test]
fn the_summary_of_a_node_without_a_name_is_a_fact_about_its_id() {
    for name in ["null", "\"\""] {
        let text = format!(
            r#"{{"edges":[{{"uuid":"1","fact":"x"}}],"nodes":[{{"uuid":"2","name":{name},"summary":"y"}}]}}"#
        );
        let part = parsed(&text, TranscriptKind::Zep);
        assert_eq!(facts(&part), ["zep:1 mg:knows x", "zep:2 summary y"]);
        assert!(part.faults.is_empty(), "{name}");
    }
}

#[test]
fn a_channel_named_messages_that_is_no_list_is_a_fact() {
    let text = r#"{"values":{"messages":"none yet"},"config":{"configurable":{"thread_id":"t"}},"created_at":"2025-01-01T00:00:00Z"}"#;
    let part = parsed(text, TranscriptKind::LangGraph);
    assert_eq!(facts(&part), ["t messages none yet"]);
}

#[test]
fn entries_of_other_systems_are_faults() {
    let part = parse_export(
        b"{\"memory_id\":\"1\",\"event\":\"ADD\",\"new_memory\":\"x\"}\n{\"a\":1}\noops",
        TranscriptKind::Mem0,
        ReadOptions::default(),
    );
    let faults: Vec<_> = part
        .faults
        .iter()
        .map(|fault| (fault.number, fault.code.name()))
        .collect();
    assert_eq!(faults, [(2, "ERR_SHAPE"), (3, "ERR_JSON")]);
    assert_eq!(part.grains.len(), 1);
}
