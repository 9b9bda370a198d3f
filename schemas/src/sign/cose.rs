//! COSE_Sign1 envelopes of blobs (§9.1, RFC 9052).
//!
//! The envelope is not part of the grain, whose address is that of the inner blob. The lake stores
//! the blob and, separately, the rest of the envelope ([`EnvelopeParts`]), from which the delivered
//! bytes are restored.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use ciborium::Value;
use coset::{
    CborSerializable, CoseSign1Builder, HeaderBuilder, ProtectedHeader, SignatureContext, iana,
};

use super::did::{DidError, KeyResolver, did_from_key};
use super::key::{SigningKey, VerifyingKey};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{GrainHeader, VERSION, cbor_items};

/// A grain as delivered: a bare blob, or a blob in an envelope.
#[derive(Debug, Clone)]
pub enum DeliveredGrain<'a> {
    /// A blob without envelope.
    Bare(&'a [u8]),
    /// A blob in a COSE_Sign1 envelope.
    Signed(Box<SignedBlob<'a>>),
}

impl<'a> DeliveredGrain<'a> {
    /// Opens a blob or an envelope, distinguished by the first byte.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] if the envelope can't be opened; [`ErrorCode::SignedMismatch`] if the
    /// blob's signed flag and the presence of an envelope disagree (§9.2); those of
    /// [`GrainHeader::read`] for the blob.
    pub fn open(bytes: &'a [u8]) -> Result<DeliveredGrain<'a>, GrainError> {
        let delivery = match bytes.first() {
            Some(&first) if first != VERSION && starts_envelope(first) => {
                DeliveredGrain::Signed(Box::new(SignedBlob::parse(bytes)?))
            }
            _ => DeliveredGrain::Bare(bytes),
        };
        let header = GrainHeader::read(delivery.blob())
            .map_err(|error| error.shifted(delivery.blob_start()))?;
        let message = match (header.flags.signed(), &delivery) {
            (true, DeliveredGrain::Bare(_)) => {
                "the signed flag is set but the blob has no envelope"
            }
            (false, DeliveredGrain::Signed(_)) => {
                "an envelope wraps a blob whose signed flag is clear"
            }
            _ => return Ok(delivery),
        };
        Err(GrainError::new(ErrorCode::SignedMismatch, message).at(delivery.blob_start() + 1))
    }

    /// Returns the offset of the blob in the delivered bytes.
    pub fn blob_start(&self) -> usize {
        match self {
            DeliveredGrain::Bare(_) => 0,
            DeliveredGrain::Signed(signed) => signed.payload.start,
        }
    }

    /// Returns the content-addressed blob.
    pub fn blob(&self) -> &'a [u8] {
        match self {
            DeliveredGrain::Bare(blob) => blob,
            DeliveredGrain::Signed(signed) => signed.blob(),
        }
    }
}

/// Returns true if an envelope can start with `first`: a CBOR array of four items, or tag 18 before
/// it.
fn starts_envelope(first: u8) -> bool {
    matches!(first, ARRAY_OF_FOUR | TAG_18)
}

const ARRAY_OF_FOUR: u8 = 0x84;
const TAG_18: u8 = 0xd2;

/// The result of checking a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureStatus {
    /// The signature is valid.
    Valid,
    /// The signature is not the signer's over this blob, or the envelope lacks the signer or the
    /// algorithm, or has invalid values for them (§9.3).
    Invalid,
    /// The signature can't be checked because the signer's key is unknown or of a kind that the
    /// specification does not define. Holds the reason.
    Unverifiable(String),
}

impl SignatureStatus {
    /// Returns `valid`, `invalid` or `unverifiable`.
    pub const fn name(&self) -> &'static str {
        match self {
            SignatureStatus::Valid => "valid",
            SignatureStatus::Invalid => "invalid",
            SignatureStatus::Unverifiable(_) => "unverifiable",
        }
    }
}

/// An opened COSE_Sign1 envelope.
#[derive(Debug, Clone)]
pub struct SignedBlob<'a> {
    bytes: &'a [u8],
    payload: Range<usize>,
    protected: &'a [u8],
    signature: &'a [u8],
    algorithm: Option<i128>,
    signer: Option<String>,
}

/// The bytes of an envelope before and after the blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeParts<'a> {
    /// The bytes before the blob.
    pub before: Cow<'a, [u8]>,
    /// The bytes after the blob.
    pub after: Cow<'a, [u8]>,
}

