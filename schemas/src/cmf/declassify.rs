//! The one way to take a label out: privileged, for a reason, on the record (§3.6, §5.1).
//!
//! Whoever may declassify is the host's to decide. It gets a [`Declassifier`] from
//! [`authorise_declassification`], which is the only function that makes one; it is good for one
//! removal, and the removal answers with the record of it.

use chrono::{DateTime, FixedOffset};

use super::labels::Labels;
use super::record::record;
use super::tier::{TierViolation, labels_only_grew};

/// The right to take labels out, once. Can be neither copied nor made elsewhere.
#[derive(Debug)]
pub struct Declassifier {
    authority: String,
    reason: String,
    at: DateTime<FixedOffset>,
}

/// A declassification that nobody answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeclassificationError {
    /// It isn't said who declassifies.
    #[error("a declassification needs an authority")]
    NoAuthority,
    /// It isn't said why.
    #[error("a declassification needs a reason")]
    NoReason,
}

record! {
    /// What a declassification did: belongs in the host's audit log.
    #[derive(Eq)]
    #[must_use = "a declassification must be audited"]
    pub struct Declassification {
        /// The labels that were removed.
        required removed: Labels,
        /// The labels that are left.
        required remaining: Labels,
        /// Who removed them.
        required authority: String,
        /// Why.
        required reason: String,
        /// When.
        required at: DateTime<FixedOffset>,
    }
}

/// Gives the right to take labels out, once. **Privileged**: the caller vouches that `authority`
/// may declassify; processing components have no business calling this.
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
    /// Takes `names` out of `labels`, as far as they are there, and answers with the record.
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

/// Checks a change of labels: growth is free, removal takes a [`Declassifier`] and gives its
/// record.
///
/// # Errors
/// [`TierViolation`] if labels were removed without one.
pub fn accept_labels(
    before: &Labels,
    after: &Labels,
    declassifier: Option<Declassifier>,
) -> Result<Option<Declassification>, TierViolation> {
    let Err(violation) = labels_only_grew(before, after) else {
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
    fn a_declassification_says_what_went_by_whom_and_why() {
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
    fn nobody_declassifies_anonymously_or_without_a_reason() {
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
    fn a_removal_without_the_right_is_a_violation() {
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
