//! The subject filter of a lake in an object store: which segments have no statement about a
//! subject.
//!
//! The hexastore of a segment answers that, but a look-up in those of all segments takes a request
//! for each. This file has a Bloom filter of the subjects of every segment, so that a query by
//! subject opens the few segments that may have it. A segment that isn't in the file is opened.
//!
//! ```text
//! "GMSUBJ01"    magic                                            8
//! s             segments                                         u64
//! for each, ascending by name:
//!   n           bytes of its name                                u64
//!   name        in UTF-8                                         n
//!   footer      the digest to which its sidecars are bound       32
//!   m           words of 64 bits in the filter                   u64
//!   filter                                                       u64 × m
//! checksum      BLAKE3 of all before                             32
//! ```
//!
//! Integers are little-endian. Jobs that change segments replace the file, if no other writer has
//! done so meanwhile. Sealed segments aren't in it, and lakes in folders have none: they map their
//! sidecars.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use object_store::path::Path;

use super::SidecarCache;
use super::hexastore::{Hexastore, TriplePattern};
use super::word_filter::bits;
use crate::error::Result;
use crate::file_digest::FileDigest;
use crate::lake::{Lake, LakeLocation, Segment, read_with_version, replace_unchanged};
use crate::segment::SIDECARS;

/// The name of the file, in the folder of sidecars.
const SUBJECTS_FILE: &str = "subjects.bin";

const MAGIC: &[u8; 8] = b"GMSUBJ01";
const CHECKSUM: usize = 32;
const FOOTER: usize = 32;

/// Bits of the filter per subject. With 8 hash functions, 0.3 % of absent subjects pass.
const BITS_PER_SUBJECT: usize = 12;

/// Maximal size of all filters together in bytes: those of 10 million subjects. Further segments
/// aren't added, and a query opens them.
const MAX_BYTES: usize = 16 << 20;

/// How often the file is written again because another writer was faster. The next job adds what
/// is missing.
const ATTEMPTS: usize = 5;

/// The filter of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SegmentSubjects {
    footer: FileDigest,
    words: Vec<u64>,
}

/// The subject filters of the segments of a lake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubjectFilters {
    by_segment: BTreeMap<String, SegmentSubjects>,
}

impl SegmentSubjects {
    fn of(store: &Hexastore, footer: FileDigest) -> SegmentSubjects {
        let mut hashes: HashSet<u64> = HashSet::new();
        let mut last = None;
        for statement in store.find(&TriplePattern::default()).iter() {
            if last != Some(statement.subject) {
                hashes.insert(hash_of(statement.subject));
                last = Some(statement.subject);
            }
        }
        let mut words = vec![0; (hashes.len() * BITS_PER_SUBJECT).div_ceil(64).max(1)];
        let count = words.len();
        for (word, bit) in hashes.into_iter().flat_map(|hash| bits(hash, count)) {
            if let Some(word) = words.get_mut(word) {
                *word |= bit;
            }
        }
        SegmentSubjects { footer, words }
    }

    fn may_contain(&self, hash: u64) -> bool {
        let has = |(word, bit): (usize, u64)| self.words.get(word).is_some_and(|it| it & bit != 0);
        bits(hash, self.words.len()).all(has)
    }
}

fn hash_of(subject: &str) -> u64 {
    let hash = blake3::hash(subject.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().unwrap_or(&[0; 8]))
}

impl SubjectFilters {
    /// Returns the path of the file, from the lake's root.
    pub(crate) fn path() -> Path {
        Path::from(format!("{SIDECARS}/{SUBJECTS_FILE}"))
    }

