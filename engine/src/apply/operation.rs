//! The operation of one line.
//!
//! ```json
//! {"op": "put", "grain": {…}, "options": {"encoding": "cbor", "compressed": true}}
//! {"op": "put", "blob_hex": "01…"}
//! {"op": "supersede", "address": "…", "grain": {…}}
//! {"op": "contradict", "address": "…", "value": true, "reason": "…", "actor": "did:…", "authorization_hex": ["d2…"]}
//! {"op": "verify", "address": "…", "status": "verified", "reason": "…", "actor": "did:…"}
//! {"op": "retract", "address": "…", "reason": "…", "actor": "did:…", "authorization_hex": ["d2…"]}
//! {"op": "hold", "address": "…", "hold": "case-12", "until": "2030-01-01T00:00:00Z", "reason": "…", "actor": "…"}
//! {"op": "release", "address": "…", "hold": "case-12", "reason": "…", "actor": "…", "authorization_hex": ["d2…"]}
//! ```
//!
//! `blob_hex` may be a COSE envelope. If a grain in JSON supersedes another, that one is added to
//! its `derived_from` (§23.1); a grain in `blob_hex` must contain it. In the same way the `reason`
//! of a supersession becomes the grain's `supersession_justification` (§23.2), unless it has one.
//! As a part of the grain it changes its content address: the same grain without the reason, or
//! with another, has another address. Signatures in `supersession_auth` cover the grain as it was
//! signed, so such a grain isn't changed.

use std::borrow::Cow;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{EncodeOptions, Field, encode_json};
use gristmill_schemas::json::{Json, JsonErrorKind, Object};
use gristmill_schemas::lifecycle::{HoldName, HoldTerms};
use gristmill_schemas::message::time::Timestamp;

/// A requested operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Adds a grain: its delivered bytes.
    Put(Vec<u8>),
    /// Adds a grain that supersedes another.
    Supersede(ContentAddress, Vec<u8>),
    /// Marks a grain as contradicted, or not contradicted.
    Contradict(ContentAddress, bool),
    /// Sets a reviewer's verification status.
    Verify(ContentAddress, VerificationStatus),
    /// Retracts a grain.
    Retract(ContentAddress),
    /// Places a litigation hold on a grain.
    Hold(ContentAddress, HoldTerms),
    /// Lifts a litigation hold from a grain.
    Release(ContentAddress, HoldName),
}

/// An operation with its requester and reason.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRequest {
    /// The operation.
    pub operation: Operation,
    /// The claimed requester.
    pub actor: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// COSE envelopes that authorize an act without a grain.
    pub authorization: Vec<Vec<u8>>,
}

