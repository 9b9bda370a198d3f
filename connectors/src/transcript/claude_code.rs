//! Sessions of Claude Code.
//!
//! Lines name the line before them (`parentUuid`), so a session is a tree; lines that are no
//! messages (progress, snapshots, notices) stand between messages and are passed through. One
//! answer of the model is split over several lines that repeat its id and its usage, with results
//! of its calls between them: they are one message here, the results follow it one after the other,
//! and its usage counts once. Subagents have roots of their own.
//!
//! What Claude Code writes for other programs (`stream-json`) names no line before: there a line
//! follows the last one of its session, or of its subagent.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::{Message, MessageStatus, Role, Timestamp, model_id};

use super::line::{FaultCode, Line, LineFault, lines};
use super::said::{Messages, Said};
use crate::wire::adapter::Adapter;
use crate::wire::anthropic;
use crate::wire::body_codec::{read_request, read_response};
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::json_access::{count, items, text};

/// A line that may stand in the tree.
#[derive(Debug)]
struct Entry {
    line: Line,
    parent: Option<String>,
    session: String,
    time: Option<Timestamp>,
    /// `user` or `assistant` with a message; others only lead on.
    message: Option<Json<'static>>,
    /// The message tells that a request failed.
    failed: bool,
}

impl Entry {
    /// The id of the answer that it is a piece of.
    fn answer_id(&self) -> Option<&str> {
        let message = self
            .message
            .as_ref()
            .filter(|message| text(message, "role").as_deref() == Some("assistant"))?;
        message.get("id").and_then(Json::as_str)
    }

    /// True if it tells what tools answered and nothing else.
    fn is_result(&self) -> bool {
        let content = self
            .message
            .as_ref()
            .map_or(&[][..], |message| items(message, "content"));
        !content.is_empty()
            && content
                .iter()
                .all(|block| text(block, "type").as_deref() == Some("tool_result"))
    }
}

/// The messages of a session file. Lines without a time were made at `time`.
pub fn session(bytes: &[u8], time: Timestamp) -> Messages {
    let (mut entries, mut order, mut faults) = (HashMap::new(), Vec::new(), Vec::new());
    let mut streams = HashMap::new();
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) if json.as_object().is_some() => {
                let Some((uuid, entry)) = entry(&json, line, &mut streams) else {
                    continue;
                };
                if let Slot::Vacant(slot) = entries.entry(uuid) {
                    order.push(slot.key().clone());
                    slot.insert(entry);
                }
            }
            Ok(_) => faults.push(line.fault(FaultCode::Shape, "not an object")),
            Err(fault) => faults.push(fault),
        }
    }
    let tree = Forest::of(entries, order);
    let mut said = tree.walk(time, &mut faults);
    said.sort_by_key(|said| said.line.number);
    (said, faults)
}

/// The last line of each session, and of each subagent by the call that began it, where lines don't
/// name the one before.
type Streams = HashMap<(String, String), String>;

fn entry(json: &Json, line: Line, streams: &mut Streams) -> Option<(String, Entry)> {
    let text = |key| json.get(key).and_then(Json::as_str);
    let kind = text("type")?;
    let message = json
        .get("message")
        .filter(|_| matches!(kind, "user" | "assistant"));
    let streamed = text("session_id")
        .filter(|_| json.get("sessionId").is_none() && json.get("parentUuid").is_none());
    let (uuid, parent) = match streamed {
        Some(session) => {
            message?;
            let uuid = text("uuid").map_or_else(|| line.number.to_string(), str::to_owned);
            let agent = text("parent_tool_use_id").unwrap_or_default();
            let before = streams.insert((session.to_owned(), agent.to_owned()), uuid.clone());
            (uuid, before)
        }
        None => {
            let parent = text("parentUuid").or_else(|| text("logicalParentUuid"));
            (text("uuid")?.to_owned(), parent.map(str::to_owned))
        }
    };
    let entry = Entry {
        line,
        parent,
        session: text("sessionId")
            .or(streamed)
            .unwrap_or_default()
            .to_owned(),
        time: text("timestamp").and_then(Timestamp::parse),
        message: message.map(|message| message.clone().into_owned()),
        failed: json.get("isApiErrorMessage").and_then(Json::as_bool) == Some(true),
    };
    Some((uuid, entry))
}

