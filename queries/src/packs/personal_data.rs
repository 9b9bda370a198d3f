//! The columns `personal_data` and `personal_data_in`: which texts of grains the detectors search,
//! and what they find in a batch.
//!
//! The columns follow from the field table of the specification: every column with text is
//! searched, at any depth, unless [`is_left_out`] names its field. A new field is searched without
//! further ado.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field as ArrowField};
use gristmill_schemas::columns::column_type;
use gristmill_schemas::grain::Field;

use crate::detect::{self, PersonalDataKinds};

/// Computed column: kinds of personal data.
pub(super) const PERSONAL_DATA: &str = "personal_data";

/// Computed column: names of the columns with personal data.
pub(super) const PERSONAL_DATA_IN: &str = "personal_data_in";

/// Returns the fields of the computed columns.
pub(super) fn computed_fields() -> [ArrowField; 2] {
    let kinds = DataType::List(Arc::new(element()));
    [
        ArrowField::new(PERSONAL_DATA, kinds, true),
        ArrowField::new(PERSONAL_DATA_IN, DataType::Utf8, true),
    ]
}

fn element() -> ArrowField {
    ArrowField::new("element", DataType::Utf8, true)
}

/// Returns the names of the columns that are searched.
pub(super) fn searched_columns() -> impl Iterator<Item = &'static str> {
    let fields = Field::ALL.iter().copied();
    fields
        .filter(|field| column_type(*field).is_some_and(|kind| has_text(&kind)))
        .filter(|field| !is_left_out(*field))
        .map(Field::name)
}

fn has_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 => true,
        DataType::List(item) => has_text(item.data_type()),
        DataType::Struct(members) => members.iter().any(|member| has_text(member.data_type())),
        _ => false,
    }
}

/// Returns whether the detectors don't search `field`, although its column has text.
const fn is_left_out(field: Field) -> bool {
    match field {
        // They name a person, session or call by purpose: an e-mail address as the id of a user
        // would make every grain of the lake a finding. And a long number among random ids has the
        // check digits of a payment card now and then.
        Field::UserId
        | Field::EntityId
        | Field::AuthorDid
        | Field::OriginDid
        | Field::ObserverDid
        | Field::SubjectDid
        | Field::GranteeDid
        | Field::WitnessDids
        | Field::Namespace
        | Field::OriginNamespace
        | Field::AuthorizedNamespaces
        | Field::SessionId
        | Field::RunId
        | Field::ObserverId
        | Field::FrameId
        | Field::SyncGroup
        | Field::InterpreterId
        | Field::ParentMessageId
        | Field::ParentTaskId
        | Field::ToolCallId
        | Field::CallBatchId => true,
        // Versions have the form of IP addresses, ids of models contain numbers of accounts, and
        // the counts of a response have no text.
        Field::ModelId | Field::ObserverModel | Field::ToolVersion | Field::TokenUsage => true,
        _ => false,
    }
}

/// Kinds of personal data in one row, and the columns that contain them.
#[derive(Default)]
struct FoundInRow {
    kinds: PersonalDataKinds,
    columns: Vec<&'static str>,
}

/// Computes the columns of personal data of `batch`; searches each text once.
pub(super) fn personal_data(batch: &RecordBatch) -> [ArrayRef; 2] {
    let mut found: BTreeMap<usize, FoundInRow> = BTreeMap::new();
    for name in searched_columns() {
        let Some(column) = batch.column_by_name(name) else {
            continue;
        };
        visit_texts(column, &mut |row, text| {
            let kinds = kinds_of(text);
            if kinds.is_empty() {
                return;
            }
            let found = found.entry(row).or_default();
            kinds.iter().for_each(|kind| found.kinds.insert(kind));
            if found.columns.last() != Some(&name) {
                found.columns.push(name);
            }
        });
    }
    columns_of(&found, batch.num_rows())
}

fn columns_of(found: &BTreeMap<usize, FoundInRow>, rows: usize) -> [ArrayRef; 2] {
    let mut kinds = ListBuilder::new(StringBuilder::new()).with_field(element());
    let mut places = StringBuilder::new();
    for row in 0..rows {
        let found = found.get(&row);
        if let Some(found) = found {
            found
                .kinds
                .iter()
                .for_each(|kind| kinds.values().append_value(kind.name()));
        }
        kinds.append(found.is_some());
        places.append_option(found.map(|found| found.columns.join(", ")));
    }
    [Arc::new(kinds.finish()), Arc::new(places.finish())]
}

