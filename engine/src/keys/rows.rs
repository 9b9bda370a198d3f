//! Converts rows of sealed files to readable rows, and back.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, RecordBatch,
    RecordBatchOptions, StringArray, StringBuilder, UInt32Array,
};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Field as ArrowField, Schema};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    GrainBatchBuilder, RowMetadata, RowSortKeys, SealedContent, SystemColumn, grains_schema,
    is_plaintext_column, is_sealed, write_sealed_sort_key, write_sort_key as write_open_sort_key,
};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, Payload};

use super::lake_keys::{LakeKeys, Unsealed};
use crate::error::{Context, EngineError, Result, required};

/// What to do with rows whose key was destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedRows {
    /// Leave them out.
    Dropped,
    /// Keep them, with their envelopes and without a payload, so that row numbers don't change.
    Kept,
}

/// The columns that are required to open rows.
const NEEDED: [&str; 2] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Blob.name(),
];

/// Prefix of a sealed text cell.
const SEALED_TEXT: &str = "~GMS1:";

impl LakeKeys {
    /// Returns the stored columns from which the columns `wanted` (`None`: all) of a sealed segment
    /// can be computed.
    pub fn sealed_columns(wanted: Option<&[&str]>) -> Vec<&'static str> {
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.contains(&name));
        let names = SystemColumn::ALL.iter().map(|column| column.name());
        names
            .filter(|name| NEEDED.contains(name) || is_plaintext_column(name) && is_wanted(name))
            .collect()
    }

    /// Opens rows of a sealed segment of `grains`. Returns the columns `wanted` (`None`: all) in
    /// the order of the table. `sealed` has the columns of [`LakeKeys::sealed_columns`].
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
        let only_open = fields.iter().all(|field| is_plaintext_column(field.name()));
        let rows = self.clear_rows(sealed, only_open)?;
        let has_payload = fields
            .iter()
            .any(|field| Field::ALL.iter().any(|known| known.name() == field.name()));
        let projected = match has_payload && !only_open {
            true => Some(project(sealed, &rows)?),
            false => None,
        };
        let columns = fields
            .iter()
            .map(|field| opened_column(field.name(), sealed, &rows, projected.as_ref()));
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

    /// Appends the sealed row of `grain`, whose bytes are `blob`; its user must be
    /// [prepared](LakeKeys::prepare).
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub(crate) fn append(
        &self,
        columns: &mut GrainBatchBuilder,
        address: &ContentAddress,
        blob: &[u8],
        grain: &Grain<'_>,
        row: &RowMetadata<'_>,
    ) -> Result<()> {
        let sealed = self.seal(
            grain.text(Field::UserId),
            address,
            &SealedContent::encode_row(blob, row),
        )?;
        let token = |field: Field, text: &str| self.token(field.name(), text);
        columns.append_sealed(address, (&sealed, blob.len()), grain, row, &token);
        Ok(())
    }

    /// Seals open rows of `grains` with all columns. Returns them in the sort order of a sealed
    /// segment.
    ///
    /// # Errors
    /// [`EngineError::Key`]; [`EngineError::File`] if a row is no grain.
    pub(crate) fn seal_rows(&self, open: &RecordBatch) -> Result<RecordBatch> {
        let cells = ClearCells::of(open).ok_or("columns are missing");
        let cells = cells.file("can't seal", "a segment")?;
        self.prepare_users(cells.blobs)?;
        let bytes = cells.blobs.value_data().len();
        let mut columns = GrainBatchBuilder::with_capacity(open.num_rows(), bytes);
        let token = |field: Field, text: &str| self.token(field.name(), text);
        for row in 0..open.num_rows() {
            let address: ContentAddress = cells
                .addresses
                .value(row)
                .parse()
                .file("can't seal", "a segment")?;
            let clear = cells.clear(row);
            with_grain(clear.blob, |grain| -> Result<()> {
                let sealed = self.seal(grain.text(Field::UserId), &address, &clear.to_bytes())?;
                let row = RowMetadata::default();
                columns.append_sealed(&address, (&sealed, clear.blob.len()), grain, &row, &token);
                Ok(())
            })??;
        }
        let sealed = columns.finish().file("can't seal", "a segment")?;
        sorted(&with_open_columns(&sealed, open)?)
    }

    /// Prepares the keys of the users of the grains in `blobs`.
    fn prepare_users(&self, blobs: &BinaryArray) -> Result<()> {
        let mut users = HashSet::new();
        for blob in blobs.iter().flatten() {
            with_grain(blob, |grain| {
                users.insert(grain.text(Field::UserId).map(str::to_owned))
            })?;
        }
        self.prepare(users.iter().map(Option::as_deref))
    }

    /// Returns the rows of `batch` except sealed rows that were erased.
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
                Unsealed::Clear(bytes) => match SealedContent::parse(&bytes) {
                    Some(_) => Ok(OpenedRow::Clear(bytes)),
                    None => Err(damaged()).file("can't open", "a segment"),
                },
            }
        };
        (0..sealed.num_rows()).map(open).collect()
    }

    /// Opens the cells of a sealed file of a small table.
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

    /// Seals the cells of the columns `names` of a small table.
    ///
    /// # Errors
    /// [`EngineError::Key`].
    pub(crate) fn seal_cells(&self, batch: &RecordBatch, names: &[&str]) -> Result<RecordBatch> {
        let seal = |cell: &[u8]| self.seal_cell(cell).map(Some);
        let text = |cell: &str| {
            let sealed = self.seal_cell(cell.as_bytes())?;
            Ok(Some(format!("{SEALED_TEXT}{}", hex::encode(sealed))))
        };
        each_cell(batch, &|name| names.contains(&name), &seal, &text)
    }
}

