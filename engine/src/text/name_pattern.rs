//! Patterns for namespaces and tags: a name, or the beginning of names followed by `*`.

use serde::{Deserialize, Serialize};

/// A pattern: `legal:acme` matches this name only, `legal:*` every name that begins with `legal:`,
/// and `*` every name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamePattern(String);

impl NamePattern {
    /// Returns the pattern `text`.
    pub fn new(text: impl Into<String>) -> NamePattern {
        NamePattern(text.into())
    }

    /// Returns true if it matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.0 == name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_star_at_the_end_matches_other_names() {
        for (pattern, name, expected) in [
            ("legal:acme", "legal:acme", true),
            ("legal:acme", "legal:acme:x", false),
            ("legal:*", "legal:acme", true),
            ("legal:*", "legal", false),
            ("*", "", true),
            ("le*gal", "legal", false),
            ("", "", true),
            ("", "legal", false),
        ] {
            let found = NamePattern::new(pattern).matches(name);
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }
}
