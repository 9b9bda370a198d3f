//! Exports rows to `.mg` files.
//!
//! A container begins with offsets, and its grains are sorted by creation time. So the grains of a
//! file are spooled, and written in order when the file is full. Memory holds a few words per
//! grain.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};

use arrow::array::RecordBatch;
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    CONTAINER_HEADER_LENGTH, Codec, ContainerLimits, ContainerOptions, ContainerWriter,
    FOOTER_LENGTH, MAX_CONTAINER_LENGTH, Manifest,
};
use gristmill_schemas::grain::Encoding;
use tempfile::NamedTempFile;

use super::output::Target;
use super::rows::GrainRows;
use super::{ExportOptions, ExportedFile, Sink, SinkOutput};
use crate::error::Result;
use crate::lake::Lake;

/// Maximal size in bytes of a manifest entry: two addresses in hex, two instants, a word, a flag,
/// and their keys.
const STATE_BYTES: u64 = 224;

/// Maximal size in bytes of a compressed grain region, which a reader has to hold in memory.
const COMPRESSED_REGION: u64 = 256 << 20;

/// Maximal number of grains per file, so that the state of a file takes at most 256 MiB.
const FILE_GRAINS: usize = 4 << 20;

/// Writes containers.
pub(super) struct ContainerSink {
    lake: Lake,
    codec: Codec,
    target: Target,
    /// Maximal size of a file in bytes, by a worst-case estimate.
    limit: u64,
    spool: GrainSpool,
    files: Vec<ExportedFile>,
}

impl ContainerSink {
    pub(super) fn new(lake: Lake, codec: Codec, options: &ExportOptions) -> Result<ContainerSink> {
        let target = Target::new(options)?;
        let most = if codec == Codec::None {
            MAX_CONTAINER_LENGTH - 1
        } else {
            COMPRESSED_REGION
        };
        let limit = options.split.unwrap_or(most).min(most);
        let spool = GrainSpool::new(&target)?;
        Ok(ContainerSink {
            lake,
            codec,
            target,
            limit,
            spool,
            files: Vec::new(),
        })
    }

    /// Writes the spooled grains to `target`.
    fn write(&mut self, target: &Target) -> Result<()> {
        let spool = std::mem::replace(&mut self.spool, GrainSpool::new(&self.target)?);
        let encoding = if spool.only_cbor {
            Encoding::Cbor
        } else {
            Encoding::MessagePack
        };
        let (bytes, grains) = spool.finish(&self.target)?;
        let manifest = self.manifest(&grains)?;
        let manifest = (!manifest.entries.is_empty()).then_some(manifest);
        let options = ContainerOptions {
            sorted: true,
            deduplicated: true,
            codec: self.codec_of(&grains),
            with_manifest: manifest.is_some(),
            manifest_encoding: encoding,
        };
        let file = target.scratch()?;
        let sink = BufWriter::with_capacity(1 << 20, target.fault(file.reopen())?);
        let lengths = grains.iter().map(|grain| grain.length).collect();
        let mut writer = target.fault(ContainerWriter::new(sink, options, lengths))?;
        for grain in &grains {
            let start = grain.start as usize;
            let grain = bytes.get(start..start + grain.length as usize);
            target.fault(writer.push(grain.unwrap_or_default()))?;
        }
        target.fault(writer.finish(manifest.as_ref()))?;
        let size = target.fault(file.as_file().metadata())?.len();
        target.put(file)?;
        let states = manifest.map_or(0, |manifest| manifest.entries.len() as u64);
        self.files
            .push(target.written(grains.len() as u64, size, states));
        Ok(())
    }

    /// Returns the codec for `grains`. A region that readers would reject as a decompression bomb
    /// isn't compressed.
    fn codec_of(&self, grains: &[SpooledGrain]) -> Codec {
        let region: u64 = grains.iter().map(|grain| u64::from(grain.length)).sum();
        let is_readable =
            region <= ContainerLimits::default().max_region_bytes(grains.len()) as u64;
        if is_readable { self.codec } else { Codec::None }
    }

    /// Returns the lifecycle state of these grains.
    fn manifest(&self, grains: &[SpooledGrain]) -> Result<Manifest> {
        let wanted: HashSet<&ContentAddress> = grains.iter().map(|grain| &grain.address).collect();
        // Sinks run on blocking threads, so they may block on a future.
        let states = self
            .lake
            .portable_states(|address| wanted.contains(address));
        Ok(Manifest {
            entries: tokio::runtime::Handle::current().block_on(states)?,
        })
    }
}

impl Sink for ContainerSink {
    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = GrainRows::of(rows)?;
        for row in 0..rows.len() {
            let grain = rows.delivered(row)?;
            if self.spool.worst_length() + grain.len() as u64 + 4 + STATE_BYTES > self.limit
                && !self.spool.is_empty()
                || self.spool.len() >= FILE_GRAINS
            {
                self.write(&self.target.numbered(self.files.len() + 1)?)?;
            }
            self.target.fault(self.spool.push(&grain, &rows, row))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkOutput> {
        let last = if self.files.is_empty() {
            self.target.clone()
        } else {
            self.target.numbered(self.files.len() + 1)?
        };
        self.write(&last)?;
        Ok(self.files.into())
    }
}

/// Grains that are spooled for a file, in input order.
struct GrainSpool {
    file: NamedTempFile,
    writer: BufWriter<File>,
    grains: Vec<SpooledGrain>,
    bytes: u64,
    only_cbor: bool,
}

/// Position of a grain in the spool, and its sort key.
struct SpooledGrain {
    created_at: i64,
    address: ContentAddress,
    start: u64,
    length: u32,
}

impl GrainSpool {
    fn new(target: &Target) -> Result<GrainSpool> {
        let file = target.spool()?;
        let writer = BufWriter::with_capacity(1 << 20, target.fault(file.reopen())?);
        Ok(GrainSpool {
            file,
            writer,
            grains: Vec::new(),
            bytes: 0,
            only_cbor: true,
        })
    }

    fn len(&self) -> usize {
        self.grains.len()
    }

    fn is_empty(&self) -> bool {
        self.grains.is_empty()
    }

    /// Returns the size of the file if every grain had state.
    fn worst_length(&self) -> u64 {
        let fixed = (CONTAINER_HEADER_LENGTH + FOOTER_LENGTH) as u64;
        fixed + self.bytes + self.grains.len() as u64 * (4 + STATE_BYTES)
    }

    fn push(&mut self, grain: &[u8], rows: &GrainRows, row: usize) -> std::io::Result<()> {
        self.writer.write_all(grain)?;
        self.only_cbor &= rows.is_cbor(row);
        let length = u32::try_from(grain.len()).map_err(std::io::Error::other)?;
        let (created_at, address) = (rows.created_at(row), rows.address(row));
        self.grains.push(SpooledGrain {
            created_at,
            address,
            start: self.bytes,
            length,
        });
        self.bytes += u64::from(length);
        Ok(())
    }

    /// Returns the spooled bytes, and the distinct grains in the order of the file.
    fn finish(self, target: &Target) -> Result<(SourceBytes, Vec<SpooledGrain>)> {
        target.fault(
            self.writer
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error),
        )?;
        let mut grains = self.grains;
        grains.sort_unstable_by_key(|grain| (grain.created_at, grain.address));
        grains.dedup_by_key(|grain| grain.address);
        Ok((
            SourceBytes::map_spooled(self.file.into_temp_path())?,
            grains,
        ))
    }
}