/// Returns the kinds of personal data in `text`; none in an address of a grain.
fn kinds_of(text: &str) -> PersonalDataKinds {
    let is_address = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_address {
        true => PersonalDataKinds::default(),
        false => detect::kinds(text),
    }
}

/// Calls `visit` with every text of `array`, at any depth of lists and structs, and its row.
fn visit_texts(array: &ArrayRef, visit: &mut dyn FnMut(usize, &str)) {
    if array.null_count() == array.len() {
        return;
    }
    if let Some(texts) = array.as_string_opt::<i32>() {
        let texts = texts.iter().enumerate();
        texts.for_each(|(row, text)| text.into_iter().for_each(|text| visit(row, text)));
    } else if let Some(lists) = array.as_list_opt::<i32>() {
        let offsets = lists.value_offsets();
        let first = offsets.first().map_or(0, |offset| *offset as usize);
        let last = offsets.last().map_or(0, |offset| *offset as usize);
        let items = lists.values().slice(first, last - first);
        visit_texts(&items, &mut |item, text| {
            let ended = offsets.partition_point(|offset| *offset as usize <= first + item);
            let row = ended.saturating_sub(1);
            if lists.is_valid(row) {
                visit(row, text);
            }
        });
    } else if let Some(structs) = array.as_struct_opt() {
        for member in structs.columns() {
            visit_texts(member, &mut |row, text| {
                if structs.is_valid(row) {
                    visit(row, text);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListArray, StringArray, StructArray, new_null_array};
    use arrow::buffer::{NullBuffer, OffsetBuffer};

    use super::*;

    /// Returns three cells of type `kind`, of which the second contains an e-mail address in every
    /// text.
    fn cells(kind: &DataType) -> ArrayRef {
        let nulls = || Some(NullBuffer::from(vec![false, true, false]));
        match kind {
            DataType::Utf8 => {
                let texts = [None, Some("write to ada@example.com"), None];
                Arc::new(StringArray::from_iter(texts))
            }
            DataType::List(item) => {
                let offsets = OffsetBuffer::from_lengths([0, 3, 0]);
                let items = cells(item.data_type());
                Arc::new(ListArray::new(Arc::clone(item), offsets, items, nulls()))
            }
            DataType::Struct(members) => {
                let columns = members.iter().map(|member| cells(member.data_type()));
                let columns = columns.collect();
                Arc::new(StructArray::new(members.clone(), columns, nulls()))
            }
            other => new_null_array(other, 3),
        }
    }

    #[test]
    fn every_column_with_text_is_searched_at_any_depth_or_left_out_by_name() {
        let mut searched = 0;
        for field in Field::ALL.iter().copied() {
            let Some(kind) = column_type(field).filter(has_text) else {
                continue;
            };
            let batch =
                RecordBatch::try_from_iter_with_nullable([(field.name(), cells(&kind), true)]);
            let [kinds, places] = personal_data(&batch.unwrap());
            assert!(kinds.is_null(0) && kinds.is_null(2), "{}", field.name());
            let places = places.as_string::<i32>();
            let expected = (!is_left_out(field)).then_some(field.name());
            assert_eq!(places.iter().nth(1), Some(expected));
            searched += usize::from(!is_left_out(field));
        }
        assert_eq!(searched, searched_columns().count());
    }

    #[test]
    fn each_row_has_its_own_kinds_and_columns() {
        let content = StringArray::from(vec!["4111 1111 1111 1111", "tea", "ada@example.com"]);
        let premises = DataType::List(Arc::new(element()));
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("bo@example.com"), None, Some("bo@example.com")]);
        lists.append_value([Some("a1".repeat(32))]);
        lists.append_null();
        let batch = RecordBatch::try_from_iter([
            ("content", Arc::new(content) as ArrayRef),
            (
                "premises",
                arrow::compute::cast(&lists.finish(), &premises).unwrap(),
            ),
        ]);
        let [kinds, places] = personal_data(&batch.unwrap().slice(0, 3));
        let kinds = kinds.as_list::<i32>();
        let of_row = |row: usize| {
            let kinds = kinds.is_valid(row).then(|| kinds.value(row))?;
            let kinds = kinds.as_string::<i32>().iter().flatten();
            Some(kinds.map(str::to_owned).collect::<Vec<_>>())
        };
        let both = vec!["email".to_owned(), "payment_card".to_owned()];
        assert_eq!(of_row(0), Some(both));
        assert_eq!(of_row(1), None);
        assert_eq!(of_row(2), Some(vec!["email".to_owned()]));
        let places: Vec<_> = places.as_string::<i32>().iter().collect();
        let expected = [Some("content, premises"), None, Some("content")];
        assert_eq!(places, expected);
    }
}
