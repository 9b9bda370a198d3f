//! Consents and their withdrawals (§8.10), read from columns of `grains`.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int16Type;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::{Field, GrainType};
use rustc_hash::FxHashMap;

use super::{SurveyRun, matcher_of};
use crate::error::Result;
use crate::index::word_filter::WordFilter;
use crate::lake::{reference_at, text_at, texts};
use crate::policy::may_withdraw;

/// The columns that [`consents`] and [`withdrawals`] read.
const CONSENT_COLUMNS: [&str; 5] = [
    SystemColumn::TypeByte.name(),
    SystemColumn::ContentAddress.name(),
    Field::SubjectDid.name(),
    Field::PriorConsent.name(),
    Field::IsWithdrawal.name(),
];

impl SurveyRun<'_> {
    /// Makes the matcher select the grains whose consent was withdrawn.
    pub(super) async fn match_withdrawn_consents(&mut self) -> Result<()> {
        self.withdrawn = self.withdrawn_consents().await?;
        let matcher = matcher_of(self.request, &self.withdrawn, self.references, self.now);
        self.matcher = Arc::new(matcher);
        Ok(())
    }

    /// Returns the consents that withdrawals name, each with those who withdraw it.
    async fn named_in_withdrawals(&self) -> Result<Withdrawals> {
        let mut named = Withdrawals::default();
        for number in 0..self.survey.segments.len() {
            if self.rules_out(number, WordFilter::has_withdrawals) {
                continue;
            }
            for (prior, by) in self.each_consent(number, withdrawals).await? {
                named.entry(prior).or_default().insert(by);
            }
        }
        Ok(named)
    }

    /// Returns the addresses of the consents that their subjects have withdrawn (§8.10).
    async fn withdrawn_consents(&self) -> Result<Vec<String>> {
        let named = Arc::new(self.named_in_withdrawals().await?);
        let mut withdrawn = Vec::new();
        for number in 0..self.survey.segments.len() {
            if named.is_empty() || self.rules_out(number, |filter| may_hold_any(filter, &named)) {
                continue;
            }
            let named = Arc::clone(&named);
            let pick = move |batch: &RecordBatch| withdrawn_in(batch, &named);
            let consents = self.each_consent(number, pick).await?;
            withdrawn.extend(consents.into_iter().map(|(consent, _)| consent.to_string()));
        }
        Ok(withdrawn)
    }

    /// Collects what `pick` returns for each batch of segment `number`, with the columns
    /// [`CONSENT_COLUMNS`].
    async fn each_consent<P>(&self, number: usize, pick: P) -> Result<Vec<(ContentAddress, String)>>
    where
        P: Fn(&RecordBatch) -> Vec<(ContentAddress, String)> + Send + Sync + 'static,
    {
        let Some(file) = self.open(number).await? else {
            return Ok(Vec::new());
        };
        let batches = self
            .on_cores(move || file.map_batches(Some(&CONSENT_COLUMNS), |_, batch| Ok(pick(batch))))
            .await?;
        Ok(batches.into_iter().flatten().collect())
    }
}

/// Consents that are named by withdrawals, each with the DIDs of those who withdraw it.
type Withdrawals = FxHashMap<ContentAddress, HashSet<String>>;

fn may_hold_any(filter: &WordFilter, named: &Withdrawals) -> bool {
    named
        .keys()
        .any(|consent| filter.may_hold(&consent.to_string()))
}

/// Returns the consents in `batch` that were withdrawn by a person who may (§8.10).
fn withdrawn_in(batch: &RecordBatch, named: &Withdrawals) -> Vec<(ContentAddress, String)> {
    let is_withdrawn = |(consent, subject): &(ContentAddress, String)| {
        let by = named.get(consent).into_iter().flatten();
        by.into_iter()
            .any(|by| may_withdraw(Some(by), Some(subject)))
    };
    consents(batch, SystemColumn::ContentAddress.name(), |_| true)
        .filter(is_withdrawn)
        .collect()
}

/// Returns the consents among the rows for which `wanted` holds: the address in the column `name`,
/// and the subject.
fn consents(
    batch: &RecordBatch,
    name: &str,
    wanted: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (ContentAddress, String)> {
    let (addresses, subjects) = (texts(batch, name), texts(batch, Field::SubjectDid.name()));
    let types = batch
        .column_by_name(CONSENT_COLUMNS[0])
        .and_then(|column| column.as_primitive_opt::<Int16Type>());
    let is_consent = move |row: &usize| {
        types.is_some_and(|types| types.value(*row) == GrainType::Consent as i16)
    };
    let rows = (0..batch.num_rows())
        .filter(is_consent)
        .filter(move |row| wanted(*row));
    rows.filter_map(move |row| {
        Some((
            reference_at(addresses, row)?,
            text_at(subjects, row)?.to_owned(),
        ))
    })
}

/// Returns the consents that the withdrawals of a batch name, and the DID of who withdraws.
fn withdrawals(batch: &RecordBatch) -> Vec<(ContentAddress, String)> {
    let flags = batch
        .column_by_name(Field::IsWithdrawal.name())
        .and_then(|column| column.as_boolean_opt());
    let is_withdrawal =
        |row: usize| flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row));
    consents(batch, Field::PriorConsent.name(), is_withdrawal).collect()
}
