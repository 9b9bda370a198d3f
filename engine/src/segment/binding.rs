//! The binding of a sidecar to its segment: the trailer at the end of every sidecar file.
//!
//! ```text
//! content      the sidecar, which ends with its own checksum
//! "GMBIND01"   magic                                                8
//! size         bytes of the segment's data file                     u64
//! footer       BLAKE3 of its Parquet footer: the metadata, their
//!              length (u32) and the closing magic                   32
//! segment      BLAKE3 of the segment's name                         32
//! checksum     BLAKE3 of the content's last 32 bytes and all
//!              of the trailer before                                32
//! ```
//!
//! The content is built while the rows are written, when the data file isn't complete; the trailer
//! is added when both are published. A sidecar whose trailer names another data file is never used,
//! even if the segments are similar.

use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use gristmill_connectors::source::SourceBytes;

use super::SegmentId;
use crate::error::{Context, Result};
use crate::file_digest::FileDigest;

const MAGIC: &[u8; 8] = b"GMBIND01";
const DIGEST: usize = 32;
const SIGNED: usize = MAGIC.len() + 8 + 2 * DIGEST;

/// The size of the trailer in bytes.
pub(crate) const TRAILER: usize = SIGNED + DIGEST;

/// The size in bytes of the end of a Parquet file: the length of the metadata and the magic.
pub(crate) const PARQUET_END: usize = 8;

/// Why a sidecar doesn't belong to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// It has no trailer.
    #[error("it names no segment: it was written by an early version, or it is truncated")]
    Unnamed,
    /// The trailer is damaged.
    #[error("its trailer is damaged")]
    Damaged,
    /// It belongs to another data file.
    #[error("it belongs to another segment")]
    Other,
}

/// The identity of a segment's data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SidecarBinding {
    size: u64,
    footer: FileDigest,
    segment: [u8; DIGEST],
}

impl SidecarBinding {
    /// Returns the binding of `segment` to its data file in `file`, which needn't be part of the
    /// lake yet. Reads the footer.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if it can't be read or isn't a
    /// Parquet file.
    pub(crate) fn of_file(segment: &SegmentId, file: &std::fs::File) -> Result<SidecarBinding> {
        let read = || -> std::io::Result<(u64, Vec<u8>)> {
            let mut file = file;
            let size = file.metadata()?.len();
            let place = file.stream_position()?;
            let mut read_back = |length: u64| -> std::io::Result<Vec<u8>> {
                file.seek(SeekFrom::Start(
                    size.checked_sub(length)
                        .ok_or(std::io::ErrorKind::UnexpectedEof)?,
                ))?;
                let mut bytes = vec![0; length as usize];
                file.read_exact(&mut bytes)?;
                Ok(bytes)
            };
            let footer =
                read_back(PARQUET_END as u64).and_then(|end| read_back(footer_length(&end, size)?));
            file.seek(SeekFrom::Start(place))?;
            Ok((size, footer?))
        };
        let (size, footer) = read().file("can't read the footer of", segment.as_str())?;
        Ok(SidecarBinding::new(segment, size, &footer))
    }

    /// Returns the binding of `segment` to a data file of `size` bytes that ends with `footer`.
    pub(crate) fn new(segment: &SegmentId, size: u64, footer: &[u8]) -> SidecarBinding {
        SidecarBinding::of_footer(segment, size, FileDigest::of(footer))
    }

    /// Returns the binding of `segment` to a data file of `size` bytes whose footer has the digest
    /// `footer`.
    pub(crate) fn of_footer(segment: &SegmentId, size: u64, footer: FileDigest) -> SidecarBinding {
        SidecarBinding {
            size,
            footer,
            segment: *blake3::hash(segment.as_str().as_bytes()).as_bytes(),
        }
    }

    /// Returns the digest of the data file's footer.
    pub(crate) fn footer(&self) -> FileDigest {
        self.footer
    }

    /// Returns the trailer of a sidecar whose content is the concatenation of `parts`.
    pub(crate) fn trailer(&self, parts: &[Bytes]) -> Bytes {
        let mut last: Vec<u8> = Vec::with_capacity(DIGEST);
        for part in parts.iter().rev() {
            let missing = DIGEST - last.len();
            let tail = part
                .get(part.len().saturating_sub(missing)..)
                .unwrap_or_default();
            last.splice(0..0, tail.iter().copied());
        }
        let mut trailer = Vec::with_capacity(TRAILER);
        trailer.extend(MAGIC);
        trailer.extend(self.size.to_le_bytes());
        trailer.extend(self.footer.as_bytes());
        trailer.extend(self.segment);
        let checksum = checksum_of(&last, &trailer);
        trailer.extend(checksum);
        trailer.into()
    }

    /// Returns the content of the sidecar in `bytes`, if it belongs to this segment.
    ///
    /// # Errors
    /// [`BindingError`]. The content's own checksum isn't checked.
    pub(crate) fn unwrap(&self, bytes: SourceBytes) -> Result<SourceBytes, BindingError> {
        self.check(&bytes).map(|content| bytes.truncate(content))
    }

