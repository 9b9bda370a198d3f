//! Limits of the device profiles (§18, §4.10): which grains fit small devices.

use super::decode::Grain;
use super::fields::Field;
use super::raw::RawValue;
use super::token::DEPTH_LIMIT;
use super::validate::requires;

/// A device profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum DeviceProfile {
    /// Servers, desktops, edge gateways (§18.1).
    Extended,
    /// Single-board computers, mobile devices (§18.2).
    Standard,
    /// Microcontrollers, sensors with a battery (§18.3).
    Lightweight,
}

/// The limits of a profile that a grain exceeds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BeyondProfile {
    /// The size of its blob in bytes, if that is too large.
    pub size: Option<usize>,
    /// The number of its levels, its own map included, if there are too many.
    pub depth: Option<usize>,
    /// Its fields that grains of the profile don't have: names of the specification, and its own
    /// keys.
    pub fields: Vec<String>,
}

impl BeyondProfile {
    /// Returns true if the grain exceeds no limit.
    pub fn is_empty(&self) -> bool {
        self.size.is_none() && self.depth.is_none() && self.fields.is_empty()
    }
}

/// The fields of the lightweight profile (§18.3), besides those that a type requires (§8).
const LIGHTWEIGHT: [Field; 7] = [
    Field::Type,
    Field::Subject,
    Field::Relation,
    Field::Object,
    Field::Confidence,
    Field::CreatedAt,
    Field::Namespace,
];

impl DeviceProfile {
    /// All profiles, from the largest devices to the smallest.
    pub const ALL: [DeviceProfile; 3] = [
        DeviceProfile::Extended,
        DeviceProfile::Standard,
        DeviceProfile::Lightweight,
    ];

    /// Returns its name in the specification, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceProfile::Extended => "extended",
            DeviceProfile::Standard => "standard",
            DeviceProfile::Lightweight => "lightweight",
        }
    }

    /// Returns the profile with this name.
    pub fn from_name(name: &str) -> Option<DeviceProfile> {
        DeviceProfile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
    }

    /// Returns the maximum size of a blob in bytes.
    pub const fn blob_limit(self) -> usize {
        match self {
            DeviceProfile::Extended => 1 << 20,
            DeviceProfile::Standard => 32 << 10,
            DeviceProfile::Lightweight => 512,
        }
    }

    /// Returns the maximum number of levels of a payload, its own map included (§4.10).
    pub const fn depth_limit(self) -> usize {
        match self {
            DeviceProfile::Extended => DEPTH_LIMIT,
            DeviceProfile::Standard => 16,
            DeviceProfile::Lightweight => 8,
        }
    }

    /// Returns the limits that `grain` exceeds, whose blob has `size` bytes.
    pub fn beyond(self, grain: &Grain<'_>, size: usize) -> BeyondProfile {
        let has_field = |field: Field| LIGHTWEIGHT.contains(&field) || requires(grain, field);
        let fields = match self {
            DeviceProfile::Extended | DeviceProfile::Standard => Vec::new(),
            DeviceProfile::Lightweight => {
                let known = grain.known().iter().map(|(field, _)| *field);
                let beyond = known.filter(|field| !has_field(*field));
                let own = grain.unknown().iter().map(|(key, _)| (*key).to_owned());
                beyond
                    .map(|field| field.name().to_owned())
                    .chain(own)
                    .collect()
            }
        };
        BeyondProfile {
            size: (size > self.blob_limit()).then_some(size),
            depth: Some(depth_of(grain)).filter(|depth| *depth > self.depth_limit()),
            fields,
        }
    }
}

/// Returns the number of levels of a grain, its own map included.
fn depth_of(grain: &Grain<'_>) -> usize {
    let known = grain.known().iter().map(|(_, value)| levels(value));
    let own = grain.unknown().iter().map(|(_, value)| levels(value));
    1 + known.chain(own).max().unwrap_or(0)
}

/// Returns the number of levels of a value, at most [`DEPTH_LIMIT`]: a decoded grain has no more.
fn levels(value: &RawValue<'_>) -> usize {
    match value {
        RawValue::Array(list) => 1 + list.items().map(|it| levels(&it)).max().unwrap_or(0),
        RawValue::Map(map) => 1 + map.entries().map(|(_, it)| levels(&it)).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Payload, encode_json};
    use super::*;
    use crate::json::Json;

    fn beyond(profile: DeviceProfile, json: &str) -> BeyondProfile {
        let json = Json::parse(json.as_bytes()).unwrap();
        let encoded = encode_json(&json, EncodeOptions::default()).unwrap();
        let payload = Payload::open(&encoded.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
        let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        profile.beyond(&grain, encoded.blob.len())
    }

    /// Returns a belief whose blob has `size` bytes.
    fn belief_of(size: usize) -> String {
        let belief = |filler: usize| {
            format!(
                r#"{{"type": "belief", "subject": "a", "relation": "b", "object": "{}",
                     "confidence": 0.5, "created_at": 1000}}"#,
                "x".repeat(filler)
            )
        };
        let length = |filler: usize| {
            let json = belief(filler);
            let json = Json::parse(json.as_bytes()).unwrap();
            encode_json(&json, EncodeOptions::default())
                .unwrap()
                .blob
                .len()
        };
        let filler = size - (length(size) - size);
        assert_eq!(length(filler), size);
        belief(filler)
    }

    #[test]
    fn a_blob_of_the_limit_fits_and_one_byte_more_does_not() {
        for profile in DeviceProfile::ALL {
            let limit = profile.blob_limit();
            assert!(beyond(profile, &belief_of(limit)).is_empty(), "{profile:?}");
            let larger = beyond(profile, &belief_of(limit + 1));
            assert_eq!(larger.size, Some(limit + 1), "{profile:?}");
            assert_eq!(larger.fields, [""; 0]);
        }
    }

    #[test]
    fn a_payload_of_the_most_levels_fits_and_one_more_does_not() {
        for profile in [DeviceProfile::Standard, DeviceProfile::Lightweight] {
            let nested = |levels: usize| {
                let lists = levels - 2;
                let (open, close) = ("[".repeat(lists), "]".repeat(lists));
                format!(
                    r#"{{"type": "state", "created_at": 1000, "context": {{"a": {open}{close}}}}}"#
                )
            };
            let limit = profile.depth_limit();
            assert!(beyond(profile, &nested(limit)).is_empty(), "{profile:?}");
            let deeper = beyond(profile, &nested(limit + 1));
            assert_eq!(deeper.depth, Some(limit + 1), "{profile:?}");
        }
    }

    #[test]
    fn the_lightweight_profile_has_required_fields_only() {
        let belief = r#"{"type": "belief", "subject": "a", "relation": "b", "object": "c",
            "confidence": 0.5, "created_at": 1000, "namespace": "n", "context": {"a": "b"},
            "derived_from": ["x"], "mine": 1}"#;
        let found = beyond(DeviceProfile::Lightweight, belief);
        assert_eq!(found.fields, ["context", "derived_from", "mine"]);
        assert!(beyond(DeviceProfile::Standard, belief).is_empty());
        let reading = r#"{"type": "observation", "observer_id": "t1", "observer_type": "gps",
            "object": "x", "created_at": 1000}"#;
        assert!(beyond(DeviceProfile::Lightweight, reading).is_empty());
    }
}
