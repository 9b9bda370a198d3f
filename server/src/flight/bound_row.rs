//! The row of parameters as a client sends it: a stream of Arrow's IPC format, in the messages of a
//! call or in a handle.
//!
//! Memory is taken for the bytes that are there, never for a length that they declare, so the
//! decoder of buffers reads them: that of streams allocates the declared length of a message
//! first. Compressed columns, which declare their length, too, are refused.

use arrow::array::{Array, ArrayData, RecordBatch};
use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::{Message, root_as_message};
use gristmill_engine::decoder_panic::caught;

use super::MAX_MESSAGE;

/// The first bytes of a message, before the length of its head.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The last bytes of a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Largest number of elements of a row, nested ones included: as many as one message can have.
/// Nulls and repeated values take no bytes, but may when they are converted.
const MAX_ELEMENTS: usize = MAX_MESSAGE * 8;

/// The bytes of a stream, made from the messages of a call.
#[derive(Default)]
pub(super) struct ParameterStream(Vec<u8>);

impl ParameterStream {
    /// Appends a message.
    pub(super) fn push(&mut self, head: &[u8], body: &[u8]) {
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&CONTINUATION);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(head);
        self.0.extend_from_slice(body);
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns all bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&END);
        self.0
    }
}

/// Decodes the only row of a stream.
///
/// # Errors
/// Bytes that aren't such a stream, compressed columns, and another number of rows.
pub(super) fn decoded(bytes: Vec<u8>) -> Result<RecordBatch, ArrowError> {
    check_messages(&bytes)?;
    let batches = caught(|| batches(Buffer::from_vec(bytes)));
    let batches = batches.unwrap_or_else(|| Err(invalid("the columns are damaged")))?;
    let row = only_row(batches)?;
    let columns = row.columns().iter();
    let elements = columns.map(|column| elements(&column.to_data()));
    match elements.fold(0, usize::saturating_add) > MAX_ELEMENTS {
        true => Err(invalid("the columns have too many elements")),
        false => Ok(row),
    }
}

/// Returns the only row of `batches`.
fn only_row(batches: Vec<RecordBatch>) -> Result<RecordBatch, ArrowError> {
    let mut batches = batches.into_iter().filter(|batch| batch.num_rows() > 0);
    match (batches.next(), batches.next()) {
        (Some(row), None) if row.num_rows() == 1 => Ok(row),
        _ => Err(invalid(ONE_ROW)),
    }
}

const ONE_ROW: &str = "a query runs with one row of parameters; run it once for each row";

fn invalid(message: &str) -> ArrowError {
    ArrowError::InvalidArgumentError(message.to_owned())
}

fn batches(mut bytes: Buffer) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    while let Some(batch) = decoder.decode(&mut bytes)? {
        batches.push(batch);
    }
    decoder.finish()?;
    Ok(batches)
}

/// Returns the number of elements of an array and of those in it.
fn elements(data: &ArrayData) -> usize {
    let inner = data.child_data().iter().map(elements);
    inner.fold(data.len(), usize::saturating_add)
}

/// Refuses compressed messages, and those that declare more bytes than there are.
fn check_messages(mut bytes: &[u8]) -> Result<(), ArrowError> {
    while let Some((head, rest)) = split_head(bytes) {
        let message = root_as_message(head).map_err(|_| invalid("a message has no head"))?;
        if is_compressed(&message) {
            return Err(invalid("the columns are compressed; send them as they are"));
        }
        let length = usize::try_from(message.bodyLength()).unwrap_or(usize::MAX);
        let rest = rest.get(length..);
        bytes = rest.ok_or_else(|| invalid("a message is shorter than it declares"))?;
    }
    Ok(())
}

/// Splits the head of the first message from the bytes after it; `None` at the end of a stream,
/// and if there are fewer bytes than declared, which the decoder refuses.
fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = bytes.strip_prefix(&CONTINUATION).unwrap_or(bytes);
    let (length, rest) = bytes.split_first_chunk()?;
    match u32::from_le_bytes(*length) {
        0 => None,
        length => rest.split_at_checked(usize::try_from(length).ok()?),
    }
}

fn is_compressed(message: &Message<'_>) -> bool {
    let of_dictionary = message.header_as_dictionary_batch();
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| of_dictionary.and_then(|dictionary| dictionary.data()));
    batch.is_some_and(|batch| batch.compression().is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, ListArray, NullArray, StringArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field};
    use arrow::ipc::writer::StreamWriter;

    use super::*;

    fn row(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("1", column)]).unwrap()
    }

    fn stream(batch: &RecordBatch) -> Vec<u8> {
        let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn text() -> RecordBatch {
        row(Arc::new(StringArray::from(vec!["x".repeat(4_000)])))
    }

    /// Returns the place of the second message and the length of its head.
    fn second_message(bytes: &[u8]) -> (usize, usize) {
        let (head, _) = split_head(bytes).unwrap();
        // The first message is the schema, without a body.
        let at = 8 + head.len();
        (at, split_head(&bytes[at..]).unwrap().0.len())
    }

    #[test]
    fn a_row_is_decoded_as_it_was_encoded() {
        for batch in [text(), row(Arc::new(NullArray::new(1)))] {
            assert_eq!(decoded(stream(&batch)).unwrap(), batch);
        }
        let two = row(Arc::new(StringArray::from(vec!["a", "b"])));
        assert!(decoded(stream(&two)).is_err());
    }

    #[test]
    fn a_declared_length_takes_no_memory() {
        let bytes = stream(&text());
        let (at, head) = second_message(&bytes);
        let mut long_head = bytes.clone();
        long_head[at + 4..at + 8].copy_from_slice(&0x7fff_fff0_u32.to_le_bytes());
        let message = root_as_message(&bytes[at + 8..at + 8 + head]).unwrap();
        let length = message.bodyLength().to_le_bytes();
        let mut places = bytes[at + 8..at + 8 + head].windows(8);
        let place = at + 8 + places.position(|window| window == length).unwrap();
        for declared in [i64::MAX, 1 << 46, -1] {
            let mut long_body = bytes.clone();
            long_body[place..place + 8].copy_from_slice(&declared.to_le_bytes());
            assert!(decoded(long_body).is_err(), "{declared}");
        }
        assert!(decoded(long_head).is_err());
        for end in 0..bytes.len() {
            let cut = decoded(bytes[..end].to_vec());
            assert!(cut.is_err() || end + END.len() >= bytes.len(), "{end}");
        }
    }

    #[test]
    fn nulls_that_take_no_bytes_are_counted() {
        let nulls: ArrayRef = Arc::new(NullArray::new(i32::MAX as usize));
        let item = Arc::new(Field::new_list_field(DataType::Null, true));
        let offsets = OffsetBuffer::from_lengths([nulls.len()]);
        let list = ListArray::new(item, offsets, nulls, None);
        let error = decoded(stream(&row(Arc::new(list)))).unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
    }

    #[test]
    fn messages_of_a_call_are_a_stream() {
        let bytes = stream(&text());
        let mut messages = ParameterStream::default();
        let mut rest = &bytes[..];
        while let Some((head, after)) = split_head(rest) {
            let length = root_as_message(head).unwrap().bodyLength();
            let (body, next) = after.split_at(usize::try_from(length).unwrap());
            messages.push(head, body);
            rest = next;
        }
        assert!(messages.len() > 4_000);
        assert_eq!(decoded(messages.finish()).unwrap(), text());
    }
}
