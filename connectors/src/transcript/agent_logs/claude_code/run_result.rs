//! The result with which the `stream-json` output of a run ends: its failure and its usage.
//!
//! The answers of a run state the output that they began with, and the result states that of all of
//! them. What it has beyond the answers before it is added to the usage of the last one that isn't
//! a subagent's; some programs don't count the answers of subagents in the result. A result counts
//! what was used since the previous one, or, where programs send several prompts to one process,
//! since its start: then it counts at least as much as all before it.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Role;
use gristmill_schemas::message::request::TokenUsage;

use super::branch::token_usage;
use crate::transcript::agent_logs::usage::{difference, excess, sum};
use crate::transcript::line::Line;
use crate::transcript::parsed::PlacedMessage;
use crate::wire::json_access::{flag, items, non_empty_text, object, present, text_or_empty};

/// The usage of a run.
pub(super) struct RunResult {
    session: String,
    /// The number of its line.
    line: u64,
    usage: TokenUsage,
}

impl RunResult {
    /// Returns the usage that a line states; `None` for another line.
    pub(super) fn of(json: &Json, line: &Line) -> Option<RunResult> {
        let usage = present(json, "usage").filter(|_| is_result(json))?;
        Some(RunResult {
            session: json.get("session_id")?.as_str()?.to_owned(),
            line: line.number,
            usage: token_usage(usage),
        })
    }
}

fn is_result(json: &Json) -> bool {
    text_or_empty(json, "type") == "result"
}

/// Returns the message of a run that failed: what the line says about it, after its kind.
pub(super) fn failure_of_run(json: &Json) -> Option<Json<'static>> {
    let kind = text_or_empty(json, "subtype");
    let is_error = kind.starts_with("error");
    if !is_result(json) || !(is_error || flag(json, "is_error")) {
        return None;
    }
    let errors = items(json, "errors").iter().filter_map(Json::as_str);
    let mut texts: Vec<&str> = errors.collect();
    texts.extend(non_empty_text(json, "result"));
    let text = match (is_error, texts.join("\n")) {
        (true, text) if text.is_empty() => kind.to_owned(),
        (true, text) => format!("{kind}: {text}"),
        (false, text) => text,
    };
    let mut message = object("role", "assistant");
    message.insert("content", text);
    Some(Json::Object(message))
}

/// What the messages of a session have counted so far.
#[derive(Default)]
struct SessionCount {
    /// All of it, with what was added from results.
    all: TokenUsage,
    /// That since the last result.
    of_run: TokenUsage,
    /// That since the last result without the answers of subagents.
    of_agent: TokenUsage,
    /// The answer since the last result to which the rest belongs.
    last_answer: Option<LastAnswer>,
}

/// An answer, by its number, with how much the rest belongs to it.
#[derive(Clone, Copy)]
struct LastAnswer {
    index: usize,
    author: Author,
}

/// Who wrote an answer; the rest of a run belongs to the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Author {
    /// A subagent.
    Subagent,
    /// No model: it is the message of a failure, whose tokens would have no price.
    Program,
    /// The model of the agent.
    Agent,
}

/// Adds the usage of each run that its answers don't have to that of its last answer, or of the
/// message of its failure if it has none. A subagent's answer, which is on one of `subagent_lines`,
/// gets it only in a run that has no other message of these kinds.
pub(super) fn assign_rest(
    messages: &mut [PlacedMessage],
    results: Vec<RunResult>,
    subagent_lines: &HashSet<u64>,
) {
    let mut counts: HashMap<String, SessionCount> = HashMap::new();
    let mut next = 0;
    for result in results {
        while let Some(placed) = messages.get(next)
            && placed.line.number <= result.line
        {
            let is_of_subagent = subagent_lines.contains(&placed.line.number);
            count(placed, (next, is_of_subagent), &mut counts);
            next += 1;
        }
        let count = counts.entry(result.session).or_default();
        let rest = rest_of(result.usage, count);
        (count.of_run, count.of_agent) = Default::default();
        let answer = count.last_answer.take();
        if let Some(placed) = answer.and_then(|answer| messages.get_mut(answer.index))
            && rest != TokenUsage::default()
        {
            placed.usage = Some(placed.usage.map_or(rest, |known| sum(known, rest)));
            count.all = sum(count.all, rest);
        }
    }
}

/// Counts the message number `index`.
fn count(
    placed: &PlacedMessage,
    (index, is_of_subagent): (usize, bool),
    counts: &mut HashMap<String, SessionCount>,
) {
    if placed.message.role != Role::Assistant {
        return;
    }
    let session = placed.message.session_id.to_string();
    let count = counts.entry(session).or_default();
    let usage = placed.usage.unwrap_or_default();
    count.all = sum(count.all, usage);
    count.of_run = sum(count.of_run, usage);
    if !is_of_subagent {
        count.of_agent = sum(count.of_agent, usage);
    }
    let author = match placed.message.metadata.model {
        _ if is_of_subagent => Author::Subagent,
        None => Author::Program,
        Some(_) => Author::Agent,
    };
    // Of several messages of failures the first one.
    let belongs = |last: LastAnswer| {
        author > last.author || author == last.author && author != Author::Program
    };
    if count.last_answer.is_none_or(belongs) {
        count.last_answer = Some(LastAnswer { index, author });
    }
}

