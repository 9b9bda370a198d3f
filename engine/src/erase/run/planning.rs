//! The survey before an erasure or a disclosure, and its plan.

use chrono::Utc;

use super::thread_pool;
use crate::erase::plan::ErasurePlan;
use crate::erase::request::SubjectRequest;
use crate::erase::survey::{ScannedSegments, Survey, SurveyScan};
use crate::erase::worker_jobs::ErasureWorkers;
use crate::error::{EngineError, Result};
use crate::lake::Lake;

/// Plans an erasure of `request`; changes nothing. In contrast to [`plan_disclosure`], the survey
/// includes rows that were erased before and are readable again, because an erasure was interrupted
/// or an old copy of the keyring was restored.
///
/// # Errors
/// As [`plan_disclosure`].
pub async fn plan(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
) -> Result<(ErasurePlan, Survey)> {
    planned(lake, request, threads, None).await
}

/// Does the same as [`plan`], but has segments scanned by `workers`. Threads of this process do the
/// rest.
///
/// # Errors
/// As [`plan`]; [`EngineError::Task`] if a worker fails, and [`EngineError::Key`] if the lake is
/// encrypted.
pub async fn plan_by(
    workers: ErasureWorkers<'_>,
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
) -> Result<(ErasurePlan, Survey)> {
    lake.segments_for_workers(SEARCHED)?;
    planned(lake, request, threads, Some(workers)).await
}

/// What one machine does with an encrypted lake.
pub(super) const SEARCHED: &str = "searched for an erasure";

async fn planned(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
    workers: Option<ErasureWorkers<'_>>,
) -> Result<(ErasurePlan, Survey)> {
    lake.reveal_erased(true);
    let planned = surveyed(lake, request, threads, workers).await;
    lake.reveal_erased(false);
    planned
}

/// Surveys `lake` for what can be disclosed by `request`; changes nothing. Erased rows stay hidden.
///
/// # Errors
/// [`EngineError::Request`] if the request selects nothing by construction; errors of the lake.
pub async fn plan_disclosure(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
) -> Result<(ErasurePlan, Survey)> {
    surveyed(lake, request, threads, None).await
}

/// Surveys `lake` as [`surveyed`] does, and respects the holds that were placed meanwhile.
pub(super) async fn surveyed_to_erase(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
    workers: Option<ErasureWorkers<'_>>,
) -> Result<(ErasurePlan, Survey)> {
    let (mut plan, mut survey) = surveyed(lake, request, threads, workers).await?;
    if survey.apply_new_holds(lake).await? {
        plan = ErasurePlan::of(&survey, request.people.len());
    }
    Ok((plan, survey))
}

/// Surveys `lake`; segments are scanned by `workers`, if there are any.
pub(super) async fn surveyed(
    lake: &mut Lake,
    request: &SubjectRequest,
    threads: usize,
    workers: Option<ErasureWorkers<'_>>,
) -> Result<(ErasurePlan, Survey)> {
    if request.is_empty() {
        return Err(EngineError::Request(
            "the request names nobody: give --user, --subject, --email, --phone, --did, \
             --session, --subjects, --consent, --withdrawn-consents or --addresses"
                .to_owned(),
        ));
    }
    lake.refresh().await?;
    let now = Utc::now().timestamp_millis();
    let scan = SurveyScan {
        pool: thread_pool(threads)?,
        scanned: ScannedSegments::default(),
        workers: workers.map(|workers| workers.survey),
    };
    let survey = Survey::with_references(lake, request, &[], scan, now).await?;
    Ok((ErasurePlan::of(&survey, request.people.len()), survey))
}
