//! Entries in the audit log about answers with many rows.
//!
//! One task writes them, those of several answers in one commit, so that an answer that is
//! cancelled takes no entry with it. The log is left to other processes most of the time.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use gristmill_engine::lake::Lake;
use serde_json::Value as JsonValue;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// After entries the log is left alone for so many times the time that they took: others commit to
/// it with a few attempts, such as an erasure.
const PAUSE: u32 = 3;

/// It is left alone no longer than this.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// An answer waits no longer for its entry, which is written later then.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Where entries are written: the audit log of a lake.
trait EntryLog: Send {
    /// Writes entries in one commit. Returns the reason if it can't.
    fn write_all(&mut self, entries: Vec<JsonValue>) -> BoxFuture<'_, Result<(), String>>;
}

impl EntryLog for Lake {
    fn write_all(&mut self, entries: Vec<JsonValue>) -> BoxFuture<'_, Result<(), String>> {
        let recorded = self.record_all("bulk_read", entries);
        recorded
            .map(|recorded| recorded.map_err(|error| error.to_string()))
            .boxed()
    }
}

/// The entries of a server.
pub(super) struct BulkReads {
    log: tokio::sync::Mutex<Box<dyn EntryLog>>,
    queue: Mutex<Queue>,
    writer: Mutex<JoinSet<()>>,
    /// That of the server: answers may be dropped outside of it.
    runtime: Handle,
}

/// The entries that aren't written yet.
struct Queue {
    waiting: Vec<UnwrittenEntry>,
    /// True if a task writes them.
    has_writer: bool,
    /// When the log may be written again.
    free_at: Instant,
}

/// An entry that isn't written yet.
struct UnwrittenEntry {
    details: JsonValue,
    /// Dropped when it is written, or can't be.
    _written: oneshot::Sender<()>,
}

/// An entry that is written by another task.
pub(super) struct PendingEntry(oneshot::Receiver<()>);

impl PendingEntry {
    /// Waits until it is written, or can't be, for some seconds.
    pub(super) async fn written(self) {
        if timeout(MAX_WAIT, self.0).await.is_err() {
            tracing::warn!("the audit log is busy: a bulk read is recorded after its answer");
        }
    }
}

impl BulkReads {
    /// Returns those of a server of `lake`, which runs in the current runtime.
    pub(super) fn of(lake: Lake) -> BulkReads {
        BulkReads::in_log(Box::new(lake))
    }

    /// Returns those that are written to `log`.
    fn in_log(log: Box<dyn EntryLog>) -> BulkReads {
        BulkReads {
            log: tokio::sync::Mutex::new(log),
            queue: Mutex::new(Queue {
                waiting: Vec::new(),
                has_writer: false,
                free_at: Instant::now(),
            }),
            writer: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an entry written.
    pub(super) fn add(self: &Arc<Self>, details: JsonValue) -> PendingEntry {
        let (_written, entry) = oneshot::channel();
        let has_writer = {
            let mut queue = self.queue();
            queue.waiting.push(UnwrittenEntry { details, _written });
            std::mem::replace(&mut queue.has_writer, true)
        };
        if !has_writer {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            while writer.try_join_next().is_some() {}
            writer.spawn_on(Arc::clone(self).write(), &self.runtime);
        }
        PendingEntry(entry)
    }

    /// Writes entries until none is left, those that come during a pause together.
    async fn write(self: Arc<Self>) {
        loop {
            let free_at = self.queue().free_at;
            sleep_until(free_at).await;
            let waiting = {
                let mut queue = self.queue();
                queue.has_writer = !queue.waiting.is_empty();
                std::mem::take(&mut queue.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            let begun = Instant::now();
            self.record(waiting).await;
            let pause = (begun.elapsed() * PAUSE).min(MAX_PAUSE);
            let mut queue = self.queue();
            queue.free_at = Instant::now() + pause;
            if queue.waiting.is_empty() {
                queue.has_writer = false;
                return;
            }
        }
    }

    /// Writes entries, to the messages of the program if the audit log can't be written. A panic
    /// doesn't end the task that writes, for which later entries would wait.
    async fn record(&self, waiting: Vec<UnwrittenEntry>) {
        let entries: Vec<JsonValue> = waiting.iter().map(|entry| entry.details.clone()).collect();
        let mut log = self.log.lock().await;
        let written = async { log.write_all(entries).await };
        let written = AssertUnwindSafe(written).catch_unwind().await;
        if let Err(error) = written.unwrap_or_else(|_| Err("a panic".to_owned())) {
            for UnwrittenEntry { details, .. } in &waiting {
                tracing::error!(%error, %details, "a bulk read can't be recorded in the audit log");
            }
        }
    }

    /// Waits for the entries that are being written.
    pub(super) async fn finish(&self) {
        let mut writer = {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *writer)
        };
        // One that has panicked doesn't keep the server from its end.
        while writer.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A log that panics at the first entry, and takes all others.
    struct FaultyLog {
        is_first: bool,
        written: Arc<Mutex<Vec<JsonValue>>>,
    }

    impl EntryLog for FaultyLog {
        fn write_all(&mut self, entries: Vec<JsonValue>) -> BoxFuture<'_, Result<(), String>> {
            assert!(!std::mem::take(&mut self.is_first), "the first entry");
            self.written.lock().unwrap().extend(entries);
            async { Ok(()) }.boxed()
        }
    }

    #[tokio::test]
    async fn entries_after_a_panic_are_written_and_their_answers_do_not_wait() {
        let written = Arc::default();
        let log = FaultyLog {
            is_first: true,
            written: Arc::clone(&written),
        };
        let reads = Arc::new(BulkReads::in_log(Box::new(log)));
        for rows in [1, 2, 3] {
            let entry = reads.add(json!({ "rows": rows }));
            timeout(MAX_WAIT / 2, entry.written()).await.unwrap();
        }
        reads.finish().await;
        let expected = [json!({ "rows": 2 }), json!({ "rows": 3 })];
        assert_eq!(*written.lock().unwrap(), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entries_are_written_whether_their_answers_wait_or_not() {
        const MANY: u64 = 40;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("lake").display().to_string();
        let lake = Lake::open_or_create(&place).await.unwrap();
        let before = lake.audit.version();
        let reads = Arc::new(BulkReads::of(lake));
        reads.add(json!({ "rows": 0 })).written().await;
        for rows in 1..MANY {
            // Its answer is cancelled.
            drop(reads.add(json!({ "rows": rows })));
        }
        reads.finish().await;
        let lake = Lake::open(&place).await.unwrap();
        let rows: u64 = lake
            .audit
            .files()
            .unwrap()
            .iter()
            .map(|file| file.rows)
            .sum();
        assert_eq!(rows, MANY);
        // Those that waited are written together.
        assert!(lake.audit.version() < before + MANY);
    }
}
