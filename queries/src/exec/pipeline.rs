//! The pipeline of a RECALL as a plan (digest of CAL 1.0, section 7, "Stages"): stages run left to
//! right, over rows in a total order.
//!
//! A [`Pipeline`] keeps the order separately from the plan. The order only becomes a sort node
//! where it matters: before a limit, and at the end.

use datafusion::functions::expr_fn::concat;
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr, col, lit};
use datafusion::prelude::DataFrame;
use gristmill_schemas::grain::GrainType;

use super::columns::{ADDRESS, SCORE, as_text, key_name};
use super::error::Result;
use super::numeric::with_one_zero;
use crate::cal::ast::{Field, Offset, Stage, StageKind};
use crate::cal::fields::{FieldKind, KnownField};
use crate::cal::limits::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::cal::vocabulary::{Direction, Extractor};
use crate::cal::{CalError, Code, ResultShape};

/// The column of a list of values.
pub(super) const VALUE: &str = "value";
/// The column of a count.
pub(super) const COUNT: &str = "__count";
/// The column of row numbers.
const ROW_NUMBER: &str = "__place";
/// The column that orders a list of values.
const RANK: &str = "__rank";

/// A plan with the order of its rows.
pub(super) struct Pipeline {
    frame: DataFrame,
    order: Vec<SortExpr>,
    /// What a row is.
    pub(super) shape: ResultShape,
    /// The smallest limit of all stages; `None` without a limit.
    pub(super) row_limit: Option<u64>,
    /// True if a stage skips rows.
    pub(super) has_offset: bool,
    /// The field of GROUP BY.
    pub(super) group: Option<KnownField>,
}

/// The column with the ids of messages, in plans of conversations.
pub(super) const MESSAGE_ID: &str = "__message_id";

/// Returns the fields whose values the stages need, each once. The score is a column of every plan.
pub(super) fn stage_keys(stages: &[Stage]) -> Vec<KnownField> {
    let mut keys: Vec<KnownField> = Vec::new();
    let mut add = |field: KnownField| {
        if !keys.contains(&field) && field != KnownField::Score {
            keys.push(field);
        }
    };
    for stage in stages {
        match &stage.kind {
            StageKind::OrderBy(Field::Known(field), _)
            | StageKind::GroupBy(Field::Known(field)) => add(*field),
            StageKind::Extract(Extractor::Subjects) => {
                add(KnownField::Subject);
                add(KnownField::Type);
            }
            StageKind::Extract(Extractor::Objects) => {
                add(KnownField::Object);
                add(KnownField::Type);
            }
            _ => {}
        }
    }
    keys
}

impl Pipeline {
    /// Returns the rows of `matched` (address, score, keys) in the default order: by descending
    /// score, then by address.
    pub(super) fn new(matched: DataFrame) -> Pipeline {
        Pipeline {
            frame: matched,
            order: vec![col(SCORE).sort(false, false), by_address()],
            shape: ResultShape::Grains,
            row_limit: None,
            has_offset: false,
            group: None,
        }
    }

    /// Appends `stages` in order.
    pub(super) fn apply_stages(self, stages: &[Stage]) -> Result<Pipeline> {
        stages
            .iter()
            .try_fold(self, |pipeline, stage| pipeline.apply_stage(stage))
    }

    fn apply_stage(mut self, stage: &Stage) -> Result<Pipeline> {
        match &stage.kind {
            StageKind::Select(_) | StageKind::Project(_) => Ok(self),
            StageKind::OrderBy(Field::Known(field), direction) => {
                self.order = self.ordered_by(*field, *direction)?;
                Ok(self)
            }
            StageKind::Limit(count) => self.limit(u64::from(*count)),
            StageKind::Offset(Offset::Count(count)) => self.offset(*count),
            StageKind::Count => self.count(),
            StageKind::First => self.first(),
            StageKind::Extract(extractor) => self.extract(*extractor),
            StageKind::GroupBy(Field::Known(field)) => self.group_by(*field),
            StageKind::OrderBy(Field::Domain(_), _) | StageKind::GroupBy(Field::Domain(_)) => {
                Err(CalError::new(Code::E021, "Domain fields have no order.")
                    .at(stage.span)
                    .into())
            }
            StageKind::Offset(Offset::Parameter(parameter)) => {
                let message = format!("\"${}\" has no value.", parameter.name);
                Err(CalError::new(Code::E008, message).at(parameter.span).into())
            }
        }
    }

    /// Orders by a field, then by address. Grains without the field are last in both directions. Of
    /// the messages of a conversation, those of the same time are in its order.
    fn ordered_by(&self, field: KnownField, direction: Direction) -> Result<Vec<SortExpr>> {
        let is_ascending = direction == Direction::Ascending;
        let key = match (field, field.spec().kind) {
            (KnownField::Score, _) => col(SCORE),
            (_, FieldKind::Number) => with_one_zero(col(key_name(field)))?,
            _ => col(key_name(field)),
        };
        let mut order = vec![key.sort(is_ascending, false)];
        let schema = self.frame.schema();
        if field == KnownField::Time && schema.has_column_with_unqualified_name(MESSAGE_ID) {
            order.push(col(MESSAGE_ID).sort(is_ascending, false));
        }
        order.push(by_address());
        Ok(order)
    }

