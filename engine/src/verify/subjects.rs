//! Checking the subject filter of a lake in an object store: whether it is intact, and whether it
//! has the subjects of the statements of each segment.

use super::VerifyOptions;
use super::report::{Findings, REINDEX};
use super::tables::{TablesCheck, problem};
use crate::error::Result;
use crate::index::SubjectFilters;
use crate::index::hexastore::Hexastore;
use crate::lake::{Lake, Segment, open_sidecar};

/// Returns true if `lake` may have a subject filter that is used.
fn may_have_one(lake: &Lake) -> bool {
    lake.location().is_remote() && !lake.is_encrypted()
}

/// Checks the checksum of the subject filter of `lake`, if there is one.
///
/// # Errors
/// Errors of reading it.
pub(super) async fn check(lake: &Lake, check: &mut TablesCheck<'_>) -> Result<()> {
    if may_have_one(lake) && SubjectFilters::are_damaged(lake.location()).await? {
        let (path, cause) = (SubjectFilters::path(), "it is damaged and isn't used");
        check.found(problem("", path.as_ref(), cause, REINDEX));
    }
    Ok(())
}

/// Returns the filters of `lake` that are compared with its segments: those of all segments if
/// sidecars are compared, otherwise none.
///
/// # Errors
/// Errors of reading them.
pub(super) async fn to_compare(lake: &Lake, options: &VerifyOptions) -> Result<SubjectFilters> {
    match options.sidecars && may_have_one(lake) {
        true => SubjectFilters::load(lake.location()).await,
        false => Ok(SubjectFilters::default()),
    }
}

/// Compares the filter of `segment` in `filters`, if there is one, with the statements of the
/// segment. An unusable hexastore is a problem of its own.
pub(super) async fn compare(
    filters: &SubjectFilters,
    lake: &Lake,
    segment: &Segment,
    findings: &mut Findings,
) {
    if !filters.know(segment) {
        return;
    }
    let store = open_sidecar::<Hexastore>(lake.location(), segment).await;
    if store.is_ok_and(|store| filters.differ(segment, &store)) {
        let (path, name) = (SubjectFilters::path(), segment.id.as_str());
        let cause = format!("it doesn't have the subjects of the segment {name}");
        // The tally limits their number.
        findings.bad(problem("", path.as_ref(), &cause, REINDEX), usize::MAX);
    }
}
