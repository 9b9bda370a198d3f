//! The index manifest: lifecycle state that travels with a container (§11.7).

use std::collections::BTreeMap;

use crate::address::ContentAddress;
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Encoding, RawValue, Value, read_map, write_value};

/// Characters of an entry's key.
const TEXT_LENGTH: usize = ContentAddress::TEXT_LENGTH;

/// The head of a text of up to 255 bytes; its length is the next byte.
const MESSAGE_PACK_TEXT: u8 = 0xd9;

/// The same in CBOR.
const CBOR_TEXT: u8 = 0x78;

/// What a reviewer found (§6.1 `verification_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
    const ALL: [VerificationStatus; 4] = [
        VerificationStatus::Unverified,
        VerificationStatus::Verified,
        VerificationStatus::Contested,
        VerificationStatus::Retracted,
    ];

    /// The specification's word.
    pub const fn name(self) -> &'static str {
        match self {
            VerificationStatus::Unverified => "unverified",
            VerificationStatus::Verified => "verified",
            VerificationStatus::Contested => "contested",
            VerificationStatus::Retracted => "retracted",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The index-layer fields of one grain (§28.3). Absent means default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexState {
    /// `sb`: the grain that superseded this one. Portable.
    pub superseded_by: Option<ContentAddress>,
    /// `svt`: when it stopped being current, in milliseconds since 1970. Portable.
    pub system_valid_to: Option<i64>,
    /// `vstatus`. Portable.
    pub verification_status: Option<VerificationStatus>,
    /// `ac`: how often it was retrieved. Local to the store that counted.
    pub access_count: Option<u64>,
    /// `laa`: when it was last retrieved, in milliseconds since 1970. Local.
    pub last_accessed_at: Option<i64>,
    /// `ct`: it is contradicted. An extension under the short key of §6.1; §11.7 names no key for
    /// it. `svt` then is the earlier of the contradiction's beginning and `gm:ended`.
    pub contradicted: bool,
    /// `gm:ended`: when a contradicted grain was superseded or expired besides, in milliseconds
    /// since 1970. An extension; without it the `svt` of a contradicted grain that names no
    /// successor is that of the contradiction alone.
    pub ended: Option<i64>,
}

/// Index-layer state by address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The entries, in the order of their addresses.
    pub entries: BTreeMap<ContentAddress, IndexState>,
}

impl Manifest {
    /// Reads a manifest, in either encoding. Keys of an entry that aren't known are passed over.
    ///
    /// # Errors
    /// [`ErrorCode::NotMap`], [`ErrorCode::HashFormat`] or [`ErrorCode::HashLength`] for a key that
    /// is no address, [`ErrorCode::Schema`] for a field of the wrong kind, [`ErrorCode::Corrupt`].
    pub fn read(bytes: &[u8]) -> Result<Manifest, GrainError> {
        Self::read_form(bytes).map(|(manifest, _)| manifest)
    }

    /// [`Manifest::read`], which also tells whether the bytes are in canonical form.
    pub(super) fn read_form(bytes: &[u8]) -> Result<(Manifest, bool), GrainError> {
        let (map, deviation) = read_map(bytes)?;
        let mut entries = BTreeMap::new();
        for (key, value) in map.entries() {
            let place = place_in(bytes, key);
            let state = read_state(&value, bytes).map_err(|error| located(error, place))?;
            entries.insert(address(bytes, key)?, state);
        }
        Ok((Manifest { entries }, deviation.is_none()))
    }

    /// True if `bytes` begin as a manifest with entries does: a map's head, an address as its key,
    /// another map's head. Constant time, and hardly ever true of anything else.
    pub(super) fn seems_to_begin(bytes: &[u8]) -> bool {
        let Some(&first) = bytes.first() else {
            return false;
        };
        let (head_length, key_head) = match first {
            0x81..=0x8f => (1, MESSAGE_PACK_TEXT),
            0xde => (3, MESSAGE_PACK_TEXT),
            0xdf => (5, MESSAGE_PACK_TEXT),
            0xa1..=0xb7 => (1, CBOR_TEXT),
            0xb8..=0xbb => (1 + (1 << (first - 0xb8)), CBOR_TEXT),
            _ => return false,
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
                .is_some_and(|first| Encoding::of_map(*first).is_some())
    }

    /// The manifest's canonical bytes.
    ///
    /// # Errors
    /// None that a manifest of this type can cause; those of encoding are passed on.
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

/// Where `part`, a slice of `bytes`, lies in them.
fn place_in(bytes: &[u8], part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize)
}

/// `error` at `place`, unless it has one already.
fn located(error: GrainError, place: usize) -> GrainError {
    if error.offset.is_some() {
        error
    } else {
        error.at(place)
    }
}

/// The address that `text`, a slice of `bytes`, spells; an error counts from the start of `bytes`.
fn address(bytes: &[u8], text: &str) -> Result<ContentAddress, GrainError> {
    let place = place_in(bytes, text);
    text.parse()
        .map_err(|error: GrainError| located(error.shifted(place), place))
}

/// The state in an entry's `value`, which lies in `bytes`.
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
    fn a_contradiction_comes_back_and_keys_that_are_unknown_are_passed_over() {
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
        // What stands in the manifest of a grain that is not contradicted is what stood there
        // before.
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