    fn limit(mut self, rows: u64) -> Result<Pipeline> {
        let fetch = usize::try_from(rows).unwrap_or(usize::MAX);
        self.frame = self.frame.sort(self.order.clone())?.limit(0, Some(fetch))?;
        self.row_limit = Some(self.row_limit.map_or(rows, |before| before.min(rows)));
        Ok(self)
    }

    /// Skips rows by row number: DataFusion moves a later sort below a limit that only skips.
    fn offset(mut self, rows: u64) -> Result<Pipeline> {
        let columns: Vec<_> = self
            .frame
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .collect();
        let number = row_number()
            .order_by(self.order.clone())
            .build()?
            .alias(ROW_NUMBER);
        let numbered = self.frame.window(vec![number])?;
        self.frame = numbered
            .filter(col(ROW_NUMBER).gt(lit(rows)))?
            .select(columns)?;
        self.has_offset = true;
        Ok(self)
    }

    fn first(self) -> Result<Pipeline> {
        let mut pipeline = self.limit(1)?;
        pipeline.shape = match pipeline.shape {
            ResultShape::Values => ResultShape::FirstValue,
            _ => ResultShape::First,
        };
        Ok(pipeline)
    }

    fn count(mut self) -> Result<Pipeline> {
        self.frame = self
            .frame
            .aggregate(vec![], vec![count(lit(1_i64)).alias(COUNT)])?;
        self.order = Vec::new();
        self.shape = ResultShape::Count;
        Ok(self)
    }

    /// Keeps the grains that have the field. The grains are grouped after they are read.
    fn group_by(mut self, field: KnownField) -> Result<Pipeline> {
        self.frame = self.frame.filter(col(key_name(field)).is_not_null())?;
        self.shape = ResultShape::Groups;
        self.group = Some(field);
        Ok(self)
    }

    /// Replaces grains by their distinct values, in the order of first occurrence.
    fn extract(mut self, extractor: Extractor) -> Result<Pipeline> {
        let value = match extractor {
            Extractor::Subjects => col(key_name(KnownField::Subject)),
            Extractor::Objects => col(key_name(KnownField::Object)),
            Extractor::Hashes => concat(vec![lit("sha256:"), as_text(col(ADDRESS))]),
        };
        if extractor != Extractor::Hashes {
            let is_belief = col(key_name(KnownField::Type)).eq(lit(GrainType::Belief.name()));
            let has_value = value.clone().is_not_null();
            self.frame = self.frame.filter(is_belief.and(has_value))?;
        }
        let rank = row_number()
            .order_by(self.order.clone())
            .build()?
            .alias(RANK);
        let ranked = self.frame.select(vec![as_text(value).alias(VALUE), rank])?;
        self.frame = ranked.aggregate(vec![col(VALUE)], vec![min(col(RANK)).alias(RANK)])?;
        self.order = vec![col(RANK).sort(true, false)];
        self.shape = ResultShape::Values;
        // Earlier limits applied to grains, not to values.
        self.row_limit = None;
        Ok(self)
    }

    /// Returns the values without an order, for comparison by IN.
    pub(super) fn into_values(self) -> Result<DataFrame> {
        Ok(self.frame.select(vec![col(VALUE)])?)
    }

    /// Sorts the rows, and limits them to what a response may hold if no stage did.
    pub(super) fn finish(self) -> Result<Pipeline> {
        if self.shape == ResultShape::Count {
            return Ok(self);
        }
        match default_limit(self.shape, self.row_limit) {
            Some(rows) => self.limit(rows),
            None => {
                let frame = self.frame.sort(self.order.clone())?;
                Ok(Pipeline { frame, ..self })
            }
        }
    }

    /// Returns the plan.
    pub(super) fn into_frame(self) -> DataFrame {
        self.frame
    }
}

/// Returns the limit of a response whose stages set none.
fn default_limit(shape: ResultShape, row_limit: Option<u64>) -> Option<u64> {
    match (shape, row_limit) {
        (ResultShape::Grains, None) => Some(u64::from(DEFAULT_LIMIT)),
        (ResultShape::Values | ResultShape::Groups, None) => Some(u64::from(MAX_LIMIT)),
        _ => None,
    }
}

