//! The tables `grains` and `state` in memory, for the executor of CAL.

use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{
    GRAINS, GrainBatchBuilder, LifecycleEvent, RowMetadata, STATE, StateRow, grains_schema,
    state_batch, state_schema,
};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};

/// Grains and lifecycle events.
#[derive(Default, Clone)]
pub struct Memory {
    pub blobs: Vec<(Vec<u8>, Vec<ContentAddress>)>,
    pub states: Vec<StateRow>,
}

impl Memory {
    pub fn state(&mut self, address: &str, event: LifecycleEvent, value: &str) {
        self.states.push(StateRow {
            content_address: address.to_owned(),
            event,
            value: Some(value.to_owned()),
            at: self.states.len() as i64,
            actor: None,
            reason: None,
            source_id: None,
        });
    }

    /// Returns a context with both tables. Rows are spread over several batches and partitions, so
    /// that only a sort produces an order.
    pub fn context(&self) -> SessionContext {
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
        let mut batches = Vec::new();
        for chunk in self.blobs.chunks(7) {
            let mut columns = GrainBatchBuilder::with_capacity(chunk.len(), 0);
            for (blob, supersedes) in chunk {
                let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
                let grain = Grain::decode(&payload, DecodeMode::Lenient).unwrap();
                let row = RowMetadata {
                    supersedes,
                    ..RowMetadata::default()
                };
                columns.append(&ContentAddress::of(blob), blob, &grain, &row);
            }
            batches.push(columns.finish().unwrap());
        }
        let half = batches.split_off(batches.len() / 2);
        let grains = MemTable::try_new(grains_schema(), vec![batches, half]).unwrap();
        context.register_table(GRAINS, Arc::new(grains)).unwrap();
        let states = MemTable::try_new(
            state_schema(),
            vec![vec![state_batch(&self.states).unwrap()]],
        )
        .unwrap();
        context.register_table(STATE, Arc::new(states)).unwrap();
        context
    }
}
