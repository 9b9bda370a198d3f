//! The lines of a transcript that its reader refused. Their rows are made one at a time when the
//! run takes them, so that a file of refused lines takes no more memory than a batch.

use gristmill_connectors::source::SourceBytes;
use gristmill_connectors::transcript::line::LineFault;
use gristmill_schemas::columns::RejectRow;

use crate::lake::{MAX_SOURCE_BYTES, RejectBytes, RejectContext, RejectPosition, RejectReason};

/// The refused lines of a source, in their order.
#[derive(Debug, Default)]
pub(super) struct RefusedLines {
    faults: Vec<LineFault>,
    /// The source, which the rows quote; `None` if no line was refused.
    bytes: Option<SourceBytes>,
}

impl RefusedLines {
    /// Returns the lines of `bytes` that have the `faults`.
    pub(super) fn new(faults: Vec<LineFault>, bytes: SourceBytes) -> RefusedLines {
        let bytes = (!faults.is_empty()).then_some(bytes);
        RefusedLines { faults, bytes }
    }

    /// Returns the number of lines.
    pub(super) fn len(&self) -> usize {
        self.faults.len()
    }

    /// Returns why the first line was refused.
    pub(super) fn first(&self) -> Option<&LineFault> {
        self.faults.first()
    }

    /// Returns the rows of the lines, each made when it is asked for. Of several rows of one line,
    /// only the first quotes it: a document of one line may have as many as it has items.
    pub(super) fn into_rows(
        self,
        context: RejectContext<'_>,
    ) -> impl Iterator<Item = RejectRow> + '_ {
        let RefusedLines { faults, bytes } = self;
        let mut quoted = None;
        faults.into_iter().map(move |fault| {
            let bytes = bytes.as_deref().unwrap_or_default();
            let line = bytes.get(fault.range.clone()).unwrap_or_default();
            let before = quoted.replace(fault.range.clone());
            let limit = match before.as_ref() == Some(&fault.range) {
                true => 0,
                false => MAX_SOURCE_BYTES,
            };
            reject_line(context, &fault, RejectBytes::limited(line, limit))
        })
    }
}

