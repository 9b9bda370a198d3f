//! What the findings of a page are about: an excerpt without personal data, person, session,
//! source.

use std::collections::HashMap;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{col, lit};
use datafusion::prelude::SessionContext;
use serde::Serialize;

use super::super::error::Result;

/// Contexts by address.
pub(super) type FindingContexts = HashMap<String, FindingContext>;

/// What a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct FindingContext {
    /// The beginning of the grain's text; personal data is replaced by its kind.
    excerpt: Option<String>,
    person: Option<String>,
    session: Option<String>,
    /// `created_at`.
    time: Option<String>,
    /// Path or URI as given to `ingest`.
    source: Option<String>,
}

/// Texts of the grains with their sources.
const QUERY: &str = "
    SELECT g.content_address, left(mask_personal_data(concat_ws(' ', g.content, g.subject,
           g.relation, g.object, g.description, g.tool_name, g.input)), 240) AS excerpt,
           g.user_id, g.session_id, date_trunc('second', g.created_at), s.source
    FROM grains g
    LEFT JOIN (SELECT source_id, min(source) AS source FROM sources GROUP BY source_id) s
    ON g.source_id = s.source_id";

/// Loads the contexts of grains; addresses that the lake doesn't have are left out.
pub(super) async fn load(
    context: &SessionContext,
    addresses: &[String],
) -> Result<FindingContexts> {
    let mut found = FindingContexts::new();
    if addresses.is_empty() {
        return Ok(found);
    }
    let wanted = addresses.iter().map(lit).collect();
    let frame = context.sql(QUERY).await?;
    let frame = frame.filter(col("content_address").in_list(wanted, false))?;
    for batch in frame.collect().await? {
        let texts = batch
            .columns()
            .iter()
            .map(|column| cast(column, &DataType::Utf8))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(datafusion::error::DataFusionError::from)?;
        let [address, excerpt, person, session, time, source] = &texts[..] else {
            continue;
        };
        let text = |column: &arrow::array::ArrayRef, row: usize| {
            let column = column.as_string::<i32>();
            let value = column.is_valid(row).then(|| column.value(row).trim());
            value.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        for row in 0..batch.num_rows() {
            let one = FindingContext {
                excerpt: text(excerpt, row),
                person: text(person, row),
                session: text(session, row),
                time: text(time, row),
                source: text(source, row),
            };
            found.insert(text(address, row).unwrap_or_default(), one);
        }
    }
    Ok(found)
}
