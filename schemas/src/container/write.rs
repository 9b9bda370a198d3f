//! Writing a container, grain by grain, in one pass.
//!
//! The offsets stand before the grains, so the lengths of all grains must be known first; the
//! grains themselves are then streamed and never held together.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::layout::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerFlags, ContainerHeader, FIELD_MAP_VERSION,
    MAX_CONTAINER_LENGTH,
};
use super::manifest::Manifest;
use crate::grain::{Encoding, ZSTD_LEVEL};

/// What a writer chooses and promises.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContainerOptions {
    /// Promises that grains come in ascending order of `created_at`.
    pub sorted: bool,
    /// Promises that no address comes twice.
    pub deduplicated: bool,
    /// How the grain region is compressed.
    pub codec: Codec,
    /// Whether [`ContainerWriter::finish`] will be given a manifest.
    pub with_manifest: bool,
    /// How the manifest is encoded: as the grains are.
    pub manifest_encoding: Encoding,
}

/// A container that is being written.
pub struct ContainerWriter<W: Write> {
    region: Region<W>,
    options: ContainerOptions,
    expected: std::vec::IntoIter<u32>,
}

enum Region<W: Write> {
    Plain(Hashing<W>),
    Zstd(zstd::stream::write::Encoder<'static, Hashing<W>>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Hashing<W>>>),
}

/// Passes bytes on and hashes them for the footer.
struct Hashing<W> {
    sink: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
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
    /// How many bytes a container with grains of these lengths has before its manifest and footer,
    /// if its region isn't compressed.
    pub fn uncompressed_length(lengths: &[u32]) -> u64 {
        let grains: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        (CONTAINER_HEADER_LENGTH + 4 * lengths.len()) as u64 + grains
    }

    /// Begins a container whose grains will have exactly `lengths`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if offsets of 32 bits can't reach all grains; those of
    /// `sink`.
    pub fn new(
        sink: W,
        options: ContainerOptions,
        lengths: Vec<u32>,
    ) -> io::Result<ContainerWriter<W>> {
        let grain_count = u32::try_from(lengths.len())
            .map_err(|_| invalid(format!("{} grains", lengths.len())))?;
        if Self::uncompressed_length(&lengths) > MAX_CONTAINER_LENGTH {
            return Err(invalid(
                "more than the 4 GiB that offsets of 32 bits reach; split the export".to_owned(),
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
        let mut sink = Hashing {
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
            Codec::None => Region::Plain(sink),
            Codec::Zstd => Region::Zstd(zstd::stream::write::Encoder::new(sink, ZSTD_LEVEL)?),
            Codec::Lz4 => Region::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(sink))),
        };
        Ok(ContainerWriter {
            region,
            options,
            expected: lengths.into_iter(),
        })
    }

    /// Adds the next grain's delivered bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if its length isn't the one announced; those of the sink.
    pub fn push(&mut self, grain: &[u8]) -> io::Result<()> {
        if self.expected.next().map(|length| length as usize) != Some(grain.len()) {
            return Err(invalid(format!(
                "a grain of {} bytes where another was announced",
                grain.len()
            )));
        }
        match &mut self.region {
            Region::Plain(sink) => sink.write_all(grain),
            Region::Zstd(encoder) => encoder.write_all(grain),
            Region::Lz4(encoder) => encoder.write_all(grain),
        }
    }

    /// Ends the region, writes `manifest` and the footer, and gives the sink back.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if a grain is missing or a manifest was promised and isn't
    /// given, or the other way round; those of the sink.
    pub fn finish(self, manifest: Option<&Manifest>) -> io::Result<W> {
        if self.expected.len() > 0 || manifest.is_some() != self.options.with_manifest {
            return Err(invalid(
                "the container isn't what its header announces".to_owned(),
            ));
        }
        let mut sink = match self.region {
            Region::Plain(sink) => sink,
            Region::Zstd(encoder) => encoder.finish()?,
            Region::Lz4(encoder) => encoder.finish().map_err(io::Error::other)?,
        };
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
