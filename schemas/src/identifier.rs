//! The syntax of decentralized identifiers (§12.2; W3C DID Core §3).

/// Returns true if `text` is a DID of any method: `did:`, the method in lower-case letters and
/// digits, a colon, and an identifier of letters, digits, `.`, `-`, `_`, `:` and percent-encoded
/// bytes. A path, query or fragment may follow, as in the name of a key.
///
/// ```
/// use gristmill_schemas::identifier::is_did;
///
/// assert!(is_did("did:web:example.com:agents:summarizer"));
/// assert!(is_did("did:web:example.com#key-1"));
/// assert!(!is_did("agent-7"));
/// ```
pub fn is_did(text: &str) -> bool {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let parts = text
        .get(..end)
        .and_then(|did| did.strip_prefix("did:"))
        .and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(method, identifier)| {
        let is_method_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !method.is_empty() && method.bytes().all(is_method_byte) && is_identifier(identifier)
    })
}

/// Returns true for an identifier of a method. It doesn't end with a colon.
fn is_identifier(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut is_encoded = || {
            let digits = [bytes.next(), bytes.next()];
            digits
                .iter()
                .all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
        };
        let is_allowed = is_plain(byte) || byte == b'%' && is_encoded();
        if !is_allowed {
            return false;
        }
    }
    !text.is_empty() && !text.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_did_has_a_method_and_an_identifier() {
        for did in [
            "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
            "did:web:example.com:agents:summarizer",
            "did:web:localhost%3A8443",
            "did:web:ada.example#key-1",
            "did:example:123/path?query#fragment",
            "did:a1::b",
        ] {
            assert!(is_did(did), "{did}");
        }
        for other in [
            "",
            "ada",
            "did:",
            "did:web",
            "did:web:",
            "did::a",
            "did:Web:a",
            "DID:web:a",
            "did:web:a b",
            "did:web:a:",
            "did:web:ä",
            "did:web:a%3",
            "did:web:a%zz",
            "did:web:#a",
        ] {
            assert!(!is_did(other), "{other}");
        }
    }
}
