//! A stored table of the lake as DataFusion sees it: the live Parquet files of one version, with as many filters, pages
//! and columns left unread as their statistics, bloom filters and layout allow.
//!
//! What doesn't live here: which files are live (the engine's lake), views and functions over the tables.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use gristmill_engine::lake::{DataFile, Table};

use super::external;

/// One stored table at one version.
#[derive(Debug)]
pub struct LakeTable {
    table: Table,
    schema: SchemaRef,
    store: ObjectStoreUrl,
    files: Vec<DataFile>,
}

impl LakeTable {
    /// The table `table`, whose rows have `schema`; the files of the lake are found in `store`.
    ///
    /// # Errors
    /// [`datafusion::error::DataFusionError::External`] if the log can't be read.
    pub fn new(table: Table, schema: SchemaRef, store: ObjectStoreUrl) -> Result<LakeTable> {
        let files = table.files().map_err(external)?;
        Ok(LakeTable { table, schema, store, files })
    }

    /// Rows of the table, exactly: the log counts them.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    fn partitioned(&self, file: &DataFile) -> PartitionedFile {
        let statistics = counted(&self.schema, file.rows, file.size);
        PartitionedFile::new(self.table.path_of(&file.name).to_string(), file.size)
            .with_statistics(Arc::new(statistics))
    }

    /// The scan's source: late materialisation on, footers and page indexes kept by the session.
    fn source(&self, state: &dyn Session) -> Result<ParquetSource> {
        let runtime = state.runtime_env();
        let options = TableParquetOptions {
            global: state.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let store = runtime.object_store(&self.store)?;
        Ok(ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(CachedParquetFileReaderFactory::new(store, cache))))
    }
}

/// Statistics that know the number of rows and nothing of the columns.
fn counted(schema: &SchemaRef, rows: u64, bytes: u64) -> Statistics {
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Inexact(bytes as usize),
        ..Statistics::new_unknown(schema)
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters stay in the plan, from where DataFusion hands them to the Parquet reader.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        let bytes = self.files.iter().map(|file| file.size).sum();
        Some(counted(&self.schema, self.rows(), bytes))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files: FileGroup = self.files.iter().map(|file| self.partitioned(file)).collect();
        let groups = files.split_files(state.config_options().execution.target_partitions);
        let statistics = counted(&self.schema, self.rows(), self.files.iter().map(|file| file.size).sum());
        let scan = FileScanConfigBuilder::new(self.store.clone(), Arc::new(self.source(state)?))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            // With a filter above, the limit isn't the scan's.
            .with_limit(limit.filter(|_| filters.is_empty()))
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}
