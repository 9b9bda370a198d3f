//! The page of a lake: what it contains, what it cost, and what is wrong with it.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use serde::Serialize;

use super::{ChartBar, bars, now, render_page};

const TEMPLATE: &str = include_str!("lake_report.html");

/// Largest number of rows of a table; the page states how to get all of them.
const MAX_ROWS: usize = 25;

/// The reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A query of a section failed.
    #[error("can't compute the section `{section}` of the page: {cause}")]
    Section {
        /// Title of the section.
        section: &'static str,
        /// The error of the query.
        cause: DataFusionError,
    },
    /// The template fails.
    #[error("can't render the page: {0}")]
    Template(#[from] minijinja::Error),
}

/// A section of the page. Its query is shown, so that a reader can repeat it.
struct ReportQuery {
    title: &'static str,
    note: &'static str,
    query: &'static str,
    /// Whether the first column names bars, whose lengths are the second column.
    is_chart: bool,
}

const QUERIES: [ReportQuery; 16] = [
    chart(
        "Grains by type",
        "A grain is one immutable record of memory.",
        "SELECT type, count(*) AS grains FROM grains GROUP BY type ORDER BY 2 DESC, 1",
    ),
    chart(
        "Grains by namespace",
        "Grains without a namespace belong to nobody in particular.",
        "SELECT coalesce(namespace, '(none)') AS namespace, count(*) AS grains FROM grains \
         GROUP BY 1 ORDER BY 2 DESC, 1",
    ),
    chart(
        "Grains by day",
        "By the time that the grain states, the last days first.",
        "SELECT coalesce(arrow_cast(date_trunc('day', created_at), 'Date32')::text, '(no time)') \
         AS day, count(*) AS grains FROM grains GROUP BY 1 ORDER BY 1 DESC",
    ),
    chart(
        "Facts: current and closed",
        "A fact is closed when a newer one supersedes it, when it was contradicted or retracted, \
         or when it expired.",
        "SELECT 'current' AS state, count(*) AS beliefs FROM current WHERE type = 'belief' UNION \
         ALL SELECT 'closed', (SELECT count(*) FROM beliefs) - (SELECT count(*) FROM current WHERE \
         type = 'belief') ORDER BY 1 DESC",
    ),
    table(
        "Messages, tokens and cost by model",
        "Costs are computed from the recorded tokens with the price table named here. Tokens of a \
         model without a price cost nothing in these sums: they are counted under \
         `unpriced_tokens`; `--prices FILE` adds prices.",
        "SELECT provider, model, sum(messages) AS messages, sum(input_tokens) AS input_tokens, \
         sum(cached_input_tokens) AS cached, sum(output_tokens) AS output_tokens, \
         round(sum(cost_usd), 4) AS cost_usd, sum(unpriced_tokens) AS unpriced_tokens, \
         min(price_version) AS price_version FROM usage GROUP BY provider, model \
         ORDER BY 7 DESC NULLS LAST, 1, 2",
    ),
    table(
        "Cost by day",
        "The last days first.",
        "SELECT arrow_cast(day, 'Date32')::text AS day, sum(messages) AS messages, \
         round(sum(cost_usd), 4) AS cost_usd, sum(unpriced_tokens) AS unpriced_tokens FROM usage \
         GROUP BY 1 ORDER BY 1 DESC",
    ),
    table(
        "Where times come from",
        "Only recorded times are exact; `file` means that the message has the time of its file.",
        "SELECT time_source, count(*) AS messages FROM messages GROUP BY 1 ORDER BY 2 DESC",
    ),
    table(
        "Tools",
        "Latencies are of calls for which both times were recorded or the duration was stated.",
        "SELECT name, count(*) AS calls, count(*) FILTER (WHERE is_error) AS failed, \
         count(latency_ms) AS measured, approx_median(latency_ms) AS median_ms, max(latency_ms) AS \
         longest_ms FROM tool_calls GROUP BY name ORDER BY 3 DESC, 2 DESC, 1",
    ),
    table(
        "Consents",
        "A withdrawn consent is no longer in force; what depended on it is closed.",
        "SELECT coalesce(jurisdiction, '(none)') AS jurisdiction, count(*) FILTER (WHERE in_force) \
         AS in_force, count(*) FILTER (WHERE withdrawn) AS withdrawn FROM consent_state GROUP BY 1 \
         ORDER BY 1",
    ),
    chart(
        "Personal data in messages and facts",
        "Found by the shape and check digits of the text; `gristmill scan` judges it by rules.",
        "SELECT kind, count(*) AS grains FROM (SELECT unnest(personal_data(concat_ws(' ', content, \
         object))) AS kind FROM grains) GROUP BY kind ORDER BY 2 DESC, 1",
    ),
    table(
        "Findings of scans",
        "How many findings each compliance scan had; `gristmill scan --output PAGE` shows them.",
        "SELECT at::text AS at, json_get_int(details, 'grains') AS grains, json_get_int(details, \
         'findings') AS findings FROM audit WHERE action = 'scan' ORDER BY at DESC",
    ),
    table(
        "Refused input",
        "Refused records are kept with their bytes in the table `rejects`.",
        "SELECT error_code, count(*) AS refused, min(source) AS for_example, min(message) AS \
         message FROM rejects GROUP BY error_code ORDER BY 2 DESC, 1",
    ),
    table(
        "Sources",
        "What was offered to the lake and what became of it.",
        "SELECT outcome, count(*) AS sources, sum(grains) AS grains, sum(rejected) AS refused, \
         max(at)::text AS last FROM sources GROUP BY outcome ORDER BY 2 DESC",
    ),
    table(
        "Erasures",
        "`gristmill certificate show FILE --html PAGE` makes a page of a certificate.",
        "SELECT at::text AS at, json_get_str(details, 'id') AS erasure, json_get_int(details, \
         'people') AS people, json_get_int(details, 'grains') AS grains, json_get_bool(details, \
         'proven') AS proven FROM audit WHERE action = 'erase' ORDER BY at DESC",
    ),
    table(
        "Segments",
        "Many small segments slow queries down; `gristmill compact` merges them.",
        "SELECT count(*) AS segments, sum(rows) AS rows, sum(bytes) AS bytes FROM segments",
    ),
    table(
        "Indexes",
        "An index that is missing or stale makes queries slower, never wrong; `gristmill reindex` \
         builds it.",
        "SELECT \"index\", state, count(*) AS segments, sum(bytes) AS bytes FROM indexes GROUP BY \
         1, 2 ORDER BY 1, 2",
    ),
];

