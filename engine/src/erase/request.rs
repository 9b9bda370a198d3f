//! The request of a data subject: people by their identifiers, sessions, consents, addresses.
//! Grains that expired by retention rules are requested in the same way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::Grain;
use serde::{Deserialize, Serialize};

use super::people_file::{UnsearchedCells, each_person};
use super::variations::{Variation, Variations};
use crate::error::{Context, EngineError, Result};
use crate::policy::{ExpiredGrain, RetentionRules};
use crate::text::fold::Folding;

/// A person, described by identifiers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Person {
    /// User ids, names, DIDs, e-mail addresses: any text by which a grain may identify the person.
    pub identifiers: BTreeSet<String>,
    /// Session and run ids.
    pub sessions: BTreeSet<String>,
}

/// Grains that are selected besides direct matches; otherwise they are only reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionOptions {
    /// Grains whose text mentions the person.
    pub text_mentions: bool,
    /// Grains that were derived from selected ones, transitively.
    pub derived: bool,
    /// Grains that refer to selected ones in another way.
    pub related: bool,
    /// Grains that name the person only by last name and initial.
    pub initials: bool,
}

/// A request of a data subject. Disclosure and erasure use the same request and find the same
/// grains.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SubjectRequest {
    /// The people.
    pub people: Vec<Person>,
    /// Consents, which select every grain that is based on them (§8.10).
    #[serde(with = "crate::erase::address_text::list")]
    pub consents: Vec<ContentAddress>,
    /// Whether to select grains whose policy is `consent_cascade` and whose consent was withdrawn
    /// (§23.2).
    pub withdrawn: bool,
    /// Addresses of single grains.
    #[serde(with = "crate::erase::address_text::list")]
    pub addresses: Vec<ContentAddress>,
    /// What is selected besides direct matches.
    pub extent: SelectionOptions,
    /// How spellings are compared.
    pub folding: Folding,
    /// The classes of variation to search for. With exact spelling, only the encodings are used.
    pub variations: Variations,
    /// Grains that expired by retention rules.
    pub retention: Option<RetentionSelection>,
    /// Approvals that were given, for grains whose `retention_policy.deletion_requires` demands
    /// them.
    pub approvals: Vec<String>,
}

/// The grains that expired by retention rules, in a span of creation time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionSelection {
    /// The rules.
    pub rules: RetentionRules,
    /// The instant at which they are evaluated, in milliseconds since 1970.
    pub now: i64,
    /// The first creation second of the span.
    pub first: u32,
    /// The last creation second of the span.
    pub last: u32,
}

