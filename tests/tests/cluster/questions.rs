//! Questions that have one right answer, over a lake of several segments with rows that lifecycle
//! masks leave out.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{SessionContext, SqlOptions, lake_context};
use gristmill_tests::sandbox::Sandbox;

/// Grains of each of the two batches that are taken in, and people in each.
const GRAINS: &str = "4000";
const PEOPLE: &str = "40";

/// Tables and views of which every row is compared.
const WHOLE: [&str; 16] = [
    "grains",
    "current",
    "lifecycle",
    "supersessions",
    "state",
    "sources",
    "beliefs",
    "events",
    "triples",
    "messages",
    "blocks",
    "tool_calls",
    "threads",
    "usage",
    "consent_state",
    "holds",
];

/// Questions about their rows. None depends on an order that SQL leaves open.
pub const QUESTIONS: [&str; 30] = [
    "SELECT type, count(*), min(content_address) FROM current GROUP BY type",
    "SELECT count(*) FROM grains",
    "SELECT count(*) FROM current",
    "SELECT count(DISTINCT user_id) FROM grains",
    "SELECT user_id, count(*) AS n FROM current GROUP BY user_id HAVING count(*) > 3",
    "SELECT type, avg(confidence), max(created_at) FROM grains GROUP BY type",
    "SELECT content_address FROM current ORDER BY created_at, content_address LIMIT 17",
    "SELECT content_address FROM grains ORDER BY content_address DESC LIMIT 5 OFFSET 100",
    "SELECT count(*) FROM (SELECT content_address FROM grains LIMIT 900) AS few",
    "SELECT subject, relation, object FROM current WHERE type = 'belief' AND confidence > 0.5",
    "SELECT g.content_address, l.superseded_by FROM grains g JOIN lifecycle l
       ON g.content_address = l.content_address WHERE l.superseded_by IS NOT NULL",
    "SELECT count(*) FROM grains g LEFT JOIN current c ON g.content_address = c.content_address
       WHERE c.content_address IS NULL",
    "SELECT count(*) FROM grains WHERE content_address NOT IN (SELECT content_address FROM current)",
    "SELECT count(*) FROM grains WHERE content_address IN (SELECT content_address FROM current)",
    "SELECT count(*) FROM grains g WHERE NOT EXISTS
       (SELECT 1 FROM current c WHERE c.content_address = g.content_address)",
    "SELECT a.type, b.type, count(*) FROM current a FULL JOIN grains b
       ON a.content_address = b.content_address GROUP BY a.type, b.type",
    "SELECT count(*) FROM (SELECT DISTINCT user_id FROM grains) a,
       (SELECT DISTINCT type FROM grains) b",
    "SELECT a.user_id, count(*) FROM (SELECT DISTINCT user_id FROM current) a
       JOIN (SELECT DISTINCT user_id FROM current) b ON a.user_id < b.user_id GROUP BY a.user_id",
    "SELECT type FROM grains UNION SELECT relation FROM grains",
    "SELECT 'all' AS kind, count(*) FROM grains UNION ALL SELECT 'current', count(*) FROM current",
    "SELECT content_address, row_number() OVER (PARTITION BY user_id
       ORDER BY created_at, content_address) AS place FROM current",
    "SELECT content_address, sum(confidence) OVER (ORDER BY created_at, content_address) AS s
       FROM current WHERE confidence IS NOT NULL",
    "SELECT type, content_address FROM (SELECT type, content_address, rank() OVER (PARTITION BY type
       ORDER BY content_address) AS place FROM grains) AS ranked WHERE place <= 2",
    "SELECT max(created_at) - min(created_at) FROM grains
       WHERE created_at > (SELECT min(created_at) FROM current)",
    "SELECT length(blob), count(*) FROM grains GROUP BY 1",
    "SELECT unnest(supersedes) AS old, content_address FROM grains",
    "SELECT count(*) FROM grains WHERE type = 'belief' AND namespace = 'no such namespace'",
    "SELECT subject, count(*) FROM triples GROUP BY subject ORDER BY 2 DESC, 1 LIMIT 9",
    "SELECT model, sum(cost_usd) FROM usage GROUP BY model",
    "WITH old AS (SELECT content_address FROM lifecycle WHERE superseded_by IS NOT NULL)
       SELECT type, count(*) FROM grains JOIN old USING (content_address) GROUP BY type",
];

