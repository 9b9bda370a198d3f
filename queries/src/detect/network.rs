//! E-mail and IPv6 addresses.

use std::net::Ipv6Addr;

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
    // Quotation marks, dots and similar characters before the address aren't part of it.
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
    path_follows || authority.is_some_and(|authority| !authority.contains(&b'/'))
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
