//! `grain encode|decode|check`: line n of the output is the result of line n of the input.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Grain, Payload, encode_json,
};
use gristmill_schemas::json::{Json, JsonErrorKind, Object};
use gristmill_schemas::sign::{DeliveredGrain, KeyResolver, SignatureStatus};

use super::CommandContext;
use super::grain_sharing::GrainSigner;
use crate::args::grain::{DecodeArgs, EncodeArgs};
use crate::exit::{CommandOutcome, Failure};
use crate::log::note;
use crate::output::stdout_failure;

/// Maximum length of an input line in bytes.
const LINE_LIMIT: u64 = 256 << 20;

/// Encodes grains to blobs, signed if a key is given.
pub fn encode(context: &CommandContext, arguments: EncodeArgs) -> Result<CommandOutcome, Failure> {
    let signer = match &arguments.key {
        Some(key) => Some(GrainSigner::of(context, key, arguments.signer)?),
        None => None,
    };
    let unsigned = Cell::new(0_u64);
    let outcome = each_line(arguments.lines.file, |line| {
        let grain = line.get("grain").ok_or_else(|| missing("grain"))?;
        let mut options = EncodeOptions::from_json(line.get("options"))?;
        options.signed |= signer.is_some();
        let encoded = encode_json(grain, options)?;
        let delivered = match &signer {
            Some(signer) => signer.sign(&encoded.blob)?,
            None => {
                unsigned.set(unsigned.get() + u64::from(options.signed));
                encoded.blob
            }
        };
        Ok(object([
            ("content_address", encoded.address.to_string().into()),
            ("blob_hex", hex::encode(delivered).into()),
        ]))
    })?;
    if unsigned.get() > 0 && !context.common.quiet {
        note(format_args!(
            "{} blobs have the signed flag and no signature, so that `ingest` refuses them; \
             `gristmill grain sign --key NAME` signs them, or give --key here",
            unsigned.get()
        ));
    }
    Ok(outcome)
}

/// Decodes blobs to grains. A blob with the signed flag is decoded without its envelope; only
/// `check` requires it.
pub fn decode(context: &CommandContext, lines: DecodeArgs) -> Result<CommandOutcome, Failure> {
    let mode = codec_mode(lines.lenient);
    let resolver = context.key_resolver()?;
    each_line(lines.file, move |line| {
        let bytes = bytes_of(line)?;
        let delivery = open(&bytes)?;
        let blob = delivery.blob();
        let shifted = |error: GrainError| error.shifted(delivery.blob_start());
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).map_err(shifted)?;
        let grain = Grain::decode(&payload, mode).map_err(shifted)?;
        Ok(object([
            ("grain", fields_of(&grain)),
            ("header", header_of(&grain, &delivery, &*resolver)),
            (
                "content_address",
                ContentAddress::of(blob).to_string().into(),
            ),
        ]))
    })
}

/// Returns the fields of `grain`; null if its payload is encrypted.
fn fields_of(grain: &Grain<'_>) -> Json<'static> {
    match grain.is_encrypted() {
        true => Json::Null,
        false => grain.to_json(),
    }
}

/// Checks blobs. A wrong signature is an error; any other status of a signature is part of the
/// result.
pub fn check(context: &CommandContext, lines: DecodeArgs) -> Result<CommandOutcome, Failure> {
    let mode = codec_mode(lines.lenient);
    let resolver = context.key_resolver()?;
    each_line(lines.file, move |line| {
        let claimed = line.get("address").and_then(Json::as_str);
        match claimed.filter(|_| line.get("blob_hex").is_none()) {
            Some(address) => check_address(address),
            None => check_blob(line, mode, &*resolver),
        }
    })
}

/// Returns the mode that `--lenient` selects. Unlike a lake, a strict codec keeps the keys that
/// other writers use for a field as they are.
fn codec_mode(lenient: bool) -> DecodeMode {
    match lenient {
        true => DecodeMode::Lenient,
        false => DecodeMode::Strict,
    }
}

/// Checks a line with an address and no blob.
fn check_address(text: &str) -> Result<Json<'static>, GrainError> {
    let address: ContentAddress = text.parse()?;
    Ok(object([
        ("content_address", address.to_string().into()),
        ("ok", true.into()),
    ]))
}

