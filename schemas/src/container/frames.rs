//! Length-prefixed frames, the streaming form of grains (§11.6).

use crate::error::GrainError;
use crate::grain::DEFAULT_PAYLOAD_LIMIT;

/// The end of a stream: a frame of length zero.
pub const FRAME_END: [u8; 4] = [0; 4];

/// The maximum length of a frame in bytes. A greater length is treated as corruption before
/// anything is allocated.
pub const MAX_FRAME_LENGTH: usize = 4 * DEFAULT_PAYLOAD_LIMIT;

/// The frame at the start of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrainFrame<'a> {
    /// A grain. The next frame starts after the four-byte length and the grain.
    Grain(&'a [u8]),
    /// The end of the stream.
    End,
    /// The buffer ends within a frame, which needs at least this many bytes.
    Incomplete(usize),
}

impl GrainFrame<'_> {
    /// Returns the length of the frame in the buffer, in bytes; 0 if it is incomplete.
    pub const fn consumed(&self) -> usize {
        match self {
            GrainFrame::Grain(grain) => 4 + grain.len(),
            GrainFrame::End => 4,
            GrainFrame::Incomplete(_) => 0,
        }
    }
}

/// Returns the first frame of `buffer`.
///
/// # Errors
/// [`Corrupt`](crate::error::ErrorCode::Corrupt) for a length beyond [`MAX_FRAME_LENGTH`].
pub fn next_frame(buffer: &[u8]) -> Result<GrainFrame<'_>, GrainError> {
    let Some((length, rest)) = buffer.split_first_chunk::<4>() else {
        return Ok(GrainFrame::Incomplete(4));
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_FRAME_LENGTH {
        let message = format!("a frame of {length} bytes exceeds the limit of {MAX_FRAME_LENGTH}");
        return Err(GrainError::corrupt(0, message));
    }
    Ok(match rest.get(..length) {
        Some([]) => GrainFrame::End,
        Some(grain) => GrainFrame::Grain(grain),
        None => GrainFrame::Incomplete(4 + length),
    })
}

/// Appends the frame of `grain`.
///
/// # Errors
/// [`Corrupt`](crate::error::ErrorCode::Corrupt) if the grain is empty (which would end the stream)
/// or too long.
pub fn write_frame(grain: &[u8], out: &mut Vec<u8>) -> Result<(), GrainError> {
    out.extend(frame_prefix(grain)?);
    out.extend(grain);
    Ok(())
}

/// Returns the length prefix of the frame of `grain`.
///
/// # Errors
/// As [`write_frame`].
pub fn frame_prefix(grain: &[u8]) -> Result<[u8; 4], GrainError> {
    match u32::try_from(grain.len()) {
        Ok(length @ 1..) if grain.len() <= MAX_FRAME_LENGTH => Ok(length.to_be_bytes()),
        _ => Err(GrainError::corrupt(
            0,
            format!("a grain of {} bytes does not fit into a frame", grain.len()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_in_order() {
        let mut stream = Vec::new();
        write_frame(b"one", &mut stream).unwrap();
        write_frame(b"two!", &mut stream).unwrap();
        stream.extend(FRAME_END);
        let mut rest = &stream[..];
        let mut seen = Vec::new();
        loop {
            let frame = next_frame(rest).unwrap();
            seen.push(frame);
            rest = &rest[frame.consumed()..];
            if frame == GrainFrame::End {
                break;
            }
        }
        assert_eq!(
            seen,
            [
                GrainFrame::Grain(b"one"),
                GrainFrame::Grain(b"two!"),
                GrainFrame::End
            ]
        );
    }

    #[test]
    fn a_truncated_frame_is_incomplete_and_an_excessive_length_is_an_error() {
        assert_eq!(next_frame(&[0, 0]).unwrap(), GrainFrame::Incomplete(4));
        assert_eq!(
            next_frame(&[0, 0, 0, 5, 1]).unwrap(),
            GrainFrame::Incomplete(9)
        );
        assert!(next_frame(&[0xff; 4]).is_err());
        assert!(write_frame(b"", &mut Vec::new()).is_err());
    }
}