/// The lines of a file by what they follow.
struct Forest {
    entries: HashMap<String, Entry>,
    children: HashMap<String, Vec<String>>,
    /// Lines that follow none of the file, and then all others in their order, for files whose
    /// lines run in circles.
    starts: Vec<String>,
}

impl Forest {
    fn of(entries: HashMap<String, Entry>, order: Vec<String>) -> Forest {
        let mut children: HashMap<String, Vec<String>> = HashMap::new();
        let mut starts = Vec::new();
        for uuid in &order {
            match entries
                .get(uuid)
                .and_then(|entry| entry.parent.clone())
                .filter(|parent| entries.contains_key(parent))
            {
                Some(parent) => children.entry(parent).or_default().push(uuid.clone()),
                None => starts.push(uuid.clone()),
            }
        }
        starts.extend(order);
        Forest {
            entries,
            children,
            starts,
        }
    }

    /// Walks every tree from its root; a conversation is copied only where it branches.
    fn walk(mut self, time: Timestamp, faults: &mut Vec<LineFault>) -> Vec<Said> {
        let mut said = Vec::new();
        let mut done: HashSet<String> = HashSet::new();
        let mut answers: HashSet<String> = HashSet::new();
        for start in std::mem::take(&mut self.starts) {
            if done.contains(&start) {
                continue;
            }
            let session = self
                .entries
                .get(&start)
                .map(|entry| entry.session.clone())
                .unwrap_or_default();
            let mut stack = vec![(
                start,
                Place {
                    conversation: Conversation::new(&session),
                    last: None,
                },
            )];
            while let Some((uuid, mut place)) = stack.pop() {
                if !done.insert(uuid.clone()) {
                    continue;
                }
                if let Some(mut run) = self.run(&uuid, &mut done) {
                    run.counted = run.answer_id().is_some_and(|id| !answers.insert(id));
                    place.read(run, time, &mut said, faults);
                }
                let mut next: Vec<String> = self.children.remove(&uuid).unwrap_or_default();
                next.retain(|uuid| !done.contains(uuid));
                let Some(first) = next.first().cloned() else {
                    continue;
                };
                stack.extend(
                    next.into_iter()
                        .skip(1)
                        .rev()
                        .map(|uuid| (uuid, place.clone())),
                );
                stack.push((first, place));
            }
        }
        said
    }

    /// The message of `uuid`. An answer takes in the lines that go on with it, wherever they hang;
    /// what follows them follows it.
    fn run(&mut self, uuid: &str, done: &mut HashSet<String>) -> Option<Run> {
        let mut run = Run::of(self.entries.get_mut(uuid)?)?;
        if let Some(id) = run.answer_id() {
            let mut region = self.region(uuid, &id);
            region.pieces.sort_by_key(|piece| self.number(piece));
            for piece in &region.pieces {
                if let Some(entry) = self.entries.get_mut(piece) {
                    run.add(entry);
                }
                done.insert(piece.clone());
            }
            self.rehang(uuid, region);
        }
        Some(run)
    }

    fn number(&self, uuid: &str) -> u64 {
        self.entries.get(uuid).map_or(0, |entry| entry.line.number)
    }

    /// What hangs on the answer `id`, whose first line is `first`, as far as another piece of it
    /// may follow.
    fn region(&self, first: &str, id: &str) -> Region {
        let mut region = Region::default();
        let mut stack = vec![(first.to_owned(), false)];
        let mut seen: HashSet<String> = HashSet::from([first.to_owned()]);
        while let Some((uuid, answered)) = stack.pop() {
            for child in self
                .children
                .get(&uuid)
                .into_iter()
                .flatten()
                .filter(|child| seen.insert((*child).clone()))
            {
                let Some(entry) = self.entries.get(child) else {
                    continue;
                };
                let answered = answered || entry.is_result();
                if entry.answer_id() == Some(id) {
                    region.pieces.push(child.clone());
                } else if entry.is_result() {
                    region.results.push(child.clone());
                } else if entry.message.is_some() {
                    region.after.push((child.clone(), answered));
                    continue;
                } else {
                    region.silent.push(child.clone());
                }
                stack.push((child.clone(), answered));
            }
        }
        region
    }

