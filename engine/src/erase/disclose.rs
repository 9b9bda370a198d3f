//! Disclosure: everything that the lake contains about a person, found by the same survey as an
//! erasure.

use chrono::Utc;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{SOURCES, STATE, SystemColumn, is_sealed};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use serde::Serialize;

use arrow::array::AsArray;

use super::journal::keyed_hash;
use super::matcher::IdentifierMatcher;
use super::reason::{Exemption, Reason, Reasons};
use super::request::SubjectRequest;
use super::sources::ListedSource;
use super::survey::Survey;
use crate::error::{Context, Result};
use crate::keys::Secret;
use crate::lake::{Lake, LakeFile, blob_of};

/// One item about a person.
#[derive(Debug, Clone, Serialize)]
pub struct Disclosed {
    /// `grains`, `rejects`, `state` for a lifecycle event whose actor or reason names the person,
    /// or `sources` for a path or reason that does.
    pub table: &'static str,
    /// Its address; for a reject, the SHA-256 of its bytes; for a source, its BLAKE3.
    pub content_address: String,
    /// Why it was found.
    pub found_by: Vec<&'static str>,
    /// Why an erasure by the same request would leave it. `None` if it would be erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Exemption>,
    /// The grain with full field names. `None` if it can't be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grain: Option<Box<serde_json::value::RawValue>>,
    /// The bytes in hex, if they can't be decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_hex: Option<String>,
    /// The lifecycle event, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<DisclosedEvent>,
    /// The row of `sources`, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ListedSource>,
}

/// A lifecycle event that names a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DisclosedEvent {
    /// What happened to the grain.
    pub event: String,
    /// The actor, as recorded.
    pub actor: Option<String>,
    /// The reason, as recorded.
    pub reason: Option<String>,
}

/// Number of grains that are read at a time.
const CHUNK_ROWS: usize = 4_096;

/// Rejects that are read at a time. Each may have a MiB.
const CHUNK_REJECTS: usize = 64;

/// When a disclosure is recorded in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// After the last item: for output that is withdrawn if the audit log can't be written.
    AfterItems,
    /// Before the first item: for output that can't be withdrawn. The items are read twice, because
    /// the entry has their number.
    BeforeItems,
}

/// Passes everything that `survey` found to `write`: grains first, in the order of the lake, then
/// rejects, events and sources. Records the disclosure in the audit log, with the keyed hash of the
/// request if there is a `key`. Returns the number of items.
///
/// # Errors
/// Errors of the lake and of `write`. If a disclosure can't be recorded
/// [before](Recording::BeforeItems) its items, none is written.
pub async fn disclose(
    lake: &mut Lake,
    request: &SubjectRequest,
    survey: &Survey,
    key: Option<&Secret>,
    recording: Recording,
    write: &mut dyn FnMut(&Disclosed) -> Result<()>,
) -> Result<u64> {
    let mentions = mentions(lake, request).await?;
    let mut count = 0;
    let mut counted = |item: &Disclosed| {
        count += 1;
        match recording {
            Recording::AfterItems => write(item),
            Recording::BeforeItems => Ok(()),
        }
    };
    disclose_items(lake, survey, &mentions, &mut counted).await?;
    record(lake, request, key, count).await?;
    if recording == Recording::BeforeItems {
        disclose_items(lake, survey, &mentions, write).await?;
    }
    Ok(count)
}

/// Records a disclosure of `count` items in the audit log.
async fn record(
    lake: &mut Lake,
    request: &SubjectRequest,
    key: Option<&Secret>,
    count: u64,
) -> Result<()> {
    let details = serde_json::json!({
        "id": ulid::Ulid::generate().to_string(),
        "request": key.map(|key| request.canonical().map(|text| keyed_hash(key, text.as_bytes()))).transpose()?,
        "people": request.people.len(),
        "disclosed": count,
        "version": lake.grains.version(),
        "at": Utc::now().to_rfc3339(),
    });
    lake.record("report-subject", details).await
}