    /// Returns the length of the content of the sidecar in `bytes`, if it belongs to this segment.
    ///
    /// # Errors
    /// As [`SidecarBinding::unwrap`].
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<usize, BindingError> {
        match trailer_of(bytes)? == (self.size, *self.footer.as_bytes(), self.segment) {
            true => Ok(bytes.len() - TRAILER),
            false => Err(BindingError::Other),
        }
    }
}

/// Returns the content of the sidecar in `bytes`, whichever segment it belongs to.
pub(crate) fn without_trailer(bytes: SourceBytes) -> SourceBytes {
    let content = content_of(&bytes).len();
    bytes.truncate(content)
}

/// As [`without_trailer`], of bytes that stay where they are.
pub(crate) fn content_of(bytes: &[u8]) -> &[u8] {
    let trailer = trailer_of(bytes).map_or(0, |_| TRAILER);
    bytes
        .get(..bytes.len().saturating_sub(trailer))
        .unwrap_or_default()
}

fn trailer_of(bytes: &[u8]) -> Result<(u64, [u8; DIGEST], [u8; DIGEST]), BindingError> {
    let start = bytes
        .len()
        .checked_sub(TRAILER)
        .ok_or(BindingError::Unnamed)?;
    let (content, trailer) = bytes.split_at_checked(start).ok_or(BindingError::Unnamed)?;
    let rest = trailer.strip_prefix(MAGIC).ok_or(BindingError::Unnamed)?;
    let signed = trailer.get(..SIGNED).ok_or(BindingError::Damaged)?;
    let last = content
        .get(content.len().saturating_sub(DIGEST)..)
        .unwrap_or_default();
    let (size, rest) = rest.split_first_chunk::<8>().ok_or(BindingError::Damaged)?;
    let (footer, rest) = rest
        .split_first_chunk::<DIGEST>()
        .ok_or(BindingError::Damaged)?;
    let (segment, checksum) = rest
        .split_first_chunk::<DIGEST>()
        .ok_or(BindingError::Damaged)?;
    match checksum_of(last, signed) == checksum {
        true => Ok((u64::from_le_bytes(*size), *footer, *segment)),
        false => Err(BindingError::Damaged),
    }
}

fn checksum_of(last: &[u8], signed: &[u8]) -> [u8; DIGEST] {
    *blake3::Hasher::new()
        .update(last)
        .update(signed)
        .finalize()
        .as_bytes()
}

/// Returns the length in bytes of the footer of a Parquet file that has `size` bytes and ends with
/// `end`.
///
/// # Errors
/// If the file doesn't end like a Parquet file.
pub(crate) fn footer_length(end: &[u8], size: u64) -> std::io::Result<u64> {
    let not_parquet = || {
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "it doesn't end like a Parquet file",
        )
    };
    let metadata = end
        .strip_suffix(b"PAR1")
        .and_then(|end| end.last_chunk::<4>())
        .ok_or_else(not_parquet)?;
    let length = u64::from(u32::from_le_bytes(*metadata)) + PARQUET_END as u64;
    if length <= size {
        Ok(length)
    } else {
        Err(not_parquet())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parquet(metadata: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = [
            b"PAR1rows",
            metadata,
            &(metadata.len() as u32).to_le_bytes(),
            b"PAR1",
        ]
        .concat();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn bound(binding: &SidecarBinding, parts: &[&[u8]]) -> Vec<u8> {
        let parts: Vec<Bytes> = parts
            .iter()
            .map(|part| Bytes::copy_from_slice(part))
            .collect();
        [parts.concat(), binding.trailer(&parts).to_vec()].concat()
    }

    #[test]
    fn a_sidecar_belongs_to_one_segment_and_one_data_file() {
        let id = |name: &str| SegmentId::of_folder(name);
        let of = |name: &str, metadata: &[u8]| {
            SidecarBinding::of_file(&id(name), parquet(metadata).as_file()).unwrap()
        };
        let own = of("a", b"metadata");
        for parts in [
            &[&b"content and its checksum, which has 32 bytes"[..]][..],
            &[b"ab", b"c"],
            &[b"content", b""],
            &[],
        ] {
            let file = bound(&own, parts);
            assert_eq!(&*own.unwrap(file.clone().into()).unwrap(), parts.concat());
            assert_eq!(&*without_trailer(file.clone().into()), parts.concat());
            for other in [
                of("b", b"metadata"),
                of("a", b"metadatA"),
                of("a", b"more metadata"),
            ] {
                assert_eq!(
                    other.unwrap(file.clone().into()).unwrap_err(),
                    BindingError::Other
                );
            }
            for at in file.len() - TRAILER..file.len() {
                let mut damaged = file.clone();
                damaged[at] ^= 1;
                assert!(own.unwrap(damaged.into()).is_err(), "byte {at}");
            }
            let content = file[..file.len() - TRAILER].to_vec();
            assert_eq!(
                own.unwrap(content.into()).unwrap_err(),
                BindingError::Unnamed
            );
        }
        assert!(SidecarBinding::of_file(&id("a"), tempfile::tempfile().as_ref().unwrap()).is_err());
    }
}
