//! Labels, identity, access profiles and data policies (§3.6).

use std::collections::{BTreeMap, BTreeSet};

use crate::cmf::json_record::record;
use crate::cmf::labels::Labels;
use crate::cmf::vocabulary::SubjectType;

record! {
    /// The security attributes that policies evaluate.
    #[derive(Eq, Default)]
    pub struct SecurityExtension {
        /// Labels such as `PII`, which can only be added.
        default labels: Labels,
        /// The level of classification.
        optional classification: Option<String>,
        /// The subject.
        optional subject: Option<Subject>,
        /// Access profiles by entity: tool name, resource URI or prompt name.
        default objects: BTreeMap<String, ObjectSecurityProfile>,
        /// Data policies by entity.
        default data: BTreeMap<String, DataPolicy>,
    }
}

record! {
    /// The authenticated entity that makes the request (§3.6.1).
    #[derive(Eq)]
    pub struct Subject {
        /// Its identifier.
        required id: String,
        /// What it is.
        required subject_type as "type": SubjectType,
        /// Its roles.
        default roles: BTreeSet<String>,
        /// The permissions.
        default permissions: BTreeSet<String>,
        /// Its teams.
        default teams: BTreeSet<String>,
        /// The claims of its credentials. Never serialized for policies.
        default claims: BTreeMap<String, String>,
    }
}

record! {
    /// The requirements for using an entity (§3.6.2), evaluated before use.
    #[derive(Eq)]
    pub struct ObjectSecurityProfile {
        /// The enforcing party: `host`, `tool` or `both`; not a closed set.
        default managed_by: String = "host".to_owned(),
        /// The permissions that the subject must have.
        default permissions: Vec<String>,
        /// The trust domain, such as `internal`, `external` or `privileged`; not a closed set.
        optional trust_domain: Option<String>,
        /// The fields that the entity accesses.
        default data_scope: Vec<String>,
    }
}

impl Default for ObjectSecurityProfile {
    fn default() -> Self {
        ObjectSecurityProfile {
            managed_by: "host".to_owned(),
            permissions: Vec::new(),
            trust_domain: None,
            data_scope: Vec::new(),
        }
    }
}

record! {
    /// The permitted uses of an entity's output (§3.6.3), evaluated after use.
    #[derive(Eq, Default)]
    pub struct DataPolicy {
        /// Labels to add to the output.
        default apply_labels: Vec<String>,
        /// The allowed actions; unrestricted if unset, none if empty.
        optional allowed_actions: Option<Vec<String>>,
        /// The denied actions, which take precedence over allowed ones.
        default denied_actions: Vec<String>,
        /// The retention policy.
        optional retention: Option<RetentionPolicy>,
    }
}

impl DataPolicy {
    /// Returns true if `action` is permitted on the output: not denied, and allowed if allowed
    /// actions are listed.
    pub fn permits(&self, action: &str) -> bool {
        let is_action = |name: &String| name == action;
        !self.denied_actions.iter().any(is_action)
            && self
                .allowed_actions
                .as_ref()
                .is_none_or(|allowed| allowed.iter().any(is_action))
    }
}

record! {
    /// The retention policy of data (§3.6.3).
    #[derive(Eq)]
    pub struct RetentionPolicy {
        /// The maximum age in seconds.
        optional max_age_seconds: Option<i64>,
        /// `session`, `transient`, `persistent` or `none`, not a closed set.
        default policy: String = "persistent".to_owned(),
        /// The time of deletion, ISO 8601.
        optional delete_after: Option<String>,
    }
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        RetentionPolicy {
            max_age_seconds: None,
            policy: "persistent".to_owned(),
            delete_after: None,
        }
    }
}
