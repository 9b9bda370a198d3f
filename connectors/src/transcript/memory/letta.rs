//! Letta: agent files (`.af`) of both versions, and the checkpoints of their memory blocks.

use std::borrow::Cow;
use std::collections::HashMap;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::{Role, Timestamp};

use super::ExportReader;
use super::fact::Fact;
use super::framework_message::{parse_message, role_from_name};
use super::version_chains::VersionChains;
use crate::lenient_timestamp::first_timestamp;
use crate::transcript::conversation_builder::{ConversationBuilder, FirstMessages};
use crate::transcript::entries::parse_document;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;
use crate::wire::json_access::{items, present, text};

/// The relation of passages, which have no label.
const PASSAGE_RELATION: &str = "archival_memory";

/// Members of an agent with its memory blocks.
const BLOCK_LISTS: [&str; 2] = ["core_memory", "memory_blocks"];

/// Members of a file with memory blocks of its agents.
const SHARED_BLOCK_LISTS: [&str; 2] = ["block_history", "blocks"];

/// Members of an agent with passages.
const PASSAGE_LISTS: [&str; 3] = ["passages", "archival_memory", "archival_passages"];

/// The subject of facts without an owner.
const DEFAULT_OWNER: &str = "letta";

/// Maximum number of checkpoints of a block with distinct times.
const CHECKPOINTS_LIMIT: i64 = 1 << 20;

/// Members of a block that have a field in the grain or aren't about the fact.
const BLOCK_REPRESENTED: [&str; 11] = [
    "value",
    "label",
    "created_at",
    "updated_at",
    "limit",
    "text",
    "sequence_number",
    "embedding",
    "embedding_config",
    "block_id",
    "id",
];

/// The same of a passage.
const PASSAGE_REPRESENTED: [&str; 10] = [
    "value",
    "label",
    "created_at",
    "updated_at",
    "limit",
    "text",
    "sequence_number",
    "embedding",
    "embedding_config",
    "content",
];

/// Returns true for an entry of Letta.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    let has_list = |key: &str| json.get(key).and_then(Json::as_array).is_some();
    let has_text = |key: &str| json.get(key).and_then(Json::as_str).is_some();
    has_list("agents") && has_list("blocks")
        || has_list("core_memory") && (has_list("messages") || has_text("agent_type"))
        || has_text("label")
            && has_text("value")
            && (json.get("limit").is_some() || json.get("block_id").is_some())
}

/// Returns the document in an agent file that is a JSON string, as some exports are.
pub(in crate::transcript) fn unwrap_string(bytes: &[u8]) -> Option<String> {
    if !bytes.trim_ascii_start().starts_with(b"\"") {
        return None;
    }
    let text = parse_document(bytes)?.ok()?.as_str()?.to_owned();
    let document = Json::parse(text.as_bytes()).ok()?;
    is_entry(&document).then_some(text)
}

/// The agent files and blocks of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct LettaExport {
    files: Vec<(Json<'static>, Line)>,
    blocks: Vec<(Json<'static>, Line)>,
}

impl ExportReader for LettaExport {
    fn add(&mut self, json: &Json, line: &Line) -> bool {
        if !is_entry(json) {
            return false;
        }
        let is_block = json.get("value").is_some();
        let list = if is_block {
            &mut self.blocks
        } else {
            &mut self.files
        };
        list.push((json.clone().into_owned(), line.clone()));
        true
    }

    fn count_unknown_items(&self, json: &Json) -> usize {
        let is_block = |item: &Json| block_fact(item).is_some();
        let is_passage = |item: &Json| passage_text(item).is_some();
        let agents = items(json, "agents").iter().chain([json]);
        let of_agents = agents.map(|agent| {
            count_unread(agent, &BLOCK_LISTS, is_block)
                + count_unread(agent, &PASSAGE_LISTS, is_passage)
        });
        of_agents.sum::<usize>() + count_unread(json, &SHARED_BLOCK_LISTS, is_block)
    }

    fn finish(self: Box<Self>, options: ReadOptions<'_>, part: &mut ParsedPart) {
        let mut chains = VersionChains::default();
        let mut first_messages = FirstMessages::default();
        for (file, line) in &self.files {
            let file = AgentFile::new(file, line, options.fallback);
            file.push_facts(&mut chains);
            let shared = file.is_shared().then_some(file.json);
            for agent in file.agents.iter().copied().chain(shared) {
                file.read_conversation(agent, &mut first_messages, part);
            }
        }
        for (block, line) in &self.blocks {
            let owner = text(block, "agent_id").unwrap_or(DEFAULT_OWNER.into());
            push_block(block, &owner, line, options.fallback, &mut chains);
        }
        chains.emit(options.namespace, part);
    }
}

/// An agent file.
struct AgentFile<'d> {
    json: &'d Json<'d>,
    line: &'d Line,
    /// When the file was written.
    time: Timestamp,
    /// The agents; a file of the first version is one agent itself.
    agents: Vec<&'d Json<'d>>,
}

