//! Litigation holds that are placed on grains from outside, and lifted (§23.2, Appendix A.2).
//!
//! Each hold has a name. Placing it on a grain is an event `held`, lifting it an event `released`:
//!
//! | event | value |
//! |---|---|
//! | `held` | the name; if the hold ends by itself, a blank and the instant of its end (RFC 3339) |
//! | `released` | the name, or `stated` for the hold that the grain itself states |
//!
//! Of the events of one hold on one grain the last counts; at the same instant `held`. A value that
//! can't be read protects: an end that is no instant is no end, and a `held` without a name is a
//! hold called `unknown`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::LifecycleEvent;
use crate::address::ContentAddress;
use crate::error::{ErrorCode, GrainError};
use crate::message::time::Timestamp;

/// Maximal length of a name in characters. Addresses are longer, so no name is one.
const MAX_NAME: usize = 60;

/// The name under which the hold that a grain itself states is lifted.
const STATED: &str = "stated";

/// The name of a hold whose event has none.
const UNKNOWN: &str = "unknown";

/// The name of a hold: 1 to 60 ASCII letters, digits, `.`, `_`, `:`, `/` and `-`. Names are stored
/// in the clear and in the audit log, so they must not contain personal data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldName(Box<str>);

impl HoldName {
    /// Returns the name for the hold that a grain itself states.
    pub fn stated() -> HoldName {
        HoldName(STATED.into())
    }

    /// Returns true for the hold that a grain itself states. It can be lifted, but not placed.
    pub fn is_stated(&self) -> bool {
        &*self.0 == STATED
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HoldName {
    type Err = GrainError;

    fn from_str(text: &str) -> Result<HoldName, GrainError> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
        match (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_valid) {
            true => Ok(HoldName(text.into())),
            false => {
                let message = format!(
                    "the name of a hold must be 1 to {MAX_NAME} letters, digits, `.`, `_`, `:`, \
                     `/` or `-`"
                );
                Err(GrainError::new(ErrorCode::Schema, message).field("hold"))
            }
        }
    }
}

impl fmt::Display for HoldName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The terms of a placed hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldTerms {
    /// Its name.
    pub name: HoldName,
    /// The end in microseconds since 1970; `None` for a hold that lasts until it is lifted.
    pub until: Option<i64>,
}

impl HoldTerms {
    /// Returns the value of the event `held`.
    pub fn to_value(&self) -> String {
        match self.until {
            None => self.name.to_string(),
            Some(until) => format!("{} {}", self.name, Timestamp::from_micros(until)),
        }
    }
}

/// What the holds on a grain mean for policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HoldStatus {
    /// The latest end of all placed holds in microseconds since 1970; `i64::MAX` for none.
    held_until: Option<i64>,
    /// Whether the hold that the grain itself states was lifted.
    pub stated_is_lifted: bool,
}

impl HoldStatus {
    /// Returns true if a placed hold is in force at `now`, in microseconds since 1970.
    pub fn is_placed(self, now: i64) -> bool {
        self.held_until.is_some_and(|until| now < until)
    }
}

/// The last event of a hold on a grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HoldMark {
    Lifted,
    /// In force until this instant; `i64::MAX` for no end.
    Until(i64),
}

/// One hold on one grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldEntry<'i> {
    /// The grain.
    pub address: ContentAddress,
    /// The name of the hold.
    pub name: &'i str,
    /// The instant of its last event, in microseconds since 1970.
    pub at: i64,
    /// The end in microseconds since 1970, if it has one.
    pub until: Option<i64>,
    /// Whether it was lifted.
    pub is_lifted: bool,
}

impl HoldEntry<'_> {
    /// Returns true if the hold is in force at `now`, in microseconds since 1970.
    pub fn is_in_force(&self, now: i64) -> bool {
        !self.is_lifted && self.until.is_none_or(|until| now < until)
    }
}

/// The holds on all grains: the fold of the events `held` and `released`. Needs about 100 bytes for
/// each grain of each hold.
#[derive(Debug, Clone, Default)]
pub struct HoldIndex {
    names: Vec<Box<str>>,
    numbers: BTreeMap<Box<str>, u32>,
    /// The last event by grain and number of the name.
    last: BTreeMap<(ContentAddress, u32), (i64, HoldMark)>,
}

impl HoldIndex {
    /// Adds an event at `at`, in microseconds since 1970. Events may be added in any order and more
    /// than once; those of other kinds are ignored.
    pub fn add(
        &mut self,
        address: ContentAddress,
        event: LifecycleEvent,
        value: Option<&str>,
        at: i64,
    ) {
        let (name, mark) = match (event, value) {
            (LifecycleEvent::Held, Some(value)) => {
                let (name, until) = value.split_once(' ').unwrap_or((value, ""));
                let until = Timestamp::parse(until).map_or(i64::MAX, Timestamp::micros);
                (name, HoldMark::Until(until))
            }
            (LifecycleEvent::Held, None) => (UNKNOWN, HoldMark::Until(i64::MAX)),
            (LifecycleEvent::Released, Some(name)) => (name, HoldMark::Lifted),
            _ => return,
        };
        let number = self.number(name);
        let last = self.last.entry((address, number)).or_insert((at, mark));
        *last = (*last).max((at, mark));
    }

