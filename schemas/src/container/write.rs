//! Writes a container in one pass.
//!
//! The offsets precede the grains, so the lengths of all grains must be known first. The grains are
//! then streamed and never held in memory together.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::layout::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerFlags, ContainerHeader, FIELD_MAP_VERSION,
    MAX_CONTAINER_LENGTH,
};
use super::manifest::Manifest;
use crate::grain::{Encoding, ZSTD_LEVEL};

/// Options of a writer, including what it guarantees about the grains.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContainerOptions {
    /// Guarantees that grains are pushed in ascending order of `created_at`.
    pub sorted: bool,
    /// Guarantees that no address is repeated.
    pub deduplicated: bool,
    /// The compression of the grain region.
    pub codec: Codec,
    /// Whether a manifest will be passed to [`ContainerWriter::finish`].
    pub with_manifest: bool,
    /// The encoding of the manifest, normally that of the grains.
    pub manifest_encoding: Encoding,
}

/// A writer of one container.
pub struct ContainerWriter<W: Write> {
    region: RegionWriter<W>,
    options: ContainerOptions,
    expected: std::vec::IntoIter<u32>,
}

enum RegionWriter<W: Write> {
    Plain(HashingWriter<W>),
    Zstd(zstd::stream::write::Encoder<'static, HashingWriter<W>>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<HashingWriter<W>>>),
}

impl<W: Write> RegionWriter<W> {
    /// Ends the compression and returns the sink.
    fn finish(self) -> io::Result<HashingWriter<W>> {
        match self {
            RegionWriter::Plain(sink) => Ok(sink),
            RegionWriter::Zstd(encoder) => encoder.finish(),
            RegionWriter::Lz4(encoder) => encoder.finish().map_err(io::Error::other),
        }
    }
}

/// Forwards bytes to a sink and hashes them for the footer.
struct HashingWriter<W> {
    sink: W,
    hash: Sha256,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl<W: Write> ContainerWriter<W> {
    /// Returns the length in bytes of an uncompressed container with grains of the given lengths,
    /// without manifest and footer.
    pub fn uncompressed_length(lengths: &[u32]) -> u64 {
        let grains: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        (CONTAINER_HEADER_LENGTH + 4 * lengths.len()) as u64 + grains
    }

    /// Starts a container with grains of exactly `lengths` bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if 32-bit offsets can't address all grains; those of `sink`.
    pub fn new(
        sink: W,
        options: ContainerOptions,
        lengths: Vec<u32>,
    ) -> io::Result<ContainerWriter<W>> {
        let grain_count = u32::try_from(lengths.len())
            .map_err(|_| invalid(format!("too many grains: {}", lengths.len())))?;
        if Self::uncompressed_length(&lengths) > MAX_CONTAINER_LENGTH {
            return Err(invalid(
                "more than 4 GiB, the limit of 32-bit offsets; split the export".to_owned(),
            ));
        }
        let compressed = options.codec != Codec::None;
        let flags = ContainerFlags::new(
            options.sorted,
            options.deduplicated,
            compressed,
            options.with_manifest,
        );
        let header = ContainerHeader {
            flags,
            grain_count,
            field_map_version: FIELD_MAP_VERSION,
            codec: options.codec,
        };
        let mut sink = HashingWriter {
            sink,
            hash: Sha256::new(),
        };
        sink.write_all(&header.to_bytes())?;
        let mut offset = if compressed {
            0
        } else {
            (CONTAINER_HEADER_LENGTH + 4 * lengths.len()) as u64
        };
        for length in &lengths {
            sink.write_all(&(offset as u32).to_be_bytes())?;
            offset += u64::from(*length);
        }
        let region = match options.codec {
            Codec::None => RegionWriter::Plain(sink),
            Codec::Zstd => RegionWriter::Zstd(zstd::stream::write::Encoder::new(sink, ZSTD_LEVEL)?),
            Codec::Lz4 => RegionWriter::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(sink))),
        };
        Ok(ContainerWriter {
            region,
            options,
            expected: lengths.into_iter(),
        })
    }

    /// Adds the delivered bytes of the next grain.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if its length differs from the announced one; those of the
    /// sink.
    pub fn push(&mut self, grain: &[u8]) -> io::Result<()> {
        if self.expected.next().map(|length| length as usize) != Some(grain.len()) {
            return Err(invalid(format!(
                "a grain of {} bytes, which differs from the announced length",
                grain.len()
            )));
        }
        match &mut self.region {
            RegionWriter::Plain(sink) => sink.write_all(grain),
            RegionWriter::Zstd(encoder) => encoder.write_all(grain),
            RegionWriter::Lz4(encoder) => encoder.write_all(grain),
        }
    }

    /// Ends the region, writes `manifest` and the footer, and returns the sink.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if a grain is missing, or if the presence of `manifest`
    /// differs from the options; those of the sink.
    pub fn finish(self, manifest: Option<&Manifest>) -> io::Result<W> {
        if self.expected.len() > 0 || manifest.is_some() != self.options.with_manifest {
            return Err(invalid(
                "the container does not match its header: a grain or the manifest is missing or unexpected".to_owned(),
            ));
        }
        let mut sink = self.region.finish()?;
        if let Some(manifest) = manifest {
            let bytes = manifest
                .write(self.options.manifest_encoding)
                .map_err(|error| invalid(error.to_string()))?;
            sink.write_all(&bytes)?;
        }
        let footer = sink.hash.finalize();
        sink.sink.write_all(&footer)?;
        sink.sink.flush()?;
        Ok(sink.sink)
    }
}
