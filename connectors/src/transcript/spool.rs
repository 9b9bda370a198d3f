//! A transcript as a file of frames, for whoever takes grains in.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{FRAME_END, IndexState, frame_head};

use super::grains::{GrainCounts, GrainOutput, Linker, grains_of, grains_together};
use super::kind::TranscriptKind;
use super::line::{Line, LineFault};
use super::read::ReadOptions;
use super::told::Made;
use crate::ConnectorError;
use crate::source::spool::{anonymous_file, spool_error};
use crate::source::{SealedFile, SealedWriter, SourceBytes};

/// A transcript as grains.
#[derive(Debug)]
pub struct Spooled {
    /// The grains, in a temporary file of frames that lives as long as its bytes are used.
    pub frames: FrameSpool,
    /// How many they are.
    pub grains: u64,
    /// What they are made of.
    pub counts: GrainCounts,
    /// The lines that couldn't be read, by their numbers.
    pub faults: Vec<LineFault>,
    /// What grains take the place of others: each with those whose place it takes.
    pub supersessions: HashMap<ContentAddress, Vec<ContentAddress>>,
    /// Grains that stopped being current although nothing took their place.
    pub states: Vec<(ContentAddress, IndexState)>,
}

/// A temporary file of frames, without a name.
#[derive(Debug)]
pub enum FrameSpool {
    /// In the clear, mapped.
    Open(SourceBytes),
    /// Sealed, because nothing of it may lie open on a disk.
    Sealed(Box<SealedFile>),
}

/// The grains of a transcript, and what isn't in any blob.
///
/// # Errors
/// [`ConnectorError::Io`] if the temporary file can't be written.
pub fn frames_of(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
) -> Result<Spooled, ConnectorError> {
    spooled(options.sealed, &mut |tell| {
        grains_of(bytes, kind, options, tell)
    })
}

/// [`frames_of`] traffic that is read together with other files, which the options name; `linker`
/// has read those before it. With the `last` of them comes what still waited for a message that
/// isn't there.
///
/// # Errors
/// [`ConnectorError::Io`] if the temporary file can't be written.
pub fn frames_together(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
    linker: &mut Linker,
    last: bool,
) -> Result<Spooled, ConnectorError> {
    spooled(options.sealed, &mut |tell| {
        grains_together(bytes, kind, options, linker, last, tell)
    })
}

/// Who takes grains.
type Tell<'t> = dyn FnMut(GrainOutput<'_>) + 't;

/// Spools what `read` passes on.
fn spooled(
    sealed: bool,
    read: &mut dyn FnMut(&mut Tell<'_>) -> GrainCounts,
) -> Result<Spooled, ConnectorError> {
    if sealed {
        let (out, spooled) = written(SealedWriter::new()?, read)?;
        return Ok(spooled(FrameSpool::Sealed(Box::new(
            out.finish().map_err(spool_error())?,
        ))));
    }
    let (out, spooled) = written(BufWriter::with_capacity(1 << 18, anonymous_file()?), read)?;
    Ok(spooled(FrameSpool::Open(
        SourceBytes::map_file(out.get_ref()).map_err(spool_error())?,
    )))
}

/// Writes what `read` passes on; what is still missing then is the file as one that can be read.
fn written<W: Write>(
    out: W,
    read: &mut dyn FnMut(&mut Tell<'_>) -> GrainCounts,
) -> Result<(W, impl FnOnce(FrameSpool) -> Spooled), ConnectorError> {
    let mut writer = Writer::new(out);
    let counts = read(&mut |output| writer.take(output));
    let Writer {
        mut out,
        failed,
        mut faults,
        supersessions,
        states,
        grains,
        ..
    } = writer;
    let ended = failed
        .map_or(Ok(()), Err)
        .and_then(|()| out.write_all(&FRAME_END))
        .and_then(|()| out.flush());
    ended.map_err(spool_error())?;
    faults.sort_by_key(|fault| fault.number);
    Ok((out, move |frames| Spooled {
        frames,
        grains,
        counts,
        faults,
        supersessions,
        states,
    }))
}

/// Writes frames; after an error there are no more.
struct Writer<W> {
    out: W,
    failed: Option<std::io::Error>,
    grains: u64,
    faults: Vec<LineFault>,
    supersessions: HashMap<ContentAddress, Vec<ContentAddress>>,
    states: Vec<(ContentAddress, IndexState)>,
}

impl<W: Write> Writer<W> {
    fn new(out: W) -> Self {
        Writer {
            out,
            failed: None,
            grains: 0,
            faults: Vec::new(),
            supersessions: HashMap::new(),
            states: Vec::new(),
        }
    }

    fn take(&mut self, output: GrainOutput<'_>) {
        match output {
            GrainOutput::Fault(fault) => self.faults.push(fault),
            GrainOutput::Grain(line, grain) => self.write(line, &grain.blob),
            GrainOutput::Made(Made {
                line,
                grain,
                supersedes,
                ended,
            }) => {
                self.write(&line, &grain.blob);
                if !supersedes.is_empty() {
                    self.supersessions.insert(grain.address, supersedes);
                }
                if ended.is_some() {
                    let state = IndexState {
                        system_valid_to: ended,
                        ..IndexState::default()
                    };
                    self.states.push((grain.address, state));
                }
            }
        }
    }

    fn write(&mut self, line: &Line, blob: &[u8]) {
        match frame_head(blob) {
            Ok(head) if self.failed.is_none() => {
                self.grains += 1;
                self.failed = self
                    .out
                    .write_all(&head)
                    .and_then(|()| self.out.write_all(blob))
                    .err();
            }
            Ok(_) => {}
            Err(error) => self.faults.push(line.grain_fault(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::container::{Frame, next_frame};

    use super::*;

    #[test]
    fn a_transcript_is_a_stream_of_frames_and_its_broken_lines() {
        let text = "oops\n{\"provider\":\"x\",\"endpoint\":\"y\",\"request\":{\"a\":1}}";
        let Spooled { frames, faults, .. } = frames_of(
            text.as_bytes(),
            TranscriptKind::Exchanges,
            ReadOptions::default(),
        )
        .unwrap();
        let FrameSpool::Open(frames) = frames else {
            panic!("sealed")
        };
        let Ok(Frame::Grain(grain)) = next_frame(&frames) else {
            panic!("no grain")
        };
        assert_eq!((frames[4 + grain.len()..].len(), faults.len()), (4, 1));
        let options = ReadOptions {
            sealed: true,
            ..ReadOptions::default()
        };
        let sealed = frames_of(text.as_bytes(), TranscriptKind::Exchanges, options)
            .unwrap()
            .frames;
        let FrameSpool::Sealed(sealed) = sealed else {
            panic!("open")
        };
        assert_eq!(sealed.read(0..usize::MAX).unwrap(), *frames);
    }
}