    /// Returns the number of the hold `name`, which is new if it isn't known.
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// Returns true if there is no event.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Returns every hold on every grain, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = HoldEntry<'_>> {
        self.last.iter().map(|(key, last)| self.entry(*key, *last))
    }

    /// Returns the holds on `address`.
    pub fn of(&self, address: &ContentAddress) -> impl Iterator<Item = HoldEntry<'_>> {
        let range = (*address, 0)..=(*address, u32::MAX);
        let entries = self.last.range(range);
        entries.map(|(key, last)| self.entry(*key, *last))
    }

    fn entry(
        &self,
        (address, number): (ContentAddress, u32),
        (at, mark): (i64, HoldMark),
    ) -> HoldEntry<'_> {
        let until = match mark {
            HoldMark::Until(until) if until < i64::MAX => Some(until),
            _ => None,
        };
        HoldEntry {
            address,
            name: self.names.get(number as usize).map_or(UNKNOWN, |name| name),
            at,
            until,
            is_lifted: mark == HoldMark::Lifted,
        }
    }

    /// Returns the hold `name` on `address`.
    pub fn find(&self, address: &ContentAddress, name: &HoldName) -> Option<HoldEntry<'_>> {
        let key = (*address, *self.numbers.get(name.as_str())?);
        self.last.get(&key).map(|last| self.entry(key, *last))
    }

    /// Returns the first placed hold in force on `address` at `now`, in microseconds since 1970.
    pub fn in_force(&self, address: &ContentAddress, now: i64) -> Option<HoldEntry<'_>> {
        self.of(address).find(|entry| entry.is_in_force(now))
    }

    /// Returns what the holds on `address` mean for policy.
    pub fn status(&self, address: &ContentAddress) -> HoldStatus {
        let mut status = HoldStatus::default();
        for entry in self.of(address) {
            if entry.is_lifted {
                status.stated_is_lifted |= entry.name == STATED;
            } else {
                let until = entry.until.unwrap_or(i64::MAX);
                status.held_until = status.held_until.max(Some(until));
            }
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn terms(name: &str, until: Option<i64>) -> String {
        let name = name.parse().unwrap();
        HoldTerms { name, until }.to_value()
    }

    #[test]
    fn a_name_is_short_and_has_no_blanks() {
        for name in ["case-12", "ACME/2026:4", "a"] {
            assert_eq!(name.parse::<HoldName>().unwrap().as_str(), name);
        }
        let address = ContentAddress::of(b"grain").to_string();
        for name in ["", "case 12", "Fall-Ä", "a\nb", &address] {
            assert!(name.parse::<HoldName>().is_err(), "{name}");
        }
    }

    #[test]
    fn the_last_event_of_a_hold_counts_in_any_order() {
        let grain = ContentAddress::of(b"grain");
        let until = terms("case", Some(50 * SECOND));
        let events = [
            (LifecycleEvent::Held, terms("case", None), 1),
            (LifecycleEvent::Released, "case".to_owned(), 2),
            (LifecycleEvent::Held, until, 3),
            (LifecycleEvent::Held, terms("other", None), 1),
            (LifecycleEvent::Released, "other".to_owned(), 2),
        ];
        for rotation in 0..events.len() {
            let mut index = HoldIndex::default();
            for number in 0..events.len() {
                let (event, value, at) = &events[(number + rotation) % events.len()];
                index.add(grain, *event, Some(value), *at);
            }
            let held = index.in_force(&grain, 49 * SECOND).unwrap();
            assert_eq!((held.name, held.until), ("case", Some(50 * SECOND)));
            assert_eq!(index.in_force(&grain, 50 * SECOND), None);
            assert!(index.status(&grain).is_placed(49 * SECOND));
            assert!(!index.status(&grain).is_placed(50 * SECOND));
        }
    }

    #[test]
    fn doubt_keeps_a_grain_under_hold() {
        let grain = ContentAddress::of(b"grain");
        let mut index = HoldIndex::default();
        index.add(grain, LifecycleEvent::Held, Some("case 2026-13-01"), 5);
        index.add(grain, LifecycleEvent::Released, Some("case"), 5);
        assert_eq!(index.in_force(&grain, i64::MAX - 1).unwrap().until, None);
        let other = ContentAddress::of(b"other");
        index.add(other, LifecycleEvent::Held, None, 5);
        index.add(other, LifecycleEvent::Released, None, 6);
        assert!(index.status(&other).is_placed(7));
        assert!(!index.status(&other).stated_is_lifted);
    }

    #[test]
    fn lifting_the_stated_hold_leaves_placed_ones_in_force() {
        let grain = ContentAddress::of(b"grain");
        let mut index = HoldIndex::default();
        index.add(grain, LifecycleEvent::Held, Some("case"), 1);
        index.add(grain, LifecycleEvent::Released, Some("stated"), 2);
        let status = index.status(&grain);
        assert!(status.stated_is_lifted && status.is_placed(3));
        assert!(index.find(&grain, &HoldName::stated()).unwrap().is_lifted);
        assert_eq!(
            index.status(&ContentAddress::of(b"x")),
            HoldStatus::default()
        );
    }
}
