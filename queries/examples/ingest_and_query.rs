//! Ingests files or folders into a lake and queries it with SQL.
//!
//! ```sh
//! cargo run --example ingest_and_query -- LAKE SOURCE...
//! ```

use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{SqlOptions, lake_context};

const QUERY: &str = "SELECT type, count(*) AS grains, sum(blob_size) AS bytes
                     FROM grains GROUP BY type ORDER BY grains DESC";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next().ok_or("usage: LAKE SOURCE...")?;
    let sources: Vec<String> = arguments.collect();

    // A source is a file, a folder, a glob pattern or a URI; its kind is detected.
    let mut lake = Lake::open_or_create(&uri).await?;
    let progress = Arc::new(IngestProgress::default());
    let options = IngestOptions::default();
    let report = ingest(&mut lake, discover(&sources).await?, &options, progress).await?;
    // Refused grains are in the table `rejects`, with the reason.
    println!("{} grains refused", report.rejected);

    let context = lake_context(&lake, &SqlOptions::default()).await?;
    context.sql(QUERY).await?.show().await?;
    Ok(())
}
