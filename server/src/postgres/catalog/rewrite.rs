//! Expressions that clients of PostgreSQL send and DataFusion doesn't support, replaced by others
//! with the same value. None of them has a meaning in `gristmill sql`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};

use super::PG_CATALOG;
use super::date_formats::strftime_format;
use super::empty_tables::replace_empty;
use super::functions::LIKE_PATTERN;
use super::table_specs::is_catalog_table;

/// Returns a statement with what DataFusion supports.
pub(in crate::postgres) fn rewritten(mut statement: Statement) -> Statement {
    if let Statement::Statement(inner) = &mut statement {
        let _ = inner.visit(&mut Rewriter);
    }
    statement
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        replace_empty(query);
        if let SetExpr::Select(select) = &mut *query.body
            && reads_catalog(select)
        {
            drop_repeated(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if is_catalog_array(expression) {
            *expression = no_texts();
        }
        if let Expr::Subquery(query) = expression {
            aggregate(query);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        rewrite(expression);
        rewrite_format(expression);
        ControlFlow::Continue(())
    }
}

/// Leaves out the columns that a wildcard selects again, as in `n.oid, n.*`: DataFusion refuses a
/// column that is there twice, and the clients that send it read columns by their names.
fn drop_repeated(select: &mut Select) {
    let wildcards = select.projection.iter().filter_map(|item| match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
            Some(table.to_string())
        }
        _ => None,
    });
    let wildcards: Vec<String> = wildcards.collect();
    select.projection.retain(|item| {
        let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) = item else {
            return true;
        };
        let Some((_, table)) = names.split_last() else {
            return true;
        };
        let table: Vec<String> = table.iter().map(ToString::to_string).collect();
        !wildcards.contains(&table.join("."))
    });
}

/// Returns NULL as a list of texts, which functions of lists take.
fn no_texts() -> Expr {
    let text = ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None);
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::Null)),
        data_type: DataType::Array(text),
        array: false,
        format: None,
    }
}

/// Returns true for `ARRAY(SELECT … FROM pg_…)`: lists of roles and options, which nothing has.
fn is_catalog_array(expression: &Expr) -> bool {
    let Expr::Function(Function { name, args, .. }) = expression else {
        return false;
    };
    let (true, FunctionArguments::Subquery(query)) =
        (name.to_string().eq_ignore_ascii_case("array"), args)
    else {
        return false;
    };
    matches!(&*query.body, SetExpr::Select(select) if reads_catalog(select))
}

fn reads_catalog(select: &Select) -> bool {
    select.from.iter().any(|from| {
        let TableFactor::Table { name, .. } = &from.relation else {
            return false;
        };
        let mut names = name.0.iter().filter_map(|part| part.as_ident());
        names.any(|name| name.value == PG_CATALOG || is_catalog_table(&name.value))
    })
}

/// Aggregates the column that a subquery looks up in the catalog, as DataFusion requires of a
/// correlated one: rows of the catalog are found by their identifier, so there is one at most.
fn aggregate(query: &mut Query) {
    if let SetExpr::Select(select) = &mut *query.body
        && reads_catalog(select)
        && let [SelectItem::UnnamedExpr(looked_up)] = select.projection.as_mut_slice()
        && is_looked_up(looked_up)
    {
        *looked_up = call("max", std::slice::from_ref(looked_up));
    }
}

/// Returns true for a column, and for one that is compared with a constant.
fn is_looked_up(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::BinaryOp { left, right, .. } => {
            is_looked_up(left) && matches!(**right, Expr::Value(_))
        }
        _ => false,
    }
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
        // DataFusion has no escape character but the backslash.
        Expr::Like {
            pattern,
            escape_char,
            ..
        }
        | Expr::ILike {
            pattern,
            escape_char,
            ..
        } => {
            if let Some(escape) = escape_char.take() {
                **pattern = call(LIKE_PATTERN, &[(**pattern).clone(), Expr::Value(escape)]);
            }
        }
        // Texts are compared by their bytes.
        Expr::Collate { expr, .. } => *expression = (**expr).clone(),
        // Clients send bytes as `'\x…'::bytea`, which DataFusion takes for a text.
        Expr::Cast {
            expr,
            data_type: DataType::Bytea,
            ..
        } => {
            if let Some(digits) = hexadecimal(expr) {
                *expression = Expr::value(Value::HexStringLiteral(digits));
            }
        }
        Expr::Cast {
            expr, data_type, ..
        } => match kind_of(data_type) {
            Some(Kind::Relation) if is_text(expr) => {
                *expression = call("to_regclass", std::slice::from_ref(&**expr));
            }
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

/// Returns the digits of a constant in PostgreSQL's hexadecimal form of bytes.
fn hexadecimal(expression: &Expr) -> Option<String> {
    let Expr::Value(value) = expression else {
        return None;
    };
    let (Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) = &value.value else {
        return None;
    };
    let digits = text.strip_prefix("\\x")?;
    hex::decode(digits).is_ok().then(|| digits.to_owned())
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

/// Translates the format of a function of dates, if it is a constant.
fn rewrite_format(expression: &mut Expr) {
    let Expr::Function(Function {
        name,
        args: FunctionArguments::List(list),
        ..
    }) = expression
    else {
        return;
    };
    let name = name.to_string().to_lowercase();
    if !FORMATTED.contains(&name.as_str()) {
        return;
    }
    if let [
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(format))),
    ] = list.args.as_mut_slice()
        && let Value::SingleQuotedString(text) = &mut format.value
        && let Some(translated) = strftime_format(text)
    {
        *text = translated;
    }
}