    /// Returns true if the lake at `location` has the file, and it isn't intact.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn are_damaged(location: &LakeLocation) -> Result<bool> {
        let found = location.read_small(&Self::path()).await?;
        Ok(found.is_some_and(|bytes| SubjectFilters::parse(&bytes).is_none()))
    }

    /// Returns the filter that queries use for `segment`.
    fn of(&self, segment: &Segment) -> Option<&SegmentSubjects> {
        let known = self.by_segment.get(segment.id.as_str());
        known.filter(|known| segment.file.footer == Some(known.footer))
    }

    /// Returns true if the filter of `segment` is here.
    pub(crate) fn know(&self, segment: &Segment) -> bool {
        self.of(segment).is_some()
    }

    /// Returns true if the filter of `segment` is here and isn't that of the subjects in `store`,
    /// the statements of the segment.
    pub(crate) fn differ(&self, segment: &Segment, store: &Hexastore) -> bool {
        let known = self.of(segment);
        known.is_some_and(|known| *known != SegmentSubjects::of(store, known.footer))
    }

    /// Reads the filters of the lake at `location`: none if it has no intact file.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File).
    pub(crate) async fn load(location: &LakeLocation) -> Result<SubjectFilters> {
        let found = location.read_small(&Self::path()).await?;
        Ok(found
            .and_then(|bytes| SubjectFilters::parse(&bytes))
            .unwrap_or_default())
    }

    /// Returns true if `segment` has no statement about any of `subjects`.
    pub fn excludes(&self, segment: &Segment, subjects: &[&str]) -> bool {
        self.of(segment).is_some_and(|known| {
            let mut hashes = subjects.iter().map(|subject| hash_of(subject));
            !hashes.any(|hash| known.may_contain(hash))
        })
    }

    /// Returns true if the filters of all of `segments` that can have one are here.
    pub(super) fn cover(&self, segments: &[Segment]) -> bool {
        let mut open = segments.iter().filter(|segment| !segment.id.is_sealed());
        open.all(|segment| self.by_segment.contains_key(segment.id.as_str()))
    }

    /// Makes these the filters of the segments of `lake`. Returns false if they were before.
    async fn update(&mut self, lake: &Lake) -> Result<bool> {
        let segments = lake.segments()?;
        let before = self.by_segment.len();
        let live: HashMap<&str, &Segment> = segments
            .iter()
            .map(|segment| (segment.id.as_str(), segment))
            .collect();
        self.by_segment.retain(|id, known| {
            let segment = live.get(id.as_str());
            segment.is_some_and(|segment| segment.file.footer == Some(known.footer))
        });
        let mut changed = self.by_segment.len() != before;
        let mut bytes: usize = self.by_segment.values().map(|it| it.words.len() * 8).sum();
        let sidecars = SidecarCache::of(lake);
        for segment in &segments {
            let is_known = self.by_segment.contains_key(segment.id.as_str());
            let Some(footer) = segment
                .file
                .footer
                .filter(|_| !is_known && bytes < MAX_BYTES)
            else {
                continue;
            };
            if let Some(store) = sidecars.hexastore(lake.location(), segment).await {
                let own = SegmentSubjects::of(&store, footer);
                bytes += own.words.len() * 8;
                self.by_segment.insert(segment.id.as_str().to_owned(), own);
                changed = true;
            }
        }
        Ok(changed)
    }

    fn into_bytes(self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((self.by_segment.len() as u64).to_le_bytes());
        for (id, SegmentSubjects { footer, words }) in self.by_segment {
            out.extend((id.len() as u64).to_le_bytes());
            out.extend(id.as_bytes());
            out.extend(footer.as_bytes());
            out.extend((words.len() as u64).to_le_bytes());
            words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        }
        out.extend(blake3::hash(&out).as_bytes());
        out
    }

    /// Returns the filters in `bytes`, or `None` if they are damaged or of another version.
    fn parse(bytes: &[u8]) -> Option<SubjectFilters> {
        let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
        if blake3::hash(content).as_bytes() != checksum {
            return None;
        }
        let mut rest = content.strip_prefix(MAGIC.as_slice())?;
        let segments = take_number(&mut rest)?;
        let mut by_segment = BTreeMap::new();
        for _ in 0..segments {
            let length = usize::try_from(take_number(&mut rest)?).ok()?;
            let id = std::str::from_utf8(take_bytes(&mut rest, length)?).ok()?;
            let footer: [u8; FOOTER] = take_bytes(&mut rest, FOOTER)?.try_into().ok()?;
            let length = usize::try_from(take_number(&mut rest)?).ok()?;
            let words = take_bytes(&mut rest, length.checked_mul(8)?)?;
            let words = words.as_chunks::<8>().0.iter();
            let own = SegmentSubjects {
                footer: blake3::Hash::from_bytes(footer).into(),
                words: words.map(|word| u64::from_le_bytes(*word)).collect(),
            };
            by_segment.insert(id.to_owned(), own);
        }
        rest.is_empty().then_some(SubjectFilters { by_segment })
    }
}

