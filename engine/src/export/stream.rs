//! Exports rows to formats that are written in one pass: frames, JSON lines, Parquet.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::error::ArrowError;
use gristmill_schemas::columns::grains_schema;
use gristmill_schemas::container::{FRAME_END, write_frame};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Encoding, Grain, Payload, encode_json,
};
use gristmill_schemas::json::{Json, Object};
use parquet::arrow::ArrowWriter;
use rayon::prelude::*;

use super::output::{Output, Target};
use super::rows::GrainRows;
use super::{ExportOptions, GrainRewriter, Sink, SinkOutput};
use crate::error::{Context, Result};
use crate::lake::supersessions_in;
use crate::segment::unsorted_grains_properties;

/// Writes frames (§11.6), grains as they were delivered.
pub(super) struct FrameSink {
    out: Output,
    grains: u64,
}

impl FrameSink {
    pub(super) fn new(options: &ExportOptions) -> Result<FrameSink> {
        Ok(FrameSink {
            out: Target::new(options)?.begin()?,
            grains: 0,
        })
    }
}

impl Sink for FrameSink {
    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = GrainRows::of(rows)?;
        let mut frame = Vec::new();
        for row in 0..rows.len() {
            frame.clear();
            write_frame(&rows.delivered(row)?, &mut frame)
                .file("can't export", rows.address(row))?;
            let written = self.out.write_all(&frame);
            self.out.target().fault(written)?;
        }
        self.grains += rows.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<SinkOutput> {
        let written = self.out.write_all(&FRAME_END);
        self.out.target().fault(written)?;
        Ok(vec![self.out.finish(self.grains)?].into())
    }
}

/// Writes one JSON object per line: address, grain, and the options that encode it to the same
/// bytes; if no options do, also the bytes.
pub(super) struct JsonSink {
    out: Output,
    grains: u64,
    not_written: u64,
    rewriter: Option<Arc<dyn GrainRewriter>>,
    pool: rayon::ThreadPool,
}

impl JsonSink {
    pub(super) fn new(options: &ExportOptions) -> Result<JsonSink> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .build();
        Ok(JsonSink {
            out: Target::new(options)?.begin()?,
            grains: 0,
            not_written: 0,
            rewriter: options.rewriter.clone(),
            pool: pool.threads()?,
        })
    }
}

impl Sink for JsonSink {
    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = GrainRows::of(rows)?;
        let rewriter = self.rewriter.as_deref();
        let line = |row: usize| match rewriter {
            Some(rewriter) => rewritten_line(&rows, row, rewriter),
            None => line_of(&rows, row).map(Some),
        };
        let lines: Result<Vec<Option<String>>> = self
            .pool
            .install(|| (0..rows.len()).into_par_iter().map(line).collect());
        for line in lines? {
            let Some(line) = line else {
                self.not_written += 1;
                continue;
            };
            let written = self.out.write_all(line.as_bytes());
            self.out.target().fault(written)?;
            self.grains += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<SinkOutput> {
        Ok(SinkOutput {
            files: vec![self.out.finish(self.grains)?],
            not_written: self.not_written,
            supersessions: 0,
        })
    }
}

/// Returns the lines of the grains in `rows`, computed on the threads of `pool`: objects that begin
/// with the address, with line ends.
///
/// # Errors
/// As [`GrainRows::of`]; [`crate::error::EngineError::File`] if a grain can't be decoded.
pub(crate) fn grain_lines(rows: &RecordBatch, pool: &rayon::ThreadPool) -> Result<Vec<String>> {
    let rows = GrainRows::of(rows)?;
    let line = |row| line_of(&rows, row);
    pool.install(|| (0..rows.len()).into_par_iter().map(line).collect())
}

fn line_of(rows: &GrainRows, row: usize) -> Result<String> {
    let (address, delivered) = (rows.address(row), rows.delivered(row)?);
    let payload =
        Payload::open(rows.blob(row), DEFAULT_PAYLOAD_LIMIT).file("can't export", address)?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).file("can't export", address)?;
    let mut members = Object::new();
    members.insert("content_address", address.to_string());
    // The fields of an encrypted grain aren't readable.
    let fields = (!grain.is_encrypted()).then(|| (grain.to_json(), options_of(&grain)));
    let says_all = fields
        .as_ref()
        .is_some_and(|(grain, options)| is_encoded_to(grain, options, &delivered));
    if !says_all {
        members.insert("blob_hex", hex::encode(&delivered));
    }
    if let Some((grain, options)) = fields {
        members.insert("grain", grain);
        members.insert("options", options);
    }
    let mut line = String::new();
    Json::Object(members).write(&mut line);
    line.push('\n');
    Ok(line)
}

