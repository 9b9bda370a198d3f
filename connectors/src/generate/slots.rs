//! The values of slots.

use std::fmt::Write;

use super::calendar::{DAYS, MONTHS, push_birth, push_date, push_past_date};
use super::draws::Draws;
use super::names::{ascii, last_name, name};
use super::national_ids::national_id;
use super::personal_data::{self, Country, Found};
use super::script::Language;
use super::text::{TextContext, TextWriter};

/// Syllables of invented names of products and firms.
const SYLLABLES: [&str; 32] = [
    "an", "bo", "cor", "del", "en", "fi", "gra", "hu", "in", "ju", "ka", "lo", "mi", "nor", "os",
    "pra", "qui", "ro", "sta", "tre", "ul", "ver", "wi", "xen", "yo", "zem", "al", "bri", "che",
    "dor", "em", "flu",
];

/// Number of invented names.
const BRANDS: usize = 30_000;

/// Milliseconds of a week, after which people may have moved.
const WEEK_MS: i64 = 7 * 86_400_000;

impl TextWriter {
    /// Appends the value number `slot.1` of the slot `slot.0`. Returns the personal data in it.
    pub(super) fn fill(
        &mut self,
        context: &TextContext<'_>,
        draws: &mut Draws,
        slot: (&'static str, usize),
        fresh: bool,
        out: &mut String,
    ) -> Option<Found> {
        let (base, number) = slot;
        let person = context.person;
        match base {
            "name" => out.push_str(&person.name),
            "first" => out.push_str(person.first),
            "town" => out.push_str(person.town.name),
            "more" => self.sentences(context, draws, out),
            "rows" => self.rows(context, draws, out),
            "street" => {
                let mut own = Draws::of(version(context, number + 1), base);
                self.list(context, &mut own, (base, 1), true, out);
            }
            _ => return self.fill_further(context, draws, slot, fresh, out),
        }
        None
    }

    /// Appends a value of a person, a number or the like, or one of a list.
    fn fill_further(
        &mut self,
        context: &TextContext<'_>,
        draws: &mut Draws,
        slot: (&'static str, usize),
        fresh: bool,
        out: &mut String,
    ) -> Option<Found> {
        let (base, number) = slot;
        match base {
            "ip" => return Some(personal_data::ip_address(out, draws)),
            "credential" => return Some(personal_data::credential(out, draws)),
            _ => {}
        }
        let own = &mut Draws::of(version(context, number), base);
        if let Some(found) = identifier(base, context, own, out) {
            return found;
        }
        if !plain(base, number, context, draws, out) {
            self.list(context, draws, slot, fresh, out);
        }
        None
    }

    /// Appends three to six different sentences of the department.
    fn sentences(&mut self, context: &TextContext<'_>, draws: &mut Draws, out: &mut String) {
        let sentences = &context.department().more;
        let (count, mut used) = (draws.between(3, 6).min(sentences.len()), 0_u64);
        for position in 0..count {
            let mut at = draws.below(sentences.len());
            while used >> at & 1 == 1 {
                at = (at + 1) % sentences.len();
            }
            used |= 1 << at;
            if position > 0 {
                out.push(' ');
            }
            self.expand(context, draws, sentences[at], true, out);
        }
    }

    /// Appends rows of a table.
    fn rows(&mut self, context: &TextContext<'_>, draws: &mut Draws, out: &mut String) {
        for at in 0..draws.between(3, 8) {
            if at > 0 {
                out.push_str("\n  ");
            }
            self.list(context, draws, ("row", 1), true, out);
        }
    }

    /// Appends a value of the list with the name of the slot; nothing if there is none.
    fn list(
        &mut self,
        context: &TextContext<'_>,
        draws: &mut Draws,
        (base, number): (&'static str, usize),
        fresh: bool,
        out: &mut String,
    ) {
        let lists = &context.script().lists;
        let Some((_, values)) = lists.iter().find(|(name, _)| *name == base) else {
            return;
        };
        let index = index(context, draws, (base, number), fresh, values.len());
        if let Some(value) = values.get(index) {
            self.expand(context, draws, value, fresh, out);
        }
    }
}

/// Returns what determines a value of a person: the first one never changes, further ones change
/// every week.
const fn version(context: &TextContext<'_>, number: usize) -> u64 {
    let person = context.person.rank as u64;
    if number == 1 {
        return person;
    }
    let week = (context.now_ms / WEEK_MS) as u64;
    person + ((week + number as u64) << 32)
}

/// Returns an index below `count`. The numbers of a slot have different ones in a scene.
fn index(
    context: &TextContext<'_>,
    draws: &mut Draws,
    (base, number): (&str, usize),
    fresh: bool,
    count: usize,
) -> usize {
    let count = count.max(1);
    if fresh {
        return draws.skewed(count);
    }
    let first = Draws::of(context.scene, base).skewed(count);
    (first + number - 1) % count
}

/// Appends an identifier of a person. Returns `None` for other slots.
fn identifier(
    base: &str,
    context: &TextContext<'_>,
    own: &mut Draws,
    out: &mut String,
) -> Option<Option<Found>> {
    let person = context.person;
    let country = person.town.country;
    Some(match base {
        "email" => Some(personal_data::email(
            out,
            own,
            &ascii(person.first),
            &ascii(person.last),
        )),
        "phone" => Some(personal_data::phone(out, own, country)),
        "iban" => Some(personal_data::iban(out, own, country)),
        "card" => Some(personal_data::card(out, own)),
        "national_id" => Some(national_id(out, own, country)),
        "birth" => {
            let start = out.len();
            push_birth(out, own, person.town.language);
            Some(("date_of_birth", start..out.len()))
        }
        "contract" => {
            let _ = write!(out, "RC-{}", own.between(10_000, 99_999));
            None
        }
        "mrn" => {
            let _ = write!(out, "MRN-{:08}", own.below(100_000_000));
            None
        }
        _ => return None,
    })
}

/// Appends a number, date, code or name. Returns false for other slots.
fn plain(
    base: &str,
    number: usize,
    context: &TextContext<'_>,
    draws: &mut Draws,
    out: &mut String,
) -> bool {
    push_number(base, number, context, draws, out)
        || push_code(base, draws, out)
        || push_name(base, context, draws, out)
        || push_day(base, number, context, draws, out)
}

/// Slots of plain numbers: the text before, the least and the greatest number.
const NUMBERS: [(&str, &str, usize, usize); 8] = [
    ("n", "", 2, 9),
    ("nn", "", 11, 98),
    ("nnn", "", 102, 987),
    ("invoice", "INV-", 100_000, 999_999),
    ("contractno", "RC-", 10_000, 99_999),
    ("ticket", "T-", 10_000, 99_999),
    ("build", "#", 10_000, 99_999),
    ("pr", "#", 100, 9_999),
];

/// Appends a number or an amount. Returns false for other slots.
fn push_number(
    base: &str,
    number: usize,
    context: &TextContext<'_>,
    draws: &mut Draws,
    out: &mut String,
) -> bool {
    let town = context.person.town;
    if let Some((_, before, least, most)) = NUMBERS.iter().find(|number| number.0 == base) {
        let _ = write!(out, "{before}{}", draws.between(*least, *most));
        return true;
    }
    let _ = match base {
        "house" => write!(out, "{}", draws.skewed(180) + 1),
        "deg" => write!(out, "{}", draws.between(17, 19) + 3 * (number - 1)),
        "percent" => {
            let is_english = town.language == Language::English;
            let mark = if is_english { '.' } else { ',' };
            write!(out, "{}{mark}{}", draws.between(1, 7), draws.between(1, 9))
        }
        "amount" => push_amount(out, draws, town.country, town.language),
        _ => return false,
    };
    true
}

/// Appends a code. Returns false for other slots.
fn push_code(base: &str, draws: &mut Draws, out: &mut String) -> bool {
    let _ = match base {
        "tracking" => write!(out, "PK-{:09}", draws.below(1_000_000_000)),
        "version" => {
            let (minor, patch) = (draws.skewed(40), draws.skewed(20));
            write!(out, "{}.{minor}.{patch}", draws.between(0, 6))
        }
        "commit" => {
            let letter = char::from(b'a' + draws.below(6) as u8);
            write!(out, "{letter}{:06x}", draws.below(1 << 24))
        }
        _ => return false,
    };
    true
}

/// Appends the name of somebody or of something. Returns false for other slots.
fn push_name(base: &str, context: &TextContext<'_>, draws: &mut Draws, out: &mut String) -> bool {
    let country = context.person.town.country;
    match base {
        "doctor" => out.push_str(last_name(country, draws.below(1 << 20))),
        "colleague" => out.push_str(&name(country, draws.below(180)).2),
        "brand" => push_brand(out, draws, true),
        "brandlow" => push_brand(out, draws, false),
        _ => return false,
    }
    true
}

/// Appends a time, a day or a month. Returns false for other slots.
fn push_day(
    base: &str,
    number: usize,
    context: &TextContext<'_>,
    draws: &mut Draws,
    out: &mut String,
) -> bool {
    let language = context.person.town.language as usize;
    let _ = match base {
        "time" => write!(out, "{}:{:02}", draws.between(7, 20), draws.below(12) * 5),
        "month" => {
            let at = index(context, draws, (base, number), false, 12);
            write!(out, "{}", MONTHS[language][at])
        }
        "day" => {
            let at = index(context, draws, (base, number), false, 7);
            write!(out, "{}", DAYS[language][at])
        }
        "date" => push_date(out, draws, context, 13 * (number as i64 - 1)),
        "past" => push_date(out, draws, context, -13 * number as i64),
        "isodate" => push_past_date(out, draws, context),
        _ => return false,
    };
    true
}

/// Appends an invented name. There are many, with the frequencies of Zipf's law.
fn push_brand(out: &mut String, draws: &mut Draws, capital: bool) {
    let start = out.len();
    let mut rest = draws.skewed(BRANDS) + SYLLABLES.len();
    while rest > 0 {
        out.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
    }
    if capital && let Some(first) = out.get_mut(start..=start) {
        first.make_ascii_uppercase();
    }
}

/// Appends an amount of money.
fn push_amount(
    out: &mut String,
    draws: &mut Draws,
    country: Country,
    language: Language,
) -> std::fmt::Result {
    let (units, cents) = (draws.skewed(2_400) + 3, draws.below(20) * 5);
    match (country, language) {
        (Country::GreatBritain, _) => write!(out, "£{units}.{cents:02}"),
        (Country::UnitedStates | Country::Canada, _) => write!(out, "${units}.{cents:02}"),
        (_, Language::English) => write!(out, "{units}.{cents:02} euros"),
        (_, Language::German) => write!(out, "{units},{cents:02} Euro"),
        (_, Language::French | Language::Spanish) => write!(out, "{units},{cents:02} euros"),
    }
}