/// Returns the row for a line of a transcript that can't be read, which quotes `bytes` of it.
fn reject_line(context: RejectContext<'_>, fault: &LineFault, bytes: RejectBytes<'_>) -> RejectRow {
    let position = RejectPosition {
        // Lines are counted from 1, ordinals from 0.
        ordinal: fault.number as i64 - 1,
        // Where an entry of a document is in the file isn't known.
        offset: (!fault.range.is_empty()).then_some(fault.range.start as u64),
    };
    let reason = RejectReason {
        code: fault.code.name(),
        field: None,
        message: fault.to_string(),
    };
    context.row(position, reason, bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use gristmill_connectors::generate::Corpus;
    use gristmill_connectors::source::{Source, SourceKind, discover};
    use gristmill_connectors::transcript::kind::TranscriptKind;

    use crate::ingest::ingest;
    use crate::ingest::options::IngestOptions;
    use crate::ingest::report::OnError;
    use crate::ingest::run::IngestRun;
    use crate::lake::Lake;
    use crate::progress::WorkProgress;

    const LINES: i64 = 20_000;

    /// Writes a transcript of one message, after which `line` follows `count` times.
    async fn transcript(folder: &Path, line: &str, count: i64) -> Vec<Source> {
        let message = r#"{"provider": "x", "endpoint": "y", "request": {"a": 1}}"#;
        let path = folder.join("refused.jsonl");
        let text = format!("{message}\n{}", format!("{line}\n").repeat(count as usize));
        std::fs::write(&path, text).unwrap();
        discover(&[path.display().to_string()]).await.unwrap()
    }

    async fn empty_lake(folder: &Path) -> Lake {
        let place = folder.join("lake").display().to_string();
        Lake::open_or_create(&place).await.unwrap()
    }

    /// Batches of 1 MiB.
    fn small_batches() -> IngestOptions {
        IngestOptions {
            threads: 1,
            commit_every: Some(1),
            ..IngestOptions::default()
        }
    }

    async fn ordinals(lake: &Lake) -> Vec<i64> {
        let batches = lake.rejects.read_columns(&["ordinal"]).await.unwrap();
        let values = |batch| -> Vec<i64> {
            let batch: &arrow::array::RecordBatch = batch;
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        let mut ordinals: Vec<i64> = batches.iter().flat_map(values).collect();
        ordinals.sort_unstable();
        ordinals
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rows_of_one_source_are_committed_in_pieces_also_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = empty_lake(folder.path()).await;
        let sources = || transcript(folder.path(), "0", LINES);
        let options = small_batches();
        // Without its end, a run is like one that was killed.
        let mut run = IngestRun::begin(&mut lake, &options, Arc::default())
            .await
            .unwrap();
        let (admitter, arranged) = run.arranged(sources().await).await.unwrap();
        run.read_all(&admitter, arranged).await.unwrap();
        drop(run);
        lake.refresh().await.unwrap();
        let pieces = lake.rejects.files().unwrap().len();
        let committed = ordinals(&lake).await.len() as i64;
        assert!(pieces > 2 && committed < LINES, "{pieces}, {committed}");

        for (files, rejected) in [(1, LINES as u64), (0, 0)] {
            let progress = Arc::new(WorkProgress::default());
            let report = ingest(&mut lake, sources().await, &options, progress).await;
            let report = report.unwrap();
            assert_eq!((report.files, report.rejected), (files, rejected));
            assert!(ordinals(&lake).await.into_iter().eq(1..=LINES));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_of_long_refused_lines_has_the_size_of_a_batch() {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = empty_lake(folder.path()).await;
        let sources = transcript(folder.path(), &"0".repeat(600_000), 7).await;
        let report = ingest(&mut lake, sources, &small_batches(), Arc::default()).await;
        assert_eq!(report.unwrap().rejected, 7);
        let rows: Vec<u64> = lake
            .rejects
            .files()
            .unwrap()
            .iter()
            .map(|file| file.rows)
            .collect();
        assert!(
            rows.len() == 4 && rows.iter().all(|rows| *rows <= 2),
            "{rows:?}"
        );
    }

    /// A file of grains with the refused line `number` and, right after it, a refused grain that is
    /// the grain `number` of the file. They are in different batches.
    async fn line_and_grain(folder: &Path, number: usize) -> Vec<Source> {
        let blob = Corpus::new(11, 9);
        let mut blob = blob.block(0).unwrap().grains.swap_remove(0).blob;
        blob.pop();
        let digits: String = blob.iter().map(|byte| format!("{byte:02x}")).collect();
        let grain = |at: usize| {
            let object = at.to_string().repeat(600_000);
            format!(
                r#"{{"grain":{{"type":"belief","subject":"ada","relation":"says","object":"{object}","confidence":1.0,"source_type":"user_explicit","created_at":1700000000000}}}}"#
            )
        };
        let mut lines: Vec<String> = (0..number).map(grain).collect();
        lines.extend(["0".to_owned(), format!(r#"{{"blob_hex":"{digits}"}}"#)]);
        let path = folder.join("grains.jsonl");
        std::fs::write(&path, lines.join("\n")).unwrap();
        discover(&[path.display().to_string()]).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_refused_line_and_a_refused_grain_with_its_number_have_a_row_each() {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = empty_lake(folder.path()).await;
        for retry_refused in [false, true] {
            let options = IngestOptions {
                retry_refused,
                ..small_batches()
            };
            let sources = line_and_grain(folder.path(), 4).await;
            let report = ingest(&mut lake, sources, &options, Arc::default()).await;
            let report = report.unwrap();
            assert_eq!((report.rejected, report.resolved_rejects), (2, 0));
            assert_eq!(ordinals(&lake).await, [4, 4]);
        }
        let offsets = lake.rejects.read_columns(&["offset"]).await.unwrap();
        let offsets = offsets.iter().flat_map(|batch| {
            let offsets = batch.column(0).as_primitive::<Int64Type>();
            offsets.iter().map(|offset| offset.is_some())
        });
        assert_eq!(offsets.filter(|has_offset| *has_offset).count(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_run_that_stops_at_a_refused_line_names_it_with_one_code() {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = empty_lake(folder.path()).await;
        let sources = transcript(folder.path(), "oops", 1).await;
        let options = IngestOptions {
            on_error: OnError::Fail,
            ..small_batches()
        };
        let error = ingest(&mut lake, sources, &options, Arc::default()).await;
        let error = error.unwrap_err().to_string();
        let (_, fault) = error.split_once("refused.jsonl: ").unwrap();
        assert_eq!(fault, "line 2: ERR_JSON: expected value at byte 0");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rejects_of_one_line_are_committed_together_and_quote_it_once() {
        const MESSAGES: u64 = 2_000;
        let folder = tempfile::tempdir().unwrap();
        let mut lake = empty_lake(folder.path()).await;
        let path = folder.path().join("agent.af");
        let messages = vec!["{}"; MESSAGES as usize].join(",");
        let agent = format!(r#"{{"agents":[{{"messages":[{messages}]}}],"blocks":[]}}"#);
        std::fs::write(&path, &agent).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        let options = IngestOptions {
            kind: Some(SourceKind::Transcript(TranscriptKind::Letta)),
            ..small_batches()
        };
        let report = ingest(&mut lake, sources, &options, Arc::default()).await;
        let (rejected, rows) = (report.unwrap().rejected, ordinals(&lake).await);
        assert_eq!((rejected, rows.len() as u64), (MESSAGES, MESSAGES));
        let quotes = lake.rejects.read_columns(&["bytes"]).await.unwrap();
        let lengths = quotes.iter().flat_map(|batch| {
            let bytes = batch.column(0).as_binary::<i32>();
            bytes.iter().map(|bytes| bytes.map_or(0, <[u8]>::len))
        });
        let quoted: Vec<usize> = lengths.filter(|length| *length > 0).collect();
        assert_eq!(quoted, [agent.len()]);
    }
}
