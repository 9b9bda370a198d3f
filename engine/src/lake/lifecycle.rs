//! The lifecycle state that travels with grains: the fold of `state`, and of what grains supersede by their own word.
//!
//! It is folded as SQL's `lifecycle` is: the first that took a grain's place is its successor, the first event that ended it is
//! its end, and of several verifications the latest counts; at the same instant the lesser successor and the greater status.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{IdentityColumn, LifecycleEvent};
use gristmill_schemas::container::{IndexState, VerificationStatus};
use gristmill_schemas::grain::Field;

use super::Lake;
use super::records::read_file;
use crate::erase::rows::{OpenFile, links, text_at, texts};
use crate::error::{Context, Result};

/// The columns that the fold needs.
const COLUMNS: [&str; 4] = ["content_address", "event", "value", "at"];

/// What is known of one grain while events are folded.
#[derive(Debug, Default)]
struct Fold {
    superseded: Option<(i64, ContentAddress)>,
    ended: Option<i64>,
    verification: Option<(i64, VerificationStatus)>,
}

impl Fold {
    fn apply(&mut self, event: &str, value: Option<&str>, at: i64) {
        if event == LifecycleEvent::Superseded.name() {
            self.ends(at);
            self.superseded_by(value.and_then(|value| value.parse().ok()), at);
        } else if event == LifecycleEvent::Expired.name() {
            self.ends(at);
        } else if event == LifecycleEvent::Verification.name() {
            let status = value.and_then(VerificationStatus::from_name);
            let rank = |(at, status): (i64, VerificationStatus)| (at, status.name());
            if let Some(told) = status.map(|status| (at, status))
                && self.verification.is_none_or(|known| rank(known) <= rank(told))
            {
                self.verification = Some(told);
            }
        }
    }

    fn ends(&mut self, at: i64) {
        self.ended = Some(self.ended.map_or(at, |ended| ended.min(at)));
    }

    fn superseded_by(&mut self, successor: Option<ContentAddress>, at: i64) {
        let told = successor.map(|successor| (at, successor));
        self.superseded =
            self.superseded.into_iter().chain(told).min_by_key(|(at, successor)| (*at, successor.to_string()));
    }

    /// The fields that a manifest carries to other stores; `None` if all are at their defaults.
    fn portable(&self) -> Option<IndexState> {
        let state = IndexState {
            superseded_by: self.superseded.map(|(_, successor)| successor),
            system_valid_to: self.ended.map(|at| at.div_euclid(1_000)),
            verification_status: self.verification.map(|(_, status)| status),
            ..IndexState::default()
        };
        (state != IndexState::default()).then_some(state)
    }
}

impl Lake {
    /// The portable index-layer fields (§11.7) of the grains that `wanted` picks, as of the version that the handle sees.
    /// Reads all of `state` and what all grains supersede, file by file; holds only what is wanted.
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
        for segment in self.segments()? {
            let path = self.grains.path_of(&segment.file.name);
            let file = OpenFile::open(self, &path).await?;
            let told = tokio::task::spawn_blocking(move || own_words(&file)).await.file("can't read", &path)??;
            for (old, new, at) in told.into_iter().filter(|(old, ..)| wanted(old)) {
                folds.entry(old).or_default().apply(LifecycleEvent::Superseded.name(), Some(&new), at);
            }
        }
        Ok(folds.into_iter().filter_map(|(address, fold)| Some((address, fold.portable()?))).collect())
    }
}

/// What the grains of `file` supersede by their own rows: which, by whom, and when those were made.
fn own_words(file: &OpenFile) -> Result<Vec<(ContentAddress, String, i64)>> {
    let supersedes = IdentityColumn::Supersedes.name();
    let [address, created, ingested] =
        [IdentityColumn::ContentAddress.name(), Field::CreatedAt.name(), IdentityColumn::IngestedAt.name()];
    // Most grains supersede nothing: only of those that do more is read.
    let rows = file.each(Some(&[supersedes]), |first, batch| {
        let column = batch.column_by_name(supersedes);
        let stated = |row: &usize| column.is_some_and(|column| column.is_valid(*row));
        Ok((0..batch.num_rows()).filter(stated).map(|row| first + row as u32).collect::<Vec<_>>())
    })?;
    let rows = rows.concat();
    let mut out = Vec::new();
    if rows.is_empty() {
        return Ok(out);
    }
    for batch in file.pick(&[supersedes, address, created, ingested], &rows)? {
        let instants = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<TimestampMicrosecondType>();
        let (created, ingested) = (instants(created), instants(ingested));
        links(&batch, |row, _, old| {
            let at = [created, ingested].into_iter().flatten().find(|column| column.is_valid(row));
            let new = text_at(texts(&batch, address), row);
            out.extend(new.zip(at).map(|(new, at)| (old, new.to_owned(), at.value(row))));
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_successor_and_the_latest_verification_count_whatever_the_order() {
        let (first, second) = (ContentAddress::of(b"1"), ContentAddress::of(b"2"));
        let mut fold = Fold::default();
        fold.apply("superseded", Some(&second.to_string()), 5_000_000);
        fold.apply("superseded", Some(&first.to_string()), 4_000_000);
        fold.apply("verification", Some("retracted"), 2);
        fold.apply("verification", Some("verified"), 1);
        fold.apply("accessed", Some("7"), 9_000_000);
        let state = fold.portable().unwrap();
        assert_eq!(state.superseded_by, Some(first));
        assert_eq!(state.system_valid_to, Some(4_000));
        assert_eq!(state.verification_status, Some(VerificationStatus::Retracted));
        assert_eq!(state.access_count, None);
    }

    #[test]
    fn events_that_stay_in_this_store_or_make_no_sense_carry_nothing() {
        let mut fold = Fold::default();
        fold.apply("accessed", Some("7"), 1);
        fold.apply("verification", Some("perhaps"), 1);
        assert_eq!(fold.portable(), None);
        fold.apply("expired", None, 2_500);
        assert_eq!(fold.portable().unwrap().system_valid_to, Some(2));
        // Its successor was erased, and its name with it.
        let mut fold = Fold::default();
        fold.apply("superseded", None, 3_000);
        let state = fold.portable().unwrap();
        assert_eq!((state.superseded_by, state.system_valid_to), (None, Some(3)));
    }
}
