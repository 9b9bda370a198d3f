//! The file of people of `--subjects`: CSV with a header, or one identifier per line.

use super::request::{Person, fault, is_blank_identifier};
use crate::error::Result;

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

/// What a file of people has that isn't searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsearchedCells {
    /// Titles of the columns that are ignored, in order.
    pub columns: Vec<String>,
    /// Number of lines that have values in such columns only, so that they identify nobody.
    pub lines: usize,
    /// The first of these lines, counted from 1; 0 if there is none.
    pub first_line: usize,
}

/// Calls `add` with each person of the file `csv`. Lines that identify nobody are left out; returns
/// what is in them, and the columns that are ignored.
///
/// # Errors
/// [`EngineError::Request`](crate::error::EngineError::Request) if a line can't be parsed, or the
/// first one seems to be a header without a known column; errors of `add`.
pub(super) fn each_person(
    csv: &str,
    mut add: impl FnMut(Person) -> Result<()>,
) -> Result<UnsearchedCells> {
    let csv = csv.strip_prefix('\u{feff}').unwrap_or(csv);
    let mut lines = lines(csv)
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let mut unsearched = UnsearchedCells::default();
    let Some((first, header)) = lines.clone().next() else {
        return Ok(unsearched);
    };
    let header = header_of(header).map_err(|what| fault(first + 1, what))?;
    if header.is_some() {
        lines.next();
    }
    for (number, line) in lines {
        let person = parse_person(line, header.as_ref()).map_err(|what| fault(number + 1, what))?;
        if person != Person::default() {
            add(person)?;
        } else if header.as_ref().is_some_and(|it| it.has_values(line)) {
            unsearched.lines += 1;
            if unsearched.first_line == 0 {
                unsearched.first_line = number + 1;
            }
        }
    }
    unsearched.columns = header.map(|it| it.ignored).unwrap_or_default();
    Ok(unsearched)
}

/// Returns the lines of a file. They end with LF or CR LF, or all with CR alone, as some
/// spreadsheets write them.
fn lines(csv: &str) -> impl Iterator<Item = &str> + Clone {
    let end = if csv.contains('\n') { '\n' } else { '\r' };
    csv.split(end)
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
}

/// The first line of a file with several columns, or with a known one.
struct Header {
    separator: char,
    /// What the cells of each column contain; `None` for unknown columns.
    columns: Vec<Option<CellKind>>,
    /// The titles of the unknown columns.
    ignored: Vec<String>,
}

impl Header {
    fn new(separator: char, titles: &[String], columns: Vec<Option<CellKind>>) -> Header {
        let unknown = titles.iter().zip(&columns);
        let unknown = unknown.filter(|(title, kind)| kind.is_none() && !title.trim().is_empty());
        Header {
            separator,
            ignored: unknown.map(|(title, _)| title.trim().to_owned()).collect(),
            columns,
        }
    }

    /// Returns whether a cell of `line` isn't blank.
    fn has_values(&self, line: &str) -> bool {
        let cells = cells(line, self.separator).unwrap_or_default();
        cells.iter().any(|cell| !is_blank_identifier(cell))
    }
}

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

/// Last words of titles of columns.
const TITLE_ENDS: [&str; 10] = [
    "id", "ids", "name", "names", "email", "emails", "phone", "number", "login", "did",
];

/// Titles of one word. Others with one of [`TITLE_ENDS`] are names of columns of ours.
const TITLES: [&str; 8] = [
    "id",
    "ids",
    "username",
    "usernames",
    "fullname",
    "identifier",
    "login",
    "customer",
];

/// Returns whether `line` is rather the title of a column, such as `customer_id`, than a person.
fn is_title(line: &str) -> bool {
    let is_separator = |letter: char| matches!(letter, ' ' | '_' | '-');
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in line.trim().chars() {
        if !letter.is_alphabetic() && !is_separator(letter) {
            return false;
        }
        if is_separator(letter) || letter.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !is_separator(letter)) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    match words.as_slice() {
        [word] => TITLES.contains(&&**word),
        [.., word] => TITLE_ENDS.contains(&&**word),
        [] => false,
    }
}

/// Parses the first line; `None` if it isn't a header but a person.
fn header_of(line: &str) -> Result<Option<Header>, &'static str> {
    let mut most = 0;
    for separator in [',', ';', '\t'] {
        let cells = cells(line, separator)?;
        let columns: Vec<_> = cells.iter().map(|cell| column_of(cell)).collect();
        if columns.iter().any(Option::is_some) {
            return Ok(Some(Header::new(separator, &cells, columns)));
        }
        most = most.max(cells.len());
    }
    match most {
        0 | 1 if is_title(line) => Err(
            "it seems to be the title of a column, but none of user, subject, did, name, email, \
             phone, entity_id, session or run_id; without a header it would be a person",
        ),
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
        Some(header) => person_of(&cells(line, header.separator)?, &header.columns),
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
    use std::collections::BTreeSet;

    use crate::erase::SubjectRequest;

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
    fn what_is_not_searched_for_is_counted() {
        let unsearched = |csv: &str| SubjectRequest::default().add_people(csv).unwrap();
        let csv = "Kundennummer;Name;Ort;\n4711;Ada Okafor;Kiel;\n4712;;;\n;;;\n4713;;Ulm;\n";
        let found = unsearched(csv);
        assert_eq!(found.columns, ["Kundennummer", "Ort"]);
        assert_eq!((found.lines, found.first_line), (2, 3));
        for csv in ["user,name\nu-1,\n,\n", "u-1\n\n\"\"\n", ""] {
            assert_eq!(unsearched(csv), Default::default(), "{csv:?}");
        }
    }

    #[test]
    fn lines_may_end_with_cr_alone() {
        let mut request = SubjectRequest::default();
        request.add_people("user,name\ru-1,Anna\ru-2,\r").unwrap();
        assert_eq!(request.people.len(), 2);
        assert!(request.people[1].identifiers.contains("u-2"));
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
    fn a_title_of_an_unknown_column_is_no_person() {
        let read = |csv: &str| SubjectRequest::default().add_people(csv);
        for title in [
            "customer_id",
            "customerId",
            "Customer ID",
            "id",
            "login",
            "Full Name",
        ] {
            let error = read(&format!("{title}\nu-1\n")).unwrap_err().to_string();
            assert!(error.contains("title of a column"), "{title}: {error}");
        }
        for person in [
            "David",
            "u-1",
            "McDavid",
            "ada-id-7",
            "Ada Okafor",
            "budi@x.co.id",
        ] {
            assert!(read(&format!("{person}\nu-1\n")).is_ok(), "{person}");
        }
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
    fn a_damaged_line_is_named() {
        let error = SubjectRequest::default()
            .add_people("user\n\"u-1\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
