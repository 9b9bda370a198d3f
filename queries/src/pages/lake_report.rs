//! The page of a lake: what it contains, what it cost, and what is wrong with it.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::{ChartBar, bars, now, render_page};
use crate::sql::statements;

const TEMPLATE: &str = include_str!("lake_report.html");

/// Largest number of rows of a table; the page states how to get all of them.
const MAX_ROWS: usize = 25;

/// Largest number of characters of a cell.
const MAX_CELL: usize = 300;

/// Shown in place of NULL, and of a figure that wasn't computed.
const MISSING: &str = "–";

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
    // The slowest one: it reads every text.
    chart(
        "Personal data in messages and facts",
        "Found by the shape and check digits of the text; `gristmill scan` judges it by rules.",
        "SELECT kind, count(*) AS grains FROM (SELECT unnest(personal_data(concat_ws(' ', content, \
         object))) AS kind FROM grains) GROUP BY kind ORDER BY 2 DESC, 1",
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

/// What a page is about, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions<'r> {
    /// What the session sees, such as the location of the lake; below the title.
    pub subject: &'r str,
    /// What isn't computed at this time has no figures on the page; `None` to compute everything.
    pub deadline: Option<Instant>,
}

/// A page of a lake.
#[derive(Debug, Clone)]
pub struct LakeReport {
    /// The page.
    pub html: String,
    /// Number of rows of tables and charts on it.
    pub rows: u64,
    /// False if figures are missing that weren't computed in time.
    pub is_complete: bool,
}

/// Variables of the template.
#[derive(Serialize)]
struct LakePage<'p> {
    subject: &'p str,
    version: &'static str,
    now: String,
    tiles: Vec<ReportTile>,
    sections: Vec<ReportSection>,
    /// Titles of the sections about tables that the session lacks.
    hidden: Vec<&'static str>,
}

#[derive(Serialize)]
struct ReportTile {
    value: String,
    label: &'static str,
}

