//! Lines that hold grains: `{"grain": …, "options": …}` as in exports, `{"blob_hex": …}`, or a
//! grain by itself.
//!
//! If a line has a `content_address`, its grain must have that address, because other grains refer
//! to it. Other lines of a bundle of changes are passed over if the bundle is applied; else its
//! events and erasures are faults. `supersedes` and `system_valid_to`, which a conversion writes
//! next to a grain, are read back. A line with a repeated key is a fault.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, encode_json};
use gristmill_schemas::json::{Json, JsonParser};
use gristmill_schemas::sign::DeliveredGrain;

use crate::threads;
use crate::transcript::changes::{OtherChange, other_change};
use crate::transcript::line::{FaultCode, Line, LineFault, lines};
use crate::transcript::options::ReadOptions;
use crate::transcript::parallel::{map_lines, wait_if_many_values};
use crate::transcript::parsed::{ParsedPart, StandaloneGrain};

/// The fault of a lifecycle event or an erasure outside a bundle that is applied.
const NOT_APPLIED: &str = "an event or an erasure of a bundle of changes: apply the whole bundle \
                           with `gristmill ingest --changes`";

/// Parses the grains of a file, on several threads, and passes them to `emit` in chunks. Grains
/// without namespace and address get the namespace of the options.
pub(in crate::transcript) fn parse_grains(
    bytes: &[u8],
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) {
    let work = |chunk: &[Line]| {
        let _alone = wait_if_many_values(bytes, chunk);
        let mut part = ParsedPart::default();
        let mut parser = JsonParser::new().with_unique_keys();
        for line in chunk {
            let grain = match line.json_with(&mut parser, bytes) {
                Ok(json) => match other_change(&json) {
                    None => parse_grain(&json, line, options.namespace),
                    Some(OtherChange::Record) if !options.is_bundle => {
                        Err(line.fault(FaultCode::Shape, NOT_APPLIED))
                    }
                    Some(_) => continue,
                },
                Err(fault) => Err(fault),
            };
            match grain {
                Ok(grain) => part.grains.push(grain),
                Err(fault) => part.faults.push(fault),
            }
        }
        part
    };
    map_lines(lines(bytes), threads(options.threads), &work, emit);
}

/// Returns the addresses of the grains that the one of a line supersedes.
fn superseded_addresses(json: &Json) -> Vec<ContentAddress> {
    let addresses = json.get("supersedes").and_then(Json::as_array);
    addresses
        .unwrap_or_default()
        .iter()
        .filter_map(|address| address.as_str()?.parse().ok())
        .collect()
}

fn parse_grain(
    json: &Json,
    line: &Line,
    namespace: Option<&str>,
) -> Result<StandaloneGrain, LineFault> {
    let expected = json.get("content_address").and_then(Json::as_str);
    let grain = match json.get("blob_hex").and_then(Json::as_str) {
        Some(digits) => decode_blob(digits, line)?,
        None => encode_grain(json, expected, line, namespace)?,
    };
    if let Some(expected) = expected {
        check_address(expected, grain.address, line)?;
    }
    Ok(StandaloneGrain {
        line: line.clone(),
        grain,
        supersedes: superseded_addresses(json),
        system_valid_to: json.get("system_valid_to").and_then(Json::as_i64),
    })
}

/// Returns a fault if the grain of a line hasn't the address that the line states.
fn check_address(expected: &str, address: ContentAddress, line: &Line) -> Result<(), LineFault> {
    let expected: ContentAddress = expected.parse().map_err(|error| line.grain_fault(&error))?;
    if expected == address {
        return Ok(());
    }
    let reason = format!("its content_address is of another grain; as it is here it is {address}");
    Err(line.fault(FaultCode::Shape, reason))
}

/// Decodes a blob in hexadecimal digits, possibly in a signature envelope.
fn decode_blob(digits: &str, line: &Line) -> Result<EncodedGrain, LineFault> {
    let blob = hex::decode(digits)
        .map_err(|error| line.fault(FaultCode::Shape, format!("`blob_hex`: {error}")))?;
    let delivery = DeliveredGrain::open(&blob).map_err(|error| line.grain_fault(&error))?;
    let address = ContentAddress::of(delivery.blob());
    Ok(EncodedGrain { blob, address })
}

/// Encodes the grain of a line that holds JSON, with the `options` next to it.
fn encode_grain(
    json: &Json,
    expected: Option<&str>,
    line: &Line,
    namespace: Option<&str>,
) -> Result<EncodedGrain, LineFault> {
    let wrapped = json.get("grain");
    let Some(grain) = wrapped.or_else(|| json.get("type").map(|_| json)) else {
        let reason = "not a grain: an object with `grain`, `blob_hex` or `type`";
        return Err(line.fault(FaultCode::Shape, reason));
    };
    EncodeOptions::from_json(wrapped.and_then(|_| json.get("options")))
        .and_then(|options| encode_json(&with_namespace(grain, expected, namespace), options))
        .map_err(|error| line.grain_fault(&error))
}