fn check_blob(
    line: &Json<'_>,
    mode: DecodeMode,
    resolver: &dyn KeyResolver,
) -> Result<Json<'static>, GrainError> {
    let bytes = bytes_of(line)?;
    let delivery = DeliveredGrain::open(&bytes)?;
    let blob = delivery.blob();
    let claimed = line.get("content_address").or(line.get("address"));
    if let Some(claimed) = claimed.and_then(Json::as_str) {
        claimed.parse::<ContentAddress>()?.verify(blob)?;
    }
    let signature = match &delivery {
        DeliveredGrain::Signed(signed) => Some(signed.ensure_not_invalid(resolver)?),
        DeliveredGrain::Bare(_) => None,
    };
    let shifted = |error: GrainError| error.shifted(delivery.blob_start());
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).map_err(shifted)?;
    let grain = Grain::decode(&payload, mode).map_err(shifted)?;
    let mut verdict = Object::new();
    verdict.insert("content_address", ContentAddress::of(blob).to_string());
    verdict.insert("ok", true);
    if let Some(status) = signature {
        verdict.insert("signature", status.name());
        if let SignatureStatus::Unverifiable(reason) = status {
            verdict.insert("signature_reason", reason);
        }
    }
    verdict.insert("marks", marks_of(&grain));
    Ok(Json::Object(verdict))
}

/// Writes one result per line, so that line n of the output belongs to line n of the input; the
/// outcome is `Problems` if any line failed. Only empty lines at the end have no result. Output is
/// flushed before waiting for input, so that an interactive caller gets each result.
pub(super) fn each_line(
    file: Option<PathBuf>,
    answer: impl Fn(&Json<'_>) -> Result<Json<'static>, GrainError>,
) -> Result<CommandOutcome, Failure> {
    let mut input = LineReader::open(file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut outcome = CommandOutcome::Done;
    let mut empty = 0_u64;
    loop {
        if input.would_block() && is_closed(out.flush())? {
            return Ok(outcome);
        }
        let Some(line) = input.next_line()? else {
            break;
        };
        if line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()) {
            empty += 1;
            continue;
        }
        let result = line.and_then(|line| answer_to(line, &answer));
        let skipped = (0..std::mem::take(&mut empty)).map(|_| Err(not_json("it is empty")));
        for result in skipped.chain([result]) {
            let result = result.unwrap_or_else(|error| {
                outcome = CommandOutcome::Problems;
                error_json(&error)
            });
            if is_closed(writeln!(out, "{result}"))? {
                return Ok(outcome);
            }
        }
    }
    is_closed(out.flush())?;
    Ok(outcome)
}

/// Returns true if the output was closed.
fn is_closed(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(stdout_failure(&error)),
    }
}

/// Reads lines of bounded length from a file or standard input.
struct LineReader {
    input: BufReader<Box<dyn Read>>,
    /// Name of the input, for messages.
    name: String,
    line: Vec<u8>,
    /// Whether no line was read yet. A byte order mark before the first is skipped.
    is_first: bool,
}

impl LineReader {
    fn open(file: Option<PathBuf>) -> Result<LineReader, Failure> {
        let (input, name): (Box<dyn Read>, String) = match &file {
            Some(path) => {
                let name = format!("`{}`", path.display());
                let file = std::fs::File::open(path);
                let file = file
                    .map_err(|error| Failure::environment(&format!("can't open {name}"), &error))?;
                (Box::new(file), name)
            }
            None => (Box::new(io::stdin().lock()), "standard input".to_owned()),
        };
        Ok(LineReader {
            input: BufReader::with_capacity(1 << 20, input),
            name,
            line: Vec::new(),
            is_first: true,
        })
    }

    /// Returns true if the next line isn't buffered, so that reading it may block.
    fn would_block(&self) -> bool {
        self.input.buffer().is_empty()
    }

    /// Reads the next line; `None` at the end. The result of a line beyond the limit, which is
    /// skipped, is an error.
    fn next_line(&mut self) -> Result<Option<Result<&[u8], GrainError>>, Failure> {
        let read = read_line(&mut self.input, &mut self.line);
        let read = read
            .map_err(|error| Failure::environment(&format!("can't read {}", self.name), &error))?;
        let line = self.line.as_slice();
        let line = match std::mem::replace(&mut self.is_first, false) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            false => line,
        };
        let is_blank = line.trim_ascii().is_empty();
        Ok(read.map(|whole| match whole || is_blank {
            true => Ok(line),
            false => Err(too_long()),
        }))
    }
}

/// Reads the next line into `line`; `None` at the end, false if the line exceeded the limit and was
/// skipped.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    if input.take(LINE_LIMIT).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    let whole = line.ends_with(b"\n") || (line.len() as u64) < LINE_LIMIT;
    if !whole {
        input.skip_until(b'\n')?;
    }
    Ok(Some(whole))
}

