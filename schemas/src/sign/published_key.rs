//! Public keys in the forms in which their owners publish them: DID documents, JSON Web Keys,
//! `did:key` and multibase. Pure functions over bytes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::did::{DidError, did_without_fragment, key_from_did, key_from_multicodec};
use super::key::VerifyingKey;
use crate::json::Json;

/// Maximum size of a file of public keys in bytes.
pub const KEY_FILE_LIMIT: usize = 1 << 20;

/// Maximum number of keys of one DID.
const KEYS: usize = 64;

/// A public key of a DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedKey {
    /// The fragment by which the DID's document names the key; `None` if it has no name, which
    /// then stands for any fragment.
    pub fragment: Option<String>,
    /// The key.
    pub key: VerifyingKey,
}

/// Returns those of `keys`, which are of one DID, that `did` names: all without a fragment, else
/// the keys with the fragment and those without a name.
pub fn keys_named(did: &str, keys: &[PublishedKey]) -> Vec<VerifyingKey> {
    let fragment = did.split_once('#').map(|(_, fragment)| fragment);
    let is_named = |known: &&PublishedKey| match (fragment, &known.fragment) {
        (Some(wanted), Some(own)) => wanted == own,
        _ => true,
    };
    let named = keys.iter().filter(is_named);
    named.map(|known| known.key.clone()).collect()
}

/// The reason why a file gives no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishedKeyError {
    /// It has more bytes than [`KEY_FILE_LIMIT`], or more keys than are accepted.
    #[error("it has more than {0}")]
    TooLarge(&'static str),
    /// It has none of the supported forms.
    #[error(
        "it is neither a DID document, nor a JSON Web Key, nor a line with a did:key or a \
         multibase key (z…): {0}"
    )]
    UnknownForm(String),
    /// It is the document of another DID.
    #[error("it is the document of {0}")]
    OtherSubject(String),
    /// A JSON Web Key has its private part.
    #[error("it contains a private key; publish and trust only the public one")]
    PrivateKey,
    /// The document has no key that may sign.
    #[error(
        "it has no key that may sign: an Ed25519 or P-256 key that isn't revoked, and that \
         `assertionMethod` lists if the document has this member"
    )]
    NoKey,
    /// The key is malformed or can't sign.
    #[error(transparent)]
    Key(#[from] DidError),
}

/// Reads the keys of `did` from a DID document, a JSON Web Key, or a line with a `did:key` or a
/// multibase key.
///
/// # Errors
/// [`PublishedKeyError`].
pub fn read_published_keys(did: &str, file: &[u8]) -> Result<Vec<PublishedKey>, PublishedKeyError> {
    if file.len() > KEY_FILE_LIMIT {
        return Err(PublishedKeyError::TooLarge("1 MiB"));
    }
    let unknown = |cause: &dyn ToString| PublishedKeyError::UnknownForm(cause.to_string());
    let text = std::str::from_utf8(file).map_err(|error| unknown(&error))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.starts_with('{') {
        return Ok(vec![unnamed(line_key(text)?)]);
    }
    let json = Json::parse(text.as_bytes()).map_err(|error| unknown(&error))?;
    if json.get("kty").is_some() {
        return Ok(vec![unnamed(jwk_key(&json)?)]);
    }
    document_keys(did, &json)
}

fn unnamed(key: VerifyingKey) -> PublishedKey {
    PublishedKey {
        fragment: None,
        key,
    }
}

/// Reads a line with a `did:key` or a multibase key.
fn line_key(text: &str) -> Result<VerifyingKey, PublishedKeyError> {
    match text {
        _ if text.starts_with("did:key:") => Ok(key_from_did(text)?),
        _ if text.starts_with('z') => Ok(key_from_multicodec(text)?),
        _ => Err(PublishedKeyError::UnknownForm("its first word".to_owned())),
    }
}

/// Reads the keys of the document of `did` (W3C DID Core §5.2, §5.3.2).
fn document_keys(did: &str, document: &Json<'_>) -> Result<Vec<PublishedKey>, PublishedKeyError> {
    let did = did_without_fragment(did);
    match document.get("id").and_then(Json::as_str) {
        Some(id) if id == did => {}
        Some(other) => return Err(PublishedKeyError::OtherSubject(other.to_owned())),
        None => return Err(PublishedKeyError::UnknownForm("no `id`".to_owned())),
    }
    let methods = |member: &str| document.get(member).and_then(Json::as_array);
    let may_sign = methods("assertionMethod");
    let is_listed = |method: &Json<'_>| {
        may_sign.is_none_or(|listed| {
            let own = fragment_of(method.get("id").and_then(Json::as_str), did);
            own.is_some()
                && listed
                    .iter()
                    .any(|name| fragment_of(name.as_str(), did) == own)
        })
    };
    let listed = methods("verificationMethod").unwrap_or_default().iter();
    let embedded = may_sign.unwrap_or_default().iter();
    let candidates = listed
        .filter(|method| is_listed(method))
        .chain(embedded.filter(|method| method.as_object().is_some()));
    let mut keys = Vec::new();
    for method in candidates.filter(|method| method.get("revoked").is_none()) {
        if keys.len() == KEYS {
            return Err(PublishedKeyError::TooLarge("64 keys"));
        }
        keys.extend(method_key(did, method)?);
    }
    match keys.is_empty() {
        true => Err(PublishedKeyError::NoKey),
        false => Ok(keys),
    }
}

