//! The pipeline of a RECALL as a plan (digest of CAL 1.0, section 7, "Stages"): stages run left to
//! right, the order is total.
//!
//! A flow is a plan and the order of its rows. The order becomes a sort where it matters: before
//! rows are left out, and at the end.

use datafusion::functions::expr_fn::concat;
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr, col, lit};
use datafusion::prelude::DataFrame;
use gristmill_schemas::grain::GrainType;

use super::columns::{ADDRESS, SCORE, as_text, key_name};
use super::error::Result;
use crate::cal::ast::{Field, Offset, Stage, StageKind};
use crate::cal::fields::KnownField;
use crate::cal::limits::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::cal::vocabulary::{Direction, Extractor};
use crate::cal::{CalError, Code, Shape};

/// The column of a list of values.
pub(super) const VALUE: &str = "value";
/// The column of a count.
pub(super) const COUNT: &str = "__count";
/// The column that counts rows.
const PLACE: &str = "__place";
/// The column that orders a list of values.
const RANK: &str = "__rank";

/// A plan with the order of its rows.
pub(super) struct Pipeline {
    frame: DataFrame,
    order: Vec<SortExpr>,
    /// What the rows are.
    pub(super) shape: Shape,
    /// The most rows that the stages leave; `None` if they don't say.
    pub(super) most: Option<u64>,
    /// Rows are skipped.
    pub(super) skips: bool,
    /// The field of GROUP BY.
    pub(super) group: Option<KnownField>,
}

/// The fields whose values the stages need.
pub(super) fn keys(stages: &[Stage]) -> Vec<KnownField> {
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
    /// The rows of `matched` (address, score, keys) in the default order: best first, then by
    /// address.
    pub(super) fn new(matched: DataFrame) -> Pipeline {
        Pipeline {
            frame: matched,
            order: vec![col(SCORE).sort(false, false), by_address()],
            shape: Shape::Grains,
            most: None,
            skips: false,
            group: None,
        }
    }

    /// The flow behind all of `pipeline`.
    pub(super) fn through(self, stages: &[Stage]) -> Result<Pipeline> {
        stages
            .iter()
            .try_fold(self, |flow, stage| flow.stage(stage))
    }

    fn stage(mut self, stage: &Stage) -> Result<Pipeline> {
        match &stage.kind {
            StageKind::Select(_) | StageKind::Project(_) => {}
            StageKind::OrderBy(Field::Known(field), direction) => {
                self.order = ordered_by(*field, *direction)
            }
            StageKind::Limit(count) => self = self.cut(0, Some(u64::from(*count)))?,
            StageKind::Offset(Offset::Count(count)) => {
                self = self.cut(*count, None)?;
                self.skips = true;
            }
            StageKind::Count => self = self.counted()?,
            StageKind::First => {
                self = self.cut(0, Some(1))?;
                self.shape = if self.shape == Shape::Values {
                    Shape::FirstValue
                } else {
                    Shape::First
                };
            }
            StageKind::Extract(extractor) => self = self.extracted(*extractor)?,
            StageKind::GroupBy(Field::Known(field)) => {
                self.frame = self.frame.filter(col(key_name(*field)).is_not_null())?;
                self.shape = Shape::Groups;
                self.group = Some(*field);
            }
            StageKind::OrderBy(Field::Domain(_), _) | StageKind::GroupBy(Field::Domain(_)) => {
                return Err(CalError::new(Code::E021, "Domain fields have no order.")
                    .at(stage.span)
                    .into());
            }
            StageKind::Offset(Offset::Parameter(parameter)) => {
                let message = format!("\"${}\" has no value.", parameter.name);
                return Err(CalError::new(Code::E008, message).at(parameter.span).into());
            }
        }
        Ok(self)
    }

    fn cut(mut self, skip: u64, fetch: Option<u64>) -> Result<Pipeline> {
        let rows = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        self.frame = match fetch {
            Some(fetch) => self
                .frame
                .sort(self.order.clone())?
                .limit(rows(skip), Some(rows(fetch)))?,
            None => self.without_first(skip)?,
        };
        self.most = match (self.most, fetch) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (before, now) => before.or(now),
        };
        Ok(self)
    }

    /// The rows behind the first `skip`. Told by their places: DataFusion lets a later sort pass a
    /// limit that only skips.
    fn without_first(&self, skip: u64) -> Result<DataFrame> {
        let columns: Vec<_> = self
            .frame
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .collect();
        let place = row_number()
            .order_by(self.order.clone())
            .build()?
            .alias(PLACE);
        let placed = self.frame.clone().window(vec![place])?;
        Ok(placed.filter(col(PLACE).gt(lit(skip)))?.select(columns)?)
    }

    fn counted(mut self) -> Result<Pipeline> {
        self.frame = self
            .frame
            .aggregate(vec![], vec![count(lit(1_i64)).alias(COUNT)])?;
        self.order = Vec::new();
        self.shape = Shape::Count;
        Ok(self)
    }

    /// The distinct values in the order in which they come first.
    fn extracted(mut self, extractor: Extractor) -> Result<Pipeline> {
        let field = match extractor {
            Extractor::Subjects => Some(KnownField::Subject),
            Extractor::Objects => Some(KnownField::Object),
            Extractor::Hashes => None,
        };
        let value = match field {
            Some(field) => {
                let is_belief = col(key_name(KnownField::Type)).eq(lit(GrainType::Belief.name()));
                self.frame = self
                    .frame
                    .filter(is_belief.and(col(key_name(field)).is_not_null()))?;
                as_text(col(key_name(field)))
            }
            None => concat(vec![lit("sha256:"), as_text(col(ADDRESS))]),
        };
        let rank = row_number()
            .order_by(self.order.clone())
            .build()?
            .alias(RANK);
        let ranked = self.frame.select(vec![value.alias(VALUE), rank])?;
        self.frame = ranked.aggregate(vec![col(VALUE)], vec![min(col(RANK)).alias(RANK)])?;
        self.order = vec![col(RANK).sort(true, false)];
        self.shape = Shape::Values;
        // LIMITs before chose grains, not values.
        self.most = None;
        Ok(self)
    }

    /// The values alone, in no order: what IN compares with.
    pub(super) fn into_values(self) -> Result<DataFrame> {
        Ok(self.frame.select(vec![col(VALUE)])?)
    }

    /// The rows in order, no more than a response holds.
    pub(super) fn finish(self) -> Result<Pipeline> {
        let bound = match self.shape {
            Shape::Grains if self.most.is_none() => Some(DEFAULT_LIMIT),
            Shape::Values | Shape::Groups if self.most.is_none() => Some(MAX_LIMIT),
            Shape::Count => return Ok(self),
            _ => None,
        };
        match bound {
            Some(bound) => self.cut(0, Some(u64::from(bound))),
            None => {
                let frame = self.frame.sort(self.order.clone())?;
                Ok(Pipeline { frame, ..self })
            }
        }
    }

    /// The plan.
    pub(super) fn into_frame(self) -> DataFrame {
        self.frame
    }
}

fn by_address() -> SortExpr {
    col(ADDRESS).sort(true, false)
}

/// By a field, grains without it last whatever the direction, equal ones by address.
fn ordered_by(field: KnownField, direction: Direction) -> Vec<SortExpr> {
    let key = if field == KnownField::Score {
        col(SCORE)
    } else {
        col(key_name(field))
    };
    vec![
        key.sort(direction == Direction::Ascending, false),
        by_address(),
    ]
}
