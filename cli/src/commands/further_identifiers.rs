//! Identifiers in the data about a person that the request for it doesn't name: other data of the
//! person may be found by them.

use std::collections::BTreeSet;

use gristmill_engine::erase::Disclosed;
use gristmill_queries::detect::{self, PersonalDataKind};
use gristmill_queries::render::shell_quoted;
use serde::Serialize;
use serde_json::Value;

use crate::args::governance::SubjectSelector;

/// The field of a grain that names the person it is about by a DID.
const SUBJECT_DID: &str = "subject_did";

/// The field of a grain that names what it is about.
const SUBJECT: &str = "subject";

/// The field of a grain with the id of the user to whom it belongs.
const USER_ID: &str = "user_id";

/// Number of identifiers of each kind that are kept.
const MAX_OF_KIND: usize = 5;

/// User ids, names, e-mail addresses, telephone numbers and DIDs, at most [`MAX_OF_KIND`] each.
#[derive(Debug, Default, Serialize)]
pub(super) struct FurtherIdentifiers {
    user: BTreeSet<String>,
    subject: BTreeSet<String>,
    email: BTreeSet<String>,
    phone: BTreeSet<String>,
    did: BTreeSet<String>,
    /// Whether the data has others, which were left out.
    incomplete: bool,
    /// What the request names, normalized.
    #[serde(skip)]
    named: BTreeSet<String>,
}

impl FurtherIdentifiers {
    /// Creates an empty collection of identifiers that `selector` doesn't name.
    pub(super) fn beyond(selector: &SubjectSelector) -> FurtherIdentifiers {
        let named = selector.identifiers().into_iter();
        let named = named.flat_map(|(_, values)| values);
        FurtherIdentifiers {
            named: named.map(|value| normalized(value)).collect(),
            ..FurtherIdentifiers::default()
        }
    }

    /// Adds the identifiers in a disclosed grain.
    pub(super) fn examine(&mut self, held: &Disclosed) {
        let Some(grain) = &held.grain else { return };
        // Always JSON: the engine has written it.
        if let Ok(value) = serde_json::from_str(grain.get()) {
            self.examine_value(&value);
            self.examine_subject(&value);
            self.examine_user(&value);
        }
    }

    /// Adds the user of a grain whose subject the request names, and the subject of a grain whose
    /// user it names. Users of other grains that were found may be others who mention the person.
    fn examine_user(&mut self, grain: &Value) {
        let text = |field: &str| grain.get(field).and_then(Value::as_str);
        let (Some(subject), Some(user)) = (text(SUBJECT), text(USER_ID)) else {
            return;
        };
        let is_named = |value: &str| self.named.contains(&normalized(value));
        let (value, kept) = match (is_named(subject), is_named(user)) {
            (true, false) => (user, &mut self.user),
            (false, true) => (subject, &mut self.subject),
            _ => return,
        };
        self.incomplete |= !is_kept(kept, value);
    }

    /// Adds the DID of the subject of a grain.
    fn examine_subject(&mut self, grain: &Value) {
        let did = grain.get(SUBJECT_DID).and_then(Value::as_str);
        if let Some(did) = did.filter(|did| !self.named.contains(&normalized(did))) {
            self.incomplete |= !is_kept(&mut self.did, did);
        }
    }

    /// Examines all texts in `value`, also keys.
    fn examine_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.examine_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.examine_value(item)),
            Value::Object(members) => members.iter().for_each(|(key, item)| {
                self.examine_text(key);
                self.examine_value(item);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn examine_text(&mut self, text: &str) {
        detect::scan(text, |found| {
            let kept = match found.kind {
                PersonalDataKind::Email => &mut self.email,
                PersonalDataKind::Phone => &mut self.phone,
                _ => return,
            };
            let value = unescaped(text.get(found.range).unwrap_or_default());
            if !self.named.contains(&normalized(&value)) {
                self.incomplete |= !is_kept(kept, &value);
            }
        });
    }

    /// Returns options that would also search by these identifiers, quoted for a shell, and whether
    /// the data has others; `None` if there are none.
    pub(super) fn as_options(&self) -> Option<String> {
        let option = |name: &'static str, values: &BTreeSet<String>| {
            let options = values
                .iter()
                .map(move |value| format!("--{name} {}", shell_quoted(value)));
            options.collect::<Vec<_>>()
        };
        let mut options = option("user", &self.user);
        options.extend(option("subject", &self.subject));
        options.extend(option("email", &self.email));
        options.extend(option("phone", &self.phone));
        options.extend(option("did", &self.did));
        let others = match self.incomplete {
            true => format!("; others aren't listed: there are more than {MAX_OF_KIND} of a kind"),
            false => String::new(),
        };
        (!options.is_empty()).then(|| options.join(" ") + &others)
    }
}

/// Adds `value` to `kept` unless it is full; returns whether it is in it.
fn is_kept(kept: &mut BTreeSet<String>, value: &str) -> bool {
    let has_room = kept.len() < MAX_OF_KIND;
    if has_room {
        kept.insert(value.to_owned());
    }
    has_room || kept.contains(value)
}

