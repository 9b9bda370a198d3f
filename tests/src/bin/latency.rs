//! `latency LAKE [COUNT]`: measures RECALLs by subject and searches over an open lake: each COUNT
//! times (1,000) with another subject or word, after a warm-up. Prints median, 99th percentile and
//! maximum in milliseconds, and the number of grains found, because a look-up without a hit
//! measures nothing.

use std::error::Error;
use std::time::Instant;

use arrow::util::display::array_value_to_string;
use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{Executor, Session};
use gristmill_queries::sql::{SessionContext, SqlOptions, lake_context};

// The allocator of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Queries that are run before the measurement.
const WARM: usize = 50;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next().ok_or("usage: latency LAKE [COUNT]")?;
    let count: usize = arguments.next().map_or(Ok(1_000), |count| count.parse())?;
    let started = Instant::now();
    let lake = Lake::open(&uri).await?;
    let context = lake_context(&lake, &SqlOptions::default()).await?;
    println!("open: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let words = column(&context, WORDS, count + WARM).await?;
    let subjects = column(&context, SUBJECTS, count + WARM).await?;
    let executor = Executor::new(context, Session::at(1_800_000_000_000));
    measure(&executor, "RECALL by subject", &subjects, |subject| {
        format!("RECALL WHERE subject = {subject:?}")
    })
    .await?;
    measure(
        &executor,
        "RECALL beliefs by subject and relation",
        &subjects,
        |subject| format!("RECALL beliefs WHERE subject = {subject:?} AND relation IS PREFERENCE"),
    )
    .await?;
    measure(&executor, "EXISTS-like count", &subjects, |subject| {
        format!("RECALL WHERE subject = {subject:?} | COUNT")
    })
    .await?;
    measure(&executor, "RECALL by two words", &words, |words| {
        format!("RECALL WHERE query = {words:?}")
    })
    .await?;
    Ok(())
}

const SUBJECTS: &str =
    "SELECT subject FROM (SELECT DISTINCT subject FROM beliefs) ORDER BY md5(subject)";
const WORDS: &str = "SELECT subject || ' ' || object FROM (SELECT DISTINCT subject, object FROM beliefs
                     WHERE subject ~ '^[a-z]+$' OR length(object) < 40) ORDER BY md5(subject || object)";

async fn column(
    context: &SessionContext,
    query: &str,
    count: usize,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut texts = Vec::new();
    for batch in context
        .sql(&format!("{query} LIMIT {count}"))
        .await?
        .collect()
        .await?
    {
        for row in 0..batch.num_rows() {
            texts.push(array_value_to_string(batch.column(0), row)?);
        }
    }
    Ok(texts)
}

async fn measure(
    executor: &Executor,
    name: &str,
    texts: &[String],
    query: impl Fn(&str) -> String,
) -> Result<(), Box<dyn Error>> {
    let (mut times, mut found) = (Vec::new(), 0);
    for (number, text) in texts.iter().enumerate() {
        let query = query(text);
        let started = Instant::now();
        let answer = executor
            .run_text(query.as_bytes(), &Bindings::new(), Options::default())
            .await?;
        if number >= WARM {
            times.push(started.elapsed().as_secs_f64() * 1e3);
            found += answer.answer.total;
        } else if number == 0 {
            println!(
                "{name}: the first took {:.1} ms",
                started.elapsed().as_secs_f64() * 1e3
            );
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| {
        times
            .get((times.len() as f64 * part) as usize)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{name}: median {:.2}, 99th percentile {:.2}, slowest {:.2} ms; {} queries, {found} grains",
        at(0.5),
        at(0.99),
        times.last().copied().unwrap_or_default(),
        times.len(),
    );
    Ok(())
}