/// Statements of CAL about the same lake.
pub const STATEMENTS: [&str; 14] = [
    "RECALL beliefs WHERE confidence > 0.9 LIMIT 5",
    "RECALL beliefs WHERE subject = \"Jonas Weber\" LIMIT 6",
    "RECALL events LIMIT 7",
    "RECALL events | COUNT",
    "RECALL beliefs ABOUT \"Schalentiere\" LIMIT 4",
    "RECALL events LIKE \"Rezept\" LIMIT 2",
    "RECALL beliefs WHERE subject = \"Jonas Weber\" | COUNT",
    "RECALL events LIKE \"Rezept\" WHERE score > 0.01 LIMIT 3",
    "RECALL beliefs WHERE hc:icd10 != \"J45\" LIMIT 3",
    "RECALL beliefs GROUP BY relation",
    "RECALL beliefs WHERE subject = \"Jonas Weber\" | OBJECTS",
    "RECALL beliefs SINCE \"2025-01-01\" LIMIT 3",
    "BATCH { a: RECALL beliefs | COUNT, b: RECALL actions WHERE is_error = true | COUNT }",
    "RECALL beliefs WHERE subject IN (RECALL beliefs WHERE relation = \"avoids\" | SUBJECTS) LIMIT 5",
];

/// Returns all questions.
pub fn questions() -> Vec<String> {
    let whole = WHOLE.iter().map(|name| format!("SELECT * FROM {name}"));
    let questions = QUESTIONS.iter().map(|text| (*text).to_owned());
    whole.chain(questions).collect()
}

/// A lake in a sandbox, and the local answers about it.
pub struct Asked {
    /// The sandbox; its lake is `lake`.
    pub sandbox: Sandbox,
    /// The rows of each question, in one order for all.
    pub answers: BTreeMap<String, Vec<String>>,
}

impl Asked {
    /// Makes the lake, and asks nothing.
    pub fn nothing() -> Asked {
        let sandbox = Sandbox::new();
        for seed in ["1", "2"] {
            let corpus = format!("corpus-{seed}");
            let folder = sandbox.path(&corpus).display().to_string();
            let made = [
                "generate", &folder, "--grains", GRAINS, "--people", PEOPLE, "--seed", seed,
            ];
            run(&sandbox, &made);
            run(&sandbox, &["ingest", &folder]);
        }
        Asked {
            sandbox,
            answers: BTreeMap::new(),
        }
    }

    /// Makes the lake and asks locally.
    pub async fn new() -> Asked {
        let asked = Asked::nothing();
        let context = asked.session().await;
        let mut answers = BTreeMap::new();
        for question in questions() {
            let rows = rows(&context, &question).await;
            answers.insert(question, rows.unwrap_or_else(|error| panic!("{error}")));
        }
        assert!(answers.values().filter(|rows| !rows.is_empty()).count() > 35);
        Asked { answers, ..asked }
    }

    /// Returns a session over the lake that runs queries locally.
    pub async fn session(&self) -> SessionContext {
        let lake = Lake::open(&self.location()).await.expect("a lake");
        let context = lake_context(&lake, &SqlOptions::default()).await;
        context.expect("a session over the lake")
    }

    /// Returns the location of the lake.
    pub fn location(&self) -> String {
        self.sandbox.path("lake").display().to_string()
    }
}

/// Runs the binary over the lake of `sandbox`.
fn run(sandbox: &Sandbox, arguments: &[&str]) {
    let ended = sandbox
        .command("lake", arguments)
        .output()
        .expect("a command");
    let messages = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {messages}");
}

/// Returns the rows of a question as texts, sorted.
///
/// # Errors
/// Those of the query.
pub async fn rows(
    context: &SessionContext,
    question: &str,
) -> Result<Vec<String>, gristmill_queries::sql::DataFusionError> {
    let batches = context.sql(question).await?.collect().await?;
    let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
    rows.sort();
    Ok(rows)
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns: Vec<_> = columns
        .map(|column| ArrayFormatter::try_new(column, &options).expect("a column of text"))
        .collect();
    let row = |row| {
        let cells = columns
            .iter()
            .map(|column| rounded(column.value(row).to_string()));
        cells.collect::<Vec<_>>().join("\t")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Rounds a fraction: sums of them depend on the order of their parts.
fn rounded(cell: String) -> String {
    match cell.parse::<f64>() {
        Ok(number) if cell.contains('.') => format!("{number:.6}"),
        _ => cell,
    }
}
