//! Cases of the grain format: encoding, decoding, malformed input, containers, frames, envelopes,
//! elision.

use std::fs;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{Container, ContainerLimits, GrainFrame, next_frame};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Encoding, Field, Grain, Payload, Sensitivity,
    elision_hash, encode_json, namespace_hash,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{
    DeliveredGrain, DidKeyResolver, SignedBlob, VerifyingKey, key_from_did,
};
use sha2::{Digest, Sha256};

use super::{CaseFile, Outcome, Report, judge_alternatives};

/// Runs a file of grain vectors (`vectors`) or of container descriptions (`layout` and `files`).
pub fn run(file: &CaseFile, report: &mut Report) -> bool {
    let cases = if file.json.get("layout").is_some() {
        file.json.get("files")
    } else {
        file.json.get("vectors")
    };
    let Some(cases) = cases.and_then(Json::as_array) else {
        return false;
    };
    for case in cases {
        report.record(case, judge_alternatives(case, |case| judge(file, case)));
    }
    true
}

/// Selects the check by the fields of the case.
fn judge(file: &CaseFile, case: &Json) -> Outcome {
    let has = |key: &str| case.get(key).is_some();
    let verdict = if has("file") {
        container(file, case)
    } else if has("elision_hash") {
        elision(case)
    } else if has("input") && has("blob_hex") {
        positive(case)
    } else if let Some(kind) = case.get("kind").and_then(Json::as_str) {
        return of_kind(kind, case);
    } else if begins_envelope(case) {
        envelope(case)
    } else if has("hex") {
        frames(case)
    } else {
        return Outcome::OutOfScope("the case has nothing that can be run".to_owned());
    };
    outcome(verdict)
}

fn outcome(verdict: Result<(), String>) -> Outcome {
    match verdict {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

fn of_kind(kind: &str, case: &Json) -> Outcome {
    let verdict = match kind {
        "blob" => bytes_of(case).and_then(|blob| expect_code(case, decode(&blob).err())),
        "encode" if case.get("expect").is_some() => input_of(case).and_then(|input| {
            expect_code(case, encode_json(input, EncodeOptions::default()).err())
        }),
        "address" if case.get("address").is_some() && case.get("expect").is_some() => {
            expect_code(case, text(case, "address").parse::<ContentAddress>().err())
        }
        "verify" => {
            let claimed = text(case, "address").parse::<ContentAddress>();
            let checked =
                bytes_of(case).map(|blob| claimed.and_then(|address| address.verify(&blob)));
            checked.and_then(|checked| expect_code(case, checked.err()))
        }
        "decode" => published(case),
        "ns_hash" => same(
            "namespace hash",
            &hex::encode(namespace_hash(Some(text(case, "namespace")))),
            text(case, "ns_hash_hex"),
        ),
        "did_key" => did_key(case),
        "cbor_value" => single_value(case, Encoding::Cbor, text(case, "cbor_hex")),
        "msgpack_value" => single_value(case, Encoding::MessagePack, text(case, "msgpack_hex")),
        "datetime" => datetime(case),
        other => {
            return Outcome::OutOfScope(format!("nothing to run for a case of kind `{other}`"));
        }
    };
    outcome(verdict)
}

fn text<'a>(case: &'a Json, key: &str) -> &'a str {
    case.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn input_of<'a>(case: &'a Json<'a>) -> Result<&'a Json<'a>, String> {
    case.get("input")
        .ok_or_else(|| "the case has no input".to_owned())
}

/// `hex`, or `hex_parts` repeated.
fn bytes_of(case: &Json) -> Result<Vec<u8>, String> {
    let decode = |digits: &str| hex::decode(digits).map_err(|error| error.to_string());
    if let Some(digits) = case
        .get("hex")
        .or(case.get("blob_hex"))
        .and_then(Json::as_str)
    {
        return decode(digits);
    }
    let mut bytes = Vec::new();
    for part in case
        .get("hex_parts")
        .and_then(Json::as_array)
        .ok_or("the case has no bytes")?
    {
        let times = part.get("times").and_then(Json::as_u64).unwrap_or(1);
        bytes.extend(decode(text(part, "hex"))?.repeat(times as usize));
    }
    Ok(bytes)
}

fn decode(blob: &[u8]) -> Result<Json<'static>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    Ok(Grain::decode(&payload, DecodeMode::Strict)?.to_json())
}

/// Compares grains; two spellings of one double are equal.
fn same_grain(found: &Json, expected: &Json) -> Result<(), String> {
    if same_doubles(found, expected) {
        Ok(())
    } else {
        Err(format!("decoded: expected {expected}, got {found}"))
    }
}

