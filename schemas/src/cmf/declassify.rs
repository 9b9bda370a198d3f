//! Declassification: the only way to remove a label, which requires an authority and a reason and
//! yields an audit record (§3.6, §5.1).
//!
//! The host decides who may declassify. It gets a [`Declassifier`] from
//! [`authorise_declassification`], the only function that creates one. A `Declassifier` is good for
//! one removal, which returns the record.

use chrono::{DateTime, FixedOffset};

use super::json_record::record;
use super::labels::Labels;
use super::tier::{TierViolation, check_labels_grew};

/// The right to remove labels once. It can't be copied or created elsewhere.
#[derive(Debug)]
pub struct Declassifier {
    authority: String,
    reason: String,
    at: DateTime<FixedOffset>,
}

/// An unauthorised declassification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeclassificationError {
    /// The authority is missing.
    #[error("a declassification needs an authority")]
    NoAuthority,
    /// The reason is missing.
    #[error("a declassification needs a reason")]
    NoReason,
}

record! {
    /// The record of a declassification, for the host's audit log.
    #[derive(Eq)]
    #[must_use = "a declassification must be audited"]
    pub struct Declassification {
        /// The removed labels.
        required removed: Labels,
        /// The remaining labels.
        required remaining: Labels,
        /// The authority.
        required authority: String,
        /// The reason.
        required reason: String,
        /// The time.
        required at: DateTime<FixedOffset>,
    }
}

/// Grants the right to remove labels once. **Privileged**: the caller vouches that `authority` may
/// declassify; processing components must not call it.
///
/// # Errors
/// [`DeclassificationError`] if authority or reason are blank.
pub fn authorise_declassification(
    authority: &str,
    reason: &str,
    at: DateTime<FixedOffset>,
) -> Result<Declassifier, DeclassificationError> {
    if authority.trim().is_empty() {
        return Err(DeclassificationError::NoAuthority);
    }
    if reason.trim().is_empty() {
        return Err(DeclassificationError::NoReason);
    }
    Ok(Declassifier {
        authority: authority.to_owned(),
        reason: reason.to_owned(),
        at,
    })
}

impl Declassifier {
    /// Removes those of `names` that are in `labels`; returns the record.
    pub fn remove<'l>(
        self,
        labels: &mut Labels,
        names: impl IntoIterator<Item = &'l str>,
    ) -> Declassification {
        let removed = names.into_iter().filter(|name| labels.take(name)).collect();
        Declassification {
            removed,
            remaining: labels.clone(),
            authority: self.authority,
            reason: self.reason,
            at: self.at,
        }
    }
}

/// Checks a change of labels: additions are always allowed, removals require a [`Declassifier`] and
/// yield its record.
///
/// # Errors
/// [`TierViolation`] if labels were removed without a [`Declassifier`].
pub fn accept_labels(
    before: &Labels,
    after: &Labels,
    declassifier: Option<Declassifier>,
) -> Result<Option<Declassification>, TierViolation> {
    let Err(violation) = check_labels_grew(before, after) else {
        return Ok(None);
    };
    let Some(declassifier) = declassifier else {
        return Err(violation);
    };
    let mut labels = Labels::union([before, after]);
    Ok(Some(declassifier.remove(
        &mut labels,
        before.iter().filter(|label| !after.contains(label)),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> DateTime<FixedOffset> {
        DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z").unwrap()
    }

    #[test]
    fn a_declassification_records_labels_authority_and_reason() {
        let mut labels: Labels = ["PII", "SECRET"].into_iter().collect();
        let declassifier =
            authorise_declassification("dpo@example.org", "released after review", at()).unwrap();
        let record = declassifier.remove(&mut labels, ["SECRET", "never there"]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), ["PII"]);
        assert_eq!(record.removed.iter().collect::<Vec<_>>(), ["SECRET"]);
        assert_eq!(
            (record.authority.as_str(), record.reason.as_str()),
            ("dpo@example.org", "released after review")
        );
        assert_eq!(Declassification::parse(&record.to_json()), Ok(record));
    }

    #[test]
    fn authority_and_reason_are_required() {
        assert_eq!(
            authorise_declassification(" ", "why", at()).unwrap_err(),
            DeclassificationError::NoAuthority
        );
        assert_eq!(
            authorise_declassification("who", "", at()).unwrap_err(),
            DeclassificationError::NoReason
        );
    }

    #[test]
    fn a_removal_without_declassifier_is_a_violation() {
        let (before, after): (Labels, Labels) =
            (["PII"].into_iter().collect(), ["X"].into_iter().collect());
        assert!(accept_labels(&before, &after, None).is_err());
        let grown: Labels = ["PII", "X"].into_iter().collect();
        assert_eq!(accept_labels(&before, &grown, None), Ok(None));
        let declassifier = authorise_declassification("who", "why", at()).unwrap();
        let record = accept_labels(&before, &after, Some(declassifier))
            .unwrap()
            .unwrap();
        assert_eq!((record.removed, record.remaining), (before, after));
    }
}