/// Passes the grains and rejects of `survey`, and the `mentions`, to `write`.
async fn disclose_items(
    lake: &Lake,
    survey: &Survey,
    mentions: &[Disclosed],
    write: &mut dyn FnMut(&Disclosed) -> Result<()>,
) -> Result<()> {
    disclose_grains(lake, survey, write).await?;
    disclose_rejects(lake, survey, write).await?;
    mentions.iter().try_for_each(write)
}

/// Returns the events and sources that name the people of `request`.
async fn mentions(lake: &Lake, request: &SubjectRequest) -> Result<Vec<Disclosed>> {
    let matcher = IdentifierMatcher::new(request);
    let mut found = Vec::new();
    for (address, event) in super::state::events_naming(lake, &matcher).await? {
        found.push(Disclosed {
            event: Some(event),
            ..Disclosed::mention(STATE, address)
        });
    }
    for (digest, source) in super::sources::rows_naming(lake, &matcher).await? {
        found.push(Disclosed {
            source: Some(source),
            ..Disclosed::mention(SOURCES, digest)
        });
    }
    Ok(found)
}

async fn disclose_grains(
    lake: &Lake,
    survey: &Survey,
    write: &mut dyn FnMut(&Disclosed) -> Result<()>,
) -> Result<()> {
    for chunk in survey
        .grains
        .chunk_by(|left, right| left.segment == right.segment)
        .flat_map(|run| run.chunks(CHUNK_ROWS))
    {
        let segment = chunk.first().map(|first| first.segment as usize);
        let Some(segment) = segment.and_then(|number| survey.segments.get(number)) else {
            continue;
        };
        let file = LakeFile::open(lake, &lake.grains.path_of(&segment.file.name)).await?;
        let rows: Vec<u32> = chunk.iter().map(|found| found.row).collect();
        let mut found = chunk.iter();
        for batch in file.read_rows(&[SystemColumn::Blob.name()], &rows)? {
            let blobs = batch.column(0).as_binary::<i32>();
            for (blob, found) in blobs.iter().zip(&mut found) {
                let blob = blob.unwrap_or_default();
                // An erased row of a sealed segment is still there, but can't be opened.
                if file
                    .keys()
                    .is_some_and(|keys| is_sealed(blob) || keys.has_tombstone(&found.address))
                {
                    continue;
                }
                let (reasons, exemption) = (found.reasons, found.exemption.clone());
                write(&disclosed(
                    "grains",
                    found.address,
                    reasons,
                    exemption,
                    blob,
                )?)?;
            }
        }
    }
    Ok(())
}

async fn disclose_rejects(
    lake: &Lake,
    survey: &Survey,
    write: &mut dyn FnMut(&Disclosed) -> Result<()>,
) -> Result<()> {
    for chunk in survey
        .rejects
        .chunk_by(|left, right| left.file == right.file)
        .flat_map(|run| run.chunks(CHUNK_REJECTS))
    {
        let Some(first) = chunk.first() else {
            continue;
        };
        let file = LakeFile::open(lake, &lake.rejects.path_of(&first.file)).await?;
        let rows: Vec<u32> = chunk.iter().map(|found| found.row).collect();
        let mut found = chunk.iter();
        for batch in file.read_rows(&["bytes"], &rows)? {
            let bytes = batch.column(0).as_binary::<i32>();
            for (bytes, found) in bytes.iter().zip(&mut found) {
                let (reasons, exemption) = (found.reasons, found.exemption.clone());
                write(&disclosed(
                    "rejects",
                    found.address,
                    reasons,
                    exemption,
                    bytes.unwrap_or_default(),
                )?)?;
            }
        }
    }
    Ok(())
}

impl Disclosed {
    /// Returns an item of `table` that mentions a person, without content.
    fn mention(table: &'static str, content_address: String) -> Disclosed {
        Disclosed {
            table,
            content_address,
            found_by: vec![Reason::Mention.name()],
            kept: None,
            grain: None,
            bytes_hex: None,
            event: None,
            source: None,
        }
    }
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
        .and_then(|payload| Grain::decode(payload, DecodeMode::Lenient).ok());
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
