//! `grain sign|authorize|elide|verify-elision`: signatures and disclosed copies of single grains.
//! Line n of the output is the result of line n of the input.

use chrono::Utc;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{
    self, DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Field, Grain, Payload,
    authorization_message, encode_json, operation_authorization_message,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{self, SigningKey, sign_message};

use super::CommandContext;
use super::grain::{bytes_of, each_line, missing, object, open};
use super::keys::keyring;
use crate::args::grain::{ElideArgs, LinesArgs, SignArgs};
use crate::exit::{CommandOutcome, Failure};

/// The content type of a signed authorization.
const AUTHORIZATION: &str = "application/octet-stream";

/// A signing key with the DID that its signatures name.
pub struct GrainSigner {
    key: SigningKey,
    did: Option<String>,
}

impl GrainSigner {
    /// Opens the key `name` of the keyring. Its signatures name `did`, or the key's `did:key`.
    pub fn of(
        context: &CommandContext,
        name: &str,
        did: Option<String>,
    ) -> Result<GrainSigner, Failure> {
        let key = keyring(&context.common.keys)?.signing_key(name)?;
        Ok(GrainSigner { key, did })
    }

    /// Wraps a blob with the signed flag in an envelope of the current time.
    pub fn sign(&self, blob: &[u8]) -> Result<Vec<u8>, GrainError> {
        sign::sign(blob, &self.key, self.did.as_deref(), Utc::now().timestamp())
    }

    fn authorize(&self, message: &[u8]) -> Result<Vec<u8>, GrainError> {
        let now = Utc::now().timestamp();
        sign_message(message, AUTHORIZATION, &self.key, self.did.as_deref(), now)
    }
}

/// Signs blobs. A signature that a blob already has is replaced.
pub fn sign(context: &CommandContext, arguments: SignArgs) -> Result<CommandOutcome, Failure> {
    let signer = GrainSigner::of(context, &arguments.key, arguments.signer)?;
    each_line(arguments.lines.file, |line| {
        let bytes = bytes_of(line)?;
        let delivery = open(&bytes)?;
        let signed = signer.sign(delivery.blob())?;
        Ok(delivered(&ContentAddress::of(delivery.blob()), &signed, []))
    })
}

/// Signs authorizations of supersessions, and of operations without a new grain (§23.2).
pub fn authorize(context: &CommandContext, arguments: SignArgs) -> Result<CommandOutcome, Failure> {
    let signer = GrainSigner::of(context, &arguments.key, arguments.signer)?;
    each_line(arguments.lines.file, |line| {
        let target = line.get("address").and_then(Json::as_str);
        let target = target.ok_or_else(|| missing("address"))?.parse()?;
        let message = message_of(&target, line)?;
        Ok(object([
            ("message_hex", hex::encode(&message).into()),
            (
                "authorization_hex",
                hex::encode(signer.authorize(&message)?).into(),
            ),
        ]))
    })
}

/// Returns the message whose signature authorizes the operation of `line` on `target`.
fn message_of(target: &ContentAddress, line: &Json<'_>) -> Result<Vec<u8>, GrainError> {
    match line.get("op").and_then(Json::as_str) {
        Some("supersede") => supersession_message(target, line),
        Some(name @ ("contradict" | "retract" | "release")) => {
            Ok(operation_authorization_message(target, name))
        }
        _ => {
            let message = "`op` must be supersede, contradict, retract or release";
            Err(GrainError::new(ErrorCode::Schema, message).field("op"))
        }
    }
}

/// Returns the bytes that authorize the grain of `line` as the successor of `target`. The grain
/// must be complete, with all fields except `supersession_auth`.
fn supersession_message(target: &ContentAddress, line: &Json<'_>) -> Result<Vec<u8>, GrainError> {
    let successor = line.get("grain").ok_or_else(|| missing("grain"))?;
    let options = EncodeOptions::from_json(line.get("options"))?;
    let encoded = encode_json(successor, options)?;
    let payload = Payload::open(&encoded.blob, DEFAULT_PAYLOAD_LIMIT)?;
    authorization_message(target, &Grain::decode(&payload, DecodeMode::Strict)?)
}

/// Hides fields of grains.
pub fn elide(arguments: ElideArgs) -> Result<CommandOutcome, Failure> {
    let hidden = arguments.fields.iter().map(|name| {
        Field::from_name(name)
            .ok_or_else(|| Failure::usage(format!("`{name}` is no field of a grain")))
    });
    let hidden = hidden.collect::<Result<Vec<Field>, Failure>>()?;
    each_line(arguments.lines.file, |line| {
        let bytes = bytes_of(line)?;
        elided(open(&bytes)?.blob(), &hidden)
    })
}

fn elided(blob: &[u8], hidden: &[Field]) -> Result<Json<'static>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    let original = Grain::decode(&payload, DecodeMode::Strict)?;
    if original.is_encrypted() {
        let message = "the grain is encrypted, so its fields can't be hidden one by one";
        return Err(GrainError::new(ErrorCode::Schema, message));
    }
    let address = ContentAddress::of(blob);
    let flags = original.header().flags;
    let options = EncodeOptions {
        encoding: original.encoding(),
        sensitivity: flags.sensitivity(),
        signed: false,
        compressed: flags.compressed(),
    };
    let encoded = grain::elide(&original.to_json(), &address, hidden, options)?;
    // A copy of a copy is one of the same original.
    let first = original.text(Field::DisclosureOf).map(str::to_owned);
    let linked = first.unwrap_or_else(|| address.to_string());
    let linked = ("disclosure_of", linked.into());
    Ok(delivered(&encoded.address, &encoded.blob, [linked]))
}

/// Checks revealed values against the hashes of disclosed copies.
pub fn verify_elision(lines: LinesArgs) -> Result<CommandOutcome, Failure> {
    each_line(lines.file, |line| {
        let bytes = bytes_of(line)?;
        let payload = Payload::open(open(&bytes)?.blob(), DEFAULT_PAYLOAD_LIMIT)?;
        let disclosed = Grain::decode(&payload, DecodeMode::Strict)?.to_json();
        let revealed = line.get("revealed").and_then(Json::as_object);
        let revealed = revealed.ok_or_else(|| missing("revealed"))?;
        for (name, value) in revealed.iter() {
            let field = Field::from_name(name).ok_or_else(|| {
                GrainError::new(ErrorCode::Schema, "is no field of a grain").field(name.to_owned())
            })?;
            grain::verify_elision(&disclosed, field, value)?;
        }
        let names = revealed.keys().map(|name| name.to_owned().into());
        Ok(object([
            ("ok", true.into()),
            ("verified", Json::Array(names.collect())),
        ]))
    })
}

fn delivered<const N: usize>(
    address: &ContentAddress,
    bytes: &[u8],
    more: [(&'static str, Json<'static>); N],
) -> Json<'static> {
    let own = [
        ("content_address", address.to_string().into()),
        ("blob_hex", hex::encode(bytes).into()),
    ];
    Json::Object(own.into_iter().chain(more).collect())
}
