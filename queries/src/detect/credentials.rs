//! Secrets: keys and tokens that have a prefix of their issuer.

use super::{Match, PersonalDataKind, is_word};

/// Maximum length of a token that is examined, in bytes.
const LONGEST: usize = 4096;

/// Examines a byte at `at` that may belong to the prefix of a secret.
pub(super) fn find(text: &[u8], at: usize) -> Match {
    match text.get(at)? {
        b'-' if text
            .get(at..)
            .is_some_and(|rest| rest.starts_with(b"-----BEGIN ")) =>
        {
            private_key(text, at)
        }
        b'-' => issued(
            text,
            at,
            &[b"sk-", b"xoxb-", b"xoxp-", b"xoxa-", b"xapp-", b"glpat-"],
            20,
        ),
        b'_' => issued(
            text,
            at,
            &[
                b"ghp_", b"gho_", b"ghr_", b"ghs_", b"ghu_", b"github_", b"sk_", b"rk_",
            ],
            24,
        )
        .or_else(|| unbroken(text, at)),
        b'A' => access_key(text, at),
        b'J' => web_token(text, at),
        _ => None,
    }
}

/// A prefix that ends at `at`, followed by at least `least` characters of a token with digits and
/// letters.
fn issued(text: &[u8], at: usize, prefixes: &[&[u8]], least: usize) -> Match {
    let end = at + 1;
    let prefix = prefixes.iter().find(|prefix| {
        text.get(..end)
            .is_some_and(|before| before.ends_with(prefix))
    })?;
    let start = end - prefix.len();
    if is_preceded_by(text, start, |byte| is_word(byte) || byte == b'-') {
        return None;
    }
    let token = token(text, end, is_base64url);
    let mixed = token.iter().any(u8::is_ascii_digit) && token.iter().any(u8::is_ascii_alphabetic);
    (token.len() >= least && mixed)
        .then(|| (PersonalDataKind::Credential, start..end + token.len()))
}

/// `npm_…` with 36 letters and digits and `hf_…` with 34, in large and small letters. Names such as
/// `npm_package_dependencies_base64_js` begin like them.
fn unbroken(text: &[u8], at: usize) -> Match {
    let end = at + 1;
    let before = text.get(..end)?;
    let known: [(&[u8], usize); 2] = [(b"npm_", 36), (b"hf_", 34)];
    let (prefix, length) = known
        .into_iter()
        .find(|(prefix, _)| before.ends_with(prefix))?;
    let start = end - prefix.len();
    if is_preceded_by(text, start, |byte| is_word(byte) || byte == b'-') {
        return None;
    }
    let token = token(text, end, is_base64url);
    let formed = token.len() == length && token.iter().all(u8::is_ascii_alphanumeric);
    let mixed =
        token.iter().any(u8::is_ascii_uppercase) && token.iter().any(u8::is_ascii_lowercase);
    (formed && mixed).then(|| (PersonalDataKind::Credential, start..end + length))
}

/// `AKIA…` and `ASIA…` with sixteen further characters, `AIza…` with thirty-five.
fn access_key(text: &[u8], at: usize) -> Match {
    let rest = text.get(at..)?;
    let length = match rest.get(..4)? {
        b"AKIA" | b"ASIA" => 20,
        b"AIza" => 39,
        _ => return None,
    };
    if is_preceded_by(text, at, is_word) {
        return None;
    }
    let large = length == 20;
    let token = token(text, at, |byte| match large {
        true => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        false => is_base64url(byte),
    });
    let ends = text.get(at + length).is_none_or(|byte| !is_word(*byte));
    let mixed = token.iter().any(u8::is_ascii_digit);
    (ends && mixed && token.len() >= length)
        .then_some((PersonalDataKind::Credential, at..at + length))
}

