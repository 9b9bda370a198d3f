//! The current lifecycle state of grains: the fold of `state`.
//!
//! Of several events of one kind the latest counts; of equally late ones, that which was written last.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::LifecycleEvent;
use gristmill_schemas::container::{IndexState, VerificationStatus};

use super::Lake;
use super::records::read_file;
use crate::error::{Context, Result};

/// The columns that the fold needs.
const COLUMNS: [&str; 4] = ["content_address", "event", "value", "at"];

/// What is known of one grain while events are folded.
#[derive(Debug, Default)]
struct Fold {
    superseded: Option<(i64, ContentAddress)>,
    expired: Option<i64>,
    verification: Option<(i64, VerificationStatus)>,
}

impl Fold {
    fn apply(&mut self, event: &str, value: Option<&str>, at: i64) {
        let later = |known: Option<i64>| known.is_none_or(|known| known <= at);
        if event == LifecycleEvent::Superseded.name() {
            let successor = value.and_then(|value| value.parse().ok());
            if let Some(successor) = successor.filter(|_| later(self.superseded.map(|(at, _)| at))) {
                self.superseded = Some((at, successor));
            }
        } else if event == LifecycleEvent::Expired.name() {
            self.expired = self.expired.max(Some(at));
        } else if event == LifecycleEvent::Verification.name() {
            let status = value.and_then(VerificationStatus::from_name);
            if let Some(status) = status.filter(|_| later(self.verification.map(|(at, _)| at))) {
                self.verification = Some((at, status));
            }
        }
    }

    /// The fields that a manifest carries to other stores; `None` if all are at their defaults.
    fn portable(&self) -> Option<IndexState> {
        let until = self.superseded.map(|(at, _)| at).or(self.expired);
        let state = IndexState {
            superseded_by: self.superseded.map(|(_, successor)| successor),
            system_valid_to: until.map(|at| at.div_euclid(1_000)),
            verification_status: self.verification.map(|(_, status)| status),
            ..IndexState::default()
        };
        (state != IndexState::default()).then_some(state)
    }
}

impl Lake {
    /// The portable index-layer fields (§11.7) of the grains that `wanted` picks, as of the version that the handle sees.
    /// Reads all of `state`, file by file; holds only what is wanted.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File), [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub async fn portable_states(
        &self,
        wanted: impl Fn(&ContentAddress) -> bool,
    ) -> Result<BTreeMap<ContentAddress, IndexState>> {
        let mut folds: BTreeMap<ContentAddress, Fold> = BTreeMap::new();
        for file in self.state.files()? {
            let path = self.state.path_of(&file.name);
            let bytes = self.location().read(&path).await?;
            for batch in read_file(bytes, &COLUMNS).file("can't read", &path)? {
                let text = |at: usize| batch.column(at).as_string::<i32>();
                let (addresses, events, values) = (text(0), text(1), text(2));
                let instants = batch.column(3).as_primitive::<TimestampMicrosecondType>();
                for row in 0..batch.num_rows() {
                    let Ok(address) = addresses.value(row).parse::<ContentAddress>() else { continue };
                    if wanted(&address) {
                        let value = values.is_valid(row).then(|| values.value(row));
                        folds.entry(address).or_default().apply(events.value(row), value, instants.value(row));
                    }
                }
            }
        }
        Ok(folds.into_iter().filter_map(|(address, fold)| Some((address, fold.portable()?))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_event_of_a_kind_counts_whatever_the_order() {
        let (first, second) = (ContentAddress::of(b"1"), ContentAddress::of(b"2"));
        let mut fold = Fold::default();
        fold.apply("superseded", Some(&second.to_string()), 5_000_000);
        fold.apply("superseded", Some(&first.to_string()), 4_000_000);
        fold.apply("verification", Some("verified"), 1);
        fold.apply("verification", Some("retracted"), 1);
        fold.apply("accessed", Some("7"), 9_000_000);
        let state = fold.portable().unwrap();
        assert_eq!(state.superseded_by, Some(second));
        assert_eq!(state.system_valid_to, Some(5_000));
        assert_eq!(state.verification_status, Some(VerificationStatus::Retracted));
        assert_eq!(state.access_count, None);
    }

    #[test]
    fn events_that_stay_in_this_store_or_make_no_sense_carry_nothing() {
        let mut fold = Fold::default();
        fold.apply("accessed", Some("7"), 1);
        fold.apply("superseded", Some("nobody"), 1);
        fold.apply("verification", Some("perhaps"), 1);
        assert_eq!(fold.portable(), None);
        fold.apply("expired", None, 2_500);
        assert_eq!(fold.portable().unwrap().system_valid_to, Some(2));
    }
}
