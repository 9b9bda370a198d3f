//! Tokens: who may query, what they see and what they may do.
//!
//! The file has a table per token with the SHA-256 of its text. A token is 256 random bits, so a
//! hash without salt and key stretching suffices.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chrono::{DateTime, FixedOffset, Utc};
use gristmill_queries::sql::Confinement;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::refusal::{Refusal, Result};

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Queries.
    Read,
    /// ADD, SUPERSEDE and REVERT in CAL, if the server allows writes.
    Append,
    /// Figures about the server.
    Govern,
}

/// One table of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    sha256: String,
    namespace: Option<String>,
    user: Option<String>,
    scopes: BTreeSet<Scope>,
    /// A date-time of RFC 3339, with or without quotation marks.
    expires: Option<toml::Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

/// The authority of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// Name of the token, for messages. It may be that of a person, so the lake doesn't have it.
    pub name: String,
    /// What it sees.
    pub confinement: Confinement,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// SHA-256 of the token, in hexadecimal digits; empty if there are no tokens.
    sha256: String,
    /// The time from which the token isn't valid any more.
    expires: Option<DateTime<FixedOffset>>,
}

/// Length of the id of a token in hexadecimal digits: enough to distinguish tokens, and not the
/// whole of what a server compares with.
const ID_DIGITS: usize = 16;

impl Authority {
    /// Returns the id of the token: the beginning of its SHA-256, which is in the file of tokens;
    /// the name if there are no tokens.
    pub(super) fn id(&self) -> &str {
        self.sha256.get(..ID_DIGITS).unwrap_or(&self.name)
    }

    /// Returns the authority of every process of this machine, if there are no tokens.
    pub(crate) fn local() -> Authority {
        Authority {
            name: "local".to_owned(),
            confinement: Confinement::default(),
            scopes: BTreeSet::from([Scope::Read, Scope::Append, Scope::Govern]),
            sha256: String::new(),
            expires: None,
        }
    }

    fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= Utc::now())
    }
}

/// The tokens of a server, by the hash of their text. Clones share them: what one replaces, all
/// have replaced.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Arc<RwLock<HashMap<String, Authority>>>);

/// Reason why a file of tokens can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It isn't TOML of the expected form.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A hash is malformed.
    #[error("the token `{0}` has no SHA-256 of 64 hexadecimal digits")]
    Hash(String),
    /// A time of expiry is no date-time with an offset.
    #[error("the token `{0}` has an `expires` that isn't like 2027-01-31T12:00:00Z")]
    Expiry(String),
    /// Two tokens have one name or one hash.
    #[error("the token `{0}` is there twice")]
    Duplicate(String),
    /// The file has no token, so that every query would be refused.
    #[error("there is no [[token]]; `gristmill serve --new-token NAME` prints one")]
    Empty,
}

impl Tokens {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn parse(text: &str) -> std::result::Result<Tokens, TokenError> {
        let authorities = authorities(text)?;
        Ok(Tokens(Arc::new(RwLock::new(authorities))))
    }

    /// Replaces the tokens by those of the text of a file. Sessions of tokens that aren't in it, or
    /// differ, end at their next statement; answers that have begun are sent to their end.
    ///
    /// # Errors
    /// [`TokenError`]; the tokens stay as they are then.
    pub fn replace(&self, text: &str) -> std::result::Result<(), TokenError> {
        let authorities = authorities(text)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = authorities;
        Ok(())
    }

    fn known(&self) -> RwLockReadGuard<'_, HashMap<String, Authority>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the token of `authority` is still there, unchanged, and hasn't expired.
    #[cfg(any(test, feature = "postgres"))]
    pub(super) fn is_current(&self, authority: &Authority) -> bool {
        let known = self.known();
        !authority.has_expired() && known.get(&authority.sha256) == Some(authority)
    }

