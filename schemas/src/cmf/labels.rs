//! Security labels: a set that only grows (§3.6, §5.1).
//!
//! Only [`super::declassify`] can remove labels.

use std::collections::BTreeSet;

use super::error::{CmfError, JsonPath};
use super::json_record::{FromJson, ToJson};
use crate::json::Json;

/// The security labels of a message. Labels can be added but not removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(BTreeSet<String>);

impl Labels {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Labels(BTreeSet::new())
    }

    /// Adds a label; returns true if it is new.
    pub fn add(&mut self, label: impl Into<String>) -> bool {
        self.0.insert(label.into())
    }

    /// Adds all labels of `others`.
    pub fn add_all<'l>(&mut self, others: impl IntoIterator<Item = &'l str>) {
        for label in others {
            if !self.0.contains(label) {
                self.0.insert(label.to_owned());
            }
        }
    }

    /// Returns the union of several sets: the labels of a message derived from several sources
    /// (§5.1).
    pub fn union<'l>(sources: impl IntoIterator<Item = &'l Labels>) -> Labels {
        let mut union = Labels::new();
        sources
            .into_iter()
            .for_each(|source| union.add_all(source.iter()));
        union
    }

    /// Returns true if the set contains `label`, case-sensitive.
    pub fn contains(&self, label: &str) -> bool {
        self.0.contains(label)
    }

    /// Returns true if the set contains `label`, ignoring case; the safer check for rules that
    /// deny.
    pub fn contains_ignoring_case(&self, label: &str) -> bool {
        let label = label.to_lowercase();
        self.0.iter().any(|own| own.to_lowercase() == label)
    }

    /// Returns true if `other` contains all of these labels.
    pub fn is_subset(&self, other: &Labels) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Returns the labels in the order of their code points.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a label; only for declassification.
    pub(super) fn take(&mut self, label: &str) -> bool {
        self.0.remove(label)
    }
}

impl<L: Into<String>> FromIterator<L> for Labels {
    fn from_iter<I: IntoIterator<Item = L>>(labels: I) -> Self {
        Labels(labels.into_iter().map(Into::into).collect())
    }
}

impl FromJson for Labels {
    const EXPECTED: &'static str = "array";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        BTreeSet::read(json, place).map(Labels)
    }
}

impl ToJson for Labels {
    fn write(&self) -> Json<'static> {
        self.0.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_sources_give_their_union() {
        let sources: [Labels; 3] = [
            ["PII"].into_iter().collect(),
            ["financial", "PII"].into_iter().collect(),
            Labels::new(),
        ];
        assert_eq!(
            Labels::union(&sources).iter().collect::<Vec<_>>(),
            ["PII", "financial"]
        );
    }

    #[test]
    fn a_label_is_found_exactly_or_in_any_case_as_requested() {
        let labels: Labels = ["PII", "Größe"].into_iter().collect();
        assert!(labels.contains("PII") && !labels.contains("pii"));
        assert!(labels.contains_ignoring_case("pii") && labels.contains_ignoring_case("GRÖßE"));
    }
}
