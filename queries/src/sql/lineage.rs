//! Lineage of a grain: `history(address)` follows supersessions, `provenance(address, depth)`
//! follows `derived_from` and `provenance_chain`.
//!
//! The traversal is breadth-first, one query for all addresses of a level, and visits each grain
//! once, so that forks, joins and cycles in hostile input terminate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, plan_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionContext, col, lit};
use gristmill_schemas::address::ContentAddress;

use super::as_of::literal_value;

/// Maximum depth of a traversal.
const DEPTH_LIMIT: i64 = 10_000;

/// Registers both functions.
pub(super) fn register(context: &SessionContext) {
    for function in [LineageFunction::History, LineageFunction::Provenance] {
        context.register_udtf(function.name(), Arc::new(function));
    }
}

/// Returns the names of the functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [LineageFunction::History, LineageFunction::Provenance]
        .into_iter()
        .map(LineageFunction::name)
}

#[derive(Debug, Clone, Copy)]
enum LineageFunction {
    History,
    Provenance,
}

impl LineageFunction {
    const fn name(self) -> &'static str {
        match self {
            LineageFunction::History => "history",
            LineageFunction::Provenance => "provenance",
        }
    }
}

impl TableFunctionImpl for LineageFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let arguments: Option<Vec<ScalarValue>> = args.exprs().iter().map(literal_value).collect();
        let (address, depth) = match (self, arguments.as_deref()) {
            (_, Some([address])) => (address, DEPTH_LIMIT),
            (LineageFunction::Provenance, Some([address, depth])) => (address, depth_of(depth)?),
            (LineageFunction::History, _) => {
                return Err(plan_datafusion_err!(
                    "history takes one address of 64 hex digits"
                ));
            }
            (LineageFunction::Provenance, _) => {
                return Err(plan_datafusion_err!(
                    "provenance takes an address and an optional depth"
                ));
            }
        };
        let address = match address {
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
                text.parse::<ContentAddress>()
            }
            other => {
                return Err(plan_datafusion_err!(
                    "{other} is not an address; an address is a text of 64 hex digits"
                ));
            }
        };
        let address = address
            .map_err(|error| plan_datafusion_err!("{error}"))?
            .to_string();
        Ok(Arc::new(LineageTable {
            function: *self,
            address,
            depth: depth.clamp(0, DEPTH_LIMIT),
        }))
    }
}

fn depth_of(value: &ScalarValue) -> Result<i64> {
    match value.cast_to(&DataType::Int64)? {
        ScalarValue::Int64(Some(depth)) => Ok(depth),
        _ => Err(plan_datafusion_err!("the depth must be an integer")),
    }
}

/// A traversal as a table.
#[derive(Debug)]
struct LineageTable {
    function: LineageFunction,
    address: String,
    depth: i64,
}

impl LineageTable {
    fn own_schema(&self) -> SchemaRef {
        let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let fields = match self.function {
            LineageFunction::History => vec![
                Field::new("step", DataType::Int64, false),
                Field::new("content_address", DataType::Utf8, false),
                Field::new("superseded_by", DataType::Utf8, true),
                Field::new("at", instant, true),
            ],
            LineageFunction::Provenance => vec![
                Field::new("depth", DataType::Int64, false),
                Field::new("content_address", DataType::Utf8, false),
                Field::new("used_by", DataType::Utf8, true),
                Field::new("link", DataType::Utf8, true),
                Field::new("type", DataType::Utf8, true),
            ],
        };
        Arc::new(Schema::new(fields))
    }
}

#[async_trait]
impl TableProvider for LineageTable {
    fn schema(&self) -> SchemaRef {
        self.own_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = state
            .as_any()
            .downcast_ref::<SessionState>()
            .ok_or_else(|| internal_datafusion_err!("the session is not a `SessionState`"))?;
        let context = SessionContext::new_with_state(state.clone());
        let batch = match self.function {
            LineageFunction::History => history(&context, &self.address, self.own_schema()).await?,
            LineageFunction::Provenance => {
                provenance(&context, &self.address, self.depth, self.own_schema()).await?
            }
        };
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            self.own_schema(),
            projection.cloned(),
        )?)
    }
}

/// A grain that supersedes another.
struct Supersession {
    old: String,
    new: String,
    at: Option<i64>,
}

