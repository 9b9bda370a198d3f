//! Accessors of a view: `accessors` and the calls of its helpers.

use std::collections::BTreeSet;

use gristmill_schemas::cmf::{MessageView, UriPattern};
use gristmill_schemas::json::{Json, Object};

use super::views::{Scene, optional, property};
use super::{Checked, compare};

/// Compares all flat accessors of one view, then the calls of the case.
pub(super) fn accessors(input: &Json, target: &Json) -> Checked {
    let scene = Scene::of(input)?;
    scene.ask(input, |view| {
        let expected = target.get("accessors").and_then(Json::as_object);
        for (name, expected) in expected.into_iter().flat_map(Object::iter) {
            compare::equal(name, expected, &accessor(view, name)?)?;
        }
        let calls = input
            .get("calls")
            .and_then(Json::as_array)
            .unwrap_or_default();
        let expected = target
            .get("calls")
            .and_then(Json::as_array)
            .unwrap_or_default();
        if calls.len() != expected.len() {
            return Err(format!(
                "{} calls and {} expected answers",
                calls.len(),
                expected.len()
            ));
        }
        calls.iter().zip(expected).try_for_each(|(call, expected)| {
            compare::equal(
                &call.to_string(),
                expected,
                &answer(view, call.as_array().unwrap_or_default())?,
            )
        })
    })?
}

fn accessor(view: &MessageView, name: &str) -> Result<Json<'static>, String> {
    let subject = view.subject();
    let set = |set: Option<&BTreeSet<String>>| texts(set.into_iter().flatten().map(String::as_str));
    Ok(match name {
        "environment" => optional(view.environment()),
        "request_id" => optional(view.request_id()),
        "subject" => view
            .access()
            .to_extensions()
            .and_then(|seen| seen.security?.subject)
            .map_or(Json::Null, |subject| subject.to_json()),
        "roles" => set(subject.map(|subject| subject.roles)),
        "permissions" => set(subject.map(|subject| subject.permissions)),
        "teams" => set(subject.map(|subject| subject.teams)),
        "headers" => Json::Object(
            view.headers()
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        ),
        "labels" => texts(view.labels().iter()),
        "agent_input" => optional(view.agent_input()),
        "session_id" => optional(view.session_id()),
        "conversation_id" => optional(view.conversation_id()),
        "turn" => view.turn().map_or(Json::Null, Json::from),
        "agent_id" => optional(view.agent_id()),
        "parent_agent_id" => optional(view.parent_agent_id()),
        "object" => view.object().map_or(Json::Null, |object| object.to_json()),
        "data_policy" => view
            .data_policy()
            .map_or(Json::Null, |policy| policy.to_json()),
        _ => return Err(format!("unknown accessor {name}")),
    })
}

/// Returns the answer of a helper: `call` has its name, its argument and the default.
fn answer(view: &MessageView, call: &[Json]) -> Result<Json<'static>, String> {
    let text = |at: usize| call.get(at).and_then(Json::as_str).unwrap_or_default();
    let or_default = |found: Option<Json<'static>>| {
        found.unwrap_or_else(|| call.get(2).cloned().unwrap_or_default().into_owned())
    };
    Ok(match text(0) {
        "has_role" => view.has_role(text(1)).into(),
        "has_permission" => view.has_permission(text(1)).into(),
        "has_label" => view.has_label(text(1)).into(),
        "has_header" => view.header(text(1)).is_some().into(),
        "get_header" => or_default(
            view.header(text(1))
                .map(|value| Json::from(value.to_owned())),
        ),
        "has_arg" => view.has_arg(text(1)).into(),
        "get_arg" => or_default(view.arg(text(1)).cloned()),
        "get_property" => or_default(view.property(text(1)).map(property)),
        "has_content" => view.has_content().into(),
        "matches_uri_pattern" => {
            let pattern = UriPattern::new(text(1)).map_err(|error| error.to_string())?;
            view.matches_uri_pattern(&pattern).into()
        }
        name => return Err(format!("unknown helper {name}")),
    })
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Json<'static> {
    Json::Array(texts.map(|text| Json::from(text.to_owned())).collect())
}
