//! Verifying a lake that can't be opened: its tables only.

use std::time::Instant;

use super::VerifyOptions;
use super::report::{Coverage, FindingTally, VerifyReport};
use super::scope::VerifyScope;
use super::tables::{TablesCheck, problem};
use crate::error::{EngineError, Result};
use crate::lake::{ACCEPT, LakeLocation};

/// Checks the tables of a lake that can't be opened because of `cause`, which is reported as a
/// problem if nothing else is.
///
/// # Errors
/// As [`verify_lake`](super::verify_lake).
pub async fn verify_unopened(
    location: &LakeLocation,
    scope: VerifyScope,
    options: &VerifyOptions,
    cause: &EngineError,
) -> Result<VerifyReport> {
    let started = Instant::now();
    let deadline = scope.max_duration.map(|limit| started + limit);
    let mut check =
        TablesCheck::begin(location, deadline, options.problems, options.threads).await?;
    check.run().await?;
    if check.findings.bad_count() == 0 {
        check.found(problem("", &location.name(), &cause.to_string(), ACCEPT));
    }
    let mut tally = FindingTally::new(options.problems);
    tally.add(0, check.findings);
    tally.report().coverage = Some(Coverage {
        tables: check.coverage,
        ..Coverage::default()
    });
    tally.report().unreferenced = check.unreferenced.found();
    Ok(tally.finish(started.elapsed()))
}
