//! Addresses in messages between processes: as hex text.

use gristmill_schemas::address::ContentAddress;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes one address.
pub(super) fn serialize<S: Serializer>(
    address: &ContentAddress,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(address)
}

/// Reads one address.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ContentAddress, D::Error> {
    parsed(&String::deserialize(deserializer)?)
}

fn parsed<E: de::Error>(text: &str) -> Result<ContentAddress, E> {
    text.parse().map_err(E::custom)
}

/// Lists of addresses.
pub(super) mod list {
    use gristmill_schemas::address::ContentAddress;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the addresses.
    pub(in crate::erase) fn serialize<S: Serializer>(
        addresses: &[ContentAddress],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(addresses.iter().map(ToString::to_string))
    }

    /// Reads the addresses.
    pub(in crate::erase) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<ContentAddress>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| super::parsed(text)).collect()
    }
}
