//! Cases of the grain format: encoding, decoding, malformed input, containers, frames, envelopes,
//! elision.

mod delivery;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Encoding, Field, Grain, HEADER_LENGTH,
    HeaderFlags, Payload, Sensitivity, VERSION, custom_elision_hash, elision_hash, encode_json,
    namespace_hash,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{DeliveredGrain, VerifyingKey, did_from_key, key_from_did};
use sha2::{Digest, Sha256};

use super::{CaseFile, Outcome, Report, judge_alternatives};

/// Runs a file of grain vectors (`vectors`) or of container descriptions (`files`, mostly after a
/// `layout` in prose).
pub fn run(file: &CaseFile, report: &mut Report) -> bool {
    let (vectors, files) = (file.json.get("vectors"), file.json.get("files"));
    let cases = match file.json.get("layout") {
        Some(_) => files,
        None => vectors.or(files),
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
        delivery::container(file, case)
    } else if has("elision_hash") {
        elision(case)
    } else if has("input") && (has("blob_hex") || has("content_address")) {
        positive(case)
    } else if let Some(kind) = case.get("kind").and_then(Json::as_str) {
        return of_kind(kind, case);
    } else if delivery::begins_envelope(case) {
        delivery::envelope(case)
    } else if delivery::is_bare(case) {
        delivery::bare(case)
    } else if has("hex") {
        delivery::frames(case)
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
        "blob" => bytes_of(case).and_then(|blob| expect_code(case, decode_bare(&blob).err())),
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
            &hex::encode(namespace_hash(case.get("namespace").and_then(Json::as_str))),
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

/// Returns the text that `case` expects under `key`; `None` if it expects nothing there.
fn expected_text<'a>(case: &'a Json, key: &str) -> Result<Option<&'a str>, String> {
    match case.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("`{key}` is no text: {other}")),
    }
}

/// Compares `found` with what the case expects under `key`, if it expects something.
fn same_if_expected(case: &Json, key: &str, found: &str) -> Result<(), String> {
    match expected_text(case, key)? {
        Some(expected) => same(key, found, expected),
        None => Ok(()),
    }
}

fn input_of<'a>(case: &'a Json<'a>) -> Result<&'a Json<'a>, String> {
    case.get("input")
        .ok_or_else(|| "the case has no input".to_owned())
}

/// The most bytes that the parts of a case may make together.
const MAX_BYTES_OF_PARTS: u64 = 1 << 28;

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
        let part = decode(text(part, "hex"))?;
        let length = (part.len() as u64).saturating_mul(times);
        if length.saturating_add(bytes.len() as u64) > MAX_BYTES_OF_PARTS {
            return Err("the parts of the case have too many bytes".to_owned());
        }
        bytes.extend(part.repeat(times as usize));
    }
    Ok(bytes)
}

fn decode(blob: &[u8]) -> Result<Json<'static>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    Ok(Grain::decode(&payload, DecodeMode::Strict)?.to_json())
}

/// Decodes a blob that is delivered without an envelope, which a signed one must have.
fn decode_bare(blob: &[u8]) -> Result<Json<'static>, GrainError> {
    if matches!(blob, [VERSION, flags, ..] if HeaderFlags::from_byte(*flags).signed()) {
        DeliveredGrain::open(blob)?;
    }
    decode(blob)
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

/// Members that only a grain, stream or container that can be read has.
const OF_SUCCESS: [&str; 6] = [
    "content_address",
    "addresses",
    "manifest",
    "inner_blob_hex",
    "signer_did",
    "decoded",
];

/// Returns the code that `case` expects. Without one, it is that of success if the case expects
/// what only a success has.
fn expected_code<'c>(case: &'c Json) -> &'c str {
    let is_success = || OF_SUCCESS.iter().any(|member| case.get(member).is_some());
    match case.get("expect").filter(|code| !code.is_null()) {
        None if is_success() => "OK",
        code => code.and_then(Json::as_str).unwrap_or_default(),
    }
}

fn expect_code(case: &Json, found: Option<GrainError>) -> Result<(), String> {
    let expected = expected_code(case);
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
    let expected = expected_text(case, "blob_hex")?;
    let has_cbor_flag = |blob: Vec<u8>| blob.get(1).is_some_and(|flags| flags & 0x20 != 0);
    // A published vector has no options, so the encoding comes from its header.
    if case.get("options").is_none()
        && expected.is_some_and(|digits| hex::decode(digits).is_ok_and(has_cbor_flag))
    {
        options.encoding = Encoding::Cbor;
    }
    let encoded = encode_json(input, options).map_err(|error| format!("encode: {error}"))?;
    if expected
        .or(expected_text(case, "content_address")?)
        .is_none()
    {
        return Err("the case expects neither bytes nor an address".to_owned());
    }
    let blob = hex::encode(&encoded.blob);
    same("blob", &blob, expected.unwrap_or(&blob))?;
    same_if_expected(case, "content_address", &encoded.address.to_string())?;
    let header = encoded.blob.get(..HEADER_LENGTH).unwrap_or_default();
    same_if_expected(case, "header_hex", &hex::encode(header))?;
    let decoded = decode(&encoded.blob).map_err(|error| format!("decode: {error}"))?;
    let wanted = case.get("decoded").unwrap_or(input);
    same_grain(&decoded, wanted)?;
    let again = encode_json(&decoded, options).map_err(|error| format!("encode again: {error}"))?;
    same(
        "blob after decoding and encoding",
        &hex::encode(again.blob),
        &blob,
    )
}

