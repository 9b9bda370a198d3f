//! The position of a lake: the versions of the tables whose changes a bundle has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::lake::Lake;

/// The versions of a lake's tables. Its text form is `GRAINS.STATE.ERASED`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LakePosition {
    /// The version of `grains`.
    pub grains: u64,
    /// The version of `state`.
    pub state: u64,
    /// The version of `erased`.
    pub erased: u64,
}

/// A text that isn't a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a version: give the `to` of the last export of changes, such as 12.4.1, or 0 for all \
     that the lake contains"
)]
pub struct InvalidPosition;

impl LakePosition {
    /// Returns the position of the handle `lake`.
    pub fn of(lake: &Lake) -> LakePosition {
        LakePosition {
            grains: lake.grains.version(),
            state: lake.state.version(),
            erased: lake.erased.version(),
        }
    }

    /// Returns true if this position includes everything that `other` does.
    pub fn includes(&self, other: &LakePosition) -> bool {
        self.grains >= other.grains && self.state >= other.state && self.erased >= other.erased
    }

    /// Returns the least position that includes both.
    pub fn max(self, other: LakePosition) -> LakePosition {
        LakePosition {
            grains: self.grains.max(other.grains),
            state: self.state.max(other.state),
            erased: self.erased.max(other.erased),
        }
    }
}

impl fmt::Display for LakePosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.grains, self.state, self.erased)
    }
}

impl FromStr for LakePosition {
    type Err = InvalidPosition;

    /// Parses `GRAINS.STATE.ERASED`. A single number is a version of `grains`, with all events and
    /// erasures: which of them are older isn't known.
    fn from_str(text: &str) -> Result<LakePosition, InvalidPosition> {
        let numbers: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([grains]) => Ok(LakePosition {
                grains: *grains,
                ..LakePosition::default()
            }),
            Ok([grains, state, erased]) => Ok(LakePosition {
                grains: *grains,
                state: *state,
                erased: *erased,
            }),
            _ => Err(InvalidPosition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = LakePosition {
            grains: 12,
            state: 4,
            erased: 1,
        };
        assert_eq!(position.to_string().parse(), Ok(position));
        let all_events = LakePosition {
            grains: 12,
            ..LakePosition::default()
        };
        assert_eq!("12".parse(), Ok(all_events));
        for text in ["", "1.2", "1.2.3.4", "-1", "a", "1..2"] {
            assert_eq!(text.parse::<LakePosition>(), Err(InvalidPosition), "{text}");
        }
    }

    #[test]
    fn a_position_includes_another_only_if_every_table_does() {
        let [low, high, mixed] = ["3.3.0", "4.3.0", "5.2.0"].map(|text| text.parse().unwrap());
        let (low, high, mixed): (LakePosition, LakePosition, LakePosition) = (low, high, mixed);
        assert!(high.includes(&low) && high.includes(&high) && !low.includes(&high));
        assert!(!high.includes(&mixed) && !mixed.includes(&high));
        assert_eq!(high.max(mixed).to_string(), "5.3.0");
    }
}
