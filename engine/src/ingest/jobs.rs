//! The work on a batch that runs on the threads of the run: proving its grains, and planning and
//! writing its segment.

use std::sync::Arc;

use gristmill_schemas::grain::DEFAULT_PAYLOAD_LIMIT;
use rayon::prelude::*;

use super::morsel::Morsel;
use super::options::IngestOptions;
use super::plan::{OutcomeCounts, plan};
use super::prove::{ProofOptions, prove};
use super::proven_batch::ProvenBatch;
use super::write::{RowContext, address_index, write};
use crate::error::{Context, Result};
use crate::keys::LakeKeys;
use crate::lake::{AddressCatalog, KnownAddresses, LakeLocation};
use crate::progress::WorkProgress;
use crate::segment::{AddressIndex, WrittenSegment};

/// The result of writing a batch.
pub(super) struct WrittenBatch {
    /// The grains, for another attempt after a conflict.
    pub(super) proven: Arc<ProvenBatch>,
    /// The segment; `None` if the batch brings no new grain.
    pub(super) segment: Option<WrittenSegment>,
    /// What happened to the grains of each morsel.
    pub(super) outcomes: Vec<OutcomeCounts>,
}

/// The result of a dry run of a batch.
pub(super) struct DryRun {
    /// The address index of the segment that would have been written.
    pub(super) index: AddressIndex,
    /// Its rows.
    pub(super) rows: u64,
    /// What happened to the grains of each morsel.
    pub(super) outcomes: Vec<OutcomeCounts>,
}

/// A snapshot of the run for a job on its threads.
pub(super) struct BatchJob {
    pub(super) pool: Arc<rayon::ThreadPool>,
    pub(super) location: LakeLocation,
    pub(super) options: IngestOptions,
    pub(super) progress: Arc<WorkProgress>,
    pub(super) known: AddressCatalog,
    /// The batch before this one, if it isn't committed yet.
    pub(super) pending: Option<Arc<ProvenBatch>>,
    pub(super) keys: Option<Arc<LakeKeys>>,
    /// When the run began, in microseconds since 1970.
    pub(super) now: i64,
}

impl BatchJob {
    /// Starts `job` on the run's threads at once. The returned future waits for its result; fetches
    /// continue meanwhile.
    pub(super) fn start<T: Send + 'static>(
        self,
        job: impl FnOnce(BatchJob) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send + 'static {
        let pool = Arc::clone(&self.pool);
        let job = tokio::task::spawn_blocking(move || pool.install(|| job(self)));
        async { job.await.task("a batch")? }
    }

    /// Proves the grains of `morsels`.
    pub(super) fn prove(&self, morsels: Vec<Morsel>) -> ProvenBatch {
        let options = ProofOptions {
            mode: self.options.mode,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            resolver: &*self.options.resolver,
            now: self.now,
            keys: self.keys.as_deref(),
            profile: self.options.device_profile,
        };
        let proven = morsels
            .into_par_iter()
            .map(|morsel| {
                let (grains, bytes) = (morsel.len() as u64, morsel.bytes as u64);
                let proven = prove(morsel, options);
                WorkProgress::add(&self.progress.grains, grains);
                WorkProgress::add(&self.progress.bytes, bytes);
                proven
            })
            .collect();
        ProvenBatch::of(proven)
    }

    /// Opens the address indexes that may contain grains of `proven`, and starts to plan and write
    /// the segment at once. The returned future waits for it.
    ///
    /// # Errors
    /// As [`AddressCatalog::of_seconds`].
    pub(super) async fn start_write(
        self,
        proven: Arc<ProvenBatch>,
    ) -> Result<impl Future<Output = Result<WrittenBatch>> + Send + 'static> {
        let known = self.known.of_seconds(proven.seconds()).await?;
        Ok(self.start(move |job| job.write(proven, known)))
    }

    /// Plans and writes the segment of `proven`, if there is any new grain.
    fn write(mut self, proven: Arc<ProvenBatch>, known: KnownAddresses) -> Result<WrittenBatch> {
        let pending = self.pending.take();
        let plan = plan(&proven, &known, pending.as_deref());
        // The rest of the job needs neither the address indexes nor the batch before.
        known.release();
        drop((known, pending));
        let segment = match plan.order.is_empty() {
            true => None,
            false => Some(write(
                &self.location,
                proven.morsels(),
                &plan,
                RowContext {
                    payload_limit: DEFAULT_PAYLOAD_LIMIT,
                    now: self.now,
                    keys: self.keys.as_deref(),
                },
                self.options.indexes,
            )?),
        };
        Ok(WrittenBatch {
            proven,
            segment,
            outcomes: plan.outcomes,
        })
    }

    /// Plans the segment of `proven` and builds only its address index.
    pub(super) fn dry_run(proven: &ProvenBatch, known: &KnownAddresses) -> Result<DryRun> {
        let plan = plan(proven, known, None);
        let index = AddressIndex::open(address_index(proven.morsels(), &plan).into());
        Ok(DryRun {
            index: index.file("can't index", "addresses")?,
            rows: plan.order.len() as u64,
            outcomes: plan.outcomes,
        })
    }
}
