//! A transcript as a file of frames, for whoever takes grains in.

use std::io::{BufWriter, Write};

use gristmill_schemas::container::{FRAME_END, write_frame};
use tempfile::NamedTempFile;

use super::grains::{GrainOutput, grains_of};
use super::kind::TranscriptKind;
use super::line::LineFault;
use super::read::ReadOptions;
use crate::ConnectorError;
use crate::source::SourceBytes;

/// The grains of a transcript in a temporary file of frames, which lives as long as its bytes are used; and the lines that couldn't be
/// read.
///
/// # Errors
/// [`ConnectorError::Io`] if the temporary file can't be written.
pub fn frames_of(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
) -> Result<(SourceBytes, Vec<LineFault>), ConnectorError> {
    let spool = NamedTempFile::with_prefix("gristmill-transcript-");
    let spool = spool.map_err(ConnectorError::io("can't create a file in", std::env::temp_dir()))?;
    let mut out = BufWriter::with_capacity(1 << 18, spool.as_file());
    let (mut faults, mut failed, mut frame) = (Vec::new(), None, Vec::new());
    grains_of(bytes, kind, options, &mut |output| match output {
        GrainOutput::Fault(fault) => faults.push(fault),
        GrainOutput::Grain(line, grain) => {
            frame.clear();
            match write_frame(&grain.blob, &mut frame) {
                Ok(()) if failed.is_none() => failed = out.write_all(&frame).err(),
                Ok(()) => {}
                Err(error) => faults.push(line.fault(super::line::FaultCode::Grain(error.code), error.to_string())),
            }
        }
    });
    let ended = failed.map_or(Ok(()), Err).and_then(|()| out.write_all(&FRAME_END)).and_then(|()| out.flush());
    drop(out);
    ended.map_err(ConnectorError::io("can't write", spool.path()))?;
    faults.sort_by_key(|fault| fault.number);
    Ok((SourceBytes::map_spooled(spool.into_temp_path())?, faults))
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::container::{Frame, next_frame};

    use super::*;

    #[test]
    fn a_transcript_is_a_stream_of_frames_and_its_broken_lines() {
        let text = "oops\n{\"provider\":\"x\",\"endpoint\":\"y\",\"request\":{\"a\":1}}";
        let (frames, faults) = frames_of(text.as_bytes(), TranscriptKind::Exchanges, ReadOptions::default()).unwrap();
        let Ok(Frame::Grain(grain)) = next_frame(&frames) else { panic!("no grain") };
        assert_eq!((frames[4 + grain.len()..].len(), faults.len()), (4, 1));
    }
}
