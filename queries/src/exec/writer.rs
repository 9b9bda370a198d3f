//! The lake as what ADD, SUPERSEDE and REVERT write to.

use async_trait::async_trait;
use gristmill_engine::apply::{ApplyOptions, Operation, OperationRequest, apply_requests};
use gristmill_engine::lake::Lake;
use tokio::sync::Mutex;

use super::error::{ExecutionError, Result};
use super::evolve::{GrainWrite, GrainWriter};

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

/// The operation that a statement is. It says for itself why: the reason is in the grain.
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
