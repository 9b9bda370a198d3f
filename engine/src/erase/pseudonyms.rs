//! Pseudonymisation: a grain as JSON in which keyed tokens stand for whatever identifies a person.
//!
//! | text | becomes |
//! |---|---|
//! | value of an identity field, session or run id | its token |
//! | content address, with or without `sha256:` | its token |
//! | any other text or key that names a person of the request | the same with tokens for the names |
//! | binary value that names a person of the request | its token, as text |
//! | that which still names somebody | its token as a whole |
//!
//! Equal texts have equal tokens, so joins over tokens return the same rows. Names are found by the
//! matcher of erasures. The resulting line is searched once more with the independent search that
//! proves erasures: if that finds anything, all free text of the grain is withheld, and if it still
//! does, the grain.

use std::collections::HashSet;
use std::path::Path;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{Field, Grain, Value, from_json};
use gristmill_schemas::json::{Json, Object};
use zeroize::Zeroizing;

use super::field_roles::{FieldRole, role_of};
use super::identifier_search::IdentifierSearch;
use super::journal::keyed_digest;
use super::matcher::{Hits, IdentifierMatcher};
use super::reason::Reason;
use super::request::SubjectRequest;
use crate::error::{Context, Result};
use crate::keys::{Secret, random};

/// What every token begins with.
const TOKEN_PREFIX: &str = "tok_";

/// Number of bytes of the keyed hash in a token.
const TOKEN_BYTES: usize = 16;

/// Stands for free text in which names can't be replaced one by one.
const WITHHELD: &str = "[withheld]";

/// The part of a role that decides how a text is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// The text becomes its token.
    Token,
    /// Names in the text become tokens.
    FreeText,
    /// A word of a vocabulary, a namespace or a tag: its token if it names somebody.
    Word,
}

/// Replaces what identifies the people of a request.
#[derive(Debug)]
pub struct Pseudonymizer {
    key: Secret,
    matcher: IdentifierMatcher,
    search: IdentifierSearch,
    /// All identifiers of the request as they were given.
    identifiers: HashSet<String>,
    /// The first identifier of each person.
    people: Vec<String>,
}

impl Pseudonymizer {
    /// Compiles `request`. Sessions of its people count as identifiers.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if there are more identifiers than an automaton holds.
    pub fn new(mut request: SubjectRequest, key: Secret) -> Result<Pseudonymizer> {
        for person in &mut request.people {
            let sessions = std::mem::take(&mut person.sessions);
            person.identifiers.extend(sessions);
        }
        let matcher = IdentifierMatcher::new(&request);
        let common: HashSet<&str> = matcher.non_distinctive().map(|(text, _)| text).collect();
        let search = IdentifierSearch::new(&request, |text| common.contains(text), [])?;
        let all = request.people.iter().map(|person| &person.identifiers);
        let first = |person: &super::Person| person.identifiers.first().cloned();
        Ok(Pseudonymizer {
            key,
            search,
            identifiers: all.flatten().cloned().collect(),
            people: request
                .people
                .iter()
                .map(|person| first(person).unwrap_or_default())
                .collect(),
            matcher,
        })
    }

    /// Returns the token of `text`. It has no digits, so that no part of it looks like a number
    /// that identifies somebody.
    pub fn token(&self, text: &str) -> String {
        let digest = keyed_digest(&self.key, text.as_bytes());
        let nibbles = digest
            .iter()
            .take(TOKEN_BYTES)
            .flat_map(|byte| [byte >> 4, byte & 15]);
        let letters = nibbles.map(|nibble| char::from(b'a' + nibble));
        TOKEN_PREFIX.chars().chain(letters).collect()
    }

    /// Returns `grain` with tokens; `None` if it is encrypted, or names somebody in spite of all
    /// replacements.
    pub fn rewrite(&self, grain: &Grain<'_>) -> Option<Json<'static>> {
        if grain.is_encrypted() {
            return None;
        }
        let json = grain.to_json();
        [false, true].into_iter().find_map(|withholds_text| {
            let mut rewriter = TokenRewriter {
                pseudonyms: self,
                hits: Hits::default(),
                withholds_text,
            };
            let rewritten = rewriter.grain(&json);
            let mut line = String::new();
            rewritten.write(&mut line);
            (self.search.count(line.as_bytes()) == 0).then_some(rewritten)
        })
    }
}

/// Rewrites one grain.
struct TokenRewriter<'p> {
    pseudonyms: &'p Pseudonymizer,
    hits: Hits,
    withholds_text: bool,
}

