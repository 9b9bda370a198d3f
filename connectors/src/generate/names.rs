//! The towns of the cooperative, and the names of the people there.

use std::sync::LazyLock;

use super::personal_data::Country;
use super::script::Language;

/// A place where the cooperative has offices.
#[derive(Debug)]
pub(super) struct Town {
    /// The name.
    pub(super) name: &'static str,
    /// The name in namespaces and DIDs.
    pub(super) slug: &'static str,
    /// The country, which determines names and identifiers of the people.
    pub(super) country: Country,
    /// The language of the conversations.
    pub(super) language: Language,
}

const fn town(
    name: &'static str,
    slug: &'static str,
    country: Country,
    language: Language,
) -> Town {
    Town {
        name,
        slug,
        country,
        language,
    }
}

/// The towns. Their number has no divisor in common with that of the departments, so every town has
/// every department.
pub(super) const TOWNS: [Town; 18] = [
    town("Leeds", "leeds", Country::GreatBritain, Language::English),
    town("Leipzig", "leipzig", Country::Germany, Language::German),
    town("Lyon", "lyon", Country::France, Language::French),
    town("Sevilla", "sevilla", Country::Spain, Language::Spanish),
    town("Denver", "denver", Country::UnitedStates, Language::English),
    town("Hamburg", "hamburg", Country::Germany, Language::German),
    town("Nantes", "nantes", Country::France, Language::French),
    town("Valencia", "valencia", Country::Spain, Language::Spanish),
    town(
        "Utrecht",
        "utrecht",
        Country::Netherlands,
        Language::English,
    ),
    town("Bologna", "bologna", Country::Italy, Language::English),
    town("Toronto", "toronto", Country::Canada, Language::English),
    town("Malmö", "malmo", Country::Sweden, Language::English),
    town("Gdańsk", "gdansk", Country::Poland, Language::English),
    town("Pune", "pune", Country::India, Language::English),
    town("São Paulo", "sao-paulo", Country::Brazil, Language::English),
    town("Shenzhen", "shenzhen", Country::China, Language::English),
    town(
        "Bristol",
        "bristol",
        Country::GreatBritain,
        Language::English,
    ),
    town("Boston", "boston", Country::UnitedStates, Language::English),
];

/// First and last names of a country.
type Names = (Vec<&'static str>, Vec<&'static str>);

/// Returns the names of a country.
fn names(country: Country) -> &'static Names {
    static NAMES: LazyLock<Vec<Names>> = LazyLock::new(|| {
        let lines = include_str!("scripts/names.txt").lines();
        let words = |words: &'static str| words.split(' ').collect();
        lines
            .filter_map(|line| {
                let mut parts = line.split(" | ").skip(1);
                Some((words(parts.next()?), words(parts.next()?)))
            })
            .collect()
    });
    &NAMES[country as usize]
}

/// Returns the first, last and full name of the person `number` of a country. After all
/// combinations people have a second last name.
pub(super) fn name(country: Country, number: usize) -> (&'static str, &'static str, String) {
    let (first, last) = names(country);
    let round = number / first.len();
    let place = number % first.len();
    let (first, own) = (first[place], last[(round + place) % last.len()]);
    let full = match round / last.len() {
        0 => format!("{first} {own}"),
        again => format!("{first} {own}-{}", last[(place + again) % last.len()]),
    };
    (first, own, full)
}

/// Returns a last name of a country.
pub(super) fn last_name(country: Country, number: usize) -> &'static str {
    let (_, last) = names(country);
    last[number % last.len()]
}

/// Letters outside of ASCII, and how they are written in it.
const FOLDED: [(&str, &str); 13] = [
    ("áãåą", "a"),
    ("ä", "ae"),
    ("ç", "c"),
    ("éèë", "e"),
    ("íı", "i"),
    ("ł", "l"),
    ("ñń", "n"),
    ("óòô", "o"),
    ("ö", "oe"),
    ("ß", "ss"),
    ("ş", "s"),
    ("ü", "ue"),
    ("ż", "z"),
];

/// Returns the letters of a name in ASCII and lower case.
pub(super) fn ascii(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii_lowercase() {
            out.push(letter);
        } else if let Some((_, folded)) = FOLDED.iter().find(|(from, _)| from.contains(letter)) {
            out.push_str(folded);
        }
    }
    out
}
