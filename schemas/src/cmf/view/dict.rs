//! Serialization of a view as an object for external policy engines and for people (§4.7): members
//! in a fixed order, without secrets.

use super::MessageView;
use super::properties::Property;
use super::sink::{DictSink, JsonTree};
use crate::cmf::access::VisibleSubject;
use crate::cmf::extensions::{
    AgentExtension, DataPolicy, Headers, ObjectSecurityProfile, same_name,
};
use crate::json::{Json, Object};

/// The headers that are removed from serialized views. Names are compared ignoring case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderStripping {
    /// All known credential headers: the specification's three, `Set-Cookie`, `Proxy-Authorization`
    /// and `X-Auth-Token`.
    #[default]
    Credentials,
    /// The three headers of the specification (§3.5): `Authorization`, `Cookie`, `X-API-Key`.
    Specified,
}

impl HeaderStripping {
    fn names(self) -> &'static [&'static str] {
        const NAMES: &[&str] = &[
            "authorization",
            "cookie",
            "x-api-key",
            "set-cookie",
            "proxy-authorization",
            "x-auth-token",
        ];
        match self {
            HeaderStripping::Credentials => NAMES,
            HeaderStripping::Specified => NAMES.split_at(3).0,
        }
    }

    /// Returns true if a header with this name is removed.
    pub fn strips(self, name: &str) -> bool {
        self.names()
            .iter()
            .any(|sensitive| same_name(name, sensitive))
    }
}

/// Options of serialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictOptions {
    /// Include the content and its size.
    pub content: bool,
    /// Include the arguments. The specification keeps them if the content is excluded, although
    /// they are the same data.
    pub arguments: bool,
    /// Include the extensions.
    pub context: bool,
    /// The headers to remove.
    pub headers: HeaderStripping,
}

impl Default for DictOptions {
    fn default() -> Self {
        DictOptions {
            content: true,
            arguments: true,
            context: true,
            headers: HeaderStripping::default(),
        }
    }
}

impl MessageView<'_> {
    /// Serializes the view as a JSON object.
    pub fn to_dict(&self, options: DictOptions) -> Json<'static> {
        let mut tree = JsonTree::default();
        self.write_dict(options, &mut tree);
        tree.into_json()
    }

    /// Serializes the view as input for Open Policy Agent: `{"input": …}`.
    pub fn to_opa_input(&self, options: DictOptions) -> Json<'static> {
        let mut tree = JsonTree::default();
        tree.open_object();
        tree.key("input");
        self.write_dict(options, &mut tree);
        tree.close_object();
        tree.into_json()
    }

    /// Writes the view to `sink`, with members in the order of the specification.
    pub fn write_dict(&self, options: DictOptions, sink: &mut impl DictSink) {
        sink.open_object();
        self.write_identity(sink);
        if options.content {
            self.write_content(sink);
        }
        write_text(sink, "mime_type", self.mime_type());
        if let Some(arguments) = self.args().filter(|_| options.arguments) {
            sink.key("arguments");
            write_object(sink, arguments);
        }
        self.write_properties(sink);
        if options.context {
            let mut context = LazyObject::new("extensions", sink);
            self.write_context(options.headers, &mut context);
            context.close();
        }
        sink.close_object();
    }

    fn write_identity(&self, sink: &mut impl DictSink) {
        write_text(sink, "kind", Some(self.kind().as_str()));
        write_text(sink, "role", Some(self.role().as_str()));
        sink.key("is_pre");
        sink.flag(self.is_pre());
        sink.key("is_post");
        sink.flag(self.is_post());
        write_text(sink, "action", Some(self.action().as_str()));
        if let Some(hook) = self.hook() {
            sink.key("hook");
            sink.text(hook);
        }
        write_text(sink, "uri", self.uri());
        write_text(sink, "name", self.name());
    }

    /// Writes the content with its actual size; without content, the declared or embedded size.
    fn write_content(&self, sink: &mut impl DictSink) {
        let size = match self.content() {
            Some(content) => {
                sink.key("content");
                sink.text(content);
                i64::try_from(content.len()).ok()
            }
            None => self.size_bytes(),
        };
        if let Some(size) = size {
            sink.key("size_bytes");
            sink.integer(size);
        }
    }

    fn write_properties(&self, sink: &mut impl DictSink) {
        let mut block = LazyObject::new("properties", sink);
        for (name, value) in self.properties() {
            write_property(block.member(name), value);
        }
        block.close();
    }

    fn write_context<S: DictSink>(&self, stripping: HeaderStripping, context: &mut LazyObject<S>) {
        if let Some(subject) = self.subject() {
            write_subject(context.member("subject"), &subject);
        }
        if let Some(environment) = self.environment().filter(|text| !text.is_empty()) {
            context.member("environment").text(environment);
        }
        if !self.labels().is_empty() {
            write_texts(context.member("labels"), self.labels().iter());
        }
        write_headers(context, self.headers(), stripping);
        if let Some(object) = self.object() {
            write_profile(context.member("object"), object);
        }
        if let Some(policy) = self.data_policy() {
            write_policy(context.member("data"), policy);
        }
        if let Some(agent) = self.agent() {
            write_agent(context, agent);
        }
    }
}

