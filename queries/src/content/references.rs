//! Counts of the references of grains to content, and whether their targets are there (OMS 1.3,
//! section 7.1). No content is read.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use datafusion::common::Result;
use datafusion::object_store::{self, ObjectStoreExt};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use serde::Serialize;

use super::ContentRoot;

/// The references by their URIs, with how many there are, the size that they state together, and
/// how many have no checksum.
const BY_URI: &str = "SELECT CAST(r['uri'] AS VARCHAR) AS uri, count(*) AS many, \
                      CAST(coalesce(sum(r['size_bytes']), 0) AS BIGINT) AS size, \
                      count(*) FILTER (WHERE r['checksum'] IS NULL) AS without_checksum \
                      FROM (SELECT unnest(content_refs) AS r FROM grains \
                      WHERE content_refs IS NOT NULL) GROUP BY r['uri']";

/// Missing targets that are listed. All are counted.
const LISTED: usize = 20;

/// The references of the grains of a lake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReferenceCounts {
    /// References of all grains.
    pub references: u64,
    /// Citations and other references without a URI, which name no content.
    pub without_uri: u64,
    /// References without a checksum.
    pub without_checksum: u64,
    /// The size that the references state, in bytes.
    pub stated_bytes: u64,
    /// Different URIs.
    pub targets: u64,
    /// Those of the targets that are there.
    pub present_targets: u64,
    /// Those that aren't there.
    pub missing_targets: u64,
    /// Those below none of the given roots, and those that can't be looked up.
    pub unknown_targets: u64,
    /// The first missing ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_missing: Vec<String>,
}

/// Counts the references of the grains of `context`. Targets below one of `roots` are looked up.
///
/// # Errors
/// [`datafusion::error::DataFusionError`] if the grains can't be read.
pub async fn count_references(
    context: &SessionContext,
    roots: &[ContentRoot],
) -> Result<ReferenceCounts> {
    let mut counts = ReferenceCounts::default();
    let mut rows = context.sql(BY_URI).await?.execute_stream().await?;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let uris = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8)?;
        let uris = uris.as_string::<i32>();
        let number = |column: usize, row: usize| {
            let cells = batch.column(column).as_primitive::<Int64Type>();
            u64::try_from(cells.value(row)).unwrap_or_default()
        };
        for row in 0..batch.num_rows() {
            counts.references += number(1, row);
            counts.stated_bytes += number(2, row);
            match uris.is_valid(row) {
                true => {
                    counts.without_checksum += number(3, row);
                    counts.add_target(roots, uris.value(row)).await;
                }
                false => counts.without_uri += number(1, row),
            }
        }
    }
    counts.first_missing.sort();
    Ok(counts)
}

impl ReferenceCounts {
    async fn add_target(&mut self, roots: &[ContentRoot], uri: &str) {
        self.targets += 1;
        match is_present(roots, uri).await {
            Some(true) => self.present_targets += 1,
            Some(false) => {
                self.missing_targets += 1;
                if self.first_missing.len() < LISTED {
                    self.first_missing.push(uri.to_owned());
                }
            }
            None => self.unknown_targets += 1,
        }
    }
}

/// Returns whether one of `roots` has the content of `uri`; `None` if it is below none of them, or
/// can't be looked up.
async fn is_present(roots: &[ContentRoot], uri: &str) -> Option<bool> {
    let mut found = None;
    for root in roots {
        let Some(path) = root.path_of(uri) else {
            continue;
        };
        match root.store.head(&path).await {
            Ok(_) => return Some(true),
            Err(object_store::Error::NotFound { .. }) => found = Some(false),
            Err(_) => (),
        }
    }
    found
}
