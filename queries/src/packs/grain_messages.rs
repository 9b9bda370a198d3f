//! Converts grains to messages of the Common Message Format, whose parts policies see as views.
//!
//! | grain | message |
//! |---|---|
//! | Event | its role, one part for each content block; without blocks one text part |
//! | Action, phase `call` | a tool call of the assistant |
//! | Action, phase `result` | a tool result, with the tool's name if the grain has it |
//! | Action without phase | both |
//!
//! The user is the subject. Tags and the labels of the message are its labels; session and author
//! describe the agent. A block of a kind unknown to the format has no view.

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use gristmill_schemas::cmf::event_blocks::part_of_block;
use gristmill_schemas::cmf::extensions::{AgentExtension, SecurityExtension, Subject};
use gristmill_schemas::cmf::{
    CmfMessage, CmfRole, ContentPart, Extensions, Labels, SubjectType, ToolCall, ToolResult,
};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::{Field, GrainType};
use gristmill_schemas::json::{Json, Object};

use crate::sql::MessageContext;

/// Columns that messages are built from, in the order in which [`MessageRows`] reads them.
pub(super) const COLUMNS: [&str; 17] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Type.name(),
    Field::Namespace.name(),
    Field::UserId.name(),
    Field::AuthorDid.name(),
    Field::SessionId.name(),
    Field::ProcessingBasis.name(),
    Field::Role.name(),
    Field::Content.name(),
    Field::ContentBlocks.name(),
    Field::ActionPhase.name(),
    Field::ToolName.name(),
    Field::ToolCallId.name(),
    Field::Input.name(),
    Field::IsError.name(),
    Field::StructuralTags.name(),
    Field::Context.name(),
];

/// Returns the SQL condition for grains that can be messages.
pub(super) fn condition() -> String {
    format!(
        "{} IN ({}, {})",
        SystemColumn::TypeByte.name(),
        GrainType::Event as u8,
        GrainType::Action as u8
    )
}

/// A batch of these columns.
pub(super) struct MessageRows<'b> {
    batch: &'b RecordBatch,
}

impl<'b> MessageRows<'b> {
    pub(super) fn new(batch: &'b RecordBatch) -> Self {
        MessageRows { batch }
    }

    /// Returns the value of a text column by name.
    pub(super) fn text(&self, name: &str, row: usize) -> Option<&'b str> {
        let column: &StringArray = self.batch.column_by_name(name)?.as_string_opt()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn field(&self, field: Field, row: usize) -> Option<&'b str> {
        self.text(field.name(), row)
    }

    fn flag(&self, field: Field, row: usize) -> bool {
        let column = self
            .batch
            .column_by_name(field.name())
            .and_then(|column| column.as_boolean_opt());
        column.is_some_and(|column| column.is_valid(row) && column.value(row))
    }

    /// Returns the messages of one grain.
    pub(super) fn messages(&self, row: usize) -> Vec<CmfMessage> {
        let action = GrainType::from_name(
            self.text(SystemColumn::Type.name(), row)
                .unwrap_or_default(),
        );
        if action != Some(GrainType::Action) {
            return self.event(row).into_iter().collect();
        }
        match self.field(Field::ActionPhase, row) {
            Some("call") => vec![self.call(row)],
            Some("result") => vec![self.result(row)],
            Some(_) => Vec::new(),
            None => vec![self.call(row), self.result(row)],
        }
    }

    /// Returns the CMF attributes of the message.
    fn context(&self, row: usize) -> MessageContext {
        MessageContext::parse(self.field(Field::Context, row))
    }

    /// An event without a role counts as a user's message.
    fn event(&self, row: usize) -> Option<CmfMessage> {
        let role = self.role(row)?;
        let blocks = self
            .field(Field::ContentBlocks, row)
            .and_then(|blocks| Json::parse(blocks.as_bytes()).ok());
        let parts: Vec<ContentPart> = match blocks.as_ref().and_then(Json::as_array) {
            Some(blocks) => blocks
                .iter()
                .filter_map(|block| part_of_block(block, |_| None))
                .collect(),
            None => self
                .field(Field::Content, row)
                .map(ContentPart::text)
                .into_iter()
                .collect(),
        };
        (!parts.is_empty()).then(|| CmfMessage::new(role, parts))
    }

    /// Returns the role of an event; that of a user, if it has none.
    fn role(&self, row: usize) -> Option<CmfRole> {
        match (self.context(row).role, self.field(Field::Role, row)) {
            (Some(role), _) => Some(role),
            (None, Some(role)) => CmfRole::from_name(role),
            (None, None) => Some(CmfRole::User),
        }
    }

    fn call(&self, row: usize) -> CmfMessage {
        let input = self
            .field(Field::Input, row)
            .and_then(|input| Json::parse(input.as_bytes()).ok());
        let arguments = input
            .as_ref()
            .and_then(Json::as_object)
            .map(Object::reborrow)
            .unwrap_or_default();
        let call = ToolCall {
            tool_call_id: self
                .field(Field::ToolCallId, row)
                .unwrap_or_default()
                .to_owned(),
            name: self
                .field(Field::ToolName, row)
                .unwrap_or_default()
                .to_owned(),
            arguments: arguments.into_owned(),
            namespace: None,
        };
        CmfMessage::new(CmfRole::Assistant, vec![ContentPart::ToolCall(call)])
    }

    fn result(&self, row: usize) -> CmfMessage {
        let result = ToolResult {
            tool_call_id: self
                .field(Field::ToolCallId, row)
                .unwrap_or_default()
                .to_owned(),
            tool_name: self
                .field(Field::ToolName, row)
                .unwrap_or_default()
                .to_owned(),
            content: self
                .field(Field::Content, row)
                .map(|content| Json::string(content.to_owned())),
            is_error: self.flag(Field::IsError, row),
        };
        CmfMessage::new(CmfRole::Tool, vec![ContentPart::ToolResult(result)])
    }

    fn tags(&self, row: usize) -> Vec<String> {
        let tags = self
            .batch
            .column_by_name(Field::StructuralTags.name())
            .and_then(|column| column.as_list_opt::<i32>())
            .filter(|tags| tags.is_valid(row))
            .map(|tags| tags.value(row));
        let tags = tags.as_ref().and_then(|tags| tags.as_string_opt::<i32>());
        let tags = tags.into_iter().flatten().flatten();
        tags.map(str::to_owned).collect()
    }

    /// Returns the CMF extensions of the grain's messages.
    pub(super) fn extensions(&self, row: usize) -> Extensions {
        let labels: Labels = self
            .tags(row)
            .into_iter()
            .chain(self.context(row).labels.into_iter().flatten())
            .collect();
        let subject = self.field(Field::UserId, row).map(user_subject);
        let agent = AgentExtension {
            session_id: self.field(Field::SessionId, row).map(str::to_owned),
            agent_id: self.field(Field::AuthorDid, row).map(str::to_owned),
            ..AgentExtension::default()
        };
        Extensions {
            security: Some(SecurityExtension {
                labels,
                subject,
                ..SecurityExtension::default()
            }),
            agent: Some(agent),
            ..Extensions::default()
        }
    }
}

/// Returns the subject that stands for a user.
fn user_subject(user: &str) -> Subject {
    Subject {
        id: user.to_owned(),
        subject_type: SubjectType::User,
        roles: Default::default(),
        permissions: Default::default(),
        teams: Default::default(),
        claims: Default::default(),
    }
}
