//! Compressed sources: gzip and zstd are read as what they contain.
//!
//! The content is spooled like a stream, so its size is bounded by [`SpoolOptions`]. What expands
//! beyond any text is refused earlier, before it fills the disk.

use std::io::{BufRead, Read};

use flate2::bufread::GzDecoder;

use super::bytes::SourceBytes;
use super::spool::{SourceSpool, SpoolOptions};
use crate::ConnectorError;

/// The beginning of a gzip stream: its magic number, and the only method that there is.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// The beginning of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The beginning of a skippable frame after its first byte, which is from 0x50 to 0x5f. Parallel
/// compressors begin with one.
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// The largest window of a zstd frame, as a power of two: 128 MiB of memory.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Any source may expand to so many bytes: 1 GiB.
const FREE_BYTES: u64 = 1 << 30;

/// A larger one may expand to so many times its size. Logs have a tenth of that.
const MAX_EXPANSION: u64 = 200;

/// The number of bytes that are decompressed at a time.
const READ_BYTES: usize = 256 << 10;

/// Pages of a compressed file are released when so many bytes of them have been read.
const RELEASE_BYTES: usize = 16 << 20;

/// A format of compressed sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompressedFormat {
    /// RFC 1952, with one or more members.
    Gzip,
    /// RFC 8878, with one or more frames.
    Zstd,
}

impl CompressedFormat {
    /// Returns the format of `bytes`; `None` if they aren't compressed. No other kind of source
    /// begins like one of these.
    pub(super) fn of(bytes: &[u8]) -> Option<CompressedFormat> {
        if bytes.starts_with(&GZIP_MAGIC) {
            return Some(CompressedFormat::Gzip);
        }
        without_skippable_frames(bytes)
            .starts_with(&ZSTD_MAGIC)
            .then_some(CompressedFormat::Zstd)
    }

    /// Returns a reader of the content of `bytes`.
    fn reader(self, bytes: &SourceBytes) -> std::io::Result<Box<dyn Read + '_>> {
        let compressed = ReleasedReader {
            bytes,
            next: 0,
            released: 0,
        };
        Ok(match self {
            CompressedFormat::Gzip => Box::new(GzipMembers::of(compressed)),
            CompressedFormat::Zstd => {
                let mut decoder = zstd::Decoder::new(compressed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
        })
    }
}

/// Returns `bytes` without the skippable frames at the beginning, which the decoder skips, too.
fn without_skippable_frames(mut bytes: &[u8]) -> &[u8] {
    while let [0x50..=0x5f, rest @ ..] = bytes
        && let Some(frame) = rest.strip_prefix(&SKIPPABLE_MAGIC)
        && let Some((length, frame)) = frame.split_first_chunk()
    {
        let length = u32::from_le_bytes(*length) as usize;
        bytes = frame.get(length..).unwrap_or_default();
    }
    bytes
}

/// Returns the name of the content of the source `uri`: without the extension of a compressed file.
pub(crate) fn content_name(uri: &str) -> &str {
    let stem = uri.strip_suffix(".gz").or_else(|| uri.strip_suffix(".zst"));
    stem.unwrap_or(uri)
}

/// Decompresses `bytes`, the source `uri`, to a spool.
///
/// # Errors
/// [`ConnectorError::Compressed`] if they are damaged, cut, or expand too much;
/// [`ConnectorError::TooLarge`] and [`ConnectorError::TooLargeToHold`] if the content exceeds a
/// limit of `options`; [`ConnectorError::Io`].
pub(super) fn decompress(
    bytes: &SourceBytes,
    compression: CompressedFormat,
    uri: &str,
    options: SpoolOptions,
) -> Result<SourceBytes, ConnectorError> {
    let spool = BoundedSpool {
        spool: SourceSpool::new(uri, options)?,
        uri,
        written: 0,
        limit: limit_of(bytes),
    };
    let content = compression.reader(bytes);
    spool.fill(content.map_err(|error| damaged(uri, &error, 0))?)
}

/// Returns the most bytes to which `bytes` may expand.
fn limit_of(bytes: &SourceBytes) -> u64 {
    let size = bytes.len() as u64;
    FREE_BYTES.max(size.saturating_mul(MAX_EXPANSION))
}

/// Passes the content of the file `uri` with these `bytes` to `take`, piece by piece, if they are
/// compressed. Returns false if they aren't.
///
/// # Errors
/// [`ConnectorError::Compressed`] if they are damaged or cut, or expand too much: `take` got the
/// content before.
pub fn for_each_decompressed(
    uri: &str,
    bytes: &SourceBytes,
    take: &mut dyn FnMut(&[u8]),
) -> Result<bool, ConnectorError> {
    let Some(format) = CompressedFormat::of(bytes) else {
        return Ok(false);
    };
    let (limit, mut read) = (limit_of(bytes), 0);
    let content = format.reader(bytes);
    let mut content = content.map_err(|error| damaged(uri, &error, 0))?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let piece = match content.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(length) => buffer.get(..length).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged(uri, &error, read)),
        };
        read += piece.len() as u64;
        if read > limit {
            return Err(expands(uri, limit));
        }
        take(piece);
    }
}

