//! Results on standard output, everything else on standard error.
//!
//! A closed standard output (`gristmill … | head`) ends the printing, not in an error.

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::json::{LineDelimitedWriter, ReaderBuilder, reader::infer_json_schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_engine::destination::{Destination, PendingFile};
use gristmill_queries::render::visible;
use serde::Serialize;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;

use crate::args::{Common, Format, LogFormat, Results};
use crate::exit::Failure;
use crate::spreadsheet::neutral;
use crate::table::{self, Layout};

/// What is logged: the log library of the lake speaks of tables that aren't there yet as errors,
/// and of commits that are tried again behind another writer's.
const NORMAL_LOG: &str =
    "warn,buoyant_kernel=off,deltalake_core=error,deltalake_core::kernel::transaction=off";

/// What is logged when only results and errors are wanted.
const QUIET_LOG: &str = "error,buoyant_kernel=off,deltalake_core::kernel::transaction=off";

/// Starts the log on standard error: warnings and worse, or what `RUST_LOG` asks for.
pub fn start_log(common: &Common) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new(if common.quiet { QUIET_LOG } else { NORMAL_LOG })
    });
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false);
    match common.log_format {
        LogFormat::Text => {
            // Fields hold names and texts from outside; the escapes of the level's colour are our
            // own.
            let fields = debug_fn(|out, field, value| match field.name() {
                "message" => write!(out, "{}", visible(&format!("{value:?}"))),
                name => write!(out, "{name}={}", visible(&format!("{value:?}"))),
            });
            log.with_ansi(wants_colour())
                .without_time()
                .fmt_fields(fields.delimited(" "))
                .init();
        }
        LogFormat::Json => log.json().init(),
    }
}

fn wants_colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints a line for people on standard error.
pub fn note(line: impl std::fmt::Display) {
    eprintln!("{}", visible(&line.to_string()));
}

/// Prints results in the format that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    format: Format,
    /// CSV is for a spreadsheet.
    csv_safe: bool,
    /// People see a record per row.
    records: bool,
}

impl Printer {
    /// A command's own choice, then that before the command, then what suits where the output goes.
    pub fn new(own: Results, general: Results) -> Printer {
        let fitting = if io::stdout().is_terminal() {
            Format::Table
        } else {
            Format::Jsonl
        };
        let format = own.format.or(general.format).unwrap_or(fitting);
        Printer {
            format,
            csv_safe: own.csv_safe || general.csv_safe,
            records: false,
        }
    }

