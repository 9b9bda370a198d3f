//! Expressions that clients of PostgreSQL send and DataFusion doesn't know, replaced by others with
//! the same value. None of them has a meaning in `gristmill sql`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, SelectItem, SetExpr, TableFactor, Value,
    visit_expressions_mut,
};

use super::PG_CATALOG;

/// Returns a statement with what DataFusion knows.
pub(in crate::postgres) fn rewritten(mut statement: Statement) -> Statement {
    if let Statement::Statement(inner) = &mut statement {
        let _: ControlFlow<()> = visit_expressions_mut(&mut **inner, |expression| {
            rewrite(expression);
            ControlFlow::Continue(())
        });
    }
    statement
}

fn rewrite(expression: &mut Expr) {
    match expression {
        // `OPERATOR(pg_catalog.~)`, as psql writes operators.
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(name) = op
                && let Some(known) = name.last().and_then(|name| operator(name))
            {
                *op = known;
            }
        }
        // `pg_catalog.array_to_string(…)`.
        Expr::Function(Function { name, .. }) if is_qualified(name) => {
            name.0.remove(0);
        }
        // A row of a table that is always empty, looked up for each row of another.
        Expr::Subquery(query) if is_empty(query) => *expression = Expr::value(Value::Null),
        // Texts are compared by their bytes.
        Expr::Collate { expr, .. } => *expression = (**expr).clone(),
        Expr::Cast {
            expr, data_type, ..
        } => match kind_of(data_type) {
            Some(Kind::Relation) if is_text(expr) => *expression = relation(expr),
            Some(Kind::Relation | Kind::Text) => *data_type = DataType::Text,
            Some(Kind::Identifier) => *data_type = DataType::BigInt(None),
            None => {}
        },
        _ => {}
    }
}

fn is_qualified(name: &ObjectName) -> bool {
    let first = name.0.first().and_then(|part| part.as_ident());
    name.0.len() == 2 && first.is_some_and(|schema| schema.value == PG_CATALOG)
}

/// Returns true if a query joins a table of the catalog that never has rows.
fn is_empty(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else {
        return false;
    };
    let counts = |item: &SelectItem| item.to_string().to_lowercase().contains("count(");
    !select.projection.iter().any(counts)
        && select.from.iter().any(|from| match &from.relation {
            TableFactor::Table { name, .. } => {
                let name = name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| EMPTY.contains(&&*name.value))
            }
            _ => false,
        })
}

/// Tables that are always empty.
const EMPTY: [&str; 5] = [
    "pg_attrdef",
    "pg_collation",
    "pg_constraint",
    "pg_description",
    "pg_inherits",
];

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "+" => BinaryOperator::Plus,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// Kinds of types that only PostgreSQL has.
enum Kind {
    Relation,
    Text,
    Identifier,
}

fn kind_of(data_type: &DataType) -> Option<Kind> {
    let name = match data_type {
        DataType::Regclass => return Some(Kind::Relation),
        DataType::Custom(name, _) => name.0.last()?.as_ident()?.value.to_lowercase(),
        _ => return None,
    };
    Some(match name.as_str() {
        "regclass" => Kind::Relation,
        "oid" | "xid" | "int8" => Kind::Identifier,
        "text" | "name" | "char" | "varchar" | "regtype" | "regproc" | "regprocedure"
        | "regrole" | "regnamespace" => Kind::Text,
        _ => return None,
    })
}

fn is_text(expression: &Expr) -> bool {
    let Expr::Value(value) = expression else {
        return false;
    };
    matches!(
        value.value,
        Value::SingleQuotedString(_) | Value::Placeholder(_)
    )
}

/// Returns the call of `to_regclass` with an argument.
fn relation(argument: &Expr) -> Expr {
    let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(argument.clone()));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("to_regclass")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
