//! The codec of operators that DataFusion's protobuf doesn't have: scans of a lake, with the rows
//! that are read of each file; rules; jobs on segments; and Ballista's own. And of functions of one
//! statement of CAL.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use gristmill_engine::keys::MessageKey;
use gristmill_queries::exec::{decode_function, encode_function};
use gristmill_queries::packs::RulesExec;
use gristmill_queries::sql::{IndexedFileSource, PageIndexReaderFactory};
use prost::Message;

use crate::lake_url;
use crate::segment_operator::SegmentsExec;
use crate::wire::{Envelope, FileRows, LakeScan, Operator, SegmentWork};

/// Encodes and decodes operators for one kind of process.
#[derive(Debug)]
pub struct LakeCodec {
    /// True if the process reads files: an executor does, the scheduler doesn't.
    reads: bool,
    ballista: BallistaPhysicalExtensionCodec,
}

impl LakeCodec {
    /// Returns the codec of clients and of the scheduler, which open no file.
    pub fn of_scheduler() -> LakeCodec {
        LakeCodec {
            reads: false,
            ballista: BallistaPhysicalExtensionCodec::default(),
        }
    }

    /// Returns the codec of executors.
    pub fn of_executor() -> LakeCodec {
        LakeCodec {
            reads: true,
            ..Self::of_scheduler()
        }
    }

    /// Returns `scan` with DataFusion's readers replaced by ours and the rows of its files.
    fn with_rows(
        &self,
        scan: FileScanConfig,
        message: LakeScan,
        context: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(parquet) = scan.file_source().downcast_ref::<ParquetSource>() else {
            return internal_err!("a scan of a lake isn't one of Parquet files");
        };
        let mut source = parquet.clone();
        if self.reads {
            let readers =
                PageIndexReaderFactory::new(&context.runtime_env(), &scan.object_store_url)?;
            source = source.with_parquet_file_reader_factory(Arc::new(readers));
        }
        let groups = with_selections(&scan.file_groups, &message.rows)?;
        let source = IndexedFileSource::new(Arc::new(source), message.note);
        let scan = FileScanConfigBuilder::from(scan)
            .with_source(Arc::new(source))
            .with_file_groups(groups)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

impl PhysicalExtensionCodec for LakeCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message = match Envelope::open(bytes)? {
            Operator::Scan(message) => message,
            Operator::Ballista(bytes) => {
                let ballista = &self.ballista;
                return ballista.try_decode(&bytes, inputs, context, converter);
            }
            Operator::Rules(rules) => {
                return Ok(Arc::new(RulesExec::decode(&rules, only(inputs)?)?));
            }
            Operator::Segments(work) => {
                let key = MessageKey::from_bytes(&work.key)
                    .ok_or_else(|| exec_datafusion_err!("jobs on segments have no key"))?;
                return Ok(Arc::new(SegmentsExec::new(
                    work.location,
                    key,
                    only(inputs)?,
                )));
            }
        };
        let node = PhysicalPlanNode::decode(message.parquet.as_slice())
            .map_err(|error| exec_datafusion_err!("a scan can't be decoded: {error}"))?;
        lake_url::register(&context.runtime_env(), &store_of(&node)?, self.reads)?;
        let decode = PhysicalPlanDecodeContext::new(context, self);
        let decoded = converter.proto_to_execution_plan(&node, &decode)?;
        match lake_scan(&decoded) {
            Some(scan) => self.with_rows(scan.clone(), message, context),
            None => internal_err!("a scan of a lake isn't one of files"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let indexed = lake_scan(&node).and_then(|scan| {
            let source = scan.file_source().downcast_ref::<IndexedFileSource>()?;
            Some((scan, source))
        });
        let operator = if let Some((scan, source)) = indexed {
            Operator::Scan(self.encode_scan(scan, source, converter)?)
        } else if let Some(rules) = node.downcast_ref::<RulesExec>() {
            Operator::Rules(rules.encode()?)
        } else if let Some(segments) = node.downcast_ref::<SegmentsExec>() {
            Operator::Segments(SegmentWork {
                location: segments.location().to_owned(),
                key: segments.key().as_bytes().to_vec(),
            })
        } else {
            let mut bytes = Vec::new();
            self.ballista.try_encode(node, &mut bytes, converter)?;
            Operator::Ballista(bytes)
        };
        Envelope::of(operator)
            .encode(bytes)
            .map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// Other functions are those of the session, by their names.
    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.extend(encode_function(function).unwrap_or_default());
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        match bytes {
            [] => exec_err!("this process has no function {name}"),
            _ => decode_function(bytes).map(Arc::new),
        }
    }
}

impl LakeCodec {
    fn encode_scan(
        &self,
        scan: &FileScanConfig,
        source: &IndexedFileSource,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<LakeScan> {
        let plain = FileScanConfigBuilder::from(scan.clone())
            .with_source(Arc::clone(source.inner()))
            .build();
        let plain: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(plain);
        let files = scan.file_groups.iter().flat_map(FileGroup::iter);
        Ok(LakeScan {
            parquet: converter
                .execution_plan_to_proto(&plain, self)?
                .encode_to_vec(),
            rows: files.map(rows_of).collect::<Result<_>>()?,
            note: source.note().to_owned(),
        })
    }
}

/// Returns the input of an operator that has one.
fn only(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(Arc::clone(input)),
        _ => internal_err!("an operator with one input has {}", inputs.len()),
    }
}

/// Returns the scan of files that `plan` is, if it is one.
pub(crate) fn lake_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    source.downcast_ref::<FileScanConfig>()
}

/// Returns the rows that are read of `file`.
///
/// # Errors
/// If the file has another extension, which would be lost.
fn rows_of(file: &PartitionedFile) -> Result<FileRows> {
    let selection = file.extensions.get::<ParquetRowSelection>();
    if file.extensions.len() > usize::from(selection.is_some()) {
        return internal_err!("a file of a scan has an extension that can't be sent");
    }
    Ok(FileRows::of(selection.map(ParquetRowSelection::selection)))
}

/// Returns `groups` with the rows of each file.
fn with_selections(groups: &[FileGroup], rows: &[FileRows]) -> Result<Vec<FileGroup>> {
    if groups.iter().map(FileGroup::len).sum::<usize>() != rows.len() {
        return exec_err!("a scan hasn't as many row selections as files");
    }
    let mut rows = rows.iter();
    let mut selected = |file: &PartitionedFile| {
        let selection = rows.next().map(FileRows::selection).transpose()?.flatten();
        Ok(match selection {
            Some(rows) => file.clone().with_extension(ParquetRowSelection::new(rows)),
            None => file.clone(),
        })
    };
    let group = |group: &FileGroup| group.iter().map(&mut selected).collect::<Result<_>>();
    let files: Vec<Vec<_>> = groups.iter().map(group).collect::<Result<_>>()?;
    Ok(files.into_iter().map(FileGroup::new).collect())
}

/// Returns the URL of the files of a Parquet scan.
fn store_of(node: &PhysicalPlanNode) -> Result<ObjectStoreUrl> {
    let scan = match &node.physical_plan_type {
        Some(PhysicalPlanType::ParquetScan(scan)) => scan.base_conf.as_ref(),
        _ => None,
    };
    match scan {
        Some(scan) => ObjectStoreUrl::parse(&scan.object_store_url),
        None => exec_err!("a scan of a lake isn't one of Parquet files"),
    }
}
