//! The lake as what ADD, SUPERSEDE and REVERT write to.

use async_trait::async_trait;
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{Authored, append};
use gristmill_engine::lake::Lake;
use tokio::sync::Mutex;

use super::evolve::{GrainWriter, Write};

/// Appends to a lake, one statement after another.
#[derive(Debug)]
pub struct LakeWriter(Mutex<Lake>);

impl LakeWriter {
    /// A writer to `lake`.
    pub fn new(lake: Lake) -> LakeWriter {
        LakeWriter(Mutex::new(lake))
    }

    /// The lake as it is after what was written so far: what the next query should read.
    pub async fn lake(&self) -> Lake {
        self.0.lock().await.clone()
    }
}

#[async_trait]
impl GrainWriter for LakeWriter {
    async fn append(&self, write: Write) -> Result<(), EngineError> {
        let Write { grain, supersedes, operation } = write;
        let authored =
            Authored { bytes: grain.blob, address: grain.address, supersedes: supersedes.into_iter().collect() };
        let mut lake = self.0.lock().await;
        append(&mut lake, vec![authored], &format!("cal.{operation}")).await?;
        lake.refresh().await
    }
}