impl Operation {
    /// Returns the name of the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Put(_) => "put",
            Operation::Supersede(..) => "supersede",
            Operation::Contradict(..) => "contradict",
            Operation::Verify(..) => "verify",
            Operation::Retract(_) => "retract",
            Operation::Hold(..) => "hold",
            Operation::Release(..) => "release",
        }
    }

    /// Returns the existing grain to which it applies.
    pub fn target(&self) -> Option<&ContentAddress> {
        match self {
            Operation::Put(_) => None,
            Operation::Supersede(target, _)
            | Operation::Contradict(target, _)
            | Operation::Verify(target, _)
            | Operation::Retract(target)
            | Operation::Hold(target, _)
            | Operation::Release(target, _) => Some(target),
        }
    }

    /// Returns the delivered bytes of its new grain.
    pub fn delivered(&self) -> Option<&[u8]> {
        match self {
            Operation::Put(bytes) | Operation::Supersede(_, bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl OperationRequest {
    /// Parses a line.
    ///
    /// # Errors
    /// [`ErrorCode::Schema`] if it isn't an operation, [`ErrorCode::Corrupt`] if a key is repeated;
    /// errors of encoding its grain.
    pub fn parse(line: &[u8]) -> Result<OperationRequest, GrainError> {
        let json = Json::parse_unique_keys(line).map_err(|error| match error.kind {
            JsonErrorKind::RepeatedKey => GrainError::new(ErrorCode::Corrupt, error.to_string()),
            _ => schema(format!("the line isn't JSON: {error}")),
        })?;
        let object = json
            .as_object()
            .ok_or_else(|| schema("the line isn't a JSON object"))?;
        let reason = text(object, "reason")?;
        Ok(OperationRequest {
            operation: operation(object, reason)?,
            actor: text(object, "actor")?.map(str::to_owned),
            reason: reason.map(str::to_owned),
            authorization: authorization(object)?,
        })
    }
}

/// Parses the operation of a line with `reason`.
fn operation<'j>(object: &'j Object<'j>, reason: Option<&'j str>) -> Result<Operation, GrainError> {
    Ok(
        match text(object, "op")?.ok_or_else(|| schema("`op` is missing"))? {
            "put" => Operation::Put(delivered(object, |grain| Ok(grain.clone()))?),
            "supersede" => {
                let target = address(object)?;
                let complete = |grain| superseding(grain, &target, reason);
                Operation::Supersede(target, delivered(object, complete)?)
            }
            "contradict" => {
                Operation::Contradict(address(object)?, flag(object, "value")?.unwrap_or(true))
            }
            "verify" => {
                let status = text(object, "status")?.and_then(VerificationStatus::from_name);
                match status {
                    Some(VerificationStatus::Retracted) => Operation::Retract(address(object)?),
                    Some(status) => Operation::Verify(address(object)?, status),
                    None => {
                        let message = "`status` must be unverified, verified or contested";
                        return Err(schema(message));
                    }
                }
            }
            "retract" => Operation::Retract(address(object)?),
            "hold" => {
                let (name, until) = (hold_name(object)?, instant(object, "until")?);
                Operation::Hold(address(object)?, HoldTerms { name, until })
            }
            "release" => {
                let name = hold_name(object)?;
                Operation::Release(address(object)?, name)
            }
            other => {
                let message = format!(
                    "`{other}` isn't an operation: use put, supersede, contradict, verify, \
                     retract, hold or release"
                );
                return Err(schema(message));
            }
        },
    )
}

/// Parses the envelopes that authorize an act without a grain.
fn authorization(object: &Object<'_>) -> Result<Vec<Vec<u8>>, GrainError> {
    let entries = object
        .get("authorization_hex")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let decode = |entry: &Json<'_>| {
        let digits = entry
            .as_str()
            .ok_or_else(|| schema("`authorization_hex` must be a list of strings"))?;
        hex::decode(digits).map_err(|error| schema(format!("`authorization_hex`: {error}")))
    };
    entries.iter().map(decode).collect()
}

fn schema(message: impl Into<Cow<'static, str>>) -> GrainError {
    GrainError::new(ErrorCode::Schema, message)
}

fn text<'a>(object: &'a Object<'_>, name: &str) -> Result<Option<&'a str>, GrainError> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => value
            .as_str()
            .map(Some)
            .ok_or_else(|| schema(format!("`{name}` must be a string"))),
    }
}

fn flag(object: &Object<'_>, name: &str) -> Result<Option<bool>, GrainError> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(schema(format!("`{name}` must be true or false"))),
    }
}

fn hold_name(object: &Object<'_>) -> Result<HoldName, GrainError> {
    text(object, "hold")?
        .ok_or_else(|| schema("`hold` is missing: the name of the hold"))?
        .parse()
}

/// Returns an instant in microseconds since 1970.
fn instant(object: &Object<'_>, name: &str) -> Result<Option<i64>, GrainError> {
    let parse = |text| {
        let instant = Timestamp::parse(text);
        instant.ok_or_else(|| schema(format!("`{name}` must be an instant of RFC 3339")))
    };
    let text = text(object, name)?;
    Ok(text.map(parse).transpose()?.map(Timestamp::micros))
}

fn address(object: &Object<'_>) -> Result<ContentAddress, GrainError> {
    text(object, "address")?
        .ok_or_else(|| schema("`address` is missing"))?
        .parse()
}