    /// Returns the authority of a token if it includes `scope`.
    ///
    /// # Errors
    /// `TOKEN` if it isn't known or has expired, `SCOPE` if it may not do this.
    pub(super) fn permitted(&self, token: Option<&str>, scope: Scope) -> Result<Authority> {
        let hash = token.map(|token| hash_of(token.trim()));
        let known = hash.and_then(|hash| self.known().get(&hash).cloned());
        let Some(authority) = known.filter(|authority| !authority.has_expired()) else {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "TOKEN",
                "no valid token",
                "Send `Authorization: Bearer TOKEN` with a token that the operator has made.",
            ));
        };
        match authority.scopes.contains(&scope) {
            true => Ok(authority),
            false => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "SCOPE",
                format!("the token `{}` may not do this", authority.name),
                "The operator can add the scope to the token.",
            )),
        }
    }
}

/// Returns the authorities of a file by the hashes of their tokens.
fn authorities(text: &str) -> std::result::Result<HashMap<String, Authority>, TokenError> {
    let file: TokenFile = toml::from_str(text)?;
    let mut tokens = HashMap::new();
    let mut names = BTreeSet::new();
    for entry in file.token {
        let name = entry.name.clone();
        let authority = authority_of(entry)?;
        let is_new = names.insert(name.clone());
        if tokens.insert(authority.sha256.clone(), authority).is_some() || !is_new {
            return Err(TokenError::Duplicate(name));
        }
    }
    match tokens.is_empty() {
        true => Err(TokenError::Empty),
        false => Ok(tokens),
    }
}

fn authority_of(entry: TokenEntry) -> std::result::Result<Authority, TokenError> {
    let sha256 = entry.sha256.to_ascii_lowercase();
    if sha256.len() != 64 || hex::decode(&sha256).is_err() {
        return Err(TokenError::Hash(entry.name));
    }
    let expires = match &entry.expires {
        None => None,
        Some(expires) => match parsed_expiry(expires) {
            None => return Err(TokenError::Expiry(entry.name)),
            expires => expires,
        },
    };
    Ok(Authority {
        name: entry.name,
        confinement: Confinement {
            namespace: entry.namespace,
            user: entry.user,
        },
        scopes: entry.scopes,
        sha256,
        expires,
    })
}

fn parsed_expiry(value: &toml::Value) -> Option<DateTime<FixedOffset>> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(instant) => instant.to_string(),
        _ => return None,
    };
    DateTime::parse_from_rfc3339(&text).ok()
}

