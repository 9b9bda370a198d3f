//! Where a field of a domain profile stands: `hc:patient_id`, `legal:privilege`, `int:http_path`.
//!
//! Appendix A of the specification puts them into `context`; writers also put them beside the
//! grain's own fields, and the integration profile has short keys. Everything that asks for such a
//! field (rules of packs, CAL, erasure) looks here.

use super::alias::integration_keys;
use super::decode::Grain;
use super::fields::Field;
use super::raw::RawValue;

/// Where a key is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainPlace {
    /// Among the grain's own fields.
    Grain,
    /// In its `context`.
    Context,
}

/// The value of the domain field `name`: under the first of its keys that is there, in the grain
/// before its `context`. `at` looks one key up in one place, and has no value for null, which says
/// nothing.
pub fn find_domain_field<V>(
    name: &str,
    mut at: impl FnMut(DomainPlace, &str) -> Option<V>,
) -> Option<V> {
    integration_keys(name)
        .find_map(|key| at(DomainPlace::Grain, key).or_else(|| at(DomainPlace::Context, key)))
}

/// False if no grain in the bytes `payload`, which aren't compressed, can have the domain field
/// `name`: none of its keys stands in them. Saves decoding most grains.
pub fn may_have_domain_field(payload: &[u8], name: &str) -> bool {
    integration_keys(name).any(|key| memchr::memmem::find(payload, key.as_bytes()).is_some())
}

impl<'a> Grain<'a> {
    /// The value of a field of a domain profile (Appendix A); `None` if it isn't there or null.
    pub fn domain_field(&self, name: &str) -> Option<RawValue<'a>> {
        let context = self.get(Field::Context);
        find_domain_field(name, |place, key| match place {
            DomainPlace::Grain => {
                let own = self
                    .unknown()
                    .iter()
                    .find(|(known, _)| *known == key)
                    .map(|(_, value)| *value);
                own.filter(|value| *value != RawValue::Nil)
            }
            DomainPlace::Context => context
                .and_then(|context| context.get(key))
                .filter(|value| *value != RawValue::Nil),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DEFAULT_PAYLOAD_LIMIT, EncodeOptions, Mode, Payload, encode_json, to_json};
    use super::*;
    use crate::json::Json;

    #[test]
    fn a_domain_field_is_found_in_the_grain_and_in_its_context() {
        for (more, name, expected) in [
            (r#""hc:patient_id": "p7""#, "hc:patient_id", Some(r#""p7""#)),
            (
                r#""context": {"hc:patient_id": "p7"}"#,
                "hc:patient_id",
                Some(r#""p7""#),
            ),
            (
                r#""hc:patient_id": "own", "context": {"hc:patient_id": "p7"}"#,
                "hc:patient_id",
                Some(r#""own""#),
            ),
            (
                r#""hc:patient_id": null, "context": {"hc:patient_id": "p7"}"#,
                "hc:patient_id",
                Some(r#""p7""#),
            ),
            (r#""ihp": "/a""#, "int:http_path", Some(r#""/a""#)),
            (
                r#""context": {"ihp": "/a"}"#,
                "int:http_path",
                Some(r#""/a""#),
            ),
            (
                r#""context": {"x": {"hc:patient_id": "deeper"}}"#,
                "hc:patient_id",
                None,
            ),
            (r#""context": {"hc:patient": "p7"}"#, "hc:patient_id", None),
        ] {
            let json =
                format!(r#"{{"type": "event", "content": "c", "created_at": 1000, {more}}}"#);
            let encoded = encode_json(
                &Json::parse(json.as_bytes()).unwrap(),
                EncodeOptions::default(),
            )
            .unwrap();
            let payload = Payload::open(&encoded.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
            let grain = Grain::decode(&payload, Mode::Lenient).unwrap();
            let found = grain
                .domain_field(name)
                .map(|value| to_json(&value).to_string());
            assert_eq!(found.as_deref(), expected, "{more}");
            assert!(
                found.is_none() || may_have_domain_field(&encoded.blob, name),
                "{more}"
            );
        }
    }
}