/// An object that is written only if it has members: it opens with the first one.
struct LazyObject<'s, S: DictSink> {
    key: &'static str,
    opened: bool,
    sink: &'s mut S,
}

impl<'s, S: DictSink> LazyObject<'s, S> {
    fn new(key: &'static str, sink: &'s mut S) -> Self {
        LazyObject {
            key,
            opened: false,
            sink,
        }
    }

    /// Starts the member `key`.
    fn member(&mut self, key: &str) -> &mut S {
        if !std::mem::replace(&mut self.opened, true) {
            self.sink.key(self.key);
            self.sink.open_object();
        }
        self.sink.key(key);
        self.sink
    }

    fn close(self) {
        if self.opened {
            self.sink.close_object();
        }
    }
}

/// Writes the subject without claims, which are never serialized.
fn write_subject(sink: &mut impl DictSink, subject: &VisibleSubject) {
    sink.open_object();
    sink.key("id");
    sink.text(subject.id);
    sink.key("type");
    sink.text(subject.subject_type.as_str());
    for (key, set) in [
        ("roles", subject.roles),
        ("permissions", subject.permissions),
        ("teams", subject.teams),
    ] {
        sink.key(key);
        write_texts(sink, set.iter());
    }
    sink.close_object();
}

fn write_headers<S: DictSink>(
    context: &mut LazyObject<S>,
    headers: &Headers,
    stripping: HeaderStripping,
) {
    let mut safe = headers
        .iter()
        .filter(|(name, _)| !stripping.strips(name))
        .peekable();
    if safe.peek().is_none() {
        return;
    }
    let sink = context.member("headers");
    sink.open_object();
    safe.for_each(|(name, value)| {
        sink.key(name);
        sink.text(value);
    });
    sink.close_object();
}

fn write_profile(sink: &mut impl DictSink, object: &ObjectSecurityProfile) {
    sink.open_object();
    sink.key("managed_by");
    sink.text(&object.managed_by);
    sink.key("permissions");
    write_texts(sink, &object.permissions);
    sink.key("trust_domain");
    write_property(sink, Property::text(object.trust_domain.as_ref()));
    sink.key("data_scope");
    write_texts(sink, &object.data_scope);
    sink.close_object();
}

fn write_policy(sink: &mut impl DictSink, policy: &DataPolicy) {
    sink.open_object();
    sink.key("apply_labels");
    write_texts(sink, &policy.apply_labels);
    sink.key("denied_actions");
    write_texts(sink, &policy.denied_actions);
    if let Some(allowed) = &policy.allowed_actions {
        sink.key("allowed_actions");
        write_texts(sink, allowed);
    }
    if let Some(retention) = &policy.retention {
        sink.key("retention");
        sink.open_object();
        sink.key("max_age_seconds");
        write_property(
            sink,
            retention
                .max_age_seconds
                .map_or(Property::Null, Property::Integer),
        );
        sink.key("policy");
        sink.text(&retention.policy);
        sink.key("delete_after");
        write_property(sink, Property::text(retention.delete_after.as_ref()));
        sink.close_object();
    }
    sink.close_object();
}

/// Writes the non-empty members of the agent, without the conversation.
fn write_agent<S: DictSink>(context: &mut LazyObject<S>, agent: &AgentExtension) {
    let members = [
        ("input", Property::text(agent.input.as_ref())),
        ("session_id", Property::text(agent.session_id.as_ref())),
        (
            "conversation_id",
            Property::text(agent.conversation_id.as_ref()),
        ),
        ("turn", agent.turn.map_or(Property::Null, Property::Integer)),
        ("agent_id", Property::text(agent.agent_id.as_ref())),
        (
            "parent_agent_id",
            Property::text(agent.parent_agent_id.as_ref()),
        ),
    ];
    let is_set =
        |(_, value): &(&str, Property)| !matches!(value, Property::Null | Property::Text(""));
    if !members.iter().any(is_set) {
        return;
    }
    let sink = context.member("agent");
    sink.open_object();
    for (key, value) in members.into_iter().filter(is_set) {
        sink.key(key);
        write_property(sink, value);
    }
    sink.close_object();
}

/// Writes a string member unless it is absent or empty.
fn write_text(sink: &mut impl DictSink, key: &str, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        sink.key(key);
        sink.text(text);
    }
}

fn write_texts<T: AsRef<str>>(sink: &mut impl DictSink, texts: impl IntoIterator<Item = T>) {
    sink.open_array();
    texts.into_iter().for_each(|text| sink.text(text.as_ref()));
    sink.close_array();
}

fn write_property(sink: &mut impl DictSink, value: Property) {
    match value {
        Property::Null => sink.null(),
        Property::Text(text) => sink.text(text),
        Property::Flag(flag) => sink.flag(flag),
        Property::Integer(integer) => sink.integer(integer),
        Property::Object(object) => write_object(sink, object),
    }
}

fn write_object(sink: &mut impl DictSink, object: &Object) {
    sink.open_object();
    for (key, value) in object.iter() {
        sink.key(key);
        sink.json(value);
    }
    sink.close_object();
}