impl<'a> SignedBlob<'a> {
    /// Parses an envelope, tagged or not. The signer's key id may be bytes or text.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] if the bytes are not a complete COSE_Sign1, if one of its headers is
    /// no map or repeats a label, or if it has critical header parameters.
    pub fn parse(bytes: &'a [u8]) -> Result<SignedBlob<'a>, GrainError> {
        let skipped = usize::from(bytes.first() == Some(&TAG_18));
        let untagged = bytes.get(skipped..).unwrap_or_default();
        let [protected, unprotected, payload, signature] =
            cbor_items(untagged).map_err(|error| error.shifted(skipped))?;
        let unprotected = untagged.get(protected.end..unprotected.end);
        read_header(unprotected.unwrap_or_default())?;
        let (protected, payload_bytes, signature) = match (
            protected.bytes,
            payload.bytes,
            signature.bytes,
        ) {
            (Some(protected), Some(payload), Some(signature)) => (protected, payload, signature),
            _ => {
                return Err(GrainError::corrupt(
                    skipped,
                    "the protected headers, payload and signature of a COSE_Sign1 must be byte strings",
                ));
            }
        };
        let start = skipped + payload.end - payload_bytes.len();
        let (algorithm, signer) = read_protected(protected)?;
        let payload = start..start + payload_bytes.len();
        Ok(SignedBlob {
            bytes,
            payload,
            protected,
            signature,
            algorithm,
            signer,
        })
    }

    /// Returns the wrapped blob.
    pub fn blob(&self) -> &'a [u8] {
        self.bytes.get(self.payload.clone()).unwrap_or_default()
    }

    /// Returns the signer's DID as declared in the envelope.
    pub fn signer(&self) -> Option<&str> {
        self.signer.as_deref()
    }

    /// Returns the envelope without the blob.
    pub fn parts(&self) -> EnvelopeParts<'a> {
        EnvelopeParts {
            before: self
                .bytes
                .get(..self.payload.start)
                .unwrap_or_default()
                .into(),
            after: self
                .bytes
                .get(self.payload.end..)
                .unwrap_or_default()
                .into(),
        }
    }

    /// Checks the signature with the signer's key from `resolver`.
    pub fn verify(&self, resolver: &dyn KeyResolver) -> SignatureStatus {
        let (Some(signer), Some(algorithm)) = (self.signer(), self.algorithm) else {
            return SignatureStatus::Invalid;
        };
        let keys = match resolver.resolve(signer) {
            Ok(keys) => keys,
            Err(DidError::Malformed(_)) => return SignatureStatus::Invalid,
            // No signature of a supported algorithm can be valid for a key of another kind.
            Err(DidError::KeyKind(_)) if matches!(algorithm, EDDSA | ED25519 | ES256) => {
                return SignatureStatus::Invalid;
            }
            Err(error) => return SignatureStatus::Unverifiable(error.to_string()),
        };
        let protected = ProtectedHeader {
            original_data: Some(self.protected.to_vec()),
            ..Default::default()
        };
        let message = coset::sig_structure_data(
            SignatureContext::CoseSign1,
            protected,
            None,
            &[],
            self.blob(),
        );
        let holds = |key: &VerifyingKey| {
            algorithm_fits(algorithm, key) && key.verify(&message, self.signature)
        };
        match keys.iter().any(holds) {
            true => SignatureStatus::Valid,
            false => SignatureStatus::Invalid,
        }
    }

    /// As [`SignedBlob::verify`], for callers that reject invalid signatures and accept
    /// unverifiable ones.
    ///
    /// # Errors
    /// [`ErrorCode::Integrity`] if the signature is [`SignatureStatus::Invalid`].
    pub fn ensure_not_invalid(
        &self,
        resolver: &dyn KeyResolver,
    ) -> Result<SignatureStatus, GrainError> {
        match self.verify(resolver) {
            SignatureStatus::Invalid => {
                let signer = self.signer().unwrap_or("nobody");
                let message = format!("the signature is not that of {signer} over this blob");
                Err(GrainError::new(ErrorCode::Integrity, message))
            }
            status => Ok(status),
        }
    }
}

/// Returns true if signatures of `algorithm` are made with keys like `key`.
fn algorithm_fits(algorithm: i128, key: &VerifyingKey) -> bool {
    match key {
        VerifyingKey::Ed25519(_) => matches!(algorithm, EDDSA | ED25519),
        VerifyingKey::P256(_) => algorithm == ES256,
    }
}

/// COSE algorithm numbers (§9.1).
const EDDSA: i128 = -8;
const ED25519: i128 = -19;
const ES256: i128 = -7;

/// The maximum length of a header in bytes: its values take many times as much memory.
const MAX_HEADER_LENGTH: usize = 1 << 20;

