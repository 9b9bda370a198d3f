//! Random queries in SQL over the tables, views and functions of a session.
//!
//! A query whose rows have an order sorts by all of its columns, so that it has one answer; only
//! such queries have a LIMIT.

use super::catalog::{Catalog, Kind, Relation};
use super::dice::Dice;
use super::expressions::Scope;

/// A query and whether its rows have an order.
pub(super) struct SqlQuery {
    pub(super) text: String,
    pub(super) is_ordered: bool,
}

/// Generates queries.
pub(super) struct SqlGenerator<'c> {
    catalog: &'c Catalog,
    dice: Dice,
}

impl<'c> SqlGenerator<'c> {
    pub(super) fn new(catalog: &'c Catalog, dice: Dice) -> SqlGenerator<'c> {
        SqlGenerator { catalog, dice }
    }

    /// Returns the next query.
    pub(super) fn query(&mut self) -> SqlQuery {
        match self.dice.below(40) {
            0 => unordered(self.probe()),
            1 => unordered(self.failing()),
            2 => {
                let query = self.shaped();
                unordered(format!("EXPLAIN {}", query.text))
            }
            _ => self.shaped(),
        }
    }

    fn shaped(&mut self) -> SqlQuery {
        match self.dice.below(16) {
            0..4 => self.select(),
            4..7 => self.grouped(),
            7..9 => self.joined(),
            9 => self.with_subquery(),
            10 => self.with_tables(),
            11 => self.set(),
            12 => self.window(),
            13 => self.nested(),
            14 => self.unnested(),
            _ => self.distinct(),
        }
    }

    fn relation(&mut self) -> (String, &'c Relation) {
        self.catalog.relation(&mut self.dice)
    }

    fn scope(&self, alias: &'static str, relation: &'c Relation) -> Scope<'c> {
        Scope::new(self.catalog, alias, relation)
    }

    /// Returns WHERE with a condition, or nothing.
    fn filter(&mut self, scope: &Scope<'_>) -> String {
        match self.dice.below(3) {
            0 => String::new(),
            depth => {
                let condition = scope.condition(&mut self.dice, depth - 1);
                format!(" WHERE {condition}")
            }
        }
    }

    /// Returns some scalar expressions with names `c0`, `c1` …
    fn outputs(&mut self, scope: &Scope<'_>) -> Vec<String> {
        (0..1 + self.dice.below(4))
            .map(|at| format!("{} AS c{at}", scope.scalar(&mut self.dice)))
            .collect()
    }

    /// Gives `query`, with `columns` that can be sorted, an order and perhaps a LIMIT, or leaves it
    /// as it is.
    fn ordered(&mut self, query: String, columns: usize) -> SqlQuery {
        if self.dice.one_in(3) {
            return unordered(query);
        }
        let mut keys = Vec::new();
        for column in 1..=columns {
            keys.push(format!(
                "{column}{}",
                self.dice.rarely(&[" DESC", " NULLS FIRST"])
            ));
        }
        let mut text = format!("{query} ORDER BY {}", keys.join(", "));
        if self.dice.one_in(3) {
            text += &format!(" LIMIT {}", self.dice.below(20));
            if self.dice.one_in(2) {
                text += &format!(" OFFSET {}", self.dice.below(10));
            }
        }
        SqlQuery {
            text,
            is_ordered: true,
        }
    }

    fn select(&mut self) -> SqlQuery {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let filter = self.filter(&scope);
        let whole = self.dice.one_in(8);
        if whole {
            // Lists and structs, too.
            let columns = relation.columns.iter().map(|column| scope.named(column));
            let columns = columns.collect::<Vec<_>>().join(", ");
            return unordered(format!("SELECT {columns} FROM {from} t{filter}"));
        }
        let outputs = self.outputs(&scope);
        let query = format!("SELECT {} FROM {from} t{filter}", outputs.join(", "));
        self.ordered(query, outputs.len())
    }

    fn distinct(&mut self) -> SqlQuery {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let (filter, outputs) = (self.filter(&scope), self.outputs(&scope));
        let query = format!(
            "SELECT DISTINCT {} FROM {from} t{filter}",
            outputs.join(", ")
        );
        self.ordered(query, outputs.len())
    }

    fn grouped(&mut self) -> SqlQuery {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let filter = self.filter(&scope);
        let keys: Vec<String> = (0..self.dice.below(3))
            .map(|_| scope.scalar(&mut self.dice))
            .collect();
        let aggregates: Vec<String> = (0..1 + self.dice.below(3))
            .map(|_| scope.aggregate(&mut self.dice))
            .collect();
        let columns = keys.iter().chain(&aggregates).enumerate();
        let columns: Vec<String> = columns.map(|(at, it)| format!("{it} AS c{at}")).collect();
        let mut query = format!("SELECT {} FROM {from} t{filter}", columns.join(", "));
        if !keys.is_empty() {
            let list = keys.join(", ");
            query += &match self.dice.below(5) {
                0 => format!(" GROUP BY ROLLUP ({list})"),
                1 => format!(" GROUP BY CUBE ({list})"),
                _ => format!(" GROUP BY {list}"),
            };
            if self.dice.one_in(3) {
                query += &format!(" HAVING count(*) > {}", self.dice.below(8));
            }
        }
        self.ordered(query, columns.len())
    }

