//! Fast columns, as tantivy's fast fields: small columns of the rows of a segment, held in memory,
//! because nearly every index look-up needs them: address, type, encoding and namespace.
//!
//! A page of a segment contains thousands of rows, and a look-up reads single ones: decompressing a
//! page for two bytes would dominate the cost of a server's look-ups. The columns are read once per
//! segment (they compress to almost nothing), and take [`ROW_BYTES`] per row. That costs more than
//! the pages of a few look-ups, so it is only done for small segments and those that are often
//! searched ([`FastColumnRequests`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::Int16Type;
use gristmill_connectors::source::SourceBytes;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Field;

use crate::error::BoxError;
use crate::segment::{AddressIndex, SegmentReader};

/// Bytes in memory per row.
pub const ROW_BYTES: u64 = 8;

const BATCH_ROWS: usize = 65_536;

/// Number of requests for the columns of a segment after which they are read: reading the pages of
/// some rows costs about an eighth of that.
const REQUESTS_BEFORE_READING: u32 = 8;

/// Maximal number of rows of a segment whose columns are read at the first request.
const SMALL_SEGMENT: u64 = 32_768;

/// Number of requests for the columns of a segment.
#[derive(Debug, Default)]
pub(super) struct FastColumnRequests(AtomicU32);

impl FastColumnRequests {
    /// Counts a request. Returns whether the columns of `rows` rows are worth reading.
    pub(super) fn are_worth_reading(&self, rows: u64) -> bool {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        rows <= SMALL_SEGMENT || before >= REQUESTS_BEFORE_READING
    }
}

/// Address, type, encoding and namespace of each row of one segment.
#[derive(Debug)]
pub struct FastColumns {
    addresses: Arc<AddressIndex>,
    /// Position of each row in the address index.
    places: Vec<u32>,
    type_bytes: Vec<u8>,
    encodings: DictionaryColumn<u8>,
    namespaces: DictionaryColumn<u16>,
}

/// A dictionary-encoded column: for each row the number of its text, counted from 1; 0 for none.
#[derive(Debug, Default)]
struct DictionaryColumn<N> {
    of: Vec<N>,
    names: Vec<String>,
}

impl FastColumns {
    /// Reads the columns of the segment in `bytes`, whose addresses are `addresses`.
    ///
    /// # Errors
    /// If the segment can't be read, has other rows, or has too many distinct texts.
    pub fn read(bytes: SourceBytes, addresses: Arc<AddressIndex>) -> Result<FastColumns, BoxError> {
        let reader = SegmentReader::open(bytes)?;
        let places = addresses.places();
        if places.len() as u64 != reader.rows() {
            return Err("the addresses are those of another segment".into());
        }
        let mut read = FastColumns {
            addresses,
            type_bytes: Vec::with_capacity(places.len()),
            places,
            encodings: DictionaryColumn::default(),
            namespaces: DictionaryColumn::default(),
        };
        let columns = [
            SystemColumn::TypeByte.name(),
            SystemColumn::Encoding.name(),
            Field::Namespace.name(),
        ];
        let (mut encodings, mut namespaces) = (HashMap::new(), HashMap::new());
        for batch in reader.read(0..reader.row_groups(), Some(&columns), BATCH_ROWS)? {
            read.add(&batch?, &mut encodings, &mut namespaces)?;
        }
        match read.type_bytes.len() == read.places.len() {
            true => Ok(read),
            false => Err("rows are missing".into()),
        }
    }

    fn add(
        &mut self,
        batch: &RecordBatch,
        encodings: &mut HashMap<String, u8>,
        namespaces: &mut HashMap<String, u16>,
    ) -> Result<(), BoxError> {
        let column = |name: &str| batch.column_by_name(name).ok_or("a column is missing");
        let types = column(SystemColumn::TypeByte.name())?
            .as_primitive_opt::<Int16Type>()
            .ok_or("no type bytes")?;
        for row in 0..types.len() {
            self.type_bytes.push(u8::try_from(types.value(row))?);
        }
        let texts = |name: &str| {
            column(name)?
                .as_string_opt::<i32>()
                .ok_or("a column isn't text")
        };
        self.encodings
            .add(texts(SystemColumn::Encoding.name())?, encodings)?;
        self.namespaces
            .add(texts(Field::Namespace.name())?, namespaces)
    }

    /// Returns the address of `row`.
    pub fn address(&self, row: u32) -> Option<ContentAddress> {
        self.addresses.address_at(*self.places.get(row as usize)?)
    }

    /// Returns the type byte of `row`.
    pub fn type_byte(&self, row: u32) -> Option<u8> {
        self.type_bytes.get(row as usize).copied()
    }

    /// Returns the encoding of `row`, if it has one.
    pub fn encoding(&self, row: u32) -> Option<&str> {
        self.encodings.get(row)
    }

    /// Returns the namespace of `row`, if it has one.
    pub fn namespace(&self, row: u32) -> Option<&str> {
        self.namespaces.get(row)
    }
}

impl<N: Copy + Default + TryFrom<usize> + Into<u16>> DictionaryColumn<N> {
    fn add(
        &mut self,
        column: &StringArray,
        known: &mut HashMap<String, N>,
    ) -> Result<(), BoxError> {
        let mut last: Option<(Option<&str>, N)> = None;
        for text in column {
            // Rows are sorted by namespace, so most have the text of the row before.
            let number = match last {
                Some((before, number)) if before == text => number,
                _ => self.number_of(text, known)?,
            };
            last = Some((text, number));
            self.of.push(number);
        }
        Ok(())
    }

    fn number_of(
        &mut self,
        text: Option<&str>,
        known: &mut HashMap<String, N>,
    ) -> Result<N, BoxError> {
        let Some(text) = text else {
            return Ok(N::default());
        };
        match known.get(text) {
            Some(number) => Ok(*number),
            None => self.name(text, known),
        }
    }

    fn name(&mut self, text: &str, known: &mut HashMap<String, N>) -> Result<N, BoxError> {
        self.names.push(text.to_owned());
        let number =
            N::try_from(self.names.len()).map_err(|_| "there are too many different names")?;
        known.insert(text.to_owned(), number);
        Ok(number)
    }

    fn get(&self, row: u32) -> Option<&str> {
        let number: u16 = (*self.of.get(row as usize)?).into();
        self.names
            .get(usize::from(number).checked_sub(1)?)
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_wherever_they_are() {
        let texts = [Some("b"), Some("b"), None, None, Some("a"), Some("b"), None];
        let mut column = DictionaryColumn::<u8>::default();
        let mut known = HashMap::new();
        for part in [&texts[..4], &texts[4..]] {
            let part = StringArray::from(part.to_vec());
            column.add(&part, &mut known).unwrap();
        }
        let read: Vec<_> = (0..7).map(|row| column.get(row)).collect();
        assert_eq!(read, texts);
        assert_eq!(column.names, ["b", "a"]);
    }

    #[test]
    fn columns_of_large_segments_are_read_when_they_are_often_requested() {
        let requests = FastColumnRequests::default();
        assert!(requests.are_worth_reading(SMALL_SEGMENT));
        let requests = FastColumnRequests::default();
        let worth = (0..10).map(|_| requests.are_worth_reading(SMALL_SEGMENT + 1));
        let worth: Vec<bool> = worth.collect();
        assert_eq!(worth, [[false; 8].as_slice(), &[true, true]].concat());
    }
}