    /// Hangs what follows an answer on its first line: its results one after the other, what came
    /// after a result on the last of them.
    fn rehang(&mut self, first: &str, region: Region) {
        let Region {
            mut results,
            after,
            pieces,
            silent,
        } = region;
        for uuid in pieces
            .iter()
            .chain(&silent)
            .chain(&results)
            .map(String::as_str)
            .chain([first])
        {
            self.children.remove(uuid);
        }
        results.sort_by_key(|result| self.number(result));
        let last = results.last().cloned().unwrap_or_else(|| first.to_owned());
        let mut before = first.to_owned();
        for result in results {
            self.children
                .entry(std::mem::replace(&mut before, result.clone()))
                .or_default()
                .push(result);
        }
        for (uuid, answered) in after {
            self.children
                .entry(if answered {
                    last.clone()
                } else {
                    first.to_owned()
                })
                .or_default()
                .push(uuid);
        }
        for parent in [first, &last] {
            let mut children = self.children.remove(parent).unwrap_or_default();
            children.sort_by_key(|child| self.number(child));
            self.children.insert(parent.to_owned(), children);
        }
    }
}

/// What hangs on an answer.
#[derive(Default)]
struct Region {
    /// The lines that go on with it.
    pieces: Vec<String>,
    /// The results of its calls.
    results: Vec<String>,
    /// Lines between these that are no messages.
    silent: Vec<String>,
    /// The messages that follow, each with whether it follows a result.
    after: Vec<(String, bool)>,
}

/// One message, put together from its lines.
struct Run {
    line: Line,
    session: String,
    time: Option<Timestamp>,
    message: Object<'static>,
    /// Its usage was told with an earlier piece of the same answer.
    counted: bool,
    /// It isn't an answer, but says why there is none.
    failed: bool,
}

impl Run {
    fn of(entry: &mut Entry) -> Option<Run> {
        let Json::Object(message) = entry.message.take()? else {
            return None;
        };
        let (line, session) = (entry.line.clone(), entry.session.clone());
        Some(Run {
            line,
            session,
            time: entry.time,
            message,
            counted: false,
            failed: entry.failed,
        })
    }

    fn answer_id(&self) -> Option<String> {
        let assistant = self.message.get("role").and_then(Json::as_str) == Some("assistant");
        self.message
            .get("id")
            .and_then(Json::as_str)
            .filter(|_| assistant)
            .map(str::to_owned)
    }

    /// Goes on with the next blocks; counts and the reason to stop are those of the last line.
    fn add(&mut self, entry: &mut Entry) {
        let Some(Json::Object(more)) = entry.message.take() else {
            return;
        };
        for (key, value) in more {
            match (&*key, self.message.get_mut(&key), value) {
                ("content", Some(Json::Array(blocks)), Json::Array(more)) => blocks.extend(more),
                (_, Some(known), Json::Null) if !known.is_null() => {}
                (_, _, value) => _ = self.message.insert(key, value),
            }
        }
    }
}

/// A place in a conversation.
#[derive(Clone)]
struct Place {
    conversation: Conversation,
    last: Option<Position>,
}

impl Place {
    fn read(
        &mut self,
        run: Run,
        time: Timestamp,
        said: &mut Vec<Said>,
        faults: &mut Vec<LineFault>,
    ) {
        let Run {
            line,
            session,
            time: own,
            message,
            counted,
            failed,
        } = run;
        let context = ReadContext {
            session: (!session.is_empty()).then_some(session.as_str()),
            ..ReadContext::at(own.unwrap_or(time))
        };
        let adapter: &'static dyn Adapter = &anthropic::MESSAGES;
        let json = Json::Object(message);
        let before = said.len();
        if adapter.is_response(&json) {
            if let Ok(read) = read_response(adapter, &json, &mut self.conversation, &context) {
                let usage = read.response.usage.filter(|_| !counted);
                for (choice, position) in read.response.choices.into_iter().zip(read.positions) {
                    let stop_reason = choice.stop_reason;
                    self.tell(choice.message.into_owned(), position, line.clone(), said);
                    if let Some(last) = said.last_mut() {
                        (last.stop_reason, last.usage) = (stop_reason, usage);
                    }
                }
            }
        } else {
            let model = json
                .get("model")
                .and_then(Json::as_str)
                .map(|model| model_id::canonical("anthropic", model));
            let usage = json
                .get("usage")
                .filter(|usage| !usage.is_null() && !counted)
                .map(token_usage);
            let mut body = Object::new();
            body.insert("max_tokens", 1_u64);
            body.insert("messages", vec![json]);
            let body = Json::Object(body);
            if let Ok(read) = read_request(adapter, &body, &mut self.conversation, &context) {
                for (mut message, position) in read.request.messages.into_iter().zip(read.positions)
                {
                    let assistant = message.role == Role::Assistant;
                    message.metadata.model = model.clone().filter(|_| assistant).map(Into::into);
                    self.tell(message.into_owned(), position, line.clone(), said);
                    if let Some(last) = said.last_mut().filter(|_| assistant) {
                        last.usage = usage;
                    }
                }
            }
        }
        if let Some(last) = said
            .get_mut(before..)
            .and_then(<[Said]>::last_mut)
            .filter(|_| failed)
        {
            // The program says so, in the place of a model that isn't one.
            last.message.metadata.model = None;
            last.message.metadata.status = MessageStatus::Error;
            last.stop_reason = Some(StopReason::Error);
        }
        if said.len() == before {
            faults.push(line.fault(FaultCode::Shape, "a message without a role that is known"));
        }
    }