    /// The same, with a record per row for people, or a table.
    pub fn with_records(self, records: bool) -> Printer {
        Printer { records, ..self }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// True if a person is to read it.
    pub fn is_for_people(&self) -> bool {
        self.format == Format::Table
    }

    /// True if results are printed as JSON, in which they may be nested.
    pub fn is_json(&self) -> bool {
        matches!(self.format, Format::Json | Format::Jsonl)
    }

    /// Prints one result.
    pub fn record(&self, record: &impl Serialize) -> Result<(), Failure> {
        let value = serde_json::to_value(record)
            .map_err(|error| Failure::environment("can't print the result", &error))?;
        let text = match self.format {
            Format::Table => visible(&people(&value)).into_owned(),
            Format::Json => format!("{value:#}\n"),
            Format::Jsonl => format!("{value}\n"),
            Format::Csv | Format::Arrow => {
                let batch = batch_of(std::slice::from_ref(&value))
                    .map_err(|error| Failure::environment("can't print the result", &error))?;
                return self.batches(batch.schema(), vec![batch]);
            }
        };
        write_out(|out| out.write_all(text.as_bytes()))
    }

    /// Prints results of one kind: as one array, or a line or row each.
    pub fn records(&self, records: &[impl Serialize]) -> Result<(), Failure> {
        let fault =
            |error: &dyn std::fmt::Display| Failure::environment("can't print the result", error);
        let values: Result<Vec<_>, _> = records.iter().map(serde_json::to_value).collect();
        let values = values.map_err(|error| fault(&error))?;
        let text = match self.format {
            Format::Json => format!("{:#}\n", serde_json::Value::Array(values)),
            Format::Jsonl => values.iter().map(|value| format!("{value}\n")).collect(),
            // Without a result nobody knows the columns.
            _ if values.is_empty() => String::new(),
            Format::Table | Format::Csv | Format::Arrow => {
                let batch = batch_of(&values).map_err(|error| fault(&error))?;
                return self.batches(batch.schema(), vec![batch]);
            }
        };
        write_out(|out| out.write_all(text.as_bytes()))
    }

    /// Prints rows.
    pub fn batches(&self, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<(), Failure> {
        let mut rows = self.rows(schema)?;
        for batch in batches {
            rows.write(batch)?;
        }
        rows.finish()
    }

    /// Begins to print rows that come bit by bit.
    pub fn rows(&self, schema: SchemaRef) -> Result<Rows, Failure> {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let arrow = |error: &dyn std::fmt::Display| Failure::environment("can't print rows", error);
        Ok(match self.format {
            Format::Table => Rows::Table {
                schema,
                held: Vec::new(),
                layout: Layout::of_terminal(self.records),
            },
            Format::Json => Rows::Json { held: Vec::new() },
            Format::Jsonl => Rows::Jsonl(LineDelimitedWriter::new(out)),
            Format::Csv => {
                let writer = Box::new(WriterBuilder::new().with_header(true).build(out));
                Rows::Csv {
                    writer,
                    schema,
                    safe: self.csv_safe,
                }
            }
            Format::Arrow => Rows::Arrow(Box::new(
                StreamWriter::try_new(out, &schema).map_err(|error| arrow(&error))?,
            )),
        })
    }
}

/// Rows that are being printed.
pub enum Rows {
    Table {
        schema: SchemaRef,
        held: Vec<RecordBatch>,
        layout: Layout,
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

impl Rows {
    /// Prints a batch.
    pub fn write(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        let written = match self {
            Rows::Table { held, .. } | Rows::Json { held } => {
                held.push(batch);
                Ok(())
            }
            Rows::Jsonl(writer) => writer.write(&printable(&batch)?),
            Rows::Csv { writer, safe, .. } => writer.write(&comma_separated(&batch, *safe)?),
            Rows::Arrow(writer) => writer.write(&batch),
        };
        unless_closed(written)
    }

    /// Prints what is held, and flushes.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Rows::Table {
                schema,
                held,
                layout,
            } => {
                let held = held.iter().map(printable).collect::<Result<Vec<_>, _>>()?;
                let text = table::render(&schema, &held, layout);
                let text =
                    text.map_err(|error| Failure::environment("can't print rows", &error))?;
                write_out(|out| out.write_all(text.as_bytes()))
            }
            Rows::Json { held } => {
                let mut array = arrow::json::ArrayWriter::new(Vec::new());
                for batch in &held {
                    unless_closed(array.write(&printable(batch)?))?;
                }
                unless_closed(array.finish())?;
                let mut text = array.into_inner();
                if text.is_empty() {
                    text.extend(b"[]");
                }
                text.push(b'\n');
                write_out(|out| out.write_all(&text))
            }
            Rows::Jsonl(mut writer) => unless_closed(writer.finish()),
            Rows::Csv {
                mut writer,
                schema,
                safe,
            } => {
                // A result without batches still has its header.
                unless_closed(
                    writer.write(&comma_separated(&RecordBatch::new_empty(schema), safe)?),
                )
            }
            Rows::Arrow(mut writer) => unless_closed(writer.finish()),
        }
    }
}

/// Binary values as hex: JSON and CSV have no bytes.
fn printable(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    use arrow::array::{Array, ArrayRef, AsArray, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    let is_binary = |field: &Field| {
        matches!(
            field.data_type(),
            DataType::Binary | DataType::BinaryView | DataType::LargeBinary
        )
    };
    if !batch
        .schema_ref()
        .fields()
        .iter()
        .any(|field| is_binary(field))
    {
        return Ok(batch.clone());
    }
    let convert = || -> Result<RecordBatch, arrow::error::ArrowError> {
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if is_binary(field) {
                let bytes = arrow::compute::cast(column, &DataType::Binary)?;
                let texts = bytes
                    .as_binary::<i32>()
                    .iter()
                    .map(|bytes| bytes.map(hex::encode));
                columns.push(std::sync::Arc::new(StringArray::from_iter(texts)));
                fields.push(Field::new(
                    field.name(),
                    DataType::Utf8,
                    column.is_nullable(),
                ));
            } else {
                columns.push(std::sync::Arc::clone(column));
                fields.push(field.as_ref().clone());
            }
        }
        RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), columns)
    };
    convert().map_err(|error| Failure::environment("can't print rows", &error))
}

/// A batch as CSV has it: one value a cell, bytes as hex, and, if it is to be `safe`, no formula.
fn comma_separated(batch: &RecordBatch, safe: bool) -> Result<RecordBatch, Failure> {
    let batch = printable(&flat(batch)?)?;
    if !safe {
        return Ok(batch);
    }
    neutral(&batch).map_err(|error| Failure::environment("can't print rows", &error))
}