    fn joined(&mut self) -> SqlQuery {
        let ((left, one), (right, two)) = (self.relation(), self.relation());
        let (a, b) = (self.scope("a", one), self.scope("b", two));
        let condition = self.join_condition(&a, &b);
        let kind = self
            .dice
            .word(&["", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI "]);
        let one_side = kind.contains("SEMI") || kind.contains("ANTI");
        let mut outputs = vec![
            "count(*) AS n".to_owned(),
            format!("{} AS a0", a.aggregate(&mut self.dice)),
        ];
        if !one_side {
            outputs.push(format!("{} AS b0", b.aggregate(&mut self.dice)));
        }
        let filter = self.filter(&a);
        let from = format!("{left} a {kind}JOIN {right} b ON {condition}{filter}");
        if self.dice.one_in(2) {
            return unordered(format!("SELECT {} FROM {from}", outputs.join(", ")));
        }
        let mut columns = self.outputs(&a);
        if !one_side {
            columns.push(format!("{} AS b0", b.scalar(&mut self.dice)));
        }
        let count = columns.len();
        self.ordered(format!("SELECT {} FROM {from}", columns.join(", ")), count)
    }

    /// Returns a comparison of a column of both sides; there is always a text.
    fn join_condition(&mut self, a: &Scope<'_>, b: &Scope<'_>) -> String {
        let is_in_b = |name: &str| b.columns.iter().any(|column| column.name == name);
        let texts = a.columns.iter().filter(|column| column.kind == Kind::Text);
        let shared: Vec<_> = texts.filter(|column| is_in_b(&column.name)).collect();
        if !shared.is_empty() && !self.dice.one_in(4) {
            let column = self.dice.pick(&shared);
            return format!("{} = b.\"{}\"", a.named(column), column.name);
        }
        let text = |scope: &Scope<'_>, dice: &mut Dice| scope.of_kind(Kind::Text, dice);
        let (one, two) = (text(a, &mut self.dice), text(b, &mut self.dice));
        match (one, two) {
            (Some(one), Some(two)) => format!("{one} = {two}"),
            _ => "true".to_owned(),
        }
    }

    /// Returns a query of one text column of a relation.
    fn texts_of(&mut self, alias: &'static str) -> String {
        let (from, relation) = self.relation();
        let scope = self.scope(alias, relation);
        let column = scope.of_kind(Kind::Text, &mut self.dice);
        let column = column.unwrap_or_else(|| "'none'".to_owned());
        let filter = self.filter(&scope);
        format!("SELECT {column} AS x FROM {from} {alias}{filter}")
    }

    fn with_subquery(&mut self) -> SqlQuery {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let text = scope.of_kind(Kind::Text, &mut self.dice);
        let text = text.unwrap_or_else(|| "'none'".to_owned());
        let inner = self.texts_of("u");
        let condition = match self.dice.below(5) {
            0 => format!("{text} IN ({inner})"),
            1 => format!("{text} NOT IN (SELECT x FROM ({inner}) i WHERE x IS NOT NULL)"),
            2 => format!("EXISTS (SELECT 1 FROM ({inner}) i WHERE i.x = {text})"),
            3 => format!("NOT EXISTS (SELECT 1 FROM ({inner}) i WHERE i.x = {text})"),
            _ => format!("{text} >= (SELECT min(x) FROM ({inner}) i)"),
        };
        let outputs = self.outputs(&scope);
        let query = format!(
            "SELECT {} FROM {from} t WHERE {condition}",
            outputs.join(", ")
        );
        self.ordered(query, outputs.len())
    }

    fn with_tables(&mut self) -> SqlQuery {
        let (one, two) = (self.texts_of("u"), self.texts_of("v"));
        let query = match self.dice.below(3) {
            0 => "SELECT p.x, count(*) AS n FROM p JOIN q ON p.x = q.x GROUP BY p.x",
            1 => "SELECT x, (SELECT count(*) FROM q WHERE q.x = p.x) AS n FROM p",
            _ => {
                "SELECT max(x) AS x, count(DISTINCT x) AS n \
                 FROM (SELECT * FROM p UNION ALL SELECT * FROM q)"
            }
        };
        self.ordered(format!("WITH p AS ({one}), q AS ({two}) {query}"), 2)
    }

    fn set(&mut self) -> SqlQuery {
        let operators = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"];
        let mut query = format!("SELECT x FROM ({}) s0", self.texts_of("u"));
        for at in 1..2 + self.dice.below(2) {
            let operator = self.dice.word(&operators);
            query += &format!(" {operator} SELECT x FROM ({}) s{at}", self.texts_of("u"));
        }
        self.ordered(format!("SELECT x FROM ({query}) s"), 1)
    }

    fn window(&mut self) -> SqlQuery {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let (key, part) = (scope.scalar(&mut self.dice), scope.scalar(&mut self.dice));
        let filter = self.filter(&scope);
        let mut calls = vec![
            format!("rank() OVER (ORDER BY {key})"),
            format!("dense_rank() OVER (PARTITION BY {part} ORDER BY {key})"),
            format!("count(*) OVER (PARTITION BY {part})"),
            format!("count(*) OVER (ORDER BY {key} NULLS FIRST)"),
            format!("max({key}) OVER (PARTITION BY {part})"),
            "count(*) OVER ()".to_owned(),
        ];
        if relation.has_one_row_per_grain {
            for call in ["row_number()", "lag(t.content_address)", "ntile(3)"] {
                calls.push(format!("{call} OVER (ORDER BY t.content_address)"));
            }
        }
        let call = self.dice.pick(&calls).clone();
        let query = format!("SELECT {key} AS k, {part} AS p, {call} AS w FROM {from} t{filter}");
        self.ordered(query, 3)
    }

    /// Returns a query of a query.
    fn nested(&mut self) -> SqlQuery {
        let SqlQuery { text, .. } = self.select();
        unordered(format!("SELECT count(*) AS n FROM ({text}) inner_query"))
    }

    fn unnested(&mut self) -> SqlQuery {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let filter = self.filter(&scope);
        match scope.of_kind(Kind::Texts, &mut self.dice) {
            Some(list) => {
                let query = format!(
                    "SELECT item, count(*) AS n FROM (SELECT unnest({list}) AS item FROM {from} t{filter}) u \
                     GROUP BY item"
                );
                self.ordered(query, 2)
            }
            None => unordered(format!("SELECT count(*) AS n FROM {from} t{filter}")),
        }
    }

    /// Returns a query that fails at rows of `foreign` only, or at rows of both.
    fn failing(&mut self) -> String {
        let (from, relation) = self.relation();
        let scope = self.scope("t", relation);
        let text = scope.of_kind(Kind::Text, &mut self.dice);
        let text = text.unwrap_or_else(|| "'none'".to_owned());
        match self.dice.below(4) {
            0 => format!("SELECT count(*) AS n FROM {from} t WHERE CAST({text} AS INT) = 1"),
            1 => format!(
                "SELECT count(*) AS n FROM {from} t WHERE 10 / (CASE WHEN {text} LIKE '%foreign%' \
                 THEN 0 ELSE 1 END) > 0"
            ),
            2 => format!(
                "SELECT max(CAST(CASE WHEN {text} LIKE '%foreign%' THEN {text} ELSE '1' END AS INT)) \
                 AS n FROM {from} t"
            ),
            _ => format!("SELECT {text}, t.nothing FROM {from} t"),
        }
    }

    /// Returns a query of the catalog, or one that reaches for what a session doesn't have.
    fn probe(&mut self) -> String {
        let (_, relation) = self.relation();
        let address = self.catalog.address(&mut self.dice);
        let probe = *self.dice.pick(&PROBES);
        let name = match relation.is_function {
            true => "grains",
            false => relation.name.as_str(),
        };
        probe.replace("@T", name).replace("ADDRESS", &address)
    }
}

fn unordered(text: String) -> SqlQuery {
    SqlQuery {
        text,
        is_ordered: false,
    }
}

const PROBES: [&str; 29] = [
    "SELECT table_name, table_type FROM information_schema.tables",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '@T'",
    "SELECT * FROM information_schema.views",
    "SELECT name, value FROM information_schema.df_settings WHERE name LIKE 'datafusion.sql%'",
    "SELECT routine_name FROM information_schema.routines",
    "SHOW TABLES",
    "SHOW COLUMNS FROM @T",
    "DESCRIBE @T",
    "SELECT * FROM segments",
    "SELECT * FROM source_progress",
    "SELECT * FROM indexes",
    "SELECT * FROM sources",
    "SELECT * FROM rejects",
    "SELECT * FROM audit",
    "SELECT * FROM visible",
    "SELECT * FROM search('tea')",
    "SELECT * FROM search('foreign', 5) WHERE namespace = 'foreign'",
    "SELECT * FROM hybrid_search('tea', 3)",
    "SELECT * FROM vector_search([1.0, 0.5], 3)",
    "SELECT * FROM known_at('2026-06-01T00:00:00Z')",
    "SELECT * FROM valid_at('2026-06-01T00:00:00Z', '2026-06-01T00:00:00Z')",
    "SELECT * FROM mg_file('/etc/passwd')",
    "COPY (SELECT * FROM @T) TO '/tmp/x.csv'",
    "DROP TABLE @T",
    "INSERT INTO @T SELECT * FROM @T",
    "SELECT * FROM graims",
    "SELECT \"@T\" FROM @T",
    "SELECT count(*) FROM grains WHERE content_address = 'ADDRESS' OR blob IS NULL",
    "SELECT * FROM provenance('ADDRESS', 'deep')",
];