    fn tell(
        &mut self,
        message: Message<'static>,
        position: Position,
        line: Line,
        said: &mut Vec<Said>,
    ) {
        let parent = self.last.replace(position);
        said.push(Said {
            position,
            parent,
            message,
            stop_reason: None,
            usage: None,
            line,
        });
    }
}

fn token_usage(json: &Json) -> TokenUsage {
    TokenUsage {
        input_tokens: count(json, "input_tokens"),
        output_tokens: count(json, "output_tokens"),
        cached_input_tokens: count(json, "cache_read_input_tokens"),
        cache_creation_input_tokens: count(json, "cache_creation_input_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(uuid: &str, parent: &str, kind: &str, message: &str) -> String {
        let parent = if parent.is_empty() {
            "null".to_owned()
        } else {
            format!("\"{parent}\"")
        };
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","timestamp":"2026-05-08T12:00:00Z","message":{message}}}"#
        )
    }

    fn answer(block: &str) -> String {
        format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{block}],"usage":{{"input_tokens":4,"output_tokens":9}}}}"#
        )
    }

    fn user(text: &str) -> String {
        format!(r#"{{"role":"user","content":"{text}"}}"#)
    }

    #[test]
    fn an_answer_that_is_split_over_lines_is_one_message_and_its_usage_counts_once() {
        let text = [
            line("a", "", "user", &user("hi")),
            r#"{"type":"progress","uuid":"p","parentUuid":"a","data":{}}"#.to_owned(),
            line(
                "b",
                "p",
                "assistant",
                &answer(r#"{"type":"text","text":"let me"}"#),
            ),
            line(
                "c",
                "b",
                "assistant",
                &answer(r#"{"type":"tool_use","id":"toolu_1","name":"t","input":{}}"#),
            ),
            line(
                "d",
                "c",
                "user",
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}"#,
            ),
        ];
        let (said, faults) = session(text.join("\n").as_bytes(), Timestamp::from_seconds(0));
        assert!(faults.is_empty());
        let roles: Vec<_> = said
            .iter()
            .map(|said| (said.message.role, said.message.content.len()))
            .collect();
        assert_eq!(
            roles,
            [(Role::User, 1), (Role::Assistant, 2), (Role::Tool, 1)]
        );
        assert_eq!(
            said.iter()
                .filter_map(|said| said.usage)
                .map(|usage| usage.output_tokens)
                .sum::<u64>(),
            9
        );
        assert_eq!(said[1].parent, Some(said[0].position));
        assert_eq!(said[2].parent, Some(said[1].position));
        assert_eq!(
            said[1].message.metadata.model.as_deref(),
            Some("anthropic:claude-x")
        );
        assert!(said.iter().all(|said| said.message.session_id == "s"));
    }

    #[test]
    fn an_answer_is_one_message_although_results_stand_between_its_lines() {
        let call = |id: &str| {
            answer(&format!(
                r#"{{"type":"tool_use","id":"{id}","name":"t","input":{{"of":"{id}"}}}}"#
            ))
        };
        let result = |id: &str| {
            format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"of {id}"}}]}}"#
            )
        };
        let text = [
            line("a", "", "user", &user("hi")),
            line("b", "a", "assistant", &call("toolu_1")),
            line("r1", "b", "user", &result("toolu_1")),
            line("c", "b", "assistant", &call("toolu_2")),
            line("r2", "c", "user", &result("toolu_2")),
            r#"{"type":"attachment","uuid":"x","parentUuid":"r2"}"#.to_owned(),
            line("d", "x", "assistant", &call("toolu_3")),
            line("r3", "d", "user", &result("toolu_3")),
            line("e", "r3", "user", &user("go on")),
            line("f", "c", "user", &user("or rather")),
        ];
        let (said, faults) = session(text.join("\n").as_bytes(), Timestamp::from_seconds(0));
        assert!(faults.is_empty());
        let roles: Vec<_> = said
            .iter()
            .map(|said| (said.message.role, said.message.content.len()))
            .collect();
        let results = [(Role::Tool, 1); 3];
        assert_eq!(roles[..2], [(Role::User, 1), (Role::Assistant, 3)]);
        assert_eq!(
            (&roles[2..5], &roles[5..]),
            (&results[..], &[(Role::User, 1); 2][..])
        );
        assert_eq!(
            said.iter()
                .filter_map(|said| said.usage)
                .map(|usage| usage.output_tokens)
                .sum::<u64>(),
            9
        );
        assert!(
            said[..6]
                .windows(2)
                .all(|pair| pair[1].parent == Some(pair[0].position))
        );
        assert_eq!(said[6].parent, Some(said[1].position));
    }

    #[test]
    fn what_is_written_for_other_programs_follows_line_by_line() {
        let line = |kind: &str, agent: &str, message: &str| {
            format!(
                r#"{{"type":"{kind}","session_id":"s","parent_tool_use_id":{agent},"message":{message}}}"#
            )
        };
        let text = [
            r#"{"type":"system","subtype":"init","session_id":"s","uuid":"u"}"#.to_owned(),
            line(
                "assistant",
                "null",
                &answer(r#"{"type":"text","text":"let me"}"#),
            ),
            line(
                "assistant",
                "null",
                &answer(r#"{"type":"tool_use","id":"toolu_1","name":"t","input":{}}"#),
            ),
            line("user", "\"toolu_1\"", &user("search")),
            line(
                "user",
                "null",
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}"#,
            ),
            r#"{"type":"result","subtype":"success","session_id":"s","usage":{"output_tokens":9}}"#
                .to_owned(),
        ];
        let (said, faults) = session(text.join("\n").as_bytes(), Timestamp::from_seconds(0));
        assert!(faults.is_empty() && said.iter().all(|said| said.message.session_id == "s"));
        let roles: Vec<_> = said
            .iter()
            .map(|said| (said.message.role, said.message.content.len()))
            .collect();
        assert_eq!(
            roles,
            [(Role::Assistant, 2), (Role::User, 1), (Role::Tool, 1)]
        );
        assert_eq!(
            (said[1].parent, said[2].parent),
            (None, Some(said[0].position))
        );
    }

    #[test]
    fn a_failed_request_is_an_error_that_no_model_said() {
        let failed =
            answer(r#"{"type":"text","text":"API Error: 529"}"#).replace("claude-x", "<synthetic>");
        let failed =
            line("b", "a", "assistant", &failed).replacen('{', r#"{"isApiErrorMessage":true,"#, 1);
        let text = [
            line("a", "", "user", &user("hi")),
            failed,
            line("c", "b", "user", &user("again")),
        ];
        let (said, faults) = session(text.join("\n").as_bytes(), Timestamp::from_seconds(0));
        assert!(faults.is_empty());
        let told: Vec<_> = said
            .iter()
            .map(|said| (said.message.metadata.status, said.stop_reason))
            .collect();
        let fine = (MessageStatus::Complete, None);
        assert_eq!(
            told,
            [fine, (MessageStatus::Error, Some(StopReason::Error)), fine]
        );
        assert_eq!(
            (
                said[1].message.text().as_ref(),
                &said[1].message.metadata.model
            ),
            ("API Error: 529", &None)
        );
        assert_eq!(said[2].parent, Some(said[1].position));
    }

    #[test]
    fn forks_are_branches_and_circles_end() {
        let text = [
            line("a", "", "user", &user("hi")),
            line("b", "a", "user", &user("one")),
            line("c", "a", "user", &user("two")),
            line("x", "y", "user", &user("ring")),
            line("y", "x", "user", &user("around")),
        ];
        let (said, faults) = session(text.join("\n").as_bytes(), Timestamp::from_seconds(0));
        assert_eq!((said.len(), faults.len()), (5, 0));
        assert_eq!(
            (said[1].parent, said[2].parent),
            (Some(said[0].position), Some(said[0].position))
        );
        assert_eq!(
            (said[3].parent, said[4].parent),
            (None, Some(said[3].position))
        );
    }
}