/// Computes a new cell; `None` leaves the cell unchanged.
type CellEdit<'c, B, C> = dyn Fn(&B) -> Result<Option<C>> + 'c;

/// Applies `bytes` and `text` to the cells of the columns for which `has` holds.
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
        })
        .collect::<Result<Vec<_>>>()?;
    // A query that only counts rows reads no column.
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &rows).file("can't open", "a table")
}

/// Appends the sort key of `grain` in a segment that is sealed with `keys`, or in an open one
/// without keys.
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
        &Grain::decode(&payload, DecodeMode::Lenient).file("can't open", "a grain")?
    ))
}

/// The columns of open rows of `grains` whose content is sealed.
struct ClearCells<'b> {
    addresses: &'b StringArray,
    blobs: &'b BinaryArray,
    envelopes: &'b BinaryArray,
    signers: &'b StringArray,
}

impl<'b> ClearCells<'b> {
    /// Returns the columns of `open`, or `None` if one is missing.
    fn of(open: &'b RecordBatch) -> Option<ClearCells<'b>> {
        let texts = |column: SystemColumn| {
            let column = open.column_by_name(column.name())?;
            column.as_string_opt::<i32>()
        };
        let bytes = |column: SystemColumn| {
            let column = open.column_by_name(column.name())?;
            column.as_binary_opt::<i32>()
        };
        Some(ClearCells {
            addresses: texts(SystemColumn::ContentAddress)?,
            blobs: bytes(SystemColumn::Blob)?,
            envelopes: bytes(SystemColumn::Envelope)?,
            signers: texts(SystemColumn::SignerDid)?,
        })
    }

    fn clear(&self, row: usize) -> SealedContent<'b> {
        let (envelopes, signers) = (self.envelopes, self.signers);
        SealedContent {
            blob: self.blobs.value(row),
            envelope: envelopes.is_valid(row).then(|| envelopes.value(row)),
            signer: signers.is_valid(row).then(|| signers.value(row)),
        }
    }
}

/// Returns the rows `sealed` with the unsealed columns taken from `open`, except the type, which
/// sealed segments compute.
fn with_open_columns(sealed: &RecordBatch, open: &RecordBatch) -> Result<RecordBatch> {
    let schema = sealed.schema();
    let column = |(field, sealed): (&Arc<ArrowField>, &ArrayRef)| {
        let is_open =
            is_plaintext_column(field.name()) && field.name() != SystemColumn::Type.name();
        match open.column_by_name(field.name()) {
            Some(column) if is_open => Arc::clone(column),
            _ => Arc::clone(sealed),
        }
    };
    let columns = schema
        .fields()
        .iter()
        .zip(sealed.columns())
        .map(column)
        .collect();
    RecordBatch::try_new(Arc::clone(&schema), columns).file("can't seal", "a segment")
}

/// Sorts sealed rows in the order of a sealed segment.
fn sorted(sealed: &RecordBatch) -> Result<RecordBatch> {
    let keys = RowSortKeys::of(sealed).file("can't sort", "a segment")?;
    let mut order: Vec<u32> = (0..sealed.num_rows() as u32).collect();
    order.sort_unstable_by(|left, right| keys.key(*left as usize).cmp(keys.key(*right as usize)));
    take_record_batch(sealed, &UInt32Array::from(order)).file("can't sort", "a segment")
}

/// Returns the column `name` of opened rows. `projected` has the columns of the payload.
fn opened_column(
    name: &str,
    sealed: &RecordBatch,
    rows: &[OpenedRow],
    projected: Option<&RecordBatch>,
) -> Result<ArrayRef> {
    let clear = || rows.iter().map(OpenedRow::clear);
    Ok(match name {
        name if is_plaintext_column(name) => Arc::clone(required(
            sealed.column_by_name(name),
            name,
            "a sealed segment",
        )?),
        name if name == SystemColumn::Blob.name() => blobs(sealed, rows)?,
        name if name == SystemColumn::Envelope.name() => {
            let cells = clear().map(|clear| clear.and_then(|clear| clear.envelope));
            Arc::new(cells.collect::<BinaryArray>())
        }
        name if name == SystemColumn::SignerDid.name() => {
            let cells = clear().map(|clear| clear.and_then(|clear| clear.signer));
            Arc::new(cells.collect::<StringArray>())
        }
        name => {
            let column = projected.and_then(|projected| projected.column_by_name(name));
            Arc::clone(required(column, name, "a sealed segment")?)
        }
    })
}

/// A row of a sealed segment.
enum OpenedRow {
    /// Its clear text.
    Clear(Vec<u8>),
    /// Its key was destroyed.
    Erased,
}

impl OpenedRow {
    fn clear(&self) -> Option<SealedContent<'_>> {
        match self {
            OpenedRow::Clear(bytes) => SealedContent::parse(bytes),
            OpenedRow::Erased => None,
        }
    }
}

/// Returns the blobs of `rows`; those of erased rows are their envelopes.
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

/// Computes the columns of the payload; other columns of the result are meaningless.
fn project(sealed: &RecordBatch, rows: &[OpenedRow]) -> Result<RecordBatch> {
    let mut columns = GrainBatchBuilder::with_capacity(rows.len(), 0);
    for row in rows {
        let Some(clear) = row.clear() else {
            columns.append_shredded();
            continue;
        };
        let nobody = ContentAddress::from_digest([0; 32]);
        with_grain(clear.blob, |grain| {
            columns.append(&nobody, &[], grain, &RowMetadata::default())
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
