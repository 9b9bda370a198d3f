//! The request of a data subject: people by their identifiers, sessions, consents, addresses.
//! Grains that expired by retention rules are requested in the same way.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::Grain;
use serde::{Deserialize, Serialize};

use super::variations::{Variation, Variations};
use crate::error::{Context, EngineError, Result};
use crate::policy::{ExpiredGrain, RetentionRules};
use crate::text::fold::Folding;

/// A person, described by identifiers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a cell of a file of people contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    /// One identifier, in which every character counts: ids like `auth0|5f7c` have bars.
    Id,
    /// Names, addresses or numbers, separated by bars, which none of them contains.
    Names,
    /// One session or run id.
    Session,
}

/// The columns of a file of people.
const COLUMNS: [(&str, CellKind); 12] = [
    ("user", CellKind::Id),
    ("user_id", CellKind::Id),
    ("subject", CellKind::Id),
    ("did", CellKind::Id),
    ("subject_did", CellKind::Id),
    ("name", CellKind::Names),
    ("email", CellKind::Names),
    ("phone", CellKind::Names),
    ("entity_id", CellKind::Id),
    ("session", CellKind::Session),
    ("session_id", CellKind::Session),
    ("run_id", CellKind::Session),
];

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
    /// identifier. Blank identifiers ([`is_blank_identifier`]) are left out.
    ///
    /// # Errors
    /// [`EngineError::Request`] if a line can't be parsed or has more cells than the header, there
    /// are too many people, or the first line has several cells and no known column.
    pub fn add_people(&mut self, csv: &str) -> Result<()> {
        let csv = csv.strip_prefix('\u{feff}').unwrap_or(csv);
        let mut lines = csv
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let Some((first, header)) = lines.clone().next() else {
            return Ok(());
        };
        let header = header_of(header).map_err(|what| fault(first + 1, what))?;
        if header.is_some() {
            lines.next();
        }
        for (number, line) in lines {
            let person =
                parse_person(line, header.as_ref()).map_err(|what| fault(number + 1, what))?;
            if self.people.len() == PEOPLE {
                return Err(EngineError::Request(format!(
                    "more than {PEOPLE} people in one request"
                )));
            }
            if person != Person::default() {
                self.people.push(person);
            }
        }
        Ok(())
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

/// The separator, and what the cells of each column contain; `None` for unknown columns.
type Header = (char, Vec<Option<CellKind>>);

/// Returns what a column contains that is named `name`, in any case, also with blanks or dashes for
/// the underscore, or none.
fn column_of(name: &str) -> Option<CellKind> {
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(|letter| letter.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let name = letters(name);
    let mut columns = COLUMNS.iter();
    let found = columns.find(|(column, _)| letters(column) == name);
    found.map(|(_, kind)| *kind)
}

/// Parses the first line; `None` if it isn't a header but a person.
fn header_of(line: &str) -> Result<Option<Header>, &'static str> {
    let mut most = 0;
    for separator in [',', ';', '\t'] {
        let cells = cells(line, separator)?;
        let columns: Vec<_> = cells.iter().map(|cell| column_of(cell)).collect();
        if columns.iter().any(Option::is_some) {
            return Ok(Some((separator, columns)));
        }
        most = most.max(cells.len());
    }
    match most {
        0 | 1 => Ok(None),
        _ => Err(
            "several columns, and none of them is user, subject, did, name, email, phone, \
             entity_id, session or run_id; an identifier with a comma must be quoted",
        ),
    }
}

/// Returns the single identifier of a line, which may be quoted.
fn alone(line: &str) -> Result<String, &'static str> {
    let line = line.trim();
    match line.starts_with('"') {
        true => cells(line, '\n').map(|cells| cells.concat()),
        false => Ok(line.to_owned()),
    }
}

/// Parses a line by its header, or as a single identifier.
fn parse_person(line: &str, header: Option<&Header>) -> Result<Person, &'static str> {
    match header {
        Some((separator, columns)) => person_of(&cells(line, *separator)?, columns),
        None => {
            let identifier = Some(alone(line)?).filter(|name| !is_blank_identifier(name));
            Ok(Person {
                identifiers: identifier.into_iter().collect(),
                ..Person::default()
            })
        }
    }
}

