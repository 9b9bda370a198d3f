//! Counts of grains beyond the limits of a device profile (§18), among the marks of reports.
//!
//! They depend on the profile that a run requests, so they are no marks of rows.

use std::collections::BTreeMap;

use gristmill_schemas::grain::{DeviceProfile, Grain};

/// The names under which reports count grains whose blob is too large, that have too many levels,
/// and that have fields which the profile doesn't have.
const NAMES: [&str; 3] = [
    "beyond_profile_size",
    "beyond_profile_depth",
    "beyond_profile_fields",
];

/// Returns true if a report with these counts has grains beyond the limits of a profile.
pub fn is_beyond_profile(marks: &BTreeMap<String, u64>) -> bool {
    NAMES.iter().any(|name| marks.contains_key(*name))
}

/// Grains beyond the limits of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProfileCounts([u64; NAMES.len()]);

impl ProfileCounts {
    /// Counts `grain`, whose blob has `size` bytes, if it is beyond a limit of `profile`.
    pub(crate) fn add(&mut self, profile: Option<DeviceProfile>, grain: &Grain<'_>, size: usize) {
        let Some(profile) = profile else {
            return;
        };
        let beyond = profile.beyond(grain, size);
        let [sizes, depths, fields] = &mut self.0;
        *sizes += u64::from(beyond.size.is_some());
        *depths += u64::from(beyond.depth.is_some());
        *fields += u64::from(!beyond.fields.is_empty());
    }

    /// Adds the counts of other grains.
    pub(crate) fn merge(&mut self, other: ProfileCounts) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// Returns the counts that aren't zero, with their names.
    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
    }
}
