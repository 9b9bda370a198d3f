//! Disclosure: everything that the lake holds about a person, for the person (the same survey that
//! erasure begins with).

use chrono::Utc;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{IdentityColumn, SOURCES, STATE, is_sealed};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Grain, Mode, Payload};
use serde::Serialize;

use arrow::array::{Array, AsArray};

use super::journal::keyed_hash;
use super::matcher::IdentifierMatcher;
use super::reason::{Exemption, Reason, Reasons};
use super::request::SubjectRequest;
use super::sources::ListedSource;
use super::survey::Survey;
use crate::error::{Context, Result};
use crate::keys::Secret;
use crate::lake::{Lake, LakeFile, blob_of};

/// One thing that is held about a person.
#[derive(Debug, Clone, Serialize)]
pub struct Disclosed {
    /// `grains`, `rejects`, `state` for a lifecycle event whose actor or reason names the person,
    /// or `sources` for a path or reason that does.
    pub table: &'static str,
    /// Its address; for refused input, that of its bytes; for a source, its BLAKE3.
    pub content_address: String,
    /// Why it was found.
    pub found_by: Vec<&'static str>,
    /// Why an erasure with the same request would leave it; none if it would go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Exemption>,
    /// The grain with full field names; none if it can't be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grain: Option<Box<serde_json::value::RawValue>>,
    /// The bytes in hex, where they can't be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_hex: Option<String>,
    /// The event, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<DisclosedEvent>,
    /// The row of `sources`, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ListedSource>,
}

/// A lifecycle event that names a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DisclosedEvent {
    /// What happened to the grain.
    pub event: String,
    /// Who did it, as they said.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Grains that are read at a time.
const CHUNK: usize = 4_096;

/// Hands everything that `survey` found to `write`, grains first, in the order of the lake; records
/// in the audit log that it was done, under the keyed hash of the request if there is a key.
/// Answers how many there were.
///
/// # Errors
/// What the lake or `write` says.
pub async fn disclose(
    lake: &mut Lake,
    request: &SubjectRequest,
    survey: &Survey,
    key: Option<&Secret>,
    write: &mut dyn FnMut(&Disclosed) -> Result<()>,
) -> Result<u64> {
    let mut count = 0;
    for chunk in survey
        .grains
        .chunk_by(|left, right| left.segment == right.segment)
        .flat_map(|run| run.chunks(CHUNK))
    {
        let Some(first) = chunk.first() else { continue };
        let Some(segment) = survey.segments.get(first.segment as usize) else {
            continue;
        };
        let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
        let rows: Vec<u32> = chunk.iter().map(|found| found.row).collect();
        let mut found = chunk.iter();
        for batch in file.read_rows(&[IdentityColumn::Blob.name()], &rows)? {
            let blobs = batch.column(0).as_binary::<i32>();
            for (blob, found) in blobs.iter().zip(&mut found) {
                let blob = blob.unwrap_or_default();
                // An erased row stays at its place, with nothing in it that could be read.
                if file
                    .keys()
                    .is_some_and(|keys| is_sealed(blob) || keys.hides(&found.address))
                {
                    continue;
                }
                write(&disclosed(
                    "grains",
                    found.address,
                    found.reasons,
                    found.exemption.clone(),
                    blob,
                )?)?;
                count += 1;
            }
        }
    }
    for found in &survey.rejects {
        let file = LakeFile::open(lake, &lake.rejects.path_of(&found.file)).await?;
        for batch in file.read_rows(&["bytes"], &[found.row])? {
            let bytes = batch.column(0).as_binary::<i32>();
            let bytes = if bytes.is_valid(0) {
                bytes.value(0)
            } else {
                &[]
            };
            write(&disclosed(
                "rejects",
                found.address,
                found.reasons,
                found.exemption.clone(),
                bytes,
            )?)?;
            count += 1;
        }
    }
    for (content_address, event) in
        super::state::events_naming(lake, &IdentifierMatcher::new(request)).await?
    {
        let found_by = vec![Reason::Mention.name()];
        let (kept, grain, bytes_hex) = (None, None, None);
        write(&Disclosed {
            table: STATE,
            content_address,
            found_by,
            kept,
            grain,
            bytes_hex,
            event: Some(event),
            source: None,
        })?;
        count += 1;
    }
    for (content_address, listed) in
        super::sources::rows_naming(lake, &IdentifierMatcher::new(request)).await?
    {
        let found_by = vec![Reason::Mention.name()];
        let (kept, grain, bytes_hex, event) = (None, None, None, None);
        let source = Some(listed);
        write(&Disclosed {
            table: SOURCES,
            content_address,
            found_by,
            kept,
            grain,
            bytes_hex,
            event,
            source,
        })?;
        count += 1;
    }
    let details = serde_json::json!({
        "id": ulid::Ulid::generate().to_string(),
        "request": key.map(|key| request.canonical().map(|text| keyed_hash(key, text.as_bytes()))).transpose()?,
        "people": request.people.len(),
        "disclosed": count,
        "version": lake.grains.version(),
        "at": Utc::now().to_rfc3339(),
    });
    lake.record("report-subject", details).await?;
    Ok(count)
}

fn disclosed(
    table: &'static str,
    address: ContentAddress,
    reasons: Reasons,
    kept: Option<Exemption>,
    bytes: &[u8],
) -> Result<Disclosed> {
    let blob = blob_of(bytes);
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT);
    let grain = payload
        .as_ref()
        .ok()
        .and_then(|payload| Grain::decode(payload, Mode::Lenient).ok());
    let grain = grain
        .filter(|grain| !grain.is_encrypted())
        .map(|grain| grain.to_json().to_string());
    let bytes_hex = grain.is_none().then(|| hex::encode(bytes));
    let grain = grain
        .map(serde_json::value::RawValue::from_string)
        .transpose()
        .file("can't write", "a grain")?;
    let found_by = reasons.iter().map(|reason| reason.name()).collect();
    Ok(Disclosed {
        table,
        content_address: address.to_string(),
        found_by,
        kept,
        grain,
        bytes_hex,
        event: None,
        source: None,
    })
}