/// Reads the key of a verification method; `None` for a key of a kind that can't sign grains.
fn method_key(did: &str, method: &Json<'_>) -> Result<Option<PublishedKey>, PublishedKeyError> {
    let text = |member: &str| method.get(member).and_then(Json::as_str);
    let key = if let Some(jwk) = method.get("publicKeyJwk") {
        jwk_key(jwk)
    } else if let Some(multibase) = text("publicKeyMultibase") {
        key_from_multicodec(multibase).map_err(PublishedKeyError::from)
    } else {
        return Ok(None);
    };
    match key {
        Ok(key) => Ok(Some(PublishedKey {
            fragment: fragment_of(text("id"), did).map(str::to_owned),
            key,
        })),
        Err(PublishedKeyError::Key(DidError::KeyKind(_) | DidError::Curve(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the fragment of the name of a verification method, which may be relative to `did`.
fn fragment_of<'n>(name: Option<&'n str>, did: &str) -> Option<&'n str> {
    let (before, fragment) = name?.split_once('#')?;
    (before.is_empty() || before == did).then_some(fragment)
}

/// Reads a JSON Web Key (RFC 7517, RFC 8037).
fn jwk_key(jwk: &Json<'_>) -> Result<VerifyingKey, PublishedKeyError> {
    if jwk.get("d").is_some() {
        return Err(PublishedKeyError::PrivateKey);
    }
    let text = |member: &str| jwk.get(member).and_then(Json::as_str).unwrap_or_default();
    let coordinate = |member: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text(member)).ok();
        bytes
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or(DidError::Malformed(
                "a coordinate of a JSON Web Key has 32 bytes in base64url",
            ))
    };
    Ok(match (text("kty"), text("crv")) {
        ("OKP", "Ed25519") => VerifyingKey::from_ed25519(&coordinate("x")?)?,
        ("EC", "P-256") => {
            let point = [[4].as_slice(), &coordinate("x")?, &coordinate("y")?].concat();
            VerifyingKey::from_p256(&point)?
        }
        (_, curve) => return Err(DidError::Curve(curve.to_owned()).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::did::did_from_key;
    use super::super::key::SigningKey;
    use super::*;

    const DID: &str = "did:web:example.org";

    fn key(seed: u8) -> VerifyingKey {
        SigningKey::from_seed(&[seed; 32]).verifying_key()
    }

    fn multibase(key: &VerifyingKey) -> String {
        did_from_key(key).replace("did:key:", "")
    }

    fn jwk(key: &VerifyingKey) -> String {
        match key {
            VerifyingKey::Ed25519(key) => format!(
                r#"{{"kty": "OKP", "crv": "Ed25519", "x": "{}"}}"#,
                URL_SAFE_NO_PAD.encode(key.as_bytes())
            ),
            VerifyingKey::P256(key) => {
                let point = key.to_sec1_point(false);
                let (x, y) = point.as_bytes()[1..].split_at(32);
                format!(
                    r#"{{"kty": "EC", "crv": "P-256", "x": "{}", "y": "{}"}}"#,
                    URL_SAFE_NO_PAD.encode(x),
                    URL_SAFE_NO_PAD.encode(y)
                )
            }
        }
    }

    #[test]
    fn one_key_is_read_from_every_form() {
        let p256 = SigningKey::P256(p256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap());
        for key in [key(1), p256.verifying_key()] {
            for file in [did_from_key(&key), multibase(&key), jwk(&key)] {
                let read = read_published_keys(DID, format!(" {file}\n").as_bytes()).unwrap();
                assert_eq!(read, [unnamed(key.clone())], "{file}");
            }
        }
    }

    #[test]
    fn of_a_document_the_keys_that_may_sign_count() {
        let document = format!(
            r##"{{"id": "{DID}", "assertionMethod": ["#a", "{DID}#b", "#gone",
                {{"id": "#d", "publicKeyMultibase": "{d}"}}], "verificationMethod": [
                {{"id": "{DID}#a", "publicKeyMultibase": "{a}"}},
                {{"id": "#b", "publicKeyJwk": {b}}},
                {{"id": "#gone", "publicKeyMultibase": "{c}", "revoked": "2026-01-01T00:00:00Z"}},
                {{"id": "#login", "publicKeyMultibase": "{c}"}},
                {{"id": "#e", "publicKeyJwk": {{"kty": "OKP", "crv": "X25519", "x": "AA"}}}}]}}"##,
            a = multibase(&key(1)),
            b = jwk(&key(2)),
            c = multibase(&key(3)),
            d = multibase(&key(4)),
        );
        let read = read_published_keys("did:web:example.org#a", document.as_bytes()).unwrap();
        let names = ["a", "b", "d"].map(|name| Some(name.to_owned()));
        let expected = names.into_iter().zip([key(1), key(2), key(4)]);
        let expected: Vec<_> = expected
            .map(|(fragment, key)| PublishedKey { fragment, key })
            .collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn files_without_a_usable_key_are_refused_with_the_reason() {
        let private = r#"{"kty": "OKP", "crv": "Ed25519", "x": "AA", "d": "AA"}"#;
        for (file, reason) in [
            ("-----BEGIN PUBLIC KEY-----", "neither a DID document"),
            ("{", "neither a DID document"),
            (
                r#"{"id": "did:web:other.example"}"#,
                "document of did:web:other",
            ),
            (r#"{"id": "did:web:example.org"}"#, "no key that may sign"),
            (private, "private key"),
            (r#"{"kty": "OKP", "crv": "Ed25519", "x": "AA"}"#, "32 bytes"),
            (r#"{"kty": "EC", "crv": "secp256k1"}"#, "curve `secp256k1`"),
        ] {
            let error = read_published_keys(DID, file.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(reason), "{file}: {error}");
        }
        let large = vec![b' '; KEY_FILE_LIMIT + 1];
        let error = read_published_keys(DID, &large).unwrap_err();
        assert_eq!(error, PublishedKeyError::TooLarge("1 MiB"));
    }
}
