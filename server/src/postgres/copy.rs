//! `COPY … TO STDOUT`: the rows of a query as text, as CSV or in binary, for clients that read
//! many.

use std::fmt::{Debug, Display};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget,
    Statement as SqlStatement,
};
use datafusion::sql::sqlparser::parser::Parser;
use futures::{Sink, SinkExt, StreamExt};
use gristmill_queries::sql::{
    DataFusionError, StatementDialect, StatementError, check_depth, statements,
};
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldInfo, QueryResponse, Tag};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::DataRow;

use super::catalog::rewritten;
use super::failure::{error, query_error};

/// The first bytes of rows in binary: signature, flags and length of an extension.
const BINARY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The last bytes of rows in binary.
const BINARY_END: &[u8] = b"\xff\xff";

/// Rows that are copied to the client.
#[derive(Debug, Clone)]
pub(super) struct CopiedQuery {
    pub(super) query: Box<Statement>,
    form: CopyForm,
    has_header: bool,
    delimiter: char,
    null: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyForm {
    Text,
    Csv,
    Binary,
}

/// Returns the query of a text that is `COPY … TO STDOUT`; `None` for other texts.
///
/// # Errors
/// `COPY … FROM`, which writes; options that aren't known; a table whose columns can't be named.
pub(super) fn copied_query(text: &str) -> PgWireResult<Option<CopiedQuery>> {
    let is_copy = without_comments(text)
        .get(..4)
        .is_some_and(|word| word.eq_ignore_ascii_case("copy"));
    if !is_copy {
        return Ok(None);
    }
    check_depth(text).map_err(query_error)?;
    let parsed = Parser::parse_sql(&StatementDialect::of(text), text);
    let Ok([SqlStatement::Copy { .. }]) = parsed.as_deref() else {
        return Ok(None);
    };
    match parsed.ok().and_then(|mut statements| statements.pop()) {
        Some(SqlStatement::Copy {
            source,
            to: true,
            target: CopyTarget::Stdout,
            options,
            legacy_options,
            ..
        }) => {
            let query = Box::new(rewritten(query_of(source)?));
            let mut copied = CopiedQuery::new(query);
            // The form first: it has defaults of the other options.
            let is_form = |it: &&CopyOption| matches!(it, CopyOption::Format(_));
            let (forms, others): (Vec<_>, Vec<_>) = options.iter().partition(is_form);
            forms
                .into_iter()
                .chain(others)
                .try_for_each(|it| copied.set(it))?;
            let is_form = |it: &&CopyLegacyOption| {
                matches!(it, CopyLegacyOption::Csv(_) | CopyLegacyOption::Binary)
            };
            let (forms, others): (Vec<_>, Vec<_>) = legacy_options.iter().partition(is_form);
            forms
                .into_iter()
                .chain(others)
                .try_for_each(|it| copied.set_legacy(it))?;
            copied.check()?;
            Ok(Some(copied))
        }
        Some(SqlStatement::Copy { to: false, .. }) => {
            let statement = "COPY … FROM";
            let refused = StatementError::Write { statement };
            Err(query_error(DataFusionError::External(Box::new(refused))))
        }
        _ => Ok(None),
    }
}

/// Returns a text from its first word on: without the spaces and comments before it.
fn without_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        rest = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            after_comment(comment)
        } else {
            return rest;
        };
        rest = rest.trim_start();
    }
}

/// Returns what is behind the end of a comment, in which there may be others.
fn after_comment(comment: &str) -> &str {
    let (mut depth, mut at) = (1_usize, 0);
    while let Some(pair) = comment.as_bytes().get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return comment.get(at..).unwrap_or_default();
        }
    }
    ""
}

fn query_of(source: CopySource) -> PgWireResult<Statement> {
    let (table, columns) = match source {
        CopySource::Query(query) => {
            return Ok(Statement::Statement(Box::new(SqlStatement::Query(query))));
        }
        CopySource::Table {
            table_name,
            columns,
        } => (table_name, columns),
    };
    let names: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let columns = match names.is_empty() {
        true => "*".to_owned(),
        false => names.join(", "),
    };
    let parsed = statements(&format!("SELECT {columns} FROM {table}"));
    let query = parsed.map_err(query_error)?.pop();
    query.ok_or_else(|| query_error(DataFusionError::Plan("there is no table".to_owned())))
}

fn unsupported(option: &impl Display) -> PgWireError {
    error("0A000", format!("COPY has no option {option}"))
}

impl CopiedQuery {
    fn new(query: Box<Statement>) -> CopiedQuery {
        CopiedQuery {
            query,
            form: CopyForm::Text,
            has_header: false,
            delimiter: '\t',
            null: "\\N".to_owned(),
        }
    }

    fn set_form(&mut self, form: CopyForm) {
        self.form = form;
        if form == CopyForm::Csv {
            self.delimiter = ',';
            self.null.clear();
        }
    }

