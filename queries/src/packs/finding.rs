//! Findings of a scan.

use serde::Serialize;

use super::pack::{Rule, Severity};

/// A grain that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Index of the rule among the rules of the scan.
    pub rule: usize,
    /// Address of the grain; `None` if the finding is about several.
    pub address: Option<String>,
    /// Values that the rule reports, by name.
    pub evidence: Vec<(String, String)>,
}

/// A finding as it is written to reports.
#[derive(Debug, Serialize)]
pub struct FindingRecord<'a> {
    /// Pack and rule.
    pub rule: &'a str,
    /// Severity of the rule.
    pub severity: Severity,
    /// Article and section of the regulation.
    pub norm: &'a str,
    /// Address of the grain.
    pub content_address: Option<&'a str>,
    /// Rendered message of the rule.
    pub message: String,
    /// Values that the rule reports.
    pub evidence: serde_json::Map<String, serde_json::Value>,
}

impl Finding {
    /// Combines the finding with the properties of its rule.
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

    /// Returns a value of the evidence.
    pub fn evidence(&self, name: &str) -> Option<&str> {
        self.evidence
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Result of one rule in a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// Number of findings.
    pub findings: u64,
    /// Number of views on which the rule's policy failed, so that their compliance is unknown.
    pub failures: u64,
    /// Message of the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<String>,
}