fn answer_to(
    line: &[u8],
    answer: impl Fn(&Json<'_>) -> Result<Json<'static>, GrainError>,
) -> Result<Json<'static>, GrainError> {
    let line = Json::parse_unique_keys(line).map_err(|error| match error.kind {
        JsonErrorKind::NotFinite => GrainError::new(ErrorCode::FloatInvalid, error.to_string()),
        JsonErrorKind::RepeatedKey => GrainError::new(ErrorCode::Corrupt, error.to_string()),
        _ => not_json(&error.to_string()),
    })?;
    answer(&line)
}

fn not_json(why: &str) -> GrainError {
    GrainError::new(ErrorCode::Corrupt, format!("the line isn't JSON: {why}"))
}

fn too_long() -> GrainError {
    GrainError::new(
        ErrorCode::Corrupt,
        format!("the line has more than {LINE_LIMIT} bytes"),
    )
}

pub(super) fn object<const N: usize>(members: [(&'static str, Json<'static>); N]) -> Json<'static> {
    Json::Object(members.into_iter().collect())
}

fn error_json(error: &GrainError) -> Json<'static> {
    let mut members = Object::new();
    members.insert("error", error.code.name());
    members.insert("message", error.message.to_string());
    if let Some(field) = &error.field {
        members.insert("field", field.to_string());
    }
    if let Some(offset) = error.offset {
        members.insert("offset", offset);
    }
    Json::Object(members)
}

pub(super) fn missing(member: &'static str) -> GrainError {
    GrainError::new(ErrorCode::Schema, format!("the line has no `{member}`")).field(member)
}

pub(super) fn bytes_of(line: &Json<'_>) -> Result<Vec<u8>, GrainError> {
    let digits = line
        .get("blob_hex")
        .and_then(Json::as_str)
        .ok_or_else(|| missing("blob_hex"))?;
    hex::decode(digits)
        .map_err(|error| GrainError::new(ErrorCode::Corrupt, error.to_string()).field("blob_hex"))
}

/// Opens a blob; a signed blob without its envelope is accepted and marked in the header.
pub(super) fn open(bytes: &[u8]) -> Result<DeliveredGrain<'_>, GrainError> {
    match DeliveredGrain::open(bytes) {
        Err(error) if error.code == ErrorCode::SignedMismatch && bytes.first() == Some(&1) => {
            Ok(DeliveredGrain::Bare(bytes))
        }
        opened => opened,
    }
}

fn header_of(
    grain: &Grain<'_>,
    delivery: &DeliveredGrain<'_>,
    resolver: &dyn KeyResolver,
) -> Json<'static> {
    let header = grain.header();
    let flags = header.flags;
    let mut members = Object::new();
    members.insert("version", 1_u64);
    members.insert("type_byte", u64::from(header.type_byte.byte()));
    members.insert("type", grain.type_name().into_owned());
    members.insert("flags", u64::from(flags.byte()));
    members.insert("signed", flags.signed());
    members.insert("encrypted", flags.encrypted());
    members.insert("compressed", flags.compressed());
    members.insert("has_content_refs", flags.has_content_refs());
    members.insert("has_embedding_refs", flags.has_embedding_refs());
    members.insert("cbor_encoding", flags.cbor());
    members.insert("sensitivity", flags.sensitivity().name());
    members.insert(
        "encoding",
        if grain.is_encrypted() {
            Json::Null
        } else {
            grain.encoding().name().into()
        },
    );
    members.insert("namespace_hash", hex::encode(header.namespace_hash));
    members.insert("created_at_seconds", u64::from(header.created_at_seconds));
    if let DeliveredGrain::Signed(signed) = delivery {
        members.insert("signature", signed.verify(resolver).name());
        members.insert(
            "signer_did",
            signed
                .signer()
                .map_or(Json::Null, |signer| signer.to_owned().into()),
        );
    }
    let Json::Array(mut marks) = marks_of(grain) else {
        return Json::Object(members);
    };
    if flags.signed() && matches!(delivery, DeliveredGrain::Bare(_)) {
        marks.push("unwrapped".into());
    }
    members.insert("marks", marks);
    Json::Object(members)
}

fn marks_of(grain: &Grain<'_>) -> Json<'static> {
    Json::Array(
        grain
            .marks()
            .iter()
            .map(|mark| mark.name().into())
            .collect(),
    )
}
