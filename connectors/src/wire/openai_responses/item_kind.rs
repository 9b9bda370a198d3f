//! The kinds of items: which side of the conversation an item belongs to.

use std::collections::HashSet;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Role;

use super::super::json_access::{either, text_or_empty};

/// The kind of an item of the input.
#[derive(Clone, Copy)]
pub(super) enum ItemKind {
    /// A message that isn't the model's.
    Message(Role),
    /// A result of a tool that the client ran.
    ToolResult,
    /// The user's answer to a request for approval.
    Approval,
    /// An item that the model or a server-side tool produced.
    ModelOutput,
}

/// The suffix of the types of calls.
const CALL: &str = "_call";
/// The suffix of the types of results.
const OUTPUT: &str = "_call_output";

/// OpenAI's tools that the client runs: the types of their calls end in `_call`, those of their
/// results in `_call_output`. Other tools may run on the server, with results among the model's
/// items.
const CLIENT_TOOLS: [&str; 3] = ["computer", "local_shell", "apply_patch"];

/// Returns the kind of each item of an input.
///
/// A result comes from the client, unless its call is in the same run of model items and isn't
/// marked as local: then both belong to the model.
pub(super) fn item_kinds(list: &[Json]) -> Vec<ItemKind> {
    // The calls of the current run of model items that the server may have run.
    let mut server_calls = HashSet::new();
    let kind = |item| {
        let item_type = text_or_empty(item, "type");
        let is_result = item_type.ends_with(OUTPUT) && item.get("output").is_some();
        let is_client_result =
            || is_result && !call_id(item).is_some_and(|id| server_calls.contains(id));
        let kind = match kind_by_type(item) {
            ItemKind::ModelOutput if is_client_result() => ItemKind::ToolResult,
            kind => kind,
        };
        match kind {
            ItemKind::ModelOutput if item_type.ends_with(CALL) && !is_local(item) => {
                server_calls.extend(call_id(item))
            }
            ItemKind::ModelOutput => {}
            _ => server_calls.clear(),
        }
        kind
    };
    list.iter().map(kind).collect()
}

/// Returns the kind of an item by its type and role alone. A text is a message of the user, as it
/// is in place of the list.
fn kind_by_type(item: &Json) -> ItemKind {
    if item.as_str().is_some() {
        return ItemKind::Message(Role::User);
    }
    match item.get("type").and_then(Json::as_str) {
        None | Some("message") => match text_or_empty(item, "role") {
            "user" => ItemKind::Message(Role::User),
            "system" | "developer" => ItemKind::Message(Role::System),
            _ => ItemKind::ModelOutput,
        },
        Some("function_call_output" | "custom_tool_call_output") => ItemKind::ToolResult,
        Some("mcp_approval_response") => ItemKind::Approval,
        Some(item_type) if client_tool_name(item_type, OUTPUT).is_some() => ItemKind::ToolResult,
        _ => ItemKind::ModelOutput,
    }
}

/// Returns the client tool whose calls have the type `item_type`.
pub(super) fn called_client_tool(item_type: &str) -> Option<&str> {
    client_tool_name(item_type, CALL)
}

fn client_tool_name<'t>(item_type: &'t str, suffix: &str) -> Option<&'t str> {
    item_type
        .strip_suffix(suffix)
        .filter(|tool| CLIENT_TOOLS.contains(tool))
}

fn is_local(call: &Json) -> bool {
    call.get("environment")
        .is_some_and(|environment| text_or_empty(environment, "type") == "local")
}

/// Returns the ids of the calls with a result among the model's items: the server ran them.
pub(super) fn server_side_calls<'j>(list: &'j [Json<'j>]) -> HashSet<&'j str> {
    let is_output = |item: &&Json| text_or_empty(item, "type").ends_with(OUTPUT);
    list.iter().filter(is_output).filter_map(call_id).collect()
}

/// Returns the id that joins a call and its result. Results of the client-side shell may have the
/// id of the item instead.
pub(super) fn call_id<'j>(item: &'j Json<'j>) -> Option<&'j str> {
    either(item, ["call_id", "id"]).and_then(Json::as_str)
}
