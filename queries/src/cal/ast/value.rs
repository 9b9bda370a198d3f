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
    /// A content address or a prefix of one.
    Hash(Address),
    /// A parameter or a LET binding.
    Parameter(Parameter),
}

impl Value {
    /// Returns a text value.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    /// Returns the name of the value's type in messages.
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

    /// Returns true for a parameter or a LET binding.
    pub const fn is_parameter(&self) -> bool {
        matches!(self, Value::Parameter(_))
    }

    /// Returns the text of a text value.
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
    /// The position.
    pub span: Span,
}

/// The digits of `sha256:…`: 64 are a content address, fewer a prefix that must be unambiguous.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(String);

impl Address {
    /// Returns the address of 8 to 64 lower-case hexadecimal digits.
    pub fn from_digits(digits: &str) -> Option<Address> {
        crate::cal::lexer::is_address(digits).then(|| Address(digits.to_owned()))
    }

    /// Parses `sha256:` and such digits.
    pub fn parse(text: &str) -> Option<Address> {
        Address::from_digits(text.strip_prefix("sha256:")?)
    }

    /// Returns the digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Returns true for a whole address, and false for a prefix.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 64
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.0)
    }
}

/// A reference to a grain, by address or by parameter.
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
    /// Returns the same operator as an [`Operator`].
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

/// A field in a query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    /// A field of the closed set.
    Known(KnownField),
    /// A field of a domain: `hc:patient_id`.
    Domain(DomainField),
}

impl Field {
    /// Returns its row in the table of fields; `None` for domain fields.
    pub fn spec(&self) -> Option<&'static FieldSpec> {
        match self {
            Field::Known(field) => Some(field.spec()),
            Field::Domain(_) => None,
        }
    }

    /// Returns the operators that it supports.
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
    /// The prefix as it is written. One that is no [`DomainPrefix`] is part of a literal key.
    pub prefix: String,
    /// The name after the colon.
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
    /// Returns the domain of a prefix. The match is case-sensitive.
    pub fn of(prefix: &str) -> Option<DomainPrefix> {
        DomainPrefix::from_name(prefix).filter(|domain| domain.name() == prefix)
    }

    /// Returns the tag of grains of the domain: `profile:healthcare`.
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
