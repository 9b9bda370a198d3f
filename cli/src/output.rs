//! Writes results to standard output or to a file.
//!
//! A closed standard output (`gristmill … | head`) ends the output and is not an error.

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::{ArrayWriter, LineDelimitedWriter, ReaderBuilder, reader::infer_json_schema};
use gristmill_engine::destination::{Destination, PendingFile, STDOUT};
use gristmill_queries::render::escape_control;
use gristmill_queries::sql::{json_writer, repeated_column};
use serde::Serialize;

use crate::args::{OutputFormat, ResultArgs};
use crate::cell_text::{binary_as_hex, csv_batch, table_batch};
use crate::exit::Failure;
use crate::human_readable::human_readable;
use crate::requests::RequestsBefore;
use crate::table::{self, TableLayout};
use crate::termination;

/// Prints results in the selected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Printer {
    format: OutputFormat,
    /// Neutralise formulas in CSV.
    csv_safe: bool,
    /// Print tables as records.
    records: bool,
    /// Number of lines after which a result for people is cut.
    most_lines: Option<usize>,
    /// True if `--format json` or `jsonl` was given.
    is_json_requested: bool,
    requests_before: RequestsBefore,
}

impl Printer {
    /// Selects the format: a command's own flag, then the flag before the command, then the default
    /// for the kind of output; records are for people.
    pub fn new(own: ResultArgs, general: ResultArgs, requests_before: RequestsBefore) -> Printer {
        let records = own.records || general.records;
        let fitting = match records || io::stdout().is_terminal() {
            true => OutputFormat::Table,
            false => OutputFormat::Jsonl,
        };
        let given = own.format.or(general.format);
        let format = given.unwrap_or(fitting);
        Printer {
            is_json_requested: matches!(given, Some(OutputFormat::Json | OutputFormat::Jsonl)),
            requests_before,
            format,
            csv_safe: own.csv_safe || general.csv_safe,
            records,
            most_lines: own.most_lines.or(general.most_lines),
        }
    }

    /// Returns the printer with tables as records, or as tables.
    pub fn with_records(self, records: bool) -> Printer {
        Printer { records, ..self }
    }

    /// Returns whether tables are printed as records.
    pub fn prints_records(&self) -> bool {
        self.records
    }

    /// Returns the format.
    pub fn format(&self) -> OutputFormat {
        self.format
    }

    /// Returns true if the output is for people.
    pub fn is_for_people(&self) -> bool {
        matches!(self.format, OutputFormat::Table | OutputFormat::Text)
    }

    /// Returns true if results are printed as JSON, which may be nested.
    pub fn is_json(&self) -> bool {
        matches!(self.format, OutputFormat::Json | OutputFormat::Jsonl)
    }

    /// Prints the requests of the command to object stores, whose result isn't a report, as a line
    /// on standard error if JSON was requested.
    pub fn print_requests(&self) {
        if self.is_json_requested {
            self.requests_before.print();
        }
    }

    /// Prints one result. In JSON it gets the requests of the command to object stores, if there
    /// were any.
    pub fn record(&self, record: &impl Serialize) -> Result<(), Failure> {
        let mut value = serde_json::to_value(record)
            .map_err(|error| Failure::environment("can't print the result", &error))?;
        if self.is_json() {
            self.requests_before.add_to(&mut value);
        }
        let text = match self.format {
            OutputFormat::Table | OutputFormat::Text => {
                let text = escape_control(&human_readable(&value)).into_owned();
                match self.most_lines {
                    Some(most) => first_lines(&text, most),
                    None => text,
                }
            }
            OutputFormat::Json => format!("{value:#}\n"),
            OutputFormat::Jsonl => format!("{value}\n"),
            OutputFormat::Csv | OutputFormat::Arrow => {
                return self.value_rows(std::slice::from_ref(&value));
            }
        };
        write_stdout(|out| out.write_all(text.as_bytes()))
    }

    /// Prints results of one kind: as one array, or one per line or row.
    pub fn records(&self, records: &[impl Serialize]) -> Result<(), Failure> {
        let values: Result<Vec<_>, _> = records.iter().map(serde_json::to_value).collect();
        let values =
            values.map_err(|error| Failure::environment("can't print the result", &error))?;
        let text = match self.format {
            OutputFormat::Json => format!("{:#}\n", serde_json::Value::Array(values)),
            OutputFormat::Jsonl => values.iter().map(|value| format!("{value}\n")).collect(),
            // Without a result the columns are unknown.
            _ if values.is_empty() => String::new(),
            OutputFormat::Table | OutputFormat::Text | OutputFormat::Csv | OutputFormat::Arrow => {
                return self.value_rows(&values);
            }
        };
        write_stdout(|out| out.write_all(text.as_bytes()))?;
        self.print_requests();
        Ok(())
    }