/// Returns `value` without escapes of JSON, which may be in a text.
fn unescaped(value: &str) -> String {
    let meant = value.contains('\\').then(|| format!("\"{value}\""));
    let meant = meant.and_then(|json| serde_json::from_str(&json).ok());
    meant.unwrap_or_else(|| value.to_owned())
}

/// Returns the digits of a telephone number; otherwise the text in lower case.
fn normalized(value: &str) -> String {
    let is_number = !value.chars().any(char::is_alphabetic);
    match is_number {
        true => value.chars().filter(char::is_ascii_digit).collect(),
        false => value.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_that_the_request_names_are_left_out() {
        let selector = SubjectSelector {
            email: vec!["Ada@example.com".to_owned()],
            phone: vec!["+46701740605".to_owned()],
            ..SubjectSelector::default()
        };
        let mut further = FurtherIdentifiers::beyond(&selector);
        further.examine_text("ada@example.com, +46 70 174 06 05");
        assert_eq!(further.as_options(), None);
        further.examine_text("work: a.brennan@clinic.example");
        assert_eq!(
            further.as_options().as_deref(),
            Some("--email 'a.brennan@clinic.example'")
        );
    }

    #[test]
    fn numbers_of_json_are_no_telephone_numbers() {
        let mut further = FurtherIdentifiers::default();
        further.examine_value(&serde_json::json!({ "tel": 1_793_865_614_000_u64 }));
        assert_eq!(further.as_options(), None);
        further.examine_value(&serde_json::json!({ "content": ["tel. +46 70 174 06 05"] }));
        assert_eq!(
            further.as_options().as_deref(),
            Some("--phone '+46 70 174 06 05'")
        );
    }

    #[test]
    fn identifiers_in_keys_and_after_escapes_of_json_are_found() {
        let mut further = FurtherIdentifiers::default();
        let keys = serde_json::json!({ "context": { "ada@x.example": { "bo@x.example": 1 } } });
        further.examine_value(&keys);
        further.examine_text(r#"{"to":"cc:\neva@x.example","tel":"\u002B46 70 174 06 05"}"#);
        let emails = ["ada", "bo", "eva"].map(|name| format!("--email '{name}@x.example'"));
        let expected = format!("{} --phone '+46 70 174 06 05'", emails.join(" "));
        assert_eq!(further.as_options(), Some(expected));
    }

    #[test]
    fn the_did_of_a_subject_is_an_identifier() {
        let mut further = FurtherIdentifiers::default();
        further.examine_subject(&serde_json::json!({ "subject_did": "did:web:x.example:ada" }));
        assert_eq!(
            further.as_options().as_deref(),
            Some("--did 'did:web:x.example:ada'")
        );
    }

    #[test]
    fn the_user_of_a_grain_about_the_person_is_an_identifier_and_another_user_is_not() {
        let selector = SubjectSelector {
            subject: vec!["Ada Brennan".to_owned()],
            ..SubjectSelector::default()
        };
        let mut further = FurtherIdentifiers::beyond(&selector);
        further.examine_user(&serde_json::json!({ "user_id": "theo", "content": "Ada Brennan" }));
        assert_eq!(further.as_options(), None);
        further.examine_user(&serde_json::json!({ "subject": "Ada Brennan", "user_id": "ada" }));
        assert_eq!(further.as_options().as_deref(), Some("--user 'ada'"));
    }

    #[test]
    fn the_subject_of_a_grain_of_the_named_user_is_an_identifier() {
        let selector = SubjectSelector {
            user: vec!["ada".to_owned()],
            ..SubjectSelector::default()
        };
        let mut further = FurtherIdentifiers::beyond(&selector);
        further.examine_user(&serde_json::json!({ "subject": "Theo", "user_id": "theo" }));
        further.examine_user(&serde_json::json!({ "subject": "Ada", "user_id": "ada" }));
        assert_eq!(further.as_options(), None);
        further.examine_user(&serde_json::json!({ "subject": "Ada Brennan", "user_id": "ada" }));
        assert_eq!(
            further.as_options().as_deref(),
            Some("--subject 'Ada Brennan'")
        );
    }

    #[test]
    fn an_identifier_is_one_word_of_a_shell_whatever_it_contains() {
        let mut further = FurtherIdentifiers::default();
        further.examine_subject(&serde_json::json!({ "subject_did": "did:x:'; rm -rf ~; '" }));
        assert_eq!(
            further.as_options().as_deref(),
            Some(r"--did 'did:x:'\''; rm -rf ~; '\'''")
        );
    }

    #[test]
    fn the_number_of_identifiers_is_bounded() {
        let mut further = FurtherIdentifiers::default();
        let states_others = |further: &FurtherIdentifiers| {
            let options = further.as_options().unwrap_or_default();
            options.contains("others aren't listed")
        };
        for number in 0..100 {
            let kept = number.min(MAX_OF_KIND - 1);
            further.examine_text(&format!("person{kept}@example.com"));
        }
        assert_eq!(further.email.len(), MAX_OF_KIND);
        assert!(!states_others(&further));
        further.examine_text("another@example.com");
        assert_eq!(further.email.len(), MAX_OF_KIND);
        assert!(states_others(&further));
    }
}
