//! A lake in a temporary folder, for tests that ingest bytes and query it within the process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use gristmill_connectors::source::discover;
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, IngestReport, ingest};
use gristmill_engine::lake::{Change, Lake};
use gristmill_queries::exec::{Executor, LakeWriter, Session};
use gristmill_queries::sql::{SqlOptions, execute, lake_context, statements};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};

use crate::grains::{frames, grain};

/// Query timeout of tests, whose builds are slow and whose machines are busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// A CAL session at the instant `now_ms` with a timeout of five minutes.
pub fn patient_session(now_ms: i64) -> Session {
    Session {
        query_timeout: PATIENCE,
        assemble_timeout: PATIENCE,
        ..Session::at(now_ms)
    }
}

/// A lake, and a folder for its input.
pub struct TestLake {
    /// The lake after the last ingest.
    pub lake: Lake,
    folder: tempfile::TempDir,
}

impl TestLake {
    /// A new, empty one.
    ///
    /// # Panics
    /// If the system has no temporary folder for it.
    pub async fn new() -> TestLake {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let uri = folder.path().join("lake").display().to_string();
        TestLake {
            lake: Lake::open_or_create(&uri).await.expect("a new lake"),
            folder,
        }
    }

    /// A new lake with the grains that `grains` (JSON with full names) describe.
    ///
    /// # Panics
    /// If one isn't a grain.
    pub async fn of(grains: &[&str]) -> TestLake {
        let mut lake = TestLake::new().await;
        let blobs: Vec<_> = grains.iter().map(|text| grain(text).blob).collect();
        lake.ingest(&[("grains.frames", &frames(&blobs))]).await;
        lake
    }

    /// Commits events that mark grains as superseded: the old one, then the new one.
    ///
    /// # Panics
    /// If the commit fails.
    pub async fn supersede(&mut self, links: &[(ContentAddress, ContentAddress)]) {
        let row = |(old, new): &(ContentAddress, ContentAddress)| StateRow {
            content_address: old.to_string(),
            event: LifecycleEvent::Superseded,
            value: Some(new.to_string()),
            at: 0,
            actor: None,
            reason: None,
            source_id: None,
        };
        let rows: Vec<_> = links.iter().map(row).collect();
        self.add_events(&rows).await;
    }

    /// Commits events in a file of their own.
    ///
    /// # Panics
    /// If the commit fails.
    pub async fn add_events(&mut self, rows: &[StateRow]) {
        let batch = state_batch(rows).expect("rows of `state`");
        let state = &mut self.lake.state;
        let file = state.write_file(&batch).await.expect("a data file");
        let change = Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        };
        state.commit(change, "test", 1).await.expect("a commit");
    }

    /// Merges small files, with the default options.
    ///
    /// # Panics
    /// If it fails.
    pub async fn compact(&mut self) {
        compact(&mut self.lake, &CompactOptions::default(), Arc::default())
            .await
            .expect("a compaction");
    }

    /// An executor of CAL over the lake that may write.
    ///
    /// # Panics
    /// If the lake can't be read.
    pub async fn executor(&self, session: Session) -> Executor {
        let tables = lake_context(&self.lake, &SqlOptions::default())
            .await
            .expect("a context over the lake");
        let session = Session {
            writes: true,
            ..session
        };
        Executor::new(tables, session).with_writer(Arc::new(LakeWriter::new(self.lake.clone())))
    }

    /// The folder that holds the lake and its input.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `files` (name and bytes) to a new folder and ingests them, sorted by name.
    ///
    /// # Errors
    /// Those of ingest.
    ///
    /// # Panics
    /// If a file can't be written.
    pub async fn try_ingest(
        &mut self,
        files: &[(&str, &[u8])],
        options: &IngestOptions,
    ) -> Result<IngestReport, EngineError> {
        self.ingest_with(files, options, Arc::default()).await
    }

    /// Does the same, but requests the ingest to stop when it has made `commits` commits.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if it stops before its end; others of ingest.
    ///
    /// # Panics
    /// If a file can't be written.
    pub async fn try_interrupted_ingest(
        &mut self,
        files: &[(&str, &[u8])],
        options: &IngestOptions,
        commits: u64,
    ) -> Result<IngestReport, EngineError> {
        let next = self.lake.grains.version() + commits;
        let commit = format!("lake/grains/_delta_log/{next:020}.json");
        let commit = self.folder.path().join(commit);
        let progress = Arc::new(IngestProgress::default());
        let watched = Arc::clone(&progress);
        let watch = tokio::spawn(async move {
            while !commit.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            watched.stop();
        });
        let ended = self.ingest_with(files, options, progress).await;
        watch.abort();
        ended
    }

    async fn ingest_with(
        &mut self,
        files: &[(&str, &[u8])],
        options: &IngestOptions,
        progress: Arc<IngestProgress>,
    ) -> Result<IngestReport, EngineError> {
        let input = tempfile::tempdir_in(self.folder.path()).expect("a folder for the input");
        for (name, bytes) in files {
            std::fs::write(input.path().join(name), bytes).expect("a file of the input");
        }
        let sources = discover(&[input.path().display().to_string()]).await?;
        ingest(&mut self.lake, sources, options, progress).await
    }

    /// [`TestLake::try_ingest`] with the default options.
    ///
    /// # Panics
    /// If ingest fails as a whole.
    pub async fn ingest(&mut self, files: &[(&str, &[u8])]) -> IngestReport {
        self.try_ingest(files, &IngestOptions::default())
            .await
            .expect("an ingest that goes through")
    }

    /// Returns the rows of `query` as text; null is `NULL`.
    ///
    /// # Panics
    /// If it isn't a query that the lake can answer.
    pub async fn rows(&self, query: &str) -> Vec<Vec<String>> {
        let context = lake_context(&self.lake, &SqlOptions::default())
            .await
            .expect("a context over the lake");
        let mut rows = Vec::new();
        for statement in statements(query).expect("SQL") {
            let stream = execute(&context, statement).await.expect("a plan");
            let batches: Vec<_> = stream.try_collect().await.expect("rows");
            let options = FormatOptions::default().with_null("NULL");
            for batch in &batches {
                let columns: Vec<_> = batch
                    .columns()
                    .iter()
                    .map(|column| ArrayFormatter::try_new(column, &options))
                    .collect();
                let columns = columns
                    .into_iter()
                    .collect::<Result<Vec<_>, _>>()
                    .expect("printable columns");
                rows.extend((0..batch.num_rows()).map(|row| {
                    columns
                        .iter()
                        .map(|cell| cell.value(row).to_string())
                        .collect()
                }));
            }
        }
        rows
    }

    /// Returns the first value of `query`.
    ///
    /// # Panics
    /// If there is no row.
    pub async fn value(&self, query: &str) -> String {
        self.rows(query)
            .await
            .into_iter()
            .flatten()
            .next()
            .expect("a row")
    }

    /// Returns the codes in `rejects`, sorted by source and ordinal.
    pub async fn reject_codes(&self) -> Vec<String> {
        self.rows("SELECT error_code FROM rejects ORDER BY source, ordinal")
            .await
            .into_iter()
            .flatten()
            .collect()
    }
}
