//! Rows of sealed files as rows that can be read, and the other way round.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, RecordBatch, StringArray,
    StringBuilder, UInt32Array,
};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Field as ArrowField, Schema};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    Clear, GrainColumns, IdentityColumn, RowIdentity, RowKeys, grains_schema, is_sealed,
    stands_open, write_sealed_sort_key, write_sort_key as write_open_sort_key,
};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Field, Grain, Mode, Payload};

use super::lake_keys::{LakeKeys, Unsealed};
use crate::error::{Context, EngineError, Result, required};

/// What becomes of rows whose key was destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedRows {
    /// They are no rows any more.
    Dropped,
    /// They stay at their places, with their envelopes and without a payload, because a person
    /// counts rows.
    Kept,
}

/// The columns without which nothing can be opened.
const NEEDED: [&str; 2] = [
    IdentityColumn::ContentAddress.name(),
    IdentityColumn::Blob.name(),
];

/// Stands before a sealed cell of text.
const SEALED_TEXT: &str = "~GMS1:";

impl LakeKeys {
    /// Returns the columns of a sealed segment from which those named `wanted` (all if none are
    /// named) can be made.
    pub fn sealed_columns(wanted: Option<&[&str]>) -> Vec<&'static str> {
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.contains(&name));
        let names = IdentityColumn::ALL.iter().map(|column| column.name());
        names
            .filter(|name| NEEDED.contains(name) || stands_open(name) && is_wanted(name))
            .collect()
    }

    /// Rows of `grains` of a sealed segment, opened: the columns named `wanted` (all if none are
    /// named) in the order of the table. `sealed` has the columns of [`LakeKeys::sealed_columns`].
    ///
    /// # Errors
    /// [`EngineError::Key`] if a row can't be opened; [`EngineError::File`] if it isn't one.
    pub fn open_rows(
        &self,
        sealed: &RecordBatch,
        wanted: Option<&[&str]>,
        erased: ErasedRows,
    ) -> Result<RecordBatch> {
        let schema = grains_schema();
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .filter(|field| wanted.is_none_or(|wanted| wanted.contains(&field.name().as_str())))
            .cloned()
            .collect();
        let only_open = fields.iter().all(|field| stands_open(field.name()));
        let rows = self.clear_rows(sealed, only_open)?;
        let payload = fields
            .iter()
            .any(|field| Field::ALL.iter().any(|known| known.name() == field.name()));
        let projected = if payload && !only_open {
            Some(project(sealed, &rows)?)
        } else {
            None
        };
        let columns = fields.iter().map(|field| -> Result<ArrayRef> {
            let name = field.name().as_str();
            Ok(match name {
                name if stands_open(name) => Arc::clone(required(
                    sealed.column_by_name(name),
                    name,
                    "a sealed segment",
                )?),
                name if name == IdentityColumn::Blob.name() => blobs(sealed, &rows)?,
                name if name == IdentityColumn::Envelope.name() => {
                    let cells = rows
                        .iter()
                        .map(|row| row.clear().and_then(|clear| clear.envelope));
                    Arc::new(cells.collect::<BinaryArray>())
                }
                name if name == IdentityColumn::SignerDid.name() => {
                    let cells = rows
                        .iter()
                        .map(|row| row.clear().and_then(|clear| clear.signer));
                    Arc::new(cells.collect::<StringArray>())
                }
                name => {
                    let column = projected
                        .as_ref()
                        .and_then(|projected| projected.column_by_name(name));
                    Arc::clone(required(column, name, "a sealed segment")?)
                }
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options =
            arrow::array::RecordBatchOptions::new().with_row_count(Some(sealed.num_rows()));
        let opened =
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
        let opened = opened.file("can't open", "a segment")?;
        if erased == ErasedRows::Kept || !rows.iter().any(|row| matches!(row, OpenedRow::Erased)) {
            return Ok(opened);
        }
        let stays: BooleanArray = rows
            .iter()
            .map(|row| Some(!matches!(row, OpenedRow::Erased)))
            .collect();
        filter_record_batch(&opened, &stays).file("can't open", "a segment")
    }

    /// Adds the row of `grain`, whose bytes are `blob`, sealed; its user must have been
    /// [prepared](LakeKeys::prepare).
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub(crate) fn append(
        &self,
        columns: &mut GrainColumns,
        address: &ContentAddress,
        blob: &[u8],
        grain: &Grain<'_>,
        row: &RowIdentity<'_>,
    ) -> Result<()> {
        let sealed = self.seal(
            grain.text(Field::UserId),
            address,
            &Clear::bytes_of(blob, row),
        )?;
        let token = |field: Field, text: &str| self.token(field.name(), text);
        columns.append_sealed(address, (&sealed, blob.len()), grain, row, &token);
        Ok(())
    }

    /// Open rows of `grains`, with all columns, sealed, in the order of a sealed segment.
    ///
    /// # Errors
    /// [`EngineError::Key`]; [`EngineError::File`] if a row is no grain.
    pub(crate) fn seal_rows(&self, open: &RecordBatch) -> Result<RecordBatch> {
        let what = || "columns are missing";
        let texts = |column: IdentityColumn| {
            open.column_by_name(column.name())
                .and_then(|it| it.as_string_opt::<i32>())
        };
        let bytes = |column: IdentityColumn| {
            open.column_by_name(column.name())
                .and_then(|it| it.as_binary_opt::<i32>())
        };
        let (addresses, signers) = texts(IdentityColumn::ContentAddress)
            .zip(texts(IdentityColumn::SignerDid))
            .ok_or_else(what)
            .file("can't seal", "a segment")?;
        let (blobs, envelopes) = bytes(IdentityColumn::Blob)
            .zip(bytes(IdentityColumn::Envelope))
            .ok_or_else(what)
            .file("can't seal", "a segment")?;
        let mut users = HashSet::new();
        for blob in blobs.iter().flatten() {
            with_grain(blob, |grain| {
                users.insert(grain.text(Field::UserId).map(str::to_owned))
            })?;
        }
        self.prepare(users.iter().map(Option::as_deref))?;
        let mut columns = GrainColumns::with_capacity(open.num_rows(), blobs.value_data().len());
        let token = |field: Field, text: &str| self.token(field.name(), text);
        for row in 0..open.num_rows() {
            let address: ContentAddress = addresses
                .value(row)
                .parse()
                .file("can't seal", "a segment")?;
            let blob = blobs.value(row);
            let clear = Clear {
                blob,
                envelope: envelopes.is_valid(row).then(|| envelopes.value(row)),
                signer: signers.is_valid(row).then(|| signers.value(row)),
            };
            with_grain(blob, |grain| -> Result<()> {
                let sealed = self.seal(grain.text(Field::UserId), &address, &clear.to_bytes())?;
                let row = RowIdentity::default();
                columns.append_sealed(&address, (&sealed, blob.len()), grain, &row, &token);
                Ok(())
            })??;
        }
        let sealed = columns.finish().file("can't seal", "a segment")?;
        let schema = sealed.schema();
        let kept = |(field, made): (&Arc<ArrowField>, &ArrayRef)| match open
            .column_by_name(field.name())
        {
            Some(column)
                if stands_open(field.name()) && field.name() != IdentityColumn::Type.name() =>
            {
                Arc::clone(column)
            }
            _ => Arc::clone(made),
        };
        let columns = schema
            .fields()
            .iter()
            .zip(sealed.columns())
            .map(kept)
            .collect();
        let sealed =
            RecordBatch::try_new(Arc::clone(&schema), columns).file("can't seal", "a segment")?;
        let keys = RowKeys::of(&sealed).file("can't sort", "a segment")?;
        let mut order: Vec<u32> = (0..sealed.num_rows() as u32).collect();
        order.sort_unstable_by(|left, right| {
            keys.key(*left as usize).cmp(keys.key(*right as usize))
        });
        take_record_batch(&sealed, &UInt32Array::from(order)).file("can't sort", "a segment")
    }

    /// Returns the rows of `batch`, sealed or not except sealed ones that were erased.
    ///
    /// # Errors
    /// [`EngineError::File`] if it has no blobs.
    pub(crate) fn without_erased(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let addresses = batch
            .column_by_name(NEEDED[0])
            .and_then(|column| column.as_string_opt::<i32>());
        let cells = batch
            .column_by_name(NEEDED[1])
            .and_then(|column| column.as_binary_opt::<i32>());
        let (addresses, cells) = addresses
            .zip(cells)
            .ok_or("no blobs")
            .file("can't read", "a segment")?;
        let is_gone = |(address, cell): (Option<&str>, Option<&[u8]>)| {
            let address = address.and_then(|text| text.parse().ok());
            cell.is_some_and(|cell| is_sealed(cell) && self.is_erased(address.as_ref(), cell))
        };
        let stays: BooleanArray = addresses
            .iter()
            .zip(cells)
            .map(|row| Some(!is_gone(row)))
            .collect();
        match stays.false_count() {
            0 => Ok(batch),
            _ => filter_record_batch(&batch, &stays).file("can't read", "a segment"),
        }
    }

    fn clear_rows(&self, sealed: &RecordBatch, only_open: bool) -> Result<Vec<OpenedRow>> {
        let damaged = || "a row isn't sealed as its segment is";
        let addresses = sealed
            .column_by_name(NEEDED[0])
            .and_then(|column| column.as_string_opt::<i32>());
        let cells = sealed
            .column_by_name(NEEDED[1])
            .and_then(|column| column.as_binary_opt::<i32>());
        let (addresses, cells) = addresses
            .zip(cells)
            .ok_or_else(damaged)
            .file("can't open", "a segment")?;
        let open = |row: usize| -> Result<OpenedRow> {
            if !is_sealed(cells.value(row)) {
                return Err(damaged()).file("can't open", "a segment");
            }
            let address: ContentAddress = addresses
                .value(row)
                .parse()
                .file("can't open", "a segment")?;
            if only_open {
                let is_erased = self.is_erased(Some(&address), cells.value(row));
                return Ok(if is_erased {
                    OpenedRow::Erased
                } else {
                    OpenedRow::Clear(Vec::new())
                });
            }
            match self.unseal(&address, cells.value(row))? {
                Unsealed::Erased => Ok(OpenedRow::Erased),
                Unsealed::Clear(bytes) => match Clear::of(&bytes) {
                    Some(_) => Ok(OpenedRow::Clear(bytes)),
                    None => Err(damaged()).file("can't open", "a segment"),
                },
            }
        };
        (0..sealed.num_rows()).map(open).collect()
    }

    /// Returns the cells of a sealed file of a small table in the clear.
    ///
    /// # Errors
    /// [`EngineError::Key`] if one can't be opened.
    pub fn open_cells(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let open = |cell: &[u8]| {
            if is_sealed(cell) {
                self.unseal_cell(cell).map(Some)
            } else {
                Ok(None)
            }
        };
        let text = |cell: &str| -> Result<Option<String>> {
            let damaged = || EngineError::Key("a sealed text isn't one".to_owned());
            let Some(digits) = cell.strip_prefix(SEALED_TEXT) else {
                return Ok(None);
            };
            let clear = open(&hex::decode(digits).map_err(|_| damaged())?)?.ok_or_else(damaged)?;
            String::from_utf8(clear).map(Some).map_err(|_| damaged())
        };
        each_cell(batch, &|_| true, &open, &text)
    }

    /// Returns the cells of the columns `names` of a small table, sealed.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub fn seal_cells(&self, batch: &RecordBatch, names: &[&str]) -> Result<RecordBatch> {
        let seal = |cell: &[u8]| self.seal_cell(cell).map(Some);
        let text = |cell: &str| {
            let sealed = self.seal_cell(cell.as_bytes())?;
            Ok(Some(format!("{SEALED_TEXT}{}", hex::encode(sealed))))
        };
        each_cell(batch, &|name| names.contains(&name), &seal, &text)
    }
}

/// What becomes of a cell; `None` if it stays as it is.
type CellEdit<'c, B, C> = dyn Fn(&B) -> Result<Option<C>> + 'c;

/// Returns `batch` with what `bytes` and `text` make of the cells of the columns that `has` names;
/// `None` leaves a cell as it is.
fn each_cell(
    batch: &RecordBatch,
    has: &dyn Fn(&str) -> bool,
    bytes: &CellEdit<'_, [u8], Vec<u8>>,
    text: &CellEdit<'_, str, String>,
) -> Result<RecordBatch> {
    let schema = batch.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| match field.data_type() {
            DataType::Binary if has(field.name()) => changed_bytes(column.as_binary(), bytes),
            DataType::Utf8 if has(field.name()) => changed_texts(column.as_string(), text),
            _ => Ok(Arc::clone(column)),
        });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(batch.schema(), columns).file("can't open", "a table")
}

/// Appends the sort key of `grain` as it is in a segment that is sealed with `keys`, or in an open
/// one if there are none.
pub(crate) fn write_sort_key(keys: Option<&LakeKeys>, grain: &Grain<'_>, out: &mut Vec<u8>) {
    match keys {
        Some(keys) => {
            write_sealed_sort_key(grain, &|field, text| keys.token(field.name(), text), out)
        }
        None => write_open_sort_key(grain, out),
    }
}

fn with_grain<T>(blob: &[u8], job: impl FnOnce(&Grain<'_>) -> T) -> Result<T> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).file("can't open", "a grain")?;
    Ok(job(
        &Grain::decode(&payload, Mode::Lenient).file("can't open", "a grain")?
    ))
}

/// A row of a sealed segment.
enum OpenedRow {
    /// Its clear text.
    Clear(Vec<u8>),
    /// Nothing.
    Erased,
}

impl OpenedRow {
    fn clear(&self) -> Option<Clear<'_>> {
        match self {
            OpenedRow::Clear(bytes) => Clear::of(bytes),
            OpenedRow::Erased => None,
        }
    }
}

/// Returns the blobs of `rows`; those of erased ones are their envelopes.
fn blobs(sealed: &RecordBatch, rows: &[OpenedRow]) -> Result<ArrayRef> {
    let cells = sealed
        .column_by_name(NEEDED[1])
        .and_then(|column| column.as_binary_opt::<i32>());
    let cells = cells.ok_or("no blobs").file("can't open", "a segment")?;
    let blob = |(number, row): (usize, &'_ OpenedRow)| match row.clear() {
        Some(clear) => clear.blob.to_vec(),
        None => cells.value(number).to_vec(),
    };
    Ok(Arc::new(BinaryArray::from_iter_values(
        rows.iter().enumerate().map(blob),
    )))
}

/// Returns the payload's columns; the others hold nothing that counts.
fn project(sealed: &RecordBatch, rows: &[OpenedRow]) -> Result<RecordBatch> {
    let mut columns = GrainColumns::with_capacity(rows.len(), 0);
    for row in rows {
        let Some(clear) = row.clear() else {
            columns.append_unreadable();
            continue;
        };
        let nobody = ContentAddress::from_digest([0; 32]);
        with_grain(clear.blob, |grain| {
            columns.append(&nobody, &[], grain, &RowIdentity::default())
        })?;
    }
    let projected = columns.finish().file("can't open", "a segment")?;
    match projected.num_rows() == sealed.num_rows() {
        true => Ok(projected),
        false => Err("rows are missing").file("can't open", "a segment"),
    }
}

fn changed_bytes(column: &BinaryArray, change: &CellEdit<'_, [u8], Vec<u8>>) -> Result<ArrayRef> {
    let mut out = BinaryBuilder::new();
    for cell in column {
        match cell.map(change).transpose()?.flatten() {
            Some(changed) => out.append_value(changed),
            None => out.append_option(cell),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn changed_texts(column: &StringArray, change: &CellEdit<'_, str, String>) -> Result<ArrayRef> {
    let mut out = StringBuilder::new();
    for cell in column {
        match cell.map(change).transpose()?.flatten() {
            Some(changed) => out.append_value(changed),
            None => out.append_option(cell),
        }
    }
    Ok(Arc::new(out.finish()))
}
