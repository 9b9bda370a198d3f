//! Consents and their withdrawals (§8.10), as the columns of `grains` tell them.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int16Type;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::{Field, GrainType};

use crate::lake::{reference_at, text_at, texts};

/// The columns that [`consents`] and [`withdrawals`] need.
pub(super) const CONSENT_COLUMNS: [&str; 5] = [
    IdentityColumn::TypeByte.name(),
    IdentityColumn::ContentAddress.name(),
    Field::SubjectDid.name(),
    Field::PriorConsent.name(),
    Field::IsWithdrawal.name(),
];

/// The consents among the rows that `wanted` picks: the address in the column `name`, and the
/// subject.
pub(super) fn consents(
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

/// The consents that the withdrawals of a batch name, and by whom.
pub(super) fn withdrawals(batch: &RecordBatch) -> Vec<(ContentAddress, String)> {
    let flags = batch
        .column_by_name(Field::IsWithdrawal.name())
        .and_then(|column| column.as_boolean_opt());
    let is_withdrawal =
        |row: usize| flags.is_some_and(|flags| flags.is_valid(row) && flags.value(row));
    consents(batch, Field::PriorConsent.name(), is_withdrawal).collect()
}
