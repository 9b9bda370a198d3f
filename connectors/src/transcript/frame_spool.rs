//! A transcript as a temporary file of frames, which ingest reads like any file of grains.

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{FRAME_END, IndexState, frame_prefix};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodedGrain, Field, Grain, Payload,
};
use gristmill_schemas::sign::DeliveredGrain;

use super::content_folder::ContentFolder;
use super::grain_output::linker::MessageLinker;
use super::grain_output::{GrainCounts, GrainOutput, grains_of_linked_file, grains_of_transcript};
use super::kind::TranscriptKind;
use super::line::{Line, LineFault};
use super::options::ReadOptions;
use super::parsed::StandaloneGrain;
use crate::ConnectorError;
use crate::source::spool::{anonymous_file, spool_error};
use crate::source::{SealedFile, SealedWriter, SourceBytes};

/// Size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// A transcript as grains.
#[derive(Debug)]
pub struct SpooledTranscript {
    /// The grains. The temporary file is deleted when this is dropped.
    pub frames: FrameSpool,
    /// The number of grains.
    pub grains: u64,
    /// The numbers of what was read.
    pub counts: GrainCounts,
    /// The lines that could not be read, by line number.
    pub faults: Vec<LineFault>,
    /// Grains that supersede others which the reader made, with these.
    pub supersessions: HashMap<ContentAddress, Vec<ContentAddress>>,
    /// States of grains that stopped being current: without a successor, or because the source
    /// claims that another grain supersedes them.
    pub states: Vec<(ContentAddress, IndexState)>,
}

/// An unnamed temporary file of frames.
#[derive(Debug)]
pub enum FrameSpool {
    /// Unencrypted and mapped.
    Open(SourceBytes),
    /// Encrypted with a key that is only in memory.
    Sealed(Box<SealedFile>),
}

/// Reads a transcript and writes its grains to a temporary file.
///
/// # Errors
/// [`ConnectorError::Io`] if the temporary file or embedded content can't be written.
pub fn spool_transcript(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
) -> Result<SpooledTranscript, ConnectorError> {
    // Lines of grains may name any grain as superseded, those of other sources, too.
    let claims = kind == TranscriptKind::GrainLines;
    let spooled = spool(options.sealed, claims, &mut |emit| {
        grains_of_transcript(bytes, kind, options, emit)
    })?;
    check_content(options)?;
    Ok(spooled)
}

/// Like [`spool_transcript`], for one of several linked files; see [`grains_of_linked_file`].
///
/// # Errors
/// [`ConnectorError::Io`] if the temporary file or embedded content can't be written.
pub fn spool_linked_file(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    linker: &mut MessageLinker,
    last: bool,
) -> Result<SpooledTranscript, ConnectorError> {
    let spooled = spool(options.sealed, false, &mut |emit| {
        grains_of_linked_file(bytes, kind, options, linker, last, emit)
    })?;
    check_content(options)?;
    Ok(spooled)
}

/// Returns an error if embedded content couldn't be written.
fn check_content(options: ReadOptions<'_>) -> Result<(), ConnectorError> {
    options.content.map_or(Ok(()), ContentFolder::check)
}

/// A consumer of grains.
type Emit<'t> = dyn FnMut(GrainOutput<'_>) + 't;

