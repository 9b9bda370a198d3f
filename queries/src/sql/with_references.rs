//! Limits how often a statement reads tables, with the references of queries of WITH to each other.
//! Each reference is planned once more, and planning itself visits what they share once for each
//! path to it: neither a time limit nor a client interrupts it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Visit, Visitor};

/// Largest number of reads.
const MAX_READS: usize = 4_096;

/// Refuses a statement that would read tables too often.
///
/// # Errors
/// `Plan`, with the remedy.
pub(super) fn check_references(statement: &Statement) -> Result<()> {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return check_references(&explain.statement),
        _ => return Ok(()),
    };
    let mut reads = Reads::default();
    let _: ControlFlow<()> = statement.visit(&mut reads);
    let most = reads.most;
    if most > MAX_READS {
        return plan_err!(
            "the statement reads tables {most} times, with the references of queries of WITH to \
             each other, more than {MAX_READS}; write it in fewer steps"
        );
    }
    Ok(())
}

/// The reads of the queries that are visited.
#[derive(Default)]
struct Reads {
    /// The reads of queries of WITH by their names; of all that have the same, the most.
    named: HashMap<String, usize>,
    /// The names of queries of WITH by the addresses of their definitions.
    definitions: HashMap<*const Query, String>,
    /// The reads so far of the query that is visited, and of those around it.
    open: Vec<usize>,
    most: usize,
}

impl Reads {
    fn add(&mut self, reads: usize) {
        if let Some(sum) = self.open.last_mut() {
            *sum = sum.saturating_add(reads);
            self.most = self.most.max(*sum);
        }
    }
}

impl Visitor for Reads {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for definition in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = definition.alias.name.value.to_lowercase();
            let address = std::ptr::from_ref(definition.query.as_ref());
            self.definitions.insert(address, name);
        }
        self.open.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let reads = self.open.pop().unwrap_or_default();
        match self.definitions.remove(&std::ptr::from_ref(query)) {
            Some(name) => {
                let named = self.named.entry(name).or_default();
                *named = reads.max(*named).max(1);
            }
            None => self.add(reads),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = relation.to_string().replace('"', "").to_lowercase();
        let reads = self.named.get(&name).copied().unwrap_or(1);
        self.add(reads);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SqlOptions, bare_context, plan_query};

    #[tokio::test]
    async fn references_of_references_are_counted_before_the_statement_is_planned() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        for from in [
            "FROM before a JOIN before b ON a.x = b.x",
            "FROM before AS a WHERE a.x IN (SELECT x FROM before)",
        ] {
            let levels = |levels: usize| {
                let mut query = "WITH t0 AS (SELECT 1 AS x)".to_owned();
                for level in 1..=levels {
                    let from = from.replace("before", &format!("t{}", level - 1));
                    query += &format!(", T{level} AS (SELECT a.x {from})");
                }
                query + &format!(" SELECT count(*) FROM t{levels}")
            };
            assert!(plan_query(&context, &levels(5)).await.is_ok());
            for query in [levels(60), format!("EXPLAIN {}", levels(60))] {
                let refused = plan_query(&context, &query).await.unwrap_err();
                assert!(refused.to_string().contains("more than 4096"), "{refused}");
            }
        }
    }
}