const fn chart(title: &'static str, note: &'static str, query: &'static str) -> ReportQuery {
    ReportQuery {
        title,
        note,
        query,
        is_chart: true,
    }
}

const fn table(title: &'static str, note: &'static str, query: &'static str) -> ReportQuery {
    ReportQuery {
        is_chart: false,
        ..chart(title, note, query)
    }
}

/// Variables of the template.
#[derive(Serialize)]
struct LakePage<'p> {
    lake: &'p str,
    version: &'static str,
    now: String,
    tiles: Vec<ReportTile>,
    sections: Vec<ReportSection>,
}

#[derive(Serialize)]
struct ReportTile {
    value: String,
    label: String,
}

#[derive(Serialize)]
struct ReportSection {
    title: &'static str,
    note: &'static str,
    query: String,
    bars: Vec<ChartBar>,
    table: QueryRows,
}

/// The first rows of a query as texts.
#[derive(Default, Serialize)]
struct QueryRows {
    columns: Vec<ReportColumn>,
    rows: Vec<Vec<String>>,
    total: usize,
}

#[derive(Serialize)]
struct ReportColumn {
    name: String,
    is_number: bool,
}

const TILES: &str = "SELECT (SELECT count(*) FROM grains) AS grains, (SELECT count(*) FROM \
                     current) AS \"current grains\", (SELECT count(DISTINCT user_id) FROM grains) \
                     AS people, (SELECT count(*) FROM threads) AS conversations, (SELECT \
                     round(coalesce(sum(cost_usd), 0), 2) FROM usage) AS \"US dollars for \
                     tokens\", (SELECT coalesce(sum(unpriced_tokens), 0) FROM usage) AS \
                     \"tokens without a price\", (SELECT count(*) FROM rejects) AS \"records \
                     refused\"";

/// Returns the page of the lake that `context` queries; `lake` is its location as shown.
///
/// Every section is one query over the whole lake. A lake of a hundred thousand grains takes about
/// a second; personal data is the slowest section, because it reads every text.
///
/// # Errors
/// [`PageError`].
pub async fn lake_report(context: &SessionContext, lake: &str) -> Result<String, PageError> {
    let tiles = run(context, "Overview", TILES).await?;
    let mut sections = Vec::new();
    for section in &QUERIES {
        let table = run(context, section.title, section.query).await?;
        sections.push(section_of(section, table));
    }
    let values = tiles.rows.into_iter().next().unwrap_or_default();
    let tiles = tiles.columns.into_iter().zip(values);
    let page = LakePage {
        lake,
        version: env!("CARGO_PKG_VERSION"),
        now: now(),
        tiles: tiles
            .map(|(column, value)| ReportTile {
                value,
                label: column.name,
            })
            .collect(),
        sections,
    };
    Ok(render_page(TEMPLATE, &page)?)
}

fn section_of(section: &ReportQuery, table: QueryRows) -> ReportSection {
    let counted = |row: &Vec<String>| Some((row.first()?.clone(), row.get(1)?.parse().ok()?));
    let counts = match section.is_chart {
        true => table.rows.iter().filter_map(counted).collect(),
        false => Vec::new(),
    };
    ReportSection {
        title: section.title,
        note: section.note,
        query: section.query.to_owned(),
        bars: bars(counts),
        table,
    }
}

async fn run(
    context: &SessionContext,
    section: &'static str,
    query: &str,
) -> Result<QueryRows, PageError> {
    let failed = |cause| PageError::Section { section, cause };
    let frame = context.sql(query).await.map_err(failed)?;
    let batches = frame.collect().await.map_err(failed)?;
    let mut shown = QueryRows::default();
    for batch in &batches {
        add_rows(batch, &mut shown).map_err(|error| failed(error.into()))?;
    }
    Ok(shown)
}

/// Adds the rows of a batch as texts, up to [`MAX_ROWS`] in total.
fn add_rows(batch: &RecordBatch, shown: &mut QueryRows) -> Result<(), arrow::error::ArrowError> {
    let schema = batch.schema();
    if shown.columns.is_empty() {
        let column = |field: &arrow::datatypes::FieldRef| ReportColumn {
            name: field.name().clone(),
            is_number: field.data_type().is_numeric(),
        };
        shown.columns = schema.fields().iter().map(column).collect();
    }
    let options = FormatOptions::default().with_null("–");
    let formatters = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<Vec<_>, _>>()?;
    shown.total += batch.num_rows();
    let missing = MAX_ROWS.saturating_sub(shown.rows.len());
    for row in 0..batch.num_rows().min(missing) {
        let cells = formatters.iter().map(|cell| cell.value(row).to_string());
        shown.rows.push(cells.collect());
    }
    Ok(())
}
