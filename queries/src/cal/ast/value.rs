//! Values, fields and addresses in a query.

use std::fmt;

use crate::cal::fields::{DOMAIN_OPERATORS, FieldSpec, KnownField, Operator, Operators};
use crate::cal::number::Number;
use crate::cal::span::Span;
use crate::cal::vocabulary::vocabulary;

/// A literal or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text, in normal form C.
    Text(String),
    /// A number.
    Number(Number),
    /// TRUE or FALSE.
    Boolean(bool),
    /// An array.
    Array(Vec<Value>),
    /// A content address or its beginning.
    Hash(Address),
    /// A parameter or a LET binding.
    Parameter(Parameter),
}

impl Value {
    /// A text value.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    /// What the value is called in messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Number(_) => "a number",
            Value::Boolean(_) => "a boolean",
            Value::Array(_) => "an array",
            Value::Hash(_) => "a hash",
            Value::Parameter(_) => "a parameter",
        }
    }

    /// The text, if this is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// `$name`
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name, without the dollar sign.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

/// The digits of `sha256:…`: 64 of them are a content address, fewer the beginning of exactly one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(String);

impl Address {
    /// The address of 8 to 64 lower-case hexadecimal digits.
    pub fn from_digits(digits: &str) -> Option<Address> {
        crate::cal::lexer::is_address(digits).then(|| Address(digits.to_owned()))
    }

    /// The address of `sha256:` and such digits.
    pub fn parse(text: &str) -> Option<Address> {
        Address::from_digits(text.strip_prefix("sha256:")?)
    }

    /// The digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// True if it is a whole address and not only its beginning.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 64
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.0)
    }
}

/// A grain that a statement names: by address or by parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// By address.
    Address(Address),
    /// By parameter.
    Parameter(Parameter),
}

vocabulary! {
    /// An operator between a field and one value.
    pub enum Comparison {
        /// Equal.
        Equal = "=",
        /// Not equal.
        NotEqual = "!=",
        /// Greater or equal.
        AtLeast = ">=",
        /// Less or equal.
        AtMost = "<=",
        /// Greater.
        Greater = ">",
        /// Less.
        Less = "<",
    }
}

impl Comparison {
    /// The same operator among all operators.
    pub const fn operator(self) -> Operator {
        match self {
            Comparison::Equal => Operator::Equal,
            Comparison::NotEqual => Operator::NotEqual,
            Comparison::AtLeast => Operator::AtLeast,
            Comparison::AtMost => Operator::AtMost,
            Comparison::Greater => Operator::Greater,
            Comparison::Less => Operator::Less,
        }
    }
}

/// A field that a query names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    /// A field of the closed set.
    Known(KnownField),
    /// A field of a domain: `hc:patient_id`.
    Domain(DomainField),
}

impl Field {
    /// What is known about it; nothing about domain fields.
    pub fn spec(&self) -> Option<&'static FieldSpec> {
        match self {
            Field::Known(field) => Some(field.spec()),
            Field::Domain(_) => None,
        }
    }

    /// The operators that it takes.
    pub fn operators(&self) -> Operators {
        self.spec().map_or(DOMAIN_OPERATORS, |spec| spec.operators)
    }
}

impl From<KnownField> for Field {
    fn from(field: KnownField) -> Field {
        Field::Known(field)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Known(field) => formatter.write_str(field.name()),
            Field::Domain(field) => write!(formatter, "{}:{}", field.prefix, field.name),
        }
    }
}

/// A field of a domain profile (CAL 1.0, section 12.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DomainField {
    /// The prefix as it is written. One that is no [`DomainPrefix`] matches the literal key.
    pub prefix: String,
    /// The name behind the colon.
    pub name: String,
}

vocabulary! {
    /// A domain of the grain specification, by its prefix.
    pub enum DomainPrefix {
        /// Health care.
        Healthcare = "hc",
        /// Law.
        Legal = "legal",
        /// Finance.
        Finance = "fin",
        /// Robotics.
        Robotics = "rob",
        /// Science.
        Science = "sci",
        /// Consumer products.
        Consumer = "con",
        /// Integration of systems.
        Integration = "int",
    }
}

impl DomainPrefix {
    /// The domain of a prefix, spelled exactly.
    pub fn of(prefix: &str) -> Option<DomainPrefix> {
        DomainPrefix::from_name(prefix).filter(|domain| domain.name() == prefix)
    }

    /// The tag that grains of the domain have: `profile:healthcare`.
    pub const fn profile_tag(self) -> &'static str {
        match self {
            DomainPrefix::Healthcare => "profile:healthcare",
            DomainPrefix::Legal => "profile:legal",
            DomainPrefix::Finance => "profile:finance",
            DomainPrefix::Robotics => "profile:robotics",
            DomainPrefix::Science => "profile:science",
            DomainPrefix::Consumer => "profile:consumer",
            DomainPrefix::Integration => "profile:integration",
        }
    }
}
