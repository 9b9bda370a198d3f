//! Recomputation of rows of `grains` from their blobs, by the projection of ingest.
//!
//! Each blob is hashed, compared with the row's address, opened, decoded and projected.
//! Verification compares the result with the stored row, and repair replaces the row with it. Rows
//! of encrypted segments are decrypted first, and projected as encrypted rows.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, BinaryArray, ListArray, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    GrainBatchBuilder, SEALED_MAGIC, StoredRows, SystemColumn, delivered_bytes,
};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DecodeMode, Field, Grain, Mark, Marks};

use crate::error::{Context, Result};
use crate::hash::{Digest, sha256_each};
use crate::ingest::device_profile::ProfileCounts;
use crate::ingest::grain_row::envelope_columns;
use crate::ingest::prove::{GrainDecoder, OPENED_BYTES, OpenedGrain, ProofOptions, open};
use crate::keys::{ErasedRows, LakeKeys};

/// The columns from which a row is recomputed.
pub(crate) const ORIGINS: [&str; 4] = [
    SystemColumn::ContentAddress.name(),
    SystemColumn::Blob.name(),
    SystemColumn::Envelope.name(),
    SystemColumn::Marks.name(),
];

/// Marks of grains that only a lenient reader accepts.
const LENIENT: [Mark; 2] = [Mark::NotCanonical, Mark::Incomplete];

/// The prefix of signers' names that are public keys themselves.
const SELF_CONTAINED: &str = "did:key:";

/// What the blob of a row implies for it.
#[derive(Debug, Clone)]
pub(crate) enum RowState {
    /// The row was recomputed.
    Derived {
        /// The marks of its grain.
        marks: Marks,
        /// True if its signer's name is the public key itself, so that the verdict on the signature
        /// doesn't depend on other keys.
        signer_is_key: bool,
    },
    /// The row's key was destroyed, so nothing is known about it.
    Erased,
    /// The blob isn't the grain of the row's address.
    Failed(GrainError),
}

/// Recomputed rows.
pub(crate) struct Reprojected {
    /// All columns of `grains`. `blob` is empty. Columns that don't follow from the blob are null
    /// or zero, and so are all cells of rows that aren't [`RowState::Derived`].
    pub(crate) batch: RecordBatch,
    /// The state of each row.
    pub(crate) states: Vec<RowState>,
    /// The size of the opened blobs in bytes.
    pub(crate) blob_bytes: u64,
    /// The grains beyond the limits of the device profile.
    pub(crate) beyond_profile: ProfileCounts,
}

/// Rows that equal the projections of their blobs.
pub(crate) struct EqualRows {
    /// The marks of their grains.
    pub(crate) marks: Vec<Marks>,
    /// The size of their blobs in bytes.
    pub(crate) blob_bytes: u64,
    /// The grains beyond the limits of the device profile.
    pub(crate) beyond_profile: ProfileCounts,
}

/// Recomputes batches one after another, reusing memory.
pub(crate) struct Reprojector<'k> {
    options: ProofOptions<'k>,
    keys: Option<&'k LakeKeys>,
    columns: GrainBatchBuilder,
}

impl<'k> Reprojector<'k> {
    /// Returns a reprojector that reads grains by `options`. `keys` decrypt and encrypt the rows of
    /// encrypted segments.
    pub(crate) fn new(options: ProofOptions<'k>, keys: Option<&'k LakeKeys>) -> Self {
        Reprojector {
            options,
            keys,
            columns: GrainBatchBuilder::with_capacity(0, 0),
        }
    }