/// `eyJ…`: three base64url parts separated by dots. Dots at the end are those of a sentence.
fn web_token(text: &[u8], at: usize) -> Match {
    let start = at.checked_sub(2)?;
    // A token must start a word, so each byte belongs to at most one candidate.
    let inside = is_preceded_by(text, start, |byte| {
        is_word(byte) || matches!(byte, b'-' | b'.')
    });
    if text.get(start..at)? != b"ey" || inside {
        return None;
    }
    let token = token(text, start, |byte| is_base64url(byte) || byte == b'.');
    let last = token.iter().rposition(|byte| *byte != b'.')?;
    let token = token.get(..=last)?;
    let mut parts = token.split(|byte| *byte == b'.');
    let formed = parts
        .by_ref()
        .take(3)
        .filter(|part| part.len() >= 10)
        .count()
        == 3;
    (formed && parts.next().is_none())
        .then(|| (PersonalDataKind::Credential, start..start + token.len()))
}

/// `-----BEGIN … PRIVATE KEY-----` of any type, also `PRIVATE KEY BLOCK` of PGP, and the key itself
/// to its last line; of a key that is cut off, what is there of it. Each byte is read once, because
/// a key ends before the next dashes of this form.
fn private_key(text: &[u8], at: usize) -> Match {
    let body = end_of_label(text, at)?;
    let rest = text.get(body..)?;
    let is_over = |(place, byte): (usize, &u8)| {
        let dashes = *byte == b'-' && rest.get(place..).is_some_and(|it| it.starts_with(DASHES));
        dashes || !is_pem(*byte)
    };
    let length = rest.iter().enumerate().position(is_over);
    let last = body + length.unwrap_or(rest.len());
    let ends = text
        .get(last..)
        .is_some_and(|rest| rest.starts_with(b"-----END "));
    let end = match end_of_label(text, last).filter(|_| ends) {
        Some(end) => end,
        // Without the last line, prose may follow, but no header.
        None => {
            let count = rest
                .iter()
                .take_while(|byte| is_base64_text(**byte))
                .count();
            let key = rest.get(..count).unwrap_or_default();
            body + key.trim_ascii_end().len()
        }
    };
    Some((PersonalDataKind::Credential, at..end))
}

/// Dashes around the labels of a key.
const DASHES: &[u8] = b"-----";

/// Returns the end of a line such as `-----BEGIN EC PRIVATE KEY-----` that starts at `at`.
fn end_of_label(text: &[u8], at: usize) -> Option<usize> {
    const ENDS: [&[u8]; 2] = [b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----"];
    let line = text.get(at..text.len().min(at + 48))?;
    ENDS.into_iter().find_map(|end| {
        let found = line.windows(end.len()).position(|window| window == end)?;
        Some(at + found + end.len())
    })
}

/// Returns true for the characters of a key and of the headers before it, such as `DEK-Info` and
/// `Version: GnuPG v1.4.11 (GNU/Linux)`.
fn is_pem(byte: u8) -> bool {
    is_base64_text(byte) || matches!(byte, b':' | b',' | b'-' | b'.' | b'(' | b')')
}

/// Returns true for the characters of base64 on several lines, also within a string of JSON.
fn is_base64_text(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte.is_ascii_whitespace()
        || matches!(byte, b'+' | b'/' | b'=' | b'\\')
}

/// Returns true if a byte that fulfils `matches` precedes `at`.
fn is_preceded_by(text: &[u8], at: usize, matches: impl Fn(u8) -> bool) -> bool {
    at > 0 && text.get(at - 1).is_some_and(|byte| matches(*byte))
}

/// Returns true for the characters of base64url.
fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn token(text: &[u8], start: usize, is_part: impl Fn(u8) -> bool) -> &[u8] {
    let rest = text
        .get(start..text.len().min(start + LONGEST))
        .unwrap_or_default();
    let length = rest.iter().take_while(|byte| is_part(**byte)).count();
    rest.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::mask;

    #[test]
    fn names_of_variables_are_no_tokens() {
        let name = "npm_package_dependencies_base64_js=1";
        assert_eq!(mask(name), name);
        let name = "hf_transformers_pipeline_for_text_gene";
        assert_eq!(mask(name), name);
        for prefix in ["npm_a1", "hf_"] {
            let token = format!("{prefix}aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH");
            assert_eq!(mask(&format!("use {token}.")), "use [credential].");
        }
    }
}
