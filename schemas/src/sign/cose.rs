//! COSE_Sign1 envelopes around blobs (§9.1, RFC 9052).
//!
//! The envelope isn't part of the grain: its address is that of the inner blob. The lake keeps the
//! blob and, beside it, the envelope's bytes without the blob ([`EnvelopeParts`]), from which the
//! delivered bytes can be put together again.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use ciborium::Value;
use coset::{
    CborSerializable, CoseSign1Builder, HeaderBuilder, ProtectedHeader, SignatureContext, iana,
};

use super::did::{DidError, KeyResolver, did_of_key};
use super::key::{SigningKey, VerifyingKey};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Header, VERSION, cbor_items};

/// How a delivered grain comes: bare, or inside an envelope.
#[derive(Debug, Clone)]
pub enum Delivery<'a> {
    /// The blob itself.
    Bare(&'a [u8]),
    /// A blob inside a COSE_Sign1 envelope.
    Signed(Box<SignedBlob<'a>>),
}

impl<'a> Delivery<'a> {
    /// Tells by the first byte whether `bytes` are a blob or an envelope, and opens the envelope.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] if it can't be opened; [`ErrorCode::SignedMismatch`] if the blob's
    /// signed flag and the presence of the envelope disagree (§9.2); what [`Header::read`] says of
    /// the blob.
    pub fn open(bytes: &'a [u8]) -> Result<Delivery<'a>, GrainError> {
        let delivery = match bytes.first() {
            Some(&first) if first != VERSION && envelope_begins(first) => {
                Delivery::Signed(Box::new(SignedBlob::parse(bytes)?))
            }
            _ => Delivery::Bare(bytes),
        };
        let header =
            Header::read(delivery.blob()).map_err(|error| error.shifted(delivery.blob_start()))?;
        let message = match (header.flags.signed(), &delivery) {
            (true, Delivery::Bare(_)) => {
                "the signed flag is set but no signature came with the blob"
            }
            (false, Delivery::Signed(_)) => "a signature wraps a blob whose signed flag is clear",
            _ => return Ok(delivery),
        };
        Err(GrainError::new(ErrorCode::SignedMismatch, message).at(delivery.blob_start() + 1))
    }

    /// Where the blob begins in the delivered bytes: what is wrong at some byte of it is wrong so
    /// much further on in these.
    pub fn blob_start(&self) -> usize {
        match self {
            Delivery::Bare(_) => 0,
            Delivery::Signed(signed) => signed.payload.start,
        }
    }

    /// The content-addressed blob.
    pub fn blob(&self) -> &'a [u8] {
        match self {
            Delivery::Bare(blob) => blob,
            Delivery::Signed(signed) => signed.blob(),
        }
    }
}

/// True if `first` may begin an envelope: a CBOR array of four, or tag 18 before it.
fn envelope_begins(first: u8) -> bool {
    matches!(first, ARRAY_OF_FOUR | TAG_18)
}

const ARRAY_OF_FOUR: u8 = 0x84;
const TAG_18: u8 = 0xd2;

/// What became of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureStatus {
    /// The signer's key verifies it.
    Valid,
    /// It isn't the signer's over this blob: because it is another's, or because the envelope
    /// doesn't say whose it is and how it was made, or says what can't be (§9.3).
    Invalid,
    /// Nobody here can tell, because the signer's key isn't known or is of a kind that the
    /// specification doesn't name.
    Unverifiable(String),
}

impl SignatureStatus {
    /// `valid`, `invalid` or `unverifiable`.
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

/// An envelope's bytes before and after the blob that it wraps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeParts<'a> {
    /// The bytes before the blob.
    pub before: Cow<'a, [u8]>,
    /// The bytes after the blob.
    pub after: Cow<'a, [u8]>,
}