/// Functions whose second argument is a format.
const FORMATTED: [&str; 3] = ["to_char", "to_date", "to_timestamp"];

/// Returns the call of a function.
fn call(name: &str, arguments: &[Expr]) -> Expr {
    let arguments = arguments.iter().cloned();
    let arguments = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: &str) -> String {
        let statement = gristmill_queries::sql::statements(query).unwrap().pop();
        rewritten(statement.unwrap()).to_string()
    }

    #[test]
    fn what_the_catalog_does_not_concern_stays() {
        for query in [
            "SELECT a, max(b) FROM grains WHERE c = $1 GROUP BY a ORDER BY a LIMIT 3",
            "SELECT (SELECT x FROM state AS s WHERE s.a = g.a) FROM grains AS g",
            "SELECT ARRAY(SELECT a FROM grains)",
            "WITH pg_sizes AS (SELECT 1 AS n) SELECT (SELECT n FROM pg_sizes)",
            "WITH pg_sizes AS (SELECT 1 AS n) SELECT ARRAY(SELECT n FROM pg_sizes)",
            "SELECT CAST(a AS TEXT) FROM grains WHERE a ~ 'x'",
            "SELECT * FROM pg_index",
            "SELECT count(*) FROM pg_index",
            "SELECT c.relname, i.indkey FROM pg_class AS c LEFT JOIN pg_index AS i ON true",
            "SELECT table_name FROM information_schema.tables",
            "SELECT to_char(a, '%Y'), to_char(a, b), to_char(a, 'FMMonth') FROM t",
            "SELECT a FROM t WHERE a LIKE 'x_'",
            "SELECT g.a, g.* FROM grains AS g",
            "SELECT a FROM (SELECT count(*) AS a FROM pg_index)",
        ] {
            assert_eq!(text(query), query);
        }
    }

    #[test]
    fn queries_of_clients_over_the_catalog_are_rewritten() {
        for (query, expected) in [
            (
                "SELECT a FROM t WHERE a OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default",
                "SELECT a FROM t WHERE a ~ 'x'",
            ),
            ("SELECT pg_catalog.version()", "SELECT version()"),
            (
                r"SELECT a FROM t WHERE b = '\x00fF'::bytea OR b = 'text'::bytea",
                "SELECT a FROM t WHERE b = X'00fF' OR b = 'text'::BYTEA",
            ),
            (
                "SELECT a FROM t WHERE a NOT LIKE $1 || '%' ESCAPE '/'",
                "SELECT a FROM t WHERE a NOT LIKE like_pattern($1 || '%', '/')",
            ),
            (
                "SELECT to_char(a, 'YYYY-MM-DD HH24:MI:SS.US') FROM t",
                "SELECT to_char(a, '%Y-%m-%d %H:%M:%S.%6f') FROM t",
            ),
            (
                "SELECT a FROM INFORMATION_SCHEMA.table_constraints AS c",
                "SELECT NULL AS a WHERE false",
            ),
            ("SELECT 'grains'::regclass", "SELECT to_regclass('grains')"),
            ("SELECT a::pg_catalog.regtype", "SELECT a::TEXT"),
            (
                "SELECT indkey, 1 FROM pg_index JOIN pg_class ON true ORDER BY 1",
                "SELECT NULL AS indkey, NULL AS \"?column1?\" WHERE false",
            ),
            (
                "SELECT (SELECT typname FROM pg_type WHERE oid = a) FROM t",
                "SELECT (SELECT max(typname) FROM pg_type WHERE oid = a) FROM t",
            ),
            (
                "SELECT (SELECT c.relkind = 'c' FROM pg_class AS c WHERE c.oid = a) FROM t",
                "SELECT (SELECT max(c.relkind = 'c') FROM pg_class AS c WHERE c.oid = a) FROM t",
            ),
            (
                "SELECT array_to_string(a || array(SELECT x FROM pg_catalog.unnest(b) x), ',')",
                "SELECT array_to_string(a || CAST(NULL AS TEXT[]), ',')",
            ),
            (
                "SELECT n.oid, n.*, c.oid FROM pg_namespace AS n JOIN pg_class AS c ON true",
                "SELECT n.*, c.oid FROM pg_namespace AS n JOIN pg_class AS c ON true",
            ),
            (
                "SELECT r.a, (r.k).n AS c FROM (SELECT indkey AS k FROM pg_index) r ORDER BY 1",
                "SELECT NULL AS a, NULL AS c WHERE false",
            ),
        ] {
            assert_eq!(text(query), expected);
        }
    }
}
