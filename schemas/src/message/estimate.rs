//! An estimate of the input tokens of a request: four characters per token (§8.1; an error of ten
//! per cent is acceptable for routing).

use super::ContentBlock;
use super::request::{Request, RequestTool};
use crate::json::Json;

/// Characters counted for an image.
const IMAGE_CHARS: usize = 1_024;
/// Characters counted for a tool result in addition to its content.
const RESULT_CHARS: usize = 16;
/// Characters per token.
const CHARS_PER_TOKEN: usize = 4;

/// Estimates the input tokens of `request`, at least 1. Linear in its text.
pub fn estimate_input_tokens(request: &Request) -> u64 {
    let system = [&request.system_prompt, &request.system_prompt_volatile]
        .into_iter()
        .flatten();
    let system: usize = system.map(|text| text.chars().count()).sum();
    let messages: usize = request
        .messages
        .iter()
        .flat_map(|message| &message.content)
        .map(block_chars)
        .sum();
    let tools: usize = request.tools.iter().map(tool_chars).sum();
    ((system + messages + tools) / CHARS_PER_TOKEN).max(1) as u64
}

fn block_chars(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) => text.chars().count(),
        ContentBlock::Image(_) => IMAGE_CHARS,
        ContentBlock::ToolUse(call) => call.name.chars().count() + object_chars(call.input.iter()),
        ContentBlock::ToolResult(result) => {
            RESULT_CHARS + result.content.iter().map(block_chars).sum::<usize>()
        }
        ContentBlock::Thinking { text, .. } => text.chars().count(),
        ContentBlock::RedactedThinking { .. } => 0,
        ContentBlock::Unknown(block) => json_chars(&block.json),
    }
}

fn tool_chars(tool: &RequestTool) -> usize {
    match tool {
        RequestTool::Defined(tool) => {
            tool.description.chars().count() + object_chars(tool.input_schema.iter())
        }
        RequestTool::Wire { json, .. } => json_chars(json),
    }
}

/// Counts the characters of the value as JSON with a space after each comma and colon.
fn json_chars(json: &Json) -> usize {
    match json {
        Json::Null => 4,
        Json::Bool(value) => 5 - usize::from(*value),
        Json::Number(number) => number.as_str().len(),
        Json::String(text) => text.chars().count() + 2,
        Json::Array(items) => {
            2 + items.iter().map(json_chars).sum::<usize>() + separators(items.len())
        }
        Json::Object(object) => object_chars(object.iter()),
    }
}

fn object_chars<'m, 'j: 'm>(
    members: impl ExactSizeIterator<Item = (&'m str, &'m Json<'j>)>,
) -> usize {
    let commas = separators(members.len());
    2 + commas
        + members
            .map(|(key, value)| key.chars().count() + 4 + json_chars(value))
            .sum::<usize>()
}

fn separators(items: usize) -> usize {
    items.saturating_sub(1) * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_counted_as_it_would_be_written() {
        let text = r#"{"a": [1, 2.5, {"b": null}], "é": "x", "t": true, "f": false, "e": {}}"#;
        assert_eq!(
            json_chars(&Json::parse(text.as_bytes()).unwrap()),
            text.chars().count()
        );
        assert_eq!(estimate_input_tokens(&Request::default()), 1);
    }
}
