//! The ten grain types by their CAL names (CAL 1.0, section 5.1): singular, plural, and those of
//! other versions.

use super::error::{CalError, Code, Result};
use super::suggest::nearest;

pub use gristmill_schemas::grain::GrainType;

/// The names of the types in the singular, in the order of their bytes.
pub const SINGULARS: [&str; 10] = names(false);
/// The names of the types in the plural, in the order of their bytes.
pub const PLURALS: [&str; 10] = names(true);

const fn names(plural: bool) -> [&'static str; 10] {
    let mut names = [""; 10];
    let mut at = 0;
    while at < names.len() {
        names[at] = if plural {
            plural_of(GrainType::ALL[at])
        } else {
            GrainType::ALL[at].name()
        };
        at += 1;
    }
    names
}

const fn plural_of(grain_type: GrainType) -> &'static str {
    match grain_type {
        GrainType::Belief => "beliefs",
        GrainType::Event => "events",
        GrainType::State => "states",
        GrainType::Workflow => "workflows",
        GrainType::Action => "actions",
        GrainType::Observation => "observations",
        GrainType::Goal => "goals",
        GrainType::Reasoning => "reasonings",
        GrainType::Consensus => "consensuses",
        GrainType::Consent => "consents",
    }
}

/// Grammatical number of a type name, which depends on its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameForm {
    /// Plural, after RECALL.
    Plural,
    /// Singular, after ADD, in `type =` and in DESCRIBE.
    Singular,
}

/// Names of grain types in CAL.
pub trait TypeName: Sized {
    /// Returns the name after RECALL.
    fn plural(self) -> &'static str;

    /// Returns the type of the name `word` in the form `form`, case-insensitively. With `aliases`,
    /// the names of other versions of the grain specification are accepted too: `facts`, `tools`,
    /// `episodes`, `checkpoints`.
    ///
    /// # Errors
    /// E003 for the other form and for unknown words, with the most similar name as a suggestion.
    fn parse(word: &str, form: NameForm, aliases: bool) -> Result<Self>;
}

impl TypeName for GrainType {
    fn plural(self) -> &'static str {
        plural_of(self)
    }

    fn parse(word: &str, form: NameForm, aliases: bool) -> Result<GrainType> {
        exact(word, form)
            .or_else(|| aliases.then(|| alias(word, form)).flatten())
            .ok_or_else(|| unknown(word, form))
    }
}

fn in_form(grain_type: GrainType, form: NameForm) -> &'static str {
    match form {
        NameForm::Plural => plural_of(grain_type),
        NameForm::Singular => grain_type.name(),
    }
}

fn exact(word: &str, form: NameForm) -> Option<GrainType> {
    GrainType::ALL
        .into_iter()
        .find(|&grain_type| in_form(grain_type, form).eq_ignore_ascii_case(word))
}

/// Returns the type with this name in another version. Its plural adds an `s`.
fn alias(word: &str, form: NameForm) -> Option<GrainType> {
    let singular = match form {
        NameForm::Plural => word.strip_suffix(['s', 'S'])?,
        NameForm::Singular => word,
    };
    let named_so = |grain_type: &GrainType| {
        grain_type.names()[1..]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(singular))
    };
    GrainType::ALL.into_iter().find(named_so)
}

fn unknown(word: &str, form: NameForm) -> CalError {
    let other = if form == NameForm::Plural {
        NameForm::Singular
    } else {
        NameForm::Plural
    };
    let names = || {
        GrainType::ALL
            .into_iter()
            .map(move |grain_type| in_form(grain_type, form))
    };
    let message = format!("Unknown grain type \"{word}\".");
    let (message, suggestion) = if let Some(meant) = exact(word, other) {
        let rule = if form == NameForm::Plural {
            "the plural"
        } else {
            "the singular"
        };
        (
            format!("\"{word}\" is not allowed here."),
            Some(format!("Use {rule}, \"{}\".", in_form(meant, form))),
        )
    } else if let Some(meant) = alias(word, form).or_else(|| alias(word, other)) {
        (
            message,
            Some(format!(
                "Did you mean \"{}\"? CAL 1.0 calls it so.",
                in_form(meant, form)
            )),
        )
    } else {
        (
            message,
            nearest(word, names()).map(|meant| format!("Did you mean \"{meant}\"?")),
        )
    };
    let error = CalError::new(Code::E003, message).valid_values(names()).example(match form {
        NameForm::Plural => "RECALL beliefs WHERE subject = \"alice\"",
        NameForm::Singular => {
            "ADD belief SET subject = \"alice\" SET relation = \"prefers\" SET object = \"tea\" \
             REASON \"said so\""
        }
    });
    match suggestion {
        Some(suggestion) => error.suggest(suggestion),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_valid_in_its_place_only() {
        for grain_type in GrainType::ALL {
            assert_eq!(
                GrainType::parse(grain_type.plural(), NameForm::Plural, false),
                Ok(grain_type)
            );
            assert_eq!(
                GrainType::parse(&grain_type.name().to_uppercase(), NameForm::Singular, false),
                Ok(grain_type)
            );
            let wrong = GrainType::parse(grain_type.name(), NameForm::Plural, true).unwrap_err();
            assert!(wrong.suggestion().contains(grain_type.plural()), "{wrong}");
        }
        assert_eq!((SINGULARS[4], PLURALS[8]), ("action", "consensuses"));
    }

    #[test]
    fn names_of_other_versions_are_suggested_or_accepted_by_option() {
        for (alias, name) in [
            ("facts", "beliefs"),
            ("tools", "actions"),
            ("episodes", "events"),
            ("checkpoints", "states"),
        ] {
            let error = GrainType::parse(alias, NameForm::Plural, false).unwrap_err();
            assert_eq!(error.code(), Code::E003);
            assert!(error.suggestion().contains(name), "{error}");
            assert_eq!(
                GrainType::parse(alias, NameForm::Plural, true)
                    .unwrap()
                    .plural(),
                name
            );
        }
        assert!(
            GrainType::parse("fact", NameForm::Plural, false)
                .unwrap_err()
                .suggestion()
                .contains("beliefs")
        );
        assert!(
            GrainType::parse("belifs", NameForm::Plural, false)
                .unwrap_err()
                .suggestion()
                .contains("\"beliefs\"")
        );
        assert_eq!(
            GrainType::parse("s", NameForm::Plural, true)
                .unwrap_err()
                .code(),
            Code::E003
        );
    }
}
