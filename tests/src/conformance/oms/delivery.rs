//! Grains as they are delivered: bare, in envelopes, in frames, in containers.

use std::fs;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{
    Container, ContainerAnomaly, ContainerLimits, GrainFrame, Manifest, next_frame,
};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, MIN_BLOB_LENGTH, Payload, VERSION,
};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::sign::{
    self, DeliveredGrain, DidKeyResolver, SignedBlob, SigningKey, key_from_did,
};
use sha2::{Digest, Sha256};

use super::super::CaseFile;
use super::{bytes_of, expect_code, expected_text, same, same_if_expected, text};

/// The start of a CBOR byte string of 64 bytes, the length of all signatures that are supported.
const SIGNATURE_PREFIX: [u8; 2] = [0x58, 64];

/// Returns true if the bytes of `case` begin with an envelope. As a frame length, these bytes would
/// mean 2 GiB.
pub(super) fn begins_envelope(case: &Json) -> bool {
    bytes_of(case).is_ok_and(|bytes| matches!(bytes.first(), Some(0x84 | 0xd2)))
}

/// Returns true if the bytes of `case` are a grain without an envelope. As a frame length, the
/// start of its header would exceed what follows.
pub(super) fn is_bare(case: &Json) -> bool {
    let is_blob = |bytes: &[u8]| match bytes.split_first_chunk::<4>() {
        Some((length, rest)) => {
            bytes.len() >= MIN_BLOB_LENGTH
                && length.first() == Some(&VERSION)
                && u32::from_be_bytes(*length) as usize > rest.len()
        }
        None => false,
    };
    bytes_of(case).is_ok_and(|bytes| is_blob(&bytes))
}

/// Checks a grain that is delivered alone.
pub(super) fn bare(case: &Json) -> Result<(), String> {
    let found = check_delivery(&bytes_of(case)?);
    expect_code(case, found.as_ref().err().cloned())?;
    match found {
        Ok(address) => same_if_expected(case, "content_address", &address),
        Err(_) => Ok(()),
    }
}

pub(super) fn envelope(case: &Json) -> Result<(), String> {
    let bytes = bytes_of(case)?;
    match open_envelope(&bytes) {
        Err(error) => expect_code(case, Some(error)),
        Ok(signed) => {
            expect_code(case, None)?;
            let address = ContentAddress::of(signed.blob()).to_string();
            same_if_expected(case, "content_address", &address)?;
            same_if_expected(case, "inner_blob_hex", &hex::encode(signed.blob()))?;
            same_if_expected(case, "signer_did", signed.signer().unwrap_or_default())?;
            check_signature(case, &signed)?;
            sign_again(case, &signed)
        }
    }
}

fn open_envelope(bytes: &[u8]) -> Result<Box<SignedBlob<'_>>, GrainError> {
    let DeliveredGrain::Signed(signed) = DeliveredGrain::open(bytes)? else {
        return Err(GrainError::corrupt(0, "not an envelope"));
    };
    signed.ensure_not_invalid(&DidKeyResolver)?;
    let payload = Payload::open(signed.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    Grain::decode(&payload, DecodeMode::Strict)?;
    Ok(signed)
}

/// Compares the signature, and checks that it is one over the expected Sig_structure.
fn check_signature(case: &Json, signed: &SignedBlob<'_>) -> Result<(), String> {
    let after = signed.parts().after;
    let signature = after.strip_prefix(&SIGNATURE_PREFIX).unwrap_or(&after);
    same_if_expected(case, "signature_hex", &hex::encode(signature))?;
    let Some(digits) = expected_text(case, "sig_structure_hex")? else {
        return Ok(());
    };
    let structure = hex::decode(digits).map_err(|error| error.to_string())?;
    let key = key_from_did(signed.signer().unwrap_or_default());
    let key = key.map_err(|error| error.to_string())?;
    match key.verify(&structure, signature) {
        true => Ok(()),
        false => Err("the signature is not one over `sig_structure_hex`".to_owned()),
    }
}

/// Checks that signing with the private key of the case, if it has one, yields the same envelope.
fn sign_again(case: &Json, signed: &SignedBlob<'_>) -> Result<(), String> {
    let Some(seed) = expected_text(case, "seed_hex")? else {
        return Ok(());
    };
    let seed: [u8; 32] = hex::decode(seed)
        .ok()
        .and_then(|seed| seed.try_into().ok())
        .ok_or("not a seed")?;
    let key = SigningKey::from_seed(&seed);
    let issued_at = case
        .get("iat")
        .and_then(Json::as_i64)
        .unwrap_or(1_737_000_000);
    let envelope =
        sign::sign(signed.blob(), &key, None, issued_at).map_err(|error| error.to_string())?;
    same("envelope", &hex::encode(envelope), text(case, "hex"))
}