/// Returns the bytes of the new grain: given, or encoded from the result of `complete`.
fn delivered<'a>(
    object: &'a Object<'a>,
    complete: impl FnOnce(&'a Json<'a>) -> Result<Json<'a>, GrainError>,
) -> Result<Vec<u8>, GrainError> {
    match (text(object, "blob_hex")?, object.get("grain")) {
        (Some(digits), None) => {
            hex::decode(digits).map_err(|error| schema(format!("`blob_hex`: {error}")))
        }
        (None, Some(grain)) => {
            let options = EncodeOptions::from_json(object.get("options"))?;
            Ok(encode_json(&complete(grain)?, options)?.blob)
        }
        _ => Err(schema("exactly one of `grain` and `blob_hex` is required")),
    }
}

/// Returns `grain` with `parent` in `derived_from`, and with `reason` as its justification, if
/// permitted.
fn superseding<'j>(
    grain: &'j Json<'j>,
    parent: &ContentAddress,
    reason: Option<&'j str>,
) -> Result<Json<'j>, GrainError> {
    let object = grain
        .as_object()
        .ok_or_else(|| schema("`grain` must be an object"))?;
    let is_absent = |name: &str| object.get(name).is_none_or(|value| *value == Json::Null);
    let own = is_absent(JUSTIFICATION) && is_absent(Field::SupersessionAuth.name());
    let reason = reason.filter(|reason| own && !reason.trim().is_empty());
    let replaced = |name: &str| name == DERIVED_FROM || reason.is_some() && name == JUSTIFICATION;
    let others = object.iter().filter(|(name, _)| !replaced(name));
    let others = others.map(|(name, value)| (Cow::Owned(name.to_owned()), value.clone()));
    let reason = reason.map(|reason| (Cow::Borrowed(JUSTIFICATION), Json::from(reason.to_owned())));
    let parents = Json::Array(parents_with(object, parent));
    let parents = (Cow::Borrowed(DERIVED_FROM), parents);
    Ok(Json::Object(
        others.chain([parents]).chain(reason).collect(),
    ))
}

/// Returns the parents that `grain` names, with `parent` among them.
fn parents_with<'j>(grain: &Object<'j>, parent: &ContentAddress) -> Vec<Json<'j>> {
    let text = parent.to_string();
    let mut parents = match grain.get(DERIVED_FROM) {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(parents)) => parents.clone(),
        Some(alone) => vec![alone.clone()],
    };
    if !parents.iter().any(|parent| parent.as_str() == Some(&text)) {
        parents.push(Json::from(text));
    }
    parents
}

