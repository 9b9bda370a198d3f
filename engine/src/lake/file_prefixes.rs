//! What the lake has read of files whose messages have the time of the file.
//!
//! A message without a time of its own has that of its file, which is a part of its address. A log
//! that grew has another time. So the ledger records which bytes at the beginning of which file
//! had which time, as application transactions in the log of `grains`: lines that the lake has
//! read keep the time that they had, and their messages their addresses, erased ones too.
//!
//! A file is recognised by its place. Logs of other places may begin with the same lines, such as
//! an instruction without a time; their messages are others.

use std::collections::{BTreeSet, HashMap};

use gristmill_connectors::source::{Source, SourceBytes};
use gristmill_connectors::transcript::options::KnownPrefix;
use gristmill_schemas::message::Timestamp;
use memchr::memrchr;
use serde::{Deserialize, Serialize};

use crate::hash::Digest;

/// Beginning of the names of these transactions; the tag, the length and the digest follow.
const NAME_PREFIX: &str = "gristmill:file-prefix:";

/// Length of a tag in hexadecimal digits. It only selects candidates, and is too short to tell a
/// place.
const TAG_DIGITS: usize = 4;

/// The place of a file: its absolute path, or its URI.
#[derive(Debug, Clone)]
pub(crate) struct FilePlace(String);

impl FilePlace {
    /// Returns the place of `source`; `None` for a stream.
    pub(crate) fn of(source: &Source) -> Option<FilePlace> {
        source.place().map(FilePlace)
    }

    fn tag(&self) -> String {
        let mut digits = blake3::hash(self.0.as_bytes()).to_hex().to_string();
        digits.truncate(TAG_DIGITS);
        digits
    }

    /// Returns the digests of the first so many bytes at this place, one for each of `lengths`,
    /// which ascend.
    fn digests(&self, bytes: &SourceBytes, lengths: impl Iterator<Item = usize>) -> Vec<Digest> {
        let mut hasher = blake3::Hasher::new();
        // The length keeps places and contents apart.
        hasher.update(&(self.0.len() as u64).to_le_bytes());
        hasher.update(self.0.as_bytes());
        let mut hashed = 0;
        let digest = |length| {
            bytes.for_each_chunk(hashed..length, |part| _ = hasher.update(part));
            hashed = length;
            *hasher.finalize().as_bytes()
        };
        lengths.map(digest).collect()
    }
}

/// A beginning of a file, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FilePrefix {
    tag: String,
    /// Its length, in bytes.
    length: u64,
    digest: String,
    /// The time of its messages, in milliseconds since 1970.
    time: i64,
}

impl FilePrefix {
    /// Returns the name and the value of its application transaction.
    pub(crate) fn transaction(&self) -> (String, i64) {
        let FilePrefix {
            tag,
            length,
            digest,
            time,
        } = self;
        (format!("{NAME_PREFIX}{tag}:{length}:{digest}"), *time)
    }
}

/// A recorded beginning of a file at a place with some tag.
#[derive(Debug, Clone, Copy)]
struct RecordedPrefix {
    length: u64,
    digest: Digest,
    /// In milliseconds since 1970.
    time: i64,
    /// When it was recorded.
    recorded: i64,
}

/// The recorded beginnings of all files.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilePrefixes {
    by_tag: HashMap<String, Vec<RecordedPrefix>>,
}

impl FilePrefixes {
    /// Adds the application transaction `name`, if it is one of these.
    pub(super) fn note(&mut self, name: &str, time: i64, recorded: Option<i64>) {
        let Some((tag, length, digest)) = parts_of(name) else {
            return;
        };
        let prefix = RecordedPrefix {
            length,
            digest,
            time,
            recorded: recorded.unwrap_or_default(),
        };
        match self.by_tag.get_mut(tag) {
            Some(of_tag) => of_tag.push(prefix),
            None => _ = self.by_tag.insert(tag.to_owned(), vec![prefix]),
        }
    }

