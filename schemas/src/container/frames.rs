//! Length-prefixed frames, the form of grains in transport (§11.6).

use crate::error::GrainError;
use crate::grain::DEFAULT_PAYLOAD_LIMIT;

/// The end of a stream: a frame of length zero.
pub const FRAME_END: [u8; 4] = [0; 4];

/// The longest frame that is read: a length beyond it is taken for damage before anything is
/// allocated.
pub const MAX_FRAME_LENGTH: usize = 4 * DEFAULT_PAYLOAD_LIMIT;

/// What a buffer of a framed stream begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A grain; the next frame begins after it and its four bytes of length.
    Grain(&'a [u8]),
    /// The end of the stream.
    End,
    /// The buffer holds no whole frame; it takes at least so many bytes.
    Incomplete(usize),
}

impl Frame<'_> {
    /// How many bytes of the buffer the frame took.
    pub const fn consumed(&self) -> usize {
        match self {
            Frame::Grain(grain) => 4 + grain.len(),
            Frame::End => 4,
            Frame::Incomplete(_) => 0,
        }
    }
}

/// The first frame of `buffer`.
///
/// # Errors
/// [`Corrupt`](crate::error::ErrorCode::Corrupt) for a length beyond [`MAX_FRAME_LENGTH`].
pub fn next_frame(buffer: &[u8]) -> Result<Frame<'_>, GrainError> {
    let Some((length, rest)) = buffer.split_first_chunk::<4>() else {
        return Ok(Frame::Incomplete(4));
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_FRAME_LENGTH {
        let message =
            format!("a frame of {length} bytes is beyond the limit of {MAX_FRAME_LENGTH}");
        return Err(GrainError::corrupt(0, message));
    }
    Ok(match rest.get(..length) {
        Some([]) => Frame::End,
        Some(grain) => Frame::Grain(grain),
        None => Frame::Incomplete(4 + length),
    })
}

/// Appends the frame of `grain`.
///
/// # Errors
/// [`Corrupt`](crate::error::ErrorCode::Corrupt) if the grain is empty (that would end the stream)
/// or too long.
pub fn write_frame(grain: &[u8], out: &mut Vec<u8>) -> Result<(), GrainError> {
    out.extend(frame_head(grain)?);
    out.extend(grain);
    Ok(())
}

/// What stands before `grain` in a frame.
///
/// # Errors
/// As [`write_frame`].
pub fn frame_head(grain: &[u8]) -> Result<[u8; 4], GrainError> {
    match u32::try_from(grain.len()) {
        Ok(length @ 1..) if grain.len() <= MAX_FRAME_LENGTH => Ok(length.to_be_bytes()),
        _ => Err(GrainError::corrupt(
            0,
            format!("a grain of {} bytes doesn't fit a frame", grain.len()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_in_order_and_end() {
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
            if frame == Frame::End {
                break;
            }
        }
        assert_eq!(
            seen,
            [Frame::Grain(b"one"), Frame::Grain(b"two!"), Frame::End]
        );
    }

    #[test]
    fn a_cut_stream_says_how_much_it_needs_and_a_lying_length_is_refused() {
        assert_eq!(next_frame(&[0, 0]).unwrap(), Frame::Incomplete(4));
        assert_eq!(next_frame(&[0, 0, 0, 5, 1]).unwrap(), Frame::Incomplete(9));
        assert!(next_frame(&[0xff; 4]).is_err());
        assert!(write_frame(b"", &mut Vec::new()).is_err());
    }
}
