//! Files that are recognised by their first bytes, and what their user can do.

use crate::transcript::changes::BUNDLE_PREFIX;

const UTF_16: &str = "is in UTF-16; convert it to UTF-8, such as with `iconv -f UTF-16 -t UTF-8`";
const UTF_32: &str = "is in UTF-32; convert it to UTF-8, such as with `iconv -f UTF-32 -t UTF-8`";
const EVENTS: &str = "looks like a stream of server-sent events; as the text `response_sse` of an \
                      exchange it is read";
const SQLITE_LOG: &str = "looks like the write-ahead log of a SQLite database; close the database, \
                          or let its program checkpoint it, and ingest that";

/// Where a tar archive has its magic number.
const TAR_MAGIC_AT: usize = 257;

/// Describes a file that is not JSON by its first bytes, for the user.
pub(super) fn hint_from_prefix(bytes: &[u8]) -> Option<&'static str> {
    const PREFIXES: [(&[u8], &str); 26] = [
        (
            b"PK\x03\x04",
            "looks like a zip archive; unpack it and name the files",
        ),
        (
            b"\x1f\x8b",
            "looks like a gzip file; unpack it, or type `gzip -dc FILE | gristmill ingest -`",
        ),
        (
            b"\x28\xb5\x2f\xfd",
            "looks like a zstd file; unpack it, or type `zstd -dc FILE | gristmill ingest -`",
        ),
        (
            b"\xfd7zXZ\0",
            "looks like an xz file; unpack it, or type `xz -dc FILE | gristmill ingest -`",
        ),
        (
            b"BZh",
            "looks like a bzip2 file; unpack it, or type `bzip2 -dc FILE | gristmill ingest -`",
        ),
        (b"\xff\xfe\0\0", UTF_32),
        (b"\0\0\xfe\xff", UTF_32),
        (b"\xff\xfe", UTF_16),
        (b"\xfe\xff", UTF_16),
        (b"{\0\0\0", UTF_32),
        (b"[\0\0\0", UTF_32),
        (b"\0\0\0{", UTF_32),
        (b"\0\0\0[", UTF_32),
        (b"{\0", UTF_16),
        (b"[\0", UTF_16),
        (b"\0{", UTF_16),
        (b"\0[", UTF_16),
        (b"data:", EVENTS),
        (b"event:", EVENTS),
        (b"PAR1", "looks like a Parquet file; not supported yet"),
        (
            b"# aider chat started",
            "looks like an Aider chat history; not supported yet",
        ),
        (b"%PDF", "looks like a PDF document"),
        (b"\x37\x7f\x06\x82", SQLITE_LOG),
        (b"\x37\x7f\x06\x83", SQLITE_LOG),
        (
            b"\x18\xe2\x2d\0",
            "looks like the index of the write-ahead log of a SQLite database",
        ),
        (
            BUNDLE_PREFIX,
            "is a bundle of changes of another lake; apply it with `gristmill ingest --changes`",
        ),
    ];
    if bytes
        .get(TAR_MAGIC_AT..)
        .is_some_and(|rest| rest.starts_with(b"ustar"))
    {
        return Some("looks like a tar archive; unpack it and name the files");
    }
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"{") && !bytes.contains(&b'\n') && bytes.contains(&b'\r') {
        return Some("its lines end with CR alone; convert them, such as with `tr '\\r' '\\n'`");
    }
    PREFIXES
        .iter()
        .find(|(prefix, _)| text.starts_with(prefix))
        .map(|(_, reason)| *reason)
}