    /// Returns what is known of the file with these `bytes` at `place`: the beginnings that are
    /// complete lines or all of it, in the order in which they were recorded. Reads the bytes once
    /// if any could be one.
    pub(crate) fn of(&self, place: &FilePlace, bytes: &SourceBytes) -> Vec<KnownPrefix> {
        let may_be_one = |prefix: &&RecordedPrefix| {
            usize::try_from(prefix.length).is_ok_and(|end| ends_with_line(bytes, end))
        };
        let of_tag = self.by_tag.get(&place.tag()).map_or(&[][..], Vec::as_slice);
        let mut candidates: Vec<RecordedPrefix> =
            of_tag.iter().filter(may_be_one).copied().collect();
        candidates.sort_by_key(|prefix| (prefix.recorded, prefix.length));
        let lengths: BTreeSet<u64> = candidates.iter().map(|prefix| prefix.length).collect();
        let digests = place.digests(bytes, lengths.iter().map(|length| *length as usize));
        let digests: HashMap<u64, Digest> = lengths.into_iter().zip(digests).collect();
        candidates.retain(|prefix| digests.get(&prefix.length) == Some(&prefix.digest));
        let known = candidates.into_iter().map(|prefix| KnownPrefix {
            length: prefix.length,
            time: Timestamp::of_file(Some(prefix.time)),
        });
        known.collect()
    }

    /// Returns what is to be recorded of the file with these `bytes` at `place`, whose messages
    /// have the `time`: all of it and, if it may end within a line, its complete lines.
    pub(crate) fn to_record(
        &self,
        place: &FilePlace,
        bytes: &SourceBytes,
        time: Timestamp,
    ) -> Vec<FilePrefix> {
        let mut lengths = vec![bytes.len()];
        if !bytes.ends_with(b"\n")
            && let Some(last) = memrchr(b'\n', bytes)
        {
            lengths.insert(0, last + 1);
        }
        let (tag, digests) = (place.tag(), place.digests(bytes, lengths.iter().copied()));
        let is_new = |(length, digest): &(usize, Digest)| !self.contains(&tag, *length, digest);
        let prefixes = lengths.into_iter().zip(digests).filter(is_new);
        let prefixes = prefixes.map(|(length, digest)| FilePrefix {
            tag: tag.clone(),
            length: length as u64,
            digest: hex::encode(digest),
            time: time.micros() / 1_000,
        });
        prefixes.collect()
    }

    fn contains(&self, tag: &str, length: usize, digest: &Digest) -> bool {
        let is_same =
            |known: &RecordedPrefix| known.length == length as u64 && known.digest == *digest;
        let of_tag = self.by_tag.get(tag);
        of_tag.is_some_and(|of_tag| of_tag.iter().any(is_same))
    }
}

/// Returns the tag, the length and the digest in the name of an application transaction.
fn parts_of(name: &str) -> Option<(&str, u64, Digest)> {
    let (tag, rest) = name.strip_prefix(NAME_PREFIX)?.split_once(':')?;
    let (length, digits) = rest.split_once(':')?;
    let mut digest = Digest::default();
    hex::decode_to_slice(digits, &mut digest).ok()?;
    Some((tag, length.parse().ok()?, digest))
}