const DERIVED_FROM: &str = Field::DerivedFrom.name();
const JUSTIFICATION: &str = Field::SupersessionJustification.name();

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{Encoding, Sensitivity};

    use super::*;

    const BELIEF: &str = r#"{"type": "belief", "subject": "s", "relation": "r", "object": "o", "confidence": 1.0, "created_at": 1767225600000}"#;

    #[test]
    fn a_line_is_read_into_its_operation() {
        let target = ContentAddress::of(b"t");
        for (line, name) in [
            (format!(r#"{{"op": "put", "grain": {BELIEF}}}"#), "put"),
            (
                format!(r#"{{"op": "supersede", "address": "{target}", "grain": {BELIEF}}}"#),
                "supersede",
            ),
            (
                format!(r#"{{"op": "contradict", "address": "{target}"}}"#),
                "contradict",
            ),
            (
                format!(r#"{{"op": "verify", "address": "{target}", "status": "contested"}}"#),
                "verify",
            ),
            (
                format!(r#"{{"op": "verify", "address": "{target}", "status": "retracted"}}"#),
                "retract",
            ),
            (
                format!(r#"{{"op": "retract", "address": "{target}", "reason": "wrong"}}"#),
                "retract",
            ),
            (
                format!(
                    r#"{{"op": "hold", "address": "{target}", "hold": "case", "until": "2030-01-01T00:00:00Z"}}"#
                ),
                "hold",
            ),
            (
                format!(r#"{{"op": "release", "address": "{target}", "hold": "case"}}"#),
                "release",
            ),
        ] {
            assert_eq!(
                OperationRequest::parse(line.as_bytes())
                    .unwrap()
                    .operation
                    .name(),
                name,
                "{line}"
            );
        }
    }

    #[test]
    fn a_put_grain_has_all_options_of_its_line() {
        let line = format!(
            r#"{{"op": "put", "grain": {BELIEF}, "options": {{"encoding": "cbor", "sensitivity": 3}}}}"#
        );
        let request = OperationRequest::parse(line.as_bytes()).unwrap();
        let expected = EncodeOptions {
            encoding: Encoding::Cbor,
            sensitivity: Sensitivity::Phi,
            ..EncodeOptions::default()
        };
        let grain = Json::parse(BELIEF.as_bytes()).unwrap();
        let expected = encode_json(&grain, expected).unwrap();
        assert_eq!(request.operation.delivered(), Some(&*expected.blob));
    }

    #[test]
    fn a_superseding_grain_names_what_it_supersedes() {
        let target = ContentAddress::of(b"t");
        let line = format!(r#"{{"op": "supersede", "address": "{target}", "grain": {BELIEF}}}"#);
        let request = OperationRequest::parse(line.as_bytes()).unwrap();
        let bytes = request.operation.delivered().unwrap();
        assert!(
            bytes
                .windows(64)
                .any(|window| window == target.to_string().as_bytes())
        );
    }

    #[test]
    fn the_reason_of_a_supersession_is_part_of_the_grain_unless_the_grain_cannot_take_it() {
        let target = ContentAddress::of(b"t");
        let holds = |more: &str, text: &str| {
            let grain = BELIEF.replace('}', &format!("{more}}}"));
            let line = format!(
                r#"{{"op": "supersede", "address": "{target}", "reason": "a typo", "grain": {grain}}}"#
            );
            let request = OperationRequest::parse(line.as_bytes()).unwrap();
            request
                .operation
                .delivered()
                .unwrap()
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        assert!(holds("", "a typo"));
        assert!(holds(r#", "supersession_justification": null"#, "a typo"));
        assert!(!holds(
            r#", "supersession_justification": "own words""#,
            "a typo"
        ));
        assert!(!holds(
            r#", "supersession_auth": [{"$bytes_hex": "d2"}]"#,
            "a typo"
        ));
        let put = format!(r#"{{"op": "put", "reason": "a typo", "grain": {BELIEF}}}"#);
        let request = OperationRequest::parse(put.as_bytes()).unwrap();
        assert!(
            !request
                .operation
                .delivered()
                .unwrap()
                .windows(6)
                .any(|window| window == b"a typo")
        );
    }

    #[test]
    fn an_invalid_operation_is_refused_with_the_reason() {
        for (line, expected) in [
            ("{", "isn't JSON"),
            ("[]", "isn't a JSON object"),
            ("{}", "`op` is missing"),
            (r#"{"op": "delete"}"#, "isn't an operation"),
            (r#"{"op": "put", "op": "retract"}"#, "`op` is repeated"),
            (r#"{"op": "put"}"#, "exactly one of"),
            (r#"{"op": "retract"}"#, "`address` is missing"),
            (r#"{"op": "retract", "address": "xyz"}"#, "64 hex digits"),
            (r#"{"op": "put", "grain": {"type": "belief"}}"#, "missing"),
            (
                r#"{"op": "put", "grain": {}, "options": {"compress": true}}"#,
                "`compress` isn't an option",
            ),
            (r#"{"op": "hold"}"#, "`hold` is missing"),
            (r#"{"op": "release", "hold": "a b"}"#, "name of a hold"),
            (
                r#"{"op": "hold", "hold": "a", "until": "soon"}"#,
                "`until` must be an instant",
            ),
        ] {
            let error = OperationRequest::parse(line.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