fn same_doubles(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(a), Json::Number(b)) => {
            a == b || a.as_f64().to_bits() == b.as_f64().to_bits()
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_doubles(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same_doubles(a, b)))
        }
        _ => left == right,
    }
}

fn same(what: &str, found: &str, expected: &str) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected}, got {found}"))
    }
}

fn expect_code(case: &Json, found: Option<GrainError>) -> Result<(), String> {
    let expected = text(case, "expect");
    let also = case
        .get("also_accept")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let name = found.as_ref().map_or("OK", |error| error.code.name());
    if name == expected || also.iter().any(|code| code.as_str() == Some(name)) {
        return Ok(());
    }
    Err(format!(
        "expected {expected}, got {}",
        found.map_or("OK".to_owned(), |error| error.to_string())
    ))
}

fn options_of(case: &Json) -> EncodeOptions {
    let option = |key: &str| case.get("options").and_then(|options| options.get(key));
    EncodeOptions {
        encoding: match option("encoding").and_then(Json::as_str) {
            Some("cbor") => Encoding::Cbor,
            _ => Encoding::MessagePack,
        },
        sensitivity: Sensitivity::from_bits(
            option("sensitivity").and_then(Json::as_u64).unwrap_or(0) as u8,
        ),
        signed: option("signed").and_then(Json::as_bool).unwrap_or(false),
        compressed: option("compressed")
            .and_then(Json::as_bool)
            .unwrap_or(false),
    }
}

fn positive(case: &Json) -> Result<(), String> {
    let input = input_of(case)?;
    let mut options = options_of(case);
    let expected = text(case, "blob_hex");
    // A published vector has no options, so the encoding comes from its header.
    if case.get("options").is_none()
        && hex::decode(expected)
            .is_ok_and(|blob| blob.get(1).is_some_and(|flags| flags & 0x20 != 0))
    {
        options.encoding = Encoding::Cbor;
    }
    let encoded = encode_json(input, options).map_err(|error| format!("encode: {error}"))?;
    same("blob", &hex::encode(&encoded.blob), expected)?;
    same(
        "address",
        &encoded.address.to_string(),
        text(case, "content_address"),
    )?;
    let decoded = decode(&encoded.blob).map_err(|error| format!("decode: {error}"))?;
    let wanted = case.get("decoded").unwrap_or(input);
    same_grain(&decoded, wanted)?;
    let again = encode_json(&decoded, options).map_err(|error| format!("encode again: {error}"))?;
    same(
        "blob after decoding and encoding",
        &hex::encode(again.blob),
        expected,
    )
}

/// Checks a vector that another project published as bytes.
fn published(case: &Json) -> Result<(), String> {
    let blob = bytes_of(case)?;
    same(
        "address",
        &ContentAddress::of(&blob).to_string(),
        text(case, "content_address"),
    )?;
    if case.get("expect").is_some() {
        return expect_code(case, decode(&blob).err());
    }
    // Grains of other projects are decoded leniently: missing fields are marked, not refused.
    let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).map_err(|error| error.to_string())?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient).map_err(|error| error.to_string())?;
    case.get("decoded")
        .map_or(Ok(()), |wanted| same_grain(&grain.to_json(), wanted))
}

fn did_key(case: &Json) -> Result<(), String> {
    match key_from_did(text(case, "did")).map_err(|error| error.to_string())? {
        VerifyingKey::Ed25519(key) => same(
            "key",
            &hex::encode(key.as_bytes()),
            text(case, "ed25519_public_key_hex"),
        ),
        VerifyingKey::P256(_) => Err("a P-256 key".to_owned()),
    }
}