impl<'d> AgentFile<'d> {
    fn new(json: &'d Json<'d>, line: &'d Line, fallback: Timestamp) -> AgentFile<'d> {
        let agents = match json.get("agents").and_then(Json::as_array) {
            Some(agents) => agents.iter().collect(),
            None => vec![json],
        };
        AgentFile {
            json,
            line,
            time: first_timestamp(json, &["created_at", "updated_at"]).unwrap_or(fallback),
            agents,
        }
    }

    /// Returns the name of the first agent, which owns blocks without an owner.
    fn default_owner(&self) -> String {
        agent_name(self.agents.first().unwrap_or(&self.json))
    }

    /// Adds the blocks and passages of the file and of its agents.
    fn push_facts(&self, chains: &mut VersionChains) {
        self.push_shared_blocks(chains);
        for agent in &self.agents {
            let name = agent_name(agent);
            for key in BLOCK_LISTS {
                for block in items(agent, key) {
                    push_block(block, &name, self.line, self.time, chains);
                }
            }
            for key in PASSAGE_LISTS {
                for passage in items(agent, key) {
                    self.push_passage(passage, &name, chains);
                }
            }
        }
        if self.is_shared() {
            for passage in PASSAGE_LISTS.iter().flat_map(|key| items(self.json, key)) {
                let owner = text(passage, "agent_id").map(Cow::into_owned);
                let owner = owner.unwrap_or_else(|| self.default_owner());
                self.push_passage(passage, &owner, chains);
            }
        }
    }

    /// Returns true if the file has a list of agents, and so isn't one itself.
    fn is_shared(&self) -> bool {
        self.json.get("agents").and_then(Json::as_array).is_some()
    }

    /// Adds the blocks of the file, which agents refer to by id.
    fn push_shared_blocks(&self, chains: &mut VersionChains) {
        let mut owners: HashMap<&str, String> = HashMap::new();
        for agent in &self.agents {
            for id in items(agent, "block_ids").iter().filter_map(Json::as_str) {
                owners.entry(id).or_insert_with(|| agent_name(agent));
            }
        }
        // Those of a file that is an agent are read with the agent.
        let of_agents = BLOCK_LISTS.iter().filter(|_| self.is_shared());
        for key in SHARED_BLOCK_LISTS.iter().chain(of_agents) {
            for block in items(self.json, key) {
                let owner = block_id(block).and_then(|id| owners.get(&*id).cloned());
                let owner = owner.unwrap_or_else(|| self.default_owner());
                push_block(block, &owner, self.line, self.time, chains);
            }
        }
    }

    fn push_passage(&self, passage: &Json, owner: &str, chains: &mut VersionChains) {
        let Some(content) = passage_text(passage) else {
            return;
        };
        let time = first_timestamp(passage, &["created_at", "updated_at"]).unwrap_or(self.time);
        let mut fact = Fact::new(
            self.line.clone(),
            owner,
            PASSAGE_RELATION,
            content.into_owned(),
            time,
        );
        fact.add_context("letta", passage, &PASSAGE_REPRESENTED);
        let id =
            text(passage, "id").map_or_else(|| format!("{owner} {}", fact.object), Cow::into_owned);
        chains.push(format!("passage {id}"), fact);
    }

    /// Reads the conversation of an agent. It is unnamed, because the ids of agents are unique only
    /// within their file.
    fn read_conversation(
        &self,
        agent: &Json,
        first_messages: &mut FirstMessages,
        part: &mut ParsedPart,
    ) {
        let mut conversation = ConversationBuilder::new("");
        let model = agent
            .get("llm_config")
            .and_then(|config| text(config, "handle"))
            .map(|handle| handle.replacen('/', ":", 1));
        for (index, message) in items(agent, "messages").iter().enumerate() {
            let Some(role) = text(message, "role").and_then(|role| role_from_name(&role)) else {
                let reason = format!(
                    "message {index} of agent {} has no role that is known",
                    agent_name(agent)
                );
                part.faults.push(self.line.fault(FaultCode::Shape, reason));
                continue;
            };
            let time = first_timestamp(message, &["created_at", "date"]).unwrap_or(self.time);
            let parsed = parse_message(role, &with_content(message));
            first_messages.separate(&mut conversation, parsed.role, &parsed.content, time, false);
            let mut built = conversation.push(parsed.role, parsed.content, time);
            if built.message.role == Role::Assistant {
                built.message.metadata.model = model.clone().map(Into::into);
            }
            part.messages.push(built.into_placed(self.line.clone()));
        }
    }
}

/// Returns the name of an agent, or its id if it has none.
fn agent_name(agent: &Json) -> String {
    let name = ["name", "id"]
        .iter()
        .find_map(|key| text(agent, key).filter(|text| !text.is_empty()));
    name.map_or_else(|| DEFAULT_OWNER.to_owned(), Cow::into_owned)
}

/// Returns the message with its text in `content`; files of the first version have it in `text`.
fn with_content<'m>(message: &'m Json<'m>) -> Json<'m> {
    let mut message = message.reborrow();
    if let Some(object) = message.as_object_mut()
        && !object.contains_key("content")
        && let Some(text) = object.get("text").cloned()
    {
        object.insert("content", text);
    }
    message
}

/// Returns the label and the value of a memory block.
fn block_fact<'j>(block: &'j Json<'_>) -> Option<(Cow<'j, str>, Cow<'j, str>)> {
    Some((text(block, "label")?, text(block, "value")?))
}

