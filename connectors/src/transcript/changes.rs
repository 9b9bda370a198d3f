//! Bundles of changes between lakes, as far as readers of grains need them: the engine
//! writes and applies them.

use gristmill_schemas::json::Json;

/// The name and version of the format.
pub const CHANGE_BUNDLE: &str = "gristmill-changes/1";

/// How the first line of every version of the format begins.
pub(super) const BUNDLE_PREFIX: &[u8] = br#"{"change":"begin","format":"gristmill-changes/"#;

/// Returns true if a line of a bundle isn't an added grain: its header, an event, an erasure, its
/// end.
pub(super) fn is_other_change(json: &Json) -> bool {
    let change = json.get("change").and_then(Json::as_str);
    change.is_some_and(|change| matches!(change, "begin" | "event" | "erased" | "end"))
}
