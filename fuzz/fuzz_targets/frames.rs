//! Fuzzes a stream of frames: writing the frames that were read yields the same stream.
#![no_main]

use gristmill_schemas::container::{FRAME_END, GrainFrame, next_frame, write_frame};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut again) = (bytes, Vec::new());
    while let Ok(frame) = next_frame(rest) {
        match frame {
            GrainFrame::Grain(grain) => {
                write_frame(grain, &mut again).expect("a frame that was read can be written");
                gristmill_fuzz::read_grain(grain);
            }
            GrainFrame::End => again.extend(FRAME_END),
            GrainFrame::Incomplete(needed) => {
                assert!(needed > rest.len());
                break;
            }
        }
        rest = &rest[frame.consumed()..];
    }
    assert!(bytes.starts_with(&again) && again.len() + rest.len() == bytes.len());
});
