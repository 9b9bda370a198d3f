//! Erases what has expired, round by round. Each round is an erasure with its own certificate.
//!
//! A killed run is completed by the next one: it finishes the round in progress with the request
//! with which it began, and then goes on with the rules that it was given.

use std::time::Instant;

use chrono::Utc;
use serde::Serialize;

use super::round_file::{RoundFile, StoredRound};
use super::{RetentionOptions, RetentionPlan};
use crate::erase::{
    self, ErasureOptions, ErasureReport, RetentionSelection, SubjectRequest, is_interrupted,
};
use crate::error::{EngineError, Result};
use crate::lake::Lake;

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RetentionReport {
    /// What had expired and what was kept, as it was found before each round.
    pub plan: RetentionPlan,
    /// The erasures, the resumed one first.
    pub erasures: Vec<RetentionErasure>,
    /// Grains that were erased.
    pub erased: u64,
    /// Whether all erasures are proven.
    pub proven: bool,
    /// Whether the run began with a round that was interrupted.
    pub resumed: bool,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// One erasure of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RetentionErasure {
    /// Identifier of the erasure.
    pub id: String,
    /// Path of the signed certificate, relative to the lake's root.
    pub certificate: String,
    /// Grains that were erased.
    pub grains: u64,
    /// Whether all proofs hold.
    pub proven: bool,
}

/// Erases what has expired by `options`. Memory is bounded by the grains of a round.
///
/// # Errors
/// [`EngineError::Request`] if the rules are refused; as [`erase::erase`], where the rounds before
/// stay erased and the next run resumes.
pub async fn run(
    lake: &mut Lake,
    options: &RetentionOptions,
    erasure: &ErasureOptions,
) -> Result<RetentionReport> {
    let started = Instant::now();
    let now = Utc::now().timestamp_millis();
    let mut run = Run {
        lake,
        erasure,
        file: RoundFile::new(&erasure.keyring)?,
        report: RetentionReport {
            plan: RetentionPlan::empty(options, now)?,
            erasures: Vec::new(),
            erased: 0,
            proven: true,
            resumed: false,
            seconds: 0.0,
        },
    };
    run.resume().await?;
    for seconds in options.rounds(run.lake, now).await? {
        run.round(options.request(seconds, now), options.threads)
            .await?;
    }
    run.report.seconds = started.elapsed().as_secs_f64();
    Ok(run.report)
}

struct Run<'a> {
    lake: &'a mut Lake,
    erasure: &'a ErasureOptions,
    file: RoundFile,
    report: RetentionReport,
}

impl Run<'_> {
    /// Finishes the round of a run that was killed.
    async fn resume(&mut self) -> Result<()> {
        let Some((selection, approvals)) = self.file.load(self.lake).await? else {
            return Ok(());
        };
        let request = SubjectRequest {
            retention: Some(selection),
            approvals,
            ..SubjectRequest::default()
        };
        if is_interrupted(self.lake, &request, &self.erasure.keyring).await? {
            self.report.resumed = true;
            self.erase(&request).await?;
        }
        self.file.remove(self.lake).await
    }

    /// Erases what has expired in one round.
    async fn round(&mut self, request: SubjectRequest, threads: usize) -> Result<()> {
        let (planned, survey) = erase::plan(self.lake, &request, threads).await?;
        self.report.plan.add(&survey);
        drop(survey);
        if !planned.has_work() {
            return Ok(());
        }
        self.report.plan.rounds += 1;
        self.file.store(self.lake, &stored(&request)?).await?;
        self.erase(&request).await?;
        self.file.remove(self.lake).await
    }

    async fn erase(&mut self, request: &SubjectRequest) -> Result<()> {
        let ErasureReport {
            id,
            certificate,
            scope,
            proven,
            ..
        } = erase::erase(self.lake, request, self.erasure).await?;
        self.report.erased += scope.grains;
        self.report.proven &= proven;
        self.report.erasures.push(RetentionErasure {
            id,
            certificate,
            grains: scope.grains,
            proven,
        });
        Ok(())
    }
}

fn stored(request: &SubjectRequest) -> Result<StoredRound> {
    let selection: Option<RetentionSelection> = request.retention.clone();
    let selection = selection.ok_or_else(|| {
        EngineError::Request("the request selects nothing by retention".to_owned())
    })?;
    Ok((selection, request.approvals.clone()))
}
