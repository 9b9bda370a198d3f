//! The rules that one message must keep (§5.1, §5.3), each breach a variant.
//!
//! All breaches are gathered and nothing fails: an empty list means that the message is sound.
//! Rules hold for complete messages only; one that is still streaming, was stopped or failed may
//! break them.

use std::fmt;

use super::{ContentBlock, Message, MessageStatus, Role};

/// A rule that a message breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A message that isn't a system message says nothing (§5.1.1).
    EmptyContent {
        /// Who says it.
        role: Role,
    },
    /// A block that the role may not hold (§5.1.3).
    BlockNotAllowed {
        /// The role.
        role: Role,
        /// Which block.
        index: usize,
        /// What it is.
        tag: String,
    },
    /// A tool message holds another number of blocks than one (§5.1.3).
    NotOneResult {
        /// How many.
        count: usize,
    },
    /// A complete assistant message lacks a field of its metadata (§5.3.1–3).
    MissingMetadata {
        /// Which: `model`, `provider`, `routing` or `usage`.
        field: &'static str,
    },
    /// A tool message doesn't say which call it answers (§5.3.4).
    MissingParent,
    /// A tool message's metadata and its block name different calls (§5.3.4).
    ParentDiffers {
        /// By the metadata.
        parent: String,
        /// By the block.
        tool_use_id: String,
    },
}

impl Violation {
    /// What the breach is about, as a path from the role.
    pub fn subject(&self) -> String {
        match self {
            Violation::EmptyContent { role } => role.to_string(),
            Violation::BlockNotAllowed { role, index, .. } => format!("{role}.content[{index}]"),
            Violation::NotOneResult { .. } => "tool".to_owned(),
            Violation::MissingMetadata { field } => format!("assistant.metadata.{field}"),
            Violation::MissingParent | Violation::ParentDiffers { .. } => {
                "tool.metadata.parent_tool_use_id".to_owned()
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.subject())?;
        match self {
            Violation::EmptyContent { .. } => formatter.write_str("content must not be empty"),
            Violation::BlockNotAllowed { role, tag, .. } => {
                write!(
                    formatter,
                    "`{tag}` is not allowed here (allowed: {})",
                    allowed(*role).join(", ")
                )
            }
            Violation::NotOneResult { count } => {
                write!(formatter, "must hold exactly one block, holds {count}")
            }
            Violation::MissingMetadata { .. } => formatter.write_str("required when complete"),
            Violation::MissingParent => formatter.write_str("required"),
            Violation::ParentDiffers {
                parent,
                tool_use_id,
            } => {
                write!(
                    formatter,
                    "`{parent}`, but the block answers `{tool_use_id}`"
                )
            }
        }
    }
}

/// The tags that a role may hold.
fn allowed(role: Role) -> &'static [&'static str] {
    match role {
        Role::User => &["text", "image"],
        Role::Assistant => &["text", "tool_use", "thinking", "redacted_thinking"],
        Role::System => &["text"],
        Role::Tool => &["tool_result"],
    }
}

/// Every rule that `message` breaks. Unknown blocks are judged by nobody: a later version may allow
/// them.
pub fn validate_message(message: &Message) -> Vec<Violation> {
    if message.metadata.status != MessageStatus::Complete {
        return Vec::new();
    }
    let mut found = Vec::new();
    check_content(message, &mut found);
    match message.role {
        Role::Assistant => check_assistant(message, &mut found),
        Role::Tool => check_tool(message, &mut found),
        Role::User | Role::System => {}
    }
    found
}

fn check_content(message: &Message, found: &mut Vec<Violation>) {
    let role = message.role;
    if role != Role::System && message.content.is_empty() {
        found.push(Violation::EmptyContent { role });
    }
    for (index, block) in message.content.iter().enumerate() {
        let known = !matches!(block, ContentBlock::Unknown(_));
        if known && !allowed(role).contains(&block.tag()) {
            found.push(Violation::BlockNotAllowed {
                role,
                index,
                tag: block.tag().to_owned(),
            });
        }
    }
}

fn check_assistant(message: &Message, found: &mut Vec<Violation>) {
    let metadata = &message.metadata;
    let present = [
        ("model", metadata.model.is_some()),
        ("provider", metadata.provider.is_some()),
        ("routing", metadata.routing.is_some()),
        ("usage", metadata.usage.is_some()),
    ];
    let missing = present.into_iter().filter(|(_, present)| !present);
    found.extend(missing.map(|(field, _)| Violation::MissingMetadata { field }));
}

fn check_tool(message: &Message, found: &mut Vec<Violation>) {
    if message.content.len() != 1 {
        found.push(Violation::NotOneResult {
            count: message.content.len(),
        });
    }
    match (
        message.metadata.parent_tool_use_id.as_deref(),
        message.content.as_slice(),
    ) {
        (None, _) => found.push(Violation::MissingParent),
        (Some(parent), [ContentBlock::ToolResult(result)]) if parent != result.tool_use_id => {
            let tool_use_id = result.tool_use_id.to_string();
            found.push(Violation::ParentDiffers {
                parent: parent.to_owned(),
                tool_use_id,
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::ToolResultBlock;
    use super::super::{Message, Timestamp};
    use super::*;

    fn message(role: Role, content: Vec<ContentBlock<'static>>) -> Message<'static> {
        Message::new("m", "s", role, content, Timestamp::from_micros(0))
    }

    fn result(id: &'static str) -> ContentBlock<'static> {
        ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: id.into(),
            content: Vec::new(),
            is_error: false,
        })
    }

    #[test]
    fn every_breach_of_a_tool_message_is_gathered() {
        let mut tool = message(Role::Tool, vec![result("tu_a"), ContentBlock::text("x")]);
        let told: Vec<_> = validate_message(&tool)
            .iter()
            .map(Violation::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "tool.content[1]: `text` is not allowed here (allowed: tool_result)",
                "tool: must hold exactly one block, holds 2",
                "tool.metadata.parent_tool_use_id: required",
            ]
        );
        tool.content.pop();
        tool.metadata.parent_tool_use_id = Some("tu_b".into());
        assert!(matches!(
            validate_message(&tool)[..],
            [Violation::ParentDiffers { .. }]
        ));
        tool.metadata.parent_tool_use_id = Some("tu_a".into());
        assert!(validate_message(&tool).is_empty());
    }

    #[test]
    fn rules_hold_only_for_complete_messages() {
        let mut assistant = message(Role::Assistant, Vec::new());
        assert_eq!(validate_message(&assistant).len(), 5);
        for status in [
            MessageStatus::Partial,
            MessageStatus::Cancelled,
            MessageStatus::Error,
        ] {
            assistant.metadata.status = status;
            assert!(validate_message(&assistant).is_empty());
        }
    }

    #[test]
    fn a_system_message_may_be_empty_and_others_may_not() {
        assert!(validate_message(&message(Role::System, Vec::new())).is_empty());
        assert_eq!(
            validate_message(&message(Role::User, Vec::new())),
            [Violation::EmptyContent { role: Role::User }]
        );
    }
}