impl RetentionSelection {
    /// Returns the span of creation seconds.
    pub(crate) fn seconds(&self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    /// Returns what the rules state about `grain`, or `None` if it isn't selected.
    pub(super) fn expired(&self, grain: &Grain<'_>) -> Option<ExpiredGrain<'_>> {
        let second = grain.header().created_at_seconds;
        let is_within = self.seconds().contains(&second);
        self.rules.expired(grain, self.now).filter(|_| is_within)
    }
}

/// Maximal number of people in one request.
const PEOPLE: usize = 1_000_000;

/// Returns whether `text` is empty when it is folded, so that it identifies nobody.
pub fn is_blank_identifier(text: &str) -> bool {
    Folding::Spellings.folded(text).is_empty()
}

impl SubjectRequest {
    /// Returns a request of one person who is described by `identifiers`.
    pub fn of_person<I: Into<String>>(identifiers: impl IntoIterator<Item = I>) -> SubjectRequest {
        let person = Person {
            identifiers: identifiers.into_iter().map(Into::into).collect(),
            ..Person::default()
        };
        SubjectRequest {
            people: vec![person],
            ..SubjectRequest::default()
        }
    }

    /// Returns the classes of variation that are searched for, depending on the folding.
    pub fn searched(&self) -> Variations {
        match self.folding {
            Folding::Spellings => self.variations,
            Folding::Exact => self.variations.only(Variations::ENCODINGS),
        }
    }

    /// Returns whether it selects nothing.
    pub fn is_empty(&self) -> bool {
        self.people.is_empty()
            && self.consents.is_empty()
            && self.addresses.is_empty()
            && self.retention.is_none()
            && !self.withdrawn
    }

    /// Adds the people of a CSV file, one per line. The header names the columns (`user`,
    /// `subject`, `did`, `name`, `email`, `phone`, `entity_id`, `session`, `run_id`), separated by
    /// commas, semicolons or tabs; other columns are ignored. A cell of `name`, `email` or `phone`
    /// may contain several values, separated by `|`. Without a header, every line is one
    /// identifier. Blank identifiers ([`is_blank_identifier`]) are left out. Returns what isn't
    /// searched for: ignored columns, and lines with nothing else.
    ///
    /// # Errors
    /// [`EngineError::Request`] if a line can't be parsed or has more cells than the header, there
    /// are too many people, or the first line has several cells, or the title of a column, and no
    /// known column.
    pub fn add_people(&mut self, csv: &str) -> Result<UnsearchedCells> {
        each_person(csv, |person| {
            if self.people.len() == PEOPLE {
                return Err(EngineError::Request(format!(
                    "more than {PEOPLE} people in one request"
                )));
            }
            self.people.push(person);
            Ok(())
        })
    }

    /// Adds the addresses of a file, one per line.
    ///
    /// # Errors
    /// [`EngineError::Request`] if a line isn't an address.
    pub fn add_addresses(&mut self, text: &str) -> Result<()> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let address = line
                .trim()
                .parse()
                .map_err(|error| fault(number + 1, format!("{error}")))?;
            self.addresses.push(address);
        }
        Ok(())
    }

    /// Returns the request with each person once, in the order of the [canonical
    /// text](SubjectRequest::canonical): equal requests number their people alike.
    pub(super) fn in_order(&self) -> Cow<'_, SubjectRequest> {
        if self.people.is_sorted_by(|left, right| left < right) {
            return Cow::Borrowed(self);
        }
        let mut request = self.clone();
        request.people.sort_unstable();
        request.people.dedup();
        Cow::Owned(request)
    }

    /// Returns a canonical text of the request: equal requests have equal texts. It contains
    /// personal data; only its keyed hash may be stored.
    ///
    /// # Errors
    /// None that a request can cause.
    pub fn canonical(&self) -> Result<String> {
        let people: BTreeSet<_> = self
            .people
            .iter()
            .map(|person| (&person.identifiers, &person.sessions))
            .collect();
        let consents: BTreeSet<_> = self.consents.iter().map(ToString::to_string).collect();
        let addresses: BTreeSet<_> = self.addresses.iter().map(ToString::to_string).collect();
        let SelectionOptions {
            text_mentions,
            derived,
            related,
            initials,
        } = self.extent;
        let exact = self.folding == Folding::Exact;
        let whole = (
            people,
            consents,
            addresses,
            self.withdrawn,
            (text_mentions, derived, related, exact),
        );
        let mut whole = serde_json::to_string(&whole).file("can't write", "the request")?;
        if let Some(retention) = &self.retention {
            let retention = serde_json::to_string(retention).file("can't write", "the request")?;
            whole.push_str(&format!(" retention={retention}"));
        }
        // Requests with default settings keep the text of earlier versions, which wrote journals
        // for it.
        if self.variations == Variations::ALL && !initials {
            return Ok(whole);
        }
        let names: Vec<_> = self.variations.iter().map(Variation::name).collect();
        Ok(format!(
            "{whole} initials={initials} variations={}",
            names.join(",")
        ))
    }
}

/// Returns the error of the line `line` of a file.
pub(super) fn fault(line: usize, what: impl Into<String>) -> EngineError {
    EngineError::Request(format!("line {line}: {}", what.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_may_follow_a_byte_order_mark() {
        let mut request = SubjectRequest::default();
        let address = "ab".repeat(32);
        request
            .add_addresses(&format!("\u{feff}{address}\r\n"))
            .unwrap();
        let found: Vec<_> = request.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(found, [address]);
    }

    #[test]
    fn a_damaged_line_of_addresses_is_named() {
        let error = SubjectRequest::default()
            .add_addresses("abc")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
