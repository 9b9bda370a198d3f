//! What a scan finds.

use serde::Serialize;

use super::pack::{Rule, Severity};

/// A grain that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's place among the rules of the scan.
    pub rule: usize,
    /// The grain; absent where a finding is about several.
    pub address: Option<String>,
    /// What the rule shows of it, by name.
    pub evidence: Vec<(String, String)>,
}

/// A finding in the form of reports.
#[derive(Debug, Serialize)]
pub struct FindingRecord<'a> {
    /// Pack and rule.
    pub rule: &'a str,
    /// How grave it is.
    pub severity: Severity,
    /// Article and section.
    pub norm: &'a str,
    /// The grain.
    pub content_address: Option<&'a str>,
    /// What is wrong with it.
    pub message: String,
    /// What the rule shows of it.
    pub evidence: serde_json::Map<String, serde_json::Value>,
}

impl Finding {
    /// The finding with what its rule says about it.
    pub fn record<'a>(&'a self, rule: &'a Rule) -> FindingRecord<'a> {
        let evidence = self
            .evidence
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()));
        FindingRecord {
            rule: &rule.id,
            severity: rule.severity,
            norm: &rule.norm,
            content_address: self.address.as_deref(),
            message: rule.message.render(&self.evidence),
            evidence: evidence.collect(),
        }
    }

    /// A value of the evidence.
    pub fn evidence(&self, name: &str) -> Option<&str> {
        self.evidence
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What a rule did in a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// Findings.
    pub findings: u64,
    /// Views on which the rule's policy failed: nobody knows whether they break it.
    pub failures: u64,
    /// What the first failure was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
}
