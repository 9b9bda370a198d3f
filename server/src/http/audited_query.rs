//! A query and its client in the entries of the audit log, which name no person.
//!
//! Names of tokens are often those of people, and the log is never rewritten: an entry has the
//! beginning of the token's hash, which the file of tokens relates to the name. A plain hash of a
//! query would confirm a guess of its text, such as one with an identifier of a person.

use std::fmt;

use gristmill_engine::erase::keyed_hash;
use gristmill_engine::error::EngineError;
use gristmill_engine::keys::{Keyring, Secret};
use serde_json::{Value as JsonValue, json};

use super::tokens::Authority;

/// Purpose of the key of [`AuditKey`] in the keyring.
const PURPOSE: &str = "gristmill/audit/queries";

/// Key of the digests of queries in the audit log.
#[derive(Clone)]
pub struct AuditKey(Secret);

impl AuditKey {
    /// Derives the key from a keyring.
    ///
    /// # Errors
    /// [`EngineError::Key`] if the keyring has no master secret.
    pub fn of(keyring: &Keyring) -> Result<AuditKey, EngineError> {
        Ok(AuditKey(keyring.derive(PURPOSE)?))
    }
}

/// Shows nothing of the key.
impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKey")
    }
}

/// The client and its query, for the audit log.
#[derive(Debug, Clone)]
pub(crate) struct AuditedQuery {
    /// The id of the token.
    token: String,
    /// HMAC-SHA256 of the query's text, in hexadecimal digits; `None` without a key.
    digest: Option<String>,
}

impl AuditedQuery {
    /// Returns what the audit log will have of a `query` of `authority`.
    pub(super) fn new(authority: &Authority, query: &str, key: Option<&AuditKey>) -> AuditedQuery {
        AuditedQuery {
            token: authority.id().to_owned(),
            digest: key.map(|AuditKey(key)| keyed_hash(key, query.as_bytes())),
        }
    }

    /// Returns the details of an entry about an answer with `rows` rows.
    pub(super) fn entry(&self, rows: u64) -> JsonValue {
        json!({ "token_id": self.token, "query": self.digest, "rows": rows })
    }
}

#[cfg(test)]
mod tests {
    use gristmill_queries::sql::Confinement;
    use sha2::{Digest, Sha256};

    use super::super::{Scope, Tokens, new_token};
    use super::*;

    #[test]
    fn an_entry_names_the_token_by_its_hash_and_shows_nothing_of_the_query() {
        const QUERY: &str = "SELECT * FROM grains WHERE subject = 'Ada Okafor'";
        let whole = Confinement::default();
        let (token, table) = new_token("Ada Okafor", &whole, [Scope::Read].into()).unwrap();
        let tokens = Tokens::parse(&table).unwrap();
        let ada = tokens.permitted(Some(&token), Scope::Read).unwrap();
        let [one, other] = [1, 2].map(|byte| AuditKey(Secret::new([byte; 32])));
        let entry = |key| AuditedQuery::new(&ada, QUERY, key).entry(7);
        let with_key = entry(Some(&one));
        let plain = hex::encode(Sha256::digest(QUERY));
        for text in [with_key.to_string(), entry(None).to_string()] {
            assert!(!text.contains("Ada") && !text.contains(&plain), "{text}");
        }
        // The operator finds the token by the beginning of its hash in the file.
        let id = with_key["token_id"].as_str().unwrap();
        assert!(table.contains(&format!("sha256 = \"{id}")), "{id}: {table}");
        assert_eq!(with_key["query"].as_str().map(str::len), Some(64));
        assert_eq!(with_key, entry(Some(&one)));
        assert_ne!(with_key, entry(Some(&other)));
        assert_eq!(entry(None)["query"], JsonValue::Null);
        let local = AuditedQuery::new(&Authority::local(), QUERY, None);
        let expected = json!({ "token_id": "local", "query": null, "rows": 7 });
        assert_eq!(local.entry(7), expected);
        assert_eq!(format!("{one:?}"), "AuditKey");
    }
}
