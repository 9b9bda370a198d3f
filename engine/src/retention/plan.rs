//! The plan: what has expired, by policy, and what is kept by a floor, a hold or its own terms.
//!
//! It is made by the survey of the erasure itself, so it states what a run would do.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use super::RetentionOptions;
use super::rounds::rounds;
use crate::erase::{self, Exemption, RetentionSelection, SubjectRequest, Survey};
use crate::error::Result;
use crate::lake::Lake;
use crate::policy::Period;

/// What a run would do.
#[derive(Debug, Clone, Serialize)]
pub struct RetentionPlan {
    /// The instant at which the rules were evaluated, as an RFC 3339 date-time.
    pub at: String,
    /// Grains that would be erased.
    pub expired: u64,
    /// Bytes of the blobs of these grains.
    pub bytes: u64,
    /// Grains whose period has ended and that are kept, by the reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// The same by policy, in the order of the rules.
    pub policies: Vec<PolicyPlan>,
    /// The first grains that are kept.
    pub kept_grains: Vec<KeptGrain>,
    /// Grains that were read.
    pub grains_read: u64,
    /// Encrypted or undecodable grains, which no policy can cover, and rejects that are compressed
    /// or encrypted and can't be opened.
    pub unsearchable: u64,
    /// Erasures that a run would consist of, each with its certificate.
    pub rounds: u64,
}

/// What a run would do by one policy.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyPlan {
    /// The name of the policy.
    pub policy: String,
    /// Its period.
    pub period: Period,
    /// Grains that would be erased.
    pub expired: u64,
    /// Bytes of the blobs of these grains.
    pub bytes: u64,
    /// Grains that are kept, by the reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// The first grains that would be erased.
    pub examples: Vec<String>,
}

/// A grain that is kept although its period has ended.
#[derive(Debug, Clone, Serialize)]
pub struct KeptGrain {
    /// Its address.
    pub content_address: String,
    /// The policy by which it expired.
    pub policy: String,
    /// Why it is kept.
    #[serde(flatten)]
    pub exemption: Exemption,
}

/// Expired grains of a policy that are named individually.
const EXAMPLES: usize = 5;

/// Kept grains that are named individually.
const LISTED: usize = 20;

/// Plans what `options` erase from `lake`; changes nothing.
///
/// # Errors
/// [`EngineError::Request`](crate::error::EngineError::Request) if the rules are refused; errors of
/// the lake.
pub async fn plan(lake: &mut Lake, options: &RetentionOptions) -> Result<RetentionPlan> {
    let now = Utc::now().timestamp_millis();
    let mut plan = RetentionPlan::empty(options, now)?;
    for seconds in options.rounds(lake, now).await? {
        let request = options.request(seconds, now);
        let (erasure, survey) = erase::plan(lake, &request, options.threads).await?;
        plan.rounds += u64::from(erasure.has_work());
        plan.add(&survey);
    }
    Ok(plan)
}

impl RetentionOptions {
    /// Returns the rounds of a run at `now`, in milliseconds since 1970.
    pub(super) async fn rounds(
        &self,
        lake: &mut Lake,
        now: i64,
    ) -> Result<Vec<RangeInclusive<u32>>> {
        lake.refresh().await?;
        match self.rules.last_expired_second(now) {
            Some(last) => rounds(lake, last, self.round_rows).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the request of the round `seconds` at `now`, in milliseconds since 1970.
    pub(super) fn request(&self, seconds: RangeInclusive<u32>, now: i64) -> SubjectRequest {
        SubjectRequest {
            retention: Some(RetentionSelection {
                rules: self.rules.clone(),
                now,
                first: *seconds.start(),
                last: *seconds.end(),
            }),
            approvals: self.approvals.clone(),
            ..SubjectRequest::default()
        }
    }
}

impl RetentionPlan {
    /// Returns a plan without grains.
    pub(super) fn empty(options: &RetentionOptions, now: i64) -> Result<RetentionPlan> {
        options.rules.check()?;
        let of_policy = |policy: &crate::policy::RetentionRule| PolicyPlan {
            policy: policy.name.clone(),
            period: policy.period,
            expired: 0,
            bytes: 0,
            kept: BTreeMap::new(),
            examples: Vec::new(),
        };
        let at = DateTime::from_timestamp_millis(now).unwrap_or_default();
        Ok(RetentionPlan {
            at: at.to_rfc3339_opts(SecondsFormat::Secs, true),
            expired: 0,
            bytes: 0,
            kept: BTreeMap::new(),
            policies: options.rules.policies.iter().map(of_policy).collect(),
            kept_grains: Vec::new(),
            grains_read: 0,
            unsearchable: 0,
            rounds: 0,
        })
    }

    /// Adds the findings of a round. What only refers to expired grains doesn't count.
    pub(super) fn add(&mut self, survey: &Survey) {
        self.grains_read += survey.grains_read;
        // Each round counts those of the whole lake.
        self.unsearchable = self.unsearchable.max(survey.unsearchable);
        for found in &survey.grains {
            let number = found.policy.map(|number| number as usize);
            let Some(policy) = number.and_then(|number| self.policies.get_mut(number)) else {
                continue;
            };
            let address = found.address.to_string();
            let Some(exemption) = &found.exemption else {
                self.expired += 1;
                self.bytes += u64::from(found.size);
                policy.expired += 1;
                policy.bytes += u64::from(found.size);
                if policy.examples.len() < EXAMPLES {
                    policy.examples.push(address);
                }
                continue;
            };
            *self.kept.entry(exemption.name()).or_default() += 1;
            *policy.kept.entry(exemption.name()).or_default() += 1;
            if self.kept_grains.len() < LISTED {
                self.kept_grains.push(KeptGrain {
                    content_address: address,
                    policy: policy.policy.clone(),
                    exemption: exemption.clone(),
                });
            }
        }
    }
}