/// Returns what a result counts beyond what is counted.
fn rest_of(total: TokenUsage, count: &SessionCount) -> TokenUsage {
    let is_sum_of = |usage: TokenUsage| total.prompt_tokens() == usage.prompt_tokens();
    let is_of_run = is_sum_of(count.of_run);
    if !is_of_run && is_sum_of(count.of_agent) {
        return excess(total, count.of_agent);
    }
    match difference(total, count.all) {
        Some(rest) if !is_of_run => rest,
        _ => excess(total, count.of_run),
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::MessageStatus;
    use gristmill_schemas::message::request::StopReason;

    use super::super::parse_session;
    use crate::transcript::options::ReadOptions;
    use crate::transcript::parsed::{ParsedPart, PlacedMessage};

    fn answer(id: &str, input: u64, output: u64) -> String {
        format!(
            r#"{{"type":"assistant","session_id":"s","message":{{"id":"{id}","type":"message","role":"assistant","model":"c","content":[{{"type":"text","text":"{id}"}}],"usage":{{"input_tokens":{input},"output_tokens":{output}}}}}}}"#
        )
    }

    fn result(members: &str, input: u64, output: u64) -> String {
        format!(
            r#"{{"type":"result",{members},"session_id":"s","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
        )
    }

    fn messages(lines: &[String]) -> Vec<PlacedMessage> {
        let ParsedPart {
            messages, faults, ..
        } = parse_session(lines.join("\n").as_bytes(), ReadOptions::default());
        assert!(faults.is_empty(), "{faults:?}");
        messages
    }

    fn usage(lines: &[String]) -> Vec<Option<(u64, u64)>> {
        let counts = messages(lines).into_iter().map(|placed| {
            let usage = placed.usage?;
            Some((usage.input_tokens, usage.output_tokens))
        });
        counts.collect()
    }

    const DONE: &str = r#""subtype":"success","is_error":false"#;

    #[test]
    fn the_last_answer_of_a_run_has_the_usage_that_the_answers_lack() {
        let lines = [
            answer("a", 3, 1),
            answer("b", 5, 1),
            result(DONE, 8, 60),
            answer("c", 4, 1),
            result(DONE, 4, 9),
        ];
        assert_eq!(
            usage(&lines),
            [Some((3, 1)), Some((5, 59)), Some((4, 9))],
            "each result is that of its run"
        );
        let complete = [answer("a", 3, 7), result(DONE, 3, 7)];
        assert_eq!(usage(&complete), [Some((3, 7))]);
        let of_process = [
            answer("a", 3, 1),
            result(DONE, 3, 50),
            answer("b", 5, 1),
            result(DONE, 8, 70),
        ];
        assert_eq!(usage(&of_process), [Some((3, 50)), Some((5, 20))]);
    }

    #[test]
    fn the_rest_belongs_to_an_answer_of_the_agent_not_to_one_of_a_subagent() {
        let of_subagent = |id: &str, input: u64, output: u64| {
            let agent = r#""parent_tool_use_id":"toolu_1","message""#;
            answer(id, input, output).replacen(r#""message""#, agent, 1)
        };
        let last = [
            answer("a", 3, 1),
            of_subagent("b", 5, 1),
            result(DONE, 8, 60),
        ];
        assert_eq!(usage(&last), [Some((3, 59)), Some((5, 1))]);
        let uncounted = [
            answer("a", 3, 1),
            of_subagent("b", 5, 2),
            answer("c", 4, 1),
            of_subagent("d", 5, 2),
            result(DONE, 7, 60),
        ];
        assert_eq!(
            usage(&uncounted),
            [Some((3, 1)), Some((5, 2)), Some((4, 59)), Some((5, 2))],
            "a result that counts no subagents"
        );
        let alone = [of_subagent("a", 3, 1), result(DONE, 3, 9)];
        assert_eq!(usage(&alone), [Some((3, 9))]);
        let failed = result(r#""subtype":"error","is_error":true"#, 3, 9);
        let failed = [answer("a", 3, 1), of_subagent("b", 0, 0), failed];
        assert_eq!(usage(&failed), [Some((3, 9)), Some((0, 0)), None]);
    }

    #[test]
    fn a_failure_that_the_last_message_states_is_no_second_message() {
        let failed = |text: &str| {
            let members = format!(r#""subtype":"success","is_error":true,"result":"{text}""#);
            messages(&[answer("a", 0, 0), result(&members, 0, 0)]).len()
        };
        assert_eq!((failed("a"), failed("other")), (1, 2));
    }

    #[test]
    fn a_run_that_failed_ends_with_an_error_message_that_nothing_follows() {
        let failed = [
            answer("a", 3, 1),
            result(
                r#""subtype":"error_max_turns","is_error":true,"errors":["5 turns"]"#,
                300,
                400,
            ),
            answer("b", 1, 1),
        ];
        let read = messages(&failed);
        assert_eq!(read.len(), 3);
        let error = &read[1];
        let text = error.message.content[0].as_text();
        assert_eq!(text, Some("error_max_turns: 5 turns"));
        assert_eq!(error.message.metadata.status, MessageStatus::Error);
        assert_eq!(error.stop_reason, Some(StopReason::Error));
        assert_eq!(error.message.metadata.model, None);
        assert_eq!(error.parent, Some(read[0].position));
        assert_eq!(read[2].parent, Some(read[0].position));
        assert_eq!(usage(&failed)[..2], [Some((300, 400)), None]);
        let without_answer = [result(
            r#""subtype":"success","is_error":true,"result":"Invalid API key""#,
            2,
            0,
        )];
        assert_eq!(usage(&without_answer), [Some((2, 0))]);
    }
}
