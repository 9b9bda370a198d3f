//! Tokens: who may query, what they see and what they may do.
//!
//! The file has a table per token with the SHA-256 of its text. A token is 256 random bits, so a
//! plain hash suffices: there is nothing to guess.

use std::collections::{BTreeSet, HashMap};

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
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

/// The authority of a request.
#[derive(Debug, Clone)]
pub struct Authority {
    /// Name of the token, for logs.
    pub name: String,
    /// What it sees.
    pub confinement: Confinement,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
}

impl Authority {
    /// Returns the authority of every process of this machine, if there are no tokens.
    pub(crate) fn local() -> Authority {
        Authority {
            name: "local".to_owned(),
            confinement: Confinement::default(),
            scopes: BTreeSet::from([Scope::Read, Scope::Append, Scope::Govern]),
        }
    }
}

/// The tokens of a server, by the hash of their text.
#[derive(Debug, Clone, Default)]
pub struct Tokens(HashMap<String, Authority>);

/// Reason why a file of tokens can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It isn't TOML of the expected form.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A hash is malformed.
    #[error("the token `{0}` has no SHA-256 of 64 hexadecimal digits")]
    Hash(String),
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
        let file: TokenFile = toml::from_str(text)?;
        let mut tokens = HashMap::new();
        let mut names = BTreeSet::new();
        for entry in file.token {
            let hash = entry.sha256.to_ascii_lowercase();
            if hash.len() != 64 || hex::decode(&hash).is_err() {
                return Err(TokenError::Hash(entry.name));
            }
            let authority = Authority {
                name: entry.name.clone(),
                confinement: Confinement {
                    namespace: entry.namespace,
                    user: entry.user,
                },
                scopes: entry.scopes,
            };
            let is_new = names.insert(entry.name.clone());
            if tokens.insert(hash, authority).is_some() || !is_new {
                return Err(TokenError::Duplicate(entry.name));
            }
        }
        match tokens.is_empty() {
            true => Err(TokenError::Empty),
            false => Ok(Tokens(tokens)),
        }
    }

    /// Returns the authority of a token.
    fn authority(&self, token: &str) -> Option<&Authority> {
        self.0.get(&hash_of(token))
    }

    /// Returns the authority of a token if it includes `scope`.
    ///
    /// # Errors
    /// `TOKEN` if it isn't known, `SCOPE` if it may not do this.
    pub(super) fn permitted(&self, token: Option<&str>, scope: Scope) -> Result<&Authority> {
        let known = token.and_then(|token| self.authority(token.trim()));
        let Some(authority) = known else {
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

fn hash_of(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

/// Makes a token. Returns its text, which is stored nowhere, and its table for the file.
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
        let authority = tokens.authority(&token).unwrap();
        assert_eq!(authority.confinement, confinement);
        assert!(tokens.authority("gm_").is_none());
        assert!(tokens.authority(&hash_of(&token)).is_none());
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
