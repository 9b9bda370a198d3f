//! A stored table that is opened when a query scans it. Most queries don't read `rejects`,
//! `sources` and `audit`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use gristmill_engine::lake::{Lake, Table};
use tokio::sync::OnceCell;

use super::external;
use super::lake_table::LakeTable;

/// A table of a handle that was opened for queries.
#[derive(Debug)]
pub(super) struct DeferredTable {
    lake: Lake,
    table: Table,
    schema: SchemaRef,
    store: ObjectStoreUrl,
    opened: OnceCell<Arc<dyn TableProvider>>,
}

/// Returns the provider of `table` of `lake`, whose rows have `schema`. It opens the table now if
/// the handle has opened it, and otherwise when it is scanned.
///
/// # Errors
/// As [`LakeTable::new`].
pub(super) fn provider(
    lake: &Lake,
    table: &Table,
    schema: SchemaRef,
    store: ObjectStoreUrl,
) -> Result<Arc<dyn TableProvider>> {
    if table.is_opened() {
        return Ok(Arc::new(LakeTable::new(
            lake,
            table.clone(),
            schema,
            store,
        )?));
    }
    Ok(Arc::new(DeferredTable {
        lake: lake.clone(),
        table: table.clone(),
        schema,
        store,
        opened: OnceCell::new(),
    }))
}

impl DeferredTable {
    async fn open(&self) -> Result<Arc<dyn TableProvider>> {
        let schema = Arc::clone(&self.schema);
        match self.lake.opened(&self.table).await.map_err(external)? {
            Some(table) => provider(&self.lake, &table, schema, self.store.clone()),
            None => Ok(Arc::new(EmptyTable::new(schema))),
        }
    }
}

#[async_trait]
impl TableProvider for DeferredTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Filters are applied again, so the scan must read beyond the limit.
        let limit = limit.filter(|_| filters.is_empty());
        let table = self.opened.get_or_try_init(|| self.open()).await?;
        table.scan(state, projection, filters, limit).await
    }
}