    /// Prints one row per value; `values` must not be empty.
    fn value_rows(&self, values: &[serde_json::Value]) -> Result<(), Failure> {
        let batch = batch_of(values)
            .map_err(|error| Failure::environment("can't print the result", &error))?;
        self.batches(batch.schema(), vec![batch])
    }

    /// Prints rows.
    pub fn batches(&self, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let mut rows = self.rows(schema)?;
        for batch in batches {
            rows.write(batch)?;
        }
        rows.finish()
    }

    /// Returns the layout of tables.
    pub fn layout(&self) -> TableLayout {
        match self.format {
            OutputFormat::Text => TableLayout {
                records: self.records,
                ..TableLayout::default()
            },
            _ => TableLayout::of_terminal(self.records),
        }
    }

    /// Starts printing rows that arrive in batches.
    pub fn rows(&self, schema: SchemaRef) -> Result<RowWriter, Failure> {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let is_json = matches!(self.format, OutputFormat::Json | OutputFormat::Jsonl);
        if let Some(name) = repeated_column(&schema).filter(|_| is_json) {
            return Err(Failure::usage(format!(
                "several columns are named `{name}`, of which a reader of JSON keeps one: give them \
                 names with AS, or use another --format"
            )));
        }
        Ok(match self.format {
            OutputFormat::Table | OutputFormat::Text => RowWriter::Table {
                schema,
                held: Vec::new(),
                layout: self.layout(),
            },
            OutputFormat::Json => RowWriter::Json { held: Vec::new() },
            OutputFormat::Jsonl => RowWriter::Jsonl(json_writer().build(out)),
            OutputFormat::Csv => RowWriter::Csv {
                writer: Box::new(WriterBuilder::new().with_header(true).build(out)),
                schema,
                safe: self.csv_safe,
            },
            OutputFormat::Arrow => {
                let writer = StreamWriter::try_new(out, &schema)
                    .map_err(|error| Failure::environment("can't print rows", &error))?;
                RowWriter::Arrow(Box::new(writer))
            }
        })
    }
}

/// Writer of rows in one of the formats.
pub enum RowWriter {
    Table {
        schema: SchemaRef,
        held: Vec<RecordBatch>,
        layout: TableLayout,
    },
    Json {
        held: Vec<RecordBatch>,
    },
    Jsonl(LineDelimitedWriter<BufWriter<io::Stdout>>),
    Csv {
        writer: Box<arrow::csv::Writer<BufWriter<io::Stdout>>>,
        schema: SchemaRef,
        safe: bool,
    },
    Arrow(Box<StreamWriter<BufWriter<io::Stdout>>>),
}

impl RowWriter {
    /// Prints a batch.
    pub fn write(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        let written = match self {
            RowWriter::Table { held, .. } | RowWriter::Json { held } => {
                held.push(batch);
                Ok(())
            }
            RowWriter::Jsonl(writer) => writer.write(&binary_as_hex(&batch)?),
            RowWriter::Csv { writer, safe, .. } => writer.write(&csv_batch(&batch, *safe)?),
            RowWriter::Arrow(writer) => writer.write(&batch),
        };
        exit_on_broken_pipe(written)
    }

    /// Prints buffered rows and flushes.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            RowWriter::Table {
                schema,
                held,
                layout,
            } => write_table(&schema, &held, layout),
            RowWriter::Json { held } => write_json_array(&held),
            RowWriter::Jsonl(mut writer) => {
                exit_on_broken_pipe(writer.finish())?;
                // The end of a JSON Lines writer doesn't flush, and dropping it hides errors.
                exit_on_broken_pipe(writer.into_inner().flush().map_err(ArrowError::from))
            }
            RowWriter::Csv {
                mut writer,
                schema,
                safe,
            } => {
                // A result without batches still has a header.
                exit_on_broken_pipe(
                    writer.write(&csv_batch(&RecordBatch::new_empty(schema), safe)?),
                )
            }
            RowWriter::Arrow(mut writer) => exit_on_broken_pipe(writer.finish()),
        }
    }
}

