//! E-mail addresses and IPv6.

use std::net::Ipv6Addr;

use super::{Match, PersonalDataKind};

/// Bytes of an address' part before the sign (RFC 5321).
const LOCAL_LIMIT: usize = 64;

/// Bytes of a domain.
const DOMAIN_LIMIT: usize = 253;

/// Endings that are files' and not domains'.
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

/// The address around the `@` at `at`.
pub(super) fn email(text: &[u8], at: usize) -> Match {
    let before = text.get(at.saturating_sub(LOCAL_LIMIT)..at)?;
    let count = before
        .iter()
        .rev()
        .take_while(|byte| is_local(**byte))
        .count();
    let after = text.get(at + 1..text.len().min(at + 1 + DOMAIN_LIMIT))?;
    let length = after.iter().take_while(|byte| is_domain(**byte)).count();
    let domain = after.get(..length)?;
    let trimmed = domain
        .iter()
        .rposition(|byte| *byte != b'.' && *byte != b'-')?
        + 1;
    let domain = domain.get(..trimmed)?;
    let quoted = before.len() - count;
    let local = before.get(quoted..)?;
    // A quotation mark, a dot or the like before the address isn't part of it.
    let skipped = local
        .iter()
        .take_while(|byte| b".'`*_~{|".contains(byte))
        .count();
    let local = local.get(skipped..)?;
    let start = at - local.len();
    let end = at + 1 + trimmed;
    let addressed = !local.is_empty()
        && !local.ends_with(b".")
        && is_host(domain)
        && !is_part_of_url(text, start, end);
    addressed.then_some((PersonalDataKind::Email, start..end))
}

/// Labels with dots between them, the last one of letters and not a file's ending.
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
    path_follows || authority.is_some_and(|authority| !authority.contains(&b'/'))
}

/// The address around the colon at `at`: public ones only, which begin with 2 or 3.
pub(super) fn ipv6(text: &[u8], at: usize) -> Match {
    const LONGEST: usize = 39;
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b':';
    // Only the first colon is looked at, and only behind a group of four digits that begins a word.
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
