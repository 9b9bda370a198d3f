//! Rules for single messages (§5.1, §5.3), with one variant per violation.
//!
//! All violations are collected; an empty list means that the message is valid. The rules apply to
//! complete messages only: one that is still streaming, was cancelled or failed may violate them.

use std::fmt;

use super::{ContentBlock, Message, MessageStatus, Role};

/// A violation of a rule by a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A message other than a system message has no content (§5.1.1).
    EmptyContent {
        /// The role.
        role: Role,
    },
    /// A block is not allowed for the role (§5.1.3).
    BlockNotAllowed {
        /// The role.
        role: Role,
        /// The index of the block.
        index: usize,
        /// The tag of the block.
        tag: String,
    },
    /// A tool message does not have exactly one block (§5.1.3).
    NotOneResult {
        /// The number of blocks.
        count: usize,
    },
    /// A complete assistant message lacks a metadata field (§5.3.1–3).
    MissingMetadata {
        /// The field: `model`, `provider`, `routing` or `usage`.
        field: &'static str,
    },
    /// A tool message does not name the call that it answers (§5.3.4).
    MissingParent,
    /// The metadata and the block of a tool message name different calls (§5.3.4).
    ParentDiffers {
        /// The call in the metadata.
        parent: String,
        /// The call in the block.
        tool_use_id: String,
    },
}

impl Violation {
    /// Returns the path of the violation, starting with the role.
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

/// Returns the tags that are allowed for a role.
fn allowed(role: Role) -> &'static [&'static str] {
    match role {
        Role::User => &["text", "image"],
        Role::Assistant => &["text", "tool_use", "thinking", "redacted_thinking"],
        Role::System => &["text"],
        Role::Tool => &["tool_result"],
    }
}

/// Returns all violations by `message`. Unknown blocks are not checked, since a later version may
/// allow them.
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
    fn all_violations_of_a_tool_message_are_reported() {
        let mut tool = message(Role::Tool, vec![result("tu_a"), ContentBlock::text("x")]);
        let violations: Vec<_> = validate_message(&tool)
            .iter()
            .map(Violation::to_string)
            .collect();
        assert_eq!(
            violations,
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
    fn only_complete_messages_are_validated() {
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
    fn only_a_system_message_may_be_empty() {
        assert!(validate_message(&message(Role::System, Vec::new())).is_empty());
        assert_eq!(
            validate_message(&message(Role::User, Vec::new())),
            [Violation::EmptyContent { role: Role::User }]
        );
    }
}
