//! What statements can name: the tables of a session with the kinds of their columns, and values
//! of both namespaces.

use std::sync::Arc;

use arrow::datatypes::DataType;
use gristmill_queries::cal::{GrainType, TypeName};
use gristmill_server::http::Server;

use super::dice::Dice;
use super::lakes::{FOREIGN_ROUNDS, OBJECTS, OWN_ROUNDS, RELATIONS, SUBJECTS, grains_of};
use crate::grains::grain;

/// Columns that differ between the lakes although nothing of `foreign` is in them: when a run took
/// a grain in, and of which file.
const LEFT_OUT: [&str; 2] = ["ingested_at", "source_id"];

/// Tables and views of a session besides those of the types.
const VIEWS: [&str; 16] = [
    "grains",
    "current",
    "state",
    "supersessions",
    "lifecycle",
    "triples",
    "consent_state",
    "consent_withdrawals",
    "withdrawn_consents",
    "holds",
    "messages",
    "blocks",
    "message_views",
    "tool_calls",
    "threads",
    "usage",
];

/// Table functions, each with arguments with which its columns are determined.
const FUNCTIONS: [(&str, &str); 6] = [
    ("as_of", "'2026-06-01T00:00:00Z'"),
    ("valid_at", "'2026-06-01T00:00:00Z'"),
    ("history", "'ADDRESS'"),
    ("provenance", "'ADDRESS', 3"),
    ("pattern", "'alice', NULL, NULL"),
    ("thread", "'s-1'"),
];

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
    Time,
    /// A list of texts.
    Texts,
    Bytes,
    /// A struct, or a list of them.
    Nested,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(super) struct NamedColumn {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// A table, view or table function.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) name: String,
    pub(super) is_function: bool,
    pub(super) columns: Vec<NamedColumn>,
    /// Whether `content_address` is another one in each row.
    pub(super) has_one_row_per_grain: bool,
}

/// All of it.
pub(super) struct Catalog {
    pub(super) relations: Vec<Relation>,
    /// Addresses of grains of both namespaces, first those of `own`.
    addresses: Vec<String>,
    /// Number of those of `own`.
    own_addresses: usize,
    /// Further texts that occur in columns of both.
    texts: Vec<String>,
}

fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Dictionary(_, value) => kind_of(value),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Boolean => Kind::Truth,
        DataType::Timestamp(..) => Kind::Time,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kind::Bytes,
        DataType::List(item) if kind_of(item.data_type()) == Kind::Text => Kind::Texts,
        numeric if numeric.is_numeric() => Kind::Number,
        _ => Kind::Nested,
    }
}

/// Returns the addresses of the grains of a namespace.
fn addresses_of(namespace: &str, rounds: usize) -> Vec<String> {
    grains_of(namespace, rounds)
        .iter()
        .map(|text| grain(text).address.to_string())
        .collect()
}

/// Returns the values of both namespaces.
fn texts() -> Vec<String> {
    let words = ["own", "foreign", "u-1", "u-2", "s-0", "s-1", "t-1", "ui"];
    let others = ["belief", "event", "user", "assistant", "active", "zebra"];
    let composed = OBJECTS
        .iter()
        .flat_map(|object| [format!("{object} own 2"), format!("{object} foreign 2")]);
    let fixed = SUBJECTS.iter().chain(&RELATIONS).chain(&OBJECTS);
    let fixed = fixed.chain(&words).chain(&others);
    fixed
        .map(|word| (*word).to_owned())
        .chain(composed)
        .collect()
}

