//! Comparing the sizes of the data files of `grains` with the log, without reading the files.

use std::collections::HashMap;

use gristmill_schemas::columns::GRAINS;
use object_store::path::Path;

use super::replaced::{REPLACED, is_replaced};
use super::report::{Findings, Problem};
use super::scope::SegmentRange;
use crate::error::Result;
use crate::lake::Lake;

/// Returns the problems of the segments of `unopened` ranges whose data file is missing or has
/// another size than the log states, of which at most `limit` are listed: a lost file is found by
/// every check, not only when its turn comes. Lists the files once, which in an object store is a
/// request for 1,000 files.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if the files can't be listed; errors of
/// the environment.
pub(super) async fn check(
    lake: &Lake,
    unopened: &[SegmentRange],
    limit: usize,
) -> Result<Findings> {
    let mut findings = Findings::default();
    if unopened.is_empty() {
        return Ok(findings);
    }
    let listed = lake.location().list(GRAINS).await?;
    let files = listed.iter().map(|file| (&file.location, file.size));
    let sizes: HashMap<&Path, u64> = files.collect();
    // Only the first segment of a round may have another range, which is the last of the round.
    for range in unopened.iter().filter(|range| range.until == usize::MAX) {
        let segment = &range.segment;
        let (path, expected) = (segment.path(), segment.file.size);
        let cause = match sizes.get(&path) {
            Some(size) if *size == expected => continue,
            Some(size) => format!("it has {size} bytes, its log says {expected}"),
            None => "it is missing".to_owned(),
        };
        match is_replaced(lake, segment).await? {
            true => findings.mark(REPLACED, 1),
            false => findings.bad(Problem::of_lost_file(path.as_ref(), &cause), limit),
        }
    }
    Ok(findings)
}
