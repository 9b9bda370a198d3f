//! Sessions of Claude Code.
//!
//! Lines name their parent (`parentUuid`), so a session is a tree. Lines that aren't messages
//! (progress, snapshots, notices) may be between messages and are skipped, except the attachment of
//! a prompt that waited while the agent worked, which is recorded nowhere else. Lines without a
//! type, and those of other kinds of transcripts, are faults. One answer of the
//! model is split over several lines that repeat its id and its usage, with results of its tool
//! calls between them: they are merged into one message, the results follow it in sequence, and the
//! usage counts once. Subagents have roots of their own.
//!
//! A fork begins with a copy of its original, whose lines name it (`forkedFrom`): they are read as
//! messages of the fork, and the usage in them belongs to the original.
//!
//! The output for other programs (`stream-json`) has no parents: a line follows the previous line
//! of its session, or of its subagent. It ends with the result of the run: a failure is a message
//! that nothing follows, and the usage that the answers don't have is added to that of the last
//! one that isn't a subagent's.
//!
//! | module | question |
//! |---|---|
//! | `log_line` | which line is it, and which line does it follow? |
//! | `session_tree` | which messages are on each branch? |
//! | `merged_answer` | which lines belong to one answer? |
//! | `branch` | which canonical messages are on a branch? |
//! | `run_result` | what does the result of a run have that its messages don't have? |

mod branch;
mod log_line;
mod merged_answer;
mod run_result;
mod session_tree;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use gristmill_schemas::json::Json;

use self::log_line::{StreamTails, is_of_subagent, message_of_line, queued_message};
use self::run_result::{RunResult, assign_rest};
use self::session_tree::SessionTree;
use crate::transcript::detect::{LINE_OF_OTHERS, is_line_of_others};
use crate::transcript::kind::TranscriptKind;
use crate::transcript::line::{FaultCode, lines};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;

/// Parses a session file. Lines without a time get the one in the `options`.
pub(crate) fn parse_session(bytes: &[u8], options: ReadOptions<'_>) -> ParsedPart {
    let mut part = ParsedPart::default();
    let (mut tree, mut tails) = (SessionTree::default(), StreamTails::default());
    let (mut results, mut subagent_lines) = (Vec::new(), HashSet::new());
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) if json.as_object().is_some() => {
                results.extend(RunResult::of(&json, &line));
                subagent_lines.extend(is_of_subagent(&json).then_some(line.number));
                let parsed = tails.parse_line(&json, line.clone());
                let is_kept = parsed.map(|(uuid, parsed)| tree.insert(uuid, parsed));
                let problem = match (is_kept, message_of_line(&json)) {
                    (None, message) if message.is_some() || queued_message(&json).is_some() => {
                        Some("a message without a uuid or session_id")
                    }
                    (Some(false), _) => Some("another message with the uuid of an earlier one"),
                    (Some(true), Some(message)) if message.as_object().is_none() => {
                        Some("a message that isn't an object")
                    }
                    (_, None) => unread(&json),
                    _ => None,
                };
                let fault = problem.map(|problem| line.fault(FaultCode::Shape, problem));
                part.faults.extend(fault);
            }
            Ok(_) => part
                .faults
                .push(line.fault(FaultCode::Shape, "not an object")),
            Err(fault) => part.faults.push(fault),
        }
    }
    tree.read_branches(options, &mut part);
    part.messages.sort_by_key(|placed| placed.line.number);
    assign_rest(&mut part.messages, results, &subagent_lines);
    part
}

/// Returns what is wrong with a line without a message, unless it is one that has none.
fn unread(json: &Json) -> Option<&'static str> {
    match json.get("type").and_then(Json::as_str) {
        None => Some("no line of a session: it has no type"),
        Some("user" | "assistant") if json.get("message").is_none() => Some("without a message"),
        Some(_) if is_line_of_others(json, TranscriptKind::ClaudeCode) => Some(LINE_OF_OTHERS),
        Some(_) => None,
    }
}
