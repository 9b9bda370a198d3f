//! Propagation of labels and restrictions through a conversation (§3.6.3, §5.1).
//!
//! The output of a tool, resource or template gets the labels of its data policy. A message keeps
//! its labels and passes them to all later messages; the restrictions of policies also apply
//! downstream.

use std::collections::BTreeSet;

use super::access::ExtensionAccess;
use super::capability::{Capability, CapabilitySet};
use super::extensions::{DataPolicy, Extensions};
use super::labels::Labels;
use super::message::CmfMessage;
use super::view::{MessageView, views};
use super::vocabulary::ContentType;

/// Returns true for kinds that data policies apply to: the outputs of tools, resources and
/// templates.
pub const fn is_governed(kind: ContentType) -> bool {
    matches!(
        kind,
        ContentType::ToolResult | ContentType::Resource | ContentType::PromptResult
    )
}

/// Returns the data policy for the part of `view`, if the kind is governed and the policy is
/// visible.
pub fn governing_policy<'a>(view: &MessageView<'a>) -> Option<&'a DataPolicy> {
    view.data_policy().filter(|_| is_governed(view.kind()))
}

/// Adds the labels of the data policy of `view` to `labels`.
pub fn apply_policy_labels(view: &MessageView, labels: &mut Labels) {
    if let Some(policy) = governing_policy(view) {
        labels.add_all(policy.apply_labels.iter().map(String::as_str));
    }
}

/// The combined restrictions of several data policies: the union of denials, the intersection of
/// allowances.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restrictions {
    denied: BTreeSet<String>,
    allowed: Option<BTreeSet<String>>,
}

impl Restrictions {
    /// Adds the restrictions of `policy`.
    pub fn add(&mut self, policy: &DataPolicy) {
        self.denied.extend(policy.denied_actions.iter().cloned());
        if let Some(allowed) = &policy.allowed_actions {
            let allowed: BTreeSet<String> = allowed.iter().cloned().collect();
            self.allowed = Some(match self.allowed.take() {
                Some(before) => before.intersection(&allowed).cloned().collect(),
                None => allowed,
            });
        }
    }

    /// Returns true if all policies permit `action`.
    pub fn permit(&self, action: &str) -> bool {
        !self.denied.contains(action)
            && self
                .allowed
                .as_ref()
                .is_none_or(|allowed| allowed.contains(action))
    }
}

/// The accumulated labels and restrictions of a conversation. Clone it where the conversation
/// branches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationLabels {
    labels: Labels,
    restrictions: Restrictions,
}

impl ConversationLabels {
    /// Adds the next message of the conversation. Its extensions get the labels of all earlier
    /// messages and those of its own data policies, including nested prompt messages.
    pub fn propagate(&mut self, message: &CmfMessage, extensions: &mut Extensions) {
        let access = ExtensionAccess::new(
            Some(extensions),
            CapabilitySet::NONE.with(Capability::ReadData),
        );
        let mut labels = self.labels.clone();
        for view in views(message, access).recursive() {
            apply_policy_labels(&view, &mut labels);
            if let Some(policy) = governing_policy(&view) {
                self.restrictions.add(policy);
            }
        }
        if let Some(security) = &extensions.security {
            labels.add_all(security.labels.iter());
        }
        if !labels.is_empty() {
            extensions.security.get_or_insert_default().labels = labels.clone();
        }
        self.labels = labels;
    }

    /// Returns the labels that the next message inherits.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the restrictions on data of this conversation.
    pub fn restrictions(&self) -> &Restrictions {
        &self.restrictions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn message(json: &str) -> CmfMessage {
        CmfMessage::parse(&Json::parse(json.as_bytes()).unwrap()).unwrap()
    }

    fn extensions(json: &str) -> Extensions {
        Extensions::parse(&Json::parse(json.as_bytes()).unwrap()).unwrap()
    }

    fn labels(extensions: &Extensions) -> Vec<&str> {
        extensions
            .security
            .iter()
            .flat_map(|security| security.labels.iter())
            .collect()
    }

    const RESULT: &str = r#"{"role":"tool","content":[{"content_type":"tool_result",
        "content":{"tool_call_id":"1","tool_name":"get_user","content":"x"}}]}"#;
    const POLICY: &str = r#"{"security":{"labels":["CONFIDENTIAL"],"data":{"get_user":
        {"apply_labels":["PII"],"denied_actions":["export"],"allowed_actions":["view","export"]}}}}"#;

    #[test]
    fn labels_of_a_tool_result_pass_to_the_messages_after_it() {
        let mut conversation = ConversationLabels::default();
        let mut before = Extensions::default();
        conversation.propagate(&message(r#"{"role":"user","content":[]}"#), &mut before);
        assert_eq!(before, Extensions::default());

        let mut result = extensions(POLICY);
        conversation.propagate(&message(RESULT), &mut result);
        assert_eq!(labels(&result), ["CONFIDENTIAL", "PII"]);

        let mut answer = extensions(r#"{"security":{"labels":["draft"]}}"#);
        conversation.propagate(
            &message(r#"{"role":"assistant","content":[]}"#),
            &mut answer,
        );
        assert_eq!(labels(&answer), ["CONFIDENTIAL", "PII", "draft"]);
        assert!(conversation.restrictions().permit("view"));
        assert!(
            !conversation.restrictions().permit("export")
                && !conversation.restrictions().permit("forward")
        );
    }

    #[test]
    fn a_tool_call_gets_no_labels() {
        let call = r#"{"role":"assistant","content":[{"content_type":"tool_call",
            "content":{"tool_call_id":"1","name":"get_user"}}]}"#;
        let mut call_extensions = extensions(POLICY);
        ConversationLabels::default().propagate(&message(call), &mut call_extensions);
        assert_eq!(labels(&call_extensions), ["CONFIDENTIAL"]);
    }

    #[test]
    fn results_nested_in_a_rendered_prompt_get_labels() {
        let nested = format!(
            r#"{{"role":"tool","content":[{{"content_type":"prompt_result",
            "content":{{"prompt_request_id":"1","prompt_name":"p","messages":[{RESULT}]}}}}]}}"#
        );
        let mut nested_extensions = extensions(POLICY);
        ConversationLabels::default().propagate(&message(&nested), &mut nested_extensions);
        assert_eq!(labels(&nested_extensions), ["CONFIDENTIAL", "PII"]);
    }

    #[test]
    fn allowances_of_several_policies_intersect() {
        let mut restrictions = Restrictions::default();
        assert!(restrictions.permit("anything"));
        let allow = |names: &[&str]| DataPolicy {
            allowed_actions: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..DataPolicy::default()
        };
        restrictions.add(&allow(&["view", "summarize"]));
        restrictions.add(&DataPolicy::default());
        restrictions.add(&allow(&["view"]));
        assert!(restrictions.permit("view") && !restrictions.permit("summarize"));
        restrictions.add(&allow(&[]));
        assert!(!restrictions.permit("view"));
    }
}
