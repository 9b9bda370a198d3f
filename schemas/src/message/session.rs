//! Rules for the messages of a session (§5.2), with one variant per violation.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::tool::ToolSet;
use super::tool_input::{InputError, check_input};
use super::validate::{Violation, validate_message};
use super::{ContentBlock, Message, ToolUseBlock};

/// A violation of a rule by a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionViolation {
    /// A message violates a rule for single messages.
    Message {
        /// The index of the message.
        index: usize,
        /// The violation.
        violation: Violation,
    },
    /// A result answers a call that is not in its session (§5.2.2).
    UnknownCall {
        /// The call.
        tool_use_id: String,
    },
    /// A result precedes the call that it answers (§5.2.2).
    ResultBeforeCall {
        /// The call.
        tool_use_id: String,
    },
    /// A call has more than one result (§5.2.3).
    AnsweredTwice {
        /// The call.
        tool_use_id: String,
    },
    /// Two calls have the same id; a retry must get a new one (§5.2.3).
    IdUsedTwice {
        /// The id.
        tool_use_id: String,
    },
    /// The input of a call does not match the schema of the tool (§5.2.4).
    InputInvalid {
        /// The call.
        tool_use_id: String,
        /// All mismatches.
        errors: Vec<InputError>,
    },
}

impl fmt::Display for SessionViolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionViolation::Message { index, violation } => {
                write!(formatter, "message {index}: {violation}")
            }
            SessionViolation::UnknownCall { tool_use_id } => {
                write!(
                    formatter,
                    "tool_result refers to the unknown tool_use {tool_use_id}"
                )
            }
            SessionViolation::ResultBeforeCall { tool_use_id } => {
                write!(formatter, "tool_result precedes its tool_use {tool_use_id}")
            }
            SessionViolation::AnsweredTwice { tool_use_id } => {
                write!(
                    formatter,
                    "tool_use {tool_use_id} is answered more than once"
                )
            }
            SessionViolation::IdUsedTwice { tool_use_id } => {
                write!(
                    formatter,
                    "tool_use id {tool_use_id} is used by more than one call"
                )
            }
            SessionViolation::InputInvalid {
                tool_use_id,
                errors,
            } => {
                write!(formatter, "input of tool_use {tool_use_id} is invalid:")?;
                errors
                    .iter()
                    .try_for_each(|error| write!(formatter, " {error};"))
            }
        }
    }
}

/// Returns all violations by `messages` in their order. Rules across messages apply within one
/// `session_id`.
///
/// Inputs are checked against the tools in `tools`; calls of other tools are not checked.
pub fn validate_session(messages: &[Message], tools: &ToolSet) -> Vec<SessionViolation> {
    let mut found = Vec::new();
    let declared: HashSet<_> = messages
        .iter()
        .flat_map(calls)
        .map(|(session, call)| (session, &*call.id))
        .collect();
    let mut calls_so_far = HashSet::new();
    let mut answers: HashMap<_, usize> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        let own = validate_message(message).into_iter();
        found.extend(own.map(|violation| SessionViolation::Message { index, violation }));
        for block in &message.content {
            let session = &*message.session_id;
            match block {
                ContentBlock::ToolUse(call) => {
                    if !calls_so_far.insert((session, &*call.id)) {
                        found.push(SessionViolation::IdUsedTwice {
                            tool_use_id: call.id.to_string(),
                        });
                    }
                    check_call(call, tools, &mut found);
                }
                ContentBlock::ToolResult(result) => {
                    let key = (session, &*result.tool_use_id);
                    let tool_use_id = result.tool_use_id.to_string();
                    let times = answers.entry(key).or_default();
                    *times += 1;
                    if !declared.contains(&key) {
                        found.push(SessionViolation::UnknownCall { tool_use_id });
                    } else if !calls_so_far.contains(&key) {
                        found.push(SessionViolation::ResultBeforeCall { tool_use_id });
                    } else if *times == 2 {
                        found.push(SessionViolation::AnsweredTwice { tool_use_id });
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn calls<'m>(message: &'m Message) -> impl Iterator<Item = (&'m str, &'m ToolUseBlock<'m>)> {
    message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some((&*message.session_id, call)),
        _ => None,
    })
}

fn check_call(call: &ToolUseBlock, tools: &ToolSet, found: &mut Vec<SessionViolation>) {
    let Some(tool) = tools.get(&call.name) else {
        return;
    };
    let errors = check_input(&tool.input_schema, &call.input);
    if !errors.is_empty() {
        found.push(SessionViolation::InputInvalid {
            tool_use_id: call.id.to_string(),
            errors,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MessageMetadata, Role, Timestamp, ToolResultBlock};
    use super::*;
    use crate::json::Object;

    fn call(id: &'static str) -> Message<'static> {
        let block = ContentBlock::ToolUse(ToolUseBlock {
            id: id.into(),
            name: "t".into(),
            input: Object::new(),
        });
        let mut message = Message::new(
            "m",
            "s",
            Role::Assistant,
            vec![block],
            Timestamp::from_micros(0),
        );
        // Not complete, so that only the rules for sessions apply.
        message.metadata.status = super::super::MessageStatus::Cancelled;
        message
    }

    fn answer(id: &'static str) -> Message<'static> {
        let block = ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: id.into(),
            content: Vec::new(),
            is_error: false,
        });
        let mut message =
            Message::new("m", "s", Role::Tool, vec![block], Timestamp::from_micros(0));
        message.metadata = MessageMetadata {
            parent_tool_use_id: Some(id.into()),
            ..Default::default()
        };
        message
    }

    fn violations(messages: &[Message]) -> Vec<String> {
        validate_session(messages, &ToolSet::default())
            .iter()
            .map(SessionViolation::to_string)
            .collect()
    }

    #[test]
    fn a_call_has_at_most_one_result_after_it() {
        assert!(violations(&[call("a"), call("b"), answer("b"), answer("a")]).is_empty());
        assert!(violations(&[call("a")]).is_empty(), "an open call is legal");
        assert_eq!(
            violations(&[call("a"), answer("a"), answer("a")]),
            ["tool_use a is answered more than once"]
        );
        assert_eq!(
            violations(&[answer("a"), call("a")]),
            ["tool_result precedes its tool_use a"]
        );
        assert_eq!(
            violations(&[answer("a")]),
            ["tool_result refers to the unknown tool_use a"]
        );
        assert_eq!(
            violations(&[call("a"), call("a")]),
            ["tool_use id a is used by more than one call"]
        );
    }

    #[test]
    fn a_result_refers_to_calls_of_its_own_session() {
        let mut elsewhere = answer("a");
        elsewhere.session_id = "other".into();
        assert_eq!(
            violations(&[call("a"), elsewhere]),
            ["tool_result refers to the unknown tool_use a"]
        );
    }
}