fn passage_text<'j>(passage: &'j Json<'_>) -> Option<Cow<'j, str>> {
    text(passage, "text").or_else(|| text(passage, "content"))
}

/// Returns the number of items in the lists `keys` that aren't read, except objects whose texts are
/// all null or missing.
fn count_unread(json: &Json, keys: &[&str], is_read: fn(&Json) -> bool) -> usize {
    let is_empty = |item: &Json| {
        let has = |key: &&str| present(item, key).is_some();
        item.as_object().is_some() && !["value", "text", "content"].iter().any(has)
    };
    let listed = keys.iter().flat_map(|key| items(json, key));
    let unread = listed.filter(|item| !is_read(item) && !is_empty(item));
    unread.count()
}

fn block_id<'j>(block: &'j Json<'_>) -> Option<Cow<'j, str>> {
    text(block, "block_id").or_else(|| text(block, "id"))
}

/// Adds a memory block, or a checkpoint of one, as a version.
fn push_block(
    block: &Json,
    owner: &str,
    line: &Line,
    fallback: Timestamp,
    chains: &mut VersionChains,
) {
    let Some((label, value)) = block_fact(block) else {
        return;
    };
    let recorded = first_timestamp(block, &["updated_at", "created_at"]);
    let id = block_id(block).map_or_else(|| label.to_string(), Cow::into_owned);
    let key = format!("{owner} {id}");
    let time = recorded.unwrap_or_else(|| checkpoint_time(block, fallback));
    let mut fact = Fact::new(line.clone(), owner, &label, value.into_owned(), time);
    fact.add_context("letta", block, &BLOCK_REPRESENTED);
    fact.context.insert("letta:block_id", id);
    let is_known = recorded.is_none() && chains.has_object(&key, &fact.object);
    if !is_known {
        chains.push(key, fact);
    }
}

/// Returns the time of a block without one. Checkpoints have a sequence number instead: their times
/// are a millisecond apart, in its order, before that of the block itself.
fn checkpoint_time(block: &Json, fallback: Timestamp) -> Timestamp {
    match block.get("sequence_number").and_then(Json::as_i64) {
        Some(number) => {
            let millis_before = CHECKPOINTS_LIMIT - number.clamp(0, CHECKPOINTS_LIMIT - 1);
            let micros = fallback.micros().saturating_sub(millis_before * 1_000);
            Timestamp::from_micros(micros).with_source(fallback.source())
        }
        None => fallback,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_export;
    use super::super::tests::facts;
    use super::*;
    use crate::transcript::grain_output::grains_of_part;
    use crate::transcript::kind::TranscriptKind;

    #[test]
    fn agents_that_begin_alike_have_conversations_of_their_own() {
        let agent = |day: u8| {
            format!(
                r#"{{"messages":[{{"role":"assistant","created_at":"2026-05-0{day}T12:00:00Z",
                "tool_calls":[{{"id":"c","function":{{"name":"login","arguments":"{{}}"}}}}]}},
                {{"role":"tool","tool_call_id":"c","created_at":"2026-05-0{day}T12:00:01Z",
                "content":"day {day}"}}]}}"#
            )
        };
        let text = format!(r#"{{"agents":[{},{}],"blocks":[]}}"#, agent(1), agent(2));
        let options = ReadOptions::default();
        let part = parse_export(text.as_bytes(), TranscriptKind::Letta, options);
        let counts = grains_of_part(part, options, &mut |_| {});
        assert_eq!((counts.messages, counts.orphan_results), (4, 0));
    }

    #[test]
    fn lists_next_to_the_agents_of_a_file_are_read() {
        let text = r#"{"agents":[{"name":"sam","block_ids":[]},{"name":"ada","block_ids":["b"]}],
            "core_memory":[{"label":"human","value":"Chad","limit":9},
                {"id":"b","label":"persona","value":"I"}],
            "passages":[{"id":"p","text":"likes sailing"}],
            "archival_memory":[{"id":"q","text":"has a boat"}],
            "archival_passages":[{"id":"r","content":"was in Rome","agent_id":"ada"},{"id":"s"},5],
            "messages":[{"role":"user","content":"hi"}]}"#;
        let part = parse_export(
            text.as_bytes(),
            TranscriptKind::Letta,
            ReadOptions::default(),
        );
        let expected = [
            "sam human Chad",
            "ada persona I",
            "sam archival_memory likes sailing",
            "sam archival_memory has a boat",
            "ada archival_memory was in Rome",
        ];
        assert_eq!(facts(&part), expected);
        assert_eq!(part.messages.len(), 1);
        let faults = part.faults.iter().map(|fault| &*fault.message);
        let expected = "1 items of its lists have a form that isn't read";
        assert_eq!(faults.collect::<Vec<_>>(), [expected]);
    }
}