/// Returns true if the first `end` bytes are complete lines, or all of `bytes`. Only then may the
/// rest have been appended.
fn ends_with_line(bytes: &[u8], end: usize) -> bool {
    let Some((before, after)) = bytes.split_at_checked(end) else {
        return false;
    };
    let is_continued = after.starts_with(b"\n") || after.starts_with(b"\r\n");
    after.is_empty() || before.ends_with(b"\n") || is_continued
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> FilePlace {
        FilePlace(path.to_owned())
    }

    /// Records `content` with the time `millis` as the change number `recorded`.
    fn record(content: &[u8], millis: i64, recorded: i64, into: &mut FilePrefixes) -> usize {
        let bytes = SourceBytes::from(content.to_vec());
        let new = into.to_record(&place("a"), &bytes, Timestamp::of_file(Some(millis)));
        for prefix in &new {
            let (name, time) = prefix.transaction();
            into.note(&name, time, Some(recorded));
        }
        new.len()
    }

    fn found(content: &[u8], at: &str, prefixes: &FilePrefixes) -> Vec<(u64, i64)> {
        let found = prefixes.of(&place(at), &SourceBytes::from(content.to_vec()));
        let found = found.iter();
        found
            .map(|prefix| (prefix.length, prefix.time.micros() / 1_000))
            .collect()
    }

    #[test]
    fn beginnings_of_a_growing_file_are_known_at_its_place_only() {
        let mut known = FilePrefixes::default();
        assert_eq!(record(b"{1}\n{2}\n", 10, 1, &mut known), 1);
        assert_eq!(record(b"{1}\n{2}\n{3}\n", 20, 2, &mut known), 1);
        assert_eq!(record(b"{9}\n", 30, 3, &mut known), 1);
        assert_eq!(found(b"{1}\n", "a", &known), []);
        assert_eq!(found(b"{1}\n{2}\n", "a", &known), [(8, 10)]);
        let grown = b"{1}\n{2}\n{3}\n{4}\n";
        assert_eq!(found(grown, "a", &known), [(8, 10), (12, 20)]);
        assert_eq!(found(grown, "b", &known), []);
        assert_eq!(found(b"{1}\n{2}\n{4}\n", "a", &known), [(8, 10)]);
        assert_eq!(found(b"{1}\n{5}\n", "a", &known), []);
        // The same bytes with another time are known already.
        assert_eq!(record(b"{9}\n", 40, 4, &mut known), 0);
    }

    #[test]
    fn a_file_that_has_grown_very_often_is_known_from_its_beginning() {
        let (mut known, mut content) = (FilePrefixes::default(), Vec::new());
        for version in 0..10_000 {
            content.extend_from_slice(b"{}\n");
            record(&content, version, version, &mut known);
        }
        let found = found(&content, "a", &known);
        assert!(
            found
                .into_iter()
                .eq((0..10_000).map(|at| (3 * (at as u64 + 1), at)))
        );
    }

    #[test]
    fn what_was_recorded_first_is_first() {
        let mut known = FilePrefixes::default();
        record(b"{1}\n{2}\n", 20, 1, &mut known);
        // A backup is read later.
        record(b"{1}\n", 10, 2, &mut known);
        let grown = found(b"{1}\n{2}\n{3}\n", "a", &known);
        assert_eq!(grown, [(8, 20), (4, 10)]);
    }

    #[test]
    fn a_file_without_a_last_line_break_is_known_if_the_next_line_follows() {
        let mut known = FilePrefixes::default();
        assert_eq!(record(b"{1}\n{2}", 10, 1, &mut known), 2);
        for grown in [&b"{1}\n{2}\n{3}"[..], b"{1}\n{2}\r\n{3}"] {
            assert_eq!(found(grown, "a", &known), [(4, 10), (7, 10)]);
        }
        // It ended within a line, whose rest was written later.
        assert_eq!(found(b"{1}\n{2}5}\n", "a", &known), [(4, 10)]);
        assert_eq!(record(b"{}", 10, 1, &mut known), 1);
    }

    #[test]
    fn other_transactions_are_ignored() {
        let mut known = FilePrefixes::default();
        for name in [
            "gristmill:source:ab",
            &format!("gristmill:file-prefix:ab:x:{}", "0".repeat(64)),
            "gristmill:file-prefix:ab:1",
            "gristmill:file-prefix:ab:1:cd:ef",
            "other",
        ] {
            known.note(name, 5, None);
        }
        assert!(known.by_tag.is_empty());
    }
}
