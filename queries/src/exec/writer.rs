//! Writes the grains of ADD, SUPERSEDE and REVERT to a lake.

use async_trait::async_trait;
use gristmill_engine::apply::{ApplyOptions, Operation, OperationRequest, apply_requests};
use gristmill_engine::lake::Lake;
use tokio::sync::Mutex;

use super::error::{ExecutionError, Result};
use super::evolve::{GrainWrite, GrainWriter};

/// Appends to a lake. Statements are serialised by a lock.
#[derive(Debug)]
pub struct LakeWriter(Mutex<Lake>);

impl LakeWriter {
    /// Returns a writer to `lake`.
    pub fn new(lake: Lake) -> LakeWriter {
        LakeWriter(Mutex::new(lake))
    }

    /// Returns the lake at its newest version, which the next query should read.
    pub async fn lake(&self) -> Lake {
        self.0.lock().await.clone()
    }
}

#[async_trait]
impl GrainWriter for LakeWriter {
    async fn append(&self, write: GrainWrite) -> Result<()> {
        let action = write.operation.action();
        let mut lake = self.0.lock().await;
        let answers = apply_requests(
            &mut lake,
            vec![request_of(write)],
            &ApplyOptions::default(),
            action,
        )
        .await?;
        let refused = answers.into_iter().find_map(|answer| {
            let denied = answer.is_denied();
            answer
                .error
                .map(|code| (code, answer.message.unwrap_or_default(), denied))
        });
        match refused {
            Some((code, message, by_policy)) => Err(ExecutionError::Refused {
                code,
                message,
                by_policy,
            }),
            None => Ok(lake.refresh().await?),
        }
    }
}

/// Returns the operation of a statement. It carries no reason, because the reason is a field of the
/// grain.
fn request_of(write: GrainWrite) -> OperationRequest {
    let delivered = write.grain.blob;
    let operation = match write.supersedes {
        Some(target) => Operation::Supersede(target, delivered),
        None => Operation::Put(delivered),
    };
    OperationRequest {
        operation,
        actor: None,
        reason: None,
        authorization: Vec::new(),
    }
}
