//! The flat accessors (§4.5): what the extensions say to a view, as far as its consumer may see it.

use super::MessageView;
use crate::cmf::access::{Access, VisibleSubject};
use crate::cmf::extensions::{AgentExtension, DataPolicy, Headers, ObjectSecurityProfile};
use crate::cmf::labels::Labels;
use crate::cmf::part::Part;

static NO_HEADERS: Headers = Headers::new();

impl<'a> MessageView<'a> {
    /// The extensions as the consumer sees them.
    pub fn access(&self) -> Access<'a> {
        self.access
    }

    /// Such as `production`.
    pub fn environment(&self) -> Option<&'a str> {
        self.access.request()?.environment.as_deref()
    }

    /// The request's identifier.
    pub fn request_id(&self) -> Option<&'a str> {
        self.access.request()?.request_id.as_deref()
    }

    /// Who asks.
    pub fn subject(&self) -> Option<VisibleSubject<'a>> {
        self.access.subject()
    }

    /// True if the subject has the role, spelled exactly.
    pub fn has_role(&self, role: &str) -> bool {
        self.subject()
            .is_some_and(|subject| subject.roles.contains(role))
    }

    /// True if the subject has the permission, spelled exactly.
    pub fn has_permission(&self, permission: &str) -> bool {
        self.subject()
            .is_some_and(|subject| subject.permissions.contains(permission))
    }

    /// Security labels of the message.
    pub fn labels(&self) -> &'a Labels {
        self.access.labels()
    }

    /// True if the message has the label, spelled exactly. A rule that denies is safer with
    /// [`Labels::contains_ignoring_case`].
    pub fn has_label(&self, label: &str) -> bool {
        self.labels().contains(label)
    }

    /// The headers as they came, sensitive ones included.
    pub fn headers(&self) -> &'a Headers {
        self.access.http().map_or(&NO_HEADERS, |http| &http.headers)
    }

    /// The first header called `name` in any case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers().get(name)
    }

    /// Session and lineage.
    pub fn agent(&self) -> Option<&'a AgentExtension> {
        self.access.agent()
    }

    /// What the person first asked for.
    pub fn agent_input(&self) -> Option<&'a str> {
        self.agent()?.input.as_deref()
    }

    /// The session.
    pub fn session_id(&self) -> Option<&'a str> {
        self.agent()?.session_id.as_deref()
    }

    /// The conversation.
    pub fn conversation_id(&self) -> Option<&'a str> {
        self.agent()?.conversation_id.as_deref()
    }

    /// The position in the conversation, from 0.
    pub fn turn(&self) -> Option<i64> {
        self.agent()?.turn
    }

    /// The agent that made the message.
    pub fn agent_id(&self) -> Option<&'a str> {
        self.agent()?.agent_id.as_deref()
    }

    /// The agent that started that agent.
    pub fn parent_agent_id(&self) -> Option<&'a str> {
        self.agent()?.parent_agent_id.as_deref()
    }

    /// What it takes to use the entity.
    pub fn object(&self) -> Option<&'a ObjectSecurityProfile> {
        let objects = self.access.objects();
        self.entities().find_map(|entity| objects.get(entity))
    }

    /// What may be done with the entity's output.
    pub fn data_policy(&self) -> Option<&'a DataPolicy> {
        let data = self.access.data();
        self.entities().find_map(|entity| data.get(entity))
    }

    /// What the entity is looked up by: its name, and for resources their URI, which is what §3.6.2
    /// keys them by.
    fn entities(&self) -> impl Iterator<Item = &'a str> {
        let uri = match self.part {
            Part::Resource(resource) => Some(resource.uri.as_str()),
            Part::ResourceRef(reference) => Some(reference.uri.as_str()),
            _ => None,
        };
        [self.name(), uri]
            .into_iter()
            .flatten()
            .filter(|entity| !entity.is_empty())
    }
}