    /// Recomputes the rows of `stored`, which has at least the columns [`ORIGINS`] as they are
    /// stored. Without `marks` the rows are read by the strict rules first.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a column is missing or has another
    /// type.
    pub(crate) fn reproject(&mut self, stored: &RecordBatch) -> Result<Reprojected> {
        let (opened, faults) = self.opened(stored).file("can't open", "rows")?;
        let cells = OriginCells::of(&opened).file("can't read", "rows")?;
        let mut states: Vec<Option<RowState>> = faults
            .into_iter()
            .map(|fault| fault.map(RowState::Failed))
            .collect();
        let digests = cells.digests();
        let delivered = cells.all_delivered(&digests, self.keys, &mut states);
        let (options, mut beyond_profile) = (self.options, ProfileCounts::default());
        each_grain(&cells, &delivered, options, |row, read| {
            let state = read.map(|read| match read {
                Ok((found, grain)) => {
                    let size = found.delivery.blob().len();
                    beyond_profile.add(options.profile, grain, size);
                    self.append(digests.get(row), found, grain)
                }
                Err(error) => RowState::Failed(error),
            });
            if !matches!(state, Some(RowState::Derived { .. })) {
                self.columns.append_shredded();
            }
            if let Some((place, state)) = states.get_mut(row).zip(state) {
                *place = Some(state);
            }
            true
        });
        let batch = self.columns.finish().file("can't project", "rows")?;
        let states = states
            .into_iter()
            .map(|state| state.unwrap_or(RowState::Erased))
            .collect();
        Ok(Reprojected {
            batch,
            states,
            blob_bytes: cells.blob_bytes(),
            beyond_profile,
        })
    }

    /// Returns what is known of the grains of `stored` if every row equals the projection of its
    /// blob. Returns `None` if one doesn't, or if this can't be decided without
    /// [`Reprojector::reproject`], which costs several times as much.
    pub(crate) fn all_equal(&self, stored: &RecordBatch) -> Option<EqualRows> {
        if self.keys.is_some() {
            return None;
        }
        let mut rows = StoredRows::of(stored)?;
        let cells = OriginCells::of(stored).ok()?;
        let mut states = vec![None; cells.len()];
        let digests = cells.digests();
        let delivered = cells.all_delivered(&digests, None, &mut states);
        let mut marks = Vec::with_capacity(cells.len());
        let mut beyond_profile = ProfileCounts::default();
        each_grain(&cells, &delivered, self.options, |row, read| {
            let Some(Ok((found, grain))) = read else {
                return false;
            };
            let address = address_of(digests.get(row));
            let size = found.delivery.blob().len();
            beyond_profile.add(self.options.profile, grain, size);
            let is_equal = rows.matches(
                row,
                &address,
                size,
                grain,
                &envelope_columns(&found.delivery, found.signature),
            );
            marks.push(grain.marks());
            is_equal
        });
        let is_whole = marks.len() == cells.len() && states.iter().all(Option::is_none);
        (is_whole && rows.finish()).then(|| EqualRows {
            marks,
            blob_bytes: cells.blob_bytes(),
            beyond_profile,
        })
    }

    fn append(
        &mut self,
        digest: Option<&Digest>,
        found: &OpenedGrain<'_>,
        grain: &Grain<'_>,
    ) -> RowState {
        let address = address_of(digest);
        let size = found.delivery.blob().len();
        let row = envelope_columns(&found.delivery, found.signature);
        match self.keys {
            None => self
                .columns
                .append_without_blob(&address, size, grain, &row),
            Some(keys) => {
                let token = |field: Field, text: &str| keys.token(field.name(), text);
                self.columns
                    .append_sealed(&address, (&SEALED_MAGIC, size), grain, &row, &token);
            }
        }
        let signer_is_key = row
            .signer
            .is_some_and(|signer| signer.starts_with(SELF_CONTAINED));
        RowState::Derived {
            marks: grain.marks(),
            signer_is_key,
        }
    }

    /// Returns the columns [`ORIGINS`] of `stored`, decrypted, and for each row why it can't be.
    fn opened(
        &self,
        stored: &RecordBatch,
    ) -> Result<(RecordBatch, Vec<Option<GrainError>>), ArrowError> {
        let schema = stored.schema();
        let places: Vec<usize> = ORIGINS
            .iter()
            .filter_map(|name| schema.index_of(name).ok())
            .collect();
        let origins = stored.project(&places)?;
        let no_faults = || vec![None; stored.num_rows()];
        let Some(keys) = self.keys else {
            return Ok((origins, no_faults()));
        };
        let wanted: Vec<&str> = ORIGINS
            .into_iter()
            .filter(|name| schema.index_of(name).is_ok())
            .collect();
        if let Ok(opened) = keys.open_rows(&origins, Some(&wanted), ErasedRows::Kept) {
            return Ok((opened, no_faults()));
        }
        open_each(&origins, &wanted, keys)
    }
}

