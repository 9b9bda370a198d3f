//! `message_blocks(content, content_blocks)`: the blocks of a message in order, as a list of
//! structs.
//!
//! `content_blocks` takes precedence over the flat `content` (§6.2 of the grain specification); a
//! message with neither has no blocks. Blocks of unknown types are included with their JSON.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int64Builder, ListArray, StringArray, StringBuilder,
    StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use gristmill_schemas::json::{Json, Object};

/// Returns the function.
pub(super) fn message_blocks() -> ScalarUDF {
    let answer = DataType::List(Arc::new(Field::new(
        "element",
        DataType::Struct(members()),
        true,
    )));
    let body = |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let [contents, blocks] = &arrays[..] else {
            return Err(exec_datafusion_err!(
                "message_blocks takes content and content_blocks"
            ));
        };
        let (contents, blocks) = (
            cast(contents, &DataType::Utf8)?,
            cast(blocks, &DataType::Utf8)?,
        );
        let list: ArrayRef = Arc::new(lists(contents.as_string(), blocks.as_string())?);
        Ok(ColumnarValue::Array(list))
    };
    create_udf(
        "message_blocks",
        vec![DataType::Utf8, DataType::Utf8],
        answer,
        Volatility::Immutable,
        Arc::new(body),
    )
}

fn members() -> Fields {
    let text = |name| Field::new(name, DataType::Utf8, true);
    Fields::from(vec![
        Field::new("position", DataType::Int64, true),
        text("kind"),
        text("text"),
        text("tool_use_id"),
        text("name"),
        text("input"),
        Field::new("is_error", DataType::Boolean, true),
        text("block"),
    ])
}

fn lists(contents: &StringArray, blocks: &StringArray) -> Result<ListArray> {
    let mut rows = BlockBuilder::default();
    let mut lengths = Vec::with_capacity(blocks.len());
    for row in 0..blocks.len() {
        let before = rows.length;
        let parsed = blocks
            .is_valid(row)
            .then(|| Json::parse(blocks.value(row).as_bytes()).ok())
            .flatten();
        match parsed.as_ref().and_then(Json::as_array) {
            Some(list) => list
                .iter()
                .enumerate()
                .for_each(|(position, block)| rows.push(position, block)),
            None if contents.is_valid(row) => rows.push_text(contents.value(row)),
            None => {}
        }
        lengths.push(rows.length - before);
    }
    let item = Arc::new(Field::new("element", DataType::Struct(members()), true));
    Ok(ListArray::try_new(
        item,
        OffsetBuffer::from_lengths(lengths),
        Arc::new(rows.finish()?),
        None,
    )?)
}

/// Column builders of the blocks of many messages.
#[derive(Default)]
struct BlockBuilder {
    length: usize,
    position: Int64Builder,
    kind: StringBuilder,
    text: StringBuilder,
    tool_use_id: StringBuilder,
    name: StringBuilder,
    input: StringBuilder,
    is_error: BooleanBuilder,
    block: StringBuilder,
}

impl BlockBuilder {
    fn push_text(&mut self, text: &str) {
        let block: Object<'_> = [("type", "text"), ("text", text)].into_iter().collect();
        self.push(0, &block.into());
    }

    fn push(&mut self, position: usize, block: &Json<'_>) {
        let text_of = |key: &str| block.get(key).and_then(Json::as_str);
        let kind = text_of("type").unwrap_or("unknown");
        self.length += 1;
        self.position.append_value(position as i64);
        self.kind.append_value(kind);
        self.text.append_option(
            text_of("text")
                .or_else(|| text_of("thinking"))
                .or_else(|| text_of("content")),
        );
        // A call has its own `id`, a result has `tool_use_id`.
        let call = if kind == "tool_use" {
            text_of("id")
        } else {
            None
        };
        self.tool_use_id
            .append_option(text_of("tool_use_id").or(call));
        self.name
            .append_option(text_of("name").or_else(|| text_of("tool_name")));
        self.input
            .append_option(block.get("input").map(Json::to_string));
        self.is_error
            .append_option(block.get("is_error").and_then(Json::as_bool));
        self.block.append_value(block.to_string());
    }

    fn finish(mut self) -> Result<StructArray> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.position.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.text.finish()),
            Arc::new(self.tool_use_id.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.input.finish()),
            Arc::new(self.is_error.finish()),
            Arc::new(self.block.finish()),
        ];
        Ok(StructArray::try_new_with_length(
            members(),
            columns,
            None,
            self.length,
        )?)
    }
}
