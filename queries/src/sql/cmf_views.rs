//! `cmf_views(role, content, content_blocks, context)`: the message views of CMF (§4), one for each
//! part of a message, as a list of structs. The view `message_views` applies it to every message of
//! the lake.
//!
//! Labels and channel come from `context` under `cmf:`. A block without a part (hidden thoughts,
//! unknown types) has no view; `blocks` shows it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int64Builder, ListArray, ListBuilder, StringArray,
    StringBuilder, StringDictionaryBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int8Type};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use gristmill_schemas::cmf::event_blocks::part_of_block;
use gristmill_schemas::cmf::{
    CapabilitySet, CmfMessage, CmfRole, ContentPart, ExtensionAccess, MessageView, views,
};
use gristmill_schemas::json::Json;

/// Returns the function.
pub(super) fn cmf_views() -> ScalarUDF {
    let answer = DataType::List(Arc::new(element()));

    create_udf(
        "cmf_views",
        vec![DataType::Utf8; 4],
        answer,
        Volatility::Immutable,
        Arc::new(views_of),
    )
}

/// Returns the views of messages, given the arguments of the function.
fn views_of(arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let texts: Vec<ArrayRef> = arrays
        .iter()
        .map(|array| cast(array, &DataType::Utf8))
        .collect::<Result<_, arrow::error::ArrowError>>()?;
    let [roles, contents, blocks, contexts] = &texts[..] else {
        return Err(exec_datafusion_err!(
            "cmf_views takes role, content, content_blocks and context"
        ));
    };
    let messages = MessageColumns {
        roles: roles.as_string(),
        contents: contents.as_string(),
        blocks: blocks.as_string(),
        contexts: contexts.as_string(),
    };
    let list: ArrayRef = Arc::new(messages.views()?);
    Ok(ColumnarValue::Array(list))
}

fn element() -> Field {
    Field::new("element", DataType::Struct(members()), true)
}

/// Dictionary type for values of small closed sets.
fn word() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
}

fn members() -> Fields {
    let text = |name| Field::new(name, DataType::Utf8, true);
    Fields::from(vec![
        Field::new("position", DataType::Int64, true),
        Field::new("kind", word(), true),
        Field::new("role", word(), true),
        Field::new("action", word(), true),
        Field::new("is_pre", DataType::Boolean, true),
        text("uri"),
        text("name"),
        text("content"),
        Field::new("size_bytes", DataType::Int64, true),
        text("mime_type"),
        text("args"),
        text("properties"),
        Field::new("labels", labels_type(), true),
        text("channel"),
    ])
}

fn labels_type() -> DataType {
    DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)))
}

/// Input columns.
struct MessageColumns<'a> {
    roles: &'a StringArray,
    contents: &'a StringArray,
    blocks: &'a StringArray,
    contexts: &'a StringArray,
}

impl MessageColumns<'_> {
    fn views(&self) -> Result<ListArray> {
        let mut rows = ViewBuilder::default();
        let mut lengths = Vec::with_capacity(self.roles.len());
        for row in 0..self.roles.len() {
            let before = rows.length;
            let role = self
                .roles
                .is_valid(row)
                .then(|| CmfRole::from_name(self.roles.value(row)))
                .flatten();
            if let Some(role) = role {
                let context = self.context(row);
                let message = CmfMessage::new(context.role.unwrap_or(role), self.parts(row));
                for (position, view) in views(
                    &message,
                    ExtensionAccess::new(None, CapabilitySet::default()),
                )
                .enumerate()
                {
                    rows.push(position, &view, &context);
                }
            }
            lengths.push(rows.length - before);
        }
        Ok(ListArray::try_new(
            Arc::new(element()),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(rows.finish()?),
            None,
        )?)
    }

    fn parts(&self, row: usize) -> Vec<ContentPart> {
        let parsed = self
            .blocks
            .is_valid(row)
            .then(|| Json::parse(self.blocks.value(row).as_bytes()).ok())
            .flatten();
        let Some(blocks) = parsed.as_ref().and_then(Json::as_array) else {
            let content = self
                .contents
                .is_valid(row)
                .then(|| self.contents.value(row));
            return content.map(ContentPart::text).into_iter().collect();
        };
        // A result refers to its call by id; the call may be in the same message.
        let names: HashMap<&str, &str> = blocks.iter().filter_map(call).collect();
        blocks
            .iter()
            .filter_map(|block| {
                part_of_block(block, |id| names.get(id).map(|name| (*name).to_owned()))
            })
            .collect()
    }

    fn context(&self, row: usize) -> MessageContext {
        MessageContext::parse(
            self.contexts
                .is_valid(row)
                .then(|| self.contexts.value(row)),
        )
    }
}

