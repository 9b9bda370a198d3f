//! From a blob to the bytes of its payload: header, decompression, and which encoding the payload
//! really has.

use std::borrow::Cow;

use super::cbor::{self, CborReader};
use super::header::{HEADER_LENGTH, Header};
use super::msgpack::{self, MessagePackReader};
use super::token::{Reader, Token, skip};
use crate::compression::decompress_zstd;
use crate::error::{ErrorCode, GrainError};

/// How a payload is encoded (§16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// MessagePack, the default.
    #[default]
    MessagePack,
    /// Deterministic CBOR.
    Cbor,
}

impl Encoding {
    /// `msgpack` or `cbor`.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::MessagePack => "msgpack",
            Encoding::Cbor => "cbor",
        }
    }

    /// The encoding of a map that begins with the byte `first`. No byte begins a map in both; what
    /// begins a CBOR map begins a short MessagePack string, so CBOR is only believed where
    /// something else speaks for it.
    pub fn of_map(first: u8) -> Option<Encoding> {
        if msgpack::begins_map(first) {
            Some(Encoding::MessagePack)
        } else if cbor::begins_map(first) {
            Some(Encoding::Cbor)
        } else {
            None
        }
    }

    /// The encoding that a payload really has, given what the header claims. The widespread lie
    /// (the CBOR flag over MessagePack) is seen through; what begins a short MessagePack map begins
    /// a CBOR array too, so a claim of CBOR is a lie only if the payload as a whole isn't CBOR.
    ///
    /// # Errors
    /// [`ErrorCode::NotMap`] if the payload is some other value, [`ErrorCode::Corrupt`] if it is
    /// none.
    fn of_payload(payload: &[u8], claimed: Encoding) -> Result<Encoding, GrainError> {
        match payload.first().and_then(|first| Encoding::of_map(*first)) {
            Some(Encoding::MessagePack) if claimed == Encoding::Cbor && is_cbor_value(payload) => {}
            Some(Encoding::MessagePack) => return Ok(Encoding::MessagePack),
            Some(Encoding::Cbor) if claimed == Encoding::Cbor => return Ok(Encoding::Cbor),
            _ => {}
        }
        match claimed {
            Encoding::MessagePack => MessagePackReader::new(payload).token()?,
            Encoding::Cbor => CborReader::new(payload).token()?,
        };
        Err(GrainError::new(
            ErrorCode::NotMap,
            "the payload must be a MessagePack or CBOR map",
        )
        .at(0))
    }
}

fn each_text_beyond_ascii<'a>(mut reader: impl Reader<'a>, mut visit: impl FnMut(&str)) -> bool {
    let mut left: usize = 1;
    while left > 0 {
        left -= 1;
        // Most tokens are such: of what is ASCII nothing else needs to be known.
        if let Some((_, end)) = reader.short_text().filter(|(text, _)| text.is_ascii()) {
            reader.move_to(end);
            continue;
        }
        match reader.token() {
            Ok(Token::Text(text)) if !text.is_ascii() => visit(text),
            Ok(Token::Bytes(_)) | Err(_) => return false,
            Ok(token) => left = left.saturating_add(token.children()),
        }
    }
    true
}

fn is_cbor_value(payload: &[u8]) -> bool {
    let mut reader = CborReader::new(payload);
    skip(&mut reader).is_ok() && reader.position() == payload.len()
}

/// The most bytes that a compressed payload may decompress to, unless the caller says otherwise:
/// sixteen times the blob size that the specification recommends for its largest profile (§18.1).
pub const DEFAULT_PAYLOAD_LIMIT: usize = 16 << 20;

/// A blob opened up to its payload. Borrows the blob's bytes unless they had to be decompressed.
#[derive(Debug, Clone)]
pub struct Payload<'a> {
    header: Header,
    content: Content<'a>,
}

#[derive(Debug, Clone)]
enum Content<'a> {
    Clear(Cow<'a, [u8]>, Encoding),
    Encrypted,
}

impl<'a> Payload<'a> {
    /// Opens `blob`; a compressed payload may grow to `limit` bytes.
    ///
    /// # Errors
    /// Those of [`Header::read`]; [`ErrorCode::NotMap`] if the payload isn't a map;
    /// [`ErrorCode::Corrupt`] if it doesn't decompress within the limit.
    pub fn open(blob: &'a [u8], limit: usize) -> Result<Payload<'a>, GrainError> {
        let header = Header::read(blob)?;
        if header.flags.encrypted() {
            return Ok(Payload {
                header,
                content: Content::Encrypted,
            });
        }
        let raw = blob.get(HEADER_LENGTH..).unwrap_or_default();
        let bytes = if header.flags.compressed() {
            Cow::Owned(decompress_zstd(raw, limit).map_err(|error| error.shifted(HEADER_LENGTH))?)
        } else {
            Cow::Borrowed(raw)
        };
        let claimed = if header.flags.cbor() {
            Encoding::Cbor
        } else {
            Encoding::MessagePack
        };
        let encoding =
            Encoding::of_payload(&bytes, claimed).map_err(|error| error.shifted(HEADER_LENGTH))?;
        Ok(Payload {
            header,
            content: Content::Clear(bytes, encoding),
        })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Calls `visit` for each string of the payload, key or value, however deep, that isn't plain
    /// ASCII. False if a value is binary or the payload can't be read to its end: then strings may
    /// be missing. Goes through the payload without making anything of it.
    pub fn each_text_beyond_ascii(&self, visit: impl FnMut(&str)) -> bool {
        match self.clear() {
            Some((bytes, Encoding::MessagePack)) => {
                each_text_beyond_ascii(MessagePackReader::new(bytes), visit)
            }
            Some((bytes, Encoding::Cbor)) => each_text_beyond_ascii(CborReader::new(bytes), visit),
            None => false,
        }
    }

    /// The payload's bytes and their encoding; `None` if they are encrypted.
    pub fn clear(&self) -> Option<(&[u8], Encoding)> {
        match &self.content {
            Content::Clear(bytes, encoding) => Some((bytes, *encoding)),
            Content::Encrypted => None,
        }
    }
}