/// Returns the person of a line with the `cells`.
///
/// # Errors
/// A message if there are more than `columns`: of a name with a comma, only a part would count.
fn person_of(cells: &[String], columns: &[Option<CellKind>]) -> Result<Person, &'static str> {
    let surplus = cells.get(columns.len()..).unwrap_or_default();
    if surplus.iter().any(|cell| !cell.trim().is_empty()) {
        return Err(
            "it has more cells than the header; an identifier with a separator must be quoted",
        );
    }
    let mut person = Person::default();
    for (cell, kind) in cells.iter().zip(columns) {
        let values = match kind {
            Some(CellKind::Names) => cell.split('|').collect(),
            _ => vec![cell.as_str()],
        };
        let values = values.into_iter().map(str::trim);
        let values = values.filter(|value| !is_blank_identifier(value));
        let values = values.map(str::to_owned);
        match kind {
            Some(CellKind::Session) => person.sessions.extend(values),
            Some(CellKind::Id | CellKind::Names) => person.identifiers.extend(values),
            None => {}
        }
    }
    Ok(person)
}

fn fault(line: usize, what: impl Into<String>) -> EngineError {
    EngineError::Request(format!("line {line}: {}", what.into()))
}

/// Splits a line of CSV into cells; a quoted cell may contain separators and doubled quotes.
fn cells(line: &str, separator: char) -> Result<Vec<String>, &'static str> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = cells.last_mut().ok_or("no cell")?;
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                last.push('"');
            }
            '"' if quoted || last.is_empty() => quoted = !quoted,
            letter if letter == separator && !quoted => cells.push(String::new()),
            other => last.push(other),
        }
    }
    if quoted {
        Err("a quote isn't closed")
    } else {
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_people_is_read_by_its_header() {
        let mut request = SubjectRequest::default();
        request
            .add_people("user,name,session\nu-1,\"Smith, Anna|Anna S.\",s-1\n\nu-2,,\n")
            .unwrap();
        assert_eq!(request.people.len(), 2);
        let names: Vec<_> = request.people[0]
            .identifiers
            .iter()
            .map(String::as_str)
            .collect();
        assert_eq!(names, ["Anna S.", "Smith, Anna", "u-1"]);
        assert!(request.people[0].sessions.contains("s-1"));
    }

    #[test]
    fn without_a_header_every_line_is_an_identifier() {
        let mut request = SubjectRequest::default();
        request
            .add_people("alice\nSmith, Anna\n\"Doe, \"\"Jo\"\"\"\n")
            .unwrap();
        assert_eq!(request.people.len(), 3);
        assert!(request.people[1].identifiers.contains("Smith, Anna"));
        assert!(request.people[2].identifiers.contains("Doe, \"Jo\""));
    }

    #[test]
    fn an_id_with_a_bar_is_one_identifier() {
        let mut request = SubjectRequest::default();
        let csv = "user,session\nauth0|5f7c8ec7,a|b\n";
        request.add_people(csv).unwrap();
        let [person] = request.people.as_slice() else {
            panic!("{:?}", request.people)
        };
        assert_eq!(
            person.identifiers,
            BTreeSet::from(["auth0|5f7c8ec7".to_owned()])
        );
        assert_eq!(person.sessions, BTreeSet::from(["a|b".to_owned()]));
    }

    #[test]
    fn a_line_with_more_cells_than_the_header_is_refused() {
        let read = |csv: &str| SubjectRequest::default().add_people(csv);
        for csv in ["name\nSmith, Anna\n", "user,name\nu-1, \"Smith, Anna\"\n"] {
            let error = read(csv).unwrap_err().to_string();
            assert!(error.contains("line 2: it has more cells"), "{error}");
        }
        assert!(read("user,name\nu-1,Anna,,\nu-2\n").is_ok());
    }

    #[test]
    fn a_header_is_recognised_after_a_byte_order_mark_with_other_separators_and_extra_columns() {
        for csv in [
            "\u{feff}user,name\nu-1,Anna\n",
            "user;name\nu-1;Anna\n",
            "User\tName\nu-1\tAnna\n",
            "userId,E-Mail\nu-1,Anna\n",
            "User ID;name\nu-1;Anna\n",
            "ticket,user,name,note\nT-9,u-1,Anna,\"call, please\"\n",
        ] {
            let mut request = SubjectRequest::default();
            request.add_people(csv).unwrap();
            let found: Vec<_> = request
                .people
                .iter()
                .map(|person| person.identifiers.clone())
                .collect();
            assert_eq!(
                found,
                [BTreeSet::from(["Anna".to_owned(), "u-1".to_owned()])],
                "{csv}"
            );
        }
        let error = SubjectRequest::default()
            .add_people("login;full name\nu-1;Anna\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 1"), "{error}");
    }

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
    fn a_damaged_line_is_named() {
        let error = SubjectRequest::default()
            .add_people("user\n\"u-1\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2"), "{error}");
        let error = SubjectRequest::default()
            .add_addresses("abc")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
