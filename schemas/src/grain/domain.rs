//! Lookup of domain profile fields such as `hc:patient_id`, `legal:privilege` and `int:http_path`.
//!
//! Appendix A of the specification puts these fields into `context`; some writers put them next to
//! the grain's own fields, and the integration profile has short keys. Rules of packs, CAL and
//! erasure all use this lookup.

use super::alias::integration_keys;
use super::decode::Grain;
use super::fields::Field;
use super::raw::RawValue;

/// The map in which a key is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainFieldScope {
    /// The grain's own map.
    Grain,
    /// The map in the field `context`.
    Context,
}

/// Returns the value of the domain field `name` under the first of its keys that is present, in the
/// grain before its `context`. `get` looks up one key in one map and returns `None` for a null.
pub fn find_domain_field<V>(
    name: &str,
    mut get: impl FnMut(DomainFieldScope, &str) -> Option<V>,
) -> Option<V> {
    integration_keys(name).find_map(|key| {
        get(DomainFieldScope::Grain, key).or_else(|| get(DomainFieldScope::Context, key))
    })
}

/// Returns false if no grain in the uncompressed bytes `payload` can have the domain field `name`,
/// because none of its keys occurs in them. A cheap filter that saves decoding most grains.
pub fn may_contain_domain_field(payload: &[u8], name: &str) -> bool {
    integration_keys(name).any(|key| memchr::memmem::find(payload, key.as_bytes()).is_some())
}

impl<'a> Grain<'a> {
    /// Returns the value of a domain profile field (Appendix A); `None` if it is absent or null.
    pub fn domain_field(&self, name: &str) -> Option<RawValue<'a>> {
        let context = self.get(Field::Context);
        find_domain_field(name, |scope, key| match scope {
            DomainFieldScope::Grain => {
                let own = self
                    .unknown()
                    .iter()
                    .find(|(known, _)| *known == key)
                    .map(|(_, value)| *value);
                own.filter(|value| *value != RawValue::Nil)
            }
            DomainFieldScope::Context => context
                .and_then(|context| context.get(key))
                .filter(|value| *value != RawValue::Nil),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Payload, encode_json, to_json,
    };
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
            let grain = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
            let found = grain
                .domain_field(name)
                .map(|value| to_json(&value).to_string());
            assert_eq!(found.as_deref(), expected, "{more}");
            assert!(
                found.is_none() || may_contain_domain_field(&encoded.blob, name),
                "{more}"
            );
        }
    }
}
