//! Random expressions over the columns of a relation.
//!
//! Left out are expressions whose value depends on the order of rows, on the time or on chance, such
//! as `array_agg` and `first_value` without an order, `approx_median`, `stddev`, `now()`, `random()`.

use super::catalog::{Catalog, Kind, NamedColumn, Relation, instant};
use super::dice::Dice;

/// A relation in FROM with the name of its columns' table.
pub(super) struct Scope<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) alias: &'static str,
    pub(super) columns: &'c [NamedColumn],
}

impl<'c> Scope<'c> {
    pub(super) fn new(catalog: &'c Catalog, alias: &'static str, relation: &'c Relation) -> Self {
        Scope {
            catalog,
            alias,
            columns: &relation.columns,
        }
    }

    /// Returns a column as statements name it.
    pub(super) fn named(&self, column: &NamedColumn) -> String {
        format!("{}.\"{}\"", self.alias, column.name)
    }

    /// Returns a column of `kind`, if there is one.
    pub(super) fn of_kind(&self, kind: Kind, dice: &mut Dice) -> Option<String> {
        let fitting = self.columns.iter().filter(|column| column.kind == kind);
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() {
            return None;
        }
        let column: &&NamedColumn = dice.pick(&fitting);
        Some(self.named(column))
    }

    /// Returns an expression whose values can be sorted.
    pub(super) fn scalar(&self, dice: &mut Dice) -> String {
        let column = dice.pick(self.columns);
        let name = self.named(column);
        let form = match column.kind {
            Kind::Text => *dice.pick(&TEXT_FORMS),
            Kind::Number => *dice.pick(&NUMBER_FORMS),
            Kind::Truth => *dice.pick(&TRUTH_FORMS),
            Kind::Time => *dice.pick(&TIME_FORMS),
            Kind::Texts => *dice.pick(&TEXTS_FORMS),
            Kind::Bytes => *dice.pick(&BYTES_FORMS),
            Kind::Nested => "? IS NULL",
        };
        form.replace('?', &name)
    }

    /// Returns an aggregate whose value doesn't depend on the order of rows.
    pub(super) fn aggregate(&self, dice: &mut Dice) -> String {
        let column = dice.pick(self.columns);
        let name = self.named(column);
        let form = match column.kind {
            Kind::Text => *dice.pick(&TEXT_AGGREGATES),
            Kind::Number => *dice.pick(&NUMBER_AGGREGATES),
            Kind::Truth => *dice.pick(&TRUTH_AGGREGATES),
            Kind::Time => *dice.pick(&TIME_AGGREGATES),
            Kind::Texts | Kind::Bytes | Kind::Nested => "count(?)",
        };
        let call = form.replace('?', &name);
        match dice.one_in(6) && !call.contains("ORDER BY") {
            true => format!("{call} FILTER (WHERE {})", self.condition(dice, 0)),
            false => call,
        }
    }

    /// Returns a condition with up to `depth` operators in a row.
    pub(super) fn condition(&self, dice: &mut Dice, depth: usize) -> String {
        if depth > 0 {
            let (left, right) = (
                self.condition(dice, depth - 1),
                self.condition(dice, depth - 1),
            );
            return match dice.below(4) {
                0 => format!("({left} AND {right})"),
                1 => format!("({left} OR {right})"),
                2 => format!("NOT ({left})"),
                _ => left,
            };
        }
        let column = dice.pick(self.columns);
        let name = self.named(column);
        match column.kind {
            Kind::Text => self.text_condition(&name, dice),
            Kind::Number => number_condition(&name, dice),
            Kind::Truth => (*dice.pick(&TRUTH_CONDITIONS)).replace('?', &name),
            Kind::Time => time_condition(&name, dice),
            Kind::Texts => {
                let text = self.catalog.text(dice);
                let form = *dice.pick(&TEXTS_CONDITIONS);
                form.replace('?', &name).replace("VALUE", &text)
            }
            Kind::Bytes => format!("octet_length({name}) > {}", 100 * dice.below(6)),
            Kind::Nested => format!("{name} IS NOT NULL"),
        }
    }