/// Returns the supersessions whose `column` is one of `addresses`, ordered by time.
async fn supersessions(
    context: &SessionContext,
    column: &str,
    addresses: &[String],
) -> Result<Vec<Supersession>> {
    let among = addresses
        .iter()
        .map(|address| lit(address.clone()))
        .collect();
    let found = context
        .table("supersessions")
        .await?
        .filter(col(column).in_list(among, false))?
        .collect()
        .await?;
    let mut rows: Vec<Supersession> = found.iter().flat_map(supersessions_of).collect();
    rows.sort_by(|left, right| {
        (left.at, &left.old, &left.new).cmp(&(right.at, &right.old, &right.new))
    });
    Ok(rows)
}

fn supersessions_of(batch: &RecordBatch) -> impl Iterator<Item = Supersession> {
    let old = batch.column(0).as_string::<i32>();
    let new = batch.column(1).as_string::<i32>();
    let at = batch.column(2).as_primitive::<TimestampMicrosecondType>();
    (0..batch.num_rows()).map(move |row| Supersession {
        old: old.value(row).to_owned(),
        new: new.value(row).to_owned(),
        at: at.is_valid(row).then(|| at.value(row)),
    })
}

/// Returns all versions of `address`, oldest first: step 0 is the grain itself, earlier versions
/// have negative steps.
async fn history(
    context: &SessionContext,
    address: &str,
    schema: SchemaRef,
) -> Result<RecordBatch> {
    let versions = versions_of(context, address).await?;
    let addresses: Vec<String> = versions
        .iter()
        .map(|(_, address)| address.clone())
        .collect();
    let mut ends: HashMap<String, Supersession> = HashMap::new();
    for end in supersessions(context, "content_address", &addresses).await? {
        // The earliest successor counts.
        ends.entry(end.old.clone()).or_insert(end);
    }
    let ends: Vec<Option<&Supersession>> =
        addresses.iter().map(|address| ends.get(address)).collect();
    let successors = ends.iter().map(|end| end.map(|end| &end.new));
    let instants = ends.iter().map(|end| end.and_then(|end| end.at));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            versions.iter().map(|(step, _)| *step),
        )),
        Arc::new(StringArray::from_iter_values(&addresses)),
        Arc::new(StringArray::from_iter(successors)),
        Arc::new(TimestampMicrosecondArray::from_iter(instants).with_timezone("UTC")),
    ];
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Returns the versions of `address` and their steps, ordered by step.
async fn versions_of(context: &SessionContext, address: &str) -> Result<Vec<(i64, String)>> {
    let mut seen = HashSet::from([address.to_owned()]);
    let mut versions = vec![(0_i64, address.to_owned())];
    for direction in [-1, 1] {
        let column = match direction {
            -1 => "superseded_by",
            _ => "content_address",
        };
        let mut level = vec![address.to_owned()];
        let mut step = 0;
        while !level.is_empty() && step < DEPTH_LIMIT {
            step += 1;
            let found = supersessions(context, column, &level).await?;
            level = found
                .into_iter()
                .map(|found| if direction < 0 { found.old } else { found.new })
                .filter(|address| seen.insert(address.clone()))
                .collect();
            let found = level.iter().cloned();
            versions.extend(found.map(|address| (direction * step, address)));
        }
    }
    versions.sort_by_key(|(step, _)| *step);
    Ok(versions)
}

/// A grain from which another was derived.
struct ProvenanceSource {
    depth: i64,
    address: String,
    used_by: Option<String>,
    link: Option<String>,
}