impl Catalog {
    /// Reads the columns from a session of `server` with `token`.
    ///
    /// # Panics
    /// If one of the tables doesn't exist there.
    pub(super) async fn of(server: &Arc<Server>, token: &str) -> Catalog {
        let mut addresses = addresses_of("own", OWN_ROUNDS);
        let own_addresses = addresses.len();
        addresses.extend(addresses_of("foreign", FOREIGN_ROUNDS));
        let mut relations = Vec::new();
        let of_types = GrainType::ALL.into_iter().map(GrainType::plural);
        let one_per_grain = ["grains", "current", "messages"];
        for name in VIEWS.into_iter().chain(of_types) {
            let is_type = !VIEWS.contains(&name);
            relations.push(Relation {
                name: name.to_owned(),
                is_function: false,
                columns: columns(server, token, name).await,
                has_one_row_per_grain: is_type || one_per_grain.contains(&name),
            });
        }
        for (name, arguments) in FUNCTIONS {
            let arguments = arguments.replace("ADDRESS", &addresses[0]);
            let call = format!("{name}({arguments})");
            relations.push(Relation {
                name: name.to_owned(),
                is_function: true,
                columns: columns(server, token, &call).await,
                has_one_row_per_grain: ["as_of", "valid_at", "thread"].contains(&name),
            });
        }
        Catalog {
            relations,
            addresses,
            own_addresses,
            texts: texts(),
        }
    }

    /// Returns the addresses of the grains of `foreign`.
    pub(super) fn foreign_addresses(&self) -> &[String] {
        &self.addresses[self.own_addresses..]
    }

    /// Returns a relation as it is named in FROM, and its columns.
    pub(super) fn relation(&self, dice: &mut Dice) -> (String, &Relation) {
        let relation = dice.pick(&self.relations);
        let from = match relation.is_function {
            true => format!(
                "{}({})",
                relation.name,
                self.arguments(&relation.name, dice)
            ),
            false => relation.name.clone(),
        };
        (from, relation)
    }

    /// Returns arguments of a table function.
    fn arguments(&self, function: &str, dice: &mut Dice) -> String {
        match function {
            "as_of" | "valid_at" => format!("'{}'", instant(dice)),
            "history" => format!("'{}'", self.address(dice)),
            "provenance" => format!("'{}', {}", self.address(dice), dice.below(5)),
            "thread" => format!("'s-{}'", dice.below(5)),
            _ => {
                let mut word = |words: &[&str]| match dice.one_in(2) {
                    true => format!("'{}'", dice.word(words)),
                    false => "NULL".to_owned(),
                };
                let (subject, relation) = (word(&SUBJECTS), word(&RELATIONS));
                format!("{subject}, {relation}, {}", word(&OBJECTS))
            }
        }
    }

    /// Returns the address of a grain of one of the namespaces, or of none.
    pub(super) fn address(&self, dice: &mut Dice) -> String {
        match dice.one_in(20) {
            true => "0".repeat(64),
            false => dice.pick(&self.addresses).clone(),
        }
    }

    /// Returns a text that may occur in a column.
    pub(super) fn text(&self, dice: &mut Dice) -> String {
        match dice.one_in(4) {
            true => self.address(dice),
            false => dice.pick(&self.texts).clone(),
        }
    }
}

/// Returns an instant of the time of the grains, before it or after it.
pub(super) fn instant(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => "2020-01-01T00:00:00Z".to_owned(),
        1 => "2126-01-01T00:00:00Z".to_owned(),
        _ => format!("2026-01-01T00:0{}:{:02}Z", dice.below(6), dice.below(60)),
    }
}

/// Returns the columns of a relation that are compared.
async fn columns(server: &Arc<Server>, token: &str, from: &str) -> Vec<NamedColumn> {
    let query = format!("SELECT * FROM {from} LIMIT 0");
    let rows = server.answer_sql(Some(token), &query).await;
    let rows = rows.unwrap_or_else(|error| panic!("{query}: {error}"));
    let fields = rows.schema.fields().iter();
    let compared = fields.filter(|field| !LEFT_OUT.contains(&field.name().as_str()));
    compared
        .map(|field| NamedColumn {
            name: field.name().clone(),
            kind: kind_of(field.data_type()),
        })
        .collect()
}