impl TokenRewriter<'_> {
    fn grain(&mut self, grain: &Json<'_>) -> Json<'static> {
        let Some(members) = grain.as_object() else {
            return Json::Null;
        };
        let mut rewritten = Object::new();
        for (name, value) in members.iter() {
            match Field::from_name(name) {
                Some(field) => {
                    let treatment = treatment_of(role_of(field));
                    rewritten.insert(name.to_owned(), self.value(treatment, value));
                }
                None => {
                    let name = self.text(Treatment::Word, name);
                    rewritten.insert(name, self.value(Treatment::FreeText, value));
                }
            }
        }
        Json::Object(rewritten)
    }

    fn value(&mut self, treatment: Treatment, value: &Json<'_>) -> Json<'static> {
        match value {
            Json::String(text) => Json::string(self.text(treatment, text)),
            Json::Array(items) => Json::Array(
                items
                    .iter()
                    .map(|item| self.value(treatment, item))
                    .collect(),
            ),
            Json::Object(members) => {
                if let Some(bytes) = bytes_of(value).filter(|bytes| self.names_in(bytes)) {
                    return Json::string(self.pseudonyms.token(&hex::encode(bytes)));
                }
                let mut rewritten = Object::new();
                for (key, value) in members.iter() {
                    let key = self.text(Treatment::Word, key);
                    rewritten.insert(key, self.value(treatment, value));
                }
                Json::Object(rewritten)
            }
            Json::Number(number) if self.names(number.as_str()) => {
                Json::string(self.pseudonyms.token(number.as_str()))
            }
            other => other.reborrow().into_owned(),
        }
    }

    fn text(&mut self, treatment: Treatment, text: &str) -> String {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.parse::<ContentAddress>().is_ok() {
            return self.pseudonyms.token(&hex.to_ascii_lowercase());
        }
        match treatment {
            Treatment::Token => self.pseudonyms.token(text),
            Treatment::FreeText if self.withholds_text => WITHHELD.to_owned(),
            _ if !self.names(text) => text.to_owned(),
            Treatment::Word => self.pseudonyms.token(text),
            Treatment::FreeText => self.without_names(text),
        }
    }

    /// Returns `text` with tokens for the names in it.
    fn without_names(&mut self, text: &str) -> String {
        let mut rewritten = String::with_capacity(text.len());
        let mut rest = text;
        while self.names(rest) {
            let Some((before, name, after)) = self.next_name(rest) else {
                return self.pseudonyms.token(text);
            };
            rewritten.push_str(before);
            let token = self.token_of_name(name);
            rewritten.push_str(&token);
            rest = after;
        }
        rewritten.push_str(rest);
        match self.names(&rewritten) {
            true => self.pseudonyms.token(text),
            false => rewritten,
        }
    }

    /// Splits `text` around its first run of words that names somebody.
    fn next_name<'t>(&mut self, text: &'t str) -> Option<(&'t str, &'t str, &'t str)> {
        let ends: Vec<usize> = ends_of_words(text).collect();
        let before_name = ends.partition_point(|end| !self.names(head(text, *end)));
        let (through, after) = text.split_at_checked(*ends.get(before_name)?)?;
        let starts: Vec<usize> = starts_of_words(through).collect();
        let in_name = starts.partition_point(|start| self.names(tail(through, *start)));
        let start = *starts.get(in_name.checked_sub(1)?)?;
        let (before, name) = through.split_at_checked(start)?;
        let bare = name.trim_matches(|letter: char| !letter.is_alphanumeric());
        if bare.len() == name.len() || !self.names(bare) {
            return Some((before, name, after));
        }
        let opening = name.find(bare)?;
        let (from, to) = (start + opening, start + opening + bare.len());
        Some((text.get(..from)?, bare, text.get(to..)?))
    }

    /// Returns the token of `name` if it is one of the identifiers, else of the person whom it
    /// names.
    fn token_of_name(&mut self, name: &str) -> String {
        if self.pseudonyms.identifiers.contains(name) {
            return self.pseudonyms.token(name);
        }
        self.names(name);
        let person = self.hits.people.first().map(|(person, _)| *person as usize);
        let person = person.and_then(|person| self.pseudonyms.people.get(person));
        self.pseudonyms.token(person.map_or(name, String::as_str))
    }

    fn names(&mut self, text: &str) -> bool {
        self.pseudonyms.matcher.names_person(text, &mut self.hits)
    }

    /// Returns whether a binary value names a person.
    fn names_in(&mut self, bytes: &[u8]) -> bool {
        let matcher = &self.pseudonyms.matcher;
        self.hits.clear();
        matcher.match_bytes(bytes, Reason::Mention, &mut self.hits);
        matcher.is_named(&self.hits)
    }
}

