//! Compares sidecars with ones rebuilt in memory.

use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;

use super::builder::IndexKinds;
use super::fulltext::{FULLTEXT_FILE, LakeTextIndex, SegmentTextIndex};
use super::reindex::build_again;
use crate::error::{BoxError, Context, Result};
use crate::lake::{Lake, Segment};

/// Returns which of the sidecars `files` of `segment`, all of them intact and bound to it, differ
/// from what its rows imply. Vectors are skipped, because the lake doesn't contain their source.
/// Memory holds the sidecars of one segment.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if the segment or a sidecar can't be
/// read.
pub(crate) async fn differing_sidecars(
    lake: &Lake,
    segment: &Segment,
    files: &[String],
) -> Result<Vec<String>> {
    let binding = segment.binding(lake.location()).await?;
    let mut differing = Vec::new();
    for made in build_again(lake, segment, IndexKinds::ALL.of_segment(&segment.id)).await? {
        if !files.contains(&made.name) {
            continue;
        }
        let bytes = lake
            .location()
            .read(&segment.id.sidecar(&made.name))
            .await?;
        let content = binding.unwrap(bytes).file("can't read", &made.name)?;
        let (name, parts) = (made.name.clone(), made.parts);
        let compare = move || match made.name == FULLTEXT_FILE {
            true => Ok::<_, BoxError>(digest_of(content)? == digest_of(parts.concat().into())?),
            false => Ok(*content == *parts.concat()),
        };
        let is_equal = tokio::task::spawn_blocking(compare)
            .await
            .file("can't compare", &name)?;
        if !is_equal.file("can't compare", &name)? {
            differing.push(name);
        }
    }
    Ok(differing)
}

fn digest_of(bytes: SourceBytes) -> Result<[u8; 32], BoxError> {
    Ok(LakeTextIndex::new(&[Arc::new(SegmentTextIndex::open(bytes)?)])?.content_digest()?)
}