fn corrupt(message: &'static str) -> GrainError {
    GrainError::new(ErrorCode::Corrupt, message)
}

/// Reads algorithm and signer from a protected header. Zero bytes encode an empty header.
fn read_protected(bytes: &[u8]) -> Result<(Option<i128>, Option<String>), GrainError> {
    let (mut algorithm, mut signer) = (None, None);
    if bytes.is_empty() {
        return Ok((algorithm, signer));
    }
    for (label, value) in read_header(bytes)? {
        match label {
            Some(1) => algorithm = value.as_integer().map(i128::from),
            Some(2) => {
                return Err(corrupt(
                    "the envelope has critical header parameters that are not supported",
                ));
            }
            Some(4) => signer = text_of(value),
            _ => {}
        }
    }
    Ok((algorithm, signer))
}

/// Reads the map of a header, protected or not: the value of each label, which is `None` for a
/// text. Labels are integers or texts (RFC 9052 §1.4). Repeated labels are an error because readers
/// would disagree on which of them counts.
fn read_header(bytes: &[u8]) -> Result<Vec<(Option<i128>, Value)>, GrainError> {
    if bytes.len() > MAX_HEADER_LENGTH {
        return Err(corrupt("a header of the envelope is longer than 1 MiB"));
    }
    let mut rest = bytes;
    let header: Value = ciborium::from_reader(&mut rest)
        .map_err(|_| corrupt("a header of the envelope is not CBOR"))?;
    if !rest.is_empty() {
        return Err(corrupt("bytes follow a header of the envelope"));
    }
    let entries = header
        .into_map()
        .map_err(|_| corrupt("a header of the envelope is not a map"))?;
    let mut labels = HashSet::new();
    let mut values = Vec::with_capacity(entries.len());
    for (label, value) in entries {
        let number = label.as_integer().map(i128::from);
        let label = (number, label.into_text().ok());
        if label == (None, None) || !labels.insert(label) {
            return Err(corrupt(
                "a label of a header of the envelope is repeated, or is neither number nor text",
            ));
        }
        values.push((number, value));
    }
    Ok(values)
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        Value::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Wraps `blob`, whose signed flag must be set, in an envelope signed with `key`. The signer is the
/// key's `did:key`, or the DID `signer`. `issued_at` is in seconds since 1970. The envelope is
/// untagged, with the signer as bytes.
///
/// # Errors
/// [`ErrorCode::SignedMismatch`] if the blob's signed flag is clear; those of
/// [`GrainHeader::read`].
pub fn sign(
    blob: &[u8],
    key: &SigningKey,
    signer: Option<&str>,
    issued_at: i64,
) -> Result<Vec<u8>, GrainError> {
    let header = GrainHeader::read(blob)?;
    if !header.flags.signed() {
        return Err(GrainError::new(
            ErrorCode::SignedMismatch,
            "a blob to sign must be encoded with its signed flag set",
        ));
    }
    let content_type = if header.flags.cbor() {
        "application/vnd.mg+cbor"
    } else {
        "application/vnd.mg+msgpack"
    };
    sign_message(blob, content_type, key, signer, issued_at)
}

/// Wraps any `payload` in a COSE_Sign1 envelope as [`sign`] does; [`SignedBlob::parse`] opens it.
///
/// # Errors
/// [`ErrorCode::Corrupt`] if the envelope can't be encoded.
pub fn sign_message(
    payload: &[u8],
    content_type: &str,
    key: &SigningKey,
    signer: Option<&str>,
    issued_at: i64,
) -> Result<Vec<u8>, GrainError> {
    let signer = signer.map_or_else(|| did_from_key(&key.verifying_key()), str::to_owned);
    let algorithm = match key {
        SigningKey::Ed25519(_) => iana::Algorithm::EdDSA,
        SigningKey::P256(_) => iana::Algorithm::ES256,
    };
    let protected = HeaderBuilder::new()
        .algorithm(algorithm)
        .content_type(content_type.to_owned())
        .key_id(signer.into_bytes())
        .build();
    let unprotected = HeaderBuilder::new()
        .text_value("iat".to_owned(), Value::from(issued_at))
        .build();
    CoseSign1Builder::new()
        .protected(protected)
        .unprotected(unprotected)
        .payload(payload.to_vec())
        .create_signature(&[], |message| key.sign(message))
        .build()
        .to_vec()
        .map_err(|error| {
            GrainError::new(
                ErrorCode::Corrupt,
                format!("the envelope can't be encoded: {error}"),
            )
        })
}