/// Writes the grains that `read` emits to a temporary file. What they supersede is a claim if
/// `claims` is true.
fn spool(
    sealed: bool,
    claims: bool,
    read: &mut dyn FnMut(&mut Emit<'_>) -> GrainCounts,
) -> Result<SpooledTranscript, ConnectorError> {
    if sealed {
        let (out, contents, counts) = write_frames(SealedWriter::default(), claims, read)?;
        let frames = FrameSpool::Sealed(Box::new(out.finish().map_err(spool_error())?));
        return Ok(contents.into_spooled(frames, counts));
    }
    let out = BufWriter::with_capacity(BUFFER_BYTES, anonymous_file()?);
    let (out, contents, counts) = write_frames(out, claims, read)?;
    let bytes = SourceBytes::map_file(out.get_ref()).map_err(spool_error())?;
    Ok(contents.into_spooled(FrameSpool::Open(bytes), counts))
}

/// Writes the grains that `read` emits to `out` as frames.
fn write_frames<W: Write>(
    out: W,
    claims: bool,
    read: &mut dyn FnMut(&mut Emit<'_>) -> GrainCounts,
) -> Result<(W, Contents, GrainCounts), ConnectorError> {
    let mut writer = FrameWriter::new(out, claims);
    let counts = read(&mut |output| writer.add(output));
    let (out, contents) = writer.finish()?;
    Ok((out, contents, counts))
}

/// What a [`FrameWriter`] collects besides the frames.
#[derive(Default)]
struct Contents {
    grains: u64,
    faults: Vec<LineFault>,
    supersessions: HashMap<ContentAddress, Vec<ContentAddress>>,
    states: Vec<(ContentAddress, IndexState)>,
}

impl Contents {
    fn into_spooled(mut self, frames: FrameSpool, counts: GrainCounts) -> SpooledTranscript {
        self.faults.sort_by_key(|fault| fault.number);
        for superseded in self.supersessions.values_mut() {
            let mut seen = HashSet::new();
            superseded.retain(|address| seen.insert(*address));
        }
        let mut claimed = HashSet::new();
        self.states.retain(|(old, state)| {
            let successor = state.superseded_by;
            successor.is_none_or(|new| claimed.insert((*old, new)))
        });
        SpooledTranscript {
            frames,
            grains: self.grains,
            counts,
            faults: self.faults,
            supersessions: self.supersessions,
            states: self.states,
        }
    }
}

/// Writes frames. After an error it ignores further grains; [`FrameWriter::finish`] returns the
/// error.
struct FrameWriter<W> {
    out: W,
    error: Option<std::io::Error>,
    contents: Contents,
    /// True if supersessions are claims, which the policies of other grains may forbid.
    claims: bool,
}

impl<W: Write> FrameWriter<W> {
    fn new(out: W, claims: bool) -> Self {
        FrameWriter {
            out,
            error: None,
            contents: Contents::default(),
            claims,
        }
    }

    fn add(&mut self, output: GrainOutput<'_>) {
        match output {
            GrainOutput::Fault(fault) => self.contents.faults.push(fault),
            GrainOutput::Message(line, grain) => self.write(line, &grain.blob),
            GrainOutput::Standalone(StandaloneGrain {
                line,
                grain,
                supersedes,
                system_valid_to,
            }) => {
                self.write(&line, &grain.blob);
                if self.claims {
                    self.contents.states.extend(claims_of(&grain, supersedes));
                } else if !supersedes.is_empty() {
                    // The same grain may be in several lines, each with grains that it supersedes.
                    let known = self.contents.supersessions.entry(grain.address);
                    known.or_default().extend(supersedes);
                }
                if system_valid_to.is_some() {
                    let state = IndexState {
                        system_valid_to,
                        ..IndexState::default()
                    };
                    self.contents.states.push((grain.address, state));
                }
            }
        }
    }

    fn write(&mut self, line: &Line, blob: &[u8]) {
        match frame_prefix(blob) {
            Ok(head) if self.error.is_none() => {
                self.contents.grains += 1;
                self.error = self
                    .out
                    .write_all(&head)
                    .and_then(|()| self.out.write_all(blob))
                    .err();
            }
            Ok(_) => {}
            Err(error) => self.contents.faults.push(line.grain_fault(&error)),
        }
    }

    /// Writes the end of the frames.
    fn finish(mut self) -> Result<(W, Contents), ConnectorError> {
        self.error
            .map_or(Ok(()), Err)
            .and_then(|()| self.out.write_all(&FRAME_END))
            .and_then(|()| self.out.flush())
            .map_err(spool_error())?;
        Ok((self.out, self.contents))
    }
}

/// Returns the claims that `grain` supersedes the grains `superseded`, since it was created.
fn claims_of(
    grain: &EncodedGrain,
    superseded: Vec<ContentAddress>,
) -> impl Iterator<Item = (ContentAddress, IndexState)> {
    let created = match superseded.is_empty() {
        true => None,
        false => created_at(&grain.blob),
    };
    let state = IndexState {
        superseded_by: Some(grain.address),
        system_valid_to: created,
        ..IndexState::default()
    };
    superseded.into_iter().map(move |old| (old, state.clone()))
}

/// Returns when the grain that is delivered as `bytes` was created, in milliseconds since 1970.
fn created_at(bytes: &[u8]) -> Option<i64> {
    let delivery = DeliveredGrain::open(bytes).ok()?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT).ok()?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).ok()?;
    grain.get(Field::CreatedAt)?.as_int()
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::container::{GrainFrame, next_frame};

    use super::*;

    #[test]
    fn a_grain_in_several_lines_is_claimed_to_supersede_what_any_of_them_names() {
        let grain = r#"{"type":"belief","subject":"al","relation":"likes","object":"tea","confidence":1.0,"source_type":"user_explicit","created_at":1700000000000}"#;
        let old = ["a", "b"].map(|digit| digit.repeat(64));
        let line = |old: &String| format!("{{\"grain\":{grain},\"supersedes\":[\"{old}\"]}}\n");
        let text: String = old.iter().chain(&old).map(line).collect();
        let kind = TranscriptKind::GrainLines;
        let spooled = spool_transcript(text.as_bytes(), kind, ReadOptions::default()).unwrap();
        assert!(spooled.supersessions.is_empty());
        let claimed = spooled.states.iter();
        assert!(claimed.map(|(address, _)| address.to_string()).eq(old));
        let instants = spooled
            .states
            .iter()
            .map(|(_, state)| state.system_valid_to);
        assert!(instants.eq([Some(1_700_000_000_000); 2]));
    }

    #[test]
    fn a_transcript_becomes_frames_and_faults() {
        let text = "oops\n{\"provider\":\"x\",\"endpoint\":\"y\",\"request\":{\"a\":1}}";
        let SpooledTranscript { frames, faults, .. } = spool_transcript(
            text.as_bytes(),
            TranscriptKind::Exchanges,
            ReadOptions::default(),
        )
        .unwrap();
        let FrameSpool::Open(frames) = frames else {
            panic!("sealed")
        };
        let Ok(GrainFrame::Grain(grain)) = next_frame(&frames) else {
            panic!("no grain")
        };
        assert_eq!((frames[4 + grain.len()..].len(), faults.len()), (4, 1));
        let options = ReadOptions {
            sealed: true,
            ..ReadOptions::default()
        };
        let sealed = spool_transcript(text.as_bytes(), TranscriptKind::Exchanges, options)
            .unwrap()
            .frames;
        let FrameSpool::Sealed(sealed) = sealed else {
            panic!("open")
        };
        assert_eq!(sealed.read(0..usize::MAX).unwrap(), *frames);
    }
}
