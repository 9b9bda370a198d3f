//! The table `erased`: keyed digests of erased grains, which block their ingestion.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use super::tables::{text_field, timestamp_field};

/// Returns the schema of `erased`.
pub fn erased_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text_field("key", false),
        text_field("token", false),
        text_field("erasure_id", false),
        timestamp_field("at"),
    ]))
}