    fn text_condition(&self, name: &str, dice: &mut Dice) -> String {
        let (one, two) = (self.catalog.text(dice), self.catalog.text(dice));
        match dice.below(10) {
            0..3 => format!("{name} = '{one}'"),
            3 => format!("{name} <> '{one}'"),
            4 => format!("{name} IN ('{one}', '{two}')"),
            5 => format!(
                "{name} LIKE '%{}%'",
                dice.word(&["tea", "foreign", "a", "own", "1"])
            ),
            6 => format!("{name} > '{}'", dice.word(&["8", "b", "f", "m"])),
            7 => format!("{name} IS {}NULL", dice.rarely(&["NOT "])),
            8 => format!(
                "regexp_like({name}, '{}')",
                dice.word(&["^[0-7]", "for|own", "e+$"])
            ),
            _ => format!("length({name}) BETWEEN {} AND 40", dice.below(30)),
        }
    }
}

fn number_condition(name: &str, dice: &mut Dice) -> String {
    let number = dice.word(&["0", "0.5", "1", "5", "100", "107", "300"]);
    match dice.below(4) {
        0 => format!("{name} IS NULL"),
        1 => format!("{name} BETWEEN 0 AND {number}"),
        _ => format!("{name} {} {number}", dice.word(&["=", "<>", "<", ">="])),
    }
}

fn time_condition(name: &str, dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("{name} IS NULL"),
        1 => format!("extract(second FROM {name}) < {}", dice.below(60)),
        _ => {
            let (operator, instant) = (dice.word(&["<", ">="]), instant(dice));
            format!("{name} {operator} TIMESTAMP '{instant}'")
        }
    }
}

const TEXT_FORMS: [&str; 14] = [
    "?",
    "?",
    "?",
    "?",
    "upper(?)",
    "substr(?, 1, 3)",
    "length(?)",
    "coalesce(?, '-')",
    "? || '!'",
    "md5(?)",
    "split_part(?, ' ', 1)",
    "regexp_replace(?, '[0-9]+', '#')",
    "? = 'foreign'",
    "CASE WHEN ? LIKE '%foreign%' THEN 1 ELSE 2 END",
];

const NUMBER_FORMS: [&str; 6] = ["?", "?", "?", "coalesce(?, 0)", "? > 3", "abs(?)"];

const TRUTH_FORMS: [&str; 4] = ["?", "?", "coalesce(?, false)", "NOT ?"];

const TIME_FORMS: [&str; 5] = [
    "?",
    "?",
    "date_trunc('minute', ?)",
    "extract(second FROM ?)",
    "CAST(? AS BIGINT)",
];

const TEXTS_FORMS: [&str; 4] = [
    "array_to_string(?, '+')",
    "array_length(?)",
    "array_has(?, 'ui')",
    "?[1]",
];

const BYTES_FORMS: [&str; 6] = [
    "octet_length(?)",
    "content_address(?)",
    "grain_field(?, 'subject')",
    "grain_field(?, 'namespace')",
    "length(grain_json(?))",
    "encode(substr(?, 1, 4), 'hex')",
];

const TEXT_AGGREGATES: [&str; 8] = [
    "count(?)",
    "count(DISTINCT ?)",
    "min(?)",
    "max(?)",
    "string_agg(?, ',' ORDER BY ?)",
    "approx_distinct(?)",
    "array_to_string(array_agg(DISTINCT ? ORDER BY ?), ',')",
    "sum(length(?))",
];

const NUMBER_AGGREGATES: [&str; 7] = [
    "sum(?)",
    "avg(?)",
    "min(?)",
    "max(?)",
    "median(?)",
    "count(?)",
    "count(DISTINCT ?)",
];

const TRUTH_AGGREGATES: [&str; 3] = ["bool_and(?)", "bool_or(?)", "count(?)"];

const TIME_AGGREGATES: [&str; 4] = ["min(?)", "max(?)", "count(?)", "count(DISTINCT ?)"];

const TRUTH_CONDITIONS: [&str; 4] = ["?", "NOT ?", "? IS NULL", "coalesce(?, true)"];

const TEXTS_CONDITIONS: [&str; 4] = [
    "array_has(?, 'VALUE')",
    "array_length(?) > 1",
    "? IS NULL",
    "array_to_string(?, ',') LIKE '%VALUE%'",
];