fn call<'j>(block: &'j Json<'_>) -> Option<(&'j str, &'j str)> {
    Some((block.get("id")?.as_str()?, block.get("name")?.as_str()?))
}

/// CMF attributes of a message, stored in `context` under `cmf:`.
#[derive(Default)]
pub(crate) struct MessageContext {
    pub(crate) role: Option<CmfRole>,
    channel: Option<String>,
    pub(crate) labels: Option<Vec<String>>,
}

impl MessageContext {
    /// Parses the JSON text of `context`.
    pub(crate) fn parse(context: Option<&str>) -> MessageContext {
        // Almost no message has these keys, so texts without the prefix are not parsed.
        let context = context.filter(|context| context.contains("\"cmf:"));
        let context = context.and_then(|context| Json::parse(context.as_bytes()).ok());
        context.as_ref().map(MessageContext::of).unwrap_or_default()
    }

    /// Entries of `context` are either JSON text or the value itself.
    fn of(context: &Json<'_>) -> MessageContext {
        let text = |key: &str| {
            context
                .get(key)
                .and_then(Json::as_str)
                .map(|text| text.trim_matches('"').to_owned())
        };

        let extensions = context.get("cmf:extensions");
        let parsed = extensions
            .and_then(Json::as_str)
            .and_then(|text| Json::parse(text.as_bytes()).ok());
        MessageContext {
            role: text("cmf:role").and_then(|role| CmfRole::from_name(&role)),
            channel: text("cmf:channel"),
            labels: parsed.as_ref().or(extensions).and_then(security_labels),
        }
    }
}

/// Returns the labels of CMF extensions.
fn security_labels(extensions: &Json<'_>) -> Option<Vec<String>> {
    let labels = extensions.get("security")?.get("labels")?.as_array()?;
    Some(
        labels
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect(),
    )
}

/// Column builders of the views of many messages.
#[derive(Default)]
struct ViewBuilder {
    length: usize,
    position: Int64Builder,
    kind: StringDictionaryBuilder<Int8Type>,
    role: StringDictionaryBuilder<Int8Type>,
    action: StringDictionaryBuilder<Int8Type>,
    is_pre: BooleanBuilder,
    uri: StringBuilder,
    name: StringBuilder,
    content: StringBuilder,
    size_bytes: Int64Builder,
    mime_type: StringBuilder,
    args: StringBuilder,
    properties: StringBuilder,
    labels: Option<ListBuilder<StringBuilder>>,
    channel: StringBuilder,
}

impl ViewBuilder {
    fn push(&mut self, position: usize, view: &MessageView<'_>, context: &MessageContext) {
        self.length += 1;
        self.position.append_value(position as i64);
        self.kind.append_value(view.kind().as_str());
        self.role.append_value(view.role().as_str());
        self.action.append_value(view.action().as_str());
        self.is_pre.append_value(view.is_pre());
        self.uri.append_option(view.uri());
        self.name.append_option(view.name());
        self.content.append_option(view.content());
        self.size_bytes.append_option(view.size_bytes());
        self.mime_type.append_option(view.mime_type());
        self.args.append_option(
            view.args()
                .map(|args| Json::Object(args.clone()).to_string()),
        );
        self.properties.append_option(properties(view));
        self.channel.append_option(context.channel.as_deref());
        let labels = self.labels.get_or_insert_with(new_labels);
        for label in context.labels.iter().flatten() {
            labels.values().append_value(label);
        }
        labels.append(context.labels.is_some());
    }

    fn finish(mut self) -> Result<StructArray> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.position.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.role.finish()),
            Arc::new(self.action.finish()),
            Arc::new(self.is_pre.finish()),
            Arc::new(self.uri.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.content.finish()),
            Arc::new(self.size_bytes.finish()),
            Arc::new(self.mime_type.finish()),
            Arc::new(self.args.finish()),
            Arc::new(self.properties.finish()),
            Arc::new(self.labels.unwrap_or_else(new_labels).finish()),
            Arc::new(self.channel.finish()),
        ];
        Ok(StructArray::try_new_with_length(
            members(),
            columns,
            None,
            self.length,
        )?)
    }
}

fn new_labels() -> ListBuilder<StringBuilder> {
    ListBuilder::new(StringBuilder::new()).with_field(Arc::new(Field::new(
        "element",
        DataType::Utf8,
        true,
    )))
}

/// Returns the properties as JSON; `None` if the view has none.
fn properties(view: &MessageView<'_>) -> Option<String> {
    let object: gristmill_schemas::json::Object<'_> = view
        .properties()
        .map(|(name, property)| (name, property.to_json()))
        .collect();
    (!object.is_empty()).then(|| Json::Object(object).to_string())
}