/// Decrypts the rows of `origins` one by one, because one envelope that can't be opened must not
/// hide the others. Returns the rows, and for each why it can't be decrypted.
fn open_each(
    origins: &RecordBatch,
    wanted: &[&str],
    keys: &LakeKeys,
) -> Result<(RecordBatch, Vec<Option<GrainError>>), ArrowError> {
    let mut faults = vec![None; origins.num_rows()];
    let mut rows = Vec::with_capacity(origins.num_rows());
    for (row, fault) in faults.iter_mut().enumerate() {
        let closed = origins.slice(row, 1);
        let opened = keys.open_rows(&closed, Some(wanted), ErasedRows::Kept);
        rows.push(opened.unwrap_or_else(|error| {
            let error = GrainError::new(ErrorCode::Integrity, error.to_string()).field("blob");
            *fault = Some(error);
            closed
        }));
    }
    let schema = rows
        .first()
        .map_or_else(|| origins.schema(), RecordBatch::schema);
    let rows: Vec<RecordBatch> = rows
        .into_iter()
        .map(|row| row.with_schema(schema.clone()))
        .collect::<Result<_, _>>()?;
    Ok((concat_batches(&schema, &rows)?, faults))
}

/// The decrypted cells from which rows are recomputed.
struct OriginCells<'b> {
    addresses: &'b StringArray,
    blobs: &'b BinaryArray,
    envelopes: &'b BinaryArray,
    marks: Option<&'b ListArray>,
}

impl<'b> OriginCells<'b> {
    fn of(batch: &'b RecordBatch) -> Result<OriginCells<'b>, ArrowError> {
        let column = |column: SystemColumn| batch.column_by_name(column.name());
        let missing =
            || ArrowError::SchemaError("a column is missing or of another type".to_owned());
        let bytes = |name| {
            column(name)
                .and_then(|cells| cells.as_binary_opt::<i32>())
                .ok_or_else(missing)
        };
        let addresses =
            column(SystemColumn::ContentAddress).and_then(|cells| cells.as_string_opt::<i32>());
        Ok(OriginCells {
            addresses: addresses.ok_or_else(missing)?,
            blobs: bytes(SystemColumn::Blob)?,
            envelopes: bytes(SystemColumn::Envelope)?,
            marks: column(SystemColumn::Marks).and_then(|cells| cells.as_list_opt::<i32>()),
        })
    }

    fn len(&self) -> usize {
        self.blobs.len()
    }

    fn blob_bytes(&self) -> u64 {
        (0..self.len())
            .map(|row| self.blobs.value(row).len() as u64)
            .sum()
    }

    /// Returns the SHA-256 of each blob.
    fn digests(&self) -> Vec<Digest> {
        let mut digests = vec![Digest::default(); self.len()];
        sha256_each(&mut digests, |row| self.blobs.value(row));
        digests
    }

    /// Returns the bytes in which each grain was delivered, as [`OriginCells::delivered`].
    fn all_delivered(
        &self,
        digests: &[Digest],
        keys: Option<&LakeKeys>,
        states: &mut [Option<RowState>],
    ) -> Vec<Option<Cow<'b, [u8]>>> {
        let rows = (0..self.len()).zip(states).zip(digests);
        rows.map(|((row, state), digest)| self.delivered(row, digest, keys, state))
            .collect()
    }

    /// Returns the bytes in which the grain of `row` was delivered, or `None`, with the reason in
    /// `state`.
    fn delivered(
        &self,
        row: usize,
        digest: &Digest,
        keys: Option<&LakeKeys>,
        state: &mut Option<RowState>,
    ) -> Option<Cow<'b, [u8]>> {
        if state.is_some() {
            return None;
        }
        let is_erased = |keys: &LakeKeys| {
            let address = self
                .addresses
                .is_valid(row)
                .then(|| self.addresses.value(row));
            let address = address.and_then(|address| address.parse().ok());
            keys.is_erased(address.as_ref(), self.blobs.value(row))
        };
        if keys.is_some_and(is_erased) {
            *state = Some(RowState::Erased);
            return None;
        }
        let envelope = self
            .envelopes
            .is_valid(row)
            .then(|| self.envelopes.value(row));
        let proven = prove_address(self.addresses.value(row), digest);
        match proven.and_then(|()| delivered_bytes(self.blobs.value(row), envelope)) {
            Ok(delivered) => Some(delivered),
            Err(error) => {
                *state = Some(RowState::Failed(error));
                None
            }
        }
    }

    /// Returns true if the row is marked as read by a lenient reader.
    fn is_lenient(&self, row: usize) -> bool {
        let Some(marks) = self.marks.filter(|marks| marks.is_valid(row)) else {
            return false;
        };
        let marks = marks.value(row);
        let lenient = |mark: &str| LENIENT.iter().any(|known| known.name() == mark);
        marks
            .as_string_opt::<i32>()
            .is_some_and(|marks| marks.iter().flatten().any(lenient))
    }
}

