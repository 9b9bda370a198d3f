//! Labels, identity, access profiles and data policies (§3.6).

use std::collections::{BTreeMap, BTreeSet};

use crate::cmf::labels::Labels;
use crate::cmf::record::record;
use crate::cmf::vocabulary::SubjectType;

record! {
    /// What policies decide on.
    #[derive(Eq, Default)]
    pub struct SecurityExtension {
        /// Labels such as `PII`, which only grow.
        default labels: Labels,
        /// The level of classification.
        optional classification: Option<String>,
        /// Who asks.
        optional subject: Option<Subject>,
        /// Access profiles by entity: tool name, resource URI or prompt name.
        default objects: BTreeMap<String, ObjectSecurityProfile>,
        /// Data policies by entity.
        default data: BTreeMap<String, DataPolicy>,
    }
}

record! {
    /// The authenticated entity that asks (§3.6.1).
    #[derive(Eq)]
    pub struct Subject {
        /// Its identifier.
        required id: String,
        /// What it is.
        required subject_type as "type": SubjectType,
        /// Its roles.
        default roles: BTreeSet<String>,
        /// What it may do.
        default permissions: BTreeSet<String>,
        /// Its teams.
        default teams: BTreeSet<String>,
        /// What its credentials claim. Never serialised for policies.
        default claims: BTreeMap<String, String>,
    }
}

record! {
    /// What it takes to use an entity (§3.6.2); evaluated before it is used.
    #[derive(Eq)]
    pub struct ObjectSecurityProfile {
        /// Who enforces it: `host`, `tool` or `both`, not a closed set.
        default managed_by: String = "host".to_owned(),
        /// What the subject must be permitted.
        default permissions: Vec<String>,
        /// Such as `internal`, `external` or `privileged`, not a closed set.
        optional trust_domain: Option<String>,
        /// The fields that the entity touches.
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
    /// What may be done with an entity's output (§3.6.3); evaluated after it was used.
    #[derive(Eq, Default)]
    pub struct DataPolicy {
        /// Labels that the output gets.
        default apply_labels: Vec<String>,
        /// The only actions allowed on it; unrestricted where unset, none where empty.
        optional allowed_actions: Option<Vec<String>>,
        /// Actions denied on it, whatever is allowed.
        default denied_actions: Vec<String>,
        /// How long it may be kept.
        optional retention: Option<RetentionPolicy>,
    }
}

impl DataPolicy {
    /// True if `action` may be done with the output: it isn't denied, and it is allowed where only
    /// some actions are.
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
    /// How long data may be kept (§3.6.3).
    #[derive(Eq)]
    pub struct RetentionPolicy {
        /// At most this long, in seconds.
        optional max_age_seconds: Option<i64>,
        /// `session`, `transient`, `persistent` or `none`, not a closed set.
        default policy: String = "persistent".to_owned(),
        /// When it must be gone, ISO 8601.
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