/// Takes `length` bytes from `rest`.
fn take_bytes<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (bytes, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(bytes)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take_bytes(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// Adds the segments of `lake` that its subject filter lacks, and removes those that the lake
/// doesn't have any more. Reads the hexastores of the former. With `all`, the filters of all
/// segments are made again, whatever the file has. A lake that is encrypted or in a
/// folder has no such filter: one that it had before, or elsewhere, is removed.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File).
pub(crate) async fn refresh_subjects(lake: &Lake, all: bool) -> Result<()> {
    let (location, path) = (lake.location(), SubjectFilters::path());
    if lake.is_encrypted() || !location.is_remote() {
        return location.delete(&path).await;
    }
    for _ in 0..ATTEMPTS {
        let (found, mode) = read_with_version(location, &path).await?;
        let usable = found.filter(|_| !all);
        let known = usable.and_then(|bytes| SubjectFilters::parse(&bytes));
        let mut filters = known.unwrap_or_default();
        if !filters.update(lake).await?
            || replace_unchanged(location, &path, filters.into_bytes(), mode).await?
        {
            return Ok(());
        }
    }
    tracing::debug!("the subject filter was busy {ATTEMPTS} times; the next job completes it");
    Ok(())
}

/// The filters that queries have loaded.
#[derive(Debug, Default)]
pub(super) struct LoadedSubjects(tokio::sync::Mutex<Option<Arc<SubjectFilters>>>);

impl LoadedSubjects {
    /// Returns the filters of the lake at `location`, which are read once. `None` if they can't be
    /// read: queries don't need them.
    pub(super) async fn get(&self, location: &LakeLocation) -> Option<Arc<SubjectFilters>> {
        let mut loaded = self.0.lock().await;
        if loaded.is_none() {
            let read = SubjectFilters::load(location).await;
            let read = read.inspect_err(|error| tracing::debug!(%error, "no subject filter"));
            *loaded = Some(Arc::new(read.ok()?));
        }
        loaded.clone()
    }

    /// Drops the filters if they lack some of the segments `live`.
    pub(super) fn retain(&self, live: &[Segment]) {
        // A holder of the lock is reading them anyway.
        if let Ok(mut loaded) = self.0.try_lock()
            && loaded.as_ref().is_some_and(|known| !known.cover(live))
        {
            *loaded = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_connectors::source::discover;
    use gristmill_connectors::storage::StoreLocation;
    use gristmill_schemas::container::write_frame;
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::Json;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;
    use crate::index::{IndexKinds, reindex};
    use crate::ingest::{IngestOptions, ingest};
    use crate::lake::DataFile;
    use crate::segment::SegmentId;
    use crate::verify::{VerifyOptions, VerifyScope, verify_lake};

    fn filter(subjects: &[&str], footer: FileDigest) -> SegmentSubjects {
        let mut words = vec![0; (subjects.len() * BITS_PER_SUBJECT).div_ceil(64)];
        let count = words.len();
        for (word, bit) in subjects.iter().flat_map(|it| bits(hash_of(it), count)) {
            words[word] |= bit;
        }
        SegmentSubjects { footer, words }
    }

    fn segment(name: &str, footer: FileDigest) -> Segment {
        Segment {
            id: SegmentId::of_folder(name),
            file: DataFile {
                footer: Some(footer),
                ..DataFile::untagged(format!("part-{name}.parquet"), 1, 1)
            },
        }
    }

    fn filters() -> SubjectFilters {
        let footer = FileDigest::of(b"footer");
        let names: Vec<String> = (0..500).map(|number| format!("person {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let by_segment = [
            ("a".to_owned(), filter(&names, footer)),
            ("b".to_owned(), filter(&["somebody"], footer)),
        ];
        SubjectFilters {
            by_segment: by_segment.into(),
        }
    }

    #[test]
    fn a_segment_is_excluded_only_if_it_has_none_of_the_subjects() {
        let (filters, footer) = (filters(), FileDigest::of(b"footer"));
        let a = segment("a", footer);
        for number in 0..500 {
            assert!(!filters.excludes(&a, &["nobody", &format!("person {number}")]));
        }
        let absent: Vec<String> = (500..2_500)
            .map(|number| format!("person {number}"))
            .collect();
        let excluded = absent
            .iter()
            .filter(|name| filters.excludes(&a, &[name]))
            .count();
        assert!(excluded > 1_960, "{excluded} of 2,000");
        // Another file of that name, or none that is known, may have anything.
        let other = segment("a", FileDigest::of(b"other"));
        assert!(!filters.excludes(&other, &["nobody"]));
        assert!(!filters.excludes(&segment("c", footer), &["nobody"]));
        assert!(filters.cover(&[a]) && !filters.cover(&[segment("c", footer)]));
    }

    /// Creates a lake in an object store that has a belief about somebody.
    async fn lake_in_a_store() -> Lake {
        let location = LakeLocation::in_store(StoreLocation {
            store: Arc::new(InMemory::new()),
            path: Path::from("lake"),
            url: "memory:///lake".parse().unwrap(),
        });
        let mut lake = Lake::open_or_create_at(location).await.unwrap();
        let belief = br#"{"type": "belief", "subject": "somebody", "relation": "likes",
            "object": "tea", "confidence": 1.0, "created_at": 1700000000000}"#;
        let grain = encode_json(&Json::parse(belief).unwrap(), EncodeOptions::default());
        let (folder, mut frames) = (tempfile::tempdir().unwrap(), Vec::new());
        write_frame(&grain.unwrap().blob, &mut frames).unwrap();
        let path = folder.path().join("a.frames");
        std::fs::write(&path, frames).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let options = IngestOptions::default();
        let ingested = ingest(&mut lake, sources, &options, Arc::default()).await;
        assert_eq!(ingested.unwrap().grains_written, 1);
        lake.refresh().await.unwrap();
        lake
    }

    /// Verifies `lake` with its sidecars, and returns the files with problems.
    async fn problems(lake: &Lake, sidecars: bool) -> Vec<String> {
        let options = VerifyOptions {
            sidecars,
            ..VerifyOptions::default()
        };
        let verified = verify_lake(lake, VerifyScope::default(), &options, Arc::default()).await;
        let problems = verified.unwrap().problems.into_iter();
        problems.map(|problem| problem.source).collect()
    }

    async fn replace(lake: &Lake, bytes: Vec<u8>) {
        let (store, path) = (lake.location().store(), SubjectFilters::path());
        store.put(&path, PutPayload::from(bytes)).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_filter_without_the_subjects_of_its_segment_is_found_and_made_again() {
        let lake = lake_in_a_store().await;
        assert_eq!(problems(&lake, true).await, [""; 0]);
        let mut filters = SubjectFilters::load(lake.location()).await.unwrap();
        let sound = filters.clone();
        assert!(filters.cover(&lake.segments().unwrap()));
        for own in filters.by_segment.values_mut() {
            own.words.fill(0);
        }
        replace(&lake, filters.into_bytes()).await;
        assert_eq!(problems(&lake, true).await, ["index/subjects.bin"]);
        reindex(&lake, IndexKinds::ALL, true).await.unwrap();
        let made = SubjectFilters::load(lake.location()).await.unwrap();
        assert_eq!(made, sound);
        assert_eq!(problems(&lake, true).await, [""; 0]);
        replace(&lake, b"cut".to_vec()).await;
        assert_eq!(problems(&lake, false).await, ["index/subjects.bin"]);
    }

    #[test]
    fn damaged_bytes_are_no_filters() {
        let bytes = filters().into_bytes();
        assert_eq!(SubjectFilters::parse(&bytes), Some(filters()));
        for bit in (0..bytes.len() * 8).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SubjectFilters::parse(&damaged), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(SubjectFilters::parse(&bytes[..length]), None);
        }
    }
}
