//! Joins on equal columns whose texts are views.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, JoinOnRef, SortMergeJoinExec};

use super::super::pass_through::PassThroughExec;
use super::GatherLimits;
use super::joined_widths::JoinedWidths;
use super::restored::{RestoredFilter, RestoredTexts};
use super::viewed::{InputColumns, ViewedInput};

/// Returns true if values of a type may be wide.
pub(super) fn may_be_wide(kind: &DataType) -> bool {
    !(kind.is_primitive() || matches!(kind, DataType::Boolean | DataType::Null))
}

/// Returns the type of views of texts or byte strings; `None` for other types.
fn type_of_views(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    }
}

/// Returns a join on equal columns that reads texts as views, below an operator that makes texts of
/// them; `None` for other operators, and for joins of rows that can't be wide.
pub(super) fn bounded(
    plan: &Arc<dyn ExecutionPlan>,
    limits: GatherLimits,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let sides = Sides::of(
            [join.left(), join.right()],
            join.on(),
            *join.join_type(),
            limits,
        );
        let filter = restored(join.filter(), limits)?;
        let Some(sides) = sides.filter(|sides| sides.may_be_wide(filter.as_ref())) else {
            return Ok(None);
        };
        // The join counts the memory of the left side, which it holds.
        let [left, right] = sides.inputs([false, true]);
        let filter = sides.filter(join.filter(), filter);
        let joined = join.builder().recompute_properties();
        let joined = joined.with_new_children(vec![left, right])?;
        let joined = joined.with_filter(filter).build_exec()?;
        return Ok(Some(RestoredTexts::over(&joined, plan, limits)));
    }
    let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() else {
        return Ok(None);
    };
    let sides = Sides::of(
        [join.left(), join.right()],
        join.on(),
        join.join_type(),
        limits,
    );
    let filter = restored(join.filter().as_ref(), limits)?;
    let Some(sides) = sides.filter(|sides| sides.may_be_wide(filter.as_ref())) else {
        return Ok(None);
    };
    let [left, right] = sides.inputs([true, true]);
    let joined: Arc<dyn ExecutionPlan> = Arc::new(SortMergeJoinExec::try_new(
        left,
        right,
        join.on().to_vec(),
        sides.filter(join.filter().as_ref(), filter),
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )?);
    Ok(Some(RestoredTexts::over(&joined, plan, limits)))
}

fn restored(filter: Option<&JoinFilter>, limits: GatherLimits) -> Result<Option<RestoredFilter>> {
    let filter = filter.map(|filter| RestoredFilter::over(filter, limits));
    filter.transpose()
}

/// The two inputs of a join.
struct Sides<'p> {
    inputs: [&'p Arc<dyn ExecutionPlan>; 2],
    /// The schemas with views.
    schemas: [SchemaRef; 2],
    columns: [InputColumns; 2],
    widths: Arc<JoinedWidths>,
}

impl<'p> Sides<'p> {
    /// Returns the inputs.
    fn of(
        inputs: [&'p Arc<dyn ExecutionPlan>; 2],
        on: JoinOnRef<'_>,
        kind: JoinType,
        limits: GatherLimits,
    ) -> Option<Sides<'p>> {
        let (mut keys, mut schemas) = ([HashSet::new(), HashSet::new()], Vec::new());
        let [left_keys, right_keys] = &mut keys;
        for (left, right) in on {
            left_keys.extend(collect_columns(left).iter().map(|column| column.index()));
            right_keys.extend(collect_columns(right).iter().map(|column| column.index()));
        }
        let mut columns = Vec::new();
        for (input, keys) in inputs.iter().zip(&keys) {
            let schema = input.schema();
            columns.push(InputColumns::of(&schema, keys));
            schemas.push(with_views(&schema, keys));
        }
        Some(Sides {
            inputs,
            schemas: schemas.try_into().ok()?,
            columns: columns.try_into().ok()?,
            widths: Arc::new(JoinedWidths::of(kind, limits)),
        })
    }

    /// Returns true if values of the inputs, or of the filter, may be wide.
    fn may_be_wide(&self, filter: Option<&RestoredFilter>) -> bool {
        let are_narrow = self.columns.iter().all(InputColumns::are_narrow);
        !are_narrow || filter.is_some_and(RestoredFilter::has_wide_constants)
    }

    /// Returns what the join reads. The memory of wide texts counts for the sides of `counted`.
    fn inputs(&self, counted: [bool; 2]) -> [Arc<dyn ExecutionPlan>; 2] {
        [0, 1].map(|side| {
            let viewed = ViewedInput {
                schema: Arc::clone(&self.schemas[side]),
                columns: self.columns[side].clone(),
                joined: Some((Arc::clone(&self.widths), side)),
                is_counted: counted[side],
            };
            PassThroughExec::over(self.inputs[side], viewed)
        })
    }

    /// Returns the filter of the join over the columns with views.
    fn filter(
        &self,
        original: Option<&JoinFilter>,
        restored: Option<RestoredFilter>,
    ) -> Option<JoinFilter> {
        let (original, restored) = original.zip(restored)?;
        let columns = original.column_indices();
        let fields = original.schema().fields().iter().zip(columns);
        let fields = fields.map(|(field, column)| {
            let side = match column.side {
                JoinSide::Left => &self.schemas[0],
                JoinSide::Right => &self.schemas[1],
                JoinSide::None => return Arc::clone(field),
            };
            with_type(field, side.field(column.index).data_type())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let condition = Arc::new(restored);
        Some(JoinFilter::new(condition, columns.to_vec(), schema))
    }
}

/// Returns a schema whose texts are views, other than keys.
fn with_views(schema: &SchemaRef, keys: &HashSet<usize>) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(at, field)| match type_of_views(field.data_type()) {
        Some(kind) if !keys.contains(&at) => with_type(field, &kind),
        _ => Arc::clone(field),
    });
    let fields: Vec<FieldRef> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn with_type(field: &FieldRef, kind: &DataType) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(kind.clone()))
}
