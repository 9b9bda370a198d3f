//! `docs/cal-grammar.md` has the answers of `DESCRIBE grammar` and `DESCRIBE fields`.
//!
//! `GRISTMILL_UPDATE_DOCS=1 cargo test --test integration cal_grammar::` writes the page.

use std::fmt::Write as _;

use gristmill_queries::cal::describe::GRAMMAR;
use gristmill_queries::cal::fields::{FieldSpec, Operator, available};
use gristmill_queries::cal::grain_type::GrainType;
use gristmill_tests::generated_page::assert_generated;

const PAGE: &str = "docs/cal-grammar.md";

#[test]
fn the_page_has_the_grammar_that_describe_answers() {
    let grammar = format!("```text\n{GRAMMAR}```\n");
    assert_generated(PAGE, "grammar", &grammar, "cal_grammar::");
}

#[test]
fn the_page_has_the_fields_that_describe_answers() {
    let mut table = "| field | of | type | operators | also in | meaning |\n".to_owned();
    table.push_str("|---|---|---|---|---|---|\n");
    let of_all = available(None);
    let of_one = GrainType::ALL
        .into_iter()
        .flat_map(|one| available(Some(one)).filter(|spec| spec.owner.is_some()));
    for spec in of_all.chain(of_one) {
        let _ = writeln!(table, "{}", row(spec));
    }
    assert_generated(PAGE, "fields", &table, "cal_grammar::");
}

fn row(spec: &FieldSpec) -> String {
    let operators: Vec<String> = spec
        .operators
        .iter()
        .map(|operator: Operator| format!("`{}`", operator.name()))
        .collect();
    let clauses = [
        (spec.projectable, "SELECT"),
        (spec.sortable, "ORDER BY"),
        (spec.groupable, "GROUP BY"),
    ];
    let clauses = clauses.into_iter().filter(|(accepts, _)| *accepts);
    let clauses: Vec<&str> = clauses.map(|(_, clause)| clause).collect();
    format!(
        "| `{}` | {} | {} | {} | {} | {} |",
        spec.name,
        spec.owner.map_or("all", GrainType::name),
        spec.kind.name(),
        operators.join(" "),
        clauses.join(", "),
        spec.about
    )
}
