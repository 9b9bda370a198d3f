//! What is in a file: a container's header and manifest, counts of what the grains are, and a few
//! of them.
//!
//! Grains are read only as far as their headers except the sample; whether they are good, `verify`
//! tells.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use gristmill_connectors::source::{Source, SourceBytes, SourceKind, fetch};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{Container, ContainerLimits, Manifest, Oddity};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Header, Mode, Payload};
use gristmill_schemas::sign::Delivery;
use serde::Serialize;

use crate::error::{Context, Result};
use crate::ingest::digests::footer_of;
use crate::ingest::morsel::{
    AdmittedSource, MorselReader, NextMorsel, SourceContent, TranscriptExtras,
};
use crate::ingest::sources::SourceInfo;

/// What is in a file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inspection {
    /// The file.
    pub file: String,
    /// `mg`, `frames` or `blob`.
    pub kind: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// What hides the file's content, or part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// A container's own parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerInspection>,
    /// Grains that were found.
    pub grains: u64,
    /// Number of grains there are of each type.
    pub types: BTreeMap<String, u64>,
    /// Number of grains have each flag of the header.
    pub flags: BTreeMap<&'static str, u64>,
    /// Number of grains have each sensitivity.
    pub sensitivity: BTreeMap<&'static str, u64>,
    /// Number of grains can't be opened, by code.
    pub unreadable: BTreeMap<&'static str, u64>,
    /// Bytes of the smallest grain.
    pub smallest: u64,
    /// Bytes of the largest grain.
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

/// A container's own parts.
#[derive(Debug, Clone, Serialize)]
pub struct ContainerInspection {
    /// Grains ascend by `created_at`, as the header says.
    pub sorted: bool,
    /// No address stands twice, as the header says.
    pub deduplicated: bool,
    /// The grain region is compressed, as the header says.
    pub compressed: bool,
    /// There is an index manifest, as the header says.
    pub index_manifest: bool,
    /// How the grain region is compressed in truth.
    pub codec: &'static str,
    /// Number of grains the header promises.
    pub grain_count: u32,
    /// The version of the field map.
    pub field_map_version: u8,
    /// `valid` if the footer is the hash of what precedes it, else `invalid`.
    pub footer: &'static str,
    /// What is odd about the file.
    pub oddities: Vec<&'static str>,
    /// What the manifest says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestInspection>,
}

/// What a manifest says.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ManifestInspection {
    /// Grains with state.
    pub entries: u64,
    /// Those that were superseded.
    pub superseded: u64,
    /// Those that ceased to be current at some instant.
    pub expired: u64,
    /// Those that are contradicted.
    pub contradicted: u64,
    /// Those that were retrieved.
    pub accessed: u64,
    /// Number of have each verification status.
    pub verification: BTreeMap<&'static str, u64>,
}

/// One grain.
#[derive(Debug, Clone, Serialize)]
pub struct GrainSample {
    /// Its place in the file.
    pub ordinal: u64,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// Bytes in which it was delivered.
    pub bytes: u64,
    /// Its fields; null if it is encrypted or can't be read.
    pub grain: serde_json::Value,
    /// Why it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Looks into `source`, showing its first `sample` grains.
///
/// # Errors
/// Whatever the system says of the source. Damage isn't an error but part of the answer.
pub async fn inspect(source: Source, sample: usize) -> Result<Inspection> {
    let bytes = fetch(&source).await?;
    tokio::task::spawn_blocking(move || look_into(source.uri, bytes, sample))
        .await
        .file("can't read", "the source")
}

fn look_into(uri: String, bytes: SourceBytes, sample: usize) -> Inspection {
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
                return inspection;
            }
        },
        SourceKind::Frames => SourceContent::Frames(bytes),
        // What is no container of grains is shown as the damaged grain that it would be.
        SourceKind::Blob | SourceKind::Transcript(_) => SourceContent::Blob(bytes),
    };
    let admitted = AdmittedSource::new(
        SourceInfo::of_file(uri),
        content,
        TranscriptExtras::default(),
    );
    let mut morsels = MorselReader::new(Arc::new(admitted), 0);
    let mut created: Option<(u32, u32)> = None;
    loop {
        match morsels.next(usize::MAX) {
            NextMorsel::Morsel(morsel) => (0..morsel.len()).for_each(|at| {
                let second = inspection.count(morsel.item(at), sample);
                created = match (created, second) {
                    (Some((first, last)), Some(second)) => {
                        Some((first.min(second), last.max(second)))
                    }
                    (known, second) => known.or(second.map(|second| (second, second))),
                };
            }),
            NextMorsel::Damage { error, .. } => inspection.damage = Some(error.to_string()),
            NextMorsel::End => break,
        }
    }
    inspection.first_created = created.map(|(first, _)| date_time(first));
    inspection.last_created = created.map(|(_, last)| date_time(last));
    inspection
}

impl Inspection {
    /// Counts a grain; returns the second of its creation.
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
        let opened = Delivery::open(delivered).and_then(|delivery| Header::read(delivery.blob()));
        let header = match opened {
            Ok(header) => header,
            Err(error) => {
                *self.unreadable.entry(error.code.name()).or_default() += 1;
                return None;
            }
        };
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
        *self
            .sensitivity
            .entry(flags.sensitivity().name())
            .or_default() += 1;
        Some(header.created_at_seconds)
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
            .oddities()
            .iter()
            .copied()
            .chain(container.broken_promises())
            .map(Oddity::name)
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
        let delivery = Delivery::open(delivered)?;
        sample.content_address = Some(ContentAddress::of(delivery.blob()).to_string());
        let shifted = |error: GrainError| error.shifted(delivery.blob_start());
        let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).map_err(shifted)?;
        let grain = Grain::decode(&payload, Mode::Lenient).map_err(shifted)?;
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
