//! UNION, INTERSECT and EXCEPT: operands and results are plans of addresses and scores.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{col, when};
use datafusion::prelude::DataFrame;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::columns::{ADDRESS, SCORE, is_one_of};
use super::diversity::diversity_of;
use super::error::Result;
use super::pipeline::Pipeline;
use super::recall::LetScope;
use super::{Answer, QueryRun, response};
use crate::cal::ast::{Diversity, Recall, SetBody, SetOperand, SetOperation};
use crate::cal::limits::{MAX_LIMIT, MAX_SET_OPERANDS};
use crate::cal::vocabulary::SetOperator;

const RIGHT_ADDRESS: &str = "__right_address";
const RIGHT_SCORE: &str = "__right_score";

impl QueryRun<'_, '_> {
    pub(super) async fn set_operation(
        &self,
        operation: &SetOperation,
        scope: &LetScope,
    ) -> Result<Answer> {
        let frame = self.plan_set_operation(operation, scope).await?;
        let ordered = frame.sort(vec![
            col(SCORE).sort(false, false),
            col(ADDRESS).sort(true, false),
        ])?;
        // Each operand has a limit, so the result has one.
        let max_rows = MAX_LIMIT as usize * MAX_SET_OPERANDS;
        let scored = self
            .reader
            .scored_addresses(ordered.limit(0, Some(max_rows))?)
            .await?;
        let hits = self.reader.hits(scored, None, &[]).await?;
        let results: Vec<_> = hits.iter().map(response::plain_entry).collect();
        Ok(Answer {
            total: results.len() as u64,
            results,
            ..Answer::default()
        })
    }

    /// Returns the plan of the addresses and scores of a set operation.
    pub(super) fn plan_set_operation<'a>(
        &'a self,
        operation: &'a SetOperation,
        scope: &'a LetScope,
    ) -> BoxFuture<'a, Result<DataFrame>> {
        async move {
            let left = self.plan_operand(&operation.left, scope).await?;
            let right = self.plan_operand(&operation.right, scope).await?;
            combine(operation.operator, left, right)
        }
        .boxed()
    }

    async fn plan_operand(&self, operand: &SetOperand, scope: &LetScope) -> Result<DataFrame> {
        let scope = self.evaluate_lets(&operand.lets, scope).await?;
        match &operand.body {
            SetBody::Recall(recall) => {
                let planned = self.planner.plan(recall, &scope).await?;
                let pipeline = Pipeline::new(planned.matched)
                    .apply_stages(&planned.stages)?
                    .finish()?;
                let frame = pipeline
                    .into_frame()
                    .select(vec![col(ADDRESS), col(SCORE)])?;
                match self.dissimilar(recall, &scope).await? {
                    Some(kept) => Ok(frame.filter(is_one_of(ADDRESS, &kept))?),
                    None => Ok(frame),
                }
            }
            SetBody::SetOperation(inner) => self.plan_set_operation(inner, &scope).await,
        }
    }

    /// Returns the addresses that WITH diversity keeps of an operand. `None` if it keeps all, as
    /// MMR does, which only reorders them. EXPLAIN reads no grains and shows the plan without it.
    async fn dissimilar(&self, recall: &Recall, scope: &LetScope) -> Result<Option<Vec<String>>> {
        let reduces = matches!(diversity_of(&recall.options), Some(Diversity::Threshold(_)));
        if !reduces || self.planner.explain_only {
            return Ok(None);
        }
        let kept = self.recalled_grains(recall, scope).await?.hits;
        let kept: Vec<String> = kept.into_iter().map(|hit| hit.view.address).collect();
        // Without grains there is nothing to leave out.
        Ok(Some(kept).filter(|kept| !kept.is_empty()))
    }
}

fn combine(operator: SetOperator, left: DataFrame, right: DataFrame) -> Result<DataFrame> {
    match operator {
        SetOperator::Union => union(left, right),
        SetOperator::Intersect => intersect(left, right),
        SetOperator::Except => join(left, right, JoinType::LeftAnti),
    }
}

/// Returns the rows of both sides, each address once with its greater score.
fn union(left: DataFrame, right: DataFrame) -> Result<DataFrame> {
    Ok(left
        .union(right)?
        .aggregate(vec![col(ADDRESS)], vec![max(col(SCORE)).alias(SCORE)])?)
}

/// Returns the common addresses, each with its lesser score.
fn intersect(left: DataFrame, right: DataFrame) -> Result<DataFrame> {
    let joined = join(left, right, JoinType::Inner)?;
    let lesser = when(col(SCORE).lt(col(RIGHT_SCORE)), col(SCORE)).otherwise(col(RIGHT_SCORE))?;
    Ok(joined.select(vec![col(ADDRESS), lesser.alias(SCORE)])?)
}

/// Joins by address. Columns are renamed first, so that both sides may come from the same table.
fn join(left: DataFrame, right: DataFrame, kind: JoinType) -> Result<DataFrame> {
    let left = left.select(vec![col(ADDRESS).alias(ADDRESS), col(SCORE).alias(SCORE)])?;
    let right = right.select(vec![
        col(ADDRESS).alias(RIGHT_ADDRESS),
        col(SCORE).alias(RIGHT_SCORE),
    ])?;
    Ok(left.join(right, kind, &[ADDRESS], &[RIGHT_ADDRESS], None)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Float64Type;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// Combines two lists of addresses and scores, and returns the result by address.
    async fn combined(operator: SetOperator) -> Vec<(String, f64)> {
        let context = SessionContext::new();
        let side = async |rows: &str| {
            let query = format!("SELECT * FROM (VALUES {rows}) AS t(content_address, __score)");
            context.sql(&query).await.unwrap()
        };
        let left = side("('a', 0.9), ('b', 0.4), ('c', 0.2)").await;
        let right = side("('b', 0.7), ('c', 0.1), ('d', 0.3)").await;
        let batches = combine(operator, left, right)
            .unwrap()
            .sort(vec![col(ADDRESS).sort(true, false)])
            .unwrap()
            .collect()
            .await
            .unwrap();
        let rows = batches.iter().flat_map(|batch| {
            let addresses =
                arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8);
            let scores = batch.column(1).as_primitive::<Float64Type>().clone();
            let addresses = addresses.unwrap().as_string::<i32>().clone();
            (0..addresses.len())
                .map(move |row| (addresses.value(row).to_owned(), scores.value(row)))
                .collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn row(address: &str, score: f64) -> (String, f64) {
        (address.to_owned(), score)
    }

    #[tokio::test]
    async fn a_union_has_each_address_once_with_its_greater_score() {
        assert_eq!(
            combined(SetOperator::Union).await,
            [row("a", 0.9), row("b", 0.7), row("c", 0.2), row("d", 0.3)]
        );
    }

    #[tokio::test]
    async fn an_intersection_has_the_lesser_scores() {
        assert_eq!(
            combined(SetOperator::Intersect).await,
            [row("b", 0.4), row("c", 0.1)]
        );
    }

    #[tokio::test]
    async fn a_difference_keeps_the_scores_of_the_left_side() {
        assert_eq!(combined(SetOperator::Except).await, [row("a", 0.9)]);
    }
}