/// Returns the sources of `address` and their sources, down to `depth`.
async fn provenance(
    context: &SessionContext,
    address: &str,
    depth: i64,
    schema: SchemaRef,
) -> Result<RecordBatch> {
    let sources = transitive_sources(context, address, depth).await?;
    let types = types_of(context, sources.iter().map(|source| source.address.clone())).await?;
    let text = |value: fn(&ProvenanceSource) -> Option<&String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(sources.iter().map(value)))
    };
    let depths = sources.iter().map(|source| source.depth);
    let types = sources.iter().map(|source| types.get(&source.address));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(depths)),
        text(|source| Some(&source.address)),
        text(|source| source.used_by.as_ref()),
        text(|source| source.link.as_ref()),
        Arc::new(StringArray::from_iter(types)),
    ];
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Returns the sources of `address` level by level, the grain itself first.
async fn transitive_sources(
    context: &SessionContext,
    address: &str,
    depth: i64,
) -> Result<Vec<ProvenanceSource>> {
    let mut seen = HashSet::from([address.to_owned()]);
    let mut sources = vec![ProvenanceSource {
        depth: 0,
        address: address.to_owned(),
        used_by: None,
        link: None,
    }];
    let mut level = vec![address.to_owned()];
    for below in 1..=depth {
        let mut next = Vec::new();
        for source in sources_of(context, &level, below).await? {
            if seen.insert(source.address.clone()) {
                next.push(source.address.clone());
                sources.push(source);
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    Ok(sources)
}

const SOURCES: &str = "
    SELECT unnest(derived_from) AS source, content_address, 'derived_from' AS link, created_at FROM grains WHERE {among}
    UNION ALL
    SELECT chain['source_hash'], content_address, coalesce(chain['method'], 'provenance_chain'), created_at
    FROM (SELECT unnest(provenance_chain) AS chain, content_address, created_at FROM grains WHERE {among})";

async fn sources_of(
    context: &SessionContext,
    level: &[String],
    depth: i64,
) -> Result<Vec<ProvenanceSource>> {
    // Addresses in `provenance_chain` are free text, so they are quoted.
    let quoted: Vec<String> = level
        .iter()
        .map(|address| format!("'{}'", address.replace('\'', "''")))
        .collect();
    let query = SOURCES.replace(
        "{among}",
        &format!("content_address IN ({})", quoted.join(", ")),
    );
    // References may begin with `sha256:`; other texts stay as they are.
    let query = format!(
        "SELECT coalesce(grain_reference(source), source) AS source, content_address, link \
         FROM ({query}) WHERE source IS NOT NULL ORDER BY 1, 2, 3"
    );
    let mut sources = Vec::new();
    for batch in context.sql(&query).await?.collect().await? {
        let text = |at: usize| arrow::compute::cast(batch.column(at), &DataType::Utf8);
        let (source, used_by, link) = (text(0)?, text(1)?, text(2)?);
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| column.as_string::<i32>().value(row).to_owned();
            sources.push(ProvenanceSource {
                depth,
                address: cell(&source),
                used_by: Some(cell(&used_by)),
                link: Some(cell(&link)),
            });
        }
    }
    Ok(sources)
}

async fn types_of(
    context: &SessionContext,
    addresses: impl Iterator<Item = String>,
) -> Result<HashMap<String, String>> {
    let among = addresses.map(lit).collect();
    let grains = context
        .table("grains")
        .await?
        .filter(col("content_address").in_list(among, false))?;
    let mut types = HashMap::new();
    for batch in grains
        .select_columns(&["content_address", "type"])?
        .collect()
        .await?
    {
        let (addresses, names) = (
            batch.column(0).as_string::<i32>(),
            batch.column(1).as_string::<i32>(),
        );
        types.extend(
            (0..batch.num_rows())
                .map(|row| (addresses.value(row).to_owned(), names.value(row).to_owned())),
        );
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::super::{SqlOptions, bare_context};
    use super::*;

    #[tokio::test]
    async fn sources_are_followed_however_references_to_them_are_spelled() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let [thought, belief, event] = ["aa", "bb", "cc"].map(|byte| byte.repeat(32));
        let grains = format!(
            "SELECT content_address, derived_from, to_timestamp(0) AS created_at,
                    make_array(named_struct('source_hash', CAST(NULL AS VARCHAR),
                                            'method', CAST(NULL AS VARCHAR))) AS provenance_chain
             FROM (VALUES ('{thought}', make_array('sha256:{belief}')),
                          ('{belief}', make_array('{event}', 'https://example.org')),
                          ('{event}', NULL)) AS t(content_address, derived_from)"
        );
        let grains = context.sql(&grains).await.unwrap().into_view();
        context.register_table("grains", grains).unwrap();
        let sources = transitive_sources(&context, &thought, 9).await.unwrap();
        let found: Vec<_> = sources
            .iter()
            .map(|source| (source.depth, source.address.as_str()))
            .collect();
        let site = "https://example.org";
        let expected = [(0, &*thought), (1, &*belief), (2, &*event), (2, site)];
        assert_eq!(found, expected);
    }
}
