//! A transcript as a file of frames, for whoever takes grains in.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{FRAME_END, IndexState, write_frame};
use tempfile::NamedTempFile;

use super::grains::{GrainOutput, grains_of};
use super::kind::TranscriptKind;
use super::line::{FaultCode, Line, LineFault};
use super::read::ReadOptions;
use super::told::Made;
use crate::ConnectorError;
use crate::source::SourceBytes;

/// A transcript as grains.
#[derive(Debug)]
pub struct Spooled {
    /// The grains, in a temporary file of frames that lives as long as its bytes are used.
    pub frames: SourceBytes,
    /// The lines that couldn't be read, by their numbers.
    pub faults: Vec<LineFault>,
    /// What grains take the place of others: each with those whose place it takes.
    pub supersessions: HashMap<ContentAddress, Vec<ContentAddress>>,
    /// Grains that stopped being current although nothing took their place.
    pub states: Vec<(ContentAddress, IndexState)>,
}

/// The grains of a transcript, and what isn't in any blob.
///
/// # Errors
/// [`ConnectorError::Io`] if the temporary file can't be written.
pub fn frames_of(bytes: &[u8], kind: TranscriptKind, options: ReadOptions<'_>) -> Result<Spooled, ConnectorError> {
    let spool = NamedTempFile::with_prefix("gristmill-transcript-");
    let spool = spool.map_err(ConnectorError::io("can't create a file in", std::env::temp_dir()))?;
    let mut out = BufWriter::with_capacity(1 << 18, spool.as_file());
    let (mut faults, mut failed, mut frame) = (Vec::new(), None, Vec::new());
    let (mut supersessions, mut states) = (HashMap::new(), Vec::new());
    let mut write = |line: &Line, blob: &[u8], faults: &mut Vec<LineFault>| {
        frame.clear();
        match write_frame(blob, &mut frame) {
            Ok(()) if failed.is_none() => failed = out.write_all(&frame).err(),
            Ok(()) => {}
            Err(error) => faults.push(line.fault(FaultCode::Grain(error.code), error.to_string())),
        }
    };
    grains_of(bytes, kind, options, &mut |output| match output {
        GrainOutput::Fault(fault) => faults.push(fault),
        GrainOutput::Grain(line, grain) => write(line, &grain.blob, &mut faults),
        GrainOutput::Made(Made { line, grain, supersedes, ended }) => {
            write(&line, &grain.blob, &mut faults);
            if !supersedes.is_empty() {
                supersessions.insert(grain.address, supersedes);
            }
            if ended.is_some() {
                states.push((grain.address, IndexState { system_valid_to: ended, ..IndexState::default() }));
            }
        }
    });
    let ended = failed.map_or(Ok(()), Err).and_then(|()| out.write_all(&FRAME_END)).and_then(|()| out.flush());
    drop(out);
    ended.map_err(ConnectorError::io("can't write", spool.path()))?;
    faults.sort_by_key(|fault| fault.number);
    Ok(Spooled { frames: SourceBytes::map_spooled(spool.into_temp_path())?, faults, supersessions, states })
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::container::{Frame, next_frame};

    use super::*;

    #[test]
    fn a_transcript_is_a_stream_of_frames_and_its_broken_lines() {
        let text = "oops\n{\"provider\":\"x\",\"endpoint\":\"y\",\"request\":{\"a\":1}}";
        let Spooled { frames, faults, .. } =
            frames_of(text.as_bytes(), TranscriptKind::Exchanges, ReadOptions::default()).unwrap();
        let Ok(Frame::Grain(grain)) = next_frame(&frames) else { panic!("no grain") };
        assert_eq!((frames[4 + grain.len()..].len(), faults.len()), (4, 1));
    }
}
