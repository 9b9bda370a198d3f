//! Dates, months and days of the week in the languages of the scripts.

use std::fmt::Write;

use chrono::{DateTime, Datelike, Days, NaiveDate, TimeDelta};

use super::draws::Draws;
use super::script::Language;
use super::text::TextContext;

/// The months by language.
pub(super) const MONTHS: [[&str; 12]; 4] = [
    [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
    [
        "Januar",
        "Februar",
        "März",
        "April",
        "Mai",
        "Juni",
        "Juli",
        "August",
        "September",
        "Oktober",
        "November",
        "Dezember",
    ],
    [
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ],
    [
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ],
];

/// The days of the week by language.
pub(super) const DAYS: [[&str; 7]; 4] = [
    [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ],
    [
        "Montag",
        "Dienstag",
        "Mittwoch",
        "Donnerstag",
        "Freitag",
        "Samstag",
        "Sonntag",
    ],
    [
        "lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche",
    ],
    [
        "lunes",
        "martes",
        "miércoles",
        "jueves",
        "viernes",
        "sábado",
        "domingo",
    ],
];

/// Appends a date of birth.
pub(super) fn push_birth(out: &mut String, own: &mut Draws, language: Language) {
    let (year, month, day) = (
        own.between(1938, 2006),
        own.between(1, 12),
        own.between(1, 28),
    );
    let _ = match language {
        Language::English => write!(out, "{year}-{month:02}-{day:02}"),
        Language::German => write!(out, "{day:02}.{month:02}.{year}"),
        Language::French | Language::Spanish => write!(out, "{day:02}/{month:02}/{year}"),
    };
}

fn today(context: &TextContext<'_>) -> NaiveDate {
    DateTime::from_timestamp_millis(context.now_ms)
        .unwrap_or_default()
        .date_naive()
}

/// Appends a date of the twelve days that follow a day `offset` days from now.
pub(super) fn push_date(
    out: &mut String,
    draws: &mut Draws,
    context: &TextContext<'_>,
    offset: i64,
) -> std::fmt::Result {
    let days = draws.between(1, 12) as i64 + offset;
    let date = today(context)
        .checked_add_signed(TimeDelta::days(days))
        .unwrap_or_default();
    let language = context.person.town.language;
    let (day, month) = (
        date.day(),
        MONTHS[language as usize][date.month0() as usize],
    );
    match language {
        Language::English | Language::French => write!(out, "{day} {month}"),
        Language::German => write!(out, "{day}. {month}"),
        Language::Spanish => write!(out, "{day} de {month}"),
    }
}

/// Appends a date of the last months as year, month and day.
pub(super) fn push_past_date(
    out: &mut String,
    draws: &mut Draws,
    context: &TextContext<'_>,
) -> std::fmt::Result {
    let days = Days::new(draws.skewed(300) as u64);
    let date = today(context).checked_sub_days(days).unwrap_or_default();
    write!(out, "{}-{:02}-{:02}", date.year(), date.month(), date.day())
}
