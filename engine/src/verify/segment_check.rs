//! The check of one segment as a message, for a lake that several processes check: each opens the
//! lake, and checks segments of it as [`verify_lake`](super::verify_lake) does.

use std::sync::Arc;

use gristmill_schemas::grain::{DecodeMode, DeviceProfile};
use serde::{Deserialize, Serialize};

use super::VerifyOptions;
use super::lake::verify_segment;
use super::report::VerifyReport;
use super::scope::{Subset, VerifyScope};
use crate::error::{EngineError, Result};
use crate::keys::{TrustStore, TrustedKey};
use crate::lake::{Lake, SegmentJob};

/// The check of one segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentCheck {
    /// Name of its data file.
    pub file: String,
    /// How it is checked.
    #[serde(flatten)]
    pub settings: SegmentSettings,
}

/// How every segment of a lake is checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SegmentSettings {
    /// Part of the row groups, by their names; all if it is `None`.
    pub subset: Option<Subset>,
    /// Accept grains that are readable but not canonical or not complete.
    pub lenient: bool,
    /// Maximum number of problems that are listed.
    pub problems: usize,
    /// Counts the grains beyond the limits of this device profile.
    pub device_profile: Option<DeviceProfile>,
    /// The keys that signers without a `did:key` are trusted with.
    pub trusted_keys: Vec<TrustedKey>,
}

impl SegmentJob for SegmentCheck {
    type Outcome = VerifyReport;
}

impl SegmentSettings {
    /// Returns the settings of `options` for the part `scope` of the lake.
    ///
    /// # Errors
    /// [`EngineError::Request`] for what a segment alone can't answer: parts that begin where the
    /// last check ended, time limits, and sidecars that are built again.
    pub(super) fn of(
        options: &VerifyOptions,
        scope: VerifyScope,
        trusted_keys: Vec<TrustedKey>,
    ) -> Result<SegmentSettings> {
        let refused = |what: &str| {
            Err(EngineError::Request(format!(
                "a check by several machines has no {what}; check parts such as --subset 3/7"
            )))
        };
        match () {
            () if scope.max_duration.is_some() => refused("time limit"),
            () if scope.rolls() => refused("part that begins where the last check ended"),
            () if options.sidecars => refused("comparison with rebuilt sidecars (--sidecars)"),
            () => Ok(SegmentSettings {
                subset: scope.subset,
                lenient: options.mode == DecodeMode::Lenient,
                problems: options.problems,
                device_profile: options.device_profile,
                trusted_keys,
            }),
        }
    }

    fn options(&self) -> Result<VerifyOptions> {
        let trusted = TrustStore::of(self.trusted_keys.clone())
            .map_err(|error| EngineError::Request(format!("a trusted key: {error}")))?;
        Ok(VerifyOptions {
            mode: match self.lenient {
                true => DecodeMode::Lenient,
                false => DecodeMode::StrictAliased,
            },
            threads: 1,
            problems: self.problems,
            resolver: Arc::new(trusted),
            device_profile: self.device_profile,
            ..VerifyOptions::default()
        })
    }
}

/// Checks one segment of `lake` on one thread: data file, rows and sidecars, but no other table.
///
/// # Errors
/// [`EngineError::Request`] if the segment isn't part of the lake any more; otherwise as
/// [`verify_lake`](super::verify_lake).
pub async fn check_segment(lake: &Lake, check: &SegmentCheck) -> Result<VerifyReport> {
    let segment = lake.segment_of_file(&check.file)?;
    let scope = VerifyScope {
        subset: check.settings.subset,
        max_duration: None,
    };
    let options = check.settings.options()?;
    verify_segment(lake, segment, scope, &options, Arc::default()).await
}