/// Prints rows as a table.
fn write_table(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    layout: TableLayout,
) -> Result<(), Failure> {
    let batches = batches
        .iter()
        .map(table_batch)
        .collect::<Result<Vec<_>, _>>()?;
    let text = table::render(schema, &batches, layout)
        .map_err(|error| Failure::environment("can't print rows", &error))?;
    write_stdout(|out| out.write_all(text.as_bytes()))
}

/// Prints rows as one JSON array.
fn write_json_array(batches: &[RecordBatch]) -> Result<(), Failure> {
    let mut array: ArrayWriter<Vec<u8>> = json_writer().build(Vec::new());
    for batch in batches {
        exit_on_broken_pipe(array.write(&binary_as_hex(batch)?))?;
    }
    exit_on_broken_pipe(array.finish())?;
    let mut text = array.into_inner();
    if text.is_empty() {
        text.extend(b"[]");
    }
    text.push(b'\n');
    write_stdout(|out| out.write_all(&text))
}

/// Converts values to rows; `values` must not be empty.
fn batch_of(values: &[serde_json::Value]) -> Result<RecordBatch, ArrowError> {
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    let (schema, _) = infer_json_schema(text.as_bytes(), None)?;
    let mut reader = ReaderBuilder::new(schema.into())
        .with_batch_size(values.len())
        .build(text.as_bytes())?;
    reader
        .next()
        .ok_or_else(|| ArrowError::JsonError("no row".to_owned()))?
}

/// Returns the first `most` lines of a text and the number of the others.
fn first_lines(text: &str, most: usize) -> String {
    let lines = text.lines().count();
    if lines <= most + 1 {
        return text.to_owned();
    }
    let shown: String = text.split_inclusive('\n').take(most).collect();
    format!("{shown}… {} more lines\n", lines - most)
}

/// Writes to standard output; a closed standard output is not an error.
pub fn write_stdout(
    write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(stdout_failure(&error)),
        Ok(()) => Ok(()),
    }
}

/// Returns the failure of standard output.
pub fn stdout_failure(error: &io::Error) -> Failure {
    Failure::environment("can't write to standard output", error)
}

/// The byte order mark in UTF-8, with which some editors begin a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a script from `file`, or from standard input if there is none, without a byte order mark.
///
/// # Errors
/// If it can't be read.
pub fn read_script(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut bytes = match file {
        Some(path) => std::fs::read(path).map_err(|error| Failure::reading(path, &error))?,
        None => read_stdin()?,
    };
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Reads all of standard input.
fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::environment("can't read standard input", &error))?;
    Ok(bytes)
}

/// Returns whether a result goes to standard output, so that nothing else may.
pub fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == STDOUT)
}

/// Returns the file of an option whose default is standard output, which `-` stands for, too.
pub fn unless_stdout(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !is_stdout(Some(path)))
}

/// Creates a file of results, replacing an existing one; it appears at `path` when it is
/// [finished](finish_file).
pub fn begin_file(path: &Path) -> Result<PendingFile, Failure> {
    let failure = |error: io::Error| Failure::writing(path, &error);
    let destination = Destination::of(path).map_err(failure)?;
    if !destination.is_stream() {
        termination::end_at_interrupt();
    }
    destination.begin().map_err(failure)
}

/// Moves a finished file to `path`. A pipe that its reader has closed isn't an error.
pub fn finish_file(path: &Path, file: PendingFile) -> Result<(), Failure> {
    match file.finish(true) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing(path, &error))
        }
        _ => Ok(()),
    }
}

/// Writes a whole file of results.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut out = UntilClosed(begin_file(path)?);
    out.write_all(bytes)
        .map_err(|error| Failure::writing(path, &error))?;
    finish_file(path, out.0)
}

/// Discards what is written after the reader of a pipe has closed it.
#[derive(Debug)]
pub struct UntilClosed<W>(pub W);

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

fn exit_on_broken_pipe(written: Result<(), ArrowError>) -> Result<(), Failure> {
    match written {
        Err(error) if error.to_string().contains("Broken pipe") => std::process::exit(0),
        Err(error) => Err(Failure::environment("can't print rows", &error)),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_script() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        for (written, read) in [
            ("\u{feff}SELECT 1", "SELECT 1"),
            ("SELECT 1", "SELECT 1"),
            ("\u{feff}", ""),
            ("\u{feff}\u{feff}1", "\u{feff}1"),
        ] {
            std::fs::write(&path, written).unwrap();
            let script = read_script(Some(&path)).unwrap();
            assert_eq!(script, read.as_bytes(), "{written:?}");
        }
        assert!(read_script(Some(folder.path())).is_err());
    }
}
