//! The ten grain types by their CAL names.

use super::error::{CalError, Code, Result};
use super::suggest::nearest;
use super::vocabulary::vocabulary;

vocabulary! {
    /// A grain type (CAL 1.0, section 5.1). Its name is the singular, as after ADD.
    pub enum GrainType {
        /// A triple that is held to be true.
        Belief = "belief",
        /// Something that happened or was said.
        Event = "event",
        /// A snapshot of an agent.
        State = "state",
        /// Steps that worked.
        Workflow = "workflow",
        /// A use of a tool.
        Action = "action",
        /// Something perceived.
        Observation = "observation",
        /// Something wanted.
        Goal = "goal",
        /// A conclusion and how it was reached.
        Reasoning = "reasoning",
        /// What several observers agree on.
        Consensus = "consensus",
        /// A permission given or taken back.
        Consent = "consent",
    }
}

const PLURALS: [&str; 10] = [
    "beliefs", "events", "states", "workflows", "actions", "observations", "goals", "reasonings", "consensuses", "consents",
];

/// Names of other versions of the specifications, singular and plural.
const ALIASES: [(&str, &str, GrainType); 4] = [
    ("fact", "facts", GrainType::Belief),
    ("episode", "episodes", GrainType::Event),
    ("checkpoint", "checkpoints", GrainType::State),
    ("tool", "tools", GrainType::Action),
];

/// Which of the two forms of a name stands where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameForm {
    /// As after RECALL.
    Plural,
    /// As after ADD, in `type =` and in DESCRIBE.
    Singular,
}

impl GrainType {
    /// The name after RECALL.
    pub const fn plural(self) -> &'static str {
        PLURALS[self as usize]
    }

    /// The byte of the type in the header of a grain.
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The type of a header byte.
    pub fn from_code(code: u8) -> Option<GrainType> {
        GrainType::ALL.get(usize::from(code.checked_sub(1)?)).copied()
    }

    /// The type that a grain calls itself, in any version of the specification: `belief`, `fact`, `Event` …
    pub fn from_payload(name: &str) -> Option<GrainType> {
        GrainType::from_name(name).or_else(|| alias(name, NameForm::Singular))
    }

    /// All plurals, in the order of the specification.
    pub fn plurals() -> &'static [&'static str] {
        &PLURALS
    }

    /// The type that `word` names in the form `form`. With `aliases`, the names of other versions of the specifications
    /// are understood too: `facts`, `tools`, `episodes`, `checkpoints`.
    ///
    /// # Errors
    /// E003 for the other form and for unknown words, with the name that was most likely meant.
    pub fn parse(word: &str, form: NameForm, aliases: bool) -> Result<GrainType> {
        exact(word, form)
            .or_else(|| aliases.then(|| alias(word, form)).flatten())
            .ok_or_else(|| unknown(word, form))
    }

    fn in_form(self, form: NameForm) -> &'static str {
        match form {
            NameForm::Plural => self.plural(),
            NameForm::Singular => self.name(),
        }
    }
}

fn exact(word: &str, form: NameForm) -> Option<GrainType> {
    GrainType::ALL.iter().copied().find(|grain_type| grain_type.in_form(form).eq_ignore_ascii_case(word))
}

fn alias(word: &str, form: NameForm) -> Option<GrainType> {
    ALIASES
        .iter()
        .find(|(singular, plural, _)| {
            let name = if form == NameForm::Plural { plural } else { singular };
            name.eq_ignore_ascii_case(word)
        })
        .map(|&(_, _, grain_type)| grain_type)
}

fn unknown(word: &str, form: NameForm) -> CalError {
    let other = if form == NameForm::Plural { NameForm::Singular } else { NameForm::Plural };
    let names = || GrainType::ALL.iter().map(|grain_type| grain_type.in_form(form));
    let message = format!("Unknown grain type \"{word}\".");
    let (message, suggestion) = if let Some(meant) = exact(word, other) {
        let rule = if form == NameForm::Plural { "the plural" } else { "the singular" };
        (format!("\"{word}\" can't stand here."), Some(format!("Use {rule}, \"{}\".", meant.in_form(form))))
    } else if let Some(meant) = alias(word, form).or_else(|| alias(word, other)) {
        (message, Some(format!("Did you mean \"{}\"? CAL 1.0 calls it so.", meant.in_form(form))))
    } else {
        (message, nearest(word, names()).map(|meant| format!("Did you mean \"{meant}\"?")))
    };
    let error = CalError::new(Code::E003, message).valid_values(names()).example(match form {
        NameForm::Plural => "RECALL beliefs WHERE subject = \"alice\"",
        NameForm::Singular => "ADD belief SET subject = \"alice\" SET relation = \"prefers\" SET object = \"tea\" REASON \"said so\"",
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
    fn each_form_stands_in_its_place_only() {
        for &grain_type in GrainType::ALL {
            assert_eq!(GrainType::parse(grain_type.plural(), NameForm::Plural, false), Ok(grain_type));
            assert_eq!(GrainType::parse(&grain_type.name().to_uppercase(), NameForm::Singular, false), Ok(grain_type));
            let wrong = GrainType::parse(grain_type.name(), NameForm::Plural, true).unwrap_err();
            assert!(wrong.suggestion().contains(grain_type.plural()), "{wrong}");
            assert_eq!(GrainType::from_code(grain_type.code()), Some(grain_type));
        }
        assert_eq!(GrainType::from_code(0), None);
        assert_eq!(GrainType::from_code(11), None);
    }

    #[test]
    fn names_of_other_versions_are_suggestions_unless_they_are_asked_for() {
        for (alias, name) in [("facts", "beliefs"), ("tools", "actions"), ("episodes", "events"), ("checkpoints", "states")] {
            let error = GrainType::parse(alias, NameForm::Plural, false).unwrap_err();
            assert_eq!(error.code(), Code::E003);
            assert!(error.suggestion().contains(name), "{error}");
            assert_eq!(GrainType::parse(alias, NameForm::Plural, true).unwrap().plural(), name);
        }
        assert!(GrainType::parse("fact", NameForm::Plural, false).unwrap_err().suggestion().contains("beliefs"));
        assert_eq!(GrainType::from_payload("fact"), Some(GrainType::Belief));
        assert!(GrainType::parse("belifs", NameForm::Plural, false).unwrap_err().suggestion().contains("\"beliefs\""));
    }
}
