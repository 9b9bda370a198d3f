//! What kind of input some bytes are.

use gristmill_schemas::container::{Frame, MAGIC, next_frame};
use gristmill_schemas::grain::{Header, MIN_BLOB_LENGTH, VERSION};

use crate::transcript::kind::TranscriptKind;

/// A kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A `.mg` container.
    Container,
    /// A stream of length-prefixed frames.
    Frames,
    /// One grain alone: a blob, or an envelope around one.
    Blob,
    /// Recorded conversations, from which grains are made.
    Transcript(TranscriptKind),
}

impl SourceKind {
    /// The kind that the first bytes show, else the one that the name's ending promises: a damaged
    /// `.mg` file is to be told, not passed over. `None` if neither says anything.
    pub fn detect(bytes: &[u8], uri: &str) -> Option<SourceKind> {
        let promised = || match uri.rsplit_once('.')?.1 {
            "mg" => Some(SourceKind::Container),
            "frames" => Some(SourceKind::Frames),
            _ => None,
        };
        let transcript = || TranscriptKind::detect(bytes, uri).map(SourceKind::Transcript);
        SourceKind::shown_by(bytes)
            .or_else(transcript)
            .or_else(promised)
    }

    fn shown_by(bytes: &[u8]) -> Option<SourceKind> {
        if bytes.starts_with(&MAGIC) {
            return Some(SourceKind::Container);
        }
        match (begins_grain(bytes), begins_frames(bytes)) {
            // What reads as a blob's header reads as a frame of 16 MiB or more, too: that one must
            // be there.
            (true, Some(Whole(false)) | None) => Some(SourceKind::Blob),
            (_, Some(_)) => Some(SourceKind::Frames),
            (false, None) => None,
        }
    }

    /// Every kind, those of grains first.
    pub fn all() -> impl Iterator<Item = SourceKind> {
        let transcripts = TranscriptKind::ALL
            .iter()
            .copied()
            .map(SourceKind::Transcript);
        [SourceKind::Container, SourceKind::Frames, SourceKind::Blob]
            .into_iter()
            .chain(transcripts)
    }

    /// What it is, for people.
    pub fn about(self) -> &'static str {
        match self {
            SourceKind::Container => "`.mg` containers",
            SourceKind::Frames => "Length-prefixed frames",
            SourceKind::Blob => "Single grains",
            SourceKind::Transcript(kind) => kind.about(),
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Container => "mg",
            SourceKind::Frames => "frames",
            SourceKind::Blob => "blob",
            SourceKind::Transcript(kind) => kind.name(),
        }
    }

    /// What stands for it in a lake's log. It never changes, and 0 is none.
    pub fn code(self) -> u8 {
        match self {
            SourceKind::Container => 1,
            SourceKind::Frames => 2,
            SourceKind::Blob => 3,
            SourceKind::Transcript(kind) => kind.code(),
        }
    }

    /// The kind with that code.
    pub fn from_code(code: u8) -> Option<SourceKind> {
        SourceKind::all().find(|kind| kind.code() == code)
    }

    /// Why [`SourceKind::detect`] finds no kind in `bytes`, for people.
    pub fn why_not(bytes: &[u8], uri: &str) -> String {
        TranscriptKind::why_not(bytes, uri)
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<SourceKind> {
        SourceKind::all().find(|kind| kind.name() == name)
    }
}

/// True if the bytes begin like a blob or like an envelope around one.
fn begins_grain(bytes: &[u8]) -> bool {
    match bytes {
        [VERSION, ..] => Header::read(bytes).is_ok(),
        bytes => matches!(bytes, [0x84, 0x40..=0x5b, ..] | [0xd2, 0x84, ..]),
    }
}

/// Whether a first frame is whole.
struct Whole(bool);

/// Tells if the bytes begin with a frame that holds something like a grain, or are an empty stream.
fn begins_frames(bytes: &[u8]) -> Option<Whole> {
    let grain_like = |grain: &[u8]| grain.len() >= MIN_BLOB_LENGTH && begins_grain(grain);
    match next_frame(bytes).ok()? {
        Frame::Grain(grain) => grain_like(grain).then_some(Whole(true)),
        Frame::End => (bytes.len() == 4).then_some(Whole(true)),
        // A first frame that is cut off is still a frame.
        Frame::Incomplete(_) => bytes
            .get(4..)
            .filter(|rest| grain_like(rest))
            .map(|_| Whole(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
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
    fn kinds_are_told_by_their_first_bytes_and_then_by_the_name() {
        let blob = [1, 0, 1, 0, 0, 0, 0, 0, 0, 0x81, 0xa1, 0x74, 0xa6];
        let framed = [&(blob.len() as u32).to_be_bytes()[..], &blob, &[0; 4]].concat();
        assert_eq!(
            SourceKind::shown_by(b"MG\x01\0rest"),
            Some(SourceKind::Container)
        );
        assert_eq!(SourceKind::shown_by(&framed), Some(SourceKind::Frames));
        assert_eq!(
            SourceKind::shown_by(&framed[..14]),
            Some(SourceKind::Frames)
        );
        assert_eq!(SourceKind::shown_by(&blob), Some(SourceKind::Blob));
        assert_eq!(
            SourceKind::shown_by(&[0x84, 0x58, 0x5b]),
            Some(SourceKind::Blob)
        );
        // The namespace's hash ends in a byte that an envelope may begin with.
        let lookalike = [
            1, 0, 1, 0xa4, 0xd2, 0x69, 0x68, 0xba, 0xa0, 0x81, 0xa1, 0x74, 0xa6,
        ];
        assert_eq!(SourceKind::shown_by(&lookalike), Some(SourceKind::Blob));
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
            assert_eq!(SourceKind::shown_by(other), None, "{other:?}");
        }
    }
}
