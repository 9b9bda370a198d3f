//! The URL of the document of a `did:web`.

use url::{Host, Url};

/// Returns the URL of the document of `did`, a `did:web` without fragment; `None` for other methods
/// and for what names no host of the web. Addresses of machines aren't hosts of a `did:web`.
///
/// `did:web:example.org` is at `https://example.org/.well-known/did.json`,
/// `did:web:example.org%3A8443:users:ada` at `https://example.org:8443/users/ada/did.json`.
pub fn document_url(did: &str) -> Option<Url> {
    let mut parts = did.strip_prefix("did:web:")?.split(':');
    let authority = parts.next()?;
    let (host, port) = match authority.split_once("%3A").or(authority.split_once("%3a")) {
        Some((host, port)) => (host, format!(":{}", port.parse::<u16>().ok()?)),
        None => (authority, String::new()),
    };
    let path: Vec<&str> = parts.collect();
    let is_sound = is_host(host) && path.iter().all(|segment| is_segment(segment));
    let folder = match path.is_empty() {
        true => ".well-known".to_owned(),
        false => path.join("/"),
    };
    let url = format!("https://{host}{port}/{folder}/did.json");
    let url = Url::parse(&url).ok().filter(|_| is_sound)?;
    matches!(url.host(), Some(Host::Domain(_))).then_some(url)
}

fn is_host(text: &str) -> bool {
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    !text.is_empty() && text.bytes().all(is_host_byte)
}

/// Returns true for a segment of a path that no parser of URLs changes.
fn is_segment(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-%".contains(&byte);
    let dots = text.to_ascii_lowercase().replace("%2e", ".");
    !matches!(dots.as_str(), "" | "." | "..") && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_did_names_the_place_of_its_document() {
        for (did, expected) in [
            (
                "did:web:example.org",
                "https://example.org/.well-known/did.json",
            ),
            (
                "did:web:example.org:users:ada",
                "https://example.org/users/ada/did.json",
            ),
            (
                "did:web:example.org%3A8443:a%20b",
                "https://example.org:8443/a%20b/did.json",
            ),
        ] {
            assert_eq!(document_url(did).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn what_names_no_host_of_the_web_has_no_document() {
        for did in [
            "did:key:z6Mk",
            "did:web:",
            "did:web::a",
            "did:web:example.org:",
            "did:web:example.org:..:a",
            "did:web:example.org:%2E%2e:a",
            "did:web:user@example.org",
            "did:web:example.org/a",
            "did:web:example.org?a",
            "did:web:example.org%2Fa",
            "did:web:example.org%3A99999",
            "did:web:example.org%3A80%3A90",
            "did:web:127.0.0.1",
            "did:web:0x7f000001",
            "did:web:2130706433",
            "did:web:[::1]",
            "did:web:127.1",
        ] {
            assert_eq!(document_url(did), None, "{did}");
        }
    }
}