/// Checks the encoding of one value, as an unknown key of a belief.
fn single_value(case: &Json, encoding: Encoding, expected: &str) -> Result<(), String> {
    let mut grain =
        Json::parse(br#"{"type":"belief","subject":"s","relation":"r","object":"o","confidence":1.0,"created_at":0}"#)
            .map_err(|error| error.to_string())?;
    if let Some(object) = grain.as_object_mut() {
        object.insert("zzzzzz", input_of(case)?.clone());
    }
    let options = EncodeOptions {
        encoding,
        ..EncodeOptions::default()
    };
    let blob = encode_json(&grain, options)
        .map_err(|error| error.to_string())?
        .blob;
    let blob = hex::encode(blob);
    if blob.ends_with(expected) {
        Ok(())
    } else {
        Err(format!("expected {expected} at the end of {blob}"))
    }
}

fn datetime(case: &Json) -> Result<(), String> {
    let mut grain = Json::parse(br#"{"type":"reasoning","created_at":0}"#)
        .map_err(|error| error.to_string())?;
    if let Some(object) = grain.as_object_mut() {
        object.insert("created_at", input_of(case)?.clone());
    }
    let blob = encode_json(&grain, EncodeOptions::default())
        .map_err(|error| error.to_string())?
        .blob;
    let decoded = decode(&blob).map_err(|error| error.to_string())?;
    let (found, expected) = (decoded.get("created_at"), case.get("epoch_ms"));
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {found:?}"))
    }
}

fn elision(case: &Json) -> Result<(), String> {
    let field = Field::from_name(text(case, "field")).ok_or("not a field")?;
    let hash = elision_hash(field, case.get("value").unwrap_or(&Json::Null))
        .map_err(|error| error.to_string())?;
    same("elision hash", &hash, text(case, "elision_hash"))
}

/// Returns true if the bytes of `case` begin with an envelope. As a frame length, these bytes would
/// mean 2 GiB.
fn begins_envelope(case: &Json) -> bool {
    bytes_of(case).is_ok_and(|bytes| matches!(bytes.first(), Some(0x84 | 0xd2)))
}

fn envelope(case: &Json) -> Result<(), String> {
    let bytes = bytes_of(case)?;
    match open_envelope(&bytes) {
        Err(error) => expect_code(case, Some(error)),
        Ok(signed) => {
            expect_code(case, None)?;
            let expected = |key: &str, found: String| match case.get(key).and_then(Json::as_str) {
                Some(expected) => same(key, &found, expected),
                None => Ok(()),
            };
            expected(
                "content_address",
                ContentAddress::of(signed.blob()).to_string(),
            )?;
            expected("inner_blob_hex", hex::encode(signed.blob()))?;
            expected("signer_did", signed.signer().unwrap_or_default().to_owned())?;
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

/// Checks that signing with the private key of the case, if it has one, yields the same envelope.
fn sign_again(case: &Json, signed: &SignedBlob<'_>) -> Result<(), String> {
    let Some(seed) = case.get("seed_hex").and_then(Json::as_str) else {
        return Ok(());
    };
    let seed: [u8; 32] = hex::decode(seed)
        .ok()
        .and_then(|seed| seed.try_into().ok())
        .ok_or("not a seed")?;
    let key = gristmill_schemas::sign::SigningKey::from_seed(&seed);
    let issued_at = case
        .get("iat")
        .and_then(Json::as_i64)
        .unwrap_or(1_737_000_000);
    let envelope = gristmill_schemas::sign::sign(signed.blob(), &key, None, issued_at)
        .map_err(|error| error.to_string())?;
    same("envelope", &hex::encode(envelope), text(case, "hex"))
}

fn frames(case: &Json) -> Result<(), String> {
    let bytes = bytes_of(case)?;
    let mut addresses = Vec::new();
    let verdict = read_frames(&bytes, &mut addresses);
    let found = verdict.as_ref().err().cloned();
    expect_code(case, found)?;
    expect_addresses(case, &addresses)
}

fn expect_addresses(case: &Json, addresses: &[String]) -> Result<(), String> {
    let expected: Option<Vec<_>> = case
        .get("addresses")
        .and_then(Json::as_array)
        .map(|all| all.iter().filter_map(Json::as_str).collect());
    match expected {
        Some(expected) if expected != addresses => Err(format!(
            "expected the grains {expected:?}, got {addresses:?}"
        )),
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

fn container(file: &CaseFile, case: &Json) -> Result<(), String> {
    let name = text(case, "file");
    let path = [
        file.folder.join(name),
        file.folder.join("oms-mg").join(name),
    ]
    .into_iter()
    .find(|path| path.is_file());
    let bytes = fs::read(path.ok_or_else(|| format!("{name} isn't there"))?)
        .map_err(|error| error.to_string())?;
    if let Some(digest) = case.get("sha256").and_then(Json::as_str) {
        same(
            "SHA-256 of the file",
            &hex::encode(Sha256::digest(&bytes)),
            digest,
        )?;
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
    for at in 0..container.len() {
        addresses.push(check_delivery(container.grain(at).unwrap_or_default())?);
    }
    Ok(container.manifest().map_or(Json::Null, manifest_json))
}

/// Returns a manifest in the JSON form of the cases: short keys, without defaults.
fn manifest_json(manifest: &gristmill_schemas::container::Manifest) -> Json<'static> {
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
        let state: gristmill_schemas::json::Object = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        (address.to_string(), Json::Object(state))
    });
    Json::Object(entries.collect())
}