/// Checks a vector that another project published as bytes.
fn published(case: &Json) -> Result<(), String> {
    let blob = bytes_of(case)?;
    let address = ContentAddress::of(&blob).to_string();
    same_if_expected(case, "content_address", &address)?;
    if case.get("expect").is_some() {
        return expect_code(case, decode(&blob).err());
    }
    // Grains of other projects are decoded leniently where they must be: missing fields are marked,
    // not refused.
    let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).map_err(|error| error.to_string())?;
    let grain = Grain::decode(&payload, DecodeMode::Strict)
        .or_else(|_| Grain::decode(&payload, DecodeMode::Lenient))
        .map_err(|error| error.to_string())?;
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
        key @ VerifyingKey::P256(_) => {
            let point = hex::decode(text(case, "p256_public_key_hex"))
                .map_err(|error| error.to_string())?;
            let expected = VerifyingKey::from_p256(&point).map_err(|error| error.to_string())?;
            same("key", &did_from_key(&key), &did_from_key(&expected))
        }
    }
}

/// Checks the encoding of one value, as an unknown key of a belief.
fn single_value(case: &Json, encoding: Encoding, expected: &str) -> Result<(), String> {
    if expected.is_empty() {
        return Err("the case expects no bytes".to_owned());
    }
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

/// Checks a conversion in `valid_from`: all fields with times share it, and `created_at` has a
/// narrower range.
fn datetime(case: &Json) -> Result<(), String> {
    let mut grain = Json::parse(br#"{"type":"reasoning","created_at":0}"#)
        .map_err(|error| error.to_string())?;
    if let Some(object) = grain.as_object_mut() {
        object.insert("valid_from", input_of(case)?.clone());
    }
    let blob = encode_json(&grain, EncodeOptions::default())
        .map_err(|error| error.to_string())?
        .blob;
    let decoded = decode(&blob).map_err(|error| error.to_string())?;
    let (found, expected) = (decoded.get("valid_from"), case.get("epoch_ms"));
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {found:?}"))
    }
}

fn elision(case: &Json) -> Result<(), String> {
    let value = case.get("value").unwrap_or(&Json::Null);
    let hash = match Field::from_name(text(case, "field")) {
        Some(field) => elision_hash(field, value),
        None => custom_elision_hash(value),
    };
    let hash = hash.map_err(|error| error.to_string())?;
    same("elision hash", &hash, text(case, "elision_hash"))?;
    let Some(digits) = expected_text(case, "msgpack_hex")? else {
        return Ok(());
    };
    // The hash is that of the canonical MessagePack, so bytes with another hash differ from it.
    let bytes = hex::decode(digits).map_err(|error| error.to_string())?;
    let of_bytes = format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
    same("hash of `msgpack_hex`", &of_bytes, &hash)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the report of a file with these members.
    fn report(members: &str) -> String {
        let text = format!("{{{members}}}");
        let json = Json::parse(text.as_bytes()).unwrap();
        let file = CaseFile {
            json: &json,
            folder: Path::new("."),
        };
        let mut report = Report::default();
        assert!(run(&file, &mut report), "{members}");
        report.render()
    }

    #[test]
    fn what_only_a_success_has_implies_the_code() {
        let end = r#""hex":"00000000""#;
        let vectors = format!(
            r#""vectors":[{{"id":"empty",{end},"addresses":[]}},
                {{"id":"null",{end},"addresses":[],"expect":null}},
                {{"id":"cut","hex":"000000","addresses":[]}},
                {{"id":"nothing",{end}}}]"#
        );
        let text = report(&vectors);
        assert!(text.contains("FAILED cut: expected OK"), "{text}");
        assert!(text.contains("FAILED nothing"), "{text}");
        assert!(text.ends_with("2 passed, 2 failed\n"), "{text}");
    }

    #[test]
    fn bytes_and_address_of_an_encoded_grain_are_compared_if_they_are_there() {
        let input = r#""input":{"type":"reasoning","created_at":0}"#;
        let blob = r#""blob_hex":"010008000000000000"#;
        let map = "82a2636100a174a9726561736f6e696e67";
        let text = report(&format!(
            r#""vectors":[{{"id":"bytes",{input},{blob}{map}"}},
                {{"id":"other-bytes",{input},{blob}80"}},
                {{"id":"other-address",{input},"content_address":"00"}}]"#
        ));
        assert!(text.contains("FAILED other-bytes: blob"), "{text}");
        assert!(
            text.contains("FAILED other-address: content_address"),
            "{text}"
        );
        assert!(text.ends_with("1 passed, 2 failed\n"), "{text}");
    }

    #[test]
    fn containers_need_no_layout_custom_fields_have_a_hash_and_no_namespace_has_zeros() {
        let text = report(r#""files":[{"file":"no-such-file.mg","expect":"OK"}]"#);
        assert!(text.contains("FAILED no-such-file.mg"), "{text}");
        let truth = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(b"\xc3"));
        let hash = format!(r#""field":"own","value":true,"elision_hash":"sha256:{truth}""#);
        let text = report(&format!(
            r#""vectors":[{{"id":"hash",{hash}}},
                {{"id":"none","kind":"ns_hash","namespace":null,"ns_hash_hex":"0000"}}]"#
        ));
        assert_eq!(text, "2 passed, 0 failed\n");
    }
}