/// Returns the bytes of a binary value in JSON.
fn bytes_of(value: &Json<'_>) -> Option<Vec<u8>> {
    let has_one_member = value.as_object().is_some_and(|members| members.len() == 1);
    let value = has_one_member.then(|| from_json(value).ok()).flatten();
    match value {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

fn treatment_of(role: FieldRole) -> Treatment {
    match role {
        FieldRole::Identity(_) | FieldRole::Session => Treatment::Token,
        FieldRole::Segments | FieldRole::Vocabulary | FieldRole::Basis => Treatment::Word,
        FieldRole::Value(_) => Treatment::FreeText,
    }
}

fn head(text: &str, end: usize) -> &str {
    text.get(..end).unwrap_or_default()
}

fn tail(text: &str, start: usize) -> &str {
    text.get(start..).unwrap_or_default()
}

/// Returns the positions behind the words of `text`, which are separated by white space.
fn ends_of_words(text: &str) -> impl Iterator<Item = usize> {
    let end = std::iter::once(text.len());
    text.char_indices()
        .filter(|(at, letter)| *at > 0 && letter.is_whitespace())
        .map(|(at, _)| at)
        .chain(end)
}

/// Returns the positions at which words of `text` begin.
fn starts_of_words(text: &str) -> impl Iterator<Item = usize> {
    let spaces = text
        .char_indices()
        .filter(|(_, letter)| letter.is_whitespace());
    std::iter::once(0).chain(spaces.map(|(at, letter)| at + letter.len_utf8()))
}

/// Reads the key in the file `path`, 64 hex digits; creates the file, readable by its owner only,
/// if it doesn't exist. Without the file, nobody can relate tokens to identifiers.
///
/// # Errors
/// [`crate::error::EngineError::File`] if it can't be read or written, or contains anything else.
pub fn pseudonym_key(path: &Path) -> Result<Secret> {
    let shown = path.display();
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let mut key = Zeroizing::new([0; 32]);
            let form = "it isn't a key of 64 hex digits; name another file to create one";
            let decoded = hex::decode_to_slice(text.trim(), &mut key[..]);
            decoded.map_err(|_| form).file("can't use", shown)?;
            Ok(key)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = Zeroizing::new(random());
            write_private(path, &hex::encode(*key)).file("can't create", shown)?;
            Ok(key)
        }
        Err(error) => Err(error).file("can't read", shown),
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pseudonyms() -> Pseudonymizer {
        let mut request = SubjectRequest::default();
        request
            .add_people("user,name,email\nada-1,Ada Okafor,ada.okafor@example.com\n")
            .unwrap();
        Pseudonymizer::new(request, Zeroizing::new([7; 32])).unwrap()
    }

    #[test]
    fn only_the_names_in_a_text_are_replaced() {
        let pseudonyms = pseudonyms();
        let mut rewriter = TokenRewriter {
            pseudonyms: &pseudonyms,
            hits: Hits::default(),
            withholds_text: false,
        };
        let text = "Dear \"Ada Okafor\", we wrote\nto ada.okafor@example.com and to Bob (ada-1).";
        let expected = format!(
            "Dear \"{}\", we wrote\nto {} and to Bob ({}).",
            pseudonyms.token("Ada Okafor"),
            pseudonyms.token("ada.okafor@example.com"),
            pseudonyms.token("ada-1")
        );
        assert_eq!(rewriter.text(Treatment::FreeText, text), expected);
        assert_eq!(rewriter.text(Treatment::FreeText, "to Bob"), "to Bob");
    }

    #[test]
    fn an_encoded_name_is_replaced_by_a_token_of_its_text() {
        let pseudonyms = pseudonyms();
        let mut rewriter = TokenRewriter {
            pseudonyms: &pseudonyms,
            hits: Hits::default(),
            withholds_text: false,
        };
        // Base64 of "by Ada Okafor herself".
        let text = rewriter.text(Treatment::FreeText, "YnkgQWRhIE9rYWZvciBoZXJzZWxm see");
        assert!(
            text.starts_with(TOKEN_PREFIX) && text.ends_with(" see"),
            "{text}"
        );
    }

    #[test]
    fn a_name_next_to_control_sequences_and_in_bytes_is_replaced() {
        let pseudonyms = pseudonyms();
        let mut rewriter = TokenRewriter {
            pseudonyms: &pseudonyms,
            hits: Hits::default(),
            withholds_text: false,
        };
        for text in [
            "by \u{1b}[1;34mAda Okafor\u{1b}[0m now",
            "to \u{1b}[32mada.okafor@example.com\u{1b}[0m",
            "by Ada Okafor\u{b9}, Bob",
        ] {
            let rewritten = rewriter.text(Treatment::FreeText, text);
            assert!(rewritten.contains(TOKEN_PREFIX), "{rewritten}");
            let lower = rewritten.to_lowercase();
            assert!(!lower.contains("okafor"), "{rewritten}");
        }
        let bytes = |bytes: &[u8]| {
            let json = format!(r#"{{"$bytes_hex":"{}"}}"#, hex::encode(bytes));
            Json::parse(json.as_bytes()).unwrap().into_owned()
        };
        let named = rewriter.value(Treatment::FreeText, &bytes(b"\xa1\x64note\x6aAda Okafor"));
        assert!(
            named
                .as_str()
                .is_some_and(|it| it.starts_with(TOKEN_PREFIX))
        );
        let other = bytes(b"\xa1\x64note\x6aAda Okafoo");
        assert_eq!(rewriter.value(Treatment::FreeText, &other), other);
    }

    #[test]
    fn a_key_file_is_created_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = pseudonym_key(&path).unwrap();
        assert_eq!(pseudonym_key(&path).unwrap(), key);
        std::fs::write(&path, "no key").unwrap();
        assert!(pseudonym_key(&path).is_err());
    }
}
