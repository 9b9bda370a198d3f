//! Segments that another process replaced while the lake is checked. An erasure removes the files
//! that it replaces at once.

use crate::error::Result;
use crate::lake::{Lake, Segment};

/// The mark of such a segment in a report.
pub(super) const REPLACED: &str = "replaced_meanwhile";

/// Returns whether the newest version of `lake` lacks `segment`.
///
/// # Errors
/// Errors of the environment.
pub(super) async fn is_replaced(lake: &Lake, segment: &Segment) -> Result<bool> {
    let mut newest = lake.grains.clone();
    match newest.refresh().await {
        Err(error) if error.is_environment() => return Err(error),
        // A damaged log is a problem of its own.
        Err(_) => return Ok(false),
        Ok(()) => {}
    }
    let files = newest.files()?;
    Ok(files.iter().all(|file| file.name != segment.file.name))
}
