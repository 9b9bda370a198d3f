//! Inspects a file: a container's header and manifest, counts of its grains, and a sample.
//!
//! Only the headers of grains are read, except for the sample; `verify` checks their integrity.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use gristmill_connectors::source::{Source, SourceBytes, SourceKind, fetch};
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{Container, ContainerAnomaly, ContainerLimits, Manifest};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, GrainHeader, Payload};
use gristmill_schemas::sign::DeliveredGrain;
use serde::Serialize;

use crate::error::{Context, EngineError, Result};
use crate::ingest::digests::footer_of;
use crate::ingest::morsel::{
    AdmittedSource, MorselReader, NextMorsel, SourceContent, TranscriptExtras,
};
use crate::ingest::sources::SourceInfo;

/// The content of a file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inspection {
    /// Name of the file.
    pub file: String,
    /// `mg`, `frames` or `blob`.
    pub kind: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Damage that prevents reading all or part of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// The parts of a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerInspection>,
    /// Number of grains.
    pub grains: u64,
    /// Number of grains of each type.
    pub types: BTreeMap<String, u64>,
    /// Number of grains with each header flag.
    pub flags: BTreeMap<&'static str, u64>,
    /// Number of grains of each sensitivity.
    pub sensitivity: BTreeMap<&'static str, u64>,
    /// Number of grains that can't be decoded, by error code.
    pub unreadable: BTreeMap<&'static str, u64>,
    /// Size of the smallest grain in bytes.
    pub smallest: u64,
    /// Size of the largest grain in bytes.
    pub largest: u64,
    /// The earliest creation time in a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_created: Option<String>,
    /// The latest creation time in a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_created: Option<String>,
    /// The first grains.
    pub sample: Vec<GrainSample>,
}

/// The parts of a container.
#[derive(Debug, Clone, Serialize)]
pub struct ContainerInspection {
    /// Whether grains are sorted by `created_at`, according to the header.
    pub sorted: bool,
    /// Whether no address occurs twice, according to the header.
    pub deduplicated: bool,
    /// Whether the grain region is compressed, according to the header.
    pub compressed: bool,
    /// Whether there is an index manifest, according to the header.
    pub index_manifest: bool,
    /// Actual codec of the grain region.
    pub codec: &'static str,
    /// Number of grains, according to the header.
    pub grain_count: u32,
    /// Version of the field map.
    pub field_map_version: u8,
    /// `valid` if the footer is the hash of the bytes before it, else `invalid`.
    pub footer: &'static str,
    /// Deviations from the specification.
    pub oddities: Vec<&'static str>,
    /// Summary of the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestInspection>,
}

/// Summary of a manifest.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ManifestInspection {
    /// Number of grains with state.
    pub entries: u64,
    /// Number of superseded ones.
    pub superseded: u64,
    /// Number of those that are no longer current since some instant.
    pub expired: u64,
    /// Number of contradicted ones.
    pub contradicted: u64,
    /// Number of those with an access count.
    pub accessed: u64,
    /// Number of grains by verification status.
    pub verification: BTreeMap<&'static str, u64>,
}

/// A grain of the sample.
#[derive(Debug, Clone, Serialize)]
pub struct GrainSample {
    /// Its ordinal in the file.
    pub ordinal: u64,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// Size of its delivered bytes.
    pub bytes: u64,
    /// Its fields; null if it is encrypted or can't be decoded.
    pub grain: serde_json::Value,
    /// Why it can't be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Inspects `source`, with its first `sample` grains.
///
/// # Errors
/// If the source can't be read; [`EngineError::Request`] if it is a transcript. Damage is reported
/// in the result.
pub async fn inspect(source: Source, sample: usize) -> Result<Inspection> {
    let bytes = fetch(&source).await?;
    tokio::task::spawn_blocking(move || look_into(source.uri, bytes, sample))
        .await
        .file("can't read", "the source")?
}

fn look_into(uri: String, bytes: SourceBytes, sample: usize) -> Result<Inspection> {
    let kind = SourceKind::detect(&bytes, &uri).unwrap_or(SourceKind::Blob);
    let mut inspection = Inspection {
        file: uri.clone(),
        kind: kind.name(),
        bytes: bytes.len() as u64,
        ..Inspection::default()
    };
    let content = match kind {
        SourceKind::Container => match Container::open(bytes, ContainerLimits::default()) {
            Ok(container) => {
                inspection.container = Some(inspect_container(&container));
                SourceContent::Container(container)
            }
            Err(error) => {
                inspection.damage = Some(error.to_string());
                return Ok(inspection);
            }
        },
        SourceKind::Frames => SourceContent::Frames(bytes),
        // Content of no kind is shown as the damaged grain that it would be.
        SourceKind::Blob => SourceContent::Blob(bytes),
        SourceKind::Transcript(kind) => return Err(is_transcript(&uri, kind)),
    };
    inspection.count_all(uri, content, sample);
    Ok(inspection)
}

fn is_transcript(uri: &str, kind: TranscriptKind) -> EngineError {
    EngineError::Request(format!(
        "`{uri}` is no container, frames or grain, but of the kind `{}`: `gristmill convert` \
         prints what is in it, `gristmill ingest --dry-run` checks it",
        kind.name()
    ))
}

impl Inspection {
    /// Counts the grains of `content`, and keeps the first `sample` of them.
    fn count_all(&mut self, uri: String, content: SourceContent, sample: usize) {
        let info = SourceInfo::of_file(uri);
        let admitted = AdmittedSource::new(info, content, TranscriptExtras::default());
        let mut morsels = MorselReader::new(Arc::new(admitted), 0);
        let mut created: Option<(u32, u32)> = None;
        loop {
            match morsels.next(usize::MAX) {
                NextMorsel::Morsel(morsel) => (0..morsel.len()).for_each(|at| {
                    let second = self.count(morsel.item(at), sample);
                    created = match (created, second) {
                        (Some((first, last)), Some(second)) => {
                            Some((first.min(second), last.max(second)))
                        }
                        (known, second) => known.or(second.map(|second| (second, second))),
                    };
                }),
                NextMorsel::Damage { error, .. } => self.damage = Some(error.to_string()),
                NextMorsel::End => break,
            }
        }
        self.first_created = created.map(|(first, _)| date_time(first));
        self.last_created = created.map(|(_, last)| date_time(last));
    }

