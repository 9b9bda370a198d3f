//! Rules of extensions: `filter`, `validate`, `merge`, `labels`.

use chrono::DateTime;
use gristmill_schemas::cmf::declassify::{accept_labels, authorise_declassification};
use gristmill_schemas::cmf::extensions::DataPolicy;
use gristmill_schemas::cmf::propagation::{ConversationLabels, apply_policy_labels};
use gristmill_schemas::cmf::{
    CapabilitySet, CmfMessage, CmfRole, ContentPart, ContentType, ExtensionAccess, Extensions,
    Labels, MutabilityTier, TierViolation, filter as filter_extensions, merge as merge_extensions,
    validate as validate_tiers, views,
};
use gristmill_schemas::json::{Json, Object};

use super::{Checked, compare};

/// Returns the extensions under `key`, or `None` for null.
fn read(input: &Json, key: &str) -> Result<Option<Extensions>, String> {
    let parsed = input
        .get(key)
        .filter(|json| !json.is_null())
        .map(Extensions::parse)
        .transpose();
    parsed.map_err(|error| format!("{key}: {error}"))
}

fn write(extensions: Option<&Extensions>) -> Json<'static> {
    extensions.map_or(Json::Null, Extensions::to_json)
}

/// Returns the capabilities of a case. The cases don't restrict access profiles and data policies,
/// like the implementations; the default here is the specification's, which does.
fn capabilities(input: &Json) -> CapabilitySet {
    let names = input
        .get("capabilities")
        .and_then(Json::as_array)
        .unwrap_or_default();
    CapabilitySet::from_known_names(names.iter().filter_map(Json::as_str)).with_open_profiles()
}

/// What a consumer sees of the extensions.
pub(super) fn filter(input: &Json, target: &Json) -> Checked {
    let extensions = read(input, "extensions")?;
    let seen = filter_extensions(extensions.as_ref(), capabilities(input));
    compare::member(target, "extensions", &write(seen.as_ref()))
}

/// Checks a consumer's changes.
pub(super) fn validate(input: &Json, target: &Json) -> Checked {
    let (before, after) = (read(input, "before")?, read(input, "after")?);
    match validate_tiers(before.as_ref(), after.as_ref(), capabilities(input)) {
        Ok(()) => compare::member(target, "ok", &Json::Bool(true)),
        Err(violation) => violated(target, &violation),
    }
}

/// Merges a consumer's output.
pub(super) fn merge(input: &Json, target: &Json) -> Checked {
    let (original, output) = (read(input, "original")?, read(input, "output")?);
    match merge_extensions(original.as_ref(), output.as_ref(), capabilities(input)) {
        Ok(merged) => {
            compare::member(target, "ok", &Json::Bool(true))?;
            compare::member(target, "unchanged", &Json::Bool(merged.is_unchanged()))?;
            compare::member(target, "extensions", &write(merged.extensions.as_deref()))
        }
        Err(violation) => violated(target, &violation),
    }
}

/// Compares a violation with the expected one by slot and tier, not by wording.
fn violated(target: &Json, violation: &TierViolation) -> Checked {
    compare::member(target, "ok", &Json::Bool(false))
        .map_err(|why| format!("{why} ({violation})"))?;
    compare::member(target, "slot", &Json::from(violation.slot.as_str()))?;
    // The reference implementation has no guarded tier: it reports the guarded slot as immutable.
    let found = violation.slot.tier();
    let Some(expected) = target.get("tier").filter(|tier| !tier.is_null()) else {
        return Ok(());
    };
    match (expected.as_str().and_then(MutabilityTier::from_name), found) {
        (Some(MutabilityTier::Immutable), MutabilityTier::Guarded) => Ok(()),
        (Some(expected), _) if expected == found => Ok(()),
        _ => Err(format!("tier: expected {expected}, found {found}")),
    }
}

/// Labels and data policies; the operation follows from the members of the input.
pub(super) fn labels(input: &Json, target: &Json) -> Checked {
    let has = |member| input.get(member).is_some();
    if has("view") {
        return stamped(input, target);
    }
    if has("policy") {
        return permitted(input, target);
    }
    if has("before") {
        return accepted(input, target);
    }
    inherited(input, target)
}

fn label_set(input: Option<&Json>) -> Labels {
    let labels = input.and_then(Json::as_array).unwrap_or_default();
    labels.iter().filter_map(Json::as_str).collect()
}

fn label_list(labels: &Labels) -> Json<'static> {
    Json::Array(
        labels
            .iter()
            .map(|label| Json::from(label.to_owned()))
            .collect(),
    )
}

/// Compares sets of labels that cases list in any order.
fn same_labels(target: &Json, key: &str, found: &Labels) -> Checked {
    match target.get(key) {
        Some(expected) => compare::equal(
            key,
            &label_list(&label_set(Some(expected))),
            &label_list(found),
        ),
        None => Err(format!("the case expects no {key}")),
    }
}