fn address_of(digest: Option<&Digest>) -> ContentAddress {
    ContentAddress::from_digest(digest.copied().unwrap_or_default())
}

/// Calls `take` with each row in order, and with its grain, the error of reading it, or `None` if
/// it has no bytes. Stops when `take` returns false.
fn each_grain(
    cells: &OriginCells<'_>,
    delivered: &[Option<Cow<'_, [u8]>>],
    options: ProofOptions<'_>,
    mut take: impl FnMut(usize, Option<Result<(&OpenedGrain<'_>, &Grain<'_>), GrainError>>) -> bool,
) {
    let mut first = 0;
    while first < delivered.len() {
        let opened = open_some(delivered.get(first..).unwrap_or_default(), options);
        let mut decoder = GrainDecoder::new(options.mode);
        for (row, found) in (first..).zip(&opened) {
            let read = found.as_ref().map(|found| {
                let found = found.as_ref().map_err(Clone::clone)?;
                let mode = match cells.is_lenient(row) {
                    true => DecodeMode::Lenient,
                    false => options.mode,
                };
                Ok((found, decode(&mut decoder, found, mode)?))
            });
            if !take(row, read) {
                return;
            }
        }
        first += opened.len();
    }
}

/// Decodes the grain of a row by the rules of `mode`. If these refuse it and only a mark of lenient
/// reading is missing in the row, the grain is decoded leniently, so that the missing mark shows up
/// as a cell that differs.
fn decode<'c, 'p>(
    decoder: &'c mut GrainDecoder<'p>,
    found: &'p OpenedGrain<'p>,
    mode: DecodeMode,
) -> Result<&'c Grain<'p>, GrainError> {
    if let Some(error) = decoder.decode_as(&found.payload, mode).err() {
        let marks = decoder
            .decode_as(&found.payload, DecodeMode::Lenient)
            .map_or(Marks::default(), Grain::marks);
        if !LENIENT.iter().any(|mark| marks.contains(*mark)) {
            return Err(error);
        }
    }
    decoder
        .grain()
        .ok_or_else(|| GrainError::new(ErrorCode::Corrupt, "the grain can't be read"))
}

/// Opens grains from the first on until [`OPENED_BYTES`] are open. Rows without bytes are `None`.
fn open_some<'d>(
    delivered: &'d [Option<Cow<'_, [u8]>>],
    options: ProofOptions<'_>,
) -> Vec<Option<Result<OpenedGrain<'d>, GrainError>>> {
    let (mut opened, mut bytes) = (Vec::new(), 0);
    for next in delivered {
        let found = next.as_ref().map(|next| open(next, options));
        bytes += found
            .as_ref()
            .and_then(|found| found.as_ref().ok())
            .map_or(0, OpenedGrain::payload_length);
        opened.push(found);
        if bytes >= OPENED_BYTES {
            break;
        }
    }
    opened
}

fn prove_address(address: &str, digest: &Digest) -> Result<(), GrainError> {
    let found = ContentAddress::from_digest(*digest);
    // Rows have the canonical text; another spelling of the address is parsed.
    if address == found.write_hex(&mut [0; ContentAddress::TEXT_LENGTH]) {
        return Ok(());
    }
    let claimed: ContentAddress = address.parse()?;
    match claimed == found {
        true => Ok(()),
        false => Err(GrainError::new(
            ErrorCode::Integrity,
            format!("the blob hashes to {found}, not to {claimed}"),
        )),
    }
}