pub(super) fn frames(case: &Json) -> Result<(), String> {
    let bytes = bytes_of(case)?;
    let mut addresses = Vec::new();
    let verdict = read_frames(&bytes, &mut addresses);
    let found = verdict.as_ref().err().cloned();
    expect_code(case, found)?;
    expect_addresses(case, &addresses)
}

fn expect_addresses(case: &Json, addresses: &[String]) -> Result<(), String> {
    let found: Vec<Json> = addresses.iter().map(|one| Json::from(&**one)).collect();
    match case.get("addresses").filter(|all| !all.is_null()) {
        Some(expected) if expected.as_array() != Some(found.as_slice()) => {
            Err(format!("expected the grains {expected}, got {addresses:?}"))
        }
        _ => Ok(()),
    }
}

fn read_frames(mut rest: &[u8], addresses: &mut Vec<String>) -> Result<(), GrainError> {
    loop {
        let frame = next_frame(rest)?;
        match frame {
            GrainFrame::Grain(grain) => addresses.push(check_delivery(grain)?),
            GrainFrame::End if frame.consumed() == rest.len() => return Ok(()),
            GrainFrame::End => {
                return Err(GrainError::corrupt(0, "bytes follow the end of the stream"));
            }
            GrainFrame::Incomplete(_) => {
                return Err(GrainError::corrupt(
                    0,
                    "the stream ends without its end mark",
                ));
            }
        }
        rest = rest.get(frame.consumed()..).unwrap_or_default();
    }
}

fn check_delivery(bytes: &[u8]) -> Result<String, GrainError> {
    let delivery = DeliveredGrain::open(bytes)?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    Grain::decode(&payload, DecodeMode::Strict)?;
    Ok(ContentAddress::of(delivery.blob()).to_string())
}

pub(super) fn container(file: &CaseFile, case: &Json) -> Result<(), String> {
    let name = text(case, "file");
    let path = [
        file.folder.join(name),
        file.folder.join("oms-mg").join(name),
    ]
    .into_iter()
    .find(|path| path.is_file());
    let bytes = fs::read(path.ok_or_else(|| format!("{name} isn't there"))?)
        .map_err(|error| error.to_string())?;
    same_if_expected(case, "sha256", &hex::encode(Sha256::digest(&bytes)))?;
    let size = case.get("size").filter(|size| !size.is_null());
    if size.is_some_and(|size| size.as_u64() != Some(bytes.len() as u64)) {
        return Err(format!("`size` of a file with {} bytes", bytes.len()));
    }
    let mut addresses = Vec::new();
    match read_container(&bytes, &mut addresses) {
        Err(error) => expect_code(case, Some(error)),
        Ok(manifest) => {
            expect_code(case, None)?;
            expect_addresses(case, &addresses)?;
            match case.get("manifest") {
                Some(expected) if *expected != manifest => {
                    Err(format!("manifest: expected {expected}, got {manifest}"))
                }
                _ => Ok(()),
            }
        }
    }
}

fn read_container(bytes: &[u8], addresses: &mut Vec<String>) -> Result<Json<'static>, GrainError> {
    let container = Container::open(bytes, ContainerLimits::default())?;
    let body = bytes
        .get(..bytes.len() - container.footer().len())
        .unwrap_or_default();
    ContentAddress::from_digest(*container.footer()).verify(body)?;
    ensure_canonical(container.anomalies())?;
    for at in 0..container.len() {
        addresses.push(check_delivery(container.grain(at).unwrap_or_default())?);
    }
    Ok(container.manifest().map_or(Json::Null, manifest_json))
}

/// Refuses what a strict reader of grains refuses in a payload: another than the canonical form.
fn ensure_canonical(anomalies: &[ContainerAnomaly]) -> Result<(), GrainError> {
    let is_form = |anomaly: &&ContainerAnomaly| {
        matches!(
            anomaly,
            ContainerAnomaly::ManifestForm | ContainerAnomaly::RelativeOffsets
        )
    };
    match anomalies.iter().find(is_form) {
        Some(anomaly) => Err(GrainError::corrupt(0, anomaly.name())),
        None => Ok(()),
    }
}

/// Returns a manifest in the JSON form of the cases: short keys, without defaults.
fn manifest_json(manifest: &Manifest) -> Json<'static> {
    let entries = manifest.entries.iter().map(|(address, state)| {
        let fields = [
            (
                "sb",
                state
                    .superseded_by
                    .map(|address| Json::from(address.to_string())),
            ),
            ("svt", state.system_valid_to.map(Json::from)),
            (
                "vstatus",
                state
                    .verification_status
                    .map(|status| Json::from(status.name())),
            ),
            ("ac", state.access_count.map(Json::from)),
            ("laa", state.last_accessed_at.map(Json::from)),
        ];
        let state: Object = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        (address.to_string(), Json::Object(state))
    });
    Json::Object(entries.collect())
}
