//! Index-only scans: if the sidecars list the candidate rows and contain all requested columns, no
//! segment is read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int16Builder, RecordBatch, RecordBatchOptions, StringBuilder};
use arrow::datatypes::SchemaRef;
use gristmill_engine::index::hexastore::{Hexastore, TriplePattern};
use gristmill_engine::index::{FastColumns, SidecarCache};
use gristmill_engine::lake::{LakeLocation, Segment};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

use super::index_predicate::{IndexPredicate, IndexedColumn};
use super::index_pruning::{CandidateRows, triple_patterns};

/// Largest result that is built from indexes, since it is held in memory; larger ones are read from
/// the segments batch by batch.
const MAX_ROWS: usize = 100_000;

/// A column whose values the sidecars contain.
#[derive(Debug, Clone, Copy)]
enum CoveredColumn {
    Address,
    TypeByte,
    Encoding,
    Namespace,
    /// Subject, relation or object, by position in the triple.
    Part(usize),
}

impl CoveredColumn {
    fn named(name: &str) -> Option<CoveredColumn> {
        let parts = [
            IndexedColumn::Subject,
            IndexedColumn::Relation,
            IndexedColumn::Object,
        ];
        match name {
            _ if name == SystemColumn::ContentAddress.name() => Some(CoveredColumn::Address),
            _ if name == SystemColumn::TypeByte.name() => Some(CoveredColumn::TypeByte),
            _ if name == SystemColumn::Encoding.name() => Some(CoveredColumn::Encoding),
            _ if name == Field::Namespace.name() => Some(CoveredColumn::Namespace),
            _ => parts
                .iter()
                .position(|part| part.name() == name)
                .map(CoveredColumn::Part),
        }
    }
}

/// Returns the rows `chosen` with the columns of `schema`; `None` if the sidecars don't contain all
/// of it, or the result exceeds [`MAX_ROWS`].
pub(super) async fn read_from_indexes(
    sidecars: &SidecarCache,
    location: &LakeLocation,
    segments: &[Segment],
    conditions: &IndexPredicate,
    chosen: &[CandidateRows],
    schema: &SchemaRef,
) -> Option<RecordBatch> {
    let columns: Vec<CoveredColumn> = schema
        .fields()
        .iter()
        .map(|field| CoveredColumn::named(field.name()))
        .collect::<Option<_>>()?;
    let rows: Vec<&[u32]> = chosen
        .iter()
        .map(CandidateRows::listed)
        .collect::<Option<_>>()?;
    let count: usize = rows.iter().map(|rows| rows.len()).sum();
    if count > MAX_ROWS {
        return None;
    }
    let reads_triples = columns
        .iter()
        .any(|column| matches!(column, CoveredColumn::Part(_)));
    let patterns = match reads_triples {
        true => Some(triple_patterns(conditions).filter(|_| !conditions.leaves_triple_open())?),
        false => None,
    };
    let mut columns: Vec<(CoveredColumn, ColumnBuilder)> = columns
        .into_iter()
        .map(|column| (column, ColumnBuilder::of(column)))
        .collect();
    // The others aren't opened.
    let with_rows = segments
        .iter()
        .zip(rows)
        .filter(|(_, rows)| !rows.is_empty());
    let (read, rows): (Vec<Segment>, Vec<&[u32]>) = with_rows
        .map(|(segment, rows)| (segment.clone(), rows))
        .unzip();
    let fast_columns = sidecars.fast_columns(location, &read).await?;
    for ((segment, rows), values) in read.iter().zip(rows).zip(fast_columns.iter()) {
        let triples = match &patterns {
            Some(patterns) => {
                let store = sidecars.hexastore(location, segment).await?;
                Some((store, patterns.as_slice()))
            }
            None => None,
        };
        let triples = triples.as_ref();
        let triples = triples.map(|(store, patterns)| (&**store, *patterns));
        append(&mut columns, rows, values, triples)?;
    }
    finish(columns, schema, count)
}

/// Builds the batch of `count` rows.
fn finish(
    columns: Vec<(CoveredColumn, ColumnBuilder)>,
    schema: &SchemaRef,
    count: usize,
) -> Option<RecordBatch> {
    let arrays = columns
        .into_iter()
        .map(|(_, builder)| builder.finish())
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).ok()
}

/// Appends the values of `rows` of one segment; `None` if a value is missing in the sidecars.
fn append(
    columns: &mut [(CoveredColumn, ColumnBuilder)],
    rows: &[u32],
    values: &FastColumns,
    stated: Option<(&Hexastore, &[[Option<String>; 3]])>,
) -> Option<()> {
    let mut statements: HashMap<u32, [Option<&str>; 3]> = HashMap::new();
    if let Some((store, patterns)) = stated {
        for parts in patterns {
            let pattern = TriplePattern::from(parts.each_ref().map(Option::as_deref));
            statements.extend(store.statements_with(&pattern));
        }
    }
    let mut hex = [0; 64];
    for row in rows {
        for (column, cells) in columns.iter_mut() {
            match column {
                CoveredColumn::Address => {
                    cells.text(Some(values.address(*row)?.write_hex(&mut hex)))
                }
                CoveredColumn::TypeByte => cells.number(values.type_byte(*row)?),
                CoveredColumn::Encoding => cells.text(values.encoding(*row)),
                CoveredColumn::Namespace => cells.text(values.namespace(*row)),
                CoveredColumn::Part(part) => cells.text(*statements.get(row)?.get(*part)?),
            }
        }
    }
    Some(())
}

/// Builder of one result column.
enum ColumnBuilder {
    Texts(StringBuilder),
    Numbers(Int16Builder),
}

impl ColumnBuilder {
    fn of(column: CoveredColumn) -> ColumnBuilder {
        match column {
            CoveredColumn::TypeByte => ColumnBuilder::Numbers(Int16Builder::new()),
            _ => ColumnBuilder::Texts(StringBuilder::new()),
        }
    }

    fn text(&mut self, text: Option<&str>) {
        if let ColumnBuilder::Texts(texts) = self {
            texts.append_option(text);
        }
    }

    fn number(&mut self, number: u8) {
        if let ColumnBuilder::Numbers(numbers) = self {
            numbers.append_value(i16::from(number));
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            ColumnBuilder::Texts(mut texts) => Arc::new(texts.finish()),
            ColumnBuilder::Numbers(mut numbers) => Arc::new(numbers.finish()),
        }
    }
}
