//! A stream of frames: the frames that were read, written again, are the stream.
#![no_main]

use gristmill_schemas::container::{FRAME_END, Frame, next_frame, write_frame};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut again) = (bytes, Vec::new());
    while let Ok(frame) = next_frame(rest) {
        match frame {
            Frame::Grain(grain) => {
                write_frame(grain, &mut again).expect("a frame that was read can be written");
                gristmill_fuzz::read_grain(grain);
            }
            Frame::End => again.extend(FRAME_END),
            Frame::Incomplete(needed) => {
                assert!(needed > rest.len());
                break;
            }
        }
        rest = &rest[frame.consumed()..];
    }
    assert!(bytes.starts_with(&again) && again.len() + rest.len() == bytes.len());
});