/// Base64 with or without `=` at the end: clients in Go leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the token in a header `authorization: Bearer TOKEN`, in which the scheme has no case.
pub(super) fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the token in a header or metadata entry `authorization`: `Bearer TOKEN`, or `Basic` with
/// any name and the token as password.
pub(crate) fn token_of_header(value: &str) -> Option<String> {
    if let Some(token) = bearer_token(value) {
        return Some(token.to_owned());
    }
    let (scheme, pair) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64.decode(pair.trim()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    Some(pair.split_once(':')?.1.to_owned())
}

fn hash_of(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

/// Makes a token. Returns its text, which is stored nowhere, and its table for the file.
///
/// # Errors
/// If the table can't be written as TOML.
pub fn new_token(
    name: &str,
    confinement: &Confinement,
    scopes: BTreeSet<Scope>,
) -> std::result::Result<(String, String), toml::ser::Error> {
    let token = format!("gm_{}", hex::encode(rand::random::<[u8; 32]>()));
    let entry = TokenEntry {
        name: name.to_owned(),
        sha256: hash_of(&token),
        namespace: confinement.namespace.clone(),
        user: confinement.user.clone(),
        scopes,
        expires: None,
    };
    let table = toml::to_string(&TokenFile { token: vec![entry] })?;
    Ok((token, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_recognised_by_its_table_and_no_other() {
        let confinement = Confinement {
            namespace: Some("home".to_owned()),
            user: None,
        };
        let (token, table) = new_token("a", &confinement, [Scope::Read].into()).unwrap();
        assert!(!table.contains(&token));
        let tokens = Tokens::parse(&table).unwrap();
        let permitted = |token: &str| tokens.permitted(Some(token), Scope::Read);
        assert_eq!(permitted(&token).unwrap().confinement, confinement);
        assert!(permitted("gm_").is_err());
        assert!(permitted(&hash_of(&token)).is_err());
        assert!(tokens.permitted(None, Scope::Read).is_err());
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let (token, table) = new_token("a", &Confinement::default(), [Scope::Read].into()).unwrap();
        for (expires, is_valid) in [
            ("\"2999-01-31T12:00:00Z\"", true),
            ("2999-01-31T12:00:00+01:00", true),
            ("\"2020-01-31T12:00:00Z\"", false),
            ("2020-01-31T12:00:00-08:00", false),
        ] {
            let tokens = Tokens::parse(&format!("{table}expires = {expires}\n")).unwrap();
            let permitted = tokens.permitted(Some(&token), Scope::Read);
            assert_eq!(permitted.is_ok(), is_valid, "{expires}");
        }
        for expires in ["\"soon\"", "2999-01-31", "\"2999-01-31T12:00:00\"", "7"] {
            let wrong = Tokens::parse(&format!("{table}expires = {expires}\n"));
            assert!(matches!(wrong, Err(TokenError::Expiry(_))), "{expires}");
        }
    }

    #[test]
    fn tokens_are_replaced_by_those_of_a_correct_file() {
        let make = |name| new_token(name, &Confinement::default(), [Scope::Read].into()).unwrap();
        let ((old, old_table), (new, new_table)) = (make("a"), make("a"));
        let tokens = Tokens::parse(&old_table).unwrap();
        let shared = tokens.clone();
        let begun = shared.permitted(Some(&old), Scope::Read).unwrap();
        assert!(tokens.replace("token = 1").is_err());
        assert!(shared.is_current(&begun));
        // The same name, another token.
        tokens.replace(&new_table).unwrap();
        assert!(!shared.is_current(&begun));
        assert!(shared.permitted(Some(&old), Scope::Read).is_err());
        let begun = shared.permitted(Some(&new), Scope::Read).unwrap();
        // The same token, another confinement.
        let confined = format!("{new_table}namespace = \"own\"\n");
        tokens.replace(&confined).unwrap();
        assert!(!shared.is_current(&begun));
        assert!(shared.permitted(Some(&new), Scope::Read).is_ok());
    }

    #[test]
    fn only_a_bearer_token_stands_alone() {
        assert_eq!(bearer_token("Bearer gm_1"), Some("gm_1"));
        assert_eq!(bearer_token("bearer  gm_1 "), Some("gm_1"));
        assert_eq!(bearer_token("Basic YW55b25lOmdtXzE="), None);
        assert_eq!(bearer_token("gm_1"), None);
    }

    #[test]
    fn a_token_stands_alone_or_is_a_password() {
        for (header, expected) in [
            ("Bearer gm_1", Some("gm_1")),
            ("bearer  gm_1 ", Some("gm_1")),
            ("Basic YW55b25lOmdtXzE=", Some("gm_1")),
            ("Basic YW55b25lOmdtXzE", Some("gm_1")),
            ("Basic YW55b25l", None),
            ("Basic ?", None),
            ("Digest gm_1", None),
            ("gm_1", None),
        ] {
            assert_eq!(token_of_header(header).as_deref(), expected, "{header}");
        }
    }

    #[test]
    fn wrong_files_are_refused() {
        let entry = |name: &str, hash: &str| {
            format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nscopes = [\"read\"]\n")
        };
        let hash = "0".repeat(64);
        assert!(matches!(Tokens::parse(""), Err(TokenError::Empty)));
        assert!(matches!(
            Tokens::parse(&entry("a", "12")),
            Err(TokenError::Hash(_))
        ));
        let twice = entry("a", &hash) + &entry("b", &hash);
        assert!(matches!(
            Tokens::parse(&twice),
            Err(TokenError::Duplicate(_))
        ));
        let unknown = entry("a", &hash) + "namespaces = \"b\"\n";
        assert!(matches!(
            Tokens::parse(&unknown),
            Err(TokenError::Syntax(_))
        ));
    }
}
