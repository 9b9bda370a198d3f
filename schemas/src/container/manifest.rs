//! The index manifest: the lifecycle state that a container carries (§11.7).

use std::collections::BTreeMap;

use crate::address::ContentAddress;
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Encoding, RawValue, Value, read_map, write_value};

/// The length of an entry's key in characters.
const TEXT_LENGTH: usize = ContentAddress::TEXT_LENGTH;

/// The head of a MessagePack string of up to 255 bytes; the next byte is its length.
const MESSAGE_PACK_TEXT: u8 = 0xd9;

/// The head of a CBOR string of up to 255 bytes; the next byte is its length.
const CBOR_TEXT: u8 = 0x78;

/// The verification status of a grain (§6.1 `verification_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum VerificationStatus {
    /// Not reviewed yet.
    #[default]
    Unverified,
    /// Confirmed.
    Verified,
    /// Disputed.
    Contested,
    /// Withdrawn.
    Retracted,
}

impl VerificationStatus {
    /// All statuses. Files refer to them by position.
    pub const ALL: [VerificationStatus; 4] = [
        VerificationStatus::Unverified,
        VerificationStatus::Verified,
        VerificationStatus::Contested,
        VerificationStatus::Retracted,
    ];

    /// Returns the name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            VerificationStatus::Unverified => "unverified",
            VerificationStatus::Verified => "verified",
            VerificationStatus::Contested => "contested",
            VerificationStatus::Retracted => "retracted",
        }
    }

    /// Returns the status with the given name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The index-layer fields of one grain (§28.3). Absent fields have their default values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexState {
    /// `sb`: the superseding grain. Portable between stores.
    pub superseded_by: Option<ContentAddress>,
    /// `svt`: when the grain stopped being current, in milliseconds since 1970. Portable.
    pub system_valid_to: Option<i64>,
    /// `vstatus`: the verification status. Portable.
    pub verification_status: Option<VerificationStatus>,
    /// `ac`: the number of retrievals. Local to the store that counted them.
    pub access_count: Option<u64>,
    /// `laa`: the last retrieval, in milliseconds since 1970. Local.
    pub last_accessed_at: Option<i64>,
    /// `ct`: true if the grain is contradicted. An extension with the short key of §6.1, since
    /// §11.7 defines none. If set, `svt` is the earlier of the start of the contradiction and
    /// `gm:ended`.
    pub contradicted: bool,
    /// `gm:ended`: when a contradicted grain was also superseded or expired, in milliseconds since
    /// 1970. An extension. Without it, the `svt` of a contradicted grain without successor is the
    /// start of the contradiction.
    pub ended: Option<i64>,
}

/// The index-layer state of grains by address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The entries in the order of their addresses.
    pub entries: BTreeMap<ContentAddress, IndexState>,
}

impl Manifest {
    /// Reads a manifest in either encoding. Unknown keys of an entry are ignored.
    ///
    /// # Errors
    /// [`ErrorCode::NotMap`], [`ErrorCode::HashFormat`] or [`ErrorCode::HashLength`] for a key that
    /// is not an address, [`ErrorCode::Schema`] for a field of the wrong kind,
    /// [`ErrorCode::Corrupt`].
    pub fn read(bytes: &[u8]) -> Result<Manifest, GrainError> {
        Self::read_with_form(bytes).map(|(manifest, _)| manifest)
    }

    /// As [`Manifest::read`]; also returns whether the bytes are in canonical form.
    pub(super) fn read_with_form(bytes: &[u8]) -> Result<(Manifest, bool), GrainError> {
        let (map, deviation) = read_map(bytes)?;
        let mut entries = BTreeMap::new();
        for (key, value) in map.entries() {
            let place = offset_in(bytes, key);
            let state = read_state(&value, bytes).map_err(|error| located(error, place))?;
            entries.insert(address(bytes, key)?, state);
        }
        Ok((Manifest { entries }, deviation.is_none()))
    }

    /// Returns true if `bytes` start like a manifest with entries: a map head, an address as its
    /// key, another map head. Constant time; other data hardly ever matches.
    pub(super) fn starts_like_manifest(bytes: &[u8]) -> bool {
        let Some((head_length, key_head)) = bytes.first().copied().and_then(map_head) else {
            return false;
        };
        let Some((key, rest)) = bytes
            .get(head_length..)
            .and_then(|rest| rest.split_at_checked(2 + TEXT_LENGTH))
        else {
            return false;
        };
        key.starts_with(&[key_head, TEXT_LENGTH as u8])
            && key
                .iter()
                .skip(2)
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
            && rest
                .first()
                .is_some_and(|first| Encoding::from_map_head(*first).is_some())
    }

    /// Encodes the manifest in canonical form.
    ///
    /// # Errors
    /// None for a manifest of this type; encoding errors are passed on.
    pub fn write(&self, encoding: Encoding) -> Result<Vec<u8>, GrainError> {
        let entry = |(address, state): (&ContentAddress, &IndexState)| {
            (address.to_string().into(), state_value(state))
        };
        write_value(
            &Value::Map(self.entries.iter().map(entry).collect()),
            encoding,
        )
    }
}

