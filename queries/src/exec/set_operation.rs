//! UNION, INTERSECT and EXCEPT: both sides are plans of addresses and scores, and so is the result.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::logical_expr::{col, when};
use datafusion::prelude::DataFrame;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::columns::{ADDRESS, SCORE};
use super::error::Result;
use super::pipeline::Pipeline;
use super::recall::Scope;
use super::{Answer, QueryRun, response};
use crate::cal::ast::{SetBody, SetOperand, SetOperation};
use crate::cal::limits::{MAX_LIMIT, MAX_SET_OPERANDS};
use crate::cal::vocabulary::SetOperator;

const RIGHT_ADDRESS: &str = "__right_address";
const RIGHT_SCORE: &str = "__right_score";

impl QueryRun<'_, '_> {
    pub(super) async fn set_operation(
        &self,
        operation: &SetOperation,
        scope: &Scope,
    ) -> Result<Answer> {
        let frame = self.combined(operation, scope).await?;
        let ordered = frame.sort(vec![
            col(SCORE).sort(false, false),
            col(ADDRESS).sort(true, false),
        ])?;
        // Operands are answers, so there is a greatest number of grains.
        let most = MAX_LIMIT as usize * MAX_SET_OPERANDS;
        let found = self.reader.found(ordered.limit(0, Some(most))?).await?;
        let hits = self.reader.hits(found, None, &[]).await?;
        let results: Vec<_> = hits.iter().map(response::plain_entry).collect();
        Ok(Answer {
            total: results.len() as u64,
            results,
            ..Answer::default()
        })
    }

    /// The plan of addresses and scores that the operation yields.
    pub(super) fn combined<'a>(
        &'a self,
        operation: &'a SetOperation,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<DataFrame>> {
        async move {
            let left = self.operand(&operation.left, scope).await?;
            let right = self.operand(&operation.right, scope).await?;
            combine(operation.operator, left, right)
        }
        .boxed()
    }

    async fn operand(&self, operand: &SetOperand, scope: &Scope) -> Result<DataFrame> {
        let scope = self.bindings(&operand.lets, scope).await?;
        match &operand.body {
            SetBody::Recall(recall) => {
                let planned = self.planner.plan(recall, &scope).await?;
                let flow = Pipeline::new(planned.matched)
                    .through(&planned.stages)?
                    .finish()?;
                Ok(flow.into_frame().select(vec![col(ADDRESS), col(SCORE)])?)
            }
            SetBody::SetOperation(inner) => self.combined(inner, &scope).await,
        }
    }
}

fn combine(operator: SetOperator, left: DataFrame, right: DataFrame) -> Result<DataFrame> {
    if operator == SetOperator::Union {
        return Ok(left
            .union(right)?
            .aggregate(vec![col(ADDRESS)], vec![max(col(SCORE)).alias(SCORE)])?);
    }
    let left = left.select(vec![col(ADDRESS).alias(ADDRESS), col(SCORE).alias(SCORE)])?;
    let right = right.select(vec![
        col(ADDRESS).alias(RIGHT_ADDRESS),
        col(SCORE).alias(RIGHT_SCORE),
    ])?;
    let kind = if operator == SetOperator::Except {
        JoinType::LeftAnti
    } else {
        JoinType::Inner
    };
    let joined = left.join(right, kind, &[ADDRESS], &[RIGHT_ADDRESS], None)?;
    if operator == SetOperator::Except {
        return Ok(joined);
    }
    let lesser = when(col(SCORE).lt(col(RIGHT_SCORE)), col(SCORE)).otherwise(col(RIGHT_SCORE))?;
    Ok(joined.select(vec![col(ADDRESS), lesser.alias(SCORE)])?)
}