impl<'a> SignedBlob<'a> {
    /// Opens `bytes`, tagged or not; the signer's name may be bytes or text.
    ///
    /// # Errors
    /// [`ErrorCode::Corrupt`] if they aren't a whole COSE_Sign1, or name header parameters as
    /// critical.
    pub fn parse(bytes: &'a [u8]) -> Result<SignedBlob<'a>, GrainError> {
        let skipped = usize::from(bytes.first() == Some(&TAG_18));
        let untagged = bytes.get(skipped..).unwrap_or_default();
        let [protected, _, payload, signature] =
            cbor_items(untagged).map_err(|error| error.shifted(skipped))?;
        let (protected, payload_bytes, signature) =
            match (protected.bytes, payload.bytes, signature.bytes) {
                (Some(protected), Some(payload), Some(signature)) => {
                    (protected, payload, signature)
                }
                _ => {
                    return Err(GrainError::corrupt(
                        skipped,
                        "a COSE_Sign1 has protected headers, payload and signature as bytes",
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

    /// The wrapped blob.
    pub fn blob(&self) -> &'a [u8] {
        self.bytes.get(self.payload.clone()).unwrap_or_default()
    }

    /// The signer's DID, as the envelope claims it.
    pub fn signer(&self) -> Option<&str> {
        self.signer.as_deref()
    }

    /// The envelope without the blob.
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

    /// Checks the signature with the key that `resolver` has for the signer.
    pub fn verify(&self, resolver: &dyn KeyResolver) -> SignatureStatus {
        let (Some(signer), Some(algorithm)) = (self.signer(), self.algorithm) else {
            return SignatureStatus::Invalid;
        };
        let key = match resolver.resolve(signer) {
            Ok(key) => key,
            Err(DidError::Malformed(_)) => return SignatureStatus::Invalid,
            // A key of another kind can't have made a signature of ours, whatever it is.
            Err(DidError::KeyKind(_)) if matches!(algorithm, EDDSA | ED25519 | ES256) => {
                return SignatureStatus::Invalid;
            }
            Err(error) => return SignatureStatus::Unverifiable(error.to_string()),
        };
        if !fits(algorithm, &key) {
            return SignatureStatus::Invalid;
        }
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
        match key.verifies(&message, self.signature) {
            true => SignatureStatus::Valid,
            false => SignatureStatus::Invalid,
        }
    }

    /// [`SignedBlob::verify`] for whoever takes no wrong signature: one that can't be verified here
    /// is let through.
    ///
    /// # Errors
    /// [`ErrorCode::Integrity`] if the signature is [`SignatureStatus::Invalid`].
    pub fn prove(&self, resolver: &dyn KeyResolver) -> Result<SignatureStatus, GrainError> {
        match self.verify(resolver) {
            SignatureStatus::Invalid => {
                let signer = self.signer().unwrap_or("nobody");
                let message = format!("the signature isn't that of {signer} over this blob");
                Err(GrainError::new(ErrorCode::Integrity, message))
            }
            status => Ok(status),
        }
    }
}

/// True if signatures of `algorithm` are made with keys like `key`.
fn fits(algorithm: i128, key: &VerifyingKey) -> bool {
    match key {
        VerifyingKey::Ed25519(_) => matches!(algorithm, EDDSA | ED25519),
        VerifyingKey::P256(_) => algorithm == ES256,
    }
}

/// COSE algorithm numbers (§9.1).
const EDDSA: i128 = -8;
const ED25519: i128 = -19;
const ES256: i128 = -7;

/// Algorithm and signer of a protected header. No bytes at all stand for an empty one.
fn read_protected(bytes: &[u8]) -> Result<(Option<i128>, Option<String>), GrainError> {
    let corrupt = |message: &'static str| GrainError::new(ErrorCode::Corrupt, message);
    if bytes.is_empty() {
        return Ok((None, None));
    }
    let mut rest = bytes;
    let header: Value = ciborium::from_reader(&mut rest)
        .map_err(|_| corrupt("the protected header of the envelope isn't CBOR"))?;
    if !rest.is_empty() {
        return Err(corrupt("bytes follow the protected header of the envelope"));
    }
    let entries = header
        .into_map()
        .map_err(|_| corrupt("the protected header of the envelope isn't a map"))?;
    let (mut algorithm, mut signer) = (None, None);
    let mut labels = HashSet::new();
    for (label, value) in entries {
        // Labels are integers or texts (RFC 9052 §1.4); a reader that took the first of two would
        // see another header.
        let number = label.as_integer().map(i128::from);
        let label = (number, label.into_text().ok());
        if label == (None, None) || !labels.insert(label) {
            return Err(corrupt(
                "a label of the envelope's protected header stands twice, or is neither number nor \
                 text",
            ));
        }
        match number {
            Some(1) => algorithm = value.as_integer().map(i128::from),
            Some(2) => {
                return Err(corrupt(
                    "the envelope has critical header parameters that aren't understood",
                ));
            }
            Some(4) => signer = text_of(value),
            _ => {}
        }
    }
    Ok((algorithm, signer))
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        Value::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Wraps `blob`, whose signed flag must be set, in an envelope signed with `key`; the signer is the
/// key's `did:key` unless `signer` names another DID. `issued_at` is in seconds since 1970. Written
/// untagged, with the signer as bytes.
///
/// # Errors
/// [`ErrorCode::SignedMismatch`] if the blob's signed flag is clear; what [`Header::read`] says.
pub fn sign(
    blob: &[u8],
    key: &SigningKey,
    signer: Option<&str>,
    issued_at: i64,
) -> Result<Vec<u8>, GrainError> {
    let header = Header::read(blob)?;
    if !header.flags.signed() {
        return Err(GrainError::new(
            ErrorCode::SignedMismatch,
            "a blob to be signed must be encoded with its signed flag set",
        ));
    }
    let content_type = if header.flags.cbor() {
        "application/vnd.mg+cbor"
    } else {
        "application/vnd.mg+msgpack"
    };
    sign_message(blob, content_type, key, signer, issued_at)
}

/// Wraps any `payload` in a COSE_Sign1 envelope, as [`sign`] does a blob; [`SignedBlob::parse`]
/// opens it.
///
/// # Errors
/// [`ErrorCode::Corrupt`] if the envelope can't be written.
pub fn sign_message(
    payload: &[u8],
    content_type: &str,
    key: &SigningKey,
    signer: Option<&str>,
    issued_at: i64,
) -> Result<Vec<u8>, GrainError> {
    let signer = signer.map_or_else(|| did_of_key(&key.verifying_key()), str::to_owned);
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
                format!("the envelope can't be written: {error}"),
            )
        })
}