/// Returns the length of the head of a map with entries that starts with `first`, and the first
/// byte of an address as its key; `None` for other bytes.
const fn map_head(first: u8) -> Option<(usize, u8)> {
    Some(match first {
        0x81..=0x8f => (1, MESSAGE_PACK_TEXT),
        0xde => (3, MESSAGE_PACK_TEXT),
        0xdf => (5, MESSAGE_PACK_TEXT),
        0xa1..=0xb7 => (1, CBOR_TEXT),
        0xb8..=0xbb => (1 + (1 << (first - 0xb8)), CBOR_TEXT),
        _ => return None,
    })
}

/// Returns the offset of `part`, a slice of `bytes`.
fn offset_in(bytes: &[u8], part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize)
}

/// Sets the offset of `error` unless it has one.
fn located(error: GrainError, place: usize) -> GrainError {
    if error.offset.is_some() {
        error
    } else {
        error.at(place)
    }
}

/// Parses the address in `text`, a slice of `bytes`; error offsets count from the start of `bytes`.
fn address(bytes: &[u8], text: &str) -> Result<ContentAddress, GrainError> {
    let place = offset_in(bytes, text);
    text.parse()
        .map_err(|error: GrainError| located(error.shifted(place), place))
}

/// Reads the state in the `value` of an entry, a part of `bytes`.
fn read_state(value: &RawValue<'_>, bytes: &[u8]) -> Result<IndexState, GrainError> {
    let wrong = |key: &str, expected: &str| {
        GrainError::new(
            ErrorCode::Schema,
            format!("`{key}` of a manifest entry must be {expected}"),
        )
    };
    let mut state = IndexState::default();
    for (key, value) in value.as_map().ok_or_else(|| wrong("an entry", "a map"))? {
        match key {
            "sb" => {
                let text = value.as_text().ok_or_else(|| wrong(key, "an address"))?;
                state.superseded_by = Some(address(bytes, text)?);
            }
            "svt" => {
                state.system_valid_to =
                    Some(value.as_int().ok_or_else(|| wrong(key, "an integer"))?)
            }
            "ct" => {
                state.contradicted = value.as_bool().ok_or_else(|| wrong(key, "true or false"))?
            }
            "gm:ended" => {
                state.ended = Some(value.as_int().ok_or_else(|| wrong(key, "an integer"))?)
            }
            "laa" => {
                state.last_accessed_at =
                    Some(value.as_int().ok_or_else(|| wrong(key, "an integer"))?)
            }
            "ac" => {
                let count = value.as_int().and_then(|count| u64::try_from(count).ok());
                state.access_count = Some(count.ok_or_else(|| wrong(key, "a count"))?);
            }
            "vstatus" => {
                let status = value.as_text().and_then(VerificationStatus::from_name);
                let expected = "one of unverified, verified, contested, retracted";
                state.verification_status = Some(status.ok_or_else(|| wrong(key, expected))?);
            }
            _ => {}
        }
    }
    Ok(state)
}

fn state_value(state: &IndexState) -> Value<'static> {
    let fields = [
        (
            "sb",
            state
                .superseded_by
                .map(|address| Value::from(address.to_string())),
        ),
        ("svt", state.system_valid_to.map(Value::from)),
        (
            "vstatus",
            state
                .verification_status
                .map(|status| Value::from(status.name())),
        ),
        ("ac", state.access_count.map(Value::from)),
        ("laa", state.last_accessed_at.map(Value::from)),
        ("ct", state.contradicted.then(|| Value::from(true))),
        ("gm:ended", state.ended.map(Value::from)),
    ];
    Value::Map(
        fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.into(), value?)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_round_trips_and_unknown_keys_are_ignored() {
        let address = ContentAddress::of(b"grain");
        let state = IndexState {
            system_valid_to: Some(4),
            verification_status: Some(VerificationStatus::Contested),
            contradicted: true,
            ended: Some(5),
            ..IndexState::default()
        };
        let manifest = Manifest {
            entries: [(address, state.clone())].into(),
        };
        for encoding in [Encoding::MessagePack, Encoding::Cbor] {
            assert_eq!(
                Manifest::read(&manifest.write(encoding).unwrap()).unwrap(),
                manifest
            );
        }
        // The manifest of a grain that is not contradicted has no extension keys.
        let plain = Manifest {
            entries: [(
                address,
                IndexState {
                    contradicted: false,
                    ended: None,
                    ..state
                },
            )]
            .into(),
        };
        let bytes = plain.write(Encoding::MessagePack).unwrap();
        assert!(!bytes.windows(2).any(|key| key == b"ct"));
        let unknown = Value::Map(
            [
                ("ct2".into(), Value::from(true)),
                ("svt".into(), Value::from(4_i64)),
            ]
            .into(),
        );
        let foreign = write_value(
            &Value::Map([(address.to_string().into(), unknown)].into()),
            Encoding::MessagePack,
        );
        let read = Manifest::read(&foreign.unwrap()).unwrap();
        assert_eq!(read.entries.get(&address).unwrap().system_valid_to, Some(4));
    }
}