/// Returns the error of a source that expands to more than `limit` bytes.
fn expands(uri: &str, limit: u64) -> ConnectorError {
    ConnectorError::Compressed {
        uri: uri.to_owned(),
        reason: format!(
            "it has more than {limit} bytes when decompressed, far more than its size lets expect; \
             decompress it yourself if that is right, and ingest the result"
        ),
    }
}

fn damaged(uri: &str, error: &std::io::Error, read: u64) -> ConnectorError {
    ConnectorError::Compressed {
        uri: uri.to_owned(),
        reason: format!(
            "{error}, after {read} bytes of its content: it is damaged, or its copy wasn't complete"
        ),
    }
}

/// The spool of a decompressed source.
struct BoundedSpool<'u> {
    spool: SourceSpool,
    uri: &'u str,
    written: u64,
    /// The most bytes to which the source may expand.
    limit: u64,
}

impl BoundedSpool<'_> {
    /// Writes all of `content`, and returns it.
    fn fill(mut self, mut content: impl Read) -> Result<SourceBytes, ConnectorError> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return self.spool.finish(),
                Ok(read) => self.write(buffer.get(..read).unwrap_or_default())?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(damaged(self.uri, &error, self.written)),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectorError> {
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(expands(self.uri, self.limit));
        }
        self.spool.write(bytes)
    }
}

/// Reads the members of a gzip stream one after another. Zeros after the last one, with which tapes
/// and block devices fill their blocks, are no member.
struct GzipMembers<'b>(GzDecoder<ReleasedReader<'b>>);

impl<'b> GzipMembers<'b> {
    fn of(compressed: ReleasedReader<'b>) -> GzipMembers<'b> {
        GzipMembers(GzDecoder::new(compressed))
    }
}

impl Read for GzipMembers<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.0.read(buffer)?;
            let rest = self.0.get_ref();
            if read > 0 || rest.rest().iter().all(|byte| *byte == 0) {
                return Ok(read);
            }
            self.0 = GzDecoder::new(rest.clone());
        }
    }
}

/// Reads a source, and releases its pages behind.
#[derive(Clone)]
struct ReleasedReader<'b> {
    bytes: &'b SourceBytes,
    next: usize,
    released: usize,
}

impl ReleasedReader<'_> {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.next..).unwrap_or_default()
    }
}

