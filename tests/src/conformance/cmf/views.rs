//! Messages and their views: `parse`, `views`, `to_dict`, `to_opa_input`, `glob`.

use gristmill_schemas::cmf::view::{DictOptions, HeaderStripping, Property};
use gristmill_schemas::cmf::{
    CapabilitySet, CmfMessage, CmfRole, ContentPart, ExtensionAccess, Extensions, MessageView,
    ResourceReference, ResourceType, UriPattern, views as views_of,
};
use gristmill_schemas::json::{Json, Object};

use super::{Checked, compare};

/// Compares a parsed message as it is written again, or expects a parse error.
pub(super) fn parse(input: &Json, target: &Json) -> Checked {
    let parsed = CmfMessage::parse(input.get("message").unwrap_or(&Json::Null));
    match (target.get("ok").and_then(Json::as_bool), parsed) {
        (Some(true), Ok(message)) => compare::member(target, "message", &message.to_json()),
        (Some(true), Err(error)) => Err(format!("expected a message, found the error {error}")),
        (_, Ok(message)) => Err(format!("expected an error, found {}", message.to_json())),
        (_, Err(_)) => Ok(()),
    }
}

/// The message and extensions of an input, for a consumer that may see all.
pub(super) struct Scene {
    message: CmfMessage,
    extensions: Option<Extensions>,
    hook: Option<String>,
}

impl Scene {
    pub(super) fn of(input: &Json) -> Result<Self, String> {
        let extensions = input
            .get("extensions")
            .filter(|json| !json.is_null())
            .map(Extensions::parse)
            .transpose();
        let message = CmfMessage::parse(input.get("message").unwrap_or(&Json::Null));
        Ok(Scene {
            message: message.map_err(|error| format!("message: {error}"))?,
            extensions: extensions.map_err(|error| format!("extensions: {error}"))?,
            hook: input.get("hook").and_then(Json::as_str).map(str::to_owned),
        })
    }

    pub(super) fn views(&self) -> Vec<MessageView<'_>> {
        let access = ExtensionAccess::new(self.extensions.as_ref(), CapabilitySet::all());
        views_of(&self.message, access)
            .at_hook(self.hook.as_deref())
            .collect()
    }

    /// Runs `check` on the view with the input's `index`, by default the first.
    pub(super) fn ask<T>(
        &self,
        input: &Json,
        question: impl Fn(&MessageView) -> T,
    ) -> Result<T, String> {
        let index = input.get("index").and_then(Json::as_u64).unwrap_or(0) as usize;
        self.views()
            .get(index)
            .map(question)
            .ok_or_else(|| format!("there is no view {index}"))
    }
}

/// Compares all views of a message, attribute by attribute.
pub(super) fn views(input: &Json, target: &Json) -> Checked {
    let scene = Scene::of(input)?;
    let views = scene.views();
    let expected = target
        .get("views")
        .and_then(Json::as_array)
        .ok_or("the case expects no list of views")?;
    if expected.len() != views.len() {
        return Err(format!(
            "expected {} views, found {}",
            expected.len(),
            views.len()
        ));
    }
    let mut pairs = expected.iter().zip(&views).enumerate();
    pairs.try_for_each(|(at, (expected, view))| {
        compare::view(&format!("views[{at}]"), expected, &attributes(view))
    })
}

/// Returns a view's attributes under the names of the cases.
fn attributes(view: &MessageView) -> Json<'static> {
    let flags = [
        ("is_tool", view.is_tool()),
        ("is_prompt", view.is_prompt()),
        ("is_resource", view.is_resource()),
        ("is_text", view.is_text()),
        ("is_media", view.is_media()),
    ];
    let flags = flags
        .into_iter()
        .filter(|(_, set)| *set)
        .map(|(name, _)| Json::from(name))
        .collect::<Vec<_>>();
    let members: [(&str, Json<'static>); 15] = [
        ("kind", Json::from(view.kind().as_str())),
        ("role", Json::from(view.role().as_str())),
        ("action", Json::from(view.action().as_str())),
        ("is_pre", Json::from(view.is_pre())),
        ("is_post", Json::from(view.is_post())),
        ("name", optional(view.name())),
        ("uri", optional(view.uri())),
        ("content", optional(view.content())),
        (
            "size_bytes",
            view.size_bytes().map_or(Json::Null, Json::from),
        ),
        ("mime_type", optional(view.mime_type())),
        (
            "args",
            view.args()
                .map_or(Json::Null, |args| Json::Object(args.clone())),
        ),
        (
            "properties",
            view.properties()
                .map(|(name, value)| (name, property(value)))
                .collect::<Object>()
                .into(),
        ),
        ("has_content", Json::from(view.has_content())),
        ("flags", Json::Array(flags)),
        ("hook", optional(view.hook())),
    ];
    Json::Object(members.into_iter().collect())
}

pub(super) fn optional(text: Option<&str>) -> Json<'static> {
    text.map_or(Json::Null, |text| Json::from(text.to_owned()))
}

pub(super) fn property(value: Property) -> Json<'static> {
    match value {
        Property::Null => Json::Null,
        Property::Text(text) => Json::from(text.to_owned()),
        Property::Flag(flag) => Json::from(flag),
        Property::Integer(integer) => Json::from(integer),
        Property::Object(object) => Json::Object(object.clone()),
    }
}

/// A serialised view.
pub(super) fn to_dict(input: &Json, target: &Json) -> Checked {
    let dict = Scene::of(input)?.ask(input, |view| view.to_dict(options(input)))?;
    compare::view("dict", target.get("dict").unwrap_or(&Json::Null), &dict)
}

/// A serialised view in the envelope of the Open Policy Agent.
pub(super) fn to_opa_input(input: &Json, target: &Json) -> Checked {
    let dict = Scene::of(input)?.ask(input, |view| view.to_opa_input(options(input)))?;
    let expected = target.get("dict").unwrap_or(&Json::Null);
    if expected.as_object().map(Object::len) != dict.as_object().map(Object::len) {
        return compare::equal("dict", expected, &dict);
    }
    compare::view(
        "dict.input",
        expected.get("input").unwrap_or(&Json::Null),
        dict.get("input").unwrap_or(&Json::Null),
    )
}

/// The cases strip the specification's three headers; the default here strips more.
fn options(input: &Json) -> DictOptions {
    let option = |name| {
        input
            .get("options")
            .and_then(|options| options.get(name))
            .and_then(Json::as_bool)
    };
    DictOptions {
        content: option("include_content").unwrap_or(true),
        context: option("include_context").unwrap_or(true),
        headers: HeaderStripping::Specified,
        ..DictOptions::default()
    }
}

/// Matches a pattern with a view of the input's URI.
pub(super) fn glob(input: &Json, target: &Json) -> Checked {
    let pattern = input
        .get("pattern")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let pattern = UriPattern::new(pattern).map_err(|error| error.to_string())?;
    let part = match input.get("uri").and_then(Json::as_str) {
        Some(uri) => ContentPart::ResourceRef(ResourceReference {
            resource_request_id: String::new(),
            uri: uri.to_owned(),
            name: None,
            resource_type: ResourceType::Uri,
            range_start: None,
            range_end: None,
            selector: None,
        }),
        None => ContentPart::text(""),
    };
    let message = CmfMessage::new(CmfRole::User, vec![part]);
    let matched =
        views_of(&message, ExtensionAccess::NONE).all(|view| view.matches_uri_pattern(&pattern));
    compare::member(target, "match", &Json::from(matched))
}
