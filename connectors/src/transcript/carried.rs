//! Grains as JSON lines, taken in as they are: `{"grain": …, "options": …}` as exports have them,
//! `{"blob_hex": …}`, or a grain alone.
//!
//! A line that names its `content_address` must be that grain: others refer to it by the address.
//! What a conversion wrote beside a grain (`supersedes`, `system_valid_to`) comes back with it.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, encode_json};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::Delivery;

use super::line::{FaultCode, Line, LineFault, lines};
use super::read::{ReadOptions, in_parallel, portions};
use super::told::{Made, Told};
use crate::threads;

/// Tells the grains of a file, portion by portion. Those that have neither a namespace nor an
/// address get the namespace of the options.
pub(super) fn grains(bytes: &[u8], options: ReadOptions<'_>, tell: &mut dyn FnMut(Told)) {
    let all: Vec<Line> = lines(bytes).collect();
    let work = |portion: &&[Line]| {
        let mut told = Told::default();
        for line in *portion {
            match line
                .json(bytes)
                .and_then(|json| made(&json, line, options.namespace))
            {
                Ok(made) => told.made.push(made),
                Err(fault) => told.faults.push(fault),
            }
        }
        told
    };
    in_parallel(
        &portions(&all),
        threads(options.threads),
        &work,
        &mut |_, told| tell(told),
    );
}

fn made(json: &Json, line: &Line, namespace: Option<&str>) -> Result<Made, LineFault> {
    let shape = |message: &str| line.fault(FaultCode::Shape, message);
    let refused = |error| line.grain_fault(&error);
    let named = json.get("content_address").and_then(Json::as_str);
    let grain = match json.get("blob_hex").and_then(Json::as_str) {
        Some(digits) => {
            let blob =
                hex::decode(digits).map_err(|error| shape(&format!("`blob_hex`: {error}")))?;
            let address = ContentAddress::of(Delivery::open(&blob).map_err(refused)?.blob());
            EncodedGrain { blob, address }
        }
        None => {
            let inside = json.get("grain").or_else(|| json.get("type").map(|_| json));
            let inside = inside.ok_or_else(|| {
                shape("not a grain: an object with `grain`, `blob_hex` or `type`")
            })?;
            let options =
                EncodeOptions::of_json(json.get("options").filter(|_| json.get("grain").is_some()));
            encode_json(&placed(inside, named, namespace), options.map_err(refused)?)
                .map_err(refused)?
        }
    };
    if let Some(named) = named {
        let named: ContentAddress = named.parse().map_err(refused)?;
        if named != grain.address {
            return Err(shape(&format!(
                "its content_address is of another grain; as it is here it is {}",
                grain.address
            )));
        }
    }
    let addresses = json
        .get("supersedes")
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter();
    let supersedes = addresses
        .filter_map(|address| address.as_str()?.parse().ok())
        .collect();
    let ended = json.get("system_valid_to").and_then(Json::as_i64);
    Ok(Made {
        line: line.clone(),
        grain,
        supersedes,
        ended,
    })
}

/// The grain in its namespace, or in `namespace` if it has none and nobody knows it by an address.
fn placed<'j>(grain: &'j Json<'j>, named: Option<&str>, namespace: Option<&'j str>) -> Json<'j> {
    let mut placed = grain.reborrow();
    // A grain alone may have its address among its members.
    if let (Some(_), Json::Object(members)) = (named, &mut placed) {
        members.remove("content_address");
    }
    if let (None, Some(namespace), Json::Object(members)) = (named, namespace, &mut placed)
        && !members.contains_key("namespace")
    {
        members.insert("namespace", namespace);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACT: &str = r#"{"type":"belief","subject":"al","relation":"likes","object":"tea","confidence":1.0,"source_type":"user_explicit","created_at":1700000000000}"#;

    fn told(text: &str) -> (Vec<Made>, Vec<String>) {
        let (mut made, mut faults) = (Vec::new(), Vec::new());
        let options = ReadOptions {
            namespace: Some("n"),
            ..ReadOptions::default()
        };
        grains(text.as_bytes(), options, &mut |part| {
            made.extend(part.made);
            faults.extend(
                part.faults
                    .into_iter()
                    .map(|fault| format!("{} {}", fault.number, fault.code.name())),
            );
        });
        (made, faults)
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
        ];
        let (made, faults) = told(&text.join("\n"));
        assert_eq!(
            made[..2]
                .iter()
                .map(|made| made.grain.address)
                .collect::<Vec<_>>(),
            [address, address]
        );
        assert_eq!(
            (
                &made[1].supersedes[..],
                made[1].ended,
                made[1].grain.blob == grain.blob
            ),
            (&[address][..], Some(5), true)
        );
        assert!(
            made.len() == 4 && made[2].grain.address != address,
            "one without an address gets the namespace"
        );
        assert_eq!(
            (faults.len(), &*faults[0], &*faults[1], &*faults[3]),
            (4, "3 ERR_SHAPE", "6 ERR_SHAPE", "8 ERR_JSON")
        );
    }
}