/// Returns the grain without its `content_address`. If it has neither a namespace nor an address,
/// `namespace` is added.
fn with_namespace<'j>(
    grain: &'j Json<'j>,
    address: Option<&str>,
    namespace: Option<&'j str>,
) -> Json<'j> {
    let mut grain = grain.reborrow();
    let Json::Object(members) = &mut grain else {
        return grain;
    };
    match (address, namespace) {
        // A grain by itself may have its address among its members.
        (Some(_), _) => _ = members.remove("content_address"),
        (None, Some(namespace)) if !members.contains_key("namespace") => {
            members.insert("namespace", namespace);
        }
        (None, _) => {}
    }
    grain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::kind::TranscriptKind;
    use crate::transcript::parse::parse_for_grains;

    const FACT: &str = r#"{"type":"belief","subject":"al","relation":"likes","object":"tea","confidence":1.0,"source_type":"user_explicit","created_at":1700000000000}"#;

    fn parsed(text: &str) -> (Vec<StandaloneGrain>, Vec<String>) {
        let options = ReadOptions {
            namespace: Some("n"),
            ..ReadOptions::default()
        };
        parsed_with(text, options)
    }

    fn parsed_with(text: &str, options: ReadOptions<'_>) -> (Vec<StandaloneGrain>, Vec<String>) {
        let (mut grains, mut faults) = (Vec::new(), Vec::new());
        parse_grains(text.as_bytes(), options, &mut |part| {
            grains.extend(part.grains);
            faults.extend(
                part.faults
                    .into_iter()
                    .map(|fault| format!("{} {}", fault.number, fault.code.name())),
            );
        });
        (grains, faults)
    }

    #[test]
    fn events_and_erasures_are_faults_unless_a_bundle_is_applied() {
        let added = FACT.replace('{', r#"{"change":"added","grain":{"#) + "}";
        let text = [
            r#"{"change":"begin","format":"gristmill-changes/1"}"#,
            added.as_str(),
            r#"{"change":"event","event":"expired"}"#,
            r#"{"change":"erased","key":"00"}"#,
            r#"{"change":"end","added":1}"#,
            r#"{"change":"eve"#,
        ]
        .join("\n");
        let (grains, faults) = parsed(&text);
        assert_eq!(grains.len(), 1);
        assert_eq!(faults, ["3 ERR_SHAPE", "4 ERR_SHAPE", "6 ERR_JSON"]);
        let bundle = ReadOptions {
            is_bundle: true,
            ..ReadOptions::default()
        };
        let (grains, faults) = parsed_with(&text, bundle);
        assert_eq!((grains.len(), faults), (1, vec!["6 ERR_JSON".to_owned()]));
    }

    #[test]
    fn a_repeated_key_in_a_document_is_a_fault_of_its_entry() {
        let repeated = FACT.replace('{', r#"{"object":"coffee","#);
        let pretty = |grain: &str| grain.replace(',', ",\n");
        for (document, expected) in [
            (format!("[{repeated},{FACT},{{\"x\":nope}}]"), (1, 2)),
            (
                format!("[\n{},\n{}\n]", pretty(FACT), pretty(&repeated)),
                (1, 1),
            ),
            (pretty(&repeated), (0, 1)),
            (pretty(FACT), (1, 0)),
        ] {
            let (mut grains, mut faults) = (0, 0);
            parse_for_grains(
                document.as_bytes(),
                TranscriptKind::GrainLines,
                ReadOptions::default(),
                &mut |part| {
                    grains += part.grains.len();
                    faults += part.faults.len();
                },
            );
            assert_eq!((grains, faults), expected, "{document}");
        }
    }

    #[test]
    fn every_line_is_a_grain_or_a_fault() {
        let grain = encode_json(
            &Json::parse(FACT.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap();
        let (address, blob) = (
            grain.address,
            grain
                .blob
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>(),
        );
        let text = [
            format!(r#"{{"content_address":"{address}","grain":{FACT},"options":{{}}}}"#),
            format!(
                r#"{{"content_address":"{address}","blob_hex":"{blob}","supersedes":["{address}"],"system_valid_to":5}}"#
            ),
            format!(
                r#"{{"content_address":"{address}","grain":{FACT},"options":{{"encoding":"cbor"}}}}"#
            ),
            FACT.to_owned(),
            FACT.replace('{', &format!(r#"{{"content_address":"{address}","#)),
            r#"{"x":1}"#.to_owned(),
            r#"{"grain":{"type":"belief"}}"#.to_owned(),
            "oops".to_owned(),
            FACT.replace('{', r#"{"object":"coffee","#),
        ];
        let (grains, faults) = parsed(&text.join("\n"));
        assert_eq!(
            grains[..2]
                .iter()
                .map(|grain| grain.grain.address)
                .collect::<Vec<_>>(),
            [address, address]
        );
        assert_eq!(
            (
                &grains[1].supersedes[..],
                grains[1].system_valid_to,
                grains[1].grain.blob == grain.blob
            ),
            (&[address][..], Some(5), true)
        );
        assert!(
            grains.len() == 4 && grains[2].grain.address != address,
            "a grain without an address gets the namespace"
        );
        assert_eq!(
            (faults.len(), &*faults[0], &*faults[1], &*faults[3]),
            (5, "3 ERR_SHAPE", "6 ERR_SHAPE", "8 ERR_JSON")
        );
        assert_eq!(faults[4], "9 ERR_CORRUPT");
    }
}
