//! The system tables `segments`, `source_progress` and `indexes`, computed when they are scanned.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use gristmill_engine::index::sidecar_states;
use gristmill_engine::lake::{Lake, Ledger, ReadPosition};

use super::external;

/// Registers the three tables.
pub(super) fn register(context: &SessionContext, lake: &Lake) -> Result<()> {
    for kind in SystemTableKind::ALL {
        context.register_table(
            kind.name(),
            Arc::new(SystemTable {
                lake: lake.clone(),
                kind,
            }),
        )?;
    }
    Ok(())
}

/// Returns the names of the tables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SystemTableKind::ALL.into_iter().map(SystemTableKind::name)
}

#[derive(Debug, Clone, Copy)]
enum SystemTableKind {
    /// One row for each segment: name, file, rows and bytes.
    Segments,
    /// One row for each ingested source and the position up to which it was ingested.
    Sources,
    /// One row for each sidecar that a segment has or should have, and its state: `fresh`,
    /// `missing`, `damaged` or `stale`.
    Indexes,
}

impl SystemTableKind {
    const ALL: [SystemTableKind; 3] = [
        SystemTableKind::Segments,
        SystemTableKind::Sources,
        SystemTableKind::Indexes,
    ];

    const fn name(self) -> &'static str {
        match self {
            SystemTableKind::Segments => "segments",
            SystemTableKind::Sources => "source_progress",
            SystemTableKind::Indexes => "indexes",
        }
    }

    fn schema(self) -> SchemaRef {
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let count = |name: &str, nullable| Field::new(name, DataType::Int64, nullable);
        let fields = match self {
            SystemTableKind::Segments => vec![
                text("segment"),
                text("file"),
                count("rows", false),
                count("bytes", false),
            ],
            SystemTableKind::Sources => {
                vec![
                    text("source_id"),
                    Field::new("complete", DataType::Boolean, false),
                    count("next_ordinal", true),
                ]
            }
            SystemTableKind::Indexes => vec![
                text("segment"),
                text("index"),
                text("state"),
                count("bytes", true),
            ],
        };
        Arc::new(Schema::new(fields))
    }

    async fn columns(self, lake: &Lake) -> gristmill_engine::error::Result<Vec<ArrayRef>> {
        match self {
            SystemTableKind::Segments => segments(lake),
            SystemTableKind::Sources => sources(lake).await,
            SystemTableKind::Indexes => indexes(lake).await,
        }
    }
}

fn segments(lake: &Lake) -> gristmill_engine::error::Result<Vec<ArrayRef>> {
    let segments = lake.segments()?;
    Ok(vec![
        Arc::new(StringArray::from_iter_values(
            segments.iter().map(|segment| segment.id.as_str()),
        )),
        Arc::new(StringArray::from_iter_values(
            segments.iter().map(|segment| &segment.file.name),
        )),
        Arc::new(Int64Array::from_iter_values(
            segments.iter().map(|segment| segment.file.rows as i64),
        )),
        Arc::new(Int64Array::from_iter_values(
            segments.iter().map(|segment| segment.file.size as i64),
        )),
    ])
}

async fn sources(lake: &Lake) -> gristmill_engine::error::Result<Vec<ArrayRef>> {
    let ledger = Ledger::load(&lake.grains).await?;
    let mut sources: Vec<_> = ledger.iter().collect();
    sources.sort_by_key(|(source, _)| *source);

    Ok(vec![
        Arc::new(StringArray::from_iter_values(
            sources.iter().map(|(source, _)| source),
        )),
        Arc::new(BooleanArray::from_iter(
            sources
                .iter()
                .map(|(_, position)| Some(*position == ReadPosition::Complete)),
        )),
        Arc::new(Int64Array::from_iter(
            sources.iter().map(|(_, position)| next_ordinal(position)),
        )),
    ])
}

/// Returns the ordinal of the next record to read; `None` if the source is complete.
const fn next_ordinal(position: &ReadPosition) -> Option<i64> {
    match position {
        ReadPosition::Next(ordinal) => Some(*ordinal as i64),
        ReadPosition::Complete => None,
    }
}

async fn indexes(lake: &Lake) -> gristmill_engine::error::Result<Vec<ArrayRef>> {
    let states = sidecar_states(lake).await?;
    Ok(vec![
        Arc::new(StringArray::from_iter_values(
            states.iter().map(|state| &state.segment),
        )),
        Arc::new(StringArray::from_iter_values(
            states.iter().map(|state| &state.index),
        )),
        Arc::new(StringArray::from_iter_values(
            states.iter().map(|state| state.condition.name()),
        )),
        Arc::new(Int64Array::from_iter(
            states
                .iter()
                .map(|state| state.bytes.map(|bytes| bytes as i64)),
        )),
    ])
}

/// A table whose rows are computed when it is scanned.
#[derive(Debug)]
struct SystemTable {
    lake: Lake,
    kind: SystemTableKind,
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.kind.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = self.kind.columns(&self.lake).await.map_err(external)?;
        let batch = RecordBatch::try_new(self.schema(), columns)?;
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            self.schema(),
            projection.cloned(),
        )?)
    }
}