/// Labels of the last of several consecutive messages.
fn inherited(input: &Json, target: &Json) -> Checked {
    let listed = input.get("sources").and_then(Json::as_array);
    let sources: Vec<&Json> = match listed {
        Some(sources) => sources.iter().collect(),
        None => ["tool_result_labels", "next_message_labels"]
            .iter()
            .filter_map(|key| input.get(key))
            .collect(),
    };
    if listed.is_none() && sources.is_empty() {
        return Err("the case asks a question that is not known here".to_owned());
    }
    let mut conversation = ConversationLabels::default();
    for source in sources {
        let mut extensions = Extensions::default();
        extensions.security.get_or_insert_default().labels = label_set(Some(source));
        conversation.propagate(&CmfMessage::new(CmfRole::Tool, vec![]), &mut extensions);
    }
    same_labels(target, "labels", conversation.labels())
}

/// A change of labels, privileged or not.
fn accepted(input: &Json, target: &Json) -> Checked {
    let declassifier = match input.get("privileged").and_then(Json::as_bool) {
        Some(true) => {
            let granted = authorise_declassification(
                "conformance",
                "the case is privileged",
                DateTime::UNIX_EPOCH.fixed_offset(),
            );
            Some(granted.map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    let outcome = accept_labels(
        &label_set(input.get("before")),
        &label_set(input.get("after")),
        declassifier,
    );
    compare::member(target, "accepted", &Json::Bool(outcome.is_ok()))?;
    compare::member(
        target,
        "audit_record",
        &Json::Bool(matches!(outcome, Ok(Some(_)))),
    )
}

/// The labels that a data policy applies to what a view shows.
fn stamped(input: &Json, target: &Json) -> Checked {
    let shown = input.get("view").unwrap_or(&Json::Null);
    let part = part(shown)?;
    let role = shown
        .get("role")
        .and_then(Json::as_str)
        .and_then(CmfRole::from_name)
        .unwrap_or(CmfRole::Tool);
    let security = [(
        "data",
        input
            .get("data")
            .cloned()
            .unwrap_or(Json::Object(Object::new())),
    )];
    let extensions = Json::Object(
        [("security", Json::Object(security.into_iter().collect()))]
            .into_iter()
            .collect(),
    );
    let extensions = Extensions::parse(&extensions).map_err(|error| error.to_string())?;
    let mut labels = label_set(input.get("labels_before"));
    for view in views(
        &CmfMessage::new(role, vec![part]),
        ExtensionAccess::new(Some(&extensions), CapabilitySet::all()),
    ) {
        apply_policy_labels(&view, &mut labels);
    }
    same_labels(target, "labels_after", &labels)
}

/// A part of the kind and name given by the case.
fn part(view: &Json) -> Result<ContentPart, String> {
    let kind = view
        .get("kind")
        .and_then(Json::as_str)
        .and_then(ContentType::from_name)
        .ok_or("unknown kind of view")?;
    let text = |key: &str, other: &'static str| {
        view.get(key)
            .and_then(Json::as_str)
            .unwrap_or(other)
            .to_owned()
    };
    let (name, uri) = (text("name", ""), text("uri", "uri:none"));
    let members: &[(&str, String)] = match kind {
        ContentType::Text | ContentType::Thinking => return Ok(ContentPart::text(name)),
        ContentType::ToolCall => &[("tool_call_id", name.clone()), ("name", name)],
        ContentType::ToolResult => &[("tool_call_id", name.clone()), ("tool_name", name)],
        ContentType::Resource | ContentType::ResourceRef => &[
            ("resource_request_id", name.clone()),
            ("uri", uri),
            ("resource_type", "uri".to_owned()),
            ("name", name),
        ],
        ContentType::PromptRequest => &[("prompt_request_id", name.clone()), ("name", name)],
        ContentType::PromptResult => &[("prompt_request_id", name.clone()), ("prompt_name", name)],
        _ => &[("type", "url".to_owned()), ("data", name)],
    };
    let body: Object = members
        .iter()
        .map(|(key, value)| (*key, Json::from(value.clone())))
        .collect();
    let part = [
        ("content_type", Json::from(kind.as_str())),
        ("content", Json::Object(body)),
    ];
    ContentPart::parse(&Json::Object(part.into_iter().collect())).map_err(|error| error.to_string())
}

/// An action under a data policy.
fn permitted(input: &Json, target: &Json) -> Checked {
    let policy = input
        .get("policy")
        .filter(|json| !json.is_null())
        .map(DataPolicy::parse)
        .transpose();
    let policy = policy
        .map_err(|error| error.to_string())?
        .unwrap_or_default();
    let action = input
        .get("action")
        .and_then(Json::as_str)
        .ok_or("the case names no action")?;
    compare::member(target, "allowed", &Json::Bool(policy.permits(action)))
}