    /// Counts a grain. Returns its creation time in seconds.
    fn count(&mut self, delivered: &[u8], sample: usize) -> Option<u32> {
        let bytes = delivered.len() as u64;
        self.smallest = if self.grains == 0 {
            bytes
        } else {
            self.smallest.min(bytes)
        };
        self.largest = self.largest.max(bytes);
        if self.sample.len() < sample {
            self.sample.push(show(self.grains, delivered));
        }
        self.grains += 1;
        let opened =
            DeliveredGrain::open(delivered).and_then(|delivery| GrainHeader::read(delivery.blob()));
        match opened {
            Ok(header) => {
                self.count_header(&header);
                Some(header.created_at_seconds)
            }
            Err(error) => {
                *self.unreadable.entry(error.code.name()).or_default() += 1;
                None
            }
        }
    }

    fn count_header(&mut self, header: &GrainHeader) {
        *self.types.entry(header.type_byte.to_string()).or_default() += 1;
        let flags = header.flags;
        let set = [
            ("signed", flags.signed()),
            ("encrypted", flags.encrypted()),
            ("compressed", flags.compressed()),
            ("has_content_refs", flags.has_content_refs()),
            ("has_embedding_refs", flags.has_embedding_refs()),
            ("cbor_encoding", flags.cbor()),
        ];
        set.into_iter()
            .filter(|(_, set)| *set)
            .for_each(|(name, _)| *self.flags.entry(name).or_default() += 1);
        let sensitivity = flags.sensitivity().name();
        *self.sensitivity.entry(sensitivity).or_default() += 1;
    }
}

fn inspect_container(container: &Container<SourceBytes>) -> ContainerInspection {
    let header = container.header();
    let file = container.file();
    let is_whole = footer_of(file) == *container.footer();
    ContainerInspection {
        sorted: header.flags.sorted(),
        deduplicated: header.flags.deduplicated(),
        compressed: header.flags.compressed(),
        index_manifest: header.flags.has_index_manifest(),
        codec: container.codec().name(),
        grain_count: header.grain_count,
        field_map_version: header.field_map_version,
        footer: if is_whole { "valid" } else { "invalid" },
        oddities: container
            .anomalies()
            .iter()
            .copied()
            .chain(container.violated_flags())
            .map(ContainerAnomaly::name)
            .collect(),
        manifest: container.manifest().map(inspect_manifest),
    }
}

fn inspect_manifest(manifest: &Manifest) -> ManifestInspection {
    let mut found = ManifestInspection {
        entries: manifest.entries.len() as u64,
        ..ManifestInspection::default()
    };
    for state in manifest.entries.values() {
        found.superseded += u64::from(state.superseded_by.is_some());
        found.expired += u64::from(state.system_valid_to.is_some());
        found.contradicted += u64::from(state.contradicted);
        found.accessed += u64::from(state.access_count.is_some());
        if let Some(status) = state.verification_status {
            *found.verification.entry(status.name()).or_default() += 1;
        }
    }
    found
}

fn show(ordinal: u64, delivered: &[u8]) -> GrainSample {
    let mut sample = GrainSample {
        ordinal,
        content_address: None,
        bytes: delivered.len() as u64,
        grain: serde_json::Value::Null,
        error: None,
    };
    let mut read = || -> Result<(), GrainError> {
        let delivery = DeliveredGrain::open(delivered)?;
        sample.content_address = Some(ContentAddress::of(delivery.blob()).to_string());
        let shifted = |error: GrainError| error.shifted(delivery.blob_start());
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).map_err(shifted)?;
        let grain = Grain::decode(&payload, DecodeMode::Lenient).map_err(shifted)?;
        if !grain.is_encrypted() {
            let shown = serde_json::from_str(&grain.to_json().to_string());
            sample.grain =
                shown.map_err(|error| GrainError::new(ErrorCode::Corrupt, error.to_string()))?;
        }
        Ok(())
    };
    let error = read().err().map(|error| error.to_string());
    GrainSample { error, ..sample }
}

fn date_time(second: u32) -> String {
    let instant = DateTime::<Utc>::from_timestamp(i64::from(second), 0).unwrap_or_default();
    instant.to_rfc3339_opts(SecondsFormat::Secs, true)
}