impl Read for ReleasedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.rest().read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for ReleasedReader<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        let rest = self.rest();
        Ok(rest.get(..READ_BYTES).unwrap_or(rest))
    }

    fn consume(&mut self, read: usize) {
        self.next += read;
        if self.next - self.released >= RELEASE_BYTES {
            self.bytes.release(self.released..self.next);
            self.released = self.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;
    use crate::source::{Source, SourceKind, SourceLocation, fetch_with};

    const LINE: &[u8] = b"{\"role\":\"user\",\"content\":\"hi\"}\n";

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        zstd::encode_all(content, 1).unwrap()
    }

    fn skippable(content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_le_bytes();
        [&[0x50, 0x2a, 0x4d, 0x18][..], &length, content].concat()
    }

    async fn fetched(bytes: &[u8], options: SpoolOptions) -> Result<SourceBytes, ConnectorError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl.gz");
        std::fs::write(&path, bytes).unwrap();
        let source = Source {
            uri: "log.jsonl.gz".to_owned(),
            location: SourceLocation::File(path),
            length: None,
            time: None,
        };
        fetch_with(&source, options).await
    }

    #[test]
    fn the_content_of_compressed_bytes_is_passed_on_up_to_damage() {
        let content: Vec<u8> = LINE.repeat(100_000);
        let read = |bytes: &[u8]| {
            let mut found = Vec::new();
            let bytes = SourceBytes::from(bytes.to_vec());
            let take = &mut |piece: &[u8]| found.extend_from_slice(piece);
            let is_read = for_each_decompressed("x", &bytes, take).is_ok();
            (found, is_read)
        };
        for compressed in [gzip(&content), zstd(&content)] {
            assert!(read(&compressed) == (content.clone(), true));
            let (half, _) = compressed.split_at(compressed.len() / 2);
            let (found, is_read) = read(half);
            assert!(
                content.starts_with(&found) && !is_read,
                "{} bytes",
                found.len()
            );
        }
        assert_eq!(read(&content), (Vec::new(), true));
        assert_eq!(read(&GZIP_MAGIC), (Vec::new(), false));
    }

    #[tokio::test]
    async fn a_compressed_file_is_read_as_what_it_contains() {
        let (one, two) = LINE.split_at(9);
        for compressed in [
            gzip(LINE),
            zstd(LINE),
            [gzip(one), gzip(two)].concat(),
            [zstd(one), zstd(two)].concat(),
            // What fills the blocks of a tape.
            [gzip(one), gzip(two), vec![0; 700]].concat(),
            // As pzstd writes it.
            [skippable(b"1234"), zstd(one), skippable(b""), zstd(two)].concat(),
        ] {
            let content = fetched(&compressed, SpoolOptions::default()).await;
            assert_eq!(&*content.unwrap(), LINE);
        }
        let twice = fetched(&gzip(&gzip(LINE)), SpoolOptions::default()).await;
        let twice = twice.unwrap();
        assert_eq!(&*twice, gzip(LINE), "only the outer one is opened");
        let reason = SourceKind::explain_unsupported(&twice, "log.jsonl.gz.gz");
        assert!(reason.contains("looks like a gzip file"), "{reason}");
        assert!(
            fetched(&gzip(b""), SpoolOptions::default())
                .await
                .unwrap()
                .is_empty()
        );
    }

    #[tokio::test]
    async fn a_damaged_or_cut_file_is_an_error_that_names_it() {
        for compressed in [gzip(&LINE.repeat(9)), zstd(&LINE.repeat(9))] {
            let mut damaged = compressed.clone();
            *damaged.last_mut().unwrap() ^= 1;
            let cut = &compressed[..compressed.len() - 5];
            let trailed = [&compressed, LINE].concat();
            let far = [&compressed, &[0; 9][..], &compressed].concat();
            for bytes in [&damaged, cut, &trailed, &far] {
                let error = fetched(bytes, SpoolOptions::default()).await.unwrap_err();
                let is_named = error
                    .to_string()
                    .contains("can't decompress `log.jsonl.gz`");
                assert!(
                    is_named || compressed[0] == 0x28 && bytes == damaged,
                    "{error}"
                );
            }
        }
    }

    #[tokio::test]
    async fn what_expands_beyond_a_limit_is_refused_before_it_is_written() {
        let bomb = gzip(&vec![b'0'; 1 << 20]);
        let limited = |limit, in_memory| SpoolOptions { limit, in_memory };
        let error = fetched(&bomb, limited(1 << 19, None)).await.unwrap_err();
        assert!(matches!(error, ConnectorError::TooLarge { .. }), "{error}");
        let error = fetched(&bomb, limited(u64::MAX, Some(1 << 19)))
            .await
            .unwrap_err();
        assert!(
            matches!(error, ConnectorError::TooLargeToHold { .. }),
            "{error}"
        );
        let spool = SourceSpool::new("bomb", SpoolOptions::default()).unwrap();
        let bounded = BoundedSpool {
            spool,
            uri: "bomb",
            written: 0,
            limit: 1 << 19,
        };
        let error = bounded.fill(GzDecoder::new(&bomb[..])).unwrap_err();
        assert!(
            error.to_string().contains("more than 524288 bytes"),
            "{error}"
        );
    }
}
