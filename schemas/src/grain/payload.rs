//! Opens a blob: reads the header, decompresses the payload and detects its encoding.

use std::borrow::Cow;

use super::cbor::{self, CborReader};
use super::header::{GrainHeader, HEADER_LENGTH};
use super::msgpack::{self, MessagePackReader};
use super::token::{PayloadToken, TokenReader, skip};
use crate::compression::decompress_zstd;
use crate::error::{ErrorCode, GrainError};

/// The encoding of a payload (§16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// MessagePack, the default.
    #[default]
    MessagePack,
    /// Deterministic CBOR.
    Cbor,
}

impl Encoding {
    /// Returns `msgpack` or `cbor`.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::MessagePack => "msgpack",
            Encoding::Cbor => "cbor",
        }
    }

    /// Returns the encoding of a map whose first byte is `first`. No byte starts a map in both
    /// encodings. The first byte of a CBOR map also starts a short MessagePack string, so callers
    /// need further evidence for CBOR.
    pub fn from_map_head(first: u8) -> Option<Encoding> {
        if msgpack::begins_map(first) {
            Some(Encoding::MessagePack)
        } else if cbor::begins_map(first) {
            Some(Encoding::Cbor)
        } else {
            None
        }
    }

    /// Detects the encoding of a payload, given the one that the header declares. Some writers set
    /// the CBOR flag on MessagePack payloads. The first byte of a short MessagePack map also starts
    /// a CBOR array, so a declared CBOR encoding is overridden only if the payload as a whole is
    /// not valid CBOR.
    ///
    /// # Errors
    /// [`ErrorCode::NotMap`] if the payload is another kind of value, [`ErrorCode::Corrupt`] if it
    /// is no valid value.
    fn of_payload(payload: &[u8], claimed: Encoding) -> Result<Encoding, GrainError> {
        match payload
            .first()
            .and_then(|first| Encoding::from_map_head(*first))
        {
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

fn visit_non_ascii_text<'a>(mut reader: impl TokenReader<'a>, mut visit: impl FnMut(&str)) -> bool {
    let mut left: usize = 1;
    while left > 0 {
        left -= 1;
        // The fast path: most tokens are short ASCII strings, which need no further checks.
        if let Some((_, end)) = reader.short_text().filter(|(text, _)| text.is_ascii()) {
            reader.move_to(end);
            continue;
        }
        match reader.token() {
            Ok(PayloadToken::Text(text)) if !text.is_ascii() => visit(text),
            Ok(PayloadToken::Bytes(_)) | Err(_) => return false,
            Ok(token) => left = left.saturating_add(token.children()),
        }
    }
    true
}

fn is_cbor_value(payload: &[u8]) -> bool {
    let mut reader = CborReader::new(payload);
    skip(&mut reader).is_ok() && reader.position() == payload.len()
}

/// The default limit for a decompressed payload in bytes: sixteen times the maximum blob size that
/// the specification recommends for its largest profile (§18.1).
pub const DEFAULT_PAYLOAD_LIMIT: usize = 16 << 20;

/// An opened blob. Borrows the blob's bytes unless they had to be decompressed.
#[derive(Debug, Clone)]
pub struct Payload<'a> {
    header: GrainHeader,
    content: PayloadContent<'a>,
}

#[derive(Debug, Clone)]
enum PayloadContent<'a> {
    Plain(Cow<'a, [u8]>, Encoding),
    Encrypted,
}

impl<'a> Payload<'a> {
    /// Opens `blob`. A payload may decompress to at most `limit` bytes.
    ///
    /// # Errors
    /// Those of [`GrainHeader::read`]; [`ErrorCode::NotMap`] if the payload is not a map;
    /// [`ErrorCode::Corrupt`] if it can't be decompressed within the limit.
    pub fn open(blob: &'a [u8], limit: usize) -> Result<Payload<'a>, GrainError> {
        let header = GrainHeader::read(blob)?;
        if header.flags.encrypted() {
            return Ok(Payload {
                header,
                content: PayloadContent::Encrypted,
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
            content: PayloadContent::Plain(bytes, encoding),
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &GrainHeader {
        &self.header
    }

    /// Calls `visit` for each string of the payload that is not plain ASCII, key or value, at any
    /// depth. Returns false if a value is binary or the payload can't be read to its end, in which
    /// case strings may have been missed. Builds no values.
    pub fn visit_non_ascii_text(&self, visit: impl FnMut(&str)) -> bool {
        match self.plaintext() {
            Some((bytes, Encoding::MessagePack)) => {
                visit_non_ascii_text(MessagePackReader::new(bytes), visit)
            }
            Some((bytes, Encoding::Cbor)) => visit_non_ascii_text(CborReader::new(bytes), visit),
            None => false,
        }
    }

    /// Returns the decompressed payload and its encoding; `None` if it is encrypted.
    pub fn plaintext(&self) -> Option<(&[u8], Encoding)> {
        match &self.content {
            PayloadContent::Plain(bytes, encoding) => Some((bytes, *encoding)),
            PayloadContent::Encrypted => None,
        }
    }
}
