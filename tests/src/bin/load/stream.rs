//! A large answer over Flight SQL, compared with the same answer in a file of the command line.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::TryStreamExt;

use crate::Failure;
use crate::clients::Clients;

/// About 250 bytes a row.
const QUERY: &str = "SELECT content_address, type, namespace, user_id, session_id, created_at, \
                     subject, relation, object, content FROM grains";

/// Streams and writes the answer in turn, `rounds` times, and returns a table.
///
/// # Errors
/// If either fails, or if they have different numbers of rows.
pub async fn compare(
    program: &Path,
    lake: &str,
    clients: &mut Clients,
    rounds: usize,
) -> Result<String, Failure> {
    let mut out = String::from(
        "| round | rows | MB in memory | Arrow file s | Flight SQL s | rate of the file | ratio of rates |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for round in 1..=rounds {
        let written = write_file(program, lake)?;
        let started = Instant::now();
        let (mut rows, mut bytes) = (0, 0);
        let mut batches = clients.stream(QUERY).await?;
        while let Some(batch) = batches.try_next().await? {
            rows += batch.num_rows();
            bytes += batch_bytes(&batch);
        }
        let streamed = started.elapsed().as_secs_f64();
        let megabytes = bytes as f64 / 1e6;
        let _ = writeln!(
            out,
            "| {round} | {rows} | {megabytes:.0} | {written:.2} | {streamed:.2} | {:.0} MB/s | {:.2} |",
            megabytes / written,
            written / streamed
        );
    }
    Ok(out)
}

/// Writes the answer to a file, and returns the seconds, without the start of the program: that of
/// an answer of no rows.
fn write_file(program: &Path, lake: &str) -> Result<f64, Failure> {
    let seconds = |query: &str| -> Result<f64, Failure> {
        let path = std::env::temp_dir().join(format!("load-{}.arrow", std::process::id()));
        let started = Instant::now();
        let status = Command::new(program)
            .args(["--quiet", "--lake", lake, "sql", "--format", "arrow", query])
            .stdin(Stdio::null())
            .stdout(File::create(&path)?)
            .status()?;
        let elapsed = started.elapsed().as_secs_f64();
        fs::remove_file(&path)?;
        if status.success() {
            Ok(elapsed)
        } else {
            Err(format!("`{query}`: {status}").into())
        }
    };
    let start = seconds(&format!("{QUERY} LIMIT 0"))?;
    Ok(seconds(QUERY)? - start)
}

fn batch_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or_default())
        .sum()
}
