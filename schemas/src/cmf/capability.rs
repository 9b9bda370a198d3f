//! Capabilities: what a consumer may see and change (§3.2, §4.5).

use super::vocabulary::vocabulary;

vocabulary! {
    /// A capability of a consumer.
    pub enum Capability {
        /// See the subject: identifier and type.
        ReadSubject = "read_subject",
        /// See the subject and its roles.
        ReadRoles = "read_roles",
        /// See the subject and its teams.
        ReadTeams = "read_teams",
        /// See the subject and its claims.
        ReadClaims = "read_claims",
        /// See the subject and its permissions.
        ReadPermissions = "read_permissions",
        /// See session and agent lineage.
        ReadAgent = "read_agent",
        /// See HTTP headers.
        ReadHeaders = "read_headers",
        /// Change HTTP headers, and see them.
        WriteHeaders = "write_headers",
        /// See security labels.
        ReadLabels = "read_labels",
        /// Add security labels, and see them.
        AppendLabels = "append_labels",
        /// See the delegation chain.
        ReadDelegation = "read_delegation",
        /// Add hops to the delegation chain, and see it.
        AppendDelegation = "append_delegation",
        /// See access profiles (§4.5).
        ReadObjects = "read_objects",
        /// See data policies (§4.5).
        ReadData = "read_data",
        /// Occurs in plugin configurations. Its slot is not part of this format, so it grants
        /// nothing.
        ReadClient = "read_client",
        /// Known from plugin configurations; its slot is none of this format's, so it opens
        /// nothing.
        ReadWorkload = "read_workload",
        /// Known from plugin configurations; its slot is none of this format's, so it opens
        /// nothing.
        ReadInboundCredentials = "read_inbound_credentials",
        /// Known from plugin configurations; its slot is none of this format's, so it opens
        /// nothing.
        ReadDelegatedTokens = "read_delegated_tokens",
    }
}

impl Capability {
    /// Returns the capability that this one implies: write access implies read access, and access
    /// to a set of the subject implies access to the subject.
    pub const fn implies(self) -> Option<Capability> {
        match self {
            Capability::WriteHeaders => Some(Capability::ReadHeaders),
            Capability::AppendLabels => Some(Capability::ReadLabels),
            Capability::AppendDelegation => Some(Capability::ReadDelegation),
            Capability::ReadRoles
            | Capability::ReadTeams
            | Capability::ReadClaims
            | Capability::ReadPermissions => Some(Capability::ReadSubject),
            _ => None,
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// An unknown capability name in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no capability is called `{name}` (known: {})", Capability::NAMES.join(", "))]
pub struct UnknownCapability {
    /// The name.
    pub name: String,
}

/// A set of capabilities including the implied ones, stored in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapabilitySet(u32);

impl CapabilitySet {
    /// No capabilities: the base tier.
    pub const NONE: CapabilitySet = CapabilitySet(0);

    /// All capabilities: the view of the host.
    pub const fn all() -> Self {
        CapabilitySet((1 << Capability::ALL.len()) - 1)
    }

    /// Adds `capability` and the one that it implies.
    pub const fn with(self, capability: Capability) -> Self {
        let implied = match capability.implies() {
            Some(implied) => implied.bit(),
            None => 0,
        };
        CapabilitySet(self.0 | capability.bit() | implied)
    }

    /// Adds access to access profiles and data policies, which the public implementations grant to
    /// all consumers. The specification requires capabilities for them (§4.5), and so does this
    /// crate unless a host uses this method.
    pub const fn with_open_profiles(self) -> Self {
        self.with(Capability::ReadObjects)
            .with(Capability::ReadData)
    }

    /// Creates the set that a configuration names.
    ///
    /// # Errors
    /// [`UnknownCapability`] for an unknown name.
    pub fn from_names<'n>(
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, UnknownCapability> {
        names.into_iter().try_fold(
            CapabilitySet::NONE,
            |set, name| match Capability::from_name(name) {
                Some(capability) => Ok(set.with(capability)),
                None => Err(UnknownCapability {
                    name: name.to_owned(),
                }),
            },
        )
    }

    /// Creates the set of the known `names`, ignoring unknown ones.
    pub fn from_known_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        names
            .into_iter()
            .filter_map(Capability::from_name)
            .collect()
    }

    /// Returns true if the set contains `capability`, named or implied.
    pub const fn contains(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities
            .into_iter()
            .fold(CapabilitySet::NONE, CapabilitySet::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_capabilities_imply_read_capabilities() {
        for (name, implied) in [
            ("write_headers", Capability::ReadHeaders),
            ("append_labels", Capability::ReadLabels),
            ("append_delegation", Capability::ReadDelegation),
            ("read_roles", Capability::ReadSubject),
            ("read_claims", Capability::ReadSubject),
        ] {
            let set = CapabilitySet::from_names([name]).unwrap();
            assert!(set.contains(implied), "{name}");
            assert!(!set.contains(Capability::ReadAgent), "{name}");
        }
        assert!(
            !CapabilitySet::from_names(["read_headers"])
                .unwrap()
                .contains(Capability::WriteHeaders)
        );
    }

    #[test]
    fn an_unknown_name_is_an_error_or_ignored() {
        let error = CapabilitySet::from_names(["read_labels", "read_everything"]).unwrap_err();
        assert_eq!(error.name, "read_everything");
        assert_eq!(
            CapabilitySet::from_known_names(["read_everything"]),
            CapabilitySet::NONE
        );
    }
}