#[derive(Serialize)]
struct ReportSection {
    title: &'static str,
    note: &'static str,
    query: &'static str,
    bars: Vec<ChartBar>,
    table: QueryRows,
    /// Whether the time was over before the figures were complete.
    is_late: bool,
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

/// Outcome of a query of the page.
enum QueryOutcome {
    Rows(QueryRows),
    /// The session lacks a table of the query.
    Hidden,
    /// The time for the page was over.
    TimedOut,
}

/// Labels of the figures at the top, and the query of each: one value.
const TILES: [(&str, &str); 7] = [
    ("grains", "SELECT count(*) FROM grains"),
    ("current grains", "SELECT count(*) FROM current"),
    ("people", "SELECT count(DISTINCT user_id) FROM grains"),
    ("conversations", "SELECT count(*) FROM threads"),
    (
        "US dollars for tokens",
        "SELECT round(coalesce(sum(cost_usd), 0), 2) FROM usage",
    ),
    (
        "tokens without a price",
        "SELECT coalesce(sum(unpriced_tokens), 0) FROM usage",
    ),
    ("records refused", "SELECT count(*) FROM rejects"),
];

/// Returns the page of what `context` queries. What needs tables that the session lacks, as a
/// confined one does, is left out; the page names it.
///
/// Every section is one query over all that the session sees. A lake of a hundred thousand grains
/// takes about a second; personal data is the slowest section, because it reads every text. The
/// memory is that of the session, and the first rows of each section.
///
/// # Errors
/// [`PageError`].
pub async fn lake_report(
    context: &SessionContext,
    options: ReportOptions<'_>,
) -> Result<LakeReport, PageError> {
    let mut hidden = Vec::new();
    let tiles = tiles(context, options.deadline).await?;
    let mut sections = Vec::new();
    for section in &QUERIES {
        match figures(context, section.title, section.query, options.deadline).await? {
            QueryOutcome::Rows(table) => sections.push(section_of(section, table, false)),
            QueryOutcome::TimedOut => {
                sections.push(section_of(section, QueryRows::default(), true))
            }
            QueryOutcome::Hidden => hidden.push(section.title),
        }
    }
    let rows = sections
        .iter()
        .map(|section| section.table.rows.len() as u64);
    let rows = rows.sum();
    // The figures at the top are computed first, so a section is late if one of them is.
    let is_complete = !sections.iter().any(|section| section.is_late);
    let page = LakePage {
        subject: options.subject,
        version: env!("CARGO_PKG_VERSION"),
        now: now(),
        tiles,
        sections,
        hidden,
    };
    let html = render_page(TEMPLATE, &page)?;
    Ok(LakeReport {
        html,
        rows,
        is_complete,
    })
}

/// Returns the figures at the top of the page.
async fn tiles(
    context: &SessionContext,
    deadline: Option<Instant>,
) -> Result<Vec<ReportTile>, PageError> {
    let mut tiles = Vec::new();
    for (label, query) in TILES {
        let value = match figures(context, "Overview", query, deadline).await? {
            QueryOutcome::Rows(table) => table.rows.into_iter().flatten().next(),
            QueryOutcome::TimedOut => None,
            QueryOutcome::Hidden => continue,
        };
        let value = value.unwrap_or_else(|| MISSING.to_owned());
        tiles.push(ReportTile { value, label });
    }
    Ok(tiles)
}

fn section_of(section: &ReportQuery, table: QueryRows, is_late: bool) -> ReportSection {
    let counted = |row: &Vec<String>| Some((row.first()?.clone(), row.get(1)?.parse().ok()?));
    let counts = match section.is_chart {
        true => table.rows.iter().filter_map(counted).collect(),
        false => Vec::new(),
    };
    ReportSection {
        title: section.title,
        note: section.note,
        query: section.query,
        bars: bars(counts),
        table,
        is_late,
    }
}

/// Runs a query of the section `section` until `deadline`, if the session has its tables.
async fn figures(
    context: &SessionContext,
    section: &'static str,
    query: &str,
    deadline: Option<Instant>,
) -> Result<QueryOutcome, PageError> {
    let failed = |cause| PageError::Section { section, cause };
    if !has_tables(context, query).map_err(failed)? {
        return Ok(QueryOutcome::Hidden);
    }
    let rows = first_rows(context, query);
    let rows = match deadline {
        None => rows.await,
        // A query that begins late would be planned before it ends.
        Some(deadline) if deadline <= Instant::now() => return Ok(QueryOutcome::TimedOut),
        Some(deadline) => match timeout_at(deadline, rows).await {
            Ok(rows) => rows,
            Err(_) => return Ok(QueryOutcome::TimedOut),
        },
    };
    rows.map(QueryOutcome::Rows).map_err(failed)
}

/// Returns whether the session has all tables that a query names.
fn has_tables(context: &SessionContext, query: &str) -> Result<bool, DataFusionError> {
    let state = context.state();
    for statement in statements(query)? {
        for table in state.resolve_table_references(&statement)? {
            if !context.table_exist(table)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Runs a query; of its rows the first are kept, the others are counted.
async fn first_rows(context: &SessionContext, query: &str) -> Result<QueryRows, DataFusionError> {
    let mut batches = context.sql(query).await?.execute_stream().await?;
    let mut shown = QueryRows::default();
    while let Some(batch) = batches.next().await {
        add_rows(&batch?, &mut shown)?;
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
    let options = FormatOptions::default().with_null(MISSING);
    let formatters = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<Vec<_>, _>>()?;
    shown.total += batch.num_rows();
    let missing = MAX_ROWS.saturating_sub(shown.rows.len());
    for row in 0..batch.num_rows().min(missing) {
        let cells = formatters
            .iter()
            .map(|cell| cut(cell.value(row).to_string()));
        shown.rows.push(cells.collect());
    }
    Ok(())
}

/// Returns a text of at most [`MAX_CELL`] characters; a longer one ends with `…`.
fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_CELL) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::datasource::empty::EmptyTable;
    use gristmill_schemas::columns::grains_schema;

    use super::*;
    use crate::sql::{SqlOptions, bare_context};

    #[tokio::test]
    async fn a_query_runs_if_its_tables_exist_and_in_time() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let over = Some(Instant::now());
        let unknown = "SELECT 1 WHERE (SELECT count(*) FROM nowhere) > 0";
        for deadline in [None, over] {
            let outcome = figures(&context, "s", unknown, deadline).await.unwrap();
            assert!(matches!(outcome, QueryOutcome::Hidden));
        }
        let outcome = figures(&context, "s", "SELECT 1", over).await.unwrap();
        assert!(matches!(outcome, QueryOutcome::TimedOut));
    }

    #[tokio::test]
    async fn a_page_names_what_is_hidden_and_what_was_not_computed_in_time() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let grains = Arc::new(EmptyTable::new(grains_schema()));
        context.register_table("grains", grains).unwrap();
        let options = ReportOptions {
            subject: "<b>",
            deadline: Some(Instant::now()),
        };
        let report = lake_report(&context, options).await.unwrap();
        assert_eq!((report.rows, report.is_complete), (0, false));
        let html = report.html;
        assert_eq!(html.matches("Not computed").count(), 4, "{html}");
        assert!(html.contains("<b>–</b>grains</li>"), "{html}");
        let hidden = "left out here: Facts: current and closed, Messages, tokens and cost by model";
        assert!(html.contains(hidden), "{html}");
        assert!(html.contains("<code>&lt;b&gt;</code>"), "{html}");
    }

    #[tokio::test]
    async fn rows_and_texts_beyond_the_limits_are_counted_and_cut() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let query =
            "SELECT concat(repeat('ä', 400), n) AS t FROM (SELECT unnest(range(1, 61)) AS n)";
        let found = first_rows(&context, query).await.unwrap();
        assert_eq!((found.total, found.rows.len()), (60, MAX_ROWS));
        assert_eq!(found.rows[0][0], format!("{}…", "ä".repeat(MAX_CELL)));
    }
}
