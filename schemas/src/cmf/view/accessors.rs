//! Flat accessors for the extensions (§4.5), limited to what the consumer may see.

use super::MessageView;
use crate::cmf::access::{ExtensionAccess, VisibleSubject};
use crate::cmf::extensions::{AgentExtension, DataPolicy, Headers, ObjectSecurityProfile};
use crate::cmf::labels::Labels;
use crate::cmf::part::ContentPart;

static NO_HEADERS: Headers = Headers::new();

impl<'a> MessageView<'a> {
    /// Returns the extensions as the consumer sees them.
    pub fn access(&self) -> ExtensionAccess<'a> {
        self.access
    }

    /// Returns the environment, such as `production`.
    pub fn environment(&self) -> Option<&'a str> {
        self.access.request()?.environment.as_deref()
    }

    /// Returns the request id.
    pub fn request_id(&self) -> Option<&'a str> {
        self.access.request()?.request_id.as_deref()
    }

    /// Returns the subject.
    pub fn subject(&self) -> Option<VisibleSubject<'a>> {
        self.access.subject()
    }

    /// Returns true if the subject has the role, case-sensitive.
    pub fn has_role(&self, role: &str) -> bool {
        self.subject()
            .is_some_and(|subject| subject.roles.contains(role))
    }

    /// Returns true if the subject has the permission, case-sensitive.
    pub fn has_permission(&self, permission: &str) -> bool {
        self.subject()
            .is_some_and(|subject| subject.permissions.contains(permission))
    }

    /// Returns the security labels of the message.
    pub fn labels(&self) -> &'a Labels {
        self.access.labels()
    }

    /// Returns true if the message has the label, case-sensitive. Rules that deny should use
    /// [`Labels::contains_ignoring_case`].
    pub fn has_label(&self, label: &str) -> bool {
        self.labels().contains(label)
    }

    /// Returns the headers, including sensitive ones.
    pub fn headers(&self) -> &'a Headers {
        self.access.http().map_or(&NO_HEADERS, |http| &http.headers)
    }

    /// Returns the first header `name`, ignoring case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers().get(name)
    }

    /// Returns session and lineage.
    pub fn agent(&self) -> Option<&'a AgentExtension> {
        self.access.agent()
    }

    /// Returns the user's original input.
    pub fn agent_input(&self) -> Option<&'a str> {
        self.agent()?.input.as_deref()
    }

    /// Returns the session id.
    pub fn session_id(&self) -> Option<&'a str> {
        self.agent()?.session_id.as_deref()
    }

    /// Returns the conversation id.
    pub fn conversation_id(&self) -> Option<&'a str> {
        self.agent()?.conversation_id.as_deref()
    }

    /// Returns the index in the conversation, from 0.
    pub fn turn(&self) -> Option<i64> {
        self.agent()?.turn
    }

    /// Returns the agent that created the message.
    pub fn agent_id(&self) -> Option<&'a str> {
        self.agent()?.agent_id.as_deref()
    }

    /// Returns the agent that started that agent.
    pub fn parent_agent_id(&self) -> Option<&'a str> {
        self.agent()?.parent_agent_id.as_deref()
    }

    /// Returns the access profile of the entity.
    pub fn object(&self) -> Option<&'a ObjectSecurityProfile> {
        let objects = self.access.objects();
        self.entities().find_map(|entity| objects.get(entity))
    }

    /// Returns the data policy of the entity.
    pub fn data_policy(&self) -> Option<&'a DataPolicy> {
        let data = self.access.data();
        self.entities().find_map(|entity| data.get(entity))
    }

    /// Returns the lookup keys of the entity: its name, and for resources their URI, the key in
    /// §3.6.2.
    fn entities(&self) -> impl Iterator<Item = &'a str> {
        let uri = match self.part {
            ContentPart::Resource(resource) => Some(resource.uri.as_str()),
            ContentPart::ResourceRef(reference) => Some(reference.uri.as_str()),
            _ => None,
        };
        [self.name(), uri]
            .into_iter()
            .flatten()
            .filter(|entity| !entity.is_empty())
    }
}
