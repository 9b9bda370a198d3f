//! Differential test of plans: for random statements over random grains, DataFusion's answer equals
//! that of a naive executor, which reads every grain for every condition.

mod answers;
mod grains;
mod statements;
mod words;

use std::time::Duration;

use gristmill_queries::cal::ast::Statement;
use gristmill_queries::cal::{Bindings, Options, bind, parse};
use gristmill_queries::exec::{Executor, Session};
use proptest::collection::vec;
use proptest::prelude::*;

use answers::{cuts, expected, searches, shown, without_order};
use grains::{Index, grain, index, stores};
use statements::statement;

/// 2026-01-15T12:00:00Z
const NOW: i64 = 1_768_478_400_000;

fn check(grains: &[(String, Index)], statements: &[String]) -> Result<(), TestCaseError> {
    let (memory, store) = stores(grains);
    let session = Session {
        namespace: Some("demo".to_owned()),
        user: Some("alice".to_owned()),
        query_timeout: Duration::from_secs(600),
        assemble_timeout: Duration::from_secs(600),
        ..Session::at(NOW)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let executor = Executor::new(memory.context(), session);
    for text in statements {
        // Some random shortcuts exclude one another.
        let Ok(parsed) = parse(text, Options::default()) else {
            continue;
        };
        let query = bind(&parsed.query, &Bindings::new(), Options::default()).unwrap();
        // The oracle has no scores: it can't tell which matches of a search such a condition keeps.
        if searches(&query.statement) && text.contains("score >=") {
            continue;
        }
        let is_assembly = matches!(query.statement, Statement::Assemble(_));
        let answer = runtime
            .block_on(executor.run(&query))
            .map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let wanted = store
            .run(&query, Some("alice"))
            .map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let (mut got, mut wanted) = (shown(&answer.answer), expected(&store, wanted, is_assembly));
        if searches(&query.statement) {
            if cuts(text) || wanted.grains.len() >= 20 {
                (got.grains, wanted.grains) = (Vec::new(), Vec::new());
                (got.value, wanted.value) = (None, None);
                (got.groups, wanted.groups) = (None, None);
            }
            (got, wanted) = (without_order(got), without_order(wanted));
        }
        prop_assert_eq!(got, wanted, "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn plans_and_the_oracle_give_the_same_answers(
        grains in vec((grain(), index()), 1..40),
        statements in vec(statement(), 12..16),
    ) {
        check(&grains, &statements)?;
    }
}