/// Returns the line of a grain as `rewriter` writes it: without options and bytes, which would
/// reveal the original. `None` if it is left out.
fn rewritten_line(
    rows: &GrainRows,
    row: usize,
    rewriter: &dyn GrainRewriter,
) -> Result<Option<String>> {
    let address = rows.address(row);
    let payload =
        Payload::open(rows.blob(row), DEFAULT_PAYLOAD_LIMIT).file("can't export", address)?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).file("can't export", address)?;
    let Some(rewritten) = rewriter.grain(&grain) else {
        return Ok(None);
    };
    let mut members = Object::new();
    members.insert("content_address", rewriter.address(&address));
    members.insert("grain", rewritten);
    let mut line = String::new();
    Json::Object(members).write(&mut line);
    line.push('\n');
    Ok(Some(line))
}

/// Returns whether encoding `grain` yields exactly `bytes`. Writers make neither envelopes, nor
/// some of the oddities that readers accept, nor unknown types.
fn is_encoded_to(grain: &Json<'_>, options: &Json<'_>, bytes: &[u8]) -> bool {
    let encoded =
        EncodeOptions::from_json(Some(options)).and_then(|options| encode_json(grain, options));
    encoded.is_ok_and(|encoded| encoded.blob == bytes)
}

/// Returns the options of `grain encode` that differ from their defaults.
fn options_of(grain: &Grain<'_>) -> Json<'static> {
    let flags = grain.header().flags;
    let mut options = Object::new();
    if grain.encoding() != Encoding::MessagePack {
        options.insert("encoding", grain.encoding().name());
    }
    if flags.sensitivity() as u8 != 0 {
        options.insert("sensitivity", u64::from(flags.sensitivity() as u8));
    }
    for (name, set) in [
        ("signed", flags.signed()),
        ("compressed", flags.compressed()),
    ] {
        if set {
            options.insert(name, true);
        }
    }
    Json::Object(options)
}

/// Writes the rows as a Parquet file with the lake's own schema and layout.
pub(super) struct ParquetSink {
    writer: ArrowWriter<Output>,
    target: Target,
    grains: u64,
    supersessions: u64,
}

impl ParquetSink {
    pub(super) fn new(options: &ExportOptions) -> Result<ParquetSink> {
        let target = Target::new(options)?;
        let writer = ArrowWriter::try_new(
            target.begin()?,
            grains_schema(),
            Some(unsorted_grains_properties()),
        );
        Ok(ParquetSink {
            writer: target.fault(writer)?,
            target,
            grains: 0,
            supersessions: 0,
        })
    }
}

impl Sink for ParquetSink {
    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = with_own_types(rows).file("can't export", "rows")?;
        self.target.fault(self.writer.write(&rows))?;
        self.grains += rows.num_rows() as u64;
        self.supersessions += supersessions_in(&rows);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<SinkOutput> {
        let out = self.target.fault(self.writer.into_inner())?;
        let files = vec![out.finish(self.grains)?];
        Ok(SinkOutput {
            files,
            not_written: 0,
            supersessions: self.supersessions,
        })
    }
}

/// Returns the columns in the order and with the types of `grains`; those of a query may have
/// other, compatible types.
fn with_own_types(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = grains_schema();
    let own = |field: &Arc<arrow::datatypes::Field>| {
        let missing = || ArrowError::SchemaError(format!("no column `{}`", field.name()));
        let column = rows.column_by_name(field.name()).ok_or_else(missing)?;
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else {
            cast(column, field.data_type())
        }
    };
    let columns = schema
        .fields()
        .iter()
        .map(own)
        .collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns)
}
