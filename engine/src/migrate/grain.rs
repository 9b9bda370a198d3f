//! Analysing and converting one grain.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, Payload, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{DeliveredGrain, SigningKey, sign};

use super::form::{GrainForm, TargetForm};
use super::links::{each_address, with_addresses};

/// What a migration needs of a grain before it converts any.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    /// Its form; `None` if it can't be decoded.
    pub(super) form: Option<GrainForm>,
    /// The addresses in its values.
    pub(super) addresses: Vec<ContentAddress>,
    /// Why it keeps its bytes; `None` if it is converted.
    pub(super) kept: Option<String>,
}

/// A converted grain.
#[derive(Debug)]
pub(super) struct Converted {
    /// Its bytes, in an envelope if it is signed.
    pub(super) bytes: Vec<u8>,
    pub(super) address: ContentAddress,
    /// True if the original had a signature.
    pub(super) had_signature: bool,
}

/// The key that signs converted grains, and the DID that signatures name.
pub struct MigrationSigner {
    /// The key.
    pub key: SigningKey,
    /// The DID of the key's document; `None` for the key's `did:key`.
    pub did: Option<String>,
    /// When the signatures are made, in seconds since 1970.
    pub at: i64,
}

impl Analysis {
    /// Analyses the grain that was delivered as `bytes`, for a migration to `target`.
    pub(super) fn of(bytes: &[u8], target: &TargetForm) -> Analysis {
        analysed(bytes, target).unwrap_or_else(|error| Analysis {
            kept: Some(error.to_string()),
            ..Analysis::default()
        })
    }
}

fn analysed(bytes: &[u8], target: &TargetForm) -> Result<Analysis, GrainError> {
    let delivery = DeliveredGrain::open(bytes)?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient)?;
    if grain.is_encrypted() {
        return Ok(Analysis {
            kept: Some("its payload is encrypted".to_owned()),
            ..Analysis::default()
        });
    }
    let json = grain.to_json();
    let type_name = json.get(Field::Type.name()).and_then(Json::as_str);
    let form = GrainForm::of(&grain, type_name.unwrap_or_default());
    let mut addresses = Vec::new();
    each_address(&json, &mut |address| addresses.push(address));
    addresses.sort_unstable();
    addresses.dedup();
    let kept = match encode_json(&json, form.options()) {
        Err(error) => Some(error.to_string()),
        Ok(encoded) if encoded.blob != delivery.blob() => {
            Some("it isn't in canonical form, so its address would be lost".to_owned())
        }
        Ok(_) => bound_to_bytes(&grain).or_else(|| {
            let form = form.changed(target);
            let encoded = encode_json(&with_type(json, &form), form.options());
            encoded.err().map(|error| error.to_string())
        }),
    };
    Ok(Analysis {
        form: Some(form),
        addresses,
        kept,
    })
}

/// Returns why values of `grain` are valid for its bytes only.
fn bound_to_bytes(grain: &Grain<'_>) -> Option<String> {
    let reasons = [
        (
            Field::Elided,
            "the hashes of its hidden fields are of their bytes",
        ),
        (Field::SupersessionAuth, "its authorizations sign addresses"),
    ];
    reasons
        .into_iter()
        .find(|(field, _)| grain.get(*field).is_some())
        .map(|(_, reason)| reason.to_owned())
}

/// Converts the grain that was delivered as `bytes` to `form`, with the addresses that `replace`
/// returns for its links. It is signed if the original was and there is a `signer`.
///
/// # Errors
/// Those of the codec.
pub(super) fn convert(
    bytes: &[u8],
    form: &GrainForm,
    replace: &impl Fn(&ContentAddress) -> Option<ContentAddress>,
    signer: Option<&MigrationSigner>,
) -> Result<Converted, GrainError> {
    let delivery = DeliveredGrain::open(bytes)?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, DecodeMode::Lenient)?;
    let had_signature = grain.header().flags.signed();
    let json = with_type(with_addresses(grain.to_json(), replace), form);
    let mut options = form.options();
    let signer = signer.filter(|_| options.signed);
    options.signed = signer.is_some();
    let encoded = encode_json(&json, options)?;
    let bytes = match signer {
        Some(signer) => sign(&encoded.blob, &signer.key, signer.did.as_deref(), signer.at)?,
        None => encoded.blob,
    };
    Ok(Converted {
        bytes,
        address: encoded.address,
        had_signature,
    })
}

/// Returns the grain `json` with the type name of `form`.
fn with_type<'j>(mut json: Json<'j>, form: &GrainForm) -> Json<'j> {
    let members = json.as_object_mut();
    if let Some(name) = members.and_then(|members| members.get_mut(Field::Type.name())) {
        *name = Json::string(form.type_name.clone());
    }
    json
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, Encoding};
    use proptest::prelude::*;

    use super::*;
    use crate::migrate::form::TypeNames;

    fn encoded(text: &str, options: EncodeOptions) -> Vec<u8> {
        let json = Json::parse(text.as_bytes()).unwrap();
        encode_json(&json, options).unwrap().blob
    }

    proptest! {
        #[test]
        fn converting_there_and_back_gives_the_original_bytes(
            object in "[a-z ]{1,40}",
            confidence in 0.0..1.0_f64,
            link in any::<[u8; 32]>(),
            (cbor, compressed, earlier) in any::<(bool, bool, bool)>(),
            (to_cbor, to_compressed, to_earlier) in any::<(bool, bool, bool)>(),
        ) {
            let name = if earlier { "fact" } else { "belief" };
            let link = ContentAddress::from_digest(link);
            let text = format!(
                r#"{{"type":"{name}","subject":"s","relation":"r","object":"{object}",
                    "confidence":{confidence:?},"derived_from":["{link}"],"created_at":1700000000000}}"#
            );
            let encoding = |cbor| if cbor { Encoding::Cbor } else { Encoding::MessagePack };
            let options = EncodeOptions { encoding: encoding(cbor), compressed, ..EncodeOptions::default() };
            let original = encoded(&text, options);
            let analysis = Analysis::of(&original, &TargetForm::default());
            prop_assert_eq!(&analysis.kept, &None);
            prop_assert_eq!(&analysis.addresses, &[link]);
            let form = analysis.form.unwrap();
            let target = TargetForm {
                encoding: Some(encoding(to_cbor)),
                names: Some(if to_earlier { TypeNames::Earlier } else { TypeNames::Current }),
                compressed: Some(to_compressed),
            };
            let moved = ContentAddress::of(b"moved");
            let there = convert(&original, &form.changed(&target), &|_| Some(moved), None).unwrap();
            let moved_there = Analysis::of(&there.bytes, &TargetForm::default());
            prop_assert_eq!(&moved_there.addresses, &[moved]);
            let back = convert(&there.bytes, &form, &|_| Some(link), None).unwrap();
            prop_assert_eq!(back.bytes, original);
        }
    }

    #[test]
    fn bytes_that_are_no_grain_are_kept_with_the_reason() {
        let analysis = Analysis::of(&[1, 2, 3], &TargetForm::default());
        assert!(analysis.kept.is_some() && analysis.form.is_none());
    }
}