fn by_address() -> SortExpr {
    col(ADDRESS).sort(true, false)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::exec::testing::recall;

    /// Five beliefs; `d` and `e` have the same subject, `c` has none.
    fn matched() -> DataFrame {
        let rows = "SELECT * FROM (VALUES
            ('a', 0.1, 'zoe', 'belief'), ('b', 0.9, 'yan', 'belief'), ('c', 0.9, NULL, 'belief'),
            ('d', 0.5, 'xia', 'belief'), ('e', 0.4, 'xia', 'event')
        ) AS t(content_address, __score, __subject, __type)";
        futures::executor::block_on(SessionContext::new().sql(rows)).unwrap()
    }

    fn pipeline(stages: &str) -> Pipeline {
        pipeline_over(matched(), stages)
    }

    fn pipeline_over(matched: DataFrame, stages: &str) -> Pipeline {
        let stages = recall(&format!("RECALL {stages}")).stages;
        Pipeline::new(matched)
            .apply_stages(&stages)
            .unwrap()
            .finish()
            .unwrap()
    }

    /// The first column of the rows that the stages leave.
    async fn first_column(stages: &str) -> Vec<String> {
        first_column_over(matched(), stages).await
    }

    async fn first_column_over(matched: DataFrame, stages: &str) -> Vec<String> {
        let pipeline = pipeline_over(matched, stages);
        let batches = pipeline.into_frame().collect().await.unwrap();
        let mut texts = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let column = batch.column(0);
                texts.push(arrow::util::display::array_value_to_string(column, row).unwrap());
            }
        }
        texts
    }

    #[tokio::test]
    async fn rows_come_by_descending_score_and_then_by_address() {
        assert_eq!(first_column("").await, ["b", "c", "d", "e", "a"]);
    }

    #[tokio::test]
    async fn grains_without_the_key_are_last_in_both_directions() {
        assert_eq!(
            first_column("| ORDER BY subject ASC").await,
            ["d", "e", "b", "a", "c"]
        );
        assert_eq!(
            first_column("| ORDER BY subject DESC").await,
            ["a", "b", "d", "e", "c"]
        );
    }

    #[tokio::test]
    async fn the_two_zeros_are_one_value_in_an_order() {
        let rows = "SELECT content_address, __score, CAST(written AS DOUBLE) AS __confidence FROM \
                    (VALUES ('a', 0.1, '0'), ('b', 0.1, '-0'), ('c', 0.1, '-1'), ('d', 0.1, '0'), \
                    ('e', 0.1, NULL)) AS t(content_address, __score, written)";
        let rows = SessionContext::new().sql(rows).await.unwrap();
        for (stages, expected) in [
            ("| ORDER BY confidence ASC", ["c", "a", "b", "d", "e"]),
            ("| ORDER BY confidence DESC", ["a", "b", "d", "c", "e"]),
        ] {
            let found = first_column_over(rows.clone(), stages).await;
            assert_eq!(found, expected, "{stages}");
        }
    }

    #[tokio::test]
    async fn a_sort_after_a_limit_or_an_offset_does_not_change_which_rows_remain() {
        assert_eq!(
            first_column("| LIMIT 2 | ORDER BY subject ASC").await,
            ["b", "c"]
        );
        assert_eq!(
            first_column("| OFFSET 3 | ORDER BY subject ASC").await,
            ["e", "a"]
        );
    }

    #[tokio::test]
    async fn values_are_distinct_in_the_order_of_first_occurrence_and_of_beliefs_only() {
        assert_eq!(first_column("| SUBJECTS").await, ["yan", "xia", "zoe"]);
        assert_eq!(first_column("| SUBJECTS | LIMIT 1").await, ["yan"]);
        assert_eq!(
            first_column("| LIMIT 1 | HASHES").await,
            ["sha256:b".to_owned()]
        );
    }

    #[tokio::test]
    async fn a_count_is_of_the_rows_before_it() {
        assert_eq!(first_column("| LIMIT 3 | COUNT").await, ["3"]);
    }

    #[test]
    fn the_smallest_limit_bounds_a_page_and_a_default_is_set_without_one() {
        assert_eq!(pipeline("| LIMIT 7 | LIMIT 3").row_limit, Some(3));
        assert_eq!(pipeline("| LIMIT 3 | LIMIT 7").row_limit, Some(3));
        assert_eq!(pipeline("").row_limit, Some(u64::from(DEFAULT_LIMIT)));
        assert_eq!(
            pipeline("| LIMIT 3 | SUBJECTS").row_limit,
            Some(u64::from(MAX_LIMIT))
        );
        assert!(!pipeline("| LIMIT 3").has_offset);
        assert!(pipeline("| OFFSET 1").has_offset);
    }

    #[test]
    fn first_of_grains_and_of_values_have_shapes_of_their_own() {
        assert_eq!(pipeline("| FIRST").shape, ResultShape::First);
        assert_eq!(
            pipeline("| SUBJECTS | FIRST").shape,
            ResultShape::FirstValue
        );
    }

    #[test]
    fn keys_are_listed_once_and_never_the_score() {
        let keys = |text: &str| stage_keys(&recall(&format!("RECALL {text}")).stages);
        assert_eq!(
            keys("| ORDER BY subject ASC | SUBJECTS"),
            [KnownField::Subject, KnownField::Type]
        );
        assert_eq!(keys("| ORDER BY score DESC | LIMIT 3"), []);
    }
}
