//! The extensions of a message as one consumer sees them: every accessor applies the consumer's
//! capabilities (§3.2, §4.5).
//!
//! [`ExtensionAccess`] borrows the extensions; [`filter`] makes a filtered copy for a recipient.
//! Both use the same accessors, so they always agree.

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

/// The extensions of a message as one consumer sees them.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtensionAccess<'a> {
    extensions: Option<&'a Extensions>,
    capabilities: CapabilitySet,
}

/// The subject as one consumer sees it; hidden sets are empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VisibleSubject<'a> {
    /// The identifier.
    pub id: &'a str,
    /// The kind of entity.
    pub subject_type: SubjectType,
    /// The roles.
    pub roles: &'a BTreeSet<String>,
    /// The permissions.
    pub permissions: &'a BTreeSet<String>,
    /// The teams.
    pub teams: &'a BTreeSet<String>,
    /// The claims of the credentials.
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

impl<'a> ExtensionAccess<'a> {
    /// No extensions and no capabilities.
    pub const NONE: ExtensionAccess<'static> = ExtensionAccess {
        extensions: None,
        capabilities: CapabilitySet::NONE,
    };

    /// Creates the view of a consumer with `capabilities` of `extensions`.
    pub const fn new(extensions: Option<&'a Extensions>, capabilities: CapabilitySet) -> Self {
        ExtensionAccess {
            extensions,
            capabilities,
        }
    }

    /// Returns the request; requires no capability.
    pub fn request(&self) -> Option<&'a RequestExtension> {
        self.extensions?.request.as_ref()
    }

    /// Returns session and lineage; requires `read_agent`.
    pub fn agent(&self) -> Option<&'a AgentExtension> {
        self.with(Capability::ReadAgent)?.agent.as_ref()
    }

    /// Returns the HTTP headers; requires `read_headers`.
    pub fn http(&self) -> Option<&'a HttpExtension> {
        self.with(Capability::ReadHeaders)?.http.as_ref()
    }

    /// Returns the delegation chain; requires `read_delegation`.
    pub fn delegation(&self) -> Option<&'a DelegationExtension> {
        self.with(Capability::ReadDelegation)?.delegation.as_ref()
    }

    /// Returns the classification level; requires no capability.
    pub fn classification(&self) -> Option<&'a str> {
        self.extensions?
            .security
            .as_ref()?
            .classification
            .as_deref()
    }

    /// Returns the security labels; requires `read_labels`.
    pub fn labels(&self) -> &'a Labels {
        self.security_with(Capability::ReadLabels)
            .map_or(&NO_LABELS, |security| &security.labels)
    }

    /// Returns the subject; requires `read_subject`, and for each of its sets the respective
    /// capability.
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

    /// Returns the access profiles by entity; requires `read_objects`.
    pub fn objects(&self) -> &'a BTreeMap<String, ObjectSecurityProfile> {
        self.security_with(Capability::ReadObjects)
            .map_or(&NO_OBJECTS, |security| &security.objects)
    }

    /// Returns the data policies by entity; requires `read_data`.
    pub fn data(&self) -> &'a BTreeMap<String, DataPolicy> {
        self.security_with(Capability::ReadData)
            .map_or(&NO_DATA, |security| &security.data)
    }

    /// Copies the visible extensions. The copy starts empty, so slots that this version does not
    /// know stay hidden.
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

    /// Returns the extensions if the consumer has `capability`.
    fn with(&self, capability: Capability) -> Option<&'a Extensions> {
        self.extensions
            .filter(|_| self.capabilities.contains(capability))
    }

    fn security_with(&self, capability: Capability) -> Option<&'a SecurityExtension> {
        self.with(capability)?.security.as_ref()
    }
}

/// Returns a copy of `extensions` as a consumer with `capabilities` sees them. Apply the consumer's
/// changes with [`merge`](super::merge()).
pub fn filter(extensions: Option<&Extensions>, capabilities: CapabilitySet) -> Option<Extensions> {
    ExtensionAccess::new(extensions, capabilities).to_extensions()
}