    /// Refuses options with which clients can't separate fields and values, as PostgreSQL does.
    fn check(&self) -> PgWireResult<()> {
        let taken = match self.form {
            CopyForm::Text => "\\.abcdefghijklmnopqrstuvwxyz0123456789\r\n",
            CopyForm::Csv => "\"\r\n",
            CopyForm::Binary => return Ok(()),
        };
        if taken.contains(self.delimiter) || self.null.contains([self.delimiter, '\r', '\n']) {
            return Err(error("0A000", "COPY can't use this DELIMITER or NULL"));
        }
        Ok(())
    }

    fn set(&mut self, option: &CopyOption) -> PgWireResult<()> {
        match option {
            CopyOption::Format(name) => self.set_form(match name.value.to_lowercase().as_str() {
                "text" => CopyForm::Text,
                "csv" => CopyForm::Csv,
                "binary" => CopyForm::Binary,
                _ => return Err(unsupported(option)),
            }),
            CopyOption::Header(has_header) => self.has_header = *has_header,
            CopyOption::Delimiter(delimiter) => self.delimiter = *delimiter,
            CopyOption::Null(null) => self.null.clone_from(null),
            CopyOption::Encoding(name) if is_utf8(name) => {}
            other => return Err(unsupported(other)),
        }
        Ok(())
    }

    fn set_legacy(&mut self, option: &CopyLegacyOption) -> PgWireResult<()> {
        match option {
            CopyLegacyOption::Binary => self.set_form(CopyForm::Binary),
            CopyLegacyOption::Csv(options) => {
                self.set_form(CopyForm::Csv);
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.has_header = true,
                        other => return Err(unsupported(other)),
                    }
                }
            }
            CopyLegacyOption::Header => self.has_header = true,
            CopyLegacyOption::Delimiter(delimiter) => self.delimiter = *delimiter,
            CopyLegacyOption::Null(null) => self.null.clone_from(null),
            other => return Err(unsupported(other)),
        }
        Ok(())
    }

    /// Returns the format in which the query writes its values.
    pub(super) fn format(&self) -> Format {
        match self.form {
            CopyForm::Text | CopyForm::Csv => Format::UnifiedText,
            CopyForm::Binary => Format::UnifiedBinary,
        }
    }

    /// Returns what is sent before the rows.
    fn head(&self, columns: &[FieldInfo]) -> Bytes {
        match self.form {
            CopyForm::Binary => Bytes::from_static(BINARY_HEAD),
            CopyForm::Text | CopyForm::Csv if self.has_header => {
                let names = columns.iter().map(|column| Some(column.name().as_bytes()));
                self.line(names)
            }
            CopyForm::Text | CopyForm::Csv => Bytes::new(),
        }
    }

    /// Returns a row as it is sent.
    fn row(&self, row: &DataRow) -> Bytes {
        if self.form == CopyForm::Binary {
            let mut bytes = BytesMut::with_capacity(row.data.len() + 2);
            bytes.put_i16(row.field_count);
            bytes.put_slice(&row.data);
            return bytes.freeze();
        }
        let mut data = &row.data[..];
        let fields = (0..row.field_count).map(|_| {
            let length = usize::try_from(data.get_i32()).ok()?;
            let (field, rest) = data.split_at_checked(length)?;
            data = rest;
            Some(field)
        });
        self.line(fields)
    }

    /// Returns a line of fields.
    fn line<'f>(&self, fields: impl Iterator<Item = Option<&'f [u8]>>) -> Bytes {
        let mut line = BytesMut::new();
        let mut delimiter = [0; 4];
        let delimiter = self.delimiter.encode_utf8(&mut delimiter).as_bytes();
        for (at, field) in fields.enumerate() {
            if at > 0 {
                line.put_slice(delimiter);
            }
            match (field, self.form) {
                (None, _) => line.put_slice(self.null.as_bytes()),
                (Some(field), CopyForm::Csv) => self.put_csv(field, &mut line),
                (Some(field), _) => self.put_text(field, &mut line),
            }
        }
        line.put_u8(b'\n');
        line.freeze()
    }

    fn put_text(&self, field: &[u8], line: &mut BytesMut) {
        for byte in field {
            let escaped = match byte {
                b'\\' => b'\\',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                byte if self.delimiter.is_ascii() && self.delimiter as u32 == u32::from(*byte) => {
                    *byte
                }
                byte => {
                    line.put_u8(*byte);
                    continue;
                }
            };
            line.put_slice(&[b'\\', escaped]);
        }
    }

    /// Writes a field of CSV; one that would be read as NULL is quoted.
    fn put_csv(&self, field: &[u8], line: &mut BytesMut) {
        let is_special =
            |byte: &u8| b"\"\n\r".contains(byte) || self.delimiter as u32 == u32::from(*byte);
        let is_plain = !field.iter().any(is_special) && field != self.null.as_bytes();
        if is_plain && field != b"\\." {
            return line.put_slice(field);
        }
        line.put_u8(b'"');
        for byte in field {
            if *byte == b'"' {
                line.put_u8(b'"');
            }
            line.put_u8(*byte);
        }
        line.put_u8(b'"');
    }

    /// Sends the rows of the query. An error ends them without the message of a complete copy.
    pub(super) async fn send<C>(&self, client: &mut C, mut rows: QueryResponse) -> PgWireResult<()>
    where
        C: Sink<PgWireBackendMessage> + Unpin,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let columns = rows.row_schema();
        let code = i8::from(self.form == CopyForm::Binary);
        let width = i16::try_from(columns.len()).unwrap_or(i16::MAX);
        let begin = CopyOutResponse::new(code, width, vec![i16::from(code); columns.len()]);
        client
            .feed(PgWireBackendMessage::CopyOutResponse(begin))
            .await?;
        send_bytes(client, self.head(&columns)).await?;
        let mut count = 0;
        while let Some(row) = rows.data_rows().next().await {
            send_bytes(client, self.row(&row?)).await?;
            count += 1;
        }
        if self.form == CopyForm::Binary {
            send_bytes(client, Bytes::from_static(BINARY_END)).await?;
        }
        let done = PgWireBackendMessage::CopyDone(CopyDone::new());
        client.feed(done).await?;
        let tag = Tag::new("COPY").with_rows(count);
        let complete = PgWireBackendMessage::CommandComplete(tag.into());
        Ok(client.feed(complete).await?)
    }
}

fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode"].contains(&&*name.to_lowercase())
}

async fn send_bytes<C>(client: &mut C, bytes: Bytes) -> PgWireResult<()>
where
    C: Sink<PgWireBackendMessage> + Unpin,
    PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
{
    if bytes.is_empty() {
        return Ok(());
    }
    let data = PgWireBackendMessage::CopyData(CopyData::new(bytes));
    Ok(client.feed(data).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, fields: &[Option<&str>]) -> String {
        let copied = copied_query(text).unwrap().unwrap();
        let fields = fields.iter().map(|field| field.map(str::as_bytes));
        String::from_utf8(copied.line(fields).to_vec()).unwrap()
    }

    #[test]
    fn fields_are_escaped_or_quoted() {
        let fields = [Some("a\tb\\"), None, Some(""), Some("c,\"d\"\n")];
        for (text, expected) in [
            (
                "COPY (SELECT 1) TO STDOUT",
                "a\\tb\\\\\t\\N\t\tc,\"d\"\\n\n",
            ),
            (
                "copy grains (type) to stdout with (format csv, header)",
                "a\tb\\,,\"\",\"c,\"\"d\"\"\n\"\n",
            ),
            (
                "COPY grains TO STDOUT (DELIMITER ',', NULL 'x')",
                "a\\tb\\\\,x,,c\\,\"d\"\\n\n",
            ),
            (
                "COPY (SELECT 1) TO STDOUT WITH DELIMITER ';' NULL 'nil' CSV",
                "a\tb\\;nil;;\"c,\"\"d\"\"\n\"\n",
            ),
            (
                "-- rows\n /* of /* a */ report */ COPY (SELECT 1) TO STDOUT",
                "a\\tb\\\\\t\\N\t\tc,\"d\"\\n\n",
            ),
            (
                "COPY grains TO STDOUT (DELIMITER ';', FORMAT csv)",
                "a\tb\\;;\"\";\"c,\"\"d\"\"\n\"\n",
            ),
        ] {
            assert_eq!(line(text, &fields), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_copies_to_the_client() {
        for text in [
            "SELECT 1",
            "COPY grains TO '/tmp/x.csv'",
            "COPY grains TO STDOUT; SELECT 1",
            "COPY",
            "-- COPY grains TO STDOUT",
            "/* COPY grains TO STDOUT",
        ] {
            assert!(copied_query(text).unwrap().is_none(), "{text}");
        }
        for options in [
            "(FORMAT parquet)",
            "(FORMAT csv, QUOTE 'x')",
            "(DELIMITER 'n')",
            "(DELIMITER '.')",
            "(FORMAT csv, DELIMITER '\"')",
            "(DELIMITER ',', NULL 'a,b')",
        ] {
            let text = format!("COPY grains TO STDOUT {options}");
            assert!(copied_query(&text).is_err(), "{text}");
        }
        for text in [
            "COPY grains FROM STDIN",
            "COPY grains (nothing) FROM STDIN WITH (FORMAT csv);",
            "/* rows */ copy nothing from '/tmp/x.csv'",
        ] {
            let Err(PgWireError::UserError(refused)) = copied_query(text) else {
                panic!("{text}");
            };
            assert_eq!(refused.code, "25006", "{text}");
        }
    }
}
