//! What one consumer sees of a message's extensions (§3.2, §4.5): every question is answered under
//! its capabilities.
//!
//! [`Access`] borrows and copies nothing; [`filter`] makes the copy that can be handed out. Both
//! ask the same methods, so they can't disagree.

use std::collections::{BTreeMap, BTreeSet};

use super::capability::{Capability, CapabilitySet};
use super::extensions::{
    AgentExtension, DataPolicy, DelegationExtension, Extensions, HttpExtension,
    ObjectSecurityProfile, RequestExtension, SecurityExtension, Subject,
};
use super::labels::Labels;
use super::vocabulary::SubjectType;

static NO_LABELS: Labels = Labels::new();
static NO_NAMES: BTreeSet<String> = BTreeSet::new();
static NO_CLAIMS: BTreeMap<String, String> = BTreeMap::new();
static NO_OBJECTS: BTreeMap<String, ObjectSecurityProfile> = BTreeMap::new();
static NO_DATA: BTreeMap<String, DataPolicy> = BTreeMap::new();

/// Extensions as one consumer sees them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    extensions: Option<&'a Extensions>,
    capabilities: CapabilitySet,
}

/// The subject as one consumer sees it: what it may not see is empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VisibleSubject<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// What it is.
    pub subject_type: SubjectType,
    /// Its roles.
    pub roles: &'a BTreeSet<String>,
    /// What it may do.
    pub permissions: &'a BTreeSet<String>,
    /// Its teams.
    pub teams: &'a BTreeSet<String>,
    /// What its credentials claim.
    pub claims: &'a BTreeMap<String, String>,
}

impl VisibleSubject<'_> {
    fn to_subject(self) -> Subject {
        Subject {
            id: self.id.to_owned(),
            subject_type: self.subject_type,
            roles: self.roles.clone(),
            permissions: self.permissions.clone(),
            teams: self.teams.clone(),
            claims: self.claims.clone(),
        }
    }
}

impl<'a> Access<'a> {
    /// Nothing to see.
    pub const NONE: Access<'static> = Access {
        extensions: None,
        capabilities: CapabilitySet::NONE,
    };

    /// `extensions` as a consumer with `capabilities` sees them.
    pub const fn new(extensions: Option<&'a Extensions>, capabilities: CapabilitySet) -> Self {
        Access {
            extensions,
            capabilities,
        }
    }

    /// The request; open to all.
    pub fn request(&self) -> Option<&'a RequestExtension> {
        self.extensions?.request.as_ref()
    }

    /// Session and lineage; `read_agent`.
    pub fn agent(&self) -> Option<&'a AgentExtension> {
        self.with(Capability::ReadAgent)?.agent.as_ref()
    }

    /// HTTP headers; `read_headers`.
    pub fn http(&self) -> Option<&'a HttpExtension> {
        self.with(Capability::ReadHeaders)?.http.as_ref()
    }

    /// The delegation chain; `read_delegation`.
    pub fn delegation(&self) -> Option<&'a DelegationExtension> {
        self.with(Capability::ReadDelegation)?.delegation.as_ref()
    }

    /// The level of classification; open to all.
    pub fn classification(&self) -> Option<&'a str> {
        self.extensions?
            .security
            .as_ref()?
            .classification
            .as_deref()
    }

    /// Security labels; `read_labels`.
    pub fn labels(&self) -> &'a Labels {
        self.security_with(Capability::ReadLabels)
            .map_or(&NO_LABELS, |security| &security.labels)
    }

    /// Who asks; `read_subject` and, for each of its sets, the capability of that set.
    pub fn subject(&self) -> Option<VisibleSubject<'a>> {
        let subject = self
            .security_with(Capability::ReadSubject)?
            .subject
            .as_ref()?;
        let may = |capability| self.capabilities.contains(capability);
        Some(VisibleSubject {
            id: &subject.id,
            subject_type: subject.subject_type,
            roles: if may(Capability::ReadRoles) {
                &subject.roles
            } else {
                &NO_NAMES
            },
            permissions: if may(Capability::ReadPermissions) {
                &subject.permissions
            } else {
                &NO_NAMES
            },
            teams: if may(Capability::ReadTeams) {
                &subject.teams
            } else {
                &NO_NAMES
            },
            claims: if may(Capability::ReadClaims) {
                &subject.claims
            } else {
                &NO_CLAIMS
            },
        })
    }

    /// Access profiles by entity; `read_objects`.
    pub fn objects(&self) -> &'a BTreeMap<String, ObjectSecurityProfile> {
        self.security_with(Capability::ReadObjects)
            .map_or(&NO_OBJECTS, |security| &security.objects)
    }

    /// Data policies by entity; `read_data`.
    pub fn data(&self) -> &'a BTreeMap<String, DataPolicy> {
        self.security_with(Capability::ReadData)
            .map_or(&NO_DATA, |security| &security.data)
    }

    /// A copy of what can be seen. It starts from nothing, so slots that this version doesn't know
    /// stay hidden.
    pub fn to_extensions(&self) -> Option<Extensions> {
        let all = self.extensions?;
        Some(Extensions {
            request: self.request().cloned(),
            agent: self.agent().cloned(),
            http: self.http().cloned(),
            security: all.security.as_ref().map(|_| self.to_security()),
            delegation: self.delegation().cloned(),
            mcp: all.mcp.clone(),
            completion: all.completion.clone(),
            provenance: all.provenance.clone(),
            llm: all.llm.clone(),
            framework: all.framework.clone(),
            meta: all.meta.clone(),
            custom: all.custom.clone(),
            unknown: Default::default(),
        })
    }

    fn to_security(self) -> SecurityExtension {
        SecurityExtension {
            labels: self.labels().clone(),
            classification: self.classification().map(str::to_owned),
            subject: self.subject().map(VisibleSubject::to_subject),
            objects: self.objects().clone(),
            data: self.data().clone(),
        }
    }

    /// The extensions, for a consumer that has `capability`.
    fn with(&self, capability: Capability) -> Option<&'a Extensions> {
        self.extensions
            .filter(|_| self.capabilities.contains(capability))
    }

    fn security_with(&self, capability: Capability) -> Option<&'a SecurityExtension> {
        self.with(capability)?.security.as_ref()
    }
}

/// What a consumer with `capabilities` sees of `extensions`: the copy to hand out. What comes back
/// goes through [`merge`](super::merge()).
pub fn filter(extensions: Option<&Extensions>, capabilities: CapabilitySet) -> Option<Extensions> {
    Access::new(extensions, capabilities).to_extensions()
}
