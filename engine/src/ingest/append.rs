//! Grains that are made here rather than read: the same road as all others, with what they supersede in their own rows.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{FRAME_END, write_frame};

use super::morsel::{Admitted, Content, Morsels};
use super::report::OnError;
use super::run::{Ingest, IngestOptions};
use crate::error::{EngineError, Result};
use crate::lake::Lake;
use crate::progress::WorkProgress;

/// A grain that was made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authored {
    /// Its bytes, bare or in an envelope.
    pub bytes: Vec<u8>,
    /// Its address.
    pub address: ContentAddress,
    /// The grains whose place it takes.
    pub supersedes: Vec<ContentAddress>,
}

/// Appends `grains` to `lake` in one commit and records `action` in the audit log; answers how many were new.
///
/// Grains are proven like any others: one that breaks a rule of the specification refuses all.
///
/// # Errors
/// [`EngineError::Refused`] for such a grain, [`EngineError::Conflict`] if other writers were faster every time, and whatever
/// the system says. Nothing was committed then.
pub async fn append(lake: &mut Lake, grains: Vec<Authored>, action: &str) -> Result<u64> {
    if grains.is_empty() {
        return Ok(0);
    }
    let (source, supersessions) = (source_of(&grains)?, supersessions_of(grains));
    let id = blake3::hash(&source).to_hex().to_string();
    let superseding = supersessions.len();
    let content = Content::Frames(SourceBytes::from(source));
    let admitted = Admitted { id, uri: format!("gristmill:{action}"), content, refused: Vec::new(), supersessions };
    let options = IngestOptions { on_error: OnError::Fail, threads: 1, ..IngestOptions::default() };
    let mut run = Ingest::begin(lake, &options, Arc::new(WorkProgress::default())).await?;
    run.read_once(Morsels::new(Arc::new(admitted), 0)).await?;
    let report = run.end_quietly().await?;
    let details = serde_json::json!({
        "grains": report.grains_written,
        "superseding": superseding,
        "version": lake.grains.version(),
    });
    lake.record(action, details).await?;
    Ok(report.grains_written)
}

/// The grains as a stream of frames, which is what the road takes.
fn source_of(grains: &[Authored]) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    for grain in grains {
        write_frame(&grain.bytes, &mut stream)
            .map_err(|error| EngineError::Refused { source_uri: grain.address.to_string(), error })?;
    }
    stream.extend(FRAME_END);
    Ok(stream)
}

fn supersessions_of(grains: Vec<Authored>) -> HashMap<ContentAddress, Vec<ContentAddress>> {
    let says = grains.into_iter().filter(|grain| !grain.supersedes.is_empty());
    says.map(|grain| (grain.address, grain.supersedes)).collect()
}
