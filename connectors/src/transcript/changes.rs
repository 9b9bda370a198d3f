//! Bundles of changes between lakes, as far as readers of grains need them: the engine
//! writes and applies them.

use gristmill_schemas::json::Json;

/// The name and version of the format.
pub const CHANGE_BUNDLE: &str = "gristmill-changes/1";

/// How the first line of every version of the format begins.
pub(super) const BUNDLE_PREFIX: &[u8] = br#"{"change":"begin","format":"gristmill-changes/"#;

/// What a line of a bundle is, if it isn't an added grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherChange {
    /// The first or the last line, which describe the others.
    Frame,
    /// A lifecycle event or an erasure.
    Record,
}

/// Returns what a line of a bundle is; `None` for an added grain and for lines of other files.
pub(super) fn other_change(json: &Json) -> Option<OtherChange> {
    match json.get("change")?.as_str()? {
        "begin" | "end" => Some(OtherChange::Frame),
        "event" | "erased" => Some(OtherChange::Record),
        _ => None,
    }
}
