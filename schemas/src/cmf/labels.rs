//! Security labels: a set that grows (§3.6, §5.1).
//!
//! There is no way to take a label out here; that is [`super::declassify`]'s alone.

use std::collections::BTreeSet;

use super::error::{CmfError, Place};
use super::record::{Read, Write};
use crate::json::Json;

/// Security labels of a message. Labels can be added, not removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(BTreeSet<String>);

impl Labels {
    /// No labels.
    pub const fn new() -> Self {
        Labels(BTreeSet::new())
    }

    /// Adds a label; true if it is new.
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

    /// The union of several sources, which is what a message made from all of them carries (§5.1).
    pub fn union<'l>(sources: impl IntoIterator<Item = &'l Labels>) -> Labels {
        let mut union = Labels::new();
        sources
            .into_iter()
            .for_each(|source| union.add_all(source.iter()));
        union
    }

    /// True if `label` is there, spelled exactly.
    pub fn contains(&self, label: &str) -> bool {
        self.0.contains(label)
    }

    /// True if `label` is there in whatever case: the safer question for a rule that denies.
    pub fn contains_ignoring_case(&self, label: &str) -> bool {
        let label = label.to_lowercase();
        self.0.iter().any(|own| own.to_lowercase() == label)
    }

    /// True if `other` has all of these: labels that went from `self` to `other` only grew.
    pub fn is_subset(&self, other: &Labels) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The labels in the order of their code points.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a label out. For declassification alone.
    pub(super) fn take(&mut self, label: &str) -> bool {
        self.0.remove(label)
    }
}

impl<L: Into<String>> FromIterator<L> for Labels {
    fn from_iter<I: IntoIterator<Item = L>>(labels: I) -> Self {
        Labels(labels.into_iter().map(Into::into).collect())
    }
}

impl Read for Labels {
    const EXPECTED: &'static str = "array";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        BTreeSet::read(json, place).map(Labels)
    }
}

impl Write for Labels {
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
    fn a_label_is_found_exactly_or_in_any_case_as_asked() {
        let labels: Labels = ["PII", "Größe"].into_iter().collect();
        assert!(labels.contains("PII") && !labels.contains("pii"));
        assert!(labels.contains_ignoring_case("pii") && labels.contains_ignoring_case("GRÖßE"));
    }
}
