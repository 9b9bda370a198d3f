//! The packs that are part of the program.

use std::path::Path;

use super::error::{PackError, Result};
use super::pack::Pack;

macro_rules! packs {
    ($($name:literal),* $(,)?) => {
        /// The names of the shipped packs.
        pub const NAMES: &[&str] = &[$($name),*];

        const TEXTS: &[&str] = &[$(include_str!(concat!("../../packs/", $name, ".toml"))),*];
    };
}

packs!(
    "integrity",
    "gdpr",
    "ccpa",
    "hipaa",
    "sox",
    "eu-ai-act",
    "healthcare",
    "legal",
    "finance",
    "robotics",
    "science",
    "consumer",
    "integration",
);

/// Returns the shipped pack `name`.
///
/// # Errors
/// [`PackError::Unknown`] if there is none.
pub fn shipped(name: &str) -> Result<Pack> {
    let place = NAMES
        .iter()
        .position(|known| *known == name)
        .and_then(|place| TEXTS.get(place));
    let text = place.ok_or_else(|| PackError::Unknown {
        name: name.to_owned(),
        shipped: NAMES.join(", "),
    })?;
    Pack::parse(name, text)
}

/// Returns a shipped pack by its name, or reads a user's pack from a file.
///
/// # Errors
/// [`PackError::Unknown`] if `name` is neither; otherwise like [`Pack::read`].
pub fn find(name: &str) -> Result<Pack> {
    match shipped(name) {
        Err(PackError::Unknown { .. }) if name.ends_with(".toml") || Path::new(name).is_file() => {
            Pack::read(Path::new(name))
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_pack_is_valid_and_has_remediations() {
        for name in NAMES {
            let pack = shipped(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(pack.id, *name);
            assert!(
                !pack.description.trim().is_empty(),
                "{name} has no description"
            );
            for rule in &pack.rules {
                assert!(
                    !rule.remediation.trim().is_empty(),
                    "{} has no remediation",
                    rule.id
                );
                assert!(
                    rule.norm.contains(|letter: char| letter.is_ascii_digit()),
                    "{} names no section",
                    rule.id
                );
            }
        }
    }

    #[test]
    fn an_unknown_name_lists_the_shipped_packs() {
        let problem = find("gpdr").expect_err("no such pack").to_string();
        assert!(
            problem.contains("gpdr") && problem.contains("gdpr"),
            "{problem}"
        );
    }
}
