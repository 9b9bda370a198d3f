//! Tickets and handles of prepared statements: the statement with its parameters.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use prost::Message;
use tonic::Status;

use super::bound_row;
use super::failure::invalid;
use crate::http::MAX_BODY;

/// First word of statements in CAL.
const CAL: &str = "CAL";

/// What a ticket runs, and what the handle of a prepared statement names.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Handle {
    /// The statement.
    #[prost(string, tag = "1")]
    pub(super) text: String,
    /// The row of parameters as Arrow IPC stream; empty if none are bound.
    #[prost(bytes = "bytes", tag = "2")]
    parameters: Bytes,
}

/// The language of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    Sql(&'a str),
    /// A statement of CAL without the word `CAL` before it.
    Cal(&'a str),
}

impl Handle {
    /// Returns the handle of a statement without parameters.
    pub(super) fn new(text: String) -> Handle {
        let parameters = Bytes::new();
        Handle { text, parameters }
    }

    /// Decodes what a client sends back.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it isn't a handle.
    pub(super) fn from_bytes(bytes: &Bytes) -> Result<Handle, Status> {
        Handle::decode(bytes.clone())
            .map_err(|_| Status::invalid_argument("this isn't a handle of this server"))
    }

    /// Returns the bytes for clients.
    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes::from(self.encode_to_vec())
    }

    /// Returns the same statement with parameters.
    ///
    /// # Errors
    /// Those of the encoding, and a handle that is too long for a client to send it back.
    pub(super) fn bound(self, parameters: &RecordBatch) -> Result<Handle, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), parameters.schema_ref())?;
        writer.write(parameters)?;
        let parameters = Bytes::from(writer.into_inner()?);
        let bound = Handle { parameters, ..self };
        match bound.encoded_len() <= MAX_BODY {
            true => Ok(bound),
            false => Err(ArrowError::InvalidArgumentError(format!(
                "the statement and its parameters have more than {MAX_BODY} bytes"
            ))),
        }
    }

    /// Returns the row of parameters, if some are bound.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a client has changed them.
    pub(super) fn parameters(&self) -> Result<Option<RecordBatch>, Status> {
        if self.parameters.is_empty() {
            return Ok(None);
        }
        let row = bound_row::decoded(self.parameters.to_vec());
        row.map(Some).map_err(|error| invalid(&error))
    }

    /// Returns the statement and its language.
    pub(super) fn statement(&self) -> Statement<'_> {
        let text = self.text.trim_start();
        match text.split_at_checked(CAL.len()) {
            Some((word, rest))
                if word.eq_ignore_ascii_case(CAL) && rest.starts_with(char::is_whitespace) =>
            {
                Statement::Cal(rest.trim_start())
            }
            _ => Statement::Sql(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    #[test]
    fn a_handle_that_cannot_be_sent_back_is_refused() {
        let bound = |length: usize| {
            let value: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(length)]));
            let row = RecordBatch::try_from_iter([("1", value)]).unwrap();
            Handle::new("SELECT $1".repeat(100)).bound(&row)
        };
        assert!(bound(MAX_BODY / 2).is_ok());
        let refused = bound(MAX_BODY).unwrap_err().to_string();
        assert!(refused.contains("1048576 bytes"), "{refused}");
    }

    #[test]
    fn the_first_word_determines_the_language() {
        for (text, expected) in [
            ("CAL RECALL beliefs", Statement::Cal("RECALL beliefs")),
            ("\n cal RECALL beliefs", Statement::Cal("RECALL beliefs")),
            ("CAL\nRECALL beliefs", Statement::Cal("RECALL beliefs")),
            ("CAL\r\n\tRECALL beliefs", Statement::Cal("RECALL beliefs")),
            ("CAL", Statement::Sql("CAL")),
            ("SELECT 1", Statement::Sql("SELECT 1")),
            ("CALL x", Statement::Sql("CALL x")),
            ("é", Statement::Sql("é")),
        ] {
            assert_eq!(Handle::new(text.to_owned()).statement(), expected);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let handle = Handle::new("SELECT 1".to_owned());
        assert_eq!(Handle::from_bytes(&handle.to_bytes()).unwrap(), handle);
        assert!(Handle::from_bytes(&Bytes::from_static(b"\xff\xff")).is_err());
        let changed = Handle {
            parameters: Bytes::from_static(b"no stream"),
            ..handle
        };
        assert!(changed.parameters().is_err());
    }
}
