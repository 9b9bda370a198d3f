//! Statistics of findings for reports that people read: counts, and the first findings of each
//! rule.

use std::collections::HashMap;

use super::super::finding::Finding;
use super::super::pack::{Rule, Severity};

/// Number of findings of one rule that are shown.
pub const MAX_SAMPLES: usize = 10;

/// Maximum number of distinct values that are counted separately; further ones are counted under
/// [`OTHERS`].
const MAX_VALUES: usize = 10_000;

/// Name of the remaining values.
pub const OTHERS: &str = "others";

/// Counts and samples of findings, of bounded size.
#[derive(Debug, Default)]
pub struct FindingStatistics {
    samples: Vec<Vec<Finding>>,
    types: HashMap<String, u64>,
    namespaces: HashMap<String, u64>,
    severities: [u64; 3],
}

impl FindingStatistics {
    /// Creates empty statistics of `rules` rules.
    pub fn new(rules: usize) -> FindingStatistics {
        FindingStatistics {
            samples: vec![Vec::new(); rules],
            ..FindingStatistics::default()
        }
    }

    /// Adds a finding.
    pub fn add(&mut self, rule: &Rule, finding: &Finding) {
        if let Some(samples) = self
            .samples
            .get_mut(finding.rule)
            .filter(|samples| samples.len() < MAX_SAMPLES)
        {
            samples.push(finding.clone());
        }
        self.severities[rule.severity as usize] += 1;
        count(&mut self.types, finding.evidence("type"));
        count(&mut self.namespaces, finding.evidence("namespace"));
    }

    /// Returns the first findings of the rule with this index.
    pub fn samples(&self, rule: usize) -> &[Finding] {
        self.samples.get(rule).map_or(&[], Vec::as_slice)
    }

    /// Returns the addresses of all samples, each once.
    pub(super) fn addresses(&self) -> Vec<String> {
        let findings = self.samples.iter().flatten();
        let mut addresses: Vec<String> = findings.filter_map(|it| it.address.clone()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Returns the number of findings of a severity.
    pub fn of_severity(&self, severity: Severity) -> u64 {
        self.severities[severity as usize]
    }

    /// Returns the `most` most frequent types of grains with findings.
    pub fn types(&self, most: usize) -> Vec<(String, u64)> {
        most_frequent(&self.types, most)
    }

    /// Returns the `most` most frequent namespaces.
    pub fn namespaces(&self, most: usize) -> Vec<(String, u64)> {
        most_frequent(&self.namespaces, most)
    }
}

fn count(counts: &mut HashMap<String, u64>, value: Option<&str>) {
    let Some(value) = value else { return };
    if let Some(count) = counts.get_mut(value) {
        *count += 1;
        return;
    }
    let name = if counts.len() < MAX_VALUES {
        value
    } else {
        OTHERS
    };
    *counts.entry(name.to_owned()).or_default() += 1;
}

/// Returns the `most` largest counts, and the sum of the others.
fn most_frequent(counts: &HashMap<String, u64>, most: usize) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = counts
        .iter()
        .map(|(name, count)| (name.clone(), *count))
        .collect();
    all.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    let rest: u64 = all.iter().skip(most).map(|(_, count)| count).sum();
    all.truncate(most);
    if rest > 0 {
        add_to_others(&mut all, rest);
    }
    all
}

/// Adds `rest` to the count of the others.
fn add_to_others(counts: &mut Vec<(String, u64)>, rest: u64) {
    match counts.iter_mut().find(|(name, _)| name == OTHERS) {
        Some((_, count)) => *count += rest,
        None => counts.push((OTHERS.to_owned(), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_counted_together() {
        let counts = HashMap::from([
            ("a".to_owned(), 5),
            ("b".to_owned(), 3),
            ("c".to_owned(), 2),
            ("d".to_owned(), 1),
        ]);
        let names = most_frequent(&counts, 2);
        assert_eq!(
            names,
            [
                ("a".to_owned(), 5),
                ("b".to_owned(), 3),
                (OTHERS.to_owned(), 3)
            ]
        );
    }
}
