//! Detection of the format of a source.

use gristmill_schemas::container::{GrainFrame, MAGIC, next_frame};
use gristmill_schemas::grain::{GrainHeader, MIN_BLOB_LENGTH, VERSION};

use super::decompress::content_name;
use crate::transcript::kind::TranscriptKind;

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum SourceKind {
    /// A `.mg` container.
    Container,
    /// A stream of length-prefixed frames.
    Frames,
    /// A single grain: a blob, or an envelope around one.
    Blob,
    /// Recorded conversations, which are converted to grains.
    Transcript(TranscriptKind),
}

/// The code of a message isn't that of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} isn't the code of a kind of sources; another version of the program has sent it")]
pub struct UnknownKind(u8);

impl From<SourceKind> for u8 {
    fn from(kind: SourceKind) -> u8 {
        kind.code()
    }
}

impl TryFrom<u8> for SourceKind {
    type Error = UnknownKind;

    fn try_from(code: u8) -> Result<SourceKind, UnknownKind> {
        SourceKind::from_code(code).ok_or(UnknownKind(code))
    }
}

impl SourceKind {
    /// Detects the kind from the first bytes, else from the file extension, so that a damaged `.mg`
    /// file is reported rather than skipped. Returns `None` if neither identifies a kind.
    pub fn detect(bytes: &[u8], uri: &str) -> Option<SourceKind> {
        let by_extension = || match content_name(uri).rsplit_once('.')?.1 {
            "mg" => Some(SourceKind::Container),
            "frames" => Some(SourceKind::Frames),
            _ => None,
        };
        let transcript = || TranscriptKind::detect(bytes, uri).map(SourceKind::Transcript);
        SourceKind::of_grains(bytes)
            .or_else(transcript)
            .or_else(by_extension)
    }

    /// Detects the kinds that contain grains.
    fn of_grains(bytes: &[u8]) -> Option<SourceKind> {
        if bytes.starts_with(&MAGIC) {
            return Some(SourceKind::Container);
        }
        match (begins_grain(bytes), first_frame(bytes)) {
            // The header of a blob is also a valid length of a frame of 16 MiB or more; such a
            // frame counts only if it is complete.
            (true, Some(FirstFrame::Truncated) | None) => Some(SourceKind::Blob),
            (_, Some(_)) => Some(SourceKind::Frames),
            (false, None) => None,
        }
    }

    /// Returns all kinds, those of grains first.
    pub fn all() -> impl Iterator<Item = SourceKind> {
        let transcripts = TranscriptKind::ALL
            .iter()
            .copied()
            .map(SourceKind::Transcript);
        [SourceKind::Container, SourceKind::Frames, SourceKind::Blob]
            .into_iter()
            .chain(transcripts)
    }

    /// Returns a description for people.
    pub fn description(self) -> &'static str {
        match self {
            SourceKind::Container => "`.mg` containers",
            SourceKind::Frames => "Length-prefixed frames",
            SourceKind::Blob => "Single grains",
            SourceKind::Transcript(kind) => kind.description(),
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Container => "mg",
            SourceKind::Frames => "frames",
            SourceKind::Blob => "blob",
            SourceKind::Transcript(kind) => kind.name(),
        }
    }

    /// Returns the code in a lake's log. Codes never change; 0 isn't used.
    pub fn code(self) -> u8 {
        match self {
            SourceKind::Container => 1,
            SourceKind::Frames => 2,
            SourceKind::Blob => 3,
            SourceKind::Transcript(kind) => kind.code(),
        }
    }

    /// Returns the kind with that code.
    pub fn from_code(code: u8) -> Option<SourceKind> {
        SourceKind::all().find(|kind| kind.code() == code)
    }

    /// Explains to people why [`SourceKind::detect`] returns `None` for `bytes`.
    pub fn explain_unsupported(bytes: &[u8], uri: &str) -> String {
        TranscriptKind::why_not(bytes, uri)
    }

    /// Returns the kind with that name.
    pub fn from_name(name: &str) -> Option<SourceKind> {
        SourceKind::all().find(|kind| kind.name() == name)
    }
}

/// Returns true if the bytes begin like a blob or like an envelope around one.
fn begins_grain(bytes: &[u8]) -> bool {
    match bytes {
        [VERSION, ..] => GrainHeader::read(bytes).is_ok(),
        bytes => matches!(bytes, [0x84, 0x40..=0x5b, ..] | [0xd2, 0x84, ..]),
    }
}

/// The state of the first frame.
enum FirstFrame {
    Complete,
    Truncated,
}

/// Returns the state of the first frame, if it contains something like a grain or if the bytes are
/// an empty stream of frames.
fn first_frame(bytes: &[u8]) -> Option<FirstFrame> {
    let grain_like = |grain: &[u8]| grain.len() >= MIN_BLOB_LENGTH && begins_grain(grain);
    match next_frame(bytes).ok()? {
        GrainFrame::Grain(grain) => grain_like(grain).then_some(FirstFrame::Complete),
        GrainFrame::End => (bytes.len() == 4).then_some(FirstFrame::Complete),
        // A truncated first frame is still a frame.
        GrainFrame::Incomplete(_) => bytes
            .get(4..)
            .filter(|rest| grain_like(rest))
            .map(|_| FirstFrame::Truncated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_kinds_are_unique() {
        assert!(
            SourceKind::all()
                .all(|kind| kind.code() != 0 && SourceKind::from_code(kind.code()) == Some(kind))
        );
        assert_eq!(SourceKind::from_code(0), None);
        assert_eq!(
            SourceKind::from_name("langgraph").map(SourceKind::code),
            Some(31)
        );
    }

    #[test]
    fn kinds_are_detected_by_content_and_then_by_extension() {
        let blob = [1, 0, 1, 0, 0, 0, 0, 0, 0, 0x81, 0xa1, 0x74, 0xa6];
        let framed = [&(blob.len() as u32).to_be_bytes()[..], &blob, &[0; 4]].concat();
        assert_eq!(
            SourceKind::of_grains(b"MG\x01\0rest"),
            Some(SourceKind::Container)
        );
        assert_eq!(SourceKind::of_grains(&framed), Some(SourceKind::Frames));
        assert_eq!(
            SourceKind::of_grains(&framed[..14]),
            Some(SourceKind::Frames)
        );
        assert_eq!(SourceKind::of_grains(&blob), Some(SourceKind::Blob));
        assert_eq!(
            SourceKind::of_grains(&[0x84, 0x58, 0x5b]),
            Some(SourceKind::Blob)
        );
        // The hash of the namespace ends in a byte with which an envelope may begin.
        let lookalike = [
            1, 0, 1, 0xa4, 0xd2, 0x69, 0x68, 0xba, 0xa0, 0x81, 0xa1, 0x74, 0xa6,
        ];
        assert_eq!(SourceKind::of_grains(&lookalike), Some(SourceKind::Blob));
        assert_eq!(
            SourceKind::detect(b"NG\x01", "damaged.mg"),
            Some(SourceKind::Container)
        );
        for other in [
            &b"{\"a\":1}"[..],
            b"",
            b"PK\x03\x04zip",
            &[0xff; 64],
            b"SQLite format 3\0",
        ] {
            assert_eq!(SourceKind::of_grains(other), None, "{other:?}");
        }
    }
}
