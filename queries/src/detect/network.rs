//! E-mail and IPv6 addresses.

use std::net::Ipv6Addr;

use super::ascii_fold::UNSPACED;
use super::{Match, PersonalDataKind};

/// Maximum length of the local part of an address (RFC 5321).
const LOCAL_LIMIT: usize = 64;

/// Maximum length of a domain in bytes.
const DOMAIN_LIMIT: usize = 253;

/// File extensions that are not top-level domains.
const FILES: [&[u8]; 14] = [
    b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"css", b"js", b"ts", b"html", b"json",
    b"map", b"mjs", b"tsx",
];

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+=?^_`{|}~-".contains(&byte) || byte >= 0x80
}

fn is_domain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' || byte >= 0x80
}

/// Detects the e-mail address around the `@` at `at`.
pub(super) fn email(text: &[u8], at: usize) -> Match {
    let local = local_part(text.get(at.saturating_sub(LOCAL_LIMIT)..at)?)?;
    let domain = domain(text.get(at + 1..text.len().min(at + 1 + DOMAIN_LIMIT))?)?;
    let start = at - local.len();
    let end = at + 1 + domain.len();
    let addressed = !local.is_empty()
        && !local.ends_with(b".")
        && is_host(domain)
        && !is_part_of_url(text, start, end);
    addressed.then_some((PersonalDataKind::Email, start..end))
}

/// Returns the local part with which `before` ends. It may be empty.
fn local_part(before: &[u8]) -> Option<&[u8]> {
    let letters = before.iter().rev().take_while(|byte| is_local(**byte));
    let local = before.get(before.len() - letters.count()..)?;
    // Prose in a script without spaces isn't part of an address in ASCII, and neither are names and
    // other values in the query of a URL.
    let is_ascii = local.last().is_some_and(u8::is_ascii);
    let in_query = local.contains(&b'?');
    let is_before = |byte: &u8| {
        is_ascii && *byte == UNSPACED || in_query && matches!(*byte, b'?' | b'&' | b'=')
    };
    let start = local.iter().rposition(is_before).map_or(0, |at| at + 1);
    let local = local.get(start..)?;
    // Quotation marks, dots and similar characters before the address aren't part of it.
    let skipped = local
        .iter()
        .take_while(|byte| b".'`*_~{|".contains(byte))
        .count();
    local.get(skipped..)
}

/// Returns the domain with which `after` begins; `None` without one.
fn domain(after: &[u8]) -> Option<&[u8]> {
    let length = after.iter().take_while(|byte| is_domain(**byte)).count();
    let domain = after.get(..length)?;
    // Prose in a script without spaces may follow a top-level domain in ASCII.
    let is_prose = |at: &usize| {
        let before = domain.get(..*at).unwrap_or_default();
        domain.get(*at) == Some(&UNSPACED)
            && before.last().is_some_and(u8::is_ascii_alphanumeric)
            && before.contains(&b'.')
    };
    let domain = domain.get(..(0..length).find(is_prose).unwrap_or(length))?;
    let last = domain
        .iter()
        .rposition(|byte| *byte != b'.' && *byte != b'-')?;
    domain.get(..=last)
}

/// Returns true for labels separated by dots, the last of letters and not a file extension.
fn is_host(domain: &[u8]) -> bool {
    let mut labels = domain.split(|byte| *byte == b'.').rev();
    let Some(top) = labels.next() else {
        return false;
    };
    let lettered = top
        .iter()
        .all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80)
        || top.starts_with(b"xn--");
    let is_file = FILES.iter().any(|ending| top.eq_ignore_ascii_case(ending));
    let mut rest = labels.peekable();
    let named = rest.peek().is_some();
    let formed = |label: &[u8]| {
        (1..=63).contains(&label.len()) && !label.starts_with(b"-") && !label.ends_with(b"-")
    };
    top.len() >= 2 && lettered && !is_file && named && rest.all(formed)
}

/// `ssh://git@host.org`, `https://name:secret@host.org`, `git@host.org:path`.
fn is_part_of_url(text: &[u8], start: usize, end: usize) -> bool {
    let path_follows = text.get(end) == Some(&b':')
        && text
            .get(end + 1)
            .is_some_and(|byte| !byte.is_ascii_whitespace());
    let before = text
        .get(start.saturating_sub(LOCAL_LIMIT)..start)
        .unwrap_or_default();
    let token = before
        .rsplit(|byte| byte.is_ascii_whitespace() || *byte == b'"')
        .next()
        .unwrap_or_default();
    let authority = token
        .windows(3)
        .rposition(|window| window == b"://")
        .and_then(|at| token.get(at + 3..));
    let is_over = |byte: &u8| matches!(*byte, b'/' | b'?' | b'#');
    path_follows || authority.is_some_and(|authority| !authority.iter().any(is_over))
}

/// Detects the IPv6 address around the colon at `at`. Only public addresses count, which start with
/// 2 or 3.
pub(super) fn ipv6(text: &[u8], at: usize) -> Match {
    const LONGEST: usize = 39;
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b':';
    // Only the first colon is examined, and only after a group of four digits at the start of a
    // word.
    let start = at.checked_sub(4)?;
    let group = text.get(start..at)?;
    if !matches!(group, [b'2' | b'3', ..])
        || !group.iter().all(u8::is_ascii_hexdigit)
        || !super::begins_word(text, start)
    {
        return None;
    }
    let rest = text.get(start..text.len().min(start + LONGEST + 1))?;
    let length = rest.iter().take_while(|byte| is_part(byte)).count();
    let address = rest.get(..length)?;
    let address = address
        .strip_suffix(b":")
        .filter(|address| !address.ends_with(b":"))
        .unwrap_or(address);
    let parsed: Ipv6Addr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let documentation = parsed.segments().starts_with(&[0x2001, 0xdb8]);
    let end = start + address.len();
    (!documentation && super::ends_word(text, end))
        .then_some((PersonalDataKind::IpAddress, start..end))
}

#[cfg(test)]
mod tests {
    use super::super::mask;

    #[test]
    fn an_address_ends_at_prose_without_spaces() {
        for (text, masked) in [
            ("请联系ada@example.com谢谢", "请联系[email]谢谢"),
            ("อีเมลada@example.comนะ", "อีเมล[email]นะ"),
            (
                "从ada@example.com转到bob@mail.example.org。",
                "从[email]转到[email]。",
            ),
            ("用户@例子.公司", "[email]"),
            ("ada@例子.com", "[email]"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn addresses_in_the_query_of_a_url() {
        for (text, masked) in [
            (
                "https://example.com?email=ada@example.com",
                "https://example.com?email=[email]",
            ),
            (
                "https://example.com/?a=1&to=ada@example.com&b=2",
                "https://example.com/?a=1&to=[email]&b=2",
            ),
        ] {
            assert_eq!(mask(text), masked);
        }
        let login = "https://ada:secret@example.com/x";
        assert_eq!(mask(login), login);
    }
}