/// Nested values as text: a cell of CSV holds one value.
fn flat(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    let convert = || -> Result<RecordBatch, arrow::error::ArrowError> {
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if field.data_type().is_nested() {
                let cells = ArrayFormatter::try_new(column, &FormatOptions::default())?;
                let texts = (0..column.len())
                    .map(|row| column.is_valid(row).then(|| cells.value(row).to_string()));
                columns.push(std::sync::Arc::new(StringArray::from_iter(texts)));
                fields.push(Field::new(field.name(), DataType::Utf8, true));
            } else {
                columns.push(std::sync::Arc::clone(column));
                fields.push(field.as_ref().clone());
            }
        }
        RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), columns)
    };
    convert().map_err(|error| Failure::environment("can't print rows", &error))
}

/// Items of a list that people are shown.
const LIST_ITEMS: usize = 5;

/// A result for people: its members, one a line, nested ones indented.
fn people(value: &serde_json::Value) -> String {
    let mut out = String::new();
    write_people(value, 0, &mut out);
    out
}

fn write_people(value: &serde_json::Value, indent: usize, out: &mut String) {
    use serde_json::Value;
    let Value::Object(members) = value else {
        out.push_str(&format!("{:indent$}{}\n", "", plain(value)));
        return;
    };
    let width = members
        .keys()
        .map(|key| key.chars().count())
        .max()
        .unwrap_or(0);
    for (key, value) in members {
        // Names of members read like words; keys that are data (error codes, paths) stay as they
        // are.
        let name = if key.chars().any(char::is_uppercase) {
            key.clone()
        } else {
            key.replace('_', " ")
        };
        match value {
            Value::Null => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Object(_) => {
                out.push_str(&format!("{:indent$}{name}\n", ""));
                write_people(value, indent + 2, out);
            }
            Value::Array(items) => {
                out.push_str(&format!("{:indent$}{name}\n", ""));
                items
                    .iter()
                    .take(LIST_ITEMS)
                    .for_each(|item| write_people(item, indent + 2, out));
                if let Some(more) = items.len().checked_sub(LIST_ITEMS).filter(|more| *more > 0) {
                    out.push_str(&format!(
                        "{:indent$}  … and {} more; --format json has all\n",
                        "",
                        grouped(more as u64)
                    ));
                }
            }
            scalar => out.push_str(&format!("{:indent$}{name:width$}  {}\n", "", plain(scalar))),
        }
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => plain_number(number),
        other => other.to_string(),
    }
}

fn plain_number(number: &serde_json::Number) -> String {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(whole), ..) => grouped(whole),
        (None, Some(below), _) => format!("-{}", grouped(below.unsigned_abs())),
        (None, None, Some(fraction)) if fraction >= 1_000.0 => grouped(fraction.round() as u64),
        (None, None, Some(fraction)) if fraction <= -1_000.0 => {
            format!("-{}", grouped(fraction.abs().round() as u64))
        }
        (None, None, Some(fraction)) => format!("{fraction:.2}"),
        (None, None, None) => number.to_string(),
    }
}

/// A number with its thousands set apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The values as rows; there is at least one.
fn batch_of(values: &[serde_json::Value]) -> Result<RecordBatch, arrow::error::ArrowError> {
    let text: String = values.iter().map(|value| format!("{value}\n")).collect();
    let (schema, _) = infer_json_schema(text.as_bytes(), None)?;
    let mut reader = ReaderBuilder::new(schema.into())
        .with_batch_size(values.len())
        .build(text.as_bytes())?;
    reader
        .next()
        .ok_or_else(|| arrow::error::ArrowError::JsonError("no row".to_owned()))?
}

/// Writes to standard output; one that was closed is no error.
pub fn write_out(
    write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(unprintable(&error)),
        Ok(()) => Ok(()),
    }
}

/// Standard output can't be written.
pub fn unprintable(error: &io::Error) -> Failure {
    Failure::environment("can't write to standard output", error)
}

/// Reads all of standard input.
pub fn read_in() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::environment("can't read standard input", &error))?;
    Ok(bytes)
}

/// Begins a file of results, over one that is there; it is at `path` when it is
/// [finished](finish_file).
pub fn begin_file(path: &Path) -> Result<PendingFile, Failure> {
    Destination::of(path)
        .and_then(Destination::begin)
        .map_err(|error| Failure::writing(path, &error))
}

/// Puts a file at `path`.
pub fn finish_file(path: &Path, file: PendingFile) -> Result<(), Failure> {
    file.finish(true)
        .map_err(|error| Failure::writing(path, &error))
}

/// Writes a file of results at once.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = begin_file(path)?;
    file.write_all(bytes)
        .map_err(|error| Failure::writing(path, &error))?;
    finish_file(path, file)
}

fn unless_closed(written: Result<(), arrow::error::ArrowError>) -> Result<(), Failure> {
    match written {
        Err(error) if error.to_string().contains("Broken pipe") => std::process::exit(0),
        Err(error) => Err(Failure::environment("can't print rows", &error)),
        Ok(()) => Ok(()),
    }
}
