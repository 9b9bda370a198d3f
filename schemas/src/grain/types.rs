//! Grain types: the header's type byte and the names of each type across versions (§3.1.1, §8).

use std::fmt;

/// One of the ten standard grain types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GrainType {
    /// A claim: subject, relation, object, confidence (§8.1).
    Belief = 0x01,
    /// A timestamped occurrence, most often a message (§8.2).
    Event = 0x02,
    /// A snapshot of an agent's state (§8.3).
    State = 0x03,
    /// A learned sequence of steps (§8.4).
    Workflow = 0x04,
    /// A tool invocation or code execution (§8.5, §27.1).
    Action = 0x05,
    /// Raw sensory or cognitive input (§8.6).
    Observation = 0x06,
    /// An objective with a lifecycle (§8.7).
    Goal = 0x07,
    /// An inference and its trace (§8.8).
    Reasoning = 0x08,
    /// An agreement of several observers (§8.9).
    Consensus = 0x09,
    /// A permission granted or withdrawn (§8.10).
    Consent = 0x0A,
}

impl GrainType {
    /// The ten types in the order of their bytes.
    pub const ALL: [GrainType; 10] = [
        GrainType::Belief,
        GrainType::Event,
        GrainType::State,
        GrainType::Workflow,
        GrainType::Action,
        GrainType::Observation,
        GrainType::Goal,
        GrainType::Reasoning,
        GrainType::Consensus,
        GrainType::Consent,
    ];

    /// Returns the name in version 1.3.
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Returns the names in all published versions of the specification, that of 1.3 first.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            GrainType::Belief => &["belief", "fact"],
            GrainType::Event => &["event", "episode"],
            GrainType::State => &["state", "checkpoint"],
            GrainType::Workflow => &["workflow"],
            GrainType::Action => &["action", "tool_call", "tool"],
            GrainType::Observation => &["observation"],
            GrainType::Goal => &["goal"],
            GrainType::Reasoning => &["reasoning"],
            GrainType::Consensus => &["consensus"],
            GrainType::Consent => &["consent"],
        }
    }

    /// Returns the type with the given name in any published version. Case-sensitive.
    pub fn from_name(name: &str) -> Option<GrainType> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.names().contains(&name))
    }
}

impl fmt::Display for GrainType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The type byte of a header, by range. The byte is authoritative; type strings in payloads are
/// aliases of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeByte {
    /// A standard type, whose schema is checked.
    Standard(GrainType),
    /// 0x0B–0xEF: a type of a later version, kept as an opaque map.
    Reserved(u8),
    /// 0xF0–0xFF: a type of a domain profile, kept as an opaque map.
    Domain(u8),
}

/// Types of versions after 1.3, whose names are known and whose schemas are not checked.
const LATER_TYPES: [(u8, &str); 3] = [(0x0B, "skill"), (0x0C, "recommendation"), (0x0D, "trigger")];

impl TypeByte {
    /// Classifies `byte`; `None` for 0x00, which is reserved.
    pub fn from_byte(byte: u8) -> Option<TypeByte> {
        match byte {
            0 => None,
            0x0B..=0xEF => Some(TypeByte::Reserved(byte)),
            0xF0..=0xFF => Some(TypeByte::Domain(byte)),
            _ => GrainType::ALL
                .into_iter()
                .find(|kind| *kind as u8 == byte)
                .map(TypeByte::Standard),
        }
    }

    /// Returns the byte.
    pub const fn byte(self) -> u8 {
        match self {
            TypeByte::Standard(kind) => kind as u8,
            TypeByte::Reserved(byte) | TypeByte::Domain(byte) => byte,
        }
    }

    /// Returns the standard type if this is one.
    pub const fn standard(self) -> Option<GrainType> {
        match self {
            TypeByte::Standard(kind) => Some(kind),
            TypeByte::Reserved(_) | TypeByte::Domain(_) => None,
        }
    }

    /// Returns the type byte for a type string: one of the ten types or one of a later version.
    pub fn from_name(name: &str) -> Option<TypeByte> {
        let later = || {
            LATER_TYPES
                .iter()
                .find(|(_, known)| *known == name)
                .map(|(byte, _)| TypeByte::Reserved(*byte))
        };
        GrainType::from_name(name)
            .map(TypeByte::Standard)
            .or_else(later)
    }

    /// Returns the name of the type if it is known.
    pub fn name(self) -> Option<&'static str> {
        match self {
            TypeByte::Standard(kind) => Some(kind.name()),
            TypeByte::Reserved(byte) => LATER_TYPES
                .iter()
                .find(|(known, _)| *known == byte)
                .map(|(_, name)| *name),
            TypeByte::Domain(_) => None,
        }
    }
}

/// Writes the name of the type, or the byte (`type_0xf0`) if there is none.
impl fmt::Display for TypeByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type_0x{:02x}", self.byte()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_type_bytes_map_to_each_other() {
        for kind in GrainType::ALL {
            assert_eq!(
                TypeByte::from_byte(kind as u8),
                Some(TypeByte::Standard(kind))
            );
            for name in kind.names() {
                assert_eq!(
                    TypeByte::from_name(name),
                    Some(TypeByte::Standard(kind)),
                    "{name}"
                );
            }
        }
        assert_eq!(TypeByte::from_name("skill").map(TypeByte::byte), Some(0x0B));
        assert_eq!(TypeByte::from_name("Belief"), None);
        assert_eq!(TypeByte::from_byte(0), None);
        assert_eq!(TypeByte::from_byte(0x0B), Some(TypeByte::Reserved(0x0B)));
        assert_eq!(TypeByte::from_byte(0xF0), Some(TypeByte::Domain(0xF0)));
    }

    #[test]
    fn a_type_byte_is_displayed_by_name_or_as_a_number() {
        let shown =
            [0x01, 0x0B, 0x0E, 0xF0].map(|byte| TypeByte::from_byte(byte).unwrap().to_string());
        assert_eq!(shown, ["belief", "skill", "type_0x0e", "type_0xf0"]);
    }
}
