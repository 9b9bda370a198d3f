//! Reading cells of lake tables: texts, addresses, and the columns by which grains refer to others.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

/// Returns the text column `name` of a batch, or `None` if it is missing or has another type.
pub(crate) fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

/// Returns the text of `row`, or `None` if it is null.
pub(crate) fn text_at(column: Option<&StringArray>, row: usize) -> Option<&str> {
    column
        .filter(|column| column.is_valid(row))
        .map(|column| column.value(row))
}

/// Returns the address of `row` in a column of addresses.
pub(crate) fn address_at(column: Option<&StringArray>, row: usize) -> Option<ContentAddress> {
    text_at(column, row).and_then(|text| text.parse().ok())
}

/// Returns the address of `row` in a column by which grains refer to others, with or without the
/// prefix `sha256:`.
pub(crate) fn reference_at(column: Option<&StringArray>, row: usize) -> Option<ContentAddress> {
    text_at(column, row).and_then(ContentAddress::from_reference)
}

/// How one grain refers to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// By `derived_from`.
    DerivedFrom,
    /// Its content comes from the other: provenance, premises, a disclosed copy.
    Source,
    /// Any other reference.
    Reference,
}

/// The columns with addresses of other grains.
const LINKS: [(&str, Link); 15] = [
    (Field::DerivedFrom.name(), Link::DerivedFrom),
    (Field::ProvenanceChain.name(), Link::Source),
    (Field::Premises.name(), Link::Source),
    (Field::DisclosureOf.name(), Link::Source),
    (Field::RelatedTo.name(), Link::Reference),
    (Field::ParentMessageId.name(), Link::Reference),
    (Field::ParentGoals.name(), Link::Reference),
    (Field::SatisfactionEvidence.name(), Link::Reference),
    (Field::DependsOn.name(), Link::Reference),
    (Field::OutputGrain.name(), Link::Reference),
    (Field::PriorConsent.name(), Link::Reference),
    (Field::DissentGrains.name(), Link::Reference),
    (Field::ContextGrains.name(), Link::Reference),
    (Field::RollbackOnFailure.name(), Link::Reference),
    (SystemColumn::Supersedes.name(), Link::Reference),
];

/// Returns the names of the link columns.
pub(crate) fn link_columns() -> Vec<&'static str> {
    LINKS.iter().map(|(name, _)| *name).collect()
}

/// Calls `found` with the row, kind and target of every link in `batch`.
pub(crate) fn links(batch: &RecordBatch, mut found: impl FnMut(usize, Link, ContentAddress)) {
    for (name, link) in LINKS {
        let Some(column) = batch
            .column_by_name(name)
            .filter(|column| column.null_count() < column.len())
        else {
            continue;
        };
        each_text(column, |row, text| {
            if let Some(target) = ContentAddress::from_reference(text) {
                found(row, link, target);
            }
        });
    }
}

/// Calls `found` with every text in a column of texts, of lists of texts, or of lists of structs
/// whose texts are addresses.
fn each_text(column: &ArrayRef, mut found: impl FnMut(usize, &str)) {
    if let Some(texts) = column.as_string_opt::<i32>() {
        (0..texts.len())
            .filter(|row| texts.is_valid(*row))
            .for_each(|row| found(row, texts.value(row)));
        return;
    }
    let Some(lists) = column.as_list_opt::<i32>() else {
        return;
    };
    let members: Vec<&StringArray> = match lists.values().as_struct_opt() {
        Some(items) => items
            .columns()
            .iter()
            .filter_map(|member| member.as_string_opt::<i32>())
            .collect(),
        None => lists.values().as_string_opt::<i32>().into_iter().collect(),
    };
    for (row, bounds) in lists.value_offsets().windows(2).enumerate() {
        let &[start, end] = bounds else { continue };
        for member in &members {
            for item in (start as usize..end as usize).filter(|item| member.is_valid(*item)) {
                found(row, member.value(item));
            }
        }
    }
}
